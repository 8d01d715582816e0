"""CodeTable: remembers something for each code object, for as long as it lives.

Goes in: code objects.  Comes out: what was stored for that very object.  Mirrors `ExactWeakKeyDictionary` in
`torch/_dynamo/utils.py`.  Taught in chapter 01.

Code objects compare by value: a notebook cell that is run again makes another, equal one, which must not share the
first one's recompile count.  So the table goes by identity; and because an entry must not keep its key alive, by weak
reference.
"""

import weakref

NO_ENTRY = type(None), None


class CodeTable:
    """A dict from code objects, by identity, without keeping them alive.

    An entry may outlive its code: what a signal raises in the callback of a weak reference goes no further.
    """

    def __init__(self):
        self._entries = {}  # id -> (weak reference, value)

    def get(self, code):
        reference, value = self._entries.get(id(code), NO_ENTRY)
        return value if reference() is code else None

    def set(self, code, value):
        """Store and return `value`."""
        key = id(code)
        self._entries[key] = weakref.ref(code, lambda _: self._entries.pop(key, None)), value
        return value

    def __contains__(self, code):
        return self._entries.get(id(code), NO_ENTRY)[0]() is code

    def codes(self):
        """The code objects that are still alive."""
        return [code for reference, _ in list(self._entries.values()) if (code := reference()) is not None]

    def clear(self):
        self._entries.clear()
