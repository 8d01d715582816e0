"""Existing tensors, and tensors of classes that derive from torch.Tensor: plain in the graph, a class around it.

Goes in: existing ones, and those that the program makes (`as_subclass`, `_make_subclass`, a `__new__` that ends there).
Comes out: a graph input; attributes and methods of the class, looked up as of any object; what is torch's own goes to
`__torch_function__` first, see overrides.py.  A class with a `__torch_dispatch__` of its own breaks the graph.
Mirrors TensorWithTFOverrideVariable of `torch/_dynamo/variables/torch_function.py`.  Taught in chapter 06.
"""

import torch
from torch._subclasses.fake_tensor import FakeTensor

from ..builder import wraps, wraps_if
from ..guard_checks import tensor_properties
from ..skip_files import attributes_of
from .base import unsupported
from .constant import FALSE, NONE
from .descriptors import class_lookup, descriptor_get, descriptor_set, is_data_descriptor, type_lookup
from .overrides import overrides_torch
from .tensor import PLAIN_TENSOR_TYPES, TensorVariable, graph_call
from .torch_functions import make_tensor

TORCH_CLASSES = {*torch.Tensor.__mro__, *PLAIN_TENSOR_TYPES}
NO_DISPATCH = (None, torch.Tensor.__dict__.get("__torch_dispatch__"), torch._C._disabled_torch_dispatch_impl)


def is_capturable(cls):
    """Whether its tensors are plain tensors below `__torch_function__`."""
    dispatch = type_lookup(cls, "__torch_dispatch__")
    uninitialized = issubclass(cls, torch.nn.parameter.UninitializedTensorMixin)
    return not uninitialized and (dispatch is None or dispatch.owner in TORCH_CLASSES)


def variable_class_of(cls):
    return TensorVariable if cls in PLAIN_TENSOR_TYPES else TensorSubclassVariable


class TensorSubclassVariable(TensorVariable):
    """A tensor of a class of the user's."""

    def has_torch_function(self):
        return overrides_torch(self.cls)

    def var_getattr(self, tx, name):
        found = class_lookup(tx, self.cls, name)
        if found is None or found.owner in TORCH_CLASSES:
            return self.torch_attribute(tx, name)
        if not is_data_descriptor(found.attribute):
            stored = self.stored_attribute(tx, name)
            if stored is not None:
                return stored
        return descriptor_get(tx, found, self)

    def stored_attribute(self, tx, name):
        """What the tensor itself has under a name that its class has too."""
        pending = tx.side_effects.load_attr(self, name)
        if pending is not None:
            return None if pending is tx.side_effects.DELETED else pending
        if self.source is None:
            return None
        if name in attributes_of(tx.output.input_value(self)):
            return self.own_attribute(tx, name)
        tx.guard("lacks_attribute", self.source, name)
        return None

    def var_setattr(self, tx, name, value):
        found = class_lookup(tx, self.cls, name)
        hook = type_lookup(self.cls, "__setattr__")
        if hook.owner not in TORCH_CLASSES:
            descriptor_get(tx, hook, self).call_function(tx, [tx.build(name), value], {})
        elif found is None or found.owner in TORCH_CLASSES or not descriptor_set(tx, found, self, value):
            self.set_torch_attribute(tx, name, value)

    def call_method(self, tx, name, args, kwargs):
        found = class_lookup(tx, self.cls, name)
        if found is None or found.owner in TORCH_CLASSES:
            return self.torch_method(tx, name, args, kwargs)
        return descriptor_get(tx, found, self).call_function(tx, list(args), kwargs)

    def call_descriptor(self, tx, descriptor, args, kwargs):
        if descriptor is object.__init__:
            return NONE  # `__new__` has looked at the arguments
        if descriptor is object.__setattr__:
            self.set_torch_attribute(tx, args[0].as_python_constant(), args[1])
            return NONE
        return self.torch_method(tx, descriptor.__name__, args, kwargs)

    def is_graph_output(self, output):
        return False

    def reconstruct(self, codegen):
        if self.fake.is_leaf and self.fake.requires_grad:
            unsupported("tensor subclass", f"a {self.cls.__name__} that is a leaf would be no leaf behind the graph")
        codegen.call(torch.Tensor.as_subclass, self.node, self.cls)


def as_class(tensor, cls):
    """A new tensor of the graph, as one of the class."""
    if not is_capturable(cls) or issubclass(cls, torch.nn.Parameter):
        unsupported("tensor subclass", f"a {cls.__name__} is made, which runs its own code for each operation")
    return variable_class_of(cls)(tensor.node, tensor.fake, None, cls)


def make_subclass(tx, cls, tensor):
    """`tensor.as_subclass(cls)`: the same memory, and for autograd a view."""
    return as_class(graph_call(tx, torch.ops.aten.alias.default, [tensor], {}), cls.realize().as_python_constant())


def make_detached(tx, cls, tensor, requires_grad=FALSE):
    """`torch.Tensor._make_subclass(cls, tensor, requires_grad)`."""
    tensor = graph_call(tx, "detach", [tensor], {}, op="call_method")
    if tx.truth(requires_grad):
        tensor = graph_call(tx, "requires_grad_", [tensor], {}, op="call_method")
    return as_class(tensor, cls.realize().as_python_constant())


def new_tensor(tx, cls, args, kwargs):
    """`torch.Tensor.__new__(cls, ...)`."""
    return as_class(make_tensor(tx, *args, **kwargs), cls)


HANDLERS = {torch.Tensor._make_subclass: make_detached}


# --- existing tensors -----------------------------------------------------------------------------------
def wrap_tensor(output, value, source):
    """A tensor of the outside world becomes a graph input (or, with no source, a constant of the graph)."""
    with torch._C.DisableTorchFunctionSubclass():  # its attributes are read, and no code of its class runs
        return wrap_plainly_read(output, value, source)


def wrap_plainly_read(output, value, source):
    if not is_capturable(type(value)):
        unsupported("tensor subclass", f"{type(value).__name__} runs its own code for each operation")
    if isinstance(value, FakeTensor):
        unsupported("unusual tensor", "a fake tensor of another mode")
    if value._is_zerotensor():
        unsupported("unusual tensor", "a gradient of zeros that has no memory")
    whole = value._base if value._is_view() else value
    if whole.layout is not torch.strided or whole.is_quantized or whole.is_nested:
        unsupported("unusual tensor", f"a tensor with layout {whole.layout}")
    if torch._C._functorch.is_functorch_wrapped_tensor(value):
        unsupported("unusual tensor", "a tensor inside a functorch transform")
    if value._is_view():
        refuse_lost_history(value)
    variable_class = variable_class_of(type(value))
    if source is None and variable_class is not TensorVariable:
        unsupported("tensor subclass", f"a constant {type(value).__name__}")
    if source is None:
        node, fake = output.add_constant(value)
        node.meta["example_value"] = fake
        return output.remember(value, TensorVariable(node, fake))
    node, fake = output.add_input(value, source)
    output.guard("tensor", source, tensor_properties(value, fake))
    return variable_class(node, fake, source, type(value))


def refuse_lost_history(view):
    """One of several views that an operator returned, of a tensor that was written to since: autograd refuses it."""
    try:
        view.grad_fn  # noqa: B018 (made anew here, after a write)
    except RuntimeError as error:
        unsupported("unusual tensor", str(error))


wraps(*PLAIN_TENSOR_TYPES)(wrap_tensor)
wraps_if(lambda value: issubclass(type(value), torch.Tensor), order=5)(wrap_tensor)
