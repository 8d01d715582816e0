"""mode="reduce-overhead": the launches of one call are recorded as a CUDA graph, later calls replay them in one go.

Goes in: a compiled callable, list of inputs -> list of results, that launches the same kernels each time.  Comes out:
the same callable.  A replay reads and writes the addresses that were recorded, and three rules keep that invisible:

    inputs     a parameter lies where it lay: its address is recorded, and compared at each call.  What comes from
               elsewhere each time is copied into a buffer that the graph reads.
    results    what the user gets is copied out, for the next replay writes the same memory.
    kept       what only autograd gets (saved tensors, gradients) is handed out as it is.  While somebody still holds it
               the kernels are launched one by one, into other memory.

The first call of a kind runs unrecorded: kernels are loaded and libraries make their plans.
Mirrors `torch/_inductor/cudagraph_trees.py`.  Taught in chapter 13.
"""

import collections
import functools

import torch

from .. import config, record
from .codegen.wrapper import view

MOST_RECORDINGS = 8  # that one compiled graph keeps
MOST_ATTEMPTS = 24  # recordings it makes in its life: inputs that lie elsewhere each time are soon known
kept_addresses = collections.Counter()  # of results that are handed out as they are: another graph's fixed inputs

uses = torch._C._storage_Use_Count  # tensors that share a storage
current_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None)
current_device = getattr(torch._C, "_cuda_getDevice", None)
is_capturing = torch.cuda.is_current_stream_capturing
clear_workspaces = getattr(torch._C, "_cuda_clearCublasWorkspaces", None)


def recorded(call, gm, changing):
    """`call`, or the Recorder around it, where the option asks for it and the graph allows it.

    gm.meta["results"] (see aot): which results the user gets, and whether others outlive the call.
    changing: sizes are symbolic.
    """
    if not config.cuda_graphs:
        return call
    reason = cannot_record(gm)
    if reason is None:
        device = next(n.meta["val"].device for n in gm.graph.nodes if isinstance(n.meta.get("val"), torch.Tensor))
        results = gm.meta.get("results", (range(1 << 30), False))
        return Recorder(call, device.index, changing, *results, random_states(gm))
    record.log("perf", "no CUDA graph: %s", reason)
    record.counters["cuda_graphs_refused"] += 1
    return call


def cannot_record(gm):
    """Why the launches of this graph may differ from call to call, in words; or None."""
    places = [n for n in gm.graph.nodes if n.op == "placeholder"]
    values = [n.meta["val"] for n in gm.graph.nodes if isinstance(n.meta.get("val"), torch.Tensor)]
    if not values or any(value.device.type != "cuda" for value in values):
        return "a tensor is not on the GPU"
    if len({value.device for value in values}) != 1:
        return "several GPUs"
    if any(isinstance(n.meta.get("val"), torch.SymFloat) for n in places):
        return "a float that changes"
    return next((f"{node.target} waits for the GPU" for node in gm.graph.nodes if reads_data(node)), None)


def reads_data(node):
    """Whether the size of the result, or a number, depends on what a tensor holds."""
    tags = getattr(node.target, "tags", ())
    if node.target is torch.ops.aten.index.Tensor:  # only masks do
        return any(i is not None and i.meta["val"].dtype in (torch.bool, torch.uint8) for i in node.args[1])
    return torch.Tag.dynamic_output_shape in tags or torch.Tag.data_dependent_output in tags


def random_states(gm):
    """Positions of the inputs that attention's backward reads as its random state: on the host, unless recorded."""
    places = [n for n in gm.graph.nodes if n.op == "placeholder"]
    found = set()
    for node in gm.graph.nodes:
        name = str(node.target)
        if "attention_backward" in name and "cudnn" not in name:
            arguments = zip(node.target._schema.arguments, node.args, strict=False)
            found |= {value for argument, value in arguments if argument.name.startswith("philox")}
    return [i for i, place in enumerate(places) if place in found]


class Recording:
    """One recorded graph.  fixed: {position: address} of inputs; buffers: {position: tensor} of the copied ones."""

    def __init__(self, call, args, moving, copied_out, pool):
        self.fixed = {i: a.data_ptr() for i, a in enumerate(args) if i not in moving and isinstance(a, torch.Tensor)}
        self.buffers = {i: empty_like(args[i]) for i in moving}
        self.targets = [each_once(buffer) for buffer in self.buffers.values()]
        inputs = [self.buffers.get(i, a) for i, a in enumerate(args)]
        self.replay, self.outputs = capture(call, list(inputs), pool)
        check_memory(inputs, self.outputs)
        self.handed_out = [hand_out(o, i in copied_out) for i, o in enumerate(self.outputs)]
        kept = [o for i, o in enumerate(self.outputs) if i not in copied_out and isinstance(o, torch.Tensor)]
        self.storages = [o.untyped_storage()._cdata for o in kept]
        self.held = list(map(uses, self.storages))
        self.addresses = [o.data_ptr() for o in kept if o.numel()]
        kept_addresses.update(self.addresses)

    def fits(self, args):
        return all(args[i].data_ptr() == address for i, address in self.fixed.items())

    def is_free(self):
        """Nobody holds a kept result of the last replay, itself or through a view."""
        return list(map(uses, self.storages)) == self.held

    def __call__(self, args):
        if self.targets:
            torch._foreach_copy_(self.targets, [each_once(args[i]) for i in self.buffers])
        self.replay()
        return [hand() for hand in self.handed_out]

    def release(self):
        kept_addresses.subtract(self.addresses)


def empty_like(tensor):
    """Memory with the same geometry, also where that has holes or repeats elements."""
    extent = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True)) if tensor.numel() else 0
    memory = torch.empty(extent, dtype=tensor.dtype, device=tensor.device)
    return memory.as_strided(tensor.shape, tensor.stride())


def each_once(tensor):
    """Every element of an expanded tensor once."""
    for dim, stride in enumerate(tensor.stride()):
        if stride == 0:
            tensor = tensor.narrow(dim, 0, min(1, tensor.shape[dim]))
    return tensor


def hand_out(output, copied):
    """The function that gives a result to the caller: a copy, or another tensor on the same memory."""
    if not isinstance(output, torch.Tensor):
        return lambda: output
    if copied:
        return lambda: empty_like(output).copy_(output)
    return functools.partial(view, output, output.shape, output.stride(), 0)


def check_memory(inputs, outputs):
    """A result in the memory of an input would be that input's next value too."""
    memory = {a.untyped_storage().data_ptr() for a in inputs if isinstance(a, torch.Tensor) and a.numel()}
    for output in outputs:
        if isinstance(output, torch.Tensor) and output.untyped_storage().data_ptr() in memory:
            raise RuntimeError("a result lies in the memory of an input")


def capture(call, inputs, pool):
    """(function that replays, the results of every replay).  Recording runs nothing."""
    graph = torch.cuda.CUDAGraph()
    clear_workspaces()  # cuBLAS takes new ones, which stay in this pool: the old ones may be cleared by others
    with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
        outputs = call(inputs)
    clear_workspaces()
    return graph.replay, outputs


@functools.cache
def shared_pool(device):
    """(pool of the recordings that share their memory, a recording that keeps it alive)"""
    pool, graph = torch.cuda.graph_pool_handle(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
        torch.empty(1, device=torch.device("cuda", device)).zero_()
    return pool, graph


class Recorder:
    """`recorder(args)`: replays where a recording fits, records where none does, runs the kernels one by one else.

    copied_out: positions of the results that the user gets.  lasting: the other results outlive the call.
    states: positions of random states.
    """

    def __init__(self, call, device, changing, copied_out, lasting, states=()):
        self.call, self.device, self.changing, self.states = call, device, changing, states
        self.copied_out, self.lasting = copied_out, lasting
        self.source = getattr(call, "source", None)
        self.recordings = {}  # sizes -> Recordings
        self.seen = {}  # sizes -> addresses of the inputs at the call before
        self.moving = set()  # positions of inputs that lie elsewhere at each call
        self.tied = set()  # positions of inputs that another recording keeps
        self.attempts, self.stream = 0, None

    def __call__(self, *args):
        args = args[0] if len(args) == 1 and isinstance(args[0], (list, tuple)) else args
        if is_capturing():
            return self.call(args)
        if current_device() != self.device:
            return self.one_by_one(args)
        stream = current_stream(self.device)
        if self.stream not in (None, stream):  # two replays at a time would write the same memory
            return self.one_by_one(args)
        self.stream = stream
        kind = self.kind(args) if self.changing else ()
        for recording in self.recordings.get(kind, ()):
            if recording.fits(args):
                if not recording.is_free():
                    return self.one_by_one(args)
                record.counters["cuda_graph_replays"] += 1
                return recording(args)
        return self.first_calls(kind, args)

    def one_by_one(self, args):
        """Launch the kernels; a state that a recorded forward drew on the GPU comes to the host, where it is read."""
        if self.states:
            args = [a.cpu() if i in self.states else a for i, a in enumerate(args)]
        return self.call(args)

    def kind(self, args):
        """What the launches depend on, where sizes are symbolic."""
        return tuple((*a.shape, *a.stride()) if isinstance(a, torch.Tensor) else a for a in args)

    def first_calls(self, kind, args):
        """Run, and look where inputs lie; the second time, record."""
        if self.attempts >= MOST_ATTEMPTS or len(self.seen) > 2 * MOST_ATTEMPTS:
            return self.one_by_one(args)
        tensors = {i: a for i, a in enumerate(args) if isinstance(a, torch.Tensor)}
        if not all(a.is_cuda for a in tensors.values()):  # some random states are, outside of recordings
            return self.one_by_one(args)
        addresses = {i: a.data_ptr() for i, a in tensors.items()}
        before, self.seen[kind] = self.seen.get(kind), addresses
        if before is None:
            return self.one_by_one(args)
        kept = {i for i, address in addresses.items() if kept_addresses[address] > 0}
        if self.tied - kept:  # these come from a forward whose kernels ran one by one
            return self.one_by_one(args)
        self.tied |= kept
        stays = kept | {i for i, a in enumerate(args) if isinstance(a, torch.nn.Parameter)}
        self.moving |= {i for i, address in addresses.items() if address != before[i] and i not in stays}
        return self.record(kind, args)

    def record(self, kind, args):
        self.attempts += 1
        known = self.recordings.setdefault(kind, [])
        for old in [r for r in known if not self.moving.isdisjoint(r.fixed)] + known[MOST_RECORDINGS - 1 :]:
            if old in known:
                old.release()
                known.remove(old)
        # Where no result outlives the call, all memory is free between two replays and recordings may share it.
        pool = torch.cuda.graph_pool_handle() if self.lasting else shared_pool(self.device)[0]
        try:
            recording = Recording(self.call, args, sorted(self.moving), self.copied_out, pool)
        except RuntimeError as error:
            record.log("perf", "no CUDA graph: %s", error)
            record.counters["cuda_graphs_refused"] += 1
            self.attempts = MOST_ATTEMPTS
            return self.one_by_one(args)
        record.counters["cuda_graphs"] += 1
        known.insert(0, recording)
        return recording(args)
