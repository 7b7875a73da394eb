"""Doubly robust joint learning: a second model imputes the labels of pairs that were not logged.

    L(theta) = mean over all pairs of d(x, r) + mean over logged pairs of w (d(x, y) - d(x, r))
                                                                     [Wang et al. 2019] eq. 5
    L(phi)   = mean over logged pairs of w (d(x, r) - d(x, y))^2     eq. 6

d is the cross-entropy, x the model's number, y the logged label, r = s(x') the imputed label with x' from a second
matrix factorisation; w = c / p as in models/losses.py. The mean over all pairs is estimated by pairs drawn uniformly
(sampler all_pairs). L(theta) is unbiased if r is exact or if p is. One step minimises both losses: the output of the
other model is held constant in each.
"""

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from models.backbones.mf import MatrixFactorisation
from models.batch import Batch
from models.logged import Logged
from models.propensity import Given, LoggedWeights
from models.spec.losses import DoublyRobust


def doubly_robust(imputed: Tensor, logged_imputed: Tensor, logged_error: Tensor, weights: Tensor) -> Tensor:
    """The loss of each row: the mean imputed error of drawn pairs (n, k), corrected by the error of the logged pair."""
    return imputed.mean(1) + weights * (logged_error - logged_imputed)


class DoublyRobustLoss(nn.Module):
    """The loss of both models; its parameters are those of the imputation model."""

    def __init__(
        self, loss: DoublyRobust, logged: Logged, generator: torch.Generator, given: Given | None = None
    ) -> None:
        super().__init__()
        self.logged_weights = LoggedWeights(logged, loss.propensity, given)
        share = float(np.clip(logged.positive.mean() if len(logged.positive) else 0.5, 0.01, 0.99))
        self.imputation = MatrixFactorisation(
            logged.n_users, logged.n_items, loss.dims, float(np.log(share / (1 - share))), generator
        )

    def forward(self, numbers: Tensor, batch: Batch) -> Tensor:
        labels = self.imputation(batch.users, batch.items).sigmoid()
        imputed = cross_entropy(numbers, labels.detach())
        error = cross_entropy(numbers[:, 0], batch.labels[:, 0])
        weights = self.logged_weights(batch.users, batch.items[:, :1])[:, 0]
        learned = cross_entropy(numbers[:, 0].detach(), labels[:, 0])
        return doubly_robust(imputed[:, 1:], imputed[:, 0], error, weights) + weights * (learned - error.detach()) ** 2


def cross_entropy(numbers: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy of each pair."""
    return binary_cross_entropy_with_logits(numbers, labels, reduction="none")
