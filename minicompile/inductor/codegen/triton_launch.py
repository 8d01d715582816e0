"""Compiling and launching Triton kernels.

Goes in: the text of kernels, each under `@kernel(types, grid=..., num_warps=..., XBLOCK=...)`.  Comes out: callables on
tensors. On CUDA tensors a kernel is compiled once for each device and kind of launch, and the launcher that Triton made
for it is called directly: no argument inspection, no cache look-up.  On CPU tensors it runs in Triton's interpreter.
Mirrors `torch/_inductor/runtime/triton_heuristics.py` and `static_cuda_launcher.py`.  Taught in chapter 12.
"""

import concurrent.futures
import hashlib
import linecache
import math
import os
import threading
import types

import torch
import triton
import triton.language as tl
from triton.compiler import ASTSource
from triton.language.extra import libdevice
from triton.runtime.jit import JITFunction

from . import triton_interpret, triton_ops
from .wrapper import empty_cuda

TRITON_VERSION = tuple(int(part) for part in triton.__version__.split(".")[:2])


def cdiv(a, b):
    return -(-a // b)


_LAUNCH = """
def launch({params}):
    {pointers}
    kind = {kind}
    if kind != {own}:
        return other(kind)({params})
    programs = {grid}
    if programs:
        run(programs, 1, 1, stream(device), function, {extra}metadata, None, None, None, {values})
"""


class TritonKernel:
    """One kernel: call it with its tensors, then its sizes.

    It is compiled anew for each kind of launch, a sum of: 1 where a tensor does not start at a multiple of 16 bytes, 2
    where indices or sizes need 64 bits, 4 << k where size k is no multiple of 16.  Kind 0 is the fastest: its accesses
    are 16 bytes wide.  likely: the kind to compile ahead; reach: the size below which indices stay.
    """

    def __init__(
        self, function, types_, grid, num_warps, constants, asserts=False, reach="", likely=0, rare=False, num_stages=3
    ):
        self.function, self.grid, self.constants = function, grid, constants
        self.reach, self.likely, self.rare = reach, likely, rare
        self.signature = dict(part.split(": ") for part in types_.split(", "))
        self.sizes = [name for name, kind in self.signature.items() if not kind.startswith("*")]
        self.options = {
            "num_warps": num_warps,
            "num_stages": num_stages,  # of a product's loop
            "enable_fp_fusion": False,  # a * b + c rounds twice, as in eager
            "enable_reflect_ftz": False,  # libdevice keeps denormal numbers
            "debug": asserts,  # device_assert is compiled in
            "sanitize_overflow": False,  # integers wrap
        }
        self.binaries = {}  # those compiled ahead: device number, kind of launch -> CompiledKernel
        self.launchers = {}  # device number (-1: CPU), or that and a kind of launch -> function
        self.interpreted = None

    @property
    def __name__(self):
        return self.function.__name__

    def __repr__(self):
        return f"TritonKernel({self.__name__})"

    def __call__(self, first, *rest):
        device = first.get_device()
        launcher = self.launchers.get(device)
        if launcher is None:
            interpret = device < 0 or triton.knobs.runtime.interpret
            launcher = self.launchers[device] = self.interpret if interpret else self.on_device(device)
        launcher(first, *rest)

    # --- on a GPU ---

    def compile(self, target=None, kind=None):
        """A `CompiledKernel`.  target: `GPUTarget("cuda", 90, 32)` needs no GPU; None is the current device."""
        kind = self.likely if kind is None else kind
        constants, signature = dict(self.constants), dict(self.signature)
        if self.sizes:
            constants["index"] = tl.int64 if kind & 2 else tl.int32
            signature |= dict.fromkeys(self.sizes, "i64" if kind & 2 else "i32")
        sixteen = [name for k, name in enumerate(self.sizes) if not kind & 4 << k]
        sixteen += [] if kind & 1 else [name for name in self.signature if name not in self.sizes]
        attributes = {(k,): [["tt.divisibility", 16]] for k, name in enumerate(signature) if name in sixteen}
        source = ASTSource(
            JITFunction(self.function), signature | dict.fromkeys(constants, "constexpr"), constants, attributes
        )
        return triton.compile(source, target=target, options=dict(self.options))

    def loaded(self, device, kind):
        """A `CompiledKernel` in the memory of a device."""
        with torch.cuda.device(device):
            compiled = self.compile(kind=kind)
            compiled.src = launched_as(compiled)
            with _building.setdefault(tuple(compiled.src.signature.values()), threading.Lock()):
                compiled.run  # noqa: B018 (it is loaded, and its launcher built, when it is asked for)
        return compiled

    def kind_text(self):
        """The kind of a launch, as an expression of its arguments."""
        pointers = " | ".join(f"{n}_" for n in self.signature if n not in self.sizes)
        parts = [f"(({pointers}) & 15 and 1)"]
        if self.sizes:  # + (1 << 31) makes what fits into 32 bits with a sign fit into 32 bits without
            slack = {self.reach: (1 << 31) + (1 << 20)}
            high = " | ".join(f"{n} + {slack.get(n, 1 << 31)}" for n in self.sizes)
            parts += [f"(({high}) >> 32 and 2)"]
        return " + ".join(parts + [f"({n} & 15 and {4 << k})" for k, n in enumerate(self.sizes)])

    def on_device(self, device, kind=None):
        """The function that launches this kernel on a device."""
        kind = self.likely if kind is None else kind
        compiled = self.binaries.pop((device, kind), None) or self.loaded(device, kind)
        run, extra = direct(compiled.run)
        names = list(self.signature)
        pointers = [n for n in names if n not in self.sizes]
        values = [f"{n}_" if n in pointers else n for n in names]
        text = _LAUNCH.format(
            params=", ".join(names),
            pointers="; ".join(f"{n}_ = {n}.data_ptr()" for n in pointers),
            kind=self.kind_text(),
            own=kind,
            grid=self.grid if self.sizes else self.programs({}),
            values=", ".join([*values, *["None"] * (len(compiled.src.signature) - len(values))]),
            extra=extra,
        )

        def other(kind):
            if (device, kind) not in self.launchers:
                self.launchers[device, kind] = self.on_device(device, kind)
            return self.launchers[device, kind]

        namespace = {"run": run, "stream": torch._C._cuda_getCurrentRawStream, "device": device, "cdiv": cdiv}
        namespace |= {"function": compiled.function, "metadata": compiled.packed_metadata, "other": other}
        namespace |= {"keep": compiled, **self.constants}
        exec(text, namespace)
        launch = guarded(namespace["launch"], device) if torch.cuda.device_count() > 1 else namespace["launch"]
        return self.launchers.setdefault((device, kind), launch)

    def programs(self, sizes):
        """How many programs run, given the symbolic sizes."""
        return eval(self.grid, {"cdiv": cdiv, **self.constants, **sizes})

    # --- on a CPU ---

    def interpret(self, *args):
        if self.interpreted is None:
            own = {**self.function.__globals__, "rt": triton_interpret.ops(), "libdevice": triton_interpret.LIBDEVICE}
            copy = types.FunctionType(self.function.__code__, own, self.__name__)
            copy.__annotations__, copy.__module__ = self.function.__annotations__, self.function.__module__
            self.interpreted = triton_interpret.interpreted(copy)
        sizes = dict(zip(self.signature, args, strict=True))
        programs = self.programs({n: v for n, v in sizes.items() if isinstance(v, int)})
        if programs:
            fixed = {**self.constants, "index": tl.int64} if self.sizes else self.constants
            triton_interpret.run(self.interpreted, (programs,), args, fixed)


_building = {}  # types of the arguments of a launcher -> the lock of who builds it; the others find it
SPARE = 8  # to a multiple of which launchers take pointers


def is_direct(facts):
    """Is it Triton 3.6, whose launcher is C under a Python method that finds scratch memory, and none is needed?"""
    sizes = [getattr(facts, f"{kind}_scratch_size", 1) for kind in ("global", "profile")]
    return TRITON_VERSION == (3, 6) and not any(sizes)


def launched_as(compiled):
    """What Triton makes the launcher of a kernel for.

    Triton 3.6 has a C compiler build one for each sequence of types, which takes longer than the kernel.  So kernels
    share it: all pointers are of one kind to it, compile-time constants none of its business, and where they are all
    that a kernel takes, one for more of them does: the driver reads as many as the kernel has.
    """
    types_ = ["*i8" if kind[0] == "*" else kind for kind in compiled.src.signature.values() if kind != "constexpr"]
    if is_direct(compiled.metadata) and {*types_} == {"*i8"}:
        types_ += ["*i8"] * (-len(types_) % SPARE)
    return types.SimpleNamespace(signature=dict(enumerate(types_)), constants={})


def direct(run):
    """(function to launch with, arguments that it wants before the metadata)."""
    if is_direct(run):
        return run.launch, f"{run.launch_cooperative_grid}, {run.launch_pdl}, None, None, "
    return run, ""


def guarded(launch, device):
    """Make the kernel's device current for the launch, where it is not."""
    current = torch._C._cuda_getDevice

    def call(*args):
        if current() == device:
            return launch(*args)
        with torch.cuda.device(device):
            return launch(*args)

    return call


FACTS = ("asserts", "reach", "likely", "rare", "num_stages")


def kernel(types_, *, grid, num_warps, **more):
    """The decorator of every kernel.

    types_: "in0: *fp32, ..."; grid: number of programs; more: block sizes, and what `TritonKernel` knows by name.
    """
    facts = {name: more.pop(name) for name in FACTS if name in more}
    return lambda function: TritonKernel(function, types_, grid, num_warps, more, **facts)


# --- modules --------------------------------------------------------------------------------------------


def scratch(size, dtype, like):
    """Memory for partial results, which lie there without holes."""
    count = math.prod(size)
    return empty_cuda(like.device.index)((count,), (1,), dtype) if like.is_cuda else torch.empty(count, dtype=dtype)


def module(text):
    """Execute the text of a module of kernels; its source stays readable for Triton and for tracebacks."""
    name = f"<minicompile kernels {hashlib.sha256(text.encode()).hexdigest()[:16]}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    namespace = {"__name__": "minicompile_kernels", "kernel": kernel, "scratch": scratch, "torch": torch}
    namespace |= {"tl": tl, "rt": triton_ops, "libdevice": libdevice}
    exec(compile(text, name, "exec"), namespace)
    return namespace


def kernels(namespace):
    return [value for value in namespace.values() if isinstance(value, TritonKernel)]


NOTHING = """
@kernel("x: *i8", grid="1", num_warps=1)
def nothing(x):
    pass
"""


def get_ready(device):
    """What the first kernel waits for: Triton hashes its own files, imports its compiler, and builds a launcher."""
    make_driver(device)
    kernels(module(NOTHING))[0].loaded(device.index, 0)


def make_driver(device):
    torch.cuda.current_stream(device)  # makes the context
    with _building.setdefault("driver", threading.Lock()):
        _ = triton.runtime.driver.active  # has a C compiler build it when it is asked for: once, before threads ask


def build(namespace, device):
    """Compile every kernel of a module for a CUDA device, several at a time."""
    found = [k for k in kernels(namespace) if not k.rare]
    make_driver(device)
    if len(found) > 1:
        with concurrent.futures.ThreadPoolExecutor(min(len(found), os.cpu_count() or 1)) as pool:
            list(pool.map(lambda k: _load_on(k, device), found))
    for each in found:
        each.launchers[device.index] = each.on_device(device.index)
        if namespace["direct"]:  # every tensor of these kernels is on this device
            namespace[each.__name__] = each.launchers[device.index]


def _load_on(each, device):
    each.binaries[device.index, each.likely] = each.loaded(device.index, each.likely)
