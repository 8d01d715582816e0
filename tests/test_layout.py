"""The folders are the pipeline: who may import whom, how long files and functions may be, how every file begins."""

import ast
import pathlib
import re
import tomllib
from collections import Counter

ROOT = pathlib.Path(__file__).parent.parent
PACKAGE = ROOT / "minicompile"
FILES = sorted(PACKAGE.rglob("*.py"))

# What the files of each folder may import from the package.  The rest (backends, compiler, explain, viz, bench) stands
# above the stages and may import all of them.
SHARED = {"config", "errors", "record", "philox", "cache", "lazy_graph"}
MAY_IMPORT = {
    **{name: {"config"} for name in SHARED},
    "cache": {"config", "record"},
    "dynamo": {"dynamo", *SHARED},
    "aot": {"aot", *SHARED},
    "inductor": {"inductor", *SHARED},
}
FORBIDDEN = ("torch._dynamo", "torch._inductor", "torch._functorch.aot_autograd", "torch._functorch.partitioners")
COMPARES_WITH_PYTORCH = {"bench"}  # may import what is forbidden, to measure against it

MAX_LINES, MAX_FUNCTION_LINES = 400, 60
LONG_FILES = {}  # path -> lines, for the few that would be worse apart
LONG_FUNCTIONS = {}  # "path:name" -> lines


def name_of(path):
    return path.relative_to(ROOT).as_posix()


def part_of(path):
    """The folder, or the module, directly below the package."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path):
    """Full dotted names of everything that a file imports, at the top or inside functions."""
    package = path.relative_to(ROOT).with_suffix("").parts[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join([*base, *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)


def test_imports_go_down_the_pipeline_only():
    bad = []
    for path in FILES:
        used = {name.split(".")[1] for name in imports(path) if name.startswith("minicompile.")}
        extra = used - MAY_IMPORT.get(part_of(path), used)
        bad += [f"{name_of(path)} imports {', '.join(sorted(extra))}"] if extra else []
    assert not bad


def test_what_is_ours_to_write_is_not_imported():
    bad = [
        f"{name_of(path)} imports {name}"
        for path in FILES
        if part_of(path) not in COMPARES_WITH_PYTORCH
        for name in imports(path)
        if any((name + ".").startswith(each + ".") for each in FORBIDDEN)
    ]
    assert not bad


def test_files_and_functions_are_short():
    bad = []
    for path in FILES:
        text, name = path.read_text(), name_of(path)
        if text.count("\n") > LONG_FILES.get(name, MAX_LINES):
            bad.append(f"{name} has {text.count(chr(10))} lines")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = node.end_lineno - node.lineno + 1
                if lines > LONG_FUNCTIONS.get(f"{name}:{node.name}", MAX_FUNCTION_LINES):
                    bad.append(f"{name}:{node.name} has {lines} lines")
    assert not bad


def test_exceptions_from_the_limits_are_few_and_still_needed():
    assert len(LONG_FILES) + len(LONG_FUNCTIONS) <= 6
    for name, limit in LONG_FILES.items():
        assert MAX_LINES < (ROOT / name).read_text().count("\n") <= limit, name
    for name in LONG_FUNCTIONS:
        assert (ROOT / name.split(":")[0]).exists(), name


def test_every_file_opens_with_a_docstring():
    assert not [name_of(path) for path in FILES if not ast.get_docstring(ast.parse(path.read_text()))]


def test_helper_modules_of_the_tests_have_names_of_their_own():
    """The test folders are on the path (pyproject.toml), so that helpers are imported by their bare names.

    A folder with an `__init__.py` is a package, which is imported as such.
    """
    helpers = [path for path in (ROOT / "tests").rglob("*.py") if not re.match("test_|conftest", path.name)]
    helpers = [path for path in helpers if not (path.parent / "__init__.py").exists()]
    names = Counter(path.name for path in helpers)
    assert not [name for name, count in names.items() if count > 1]
    folders = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]["pythonpath"]
    assert {name_of(path.parent) for path in helpers} <= set(folders)


def test_no_path_of_one_machine():
    pattern = re.compile(r"/(root|work|home|tmp)/\w")
    for path in [*FILES, *(ROOT / "tests").rglob("*.py"), ROOT / "README.md", ROOT / "Makefile"]:
        lines = [line for line in path.read_text().splitlines() if pattern.search(line) and "re.compile" not in line]
        assert not lines, f"{name_of(path)}: {lines}"
