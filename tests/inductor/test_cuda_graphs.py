"""When launches are recorded and replayed: the bookkeeping of CUDA graphs, with a stand-in for the GPU's part.

A recorded "graph" here is the call itself, run again on the recorded inputs, its results written into the recorded
results: what a real replay does.  On a GPU the same programs run for real (scripts/check_gpu.py graphs).
"""

import ctypes

import pytest
import torch

from minicompile import config, record
from minicompile.inductor import cuda_graphs


def address_of(value):
    """A function that makes a tensor from the address alone, as a graph knows it: nothing is kept alive."""
    if not isinstance(value, torch.Tensor):
        return lambda: value
    last = sum((n - 1) * s for n, s in zip(value.shape, value.stride(), strict=True))
    kind = ctypes.c_char * ((last + 1) * value.element_size())
    address, dtype, shape, stride = value.data_ptr(), value.dtype, value.shape, value.stride()
    return lambda: torch.frombuffer(kind.from_address(address), dtype=dtype).as_strided(shape, stride)


@pytest.fixture(autouse=True)
def stand_in(monkeypatch):
    def capture(call, inputs, pool):
        outputs, places = call(inputs), [address_of(i) for i in inputs]

        def replay():
            for old, new in zip(outputs, call([place() for place in places]), strict=True):
                if isinstance(old, torch.Tensor):
                    old.copy_(new)

        for output in outputs:  # recording runs nothing
            if isinstance(output, torch.Tensor):
                output.fill_(99)
        return replay, outputs

    monkeypatch.setattr(cuda_graphs, "capture", capture)
    monkeypatch.setattr(cuda_graphs, "is_capturing", lambda: False)
    monkeypatch.setattr(cuda_graphs, "current_device", lambda: 0)
    monkeypatch.setattr(cuda_graphs, "current_stream", lambda device: STREAM[0])
    monkeypatch.setattr(cuda_graphs, "shared_pool", lambda device: ("shared", None))
    monkeypatch.setattr(torch.Tensor, "is_cuda", True)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: "own")
    cuda_graphs.kept_addresses.clear()
    STREAM[0] = 7


STREAM = [7]


def recorder(call, results=range(100), lasting=False, changing=False):
    return cuda_graphs.Recorder(lambda args: call(*args), 0, changing, results, lasting)


def counts():
    names = ("cuda_graphs", "cuda_graph_replays", "cuda_graphs_refused")
    return [record.counters[name] for name in names]


def test_the_first_call_runs_the_second_records_later_ones_replay():
    double = recorder(lambda x, w: [x * w, 5, None])
    w = torch.nn.Parameter(torch.tensor([2.0, 3.0]))
    seen = [double(torch.full((2,), float(k)), w) for k in range(5)]
    assert [r[0].tolist() for r in seen] == [[2 * k, 3 * k] for k in range(5)], "earlier results stay what they were"
    assert all(r[1:] == [5, None] for r in seen)
    assert counts() == [1, 3, 0]
    (recording,) = double.recordings[()]
    assert list(recording.fixed) == [1] and list(recording.buffers) == [0]


def test_a_parameter_written_in_place_is_read_anew_and_one_put_elsewhere_is_recorded_anew():
    double = recorder(lambda x, w: [x * w])
    x, w = torch.ones(2), torch.nn.Parameter(torch.ones(2))
    for k in range(6):
        with torch.no_grad():
            w.mul_(2)
            if k == 3:
                w.data = w.data.clone()
        assert double([x.clone(), w])[0].tolist() == w.tolist()
    assert counts()[0] == 2


def test_an_input_that_begins_to_move_is_copied_from_then_on():
    double = recorder(lambda x: [x * 2])
    x = torch.ones(2)
    for k in range(6):
        x = x if k < 3 else torch.full((2,), float(k))
        assert double(x)[0].tolist() == (x * 2).tolist()
    assert counts()[0] == 2 and [list(r.buffers) for r in double.recordings[()]] == [[0]]


def test_inputs_with_holes_and_repeated_elements_keep_their_geometry():
    add = recorder(lambda x, y: [x.as_strided((2, 3), (4, 1)) + y])
    for k in range(4):
        x, y = torch.randn(2, 4)[:, :3], torch.randn(3).expand(2, 3)
        assert torch.equal(add(x, y)[0], x + y), k
    assert counts() == [1, 2, 0]


def test_kept_results_are_handed_out_as_they_are_unless_somebody_holds_the_last_ones():
    forward = recorder(lambda x: [x * 2, x + 1], results=range(1), lasting=True)
    results = [forward(torch.full((2,), float(k)))[1] for k in range(2)]
    results.append(forward(torch.full((2,), 2.0))[1])  # the second one is alive: launched by hand
    assert [r.tolist() for r in results] == [[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]
    assert counts() == [1, 0, 0]
    view = results[1][:1]
    del results
    forward(torch.zeros(2))
    assert counts() == [1, 0, 0] and view.tolist() == [2.0], "a view holds it too"
    del view
    assert forward(torch.full((2,), 4.0))[1].tolist() == [5.0, 5.0]
    assert counts() == [1, 1, 0]


def test_what_a_forward_keeps_is_not_copied_for_its_backward():
    forward = recorder(lambda x: [x * 2, x + 1], results=range(1), lasting=True)
    backward = recorder(lambda saved, g: [saved * g], results=range(0), lasting=True)
    held = None
    for k in range(7):
        saved = forward(torch.full((2,), float(k)))[1]
        grad = backward(saved, torch.full((2,), 3.0))[0]
        assert grad.tolist() == [3.0 * (k + 1)] * 2
        held = saved if k == 3 else None  # the next forward runs by hand, and then its backward
        del saved, grad
    assert held is None
    assert [list(r.buffers) for r in backward.recordings[()]] == [[1]]
    assert counts()[0] == 2 and counts()[1] >= 6


def test_symbolic_sizes_have_a_recording_each():
    double = recorder(lambda x, n: [x * n], changing=True)
    for _ in range(4):
        for n in (2, 3):
            assert double(torch.ones(n), n)[0].tolist() == [float(n)] * n
    assert counts() == [2, 4, 0]


def test_another_stream_and_a_result_in_an_input_are_left_alone():
    double = recorder(lambda x: [x * 2])
    for k in range(3):
        double(torch.full((2,), float(k)))
    STREAM[0] = 8
    assert double(torch.ones(2))[0].tolist() == [2.0, 2.0] and counts() == [1, 1, 0]
    same = recorder(lambda x: [x])
    for k in range(3):
        assert same(torch.full((2,), float(k)))[0].tolist() == [k, k]
    assert counts()[2] == 1


def test_what_cannot_be_recorded():
    def graph(function, *inputs):
        from torch.fx.experimental.proxy_tensor import make_fx

        return make_fx(function, tracing_mode="fake")(*inputs)

    assert "not on the GPU" in cuda_graphs.cannot_record(graph(lambda x: x + 1, torch.ones(2)))
    x, rows = torch.ones(3, 2), torch.tensor([0, 2])
    (by_number,) = [n for n in graph(lambda x, i: x[i], x, rows).graph.nodes if "index" in str(n.target)]
    assert not cuda_graphs.reads_data(by_number)
    (item,) = [n for n in graph(lambda x: torch.bincount(x), rows).graph.nodes if "bincount" in str(n.target)]
    assert cuda_graphs.reads_data(item)
    call = object()
    assert cuda_graphs.recorded(call, None, False) is call, "the option is off"
    with config.patch(cuda_graphs=True):
        assert cuda_graphs.recorded(call, graph(lambda x: x + 1, torch.ones(2)), False) is call
    assert counts()[2] == 1


def test_a_random_state_comes_to_the_host_where_kernels_run_one_by_one(monkeypatch):
    """Attention's backward reads it there: outside of a recording an address on the GPU would end the process."""
    graph = torch.fx.Graph()
    names = "grad query key value out logsumexp q k seed offset".split()
    grad, query, key, value, out, total, q, k, seed, offset = map(graph.placeholder, names)
    numbers = (8, 8, 0.1, True)
    target = torch.ops.aten._scaled_dot_product_flash_attention_backward.default
    graph.output(graph.call_function(target, (grad, query, key, value, out, total, q, k, *numbers, seed, offset)))
    assert cuda_graphs.random_states(torch.fx.GraphModule({}, graph)) == [8, 9]
    moved = []
    monkeypatch.setattr(torch.Tensor, "cpu", lambda tensor: moved.append(tensor) or tensor)
    call = cuda_graphs.Recorder(lambda args: [args[0] + 1], 0, False, range(100), False, [1])
    x, state = torch.zeros(3), torch.zeros(())
    call([x, state])
    assert moved == [state]
    call([x, state])  # recorded, and replayed
    assert moved == [state] and counts()[0] == 1
