"""Cut the graph of a model under DistributedDataParallel where a bucket of gradients ends.

Goes in: a backend.  Comes out: a backend that gives it each piece of such a graph by itself.  DDP sends a bucket on its
way as soon as autograd has all gradients in it.  A compiled graph is one autograd function, so that they would all come
at once, when nothing is left to overlap with; the pieces' gradients come piece by piece, the last piece's first.
Mirrors `torch/_dynamo/backends/distributed.py` (DDPOptimizer).  Taught in chapter 08.
"""

import collections
import dataclasses
import itertools

import torch
import torch.distributed as dist
from torch import fx
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses import FakeTensor
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.nn.parallel import DistributedDataParallel

from .aot.functionalize import fake_mode_of
from .aot.partitioner import extract
from .aot.undoing import may_draw, undone_where_it_raises
from .dynamo.guard_checks import ambient_state
from .dynamo.variables.modes import ATTENTION_READERS


@dataclasses.dataclass(frozen=True)
class BucketBackend:
    """`backend`, for graphs of a model under DDP in pieces."""

    backend: object

    @property
    def undoes(self):
        return getattr(self.backend, "undoes", False)

    def __call__(self, gm, example_inputs):
        ddp = DistributedDataParallel._get_active_ddp_module()
        trains = ddp is not None and torch.is_grad_enabled()
        cuts = wanted_cuts(gm, example_inputs, bucket_sizes(ddp)) if trains else []
        if cuts:
            cuts = possible_cuts(Survey(gm, fake_mode_of(example_inputs)).of(example_inputs), cuts)
        return self.in_pieces(gm, example_inputs, cuts) if cuts else self.backend(gm, example_inputs)

    def in_pieces(self, gm, example_inputs, cuts):
        """Each piece is compiled for what the pieces before it make of the examples."""
        mode, steps, values = fake_mode_of(example_inputs), [], copies_of(example_inputs)
        places, versions = dict.fromkeys(gm.graph.find_nodes(op="placeholder")), [version_of(v) for v in values]
        position = {node: i for i, node in enumerate(places)}
        for piece in pieces_of(gm, cuts):
            reads = [position[n] for n in piece.reads]
            arguments = [values[i] for i in reads]
            steps.append((self.backend(piece.graph_module, arguments), reads, [position[n] for n in piece.ends]))
            position.update((node, i) for i, node in enumerate(piece.results, len(values)))
            values += Survey(piece.graph_module, mode).run_all(arguments)
        returned = [position[n] for n in gm.graph.output_node().args[0]]
        counted = [i for i, version in enumerate(versions) if version_of(values[i]) != version]
        written = sorted({*counted, *gm.meta.get("written", ())})
        return undone_where_it_raises(Chain(steps, returned), written, may_draw(gm))


def version_of(value):
    return value._version if isinstance(value, torch.Tensor) and not value.is_inference() else None


def copies_of(examples):
    """Tensors of the same kind, on which the program may be run."""
    copies = []
    for example in examples:
        if isinstance(example, torch.Tensor) and not example.is_inference():
            copy = example.detach().requires_grad_(example.requires_grad)
            example = copy if example.is_leaf else copy.clone()
        copies.append(example)
    return copies


# --- where to cut -----------------------------------------------------------------------------------
def bucket_sizes(ddp):
    """How many bytes fill the first bucket, the second, ...: the first is smaller, unless the user gave a size."""
    first = [dist._DEFAULT_FIRST_BUCKET_BYTES] if ddp.bucket_bytes_cap_default else []
    return itertools.chain(first, itertools.repeat(ddp.bucket_bytes_cap))


def wanted_cuts(gm, examples, sizes):
    """The positions of nodes before which a bucket is full, last first.

    A gradient is complete where the backward has passed the first node that reads the parameter.
    """
    trained = {
        node: example.numel() * example.element_size()
        for node, example in zip(gm.graph.find_nodes(op="placeholder"), examples)
        if isinstance(example, torch.nn.Parameter) and example.requires_grad
    }
    completed = collections.Counter()  # position -> bytes
    for position, node in enumerate(gm.graph.nodes):
        for read in node.all_input_nodes:
            completed[position] += trained.pop(read, 0)
    cuts, filled, size = [], 0, next(sizes)
    for position in sorted((p for p, count in completed.items() if count), reverse=True):
        filled += completed[position]
        if filled >= size:
            cuts.append(position)
            filled, size = 0, next(sizes)
    return [cut for cut in cuts if any(p < cut and count for p, count in completed.items())]


class Survey(fx.Interpreter):
    """Runs a graph on fake tensors, and notes the modes before each node, and what may not cross a cut."""

    def __init__(self, gm, mode):
        super().__init__(gm)
        self.mode, self.modes, self.stays = mode, [], set()

    def of(self, examples):
        self.run_all(copies_of(examples))
        return self

    def run_all(self, arguments):
        unknown_sizes = self.mode.shape_env.ignore_fresh_unbacked_symbols()  # nobody will ask for these
        with self.mode, unknown_sizes, enable_python_dispatcher(), torch.set_grad_enabled(torch.is_grad_enabled()):
            return list(self.run(*arguments))

    def get_attr(self, target, args, kwargs):
        value = super().get_attr(target, args, kwargs)
        plain = isinstance(value, torch.Tensor) and not isinstance(value, FakeTensor)
        return self.mode.from_tensor(value, static_shapes=True) if plain else value

    def run_node(self, node):
        self.modes.append((ambient_state(), [reader() for reader in ATTENTION_READERS]))
        value = super().run_node(node)
        crosses = isinstance(value, torch.Tensor | torch.SymInt) and not free_unbacked_symbols(value)
        if node.users and node.op != "placeholder" and not crosses:
            self.stays.add(node)
        return value


def possible_cuts(survey, wanted):
    """For each wanted cut the last position up to it where one may be: a piece knows no modes but the usual ones,
    and takes and gives tensors only.  In rising order."""
    nodes = list(survey.module.graph.nodes)
    position, open_until = {node: i for i, node in enumerate(nodes)}, 0
    first, allowed = next(i for i, node in enumerate(nodes) if node.op != "placeholder"), []
    for i, node in enumerate(nodes):
        if i > max(first, open_until - 1) and survey.modes[i] == survey.modes[0]:
            allowed.append(i)
        if node in survey.stays:
            open_until = max(open_until, 1 + max(position[user] for user in node.users))
    return sorted({max(earlier) for cut in wanted if (earlier := [p for p in allowed if p <= cut])})


# --- the pieces -------------------------------------------------------------------------------------
@dataclasses.dataclass
class Piece:
    """reads: nodes of the whole graph that it gets; results: those that it gives; ends: of `reads`, what it is the last
    to need."""

    graph_module: fx.GraphModule
    reads: list
    results: list
    ends: list


def pieces_of(gm, cuts):
    """The graph in pieces that begin at these positions."""
    nodes = list(gm.graph.nodes)
    last = {read: i for i, node in enumerate(nodes) for read in node.all_input_nodes}
    pieces = []
    for start, end in itertools.pairwise([0, *cuts, len(nodes) - 1]):
        compute = [n for n in nodes[start:end] if n.op != "placeholder"]
        inside = set(compute)
        reads = list(dict.fromkeys(i for n in compute for i in n.all_input_nodes if i not in inside))
        results = [n for n in compute if last.get(n, -1) >= end]
        pieces.append(
            Piece(extract(gm, reads, compute, results, "piece"), reads, results, [n for n in reads if last[n] < end])
        )
    return pieces


class Chain:
    """Runs compiled pieces one after the other.  What no later piece reads is let go of before a piece runs."""

    def __init__(self, steps, returned):
        self.steps, self.returned = steps, returned

    def __call__(self, *inputs):
        values = list(inputs)
        for run, reads, ends in self.steps:
            arguments = [values[i] for i in reads]
            for i in ends:
                values[i] = None
            values += run(*arguments)
        return tuple(values[i] for i in self.returned)
