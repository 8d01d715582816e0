"""Conditions of guards on sizes and numbers as programs for `_conditions.h`, which makes no Python objects.

Goes in: a ShapeGuard, such as `{0} == {1} * 2` with the sources of the two numbers.  Comes out: where each number is,
and the condition in postfix order; None where it is no such arithmetic, so that its Python is asked.
Mirrors the C++ guards on sizes of `torch/_dynamo/guards.py` (`symbolic_shape_guard`).  Taught in chapter 07.
"""

import ast
import functools

from . import _guards
from .source import SizeSource

ARITHMETIC = {  # node of Python's syntax -> word
    ast.Add: _guards.PLUS,
    ast.Sub: _guards.MINUS,
    ast.Mult: _guards.TIMES,
    ast.Div: _guards.DIVIDED,
    ast.FloorDiv: _guards.FLOOR_DIVIDED,
    ast.Mod: _guards.MODULO,
    ast.Lt: _guards.LESS,
    ast.LtE: _guards.LESS_EQUAL,
    ast.Gt: _guards.GREATER,
    ast.GtE: _guards.GREATER_EQUAL,
    ast.Eq: _guards.EQUAL,
    ast.NotEq: _guards.UNEQUAL,
    ast.And: _guards.BOTH,
    ast.Or: _guards.EITHER,
    ast.USub: _guards.NEGATIVE,
    ast.Not: _guards.OPPOSITE,
}
CALLS = {"min": _guards.SMALLER, "max": _guards.LARGER, "abs": _guards.ABSOLUTE}
ONLY_WHOLE, ONLY_REAL = {_guards.FLOOR_DIVIDED, _guards.MODULO}, {_guards.DIVIDED}
LARGEST = {False: 1 << 62, True: 1 << 53}  # whether numbers are real -> up to here C's constants are Python's


class NotInCpp(Exception):
    """The condition is none that `_conditions.h` computes as Python does."""


class ConditionWriter(ast.NodeVisitor):
    """Collects the words of one condition."""

    def __init__(self, real):
        self.real, self.words, self.depth = real, [], 0

    def push(self, word, number):
        self.depth += 1
        if self.depth > _guards.DEEPEST:
            raise NotInCpp
        self.words.append((word, number))

    def combine(self, word, operands):
        """The operands, joined by `word` two by two; or by a word of one operand."""
        if word is None or word in (ONLY_WHOLE if self.real else ONLY_REAL):
            raise NotInCpp
        first, *others = operands
        self.visit(first)
        for other in others:
            self.visit(other)
            self.words.append((word, 0))
            self.depth -= 1
        if not others and word >= _guards.NEGATIVE:
            self.words.append((word, 0))

    def generic_visit(self, node):
        raise NotInCpp

    def visit_Expression(self, node):
        self.visit(node.body)

    def visit_Name(self, node):
        self.push(_guards.VARIABLE, int(node.id.removeprefix("v")))

    def visit_Constant(self, node):
        if type(node.value) not in ((int, float) if self.real else (int,)) or (
            type(node.value) is int and abs(node.value) > LARGEST[self.real]
        ):
            raise NotInCpp
        self.push(_guards.CONSTANT, node.value)

    def visit_UnaryOp(self, node):
        self.combine(ARITHMETIC.get(type(node.op)), [node.operand])

    def visit_BinOp(self, node):
        self.combine(ARITHMETIC.get(type(node.op)), [node.left, node.right])

    def visit_BoolOp(self, node):
        self.combine(ARITHMETIC[type(node.op)], node.values)

    def visit_Compare(self, node):
        if len(node.ops) > 1:
            raise NotInCpp
        self.combine(ARITHMETIC.get(type(node.ops[0])), [node.left, *node.comparators])

    def visit_Call(self, node):
        if not isinstance(node.func, ast.Name) or node.keywords:
            raise NotInCpp
        self.combine(CALLS.get(node.func.id), node.args)


def place_of(source):
    """(the source to read, where in it the number is, as `_conditions.h` counts)."""
    if not isinstance(source, SizeSource):
        return source, _guards.VALUE_HERE
    if source.kind == "storage_offset":
        return source.parent, _guards.OFFSET_HERE
    return source.parent, 2 * source.index + (source.kind == "stride")


def names_of(guard):
    """One name for each source."""
    return [f"v{k}" for k in range(len(guard.sources))]


@functools.lru_cache(maxsize=1024)
def words_of(text, real):
    """The condition `text` over the names v0, v1, ..., in postfix order, or None."""
    writer = ConditionWriter(real)
    try:
        writer.visit(ast.parse(text, mode="eval"))
    except NotInCpp:
        return None
    return tuple(writer.words)


def condition_program(guard):
    """(sources to read, (whether numbers are real, places, words)) of a ShapeGuard; None where Python is asked."""
    words = words_of(guard.code.format(*names_of(guard)), guard.real)
    if words is None:
        return None
    read, places = zip(*map(place_of, guard.sources))
    return read, (guard.real, places, words)
