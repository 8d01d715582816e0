"""Checks for chapter 00: counting operators and bytes, the crossover, and a toy that is never silently wrong."""

import math

import torch
import torch.nn.functional as F

from .verdict import expect, judge


def check_00_1(count_operators):
    """count_operators(fn, *args) -> the number of operators that the dispatcher runs."""
    x = torch.ones(2, 2)
    weight = torch.ones(3, 2)

    def in_place(t):
        t = t.clone()
        t += 1
        return t

    def loop(t):
        for _ in range(3):
            t = t.relu()
        return t

    trials = [
        expect(count_operators, (lambda t: t + 1, x), 1, "one addition"),
        expect(count_operators, (loop, x), 3, "one line that runs three times"),
        expect(count_operators, (in_place, x), 2, "`clone`, then `+=`: operators in place count too"),
        expect(count_operators, (lambda t: (t.shape, t.dim()), x), 0, "shape and dim compute nothing"),
        expect(
            count_operators,
            (lambda t: F.linear(t, weight), x),
            2,
            "F.linear is one call for you; the dispatcher runs t and mm",
        ),
        expect(count_operators, (lambda t: t + 1, x), 1, "a second count must start again from zero"),
        expect(count_operators, (lambda a, b: a * b + a, x, x), 2, "a function of two tensors"),
    ]
    return judge(trials, "you are counting what the dispatcher sees, not what Python shows")


def check_00_2(bytes_moved):
    """bytes_moved(x, k) -> (eager bytes, fused bytes) of k elementwise operators."""
    trials = [
        expect(bytes_moved, (torch.ones(1000), 9), (72_000, 8_000), "1,000 float32, nine operators"),
        expect(bytes_moved, (torch.ones(1000), 1), (8_000, 8_000), "one operator: fusing saves nothing"),
        expect(bytes_moved, (torch.ones(10, dtype=torch.float64), 2), (320, 160), "float64 takes 8 bytes an element"),
        expect(bytes_moved, (torch.ones(10, dtype=torch.bfloat16), 2), (80, 40), "bfloat16 takes 2 bytes an element"),
        expect(bytes_moved, (torch.ones(3, 4), 2), (192, 96), "a matrix has rows times columns elements"),
        expect(
            bytes_moved, (torch.ones(10)[::2], 3), (120, 40), "a view reads its own elements, not its whole storage"
        ),
        expect(bytes_moved, (torch.empty(0), 5), (0, 0), "an empty tensor moves nothing"),
        expect(bytes_moved, (torch.tensor(1.0), 2), (16, 8), "a number without dimensions is one element"),
    ]
    return judge(trials, "every operator reads and writes; the fused kernel does so once")


def check_00_3(crossover):
    """crossover(dispatch, rate) -> least number of float32 elements whose traffic takes longer than the asking."""

    def trial(dispatch, rate):
        def run():
            n = crossover(dispatch, rate)
            if n is None:
                return "your function returned None; write its body first"
            if not isinstance(n, int):
                return f"elements come whole: return an int, not {type(n).__name__}"
            if 8 * n <= dispatch * rate:
                return f"dispatch={dispatch}, rate={rate}: {n} elements do not take the memory longer (read AND write)"
            if n > 1 and 8 * (n - 1) > dispatch * rate:
                return f"dispatch={dispatch}, rate={rate}: {n} elements is not the least such number"
            return None

        return run

    cases = [(1e-6, 10e9), (5e-6, 4e12), (2.0, 4.0), (1.0, 9.0), (1e-6, 100.0), (math.pi * 1e-6, 12.3e9)]
    return judge([trial(*case) for case in cases], "below that size you wait for Python, above it for memory")


def check_00_4(careful):
    """careful(fn, toy) -> a function that is right everywhere and uses the toy where it may."""

    def fn(x):
        return x * 2

    used = []

    @torch.no_grad()
    def toy(x):
        """What the chapter's toy does with its memory: reads numel() floats in a row, writes a new float tensor."""
        used.append(tuple(x.shape))
        flat = x.as_strided((x.numel(),), (1,)) if x.dtype == torch.float32 else x.reshape(-1).view(torch.uint8).float()
        out = torch.empty_like(x)
        if out.dtype == torch.float32:
            out.as_strided((x.numel(),), (1,)).copy_(flat * 2)
        return out

    answer = careful(fn, toy)
    if answer is None:
        return judge([lambda: "your function returned None; write its body first"], "")
    wide = torch.arange(8.0)
    learning = torch.ones(3, requires_grad=True)
    cases = [
        (torch.tensor([1.0, -2.0]), True, "a plain float32 vector: the toy is right here, so use it"),
        (wide[::2], False, "every second element: the toy would read the ones between"),
        (torch.arange(6.0).reshape(2, 3).t()[:1], False, "a row of a transposed matrix does not lie in a row"),
        (torch.arange(3), False, "integers: the toy's C text reads floats"),
        (torch.ones(2, dtype=torch.float64), False, "float64: eight bytes an element, the toy reads four"),
        (learning, False, "an input that requires grad: the toy leaves no history"),
        (torch.ones(2, 3), True, "a plain matrix: the toy is right here, so use it"),
        (torch.tensor([float("nan"), float("inf")]), True, "nan and inf are float32 like any other"),
    ]

    def trial(x, may_use, about):
        def run():
            used.clear()
            got, wanted = answer(x), fn(x)
            if got is None:
                return "the function that you return gives None"
            if got.dtype != wanted.dtype or not torch.equal(got.nan_to_num(7), wanted.nan_to_num(7)):
                return f"{about}; expected {wanted.tolist()}, got {got.tolist()}"
            if got.requires_grad != wanted.requires_grad:
                return about
            if may_use and not used:
                return f"{about}; you always called eager"
            return None

        return run

    def grad_off():
        with torch.no_grad():
            used.clear()
            answer(learning)
        return None if used else "under torch.no_grad() nothing is remembered in eager either: use the toy"

    trials = [trial(*case) for case in cases]
    return judge([*trials, grad_off], "those conditions are guards; chapter 04 finds them automatically")
