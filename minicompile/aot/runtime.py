"""Put the compiled graphs behind one callable that behaves as the captured graph did.

Goes in: an `AOTGraph` and the compiled forward and backward.  Comes out: `callable(*inputs) -> tuple of outputs`.  What
the functional graphs cannot do is done here, by a small function written for this graph alone (`callable.source` shows
it): copy new values into the inputs that the program wrote, rebuild views from their base, hand over to autograd.
Mirrors `torch/_functorch/_aot_autograd/runtime_wrappers.py`.  Taught in chapter 08.
"""

import operator

import torch
from torch import fx

from .. import record
from .nodes import is_tensor, is_view
from .outputs import replay_views


def eager(gm):
    """The captured graph as it is."""

    def run(*inputs):
        outputs = gm.forward(*inputs)  # not `gm(...)`, which prints a traceback of its own when the program raises
        return tuple(outputs) if isinstance(outputs, tuple | list) else (outputs,)

    return run


# --- the wrapper, written for one graph -------------------------------------------------------------
class WrapperSource:
    """Collects the lines of the wrapper and the objects that they name."""

    def __init__(self):
        self.lines, self.scope = [], {"torch": torch, "replay_views": replay_views}

    def name(self, prefix, value):
        key = f"{prefix}_{sum(k.startswith(prefix + '_') for k in self.scope)}"
        self.scope[key] = value
        return key

    def add(self, line, indent=1):
        self.lines.append("    " * indent + line)

    def add_in_mode(self, line, mode, wanted):
        """The line, in the grad mode that it needs if that is not the mode around it."""
        if mode != wanted:
            self.add(f"with torch.{'enable_grad' if wanted else 'no_grad'}():")
        self.add(line, 1 + (mode != wanted))

    def build(self, header, filename):
        source = "\n".join([header, *self.lines]) + "\n"
        exec(compile(source, filename, "exec"), self.scope)
        function = self.scope[header.split("(")[0].removeprefix("def ")]
        function.source = source
        return function


def output_expression(writer, spec, offset):
    if spec.kind == "constant":
        return repr(spec.value) if spec.value in (None, True, False) else writer.name("constant", spec.value)
    base = f"inputs[{spec.index}]" if spec.kind == "input" else f"results[{spec.index + offset}]"
    if spec.geometry is not None:
        numbers = [[number_expression(n, offset) for n in group] for group in spec.geometry]
        sizes, strides, shift = (f"({', '.join(group)}{',' if group else ''})" for group in numbers)
        view = f"{base}.as_strided({sizes}, {strides}, {base}.storage_offset() + {shift}[0])"
    elif spec.views is not None:
        view = f"replay_views({base}, {writer.name('views', spec.views)})"
    else:
        return base
    return f"{view}.data" if spec.own_version else view


def number_expression(number, offset):
    return f"results[{number[1] + offset}]" if isinstance(number, tuple) else str(number)


def write_mutation(writer, graph, position, mutation):
    target, new = f"inputs[{mutation.index}]", f"results[{position}]"
    if mutation.how == "data":
        writer.add(f"{target}.data.copy_({new})")
    elif mutation.how == "copy_":
        writer.add_in_mode(f"{target}.copy_({new})", graph.grad_enabled, True)
    else:
        matters = graph.grad_enabled and graph.input_needs_grad[mutation.index]
        writer.add_in_mode(f"{target}.copy_({new})", matters, False)
    if mutation.writes > 1:
        writer.add(f"torch.autograd.graph.increment_version([{target}] * {mutation.writes - 1})")


def write_epilogue(writer, graph):
    """The lines that follow the compiled graph: write the inputs, rebuild the outputs."""
    for position, mutation in enumerate(graph.mutations):
        write_mutation(writer, graph, position, mutation)
    names = []
    for spec in graph.outputs:
        expression = output_expression(writer, spec, len(graph.mutations))
        if spec.needs_grad is not None and spec.needs_grad != graph.grad_enabled:
            name = f"output_{len(names)}"
            writer.add_in_mode(f"{name} = {expression}", graph.grad_enabled, spec.needs_grad)
            expression = name
        names.append(expression)
    writer.add(f"return ({', '.join(names)}{',' if len(names) == 1 else ''})")


def note_results(graph):
    """What the wrapper has to know of the forward graph."""
    nodes, first = graph.forward.graph.output_node().args[0], len(graph.mutations)
    places = [i for i in range(first, graph.result_count) if isinstance(nodes[i], fx.Node) and is_tensor(nodes[i])]
    graph.result_views = [i for i in places if is_view(nodes[i])]
    # A new tensor is written already: `aten.full` called from Python counts its own write, `torch.full` does not.
    made = {i: 0 for i in places if nodes[i].op == "call_function" and not nodes[i].all_input_nodes}
    graph.result_versions = made | graph.result_versions
    values = [n.meta["val"] for n in graph.forward.graph.nodes if n.op == "placeholder"]
    tensors = [value for value, is_tensor in zip(values, graph.input_is_tensor, strict=True) if is_tensor]
    if all(isinstance(n, int) for t in tensors for n in (*t.shape, *t.stride())):
        graph.extents = [extent(t) for t in tensors]


def with_eager_state(graph, function):
    """A compiled graph whose results are, as eager's, no views for autograd, and written as often as eager wrote them.

    This is done before autograd saves any of them: it remembers the version.
    """
    views, versions = graph.result_views, graph.result_versions
    if not views and not versions:
        return function

    def run(args):
        results = list(function(args))
        for i in views:
            results[i] = results[i].data
        for i, version in versions.items():
            if not results[i].is_inference():
                torch._C._autograd._unsafe_set_version_counter((results[i],), (version,))
        return results

    return run


def is_plain(graph):
    """Nothing to do after the compiled graph: its results are the outputs, in order."""
    specs = [(s.kind, s.index, s.views, s.geometry) for s in graph.outputs]
    in_order = [("graph", i, None, None) for i in range(graph.result_count)]
    return not (graph.mutations or graph.constants or graph.numbers) and specs == in_order


def build(graph, gm, run_graph):
    """The callable.  `run_graph(list of inputs) -> results`: the compiled forward, or the autograd function with it."""
    writer = WrapperSource()
    writer.scope.update(run_graph=run_graph, run_eager=eager(gm))
    trains = graph.backward is not None
    # Grad mode must be on for the autograd function, and off where a graph without backward gets inputs that need grad.
    mode = trains if trains != graph.grad_enabled and any(graph.input_needs_grad) else graph.grad_enabled
    if is_plain(graph) and mode == graph.grad_enabled:
        writer.add("return tuple(run_graph([*inputs]))")
        return writer.build("def compiled_graph(*inputs):", "<minicompile aot wrapper>")
    for index, value in graph.numbers.items():
        writer.add(f"if inputs[{index}] != {writer.name('number', value)}:")
        writer.add("return run_eager(*inputs)", 2)
    tensors = [i for i, is_tensor in enumerate(graph.input_is_tensor) if is_tensor]
    if graph.mutations and len(tensors) > 1:
        writer.scope["overlap"] = OverlapCheck(graph, tensors)
        writer.add("if overlap(inputs):")
        writer.add("return run_eager(*inputs)", 2)
    if graph.constants:
        writer.scope["constants"] = tuple(graph.constants.values())
        writer.add("inputs = (*inputs, *constants)")
    writer.add_in_mode("results = run_graph([*inputs])", graph.grad_enabled, mode)
    write_epilogue(writer, graph)
    return writer.build("def compiled_graph(*inputs):", "<minicompile aot wrapper>")


class OverlapCheck:
    """Does an input that the graph writes share memory with another input?  Then only eager's order is right.

    Addresses that were found safe are remembered, so that a call looks only at the inputs that moved since.
    """

    def __init__(self, graph, tensors):
        self.pick = operator.itemgetter(*tensors)
        self.constants, self.safe = tuple(graph.constants.values()), [None] * len(tensors)
        written = {m.index for m in graph.mutations}
        self.written = {k for k, index in enumerate(tensors) if index in written}
        self.extents = graph.extents

    def __call__(self, inputs):
        tensors = self.pick((*inputs, *self.constants))
        starts = [t.data_ptr() for t in tensors]
        if starts == self.safe and self.extents is not None:
            return False
        extents = self.extents or [extent(t) for t in tensors]
        spans = [(start, start + size) for start, size in zip(starts, extents, strict=True)]
        moved = [k for k, start in enumerate(starts) if start != self.safe[k] or self.extents is None]
        if any(self.meets(spans, k) for k in moved) if len(moved) < 8 else self.sweep(spans):
            record.counters["alias_fallbacks"] += 1
            return True
        self.safe = starts
        return False

    def meets(self, spans, k):
        """Does input `k` share memory with another, and is one of the two written?"""
        start, end = spans[k]
        others = range(len(spans)) if k in self.written else self.written
        return any(start < spans[i][1] and spans[i][0] < end for i in others if i != k)

    def sweep(self, spans):
        """The same for all inputs at once, in the order of their addresses."""
        end_of_written = end_of_any = 0
        for (start, end), is_written in sorted((span, k in self.written) for k, span in enumerate(spans)):
            if start < (end_of_any if is_written else end_of_written) and start < end:
                return True
            end_of_any = max(end_of_any, end)
            end_of_written = max(end_of_written, end) if is_written else end_of_written
        return False


def extent(tensor):
    """Bytes from the first element to the end of the last."""
    if tensor.numel() == 0:
        return 0
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return (last + 1) * tensor.element_size()
