"""inductor: an ATen graph becomes loop IR, fused kernels and a wrapper that calls them.

Each stage is a function of its own: `lower` (graph -> IR), `schedule` (IR -> fused groups), `codegen` (groups ->
source), `load` (source -> callable); `compile` is the four in a row.  Mirrors `torch/_inductor/compile_fx.py`.
Taught in chapters 09 to 11.
"""

import concurrent.futures
import functools

import torch

from .. import config, record
from ..errors import CompilerNotFound
from . import cuda_graphs, interpreter, programs, scheduler, verify
from .codegen import cpp, cpp_build, wrapper
from .graph import GraphLowering, IRGraph, TensorValue
from .lowering import LOWERINGS
from .scheduler import Schedule
from .symbols import UnknownSize

NUMBERS = (torch.SymInt, torch.SymFloat, torch.SymBool)


def lower(gm, example_inputs=()):
    """ATen graph -> IRGraph."""
    with record.stage("lower") as snapshot:
        graph = snapshot.artifact = GraphLowering(gm, example_inputs, LOWERINGS).run()
        if config.verify_ir:
            verify.verify_graph(graph)
    return graph


def schedule(graph):
    """IRGraph -> Schedule: fused groups, each decision with its reason."""
    with record.stage("schedule") as snapshot:
        result = snapshot.artifact = scheduler.schedule(graph, config.fusion)
        if config.verify_ir:
            verify.verify_graph(result.graph)
            verify.verify_schedule(result)
    record.log("fusion", "%s", result.why)
    return result


def codegen(groups, target="cpp"):
    """Schedule -> Source: the kernels and the wrapper.  target: "cpp" or "triton"."""
    with record.stage("codegen") as snapshot:
        if target == "triton":
            from .codegen import triton, triton_matmul  # need the triton package

            source = triton.generate(triton_matmul.tuned(groups) if config.max_autotune else groups)
        else:
            source = cpp.generate(groups)
        snapshot.artifact = source
    record.log("output_code", "%s", source)
    return source


def load(source):
    """Source -> callable(list of tensors) -> list of tensors."""
    with record.stage("load") as snapshot:
        if source.target == "triton":
            from .codegen import triton

            runs = triton.load(source)
        else:
            runs = cpp_build.load(source.prelude + source.kernels, source.counts)
        snapshot.artifact = call = wrapper.load(source, runs)
    return call


def expect(inputs):
    """Kernels for these tensors will be asked for: what the first one on a GPU waits for is made from now on."""
    device = next((x.device for x in inputs if isinstance(x, torch.Tensor) and x.device.type == "cuda"), None)
    if device is not None and config.cuda_backend == "triton":
        get_triton_ready(device)


@functools.cache
def get_triton_ready(device):
    """In a thread.  If it fails, so will the first kernel, which says so."""

    def run():
        from .codegen import triton_launch

        triton_launch.get_ready(device)

    return concurrent.futures.ThreadPoolExecutor(1).submit(run)


def compile(gm, example_inputs=()):
    """A compiler for `aot.compile`: (ATen graph, example inputs) -> callable(list or *tensors) -> list of tensors."""
    try:
        program = programs.find(gm)
        if program is not None:
            return run(gm, program)
    except CompilerNotFound:
        pass  # there was one when the program was kept
    try:
        graph = lower(gm, example_inputs)
    except UnknownSize as error:
        record.log("perf", "left to ATen: %s", error)
        return in_eager(gm)
    target = config.cuda_backend if graph.device.type == "cuda" else config.cpu_backend
    changing = graph.sizes or any(isinstance(n.meta.get("val"), NUMBERS) for n in gm.graph.nodes)
    if target == "interpreter" and changing:
        return in_eager(gm)  # the interpreter knows numbers only
    if target != "interpreter" and graph.device.type in ("cpu", "cuda"):
        try:
            groups = schedule(graph)
            kernels = sum(g.kind not in ("extern", "output") for g in groups.groups)
            counts = {"kernels": kernels, **count_calls(graph)}
            program = programs.Program(codegen(groups, target), counts, graph.spends, bool(changing))
            call = run(gm, program)
            programs.keep(gm, program)
            return call
        except CompilerNotFound as error:
            record.warn_once(f"minicompile: {error}; graphs run in the (slow) ATen interpreter meanwhile")
    record.counters.update(count_calls(graph))
    return with_eager_errors(gm, interpreter.Interpreter(graph))


def run(gm, program):
    """The callable that runs a program in place of its graph."""
    call = cuda_graphs.recorded(load(program.source), gm, program.changing)
    record.counters.update(program.counts)
    call._boxed_call = program.spends
    return call if program.spends else with_eager_errors(gm, call)


def in_eager(gm):
    """The ATen graph itself as the compiled callable."""
    return lambda *args: gm(*(args[0] if len(args) == 1 and isinstance(args[0], (list, tuple)) else args))


def with_eager_errors(gm, call):
    """Kernels only know that some index was out of range: the graph run in eager says which, in eager's own words."""

    def run(*args):
        try:
            return call(*args)
        except (IndexError, RuntimeError):
            with torch.no_grad():
                in_eager(gm)(*args)
            raise

    run.source = getattr(call, "source", None)
    return run


def count_calls(graph):
    kinds = [getattr(buffer.data, "kind", None) for buffer in graph.buffers]
    return {"extern_calls": kinds.count("extern"), "fallbacks": kinds.count("fallback")}


__all__ = ["IRGraph", "Schedule", "TensorValue", "codegen", "compile", "expect", "load", "lower", "schedule"]
