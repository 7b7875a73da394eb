"""Losses: from the model's numbers x of a batch to a loss per example; the training loop takes the mean.

    bce     -y log s(x) - (1 - y) log(1 - s(x)) of each pair, s the sigmoid
    mse     (x - y)^2, or (s(x) - y)^2 with link: sigmoid
    bpr     -log s(x_i - x_j) of the row's positive i and each negative j            [Rendle et al. 2009]
    hinge   max(0, 1 - (x_i - x_j))                                                  [Weimer, Karatzoglou, Smola 2008]
    pd      bpr of e(x) m^gamma, e(x) = elu(x) + 1,                                  [Zhang et al. 2021] eqs 6, 7
            m the number of positives of the item over that of the top item
    dr      models/doubly_robust.py

With `propensity` a logged pair has weight w = c / p, with c such that the mean over logged pairs is 1; a drawn pair
has weight 1, because the log did not select it; a comparison has the weight of its positive [Schnabel et al. 2016]
eq. 10. With `residual_correlation` each batch adds lambda |corr(l, n)|, where l are the losses of its rows and n the
numbers of logged pairs of their logged items [Boratto, Fenu, Marras 2021] eq. 7; it adds 0 if l or n is constant.
"""

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, elu, logsigmoid

from models.batch import Batch
from models.doubly_robust import DoublyRobustLoss
from models.logged import Logged
from models.propensity import Given, LoggedWeights
from models.spec import losses as spec

Weighted = spec.Bce | spec.Mse | spec.Bpr | spec.Hinge | spec.PopularityDeconfounding


class WeightedLoss(nn.Module):
    """A pointwise or pairwise loss, with weights per logged item and Boratto's penalty."""

    popularity: Tensor
    share: Tensor

    def __init__(self, loss: Weighted, logged: Logged, given: Given | None = None) -> None:
        super().__init__()
        self.spec = loss
        counts, positives = logged.item_counts(), logged.positives().item_counts()
        self.logged_weights = LoggedWeights(logged, loss.propensity, given)
        self.register_buffer("popularity", torch.from_numpy(counts.astype(np.float32)))  # (n_items,)
        share = (positives / max(positives.max(initial=0), 1)).astype(np.float32)  # (n_items,)
        self.register_buffer("share", torch.from_numpy(share))

    def forward(self, numbers: Tensor, batch: Batch) -> Tensor:
        each = self._each(numbers, batch)
        if self.spec.residual_correlation:
            each = (
                each
                + self.spec.residual_correlation * correlation(each.mean(1), self.popularity[batch.items[:, 0]]).abs()
            )
        return each

    def _each(self, numbers: Tensor, batch: Batch) -> Tensor:
        """The weighted losses of pairs (n, k) or of comparisons (n, k - 1)."""
        match self.spec:
            case spec.Bce():
                return binary_cross_entropy_with_logits(
                    numbers, batch.labels, weight=self._pair_weights(batch), reduction="none"
                )
            case spec.Mse():
                error = (numbers.sigmoid() if self.spec.link == "sigmoid" else numbers) - batch.labels
                return self._pair_weights(batch) * error * error
            case spec.Bpr():
                return -self._comparison_weights(batch) * logsigmoid(numbers[:, :1] - numbers[:, 1:])
            case spec.Hinge():
                return self._comparison_weights(batch) * (1 - (numbers[:, :1] - numbers[:, 1:])).clamp(min=0)
            case spec.PopularityDeconfounding():
                shown = (elu(numbers) + 1) * self.share[batch.items] ** self.spec.gamma
                return -self._comparison_weights(batch) * logsigmoid(shown[:, :1] - shown[:, 1:])

    def _pair_weights(self, batch: Batch) -> Tensor:
        """Weights of pairs, (n, k)."""
        if self.spec.propensity is None:
            return batch.weights
        return torch.where(batch.logged, self.logged_weights(batch.users, batch.items), 1.0) * batch.weights

    def _comparison_weights(self, batch: Batch) -> Tensor:
        """Weights of comparisons, (n, k - 1)."""
        if self.spec.propensity is None:
            return batch.weights[:, 1:]
        return self.logged_weights(batch.users, batch.items[:, :1]) * batch.weights[:, 1:]


def correlation(left: Tensor, right: Tensor) -> Tensor:
    """Pearson's correlation; 0 if one of the two is constant."""
    left, right = left - left.mean(), right - right.mean()
    scale = (left * left).sum() * (right * right).sum()
    return torch.where(scale > 0, (left * right).sum() / scale.clamp(min=torch.finfo(scale.dtype).tiny).sqrt(), 0.0)


def make_loss(
    loss: Weighted | spec.DoublyRobust, logged: Logged, generator: torch.Generator, given: Given | None = None
) -> WeightedLoss | DoublyRobustLoss:
    """The loss that a config names, with weights computed from the logged pairs, or from their given propensities."""
    if isinstance(loss, spec.DoublyRobust):
        return DoublyRobustLoss(loss, logged, generator, given)
    return WeightedLoss(loss, logged, given)
