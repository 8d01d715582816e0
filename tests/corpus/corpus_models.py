"""Examples: the library code of timm, transformers, diffusers and torchvision: registries, hooks, outputs, configs."""

import collections
import dataclasses
import functools
import inspect
import itertools
import logging
import typing
import warnings

import torch
import torch.nn.functional as F
from corpus import X, Y, example
from torch import nn
from torch.utils.checkpoint import checkpoint
from transformers.utils import ModelOutput

logger = logging.getLogger(__name__)

_REG = {}


def register_model(fn):
    name = fn.__name__
    _REG[name] = fn

    @functools.wraps(fn)
    def wrapper(*a, **k):
        return fn(*a, **k)

    wrapper.default_cfg = {"scale": 2.0}
    return wrapper


@register_model
def tiny(x, *, scale=None):
    return x * (scale or tiny.default_cfg["scale"])


@example("timm")
def registry(x):
    return _REG["tiny"](x, scale=3) + tiny(x) + len(tiny.__wrapped__.__name__)


def _ntuple(n):

    def parse(x):
        if isinstance(x, collections.abc.Iterable) and (not isinstance(x, str)):
            return tuple(x)
        return tuple(itertools.repeat(x, n))

    return parse


to_2tuple = _ntuple(2)


@example("timm")
def ntuples(x):
    return (F.avg_pool2d(x[None, None], to_2tuple(2)), F.pad(x, to_2tuple([1, 1])))


class DropPath(nn.Module):
    def __init__(self, p=0.5, scale_by_keep=True):
        super().__init__()
        self.p = p
        self.scale_by_keep = scale_by_keep

    def forward(self, x):
        if self.p == 0.0 or not self.training:
            return x
        keep = 1 - self.p
        shape = (x.shape[0],) + (1,) * (x.ndim - 1)
        r = x.new_empty(shape).bernoulli_(keep)
        if keep > 0.0 and self.scale_by_keep:
            r.div_(keep)
        return x * r

    def extra_repr(self):
        return f"drop_prob={round(self.p, 3):0.3f}"


example("timm", make=True)(DropPath)


def checkpoint_seq(functions, x, every=1, flatten=False, skip_last=False, preserve_rng_state=True):

    def run_function(start, end, functions):

        def forward(_x):
            for j in range(start, end + 1):
                _x = functions[j](_x)
            return _x

        return forward

    if isinstance(functions, nn.Sequential):
        functions = functions.children()
    if flatten:
        functions = itertools.chain.from_iterable(functions)
    if not isinstance(functions, (tuple, list)):
        functions = tuple(functions)
    num_checkpointed = len(functions)
    if skip_last:
        num_checkpointed -= 1
    end = -1
    for start in range(0, num_checkpointed, every):
        end = min(start + every - 1, num_checkpointed - 1)
        x = checkpoint(
            run_function(start, end, functions), x, preserve_rng_state=preserve_rng_state, use_reentrant=False
        )
    if skip_last:
        return run_function(end + 1, len(functions) - 1, functions)(x)
    return x


def timm_checkpoint():
    seq = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3))

    def f(x):
        return checkpoint_seq(seq, x, every=2, skip_last=True)

    return (f, seq)


example("checkpoint", make=True)(timm_checkpoint)


def feature_hooks():
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))

    class Extract(nn.Module):
        def __init__(self, body, wanted):
            super().__init__()
            self.body = body
            self._out = collections.OrderedDict()
            self.wanted = wanted
            for name, m in body.named_modules():
                if name in wanted:
                    m.register_forward_hook(functools.partial(self._collect, name))

        def _collect(self, name, module, inp, out):
            self._out[name] = out

        def forward(self, x):
            self._out.clear()
            y = self.body(x)
            return (y, dict(self._out))

    return Extract(net, {"0", "1"})


example("hooks", make=True)(feature_hooks)


class LayerGetter(nn.ModuleDict):
    def __init__(self, model, return_layers):
        layers = collections.OrderedDict()
        rl = {str(k): str(v) for k, v in return_layers.items()}
        for name, m in model.named_children():
            layers[name] = m
            if name in rl:
                del rl[name]
            if not rl:
                break
        super().__init__(layers)
        self.return_layers = return_layers

    def forward(self, x):
        out = collections.OrderedDict()
        for name, m in self.items():
            x = m(x)
            if name in self.return_layers:
                out[self.return_layers[name]] = x
        return out


def layer_getter():
    return LayerGetter(
        nn.Sequential(collections.OrderedDict(a=nn.Linear(3, 3), b=nn.ReLU(), c=nn.Linear(3, 2))),
        {"a": "f0", "b": "f1"},
    )


example("torchvision", make=True)(layer_getter)


@dataclasses.dataclass
class Out(ModelOutput):
    loss: typing.Optional[torch.FloatTensor] = None
    logits: torch.FloatTensor = None
    hidden_states: typing.Optional[tuple] = None


class FrozenDict(collections.OrderedDict):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        for key, value in self.items():
            setattr(self, key, value)
        self.__frozen = True

    def __delitem__(self, *args, **kwargs):
        raise Exception("no")

    def setdefault(self, *args, **kwargs):
        raise Exception("no")

    def __setattr__(self, name, value):
        if hasattr(self, "__frozen") and self.__frozen:
            raise Exception("no")
        super().__setattr__(name, value)

    def __setitem__(self, name, value):
        if hasattr(self, "__frozen") and self.__frozen:
            raise Exception("no")
        super().__setitem__(name, value)


def frozen_config():

    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self._internal_dict = FrozenDict(dict(scale=2.0, act="silu", dims=(1, 2)))
            self.l = nn.Linear(3, 3)

        @property
        def config(self):
            return self._internal_dict

        def __getattr__(self, name):
            is_in_config = "_internal_dict" in self.__dict__ and hasattr(self.__dict__["_internal_dict"], name)
            is_attribute = name in self.__dict__
            if is_in_config and (not is_attribute):
                return self._internal_dict[name]
            return super().__getattr__(name)

        def forward(self, x):
            return getattr(F, self.config.act)(self.l(x)) * self.config["scale"] * self.scale + sum(self.config.dims)

    return M()


example("diffusers", make=True)(frozen_config)


class Processor:
    def __call__(self, attn, x, mask=None, **kw):
        return attn.q(x) * attn.scale


class Attn(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = nn.Linear(3, 3)
        self.scale = 0.5
        self.set_processor(Processor())

    def set_processor(self, p):
        self.processor = p

    def forward(self, x, **cross_attention_kwargs):
        attn_parameters = set(inspect.signature(self.processor.__call__).parameters.keys())
        quiet = {"ip_adapter_masks", "temb"}
        unused = [k for k, _ in cross_attention_kwargs.items() if k not in attn_parameters and k not in quiet]
        if len(unused) > 0:
            logger.warning(f"cross_attention_kwargs {unused} are not expected by {self.processor.__class__.__name__}")
        cross_attention_kwargs = {k: w for k, w in cross_attention_kwargs.items() if k in attn_parameters}
        return self.processor(self, x, **cross_attention_kwargs)


def diffusers_attention():
    return Attn()


example("diffusers", make=True)(diffusers_attention)


def attn_processors():
    net = nn.ModuleDict({"a": Attn(), "b": nn.Sequential(Attn(), nn.ReLU())})

    def f(x):
        procs = {}

        def rec(name, module, procs):
            if hasattr(module, "get_processor") or hasattr(module, "processor"):
                procs[f"{name}.processor"] = module.processor
            for sub, child in module.named_children():
                rec(f"{name}.{sub}", child, procs)
            return procs

        for name, m in net.named_children():
            rec(name, m, procs)
        return (net["b"](net["a"](x)), sorted(procs))

    return f


example("diffusers", make=True)(attn_processors)


def deprecate_kwarg(old, version, new=None):

    def wrapper(func):
        sig = inspect.signature(func)
        is_instance_method = "self" in sig.parameters

        @functools.wraps(func)
        def wrapped(*args, **kwargs):
            func_name = func.__name__
            if is_instance_method:
                func_name = f"{args[0].__class__.__name__}.{func_name}"
            message = None
            if old in kwargs and new in kwargs:
                message = "both"
            elif old in kwargs and new is not None:
                message = "old"
                kwargs[new] = kwargs.pop(old)
            if message is not None and False:
                warnings.warn(message, FutureWarning, stacklevel=2)
            return func(*args, **kwargs)

        return wrapped

    return wrapper


@deprecate_kwarg("mask", "5", "attention_mask")
def attend(x, attention_mask=None):
    return x if attention_mask is None else x * attention_mask


@example("decorators", X, Y)
def deprecated_kwarg(x, y):
    return attend(x, mask=y) + attend(x, attention_mask=y) + attend(x)


def can_return_tuple(func):

    @functools.wraps(func)
    def wrapper(self, *args, **kwargs):
        return_dict = getattr(self, "use_return_dict", True)
        return_dict_passed = kwargs.pop("return_dict", return_dict)
        if return_dict_passed is not None:
            return_dict = return_dict_passed
        out = func(self, *args, **kwargs)
        if not return_dict and (not isinstance(out, tuple)):
            out = out.to_tuple()
        return out

    return wrapper


class WithTuple(nn.Module):
    @can_return_tuple
    def forward(self, x, **kw):
        return Out(logits=x, loss=x.sum())


def tuple_or_output():
    m = WithTuple()
    return lambda x: (m(x, return_dict=False), m(x).loss)


example("decorators", make=True)(tuple_or_output)


class GeneralInterface(collections.abc.MutableMapping):
    _global_mapping = {}

    def __init__(self):
        self._local_mapping = {}

    def __getitem__(self, key):
        if key in self._local_mapping:
            return self._local_mapping[key]
        return self._global_mapping[key]

    def __setitem__(self, key, value):
        self._local_mapping.update({key: value})

    def __delitem__(self, key):
        del self._local_mapping[key]

    def __iter__(self):
        return iter({**self._global_mapping, **self._local_mapping})

    def __len__(self):
        return len(self._global_mapping.keys() | self._local_mapping.keys())

    @classmethod
    def register(cls, key, value):
        cls._global_mapping.update({key: value})

    def valid_keys(self):
        return list(self.keys())


class AttentionInterface(GeneralInterface):
    _global_mapping = {"sdpa": F.scaled_dot_product_attention}


ALL = AttentionInterface()


def eager_attention(module, q, k, v, **kw):
    return q @ k.T @ v


@example("transformers")
def attention_interface(x):
    fn = eager_attention
    if "sdpa" != "eager":
        fn = ALL["sdpa"]
    return (fn(x[None], x[None], x[None]), ALL.valid_keys(), "flash" in ALL, len(ALL), ALL.get("none", 3))


class Meter:
    def __init__(self):
        self.reset()

    def reset(self):
        self.val = self.avg = self.sum = self.count = 0

    def update(self, val, n=1):
        self.val = val
        self.sum += val * n
        self.count += n
        self.avg = self.sum / self.count


def training_step():
    net = nn.Linear(3, 2)
    meter = Meter()

    class Module(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net
            self.logged = {}

        def log(self, name, value, **kw):
            self.logged[name] = value.detach()

        def training_step(self, batch, batch_idx):
            x, y = batch
            loss = F.cross_entropy(self.net(x), y)
            self.log("loss", loss, prog_bar=True)
            meter.update(loss.detach(), x.shape[0])
            return {"loss": loss, "log": self.logged}

    m = Module()
    return lambda x: (m.training_step((x, torch.zeros(4, dtype=torch.long)), 0), meter.avg)


example("lightning", make=True)(training_step)
