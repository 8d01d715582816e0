"""Random programs over lists, dicts, sets, deques and iterators, with errors and graph breaks, against eager."""

import collections
import linecache
import random
import re

import pytest
import torch

import minicompile

STATEMENTS = """
<L>.append(<val>); <L>.extend(list(<it>)); <L>.insert(<num>, <val>); log(<L>.pop(<num>)); log(<L>.pop())
<L>[<num>] = <val>; del <L>[<num>]; <L>[<num>:<num>] = <it>; log(<L>[<num>:<num>:-1]); <L> += [<val>]; <L> *= <small>
<L> = <L> + <L>; log(<key> in <L>); log(<L>.count(<key>)); log(<L>.index(<key>)); <L>.remove(<key>); <L>.clear()
<L>.sort(key=str); <L>.reverse(); log(<L> is <L>); log(min(<L>, key=str, default=7)); <L> = list(<it>)
<D>[<key>] = <val>; log(<D>.get(<key>)); log(<D>.pop(<key>, <val>)); <D>.setdefault(<key>, []); del <D>[<key>]
log(<D>[<key>]); <D>.update(<D>); <D> = dict(<D>); log(list(<D>.items())); log(<key> in <D>); log(<D>.popitem())
<D> |= {'k1': <val>}; <D> = {k: v for k, v in <D>.items() if k != <key>}; <D>.clear(); log(d.keys() & e.keys())
<S>.add(<key>); <S>.discard(<key>); <S> |= <S>; <S> = <S> - {<num>}; <S> ^= {<num>, <num>}; <S> &= <S>
log(sorted(map(str, <S>))); log(<S> <= <S>); <S>.update([<key>, <key>]); <S>.remove(<key>); log(<S> == <S>)
q.append(<val>); q.appendleft(<val>); log(q.pop()); log(q.popleft()); q.rotate(<num>); q.extend(<it>); q[<num>] = <val>
x = x + len(<L>); x = x * 2; o.items.append(<val>); o.v = <num>; o.extra = <val>; log(getattr(o, 'extra', None))
dd[<key>].append(<val>); log(dict(dd)); od.move_to_end('k1'); od[<key>] = <val>; log(list(od)); n = <num>
log(next(gi, 'end')); gi = iter(<it>); log([str(v)[:2] for v in <it>]); log(max(n, 1, <num>)); log(any(<it>))
"""
ERRORS = "(LookupError, ValueError, TypeError, RuntimeError)"
CHOICES = {
    "L": ["a", "b", "al"],
    "D": ["d", "e"],
    "S": ["s", "t"],
    "small": ["0", "1", "2"],
    "num": ["0", "1", "2", "-1", "n", "len(<L>)", "len(<D>)", "len(q)"],
    "val": ["<num>", "x", "'k<small>'", "<L>", "(<num>, <L>)", "[<num>]", "{'z': <num>}", "None", "list(<L>)"],
    "key": ["<num>", "'k<small>'", "(<num>, 'h')", "float(<num>)", "bool(<num>)"],
    "it": [
        "<L>",
        "<D>",
        "<D>.items()",
        "<D>.values()",
        "range(<num>)",
        "enumerate(<L>)",
        "zip(<L>, <L>)",
        "reversed(<L>)",
    ]
    + ["'abc'", "q", "map(str, <L>)", "filter(None, [n, 0, 1])"],
}


PLACEHOLDER = re.compile(f"<({'|'.join(CHOICES)})>")


class Obj:
    def __init__(self):
        self.v, self.items = 5, [5]


class Program:
    """The text of a random function."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.statements = [s.strip() for s in STATEMENTS.replace("\n", ";").split(";") if s.strip()]
        head = [
            "def fn(x, a, b, d, s, q, o, dd, od, n):",
            "    out, al, e, t, gi = [], a, {'k0': x}, {1, 2}, iter([1, 2, 3])",
        ]
        last = "    return x, out, a, b, d, s, q, e, t, al is a, n, list(gi)"
        self.text = "\n".join([*head, *self.block(0, "    ", self.random.randrange(4, 14)), last])

    def fill(self, template):
        """Put random choices in the place of `<name>`."""
        while (found := PLACEHOLDER.search(template)) is not None:
            template = template[: found.start()] + self.random.choice(CHOICES[found[1]]) + template[found.end() :]
        return template

    def simple(self):
        text = self.fill(self.random.choice(self.statements))
        return f"out.append(({text[4:-1]},))" if text.startswith("log(") else text

    def block(self, depth, indent, count):
        lines = []
        for _ in range(count):
            kind, inner = self.random.random(), indent + "    "
            if kind < 0.07:
                lines.append(indent + "pause()")
            elif kind < 0.15 and depth < 2:
                lines += [f"{indent}for w in {self.fill(self.random.choice(CHOICES['it']))}:", f"{inner}out.append(w)"]
                lines += [f"{inner}if len(a) + len(b) + len(al) + len(out) > 90: break"]
                lines += self.block(depth + 1, inner, self.random.randrange(1, 3))
            elif kind < 0.22 and depth < 2:
                lines.append(f"{indent}if {self.random.choice(['n', 'a', 'd', 'len(b) > 2', 'n in s'])}:")
                lines += self.block(depth + 1, inner, self.random.randrange(1, 3))
            elif kind < 0.9:
                lines += [
                    f"{indent}try: {self.simple()}",
                    f"{indent}except {ERRORS} as error: out.append(str(error)[:60])",
                ]
            else:
                lines.append(indent + self.simple())
        return lines


def arguments():
    a = [1, 2, 3]
    containers = [a, [a, 7], {"k1": 1, "k2": a}, {1, 3, "k0"}, collections.deque([1, 2, 3], 5), Obj()]
    mappings = [collections.defaultdict(list, k1=[0]), collections.OrderedDict(k1=1, k2=2, k3=3)]
    return [torch.tensor([1.0, 2.0]), *containers, *mappings, 2]


def shape(value, seen):
    """Everything that can be seen of a value, which objects are one object included."""
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if not isinstance(value, (list, tuple, dict, set, collections.deque, Obj, Exception)):
        return type(value).__name__, str(value)[:200] if type(value).__str__ is object.__str__ else value
    if not isinstance(value, tuple):
        if id(value) in seen:
            return "seen", seen[id(value)]
        seen[id(value)] = len(seen)
    if isinstance(value, (Obj, Exception)):
        return type(value).__name__, str(value)[:60] if isinstance(value, Exception) else shape(vars(value), seen)
    items = sorted(value, key=str) if isinstance(value, set) else value
    items = [(shape(k, seen), shape(v, seen)) for k, v in value.items()] if isinstance(value, dict) else items
    return type(value).__name__, [shape(v, seen) for v in items] if items is value or isinstance(value, set) else items


def outcome(function):
    args = arguments()
    try:
        result = function(*args)
    except (LookupError, ValueError, TypeError, RuntimeError) as error:
        if isinstance(error, minicompile.errors.MinicompileError):
            raise
        result = error
    return shape((result, args), {})


@pytest.mark.parametrize("breaks", [True, False], ids=["breaking", "whole"])
def test_random_programs(breaks):
    different = []
    for seed in range(60):
        program = Program(seed)
        name = f"<program {seed}>"
        linecache.cache[name] = (len(program.text), None, program.text.splitlines(True), name)
        namespace = {"pause": minicompile.disable(lambda: None) if breaks else lambda: None}
        exec(compile(program.text, name, "exec"), namespace)
        minicompile.reset()
        expected = outcome(namespace["fn"])
        if outcome(minicompile.compile(namespace["fn"], backend="eager")) != expected:
            different.append(seed)
    assert not different, Program(different[0]).text
