"""`torch.autograd.Function.apply` during capture.

Goes in: the class and the arguments.  Comes out: where no gradient is wanted, its `forward`, inlined; else one node,
which calls a CustomGradient: `forward` and then `backward`, on the context that the forward left, captured as nested
graphs.  Mirrors AutogradFunctionApplyVariable of `torch/_dynamo/variables/higher_order_ops.py`.  Taught in chapter 06.
"""

import itertools
import operator

import torch
from torch.autograd.function import FunctionCtx, _SingleLevelFunction, once_differentiable

from ..custom_gradient import CustomGradient, Plan
from ..nested_graphs import attach, changed_since, effects_of, local_node, nested_graph
from .backward_state import Reads
from .base import ObservedException, unsupported
from .classes import new_plain_object
from .constant import NONE
from .elements import is_none
from .higher_order import GraphValueVariable
from .tensor import TensorVariable, graph_call
from .tuples import TupleVariable

ONCE = once_differentiable(lambda ctx: None).__code__


def apply(tx, cls, *args, **kwargs):
    args = [arg.realize() for arg in args]
    wanted = torch.is_grad_enabled() and any(isinstance(a, TensorVariable) and a.fake.requires_grad for a in args)
    if wanted and not kwargs:
        return FunctionCapture(tx, cls.as_python_constant(), args).run()
    grad_enabled = torch.is_grad_enabled()
    tx.call(torch._C._set_grad_enabled, tx.build(False))
    try:
        context, output = call_forward(tx, cls, args, kwargs)
        dirty = noted(tx, context, "dirty_tensors")
        if type(output) is TupleVariable:
            return TupleVariable([apart(tx, item.realize(), args, dirty) for item in output.items])
        return apart(tx, output, args, dirty)
    finally:
        tx.call(torch._C._set_grad_enabled, tx.build(grad_enabled))


def apart(tx, output, args, dirty):
    """`apply` returns no argument itself, unless the forward wrote to it: another tensor on its memory."""
    if not isinstance(output, TensorVariable) or output not in args:
        return output
    if output.fake.requires_grad:
        return graph_call(tx, "detach", [output], {}, op="call_method")
    return output if output in dirty else graph_call(tx, "view_as", [output, output], {}, op="call_method")


def noted(tx, context, name):
    """What the forward left on its context under this name: a list of trackers."""
    pending = tx.side_effects.load_attr(context, name)
    return [] if pending is None else [item.realize() for item in pending.realize().unpack(tx)]


def call_forward(tx, cls, args, kwargs):
    """Run `forward` in either of its two forms.  Returns the context and the output."""
    context = new_plain_object(tx, FunctionCtx, [], {})
    needs = tuple(isinstance(arg, TensorVariable) and arg.fake.requires_grad for arg in args)
    tx.side_effects.store_attr(context, "needs_input_grad", tx.build(needs))
    run = cls.var_getattr(tx, "forward")
    if cls.as_python_constant().setup_context is _SingleLevelFunction.setup_context:
        return context, run.call_function(tx, [context, *args], kwargs).realize()
    output = run.call_function(tx, args, kwargs).realize()
    cls.var_getattr(tx, "setup_context").call_function(tx, [context, tx.build_tuple(args), output], {})
    return context, output


class FunctionCapture:
    """One call of `cls.apply` of which a gradient is wanted."""

    def __init__(self, tx, cls, args):
        self.tx, self.cls, self.args, self.output = tx, cls, args, tx.output
        self.tensors = [arg for arg in args if isinstance(arg, TensorVariable)]
        if torch._C._functorch.peek_interpreter_stack() is not None:
            self.refuse("is called inside a function transform")

    def refuse(self, reason):
        unsupported("custom autograd function", f"{self.cls.__qualname__} {reason}")

    def run(self):
        with torch.no_grad(), nested_graph(self.output) as nested:
            for tensor in self.tensors:  # the first inputs, each with a gradient of its own
                nested.lifted.setdefault(tensor.node, nested.argument(tensor.node.name, tensor.fake))
            self.context, result = call_forward(self.tx, self.tx.build(self.cls), self.args, {})
            self.set_outputs(result)
            patterns = {pattern: self.capture_backward(pattern) for pattern in self.patterns()}
            plan = self.plan(nested, {p: reads for p, (graph, reads) in patterns.items() if graph is not None})
        name = self.cls.__name__
        backwards = {p: graph for p, (graph, _) in patterns.items() if graph is not None}
        module = CustomGradient(name, plan, nested.close(tuple(self.results), f"{name}_forward"), backwards)
        others = [node for node in nested.lifted if all(node is not tensor.node for tensor in self.tensors)]
        inputs = [attach(self.output, module, name), *others]
        function, *others = map(GraphValueVariable, inputs)
        return self.rebuild(graph_call(self.tx, operator.call, [function, *self.tensors, *others], {}))

    # --- what the forward returned and left on its context --------------------------------------------
    def set_outputs(self, result):
        """outputs: trackers of all that it returns; returned: the tensors among them, the first of the `results`."""
        if type(result) not in (TupleVariable, TensorVariable):
            self.refuse(f"returns {result}, no tensor or tuple")
        self.is_tuple = isinstance(result, TupleVariable)
        self.outputs = [item.realize() for item in result.items] if self.is_tuple else [result]
        self.returned = [item for item in self.outputs if isinstance(item, TensorVariable)]
        if not all(item in self.returned or item.is_python_constant() for item in self.outputs):
            self.refuse(f"returns tensors inside of {result}")
        self.results = [local_node(self.output, item.node) for item in self.returned]
        effects = self.tx.side_effects
        materialize = effects.load_attr(self.context, "materialize_grads")
        self.materialize = materialize is None or self.tx.truth(materialize)
        saved = effects.load_attr(self.context, "to_save")
        effects.store_attr(self.context, "saved_tensors", saved or self.tx.build(()))

    def noted(self, name):
        return noted(self.tx, self.context, name)

    def rebuild(self, result):
        """What `apply` returns: the tensors are the node's results, everything else is what the forward returned."""
        if not self.is_tuple:
            return result
        tensors = iter(result.unpack(self.tx))
        return TupleVariable([next(tensors) if item in self.returned else item for item in self.outputs])

    def plan(self, nested, reads):
        """The Plan.  reads: {pattern: the values that its backward takes}; they may add to the forward's results."""
        checked = {item.node for item in self.noted("to_save") if isinstance(item, TensorVariable)}
        dirty, marked, saved = self.noted("dirty_tensors"), self.noted("non_differentiable"), []
        values = list(dict.fromkeys(node for nodes in reads.values() for node in nodes))
        local_values = [local_node(self.output, node) for node in values]  # what only a backward reads is lifted now
        places = [node for node in nested.graph.nodes if node.op == "placeholder"]
        for node, local in zip(values, local_values, strict=True):
            if local.op != "placeholder" and local not in self.results:
                self.results.append(local)
            kind = "input" if local.op == "placeholder" else "result"
            saved.append((kind, (self.results if kind == "result" else places).index(local), node in checked))
        if any(tensor not in self.returned for tensor in dirty):
            self.refuse("marks a tensor as dirty that it does not return")
        return Plan(
            len(self.returned),
            self.is_tuple,
            saved,
            {pattern: [values.index(node) for node in nodes] for pattern, nodes in reads.items()},
            [i for i, tensor in enumerate(self.returned) if tensor in dirty],
            [i for i, tensor in enumerate(self.returned) if tensor in marked],
            self.materialize,
            getattr(self.cls, self.backward_name).__code__ is ONCE,
        )

    # --- backward -----------------------------------------------------------------------------------
    @property
    def backward_name(self):
        return "backward" if self.cls.vjp is torch.autograd.Function.vjp else "vjp"

    def patterns(self):
        """Which gradients the backward may get, one digit for each tensor: all, where missing ones become zeros."""
        if self.materialize:
            return ["1" * len(self.returned)]
        marked = self.noted("non_differentiable")
        digits = ["10" if t not in marked and t.fake.dtype.is_floating_point else "0" for t in self.returned]
        if digits.count("10") > 3:
            self.refuse("has more than three outputs and wants to see which gradients are missing")
        return map("".join, itertools.product(*digits))

    def capture_backward(self, pattern):
        """(GraphModule, the values that it takes behind the gradients); no graph where it raises without some."""
        tx, before, reads = self.tx, effects_of(self.output), Reads(self.tx)
        reads.left_on(self.context)
        # The nested graph switches autocast back, where the backward switches it.
        with reads.noted(), torch._C._DisableAutocast(), nested_graph(self.output) as nested:
            gradients = [self.gradient(nested, t) if p == "1" else NONE for t, p in zip(self.returned, pattern)]
            tensors = iter(gradients)
            arguments = [next(tensors) if item in self.returned else NONE for item in self.outputs]
            run = tx.build(self.cls).var_getattr(tx, self.backward_name)
            try:
                grads = self.gradients_in(run.call_function(tx, [self.context, *arguments], {}).realize())
            except ObservedException:
                if "0" not in pattern:
                    raise
                grads = None
            if grads is None and "0" in pattern:
                return None, ()
            if grads is None:
                self.refuse("returns something else than a gradient for each argument")
            grads = tuple(None if is_none(g) else local_node(self.output, g.node) for g in grads)
        if reads.found:
            self.refuse(f"reads {reads.found[0]} in its backward, which may be another value by then")
        if changed_since(self.output, before, [self.context]):
            self.refuse("changes objects outside of it in its backward")
        return nested.close(grads, f"{self.cls.__name__}_backward_{pattern}"), tuple(nested.lifted)

    def gradient(self, nested, tensor):
        """The tracker of the gradient of one output."""
        with self.output.fake_mode:
            fake = torch.empty_like(tensor.fake)
        return TensorVariable(nested.argument("gradient", fake), fake)

    def gradients_in(self, result):
        """For each tensor argument the tracker of its gradient; None where eager would complain."""
        grads = [item.realize() for item in result.items] if isinstance(result, TupleVariable) else [result]
        given, beyond = grads[: len(self.args)], grads[len(self.args) :]
        fits = [is_none(g) or isinstance(g, TensorVariable) and arg in self.tensors for arg, g in zip(self.args, given)]
        if len(given) < len(self.args) or not all(fits) or not all(map(is_none, beyond)):
            return None
        return [grad for argument, grad in zip(self.args, given) if argument in self.tensors]


HANDLERS = {torch.autograd.Function.apply.__func__: apply}
