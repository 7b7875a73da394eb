"""Weights of logged pairs from the probability that a pair was logged.

    w = c / max(floor, p),      c such that the mean over training pairs is 1

    p_i = (n_i / max_j n_j) ** power        popularity: [simpson] eq. 7 with power = (gamma + 1) / 2, scaled to max 1
    p_ui                                    others (models/logged_propensity.py), scaled to at most 1 over training
    pairs

With popularity, an item that was never logged has p_i = floor; power = 0: p_i = 1 for all.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from models.logged import Ints, Logged
from models.spec.propensities import PopularityPropensity, Propensity

Floats = npt.NDArray[np.float64]


class Given(NamedTuple):
    """The propensities of all logged pairs, sorted by (user, item)."""

    users: Ints
    items: Ints
    propensity: Floats
    floor: float


def item_propensity(counts: npt.NDArray[np.int64], spec: PopularityPropensity) -> Floats:
    """p_i of each item, shape (n_items,)."""
    return np.maximum(spec.floor, (counts / max(counts.max(), 1)) ** spec.power)


def inverse_weights(propensity: Floats, counts: npt.NDArray[np.int64]) -> Floats:
    """1 / p_i, scaled so that the mean over logged pairs is 1: the learning rate keeps its scale."""
    weights = 1 / propensity
    return weights * (counts.sum() / (counts @ weights))


class LoggedWeights(nn.Module):
    """The weights of logged pairs: by item, or, where propensities are of pairs, by a search among the pairs."""

    item_weights: Tensor  # (n_items,): all 1 without propensities
    keys: Tensor  # (n_pairs,), sorted; empty if weights are of items
    pair_weights: Tensor

    def __init__(self, training: Logged, spec: Propensity | None, given: Given | None) -> None:
        super().__init__()
        counts, self.n_items = training.item_counts(), training.n_items
        weights = np.ones(training.n_items)
        if isinstance(spec, PopularityPropensity):
            weights = inverse_weights(item_propensity(counts, spec), counts)
        self.register_buffer("item_weights", torch.from_numpy(weights.astype(np.float32)))
        self.of_pairs = spec is not None and not isinstance(spec, PopularityPropensity)
        keys, of_pairs = np.zeros(0, np.int64), np.zeros(0)
        if self.of_pairs:
            assert given is not None, "propensities of pairs are read before training"
            keys = given.users * training.n_items + given.items
            of_pairs = _pair_weights(keys, given, training)
        self.register_buffer("keys", torch.from_numpy(keys), persistent=False)
        self.register_buffer("pair_weights", torch.from_numpy(of_pairs.astype(np.float32)), persistent=False)

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        """Weights of users (n,) with items (n, k) as logged pairs; of a pair that is not logged it has no meaning."""
        if not self.of_pairs:
            return self.item_weights[items]
        at = torch.searchsorted(self.keys, users[:, None] * self.n_items + items)
        return self.pair_weights[at.clamp_(max=len(self.keys) - 1)]


def _pair_weights(keys: Ints, given: Given, training: Logged) -> Floats:
    """The weight of each pair."""
    trained = np.searchsorted(keys, training.users * training.n_items + training.items)
    largest = given.propensity[trained].max(initial=0.0) or 1.0
    weights: Floats = 1 / np.clip(given.propensity / largest, given.floor, 1.0)
    return weights / (weights[trained].mean() if len(trained) else 1.0)
