"""Joint graphs in two colours, their split into forward and backward, and the minimum cut with its prices.

Goes in: an `AOTGraph` that has a backward.  Comes out: Pictures.  Mirrors `torch/fx/passes/graph_drawer.py`, with which
PyTorch draws its joint graphs.  Taught in chapter 08.

The forward goes down on the left, the backward up on the right, so that what is needed again lies across from where it
was made.
"""

from html import escape

from torch import fx

from ..aot.keeping import Sources
from ..aot.nodes import is_view, needed_for, size_in_bytes
from ..aot.partitioner import Cut
from . import style
from .graphs import describe, render, target_name

FORWARD, BACKWARD, PALE = "#cfe4f3", "#fbe0ad", "#f3f3f3"
CROSSES = style.STAGE_COLOURS["codegen"]


def readable_bytes(count):
    """`0`, `256 B`, `64 KB`, `1.5 MB`: powers of 1024."""
    for size, unit in ((1024**3, "GB"), (1024**2, "MB"), (1024, "KB"), (1, "B")):
        if count >= size:
            return f"{count / size:.0f} {unit}" if count >= 100 * size else f"{count / size:.3g} {unit}"
    return f"{count:.3g} B" if count else "0"


def side(node):
    return "backward" if node.meta.get("backward") else "forward"


def operations(gm):
    return [n for n in gm.graph.nodes if n.op != "output"]


def crossing_values(joint):
    """The forward values that the backward reads, in order."""
    read = {i for n in operations(joint) if side(n) == "backward" for i in n.all_input_nodes}
    return [n for n in operations(joint) if n in read and side(n) == "forward"]


def title_of(node):
    """(operator, name of the value) of a node; an input has only its name."""
    if node.op == "placeholder":
        return node.name, ""
    return target_name(node.target).removeprefix("aten.").partition(".")[0], node.name


def in_words(texts):
    """A label of Graphviz: the first text is bold, the others are small."""
    head, *rest = [escape(text) for text in texts if text]
    return f"<B>{head}</B>" + "".join(f'  <FONT POINT-SIZE="11">{text}</FONT>' for text in rest)


# --- down on the left, up on the right --------------------------------------------------------------
class TwoSides:
    """DOT text of nodes in two columns."""

    def __init__(self, title):
        self.title, self.ids, self.sides = title, {}, {}
        self.boxes, self.edges = {"forward": [], "backward": []}, []

    def node(self, key, where, fill, texts, border=""):
        self.ids[key], self.sides[key] = f"n{len(self.ids)}", where
        self.boxes[where].append(f'{self.ids[key]} [label=<{in_words(texts)}>, fillcolor="{fill}"{border}];')

    def value(self, node, where, fill, note="", border=""):
        self.node((where, node.name), where, fill, [*title_of(node), note], border)

    def edge(self, source, target):
        """Along one side, or across."""
        a, b = self.ids[source], self.ids[target]
        if self.sides[source] != self.sides[target]:
            self.edges.append(f'{a} -> {b} [color="{CROSSES}", penwidth=2.2, constraint=false];')
        else:
            self.edges.append(f"{a} -> {b};" if self.sides[source] == "forward" else f"{b} -> {a} [dir=back];")

    def outputs(self, values, labels):
        """A box for what is returned: below on the left, above on the right."""
        for k, (source, label) in enumerate(zip(values, labels, strict=True)):
            self.node(("output", k, source), self.sides[source], PALE, [label], f', color="{style.RULE}"')
            self.edge(source, ("output", k, source))

    def picture(self, text, alt):
        lines = [*graph_style()]
        for where, boxes in self.boxes.items():
            lines += [f'subgraph cluster_{where} {{ label="{where}"; color="{style.CARD}"; fontsize=15;', *boxes, "}"]
        return render([*lines, *self.edges], text, alt, self.title)


def graph_style(shape="box"):
    look = f'shape={shape}, style="rounded,filled", color="{style.MUTED}", height=0.3'
    yield f'node [{look}, fontname="DejaVu Sans", fontsize=13];'
    yield f'edge [color="{style.MUTED}", arrowsize=0.6];'


def gradient_labels(graph):
    names = [*graph.input_names, *graph.constants]
    return [f"gradient of {names[i]}" for i in graph.grad_inputs]


def draw_joint(graph, title="The joint graph"):
    """`graph.joint`: forward values on the left, backward values on the right, and what crosses in red."""
    sides, nodes = TwoSides(title), operations(graph.joint)
    crossing = crossing_values(graph.joint)
    for node in nodes:
        note = readable_bytes(size_in_bytes(node)) if node in crossing else ""
        border = f', color="{CROSSES}", penwidth=2' if node in crossing else ""
        sides.value(node, side(node), FORWARD if side(node) == "forward" else BACKWARD, note, border)
    for node in nodes:
        for source in node.all_input_nodes:
            sides.edge((side(source), source.name), (side(node), node.name))
    results = graph.joint.graph.output_node().args[0]
    labels = ["result"] * graph.result_count + gradient_labels(graph)
    pairs = [((side(n), n.name), label) for n, label in zip(results, labels, strict=True) if isinstance(n, fx.Node)]
    sides.outputs(*zip(*pairs, strict=True))
    total = sum(map(size_in_bytes, crossing))
    counts = {where: sum(side(n) == where for n in nodes) for where in sides.boxes}
    text = [title, *(f"  {where}: {count} nodes" for where, count in counts.items())]
    text += [f"  {len(crossing)} values cross, {total:,} bytes"]
    text += [f"    {n.name}: {describe(n.meta['val'])}, {size_in_bytes(n):,} bytes" for n in crossing]
    alt = f"A joint graph of {counts['forward']} forward and {counts['backward']} backward nodes; what crosses is red"
    return sides.picture(text, alt)


def draw_split(graph, title="Forward and backward"):
    """The two graphs of the split: what is saved in red, and in the backward, dashed, what is computed again."""
    sides, again = TwoSides(title), set(graph.recomputed)
    saved = {s.name: s for s in graph.saved}
    for node in operations(graph.forward):
        border = f', color="{CROSSES}", penwidth=2' if node.name in saved else ""
        note = readable_bytes(saved[node.name].bytes) if node.name in saved else ""
        sides.value(node, "forward", FORWARD, note, border)
    for node in operations(graph.backward):
        twice = node.name in again or node.name in saved
        border = f', style="rounded,filled,dashed", color="{style.INK}"' if node.name in again else ""
        border = f', color="{CROSSES}", penwidth=2' if node.name in saved else border
        sides.value(node, "backward", FORWARD if twice else BACKWARD, "", border)
    for where, gm in (("forward", graph.forward), ("backward", graph.backward)):
        for node in operations(gm):
            for source in node.all_input_nodes:
                sides.edge((where, source.name), (where, node.name))
    for name in saved:
        sides.edge(("forward", name), ("backward", name))
    results = graph.forward.graph.output_node().args[0][: graph.result_count]
    ends = [("forward", n.name) for n in results if isinstance(n, fx.Node)]
    grads = graph.backward.graph.output_node().args[0]
    ends += [("backward", n.name) for n in grads]
    sides.outputs(ends, ["result"] * (len(ends) - len(grads)) + gradient_labels(graph))
    text = [title, f"  saved, {graph.saved_bytes:,} bytes:", *(f"    {s}" for s in graph.saved)]
    text.append(f"  computed again: {', '.join(graph.recomputed) or 'nothing'}")
    alt = f"Forward and backward graph; {len(saved)} values are saved, {len(again)} computed again"
    return sides.picture(text, alt)


# --- the cut ----------------------------------------------------------------------------------------
def cut_of(graph):
    """The partitioner's network for the joint graph of `graph`."""
    nodes = operations(graph.joint)
    outputs = graph.joint.graph.output_node().args[0]
    forward = [n for n in nodes if side(n) == "forward"]
    primals = [n for n in forward if n.op == "placeholder"]
    crossing = {*crossing_values(graph.joint), *(n for n in outputs[graph.result_count :] if side(n) == "forward")}
    tangents = [n for n in nodes if n.op == "placeholder" and n not in primals]
    sources = Sources(graph, primals, outputs[: graph.result_count], tangents)
    mutated = {primals[m.index] for m in graph.mutations} | sources.hidden
    return Cut(forward, crossing, outputs[: graph.result_count], mutated, sources)


def prices(cut, node):
    """(to save it, to compute it again), in bytes of traffic; None: not possible."""
    saving = cut.save_cost(node)
    return saving, (None if node in cut.fixed else cut.cost[node])


def saved_nodes(cut, graph):
    names = {s.name for s in graph.saved}
    return {node for node in cut.order if node.name in names}


def total_price(cut, saved):
    """Of saving these nodes of the network, and computing again what else is needed; None: not possible."""
    again = needed_for(cut.crossing, saved | cut.free)
    paid = [prices(cut, node)[0] for node in saved] + [prices(cut, node)[1] for node in again]
    return None if None in paid else sum(paid)


FILLS = {"saved": "#f6c9ae", "again": FORWARD, "unused": PALE}
WORDS = {"saved": "saved", "again": "computed again", "unused": "not needed again"}


def draw_cut(choices, title="Prices of saving and of computing again"):
    """choices: {label: AOTGraph}, splits of one joint graph; a panel each, and in red the prices that it pays."""
    lines, text = [*graph_style("plaintext"), 'node [style="", margin=0];'], [title]
    for number, (label, graph) in enumerate(choices.items()):
        cut = cut_of(graph)
        saved = saved_nodes(cut, graph)
        again, total = needed_for(cut.crossing, saved | cut.free), total_price(cut, saved)
        fates = {n: "saved" if n in saved else "again" if n in again else "unused" for n in cut.order}
        ids = {node: f"p{number}_{k}" for k, node in enumerate([*cut.order, "backward"])}
        heading = f"{label}: {readable_bytes(total)}" if total is not None else label  # a budget breaks the rules
        lines.append(f'subgraph cluster_{number} {{ label="{heading}"; color="{style.RULE}";')
        for node, fate in fates.items():
            lines.append(f"{ids[node]} [label=<{''.join(price_table(cut, node, fate))}>];")
            red = f' color="{CROSSES}", penwidth=2.2' if fate == "saved" else ""
            for user in [u for u in node.users if u in ids]:
                lines.append(f"{ids[node]} -> {ids[user]} [{red if fates[user] == 'again' else ''}];")
            if node in cut.crossing:
                lines.append(f"{ids[node]} -> {ids['backward']} [{red}];")
        look = f'shape=box, style="rounded,filled", fillcolor="{BACKWARD}", color="{style.MUTED}", margin=0.1'
        lines += [f"{ids['backward']} [label=<<B>the backward</B>>, {look}];", "}"]
        text.append(f"{label}: {total:,.0f} bytes of traffic" if total is not None else label)
        for node, fate in fates.items():
            saving, again = ("never" if p is None else f"{p:,.0f}" for p in prices(cut, node))
            text.append(f"  {node.name:10} save {saving:>12}   again {again:>12}   {WORDS[fate]}")
    alt = "For every value that the backward may need, the price of saving it and of computing it again: " + ", ".join(
        choices
    )
    return render(lines, text, alt, title)


def price_table(cut, node, fate):
    """A value as an HTML table of Graphviz: its name, its two prices, the paid one in red."""
    yield f'<TABLE BORDER="0" CELLBORDER="1" CELLSPACING="0" CELLPADDING="3" COLOR="{style.MUTED}">'
    yield f'<TR><TD COLSPAN="2" BGCOLOR="{FILLS[fate]}">{in_words(title_of(node))}</TD></TR><TR>'
    for word, key, price in zip(("save", "again"), ("saved", "again"), prices(cut, node), strict=True):
        amount = readable_bytes(price) if price is not None else "a view" if is_view(node) else "never"
        colour, weight = (CROSSES, f"<B>{amount}</B>") if fate == key else (style.MUTED, amount)
        yield f'<TD><FONT POINT-SIZE="11" COLOR="{colour}">{word} {weight}</FONT></TD>'
    yield "</TR></TABLE>"
