"""For every fact that capture used, the check fails when the fact changes, and holds when something else does."""

import collections
import contextlib
import types

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import minicompile
from minicompile.dynamo.eval_frame import frame_states
from minicompile.dynamo.guard_checks import ambient_state, same_constant
from minicompile.dynamo.guards import GuardSet
from minicompile.dynamo.source import LocalSource
from minicompile.testing import differences


def check_of(function, *arguments):
    """What the frame hook asks before it runs the compiled frame of `function` again; it holds for `arguments`."""
    minicompile.reset()
    minicompile.compile(function, backend="eager")(*arguments)
    _, check = frame_states.get(function.__code__).compiled[-1]
    namespace = check.guards.writer.namespace
    exec(compile(check.guards.source_text, "<guards>", "exec"), namespace)

    def ask(*arguments):
        answer = check(function, *arguments)
        assert namespace["guard"](function, *arguments) is answer, "not what the Python of the report says"
        return answer

    assert ask(*arguments) is True
    return ask


# --- tensors --------------------------------------------------------------------------------------------
class Subclass(torch.Tensor):
    pass


def made_in_inference_mode(x):
    with torch.inference_mode():
        return x.clone()


def fake(x):
    with FakeTensorMode() as mode:
        return mode.from_tensor(x)


OTHER_TENSORS = {
    "dtype": lambda x: x.to(torch.complex128),
    "device": lambda x: x.to("meta"),
    "size": lambda x: torch.cat([x, x]),
    "rank": lambda x: x[None],
    "no dimensions": lambda x: x[0, 0],
    "empty": lambda x: x[:0],
    "stride": lambda x: x.mT.contiguous().mT,
    "expanded": lambda x: x[:1].expand(2, 3),
    "requires_grad": lambda x: x.clone().requires_grad_(),
    "result of autograd": lambda x: x.clone().requires_grad_() * 2,
    "parameter": torch.nn.Parameter,
    "subclass": lambda x: x.as_subclass(Subclass),
    "conjugate": torch.conj,
    "negative": lambda x: torch.conj(x).imag,
    "made in inference mode": made_in_inference_mode,
    "sparse": lambda x: x.to_sparse(),
    "fake": fake,
    "zero tensor": lambda x: torch._efficientzerotensor(2, 3, dtype=x.dtype),
    "no tensor": lambda x: 1.0,
    "none": lambda x: None,
}


@pytest.mark.parametrize("name", OTHER_TENSORS)
def test_tensor(name):
    x = torch.ones(2, 3, dtype=torch.complex64)
    check = check_of(lambda x: x * 2, x)
    assert check(torch.zeros(2, 3, dtype=torch.complex64)) is True
    assert check(torch.zeros(9, dtype=torch.complex64)[3:].view(2, 3)) is True  # the offset was not asked for
    assert check(OTHER_TENSORS[name](x)) is False


def test_tensor_changed_in_place():
    x = torch.ones(2, 3)
    check = check_of(lambda x: x * 2, x)
    for change, undo in (
        (lambda: x.requires_grad_(), lambda: x.requires_grad_(False)),
        (lambda: x.resize_(3, 2), lambda: x.resize_(2, 3)),
        (lambda: setattr(x, "data", torch.ones(2, 3).double()), lambda: setattr(x, "data", torch.ones(2, 3))),
        (lambda: x.t_(), lambda: x.t_()),
    ):
        change()
        assert check(x) is False
        undo()
        assert check(x) is True


def test_negative_view_and_offset():
    z = torch.ones(3, dtype=torch.complex64)
    plain, negative = torch.view_as_real(z)[:, 1], z.conj().imag
    assert plain.stride() == negative.stride() and negative.is_neg()
    check = check_of(lambda x: x + 1, plain)
    assert check(negative) is False
    check = check_of(lambda x: x + x.storage_offset(), torch.ones(4)[1:])
    assert check(torch.zeros(5)[1:4]) is True and check(torch.zeros(5)[2:]) is False


def test_transformed_tensor():
    answers = []
    check = check_of(lambda x: x + 1, torch.ones(3))
    torch.vmap(lambda x: answers.append(check(x)) or x)(torch.ones(2, 3))
    torch.func.grad(lambda x: answers.append(check(x)) or x.sum())(torch.ones(3))
    assert answers == [False, False]


def test_which_tensors_are_one():
    a, b, c = torch.ones(2), torch.ones(2), torch.ones(2)
    check = check_of(lambda x, y, z: x + y * z, a, b, c)
    assert check(c, b, a) is True and check(a, torch.ones(2), c) is True
    for same in ((a, a, b), (a, b, a), (b, a, a), (a, a, a)):
        assert check(*same) is False
        assert check(b, c, a) is True
    check = check_of(lambda x, y, z: x + y * z, a, b, a)
    assert check(b, c, b) is True and check(a, b, c) is False and check(a, a, a) is False


# --- constants ------------------------------------------------------------------------------------------
class Int(int):
    pass


class Float(float):
    pass


class Text(str):
    pass


NAN = float("nan")
CONSTANTS = [  # (then, now, holds)
    (3, int("3"), True),
    (3, 4, False),
    (1, True, False),
    (True, 1, False),
    (0, False, False),
    (3, 3.0, False),
    (3, Int(3), False),
    (12345678901234567890123, int("12345678901234567890123"), True),
    (12345678901234567890123, 12345678901234567890124, False),
    (2.5, float("2.5"), True),
    (0.0, -0.0, False),
    (-0.0, -0.0, True),
    (NAN, NAN, True),
    (NAN, float("nan"), True),
    (NAN, -NAN, True),
    (2.5, Float(2.5), False),
    (complex(0.0, 1), complex(-0.0, 1), False),
    (complex(NAN, 1), complex(float("nan"), 1), True),
    ("relu", "".join(["re", "lu"]), True),
    ("relu", Text("relu"), False),
    ("relu", b"relu", False),
    (None, 0, False),
    ((1, 2.0), (int("1"), float("2")), True),
    ((1, 2.0), (1, 2), False),
    ((1, 2.0), (1, 2.0, 3), False),
    ((1, (0.0,)), (1, (-0.0,)), False),
    (torch.float32, torch.float32, True),
    (torch.float32, torch.float64, False),
    (torch.device("cpu"), torch.device("cpu"), True),
    (torch.device("cpu"), torch.device("meta"), False),
    (frozenset({1, 2}), frozenset({2, 1}), True),
    (frozenset({1}), frozenset({True}), False),
]


@pytest.mark.parametrize(("then", "now", "holds"), CONSTANTS, ids=repr)
def test_constant(then, now, holds):
    guards = GuardSet(ambient_state())
    guards.add("equals", LocalSource("c"), then)
    guards.add("length", LocalSource("rest"), 0)
    check = guards.build((lambda c, *rest: c).__code__).check
    assert check(None, now, ()) is same_constant(now, then) is holds
    assert check(None, then, ()) is True and check(None, then, (1,)) is False


def test_constants_of_a_program():
    x = torch.ones(2)
    check = check_of(lambda x, n, scale, mode: x * n * scale if mode == "on" else x, x, 3, 2.0, "on")
    assert check(x, 3, 2.0, "".join(["o", "n"])) is True
    for other in (
        (True, 2.0, "on"),
        (3, 2, "on"),
        (3, -2.0, "on"),
        (3, 2.0, "off"),
        (Int(3), 2.0, "on"),
        (3.0, 2.0, "on"),
    ):
        assert check(x, *other) is False


# --- containers -----------------------------------------------------------------------------------------
def looped(x, table):
    for key, value in table.items():
        x = x * len(key) + value
    return x


def test_keys_and_their_order():
    x = torch.ones(2)
    check = check_of(looped, x, {"a": 1, "bb": 2})
    assert check(x, {"a": 1, "bb": 2}) is True
    for other in ({"bb": 2, "a": 1}, {"a": 1}, {"a": 1, "bb": 2, "c": 3}, {"a": 1, "b": 2}, {"a": 1, "bb": 2.0}):
        assert check(x, other) is False
    assert check(x, collections.OrderedDict(a=1, bb=2)) is False and check(x, [1, 2]) is False
    ordered = collections.OrderedDict(a=1, bb=2)
    check = check_of(looped, x, ordered)
    ordered.move_to_end("a")
    assert check(x, ordered) is False
    ordered.move_to_end("bb")
    assert check(x, ordered) is True


def test_absent_key():
    x, options = torch.ones(2), {"scale": 2}
    check = check_of(lambda x, options: x * options["scale"] if "bias" not in options else x, x, options)
    options["other"] = 1
    assert check(x, options) is True
    options["bias"] = 1
    assert check(x, options) is False
    del options["bias"], options["other"]
    assert check(x, options) is True


def test_lists():
    x, items = torch.ones(2), [torch.ones(2), 3, [4]]
    check = check_of(lambda x, items: x + items[0] * items[1] + items[2][0], x, items)
    for place, other in ((0, torch.ones(3)), (1, 4), (2, [5]), (2, (4,)), (2, []), (0, x)):
        before, items[place] = items[place], other
        assert check(x, items) is False
        items[place] = before
        assert check(x, items) is True
    assert check(x, tuple(items)) is False and check(x, []) is False


# --- objects, functions, classes ------------------------------------------------------------------------
SCALE = 2.0


def helper(x, by=1.0, *, plus=0.0):
    return x * by + plus


class Layer(torch.nn.Module):
    kind = "layer"

    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(2, 2)
        self.register_buffer("shift", torch.zeros(2))
        self.scale = 2.0

    def step(self, x):
        return x + 1

    def forward(self, x):
        if self.kind != "layer" or self.training:
            x = x + 1
        return helper(self.step(self.inner(x))) * self.scale * SCALE + self.shift + len(self._modules)


@contextlib.contextmanager
def set_to(owner, name, value):
    missing = object()
    before = vars(owner).get(name, missing)
    setattr(owner, name, value)
    try:
        yield
    finally:
        delattr(owner, name) if before is missing else setattr(owner, name, before)


def hooked(module):
    handle = module.register_forward_hook(lambda *args: None)
    return contextlib.closing(types.SimpleNamespace(close=handle.remove))


def moved(module, name):
    """Another object of another kind in its place."""
    return set_to(module, name, torch.nn.Identity())


CODE = (lambda x, by=1.0, *, plus=0.0: x - by).__code__
OBJECT_CHANGES = {
    "training": lambda m: set_to(m, "training", False),
    "attribute": lambda m: set_to(m, "scale", 3.0),
    "type of attribute": lambda m: set_to(m, "scale", 2),
    "attribute of the class": lambda m: set_to(Layer, "kind", "other"),
    "attribute of the instance": lambda m: set_to(m, "kind", "other"),
    "method of the class": lambda m: set_to(Layer, "step", lambda self, x: x),
    "method of the instance": lambda m: set_to(m, "step", lambda x: x),
    "inherited method": lambda m: set_to(torch.nn.Linear, "forward", lambda self, x: x),
    "inner forward": lambda m: set_to(m.inner, "forward", lambda x: x),
    "own lookup": lambda m: set_to(Layer, "__getattribute__", lambda self, name: object.__getattribute__(self, name)),
    "__code__": lambda m: set_to_code(helper, CODE),
    "__code__ of the method": lambda m: set_to_code(Layer.step, (lambda self, x: x).__code__),
    "__defaults__": lambda m: set_to_slot(helper, "__defaults__", (2.0,)),
    "__kwdefaults__": lambda m: set_to_slot(helper, "__kwdefaults__", {"plus": 1.0}),
    "global": lambda m: in_dict(globals(), "SCALE", 3.0),
    "global function": lambda m: in_dict(globals(), "helper", lambda x: x),
    "builtin hidden": lambda m: in_dict(globals(), "len", lambda x: 0),
    "hook": lambda m: hooked(m.inner),
    "buffer": lambda m: in_dict(m._buffers, "shift", torch.zeros(2, dtype=torch.float64)),
    "parameter": lambda m: in_dict(m.inner._parameters, "bias", None),
    "frozen": lambda m: set_to_slot(m.inner.weight, "requires_grad", False),
    "tied": lambda m: in_dict(m._buffers, "shift", m.inner.bias),
    "modules": lambda m: in_dict(m._modules, "more", torch.nn.Identity()),
    "kind of module": lambda m: in_dict(m._modules, "inner", torch.nn.Identity()),
    "class": lambda m: set_to_slot(m.inner, "__class__", torch.nn.Identity),
}


@contextlib.contextmanager
def set_to_slot(owner, name, value):
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


set_to_code = lambda function, code: set_to_slot(function, "__code__", code)


@contextlib.contextmanager
def in_dict(table, key, value):
    missing = object()
    before = table.get(key, missing)
    table[key] = value
    try:
        yield
    finally:
        if before is missing:
            del table[key]
        else:
            table[key] = before


@pytest.mark.parametrize("name", OBJECT_CHANGES)
def test_object(name):
    model, x = Layer(), torch.ones(2, 2)
    minicompile.reset()
    minicompile.compile(model, backend="eager")(x)
    _, check = frame_states.get(Layer.forward.__code__).compiled[-1]
    function = Layer.forward
    assert check(function, model, x) is True
    with OBJECT_CHANGES[name](model):
        assert check(function, model, x) is False
    assert check(function, model, x) is True


def test_cells():
    scale, x = 2.0, torch.ones(2)

    def scaled(x):
        return x * scale  # noqa: F821

    check = check_of(scaled, x)
    for scale in (3.0, 2, True, None):
        assert check(x) is False
    scale = 2.0
    assert check(x) is True
    del scale
    assert check(x) is False


# --- modes ----------------------------------------------------------------------------------------------
@contextlib.contextmanager
def switched(setter, value, before):
    setter(value)
    try:
        yield
    finally:
        setter(before)


MODES = {
    "grad": torch.no_grad,
    "inference": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "autocast of another device": lambda: switched(lambda on: torch.set_autocast_enabled("cuda", on), True, False),
    "autocast dtype": lambda: switched(
        lambda dtype: torch.set_autocast_dtype("cpu", dtype), torch.float16, torch.bfloat16
    ),
    "autocast cache": lambda: switched(torch.set_autocast_cache_enabled, False, True),
    "default dtype": lambda: switched(torch.set_default_dtype, torch.float64, torch.float32),
    "default device": lambda: torch.device("meta"),
    "deterministic": lambda: switched(torch.use_deterministic_algorithms, True, False),
    "TF32": lambda: switched(torch.set_float32_matmul_precision, "high", "highest"),
    "torch functions": torch._C.DisableTorchFunction,
    "torch functions of subclasses": torch._C.DisableTorchFunctionSubclass,
    "dispatch mode": FakeTensorMode,
}


@pytest.mark.parametrize("name", MODES)
def test_mode(name):
    x = torch.ones(2)
    function = lambda x: x * 2
    check = check_of(function, x)
    with MODES[name]():
        assert check(x) is False
    assert check(x) is True
    with MODES[name]():
        reason = frame_states.get(function.__code__).compiled[-1][1].guards.first_failure(function, (x,))
    assert reason is not None and reason.old != reason.new, reason


def test_number_of_threads_where_it_is_read():
    before, x = torch.get_num_threads(), torch.ones(2)
    reads, does_not = check_of(lambda x: x * torch.get_num_threads(), x), check_of(lambda x: x * 2, x)
    with switched(torch.set_num_threads, before + 1, before):
        assert reads(x) is False and does_not(x) is True
    assert reads(x) is True


class Filling(dict):
    def __missing__(self, key):
        self[key] = made = [key]
        return made


def test_what_failed_is_found_without_running_the_code_of_another_class():
    def program(x, table):
        for _ in range(2):
            print(end="")
            found = sorted(table.items())
        return x + len(found)

    compiled = minicompile.compile(program, backend="eager")
    x, table = torch.ones(2), Filling(a=1)
    assert torch.equal(compiled(x, {"a": 1, "b": 2}), x + 2)
    assert torch.equal(compiled(x, table), x + 1)
    assert table == {"a": 1}


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_a_tangent_of_forward_mode_is_not_lost(backend):
    import torch.autograd.forward_ad as forward_ad

    def square(x):
        return x * x

    counter = minicompile.stats()["graphs"]
    compiled = minicompile.compile(square, backend=backend)
    x, tangent = torch.full((3,), 3.0), torch.full((3,), 2.0)
    for _ in range(2):
        assert torch.equal(compiled(x), x * x)
        with forward_ad.dual_level():
            primal, found = forward_ad.unpack_dual(compiled(forward_ad.make_dual(x, tangent)))
            assert torch.equal(primal, x * x) and torch.equal(found, 2 * x * tangent)
        value, found = torch.func.jvp(compiled, (x,), (tangent,))
        assert torch.equal(value, x * x) and torch.equal(found, 2 * x * tangent)
    assert minicompile.stats()["graphs"] - counter == 1


def test_where_memory_lies_is_not_asked_of_a_fake_tensor():
    x, y = torch.ones(4), torch.ones(4)
    for program in (
        lambda x, y: x + 1 if x.is_set_to(y) else x - 1,
        lambda x, y: (x + 1, x.const_data_ptr() == y.const_data_ptr()),
        lambda x, y: x + 1 if x[1:].is_shared() else x - 1,
    ):
        compiled = minicompile.compile(program, backend="eager")
        for arguments in ((x, y), (x, x), (x, x.view(4)), (x.clone().share_memory_(), y)):
            assert not differences(program(*arguments), compiled(*arguments), exact=True)
