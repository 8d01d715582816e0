"""What an earlier process made of the same ATen graph: kept as its generated code.

Goes in: a graph that aot knows by a key.  Comes out: a `Program`, or None.  The library that is built of its text has
an entry of its own (see cpp_build.py).  IR and schedule are not kept: they are made again for who asks.
Mirrors `FxGraphCache` in `torch/_inductor/codecache.py`.  Taught in chapter 11.
"""

import dataclasses
import functools

from .. import cache, config, record
from . import scheduler
from .codegen.wrapper import Source
from .graph import GraphLowering
from .lowering import LOWERINGS


@dataclasses.dataclass
class Program:
    """counts: what it adds to `record.counters`; spends: it empties its list; changing: sizes are symbolic."""

    source: Source
    counts: dict
    spends: bool
    changing: bool


def name_of(gm):
    """The name of a graph's entry, or None."""
    return f"{cache.key_of(gm.meta['key'], cache.settings())}.inductor.json" if "key" in gm.meta else None


def find(gm):
    name = name_of(gm)
    entry = None if name is None else cache.read_json(name)
    if entry is None:
        return None
    source = Source(**entry["source"])
    source.constants = {name: cache.tensor(form) for name, form in source.constants.items()}
    show_stages(gm, source)
    return Program(**{**entry, "source": source})


def keep(gm, program):
    name = name_of(gm)
    if name is not None:
        source = dict(vars(program.source))
        source["constants"] = {name: cache.tensor_form(value) for name, value in source["constants"].items()}
        cache.put_json(name, {**vars(program), "source": source})


def show_stages(gm, source):
    """The record of the stages that were not run; their artifacts are made when somebody looks at them."""
    options = config.snapshot()

    @functools.cache
    def again():
        with config.patch(**options):
            graph = GraphLowering(gm, (), LOWERINGS).run()
            return graph, scheduler.schedule(graph, config.fusion)

    for stage, make in (("lower", lambda: again()[0]), ("schedule", lambda: again()[1]), ("codegen", lambda: source)):
        with record.stage(stage) as snapshot:
            snapshot.artifact = record.Later(make)
    record.log("fusion", "%s", lambda: again()[1].why())
    record.log("output_code", "%s", source)
