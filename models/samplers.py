"""Samplers: which examples an epoch learns from.

A sampler is drawn from once per epoch and returns a NamedTuple of tensors with one row per example; the training loop shuffles the rows and
cuts them into batches without knowing what they mean. `Pairs` is what pointwise losses take; a pairwise loss would bring its own tuple.

    observed           the logged pairs as they are, label = positive
    uniform_negatives  the logged positives, and for each n items evenly from those that are no positive of the user

The r-th item that is no positive of a user, with the positives p_0 < p_1 < ..., is r + #{j : p_j - j <= r}: one search in a sorted
array, no rejection. A user whose positives are the whole catalogue gets no negatives.
"""

from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from models import spec


class Pairs(NamedTuple):
    """Labelled pairs; `logged` is False for a pair that was drawn, not logged."""

    users: Tensor  # (n,) int64
    items: Tensor  # (n,) int64
    labels: Tensor  # (n,) float32
    logged: Tensor  # (n,) bool


class Logged(NamedTuple):
    """The logged pairs a sampler may use, sorted by (user, item)."""

    users: npt.NDArray[np.int64]
    items: npt.NDArray[np.int64]
    positive: npt.NDArray[np.bool_]
    n_items: int

    def where(self, keep: npt.NDArray[np.bool_]) -> "Logged":
        """Those pairs only."""
        return Logged(self.users[keep], self.items[keep], self.positive[keep], self.n_items)

    def item_counts(self) -> npt.NDArray[np.int64]:
        """Logged pairs of each item, shape (n_items,)."""
        return np.bincount(self.items, minlength=self.n_items)


class Sampler(Protocol):
    """Draws one epoch's examples."""

    def draw(self, generator: torch.Generator) -> Pairs: ...


class ObservedSampler:
    """Every logged pair once."""

    def __init__(self, logged: Logged) -> None:
        users, items = torch.from_numpy(logged.users), torch.from_numpy(logged.items)
        self.pairs = Pairs(users, items, torch.from_numpy(logged.positive.astype(np.float32)), torch.ones(len(users), dtype=torch.bool))

    def draw(self, generator: torch.Generator) -> Pairs:
        return self.pairs


class UniformNegativeSampler:
    """The positives of `logged`, and negatives outside the positives of `known`."""

    def __init__(self, logged: Logged, known: Logged, per_positive: int) -> None:
        self.users, self.items = torch.from_numpy(logged.users[logged.positive]), torch.from_numpy(logged.items[logged.positive])
        self.per_positive, self.n_items = per_positive, known.n_items
        users, items = known.users[known.positive], known.items[known.positive]
        n_users = int(max(logged.users.max(initial=-1), known.users.max(initial=-1))) + 1
        self.degree = torch.from_numpy(np.bincount(users, minlength=n_users))
        self.start = torch.cumsum(self.degree, 0) - self.degree
        rank = np.arange(len(users)) - self.start.numpy()[users]  # j of p_j
        self.gaps = torch.from_numpy(users * (self.n_items + 1) + items - rank)  # user * stride + (p_j - j): sorted, and users do not overlap

    def draw(self, generator: torch.Generator) -> Pairs:
        users = self.users.repeat(self.per_positive)
        free = self.n_items - self.degree[users]
        users, free = users[free > 0], free[free > 0]
        # float64 keeps 53 bits: the floor of u * free is even to 1 part in 2^53 / n_items, and below free
        r = (torch.rand(len(users), generator=generator, dtype=torch.float64) * free).long()
        found = torch.searchsorted(self.gaps, users * (self.n_items + 1) + r, right=True)
        negatives = r + found - self.start[users]
        labels = torch.cat([torch.ones(len(self.users)), torch.zeros(len(users))])
        return Pairs(torch.cat([self.users, users]), torch.cat([self.items, negatives]), labels, labels > 0)


def make_sampler(sampler: spec.Sampler, logged: Logged, known: Logged) -> Sampler:
    """The sampler a config names, over `logged`; `known` holds all pairs that may not be drawn as negatives."""
    match sampler:
        case spec.Observed():
            return ObservedSampler(logged)
        case spec.UniformNegatives():
            return UniformNegativeSampler(logged, known, sampler.per_positive)
