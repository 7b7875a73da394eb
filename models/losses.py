"""Losses: a backbone and a batch in, one weighted loss per example out; the training loop takes the mean.

L = (1/n) sum_(u,i) w_i [ -y log s(x) - (1 - y) log(1 - s(x)) ],  x the logit, s the sigmoid

bce      w = 1
ips_bce  w_i = c / p_i for a logged pair, c such that the mean over logged pairs is 1; w = 1 for a drawn negative, which no log selected
         [Schnabel et al. 2016] eq. 10 with the squared error replaced
"""

from typing import Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from models import spec
from models.propensity import inverse_weights, item_propensity
from models.samplers import Logged, Pairs


class Backbone(Protocol):
    """Anything that gives the logit of a pair."""

    def __call__(self, users: Tensor, items: Tensor) -> Tensor: ...


class Loss(Protocol):
    """One loss per example of a batch, weights included, shape (n,)."""

    def __call__(self, backbone: Backbone, batch: Pairs) -> Tensor: ...


class WeightedBce:
    """Binary cross-entropy with a weight per item for logged pairs."""

    def __init__(self, item_weights: Tensor) -> None:
        self.item_weights = item_weights  # (n_items,)

    def __call__(self, backbone: Backbone, batch: Pairs) -> Tensor:
        weights = torch.where(batch.logged, self.item_weights[batch.items], 1.0)
        return binary_cross_entropy_with_logits(backbone(batch.users, batch.items), batch.labels, weight=weights, reduction="none")


def make_loss(loss: spec.Loss, logged: Logged, device: torch.device) -> Loss:
    """The loss a config names, with the weights that the logged pairs give it."""
    match loss:
        case spec.Bce():
            weights = np.ones(logged.n_items)
        case spec.IpsBce():
            counts = logged.item_counts()
            weights = inverse_weights(item_propensity(counts, loss.propensity), counts)
    return WeightedBce(torch.from_numpy(weights.astype(np.float32)).to(device))
