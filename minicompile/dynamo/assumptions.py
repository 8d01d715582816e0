"""Branches on the data of a tensor of which one side only raises, such as `if not valid.all(): raise ValueError(...)`.

Goes in: the branch, and the tensor that it looks at.  Comes out: the way that does not raise, which capture goes, and
an assertion in the graph.  Where that fails the frame runs again in eager, as after any error of a graph: the real
exception comes from the user's line.  A graph that writes its inputs cannot run again, so there the frame breaks.
Mirrors the handling of assertions in `torch/_dynamo/symbolic_convert.py`.  Taught in chapter 05.
"""

import torch

from .break_kinds import break_error
from .variables.tensor import graph_call


def always_raises(instructions, position):
    """Whether execution that comes here can do nothing but raise."""
    for instruction in instructions[position:]:
        if instruction.is_jump or instruction.is_terminal:
            return instruction.opname == "RAISE_VARARGS"
    return False


def assumed_truth(tx, instruction, condition):
    """The only truth of `condition` with which the branch `instruction` goes on; None where it may have either."""
    on_jump = always_raises(tx.instructions, tx.index_of[id(instruction.argval)])
    if on_jump is always_raises(tx.instructions, tx.pointer):
        return None
    value, output = condition.fake, tx.output
    if value.device.type != "cpu" or value.numel() != 1 or output.nested:  # a GPU would not survive the assertion
        return None
    truth = (instruction.opname == "POP_JUMP_IF_TRUE") is not on_jump
    if output.assumed is None:
        error = break_error("data-dependent branch", "the program raises for some values of a tensor")
        frame = tx
        while frame is not None:
            error.places.append(frame.place())
            frame = frame.parent
        output.assumed = tx.root().current_step(), error
    checked = condition if truth else graph_call(tx, torch.logical_not, [condition], {})
    output.create_node("call_function", torch._assert_async, (checked.node, "an assumption of the compiled function"))
    return truth
