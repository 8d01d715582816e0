"""Tables of builtin and standard-library functions: which have a polyfill, which are folded, which break and why.

One row adds a function.  Mirrors the tables of `torch/_dynamo/trace_rules.py`.  Taught in chapter 05.
"""

import builtins
import cmath
import collections
import copyreg
import fnmatch
import functools
import itertools
import keyword
import math
import operator
import os
import re
import string
import struct
import sys
import textwrap
import types
import typing
import unicodedata

from .. import polyfills
from ..polyfills import caches, copies, iterators, text

POLYFILLS = {
    functools.reduce: polyfills.reduce,
    functools.cmp_to_key: caches.cmp_to_key,
    functools._lru_cache_wrapper: caches.lru_cache_wrapper,
    os.fspath: os._fspath,
    math.prod: polyfills.prod,
    typing._idfunc: polyfills.identity,
    operator.itemgetter: polyfills.itemgetter,
    operator.attrgetter: polyfills.attrgetter,
    operator.methodcaller: polyfills.methodcaller,
    operator.countOf: polyfills.countOf,
    operator.indexOf: polyfills.indexOf,
    operator.length_hint: polyfills.length_hint,
    collections._count_elements: polyfills.count_elements,
    itertools.chain.from_iterable: iterators.chain_from_iterable,
    itertools._tee: iterators._Tee,
    **{
        getattr(itertools, name): getattr(iterators, name)
        for name in "count repeat cycle chain islice takewhile dropwhile filterfalse compress starmap accumulate "
        "pairwise batched zip_longest groupby tee".split()
        if hasattr(itertools, name)
    },
}

PLAIN_BASES = (object, types.SimpleNamespace)  # written in C, and nothing but attributes
METHOD_POLYFILLS = {
    types.SimpleNamespace.__init__: polyfills.namespace_init,
    types.SimpleNamespace.__eq__: polyfills.namespace_eq,
    types.SimpleNamespace.__repr__: polyfills.namespace_repr,
    **copies.POLYFILLS,
    **text.METHODS,
}

# Pure functions: called during capture when all arguments are constants.
FOLDED_MODULES = {"math", "cmath", "unicodedata"}
FOLDED = {
    *(getattr(module, name) for module in (math, cmath, unicodedata) for name in dir(module) if name[0] != "_"),
    *(bin, hex, oct, ord, chr, ascii, bytes, complex, types.GenericAlias),
    *(re.match, re.search, re.fullmatch, re.split, re.findall, re.compile, re._compile, re.escape),
    *(text.matches, text.replaced),
    *(os.path.join, os.path.basename, os.path.dirname, os.path.splitext, os.path.split, os.path.normpath),
    getattr(os.path, "splitroot", os.path.split),  # from 3.12 on
    *(fnmatch.fnmatchcase, fnmatch.translate, textwrap.dedent, textwrap.indent, string.capwords),
    *(sys.intern, copyreg._slotnames, copies.is_all_told, copies.reduced_in_c),
    *(struct.pack, struct.unpack, struct.calcsize, keyword.iskeyword),
    *(typing.get_origin, typing.get_args),
    *(text.fields, text.field_path, text.conversions, text.plain_text, text.percent_of_constants),
    *(text.type_name, text.match_no_class),
    *(str.maketrans, int.from_bytes, float.fromhex, bytes.fromhex, bytes.maketrans),
}
FOLDED = {value for value in FOLDED if callable(value)}

BREAKS = {  # function -> kind of the break
    print: "print or input",
    input: "print or input",
    open: "file access",
    builtins.__build_class__: "class definition",
    **dict.fromkeys((eval, exec, globals, locals, dir), "introspection"),
}
BREAKING_METHODS = {  # of a tensor: name -> kind of the break
    "__contains__": "data-dependent branch",
    **dict.fromkeys(("item", *(f"__{n}__" for n in "int float bool index complex".split())), "tensor read as a number"),
    # (the last three call a Python function for each element)
    **dict.fromkeys(
        ("tolist", "tobytes", "__array__", "data_ptr", "apply_", "map_", "map2_"), "tensor read as a list or array"
    ),
    **dict.fromkeys(("__repr__", "__str__", "__format__"), "tensor printed"),
    **dict.fromkeys(("storage", "untyped_storage", "set_", "resize_", "share_memory_"), "tensor storage"),
    **dict.fromkeys(("_typed_storage", "storage_type"), "tensor storage"),
    "__dir__": "introspection",
}
