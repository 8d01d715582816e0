"""What an earlier process made of the same captured graph.

Goes in: a captured graph and its example inputs.  Comes out: its `AOTGraph`, from the cache on disk or from `trace`.
The key is the graph's whole content, all that is known of the inputs and constants but their data, and the settings.
A graph that calls what has no content (a function, module or operator of the user's), has symbolic sizes, or runs under
the user's modes is traced each time.  Mirrors `torch/_functorch/_aot_autograd/autograd_cache.py`.
Taught in chapter 11.
"""

import dataclasses
import functools
import json

import torch
from torch import fx
from torch._subclasses import FakeTensor

from .. import cache, config, record
from ..lazy_graph import LazyGraphModule
from . import attention, partial, runtime
from .content import Unnameable, read, read_graph, write, write_graph
from .functionalize import example_values, fake_mode_of, lift_constants
from .graph import AOTGraph
from .joint import trace

PLAIN = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer, FakeTensor)
GRAPHS = ("forward", "joint", "backward")
LIVE = (*GRAPHS, "constants", "captured", "fake_mode")  # fields that are no content


# --- the key ----------------------------------------------------------------------------------------
def key_of(gm, inputs):
    """The key of a captured graph.  Raises Unnameable where it has none."""
    if gm.meta.get("frozen"):
        raise Unnameable("data of parameters is part of the graph")
    if torch._C._len_torch_dispatch_stack() or torch._C._len_torch_function_stack():
        raise Unnameable("modes of the user's")
    if torch._C._functorch.peek_interpreter_stack() is not None:
        raise Unnameable("transforms of torch.func")
    if torch._C._autograd._top_saved_tensors_default_hooks(True) is not None:
        raise Unnameable("hooks for saved tensors")
    storages = {}
    tensors = [*example_values(gm, inputs), *inputs]
    known = [graph_form(gm, storages), [facts(value, storages) for value in tensors]]
    return cache.key_of(cache.compiler_version(), cache.settings(), json.dumps(known))


def graph_form(gm, storages):
    """Every node of a captured graph: what it calls on what, and what it gave."""
    nodes = []
    for node in gm.graph.nodes:
        target = node.target
        if node.op == "get_attr":
            value = functools.reduce(getattr, target.split("."), gm)
            nested = isinstance(value, fx.GraphModule)
            content = [graph_form(value, storages), value.meta.get("given")] if nested else facts(value, storages)
        elif node.op == "call_module":
            raise Unnameable(f"module {target}")
        else:
            content = write(target)
        example = node.meta.get("example_value")
        example = write(example) if isinstance(example, torch.Tensor) and node.op != "placeholder" else None
        nodes.append([node.op, node.name, target if node.op == "get_attr" else None, content, example])
        nodes[-1].append(write((node.args, node.kwargs)))
    return nodes


def facts(value, storages):
    """All that a trace can know of an input or a constant, but a tensor's data.  storages: storage -> number."""
    if not isinstance(value, torch.Tensor):
        return write(value)
    if type(value) not in PLAIN or getattr(value, "constant", None) is not None:
        raise Unnameable(f"a {type(value).__name__}")
    memory, inference = value.untyped_storage(), value.is_inference()
    # asked where a trace asks: autograd refuses some views the question
    is_leaf = value.is_leaf if value.requires_grad and torch.is_grad_enabled() else None
    return [
        type(value).__name__,
        write(value),
        torch._C._dispatch_keys(value).raw_repr(),
        [value.requires_grad, is_leaf, inference, value._is_view(), None if inference else value._version],
        [storages.setdefault(memory._cdata, len(storages)), write(memory.nbytes())],
    ]


# --- entries ----------------------------------------------------------------------------------------
def traced(gm, inputs, decompositions, sharing=None):
    """What `trace` gives, which is looked up first and kept, unless inputs share memory."""
    key = None
    if sharing is None and config.graph_cache and not config.force_disable_caches and decompositions is None:
        try:
            key = key_of(gm, inputs)
        except Unnameable as reason:
            record.log("aot", "not kept for other processes: %s", reason)
    entry = None if key is None else cache.read_json(f"{key}.aot.json")
    if entry is not None:
        record.counters["graph_cache_hits"] += 1
        graph = restored(entry, gm, inputs)
    else:
        graph = trace(gm, inputs, decompositions, sharing)
        runtime.note_results(graph)
        if graph.backward is not None:
            partial.note_backward(graph)
        try:
            if key is not None:
                cache.put_json(f"{key}.aot.json", entry_of(graph))
        except Unnameable as reason:
            record.log("aot", "not kept for other processes: %s", reason)
            key = None
    for name in ("forward", "backward"):
        if key is not None and getattr(graph, name) is not None:
            getattr(graph, name).meta["key"] = f"{key} {name}"  # by which what becomes of it is kept
    return graph


def entry_of(graph):
    """An AOTGraph as JSON, but for what another process has itself.  Its graphs are texts: not all are always read."""
    entry = {f.name: write(getattr(graph, f.name)) for f in dataclasses.fields(graph) if f.name not in LIVE}
    entry["constants"] = list(graph.constants)
    for name in GRAPHS:
        gm = getattr(graph, name)
        entry[name] = None if gm is None else json.dumps(write_graph(gm))
    return entry


def restored(entry, gm, inputs):
    constants = lift_constants(gm)
    live = {"constants": {name: constants[name] for name in entry["constants"]}, "captured": gm}
    live |= {"fake_mode": fake_mode_of(example_values(gm, inputs)), **dict.fromkeys(GRAPHS)}
    graph = AOTGraph(**{name: read(form) for name, form in entry.items() if name not in live}, **live)
    for name in GRAPHS:
        if entry[name] is not None:
            split = name != "joint" and entry["backward"] is not None
            setattr(graph, name, StoredGraph(graph, entry[name], {"minicompile": name} if split else {}))
    return graph


def part_of(graph, absent, piece="whole", asked=None):
    """`partial.part`, which is looked up first and kept as well."""
    whole = graph.backward
    if (piece == "whole" and not absent and asked is None) or "key" not in whole.meta:
        return partial.part(graph, absent, piece, asked)
    of = "" if asked is None else f" for {sorted(asked)}"
    meta = {**whole.meta, "key": f"{whole.meta['key']} {piece} without {sorted(absent)}{of}"}
    name = f"{cache.key_of(meta['key'])}.part.json"
    entry = cache.read_json(name)
    if entry is not None:
        return partial.Part(**{**entry, "gm": StoredGraph(graph, entry["gm"], meta)})
    if isinstance(whole, StoredGraph):
        whole = graph.backward = whole.module
    part = partial.part(graph, absent, piece, asked)
    if part.gm is not whole:
        cache.put_json(name, {**vars(part), "gm": json.dumps(write_graph(part.gm))})
        part.gm.meta.update(meta)
    return part


class StoredGraph:
    """A GraphModule that is built when somebody looks into it: to run its kernels, nobody has to."""

    def __init__(self, owner, text, meta):
        self.owner, self.text, self.meta = owner, text, meta

    @functools.cached_property
    def module(self):
        nodes, constants = json.loads(self.text)
        constants = {name: cache.tensor(form) for name, form in constants.items()}
        captured = attention.rewrite(self.owner.captured)  # which is what was traced
        lines = {node.name: node.meta.get("stack_trace") for node in captured.graph.nodes}
        graph = read_graph(nodes, self.owner.fake_mode, lines)
        gm = LazyGraphModule(constants, graph, self.meta.get("minicompile", "forward"))
        gm.meta = self.meta
        return gm

    def __getattr__(self, name):
        return getattr(self.module, name)

    def __call__(self, *args):
        return self.module(*args)
