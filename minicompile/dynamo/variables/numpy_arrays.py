"""NumPy during capture: an array is a tensor of the graph, and `torch._numpy` does in the graph what NumPy's code does.

Goes in: existing arrays and numpy's numbers, `tensor.numpy()`, calls of numpy's functions and of methods of arrays.
Comes out: a folded constant where everything is known, else one graph node.  NumPy itself is asked what comes out
(array or number, dtype, shape, layout, whose memory), on an example of the same shape: where the graph's result is
another, the graph breaks.
Mirrors NumpyNdarrayVariable and NumpyVariable in `torch/_dynamo/variables`.  Taught in chapter 06.
"""

import functools
import warnings

import numpy
import torch
import torch._numpy
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
from torch.utils import _pytree as pytree

from ..builder import guarded, wraps, wraps_if
from ..custom_gradient import with_layout
from ..source import AttrSource, CallSource
from .base import unsupported
from .constant import BINARY_METHODS, BuiltinObject, ConstantVariable
from .iterators import IndexIterator
from .tables import BREAKING_METHODS
from .tensor import TensorVariable, graph_call

NAMESPACES = ((numpy, torch._numpy), (numpy.linalg, torch._numpy.linalg), (numpy.fft, torch._numpy.fft))
IN_TORCH = {  # function of numpy -> the one of torch._numpy
    getattr(ours, name): getattr(theirs, name)
    for ours, theirs in NAMESPACES
    for name in dir(theirs)
    if name[0] != "_" and callable(getattr(ours, name, None)) and not isinstance(getattr(ours, name), type)
}
FUNCTION_TYPES = (numpy.ufunc, type(numpy.mean))
METADATA = ("shape", "ndim", "size", "itemsize", "nbytes", "strides", "dtype")
VIEWS = ("T", "real", "imag")
NUMBERS = (int, float, complex)  # which may name a dtype, as bool may
LARGEST = 10**7  # elements of an example


# --- what the graph calls, and what the new bytecode calls --------------------------------------------------
@functools.cache
def in_graph(function, name):
    """A function of torch._numpy, from tensors to tensors."""

    def call(*args, **kwargs):
        args, kwargs = pytree.tree_map_only(torch.Tensor, torch._numpy.ndarray, (args, kwargs))
        return pytree.tree_map_only(torch._numpy.ndarray, lambda array: array.tensor, function(*args, **kwargs))

    call.__name__ = call.__qualname__ = f"numpy_{name}"
    return call


@functools.cache
def method(name):
    """A method of arrays as a function."""
    return lambda array, *args, **kwargs: getattr(array, name)(*args, **kwargs)


@functools.cache
def attribute(name):
    return lambda array: getattr(array, name)


def tensor_of(array):
    return torch.from_numpy(array)


def checked_tensor(array):
    try:
        return tensor_of(array)
    except (TypeError, ValueError) as error:
        unsupported("unusual tensor", f"an array that is no tensor: {error}")


def array_of(tensor):
    return tensor.resolve_conj().resolve_neg().numpy()


def number_of(tensor):
    return array_of(tensor)[()]


# --- trackers ---------------------------------------------------------------------------------------------
class NumpyArrayVariable(BuiltinObject):
    """`tensor`: the tracker of the tensor with its elements.  is_number: it is a number of numpy's (`np.float64`)."""

    has_identity = True

    def __init__(self, tensor, is_number=False, source=None):
        super().__init__(source)
        self.tensor, self.is_number = tensor, is_number
        self.shape = tuple(int(size) for size in tensor.fake.shape)

    def python_type(self):
        return self.example().dtype.type if self.is_number else numpy.ndarray

    def example(self):
        """An array (or a number) of the same kind; integers are zeros, so that they are good as indices."""
        fake = self.tensor.fake
        if fake.numel() > LARGEST:
            unsupported("large container", f"an array of {fake.numel():,} elements")
        strides = tuple(map(int, fake.stride()))
        size = 1 + sum((n - 1) * step for n, step in zip(self.shape, strides) if n)
        with temporarily_clear_interpreter_stack():  # no vmap of the program's is to see this
            memory = torch.zeros(size, dtype=fake.dtype)
            if fake.dtype.is_floating_point or fake.dtype.is_complex:
                numbers = torch.view_as_real(memory) if fake.dtype.is_complex else memory
                numbers.uniform_(0.5, 1.5, generator=torch.Generator())
            example = memory.as_strided(self.shape, strides).numpy()
        return example[()] if self.is_number else example

    def var_getattr(self, tx, name):
        if name in METADATA:
            return tx.build(getattr(self.example(), name))
        if name in VIEWS:
            return call_numpy(tx, attribute(name), attribute(name), name, [self], {})
        return super().var_getattr(tx, name)

    def call_method(self, tx, name, args, kwargs):
        if name in BREAKING_METHODS:
            unsupported(BREAKING_METHODS[name], f"`{name}` of an array needs its elements")
        handler = getattr(self, f"method_{name}", None)
        if handler is not None:
            return handler(tx, *args, **kwargs)
        if not hasattr(torch._numpy.ndarray, name) or name == "resize":  # which looks at who else refers to the array
            unsupported("method written in C", f"`{name}` of an array")
        return call_numpy(tx, method(name), method(name), name, [self, *args], kwargs)

    def truth(self, tx):
        unsupported("data-dependent branch", "the program branches on the elements of an array")

    def method___len__(self, tx):
        if not self.shape:
            tx.raise_observed(TypeError, "len() of unsized object")
        return ConstantVariable(self.shape[0])

    def iterate(self, tx):
        return IndexIterator(self, 0, 1) if self.shape else self.unpack(tx)

    def unpack(self, tx):
        if not self.shape:
            tx.raise_observed(TypeError, "iteration over a 0-d array")
        return [self.call_method(tx, "__getitem__", [tx.build(index)], {}) for index in range(self.shape[0])]

    def reconstruct(self, codegen):
        codegen.call(number_of if self.is_number else array_of, self.tensor)

    def __repr__(self):
        return f"NumpyArrayVariable({self.tensor!r})"


class NumpyConstantVariable(ConstantVariable):
    """A number or a dtype of numpy's that is known."""

    def call_method(self, tx, name, args, kwargs):
        """No other operand is a stranger to NumPy, which makes an array, or a dtype, of it."""
        strangers = [a for a in args if not (tx.can_fold(None, [a], {}) or isinstance(a.realize(), NumpyArrayVariable))]
        if name in BINARY_METHODS and strangers:
            unsupported("function written in C", f"`{name}` of a number of numpy's and {strangers[0]}")
        return super().call_method(tx, name, args, kwargs)


class NumpyNumberVariable(NumpyConstantVariable):
    """Torch takes it for a Python number."""

    def as_proxy(self):
        if isinstance(self.value, (numpy.bool_, numpy.complex64)):  # which torch reads as a float
            unsupported("operator argument", f"a {type(self.value).__name__} of numpy's")
        return self.value.item()

    def as_item(self):
        if type(self.value) is not numpy.int64:  # torch makes a tensor of this dtype of the list, or refuses it
            unsupported("operator argument", f"a {type(self.value).__name__} of numpy's in a list or tuple")
        return self.value.item()


# --- calls ------------------------------------------------------------------------------------------------
class Arguments:
    """The arguments of a call as NumPy takes them, as examples, and as the graph takes them."""

    def __init__(self, tx, name):
        self.tx, self.name = tx, name
        self.arrays = []  # (tracker, its example)

    def of(self, tracker):
        """(example, tracker for the graph)."""
        tracker = tracker.realize()
        if isinstance(tracker, NumpyArrayVariable):
            known = [example for array, example in self.arrays if array is tracker]
            example = known[0] if known else tracker.example()
            self.arrays.append((tracker, example))
            return example, tracker.tensor
        if isinstance(tracker, NumpyNumberVariable):
            return tracker.value, self.tx.build(checked_tensor(numpy.asarray(tracker.value)))
        if tracker.python_type() in (list, tuple):
            pairs = [self.of(item) for item in tracker.unpack(self.tx)]
            items = [graph for _, graph in pairs]
            return tracker.python_type()(e for e, _ in pairs), self.tx.build_sequence(tracker.python_type(), items)
        if not self.tx.can_fold(None, [tracker], {}):
            unsupported("function written in C", f"numpy's {self.name} of {tracker}")
        value = tracker.as_python_constant()
        if isinstance(value, type) and issubclass(value, numpy.generic) and value.__subclasses__():
            unsupported("function written in C", f"numpy's {self.name} of the abstract {value.__name__}")
        if isinstance(value, numpy.dtype) or isinstance(value, type) and issubclass(value, (numpy.generic, *NUMBERS)):
            return value, self.tx.build(numpy.dtype(value).name)
        return value, tracker

    def check(self, same, what):
        if not same:
            unsupported("function written in C", f"numpy's {self.name} gives another {what} than torch's")

    def result(self, expected, found):
        """The tracker of what NumPy calls `expected` and the graph `found`."""
        known = [tracker for tracker, example in self.arrays if example is expected]
        if known:
            return known[0]
        found = found.realize()
        if isinstance(expected, (tuple, list)):
            items = found.unpack(self.tx)
            self.check(len(items) == len(expected), "number of results")
            return self.tx.build_sequence(type(expected), map(self.result, expected, items))
        if not isinstance(expected, (numpy.ndarray, numpy.generic)):
            constant = found.is_python_constant() and found.as_python_constant() == expected
            self.check(constant, "result")
            return self.tx.build(expected)
        self.check(isinstance(found, TensorVariable), "result")
        return self.array(expected, found)

    def array(self, expected, found):
        fake, is_number = found.fake, isinstance(expected, numpy.generic)
        self.check(tuple(fake.shape) == expected.shape, "shape")
        self.check(checked_tensor(numpy.empty(0, expected.dtype)).dtype is fake.dtype, "dtype")
        storages = [tracker.tensor.fake.untyped_storage()._cdata for tracker, _ in self.arrays]
        shared = [storage == fake.untyped_storage()._cdata for storage in storages]
        wanted = [not is_number and numpy.may_share_memory(expected, example) for _, example in self.arrays]
        if any(shared) and not any(wanted):  # NumPy has read it
            found = graph_call(self.tx, "clone", [found], {}, op="call_method")
        else:
            self.check(shared == wanted, "memory")
        if not is_number:
            found = self.laid_out(expected, found, any(wanted))
        return NumpyArrayVariable(found, is_number)

    def laid_out(self, expected, found, is_view):
        """The tensor with the strides that NumPy's array has, where these make a difference."""
        strides = tuple(step // expected.itemsize for step in expected.strides)
        pairs = zip(expected.shape, strides, found.fake.stride())
        if all(ours == theirs for size, ours, theirs in pairs if size > 1) or expected.size == 0:
            return found
        self.check(not is_view and min(strides) >= 0, "layout")
        return graph_call(self.tx, with_layout, [found, self.tx.build(strides)], {})


def call_numpy(tx, function, counterpart, name, args, kwargs):
    """A call of NumPy's `function`, for which `counterpart` of torch._numpy stands in the graph."""
    arguments = Arguments(tx, name)
    pairs, named = list(map(arguments.of, args)), {key: arguments.of(value) for key, value in kwargs.items()}
    try:
        with warnings.catch_warnings(), numpy.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            expected = function(*(e for e, _ in pairs), **{key: e for key, (e, _) in named.items()})
    except Exception as error:  # of the example, or of any array: eager will tell
        unsupported("operator raised", f"numpy's {name} raised {type(error).__name__}: {error}")
    if expected is NotImplemented:
        return tx.build(expected)
    leaves = pytree.tree_leaves(expected)
    if not arguments.arrays and not any(isinstance(leaf, numpy.ndarray) for leaf in leaves):
        return tx.build(expected)
    target, operands = in_graph(counterpart, name), [g for _, g in pairs]
    if isinstance(function, numpy.ufunc) or name in DIVISIONS:
        operands = as_floats(tx, operands, expected)
    found = graph_call(tx, target, operands, {key: g for key, (_, g) in named.items()})
    return arguments.result(expected, found)


DIVISIONS = ("__truediv__", "__rtruediv__")


def as_floats(tx, operands, expected):
    """The operands of a function of single numbers: NumPy makes floats of integers before it computes floats."""
    if not isinstance(expected, numpy.ndarray | numpy.generic) or expected.dtype.kind not in "fc":
        return operands
    dtype = checked_tensor(numpy.empty(0, expected.dtype)).dtype
    tensors = [operand for operand in operands if isinstance(operand, TensorVariable)]
    if any(tensor.fake.dtype.is_floating_point or tensor.fake.dtype.is_complex for tensor in tensors):
        return operands
    arguments = [tx.build(dtype)]
    return [graph_call(tx, "to", [o, *arguments], {}, op="call_method") if o in tensors else o for o in operands]


def numpy_function(function, counterpart):
    def handler(tx, /, *args, **kwargs):
        return call_numpy(tx, function, counterpart, function.__name__, args, kwargs)

    return handler


def make_array(function, counterpart):
    """`numpy.array` and `numpy.asarray`, which take tensors too."""

    def handler(tx, value, /, *args, **kwargs):
        value = value.realize()
        if isinstance(value, TensorVariable):
            value = to_numpy(tx, value)
        return call_numpy(tx, function, counterpart, function.__name__, [value, *args], kwargs)

    return handler


HANDLERS = {
    **{function: numpy_function(function, counterpart) for function, counterpart in IN_TORCH.items()},
    **{function: make_array(function, IN_TORCH[function]) for function in (numpy.array, numpy.asarray)},
}


# --- between tensors and arrays -----------------------------------------------------------------------------
def to_numpy(tx, tensor, *args, **kwargs):
    """`tensor.numpy()`: the same memory; whatever is unusual about it, eager may refuse."""
    fake = tensor.fake
    unusual = args or kwargs or fake.requires_grad or fake.device.type != "cpu" or fake.is_conj() or fake.is_neg()
    inside = torch._C._functorch.is_functorch_wrapped_tensor(fake)  # of a transform, where it has no memory
    if unusual or inside or fake.dtype not in DTYPES:
        unsupported("tensor read as a list or array", f"Tensor.numpy() of {tensor}")
    return NumpyArrayVariable(graph_call(tx, "detach", [tensor], {}, op="call_method"))


DTYPES = {getattr(torch, name) for name in "bool uint8 int8 int16 int32 int64 float16 float32 float64".split()}
DTYPES |= {torch.complex64, torch.complex128}


def from_numpy(tx, array):
    array = array.realize()
    if not isinstance(array, NumpyArrayVariable) or array.is_number:
        unsupported("torch call left to eager", f"torch.from_numpy of {array}")
    return graph_call(tx, "detach", [array.tensor], {}, op="call_method")


def reading(function, copy):
    """torch.as_tensor and torch.tensor, which take arrays too."""

    def read(tx, data, **kwargs):
        data = data.realize()
        if isinstance(data, NumpyNumberVariable):
            kwargs["dtype"] = tx.fold(lambda data, **named: function(data, **named).dtype, [data], kwargs)
        if not isinstance(data, NumpyArrayVariable) or data.is_number or set(kwargs) - {"dtype", "device"}:
            return graph_call(tx, function, [data], kwargs)
        tensor = graph_call(tx, "clone" if copy else "detach", [data.tensor], {}, op="call_method")
        return graph_call(tx, "to", [tensor], kwargs, op="call_method") if kwargs else tensor

    return read


# --- existing values ----------------------------------------------------------------------------------------
@wraps(numpy.ndarray)
def wrap_array(output, value, source):
    if source is None or not value.flags.writeable or value.dtype.hasobject:
        unsupported("unusual tensor", "a read-only array, or one of objects")
    tensor = checked_tensor(value)
    output.array_sources.append(source)
    output.guard("type", source, numpy.ndarray)
    output.guard("equals", AttrSource(AttrSource(source, "flags"), "writeable"), True)
    return NumpyArrayVariable(output.wrap(tensor, CallSource(source, tensor_of)), False, source)


@wraps_if(lambda value: issubclass(type(value), numpy.generic), order=8)
def wrap_number(output, value, source):
    output.guard("type", source, type(value))
    output.guard(
        "equals", source and CallSource(source, repr), repr(value)
    )  # tells 0.0 from -0.0, and NaN from nothing
    return NumpyNumberVariable(value, source)


wraps_if(lambda value: issubclass(type(value), numpy.dtype), order=8)(guarded("equals", NumpyConstantVariable))
