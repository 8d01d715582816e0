"""Memory planning: when each buffer is allocated, whose memory it may take over, and when it is freed.

Goes in: a `Schedule`.  Comes out: a `MemoryPlan`: for each group the buffers to allocate before it (fresh, or in a
dead buffer's memory) and those to free after it; and on a CPU where each lies in one block that stays from call to
call.  Mirrors `torch/_inductor/codegen/wrapper.py`'s memory planning.  Taught in chapter 10.
"""

import dataclasses

import torch

from .dependencies import Addresses, levels
from .indexing import hint
from .ir import Extern, View, contiguous_strides

KEEP = 16  # groups for which dead memory waits for a buffer of its layout
KNOWN = ("aten", "prims", "mkldnn", "minicompile")  # namespaces of operators that hold nothing after a call
ADDS_TO = (torch.ops.aten.addmm.default, torch.ops.aten.baddbmm.default)  # ATen writes over the first argument, too
LARGE = 1 << 20  # bytes from which on memory of a GPU does not wait: there the allocator's time is hidden
HUGE = 1 << 22  # bytes from which on memory of a CPU is worth huge pages
KEPT = 1 << 28  # bytes of large results whose memory waits for the next ones when they are gone
BLOCK = 1 << 26  # bytes that stay from call to call at most, as many as the C library would keep
LINE = 64  # bytes of a cache line, where each buffer begins


@dataclasses.dataclass
class MemoryPlan:
    """allocate[k]:

    (name, name of the buffer whose memory it takes over, or None); free[k]: names dead after group k.
    """

    allocate: list
    free: list
    storage: dict  # what the wrapper allocates -> the name under which its memory was first allocated
    places: dict = dataclasses.field(default_factory=dict)  # name -> where in the block it lies, in bytes
    block: int = 0  # bytes

    def __str__(self):
        lines = []
        for k, (new, dead) in enumerate(zip(self.allocate, self.free, strict=True)):
            parts = [f"{name} in the memory of {old}" if old else name for name, old in new]
            lines.append(f"{k}. allocate {', '.join(parts) or 'nothing'}; free {', '.join(dead) or 'nothing'}")
        places = ", ".join(f"{name} at {place}" for name, place in self.places.items())
        return "\n".join([*lines, *([f"block of {self.block} bytes: {places}"] if places else [])])


def may_alias(target):
    """Can a result of this operator share memory with an argument?"""
    return any(a.alias_info is not None for a in target._schema.arguments)


def _own_memory(schedule):
    """Buffers whose memory nothing else can see:

    allocated here or by the matmul or convolution that made them, and given to no call that could return a view of it,
    nor to an operator that is not PyTorch's, which might hold it.
    """
    made = {g.nodes[0].name: g.nodes[0].data for g in schedule.groups if g.kind == "extern"}
    made |= {g.nodes[0].name: made.get(g.nodes[0].data.source) for g in schedule.groups if g.kind == "output"}
    fresh = {name for name, data in made.items() if data and data.kind == "extern" and not may_alias(data.target)}
    fresh &= schedule.graph.layouts.keys()  # a tuple has no memory of its own
    own = {name for g in schedule.groups for name in g.stored if _allocates(g) or name in fresh}
    for group in schedule.groups:
        operator = group.nodes[0].data.operator if group.kind == "extern" else None
        if operator and (may_alias(operator) or operator.namespace not in KNOWN):
            own -= set(group.reads)
    return own - {o.buffer for o in schedule.graph.outputs if isinstance(o, View)}


def _in_place(group, dead, new, layouts, addresses, after_reads):
    """May `new` be written over `dead` while the same kernel reads it?  Only where each point reads what it
    overwrites; and where a matrix product is added to it.

    after_reads: what a kernel stores while it walks along rows, it stores when it has read the place.  No later walk
    may read it again.
    """
    if group.kind == "extern":
        first, *others = group.nodes[0].data.views()
        adds = group.nodes[0].data.target in ADDS_TO and first == View(dead, layouts[new])
        return adds and all(view.buffer != dead for view in others)
    if group.kind != "loops" or not has_room(layouts[dead], layouts[new]):
        return False
    if group.inner:
        walk = levels(group.nodes)
        full = [n.name for n in group.nodes if n.inner and not n.is_reduction]
        if not after_reads or new not in full or walk[new] < max(walk[n.name] for n in group.nodes if n.inner):
            return False
    store = next(n.store for n in group.nodes if n.name == new)
    reads = [address for n in group.nodes for name, address in addresses.reads(n) if name == dead]
    return all(address is store for address in reads)


def plan(schedule, after_reads=False):
    """Schedule -> MemoryPlan.  after_reads: see `_in_place`."""
    layouts, groups = schedule.graph.layouts, schedule.groups
    addresses = Addresses(layouts)
    outputs = {o.buffer for o in schedule.graph.outputs if isinstance(o, View)}
    last = {}
    for k, group in enumerate(groups):
        for name in (*group.stored, *group.reads):
            last[name] = k
    mortal = {b.name for b in schedule.graph.buffers}
    if schedule.graph.spends:
        mortal |= {name for name, layout in schedule.graph.inputs.items() if layout is not None}
    own, pool, taken, result = _own_memory(schedule), {}, set(), MemoryPlan([], [], {})
    for k, group in enumerate(groups):
        dying = [n for n in group.reads if last[n] == k and n in mortal and n not in outputs]
        new, over = [], []
        for name in group.stored if _allocates(group) else ():
            want = room(layouts[name])
            waiting = [n for n, died in pool.items() if room(layouts[n]) == want and k - died <= KEEP]
            read = [n for n in dying if n in own - taken and _in_place(group, n, name, layouts, addresses, after_reads)]
            same = read + waiting if group.kind == "extern" else waiting + read  # elsewhere a sum is copied first
            old = same[0] if same else None
            if group.kind == "extern" and name in outputs and not old and hint(layouts[name].nbytes()) < HUGE:
                continue  # what an operator allocates is sooner made, and nobody wrote to it in place
            new.append((name, old))
            result.storage[name] = result.storage.get(old, old) if old else name
            if old:
                pool.pop(old, None)
                taken.add(old)
                over.append(old)
        dead = dying + [n for n in group.stored if last[n] == k and n not in outputs]
        pool.update((n, k) for n in dead if n in own - taken and not is_large(layouts[n]))
        result.allocate.append(new)
        result.free.append(dead + [n for n in over if n not in dead])
    # What is taken over later stays until then.
    for k, names in enumerate(result.free):
        later = {old for new in result.allocate[k + 1 :] for _, old in new}
        result.free[k] = [n for n in names if n not in later]
    if schedule.graph.device.type == "cpu":
        arrange(result, layouts, own)
    return result


def put_off(order, scheduler):
    """A result of the graph that is made from less memory than it takes comes last, as the gradient of a table of
    vectors does: until then it takes none.
    """
    layouts, held = scheduler.layouts, scheduler.outputs
    held = held if scheduler.graph.spends else {*held, *scheduler.graph.inputs}
    awaited = set().union(*(scheduler.depends[number] for number in order))

    def size(names):
        return sum(hint(layouts[name].nbytes()) for name in names if layouts.get(name) is not None)

    for number in list(order):
        call = scheduler.groups[number]
        last = call.kind in ("extern", "scatter") and number not in awaited and held.issuperset(call.stored)
        if last and size(call.stored) >= size(set(call.reads) - held) + LARGE:
            order.remove(number)
            order.append(number)


def free_first(order, scheduler):
    """An ATen call moves before what does not wait for it, nor it for that, where less memory is taken at one time
    then: the gradient of a weight frees what was saved for it, that of an activation takes as much.
    """
    groups, layouts = scheduler.groups, scheduler.layouts
    last = {name: k for k, number in enumerate(order) for name in groups[number].reads}
    immortal = scheduler.outputs if scheduler.graph.spends else {*scheduler.outputs, *scheduler.graph.inputs}
    last |= dict.fromkeys(immortal, len(order))
    sizes = {name: hint(layout.nbytes()) for name, layout in layouts.items() if layout is not None}

    def size(names):
        return sum(sizes.get(name, 0) for name in names)

    def most(numbers, end):
        """Bytes that these groups, the last of which is at `end`, take together at one time."""
        dies = {name: k for k, number in enumerate(numbers) for name in groups[number].reads if last[name] <= end}
        alive = highest = 0
        for k, number in enumerate(numbers):
            alive += size(groups[number].stored)
            highest = max(highest, alive)
            alive -= size(name for name in groups[number].reads if dies.get(name) == k)
        return highest

    for end, number in enumerate(order):
        call, first = groups[number], end
        freed = size(name for name in call.reads if last[name] == end)
        if call.kind != "extern" or freed < size(call.stored) + LARGE:
            continue
        while first > max(end - KEEP, 0) and order[first - 1] not in scheduler.depends[number]:
            first -= 1
        ways = [(*order[first:k], number, *order[k:end]) for k in range(first, end + 1)]
        best = min(ways, key=lambda way: most(way, end))
        if most(best, end) + LARGE <= most(ways[-1], end):
            order[first : end + 1] = best
            moved = {name: first + k for k, number in enumerate(best) for name in groups[number].reads}
            last |= {name: k for name, k in moved.items() if last[name] <= end}


def arrange(plan, layouts, own):
    """A place in the block for what nobody else sees: the first gap that is wide enough while it lives.

    Memory that goes back to the system after each call costs a page fault every 4 KiB in the next one, which takes
    longer than a kernel does to fill the page.
    """
    last = {plan.storage.get(name, name): k for k, names in enumerate(plan.free) for name in names}
    seen = {root for name, root in plan.storage.items() if name not in own}
    living = []  # (where it begins, where it ends, the last group that uses it)
    for k, new in enumerate(plan.allocate):
        living = sorted(each for each in living if each[2] >= k)
        for name, old in new:
            nbytes = layouts[name].span()
            if old is not None or name in seen or name not in last or not isinstance(nbytes, int) or not nbytes:
                continue
            place, nbytes = 0, -(-nbytes // LINE) * LINE
            for start, stop, _ in living:
                if start - place >= nbytes:
                    break
                place = max(place, stop)
            if place + nbytes <= BLOCK:
                living = sorted([*living, (place, place + nbytes, last[name])])
                plan.places[name] = place
                plan.block = max(plan.block, place + nbytes)


def room(layout):
    """What two buffers have in common that fit into each other's memory exactly."""
    if layout is None or layout.offset != 0 or layout.stride != contiguous_strides(layout.size):
        return layout
    return layout.device, layout.dtype, layout.numel()


def has_room(old, new):
    """Does a buffer fit into the memory of another one, and leave little of it unused, as padding is?"""
    first, second = room(old), room(new)
    if first == second or not (isinstance(first, tuple) and isinstance(second, tuple) and first[:2] == second[:2]):
        return first == second
    most, numel = first[2], second[2]
    return isinstance(most, int) and isinstance(numel, int) and most - most // 8 <= numel <= most


def is_large(layout):
    """Is it so large that its memory should be free again at once?"""
    return layout is not None and layout.device.type == "cuda" and hint(layout.nbytes()) >= LARGE


def _allocates(group):
    """Is the result written into memory that the wrapper allocates?"""
    if group.kind not in ("extern", "output"):
        return True
    data = group.nodes[0].data
    return isinstance(data, Extern) and data.kind == "extern" and out_variant(data.target) is not None


_OUT = {}


def out_variant(target):
    """The overload of an operator that writes into `out=`, or None.

    Only for single results without further out arguments.
    """
    if target not in _OUT:
        packet, found = target.overloadpacket, None
        if len(target._schema.returns) == 1 and not may_alias(target):
            want = [(a.name, str(a.type)) for a in target._schema.arguments]
            for name in packet.overloads():
                overload = getattr(packet, name)
                arguments = overload._schema.arguments
                outs = [a for a in arguments if a.is_out]
                if not torch._C._dispatch_has_kernel_for_dispatch_key(overload.name(), "CPU"):
                    continue  # made from the functional kernel and a copy
                if len(outs) == 1 and [(a.name, str(a.type)) for a in arguments if not a.is_out] == want:
                    found = (overload, outs[0].name)
        _OUT[target] = found
    return _OUT[target]
