"""AutoDebias: weights and imputed labels that are learned from a small random set while the model is trained.

    L(theta, phi) = mean over logged pairs of w1 d(x, y) + mean over all pairs of w2 d(x, m)
                                                                                      [Chen et al. 2021] eq. 13
    w1 = exp((a_u + b_i + c_y) / 5),   w2 = exp((a'_u + b'_i + c'_o) / 5),   m = s(e_yo)      eqs 14 to 16
    theta'(phi) = theta - eta grad_theta L(theta, phi)                                the assumed step
    phi  <-  phi - mu grad_phi (mean over the random set of d(x(theta'), y) + decay / 2 |phi - start|^2)
                                                                    by Adam, before each step of theta

d is the cross-entropy, o says whether the pair is logged, y is its label; "all pairs" are drawn uniformly (sampler
all_pairs). phi starts at w1 = 1, w2 = exp(-2), m = 1/8: close to the unweighted loss, with a small weight for the label
"dislike" on all pairs. w1, w2 and m have a learning rate and a decay each, and a divisor of 5 in the exponents, as in
the authors' code, which also stops on random pairs: a share of the random set, by hash, teaches nothing, and the AUC of
these pairs is the held-out metric (stop_on: random_auc).
"""

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from models.adam import Adam
from models.batch import Batch
from models.doubly_robust import cross_entropy
from models.logged import Logged
from models.processes import Processes
from models.spec.losses import AutoDebias

SCALE = 5.0  # divides exponents, so that weights change slowly
PLAIN_WEIGHT, PLAIN_LABEL = -2.0 * SCALE, -2.0  # of all pairs at the start: exp(-2) and sigmoid(-2)
NOT_LOGGED, DISLIKED = 0, 1  # 2 is liked


class _Part(NamedTuple):
    """Some of the weights, which are learned at a rate of their own."""

    optimizer: Adam
    starts: list[float]  # of the values of each parameter
    decay: float

    @torch.no_grad()
    def step(self, gradients: list[Tensor]) -> None:
        """One step of Adam, with the penalty."""
        if self.decay:
            for gradient, weight, start in zip(gradients, self.optimizer.parameters, self.starts, strict=True):
                gradient.add_(weight - start, alpha=self.decay)
        self.optimizer.step(gradients)


class AutoDebiasLoss(nn.Module):
    """The weighted loss, and the update of its weights."""

    keys: Tensor
    liked: Tensor
    random_users: Tensor
    random_items: Tensor
    random_labels: Tensor

    def __init__(self, loss: AutoDebias, logged: Logged, random: Logged, rows: int) -> None:
        super().__init__()
        self.spec, self.rows, self.n_items = loss, rows, logged.n_items
        self.user1, self.user2 = (nn.Parameter(torch.zeros(logged.n_users)) for _ in range(2))  # a, a'
        self.item1, self.item2 = (nn.Parameter(torch.zeros(logged.n_items)) for _ in range(2))  # b, b'
        self.by_label = nn.Parameter(torch.zeros(2))  # c
        self.by_logged = nn.Parameter(torch.full((2,), PLAIN_WEIGHT))  # c'
        self.label = nn.Parameter(torch.full((3,), PLAIN_LABEL))  # e
        keys = torch.from_numpy(logged.users * logged.n_items + logged.items)  # sorted
        self.register_buffer("keys", keys, persistent=False)
        self.register_buffer("liked", torch.from_numpy(logged.positive.astype(np.int64)), persistent=False)
        self.register_buffer("random_users", torch.from_numpy(random.users), persistent=False)
        self.register_buffer("random_items", torch.from_numpy(random.items), persistent=False)
        self.register_buffer("random_labels", torch.from_numpy(random.positive.astype(np.float32)), persistent=False)

    @cached_property
    def parts(self) -> "list[_Part]":
        """The three parts, made when they are first used: by then the weights are on the device that trains."""
        spec = self.spec
        return [
            _Part(Adam(weights, rate), starts, decay)
            for weights, starts, rate, decay in (
                ([self.user1, self.item1, self.by_label], [0.0] * 3, spec.logged_learning_rate, spec.logged_decay),
                (
                    [self.user2, self.item2, self.by_logged],
                    [0.0, 0.0, PLAIN_WEIGHT],
                    spec.all_learning_rate,
                    spec.all_decay,
                ),
                ([self.label], [PLAIN_LABEL], spec.label_learning_rate, spec.label_decay),
            )
        ]

    def forward(self, numbers: Tensor, batch: Batch) -> Tensor:
        users, items, labels = batch.users, batch.items, batch.labels[:, 0]
        w1 = torch.exp((self.user1[users] + self.item1[items[:, 0]] + self.by_label[labels.long()]) / SCALE)
        state = self._state(users, items[:, 1:])
        w2 = torch.exp(
            (self.user2[users, None] + self.item2[items[:, 1:]] + self.by_logged[(state > NOT_LOGGED).long()]) / SCALE
        )
        return w1 * cross_entropy(numbers[:, 0], labels) + (
            w2 * cross_entropy(numbers[:, 1:], self.label[state].sigmoid())
        ).mean(1)

    def learn(self, backbone: nn.Module, batch: Batch, generator: torch.Generator, processes: Processes) -> None:
        """Updates the weights by the gradient of the random set's loss after the assumed step of the backbone."""
        parameters = dict(backbone.named_parameters())
        loss = self(backbone(batch.users, batch.items), batch).mean()
        slopes = torch.autograd.grad(
            loss, list(parameters.values()), create_graph=True, allow_unused=True, materialize_grads=True
        )
        eta = self.spec.assumed_learning_rate
        assumed = {
            name: value.detach() - eta * slope for (name, value), slope in zip(parameters.items(), slopes, strict=True)
        }
        drawn = torch.randint(
            len(self.random_users), (min(self.rows, len(self.random_users)),), generator=generator
        ).to(self.random_users.device)
        numbers = functional_call(backbone, assumed, (self.random_users[drawn], self.random_items[drawn, None]))
        error = cross_entropy(numbers[:, 0], self.random_labels[drawn]).mean() / processes.size
        weights = [weight for part in self.parts for weight in part.optimizer.parameters]
        gradients = torch.autograd.grad(error, weights, allow_unused=True, materialize_grads=True)
        summed = processes.added(list(gradients))
        for part in self.parts:
            part.step([summed.pop(0) for _ in part.starts])

    def _state(self, users: Tensor, items: Tensor) -> Tensor:
        """NOT_LOGGED, DISLIKED or liked, of pairs (n, k)."""
        keys = users[:, None] * self.n_items + items
        at = torch.searchsorted(self.keys, keys).clamp_(max=len(self.keys) - 1)
        return torch.where(self.keys[at] == keys, DISLIKED + self.liked[at], NOT_LOGGED)

    def get_extra_state(self) -> dict[str, Any]:
        """Adam's moments, for a checkpoint."""
        return {"parts": [part.optimizer.state() for part in self.parts]}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Restores the state of a checkpoint."""
        for part, saved in zip(self.parts, state["parts"], strict=True):
            part.optimizer.load(saved)
