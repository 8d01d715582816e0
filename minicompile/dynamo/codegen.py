"""PyCodegen: bytecode that has values again which so far exist only as trackers.

Goes in: trackers (the live stack and locals, a return value, pending side effects).
Comes out: instructions: load from the source, take from the graph's outputs, or build anew, each object exactly once.
Mirrors `torch/_dynamo/codegen.py`.  Taught in chapters 05 and 06.
"""

import collections

from torch import fx

from .bytecode import CallArguments, Instruction
from .skip_files import attributes_of
from .source import AttrSource, ItemSource, Source
from .variables.base import LazyVariable, VariableTracker, unsupported
from .variables.constant import HAVE_COPIES
from .variables.descriptors import past_program
from .variables.instance_dict import DictEntry
from .variables.tensor import TensorVariable

GRAPH_OUTPUT = "__graph_out"


def is_untouched(tracker):
    """A value that nobody looked at: it need not even be wrapped to be loaded again."""
    return isinstance(tracker, LazyVariable) and tracker.variable is None and tracker.source is not None


def one_tracker(tracker):
    """The one that stands for an object: not that of its contents, where its class derives from a builtin."""
    tracker = tracker.realize()
    return tracker if tracker.whole is None else tracker.whole


def loads_as_constant(tracker):
    """Not what the program can tell from an equal value: that is read from where it is."""
    return tracker.is_literal() and (tracker.source is None or tracker.python_type() not in HAVE_COPIES)


def is_frame_cell(tracker):
    return getattr(tracker, "frame_name", None) is not None


def emits(opname):
    """A method that emits one instruction: of a name, of a constant, or of nothing."""
    return lambda self, argval=None: self.emit(opname, argval)


def emits_counted(opname):
    return lambda self, count: self.emit(opname, arg=count)


class PyCodegen:
    """Collects `instructions`.  Graph outputs are numbered as they are asked for; the graph call is prepended later."""

    def __init__(self, output, code, prefix="__tmp_"):
        self.prefix = prefix  # of the locals that hold temporaries
        self.output, self.side_effects, self.code = output, output.side_effects, code
        self.instructions = []
        self.graph_outputs = {}  # node -> index in the graph's output tuple
        self.temporaries = {}  # tracker or source -> name of the local that holds its value
        self.acyclic = set()  # new containers that contain no container which contains itself
        self.unfilled = collections.deque()  # new objects that exist but have no contents yet
        self.shared_sources = set()  # sources worth a temporary: several inputs are read through them

    # --- single instructions ------------------------------------------------------------------------
    def emit(self, opname, argval=None, arg=None):
        self.instructions.append(Instruction(opname, arg, argval))

    def load_const(self, value):
        """A constant, which a class made in the program is not: whatever needs it has to get the one of this call."""
        made = self.output.made_class(value)
        if made is not None:
            return self(made)
        self.emit("LOAD_CONST", value)

    load_fast = emits("LOAD_FAST")
    store_fast = emits("STORE_FAST")
    delete_fast = emits("DELETE_FAST")
    load_deref = emits("LOAD_DEREF")
    load_global = emits("LOAD_GLOBAL")
    load_attr = emits("LOAD_ATTR")
    store_attr = emits("STORE_ATTR")  # stack: value, object
    binary_subscr = emits("BINARY_SUBSCR")
    store_subscr = emits("STORE_SUBSCR")  # stack: value, container, key
    delete_subscr = emits("DELETE_SUBSCR")
    build_tuple = emits_counted("BUILD_TUPLE")
    build_list = emits_counted("BUILD_LIST")
    build_set = emits_counted("BUILD_SET")
    build_map = emits_counted("BUILD_MAP")
    build_slice = emits_counted("BUILD_SLICE")
    pop_top = emits("POP_TOP")

    def copy_top(self):
        self.emit("COPY", arg=1)

    # --- calls --------------------------------------------------------------------------------------
    def call_function(self, count, kw_names=()):
        """Stack: callable and `count` arguments, of which the last `len(kw_names)` are keywords."""
        self.emit("CALL", CallArguments(count, tuple(kw_names)))

    def call(self, function, *arguments, kw_names=()):
        """Push what `function`, a Python object, returns for these arguments, see `push`."""
        self.load_const(function)
        self.push_all(arguments)
        self.call_function(len(arguments), kw_names)

    def run(self, function, *arguments):
        """Call it for its effect."""
        self.call(function, *arguments)
        self.pop_top()

    # --- values -------------------------------------------------------------------------------------
    def push(self, value):
        """A tracker's value, what is at a source, an output of the graph, a tuple of such (a list here), a constant."""
        if isinstance(value, VariableTracker):
            self(value)
        elif isinstance(value, Source):
            self.load_source(value)
        elif isinstance(value, fx.Node):
            self.load_graph_output(value)
        elif isinstance(value, list):
            self.push_all(value)
            self.build_tuple(len(value))
        else:
            self.load_const(value)

    def push_all(self, values):
        for value in values:
            self.push(value)

    def new_temporary(self, key):
        self.temporaries[key] = name = f"{self.prefix}{len(self.temporaries)}"
        return name

    def load_original_local(self, name):
        """An argument of the frame; one that is also a cell was moved into it by the prologue."""
        self.emit("LOAD_DEREF" if name in self.code.co_cellvars else "LOAD_FAST", name)

    def load_source(self, source):
        """Read an existing value.  Values on the way to many others are read once."""
        if source in self.temporaries:
            return self.load_fast(self.temporaries[source])
        source.reconstruct(self)
        if source in self.shared_sources:
            self.copy_top()
            self.store_fast(self.new_temporary(source))

    def load_graph_output(self, node):
        if node.graph is not self.output.root_graph:
            unsupported("function with a graph of its own", f"the value {node.name} of its inside is used outside")
        if node.op == "get_attr":
            return self.load_const(self.output.constants[node.target])
        index = self.graph_outputs.setdefault(node, len(self.graph_outputs))
        self.load_fast(GRAPH_OUTPUT)
        self.load_const(index)
        self.binary_subscr()

    def __call__(self, tracker):
        """Push the value of a tracker."""
        if isinstance(tracker, LazyVariable) and tracker.source in self.temporaries:  # saved; looked at since, perhaps
            return self.load_fast(self.temporaries[tracker.source])
        if is_untouched(tracker):
            if isinstance(tracker.source, (AttrSource, ItemSource)):
                self.output.guard("present", tracker.source)  # so that the read cannot raise
            return self.load_source(tracker.source)
        tracker = one_tracker(tracker)
        if tracker in self.temporaries:
            return self.load_fast(self.temporaries[tracker])
        if loads_as_constant(tracker):
            return self.load_const(tracker.as_python_constant())
        if tracker.source is not None:
            return self.load_source(tracker.source)
        tracker.reconstruct(self)
        if not isinstance(tracker, TensorVariable) or not tracker.is_graph_output(self.output):
            self.keep(tracker)

    def keep(self, tracker):
        """The new object on top of the stack is the tracker's value from now on."""
        if tracker not in self.temporaries:
            self.copy_top()
            self.store_fast(self.new_temporary(tracker))
        if hasattr(tracker, "fill") or tracker in self.side_effects.new_objects:
            self.unfilled.append(tracker)

    def save(self, tracker):
        """Have the value in a temporary, so that it outlives changes to the objects it was read from."""
        if is_untouched(tracker):
            key = tracker.source
        else:
            key = tracker = one_tracker(tracker)
        if key in self.temporaries or (key is tracker and loads_as_constant(tracker)):
            return
        self(tracker)
        if key in self.temporaries:
            return self.pop_top()
        self.store_fast(self.new_temporary(key))

    def fill_new_objects(self, cells=True):
        """Give new objects their attributes, after all of them exist (they may refer to each other).

        Cells of the frame come last, after all their contents were loaded: an argument is read from its cell.
        """
        while any(not is_frame_cell(tracker) for tracker in self.unfilled):
            tracker = self.unfilled.popleft()
            self.unfilled.append(tracker) if is_frame_cell(tracker) else self.fill(tracker)
        frame_cells = list(self.unfilled) if cells else []
        for cell in frame_cells:
            for value in self.side_effects.pending_attributes(cell).values():
                if value is not self.side_effects.DELETED:
                    self.save(value)
        if cells and len(self.unfilled) > len(frame_cells):  # contents that are new, or have cells of their own
            return self.fill_new_objects()
        for cell in frame_cells:
            self.unfilled.remove(cell)
            self.fill(cell)

    def fill(self, tracker):
        if hasattr(tracker, "fill"):
            tracker.fill(self)
        for name, value in self.side_effects.pending_attributes(tracker).items():
            self.write_attribute(tracker, name, value)

    def push_key(self, tracker):
        """A dict key or set element: its `__hash__` is about to run, so a new object needs its attributes first."""
        tracker = tracker.realize()
        if tracker in self.side_effects.new_objects:
            self.save(tracker)
            if tracker in self.unfilled:
                self.unfilled.remove(tracker)
                self.unfilled.appendleft(tracker)
                self.fill_new_objects(cells=False)
        self(tracker)

    def write_attribute(self, tracker, name, value):
        """`object.name = value`, past any `__setattr__` of the user's class (capture has already run that)."""
        cls = tracker.python_type()
        if isinstance(name, DictEntry):
            return self.write_instance_dict(tracker, name.name, value)
        if value is self.side_effects.DELETED:
            return self.run(past_program(cls, "__delattr__") or delattr, tracker, name)
        setter = past_program(cls, "__setattr__")
        if setter is not None:
            return self.run(setter, tracker, name, value)
        self(value)
        self(tracker)
        self.store_attr(name)

    def write_instance_dict(self, tracker, name, value):
        """`object.__dict__[name] = value`, where the class has a descriptor of this name that takes writes."""
        deleted = value is self.side_effects.DELETED
        if not deleted:
            self(value)
        self.call(attributes_of, tracker)
        self.load_const(name)
        self.delete_subscr() if deleted else self.store_subscr()

    def write_global(self, source, name, value):
        """A global of the frame itself (source None), or of the module whose dict is at `source`."""
        if value is self.side_effects.DELETED:  # it is not there where capture set it before
            namespace = self.output.function.__globals__ if source is None else source.value
            return self.run(dict.pop, namespace, name, None)
        self(value)
        if source is None:
            return self.emit("STORE_GLOBAL", name)
        self.load_source(source)
        self.load_const(name)
        self.store_subscr()

    def draws(self, draws):
        """Instructions that draw random numbers into locals; they go in front of all others."""
        head = PyCodegen(self.output, self.code)
        for source, generator, method, arguments in draws:
            head.load_source(generator)
            head.load_attr(method)
            for argument in arguments:
                head.load_const(argument)
            head.call_function(len(arguments))
            head.store_fast(source.local)
        return head.instructions

    def generator_states(self, draws):
        """Push where the random generators stand that these numbers are drawn from."""
        generators = dict.fromkeys(generator for _, generator, _, _ in draws)
        for generator in generators:
            self.load_source(generator)
            self.load_attr("getstate")
            self.call_function(0)
        self.build_tuple(len(generators))

    def set_generator_states(self, draws, local):
        for k, generator in enumerate(dict.fromkeys(generator for _, generator, _, _ in draws)):
            self.load_source(generator)
            self.load_attr("setstate")
            self.load_fast(local)
            self.load_const(k)
            self.binary_subscr()
            self.call_function(1)
            self.pop_top()

    def warnings(self, warnings):
        """Instructions that warn as operators of the graph did during capture; they go in front of it."""
        head = PyCodegen(self.output, self.code)
        for warning in warnings:
            head.run(warning.again)
        return head.instructions

    # --- the graph call -----------------------------------------------------------------------------
    def graph_call(self, compiled, inputs):
        """Instructions that call the compiled graph and keep its outputs; they go in front of all others."""
        head = PyCodegen(self.output, self.code, prefix="__in_")
        counts = collections.Counter()
        for graph_input in inputs:
            source = graph_input.source.parent
            while source is not None:
                counts[source] += 1
                source = source.parent
        head.shared_sources = {source for source, count in counts.items() if count > 1 and source.parent is not None}
        head.call(compiled, *(graph_input.source for graph_input in inputs))
        head.store_fast(GRAPH_OUTPUT)
        return head.instructions
