"""Checkpoints in a trace: what a policy keeps, and a second run that writes or draws as eager's does.

Goes in: the node of a checkpoint, when it is traced.  Comes out: its results.  As a rule the partitioner decides what
runs again, and that is nothing but the same values.  Where the function writes buffers (batch norm's statistics), or
draws without `preserve_rng_state`, eager's second run writes again and draws other numbers: then autograd's hooks for
saved tensors run it again in the traced backward.
Mirrors `torch/utils/checkpoint.py` and `torch/_higher_order_ops/wrap.py`.  Taught in chapter 08.
"""

import contextlib

import torch
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.utils import checkpoint as checkpoints
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from ..errors import Unsupported
from .nodes import draws, draws_with
from .outputs import unwrap
from .provenance import gradient_functions, last_of, nodes_since

aten = torch.ops.aten
RECOMPUTE = (False, checkpoints.CheckpointPolicy.MUST_RECOMPUTE, checkpoints.CheckpointPolicy.PREFER_RECOMPUTE)
BLIND_DRAWS = {  # their results do not depend on the values of the tensors that they take
    getattr(aten, name)
    for name in "rand randn randint randperm rand_like randn_like randint_like bernoulli_ uniform_ normal_".split()
}


class Selecting(TorchDispatchMode):
    """Inside a checkpoint with a policy: asks it, as eager does, of which operators the results are kept."""

    def __init__(self, provenance, contexts):
        super().__init__()
        self.graph, self.kept, (context, _) = provenance.graph, provenance.kept, contexts()
        if not isinstance(context, checkpoints._CachingTorchDispatchMode):
            raise Unsupported("checkpoint in contexts of its own", "only those of a policy have a meaning for a graph")
        self.policy = context.policy_fn

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs, last = kwargs or {}, last_of(self.graph)
        result = function(*args, **kwargs)
        if function not in checkpoints.SAC_IGNORED_OPS:
            context = checkpoints.SelectiveCheckpointContext(is_recompute=False)
            context.op_output = result
            if self.policy(context, function, *args, **kwargs) not in RECOMPUTE:
                self.kept.update(node.name for node in nodes_since(last, self.graph))
        return result


def run(body, args, options, provenance):
    """(the results of a checkpoint, the `SecondRun` that its backward needs, or None)"""
    contexts, preserve = options.get("context_fn"), options.get("preserve_rng_state", True)
    counted = args[-1] if args and isinstance(args[-1], tuple) else ()  # writes to these raise their versions
    if contexts and (counted or not preserve):
        raise differs("has a policy for what it keeps")
    provenance.given[provenance.current] = [args[k] for k in body.runner.module.meta["given"]]
    tensors = [tensor for tensor in (*args, *counted) if isinstance(tensor, torch.Tensor)]
    before, second = [*map(unwrap, tensors)], None
    if counted or not preserve:
        second = SecondRun(body, args, preserve, options)
        results = second.first()
    else:
        with Selecting(provenance, contexts) if contexts else contextlib.nullcontext():
            results = body(*args)
    written = [tensor for tensor, value in zip(tensors, before, strict=True) if unwrap(tensor) is not value]
    if second is not None:
        second.written = written
    elif written:
        raise differs("writes, and nothing counts it")
    return results, second


def differs(how):
    return Unsupported("checkpoint whose second run differs", f"its function {how}: this the trace cannot repeat")


class StopHere(Exception):
    """All that the first run saved is there again."""


class SecondRun:
    """Runs the function of a checkpoint again when its backward asks for the first tensor that it saved."""

    def __init__(self, body, args, preserve, options):
        self.body, self.args, self.preserve, self.written = body, args, preserve, ()
        self.stops = options.get("early_stop", True) and not options.get("use_reentrant")
        self.draws, self.kept, self.again = [], [], None
        devices = {arg.device.type for arg in args if isinstance(arg, torch.Tensor)}
        self.autocast = [(d, torch.is_autocast_enabled(d), torch.get_autocast_dtype(d)) for d in sorted(devices)]

    def first(self):
        self.given = [(arg, arg._version) for arg in self.args if isinstance(arg, torch.Tensor)]
        with torch.autograd.graph.saved_tensors_hooks(self.keep, self.load), Draws(self.draws, False, self.preserve):
            return self.body(*self.args)

    def keep(self, tensor):
        self.kept.append((tensor.detach(), tensor._version))
        return len(self.kept) - 1

    def load(self, number):
        tensor, version = self.kept[number]
        if not self.changes:
            if tensor._version != version:
                raise differs("saves what is written later")
            return tensor
        if self.again is None:
            self.again = []
            self.second()
        return self.again[number]

    @property
    def changes(self):
        return bool(self.written or self.draws)

    def second(self):
        written = {id(tensor) for tensor in self.written}
        if any(tensor._version != version and id(tensor) not in written for tensor, version in self.given):
            raise differs("takes what is written later")
        with contextlib.ExitStack() as stack:
            stack.enter_context(torch.enable_grad())
            for device, enabled, dtype in self.autocast:
                stack.enter_context(torch.autocast(device, dtype, enabled))
            stack.enter_context(torch.autograd.graph.saved_tensors_hooks(self.keep_again, lambda number: None))
            stack.enter_context(Draws(self.draws, True, self.preserve))
            stack.enter_context(contextlib.suppress(StopHere))
            self.body(*self.args)

    def keep_again(self, tensor):
        self.again.append(tensor.detach())
        if self.stops and len(self.again) == len(self.kept):
            raise StopHere
        return len(self.again) - 1


class Rewrites:
    """The inputs that second runs write: the backward takes what they hold by then, and gives what they get."""

    def __init__(self, program, primals, provenance, targets, shared):
        self.primals, self.leads = primals, {}  # leads: input -> the tangents with which it is written
        for captured, second in program.second_runs.items():
            functions = [gradient_functions([t.grad_fn]) for t in targets]
            reached = [any(provenance.sequences.get(f._sequence_nr()) is captured for f in each) for each in functions]
            leads = frozenset(k for k, reaches in enumerate(reached) if reaches)
            places = {id(primal): index for index, primal in enumerate(primals)}
            for index in (places.get(id(tensor)) for tensor in second.written if leads):
                if index is None or shared or index in program.replaced or self.leads.setdefault(index, leads) != leads:
                    raise differs("writes what others write too")

    def begin(self, new_place):
        for index in self.leads:
            primal = self.primals[index]
            with torch.no_grad(), torch.autograd._unsafe_preserve_version_counter(primal):
                primal.copy_(new_place(f"again_{index}", primal))
        self.versions = {index: self.primals[index]._version for index in self.leads}

    def left_alone(self, tensors):
        """Those that no second run writes."""
        written = {id(self.primals[index]) for index in self.leads}
        return [t for t in tensors if id(t) not in written]

    def end(self):
        """([(input, how often it was written)], the new values)"""
        written = [(index, self.primals[index]._version - before) for index, before in self.versions.items()]
        return written, [unwrap(self.primals[index]) for index in self.leads]


class Draws(TorchDispatchMode):
    """Remembers what the first run draws; the second draws the same where the checkpoint preserves the generator."""

    def __init__(self, drawn, again, preserve):
        super().__init__()
        self.drawn, self.replay, self.preserve = drawn, iter(drawn) if again and preserve else None, preserve
        self.again = again

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if not draws(function) or not draws_with(function, args, kwargs or {}):
            return function(*args, **(kwargs or {}))
        dropout = function is aten.native_dropout.default
        if self.preserve and function.overloadpacket not in BLIND_DRAWS and not dropout:
            raise differs(f"draws with {function}")
        if self.replay is None:
            result = function(*args, **(kwargs or {}))
            if not self.again:
                self.drawn.append(tree_map(unwrap, result))
            return result
        drawn = tree_map(FunctionalTensor.to_functional, next(self.replay))
        if dropout:
            return args[0] * drawn[1] * (1 / (1 - args[1])) if args[1] < 1 else args[0] * 0, drawn[1]
        return args[0].copy_(drawn) if function._schema.is_mutable else drawn
