"""Many small cases in one graph, compared with eager: what the tests of the lowerings share."""

import torch
from op_sweep import difference, functional_graph, tensors

from minicompile import config, inductor

nan, inf = float("nan"), float("inf")
BACKENDS = ["interpreter", "cpp"]
INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
HALVES = [torch.float16, torch.bfloat16]


def check(cases, *inputs, backend="interpreter", exact=()):
    """cases: name -> function of the inputs, all in one graph.  Names in `exact` must agree bitwise."""

    def every(*values):
        return [case(*values) for case in cases.values()]

    expected = [tensors(r) for r in every(*inputs)]
    with config.patch(cpu_backend=backend):
        actual = iter(inductor.compile(functional_graph(lambda *v: tensors(every(*v)), inputs), inputs)(*inputs))
    problems = []
    for name, results in zip(cases, expected, strict=True):
        for e in results:
            a = next(actual)
            found = difference(e, a)
            if not found and (name in exact or exact == "all") and not bitwise(e, a):
                found = "not bitwise equal"
            if found:
                problems.append(f"{name}: {found}{examples(e, a)}")
    assert not problems, "\n".join(problems)


def examples(expected, actual):
    """The first few elements that differ."""
    if expected.shape != actual.shape:
        return ""
    wrong = (expected != actual) & ~(expected.isnan() & actual.isnan())
    pairs = zip(wrong.nonzero().tolist()[:3], expected[wrong].tolist(), actual[wrong].tolist(), strict=False)
    return "".join(f"; at {at} {e!r} became {a!r}" for at, e, a in pairs)


def bitwise(a, b):
    same = torch.equal(torch.nan_to_num(a, nan=3.0), torch.nan_to_num(b, nan=3.0))
    return same and (not a.dtype.is_floating_point or torch.equal(a.signbit() & ~a.isnan(), b.signbit() & ~b.isnan()))


def awkward(dtype, wide=True):
    """Values at the edges of a dtype, in an odd number so that vector loops have a tail."""
    if dtype == torch.bool:
        return torch.tensor([True, False, True, True, False])
    if not dtype.is_floating_point:
        info = torch.iinfo(dtype)
        return torch.tensor([info.min, info.min + 1, 0, 1, 2, 3, 7, info.max - 1, info.max, 5, 100], dtype=dtype)
    values = [nan, inf, -inf, -0.0, 0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 1.0, -1.0, 3.7, -3.7, 1e-3, 0.9999, 10.0, -10.0]
    values += [torch.finfo(dtype).tiny, torch.finfo(dtype).max, torch.finfo(dtype).min, 88.5, -104.0] if wide else []
    return torch.cat([torch.tensor(values, dtype=dtype), torch.linspace(-4, 4, 70).to(dtype)])
