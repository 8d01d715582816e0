"""SideEffects: what the captured program changed outside its own locals, to be replayed after the graph.

Goes in: attribute writes, container mutations, cell and global stores and mode switches, as capture meets them.
Comes out: bytecode that performs the final state of each, once, in the order in which objects were first touched.
Mirrors `torch/_dynamo/side_effects.py`.  Taught in chapter 06.

Only the last value of an attribute is written: nothing outside can look between two writes, because whatever could
look (a call that capture cannot see into) breaks the graph first.
"""

import itertools
import sys

import torch

from .lifetimes import is_mortal, refuse_drop, refuse_drop_of, refuse_overwriting, same
from .polyfills.tensors import set_inference_mode
from .variables.base import unsupported
from .variables.instance_dict import DictEntry


class _Deleted:
    def __repr__(self):
        return "DELETED"


class SideEffects:
    """Pending effects.  Trackers are the keys: one object is one tracker."""

    DELETED = _Deleted()

    def __init__(self, output):
        self.output = output
        self.order = {}  # trackers of existing objects in the order of their first effect (values: None)
        self.attributes = {}  # tracker -> {name: tracker or DELETED}
        self.moved = {}  # tracker -> the names that were deleted and set again: they come behind all others
        self.new_objects = set()  # trackers of objects that capture made
        self.mutated_containers = set()
        self.mortals = {}  # tracker of a changed container -> its first elements whose death the program hears of
        self.globals = {}  # (id of globals dict, name) -> (globals source, name, tracker or DELETED)
        self.moved_globals = {}  # (id of globals dict, name): as `moved`
        self.activity = 0  # grows with each change of anything, and with each look at what capture has changed before
        self.modes = {}  # setter -> (restore arguments, current arguments)
        self.switches = []  # (setter, arguments before, arguments after), each that is not switched back yet
        self.function_modes = []  # trackers of the torch function modes that are on now, outermost first
        self.first_function_modes = ()  # those that were on when the frame was entered

    # --- reports from capture -----------------------------------------------------------------------
    def _touch(self, tracker):
        self.order.setdefault(tracker)

    def mutated(self, tracker):
        """Call before a container tracker's contents change in place."""
        self.activity += 1
        if tracker.source is not None and tracker not in self.mutated_containers:
            self.mutated_containers.add(tracker)
            self._touch(tracker)
            mortals = [element for element in tracker.held() if is_mortal(element)]
            if mortals:
                self.mortals[tracker] = mortals

    def refuse_lost_elements(self):
        """After each instruction: what an existing container has let go of is to die now."""
        for container, mortals in self.mortals.items():
            held = {same(element) for element in container.held()}
            for element in mortals:
                if same(element) not in held:
                    refuse_drop_of(element)

    def replay_later(self, tracker):
        """A new object gets its state among the effects: by its `replay`."""
        self.mutated_containers.add(tracker)
        self._touch(tracker)

    def new_object(self, tracker):
        self.new_objects.add(tracker)
        self.attributes.setdefault(tracker, {})

    def forget_dead(self):
        """Objects made here that nobody holds any more: what only they held is gone with them."""
        while dead := [t for t in self.new_objects if t not in self.order and sys.getrefcount(t) == ONLY_HERE]:
            self.new_objects.difference_update(dead)
            while dead:
                del self.attributes[dead.pop()]

    def store_attr(self, tracker, name, value):
        if not isinstance(name, DictEntry) and type(name) is not str:  # a `__dict__` keeps the very object
            unsupported("instance __dict__", f"the name {name!r} is no plain string")
        self.activity += 1
        pending = self.attributes.setdefault(tracker, {})
        if name not in pending:
            refuse_overwriting(tracker, name, value)
        elif pending[name] is self.DELETED:
            del pending[name]
            self.moved.setdefault(tracker, {})[name] = None
        else:
            refuse_drop_of(pending[name])
        pending[name] = value
        if tracker not in self.new_objects:
            self._touch(tracker)

    def delete_attr(self, tracker, name):
        self.store_attr(tracker, name, self.DELETED)

    def load_attr(self, tracker, name):
        """The pending value, DELETED, or None where nothing was written."""
        pending = self.attributes.get(tracker, {}).get(name)
        self.activity += pending is not None and tracker not in self.new_objects
        return pending

    def pending_attributes(self, tracker):
        return self.attributes.get(tracker, {})

    def store_cell(self, cell, value):
        if value is self.DELETED and cell in self.new_objects:
            self.attributes[cell].clear()  # empty again
        else:
            self.store_attr(cell, "cell_contents", value)

    def ends_with_frame(self, cell):
        """A cell of the frame itself, which returns: it is filled only if something that lives on refers to it."""
        if cell in self.order:
            del self.order[cell]
            self.new_objects.add(cell)

    def load_cell(self, cell):
        pending = self.load_attr(cell, "cell_contents")
        self.activity += pending is not None
        return pending

    def store_global(self, globals_dict, name, source, value):
        self.activity += 1
        if self.output.known(globals_dict) is not None:
            unsupported("introspection", f"the global `{name}` is set, and the globals are looked at as a dict too")
        key = id(globals_dict), name
        if key not in self.globals:
            if name in globals_dict:
                refuse_drop(globals_dict[name], name, value)
        elif self.globals[key][2] is self.DELETED:
            del self.globals[key]
            self.moved_globals[key] = None
        self.globals[key] = (source, name, value)

    def load_global(self, globals_dict, name):
        entry = self.globals.get((id(globals_dict), name))
        self.activity += entry is not None
        return entry[2] if entry is not None else None

    def set_mode(self, setter, before, after):
        """A global mode was switched during capture (it really is, until capture ends): see variables/modes.py."""
        first = self.modes[setter][0] if setter in self.modes else before
        self.modes.pop(setter, None)
        self.modes[setter] = (first, after)
        self.switches.append((setter, before, after))

    def restore_modes(self):
        """Undo the switches that capture made for real, newest first; inference mode brings a grad mode back."""
        while self.switches:
            setter, before, _ = self.switches.pop()
            setter(*before)

    def switched(self):
        """(setter, arguments) that bring back the modes which a graph switches.  Inference mode it knows as no grad."""
        return [(setter, before) for setter, (before, _) in self.modes.items() if setter is not set_inference_mode]

    # --- replay -------------------------------------------------------------------------------------
    def live_trackers(self):
        """Trackers whose values the replay needs."""
        for tracker in self.order:
            if tracker in self.mutated_containers:
                yield from tracker.children()
            yield from (v for v in self.pending_attributes(tracker).values() if v is not self.DELETED)
        yield from (value for _, _, value in self.globals.values() if value is not self.DELETED)
        yield from self.function_modes[self.function_modes_kept() :]

    def replay(self, codegen):
        """Emit the effects.  Every value is in a temporary before the first object changes."""
        for tracker in list(self.live_trackers()):
            codegen.save(tracker)
        for tracker in list(self.order):
            codegen.save(tracker)
        codegen.fill_new_objects()
        for call in self.output.cached_calls:
            codegen.run(call.take_turn)
        for tracker in sorted(self.order, key=lambda t: getattr(t, "replay_order", 0)):
            if tracker in self.mutated_containers:
                tracker.replay(codegen)
            if hasattr(tracker, "replay_attributes"):
                tracker.replay_attributes(codegen, self.pending_attributes(tracker))
                continue
            pending = self.pending_attributes(tracker)
            deleted = (
                (name, self.DELETED) for name in self.moved.get(tracker, ()) if pending[name] is not self.DELETED
            )
            for name, value in (*deleted, *pending.items()):
                codegen.write_attribute(tracker, name, value)
        moved = (self.globals[key] for key in self.moved_globals)
        deleted = ((source, name, self.DELETED) for source, name, value in moved if value is not self.DELETED)
        for source, name, value in (*deleted, *self.globals.values()):
            codegen.write_global(source, name, value)
        self.replay_modes(codegen)

    def replay_modes(self, codegen):
        entered, left = self.modes.get(set_inference_mode, (None, None))
        one_by_one = entered != left  # which switches a grad mode too
        for setter, after in (
            [(setter, after) for setter, _, after in self.switches] if one_by_one else self.changed_modes()
        ):
            codegen.run(setter, *after)
        kept = self.function_modes_kept()
        for _ in self.first_function_modes[kept:]:
            codegen.run(torch._C._pop_torch_function_stack)
        for mode in self.function_modes[kept:]:
            codegen.run(torch._C._push_on_torch_function_stack, mode)

    def changed_modes(self):
        return [(setter, after) for setter, (before, after) in self.modes.items() if before != after]

    def function_modes_kept(self):
        """How many of the torch function modes, from the outermost on, are the same as at the start."""
        pairs = zip(self.first_function_modes, self.function_modes)
        return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] is pair[1], pairs))


ONLY_HERE = 4  # references: `new_objects`, `attributes`, the loop and the argument of getrefcount
