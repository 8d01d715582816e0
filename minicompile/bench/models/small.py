"""Models of small operators, where the cost of a call rules: recommendation, control, and a graph network.

Goes in: numbers of each kind of data (categories, observations, edges).  Comes out: scores, actions, classes.
In the manner of DLRM (Naumov et al., 2019), soft actor-critic (Haarnoja et al., 2018) and message passing (Gilmer et
al., 2017).  On a GPU a step of any of them is mostly launches.
"""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from .registry import Batch, Entry, classify, sizes


def mlp(*widths, activation=nn.ReLU):
    """Linear layers with an activation between them, none behind the last."""
    layers = []
    for before, behind in zip(widths, widths[1:], strict=False):
        layers += [nn.Linear(before, behind), activation()]
    return nn.Sequential(*layers[:-1])


class DLRM(nn.Module):
    """Numbers through an MLP, categories through tables; all pairs of vectors meet in a dot product."""

    def __init__(self, o):
        super().__init__()
        self.bottom = mlp(o.numbers, o.width, o.vector)
        self.tables = nn.ModuleList(nn.EmbeddingBag(o.rows, o.vector, mode="sum") for _ in range(o.tables))
        pairs = torch.tril_indices(o.tables + 1, o.tables + 1, -1)
        self.register_buffer("pairs", pairs, persistent=False)
        self.top = mlp(o.vector + pairs.shape[1], o.width, o.width, 1)

    def forward(self, numbers, categories):  # (B, numbers), (B, tables, bag)
        dense = self.bottom(numbers)
        vectors = torch.stack([dense, *(t(categories[:, k]) for k, t in enumerate(self.tables))], dim=1)
        products = vectors @ vectors.transpose(1, 2)  # (B, tables + 1, tables + 1)
        met = products[:, self.pairs[0], self.pairs[1]]
        return self.top(torch.cat([dense, met], dim=1)).squeeze(1)


def clicks(o):
    categories = torch.randint(o.rows, (o.batch, o.tables, o.bag))
    return Batch((torch.randn(o.batch, o.numbers), categories), target=torch.randint(2, (o.batch,)).float())


def click_loss(output, target):
    return F.binary_cross_entropy_with_logits(output, target.to(output.dtype))


class ActorCritic(nn.Module):
    """A squashed Gaussian policy, and two critics that judge its action; the smaller judgement counts."""

    def __init__(self, o):
        super().__init__()
        self.actor = mlp(o.observed, o.width, o.width, 2 * o.actions)
        self.critics = nn.ModuleList(mlp(o.observed + o.actions, o.width, o.width, 1) for _ in range(2))

    def forward(self, observed):  # (B, observed) -> (action (B, actions), its log-probability (B), its value (B))
        mean, scale = self.actor(observed).chunk(2, dim=-1)
        scale = scale.clamp(-20, 2)
        noise = torch.randn_like(mean)
        raw = mean + noise * scale.exp()
        action = torch.tanh(raw)
        density = -0.5 * noise.pow(2) - scale - 0.5 * math.log(2 * math.pi)
        squashed = 2 * (math.log(2) - raw - F.softplus(-2 * raw))  # log of the derivative of tanh
        log_probability = (density - squashed).sum(-1)
        judged = torch.cat([observed, action], dim=-1)
        value = torch.minimum(*(critic(judged).squeeze(-1) for critic in self.critics))
        return action, log_probability, value


def observations(o):
    return Batch((torch.randn(o.batch, o.observed),), target=torch.randn(o.batch))


def soft_value(output, target):
    """Of an action that is liked and not too certain, and of how far the value is from what was earned."""
    _, log_probability, value = output
    return (0.2 * log_probability - value).mean() + F.mse_loss(value, target.to(value.dtype))


class GraphNetwork(nn.Module):
    """Messages along edges, added up where they arrive."""

    def __init__(self, o):
        super().__init__()
        self.embed, self.head = nn.Linear(o.features, o.width), nn.Linear(o.width, o.classes)
        self.message = nn.ModuleList(nn.Linear(2 * o.width, o.width) for _ in range(o.layers))
        self.update = nn.ModuleList(nn.Linear(2 * o.width, o.width) for _ in range(o.layers))

    def forward(self, x, edges):  # (nodes, features), (2, edges) -> (nodes, classes)
        start, end = edges
        x = torch.relu(self.embed(x))
        degree = x.new_zeros(x.size(0)).index_add(0, end, x.new_ones(end.size(0))).clamp_min(1)
        for message, update in zip(self.message, self.update, strict=True):
            sent = torch.relu(message(torch.cat([x[start], x[end]], dim=1)))
            arrived = torch.zeros_like(x).index_add(0, end, sent) / degree.unsqueeze(1)
            x = x + torch.relu(update(torch.cat([x, arrived], dim=1)))
        return self.head(x)


def random_graph(o):
    edges = torch.randint(o.nodes, (2, o.edges))
    return Batch((torch.randn(o.nodes, o.features), edges), target=torch.randint(o.classes, (o.nodes,)))


CLICKS = {"batch": (8, 128, 2048), "numbers": 13, "tables": (3, 8, 26), "bag": 2, "rows": (50, 1000, 100_000)}
STATES = {"batch": (8, 64, 256), "observed": 17, "actions": 6, "width": (16, 128, 256)}
GRAPHS = {"nodes": (20, 1000, 20_000), "edges": (60, 8000, 200_000), "features": 16, "classes": 7}

ENTRIES = [
    Entry("dlrm", DLRM, clicks, click_loss, sizes(**CLICKS, vector=16, width=64)),
    Entry("actor_critic", ActorCritic, observations, soft_value, sizes(**STATES)),
    Entry("gnn", GraphNetwork, random_graph, classify, sizes(**GRAPHS, width=(8, 64, 128), layers=3)),
]
