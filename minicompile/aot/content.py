"""Values and graphs as JSON: what a graph is known by, and what is kept of one for another process.

Goes in: an argument of a node, a graph, a part of an `AOTGraph`.  Comes out: what `json` writes, and from that an equal
value again.  Numbers and strings stand for themselves, a list for a list; everything else is {what it is: its content}.
What no other process could name raises `Unnameable`: a tensor's data, a function of the user's, a symbolic size.
Mirrors `torch/_functorch/_aot_autograd/autograd_cache.py`.  Taught in chapter 11.
"""

import importlib
import operator
import os
import sys
import types

import torch
from torch import fx

from .. import cache
from .functionalize import InputMutation
from .junctions import Junction
from .keeping import Functions, Kept
from .outputs import OutputSpec
from .partitioner import SavedTensor

ROOTS = ("torch", "minicompile", "operator", "_operator", "math", "builtins")
FOLDERS = tuple(os.path.dirname(sys.modules[name].__file__) + os.sep for name in ("torch", __package__.split(".")[0]))
NAMESPACES = ("aten", "prims", "minicompile")  # of operators whose rules are PyTorch's or ours
KEPT = ("origin", "checkpoint", "kept", "backward", "stands_for_input")  # of a node's meta, besides its value
LARGEST = 1 << 10  # elements of a constant
NUMBERS = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float32, torch.float64)
DATACLASSES = {cls.__name__: cls for cls in (Functions, InputMutation, Junction, Kept, OutputSpec, SavedTensor)}
views = torch._C._functionalization


class Unnameable(Exception):
    """The value has no content that another process could know it by."""


# --- functions --------------------------------------------------------------------------------------
def found(module, name):
    """What a module has under a dotted name, or None."""
    value = sys.modules.get(module) if module.split(".")[0] in ROOTS else None
    for part in name.split("."):
        value = getattr(value, part, None)
    return value


def function_named(module, name):
    importlib.import_module(module)
    return found(module, name)


def function_name(function):
    """[module, name] of a function that comes with PyTorch, Python or this package, and is what these have there."""
    module = getattr(function, "__module__", None) or ""
    code = function.__code__.co_filename if isinstance(function, types.FunctionType) else ""
    for name in (getattr(function, "__qualname__", ""), getattr(function, "__name__", "")):
        if name and found(module, name) is function and (not code or code.startswith(FOLDERS)):
            return {"function": [module, name]}
    raise Unnameable(f"function {function}")


def operator_name(overload):
    if overload.namespace not in NAMESPACES:
        raise Unnameable(f"operator {overload}")
    return {"operator": str(overload)}


# --- values -----------------------------------------------------------------------------------------
def tensor_form(value):
    """A tensor without its data."""
    if value.layout != torch.strided or value.is_quantized or value.is_conj() or value.is_neg():
        raise Unnameable(f"a tensor of this kind: {value.layout}")
    numbers = [list(value.shape), list(value.stride()), value.storage_offset()]
    return {"tensor": [*map(write, numbers), str(value.dtype), str(value.device)]}


def tensor_of(form):
    """A tensor like that; under a fake mode."""
    shape, stride, offset, dtype, device = form
    made = torch.empty_strided(shape, stride, dtype=torch_named(dtype), device=device)
    return made.as_strided(shape, stride, offset) if offset else made


def torch_named(name):
    return getattr(torch, name.removeprefix("torch."))


def write(value):
    """The JSON form of a value."""
    kind = type(value)
    if kind in (type(None), bool, int, str, float):
        return value
    if isinstance(value, torch.Tensor):
        return tensor_form(value)
    if kind in WRITE:
        name, form = WRITE[kind]
        return {name: form(value)}
    if kind.__name__ in DATACLASSES and kind is DATACLASSES[kind.__name__]:
        return {kind.__name__: {name: write(part) for name, part in vars(value).items()}}
    if isinstance(value, torch._ops.OpOverload):
        return operator_name(value)
    if kind.__name__.endswith("_ViewMeta"):
        return {"view": [kind.__name__, write(value.as_tuple())]}
    if isinstance(value, list):  # FX has lists of its own
        return [*map(write, value)]
    if isinstance(value, dict):
        return {"dict": [[write(k), write(v)] for k, v in value.items()]}
    if callable(value):
        return function_name(value)
    raise Unnameable(f"a {kind.__name__}")


def read(form, nodes=None):
    """The value again.  nodes: name -> Node."""
    if isinstance(form, list):
        return [read(part, nodes) for part in form]
    if not isinstance(form, dict):
        return form
    ((kind, content),) = form.items()
    if kind == "node":
        return nodes[content]
    if kind in DATACLASSES:
        return DATACLASSES[kind](**{name: read(part, nodes) for name, part in content.items()})
    return READ[kind](content, lambda part: read(part, nodes))


def parts(values):
    return [*map(write, values)]


WRITE = {  # type -> (its name in JSON, its content)
    tuple: ("tuple", parts),
    torch.Size: ("size", parts),
    frozenset: ("frozenset", lambda value: sorted(parts(value))),
    slice: ("slice", lambda value: parts((value.start, value.stop, value.step))),
    complex: ("complex", lambda value: [value.real, value.imag]),
    type(...): ("ellipsis", lambda value: None),
    fx.Node: ("node", lambda value: value.name),
    torch.device: ("device", str),
    torch.dtype: ("torch", str),
    torch.layout: ("torch", str),
    torch.memory_format: ("torch", str),
    views.InverseReturnMode: ("inverse", int),
}
READ = {  # name in JSON -> the value of (content, function that reads a part of it)
    "tuple": lambda content, part: tuple(map(part, content)),
    "size": lambda content, part: torch.Size(map(part, content)),
    "frozenset": lambda content, part: frozenset(map(part, content)),
    "slice": lambda content, part: slice(*map(part, content)),
    "complex": lambda content, part: complex(*content),
    "ellipsis": lambda content, part: ...,
    "dict": lambda content, part: {part(k): part(v) for k, v in content},
    "device": lambda content, part: torch.device(content),
    "torch": lambda content, part: torch_named(content),
    "inverse": lambda content, part: views.InverseReturnMode(content),
    "view": lambda content, part: getattr(views, content[0])(part(content[1])),
    "function": lambda content, part: function_named(*content),
    "operator": lambda content, part: operator.attrgetter(content)(torch.ops),
    "tensor": lambda content, part: tensor_of(content),
}


# --- graphs -----------------------------------------------------------------------------------------
def constant_form(value):
    """A small tensor that the trace made itself, of numbers in the captured graph."""
    if type(value) is not torch.Tensor or value.numel() > LARGEST or value.dtype not in NUMBERS:
        raise Unnameable("a constant of the traced graph")
    return cache.tensor_form(value)


def write_graph(gm):
    """(nodes of a functional graph: [op, name, target, arguments, value, rest of meta], its constants by name)"""
    nodes, constants = [], {}
    for node in gm.graph.nodes:
        if node.op == "get_attr":
            constants[node.target] = constant_form(getattr(gm, node.target, None))
        elif node.op not in ("placeholder", "call_function", "output") or node.meta.get("unbacked_bindings"):
            raise Unnameable(f"{node.op} {node.target}")
        meta = {name: write(node.meta[name]) for name in KEPT if name in node.meta}
        nodes.append([node.op, node.name, *map(write, (node.target, (node.args, node.kwargs), node.meta.get("val")))])
        nodes[-1].append(meta)
    return nodes, constants


def read_graph(nodes, fake_mode, lines):
    """The graph.  lines: name of a captured node -> the user's line."""
    graph, made = fx.Graph(), {}
    with fake_mode:
        for op, name, target, arguments, value, meta in nodes:
            args, kwargs = read(arguments, made)
            made[name] = graph.create_node(op, read(target), args, kwargs, name)
            if op != "output":
                made[name].meta = {"val": read(value), **meta}
                if "origin" in meta:
                    made[name].meta["stack_trace"] = lines[meta["origin"]]
    return graph
