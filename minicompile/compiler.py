"""compile(): the driver.  Its lines are the stages.

Goes in: a function or nn.Module.  Comes out: one that runs compiled, frame by frame: capture (dynamo) -> forward and
backward (aot) -> kernels (inductor) -> the cache of compiled frames.
Mirrors `torch/__init__.py` (compile) and `OptimizedModule`.  Taught in chapter 00.
"""

import functools

import torch

from . import backends, config, distributed, record
from .dynamo import eval_frame
from .dynamo.guard_checks import has_no_hooks
from .dynamo.skip_files import never_capture


def compile(model=None, *, fullgraph=False, dynamic=None, backend="inductor", mode=None, options=None, disable=False):
    """torch.compile's signature and behaviour.  Works as `compile(f)`, `@compile` and `@compile(fullgraph=True)`.

    model: a callable or nn.Module (then an OptimizedModule comes back).  fullgraph: raise `Unsupported` at a break.
    dynamic: True, False or None (automatic).  backend: a name of `list_backends()` or a callable.  mode: one of
    `backends.MODES`.  options: values of `minicompile.config` that hold while this function's graphs are compiled;
    exclusive of mode.  disable: return `model` as it is.
    Raises InvalidBackend for an unknown backend or mode, ValueError for mode with options, AttributeError for an option
    that does not exist, TypeError for no callable.
    """
    if model is None:
        return functools.partial(
            compile, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode, options=options, disable=disable
        )
    if not callable(model):
        raise TypeError(f"compile() takes a callable or an nn.Module, not {type(model).__name__}")
    compile_options = options_for(fullgraph, dynamic, backend, mode, options)
    return model if disable else with_hook(model, compile_options)


def options_for(fullgraph=False, dynamic=None, backend="inductor", mode=None, options=None):
    """The CompileOptions that these arguments of `compile` mean."""
    if mode is not None and options is not None:
        raise ValueError("give either mode or options, not both")
    options = options or backends.options_of(mode)
    backend = backend or "inductor"  # torch.compile takes None so
    chosen = distributed.BucketBackend(backends.lookup_backend(backend))
    with config.patch(**options):
        pass  # raises for an option that does not exist
    name = backend if isinstance(backend, str) else getattr(backend, "__name__", type(backend).__name__)
    return eval_frame.CompileOptions(chosen, name, fullgraph, dynamic, tuple(sorted(options.items())))


def with_hook(model, compile_options):
    """A function that runs compiled, or an OptimizedModule."""
    wrap = OptimizedModule if isinstance(model, torch.nn.Module) else optimize_function
    return wrap(model, compile_options)


def optimize_function(function, compile_options):
    """`function` with the frame hook on while it runs."""
    callback, target = eval_frame.callback_for(compile_options), in_a_frame(function)

    def compiled(*args, **kwargs):
        return eval_frame.call_with_hook(None if eval_frame.forced_to_eager() else callback, target, *args, **kwargs)

    if not hasattr(function, "__name__"):  # a callable object
        function = function.__call__
    functools.update_wrapper(compiled, function)
    compiled._torchdynamo_orig_callable = function
    return compiled


def in_a_frame(function):
    """What has a frame that can be captured: the function itself, its `__call__`, or (a builtin) one that calls it."""
    target = function if isinstance(function, type) or hasattr(function, "__code__") else function.__call__
    code = getattr(target, "__code__", None)
    if code is not None and not never_capture(code):
        return target

    def call(*args, **kwargs):
        return function(*args, **kwargs)

    # compiled graphs hang on code objects: each function needs one of its own
    name = getattr(function, "__name__", type(function).__name__)
    call.__code__ = call.__code__.replace(co_name=name, co_qualname=name)
    return call


class OptimizedModule(torch.nn.Module):
    """An nn.Module whose call runs compiled; everything else is the original module's, at `_orig_mod`.

    Parameters and buffers are shared with the original; state-dict keys carry the prefix `_orig_mod.`, as with
    torch.compile.
    """

    def __init__(self, module, compile_options):
        super().__init__()
        self._orig_mod = module
        self._compile_options = compile_options
        self.training = module.training

    def __call__(self, *args, **kwargs):
        """Hooks of this wrapper run around the compiled call; global hooks belong to the original's own call."""
        return self.forward(*args, **kwargs) if has_no_hooks(self) else super().__call__(*args, **kwargs)

    def forward(self, *args, **kwargs):
        """The original module's call, compiled; its hooks run inside."""
        module = self._modules["_orig_mod"]  # a tenth of the time that the attribute takes
        callback = None if eval_frame.forced_to_eager() else eval_frame.callback_for(self._compile_options)
        if has_no_hooks(module):
            return eval_frame.call_with_hook(callback, module, *args, **kwargs)
        return eval_frame.call_with_hook(callback, call_module, module, *args, **kwargs)

    def __len__(self):
        return len(self._orig_mod)

    def __bool__(self):
        return bool(self._orig_mod)

    def train(self, mode=True):
        self._orig_mod.train(mode)
        self.training = mode
        return self

    def __getattr__(self, name):
        if name == "_orig_mod":
            return self._modules["_orig_mod"]
        return getattr(self._orig_mod, name)

    def __setattr__(self, name, value):
        own = name in ("_orig_mod", "_compile_options", *self.__dict__) or hasattr(type(self), name)  # as `__class__`
        if own or "_modules" not in self.__dict__:
            super().__setattr__(name, value)
        elif "_orig_mod" in self.__dict__["_modules"]:
            setattr(self._orig_mod, name, value)
        else:
            super().__setattr__(name, value)

    def __delattr__(self, name):
        if name in self.__dict__:
            super().__delattr__(name)
        else:
            delattr(self._orig_mod, name)

    def __reduce__(self):
        return OptimizedModule, (self._orig_mod, self._compile_options)

    def __deepcopy__(self, memo):
        import copy

        return OptimizedModule(copy.deepcopy(self._orig_mod, memo), self._compile_options)

    def __dir__(self):
        return sorted({*super().__dir__(), *dir(self._orig_mod)})


def call_module(module, /, *args, **kwargs):
    """A frame to capture: nn.Module's own, which calls the hooks, is none."""
    return module(*args, **kwargs)


def reset():
    """Forget every compiled frame, every record and every count.  The cache on disk stays."""
    eval_frame.reset()
    record.reset()
