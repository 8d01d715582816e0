"""Examples: `with` blocks."""

import contextlib

import torch
import torch.nn.functional as F
from corpus import X, example
from torch.nn.attention import SDPBackend, sdpa_kernel

X4 = torch.randn(1, 2, 4, 8, generator=torch.Generator().manual_seed(3))


class Recorder:
    """A context manager that notes what happens, and swallows what it is told to."""

    def __init__(self, swallow=()):
        self.log, self.swallow = [], swallow

    def __enter__(self):
        self.log.append("enter")
        return self

    def __exit__(self, kind, value, traceback):
        self.log.append("exit" if kind is None else kind.__name__)
        return kind is not None and issubclass(kind, self.swallow)


# --- with -----------------------------------------------------------------------------------------------
@example("user context managers")
def user_context_manager(x):
    with Recorder() as recorder:
        x = x + 1
        recorder.log.append("body")
    return x, recorder.log


@example("user context managers")
def user_context_manager_swallows(x):
    recorder = Recorder(ValueError)
    with recorder:
        x = x * 2
        raise ValueError("swallowed")
    return x, recorder.log


@example("user context managers", X, Recorder())
def user_context_manager_from_outside(x, recorder):
    with recorder:
        return x + len(recorder.log)


@contextlib.contextmanager
def scaled(factor, log):
    log.append("before")
    try:
        yield factor
    finally:
        log.append("after")


@example("contextlib")
def contextmanager_function(x):
    log = []
    with scaled(3, log) as factor, scaled(5, log) as other:
        x = x * factor + other
    return x, log


@example("contextlib")
def suppress(x):
    with contextlib.suppress(KeyError, IndexError):
        x = x + 1
        [][0]
    return x * 2


@example("contextlib", X, False, also=[(X, True)])
def nullcontext(x, wanted):
    with torch.no_grad() if wanted else contextlib.nullcontext():
        return x + 1


@example("contextlib")
def closing(x):
    class Resource:
        closed = False

        def close(self):
            self.closed = True

    with contextlib.closing(Resource()) as resource:
        x = x + 1
    return x, resource.closed


@example("ExitStack")
def exit_stack(x):
    log = []
    with contextlib.ExitStack() as stack:
        factors = [stack.enter_context(scaled(k, log)) for k in range(1, 4)]
        stack.callback(log.append, "callback")
        x = x * sum(factors)
    return x, log


@example("ExitStack")
def exit_stack_of_grad_modes(x):
    w = x.clone().requires_grad_()
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        y = w * 2
    return y + w


@example("grad modes", X.clone().requires_grad_())
def no_grad_block(x):
    with torch.no_grad():
        scale = x.abs().max()
    return x / scale


@example("grad modes", X.clone().requires_grad_())
def enable_grad_inside_no_grad(x):
    with torch.no_grad():
        a = x + 1
        with torch.enable_grad():
            b = x * 2
    return a.requires_grad, b


@torch.no_grad()
def detached_norm(x):
    return x.norm()


@example("grad modes", X.clone().requires_grad_())
def no_grad_decorator(x):
    return x / detached_norm(x)


@example("grad modes", X.clone().requires_grad_())
def set_grad_enabled(x):
    with torch.set_grad_enabled(x.shape[0] > 10):
        y = x + 1
    return y, torch.is_grad_enabled()


@example("grad modes")
def inference_mode(x):
    with torch.inference_mode():
        return x + 1


@example("autocast")
def autocast_block(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ x.T
    return y, y.dtype


@example("autocast")
def autocast_disabled_inside(x):
    with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
        with torch.autocast(device_type="cpu", enabled=False):
            return x @ x.T, torch.is_autocast_enabled("cpu")


@example("set_default_dtype")
def set_default_dtype(x):
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        y = torch.zeros(3)
    finally:
        torch.set_default_dtype(before)
    return x + y


@example("set_default_dtype")
def default_device_block(x):
    with torch.device("cpu"):
        return x + torch.ones(3)


@example("SDPA backends", X4)
def sdpa_math_only(q):
    with sdpa_kernel(SDPBackend.MATH):
        return F.scaled_dot_product_attention(q, q, q, is_causal=True)


@example("SDPA backends", X4)
def sdpa_several_backends(q):
    with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]):
        return F.scaled_dot_product_attention(q, q * 2, q)
