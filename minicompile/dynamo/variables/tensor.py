"""Tensors during capture: a node of the graph with a fake tensor that knows shape, dtype, stride and device.

Goes in: graph operations on trackers.  Comes out: a new node, and the tracker of its result.
Mirrors `torch/_dynamo/variables/tensor.py`.  Taught in chapter 03.

An operation runs once on fake tensors.  If that raises, the graph breaks before it, and eager raises the real exception
at the user's line.
"""

import logging
import operator
import types

import numpy
import torch
from torch import fx
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.utils._pytree import tree_leaves

from ... import record
from ..dynamic_shapes import is_symbolic
from ..polyfills import tensors
from ..skip_files import attributes_of
from ..source import AttrSource, CallSource
from . import tensor_state
from .base import VariableTracker, unsupported
from .descriptors import descriptor_get, guard_lookup, type_lookup
from .functions import BuiltinMethodVariable
from .overrides import dispatch, is_overridden
from .random_ranges import known_truth
from .symbolic import SymNodeVariable
from .tables import BREAKING_METHODS
from .warned import OperatorWarnings
from .wrong_calls import takes

# An operator that raises during capture is reported as a graph break, not as a traceback on the terminal as well.
logging.getLogger("torch._subclasses.fake_tensor").addFilter(lambda entry: record.current() is None)

PLAIN_TENSOR_TYPES = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)


class TensorVariable(VariableTracker):
    """node: the FX node that computes it; fake: its metadata.  In-place operations change the fake, not the tracker."""

    has_identity = True

    def __init__(self, node, fake, source=None, cls=torch.Tensor):
        super().__init__(source)
        self.node, self.fake, self.cls = node, fake, cls

    def as_proxy(self):
        return self.node

    def key(self):
        return self

    def truth(self, tx):
        if is_overridden(tx, self):
            return tx.truth(self.call_method(tx, "__bool__", [], {}))
        known = known_truth(self.node) if self.fake.dim() == 0 else None
        if known is not None:
            return known
        unsupported(
            "data-dependent branch", "the program branches on the value of a tensor, which is not known during capture"
        )

    # --- attributes ---------------------------------------------------------------------------------
    def var_getattr(self, tx, name):
        return self.torch_attribute(tx, name)

    def torch_attribute(self, tx, name):
        """What `torch.Tensor` and the tensor's own `__dict__` have under this name."""
        found = type_lookup(torch.Tensor, name)
        if found is not None and isinstance(found.attribute, types.GetSetDescriptorType) and is_overridden(tx, self):
            answer = dispatch(tx, found.attribute.__get__, [self], {})
            if answer is not None:
                return answer
        if found is not None and isinstance(found.attribute, classmethod):
            return descriptor_get(tx, type_lookup(self.cls, name), self)
        pending = tx.side_effects.load_attr(self, name)
        if pending is not None:
            if pending is tx.side_effects.DELETED:
                tx.raise_observed(AttributeError, f"'Tensor' object has no attribute '{name}'")
            return pending
        if name in CONSTANT_ATTRIBUTES:
            return self.metadata(tx, "size", []) if name == "shape" else self.constant_attribute(tx, name)
        if name in GRAPH_ATTRIBUTES:
            found = graph_call(tx, getattr, [self, tx.build(name)], {})
            if name == "data":
                tx.output.data_aliases.append(found.fake)
            return found
        if name == "__class__":
            return tx.build(self.cls)
        if name in tensor_state.STATE:
            return tensor_state.STATE[name](tx, self)
        if name == "grad_fn" and (not self.fake.requires_grad or self.source is None and self.fake.is_leaf):
            return tx.build(None)
        if found is not None and callable(getattr(torch.Tensor, name, None)):
            return self.own_attribute(tx, name) or BuiltinMethodVariable(self, name)
        if found is None:
            own = self.own_attribute(tx, name)
            if own is None:
                guard_lookup(tx, self.cls, name, None, None)
                tx.raise_observed(AttributeError, f"'{self.cls.__name__}' object has no attribute '{name}'")
            return own
        unsupported("tensor attribute", f"Tensor.{name} has no meaning inside a graph")

    def constant_attribute(self, tx, name):
        value = CONSTANT_ATTRIBUTES[name](self.fake)
        if name == "is_leaf" and self.fake.requires_grad and self.source is not None:
            tx.guard("equals", AttrSource(self.source, name), value)
        return graph_call(tx, getattr, [self, tx.build(name)], {}) if is_symbolic(value) else tx.build(value)

    def metadata(self, tx, name, arguments, keywords=None):
        """A method that asks for metadata: known, or where it is a symbolic size a graph operation for each number."""
        try:
            result = getattr(self.fake, name)(*arguments, **(keywords or {}))
        except Exception as error:
            operator_raised(tx, name, error)
        if name == "storage_offset":
            self.guard_storage_offset(tx)
        if is_symbolic(result):
            named = {key: tx.build(value) for key, value in (keywords or {}).items()}
            return graph_call(tx, name, [self, *map(tx.build, arguments)], named, op="call_method")
        if isinstance(result, tuple) and any(isinstance(number, torch.SymInt) for number in result):
            return tx.build_sequence(type(result), [self.metadata(tx, name, [d]) for d in range(len(result))])
        return tx.build(result)

    def guard_storage_offset(self, tx):
        """A graph works at any offset, until the program asks for that of an input, or of a view of one."""
        storage = self.fake.untyped_storage()._cdata
        for graph_input in tx.output.tensor_inputs():
            offset = graph_input.fake.storage_offset()
            if graph_input.fake.untyped_storage()._cdata == storage and not is_symbolic(offset):
                tx.guard("equals", CallSource(graph_input.source, torch.Tensor.storage_offset), offset)

    def own_attribute(self, tx, name):
        """What the user put on this very tensor (`tensor.__dict__`), or None; guarded either way."""
        if self.source is None:
            return None
        attributes = attributes_of(tx.output.input_value(self))
        if name in attributes:
            return tx.output.wrap(attributes[name], AttrSource(self.source, name)).realize()
        tx.guard("lacks_attribute", self.source, name)
        return None

    def var_setattr(self, tx, name, value):
        self.set_torch_attribute(tx, name, value)

    def set_torch_attribute(self, tx, name, value):
        value = value.realize()
        found = type_lookup(torch.Tensor, name)
        if found is not None and isinstance(found.attribute, types.GetSetDescriptorType) and is_overridden(tx, self):
            if dispatch(tx, found.attribute.__set__, [self, value], {}) is not None:
                return
        if name == "requires_grad" and value.is_python_constant():
            return graph_call(tx, "requires_grad_", [self, value], {}, op="call_method")
        if name == "grad" and self.source is not None and tensor_state.fits_as_gradient(self, value):
            return tx.side_effects.store_attr(self, name, value)
        if name == "data":
            return tensor_state.write_data(tx, self, value)
        if hasattr(torch.Tensor, name):
            unsupported("tensor attribute write", f"`tensor.{name} = ...` changes the tensor outside the graph")
        tx.side_effects.store_attr(self, name, value)

    # --- calls --------------------------------------------------------------------------------------
    def call_method(self, tx, name, args, kwargs):
        own = self.own_attribute(tx, name) if not name.startswith("__") else None
        return self.torch_method(tx, name, args, kwargs) if own is None else own.call_function(tx, args, kwargs)

    def torch_method(self, tx, name, args, kwargs):
        """A method of `torch.Tensor`."""
        args = [a.realize() for a in args]
        kwargs = {k: v.realize() for k, v in kwargs.items()}
        if is_overridden(tx, self, *args, *kwargs.values()) and hasattr(torch.Tensor, name):
            answer = dispatch(tx, getattr(torch.Tensor, name), [self, *args], kwargs)
            if answer is not None:
                return answer
        if name in tensor_state.MEMORY_METHODS:
            return tensor_state.answer_of_memory(tx, self, name, args or kwargs)
        if name in METADATA_METHODS and all(v.is_python_constant() for v in [*args, *kwargs.values()]):
            constants = [a.as_python_constant() for a in args]
            return self.metadata(tx, name, constants, {k: v.as_python_constant() for k, v in kwargs.items()})
        if name == "__format__" and self.fake.dim() == 0 and self.cls is torch.Tensor:
            return tensor_state.format_number(tx, self, args[0].as_python_constant())
        if name in BREAKING_METHODS:
            from .data_numbers import read

            return read(tx, self, name, args)
        handler = getattr(self, f"method_{name}", None)
        if handler is not None and takes(handler.__func__, self, tx, *args, **kwargs):
            return handler(tx, *args, **kwargs)
        if name in OPERATOR_METHODS and not kwargs:
            answer = tx.call(OPERATOR_METHODS[name], self, *args)
            return tx.build(NotImplemented) if answer.python_type() is bool else answer  # of `==`
        if not hasattr(torch.Tensor, name):
            return self.var_getattr(tx, name).call_function(tx, args, kwargs)
        if name in tensors.METHODS and isinstance(kwargs.get("value"), TensorVariable):
            return tx.inline(tensors.METHODS[name], [self, *args], kwargs)
        return graph_call(tx, name, [self, *args], kwargs, op="call_method")

    def method___len__(self, tx):
        if self.fake.dim() == 0:
            tx.raise_observed(TypeError, "len() of a 0-d tensor")
        return self.metadata(tx, "size", [0])

    def method___hash__(self, tx):
        return tx.call(hash, self)

    method___bool__ = truth

    def method_numpy(self, tx, *args, **kwargs):
        from .numpy_arrays import to_numpy

        return to_numpy(tx, self, *args, **kwargs)

    def method_new_tensor(self, tx, data, **kwargs):
        """A copy of the data, by itself of this dtype and on this device."""
        from .numpy_arrays import reading

        given = {"dtype": tx.build(self.fake.dtype), "device": tx.build(self.fake.device), **kwargs}
        if data.python_type() is numpy.ndarray:
            return reading(torch.tensor, copy=True)(tx, data, **given)
        return graph_call(tx, "new_tensor", [self, data], kwargs, op="call_method")

    def method___deepcopy__(self, tx, memo):
        if self.cls is torch.nn.Parameter:
            return tx.inline(torch.nn.Parameter.__deepcopy__, [self, memo])
        tensor_state.refuse_company(tx, self)
        return tx.inline(tensors.copied, [self, memo])

    def method_as_subclass(self, tx, cls):
        from .tensor_subclasses import make_subclass

        return make_subclass(tx, cls, self)

    def method_new(self, tx, *args, **kwargs):
        unsupported("torch call left to eager", "Tensor.new()", "use torch.empty_like or new_empty")

    def method_backward(self, tx, *args, **kwargs):
        unsupported("backward inside a compiled function", "Tensor.backward() runs autograd")

    def method_retain_grad(self, tx):
        unsupported("tensor attribute", "Tensor.retain_grad() is for a backward that runs after the graph")

    def method_register_hook(self, tx, hook):
        from .tensor_hooks import capture_hook

        if self.source is not None or not self.fake.requires_grad:
            unsupported("tensor hook", "register_hook on a tensor from outside of the graph")
        return capture_hook(tx, self, hook)

    def iterate(self, tx):
        return tx.build(iter).call_function(tx, [tx.build_tuple(self.unpack(tx))], {})

    def unpack(self, tx):
        if is_overridden(tx, self):
            return tx.inline(torch.Tensor.__iter__, [self]).unpack(tx)
        if self.fake.dim() == 0:
            tx.raise_observed(TypeError, "iteration over a 0-d tensor")
        return graph_call(tx, "unbind", [self], {}, op="call_method").unpack(tx)

    # --- how to have it again -----------------------------------------------------------------------
    def is_graph_output(self, output):
        """Whether it is just what the graph returns; else it is made of that, once."""
        return output.in_inference_mode or not self.fake.is_inference()

    def reconstruct(self, codegen):
        if self.is_graph_output(codegen.output):
            return codegen.load_graph_output(self.node)
        codegen.call(tensor_state.as_inference_tensor, self.node)

    def __repr__(self):
        return f"TensorVariable({self.node.name}: {str(self.fake.dtype)[6:]}{list(self.fake.shape)})"


CONSTANT_ATTRIBUTES = {
    name: operator.attrgetter(name)
    for name in "shape dtype device layout ndim requires_grad is_leaf is_mkldnn is_sparse is_sparse_csr is_quantized "
    "is_nested itemsize".split()
}
CONSTANT_ATTRIBUTES |= {
    f"is_{kind}": lambda t, kind=kind: t.device.type == kind for kind in ("cuda", "cpu", "meta", "mps", "xpu")
}
GRAPH_ATTRIBUTES = {"T", "mT", "H", "mH", "real", "imag", "data"}
METADATA_METHODS = {
    *("size dim ndimension numel nelement element_size stride storage_offset is_contiguous is_floating_point".split()),
    *("is_complex is_signed is_conj is_neg get_device is_inference type_as_string".split()),
}
OPERATOR_METHODS = {
    f"__{name}__": getattr(operator, name)
    for name in "add sub mul truediv floordiv mod pow matmul and_ or_ xor lshift rshift eq ne lt le gt ge neg invert "
    "abs getitem setitem iadd isub imul itruediv ifloordiv".split()
    if hasattr(torch.Tensor, f"__{name}__")
}


# --- graph operations -----------------------------------------------------------------------------------
def fake_of(argument):
    """The fake values behind the nodes of an argument."""
    return fx.node.map_arg(argument, lambda node: node.meta["example_value"])


def fake_arguments(args, kwargs):
    return fake_of(tuple(args)), fake_of(dict(kwargs))


def operator_raised(tx, name, error):
    """What it raises on a fake tensor, eager raises at the user's line."""
    if isinstance(error, GuardOnDataDependentSymNode):  # the translator says what had to be known
        raise error
    tx.output.operator_error = error
    unsupported("operator raised", f"{name} raised {type(error).__name__}: {error}")


def graph_call(tx, target, args, kwargs, op="call_function"):
    """Put `target(*args, **kwargs)` into the graph; op="call_method": target is a name.  Returns its tracker."""
    args = [a.realize() for a in args]
    kwargs = {k: v.realize() for k, v in kwargs.items()}
    tensor_state.refuse_handled_errors(tx)
    node_args = tuple(a.as_proxy() for a in args)
    node_kwargs = {k: v.as_proxy() for k, v in kwargs.items()}
    fake_args, fake_kwargs = fake_arguments(node_args, node_kwargs)
    function = getattr(fake_args[0], target) if op == "call_method" else target
    try:
        with (
            tx.output.fake_mode,
            tx.output.sizes.dispatcher(),
            OperatorWarnings(tx, target),
            tensor_state.watching_writes(tx.output),
        ):
            result = function(*(fake_args[1:] if op == "call_method" else fake_args), **fake_kwargs)
    except (DataDependentOutputException, DynamicOutputShapeException) as error:
        name = getattr(target, "__name__", target)
        unsupported("data-dependent operator", f"the result of {name} depends on data: {error}")
    except Exception as error:
        operator_raised(tx, getattr(target, "__name__", target), error)
    tx.output.sizes.locate(tx.output.user_location)
    tx.output.sizes.note_reads(tx.output.user_location)
    if result is not None and not comes_from_graph(result):
        if not is_metadata(result):  # but what the fake tensor is, as by `__reduce_ex__`
            unsupported("tensor attribute", f"{getattr(target, '__name__', target)} gives a {type(result).__name__}")
        return tx.build(result)  # a question about metadata: no operation
    node = tx.output.create_node(op, target, node_args, node_kwargs)
    # In-place and pass-through operations return their arguments: the same objects, so the same trackers.
    return wrap_result(tx, node, result, {id(t.fake): t for t in tensors_among([*args, *kwargs.values()])})


def is_metadata(result):
    return all(leaf is None or isinstance(leaf, METADATA) for leaf in tree_leaves(result))


METADATA = (int, float, complex, str, torch.Size, torch.dtype, torch.device, torch.layout, torch.memory_format)
METADATA += (torch.SymInt, torch.SymFloat, torch.SymBool)  # of a known value


def comes_from_graph(result):
    return any(isinstance(leaf, torch.Tensor) or is_symbolic(leaf) for leaf in tree_leaves(result))


def tensors_among(trackers):
    """The tensors, also those in lists and tuples."""
    for tracker in trackers:
        if isinstance(tracker, TensorVariable):
            yield tracker
        elif tracker.python_type() in (list, tuple):
            yield from tensors_among([item.realize() for item in tracker.children()])


def wrap_result(tx, node, result, known=()):
    """The tracker of what a graph operation returned: a tensor, a tuple, list or dict of such, or a constant.

    known: id of a fake tensor -> its tracker, for results that are not new.
    """
    node.meta["example_value"] = result
    if isinstance(result, torch.Tensor):
        if result.layout is not torch.strided:
            unsupported("unusual tensor", f"{node.name} is a tensor with layout {result.layout}")
        return known[id(result)] if id(result) in known else TensorVariable(node, result)
    if isinstance(result, (tuple, list)):
        items = []
        for index, element in enumerate(result):
            if element is None or isinstance(element, (int, float, bool, torch.dtype)):
                items.append(tx.build(element))
                continue
            item = tx.output.create_node("call_function", operator.getitem, (node, index))
            items.append(wrap_result(tx, item, element, known))
        return tx.build_sequence(list if isinstance(result, list) else type(result), items)
    if isinstance(result, dict):
        keys = {key: tx.output.create_node("call_function", operator.getitem, (node, key)) for key in result}
        return tx.build_dict({key: wrap_result(tx, item, result[key], known) for key, item in keys.items()})
    if isinstance(result, types.FunctionType):
        from .higher_order import GraphValueVariable

        return GraphValueVariable(node)
    if is_symbolic(result):
        return SymNodeVariable(tx.output, node, result)
    return tx.build(result)
