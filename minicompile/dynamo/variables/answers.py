"""What C code makes of the answers of special methods: of a `__len__`, a `__bool__`, a `__hash__`, a `__str__`, ...

Goes in: what a method returned.  Comes out: what the function that asked returns, or the exception that it raises. The
function is really called, on an object whose method gives the same answer.
PyTorch has no such file: torch.compile takes the answers as they are.  Taught in chapter 06.
"""

from .base import stand_in, unsupported
from .constant import ConstantVariable

TAKEN_AS_THEY_ARE = {"__bool__": bool, "__str__": str, "__repr__": str, "__format__": str, "__index__": int}


def answered(tx, function, method, answer):
    """`function(object)`, which asked this method of the object."""
    answer = answer.realize()
    cls = answer.python_type()
    if cls is TAKEN_AS_THEY_ARE.get(method) or (cls is int and not isinstance(answer, ConstantVariable)):
        return answer  # such an int changes from call to call
    if answer.is_python_constant():
        return tx.fold_python(function, [answering(method, answer.as_python_constant())], {})
    tx.fold_python(function, [answering(method, stand_in(cls))], {})  # complains
    unsupported("builtin on an unknown value", f"{function.__name__}() of an object whose {method} returns {answer}")


def answering(method, answer):
    """An object whose method gives this answer."""
    return type("Answering", (), {method: lambda self, *arguments: answer})()
