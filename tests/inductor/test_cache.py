"""The disk cache: hits, damage, foreign files, permissions, size; and life without a C++ compiler."""

import os
import subprocess
import sys
import warnings

import pytest
import torch
from patterns import aten_graph

from minicompile import cache, config, inductor, record
from minicompile.errors import CompilerNotFound
from minicompile.inductor.codegen import cpp_build


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "cache"
    with config.patch(cache_dir=str(path)):
        yield path


def compiled():
    x = torch.randn(5)
    call = inductor.compile(aten_graph(lambda x: x.sin() + 1, x), (x,))
    assert torch.allclose(call(x)[0], x.sin() + 1)


def libraries(folder):
    return sorted(folder.glob("*.so"))


def test_second_compile_hits(folder):
    compiled()
    assert record.counters["cache_hits"] == 0 and len(libraries(folder)) == 1
    assert folder.stat().st_mode & 0o777 == 0o700
    compiled()
    assert record.counters["cache_hits"] == 1
    assert not [p for p in folder.iterdir() if p.suffix != ".so"], "temporary files stay behind"


@pytest.mark.parametrize("damage", ["truncate", "flip", "empty", "foreign"])
def test_damaged_entries_are_misses(folder, damage):
    compiled()
    (library,) = libraries(folder)
    content = bytearray(library.read_bytes())
    library.unlink()  # this process has the old file mapped
    if damage == "flip":
        content[len(content) // 2] ^= 1
    half = content[: len(content) // 2]
    library.write_bytes({"truncate": half, "empty": b"", "foreign": b"#!/bin/sh\n"}.get(damage, content))
    compiled()
    assert record.counters["cache_hits"] == 0
    compiled()
    assert record.counters["cache_hits"] == 1


def test_symbolic_links_are_not_followed(folder, tmp_path):
    compiled()
    (library,) = libraries(folder)
    elsewhere = tmp_path / "elsewhere.so"
    library.rename(elsewhere)
    library.symlink_to(elsewhere)
    compiled()
    assert record.counters["cache_hits"] == 0


def test_a_directory_that_others_can_write_is_not_used(tmp_path):
    path = tmp_path / "open"
    path.mkdir()
    path.chmod(0o777)
    with config.patch(cache_dir=str(path)), pytest.warns(UserWarning, match="not private"):
        compiled()
    assert not list(path.iterdir())


def test_the_oldest_files_go(folder):
    with config.patch(cache_size_limit_mb=1):
        for k in range(4):
            cache.put(f"{k}.so", bytes(400_000))
            os.utime(folder / f"{k}.so", (k, k))
        cache.put("last.so", b"x")
    assert [p.name for p in libraries(folder)] == ["2.so", "3.so", "last.so"]


def test_the_key_sees_flags_and_source():
    assert cache.key_of("a", "b") != cache.key_of("ab", "") != cache.key_of("a", "c")


def test_many_processes_share_a_cache(folder):
    program = "from minicompile import cache\nfor k in range(40):\n    cache.put('same.so', b'content')\n"
    program += "    assert cache.get('same.so') is not None\n"
    environment = {**os.environ, "MINICOMPILE_CACHE_DIR": str(folder)}
    running = [subprocess.Popen([sys.executable, "-c", program], env=environment) for _ in range(3)]
    assert [p.wait() for p in running] == [0, 0, 0]
    assert cache.unseal((folder / "same.so").read_bytes()) == b"content"


@pytest.fixture
def no_compiler(monkeypatch):
    def missing(preferred=""):
        raise CompilerNotFound("no C++ compiler found; install one: `apt install g++`")

    monkeypatch.setattr(cpp_build, "find_compiler", missing)


def test_without_a_compiler_the_interpreter_runs(folder, no_compiler):
    record._warned.clear()
    x = torch.randn(5)
    with pytest.warns(UserWarning, match="apt install g"):
        call = inductor.compile(aten_graph(lambda x: x.sin() + 1, x), (x,))
    assert call.source is None and torch.equal(call(x)[0], x.sin() + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # one warning is enough
        inductor.compile(aten_graph(lambda x: x.cos(), x), (x,))


def test_the_message_names_what_to_install():
    cpp_build.find_compiler.cache_clear()
    with pytest.raises(CompilerNotFound, match="apt install g.*conda install cxx-compiler"):
        cpp_build.find_compiler("no-such-compiler")
