"""OutputGraph: everything that the capture of one frame has collected so far.

Goes in: graph operations, inputs, guards and side effects, reported by the translator and the trackers.
Comes out: an FX `GraphModule` handed to the backend, and the compiled function that the new bytecode calls.
Mirrors `torch/_dynamo/output_graph.py`.  Taught in chapter 03.
"""

import cmath
import collections
import dataclasses
import functools
import linecache
import operator
import sys
from enum import Enum
from types import EllipsisType, NoneType

import torch
from torch import fx
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from .. import config, errors, record
from . import _eval_frame, builder, freezing, nested_graphs
from .dynamic_shapes import SymbolicSizes
from .guard_checks import same_constant
from .guards import GuardSet
from .polyfills.tensors import set_inference_mode
from .side_effects import SideEffects
from .source import CallSource, ConstantSource, Source
from .variables.base import LazyVariable, unsupported
from .variables.overrides import is_overriding, plain_tensor, without_overriding
from .variables.random_numbers import DrawSource
from .variables.symbolic import SymNodeVariable
from .variables.tensor_state import as_normal_tensor, base_of, with_normal_tensors
from .variables.warned import without_warnings


def exception_of(interpreter):
    """What the caller of a frame handles while it runs."""
    return interpreter.exception()


STEPS_OF_A_ROUND = 10  # instructions, of a loop that may go round `config.loop_limit` times
ROUNDS_OF_A_QUESTION = 10  # what SymPy's answer about a number that changes costs, and its guard at each call
LEAVES = (int, float, complex, str, bytes, range, NoneType, EllipsisType, Enum, OpOverload, torch.Tensor)
LEAVES += (torch.SymInt, torch.SymFloat, torch.SymBool, torch.dtype, torch.device, torch.layout, torch.memory_format)
MOST_DRAWS = 500  # random numbers, each of which is an input of the graph


@dataclasses.dataclass
class GraphInput:
    """One placeholder: how to read it at run time, and what capture knows about it."""

    source: Source
    node: fx.Node
    fake: FakeTensor | torch.SymInt
    value: torch.Tensor | int  # what was there during capture

    def example(self):
        """What the backend is to compile for: capture ran the program on `fake`, which may have changed its history."""
        fake, value = self.fake, self.value
        if not isinstance(fake, FakeTensor) or fake.is_inference():
            return fake
        with torch._C.DisableTorchFunction():  # of a subclass: it may say anything
            needs_grad, is_leaf = value.requires_grad, value.is_leaf
        if fake._version == 0 and fake.requires_grad == needs_grad:
            return fake
        with torch.inference_mode(False), torch.enable_grad():
            fresh = fake.detach().requires_grad_(needs_grad)
            return fresh if is_leaf else fresh.view_as(fresh)


def undoing_modes(run, before):
    """The graph; where it raises, the modes are what they were before it: the frame may start again in eager."""

    def undoing(*args):
        try:
            return run(*args)
        except BaseException:
            for setter, arguments in before:
                setter(*arguments)
            raise

    return undoing


class OutputGraph:
    """The graph under construction, with its inputs, guards, side effects and the trackers of existing objects."""

    def __init__(self, code, function, compile_options, state, function_modes):
        """state: the FrameState of `code`, what earlier compilations taught; function_modes: a FunctionModesOff."""
        self.function_modes = function_modes
        self.varying = state.varying  # sources of values that are not worth a guard: see variables/varying.py
        self.code, self.function, self.options = code, function, compile_options
        self.generators = []  # that capture made, and that have not ended
        self.watch = compile_options.watch
        self.graph = self.root_graph = fx.Graph()  # graph: where operations go now, see nested_graphs.py
        self.steps = 0  # instructions run so far, in all frames, and elements that C code takes from iterators
        self.steps_at_operation = 0  # when the graph grew last
        self.questions = 0  # asked about numbers that change
        self.break_at = None  # the RestartAnalysis of the attempt before
        self.nested = []  # the NestedGraphs under construction, outermost first
        dynamic = False if function_modes.may_watch() else compile_options.dynamic
        self.sizes = SymbolicSizes(dynamic, state.sizes[compile_options.shared], state.varying)
        self.fake_mode = FakeTensorMode(allow_non_fake_inputs=False, shape_env=self.sizes.env)
        self.inputs = []
        self.in_inference_mode, self.grad_enabled = torch.is_inference_mode_enabled(), torch.is_grad_enabled()
        self.counted = {}  # id of a fake -> the fake of an input or of its base: its writes are counted from zero
        self.first_versions = {}  # tracker of an input -> of the number of writes to it before the graph runs
        self.data_aliases = []  # the fakes of `tensor.data`: the tensor's version does not count writes to them
        self.written_in_inference = []  # storages, by their addresses: inference tensors have no version
        self.undoes = getattr(compile_options.backend, "undoes", False)  # what a graph has done, where it raises
        self.with_other_memory = set()  # sources of inputs of which the graph exchanges the memory
        self.cached_calls = []  # of functions with an lru_cache, in order
        self.is_trial = False  # see unseen_calls.py
        self.warnings = []  # that its operators gave
        self.draws = []  # (DrawSource, source of the random generator, method, arguments), in order
        self.existing_keys = {}  # the trackers of existing objects that are keys, or are looked for as keys -> None
        self.array_sources = []  # of numpy arrays: the tensors that stand for them are made anew at each call
        self.guards = GuardSet(function_modes.ambient)
        self.side_effects = SideEffects(self)
        self.variables_by_id = {}  # id of an existing object -> (object kept alive, its one tracker, path)
        self.current_translator = None  # the innermost frame being run
        self.root_cells = {}
        self.rounds = collections.Counter()  # id of the first instruction of a loop -> how often it was jumped back to
        self.outer_exception = LazyVariable(self, sys.exception(), CallSource(ConstantSource(sys, "sys"), exception_of))
        self.assumed = None  # (step, the break there) of the first branch on data that was not taken: data_numbers.py
        self.operator_error = None  # what the last operator raised on fake tensors
        self.graph_module = None
        self.constants = {}  # attributes of the GraphModule: tensors made outside the graph, nested graphs

    def user_frame(self):
        """The innermost running frame that is not torch's own code."""
        frame = self.current_translator
        while frame is not None and frame.parent is not None and "/torch/" in frame.code.co_filename:
            frame = frame.parent
        return frame

    @property
    def user_location(self):
        """file:line of the user's frame."""
        frame = self.user_frame()
        return frame.location() if frame is not None else ""

    @property
    def stack_trace(self):
        """The user's line, in the form in which FX prints it beside a node."""
        frame = self.user_frame()
        if frame is None:
            return ""
        code, line = frame.code, frame.line()
        text = linecache.getline(code.co_filename, line).strip()
        return f'  File "{code.co_filename}", line {line}, in {code.co_name}\n    {text}'

    # --- values -------------------------------------------------------------------------------------
    def lazy(self, value, source):
        """A tracker for an existing value that is neither wrapped nor guarded until somebody looks."""
        return LazyVariable(self, value, source)

    def wrap(self, value, source):
        """The tracker of an existing object; one object has one tracker, however many paths lead to it."""
        return builder.wrap(self, value, source)

    def guard(self, kind, source, expected=None):
        if source is not None:
            self.guards.add(kind, source, expected, self.user_location)

    # --- the graph ----------------------------------------------------------------------------------
    def create_node(self, op, target, args=(), kwargs=None):
        """Add a graph operation and note the user's line on it."""
        args, kwargs = fx.node.map_aggregate((args, kwargs or {}), self.argument)
        if target is operator.pow and repr(args[0]).startswith("-"):  # FX writes the operator: `-2 ** x` is `-(2 ** x)`
            args = (self.create_node("call_function", operator.neg, (-args[0],)), *args[1:])
        node = self.graph.create_node(op, target, args, kwargs)
        node.meta["stack_trace"] = self.stack_trace
        self.steps_at_operation = self.steps
        return node

    def take_round(self):
        """CPython's own loop asks capture something, as in a sort."""
        self.steps += STEPS_OF_A_ROUND
        self.check_patience()

    def check_patience(self):
        """Python that makes no operation is not for a graph; and an iterator may have no end."""
        steps = self.steps - self.steps_at_operation
        if steps > STEPS_OF_A_ROUND * config.loop_limit:
            unsupported("long loop", f"{steps} instructions ran during capture without an operation for the graph")

    def take_question(self):
        """A number that changes was compared or asked for: this line of the user's needs the answer."""
        self.sizes.locate(self.user_location)
        self.questions += 1
        if self.questions * ROUNDS_OF_A_QUESTION > config.loop_limit:
            unsupported("long loop", f"{self.questions} conditions on numbers that change, each a guard")

    def argument(self, value):
        """A leaf of a node's arguments.  FX writes constants as Python does, which loses `complex(0, -0.0)` and NaN."""
        if isinstance(value, fx.Node):
            return nested_graphs.local_node(self, value)
        if not isinstance(value, LEAVES) or type(value).__module__ == "numpy":  # its text is no Python
            unsupported("operator argument", f"{value} cannot be an argument of a graph operation")
        exact = type(value) is not complex or cmath.isfinite(value) and same_constant(eval(repr(value)), value)
        if not exact:
            return self.create_node("call_function", complex, (value.real, value.imag))
        return value

    def add_input(self, tensor, source):
        """A placeholder for a tensor that exists outside; returns (node, fake)."""
        plain = plain_tensor(tensor)
        if plain._is_view() and any(self.got_history(i, plain._base) for i in self.inputs):
            unsupported("unusual tensor", f"{source.name} is a view of a tensor that got a history in the graph")
        with temporarily_clear_interpreter_stack():
            fake = self.sizes.fake_tensor(self.fake_mode, plain, source) if plain is tensor else self.fakeify(plain)
        self.count_from_zero(fake)
        return self.add_placeholder(tensor, fake, source)

    def count_from_zero(self, fake):
        """Its version is how often the graph wrote to it; PyTorch wrote too, where it put it into its memory."""
        owner = base_of(fake)
        if not owner.is_inference() and id(owner) not in self.counted:
            torch._C._autograd._unsafe_set_version_counter((owner,), (0,))
            self.counted[id(owner)] = owner

    @staticmethod
    def got_history(graph_input, base):
        """Whether the graph made this tensor, which is the base or another view of it, require a gradient."""
        value, fake = graph_input.value, graph_input.fake
        related = isinstance(value, torch.Tensor) and (value is base or value._is_view() and value._base is base)
        return related and fake.requires_grad != value.requires_grad

    def add_number(self, value, source):
        """The tracker of an int or float that is another one at each call."""
        symbol = self.sizes.number(value, source)
        self.guard("type", source, type(value))
        node, _ = self.add_placeholder(value, symbol, source)
        return SymNodeVariable(self, node, symbol, source, varies=source in self.varying)

    def add_draw(self, generator, method, arguments, example):
        """A number that the new bytecode draws from a random generator, at `generator`, in front of all else."""
        if len(self.draws) == MOST_DRAWS:
            unsupported("long loop", f"{MOST_DRAWS} random numbers were drawn during capture")
        source = DrawSource(len(self.draws))
        self.draws.append((source, generator, method, arguments))
        return self.add_unknown_number(example, source)

    def add_unknown_number(self, value, source):
        """The tracker of an int or float of which nothing may be asked."""
        symbol = self.sizes.unknown_number(value)
        node, _ = self.add_placeholder(value, symbol, source)
        return SymNodeVariable(self, node, symbol, source, varies=True)

    def add_placeholder(self, value, fake, source):
        name = "".join(c if c.isalnum() else "_" for c in source.name).strip("_")
        last = self.inputs[-1].node if self.inputs else self.root_graph._root
        with self.root_graph.inserting_after(last):
            node = self.root_graph.placeholder(name or "argument")
        node.target = node.name  # `a.b` and `a_b` are two inputs
        node.meta["example_value"] = fake
        self.inputs.append(GraphInput(source, node, fake, value))
        return node, fake

    def fakeify(self, tensor):
        """The fake tensor of a real one, made outside of any function transform that is being captured."""
        with temporarily_clear_interpreter_stack():
            return self.fake_mode.from_tensor(tensor, static_shapes=True)

    def input_value(self, variable):
        """The real tensor behind an input's tracker, as it was when capture began."""
        return next(i.value for i in self.inputs if i.node is variable.node)

    def add_constant(self, tensor):
        """A tensor that capture itself made outside the graph becomes an attribute of the GraphModule."""
        name = f"constant_{len(self.constants)}"
        self.constants[name] = tensor
        return self.root_graph.get_attr(name), self.fakeify(tensor)

    def has_operations(self):
        return any(node.op not in ("placeholder", "get_attr", "output") for node in self.root_graph.nodes)

    def changed_inputs(self):
        """Those that the graph writes to."""
        return [
            graph_input
            for graph_input in self.tensor_inputs()
            if self.has_no_version(graph_input) or not graph_input.fake.is_inference() and graph_input.fake._version > 0
        ]

    def has_no_version(self, graph_input):
        """Of those that the graph writes to: an inference tensor, one with other memory, one written to as `.data`."""
        if graph_input.source in self.with_other_memory:
            return True
        if not self.data_aliases and not self.written_in_inference:
            return False
        memory = graph_input.fake.untyped_storage()._cdata
        aliases = [alias for alias in self.data_aliases if alias.untyped_storage()._cdata == memory]
        without = any(fake.is_inference() for fake in (graph_input.fake, *aliases))
        written = any(not alias.is_inference() and alias._version > 0 for alias in aliases)
        return written or without and memory in self.written_in_inference

    def tensor_inputs(self):
        return [graph_input for graph_input in self.inputs if isinstance(graph_input.fake, FakeTensor)]

    def compile_graph(self, outputs):
        """Finish the graph with these output nodes and compile it.  Returns (callable, its GraphInputs)."""
        if set_inference_mode in self.side_effects.modes:  # which the graph knows as grad modes
            self.create_node("call_function", torch._C._set_grad_enabled, (self.grad_enabled,))
        self.graph.output(tuple(outputs))
        for graph_input in list(self.inputs):
            if not graph_input.node.users:
                self.graph.erase_node(graph_input.node)
                self.inputs.remove(graph_input)
        self.side_effects.restore_modes()  # the backend sees the modes under which the graph will run
        frozen = freezing.freeze_parameters(self)
        gm = nested_graphs.graph_module(self.root_graph, self.constants, "CapturedGraph")
        record.counters["graphs"] += 1
        record.log("graph_code", "%s", lambda: gm.print_readable(print_output=False))
        changed = self.changed_inputs()
        gm.meta["written"] = [k for k, graph_input in enumerate(self.inputs) if graph_input in changed]
        if frozen:
            gm.meta["frozen"] = frozen
        self.graph_module = gm
        fakes = [graph_input.example() for graph_input in self.inputs]
        no_normal = [k for k in gm.meta["written"] if fakes[k].is_inference() and not self.in_inference_mode]
        with self.fake_mode:
            fakes = [as_normal_tensor(fake) if k in no_normal else fake for k, fake in enumerate(fakes)]
        run = without_warnings(self.warnings, without_warnings(self.warnings, self.call_backend)(gm, fakes))
        if no_normal:
            run = with_normal_tensors(run, no_normal)
        if self.function_modes.stack or any(is_overriding(graph_input.value) for graph_input in self.inputs):
            run = without_overriding(run)
        if self.side_effects.modes:
            before = [(torch._C._set_grad_enabled, (self.grad_enabled,)), *self.side_effects.switched()]
            run = undoing_modes(run, before)
        return functools.partial(_eval_frame.call, None, run), self.inputs  # with the hook off

    def call_backend(self, gm, example_inputs):
        """The backend's callable; under a backend error the captured graph itself, run by eager (strict: raise)."""
        grad_enabled = torch.is_grad_enabled()
        try:
            with config.patch(**dict(self.options.settings)):
                compiled = self.options.backend(gm, example_inputs)
        except errors.Unsupported:
            raise
        except Exception as error:
            failure = errors.BackendCompilerFailed(
                f"backend {self.options.backend_name} raised {type(error).__name__}: {error} (in {self.user_location})"
            )
            if config.strict:
                raise failure from error
            record.warn_once(str(failure))
            self.undoes = False
            return gm.forward
        finally:  # a backend that traces the graph may give up in the middle of it
            for setter, arguments in [*self.side_effects.switched(), (torch._C._set_grad_enabled, (grad_enabled,))]:
                setter(*arguments)
        if not callable(compiled):
            raise errors.BackendCompilerFailed(f"backend {self.options.backend_name} returned {compiled!r}")
        return compiled

    # --- aliasing -----------------------------------------------------------------------------------
    def remember(self, value, variable, source=None):
        """From now on `value` is tracked by `variable` (and kept alive, so that its id stays its own).

        source: the path to the value, where the variable is that of something behind it.
        """
        self.variables_by_id[id(value)] = (value, variable, source or variable.source)
        return variable

    def forget_values(self):
        """Trackers, frames and this refer to each other: the program's values are to die now, not when gc comes."""
        for owner in (self.side_effects, *(tracker for _, tracker, _ in self.variables_by_id.values())):
            vars(owner).clear()
        self.variables_by_id.clear()
        # It refers to inputs weakly, which `torch.utils.swap_tensors` refuses.
        self.fake_mode.fake_tensor_converter.meta_converter.describer.lookup_tensor.clear()
        self.inputs, self.root_cells, self.operator_error, self.outer_exception = [], {}, None, None
        self.stack_arguments = None
        frame = self.current_translator
        while frame is not None:
            for values in (frame.arguments, frame.locals, frame.cells, frame.stack, frame.handling, frame.raised_at):
                values.clear()
            frame.return_value = frame.yielded = None
            frame = frame.parent
        self.current_translator = None  # which knows the function, and so its closure

    def known(self, value):
        entry = self.variables_by_id.get(id(value))
        return entry[1] if entry is not None else None

    def made_class(self, value):
        """The tracker of a class that the program makes anew at each call, of which `value` is the model; else None."""
        tracker = self.known(value) if isinstance(value, type) else None
        return tracker if tracker is not None and tracker.source is None and tracker.has_identity else None

    def path_to(self, value):
        """The source by which a known value was reached first."""
        return self.variables_by_id[id(value)][2]
