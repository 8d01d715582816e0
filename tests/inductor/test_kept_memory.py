"""Memory of large results on the CPU: whose it is, and how much is kept."""

import threading

import pytest
import torch

import minicompile
from minicompile.inductor.codegen import _memory
from minicompile.inductor.memory import HUGE, KEPT

N = HUGE // 4  # float32 numbers of a large tensor


@pytest.fixture
def nothing_kept():
    _memory.keep(0)
    _memory.keep(KEPT)


def large(size=(N,), stride=(1,), dtype=torch.float32):
    return _memory.allocate(torch.empty(0, dtype=dtype), size, stride)


def test_memory_serves_again_when_its_last_owner_is_gone(nothing_kept):
    tensor = large()
    view, place = tensor[5:], tensor.data_ptr()
    del tensor
    assert large().data_ptr() != place, "a view still owns it"
    del view
    assert large(dtype=torch.int32).data_ptr() == place


def test_a_much_smaller_tensor_takes_other_memory(nothing_kept):
    place = large((3 * N,)).data_ptr()
    assert large().data_ptr() != place
    assert large((3 * N - 7,)).data_ptr() == place


def test_no_more_is_kept_than_allowed(nothing_kept):
    tensors = [large() for _ in range(4)]
    _memory.keep(2 * HUGE)
    del tensors
    assert _memory.keep(HUGE) == 2 * HUGE
    assert _memory.keep(0) == HUGE
    large()
    assert _memory.keep(KEPT) == 0


@pytest.mark.parametrize(
    ("size", "stride"), [((), ()), ((0, 5), (5, 1)), ((3, 4), (4, 1)), ((N, 2), (1, N)), ((2, N), (2 * N, 2))]
)
@pytest.mark.parametrize("dtype", [torch.bool, torch.bfloat16, torch.float64, torch.complex64])
def test_it_is_a_tensor_like_any_other(size, stride, dtype):
    tensor, expected = large(size, stride, dtype), torch.empty_strided(size, stride, dtype=dtype)
    assert (tensor.shape, tensor.stride(), tensor.dtype) == (expected.shape, expected.stride(), dtype)
    assert tensor.untyped_storage().nbytes() == expected.untyped_storage().nbytes()
    assert torch.equal(tensor.fill_(1), expected.fill_(1))
    tensor.resize_(2 * N + 3).fill_(1)
    assert bool((tensor == 1).all())


def test_results_of_one_function_do_not_share_memory():
    compiled = minicompile.compile(lambda x: (x + 1, x * 2))
    x = torch.randn(N)
    first = compiled(x)
    copies = [value.clone() for value in first]
    second = compiled(x + 5)
    assert all(torch.equal(a, b) for a, b in zip(first, copies, strict=True))
    assert torch.equal(second[0], x + 5 + 1) and torch.equal(second[1], (x + 5) * 2)


def test_threads_take_and_give_back_at_once():
    compiled, wrong = minicompile.compile(lambda x: x + 1), []
    compiled(torch.zeros(N))

    def work(number):
        x = torch.full((N,), float(number))
        for _ in range(20):
            result = compiled(x)
            if not torch.equal(result, x + 1):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_too_much_memory_is_eagers_error():
    with pytest.raises(RuntimeError, match="can't allocate memory"):
        large((1 << 46,))
