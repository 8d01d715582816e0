"""No more kernels than torch.compile has, on every model of the zoo, in inference and in training.

A kernel is a loop nest, or several that were fused: no call of a library.  torch.compile's are those that its scheduler
is left with; its C++ is not built.
"""

import pytest
import torch
import torch._dynamo
import torch._inductor.config
from torch._inductor import async_compile, scheduler
from torch.utils._pytree import tree_leaves

import minicompile
from minicompile.bench.models import ZOO

CALLS = (scheduler.ExternKernelSchedulerNode, scheduler.NopKernelSchedulerNode)
WITHOUT_GRAPHS = {"lstm"}  # torch.compile leaves frames that call nn.LSTM alone


def run(call, batch, kwargs, mode):
    """A forward, and in training a backward of every result."""
    with torch.set_grad_enabled(mode == "training"):
        results = [t for t in tree_leaves(call(*batch.args, **kwargs)) if isinstance(t, torch.Tensor)]
    roots = [t for t in results if t.requires_grad]
    if roots:
        torch.autograd.backward(roots, [torch.zeros_like(t) for t in roots])


def stub(types, source):
    """A kernel that writes zeros: what ATen reads next has to be in range (the offsets of an embedding bag)."""

    def kernel(*buffers):
        for ctype, buffer in zip(types, buffers, strict=True):
            if not ctype.startswith("const"):
                buffer.zero_()

    return kernel


def kernels_of_torch(model, batch, kwargs, mode, monkeypatch):
    counted = []

    def count(nodes):
        counted.extend(node for node in nodes if not isinstance(node, CALLS))
        return nodes

    monkeypatch.setattr(async_compile.AsyncCompile, "cpp_pybinding", staticmethod(stub))
    torch._dynamo.reset()
    with torch._inductor.config.patch(_post_fusion_custom_pass=count, force_disable_caches=True):
        run(torch.compile(model), batch, kwargs, mode)
    torch._dynamo.reset()
    return len(counted)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["inference", "training"])
@pytest.mark.parametrize("name", [name for name in ZOO if name not in WITHOUT_GRAPHS])
def test_no_more_kernels_than_torch_compile(name, mode, monkeypatch):
    if name.startswith("hf_"):
        pytest.importorskip("transformers", reason="the Hugging Face models need the `test` extra")
    entry = ZOO[name]
    model, batch = entry.build()
    model.train(mode == "training")
    kwargs = entry.training_kwargs(batch) if mode == "training" else batch.kwargs
    if getattr(getattr(model, "config", None), "is_encoder_decoder", False):
        # Its caches are results. Eager's are contiguous and so are ours, a copy each; torch.compile's are views of the
        # products.
        kwargs = {**kwargs, "use_cache": False}
    run(minicompile.compile(model), batch, kwargs, mode)
    ours = minicompile.stats()["kernels"]
    theirs = kernels_of_torch(model, batch, kwargs, mode, monkeypatch)
    assert 0 < ours <= theirs
