"""Examples: hooks of all kinds, parametrizations, state read in forward."""

import torch
from corpus import X, example
from corpus_modules import MLP, seeded
from torch import nn
from torch.nn.utils import parametrizations, parametrize


# --- hooks ----------------------------------------------------------------------------------------------
@example("hooks of all kinds", make=True)
def forward_hook():
    module, seen = seeded(MLP), []
    module.net[0].register_forward_hook(lambda m, args, output: output * 2)
    module.net[2].register_forward_hook(lambda m, args, output: seen.append(output.shape))
    return module, seen


@example("hooks of all kinds", make=True)
def forward_pre_hook():
    module = seeded(MLP)
    module.net[0].register_forward_pre_hook(lambda m, args: (args[0] + 1,))
    module.net.register_forward_pre_hook(lambda m, args, kwargs: (args, kwargs), with_kwargs=True)
    return module


@example("hooks of all kinds", make=True)
def hook_on_the_root_module():
    module, seen = seeded(MLP), []
    module.register_forward_hook(lambda m, args, kwargs, output: (seen.append(1), output + 1)[1], with_kwargs=True)
    return module, seen


@example("hooks of all kinds", make=True)
def full_backward_hook():
    module, seen = seeded(MLP), []
    module.net[2].register_full_backward_hook(lambda m, gi, go: seen.append(len(gi)))
    return module, seen


@example("hooks of all kinds", X.clone().requires_grad_(), make=True)
def tensor_hook():
    def forward(x):
        y = x * 2
        y.register_hook(lambda grad: grad * 3)
        return y + 1

    return forward


@example("hooks of all kinds", make=True)
def hook_added_and_removed():
    module = seeded(MLP)

    def forward(x):
        handle = module.net[0].register_forward_hook(lambda m, a, o: o + 1)
        y = module(x)
        handle.remove()
        return y - module(x)

    return forward


@example("hooks of all kinds", make=True)
def hook_that_collects_features():
    features = {}
    module = seeded(MLP)
    for name, child in module.named_modules():
        child.register_forward_hook(lambda m, a, output, name=name: features.__setitem__(name, output))

    def forward(x):
        module(x)
        return features["net.0"] + features["net.1"]

    return forward


# --- parametrizations -----------------------------------------------------------------------------------
class Symmetric(nn.Module):
    def forward(self, weight):
        return weight.triu() + weight.triu(1).T


@example("parametrizations", make=True)
def parametrize_symmetric():
    linear = seeded(lambda: nn.Linear(3, 3))
    parametrize.register_parametrization(linear, "weight", Symmetric())
    return linear


@example("parametrizations", make=True)
def weight_norm():
    return parametrizations.weight_norm(seeded(lambda: nn.Linear(3, 4)))


@example("parametrizations", make=True)
def spectral_norm_eval():
    return parametrizations.spectral_norm(seeded(lambda: nn.Linear(3, 4))).eval()


@example("parametrizations", make=True)
def spectral_norm_train():
    return parametrizations.spectral_norm(seeded(lambda: nn.Linear(3, 4)))


# --- state ----------------------------------------------------------------------------------------------
@example("state_dict reads", make=True)
def state_dict_in_forward():
    module = seeded(MLP)

    def forward(x):
        weights = module.state_dict()
        return module(x) + weights["net.2.bias"], sorted(weights)

    return forward


@example("state_dict reads", make=True)
def named_parameters_in_forward():
    module = seeded(MLP)

    def forward(x):
        penalty = sum(p.pow(2).sum() for name, p in module.named_parameters() if "weight" in name)
        return module(x), penalty, sum(p.numel() for p in module.parameters())

    return forward


@example("state_dict reads", make=True)
def train_and_eval_in_forward():
    module = seeded(lambda: nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5)))

    def forward(x):
        module.eval()
        y = module(x)
        module.train()
        return y, module.training

    return forward


@example("state_dict reads", make=True)
def requires_grad_toggled():
    module = seeded(MLP)

    def forward(x):
        for p in module.net[0].parameters():
            p.requires_grad_(False)
        return module(x)

    return forward


@example("modules made in forward")
def module_made_in_forward(x):
    torch.manual_seed(0)
    layer = nn.Linear(3, 2)
    return layer(x)


@example("modules made in forward")
def layer_norm_made_in_forward(x):
    return nn.LayerNorm(x.shape[-1])(x) + nn.Identity()(x)


@example("modules made in forward")
def stateless_modules_made_in_forward(x):
    return nn.Sequential(nn.ReLU(), nn.Softmax(dim=-1))(x)


class UserModuleMade(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor
        self.inner = nn.GELU()

    def forward(self, x):
        return self.inner(x) * self.factor


@example("modules made in forward", X, 2)
def user_module_made_in_forward(x, factor):
    return UserModuleMade(factor)(x)
