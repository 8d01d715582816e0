"""The opcodes that build containers and take them apart.

Goes in: an `Instruction`.  Comes out: a changed stack.
Mirrors `torch/_dynamo/symbolic_convert.py` (BUILD_LIST, UNPACK_SEQUENCE).  Taught in chapter 03.
"""

import itertools
import sys

from .variables.base import ObservedException, VariableTracker, type_name, unsupported
from .variables.dicts import merged
from .variables.elements import next_or_none
from .variables.refusals import function_text, is_iterable
from .variables.tensor_state import join_strings

KEY_ERRORS_ARE_OBJECTS = sys.version_info >= (3, 12)  # before, what C code raises is none until it is caught


def build_container(make):
    def method(self, instruction):
        self.push(make(self, self.pop_lazies(instruction.arg)))

    return method


def mutate_container(name):
    """LIST_APPEND and its kin: the container is `arg` deep below the operand."""

    def method(self, instruction):
        value = self.pop_lazy()
        self.stack[-instruction.arg].realize().call_method(self, name, [value], {})

    return method


class ContainerOpcodes:
    """Mixin of every translator."""

    # --- building containers ------------------------------------------------------------------------
    BUILD_TUPLE = build_container(lambda self, items: self.build_tuple(items))
    BUILD_LIST = build_container(lambda self, items: self.build_list(items))
    BUILD_SET = build_container(lambda self, items: self.call(set, self.build_tuple(items)))
    BUILD_SLICE = build_container(lambda self, items: self.call(slice, *items))
    BUILD_STRING = build_container(lambda self, items: join_strings(self, [item.realize() for item in items]))

    def BUILD_MAP(self, instruction):
        items = self.pop_lazies(2 * instruction.arg)
        self.push(self.build_map(items[::2], items[1::2]))

    def BUILD_CONST_KEY_MAP(self, instruction):
        keys = [self.build(key) for key in self.pop().as_python_constant()]
        self.push(self.build_map(keys, self.pop_lazies(instruction.arg)))

    def build_map(self, keys, values):
        result = self.build_dict({})
        for key, value in zip(keys, values):
            result.call_method(self, "__setitem__", [key, value], {})
        return result

    LIST_APPEND = mutate_container("append")
    SET_ADD = mutate_container("add")
    SET_UPDATE = mutate_container("update")

    def LIST_EXTEND(self, instruction):
        """`[*a]`, `f(x, *a)`."""
        extra = self.pop()
        if not is_iterable(extra.python_type()):
            complaint = f"Value after * must be an iterable, not {type_name(extra.python_type())}"
            self.raise_observed(TypeError, complaint)
        self.stack[-instruction.arg].realize().call_method(self, "extend", [extra], {})

    def DICT_UPDATE(self, instruction):
        """`{**a}`."""
        extra = self.pop()
        try:
            self.stack[-instruction.arg].realize().update(self, merged(self, extra))
        except ObservedException as error:
            self.refuse_mapping(error, f"'{type_name(extra.python_type())}' object is not a mapping")

    def refuse_mapping(self, error, text):
        """Any AttributeError means that it is none."""
        if not self.exception_matches(error, AttributeError):
            raise error
        self.raise_observed(TypeError, text)

    def MAP_ADD(self, instruction):
        value, key = self.pop_lazy(), self.pop_lazy()
        self.stack[-instruction.arg].realize().call_method(self, "__setitem__", [key, value], {})

    def DICT_MERGE(self, instruction):
        """`f(**a, **b)`: a repeated key is a TypeError."""
        extra = self.pop()
        target, function = self.stack[-instruction.arg].realize(), self.stack[-instruction.arg - 2].realize()

        def refuse_repeated(key):
            text = f"{function_text(self, function)} got multiple values for keyword argument '%s'"
            self.raise_observed(TypeError, text % self.call(str, key).as_python_constant())

        def check(key):
            if self.truth(target.call_method(self, "__contains__", [key], {})):
                refuse_repeated(key)

        try:
            target.update(self, merged(self, extra, check))
        except ObservedException as error:
            if self.exception_matches(error, KeyError):  # CPython takes some for those of repeated keys
                if KEY_ERRORS_ARE_OBJECTS and len(error.variable.args) == 1:
                    refuse_repeated(*error.variable.args)
                if not (KEY_ERRORS_ARE_OBJECTS or error.stated):
                    unsupported("builtin on an unknown value", f"{extra} raises a KeyError when it is to give keywords")
            kind = type_name(extra.python_type())
            self.refuse_mapping(
                error, f"{function_text(self, function)} argument after ** must be a mapping, not {kind}"
            )

    def LIST_TO_TUPLE(self, instruction):
        self.push(self.build_tuple(self.pop().unpack(self)))

    def UNPACK_SEQUENCE(self, instruction):
        count = instruction.arg
        items = self.unpack_target(count + 1)
        if len(items) != count:
            few = f"not enough values to unpack (expected {count}, got {len(items)})"
            self.raise_observed(
                ValueError, few if len(items) < count else f"too many values to unpack (expected {count})"
            )
        self.stack.extend(reversed(items))

    def unpack_target(self, at_most, rest=False):
        """The elements of the top of the stack; of an iterator no more than are asked for, or (rest) all others too."""
        value = self.pop()
        cls = value.python_type()
        if not is_iterable(cls):
            self.raise_observed(TypeError, f"cannot unpack non-iterable {type_name(cls)} object")
        if type(value).unpack is not VariableTracker.unpack:  # nobody sees how far a container was read
            return value.unpack(self)
        iterator = value.iterate(self).realize()
        first = list(itertools.islice(iter(lambda: next_or_none(self, iterator), None), at_most))
        return [*first, *iterator.listed(self)] if rest and len(first) == at_most else first

    def UNPACK_EX(self, instruction):
        before, after = instruction.arg & 255, instruction.arg >> 8
        items = self.unpack_target(before, rest=True)
        if len(items) < before + after:
            text = f"not enough values to unpack (expected at least {before + after}, got {len(items)})"
            self.raise_observed(ValueError, text)
        end = len(items) - after
        self.stack.extend(reversed([*items[:before], self.build_list(items[before:end]), *items[end:]]))
