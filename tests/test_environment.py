"""environment.yml (conda), pyproject.toml (pip), the Makefile and the import check say the same."""

import pathlib
import re
import subprocess
import sys
import tomllib

import pytest

ROOT = pathlib.Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CONDA_NAMES = {"torch": "pytorch", "graphviz": "python-graphviz"}
CONDA_ONLY = {"python", "pip", "setuptools", "cxx-compiler", "graphviz"}  # the last: the `dot` program


def requirement(text):
    """'triton>=3.6; sys_platform == 'linux'' -> ('triton', '>=3.6')."""
    name, version = re.fullmatch(r"([A-Za-z0-9_.-]+)\s*([<>=!~,.0-9a-z]*)", text.split(";")[0].strip()).groups()
    return name, version


def conda_requirements():
    lines = (ROOT / "environment.yml").read_text().splitlines()
    start = lines.index("dependencies:") + 1
    return dict(requirement(line.strip()[2:]) for line in lines[start:] if re.match(r"  - [\w-]+[^:]*$", line))


def pip_requirements():
    extras = [each for extra in PROJECT["optional-dependencies"].values() for each in extra]
    return dict(map(requirement, [*PROJECT["dependencies"], *extras]))


def test_environment_file_and_pyproject_are_in_step():
    want = {CONDA_NAMES.get(name, name): version for name, version in pip_requirements().items()}
    conda = conda_requirements()
    assert {name: version for name, version in conda.items() if name not in CONDA_ONLY or name in want} == want
    assert CONDA_ONLY <= set(conda)


def test_environment_file_is_conda_forge_only_and_installs_the_package():
    text = (ROOT / "environment.yml").read_text()
    channels = re.search(r"channels:\n((?:  - .*\n)+)", text).group(1).split()
    assert [each for each in channels if each != "-"] == ["conda-forge", "nodefaults"]
    assert re.search(r"  - pip:\n      - -e \.\n", text)


def test_supported_pythons_agree():
    assert PROJECT["requires-python"] == ">=3.11,<3.14"
    for path in ("minicompile/__init__.py", "Makefile"):
        assert "(3, 11) <= " in (ROOT / path).read_text() and "(3, 13)" in (ROOT / path).read_text()
    assert 'supported="3.11 3.12 3.13"' in (ROOT / ".ci/run").read_text()
    (python,) = (version for name, version in conda_requirements().items() if name == "python")
    assert python in ("=3.11", "=3.12", "=3.13")


def test_torch_is_pinned_once_and_the_pin_is_in_range():
    pin = re.search(r"^TORCH = (\S+)$", (ROOT / "Makefile").read_text(), re.M).group(1)
    low, high = re.fullmatch(r">=([\d.]+),<([\d.]+)", pip_requirements()["torch"]).groups()
    numbers = [tuple(map(int, each.split("."))) for each in (low, pin, high)]
    assert numbers[0] <= numbers[1] < numbers[2]
    elsewhere = [name for name in ("pyproject.toml", "README.md", ".ci/run") if pin in (ROOT / name).read_text()]
    assert not elsewhere


@pytest.mark.parametrize(
    ("breakage", "message"),
    [
        ("sys.version_info = (3, 14, 0)", "supports CPython 3.11, 3.12 and 3.13; this is cpython"),
        ("sys.implementation.name = 'pypy'", "this is pypy"),
        ("import importlib.machinery; importlib.machinery.EXTENSION_SUFFIXES[:] = []", "frame hook is not built"),
        ("import torch; torch.__version__ = '2.10.1+cpu'", "and this is 2.10.1+cpu: run `make setup`"),
    ],
)
def test_import_error_says_what_to_do(breakage, message):
    code = f"import sys; {breakage}; import minicompile"
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 1 and message in result.stderr.splitlines()[-1]


def test_backend_is_registered_with_torch_compile():
    point = PROJECT["entry-points"]["torch_dynamo_backends"]
    assert point == {"minicompile": "minicompile.backends:minicompile_backend"}
