"""Compiling and launching Triton kernels.

Goes in: the text of kernels, each under `@kernel(types, grid=..., num_warps=..., XBLOCK=...)`.  Comes out: callables on
tensors. On CUDA tensors a kernel is compiled once for each device and alignment, and the launcher that Triton made for
it is called directly: no argument inspection, no cache look-up.  On CPU tensors it runs in Triton's interpreter.
Mirrors `torch/_inductor/runtime/triton_heuristics.py` and `static_cuda_launcher.py`.  Taught in chapter 12.
"""

import concurrent.futures
import hashlib
import linecache
import os
import types

import torch
import triton
import triton.language as tl
from triton.compiler import ASTSource
from triton.language.extra import libdevice
from triton.runtime.jit import JITFunction

from . import triton_interpret, triton_ops

TRITON_VERSION = tuple(int(part) for part in triton.__version__.split(".")[:2])


def cdiv(a, b):
    return -(-a // b)


_LAUNCH = """
def launch({params}):
    {pointers}
    if ({combined}) & 15 and aligned:
        return unaligned({params})
    programs = {grid}
    if programs:
        run(programs, 1, 1, stream(device), function, {extra}metadata, None, None, None, {values})
"""


class TritonKernel:
    """One kernel: call it with its tensors, then its sizes."""

    def __init__(self, function, types_, grid, num_warps, asserts, constants):
        self.function, self.grid, self.constants = function, grid, constants
        self.signature = dict(part.split(": ") for part in types_.split(", "))
        self.options = {
            "num_warps": num_warps,
            "enable_fp_fusion": False,  # a * b + c rounds twice, as in eager
            "enable_reflect_ftz": False,  # libdevice keeps denormal numbers
            "debug": asserts,  # device_assert is compiled in
            "sanitize_overflow": False,  # integers wrap
        }
        self.launchers = {}  # device number (-1: CPU) -> function
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

    def compile(self, target=None, aligned=True):
        """A `CompiledKernel`.  target: `GPUTarget("cuda", 90, 32)` needs no GPU; None is the current device."""
        function = JITFunction(self.function)
        signature = {**self.signature, **dict.fromkeys(self.constants, "constexpr")}
        pointers = [k for k, kind in enumerate(signature.values()) if kind.startswith("*")]
        attributes = {(k,): [["tt.divisibility", 16]] for k in pointers} if aligned else {}
        source = ASTSource(function, signature, dict(self.constants), attributes)
        return triton.compile(source, target=target, options=dict(self.options))

    def on_device(self, device, aligned=True):
        """The function that launches this kernel on a device."""
        with torch.cuda.device(device):
            compiled = self.compile(aligned=aligned)
            run, extra = direct(compiled.run)  # loads the binary
        names = list(self.signature)
        pointers = [n for n, kind in self.signature.items() if kind.startswith("*")]
        values = [f"{n}_" if n in pointers else n for n in names] + [str(v) for v in self.constants.values()]
        text = _LAUNCH.format(
            params=", ".join(names),
            pointers="; ".join(f"{n}_ = {n}.data_ptr()" for n in pointers),
            combined=" | ".join(f"{n}_" for n in pointers),
            grid=self.grid if len(names) > len(pointers) else self.programs({}),
            values=", ".join(values),
            extra=extra,
        )

        def unaligned(*args):
            if ("unaligned", device) not in self.launchers:
                self.launchers["unaligned", device] = self.on_device(device, aligned=False)
            self.launchers["unaligned", device](*args)

        namespace = {"run": run, "stream": torch._C._cuda_getCurrentRawStream, "device": device, "cdiv": cdiv}
        namespace |= {"function": compiled.function, "metadata": compiled.packed_metadata, "aligned": aligned}
        namespace |= {"unaligned": unaligned, "keep": compiled, **self.constants}
        exec(text, namespace)
        return guarded(namespace["launch"], device) if torch.cuda.device_count() > 1 else namespace["launch"]

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
            triton_interpret.run(self.interpreted, (programs,), args, self.constants)


def direct(run):
    """(function to launch with, arguments that it wants before the metadata).

    Triton 3.6's launcher is C under a Python method that finds scratch memory: a kernel without needs skips that.
    """
    plain = not (getattr(run, "global_scratch_size", 1) or getattr(run, "profile_scratch_size", 1))
    if plain and hasattr(run, "launch") and not hasattr(run, "kernel_signature") and TRITON_VERSION == (3, 6):
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


def kernel(types_, *, grid, num_warps, asserts=False, **constants):
    """The decorator of every kernel.  types_: "in0: *fp32, ..."; grid: number of programs; constants: block sizes."""
    return lambda function: TritonKernel(function, types_, grid, num_warps, asserts, constants)


# --- modules --------------------------------------------------------------------------------------------


def scratch(size, dtype, like):
    """Memory for partial results."""
    return torch.empty(size, dtype=dtype, device=like.device)


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


def build(namespace, device):
    """Compile every kernel of a module for a CUDA device, several at a time."""
    found = kernels(namespace)
    torch.cuda.current_stream(device)  # makes the context
    if len(found) > 1:
        with concurrent.futures.ThreadPoolExecutor(min(len(found), os.cpu_count() or 1)) as pool:
            list(pool.map(lambda k: _compile_on(k, device), found))
    for each in found:
        each.launchers[device.index] = each.on_device(device.index)
        if namespace["direct"]:  # every tensor of these kernels is on this device
            namespace[each.__name__] = each.launchers[device.index]


def _compile_on(each, device):
    with torch.cuda.device(device):
        each.compile()  # into Triton's cache on disk
