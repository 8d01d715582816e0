"""Nested graphs: a function that the graph calls as a whole, captured as a GraphModule of its own.

Goes in: the body of a function transform, of a checkpoint or of a custom backward, run by the same translator.
Comes out: a GraphModule whose arguments are the function's own tensors, then every value of the graphs around it that
it reads (`lifted`).  A call of it is one node of the graph around it.
Mirrors SubgraphTracer of `torch/_dynamo/output_graph.py` and `torch/_higher_order_ops`.  Taught in chapter 06.
"""

import contextlib
import operator

import torch
from torch import fx
from torch.utils import _pytree as pytree

from ..lazy_graph import LazyGraphModule
from .variables.base import unsupported


class NestedGraph:
    """The graph under construction.  lifted: value of a graph around it -> the placeholder that stands for it here."""

    def __init__(self):
        self.graph, self.lifted, self.attributes = fx.Graph(), {}, {}

    def argument(self, name, value):
        """A new placeholder with this example value."""
        places = [n for n in self.graph.nodes if n.op == "placeholder"]
        with self.graph.inserting_after(places[-1] if places else self.graph._root):
            node = self.graph.placeholder(name)
        node.target = node.name  # which is unique
        node.meta["example_value"] = value
        return node

    def gather(self, values):
        """Take these values, which are lifted, as one tuple behind the others."""
        if not values:
            return
        places = [self.lifted.pop(value) for value in values]
        gathered = self.argument("written", tuple(place.meta["example_value"] for place in places))
        for number, place in reversed([*enumerate(places)]):
            with self.graph.inserting_after(gathered):
                item = self.graph.call_function(operator.getitem, (gathered, number))
            item.meta = dict(place.meta)
            place.replace_all_uses_with(item)
            self.graph.erase_node(place)

    def close(self, results, name):
        """Its GraphModule.  results: the nested structure of its nodes and of constants that it returns."""
        self.graph.output(results)
        return graph_module(self.graph, self.attributes, name)


def attach(output, module, name):
    """Make a module an attribute of the graph that is being captured now.  Returns the node that stands for it."""
    attributes = output.nested[-1].attributes if output.nested else output.constants
    name = f"{name}_{sum(key.startswith(name) for key in attributes)}"
    attributes[name] = module
    node = output.create_node("get_attr", name)
    node.meta["example_value"] = module
    return node


def graph_module(graph, attributes, name):
    holder = torch.nn.Module()
    for key, value in attributes.items():
        if isinstance(value, torch.Tensor):
            holder.register_buffer(key, value, persistent=False)
        else:
            setattr(holder, key, value)
    gm = LazyGraphModule(holder, graph, class_name=name)
    gm.meta["minicompile"] = name  # not to be captured
    return gm


@contextlib.contextmanager
def nested_graph(output):
    """Operations go into a new NestedGraph; a mode that is switched inside must be switched back inside."""
    effects = output.side_effects
    nested, outer, modes, switches = NestedGraph(), output.graph, effects.modes, effects.switches
    output.nested.append(nested)
    output.graph, effects.modes, effects.switches = nested.graph, {}, []
    try:
        yield nested
        if effects.changed_modes():
            unsupported("function with a graph of its own", "it switches a mode and leaves it switched")
    finally:
        effects.restore_modes()
        output.nested.pop()
        output.graph, effects.modes, effects.switches = outer, modes, switches


def local_node(output, node):
    """The node of the innermost graph for a value: itself, or the placeholder of a value from around it."""
    if node.graph is output.graph:
        return node
    if node.graph not in (output.root_graph, *(nested.graph for nested in output.nested)):
        unsupported("function with a graph of its own", f"the value {node.name} of its inside is used outside")
    lifted = output.nested[-1].lifted
    if node not in lifted:
        lifted[node] = output.nested[-1].argument(node.name, node.meta["example_value"])
        lifted[node].meta["stack_trace"] = node.meta.get("stack_trace")
    return lifted[node]


def effects_of(output):
    """What the program has changed so far outside the graph; `changed_since` asks whether there is more."""
    effects = output.side_effects
    attributes = {tracker: dict(written) for tracker, written in effects.attributes.items()}
    contents = {tracker: tuple(tracker.children()) for tracker in effects.mutated_containers}
    return attributes, contents, dict(effects.globals)


def changed_since(output, before, but=()):
    """Whether anything that was there then has changed since, but for the attributes of the trackers in `but`."""
    attributes, contents, written = effects_of(output)
    old = [t for t in attributes if (t in before[0] or t not in output.side_effects.new_objects) and t not in but]
    same = all(attributes[tracker] == before[0].get(tracker) for tracker in old)
    return not same or contents != before[1] or written != before[2]


def tensor_versions(output):
    """{node: how often its tensor was written so far}, for all graphs under construction."""
    graphs = (output.root_graph, *(nested.graph for nested in output.nested))
    return {node: version_of(node) for graph in graphs for node in graph.nodes}


def version_of(node):
    """Nobody counts the writes to inference tensors; a number is none."""
    value = node.meta.get("example_value")
    return value._version if isinstance(value, torch.Tensor) and not value.is_inference() else 0


def example_values(structure):
    """The example values behind the nodes of a nested structure."""
    return pytree.tree_map(lambda leaf: leaf.meta["example_value"] if isinstance(leaf, fx.Node) else leaf, structure)
