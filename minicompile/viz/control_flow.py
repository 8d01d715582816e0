"""The control-flow graph of a function: basic blocks, how deep the stack is, where jumps and exceptions go.

Goes in: a function, a code object, or normalised instructions.  Comes out: a Picture, drawn with Graphviz.
Mirrors nothing in PyTorch (`dis` shows the same as text).  Taught in chapter 02.
"""

import types
from html import escape

from ..dynamo.bytecode import decode
from ..dynamo.bytecode_analysis import argument_text, format_instructions, labels, stack_depths, successors
from . import style
from .graphs import render

EDGES = {  # kind -> attributes
    "next": f'color="{style.MUTED}"',
    "jump": f'color="{style.STAGE_COLOURS["capture"]}", penwidth=1.6',
    "exception": f'color="{style.STAGE_COLOURS["codegen"]}", penwidth=1.4, style=dashed',
}


def instructions_of(thing):
    """The normalised instructions of a function or code object; a list of instructions is returned as it is."""
    if isinstance(thing, list):
        return thing
    return decode(thing if isinstance(thing, types.CodeType) else thing.__code__)


def basic_blocks(instructions):
    """Lists of instructions that always run one after the other: entered at the top, left at the bottom."""
    starts = {id(i.argval) for i in instructions if i.is_jump}
    starts |= {id(i.exc.target) for i in instructions if i.exc is not None}
    blocks, before = [], None
    for instruction in instructions:
        ended = before is None or before.is_jump or before.is_terminal or before.exc != instruction.exc
        if ended or id(instruction) in starts:
            blocks.append([])
        blocks[-1].append(instruction)
        before = instruction
    return blocks


def edges(blocks):
    """[(number of a block, number of the next one, kind)]: kind is a key of EDGES."""
    number = {id(block[0]): k for k, block in enumerate(blocks)}
    for k, block in enumerate(blocks):
        following = blocks[k + 1][0] if k + 1 < len(blocks) else None
        for target, _ in successors(block[-1], following):
            jumps = block[-1].is_jump and target is block[-1].argval
            yield k, number[id(target)], "jump" if jumps else "next"
        if block[0].exc is not None:
            yield k, number[id(block[0].exc.target)], "exception"


def depth_listing(thing):
    """The listing of the instructions with the depth of the stack before each one."""
    instructions = instructions_of(thing)
    lines = format_instructions(instructions).split("\n")
    return "\n".join(f"{depth:>3} {line}" for depth, line in zip(stack_depths(instructions), lines))


def draw_control_flow(thing, title=""):
    """Basic blocks as boxes.  Squares before an instruction: the values that are on the stack when it begins."""
    instructions = instructions_of(thing)
    depths = {id(i): depth for i, depth in zip(instructions, stack_depths(instructions))}
    blocks, names = basic_blocks(instructions), labels(instructions)
    lines = ['node [shape=plain, fontname="DejaVu Sans Mono", fontsize=11]; edge [arrowsize=0.7];']
    lines += [f"b{k} [label=<{_table(block, depths, names)}>];" for k, block in enumerate(blocks)]
    lines += [f"b{a} -> b{b} [{EDGES[kind]}];" for a, b, kind in edges(blocks)]
    alt = f"{title or 'Control flow'}: {len(blocks)} blocks, the stack at most {max(depths.values())} deep"
    look = "rankdir=TB; nodesep=0.35; ranksep=0.35; fontsize=14"
    return render(lines, depth_listing(instructions), alt, title, look)


def _table(block, depths, names):
    first = block[0]
    head = ", ".join(filter(None, [names.get(id(first)), f"line {first.line}" if first.line else None])) or "start"
    rows = [f'<TR><TD COLSPAN="2" ALIGN="LEFT" BGCOLOR="#eceff2"><B>{head}</B></TD></TR>']
    for instruction in block:
        squares = f'<FONT COLOR="{style.STAGE_COLOURS["capture"]}">{"■" * depths[id(instruction)]}</FONT>'
        text = f"{instruction.opname} {argument_text(instruction, names)}".strip()
        text = escape(text if len(text) <= 36 else text[:35] + "…")
        rows.append(f'<TR><TD ALIGN="LEFT">{squares if depths[id(instruction)] else " "}</TD>')
        rows.append(f'<TD ALIGN="LEFT">{text}</TD></TR>')
    table = 'BORDER="1" CELLBORDER="0" CELLSPACING="0" CELLPADDING="2"'
    return f'<TABLE {table} COLOR="{style.MUTED}" BGCOLOR="white">{"".join(rows)}</TABLE>'
