"""Checks for chapter 03: folding constants, taking branches, binding arguments, and what capture looked at."""

import operator

import torch
from torch import fx

from minicompile.dynamo.bytecode import decode

from .verdict import expect, judge


def check_03_1(apply):
    """apply(graph, function, left, right) -> a Python value where both are, else a new node of the graph."""
    graph = fx.Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")

    def nodes():
        return [node for node in graph.nodes if node.op != "placeholder"]

    def folds(function, left, right, wanted, about):
        def run():
            before = len(nodes())
            got = apply(graph, function, left, right)
            if got is None:
                return "your function returned None; write its body first"
            if isinstance(got, fx.Node) or len(nodes()) != before:
                return f"{about}: no operation belongs into the graph"
            return None if type(got) is type(wanted) and got == wanted else f"{about}: expected {wanted!r}, got {got!r}"

        return run

    def records(function, left, right, about):
        def run():
            before = len(nodes())
            got = apply(graph, function, left, right)
            if not isinstance(got, fx.Node):
                return f"{about}: expected a node of the graph, got {got!r}"
            if len(nodes()) != before + 1 or nodes()[-1] is not got:
                return f"{about}: exactly one node must be added, and returned"
            if (got.target, got.args) != (function, (left, right)):
                return f"{about}: the node must be {function.__name__}{(left, right)}, not {got.target}{got.args}"
            return None

        return run

    def raises():
        try:
            apply(graph, operator.floordiv, 1, 0)
        except ZeroDivisionError:
            return None
        return "1 // 0: the program raises ZeroDivisionError here; do not hide it"

    trials = [
        folds(operator.add, 2, 3, 5, "2 + 3, both known"),
        records(operator.mul, x, 2, "x * 2, the left one a node"),
        records(operator.sub, 1, y, "1 - y, the right one a node"),
        records(operator.sub, x, x, "x - x, twice the same node (its value may be nan: do not simplify)"),
        folds(operator.mul, "ab", 2, "abab", "'ab' * 2: text is a Python value too"),
        folds(operator.add, (1,), (2,), (1, 2), "tuples"),
        folds(operator.sub, 2, 2, 0, "2 - 2: the result is 0, which is no reason to think that there is none"),
        raises,
    ]
    return judge(trials, "ConstantVariable folds and TensorVariable records: that is how BINARY_OP stays one line")


def check_03_2(next_position):
    """next_position(instruction, index_of, position, stack) -> the position of the instruction that comes next."""

    def sample(k, n):
        while k:
            if n is None:
                return 1
            if n is not None and not k:
                return 2
            k -= 1
        return 3

    instructions = decode(sample.__code__)
    index_of = {id(instruction): k for k, instruction in enumerate(instructions)}
    jumps = {i.opname: i for i in instructions if i.is_jump}
    plain = next(i for i in instructions if i.opname == "LOAD_FAST")
    by_name = {
        name: type(plain)(name, None, jumps.get(name, next(iter(jumps.values()))).argval)
        for name in ("JUMP", *(f"POP_JUMP_IF_{test}" for test in ("TRUE", "FALSE", "NONE", "NOT_NONE")))
    }

    def trial(name, stack, jumps_away, left, about):
        def run():
            instruction = by_name.get(name, plain)
            before, position = list(stack), 4
            now = list(stack)
            got = next_position(instruction, index_of, position, now)
            if got is None:
                return "your function returned None; write its body first"
            wanted = index_of[id(instruction.argval)] if jumps_away else position + 1
            if got != wanted:
                word = "jumps" if jumps_away else "does not jump"
                return f"{about}: {instruction.opname} with {before[-1:]} on top {word}; expected {wanted}, got {got}"
            return None if now == left else f"{about}: the stack should be {left} afterwards, not {now}"

        return run

    def refuses():
        node = fx.Graph().placeholder("x")
        try:
            got = next_position(by_name["POP_JUMP_IF_TRUE"], index_of, 4, [node])
        except NotImplementedError:
            return None
        return f"the top is a tensor's node: nobody knows its truth. Raise NotImplementedError, do not return {got!r}"

    def none_is_no_question_of_data():
        node = fx.Graph().placeholder("x")
        try:
            got = next_position(by_name["POP_JUMP_IF_NONE"], index_of, 4, [node])
        except NotImplementedError:
            got = None
        return None if got == 5 else "`x is None` is known without data: a tensor is not None"

    trials = [
        trial("LOAD_FAST", [7], False, [7], "an instruction that does not jump"),
        trial("JUMP", [7], True, [7], "JUMP looks at nothing and pops nothing"),
        trial("POP_JUMP_IF_FALSE", [1, False], True, [1], "a false condition"),
        trial("POP_JUMP_IF_FALSE", [1, True], False, [1], "a true condition"),
        trial("POP_JUMP_IF_TRUE", [1, True], True, [1], "a true condition"),
        trial("POP_JUMP_IF_FALSE", [0], True, [], "0 is false"),
        trial("POP_JUMP_IF_FALSE", [[]], True, [], "an empty list is false"),
        trial("POP_JUMP_IF_TRUE", ["no"], True, [], "any text but the empty one is true"),
        trial("POP_JUMP_IF_NONE", [0], False, [], "0 is not None"),
        trial("POP_JUMP_IF_NONE", [None], True, [], "None is None"),
        trial("POP_JUMP_IF_NOT_NONE", [""], True, [], "'' is not None"),
        trial("POP_JUMP_IF_NOT_NONE", [None], False, [], "None"),
        none_is_no_question_of_data,
        refuses,
    ]
    return judge(trials, "this is what jump() and truth() do; the NotImplementedError is chapter 05's graph break")


def check_03_3(callee_locals):
    """callee_locals(fn, args, kwargs) -> the locals with which the callee's frame begins, by name."""

    def scale(t, k=2, *rest, shift=0, **options):
        raise AssertionError("do not call the function: inlining runs its bytecode, not the function")

    def plain(a, b):
        raise AssertionError("do not call the function: inlining runs its bytecode, not the function")

    x = fx.Graph().placeholder("x")
    base = {"t": x, "k": 2, "rest": (), "shift": 0, "options": {}}

    def trial(fn, args, kwargs, wanted, about):
        return expect(callee_locals, (fn, args, kwargs), wanted, about)

    def same_object():
        items = [1, 2]
        got = callee_locals(plain, (items, x), {})
        return None if got["a"] is items else "arguments are passed as they are, never copied"

    def wrong_call(args, kwargs, about):
        def run():
            try:
                got = callee_locals(plain, args, kwargs)
            except TypeError:
                return None
            return f"{about}: Python raises TypeError, you returned {got}"

        return run

    trials = [
        trial(plain, (x, 3), {}, {"a": x, "b": 3}, "two positional arguments"),
        trial(plain, (x,), {"b": 3}, {"a": x, "b": 3}, "a keyword argument"),
        trial(plain, (), {"b": 3, "a": x}, {"a": x, "b": 3}, "keywords in another order"),
        trial(scale, (x,), {}, base, "defaults count, also those of keyword-only arguments"),
        trial(scale, (x, 5, 6, 7), {}, {**base, "k": 5, "rest": (6, 7)}, "what is left over goes into *rest, a tuple"),
        trial(scale, (x,), {"shift": 1, "mode": "a"}, {**base, "shift": 1, "options": {"mode": "a"}}, "**options"),
        trial(lambda: 0, (), {}, {}, "no arguments"),
        same_object,
        wrong_call((1,), {}, "plain(1) lacks an argument"),
        wrong_call((1, 2), {"b": 3}, "plain(1, 2, b=3) passes b twice"),
        wrong_call((1, 2, 3), {}, "plain(1, 2, 3) passes one too many"),
        wrong_call((1, 2), {"c": 3}, "plain(1, 2, c=3) passes what plain does not take"),
    ]
    return judge(trials, "bind_arguments in dynamo/opcodes_calls.py does this with trackers")


def check_03_4(looked_at):
    """looked_at(fn, *args) -> the set of names of fn's arguments that capture looked at."""
    x = torch.ones(3)

    def ignore(t, k):
        return t

    def plain(x, n):
        return x * n

    def unused(x, n, other):
        return x + 1

    def passes_on(x, n):
        return ignore(x, n) + 1

    def stored(x, n, m):
        row = [n, m]
        return x + row[0]

    def rebound(x, n):
        n = 5
        return x * n

    def rebound_late(x, n):
        x = x * n
        n = 5
        return x * n

    def branch(x, mode, big, small):
        return x * big if mode == "big" else x * small

    trials = [
        expect(looked_at, (plain, x, 2), {"x", "n"}, "x * n"),
        expect(looked_at, (unused, x, 2, 3), {"x"}, "arguments that the function never mentions"),
        expect(looked_at, (passes_on, x, 2), {"x"}, "n is handed to a function that ignores it"),
        expect(looked_at, (stored, x, 1, 2), {"x", "n"}, "m lies in a list, but only row[0] is used"),
        expect(looked_at, (rebound, x, 2), {"x"}, "n is overwritten before anybody looks"),
        expect(looked_at, (rebound_late, x, 2), {"x", "n"}, "n is looked at, and then overwritten"),
        expect(looked_at, (branch, x, "big", 2, 3), {"x", "mode", "big"}, "the other branch is never run"),
        expect(looked_at, (branch, x, "other", 2, 3), {"x", "mode", "small"}, "the same function, the other branch"),
    ]
    return judge(trials, "what is never looked at is never guarded, so changing it costs no recompile")
