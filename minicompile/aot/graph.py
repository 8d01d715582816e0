"""The artifact of this stage: what a student prints, what the runtime reads.

Goes in: what tracing and partitioning found out.  Comes out: text, HTML, and the graphs themselves, each a GraphModule
that can be run.  Mirrors `ViewAndMutationMeta` in `torch/_functorch/_aot_autograd/schemas.py`.  Taught in chapter 08.
"""

import collections.abc
import dataclasses
import functools
import html

from torch import fx

from .memory import peak_memory


@dataclasses.dataclass
class AOTGraph:
    """The functional ATen form of one captured graph.

    `forward` returns the new values of mutated inputs, then the results that `outputs` refer to, then what is saved.
    Without gradients `joint` and `backward` are None and nothing is saved.
    """

    input_names: list
    constants: dict  # name -> tensor: inputs that the captured graph held itself; they follow the others
    mutations: list  # InputMutation
    outputs: list  # OutputSpec, one for each output of the user's graph
    forward: fx.GraphModule
    joint: fx.GraphModule = None
    backward: fx.GraphModule = None
    saved: list = dataclasses.field(default_factory=list)  # SavedTensor
    recomputed: list = dataclasses.field(default_factory=list)  # names of forward nodes that the backward runs again
    differentiable: list = dataclasses.field(default_factory=list)  # positions among forward's outputs with a tangent
    frees: list = dataclasses.field(default_factory=list)  # for each tangent those that a backward from it frees
    sharing: list = dataclasses.field(default_factory=list)  # the inputs that share memory
    memories: list = dataclasses.field(default_factory=list)  # what they share, by name: inputs behind the constants
    grad_inputs: list = dataclasses.field(default_factory=list)  # the input that each output of `backward` belongs to
    connected: dict = dataclasses.field(default_factory=dict)  # input -> the tangents from which autograd gets to it
    rewritten: list = dataclasses.field(default_factory=list)  # (input, writes): backward's other outputs, for inputs
    kept: list = dataclasses.field(default_factory=list)  # Kept: what eager keeps of inputs and results
    functions: object = None  # Functions: autograd's graph, in which some of them read what is kept
    unchecked: list = dataclasses.field(default_factory=list)  # what it reads besides, whoever wrote there since
    grad_dependence: list = dataclasses.field(default_factory=list)  # the tangents that lead to each output
    junctions: list = dataclasses.field(default_factory=list)  # results that other results are computed from
    cut_dependence: list = dataclasses.field(default_factory=list)  # as `grad_dependence`, of the graph cut at these
    cut_frees: list = dataclasses.field(default_factory=list)  # as `frees`, of a backward to the next junctions
    input_needs_grad: list = dataclasses.field(default_factory=list)
    input_is_tensor: list = dataclasses.field(default_factory=list)
    numbers: dict = dataclasses.field(default_factory=dict)  # inputs that are plain numbers, which the graph holds
    grad_enabled: bool = False  # grad mode when the graph was captured, which is grad mode when it runs
    result_count: int = 0  # forward's outputs before the saved ones
    result_versions: dict = dataclasses.field(default_factory=dict)  # result -> how often eager writes to it
    result_views: list = dataclasses.field(default_factory=list)  # results that are views in the graph
    extents: list = None  # bytes from start to end of each tensor among the inputs, unless sizes are symbolic
    tangent_layouts: list = None  # (shape, stride, dtype, device) of each, unless sizes are symbolic
    saved_readers: list = dataclasses.field(default_factory=list)  # for each of `saved` the tangents that read it
    captured: fx.GraphModule = None
    fake_mode: object = None
    node_counts: dict = dataclasses.field(default_factory=dict)  # "traced", "optimized", "forward", "backward"
    passes: list = dataclasses.field(default_factory=list)  # (name, nodes before, nodes after), in order

    @property
    def tangent_count(self):
        """Of the results', and of views of inputs that are junctions."""
        return max([len(self.differentiable), *(j.tangent + 1 for j in self.junctions if j.tangent is not None)])

    @property
    def input_count(self):
        return len(self.input_names) + len(self.constants) + len(self.memories)

    @property
    def overwritten(self):
        """The inputs, by number, whose memory has other values after the call."""
        written = [m.index for m in self.mutations if m.index not in self.sharing]  # those are asked for sizes only
        return [*written, *range(self.input_count - len(self.memories), self.input_count)]

    @property
    def moved(self):
        """Position among the results -> the mutation by which an input gets the memory of that result."""
        return {k: m for k, m in enumerate(self.mutations) if m.how == "memory"}

    @property
    def saved_bytes(self):
        return sum(s.bytes for s in self.saved)

    def peak_memory(self):
        """The most bytes that a call and its backward hold at one time, besides the inputs, operator by operator."""
        return peak_memory(self)

    def __repr__(self):
        lines = [f"AOTGraph({', '.join(f'{k}={v}' for k, v in self.node_counts.items())} nodes)"]
        names = [*self.input_names, *self.constants]
        lines += [f"  writes {names[m.index]} ({m.how})" for m in self.mutations]
        lines += [f"  writes {names[i]} in the backward" for i, _ in self.rewritten]
        lines += [f"  output {i}: {describe(spec, names)}" for i, spec in enumerate(self.outputs)]
        lines += [f"forward{show(self.forward)}"]
        if self.backward is not None:
            lines += [f"saved: {len(self.saved)} tensors, {self.saved_bytes:,} bytes"]
            lines += [f"  {s}" for s in self.saved]
            lines += [
                f"peak memory: {self.peak_memory():,} bytes",
                f"recomputed in backward: {', '.join(self.recomputed) or 'nothing'}",
                f"backward{show(self.backward)}",
            ]
        return "\n".join(lines)

    def pass_table(self):
        """What each graph pass did: nodes before and after it."""
        return "\n".join(f"{name:<30} {before:>6,} -> {after:>6,}" for name, before, after in self.passes)

    def _repr_html_(self):
        """Forward and backward side by side, and between them what is saved."""
        cell = '<td style="vertical-align:top;text-align:left"><b>{}</b><pre>{}</pre></td>'
        cells = [cell.format("forward" if self.backward else "graph", html.escape(show(self.forward)))]
        if self.backward is not None:
            saved = "\n".join(map(str, self.saved))
            cells.append(cell.format(f"saved: {self.saved_bytes:,} bytes", html.escape(saved)))
            cells.append(cell.format("backward", html.escape(show(self.backward))))
        return f"<table><tr>{''.join(cells)}</tr></table>"


def describe(spec, names):
    """One output in words."""
    if spec.kind == "constant":
        return repr(spec.value)
    what = f"input {names[spec.index]}" if spec.kind == "input" else f"result {spec.index}"
    views = "".join(f".{type(v).__name__.removesuffix('_ViewMeta')}" for v in spec.views or ())
    views += ".as_strided" if spec.geometry else ""
    return what + views + (" (no grad)" if spec.needs_grad is False else "")


def show(gm):
    """The graph as code, without the frills of `print_readable`."""
    code = gm.graph.python_code("self", verbose=False).src.strip()
    return code.split("def forward", 1)[-1].replace("torch.ops.", "")


class Examples(collections.abc.Sequence):
    """The values of a graph's placeholders, made when somebody asks for them."""

    def __init__(self, gm):
        self.gm = gm

    @functools.cached_property
    def values(self):
        return [n.meta["val"] for n in self.gm.graph.nodes if n.op == "placeholder"]

    def __len__(self):
        return len(self.values)

    def __getitem__(self, index):
        return self.values[index]
