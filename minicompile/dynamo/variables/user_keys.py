"""Keys of dicts and elements of sets whose class compares them by code of its own.

Goes in: the tracker of such an object.  Comes out: what stands for it in a Python dict of trackers, so that CPython's
own look-up asks `__hash__` and `__eq__` of the program, inlined, in its order.
Mirrors `HashableTracker` of `torch/_dynamo/variables/dicts.py`.  Taught in chapter 06.
"""

from .base import VariableTracker, unsupported


class UserKey:
    """A dict key whose class defines `__hash__` or `__eq__` in Python: both are inlined when the dict asks."""

    def __init__(self, tx, variable):
        self.tx, self.variable = tx, variable
        self.hash = self.ask(lambda: tx.call(hash, variable).as_python_constant())
        self.attributes = dict(tx.side_effects.pending_attributes(variable))

    def __hash__(self):
        return self.hash

    def __eq__(self, other):
        """other: also what stands for an object that is equal only to itself, or a constant of the same hash."""
        if isinstance(other, UserKey):
            other = other.variable
        elif not isinstance(other, VariableTracker):
            other = self.tx.build(other)
        return self.variable is other or self.ask(lambda: self.tx.equals(self.variable, other))

    def ask(self, question):
        """The code that makes the container anew asks again: no harm where the answer is a matter of the key alone."""
        effects = self.tx.side_effects
        before, answer = effects.activity, question()
        if effects.activity != before:
            self.refuse("compares by code that changes something, or looks at what was changed")
        return answer

    def check_unchanged(self):
        """Before it is put into a container anew."""
        if self.attributes != self.tx.side_effects.pending_attributes(self.variable):
            self.refuse("was changed when it was a key already")

    def refuse(self, reason):
        unsupported("key with its own equality", f"{self.variable}, which {reason}")
