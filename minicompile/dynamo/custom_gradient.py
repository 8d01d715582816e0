"""What a graph calls in place of a user's torch.autograd.Function: forward and backward as nested graphs.

Goes in: the two as GraphModules, and how values go from one to the other.  Comes out: a module whose call is an
autograd function of its own, so that any backend that runs or traces the graph finds the user's backward in it.
Mirrors `torch/_functorch/autograd_function.py` (autograd_function_apply).  Taught in chapter 06.
"""

import dataclasses

import torch
from torch.autograd.function import once_differentiable


@dataclasses.dataclass
class Plan:
    """How the graphs of one function fit together.

    outputs: how many of the forward graph's results it returns; is_tuple: whether as a tuple.  saved: where each value
    that a backward reads is, ("input", i) or ("result", i), and whether it was given to `save_for_backward`, so that
    autograd complains when it is written in between.  reads: for each backward the numbers of the saved values that it
    takes behind its gradients.  dirty, not_differentiable: numbers of outputs.
    """

    outputs: int
    is_tuple: bool
    saved: list
    reads: dict
    dirty: list
    not_differentiable: list
    materialize: bool
    once_differentiable: bool


class CustomGradient(torch.nn.Module):
    """backwards: {which gradients there are, such as "101": GraphModule(*gradients, *saved) -> gradients}."""

    def __init__(self, name, plan, forward_graph, backwards):
        super().__init__()
        self.plan, self.forward_graph = plan, forward_graph
        self.function = type(name, (CapturedFunction,), {})  # autograd's messages name the user's class
        self.backwards = torch.nn.ModuleDict(backwards)

    def forward(self, *inputs):
        return self.function.apply(self, *inputs)


class CapturedFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, function, *inputs):
        plan, results = function.plan, function.forward_graph(*inputs)
        outputs = results[: plan.outputs]
        values = [((inputs if kind == "input" else results)[i], checked) for kind, i, checked in plan.saved]
        ctx.save_for_backward(*(value for value, checked in values if checked))
        ctx.unchecked = [value for value, checked in values if not checked]
        ctx.function, ctx.input_count = function, len(inputs)
        ctx.layouts = [torch.empty_like(output, device="meta").stride() for output in outputs]
        ctx.mark_dirty(*(outputs[i] for i in plan.dirty))
        ctx.mark_non_differentiable(*(outputs[i] for i in plan.not_differentiable))
        ctx.set_materialize_grads(plan.materialize)
        return outputs if plan.is_tuple else outputs[0]

    @staticmethod
    def backward(ctx, *gradients):
        plan, backwards = ctx.function.plan, ctx.function.backwards
        checked, unchecked = iter(ctx.saved_tensors), iter(ctx.unchecked)
        saved = [next(checked) if is_checked else next(unchecked) for _, _, is_checked in plan.saved]
        given = [with_layout(g, layout) for g, layout in zip(gradients, ctx.layouts) if g is not None]
        pattern = "".join("0" if g is None else "1" for g in gradients)
        if pattern not in backwards:
            raise RuntimeError(f"the backward of this function fails where it gets the gradients {pattern} only")
        run = run_once if plan.once_differentiable else run_graph
        results = run(backwards[pattern], *given, *(saved[i] for i in plan.reads[pattern]))
        return None, *results, *[None] * (ctx.input_count - len(results))


def run_graph(graph, *values):
    return graph(*values)


run_once = once_differentiable(run_graph)


def with_layout(gradient, stride):
    """The gradient with the strides that the backward was captured for: it may ask about them."""
    if gradient.stride() == stride:
        return gradient
    return torch.empty_strided(gradient.shape, stride, dtype=gradient.dtype, device=gradient.device).copy_(gradient)
