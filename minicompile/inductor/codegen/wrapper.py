"""The wrapper: readable Python that allocates, calls kernels and frees.  The file to open to see what a function
became.

Goes in: a `Schedule`, a `MemoryPlan`, and a function that generates kernels for a target.  Comes out: a `Source`.
Mirrors `torch/_inductor/codegen/wrapper.py`.  Taught in chapter 11.
"""

import dataclasses
import functools
import math
import operator

import sympy
import torch
from torch.utils._sympy.printers import PythonPrinter

from ... import philox
from .. import graph
from ..floats import FloatValue
from ..indexing import hint
from ..ir import MultiOutput, View, short
from ..memory import HUGE, KEPT, is_large, out_variant
from . import _launch, _memory, random_draws

DTYPES = (*graph.DTYPES, torch.complex64, torch.complex128)


@dataclasses.dataclass
class Source:
    """Generated code:

    `python` is the wrapper, `kernels` the file with the kernels; `counts`: how many buffers and
    numbers each run of kernels takes.
    """

    target: str
    python: str
    kernels: str
    counts: dict
    constants: dict
    kernel_names: list
    prelude: str = ""

    def __str__(self):
        return f"{self.kernels.removeprefix(self.prelude)}\n{self.python}"

    __repr__ = __str__


def text_of(value):
    """A Python expression for an argument of an ATen call."""
    if isinstance(value, sympy.Basic):
        return PythonPrinter().doprint(value)
    if isinstance(value, (View, FloatValue)):
        return str(value)
    if isinstance(value, (list, tuple)):
        inside = ", ".join(map(text_of, value))
        return f"[{inside}]" if isinstance(value, list) else f"({inside}{',' if len(value) == 1 else ''})"
    if isinstance(value, complex):  # its own text loses the signs of zeros
        return f"complex({text_of(value.real)}, {text_of(value.imag)})"
    if isinstance(value, float) and value != value or value in (float("inf"), float("-inf")):
        return f'float("{value}")'
    if isinstance(value, torch._ops.OpOverload):
        return overload_text(value)
    if isinstance(value, torch.device):
        return f'torch.device("{value}")'
    return repr(value)


def numbers(values):
    return text_of(tuple(values))


@dataclasses.dataclass
class Run:
    """A run of kernels between two ATen calls: one function of buffers, then of numbers that depend on symbolic sizes.

    calls: (kernel, its buffers, its numbers).
    """

    name: str
    buffers: list
    numbers: list
    calls: list


@dataclasses.dataclass
class Generated:
    """wrapper;

    texts: kernel text -> name; runs: the Runs; types: kernel -> parameter types.
    """

    wrapper: object
    texts: dict
    runs: list
    types: dict


class Wrapper:
    """Writes the body of `call`."""

    def __init__(self, schedule, plan):
        self.schedule, self.plan, self.graph = schedule, plan, schedule.graph
        self.layouts, self.lines = schedule.graph.layouts, []
        self.written = set()  # buffers whose tensor counts a write, by an operator's `out=`
        self.devices = set()  # numbers of the GPUs on which buffers are allocated

    def line(self, text):
        self.lines.append("    " + text)

    def view(self, view):
        """A view of a buffer, as an expression."""
        layout, base = view.layout, self.layouts[view.buffer]
        if (layout.size, layout.stride, layout.offset) == (base.size, base.stride, 0):
            return view.buffer
        return f"view({view.buffer}, {numbers(layout.size)}, {numbers(layout.stride)}, {text_of(layout.offset)})"

    def allocate(self, k):
        for name, old in self.plan.allocate[k]:
            layout = self.layouts[name]
            dtype, where = short(layout.dtype), f"{numbers(layout.size)}, {numbers(layout.stride)}"
            if old is not None:
                same = layout == self.layouts[old]
                self.written |= {name} if same and old in self.written else set()
                text = f"{old if same else f'view({old}, {where}, 0)'}  # in its memory"
            elif name in self.plan.places:
                text = f"view(block.{dtype}, {where}, {self.plan.places[name] // layout.dtype.itemsize})"
            elif layout.device.type == "cuda":
                self.devices.add(layout.device.index or 0)
                text = f"empty_{layout.device.index or 0}({where}, {dtype})"
            elif layout.device.type != "cpu":
                text = f'empty({where}, {dtype}, "{layout.device}")'
            else:
                text = f"{'empty_large' if hint(layout.nbytes()) >= HUGE else 'empty_cpu'}({where}, {dtype})"
            self.line(f"{name} = {text}")

    def free(self, names):
        if names:
            self.line(f"del {', '.join(names)}")

    def extern(self, buffer):
        """An ATen call, into memory that the plan allocated where the operator can write there."""
        data = buffer.data
        if isinstance(data, MultiOutput):
            self.line(f"{buffer.name} = {self.fixed(f'{data.source}[{data.path}]', buffer.layout)}")
            return
        args, kwargs = torch.utils._pytree.tree_map_only(View, lambda v: Raw(self.view(v)), (data.args, data.kwargs))
        parts = [text_of(a) for a in args] + [f"{name}={text_of(value)}" for name, value in kwargs.items()]
        if data.kind == "extern" and buffer.name in self.plan.storage:
            overload, name = out_variant(data.target)
            self.written.add(buffer.name)
            self.line(f"{overload_text(overload)}({', '.join([*parts, f'{name}={buffer.name}'])})")
            return
        call = f"{overload_text(data.target)}({', '.join(parts)})"
        if data.binds:  # before the strides, which may be made of them
            self.line(f"{buffer.name} = {call}")
            self.lines += [f"    {symbol} = {buffer.name}{place}" for symbol, place in data.binds]
            call = buffer.name
        if buffer.layout or not data.binds:
            self.line(f"{buffer.name} = {self.fixed(call, buffer.layout) if buffer.layout else call}")

    def fixed(self, call, layout):
        """The strides that the kernels were generated for, whatever the ATen kernel chose."""
        return f"fixed({call}, {numbers(layout.stride)})"

    def output(self, value):
        """What is returned, as new as eager's: what counts a write is handed out under a name that counts none."""
        if not isinstance(value, View):
            return text_of(value)
        text = self.view(value)
        return f"{text}.data" if text in self.written else text

    def finish(self):
        names = list(self.graph.inputs)
        head = ["def call(args):"]
        if names:
            head.append(f"    {', '.join(names)}{',' if len(names) == 1 else ''} = args")
            head += ["    args.clear()  # the caller's list"] if self.graph.spends else []
        head += [f"    {symbol} = {text}" for symbol, text in self.graph.sizes.items()]
        head += [f"    empty_{index} = empty_cuda({index})" for index in sorted(self.devices)]
        outputs = ", ".join(self.output(o) for o in self.graph.outputs)
        if self.plan.block:
            head.append(f"    block = take_block({self.plan.block})")
            self.line("give_back(block)")
        return "\n".join([*head, *self.lines, f"    return [{outputs}]", ""])


class Raw(str):
    """Text that is an expression already."""

    def __repr__(self):
        return str(self)


# PyTorch's own Python bindings parse their arguments in half the time that an operator overload takes.
PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "_addmm_activation")
BINDINGS = {f"aten.{name}.{form}": f"torch.{name}" for name in PRODUCTS for form in ("out", "default")}
BINDINGS["aten.convolution.default"] = "torch.convolution"
BINDINGS["aten._assert_scalar.default"] = "check"
BINDINGS["aten.bernoulli.p"] = "bernoulli"
BINDINGS["aten.empty_strided.default"] = "torch.empty_strided"
BINDINGS["minicompile.seeds.default"] = "seeds"


def overload_text(overload):
    """torch.ops.aten.mm.default -> a name in the wrapper's namespace."""
    if str(overload) in BINDINGS:
        return BINDINGS[str(overload)]
    group = "higher_order." if isinstance(overload, torch._ops.HigherOrderOperator) else ""
    return f"ops.{group}{overload}"


def generate(schedule, plan, make_kernel):
    """Write wrapper and kernels.  Kernels between two ATen calls run in one call; equal kernels are written once."""
    wrapper = Wrapper(schedule, plan)
    result = Generated(wrapper, {}, [], {})
    pending, dead_later = [], []

    def flush():
        if not pending:
            return
        names = list(dict.fromkeys(name for _, params, _ in pending for name in params))
        sizes = list(dict.fromkeys(number for _, _, numbers in pending for number in numbers))
        run = Run(f"run_{len(result.runs)}", names, sizes, list(pending))
        result.runs.append(run)
        arguments = ", ".join([*names, *map(text_of, sizes)])
        wrapper.line(f"{run.name}({arguments})  # {', '.join(kernel for kernel, _, _ in pending)}")
        pending.clear()
        wrapper.free(dead_later)
        dead_later.clear()

    for k, group in enumerate(schedule.groups):
        if group.kind in ("extern", "output"):
            flush()
            wrapper.allocate(k)
            wrapper.extern(group.nodes[0])
            wrapper.free(plan.free[k])
            continue
        if any(is_large(wrapper.layouts.get(name)) for name in dead_later):
            flush()
        wrapper.allocate(k)
        kernel = make_kernel(group)
        name = result.texts.setdefault(kernel.text, f"kernel_{len(result.texts)}_{kernel.summary}")
        result.types[name] = kernel.types
        pending.append((name, kernel.params, kernel.numbers))
        dead_later += plan.free[k]
    flush()
    return result


# --- loading ------------------------------------------------------------------------------------------


_guards = getattr(getattr(torch._C, "_dynamo", None), "guards", None)  # C functions that skip the dispatcher
_empty_strided_cuda = getattr(_guards, "_empty_strided_cuda", None)


def empty(size, stride, dtype, device="cpu"):
    """A new tensor on any device."""
    return torch.empty_strided(size, stride, dtype=dtype, device=device)


empty_cpu = getattr(_guards, "_empty_strided_cpu", empty)


def _view(tensor, size, stride, offset):
    """A strided view; `offset` counts from the tensor's own first element."""
    return torch.as_strided(tensor, size, stride, tensor.storage_offset() + offset)


view = getattr(_guards, "_reinterpret_tensor", _view)


def fixed(tensor, stride):
    """The tensor with the strides that the kernels expect."""
    if tensor.stride() == stride or tensor.numel() == 0:
        return tensor
    if all(n == 1 or a == b for n, a, b in zip(tensor.shape, tensor.stride(), stride, strict=True)):
        return view(tensor, tensor.shape, stride, 0)
    return torch.empty_strided(tensor.shape, stride, dtype=tensor.dtype, device=tensor.device).copy_(tensor)


def check(condition, text):
    """Without the dispatcher."""
    if not condition:
        raise RuntimeError(text)


_memory.keep(KEPT)


def empty_large(size, stride, dtype):
    """A new CPU tensor in kept memory, or on huge pages where the system has them."""
    return _memory.allocate(empty_cpu((0,), (1,), dtype), size, stride)


class Block:
    """Memory on the CPU that stays when a call is over, as a flat tensor of each dtype."""

    def __init__(self, nbytes):
        with torch.inference_mode(False):
            memory = (empty_large if nbytes >= HUGE else empty_cpu)((nbytes,), (1,), torch.uint8)
            self.nbytes = nbytes
            self.__dict__.update((short(dtype), memory.view(dtype)) for dtype in DTYPES)


_blocks = []  # that no call uses at the moment: as many as calls ran at once, of the size that the largest needed


def take_block(nbytes):
    """A block for one call.  One that is too small is given up."""
    while True:
        try:
            block = _blocks.pop()
        except IndexError:  # all are in use
            return Block(nbytes)
        if block.nbytes >= nbytes:
            return block


def empty_cuda(index):
    """The function that makes new tensors on a CUDA device: the fastest makes them on the current one."""
    if _empty_strided_cuda is not None and torch._C._cuda_getDevice() == index:
        return _empty_strided_cuda
    return functools.partial(empty, device=torch.device("cuda", index))


NAMES = {
    "empty": empty,
    "empty_cpu": empty_cpu,
    "empty_cuda": empty_cuda,
    "empty_large": empty_large,
    "take_block": take_block,
    "give_back": _blocks.append,
    "torch": torch,
    "ops": torch.ops,
    "size": _launch.size,
    "stride": _launch.stride,
    "view": view,
    "fixed": fixed,
    "check": check,
    "bernoulli": random_draws.bernoulli,
    "seeds": philox.draw_seeds,
    "device": torch.device,
    "math": math,
    "operator": operator,
    **{short(dtype): dtype for dtype in DTYPES},
}


def load(source, runs):
    """Execute the wrapper's text; `runs` are the loaded kernels.  The callable keeps autograd out of the ATen calls."""
    namespace = {**NAMES, **runs, **source.constants}
    exec(compile(source.python, f"<minicompile wrapper {len(source.python)}>", "exec"), namespace)  # noqa: S102
    body = namespace["call"]

    def call(*args):
        if len(args) == 1 and isinstance(args[0], (list, tuple)):
            args = args[0]
        if torch.is_grad_enabled():
            with torch.no_grad():
                return body(args)
        return body(args)

    call.source = source
    return call
