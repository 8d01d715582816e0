"""Which existing objects a capture takes for different ones: the guards that say so.

Goes in: the OutputGraph of a finished capture.  Comes out: guards.  One object by two paths is guarded where the second
path is met (`builder.wrap`); here is the other half.  Mirrors the guard against aliases in `torch/_dynamo/guards.py`.
Taught in chapter 04.
"""

from .variables.base import VariableTracker


def note_keys(output, stand_in):
    """A tracker stands for itself as a key: found or not, the answer holds while it is none of the other keys."""
    for part in stand_in if isinstance(stand_in, (tuple, frozenset)) else (stand_in,):
        if isinstance(part, (tuple, frozenset)):
            note_keys(output, part)
        elif isinstance(part, VariableTracker) and (key := part.realize()).source is not None:
            output.existing_keys[key] = None


def add_closing_guards(output):
    """Tensor inputs, arrays, keys and changed objects are different ones; and what was assumed about symbolic sizes."""
    for guard in output.sizes.guards():
        output.guards.add_shape(guard)
    tensors = [graph_input.source for graph_input in output.tensor_inputs()]
    for sources in (tensors, output.array_sources, *groups(output)):
        if len(sources) > 1:
            output.guards.add_alias(tuple(sources), same=False)


def groups(output):
    """For each class: what must not be one object, the keys; where one is changed, all that the program looked at."""
    seen = [v for _, v, _ in output.variables_by_id.values() if v.source is not None and not v.is_immutable()]
    changed = dict.fromkeys(t.python_type() for t in output.side_effects.order if t.source is not None)
    for cls in dict.fromkeys((*changed, *(key.python_type() for key in output.existing_keys))):
        yield [v.source for v in seen if v.python_type() is cls and (cls in changed or v in output.existing_keys)]
