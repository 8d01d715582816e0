"""Frozen parameters: under `config.freeze` an inference graph holds the parameters and buffers that it only reads.

Goes in: an OutputGraph that is complete.  Comes out: the same, with those inputs as constants, and a guard on each: the
same tensor, in the same memory, with no write since.  A write that autograd cannot see, through `.data`, is not seen
here either.  Mirrors `torch/_inductor/freezing.py`.  Taught in chapter 13.
"""

import torch

from .. import config
from .guard_checks import Frozen
from .source import ConstantSource

MODES = ("_set_grad_enabled", "_enter_inference_mode")


def is_part_of_a_module(graph_input):
    """A plain parameter or buffer, which has a version and an address."""
    value, parent = graph_input.value, graph_input.source.parent
    plain = type(value) in (torch.nn.Parameter, torch.nn.Buffer, torch.Tensor) and value.layout is torch.strided
    kept = isinstance(value, torch.nn.Parameter) or getattr(parent, "attribute", "") == "_buffers"
    return plain and kept and not value.is_inference()


def freeze_parameters(output):
    """Called before the graph is compiled, in the modes in which it will run.  Returns the names of the constants."""
    wanted = dict(output.options.settings).get("freeze", config.freeze) and not torch.is_grad_enabled()
    if not wanted or any(getattr(n.target, "__name__", "") in MODES for n in output.root_graph.nodes):
        return []
    changed, returned = output.changed_inputs(), output.root_graph.output_node().all_input_nodes
    frozen, names = Frozen(), []
    for graph_input in output.tensor_inputs():
        fit = graph_input not in changed and graph_input.node not in returned
        if fit and is_part_of_a_module(graph_input):
            source, value = graph_input.source, graph_input.value
            output.guards.add_alias((source, ConstantSource(value, f"the frozen {source.name}")), same=True)
            names.append(f"frozen_{len(output.constants)}")
            output.constants[names[-1]] = frozen.add(source.name, value)
            with output.root_graph.inserting_before(graph_input.node):
                node = output.root_graph.get_attr(names[-1])
            node.meta = dict(graph_input.node.meta)
            graph_input.node.replace_all_uses_with(node)
            output.root_graph.erase_node(graph_input.node)
            output.inputs.remove(graph_input)
    if names:
        output.guard("unwritten", ConstantSource(frozen, "frozen parameters"), True)
    return names
