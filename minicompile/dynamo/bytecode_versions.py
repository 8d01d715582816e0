"""What differs between CPython 3.11, 3.12 and 3.13, in one place.

Goes in: the real instructions of the running version.  Comes out (`normalise`): the instruction set that the head of
`bytecode.py` describes.  The way back is `bytecode_lower.py`.  Each difference is one row of a table: an opcode name
and a small function.
Mirrors the version tests spread over `torch/_dynamo/bytecode_transformation.py`.  Taught in chapter 02.
"""

import dataclasses
import dis
import inspect
import opcode
import sys
import types

PY312, PY313 = sys.version_info >= (3, 12), sys.version_info >= (3, 13)

GENERATOR_FLAGS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
GENERATOR_START_DEPTH = 0 if PY313 else 1  # RETURN_GENERATOR's push is not in its declared effect before 3.13
NULL_FIRST = not PY313  # a call's NULL stands below the callable before 3.13, above it since

if PY313:
    CACHES = [opcode._inline_cache_entries.get(name, 0) for name in dis.opname]
else:
    CACHES = [*opcode._inline_cache_entries, *[0] * (256 - len(opcode._inline_cache_entries))]
JUMPS = {*dis.hasjrel, *dis.hasjabs}
SLOTS = {dis.opname[op] for op in (*dis.haslocal, *dis.hasfree)}
PAIRS = {name for name in SLOTS if name.count("_FAST") == 2 and name != "LOAD_FAST_AND_CLEAR"}  # super-instructions
CELL_SLOTS = {"LOAD_CLOSURE", "LOAD_DEREF", "STORE_DEREF", "DELETE_DEREF", "MAKE_CELL"}
NORMALISED_JUMPS = {"JUMP", *(f"POP_JUMP_IF_{test}" for test in ("TRUE", "FALSE", "NONE", "NOT_NONE"))}
JUMP_NAMES = NORMALISED_JUMPS | {name for name, opcode in dis.opmap.items() if opcode in JUMPS}
TERMINAL = {"RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE", "INTERPRETER_EXIT", "JUMP"}
TERMINAL |= {"JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"}
COMPARE = {"<": 2, "<=": 10, "==": 8, "!=": 7, ">": 4, ">=": 12}  # the mask that 3.12 and 3.13 keep in the low bits
COMPARE_SHIFT = 5 if PY313 else 4 if PY312 else 0
BINARY = [text for _, text in opcode._nb_ops]
INTRINSICS_1 = {4: "ASYNC_GEN_WRAP", 5: "UNARY_POSITIVE", 6: "LIST_TO_TUPLE"}  # opcodes of their own in 3.11
CONVERSIONS = (None, str, repr, ascii)
NULL_LOCAL = "__null"


@dataclasses.dataclass(frozen=True)
class CallArguments:
    """What CALL takes: `nargs` arguments, of which the last `len(kwnames)` are keyword arguments."""

    nargs: int
    kwnames: tuple = ()


@dataclasses.dataclass(frozen=True)
class ExceptionHandler:
    """Where an exception goes: `target`, after the stack is cut to `depth` values (with lasti, one number more)."""

    target: "Instruction"
    depth: int
    lasti: bool = False


@dataclasses.dataclass(eq=False, slots=True)
class Instruction:
    """One instruction; see the head of `bytecode.py`.  positions: (line, end line, column, end column)."""

    opname: str
    arg: int | None = None
    argval: object = None
    positions: tuple = (None, None, None, None)
    exc: ExceptionHandler | None = None
    offset: int | None = None  # where it was decoded from

    def __post_init__(self):
        if self.argval is None and self.opname != "LOAD_CONST":
            self.argval = self.arg

    def copy(self):
        return Instruction(self.opname, self.arg, self.argval, self.positions, self.exc, self.offset)

    @property
    def opcode(self):
        """The running version's number for it."""
        return dis.opmap[self.opname]

    @property
    def is_jump(self):
        return self.opname in JUMP_NAMES

    @property
    def is_terminal(self):
        """Execution never goes on to the next instruction."""
        return self.opname in TERMINAL

    @property
    def line(self):
        return self.positions[0]

    def __repr__(self):
        if self.is_jump:
            return f"{self.opname} -> {getattr(self.argval, 'opname', self.argval)}"
        return f"{self.opname} {self.argval!r}" if self.arg is not None or self.argval is not None else self.opname


# ---- the raw encoding -------------------------------------------------------------------------------------------
def jump_target(opname, arg, offset, after):
    """Byte offset that a raw jump goes to: `offset` behind the instruction itself, `after` behind its caches."""
    return (after if PY312 else offset) + (-2 if "BACKWARD" in opname else 2) * arg


def jump_arg(jump, end, target):
    """The reverse, in code units; `end` is behind the caches.  Negative: the opcode has the wrong direction."""
    distance = target - (end if PY312 else end - CACHES[jump.opcode])
    return -distance if "BACKWARD" in jump.opname else distance


def resolve(instruction, code, keys):
    """argval of a raw instruction."""
    opname, op, arg = instruction.opname, instruction.opcode, instruction.arg
    if op in dis.hasconst:
        return code.co_consts[arg]
    if opname in PAIRS:
        return keys[arg >> 4], keys[arg & 15]
    if opname in SLOTS:
        return keys[arg]
    if op in dis.hasname:
        return code.co_names[arg >> NAME_SHIFTS.get(opname, 0)]
    if opname == "COMPARE_OP":
        return dis.cmp_op[arg >> COMPARE_SHIFT]
    return BINARY[arg] if opname == "BINARY_OP" else arg


NAME_SHIFTS = {"LOAD_GLOBAL": 1, "LOAD_ATTR": 1 if PY312 else 0, "LOAD_SUPER_ATTR": 2}  # low bits are flags


# ---- where the NULLs are ------------------------------------------------------------------------------------------
# The kinds of all slots on the real stack, as text: "v" a value, "n" a NULL.
METHOD_PAIR = "nv" if NULL_FIRST else "vn"
PAIR_POPS = {"LOAD_GLOBAL": 0, "LOAD_SUPER_ATTR": 3, **({"LOAD_ATTR": 1} if PY312 else {})}  # when the low bit is set


def _pushes_pair(raw):
    """How many values a raw instruction pops before it pushes callable and NULL (method and self), or None."""
    if raw.opname == "LOAD_METHOD":
        return 1
    return PAIR_POPS.get(raw.opname) if raw.arg & 1 else None


def _null_depth(raws, k):
    """PUSH_NULL, SWAP n, SWAP n-1, .., SWAP 2 puts a NULL below n - 1 values (`insert_null` writes it): returns n."""
    following = raws[k + 1] if k + 1 < len(raws) else None
    if following is None or following.opname != "SWAP":
        return 1
    depth = following.arg
    run = [(raw.opname, raw.arg) for raw in raws[k + 1 : k + depth]]
    return depth if run == [("SWAP", n) for n in range(depth, 1, -1)] else 1


def _step(stack, raw, jump):
    """The stack's kinds after `raw`.  Other opcodes than these never touch a NULL: their net effect is enough."""
    name, arg = raw.opname, raw.arg
    if name == "PUSH_NULL":
        return stack + "n"
    if name == "SWAP":
        kinds = list(stack)
        kinds[-1], kinds[-arg] = kinds[-arg], kinds[-1]
        return "".join(kinds)
    if name == "COPY":
        return stack + stack[-arg]
    if name == "PRECALL":  # 3.11 counts a part of CALL's effect here
        return stack
    if name in CALL_SLOTS:
        return stack[: -CALL_SLOTS[name](arg)] + "v"
    pops = _pushes_pair(raw)
    if pops is not None:
        return stack[: len(stack) - pops] + METHOD_PAIR
    effect = dis.stack_effect(raw.opcode, arg if raw.opcode >= dis.HAVE_ARGUMENT else None, jump=jump)
    return stack + "v" * effect if effect >= 0 else stack[:effect]


CALL_SLOTS = {"CALL": lambda n: n + 2, "CALL_KW": lambda n: n + 3, "CALL_FUNCTION_EX": lambda n: 3 + (n & 1)}


def _stacks(raws, code):
    """Kinds of the stack before each raw instruction; None where execution never comes."""
    index = {id(raw): k for k, raw in enumerate(raws)}
    stacks = [None] * len(raws)
    todo = [(0, "v" * (GENERATOR_START_DEPTH if code.co_flags & GENERATOR_FLAGS else 0))]
    while todo:
        k, stack = todo.pop()
        while k < len(raws) and stacks[k] is None:
            raw, stacks[k] = raws[k], stack
            if raw.exc is not None:
                todo.append((index[id(raw.exc.target)], stack[: raw.exc.depth] + "v" * (1 + raw.exc.lasti)))
            if raw.is_jump:
                todo.append((index[id(raw.argval)], _step(stack, raw, jump=True)))
            if raw.is_terminal:
                break
            stack, k = _step(stack, raw, jump=False), k + 1
    return stacks


# ---- normalise ------------------------------------------------------------------------------------------------------
class Normaliser:
    """One pass over the raw instructions; `TABLE[opname](self, raw, k)` returns what replaces one of them."""

    def __init__(self, raws, code):
        self.raws, self.code = raws, code
        self.stacks = _stacks(raws, code)
        self.kwnames = ()
        self.dropped = set()  # numbers of raw instructions that an earlier one has taken in

    def run(self):
        out, first, waiting = [], {}, []  # first: id of a raw instruction -> what stands in its place
        for k, raw in enumerate(self.raws):
            if self.stacks[k] is None:
                continue
            waiting.append(raw)
            if k in self.dropped:
                continue
            new = self.normalise(raw, k)
            for instruction in new:
                instruction.positions, instruction.offset, instruction.exc = (
                    raw.positions,
                    raw.offset,
                    self.handler(raw, k),
                )
            if new:
                first.update((id(each), new[0]) for each in waiting)
                waiting.clear()
                out += new
        for instruction in out:
            if instruction.is_jump:
                instruction.argval = first[id(instruction.argval)]
            if instruction.exc is not None:
                instruction.exc = dataclasses.replace(instruction.exc, target=first[id(instruction.exc.target)])
        return out

    def normalise(self, raw, k):
        if raw.opname in TABLE:
            return TABLE[raw.opname](self, raw, k)
        if raw.opcode < dis.HAVE_ARGUMENT:
            return [Instruction(raw.opname)]
        return [Instruction(raw.opname, raw.arg if raw.argval is raw.arg else None, raw.argval)]

    def handler(self, raw, k):
        if raw.exc is None:
            return None
        return dataclasses.replace(raw.exc, depth=self.stacks[k][: raw.exc.depth].count("v"))

    def next(self, k):
        return self.raws[k + 1] if k + 1 < len(self.raws) else None

    def is_target(self, raw):
        return any(other.argval is raw for other in self.raws if other.is_jump)

    # -- one method per family of opcodes
    def push_null(self, raw, k):
        depth = _null_depth(self.raws, k)
        self.dropped.update(range(k + 1, k + depth))
        return []

    def jump_or_pop(self, raw, k):
        test = "TRUE" if "TRUE" in raw.opname else "FALSE"
        return [Instruction("COPY", 1), Instruction(f"POP_JUMP_IF_{test}", argval=raw.argval), Instruction("POP_TOP")]

    def to_bool(self, raw, k):
        following = self.next(k)
        tested = following.opname in ("POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE", "UNARY_NOT")
        return [] if tested else [Instruction("UNARY_NOT"), Instruction("UNARY_NOT")]

    def end_for(self, raw, k):
        if PY313:  # its END_FOR stands before the POP_TOP of the iterator; an exhausted FOR_ITER skips both
            assert self.next(k).opname == "POP_TOP" and not self.is_target(self.next(k))
            self.dropped.add(k + 1)
        return []

    def load_const(self, raw, k):
        following = self.next(k)
        if following is not None and following.opname == "CALL_KW":
            self.kwnames = raw.argval
            return []
        return [Instruction("LOAD_CONST", argval=raw.argval)]

    def load_fast(self, raw, k):
        return [Instruction("LOAD_CLOSURE" if self.loads_cell(raw.argval, k) else "LOAD_FAST", argval=raw.argval)]

    def loads_cell(self, key, k):
        """3.13 has no LOAD_CLOSURE: LOAD_FAST also loads the cells that go into the closure of a function made next."""
        if not PY313 or self.is_plain_local(key):
            return False
        while self.raws[k].opname in ("LOAD_FAST", "LOAD_FAST_LOAD_FAST"):
            k += 1
        makes_closure = self.raws[k].opname == "BUILD_TUPLE" and isinstance(self.next(k).argval, types.CodeType)
        return makes_closure or not self.code.co_flags & inspect.CO_OPTIMIZED

    def is_plain_local(self, key):
        return key not in self.code.co_cellvars and not isinstance(key, tuple) and key not in self.code.co_freevars

    def pair(self, raw, k):
        names = {"LOAD_FAST_LOAD_FAST": ("LOAD", "LOAD"), "STORE_FAST_LOAD_FAST": ("STORE", "LOAD")}
        kinds = names.get(raw.opname, ("STORE", "STORE"))
        single = [Instruction(f"{kind}_FAST", argval=key) for kind, key in zip(kinds, raw.argval, strict=True)]
        return [self.load_fast(each, k)[0] if each.opname == "LOAD_FAST" else each for each in single]

    def named(self, raw, k):
        opname = "LOAD_ATTR" if raw.opname == "LOAD_METHOD" else raw.opname
        return [Instruction(opname, argval=raw.argval)]

    def kw_names(self, raw, k):
        self.kwnames = self.code.co_consts[raw.arg]
        return []

    def call(self, raw, k):
        pair = self.stacks[k][-CALL_SLOTS[raw.opname](raw.arg) :][:2]
        nargs = raw.arg + (0 if "n" in pair else 1)
        kwnames, self.kwnames = self.kwnames, ()
        return [Instruction("CALL", argval=CallArguments(nargs, kwnames))]

    def swap_or_copy(self, raw, k):
        touched = self.stacks[k][-raw.arg :]
        if touched[0] != "v" or touched[-1] != "v":
            raise ValueError(f"{raw} moves a NULL")
        return [Instruction(raw.opname, touched.count("v"))]

    def dict_merge(self, raw, k):
        """On 3.13 we put a NULL where it looks for one, and take it away behind it (`insert_null`, `take_null`)."""
        if k + 3 < len(self.raws) and self.raws[k + 3].argval == NULL_LOCAL:
            self.dropped.update(range(k + 1, k + 4))
        return [Instruction(raw.opname, raw.arg)]

    def make_function(self, raw, k):
        flags = 0 if PY313 else raw.arg
        while self.next(k) is not None and self.next(k).opname == "SET_FUNCTION_ATTRIBUTE":
            k += 1
            flags |= self.raws[k].arg
            self.dropped.add(k)
        return [Instruction("MAKE_FUNCTION", flags)]

    def format_value(self, raw, k):
        if PY313:
            return [Instruction("FORMAT_VALUE", argval=(None, raw.opname == "FORMAT_WITH_SPEC"))]
        return [Instruction("FORMAT_VALUE", argval=(CONVERSIONS[raw.arg & 3], bool(raw.arg & 4)))]

    def intrinsic(self, raw, k):
        names = INTRINSICS_1 if raw.opname == "CALL_INTRINSIC_1" else {1: "PREP_RERAISE_STAR"}
        return [Instruction(names[raw.arg]) if raw.arg in names else Instruction(raw.opname, raw.arg)]


TABLE = {
    **dict.fromkeys(
        ("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"),
        lambda self, raw, k: [Instruction("JUMP", argval=raw.argval)],
    ),
    **dict.fromkeys(
        (name for name in dis.opmap if name.startswith("POP_JUMP_")),
        lambda self, raw, k: [Instruction("POP_JUMP_IF" + raw.opname.partition("_IF")[2], argval=raw.argval)],
    ),
    **dict.fromkeys(("JUMP_IF_TRUE_OR_POP", "JUMP_IF_FALSE_OR_POP"), Normaliser.jump_or_pop),
    **dict.fromkeys(("LOAD_FAST", "LOAD_FAST_CHECK"), Normaliser.load_fast),
    **dict.fromkeys(PAIRS, Normaliser.pair),
    **dict.fromkeys(("LOAD_GLOBAL", "LOAD_ATTR", "LOAD_METHOD", "BINARY_OP", "COMPARE_OP"), Normaliser.named),
    **dict.fromkeys(("CALL", "CALL_KW"), Normaliser.call),
    **dict.fromkeys(("SWAP", "COPY"), Normaliser.swap_or_copy),
    **dict.fromkeys(("CALL_INTRINSIC_1", "CALL_INTRINSIC_2"), Normaliser.intrinsic),
    **dict.fromkeys(("FORMAT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC"), Normaliser.format_value),
    "PRECALL": lambda self, raw, k: [],
    "BINARY_SLICE": lambda self, raw, k: [Instruction("BUILD_SLICE", 2), Instruction("BINARY_SUBSCR")],
    "STORE_SLICE": lambda self, raw, k: [Instruction("BUILD_SLICE", 2), Instruction("STORE_SUBSCR")],
    "PUSH_NULL": Normaliser.push_null,
    "TO_BOOL": Normaliser.to_bool,
    "END_FOR": Normaliser.end_for,
    "LOAD_CONST": Normaliser.load_const,
    "RETURN_CONST": lambda self, raw, k: [Instruction("LOAD_CONST", argval=raw.argval), Instruction("RETURN_VALUE")],
    "LOAD_SUPER_ATTR": lambda self, raw, k: [Instruction("LOAD_SUPER_ATTR", None, (raw.argval, bool(raw.arg & 2)))],
    "KW_NAMES": Normaliser.kw_names,
    "DICT_MERGE": Normaliser.dict_merge,
    "CALL_FUNCTION_EX": lambda self, raw, k: [Instruction("CALL_FUNCTION_EX", argval=bool(raw.arg & 1))],
    "MAKE_FUNCTION": Normaliser.make_function,
    "CONVERT_VALUE": lambda self, raw, k: [Instruction("CONVERT_VALUE", argval=CONVERSIONS[raw.arg])],
}


def normalise(raws, code):
    """Raw instructions of the running version -> the normalised instruction set."""
    return Normaliser(raws, code).run()
