"""The code of resume functions: the original code with another beginning.

Goes in: a code object, the place where it goes on, and the stack and locals that are there.  Comes out: a code object
that pushes the stack it is given and jumps to the place.  Exception tables go by position in the bytecode, so `with`,
`for` and `try` blocks are re-entered as they are.  Mirrors `torch/_dynamo/resume_execution.py`.  Taught in chapter 05.
"""

import itertools
import types
import weakref

from .bytecode import CallArguments, ExceptionHandler, Instruction, assemble
from .bytecode_analysis import cells_made_inside, copy_instructions, placed_at, reachable, successors
from .code_table import CodeTable
from .opcodes import UNBOUND
from .symbolic_convert import instructions_of, live_in
from .variables.base import unsupported

CO_VARARGS, CO_VARKEYWORDS, CO_GENERATOR = 0x04, 0x08, 0x20


class ResumeOrigin:
    """The code that a resume function was made from, and the place in it of each of its instructions."""

    def __init__(self, code, places, in_loop=False):
        self._code = weakref.ref(code)  # which holds the resume code, in its cache
        self.places = places  # for each decoded instruction of the resume code: its number in the original, or None
        self.in_loop = in_loop  # whether execution can come to the break again

    @property
    def code(self):
        return self._code()


origins = CodeTable()  # resume code -> ResumeOrigin
_resume_codes = CodeTable()  # original code -> {(place, stack, locals): (resume code, argument names)}


def origin_of(code):
    origin = origins.get(code)
    if origin is not None and origin.code is not None:
        return origin
    return ResumeOrigin(code, list(range(len(instructions_of(code)[0]))))


def is_resume_code(code):
    return code in origins


def resumes_in_loop(code):
    return is_resume_code(code) and origins.get(code).in_loop


FRAME_READERS = {"locals", "eval", "exec", "dir", "vars"}
FRAME_GETTERS = {"_getframe", "currentframe"}


def looks_at_own_frame(code):
    """The names by which this code looks at its frame's locals, or at the frame object, once for each place."""
    names = (FRAME_READERS | FRAME_GETTERS).intersection(code.co_names)
    if not names:
        return []
    pairs = itertools.pairwise(instructions_of(code)[0])
    loads = [(one, after) for one, after in pairs if one.opname in ("LOAD_GLOBAL", "LOAD_ATTR") and one.argval in names]
    return [load.argval for load, after in loads if is_look(load, after)]


def is_look(load, following):
    if load.argval in FRAME_GETTERS:  # `sys._getframe(1)` asks for another frame
        return load.argval != "_getframe" or following.opname != "LOAD_CONST" or following.argval == 0
    bare_call = following.opname == "CALL" and following.argval.nargs == 0
    return load.opname == "LOAD_GLOBAL" and (load.argval not in ("dir", "vars") or bare_call)  # `dir(x)` looks at x


CALLEE = ("__callee", "__callee_arguments")
PIECE = "__piece"


def resume_code(original, place, bound, local_names, callee=None):
    """The code that resumes `original` at instruction number `place`, with a stack of len(bound) values.

    bound: for each stack value, whether it is a value (False: the "unbound" of LOAD_FAST_AND_CLEAR).
    Its arguments are the locals, then the bound stack values.  Cells of the original become free variables.
    callee: the code of a function that is called first; its result is pushed.  The arguments CALLEE come last then.
    """
    table = _resume_codes.get(original)
    if table is None:
        table = _resume_codes.set(original, {})
    key = (place, bound, local_names, id(callee))  # code objects compare by value
    if key not in table:
        table[key] = *_make_resume_code(original, place, bound, local_names, callee), callee
    return table[key][:2]


def _make_resume_code(original, place, bound, local_names, callee):
    instructions, _ = instructions_of(original)
    inner = cells_made_inside(instructions)
    taken_over = {*original.co_varnames, *original.co_cellvars}.intersection(original.co_freevars)
    if taken_over or inner and inner & live_in(original)[place]:
        unsupported("value across a break", "a comprehension with a cell, or in place of one, cannot be re-entered")
    body = copy_instructions(instructions)
    prologue = _prologue(original, bound, inner)
    if callee is not None:
        call = body[place - 1].copy()
        call.opname, call.arg, call.argval = "CALL_FUNCTION_EX", None, False
        prologue += [*last_loads(CALLEE), call]
    stops_at_once = place > 0 and body[place - 1].opname == "YIELD_VALUE"  # where `throw` finds what stands around it
    if stops_at_once:
        prologue.append(Instruction("LOAD_CONST", None, None))
    prologue.append(Instruction("JUMP", None, body[place - stops_at_once]))
    line = instructions[place if callee is None else place - 1].line or original.co_firstlineno
    placed_at(prologue, (line, line, None, None))
    kept = reachable(prologue + with_errors_of_own_cells(body, original))
    called = CALLEE if callee is not None else ()
    code, arguments = _assemble_piece(original, kept, bound, local_names, called, inner, line)
    numbers = {id(instruction): k for k, instruction in enumerate(body)} | {id(prologue[-1]): place}
    if callee is not None:
        numbers[id(call)] = place - 1
    places = [numbers.get(id(instruction)) for instruction in kept]
    if [i.opname for i in instructions_of(code)[0]] != [i.opname for i in kept]:
        unsupported("value across a break", "its bytecode does not decode to what was assembled")
    rest = kept[len(prologue) :]
    in_loop = (callee is not None and resumes_in_loop(callee)) or any(
        target is body[place] for i, after in zip(rest, [*rest[1:], None]) for target, _ in successors(i, after)
    )
    origins.set(code, ResumeOrigin(original, places, in_loop))
    return code, arguments


def _prologue(original, bound, inner):
    """Until the stack is there.  inner: the cells that the rest makes."""
    freevars = _free_variables(original, inner)
    prologue = [Instruction("COPY_FREE_VARS", len(freevars))] if freevars else []
    if original.co_flags & CO_GENERATOR:
        prologue += [Instruction("RETURN_GENERATOR"), Instruction("POP_TOP")]
    prologue.append(Instruction("RESUME", 0))
    for k, is_bound in enumerate(bound):
        opname = "LOAD_FAST" if is_bound else "LOAD_FAST_AND_CLEAR"
        prologue.append(Instruction(opname, None, f"__stack_{k}" if is_bound else "__unbound"))
    taken = [Instruction("DELETE_FAST", None, f"__stack_{k}") for k, is_bound in enumerate(bound) if is_bound]
    return prologue + taken  # the frame may run in eager, where it would hold what the program has dropped


def last_loads(names):
    return [Instruction(opname, None, name) for name in names for opname in ("LOAD_FAST", "DELETE_FAST")]


def _free_variables(original, inner):
    return tuple(sorted({*original.co_cellvars, *original.co_freevars} - inner))


def _assemble_piece(original, instructions, bound, local_names, called, inner, line):
    stack = [f"__stack_{k}" for k, is_bound in enumerate(bound) if is_bound]
    arguments, freevars = [*local_names, *stack, *called], _free_variables(original, inner)
    other = [n for n in original.co_varnames if n not in arguments and n not in freevars]
    stored = {i.argval: None for i in instructions if i.opname == "STORE_FAST" and i.argval.startswith("__stack_")}
    temporary = [name for name in (*stored, "__unbound") if name not in arguments and name not in other]
    code = assemble(
        instructions,
        original,
        co_varnames=(*arguments, *other, *temporary),
        co_argcount=len(arguments),
        co_posonlyargcount=0,
        co_kwonlyargcount=0,
        co_cellvars=tuple(sorted(inner)),
        co_freevars=freevars,
        co_flags=original.co_flags & ~(CO_VARARGS | CO_VARKEYWORDS),
        co_qualname=f"{original.co_qualname}.<resume at line {line}>",
    )
    return code, arguments


def piece_code(original, bound, local_names, calls, instructions):
    """The code that has these locals and this stack and runs these instructions.  Arguments: as of resume code.

    calls: they call the piece of another frame, the argument PIECE, a Continuation.
    """
    inner = cells_made_inside(instructions_of(original)[0])
    line = instructions[0].line
    called = (PIECE,) if calls else ()
    start = _prologue(original, bound, inner)
    placed_at(start, (line, line, None, None))
    kept = reachable(start + with_errors_of_own_cells(instructions, original))
    return _assemble_piece(original, kept, bound, local_names, called, inner, line)[0]


def with_errors_of_own_cells(instructions, original):
    """What is read of an empty cell raises a local's error where the original made the cell, and here it is free.

    It is caught, and raised anew at the same place; nothing is handled meanwhile, so that it has no context.
    """
    added = []
    for instruction in instructions:
        if instruction.opname not in ("LOAD_DEREF", "DELETE_DEREF") or instruction.argval not in original.co_cellvars:
            continue
        raising = [
            Instruction("POP_TOP"),
            Instruction("LOAD_CONST", None, UnboundLocalError),
            Instruction("LOAD_CONST", None, UNBOUND.format(instruction.argval)),
            Instruction("CALL", None, CallArguments(1)),
            Instruction("RAISE_VARARGS", 1),
        ]
        outer = instruction.exc
        for each in raising:
            each.exc, each.positions = outer, instruction.positions
        instruction.exc = ExceptionHandler(raising[0], 0 if outer is None else outer.depth)
        added += raising
    return instructions + added


# --- generators -----------------------------------------------------------------------------------------
def emit_suspended_generator(codegen, frame, started, names):
    """Build a real generator that stands where the translator of a generator's frame stands.

    It is made by a resume function of the generator's code, which yields at once when it is not a new one.
    """
    local_names = tuple(frame.locals)
    code, _ = resume_code(frame.code, frame.pointer, (True,) * len(frame.stack), local_names)
    namespace = frame.globals_source or frame.globals_source_of(frame.globals_dict)
    cells = [frame.cells[name] for name in code.co_freevars]
    values = [*frame.locals.values(), *frame.stack]
    codegen.call(make_suspended_generator, code, namespace, cells, values, started, names)


def make_suspended_generator(code, globals_dict, cells, arguments, started, names):
    """Called by the new bytecode; see emit_suspended_generator."""
    generator = types.FunctionType(code, globals_dict, None, None, cells)(*arguments)
    generator.__name__, generator.__qualname__ = names
    if started:
        next(generator)
    return generator
