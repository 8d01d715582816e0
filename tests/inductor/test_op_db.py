"""PyTorch's operator table through the whole pipeline: a few operators always, all if slow tests run; the figures.

What it found, each kind with the values that showed it.
"""

import op_worker
import pytest
import run_op_db
import torch
import torch.nn.functional as F
from op_cases import difference

import minicompile

FAST = {  # operator -> dtypes
    "add": ["bool", "uint8"],
    "div.floor_rounding": ["int64", "bfloat16"],
    "clamp": ["float32", "int8"],
    "sum": ["float32", "bool"],
    "var": ["float64"],
    "argmax": ["float32"],
    "cumsum": ["int32"],
    "gather": ["int64", "complex64"],
    "index_put": ["float32"],
    "take": ["uint8"],
    "cat": ["float16", "errors"],
    "nn.functional.max_pool1d": ["float32"],
    "polygamma.polygamma_n_1": ["float32"],
}


@pytest.mark.graph_errors
@pytest.mark.parametrize("name", FAST)
def test_operator(name):
    op = next(op for op in op_worker.op_db if op_worker.full_name(op) == name)
    for dtype in FAST[name]:
        outcome = op_worker.outcome_of(op, dtype, 2)
        assert outcome["status"] != "failed" and outcome["cases"] > 0, outcome["problems"]


@pytest.mark.slow
def test_every_operator():
    """The whole table, two samples a cell; `run_op_db.py --record` is the same with more samples."""
    worker, failed = run_op_db.Worker(), {}
    for op in op_worker.op_db:
        name = op_worker.full_name(op)
        for dtype, outcome in worker.run(name=name, dtypes=op_worker.dtypes_of(op), count=2).items():
            if outcome["status"] == "failed":
                failed[name, dtype] = outcome["problems"]
    worker.close()
    assert not failed


def test_the_figures_are_of_the_whole_table():
    figures = run_op_db.load()
    for op in op_worker.op_db:
        row = figures.get(op_worker.full_name(op), {})
        cells = {dtype for status in run_op_db.STATUSES for dtype in row.get(status, ())}
        assert set(op_worker.dtypes_of(op)) == cells, op.name
    assert run_op_db.totals(figures)["failed"] == 0


IMAGE = torch.randn(2, 3, 4, 4)
FOUND = {
    "batch norm of a transposed input": (lambda x: F.batch_norm(x, None, None, training=True), IMAGE.transpose(2, 3)),
    "batch norm, evaluating": (lambda x: F.batch_norm(x, x[0, :, 0, 0], x[0, :, 0, 0] ** 2), IMAGE.permute(0, 1, 3, 2)),
    "unpooling, channels last": (
        lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2),
        IMAGE.contiguous(memory_format=torch.channels_last),
    ),
    "bytes resized": (
        lambda x: F.interpolate(x, scale_factor=1.5, mode="bilinear"),
        (IMAGE * 50 + 128).clamp(0, 255).to(torch.uint8),
    ),
    "a complex nan in a call": (lambda x: torch.logaddexp(x, x * 1j), IMAGE[0, 0].to(torch.complex64)),
    "scatter of bools": (lambda x: x.scatter_reduce(0, torch.tensor([[0, 0, 1, 2]]), ~x, "amin"), IMAGE[0, 0] > 0),
    "polygamma_": (lambda x: x.clone().polygamma_(1), IMAGE),
    "memory for complex numbers": (
        lambda x: torch.resize_as_(x.clone(), x),
        torch.complex(IMAGE[0], IMAGE[1]).transpose(1, 2),
    ),
    "sparse": (lambda x: x.to_sparse().to_dense(), IMAGE[0, 0]),
}


@pytest.mark.parametrize("name", FOUND)
def test_what_the_table_found(name):
    function, x = FOUND[name]
    assert difference(function(x), minicompile.compile(function)(x)) == ""
