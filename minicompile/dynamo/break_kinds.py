"""The registry of graph breaks: every kind that capture can report, one row each.

Goes in: a kind's name, at the place in capture that gives up.  Comes out: what the kind means in general, and what the
user can do about it; the place itself adds what it met.  An example of every kind, and the example mended, stands in
notebooks/break_gallery; tests/dynamo/test_break_kinds.py walks rows, examples and call sites.
Mirrors `torch/_dynamo/graph_break_registry.json` and its hints.  Taught in chapter 05.
"""

import dataclasses

from .. import errors


@dataclasses.dataclass(frozen=True)
class BreakKind:
    """name: fixed, reports count by it.  explanation: why capture cannot go on.  hint: what the user can do."""

    name: str
    explanation: str
    hint: str


# name, explanation, hint
TABLE = """
# --- the data of tensors: capture knows shape, dtype and device, and no element ------------------------------
data-dependent branch
    Which way the program goes depends on the elements of a tensor, and capture has none: it sees shapes only.
    use torch.where, or move the branch out of the compiled function
tensor read as a number
    A Python number is made of a tensor's element, so the tensor must be computed first.
    leave it a tensor (`x * scale` needs no `.item()`), or set `minicompile.config.capture_scalar_outputs`
number read from data
    The graph holds a number that it reads from a tensor, and the program, or an operator, has to know it now.
    state what holds of it (`torch._check(n <= x.shape[0])`), or compute with tensors: torch.where for `if`
tensor read as a list or array
    A list, an array or an address is made of a tensor's memory, so the tensor must be computed first.
    use torch operations in place of list or numpy ones, or return the tensor and read it outside
tensor printed
    The text of a tensor shows its elements.
    print its shape and dtype, which capture knows, or return the tensor and print it outside
tensor storage
    The program takes hold of a tensor's memory, or gives it another size: a graph knows tensors, not memory.
    make a new tensor (`torch.empty`, `torch.cat`, `narrow`) in place of changing the memory of this one
data-dependent operator
    The shape of the result, or a Python value that the operator returns, depends on the elements.
    keep shapes fixed (torch.where in place of `x[mask]`), or set `minicompile.config.capture_scalar_outputs`
operator raised
    The operator refuses its arguments (shapes, dtypes), so eager shall raise at the user's line.
    call the function once without compiling it: the operator's message says which argument is wrong
# --- tensors that are more than a plain tensor ---------------------------------------------------------------
tensor subclass
    The class of the tensor runs code of its own around each operation, which a graph would leave out.
    compute with a plain tensor (`x.as_subclass(torch.Tensor)`) in the compiled function
unusual tensor
    A graph holds dense tensors: not sparse, nested or quantized ones, nor those of another tracer.
    convert it before the call (`to_dense()`, `dequantize()`), or disable the function that needs it
tensor attribute
    The attribute belongs to autograd or to the tensor's memory, which exist when the graph runs, not before.
    read the attribute outside the compiled function
tensor attribute write
    An assignment to `.data`, `.grad` or a property exchanges what the tensor is, under everyone who holds it.
    write the elements in place (`x.copy_(new)`), or assign outside the compiled function
backward inside a compiled function
    `backward()` fills `.grad` of everything that the loss was made of, also of what the graph does not see.
    compile the part that computes the loss, and call `loss.backward()` outside
tensor hook
    The hook changes objects outside, or belongs to a tensor from outside, where it would stay after the graph.
    let the hook only compute a gradient from a gradient, or register it outside the compiled function
custom autograd function
    The forward and backward of a torch.autograd.Function become graphs, and these do more than compute.
    take and return plain tensors, and change nothing outside of them; or write the forward as plain operations
function with a graph of its own
    The body of a transform, a checkpoint or a custom backward is a graph of its own: tensors in, tensors out.
    pass what it needs as arguments, return what it computes, and change nothing outside of it
torch call left to eager
    This function of torch acts on the world outside the graph (seeds, files, foreign memory).
    call it before or after the compiled function
operator argument
    An argument of an operator is a Python object that a graph cannot hold.
    pass a tensor or a number
# --- calls that capture does not follow ------------------------------------------------------------------------
print or input
    The terminal is outside the graph, and a graph runs without Python.
    print outside the compiled function, or guard it with `if not torch.compiler.is_compiling()`
file access
    A file is outside the graph, and what it holds may differ at the next call.
    read the file before the call, and pass in what it holds
introspection
    The code asks about frames, names or source code, and a captured frame looks different from the original.
    pass the values by name, or ask before the compiled function is called
function written in C
    Capture follows Python bytecode; a function written in C has none, and this one has no row in the tables.
    compute the value before the call and pass it in, or use the torch function that does the same
function left to eager
    Logging, threads, debuggers and the compiler itself live from what they do outside the graph.
    call it outside the compiled function, or guard it with `if not torch.compiler.is_compiling()`
disabled function
    The function is marked to run in eager.
    take the mark (`minicompile.disable`, `graph_break()`) away where it is not needed
deep recursion
    Each call inside the compiled function is inlined, and these are nested deeper than the limit.
    use a loop, or raise `minicompile.config.inline_depth_limit`
coroutine
    A coroutine runs in the pieces that an event loop chooses, not in one go.
    compile the plain functions that the coroutine calls
cached function
    The function keeps its results by argument, so capture must know these; and what is new to it runs in its turn.
    cache constants only, and only compute; or call the function underneath (`function.__wrapped__`)
# --- classes and objects ----------------------------------------------------------------------------------------
class definition
    A class statement makes a new class on each call, and nothing that was compiled for one fits the next.
    define the class outside the compiled function
class changed
    The change reaches every object of the class, also those that capture has looked at already.
    set attributes of the object, or change the class before the compiled function is called
class written in C
    Making the object runs C code, and capture would not know what is inside of it.
    make the object before the call and pass it in
method written in C
    The method has no bytecode to follow, and may do anything to its object.
    call it outside the compiled function, or hold plain Python data (list, dict, dataclass) instead
attribute written in C
    The attribute is computed by C code, so that capture can neither guard it nor write it later.
    read it before the call and pass the value in
object with a finalizer
    `__del__` runs when the object dies, and a graph changes when that is.
    make the object outside the compiled function, or use a context manager (`with`) in place of `__del__`
identity as a number
    `id()` and the default `hash()` are made of the address of an object, which is another one in each process.
    compare with `is`, and use the object itself as the key
key with its own equality
    Which keys are equal is decided by code or data that is not known during capture.
    use strings, numbers, tuples of these, or objects without `__eq__` as keys
object copy
    The copy is made by C code, of data or attributes that capture does not know.
    copy it outside the compiled function; a tensor has `clone()`
instance __dict__
    The `__dict__` of an object is changed as a whole, and capture tracks its attributes one by one.
    set and delete single attributes (setattr, delattr)
attribute write
    Capture cannot replay this assignment later: the object is not one that holds ordinary attributes.
    keep the value in an ordinary object or in a dict
builtin on an unknown value
    A builtin function or method gets a value that is not known before the graph runs.
    give it plain Python values; for tensors, use the torch function
subclass of a builtin
    The object derives from list, dict or another builtin, and C code would make a new one of the same class.
    hold the list or dict as an attribute in place of deriving from it
lazy module
    The module makes its parameters in its first call.
    call the model once before compiling it
# --- containers, iterators, and the frame itself -------------------------------------------------------------
large container
    Capture tracks each element by itself, and here are very many.
    use one tensor in place of many Python numbers
iterator from outside
    The iterator is under way already, and cannot be read without moving it for everyone else.
    pass in the container, and iterate inside the compiled function
long loop
    Capture unrolls loops, and this one goes round so often that a graph of it would never be done.
    use a tensor operation in place of the loop, or raise `minicompile.config.loop_limit`
value that varies in a loop
    A loop broke before, and this value is another one each time round: a graph for each value would never end.
    mend the break in the loop: a loop without a break is captured whole
value across a break
    The graph broke for another reason while this value was alive, and no bytecode can build it anew behind it.
    mend the other break, or finish with the value (`list(generator)`) before it
exception leaves the frame
    The program raises here and nothing in the frame catches it; eager raises it, with the traceback it has.
    nothing to mend where the exception is meant; it costs speed only when it is raised
instruction not captured
    The instruction belongs to a rare statement that has no method in the translator.
    move the statement into a function that is not compiled
"""
LINES = [line.strip() for line in TABLE.splitlines() if line and not line.startswith("#")]
ROWS = tuple(zip(LINES[::3], LINES[1::3], LINES[2::3], strict=True))

BREAK_KINDS = {row[0]: BreakKind(*row) for row in ROWS}


def break_error(kind, explanation, hint=""):
    """The Unsupported of a kind, with the hint of its row where the place has none that says it better."""
    return errors.Unsupported(kind, explanation, hint or BREAK_KINDS[kind].hint)
