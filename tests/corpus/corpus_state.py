"""Examples: what a tensor keeps beside its elements, devices, and the state of torch."""

import collections
import threading

import torch
from corpus import X, Y, example
from corpus_modules import MLP, seeded


# --- versions, memory, constructors ---------------------------------------------------------------------
@example("in-place methods")
def version_read(x):
    before = x._version
    x.add_(1)
    return x * (x._version - before)


@example("in-place methods", X, Y)
def data_assigned(x, y):
    x.data = y * 2
    return x + 1, x.shape


@example("in-place methods")
def data_assigned_inside(x):
    y = x * 2
    y.data = x + 1
    return y


@example("out=")
def legacy_constructors(x):
    lists = torch.FloatTensor([1, 2, 3]), torch.LongTensor([1, 2, 3]), torch.Tensor([1, 2, 3])
    return x + torch.FloatTensor(4, 3).zero_() + sum(lists)


# --- devices and generators -----------------------------------------------------------------------------
@example("dtype/device objects")
def default_device(x):
    torch.set_default_device("cpu")
    y = x + torch.ones(3)
    torch.set_default_device(None)
    return y, torch.get_default_device()


@example("dtype/device objects")
def device_block(x):
    with torch.device("meta"):
        shape = torch.ones(3, 4).sum(0)
    return x + torch.ones(3), shape.device, shape.shape


LOCAL = threading.local()


@example("objects that hold tensors")
def thread_local(x):
    LOCAL.count = getattr(LOCAL, "count", 0) + 1
    return x + hasattr(LOCAL, "count")


# --- training inside ------------------------------------------------------------------------------------
@example("torch.func")
def linearize(x):
    out, push = torch.func.linearize(torch.sin, x)
    return out + push(torch.ones_like(x))


@example("optimizers' step compiled", make=True)
def backward_of_a_closed_over_weight():
    weight = torch.ones(3, requires_grad=True)

    def step(x):
        weight.grad = None
        loss = (x * weight).sum()
        loss.backward()
        return loss.detach() * 2, weight.grad

    return step


@example("optimizers' step compiled", make=True)
def clip_grad_norm_of_gradients():
    net = seeded(MLP)
    for parameter in net.parameters():
        parameter.grad = torch.ones_like(parameter)
    return lambda x: torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0) + x


@example("optimizers' step compiled", make=True)
def backward_hooks_and_optimizer():
    net = seeded(MLP)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    net.net[0].register_full_backward_hook(lambda module, grad_input, grad_output: None)

    def step(x):
        optimizer.zero_grad()
        net(x).sum().backward()
        optimizer.step()
        return net(x)

    return step


# --- classes --------------------------------------------------------------------------------------------
class Registry(collections.defaultdict):
    def __init__(self):
        super().__init__(list)

    def register(self, key, value):
        self[key].append(value)
        return value


@example("subclasses of builtins")
def defaultdict_subclass(x):
    registry = Registry()
    registry.register("a", x)
    registry.register("a", x + 1)
    return registry["a"][1] * len(registry["a"]), len(registry["b"])


@example("classes defined inside functions", also=[(Y,), (X,)])
def class_inside_called_often(x):
    class Layer:
        scale = 2

        def run(self, t):
            return t * self.scale

    return Layer().run(x)
