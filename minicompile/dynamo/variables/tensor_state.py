"""What a tensor is beside elements and metadata: its gradient, how often it was written, `.data = ...`, its memory, and
the text of a number that it holds.

Goes in: reads and writes of `.grad`, `._version` and `.data`; `x.is_pinned()` and its like; `f"loss {loss:.3f}"`.
Comes out: the tensor's gradient as an input of its own; the version as a symbolic number, so that it is no guard; an
exchange of the memory as a node of the graph; answers of the real tensor, guarded; a str that is put together when the
graph has run, and of which nothing is known yet.
Mirrors parts of `torch/_dynamo/variables/tensor.py` and StringFormatVariable of `misc.py`.  Taught in chapter 06.
"""

import contextlib
import operator

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ..polyfills.tensors import is_alone
from ..source import AttrSource, CallSource
from .base import unsupported
from .constant import ConstantVariable
from .varying import VaryingVariable


def read_gradient(tx, tensor):
    """`.grad` of an input: None, or the tensor that is there now."""
    if tensor.source is None:
        unsupported("tensor attribute", "`.grad` of a tensor made in the graph")
    with torch._C.DisableTorchFunction():
        gradient = tx.output.input_value(tensor).grad
    return tx.output.wrap(gradient, AttrSource(tensor.source, "grad")).realize()


def fits_as_gradient(tensor, value):
    """Whether `tensor.grad = value` is without complaint."""
    if not issubclass(value.python_type(), torch.Tensor):
        return value.is_python_constant() and value.as_python_constant() is None
    return all(getattr(value.fake, name) == getattr(tensor.fake, name) for name in ("shape", "dtype", "device"))


def count_bytes(tx, tensor):
    """`.nbytes`: PyTorch itself does not count those of symbolic sizes."""
    return tx.call(operator.mul, tensor.metadata(tx, "numel", []), tx.build(tensor.fake.itemsize))


def read_version(tx, tensor):
    """How often the memory was written: of an input so often as before the graph, and as the program did since."""
    if tensor.fake.is_inference():
        unsupported("tensor attribute", "an inference tensor has no version")
    if tensor.source is None:
        storages = {each.fake.untyped_storage()._cdata for each in tx.output.tensor_inputs()}
        if tensor.fake.untyped_storage()._cdata in storages:
            unsupported("tensor attribute", "`._version` of a view of an input")
        return tx.build(tensor.fake._version)
    owner, memory = base_of(tensor.fake), tensor.fake.untyped_storage()._cdata
    for other in (each.fake for each in tx.output.tensor_inputs() if not each.fake.is_inference()):
        if other._version > 0 and base_of(other) is not owner and other.untyped_storage()._cdata == memory:
            unsupported(
                "tensor attribute", "`._version` of an input that was written to as another, maybe its `detach()`"
            )
    if tensor not in tx.output.first_versions:
        value = tx.output.input_value(tensor)._version
        tx.output.first_versions[tensor] = tx.output.add_number(value, AttrSource(tensor.source, "_version"))
    return tx.call(operator.add, tx.output.first_versions[tensor], tx.build(tensor.fake._version))


def base_of(tensor):
    """The tensor that it is a view of, with which it shares the count of writes."""
    return tensor._base if tensor._is_view() else tensor


def as_inference_tensor(tensor):
    """The tensor as if it were made in inference mode: it has no version, and autograd refuses it."""
    if tensor.is_inference():
        return tensor
    with torch.inference_mode():
        empty = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
        return empty.set_(tensor.untyped_storage(), tensor.storage_offset(), tensor.shape, tensor.stride())


def as_normal_tensor(tensor):
    """Another tensor with the memory of an inference tensor, to which a graph may write in no mode of its own."""
    return torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(
        tensor.untyped_storage(), tensor.storage_offset(), tensor.shape, tensor.stride()
    )


def with_normal_tensors(run, places):
    """The graph, which does not know inference mode and writes to inference tensors: its inputs at these places."""

    def run_on_normal_tensors(*inputs):
        inputs = list(inputs)
        for k in places:
            inputs[k] = as_normal_tensor(inputs[k])
        return run(*inputs)

    return run_on_normal_tensors


def write_data(tx, tensor, value):
    """`tensor.data = value`: the tensor stays, its memory is another's from now on."""
    from .tensor import graph_call

    if tensor.source is None or not issubclass(value.python_type(), torch.Tensor):
        unsupported("tensor attribute write", "`tensor.data = ...` of a tensor made in the graph")
    graph_call(tx, setattr, [tensor, tx.build("data"), value], {})
    tx.output.with_other_memory.add(tensor.source)


def refuse_handled_errors(tx):
    """A graph that wrote what no version counts cannot start again in eager, for a handler around what raises."""
    output = tx.output
    if output.undoes or not (output.data_aliases or output.with_other_memory or output.written_in_inference):
        return
    if is_in_try(tx) and any(map(output.has_no_version, output.tensor_inputs())):
        unsupported("tensor attribute write", "an operator in a `try`, after a write to `tensor.data`")


class WritesOfInference(TorchDispatchMode):
    """Around an operator on fake tensors: which memory it writes to, that an inference tensor has."""

    def __init__(self, output):
        super().__init__()
        self.written = output.written_in_inference

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if function._schema.is_mutable:
            for place, argument in enumerate(function._schema.arguments):
                value = kwargs.get(argument.name, args[place] if place < len(args) else None)
                if argument.alias_info is not None and argument.alias_info.is_write:
                    tensors = value if isinstance(value, list | tuple) else [value]
                    self.written += [t.untyped_storage()._cdata for t in tensors if isinstance(t, torch.Tensor)]
        return function(*args, **kwargs)


def watching_writes(output):
    """A block for an operator that may write to inference tensors."""
    has_any = output.in_inference_mode or any(i.fake.is_inference() for i in output.tensor_inputs())
    return WritesOfInference(output) if has_any else contextlib.nullcontext()


def is_in_try(frame):
    """Whether a handler of the program may catch what an instruction raises.  Those of `with` are counted out."""
    while frame is not None:
        handler = frame.current.exc
        while handler is not None:
            start = frame.index_of[id(handler.target)]
            first, second = (i.opname for i in frame.instructions[start : start + 2])
            if first == "PUSH_EXC_INFO" and second != "WITH_EXCEPT_START":  # else it is a cleanup
                return True
            handler = handler.target.exc
        frame = frame.parent
    return False


STATE = {"grad": read_gradient, "_version": read_version, "nbytes": count_bytes}
MEMORY_METHODS = {  # methods that a fake tensor answers wrongly -> whether an input's answer is worth a guard
    **dict.fromkeys(("_is_view", "is_pinned", "is_shared"), True),
    **dict.fromkeys(("is_set_to", "_use_count", "const_data_ptr", "mutable_data_ptr"), False),
}


def answer_of_memory(tx, tensor, name, arguments):
    """What the real tensor says of its memory, where it is asked without arguments."""
    if tensor.source is None or arguments or not MEMORY_METHODS[name]:
        unsupported("tensor attribute", f"Tensor.{name} is about memory, which a graph does not have")
    method = getattr(torch.Tensor, name)
    with torch._C.DisableTorchFunction():
        value = method(tx.output.input_value(tensor))
    tx.guard("equals", CallSource(tensor.source, method), value)
    return tx.build(value)


def refuse_company(tx, tensor):
    """Only of a tensor that nothing is shared with is a clone what `copy.deepcopy` makes."""
    if tensor.source is None or tensor.cls is not torch.Tensor or not is_alone(tx.output.input_value(tensor)):
        unsupported("object copy", f"the deep copy of {tensor}, which may share its memory with others")
    tx.guard("equals", CallSource(tensor.source, is_alone), True)


class TextVariable(VaryingVariable):
    """parts: strings, and (tensor as it was when it was formatted, format)."""

    def __init__(self, parts):
        super().__init__(str, None)
        self.parts = parts

    def call_method(self, tx, name, args, kwargs):
        unsupported("tensor printed", f"`{name}` of a string with the value of a tensor in it")

    def children(self):
        return [part[0] for part in self.parts if not isinstance(part, str)]

    def reconstruct(self, codegen):
        codegen.load_const("".join)
        for part in self.parts:
            codegen.load_const(part) if isinstance(part, str) else codegen.call(format, *part)
        codegen.build_list(len(self.parts))
        codegen.call_function(1)

    def __repr__(self):
        return "TextVariable()"


def format_number(tx, tensor, spec):
    """`format(tensor, spec)` of a tensor of no dimensions, whose value may change before the string is made."""
    try:
        format(python_number(tensor.fake), spec)
    except ValueError as error:
        tx.raise_observed(ValueError, str(error))
    copied = tensor.call_method(tx, "detach", [], {}).call_method(tx, "clone", [], {})
    return TextVariable([(copied, spec)])


def python_number(fake):
    if fake.is_complex():
        return 0j
    if fake.is_floating_point():
        return 0.0
    return False if fake.dtype == torch.bool else 0


def join_strings(tx, items):
    """BUILD_STRING."""
    parts = []
    for item in items:
        parts += item.parts if isinstance(item, TextVariable) else [item.as_python_constant()]
    if all(isinstance(part, str) for part in parts):
        return ConstantVariable("".join(parts))
    return TextVariable(parts)
