"""Branches on data of which one side only raises, such as `if not valid.all(): raise ValueError(...)`.

Goes in: the branch, and the tensor, or the number read from one, that it looks at.  Comes out: the way that does not
raise, which capture goes, and an assertion in the graph.  Where that fails the frame runs again in eager, as after any
error of a graph: the real exception comes from the user's line.  A graph that writes its inputs cannot run again, so
there the frame breaks.
Mirrors the handling of assertions in `torch/_dynamo/symbolic_convert.py`.  Taught in chapter 05.
"""

import torch

from .break_kinds import break_error
from .variables.data_numbers import is_open, state
from .variables.symbolic import SymNodeVariable
from .variables.tensor import TensorVariable, graph_call


def always_raises(instructions, position):
    """Whether execution that comes here can do nothing but raise."""
    for instruction in instructions[position:]:
        if instruction.is_jump or instruction.is_terminal:
            return instruction.opname == "RAISE_VARARGS"
    return False


def assumed_truth(tx, instruction, condition):
    """The only truth of `condition` with which the branch `instruction` goes on; None where it may have either."""
    if not can_assume(tx.output, condition):
        return None
    on_jump = always_raises(tx.instructions, tx.index_of[id(instruction.argval)])
    if on_jump is always_raises(tx.instructions, tx.pointer):
        return None
    truth, output = (instruction.opname == "POP_JUMP_IF_TRUE") is not on_jump, tx.output
    if output.assumed is None:
        error = break_error("data-dependent branch", "the program raises for some data")
        frame = tx
        while frame is not None:
            error.places.append(frame.place())
            frame = frame.parent
        output.assumed = tx.root().current_step(), error
    if isinstance(condition, SymNodeVariable):
        state(tx, condition, truth)
        return truth
    checked = condition if truth else graph_call(tx, torch.logical_not, [condition], {})
    output.create_node("call_function", torch._assert_async, (checked.node, "an assumption of the compiled function"))
    return truth


def can_assume(output, condition):
    if output.nested:
        return False
    if isinstance(condition, TensorVariable):  # a GPU would not survive the assertion
        return condition.fake.device.type == "cpu" and condition.fake.numel() == 1
    return is_open(condition)
