"""Loop nests in C++: which loops run in parallel, which in vector registers, and how partial results are combined.

Goes in: loops and what stands inside.  Comes out: text.  Mirrors `LoopNest` of `torch/_inductor/codegen/cpp.py`.
Taught in chapter 11.
"""

import dataclasses

import torch

from ... import config
from .. import ir
from ..indexing import hint
from ..ops import OPS, REDUCTIONS
from .cpp_expr import COMPUTE, CppWriter, indent, literal

SERIAL = 1 << 16  # vector work below which starting threads costs more than it gains
LINE = 64  # bytes that are fetched at once
LIGHT = 12  # cost of a body that waits for memory
GROWN = 64  # what a symbolic size is taken for where there is more work than there was at first


@dataclasses.dataclass
class Loop:
    """for (var = low; var < high; var += step)

    length: of a loop over a tile, at most.
    """

    var: object
    low: str
    high: str
    step: int = 1
    length: int | None = dataclasses.field(default=None, kw_only=True)

    def __str__(self):
        step = f"++{self.var}" if self.step == 1 else f"{self.var} += {self.step}"
        return f"for (int64_t {self.var} = {self.low}; {self.var} < {self.high}; {step})"


@dataclasses.dataclass
class TileLoop(Loop):
    """A loop over tiles: `trips` of them."""

    trips: object = 1


class LoopWriter(CppWriter):
    """Writes loops around statements.

    A kernel adds `loop_sizes()`, and `cost()`: about how many vector instructions (times 64) a point takes.
    serial, short: None where all sizes are known.  With symbolic sizes a kernel is written several times, and when it
    is called the sizes decide: serial is a version for few points, short one for short rows.
    """

    serial, short, condition = None, None, ""

    def work(self):
        """About how many vector instructions (times 16) the kernel takes."""
        return ir.product(map(hint, self.loop_sizes())) * self.cost() // 4

    # --- which version, when sizes are symbolic ---

    def threaded(self):
        """Whether there is enough work for threads."""
        if self.serial is None:
            return self.work() >= SERIAL
        sizes = sorted(self.loop_sizes(), key=lambda n: isinstance(n, int))
        points = " * ".join(map(self.size, sizes)) or "1"
        enough = -(-4 * SERIAL // self.cost())
        self.limits[f"{points} < {enough}"] = "serial"
        self.condition = f" if(parallel: {points} >= {enough})"
        return not self.serial

    def is_short(self, size, limit):
        """Whether a row has at most so many elements."""
        if isinstance(size, int):
            return size <= limit
        self.limits[f"{self.size(size)} <= {limit}"] = "short"
        return self.short

    def grows(self, size):
        """Whether it must be another size than was seen, where this version runs: those mean little work."""
        return self.serial is False and not isinstance(size, int) and self.work() < SERIAL

    def likely(self, size):
        """About how large a size is where this version runs."""
        return max(hint(size), GROWN) if self.grows(size) else hint(size)

    def nest(self, levels_, body):
        """Loops around `body()`.  Each level is (pragma or None, [Loop, ...]) and one scope."""
        if not levels_:
            body()
            return
        (pragma, loops), *rest = levels_
        self.push(*(loop.var for loop in loops))
        self.nest(rest, body)
        lines = self.pop()
        if pragma:
            self.line(pragma)
        for depth, loop in enumerate(loops):
            self.line("  " * depth + str(loop) + (" {" if depth == len(loops) - 1 else ""))
        self.line(*indent(lines, len(loops)), "  " * (len(loops) - 1) + "}")

    def offset(self, var, text):
        """A loop variable that is counted from where a piece of its loop begins: GCC knows the piece's length then."""
        self.depth_of_var[var] = len(self.scopes) - 1
        self.line(f"const int64_t {var} = {text};")

    def parallel(self, loops, simd=False):
        """Levels for loops of which the first ones run in parallel, when there is enough work;

        `simd` on the last one.
        """
        flags = " reduction(|:err)" if self.errors else ""
        result, k, threaded = [], 0, self.threaded()
        if threaded and loops:
            limit = len(loops) - 1 if simd and len(loops) > 1 else len(loops)
            trips = 1
            while k < limit and trips < 16:
                trips *= max(1, self.trip(loops[k]))
                k += 1
            if trips < 16 and simd and len(loops) > 1:
                k = 0  # only the vector loop is long: its own iterations are shared out
        clause = self.threads()
        if k:
            collapse = f" collapse({k})" if k > 1 else ""
            both = " simd" if simd and k == len(loops) else ""
            result.append((f"#pragma omp parallel for{both}{collapse}{clause}{flags}", loops[:k]))
        result += [(None, [loop]) for loop in loops[k:]]
        if simd and k < len(loops):
            whole = "parallel for simd" + clause if not k and threaded else "simd"
            result[-1] = (f"#pragma omp {whole}{flags}", result[-1][1])
        return result

    def masked_loads(self):
        """Loads that may lie outside of their buffer."""
        parts = [m.args[1:] for n in self.nodes for m in ir.walk(n.body) if isinstance(m, ir.Masked)]
        return {load for part in parts for expr in part for load in ir.loads(expr)}

    def trip(self, loop):
        return self.likely(getattr(loop.var, "size", 1)) if loop.step == 1 else hint(loop.trips)

    def loop(self, var):
        return Loop(var, "0", self.size(var.size))

    def simd(self, reductions=()):
        clauses = "".join(f" reduction({op}:{name})" for op, name in reductions)
        return f"#pragma omp simd{clauses}" + (" reduction(|:err)" if self.errors else "")

    def parallel_for(self):
        """The pragma that shares one loop out among threads."""
        return f"#pragma omp parallel for{self.threads()}" + (" reduction(|:err)" if self.errors else "")

    def threads(self):
        """The clauses that say how many threads."""
        return (f" num_threads({config.cpp_threads})" if config.cpp_threads else "") + self.condition


# --- the arithmetic of a reduction --------------------------------------------------------------------

_CLAUSE = {"sum": "+", "prod": "*", "any": "|", "all": "&"}


def acc_type(node):
    """What a vector loop accumulates in: half types in float, bool in int."""
    return "int" if node.body.dtype == torch.bool else COMPUTE[node.body.dtype]


def sums_up(node):
    """Whether its rounding errors grow with the length of a row: it is then computed block by block."""
    return node.kind in ("sum", "prod")


def total_type(node):
    """What blocks are added up in: float sums in double."""
    return "double" if sums_up(node) and acc_type(node) == "float" else acc_type(node)


def clause(node):
    floating = node.body.dtype.is_floating_point
    return _CLAUSE.get(node.kind) or ("m_" if floating else "") + node.kind


def identity(node, ctype):
    dtype = node.body.dtype
    value = REDUCTIONS[node.kind].identity(dtype)
    return literal(value, torch.float64 if ctype == "double" else torch.float32 if ctype == "float" else dtype)


def combine(node, a, b, ctype):
    text = OPS[REDUCTIONS[node.kind].combine].cpp
    return text.format(a, f"({b} ? 1 : 0)" if node.body.dtype == torch.bool else f"({ctype}){b}")
