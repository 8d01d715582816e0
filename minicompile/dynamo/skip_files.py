"""Which frames are captured, by the file that their code comes from.

Goes in: a code object.  Comes out: whether the hook leaves its frames alone for good.
Mirrors `torch/_dynamo/trace_rules.py`.  Taught in chapter 01.
"""

import gc
import importlib.util
import itertools
import os
import sys
import sysconfig
import types

import numpy
import torch

from .bytecode_analysis import shadows_a_cell

TORCH_FOLDER = os.path.dirname(torch.__file__) + os.sep
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
# Programs of a user's kind, and the frame around what has none of its own: a module with hooks, a builtin.
_CAPTURED_PARTS = (os.path.join(_PACKAGE, "bench") + os.sep, os.path.join(_PACKAGE, "compiler.py"))
_STANDARD_LIBRARY = sysconfig.get_path("stdlib") + os.sep
SKIPPED_LIBRARIES = (TORCH_FOLDER, os.path.dirname(numpy.__file__) + os.sep)
CAPTURED_FOLDERS = (
    os.path.join(TORCH_FOLDER, "nn", "modules"),
    os.path.join(TORCH_FOLDER, "nn", "functional"),
    os.path.join(TORCH_FOLDER, "optim"),
    sysconfig.get_path("purelib") + os.sep,
)
# nn.Module itself only dispatches, to `forward`, to hooks and to its dicts; what it calls is captured by itself
DISPATCH_FILE = torch.nn.Module._call_impl.__code__.co_filename


def is_skipped(path):
    if path.startswith(SKIPPED_LIBRARIES):
        return not path.startswith(CAPTURED_FOLDERS[:3])
    if path.startswith(_PACKAGE):
        return not path.startswith(_CAPTURED_PARTS)
    return path.startswith(_STANDARD_LIBRARY) and not path.startswith(CAPTURED_FOLDERS)


def is_installed(name):
    """Whether this module comes with Python or with an installed package, not with the program."""
    top = name.partition(".")[0]
    spec = getattr(sys.modules[top], "__spec__", None) if top in sys.modules else importlib.util.find_spec(top)
    found = spec and (spec.origin or next(iter(spec.submodule_search_locations or ()), None))
    return top in sys.stdlib_module_names or str(found).startswith((_STANDARD_LIBRARY, CAPTURED_FOLDERS[3]))


def is_generated_for_skipped(code, function):
    """Code without a file, as the `__init__` of a dataclass, belongs to the module that has its globals."""
    return code.co_filename == "<string>" and is_skipped(str(function.__globals__.get("__file__")))


def never_capture(code):
    """A frame of the compiler, of torch or of the standard library, or one that keeps something in its own frame."""
    path = code.co_filename
    if path == DISPATCH_FILE or path.startswith(("<frozen", "<minicompile")):  # a wrapper that we wrote ourselves
        return True
    if code.co_name == "__torch_dispatch__":  # runs below autograd, where a graph would be another one
        return True
    if is_skipped(path):
        return True
    from .resume_code import looks_at_own_frame
    from .symbolic_convert import instructions_of

    looks = looks_at_own_frame(code)  # one look is a break; what a look leaves behind for the next one, we would lose
    if len(looks) > 1 or not {"exec", "_getframe", "currentframe"}.isdisjoint(looks):
        return True
    return bool(code.co_cellvars or code.co_freevars) and shadows_a_cell(code, instructions_of(code)[0])


def concerns_tensors(code, function, arguments):
    """Whether capturing this frame can pay: a tensor, a module, or torch itself is within reach."""
    from .resume_code import is_resume_code

    if is_resume_code(code):
        return True
    reachable = [*arguments, *(function.__globals__.get(name) for name in code.co_names)]
    for cell in function.__closure__ or ():
        try:
            reachable.append(cell.cell_contents)
        except ValueError:
            continue
    return any(has_tensor(value, 3) for value in reachable)


def has_tensor(value, depth):
    """The class is asked and not the value, whose `__class__` and `__dict__` may be code of the program."""
    kind = type(value)
    if issubclass(kind, (torch.Tensor, torch.nn.Module, numpy.ndarray)):
        return True
    if issubclass(kind, types.ModuleType):
        return value is torch or str(attributes_of(value).get("__name__")).startswith("torch.")
    if depth == 0:
        return False
    if issubclass(kind, list) and any(has_tensor(v, depth - 1) for v in list.__getitem__(value, slice(8))):
        return True
    # One that belongs to an iterator may have holes, and only the collector knows how to pass them.
    if issubclass(kind, tuple) and any(has_tensor(v, depth - 1) for v in gc.get_referents(value)[:8]):
        return True
    if issubclass(kind, dict) and any(has_tensor(v, depth - 1) for v in itertools.islice(dict.values(value), 8)):
        return True
    if issubclass(kind, types.MethodType):
        return has_tensor(value.__self__, depth - 1)
    if issubclass(kind, (type, types.FunctionType, types.BuiltinFunctionType)):
        return False
    return any(has_tensor(item, depth - 1) for item in itertools.islice(held_by(value), 8))


def held_by(value):
    """What the attributes of an object are.

    A class written in C may put off making a `__dict__` until it is asked for one, and see that it was: partial does.
    There the garbage collector is asked, which finds what is held otherwise too.
    """
    return gc.get_referents(value) if _dict_offset_of(type(value)) > 0 else attributes_of(value).values()


_mro_of, _dict_of, _dict_offset_of = (type.__dict__[name].__get__ for name in ("__mro__", "__dict__", "__dictoffset__"))


def attributes_of(value):
    """The instance `__dict__`, past any property of that name (no user code runs); empty where there is none."""
    reader = dict_reader(type(value))
    try:
        return {} if reader is None else reader.__get__(value)
    except AttributeError:
        return {}


def dict_reader(cls):
    """What reads the instance `__dict__`; None where there is none, or a property has taken its place."""
    readers = (_dict_of(owner).get("__dict__") for owner in _mro_of(cls))
    return next((reader for reader in readers if isinstance(reader, DICT_READERS)), None)


DICT_READERS = (types.GetSetDescriptorType, types.MemberDescriptorType)
