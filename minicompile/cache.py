"""The on-disk cache: files named by the content that made them.

Goes in: a key (a hash of everything that decides the result) and bytes.  Comes out: a path, or the bytes, or None: a
miss.  Files are written to a temporary name and renamed; each ends with the digest of its own content, so that a
damaged entry is a miss and is never loaded; the directory is private to its owner (0700), else it is not used; the
oldest files go when it grows too large.  Three kinds of entries: what aot made of a captured graph, what inductor made
of an ATen graph (both JSON), and libraries.  Mirrors `torch/_inductor/codecache.py`.  Taught in chapter 11.
"""

import functools
import hashlib
import importlib.metadata
import json
import os
import stat
import sys
import tempfile
import time
from pathlib import Path

import torch

from . import config, record

_MARK = b"minicompile-sha256:"
_LOADED = time.time()


@functools.cache
def processor():
    """The machine that `-march=native` means."""
    try:
        info = Path("/proc/cpuinfo").read_text()
        known = sorted({line for line in info.splitlines() if line.startswith(("flags", "Features", "model name"))})
    except OSError:
        known = []
    return f"{sys.platform} {known}"


@functools.cache
def environment():
    """What every key depends on but those of libraries, which know neither Python nor PyTorch."""
    return f"{torch.__version__} {torch.version.git_version} {sys.version} {processor()}"


@functools.cache
def compiler_version():
    """What keys of graphs depend on besides: this package, every file of it, and Triton."""
    folder, digest = Path(__file__).parent, hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(f"{path.relative_to(folder)}\0".encode() + path.read_bytes())
        if path.stat().st_mtime >= _LOADED:  # it is not what this process runs: no other has its keys
            digest.update(os.urandom(16))
    found = {found.metadata["Name"]: found.version for found in importlib.metadata.distributions(name="triton")}
    return f"{digest.hexdigest()} {found}"


@functools.cache
def _torch_options():
    """The functions that read an option of PyTorch's: those with a counterpart that sets it, and switches."""
    names = [name for name in dir(torch._C) if name.startswith("_get_")]
    names = [n for n in names if n.endswith("_enabled") or hasattr(torch._C, n.replace("_get_", "_set_"))]
    found = {}
    for name in sorted(set(names) - {"_get_thread_name"}):
        try:
            getattr(torch._C, name)()
        except TypeError:
            continue  # it takes arguments: no option
        found[name] = getattr(torch._C, name)
    return found


def settings():
    """What a graph is compiled under: our options and PyTorch's, its modes, and the GPUs."""
    options = {name: value for name, value in config.snapshot().items() if name not in UNRELATED}
    theirs = {name: str(read()) for name, read in _torch_options().items()}
    modes = [
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        torch.is_anomaly_enabled(),
        torch.is_autocast_cache_enabled(),
        *([torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)] for kind in ("cpu", "cuda")),
        torch.get_default_dtype(),
        torch.get_num_threads(),
    ]
    count = torch.cuda.device_count() if torch.cuda.is_initialized() else 0
    gpus = [str(torch.cuda.get_device_properties(k)) for k in range(count)]
    registered = sorted(name for name in torch.library._impls if name.startswith(("aten/", "prims/")))
    return str([options, theirs, modes, gpus, registered])


# Options that decide nothing of what is stored.
UNRELATED = ("cache_dir", "cache_size_limit_mb", "force_disable_caches", "graph_cache", "logs", "strict")


def name_of(*parts):
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:40]


def key_of(*parts):
    return name_of(environment(), *parts)


def _private(path):
    """Make the directory if needed.  True when it is ours alone."""
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        info = os.lstat(path)
    except OSError:
        return False
    ours = stat.S_ISDIR(info.st_mode) and info.st_uid == os.getuid() and not info.st_mode & 0o077
    return ours and os.access(path, os.W_OK)


@functools.cache
def _temporary():
    return Path(tempfile.mkdtemp(prefix="minicompile-"))


def directory():
    """The cache's directory; one of this process alone when the configured one cannot be trusted or caching is off."""
    if not config.force_disable_caches:
        path = Path(config.cache_dir)
        if _private(path):
            return path
        record.warn_once(f"minicompile: cache directory {path} is not private to you (0700) or not writable; not used")
    return _temporary()


def seal(content):
    """Content with its digest at the end (the loader of a shared library ignores what follows)."""
    return content + _MARK + hashlib.sha256(content).hexdigest().encode()


def unseal(sealed):
    """The content, or None when it is not what was written."""
    content, digest = sealed[: -64 - len(_MARK)], sealed[-64:]
    whole = sealed[-64 - len(_MARK) : -64] == _MARK and hashlib.sha256(content).hexdigest().encode() == digest
    return content if whole else None


def read(name):
    """The content of an intact entry, or None."""
    path = directory() / name
    try:
        info = os.lstat(path)
        if not stat.S_ISREG(info.st_mode) or info.st_uid != os.getuid():
            return None
        content = unseal(path.read_bytes())
        os.utime(path)
    except OSError:
        return None
    return content


def get(name):
    """The path of an intact entry, or None."""
    return None if read(name) is None else directory() / name


def read_json(name):
    """The object in an intact entry, or None."""
    content = read(name)
    return None if content is None else json.loads(content)


def put_json(name, value):
    put(name, json.dumps(value).encode())


def tensor_form(tensor):
    """A tensor with its data, as JSON."""
    return [str(tensor.dtype), str(tensor.device), tensor.tolist()]


def tensor(form):
    dtype, device, data = form
    return torch.tensor(data, dtype=getattr(torch, dtype.removeprefix("torch.")), device=device)


def put(name, content):
    """Write an entry; other processes see all of it or nothing.  Returns its path."""
    path = directory() / name
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".tmp-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(seal(content))
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    _written[path.parent] = _written.get(path.parent, limit := config.cache_size_limit_mb << 20) + len(content)
    if _written[path.parent] > limit // 16:
        _trim(path.parent)
        _written[path.parent] = 0
    return path


_written = {}  # directory -> bytes since this process looked how large it is


def _trim(path):
    """Delete the files that were used longest ago while the cache is too large."""
    files = []
    for entry in os.scandir(path):
        try:
            info = entry.stat(follow_symlinks=False)
        except OSError:
            continue  # another process deleted it
        files.append((info.st_mtime, info.st_size, entry.path))
    total = sum(size for _, size, _ in files)
    for _, size, name in sorted(files):
        if total <= config.cache_size_limit_mb << 20:
            break
        Path(name).unlink(missing_ok=True)
        total -= size
