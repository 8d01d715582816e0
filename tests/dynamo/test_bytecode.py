"""The assembler: what is decoded and put together again is the same code; what is built anew does what it says."""

import contextlib
import dis
import inspect
import os
import pathlib
import sys
import sysconfig
import traceback
import warnings

import emit
import pytest
from bytecode_samples import SAMPLES, build, handlers, rebuilt

from minicompile.dynamo import _eval_frame
from minicompile.dynamo.bytecode import CallArguments, Instruction, assemble, decode, slot_keys
from minicompile.dynamo.bytecode_analysis import format_instructions, stack_depths

EVERYTHING = os.environ.get("MINICOMPILE_TEST_ALL") == "1"  # the whole standard library instead of a sample


# ---- the whole standard library -------------------------------------------------------------------------------------
def library_codes():
    """Every code object of the standard library, or of each 40th file."""
    root = pathlib.Path(sysconfig.get_path("stdlib"))
    files = sorted(path for path in root.rglob("*.py") if not {"site-packages", "lib2to3"} & set(path.parts))
    for path in files if EVERYTHING else files[::40]:
        with warnings.catch_warnings(), contextlib.suppress(SyntaxError, ValueError, UnicodeDecodeError):
            warnings.simplefilter("ignore")
            todo = [compile(path.read_bytes(), str(path.relative_to(root)), "exec", dont_inherit=True)]
            while todo:
                yield (code := todo.pop())
                todo += [const for const in code.co_consts if inspect.iscode(const)]


def test_standard_library_exact_round_trip():
    """Byte for byte; the two tables may be split up differently as long as they say the same.

    A jump or two may be shorter: 256 units back with the EXTENDED_ARG, which counts itself, are 255 without it.
    """
    count = shorter = 0
    for code in library_codes():
        new = assemble(decode(code, exact=True), code, exact=True)
        if len(new.co_code) < len(code.co_code):
            assert program(new) == program(code), code
            shorter, count = shorter + 1, count + 1
            continue
        same = (
            "co_code",
            "co_consts",
            "co_names",
            "co_varnames",
            "co_cellvars",
            "co_freevars",
            "co_flags",
            "co_argcount",
        )
        for attribute in same:
            assert getattr(new, attribute) == getattr(code, attribute), (code, attribute)
        assert list(new.co_positions()) == list(code.co_positions()), code
        assert covered(new) == covered(code), code
        assert new.co_stacksize <= code.co_stacksize, code  # less where CPython counts unreachable code
        count += 1
    assert count > (40_000 if EVERYTHING else 500) and shorter < 5


def program(code):
    """The instructions, with jumps and handlers as numbers of instructions."""
    instructions = decode(code, exact=True)
    number = {id(instruction): k for k, instruction in enumerate(instructions)}
    return [
        (
            each.opname,
            number[id(each.argval)] if each.is_jump else each.arg,
            each.positions,
            each.exc and (number[id(each.exc.target)], each.exc.depth, each.exc.lasti),
        )
        for each in instructions
    ]


def covered(code):
    """What handles an exception, by byte offset."""
    return {
        offset: (entry.target, entry.depth, entry.lasti)
        for entry in dis._parse_exception_table(code)
        for offset in range(entry.start, entry.end, 2)
    }


def test_standard_library_normalised_round_trip():
    """Normalised code that is lowered to real opcodes and decoded again is the same normalised code."""
    forbidden = {"PUSH_NULL", "PRECALL", "KW_NAMES", "CALL_KW", "LOAD_METHOD", "RETURN_CONST", "TO_BOOL", "END_FOR"}
    forbidden |= {
        "LOAD_FAST_CHECK",
        "LOAD_FAST_LOAD_FAST",
        "STORE_FAST_STORE_FAST",
        "STORE_FAST_LOAD_FAST",
        "BINARY_SLICE",
    }
    forbidden |= {"SET_FUNCTION_ATTRIBUTE", "JUMP_FORWARD", "JUMP_BACKWARD", "EXTENDED_ARG", "CACHE", "FORMAT_SIMPLE"}
    for code in library_codes():
        instructions = decode(code)
        assert not forbidden & {instruction.opname for instruction in instructions}, code
        new = assemble(instructions, code)
        assert format_instructions(decode(new)) == format_instructions(instructions), code
        assert [i.positions for i in decode(new)] == [i.positions for i in instructions], code
        depths = stack_depths(instructions)
        assert None not in depths and min(depths) >= 0, code


# ---- behaviour ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("exact", [True, False], ids=["exact", "normalised"])
@pytest.mark.parametrize("fn", SAMPLES, ids=lambda fn: fn.__name__)
def test_rebuilt_functions_do_the_same(fn, exact):
    again = rebuilt(fn, exact)
    for args, kwargs in [((3,), {}), ((0,), {"k": 2}), ((1, 2, "x", 5), {"k": 0, "z": 1, "y": 2}), ((7, 7), {"k": 9})]:
        assert repr(again(*args, **kwargs)) == repr(fn(*args, **kwargs))


def test_tracebacks_keep_lines_and_columns():
    def outer(x):
        y = x
        return [
            inner(y),
        ]

    def inner(x):
        for i in range(2):
            if i:
                x = x / (i - 1)

    def story(outer_):
        try:
            outer_(1)
        except ZeroDivisionError as error:
            return [
                tuple(frame)[1:] + (frame.colno, frame.end_colno) for frame in traceback.extract_tb(error.__traceback__)
            ]

    want = story(outer)
    inner = rebuilt(inner)
    assert story(rebuilt(outer)) == want


def test_exception_depths_inside_a_loop():
    """The program on which a wrong depth in the exception table crashes the interpreter."""

    def raises(kind):
        raise kind

    def f(items):
        n = 0
        for _ in items:
            try:
                try:
                    return raises(KeyError)
                except KeyError:
                    return raises(ValueError)
            except ValueError:
                n += 1
                continue
        return n

    assert rebuilt(f)([1, 2, 3]) == rebuilt(f, exact=True)([1, 2, 3]) == 3


@pytest.mark.parametrize("exact", [True, False], ids=["exact", "normalised"])
def test_long_arguments_and_long_jumps(exact):
    lines = [f"    if x == {n}: return {n + 0.5}" for n in range(4000)]
    body = "\n".join(["def f(x):", "  for i in range(2):", *lines, "    x += 1", "  return x"])
    space = {}
    exec(body, space)
    again = rebuilt(space["f"], exact)
    assert [again(n) for n in (0, 300, 3999, -5)] == [0.5, 300.5, 3999.5, -3]


def test_generators_and_coroutines_work_when_rebuilt():
    def gen(n):
        try:
            for i in range(n):
                got = yield i
                if got:
                    yield from [got, got]
        finally:
            log.append("closed")

    async def co(x):
        async with Manager() as m:
            return [v + m async for v in agen(x)]

    async def agen(x):
        yield x
        yield x + 1

    class Manager:
        async def __aenter__(self):
            return 10

        async def __aexit__(self, *exc):
            log.append("exit")

    log = []
    g = rebuilt(gen)(3)
    assert [next(g), g.send("s"), next(g), *g] == [0, "s", "s", 1, 2] and log == ["closed"]
    agen = rebuilt(agen)
    with pytest.raises(StopIteration) as stop:
        rebuilt(co)(1).send(None)
    assert stop.value.value == [11, 12] and log == ["closed", "exit"]


# ---- the normalised form --------------------------------------------------------------------------------------------
NORMALISED = {  # source of one expression or statement over x, y, f -> the same instructions on every version
    "f(x, k=y)": "LOAD_FAST f; LOAD_FAST x; LOAD_FAST y; CALL 2 k; POP_TOP",
    "f()": "LOAD_FAST f; CALL 0; POP_TOP",
    "x.m(1)": "LOAD_FAST x; LOAD_ATTR m; LOAD_CONST 1; CALL 1; POP_TOP",
    "len(x)": "LOAD_GLOBAL len; LOAD_FAST x; CALL 1; POP_TOP",
    "f(*x)": "LOAD_FAST f; LOAD_FAST x; CALL_FUNCTION_EX False; POP_TOP",
    "f(*x, **y)": "LOAD_FAST f; LOAD_FAST x; BUILD_MAP 0; LOAD_FAST y; DICT_MERGE 1; CALL_FUNCTION_EX True; POP_TOP",
    "x[1:y]": "LOAD_FAST x; LOAD_CONST 1; LOAD_FAST y; BUILD_SLICE 2; BINARY_SUBSCR; POP_TOP",
    "x[1:y] = f": "LOAD_FAST f; LOAD_FAST x; LOAD_CONST 1; LOAD_FAST y; BUILD_SLICE 2; STORE_SUBSCR",
    "x or y": "LOAD_FAST x; COPY 1; POP_JUMP_IF_TRUE L1; POP_TOP; LOAD_FAST y; POP_TOP",
    "+x": "LOAD_FAST x; UNARY_POSITIVE; POP_TOP",
    "not x": "LOAD_FAST x; UNARY_NOT; POP_TOP",
    "x <= y": "LOAD_FAST x; LOAD_FAST y; COMPARE_OP <=; POP_TOP",
    "x += y": "LOAD_FAST x; LOAD_FAST y; BINARY_OP +=; STORE_FAST x",
    "[*x, 1]": "BUILD_LIST 0; LOAD_FAST x; LIST_EXTEND 1; LOAD_CONST 1; LIST_APPEND 1; POP_TOP",
    "f'{x}'": "LOAD_FAST x; FORMAT_VALUE (None, False); POP_TOP",
    "for y in x: f": "LOAD_FAST x; GET_ITER; FOR_ITER L2; STORE_FAST y; LOAD_FAST f; POP_TOP; JUMP L1",
}


@pytest.mark.parametrize("source", NORMALISED)
def test_normalised_form_is_the_same_on_every_version(source):
    space = {}
    exec(f"def g(f, x, y):\n    {source}\n    return None", space)
    listing = format_instructions(decode(space["g"].__code__)).splitlines()
    words = [line[6:].split(":")[-1].split() for line in listing]
    got = "; ".join(" ".join(each) for each in words if each[0] != "NOP")
    if source == "x or y":  # 3.12 pops in two places
        got = got.replace("LOAD_FAST y; POP_TOP; LOAD_CONST None; RETURN_VALUE; POP_TOP", "LOAD_FAST y; POP_TOP")
    assert got.removeprefix("RESUME 0; ").removesuffix("; LOAD_CONST None; RETURN_VALUE") == NORMALISED[source]


def test_slot_keys_tell_a_free_variable_from_a_cell_of_the_same_name():
    def outer(x):
        def f():
            return x, [(lambda: x) for x in range(2)]

        return f

    f = outer(7)
    again = rebuilt(f)()
    assert again[0] == 7 and [g() for g in again[1]] == [1, 1]
    if sys.version_info >= (3, 12):
        assert slot_keys(f.__code__.co_varnames, f.__code__.co_cellvars, f.__code__.co_freevars) == ["x", ("x",)]
        keys = {i.argval for i in decode(f.__code__) if i.opname == "LOAD_DEREF"}
        assert keys == {("x",)}


def test_constants_are_kept_apart_by_identity():
    values = [0, 0.0, -0.0, False, 1, True, (1,), (True,), "a", b"a", object(), [1], len]
    pushes = [each for value in values for each in emit.load_const(value)]
    got = build([*pushes, *emit.build_list(len(values)), *emit.return_value()])()
    assert all(a is b for a, b in zip(got, values, strict=True))


def test_decoding_is_stable_and_printable():
    text = format_instructions(decode(handlers.__code__))
    assert text == format_instructions(decode(handlers.__code__)) and "0x" not in text
    assert repr(Instruction("LOAD_FAST", argval="x")) == "LOAD_FAST 'x'"
    assert repr(Instruction("JUMP", argval=Instruction("NOP"))) == "JUMP -> NOP"


# ---- hook and assembler together ------------------------------------------------------------------------------------
def test_compiled_object_called_from_a_rewritten_frame():
    """What dynamo will do: a new code object calls an object of ours, held in its constants, then goes on as before."""

    class Graph:
        calls = 0

        def __call__(self, x, y):
            Graph.calls += 1
            return x * 10, y * 10

    def rewrite(code):
        instructions = decode(code)
        start = next(k for k, i in enumerate(instructions) if i.opname == "RESUME") + 1
        load = {name: emit.load_deref if name in code.co_cellvars else emit.load_fast for name in "ab"}
        store = {name: emit.store_deref if name in code.co_cellvars else emit.store_fast for name in "ab"}
        new = emit.call_constant(Graph(), [*load["a"]("a"), *load["b"]("b")], 2)
        new += [
            *emit.store_fast("out"),
            *emit.load_fast("out"),
            *emit.unpack_sequence(2),
            *store["a"]("a"),
            *store["b"]("b"),
        ]
        instructions[start:start] = emit.at(new, instructions[start].positions)
        return assemble(instructions, code)

    def f(a, b, *args, k=3, **kw):
        try:
            return [a, b, args, k, kw, [i for i in range(a) if i != b], (lambda: (a, k))()]
        finally:
            for z in args:
                a += z

    def outer(free):
        def g(a, b):
            def h():
                nonlocal b
                b += 1
                return a + b + free

            return h() + free

        return g

    g = outer(7)
    want = f(10, 20, 5, 6, k=9, q=1), g(10, 20)
    for always_call in (False, True):
        for fn in (f, g):
            _eval_frame.reset(fn.__code__)
        _eval_frame.set_always_call(always_call)
        try:
            new = {fn.__code__: rewrite(fn.__code__) for fn in (f, g)}
            old = _eval_frame.set_callback(lambda code, fn, args, new=new: (new[code], None) if code in new else False)
            got = f(1, 2, 5, 6, k=9, q=1), g(1, 2)
            many = [g(1, 2) for _ in range(1000)]
        finally:
            _eval_frame.set_callback(old)
            _eval_frame.set_always_call(False)
        assert got == want and set(many) == {want[1]}
    assert Graph.calls == 2 * 1002


def test_call_arguments_compare_by_value():
    assert CallArguments(2, ("k",)) == CallArguments(2, ("k",)) != CallArguments(2)


class Derived(dict):
    def own(self):
        return "own"


METHODS = [
    lambda table: table.items(1),
    lambda table: table.items(len([table]), [table], k=3),
    lambda table: table.get(),
    lambda table: table.own(),
    lambda table: table.own(*[1]),
    lambda table: table.copy().items(0 if table else 1),
    lambda table: table.__class__(a=1).pop("a"),
]


@pytest.mark.parametrize("number", range(len(METHODS)))
def test_methods_are_called_as_such(number):
    """No bound method is made, which would have another name in the text of an error."""

    def said(call):
        try:
            return call(Derived())
        except TypeError as error:
            return str(error)

    assert said(rebuilt(METHODS[number])) == said(METHODS[number])
    assert said(rebuilt(METHODS[0])).startswith("dict.items()")
