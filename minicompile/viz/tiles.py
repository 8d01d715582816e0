"""Programs of a Triton kernel and the memory that they touch, as the interpreter saw it.

Goes in: calls of kernels on CPU tensors, inside `with record_launches() as launches`.  Comes out: a `Launch` each, and
a Picture: every tensor's memory, each element in the colour of the program that touched it, and what masks kept out.
An access outside of every tensor raises IndexError before it happens.  Mirrors nothing in PyTorch.  Taught in chapter
12.
"""

import contextlib
import dataclasses
from unittest import mock

import numpy as np
import torch

from . import style
from .lines import COLOURS
from .picture import PAGE, Canvas

SECTOR, WARP = 32, 32  # bytes that a GPU fetches at least; threads that go in step


@dataclasses.dataclass
class Access:
    """One load or store of a block.  places: the element of each lane; used: whether the mask lets it through."""

    program: int
    name: str  # of the parameter
    stored: bool
    places: np.ndarray
    used: np.ndarray

    def sectors(self, itemsize):
        """Pieces of 32 bytes that its warps fetch.  Threads go along the side of the block where that is the least."""
        counts = []
        for side in range(self.places.ndim):
            places, used = (np.moveaxis(each, side, -1).reshape(-1) for each in (self.places, self.used))
            warps = range(0, places.size, WARP)
            pieces = [np.unique(places[k : k + WARP][used[k : k + WARP]] * itemsize // SECTOR) for k in warps]
            counts.append(sum(len(piece) for piece in pieces))
        return min(counts)


@dataclasses.dataclass
class Launch:
    """One launch: so many programs, each with the same blocks; and what they touched, in order."""

    name: str
    programs: int
    blocks: dict
    tensors: dict  # parameter -> tensor
    accesses: list

    def traffic(self):
        """{parameter: (bytes asked for, bytes fetched or written)}"""
        found = dict.fromkeys(self.tensors, (0, 0))
        for access in self.accesses:
            size = self.tensors[access.name].element_size()
            asked, fetched = found[access.name]
            found[access.name] = (asked + int(access.used.sum()) * size, fetched + access.sectors(size) * SECTOR)
        return found

    def of(self, name):
        return [access for access in self.accesses if access.name == name]

    def only(self, *programs):
        """What these programs touched."""
        return dataclasses.replace(self, accesses=[access for access in self.accesses if access.program in programs])

    def __repr__(self):
        blocks = ", ".join(f"{name}={size}" for name, size in self.blocks.items())
        lines = [f"{self.name}: {self.programs} programs, {blocks}"]
        for name in self.tensors:
            for stored in (False, True):
                by_program = {}
                for access in self.of(name):
                    if access.stored == stored:
                        by_program.setdefault(access.program, []).append(access)
                lines += [f"  {'writes' if stored else 'reads'} {name}"] if by_program else []
                rows = [f"    program {program}: {in_words(found)}" for program, found in by_program.items()]
                lines += rows if len(rows) <= 8 else [*rows[:3], "    ...", rows[-1]]
        return "\n".join(lines)

    def _repr_mimebundle_(self, include=None, exclude=None):
        return draw_tiles(self)._repr_mimebundle_(include, exclude)


def in_words(accesses):
    """`elements 896 to 999, 24 of 128 lanes masked`"""
    places = np.concatenate([access.places[access.used] for access in accesses])
    lanes = sum(access.used.size for access in accesses)
    text = f"elements {places.min()} to {places.max()}" if places.size else "nothing"
    return text + (f", {lanes - places.size} of {lanes} lanes masked" if places.size < lanes else "")


class Watcher:
    """Stands between the interpreter and memory."""

    def __init__(self, builder):
        self.builder, self.launches = builder, []

    def begin(self, function, grid, args, constants):
        tensors = {n: a for n, a in zip(function.arg_names, args, strict=False) if isinstance(a, torch.Tensor)}
        blocks = {name: value for name, value in constants.items() if isinstance(value, int)}
        self.launches.append(Launch(function.__name__, grid[0], blocks, tensors, []))

    def note(self, pointers, mask, stored):
        """Record an access; raise where it is none of the launch's tensors."""
        launch, program = self.launches[-1], self.builder.grid_idx[0]
        addresses = np.atleast_1d(pointers.data).astype(np.int64)
        used = np.broadcast_to(np.atleast_1d(mask.data), addresses.shape).astype(bool)
        inside = {name: self.within(addresses, tensor) for name, tensor in launch.tensors.items()}
        name = max(inside, key=lambda n: (int((inside[n] & used).sum()), int(inside[n].sum())))
        tensor = launch.tensors[name]
        places = (addresses - tensor.data_ptr()) // tensor.element_size()
        wrong = used & ~inside[name]
        if wrong.any():
            does = f"program {program} {'writes' if stored else 'reads'} element {places[wrong][0]} of {name}"
            raise IndexError(f"{does}, which has {extent(tensor)}")
        launch.accesses.append(Access(program, name, stored, places, used))

    def within(self, addresses, tensor):
        start = tensor.data_ptr()
        return (addresses >= start) & (addresses < start + extent(tensor) * tensor.element_size())


def extent(tensor):
    """Elements from the first to the last."""
    return 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride())) if tensor.numel() else 0


@contextlib.contextmanager
def record_launches():
    """Within this block, kernels that run in the interpreter leave a `Launch` each in the list that it gives."""
    from triton.runtime.interpreter import interpreter_builder as builder

    from ..inductor.codegen import triton_interpret

    watcher, run = Watcher(builder), triton_interpret.run
    load, store = builder.create_masked_load, builder.create_masked_store

    def watched_run(function, grid, args, constants):
        watcher.begin(function, grid, args, constants)
        run(function, grid, args, constants)

    def watched_load(pointers, mask, *rest):
        watcher.note(pointers, mask, stored=False)
        return load(pointers, mask, *rest)

    def watched_store(pointers, value, mask, *rest):
        watcher.note(pointers, mask, stored=True)
        return store(pointers, value, mask, *rest)

    memory = mock.patch.multiple(builder, create_masked_load=watched_load, create_masked_store=watched_store)
    with mock.patch.object(triton_interpret, "run", watched_run), memory:
        yield watcher.launches


# --- the picture --------------------------------------------------------------------------------------------


def lanes_on(width, access):
    """(row, column) of each lane in the memory of a tensor, also of those that lie beyond its edge."""
    if access.places.ndim < 2:
        return np.divmod(access.places, width)
    first = access.places.flat[0]
    rows, columns = (np.full(access.places.shape, n) for n in divmod(int(first), width))
    for side, size in enumerate(access.places.shape):
        if size > 1:
            step = int(access.places.take(1, side).flat[0] - first)
            steps = np.arange(size).reshape([-1 if k == side else 1 for k in range(access.places.ndim)])
            down = step // width if abs(step) >= width else 0
            rows, columns = rows + down * steps, columns + (step - down * width) * steps
    return rows, columns


class Memory:
    """One tensor's memory as rows: which program touched which element, and which lanes were kept out."""

    def __init__(self, launch, name):
        tensor = launch.tensors[name]
        blocks = [b for b in launch.blocks.values() if b > 1]
        flat = tensor.dim() < 2 or 1 in tensor.shape
        self.width = min(max(blocks, default=1), extent(tensor)) if flat else max(tensor.stride())
        self.rows, self.columns = -(-extent(tensor) // self.width), self.width
        self.cells, self.masked = {}, {}
        for access in launch.of(name):
            rows, columns = lanes_on(self.width, access)
            for used, cells in ((True, self.cells), (False, self.masked)):
                chosen = access.used == used
                cells.update(dict.fromkeys(zip(rows[chosen].tolist(), columns[chosen].tolist()), access.program))
        touched = [*self.cells, *self.masked]
        self.all_rows = max([self.rows, *(row + 1 for row, _ in touched)])
        self.all_columns = max([self.columns, *(column + 1 for _, column in touched)])

    def runs(self, cells):
        """(row, first column, columns, program) of neighbours in a row that one program touched."""
        found = []
        for (row, column), program in sorted(cells.items()):
            if found and found[-1][0] == row and found[-1][3] == program and sum(found[-1][1:3]) == column:
                found[-1][2] += 1
            else:
                found.append([row, column, 1, program])
        return found


HATCHED = (
    '<defs><pattern id="masked-lanes" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    f'<rect width="6" height="6" fill="{style.CARD}"/><rect width="2" height="6" fill="#c3c8cd"/></pattern></defs>'
)
MASKED, TOUCHED = "url(#masked-lanes)", COLOURS[:7]  # without the grey one


def draw_tiles(launch, names=None, title=None):
    """The memory of a launch's tensors (or of those in `names`), side by side."""
    names = list(names or launch.tensors)
    memories = {name: Memory(launch, name) for name in names}
    room = (PAGE - 32 - 28 * (len(names) - 1)) / len(names)
    widths = {name: min(12.0, room / memory.all_columns) for name, memory in memories.items()}
    tallest = max(memory.all_rows for memory in memories.values())
    high = max(3.0, min(26.0, 360 / tallest))
    square = max(memory.rows for memory in memories.values()) > 26  # then cells as high as they are wide
    if square:
        high = min(high, *widths.values())
        widths = dict.fromkeys(names, high)
    canvas = Canvas(PAGE, 92 + high * tallest + 40)
    canvas.parts.append(HATCHED)
    blocks = ", ".join(f"{block} = {size}" for block, size in launch.blocks.items())
    programs = f"{launch.programs} program{'s' if launch.programs != 1 else ''}"
    canvas.text(16, 30, title or f"{launch.name}: {programs}, {blocks}", 15, bold=True)
    left = 16.0
    for name, memory in memories.items():
        draw_memory(canvas, launch, name, memory, left, 78, widths[name], high)
        left += room + 28
    shown = min(program for memory in memories.values() for program in memory.cells.values())
    draw_key(canvas, 92 + high * tallest + 14, shown, any(memory.masked for memory in memories.values()))
    alt = f"Memory of {', '.join(names)} with the elements that each of {programs} of a Triton kernel touches"
    return canvas.picture(repr(launch), alt)


def draw_memory(canvas, launch, name, memory, left, top, wide, high):
    stored = any(access.stored for access in launch.of(name))
    shape = " x ".join(map(str, launch.tensors[name].shape)) or "one number"
    canvas.text(left, top - 12, f"{'writes' if stored else 'reads'} ", 12.5, style.MUTED)
    canvas.text(left + 48, top - 12, name, 12.5, mono=True, bold=True)
    canvas.text(left + 58 + 8 * len(name), top - 12, shape, 12.5, style.MUTED)
    gap = 1 if high > 8 else 0
    for cells in (memory.masked, memory.cells):
        boxes = {}  # (columns, program, last row) -> first row: runs below each other are one box
        for row, column, count, program in memory.runs(cells):
            place = column, count, program
            boxes[(*place, row)] = row if gap else boxes.pop((*place, row - 1), row)
        for (column, count, program, last), first in boxes.items():
            fill = MASKED if cells is memory.masked else TOUCHED[program % len(TOUCHED)]
            box = left + wide * column, top + high * first, wide * count, high * (last - first + 1) - gap
            canvas.box(*box, fill, radius=0)
    canvas.box(left, top, wide * memory.columns, high * memory.rows - gap, "none", style.MUTED, radius=0)
    spans = {}
    for row, column, count, program in memory.runs(memory.cells):
        old = spans.setdefault(program, [row, row, column, column + count])
        spans[program] = [old[0], row, min(old[2], column), max(old[3], column + count)]
    for program, (first, last, start, stop) in spans.items():
        size = min(13.0, high * (last - first + 1) - 1, wide * (stop - start) / 2)
        if size >= 7:
            x, y = left + wide * (start + stop) / 2, top + high * (first + last + 1) / 2 + size * 0.36
            canvas.text(x, y, str(program), size, anchor="middle")


def draw_key(canvas, y, program, any_masked):
    canvas.box(16, y, 34, 14, TOUCHED[program % len(TOUCHED)], radius=0)
    canvas.text(33, y + 11, str(program), 11, anchor="middle")
    canvas.text(58, y + 11.5, "touched by this program", 12)
    if any_masked:
        canvas.box(240, y, 34, 14, MASKED, style.RULE, radius=0)
        canvas.text(282, y + 11.5, "masked: a lane of the block without an element", 12)
