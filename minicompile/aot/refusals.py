"""Numbers and dtypes that kernels refuse: `clamp` of an int8 tensor to 300, `celu` with alpha 0, `abs` of bools.

Goes in: an operator and its arguments, while the graph is traced.  Comes out: nothing, or `Unsupported`: the frame
runs in eager, which raises what it raises.  Decompositions and loops would compute on, because such checks stand in
the kernels.  So the kernel itself is asked, with one element for every tensor.
Mirrors nothing in PyTorch.  Taught in chapter 08.
"""

import functools
import re

import torch
from torch._dispatch.python import no_python_dispatcher
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.utils._python_dispatch import _disable_current_modes

from ..errors import Unsupported

NUMBERS = ("number", "float")  # types, in schemas, of the numbers that kernels look at
HARMLESS = ("dim", "reduction")  # integers that mean the same for one element
SMALL = ("size", "pad")  # lists that can be of ones
ALONE = "s"  # a number that is made a tensor
# How kernels speak of dtypes; what else they say of one element need not be true of the whole tensor.
OF_DTYPES = re.compile("not implemented for|can't be cast|not support|[Dd]type|scalar type|Boolean|[Bb]ool tensor")


@functools.cache
def places_of_numbers(op):
    """The places of its numbers, or None where one element would not stand for the whole tensor."""
    if op.namespace != "aten" or op.is_view or torch.Tag.nondeterministic_seeded in op.tags:
        return None
    if any(argument.name == "correction" for argument in op._schema.arguments):
        return None  # any is taken, but kernels warn that one is too few, heard when the call around the trace ends
    numbers = []
    for place, argument in enumerate(op._schema.arguments):
        kind = str(argument.real_type).removeprefix("Optional[").removesuffix("]").removesuffix("?").lower()
        if kind in NUMBERS:
            numbers.append(place)
        elif kind in ("int", "symint") and argument.name not in HARMLESS:
            return None
        elif kind.startswith("list") and argument.name not in (*SMALL, "dim"):
            return None
    has_tensor = any("Tensor" in str(a.real_type) or a.name in (*SMALL, ALONE) for a in op._schema.arguments)
    return tuple(numbers) if has_tensor else None


def check_arguments(op, args, kwargs):
    """Raise Unsupported if eager's kernel refuses the numbers among the arguments, or the dtypes of tensors."""
    places = places_of_numbers(op)
    if places is None:
        return
    names = [op._schema.arguments[place].name for place in places]
    given = [args[place] for place in places if place < len(args)] + [kwargs[n] for n in names if n in kwargs]
    options = {name: value for name, value in kwargs.items() if name != "device"}
    everything = (*args, *options.values())
    on_cpu = any(type(x) is FunctionalTensor and x.device.type == "cpu" for x in everything)
    if all(number is None or isinstance(number, int | float) for number in given) and (given or on_cpu):
        message = refusal(op, tuple(map(sample_key, args)), tuple((n, sample_key(v)) for n, v in options.items()))
        if message is not None and (on_cpu if OF_DTYPES.search(message) else given):
            raise Unsupported("number or dtype that an operator refuses", f"{op} raises: {message}")


def sample_key(argument):
    """What decides whether a kernel takes it: the dtype and rank of a tensor, the type and value of a number."""
    if isinstance(argument, torch.Tensor):
        return torch.Tensor, argument.dtype, argument.dim()
    if isinstance(argument, list | tuple):
        return list, tuple(each if type(each) is int else 1 for each in argument)
    if isinstance(argument, torch.SymInt | torch.SymFloat | torch.SymBool):
        return bool if isinstance(argument, torch.SymBool) else int, 1  # a tensor's place may have it
    return type(argument), repr(argument) if isinstance(argument, float) else argument


def sample(key):
    if key[0] is torch.Tensor:
        return torch.zeros([1] * key[2], dtype=key[1])
    if key[0] is list:
        return list(key[1])
    return float(key[1]) if key[0] is float else key[1]


@functools.lru_cache(4096)
def refusal(op, arguments, options):
    """The message of the exception that the kernel raises for arguments of this kind, or None."""
    with _disable_current_modes(), no_python_dispatcher(), torch.no_grad():
        args = [sample(key) for key in arguments]
        for place, argument in enumerate(op._schema.arguments[: len(args)]):
            if argument.name in SMALL:
                args[place] = [1] * len(args[place])
        try:
            op(*args, **{name: sample(key) for name, key in options})
        except (RuntimeError, TypeError, ValueError, IndexError) as error:
            return str(error).split("\n")[0]
    return None


TWO_TYPES = (
    "parameter under autocast of two types",
    "inside of one autocast block another one wants a type of a parameter that was cast already, which autocast reuses",
    "do not nest blocks of two types around the same layers",
)


class Casts:
    """Autocast keeps a parameter as it cast it first, until the outermost block ends: the trace does not."""

    def __init__(self):
        self.types = {}  # id of a parameter -> the type that an operator under autocast took it in
        self.keeps = True  # the trace itself switches this off

    def switch(self, target, args):
        if target is torch.clear_autocast_cache:
            self.types.clear()
        if target is torch.set_autocast_cache_enabled:
            self.keeps = args[0]

    def note(self, tensors):
        for tensor in tensors if self.keeps and torch._C._is_any_autocast_enabled() else ():
            trains = isinstance(tensor, torch.Tensor) and tensor.requires_grad and tensor.dtype is torch.float32
            if trains and torch.is_autocast_enabled(tensor.device.type):
                dtype = torch.get_autocast_dtype(tensor.device.type)
                if self.types.setdefault(id(tensor), dtype) is not dtype:
                    raise Unsupported(*TWO_TYPES)
