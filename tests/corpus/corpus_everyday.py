"""Examples: everyday code in which ours once broke where torch.compile does not, or gave another result."""

import copy
import functools
import operator
import re
import weakref

import numpy as np
import torch
from corpus import X, example
from torch import nn
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts


# --- copies ---------------------------------------------------------------------------------------------
class Counted:
    """Says by itself how it is copied."""

    def __init__(self, count):
        self.count = count

    def __copy__(self):
        return Counted(self.count + 10)

    def __deepcopy__(self, memo):
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        made.count = copy.deepcopy(self.count, memo)
        return made


@example("copy")
def copies_by_the_class(x):
    counted = Counted([1, [2]])
    deep = copy.deepcopy({"a": counted, "b": counted})
    return x * copy.copy(Counted(2)).count, deep["a"] is deep["b"], deep["a"].count is counted.count


class Reduced:
    def __init__(self, parts):
        self.parts = parts

    def __reduce__(self):
        return Reduced, (self.parts,), {"again": True}


@example("copy")
def copies_by_reduce(x):
    made = copy.deepcopy(Reduced([1, 2]))
    return x * len(made.parts), made.again


# --- nn.Buffer ------------------------------------------------------------------------------------------
@example("nn.Module methods")
def buffer_is_an_instance(x):
    made = nn.Buffer(torch.ones(3)), nn.Parameter(torch.ones(3)), torch.ones(3)
    return x * made[0], [(isinstance(each, nn.Buffer), isinstance(each, nn.Parameter)) for each in made]


@example("nn.Module methods", make=True)
def buffer_of_a_module():
    module = nn.Module()
    module.scale = nn.Buffer(torch.ones(3))

    def f(x):
        module.made = nn.Buffer(x * 2)
        return x * module.scale, isinstance(module.scale, nn.Buffer), [name for name, _ in module.named_buffers()]

    return f, module


# --- weak references --------------------------------------------------------------------------------------
class Key:
    weight = 3


KEY = Key()
BY_KEY = weakref.WeakKeyDictionary({KEY: 4})
KEYS = weakref.WeakSet([KEY])


@example("collections of the standard library")
def weak_key_dictionary(x):
    return x * BY_KEY[KEY], len(BY_KEY), KEY in BY_KEY, BY_KEY.get(KEY)


@example("collections of the standard library")
def weak_set(x):
    return x + (KEY in KEYS), len(KEYS)


@example("standard library")
def weak_reference_made(x):
    reference = weakref.ref(KEY)
    return x * reference().weight, reference is weakref.ref(KEY), reference == weakref.ref(KEY)


# --- text and operator ------------------------------------------------------------------------------------
@example("string and bytes methods")
def replaced_by_a_function(x):
    found = []

    def upper(match):
        found.append(match.start())
        return match[0].upper()

    return x + 1, re.sub("[ab]", upper, "xaybz"), re.subn("b*", upper, "xab", count=2), found


@example("string and bytes methods")
def matches_one_by_one(x):
    spans = [match.span() for match in re.finditer("a", "banana")]
    return x + len(spans), spans, next(re.compile("a").finditer("banana", 2)).start()


@example("operator")
def length_hints(x):
    return x + operator.length_hint([1]), operator.length_hint(3, 5)


# --- numpy ------------------------------------------------------------------------------------------------
ROWS = np.array([0, 2])


@example("numpy calls on tensors")
def indexed_by_arrays(x):
    y = x.clone()
    y[ROWS] = 1
    y[:, np.array([1])] = 2
    return x[ROWS], x[:, ROWS], x[ROWS, ROWS], x[np.arange(2)], y


@example("numpy calls on tensors")
def tensors_like_this_of_arrays(x):
    return x.new_tensor(np.arange(3)), x.new_tensor(ROWS, dtype=torch.int32), x.new_tensor([1, 2])


# --- selective checkpoints --------------------------------------------------------------------------------
@example("torch.utils.checkpoint", X.clone().requires_grad_())
def policy_made_in_the_function(x):
    def policy(ctx, operator, *args, **kwargs):
        keep = operator == torch.ops.aten.mm.default
        return CheckpointPolicy.MUST_SAVE if keep else CheckpointPolicy.PREFER_RECOMPUTE

    contexts = functools.partial(create_selective_checkpoint_contexts, policy)
    return checkpoint(lambda a: (a @ a.T).sin(), x, use_reentrant=False, context_fn=contexts)
