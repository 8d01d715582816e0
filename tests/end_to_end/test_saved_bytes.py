"""What training keeps from forward to backward: never more than what torch.compile's partitioner keeps.

Both split the same captured graph.  Views of inputs cost nothing.  Results count: theirs reads one again where eager
does not, as logits for a cross-entropy; ours keeps something else then, because the user may write to a result.
"""

import pytest
import torch
from test_zoo import build

import minicompile
from minicompile import aot
from minicompile.aot.nodes import base_of, size_in_bytes
from minicompile.bench.models import ZOO

IN_CI = ("unet", "mlp_mixer")
TOLERANCE = 1.05  # of a few small tensors, and of indices in two bytes where theirs take one


class Done(BaseException):
    """Stops a compilation: all that was wanted is known."""


def captured(name):
    """The graph of a model in bfloat16, as a benchmark trains it, and its example inputs."""
    build(name)  # which skips where a library is missing
    entry = ZOO[name]
    model, batch = entry.build("medium")
    cast = lambda t: t.bfloat16() if isinstance(t, torch.Tensor) and t.is_floating_point() else t  # noqa: E731
    kwargs = {key: cast(value) for key, value in entry.training_kwargs(batch).items()}
    found = []

    def backend(gm, examples):
        found.append((gm, examples))
        raise Done

    with pytest.raises(Done):
        minicompile.compile(model.train().bfloat16(), backend=backend)(*map(cast, batch.args), **kwargs)
    return found[0]


def kept_by_torch(gm, examples):
    """Bytes that its partitioner saves besides inputs."""
    import torch._inductor.lowering  # noqa: F401  (its decompositions look there)
    from torch._functorch.aot_autograd import aot_module_simplified
    from torch._functorch.partitioners import min_cut_rematerialization_partition
    from torch._inductor.decomposition import select_decomp_table

    found = []

    def partition(joint, inputs, *, num_fwd_outputs, **options):
        options |= {"num_fwd_outputs": num_fwd_outputs, "compiler": "inductor"}
        forward, _ = min_cut_rematerialization_partition(joint, inputs, **options)
        outputs = forward.graph.output_node().args[0]
        found.append({base_of(n) for n in outputs[num_fwd_outputs:]})
        raise Done

    with pytest.raises(Done):
        table = select_decomp_table()
        aot_module_simplified(gm, examples, fw_compiler=lambda g, e: g, partition_fn=partition, decompositions=table)
    return sum(size_in_bytes(node) for node in found[0] if node.op != "placeholder")


@pytest.mark.parametrize("name", [n if n in IN_CI else pytest.param(n, marks=pytest.mark.slow) for n in ZOO])
def test_no_more_is_kept_than_by_torch_compile(name):
    gm, examples = captured(name)
    ours = sum(s.bytes for s in aot.trace(gm, examples).saved if s.source[0] != "input")
    theirs = kept_by_torch(gm, examples)
    print(f"{name}: {ours:,} bytes, torch.compile {theirs:,}")
    assert ours <= TOLERANCE * theirs
