"""Instructions do what they say, the analyses are right, and what would crash the interpreter is refused."""

import dis
import operator
import types

import emit
import pytest
from bytecode_samples import build, rebuilt
from hypothesis import given, settings
from hypothesis import strategies as st

from minicompile.dynamo.bytecode import ExceptionHandler, Instruction, assemble, decode, encode_locations
from minicompile.dynamo.bytecode_analysis import live_sets, stack_depths


# ---- building blocks ------------------------------------------------------------------------------------------------
def loads(*names):
    return [each for name in names for each in emit.load_fast(name)]


def test_calls():
    def show(*args, **kwargs):
        return args, kwargs

    for nargs, names in [(0, ()), (1, ()), (3, ()), (1, ("k",)), (2, ("j", "k")), (3, ("k",)), (4, ("i", "j", "k"))]:
        pushes = [each for n in range(nargs) for each in emit.load_const(n)]
        fn = build(
            [
                *emit.load_const("below"),
                *emit.call_constant(show, pushes, nargs, names),
                *emit.build_tuple(2),
                *emit.return_value(),
            ]
        )
        positional = nargs - len(names)
        assert fn() == ("below", (tuple(range(positional)), dict(zip(names, range(positional, nargs), strict=True))))


@pytest.mark.parametrize("callable_", [len, list, sorted, [3].count, str.upper, (lambda x: x), isinstance])
def test_calls_of_every_kind_of_callable(callable_):
    """The callable stands where CPython looks for an unbound method: every kind must do, specialised or not."""
    args = {str.upper: ("a",), isinstance: (1, int)}.get(callable_, ([1],))
    pushes = [each for value in args for each in emit.load_const(value)]
    fn = build([*emit.call_constant(callable_, pushes, len(args)), *emit.return_value()])
    assert [fn() for _ in range(100)] == [callable_(*args)] * 100


def test_call_function_ex():
    def show(*args, **kwargs):
        return args, kwargs

    fn = build(
        [
            *emit.load_const("below"),
            *emit.load_const(show),
            *loads("a", "b"),
            *emit.call_function_ex(True),
            *emit.build_tuple(2),
            *emit.return_value(),
        ],
        args=2,
    )
    assert fn((1, 2), {"k": 3}) == ("below", ((1, 2), {"k": 3}))
    fn = build(
        [
            *emit.load_const("below"),
            *emit.load_const(show),
            *loads("a"),
            *emit.call_function_ex(),
            *emit.build_tuple(2),
            *emit.return_value(),
        ],
        args=1,
    )
    assert fn((1, 2)) == ("below", ((1, 2), {}))


BLOCKS = [  # instructions over arguments a, b, c; the arguments; the result
    ([*loads("a", "b"), *emit.binary_subscr()], ([1, 2], 1), 2),
    ([*loads("a", "b", "c"), *emit.build_slice(3)], (1, 2, 3), slice(1, 2, 3)),
    ([*loads("a", "b"), *emit.build_map(1)], (1, 2), {1: 2}),
    ([*loads("a", "b", "c"), *emit.build_set(3)], (1, 2, 1), {1, 2}),
    ([*loads("a", "b"), *emit.swap(2), *emit.build_tuple(2)], (1, 2), (2, 1)),
    ([*loads("a", "b", "c"), *emit.swap(3), *emit.swap(2), *emit.build_tuple(3)], (1, 2, 3), (3, 1, 2)),
    ([*loads("a", "b"), *emit.copy(2), *emit.build_list(3)], (1, 2), [1, 2, 1]),
    ([*loads("a"), *emit.unpack_sequence(2), *emit.build_tuple(2)], ("xy",), ("y", "x")),
    ([*emit.build_list(0), *loads("a"), *emit.list_extend(1), *emit.list_to_tuple()], ([1, 2],), (1, 2)),
    ([*loads("a"), *emit.load_attr("real")], (3,), 3),
    ([*emit.load_global("g")], (), "global"),
    ([*loads("a", "b"), *emit.compare_op("<=")], (1, 2), True),
    ([*loads("a"), *emit.unary_not()], ([],), True),
    ([*loads("a", "b"), *emit.is_op(1)], (1, None), True),
    ([*loads("a", "b"), *emit.contains_op(0)], (1, [1]), True),
    ([*loads("a"), *emit.store_fast("new"), *loads("new")], (5,), 5),
    ([*loads("a", "b"), *emit.pop_top()], (5, 6), 5),
    ([*loads("b", "a"), *emit.store_attr("x"), *loads("a"), *emit.load_attr("x")], (types.SimpleNamespace(), 6), 6),
    ([*loads("c", "a", "b"), *emit.store_subscr(), *loads("a")], ({}, "k", 6), {"k": 6}),
    ([*loads("a", "b"), *emit.delete_subscr(), *loads("a")], ({"k": 6}, "k"), {}),
    ([*loads("a"), Instruction("FORMAT_VALUE", argval=(repr, False))], ("s",), "'s'"),
    ([*loads("a"), *emit.load_const(">5"), Instruction("FORMAT_VALUE", argval=(repr, True))], ("s",), "  's'"),
    ([*loads("a"), Instruction("CONVERT_VALUE", argval=ascii)], ("ä",), "'\\xe4'"),
    ([*loads("a"), Instruction("UNARY_POSITIVE")], (True,), 1),
]


@pytest.mark.parametrize(("instructions", "args", "want"), BLOCKS, ids=range(len(BLOCKS)))
def test_blocks(instructions, args, want):
    fn = build([*instructions, *emit.return_value()], args=len(args))
    got = fn(*args)
    assert got == want and type(got) is type(want)


@pytest.mark.parametrize("symbol", ["+", "-", "*", "/", "//", "%", "**", "@", "&", "|", "^", "<<", ">>"])
def test_binary_operators(symbol):
    class Recorder:
        def __getattr__(self, name):
            raise AttributeError(name)

    def method(name):
        return lambda self, other: name

    for name in (
        "add",
        "sub",
        "mul",
        "truediv",
        "floordiv",
        "mod",
        "pow",
        "matmul",
        "and",
        "or",
        "xor",
        "lshift",
        "rshift",
    ):
        setattr(Recorder, f"__{name}__", method(name))
        setattr(Recorder, f"__i{name}__", method("i" + name))
    plain = build([*loads("a", "b"), *emit.binary_op(symbol), *emit.return_value()], args=2)(Recorder(), 1)
    assert plain == eval(f"a {symbol} 1", {"a": Recorder()})
    in_place = build([*loads("a", "b"), *emit.binary_op(symbol + "="), *emit.return_value()], args=2)(Recorder(), 1)
    assert in_place == "i" + plain


@pytest.mark.parametrize("symbol", ["<", "<=", "==", "!=", ">", ">="])
def test_comparisons_stay_right_when_specialised(symbol):
    compare = {
        "<": operator.lt,
        "<=": operator.le,
        "==": operator.eq,
        "!=": operator.ne,
        ">": operator.gt,
        ">=": operator.ge,
    }
    yes, no = emit.load_const("yes"), emit.load_const("no")
    test = [*loads("a", "b"), *emit.compare_op(symbol), *emit.pop_jump_if_false(no[0])]
    fn = build([*test, *yes, *emit.return_value(), *no, *emit.return_value()], args=2)
    for a, b in [(1, 2), (2, 2), (3, 2), (1.0, 2.0), (float("nan"), 1.0), (2.5, 2.5), ("a", "b"), ("a", "a")] * 20:
        assert fn(a, b) == ("yes" if compare[symbol](a, b) else "no")


@pytest.mark.parametrize("test", ["true", "false", "none", "not_none"])
@pytest.mark.parametrize("backward", [False, True])
def test_conditional_jumps_in_both_directions(test, backward):
    taken = {"true": bool, "false": operator.not_, "none": lambda v: v is None, "not_none": lambda v: v is not None}[
        test
    ]
    hit = emit.load_const("jumped")
    there = [*hit, *emit.return_value()]
    start = loads("a")
    jump = [
        *start,
        *getattr(emit, f"pop_jump_if_{test}")(hit[0]),
        *emit.load_const("fell through"),
        *emit.return_value(),
    ]
    fn = build([*emit.jump(start[0]), *there, *jump] if backward else [*jump, *there], args=1)
    for value in (0, 1, None, "", "x", [], [0]):
        assert fn(value) == ("jumped" if taken(value) else "fell through")


def test_for_iter_whose_end_is_fallen_into():
    """The instruction behind the loop may also be reached straight from above it."""
    end, head = emit.load_const("done"), None
    head = emit.for_iter(end[0])
    loop = [*loads("a"), *emit.get_iter(), *head, *emit.store_fast("last"), *emit.jump(head[0])]
    code = [
        *emit.load_const(0),
        *emit.store_fast("last"),
        *loop,
        *end,
        *loads("last"),
        *emit.build_tuple(2),
        *emit.return_value(),
    ]
    assert build(code, args=1)([1, 2, 3]) == ("done", 3) and build(code, args=1)([]) == ("done", 0)
    end = emit.load_const("done")
    body = emit.for_iter(end[0])
    once = [
        *loads("a"),
        *emit.get_iter(),
        *body,
        *emit.store_fast("first"),
        *emit.pop_top(),
        *end,
        *emit.return_value(),
    ]
    assert build(once, args=1)([1, 2]) == build(once, args=1)([]) == "done"


def test_unbound_local_raises():
    """3.12 and later would crash in a LOAD_FAST that nobody checked."""
    for fn in (
        build([*loads("x"), *emit.return_value()], co_varnames=("x",)),
        build([*emit.delete_fast("x")] + [*emit.load_const(1), *emit.return_value()], co_varnames=("x",)),
    ):
        with pytest.raises(UnboundLocalError):
            fn()


def test_make_function_with_closure_and_defaults():
    def template(a, b=1, *, c=2):
        return a, b, c, x

    x = 0
    made = [
        *loads("a"),
        *emit.store_deref("x"),
        *emit.load_const((10,)),
        *emit.load_const({"c": 20}),
        *emit.make_function(template.__code__, ("x",), flags=3),
        *emit.return_value(),
    ]
    code = assemble([*emit.prologue(cellvars=("x",)), *made], (lambda a: None).__code__, co_cellvars=("x",))
    first, second = (types.FunctionType(code, {})(n) for n in (7, 8))
    assert first(1) == (1, 10, 20, 7) and second(1, 2, c=3) == (1, 2, 3, 8)


def test_exception_handler_built_by_hand():
    handler = emit.push_exc_info()
    cleanup = [
        *handler,
        *emit.pop_top(),
        *emit.pop_except(),
        *emit.load_const("caught"),
        *emit.build_tuple(2),
        *emit.return_value(),
    ]
    risky = emit.at(
        [*emit.load_const(1), *loads("a"), *emit.binary_op("/")], (None,) * 4, ExceptionHandler(handler[0], 1)
    )
    fn = build([*emit.load_const("kept"), *risky, *emit.build_tuple(2), *emit.return_value(), *cleanup], args=1)
    assert fn(2) == ("kept", 0.5) and fn(0) == ("kept", "caught")


# ---- what would crash the interpreter is refused --------------------------------------------------------------------
TWICE = Instruction("NOP")
REFUSED = {
    "a jump out of the code": ([*emit.jump(Instruction("NOP"))], "not in the list"),
    "the same object twice": ([TWICE, TWICE, *emit.load_const(1), *emit.return_value()], "twice"),
    "a pop of nothing": ([*emit.pop_top(), *emit.load_const(1), *emit.return_value()], "empty"),
    "a call of nothing": ([*emit.load_const(1), *emit.call(2), *emit.return_value()], "empty"),
    "no return": ([*emit.load_const(1)], "last instruction"),
    "an unknown local": ([*emit.load_fast("nowhere"), *emit.return_value()], "nowhere"),
    "a cell that is none": (
        [*emit.load_const(1), *emit.store_fast("x"), *emit.load_deref("x"), *emit.return_value()],
        "cell",
    ),
    "an unknown opcode": ([Instruction("FLY"), *emit.load_const(1), *emit.return_value()], "FLY"),
    "an argument out of range": ([*emit.build_list(-1), *emit.return_value()], "range"),
    "a handler elsewhere": (
        emit.at([*emit.load_const(1), *emit.return_value()], (None,) * 4, ExceptionHandler(Instruction("NOP"), 0)),
        "handler",
    ),
    "a swap below the stack": ([*emit.load_const(1), *emit.swap(3), *emit.return_value()], "empty"),
    "a stack that grows for ever": ((lambda push: [*push, *emit.jump(push[0])])(emit.load_const(1)), "reached with"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused(what):
    instructions, message = REFUSED[what]
    with pytest.raises(ValueError, match=message):
        build(instructions)


# ---- analysis -------------------------------------------------------------------------------------------------------
def live_at_line(fn, offset):
    """What is alive before the first instruction of a line."""
    instructions = decode(fn.__code__)
    line = fn.__code__.co_firstlineno + offset
    return live_sets(instructions)[next(k for k, i in enumerate(instructions) if i.line == line)]


def test_live_locals():
    def f(a, b, c):
        d = a + b
        if c:
            b = d
        for _ in c:
            a = b
        return a

    for offset, want in [(1, {"a", "b", "c"}), (2, {"a", "b", "c", "d"}), (4, {"a", "b", "c"}), (6, {"a"})]:
        assert live_at_line(f, offset) == want, offset


def test_live_locals_in_handlers_and_cells():
    def f(a, b):
        try:
            a = int(b)
        except ValueError:
            return b
        return lambda: a

    assert live_at_line(f, 2) == {"a", "b"}  # the handler needs b, and a is a cell
    assert live_sets(decode(f.__code__))[-1] == set()


def test_stack_depths():
    def f(a):
        return [a, (a or 1)]

    instructions = decode(f.__code__)
    depths = dict(zip(map(repr, instructions), stack_depths(instructions), strict=True))
    assert depths["BUILD_LIST 2"] == 2 and depths["POP_JUMP_IF_TRUE -> BUILD_LIST"] == 3 and depths["RETURN_VALUE"] == 1


# ---- properties -----------------------------------------------------------------------------------------------------
expressions = st.recursive(
    st.integers(-5, 5) | st.sampled_from(["a", "b"]),
    lambda inner: st.tuples(st.sampled_from(["+", "-", "*", "if", "and", "call", "tuple"]), inner, inner),
    max_leaves=25,
)


def emitted(tree):
    """Instructions for an expression tree, with branches, and calls while other values wait on the stack."""
    if isinstance(tree, int):
        return emit.load_const(tree)
    if isinstance(tree, str):
        return emit.load_fast(tree)
    kind, left, right = tree
    left, right = emitted(left), emitted(right)
    if kind == "if":  # left if a else right
        end = emit.nop()
        return [*loads("a"), *emit.pop_jump_if_false(right[0]), *left, *emit.jump(end[0]), *right, *end]
    if kind == "and":
        end = emit.nop()
        return [*left, *emit.copy(1), *emit.pop_jump_if_false(end[0]), *emit.pop_top(), *right, *end]
    if kind == "call":
        return [*emit.load_const(combine), *left, *right, *emit.call(2, ("y",))]
    if kind == "tuple":
        return [*emit.load_const(hash), *left, *right, *emit.build_tuple(2), *emit.call(1)]
    return [*left, *right, *emit.binary_op(kind)]


def combine(x, *, y):
    return x - y


def evaluated(tree, space):
    if isinstance(tree, int):
        return tree
    if isinstance(tree, str):
        return space[tree]
    kind, left, right = tree
    if kind == "if":
        return evaluated(left if space["a"] else right, space)
    x = evaluated(left, space)
    if kind == "and":
        return x and evaluated(right, space)
    y = evaluated(right, space)
    rules = {"+": operator.add, "-": operator.sub, "*": operator.mul, "tuple": lambda x, y: hash((x, y))}
    return combine(x, y=y) if kind == "call" else rules[kind](x, y)


@settings(deadline=None, max_examples=60)
@given(expressions, st.integers(-2, 2), st.integers(-2, 2))
def test_generated_expressions(tree, a, b):
    fn = build([*emitted(tree), *emit.return_value()], args=2)
    want = evaluated(tree, {"a": a, "b": b})
    assert fn(a, b) == want and rebuilt(fn)(a, b) == want and rebuilt(fn, exact=True)(a, b) == want
    assert None not in stack_depths(decode(fn.__code__))


columns = st.integers(0, 300)
positions = st.one_of(
    st.just((None, None, None, None)),
    st.tuples(st.integers(1, 5000)).map(lambda p: (p[0], p[0], None, None)),
    st.tuples(st.integers(1, 5000), st.integers(0, 40), columns, columns).map(
        lambda p: (p[0], p[0] + p[1], p[2], p[3])
    ),
)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(positions, st.integers(1, 30)), min_size=1, max_size=20), st.integers(1, 3000))
def test_any_positions_survive_the_line_table(entries, first_line):
    units = sum(size for _, size in entries)
    table = encode_locations([position for position, _ in entries], [size for _, size in entries], first_line)
    nops = bytes((dis.opmap["NOP"], 0)) * units
    code = (lambda: None).__code__.replace(
        co_code=nops, co_linetable=table, co_firstlineno=first_line, co_exceptiontable=b""
    )
    assert list(code.co_positions()) == [position for position, size in entries for _ in range(size)]


def test_a_signal_finds_the_innermost_generator():
    def delegating(inner):
        return (yield from inner)

    assert backward_jumps(rebuilt(delegating).__code__) == ["JUMP_BACKWARD_NO_INTERRUPT"]


def backward_jumps(code):
    """Those to a SEND."""
    found = list(dis.get_instructions(code))
    sends = {instruction.offset for instruction in found if instruction.opname == "SEND"}
    return [i.opname for i in found if i.opname.startswith("JUMP_BACKWARD") and i.argval in sends]
