"""Numbers that are read from data and stay in the graph: `.item()`, `.tolist()`, and what the program states of them.

Goes in: a tensor, where `config.capture_scalar_outputs`; a condition on such a number; or a branch on data of which one
side only raises, such as `if not valid.all(): raise ValueError(...)`.  Comes out: a number that the graph computes (an
unbacked symbol, see dynamic_shapes.py); or an assertion in the graph, and for a branch the way that does not raise,
which capture goes.  Where an assertion fails, the frame runs again in eager, as after any error of a graph: the real
exception comes from the user's line.  A graph that writes its inputs cannot run again, so there the frame breaks.
Mirrors `method_item` in `torch/_dynamo/variables/tensor.py`, `torch._check` in `torch.py` beside it and the assertions
of `symbolic_convert.py`.  Taught in chapters 05 and 07.
"""

import operator

import numpy
import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

from ... import config
from ..break_kinds import break_error
from ..source import CallSource
from .base import unsupported
from .constant import NONE, ConstantVariable
from .containers import Sequence
from .numpy_arrays import NumpyArrayVariable, NumpyNumberVariable
from .symbolic import SymNodeVariable
from .tables import BREAKING_METHODS
from .tensor import TensorVariable, graph_call
from .tuples import SliceVariable, TupleVariable

LONGEST_LIST = 1000  # of a `.tolist()` that stays in the graph: each element is a node
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8)
INDICES = (torch.bool, torch.uint8, torch.int64)  # what an array stays as an index: two of these are masks
ASSERTION = "a condition that the program states does not hold"


# --- reading ----------------------------------------------------------------------------------------
def item(tx, tensor):
    return graph_call(tx, "item", [tensor], {}, op="call_method")


def as_int(tx, tensor):
    if tensor.fake.dtype == torch.bool:
        tensor = tensor.call_method(tx, "to", [tx.build(torch.int64)], {})
    return tx.call(int, item(tx, tensor))


def as_index(tx, tensor):
    if tensor.fake.dtype.is_floating_point:
        unsupported("operator raised", "a tensor of floats is no index")
    return as_int(tx, tensor)


def as_float(tx, tensor):
    return tx.call(float, as_int(tx, tensor) if tensor.fake.dtype == torch.bool else item(tx, tensor))


def as_list(tx, tensor):
    if tensor.fake.dim() == 0:
        return item(tx, tensor)
    rows = tensor.unpack(tx)
    if len(rows) * (tensor.fake.numel() // max(len(rows), 1)) > LONGEST_LIST:
        unsupported("large container", f"a list of the {tensor.fake.numel():,} elements of a tensor")
    return tx.build_list([as_list(tx, row.realize()) for row in rows])


READERS = {"item": item, "__int__": as_int, "__index__": as_index, "__float__": as_float, "tolist": as_list}


def read(tx, tensor, name, args):
    """A method that needs the tensor's data: a number of the graph, or a break."""
    if not config.capture_scalar_outputs or name not in READERS or args:
        unsupported(BREAKING_METHODS[name], f"Tensor.{name}() needs the tensor's data")
    return READERS[name](tx, tensor)


# --- what is stated ---------------------------------------------------------------------------------
def is_open(condition):
    """Whether it is a symbolic number, or a condition on some, of which only the graph can tell the truth."""
    if not isinstance(condition, SymNodeVariable) or condition.is_known():
        return False
    stated = condition.symbol if type(condition.symbol) is torch.SymBool else condition.symbol != 0
    return not statically_known_true(stated) and not statically_known_true(torch.sym_not(stated))


def state(tx, condition, truth=True):
    """The graph asserts that `bool(condition) is truth`; capture knows it from here on."""
    if condition.python_type() is not bool:
        condition = tx.call(operator.ne, condition, tx.build(0))
    if not truth:
        condition = graph_call(tx, torch.sym_not, [condition], {})
    graph_call(tx, torch.ops.aten._assert_scalar.default, [condition, tx.build(ASSERTION)], {})


def check_with(tx, error_type, condition, message=NONE):
    """`torch._check` and its kin end here."""
    condition = condition.realize()
    if isinstance(condition, TensorVariable):
        unsupported("data-dependent branch", "torch._check looks at the data of a tensor")
    if is_open(condition):
        state(tx, condition)
    elif not tx.truth(condition):
        text = "Expected cond to be True" if tx.is_none(message) else tx.call_tracker(message, []).as_python_constant()
        tx.raise_observed(error_type.as_python_constant(), text)
    return NONE


def check_is_size(tx, number, message=NONE, *, max=None):
    error = tx.build(RuntimeError)
    check_with(tx, error, tx.call(operator.ge, number, tx.build(0)), message)
    return NONE if max is None else check_with(tx, error, tx.call(operator.le, number, max), message)


# --- as an index ------------------------------------------------------------------------------------
def parts_of(index):
    return [part.realize() for part in index.items] if isinstance(index, TupleVariable) else [index]


def as_read(tx, part):
    """A part of an index as PyTorch reads it: the elements of an array as a tensor, the number that a tensor holds."""
    if isinstance(part, SliceVariable):
        return SliceVariable([as_read(tx, bound.realize()) for bound in part.items])
    if isinstance(part, NumpyNumberVariable) and isinstance(part.value, numpy.integer):
        return ConstantVariable(int(part.value))
    if isinstance(part, NumpyArrayVariable) and (not part.is_number or issubclass(part.python_type(), numpy.integer)):
        part = part.tensor
        if part.fake.dtype not in INDICES:
            part = part.call_method(tx, "to", [tx.build(torch.int64)], {})
    return number_of_input(tx, part) if isinstance(part, TensorVariable) else part


def number_of_input(tx, tensor):
    """The integer in an input of no dimensions, asked at each call; any other tensor itself."""
    fake, output = tensor.fake, tx.output
    if tensor.source is None or tensor.cls is not torch.Tensor or fake.dim() or fake.dtype not in INTEGERS:
        return tensor
    changed = {i.fake.untyped_storage()._cdata for i in output.changed_inputs()}
    if fake.device.type != "cpu" or fake.is_inference() or fake.untyped_storage()._cdata in changed:
        return tensor
    return output.wrap(output.input_value(tensor).item(), CallSource(tensor.source, torch.Tensor.item)).realize()


def with_read_bounds(tx, index):
    """The index with numbers in place of the tensors that are bounds of slices."""

    def number(part):
        part = part.realize()
        return tx.call(operator.index, part) if isinstance(part, TensorVariable) else part

    parts = [SliceVariable(list(map(number, p.items))) if isinstance(p, SliceVariable) else p for p in parts_of(index)]
    return tx.build_tuple(parts) if isinstance(index, TupleVariable) else parts[0]


def select_numbers(tx, tensor, index):
    """(what `tensor[index]` selects by symbolic numbers, the rest of the index): `[]` would look at the numbers."""
    if config.capture_scalar_outputs:
        index = with_read_bounds(tx, index)
    parts = [as_read(tx, part) for part in parts_of(index)]
    index = tx.build_tuple(parts) if isinstance(index, TupleVariable) else parts[0]
    if tensor.fake.dim() == 0 and index.python_type() is int:
        unsupported("operator raised", "an index of a 0-dim tensor")  # PyTorch reads a size that is not there
    numbers = [k for k, part in enumerate(parts) if isinstance(part, SymNodeVariable)]
    plain = (SymNodeVariable, SliceVariable, ConstantVariable)
    if not numbers or not all(isinstance(p, plain) and p.python_type() is not bool for p in parts):
        return tensor, index
    for k in reversed(numbers):
        number = parts.pop(k)
        before, after = (sum(not is_no_dimension(part) for part in side) for side in (parts[:k], parts[k:]))
        behind_dots = any(part.python_type() is type(...) for part in parts[:k])
        dim = -1 - after if behind_dots else before
        tensor = graph_call(tx, torch.select, [tensor, tx.build(dim), number], {})
    return tensor, tx.build_tuple(parts) if parts else None


def is_no_dimension(part):
    return part.python_type() in (type(None), type(...))


def getitem(tx, tensor, index):
    tensor, index = select_numbers(tx, tensor, index)
    return tensor if index is None else graph_call(tx, operator.getitem, [tensor, index], {})


def setitem(tx, tensor, index, value):
    tensor, index = select_numbers(tx, tensor, index)
    return graph_call(tx, operator.setitem, [tensor, tx.build(...) if index is None else index, value], {})


# --- as a tensor ------------------------------------------------------------------------------------
def holds_unknown(data):
    """Whether it is a number that only the graph knows, or a list with one."""
    if isinstance(data, Sequence):
        return any(holds_unknown(part.realize()) for part in data.items)
    return isinstance(data, SymNodeVariable) and not data.is_known()


def make_tensor(tx, data, dtype=NONE, device=NONE):
    """`torch.tensor` of symbolic numbers, or of a list with some."""
    if isinstance(data, SymNodeVariable):
        kind = {int: torch.int64, bool: torch.bool}.get(data.python_type(), torch.get_default_dtype())
        dtype = tx.build(kind) if tx.is_none(dtype) else dtype
        return graph_call(tx, torch.scalar_tensor, [data], {"dtype": dtype, "device": device})
    types = {part.python_type() for part in parts_of(tx.build_tuple(data.unpack(tx)))}
    if len(types) > 1 and tx.is_none(dtype):
        unsupported("tensor read as a number", "torch.tensor() of a list of different numbers", "give it a dtype")
    made = [tx.call(torch.tensor, part) for part in data.unpack(tx)]
    stacked = graph_call(tx, torch.stack, [tx.build_list(made)], {})
    return stacked.call_method(tx, "to", [], {"dtype": dtype, "device": device}) if not tx.is_none(dtype) else stacked


# --- branches of which one side only raises ------------------------------------------------------------
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


HANDLERS = {torch._check_with: check_with, torch._check_is_size: check_is_size}
