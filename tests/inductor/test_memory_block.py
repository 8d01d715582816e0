"""What a CPU graph computes on its way lies in one block, which stays from call to call and which nobody else sees."""

import itertools
import threading

import pytest
import torch
from patterns import aten_graph

import minicompile
from minicompile import inductor
from minicompile.inductor import ir, memory
from minicompile.inductor.codegen import wrapper

WEIGHTS = [torch.randn(64, 64) for _ in range(3)]


@pytest.fixture(autouse=True)
def no_blocks():
    wrapper._blocks.clear()
    yield
    wrapper._blocks.clear()


def chain(x, *weights):
    a, b, c = weights or WEIGHTS
    first = torch.relu(x @ a)
    second = torch.tanh(first @ b)
    return [(second @ c).sum(1) + first.mean(1), second.half()]


def test_living_buffers_do_not_meet():
    schedule = inductor.schedule(inductor.lower(aten_graph(chain, torch.randn(32, 64), *WEIGHTS)))
    plan = memory.plan(schedule)
    layouts, last = schedule.graph.layouts, {}
    for k, names in enumerate(plan.free):
        last.update((plan.storage.get(name, name), k) for name in names)
    spans = [
        (k, last[name], plan.places[name], plan.places[name] + layouts[name].nbytes())
        for k, new in enumerate(plan.allocate)
        for name, old in new
        if name in plan.places
    ]
    for a, b in itertools.combinations(spans, 2):
        apart_in_time, apart_in_memory = a[1] < b[0] or b[1] < a[0], a[3] <= b[2] or b[3] <= a[2]
        assert apart_in_time or apart_in_memory, plan
    assert spans and max(end for *_, end in spans) <= plan.block and "block of" in str(plan)
    outputs = {o.buffer for o in schedule.graph.outputs}
    assert not any(plan.storage.get(name, name) in plan.places for name in outputs)


def test_results_and_other_calls_keep_their_values():
    """Of other inputs, of a larger graph, in inference mode, and of several threads."""
    compiled = minicompile.compile(chain)
    inputs = [torch.randn(rows, 64) for rows in (32, 96, 32, 7)]
    with torch.inference_mode():
        compiled(inputs[0])
    results = [compiled(x) for x in inputs for _ in range(2)]
    for x, pair in zip([x for x in inputs for _ in range(2)], results, strict=True):
        torch.testing.assert_close(pair, chain(x), rtol=1e-3, atol=1e-3)
    failed = []

    def work(x):
        expected = compiled(x)
        failed.extend(k for k in range(50) if not all(map(torch.equal, compiled(x), expected)))
        torch.testing.assert_close(expected, chain(x), rtol=1e-3, atol=1e-3)

    threads = [threading.Thread(target=work, args=(torch.randn(32, 64),)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed and 1 <= len(wrapper._blocks) <= 3


def test_blocks_are_used_again():
    compiled = minicompile.compile(chain)
    x = torch.randn(32, 64)
    compiled(x)
    (block,) = wrapper._blocks
    compiled(x)
    assert wrapper._blocks == [block]
    small = wrapper.take_block(block.nbytes)
    assert small is block and wrapper.take_block(64).nbytes == 64
    wrapper._blocks.append(wrapper.Block(64))
    assert wrapper.take_block(128).nbytes == 128 and not wrapper._blocks  # the one that is too small is given up


def test_what_a_users_operator_may_hold_lies_elsewhere():
    held = []

    @torch.library.custom_op("conv_tests::holds", mutates_args=())
    def holds(x: torch.Tensor) -> torch.Tensor:
        held.append(x)
        return x + 1

    holds.register_fake(torch.empty_like)

    def function(x):
        return holds((x @ WEIGHTS[0]).relu()) * 2

    compiled, inputs = minicompile.compile(function), [torch.randn(8, 64) for _ in range(2)]
    for x in inputs:
        compiled(x)
    for x, kept in zip(inputs, held, strict=True):
        torch.testing.assert_close(kept, (x @ WEIGHTS[0]).relu())


@pytest.mark.parametrize(
    "size, stride", [((2, 3, 1, 8), (120, 40, 8, 1)), ((4, 5), (1, 4)), ((4, 5), (5, 0)), ((0, 3), (3, 1))]
)
def test_a_place_is_as_long_as_what_pytorch_allocates(size, stride):
    """Also where rows lie in the order of something wider, with holes between them."""
    layout = ir.Layout(torch.device("cpu"), torch.float32, size, stride)
    nbytes = torch.empty_strided(size, stride).untyped_storage().nbytes()
    assert layout.span() == nbytes
    plan = memory.MemoryPlan(allocate=[[("a", None)], [("b", None)], []], free=[[], [], ["a", "b"]], storage={})
    memory.arrange(plan, {"a": layout, "b": layout}, {"a", "b"})
    assert plan.block >= 2 * nbytes and (not nbytes or abs(plan.places["a"] - plan.places["b"]) >= nbytes)
