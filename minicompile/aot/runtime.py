"""Put the compiled graphs behind one callable that behaves as the captured graph did.

Goes in: an `AOTGraph` and the compiled forward and backward.  Comes out: `callable(*inputs) -> tuple of outputs`.  What
the functional graphs cannot do is done here, by a small function written for this graph alone (`callable.source` shows
it): copy new values into the inputs that the program wrote, rebuild views from their base, hand over to autograd.
Mirrors `torch/_functorch/_aot_autograd/runtime_wrappers.py`.  Taught in chapter 08.
"""

import dataclasses

import torch
from torch import fx

from . import undoing
from ._link import link
from .junctions import gradients
from .nodes import is_tensor, is_view
from .outputs import replay_views, split_of, write_input
from .overlap import extent


def eager(gm):
    """The captured graph as it is, which returns one tensor or several."""
    run_graph = undoing.eager(gm, [node.meta.get("example_value") for node in gm.graph.find_nodes(op="placeholder")])

    def run(*inputs):
        outputs = run_graph(*inputs)
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


def output_expression(writer, spec, offset, through):
    """through: the name of the output that it is a view of, if there is one."""
    if spec.kind == "constant":
        return repr(spec.value) if spec.value in (None, True, False) else writer.name("constant", spec.value)
    base = f"inputs[{spec.index}]" if spec.kind == "input" else f"results[{spec.index + offset}]"
    if spec.geometry is not None:
        text = lambda n: f"results[{n[1] + offset}]" if isinstance(n, tuple) else str(n)  # noqa: E731
        numbers = [[*map(text, group)] for group in spec.geometry]
        sizes, strides, shift = (f"({', '.join(group)}{',' if group else ''})" for group in numbers)
        view = f"{through or base}.as_strided({sizes}, {strides}, {base}.storage_offset() + {shift}[0])"
    elif spec.views is not None:
        view = f"replay_views({through or base}, {writer.name('views', spec.views)})"
    else:
        return through or base
    return f"{view}.data" if spec.own_version else view


def write_mutation(writer, graph, position, mutation):
    target, new = f"inputs[{mutation.index}]", f"results[{position}]"
    if mutation.how == "memory" or mutation.early:  # done already
        return
    if mutation.how == "data":
        writer.add(f"{target}.data.copy_({new})")
    elif mutation.how == "copy_":
        if mutation.index in graph.sharing:  # a view whose base was just written knows it when it is asked
            writer.add(f"{target}.grad_fn")
        writer.add_in_mode(f"{target}.copy_({new})", graph.grad_enabled, True)
    else:
        matters = graph.grad_enabled and graph.input_needs_grad[mutation.index]
        writer.add_in_mode(f"{target}.copy_({new})", matters, False)
    uncounted = mutation.writes - (mutation.how != "data")
    if uncounted > 0:
        writer.add(f"torch.autograd.graph.increment_version([{target}] * {uncounted})")


class Epilogue:
    """The lines that follow the compiled graph: write the inputs, rebuild the outputs, and link those to others that
    they were computed from, which must be there then."""

    def __init__(self, writer, graph):
        self.writer, self.graph, self.made, self.done = writer, graph, {}, set()
        self.splits, self.pieces = [split_of(spec) for spec in graph.outputs], {}
        for position in range(len(graph.mutations)):
            self.once(self.mutation, position)
        names = [self.output(k) for k in range(len(graph.outputs))]
        writer.add(f"return ({', '.join(names)}{',' if len(names) == 1 else ''})")

    def once(self, write, position):
        if (write, position) not in self.done:
            self.done.add((write, position))
            write(position)

    def mutation(self, position):
        self.once(self.link, position)
        write_mutation(self.writer, self.graph, position, self.graph.mutations[position])

    def output(self, k):
        """What stands for it in the source."""
        graph, spec = self.graph, self.graph.outputs[k]
        if k not in self.made:
            if spec.kind == "graph":
                self.once(self.link, spec.index + len(graph.mutations))
            through = None if spec.through is None else self.output(spec.through)
            other_mode = spec.needs_grad is not None and spec.needs_grad != graph.grad_enabled
            expression = self.piece(k, through) or output_expression(self.writer, spec, len(graph.mutations), through)
            if other_mode or self.is_named(k):
                wanted = spec.needs_grad if other_mode else graph.grad_enabled
                self.writer.add_in_mode(f"output_{k} = {expression}", graph.grad_enabled, wanted)
                expression = f"output_{k}"
            self.made[k] = expression
        return self.made[k]

    def piece(self, k, through):
        """Of views that eager makes at once, as `chunk` does: one call here, too, whose gradients are one tensor."""
        graph, spec = self.graph, self.graph.outputs[k]
        if self.splits[k] is None or [s and s[0] for s in self.splits].count(self.splits[k][0]) < 2:
            return None
        key, operator, arguments, piece = self.splits[k]
        if key not in self.pieces:
            self.pieces[key] = f"pieces_{len(self.pieces)}"
            whole = dataclasses.replace(spec, views=spec.views[:-1] or None, own_version=False)
            whole = output_expression(self.writer, whole, len(graph.mutations), through)
            call = f"{self.writer.name('split', operator)}({', '.join([whole, *map(repr, arguments)])})"
            wanted = graph.grad_enabled if spec.needs_grad is None else spec.needs_grad
            self.writer.add_in_mode(f"{self.pieces[key]} = {call}", graph.grad_enabled, wanted)
        return f"{self.pieces[key]}[{piece}]{'.data' if spec.own_version else ''}"

    def is_named(self, k):
        """Is it read before it is returned?"""
        return any(j.place == ("output", k) for j in self.graph.junctions) or any(
            spec.through == k for spec in self.graph.outputs
        )

    def link(self, position):
        junctions = self.graph.junctions
        if position not in self.graph.differentiable or not junctions:
            return
        number = self.graph.differentiable.index(position)
        before = [k for k, j in enumerate(junctions) if number in j.leads]
        behind = sorted(set().union(*(junctions[k].behind for k in before)) - set(before))
        groups = [[self.junction(junctions[k].place) for k in group] for group in (before, behind)]
        if before:
            names = ", ".join(f"({', '.join(group)}{',' if len(group) == 1 else ''})" for group in groups)
            self.writer.add(f"link(gradients, {number}, results[{position}], {names})")

    def junction(self, place):
        kind, number = place
        if kind == "output":
            return self.output(number)
        written = [k for k, m in enumerate(self.graph.mutations) if kind == "input" and m.index == number]
        self.once(*((self.mutation, written[0]) if written else (self.link, number)))
        return f"inputs[{number}]" if written else f"results[{number}]"


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

    Some are the memory of inputs from then on, or new values of inputs that eager writes before it saves the last
    tensor.  This is done before autograd saves any of them: it remembers the version, and saving may raise.
    """
    views, versions, moved = graph.result_views, graph.result_versions, graph.moved
    early = {k: m for k, m in enumerate(graph.mutations) if m.early}
    if not views and not versions and not moved and not early:
        return function

    def run(args):
        inputs, written = [args[m.index] for m in moved.values()], [args[m.index] for m in early.values()]
        results = list(function(args))
        for tensor, (i, m) in zip(written, early.items(), strict=True):
            write_input(tensor, results[i], m.writes)
        for tensor, (i, m) in zip(inputs, moved.items(), strict=True):
            tensor.data = results[i]
            torch.autograd.graph.increment_version([tensor] * m.writes)
        for i in views:
            results[i] = results[i].data
        for i, version in versions.items():
            if not results[i].is_inference():
                torch._C._autograd._unsafe_set_version_counter((results[i],), (version,))
        return results

    return run


def is_plain(graph):
    """Nothing to do after the compiled graph: its results are the outputs, in order, and none leads to another."""
    specs = [(s.kind, s.index, s.views, s.geometry) for s in graph.outputs]
    in_order = [("graph", i, None, None) for i in range(graph.result_count)]
    return not (graph.mutations or graph.constants or graph.numbers or graph.junctions) and specs == in_order


def build(graph, gm, run_graph, run_shared=None):
    """The callable.  `run_graph(list of inputs) -> results`: the compiled forward, or the autograd function with it.

    run_shared: a `SharedMemory`, for calls in which inputs share memory; without one the graph is for such calls, and
    the callable takes the memories, a list, and the inputs.
    """
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
    if run_shared is not None and run_shared.possible:
        writer.scope.update(overlap=run_shared.check, run_shared=run_shared)
        writer.add("if overlap(inputs):")
        writer.add("return run_shared(inputs)", 2)
    if graph.constants:
        writer.scope["constants"] = tuple(graph.constants.values())
        writer.add("inputs = (*inputs, *constants)")
    given, header = "[*inputs]", "def compiled_graph(*inputs):"
    if graph.memories:
        header = "def compiled_graph(memories, *inputs):"
        writer.add(f"given = {given}")
        for index in graph.sharing:  # whose sizes are read, and how often they are written
            writer.add(f"given[{index}] = given[{index}].detach()")
        given = "[*given, *memories]"
    writer.add_in_mode(f"results = run_graph({given})", graph.grad_enabled, mode)
    if graph.junctions:
        writer.scope.update(link=link, gradients=gradients(graph))
    Epilogue(writer, graph)
    return writer.build(header, "<minicompile aot wrapper>")
