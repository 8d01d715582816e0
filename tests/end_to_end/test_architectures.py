"""Hugging Face architectures beside the zoo: two calls against eager, graphs and breaks against torch.compile."""

import json
import pathlib

import pytest
import torch
from architectures import ARCHITECTURES, build

import minicompile
from minicompile.testing import CompileCounter, differences

TORCH = json.loads(pathlib.Path(__file__).with_name("torch_graphs.json").read_text())["architectures"]


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_no_more_graphs_or_breaks_than_torch_compile(name):
    pytest.importorskip("transformers", reason="the Hugging Face models need the `test` extra")
    model, calls = build(name)
    counter = CompileCounter()
    compiled = minicompile.compile(model, backend=counter)
    for kwargs in calls:
        with torch.no_grad():
            assert not differences(model(**kwargs), compiled(**kwargs))
    theirs = TORCH[name]
    breaks = minicompile.stats()["graph_breaks"]
    print(f"{name}: {counter.graphs} graphs, {breaks} breaks; torch.compile: {theirs}")
    assert counter.graphs <= theirs["graphs"]
    assert breaks <= sum(theirs["graph_breaks"].values())
    assert counter.ops > 30


def test_the_record_covers_the_architectures():
    assert set(TORCH) == set(ARCHITECTURES)
