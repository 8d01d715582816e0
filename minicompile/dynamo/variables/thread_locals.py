"""`threading.local()`: attributes that each thread has for itself, such as torch's default device.

Goes in: an existing one.  Comes out: its attributes in this thread; C code finds them, in a dict of the thread's.
Mirrors ThreadLocal handling in `torch/_dynamo/variables/user_defined.py`.  Taught in chapter 06.
"""

import threading

from ..builder import wraps
from ..source import CallSource
from .objects import UserDefinedObjectVariable, placed


def holds(local, name):
    """Whether this thread keeps something there under the name."""
    return name in local.__dict__


class ThreadLocalVariable(UserDefinedObjectVariable):
    """A `threading.local()`: what this thread keeps there."""

    def instance_dict(self):
        return self.value.__dict__

    def has_instance_dict(self):
        return True

    def guard_lacks(self, tx, name):
        tx.guard("equals", CallSource(self.source, holds, (name,)), False)


@wraps(threading.local)
def wrap_thread_local(output, value, source):
    output.guard("type", source, threading.local)
    return ThreadLocalVariable(threading.local, value, placed(value, source))
