"""Checks for chapter 11: C++ literals, shares of a loop, the larger of two numbers, each value once."""

import ctypes
import functools
import itertools
import re
import struct
import subprocess
import tempfile
from pathlib import Path

import torch

from minicompile import config
from minicompile.inductor.codegen.cpp_build import find_compiler

from .verdict import judge


@functools.lru_cache(maxsize=64)
def built(text):
    """C++ text -> a loaded library.  Raises ValueError with the compiler's first complaint."""
    compiler, _ = find_compiler(config.cpp_compiler)
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "answer.cpp", Path(folder) / "answer.so"
        source.write_text(text)
        command = [compiler, "-O1", "-shared", "-fPIC", "-Wfatal-errors", str(source), "-o", str(library)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            complaint = next((line for line in done.stderr.split("\n") if "error" in line), done.stderr)
            raise ValueError(f"the compiler says: {complaint.split('error: ')[-1]}")
        return ctypes.CDLL(str(library))


def bits(values):
    """The bits of floats, every NaN as one."""
    return [-1 if f != f else struct.unpack("<I", struct.pack("<f", f))[0] for f in values]


# --- 1: literals ------------------------------------------------------------------------------------------
LITERALS = [  # (value, what this tries)
    (1.5, "a plain number"),
    (2.0, "a whole number: 2 alone would be an int, and 1/2 would be 0"),
    (0.1, "a number that no float holds exactly"),
    (-3.25, "a negative number"),
    (1e30, "a large number, which Python writes with an exponent"),
    (1e-40, "so small that it is subnormal"),
    (16777217.0, "one more than floats can count: it is rounded to 16777216"),
    (0.0, "zero"),
    (-0.0, "minus zero, whose sign is a bit of its own"),
    (float("inf"), "infinity"),
    (float("-inf"), "minus infinity"),
    (float("nan"), "not a number"),
    (1e300, "too large for a float: it becomes infinity"),
    (1e-300, "too small for a float: it becomes zero"),
]


def check_11_1(literal):
    """literal(value) -> C++ text of type float."""

    def trial(value, about):
        def run():
            text = literal(value)
            if text is None:
                return "your function returned None; write its body first"
            if not isinstance(text, str):
                return f"{about}: return text, not {text!r}"
            if text.startswith("-"):
                return f"{about}: negated, it would read -{text}, and -- is another operator; put it in brackets"
            lines = (
                "#include <cmath>\n#include <limits>\n#include <cstring>\n"
                "template <typename T> struct is_float { static const int value = 0; };\n"
                "template <> struct is_float<float> { static const int value = 1; };\n"
                f"typedef decltype({text}) type;\n"
                'extern "C" int kind() { return is_float<type>::value; }\n'
                f'extern "C" float value() {{ return {text}; }}\n'
                f'extern "C" float negative() {{ return -{text}; }}\n'
            )
            library = built(lines)
            library.value.restype = library.negative.restype = ctypes.c_float
            if not library.kind():
                return f"{about}: {text} is no float in C++"
            wanted = torch.tensor(value, dtype=torch.float32).item()
            if bits([library.value()]) != bits([wanted]):
                return f"{about}: {value!r} should be {wanted!r}, but {text} is {library.value()!r}"
            if wanted == wanted and bits([library.negative()]) != bits([-wanted]):
                return f"{about}: -{text} should be {-wanted!r}, got {library.negative()!r}; put it in brackets"
            return None

        return run

    return judge([trial(*case) for case in LITERALS], "every bit is right")


# --- 2: shares --------------------------------------------------------------------------------------------
SHARES = [  # (n, parts, block, what this tries)
    (100, 4, 10, "ten blocks for four"),
    (96, 4, 8, "twelve blocks for four: three each"),
    (101, 4, 10, "the last block is short"),
    (5, 4, 1, "blocks of one step"),
    (3, 4, 1, "more threads than steps: some have nothing"),
    (10, 4, 16, "a single block"),
    (0, 3, 4, "no steps"),
    (1000, 1, 7, "one thread"),
    (513, 64, 512, "one block and one step for 64 threads"),
    (10_000_000, 64, 512, "the sum of ten million"),
]


def check_11_2(shares):
    """shares(n, parts, block) -> [(low, high)] for each thread."""

    def trial(n, parts, block, about):
        def run():
            got = shares(n, parts, block)
            shown = f"{about}: n = {n}, {parts} parts, blocks of {block}"
            if got is None:
                return "your function returned None; write its body first"
            got = [tuple(pair) for pair in got]
            brief = got if len(got) <= 6 else f"{got[:5]} ..."
            if len(got) != parts:
                return f"{shown}: expected {parts} pairs, got {len(got)}"
            if any(type(bound) is not int for pair in got for bound in pair):
                return f"{shown}: the bounds must be whole numbers: {brief}"
            done = 0
            for low, high in got:
                if low > high:
                    return f"{shown}: ({low}, {high}) runs backwards"
                if low < high and low != done:
                    return f"{shown}: after {done} comes ({low}, {high}); no step twice, none left out: {brief}"
                done = max(done, high)
            if done != n:
                return f"{shown}: the last step is {done}, not {n}: {brief}"
            if any(low < high and (low % block or (high % block and high != n)) for low, high in got):
                return f"{shown}: a block is cut in two: {brief}"
            counts = [-(-(high - low) // block) for low, high in got]
            if max(counts) - min(counts) > 1:
                return f"{shown}: one thread has {max(counts)} blocks, another {min(counts)}: {brief}"
            return None

        return run

    return judge([trial(*case) for case in SHARES], "this is how a long row is shared out")


# --- 3: the larger one ------------------------------------------------------------------------------------
NAN, INF = float("nan"), float("inf")
PAIRS = [  # (a, b, what this tries)
    (1.0, 2.0, "the second is larger"),
    (2.0, 1.0, "the first is larger"),
    (-1.0, -2.0, "negative numbers"),
    (3.0, 3.0, "two equal ones"),
    (NAN, 1.0, "the first is NaN"),
    (1.0, NAN, "the second is NaN"),
    (NAN, NAN, "both are NaN"),
    (NAN, INF, "NaN and infinity"),
    (-INF, NAN, "minus infinity and NaN"),
    (-INF, -5.0, "minus infinity"),
    (INF, 5.0, "infinity"),
    (1e-40, 0.0, "a subnormal number is larger than zero"),
    (16777216.0, 16777218.0, "large neighbours"),
]


def check_11_3(larger):
    """larger() -> a C++ expression in a and b."""

    def trial(a, b, about):
        def run():
            text = larger()
            if text is None:
                return "your function returned None; write its body first"
            called = re.search(r"([A-Za-z_]\w*)\s*\(", text)
            if called:
                return f"{called[1]} is a call of a function; use comparisons and `?:`"
            library = built(f'extern "C" float larger(float a, float b) {{ return {text}; }}')
            library.larger.restype, library.larger.argtypes = ctypes.c_float, (ctypes.c_float, ctypes.c_float)
            got, wanted = library.larger(a, b), torch.maximum(torch.tensor(a), torch.tensor(b)).item()
            if bits([got]) != bits([wanted]):
                return f"{about}: the larger of {a} and {b} should be {wanted}, got {got}"
            return None

        return run

    return judge([trial(*case) for case in PAIRS], "and the vectoriser can read it")


# --- 4: each value once -----------------------------------------------------------------------------------
def towers(height):
    e = "x"
    for _ in range(height):
        e = ("mul", e, e)
    return e


A = ("add", "x", "y")
EXPRESSIONS = [  # (expression, lines, what this tries)
    (("exp", "x"), 1, "one operation"),
    (("exp", ("neg", "x")), 2, "two operations"),
    (("mul", A, A), 2, "a sum that is used twice"),
    (("mul", ("add", "x", "y"), ("add", *"xy")), 2, "equal, and not the same object"),
    (("sub", ("add", "x", "y"), ("add", "y", "x")), 3, "x + y and y + x are written differently: both stay"),
    (("add", ("exp", "x"), ("neg", ("exp", "x"))), 3, "one value in two places, at two depths"),
    (("where", ("lt", "x", "y"), A, ("neg", A)), 4, "an operation with three parts"),
    (towers(12), 12, "squares of squares: 4,096 times x"),
    (("mul", "x", "x"), 1, "a name that is used twice"),
    ("x", 0, "a mere name"),
]


def check_11_4(statements):
    """statements(expression) -> [(name, (operation, part, ...))]."""

    def trial(expression, count, about):
        def run():
            got = statements(expression)
            if got is None:
                return "your function returned None; write its body first"
            got, values = list(got), {}
            if len(got) != count:
                return f"{about}: expected {count} lines, got {len(got)}: {got[:6]}"
            for number, (name, right) in enumerate(got, 1):
                if name != f"t{number}":
                    return f"{about}: line {number} should be called t{number}, not {name}"
                operation, *parts = right
                for part in parts:
                    if isinstance(part, tuple):
                        return f"{about}: {right} has an operation inside; give that one a line of its own"
                    if re.fullmatch(r"t\d+", part) and part not in values:
                        return f"{about}: {part} is used before it is computed: {got}"
                values[name] = (operation, *(values.get(part, part) for part in parts))
            if got and not same(values[got[-1][0]], expression):
                return f"{about}: the last line is not the expression: {got[-4:]}"
            return None

        return run

    return judge([trial(*case) for case in EXPRESSIONS], "the package finds equal ones by looking into a dict, too")


def same(a, b):
    """Equal expressions, compared object by object, as towers of squares are too high for `==`."""
    pairs, todo = set(), [(a, b)]
    while todo:
        a, b = todo.pop()
        if (id(a), id(b)) in pairs or a is b:
            continue
        pairs.add((id(a), id(b)))
        if not (isinstance(a, tuple) and isinstance(b, tuple)):
            if a != b:
                return False
            continue
        if len(a) != len(b) or a[0] != b[0]:
            return False
        todo.extend(itertools.zip_longest(a[1:], b[1:]))
    return True
