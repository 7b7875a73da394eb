"""Negatives: items that are not positives of a user.

even        uniform: the r-th item that is not a positive of a user with positives p_0 < p_1 < ... is
            r + #{j : p_j - j <= r}: one search in a sorted array, no rejection
popular     in proportion to (positives of the item) ** power; drawn again while it is a positive of the user, at most
            ROUNDS times

A negative that cannot be drawn, because the user's positives are the whole catalogue or all items that can be drawn, is
marked and gets weight 0.
"""

from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from models.logged import Logged

ROUNDS = 20


class Draw(Protocol):
    """Draws k items for each user: items (n, k), and which of them are valid (n, k)."""

    def __call__(self, users: Tensor, k: int, generator: torch.Generator) -> tuple[Tensor, Tensor]: ...


class EvenNegatives:
    """Uniform draws from the items that are not positives."""

    def __init__(self, known: Logged) -> None:
        positives = known.positives()
        self.n_items = known.n_items
        self.degree = torch.from_numpy(np.bincount(positives.users, minlength=known.n_users))
        self.start = torch.cumsum(self.degree, 0) - self.degree
        rank = np.arange(len(positives.users)) - self.start.numpy()[positives.users]  # j of p_j
        # sorted; the ranges of different users do not overlap
        self.gaps = torch.from_numpy(positives.users * (self.n_items + 1) + positives.items - rank)

    def __call__(self, users: Tensor, k: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        free = (self.n_items - self.degree[users])[:, None]
        # float64 has 53 bits: the floor of u * free is uniform to 1 part in 2^53 / n_items, and below free
        r = (torch.rand(len(users), k, generator=generator, dtype=torch.float64) * free).long()
        below = torch.searchsorted(self.gaps, users[:, None] * (self.n_items + 1) + r, right=True)
        items = r + below - self.start[users, None]
        filled = (free > 0).expand_as(items)
        return torch.where(filled, items, 0), filled


class PopularNegatives:
    """Draws in proportion to a power of the item's number of positives."""

    def __init__(self, known: Logged, power: float) -> None:
        positives = known.positives()
        self.n_items = known.n_items
        chance = positives.item_counts().astype(np.float64) ** power
        self.upper = torch.from_numpy(np.cumsum(chance / max(chance.sum(), np.finfo(np.float64).tiny)))
        self.keys = torch.from_numpy(positives.users * known.n_items + positives.items)  # sorted

    def __call__(self, users: Tensor, k: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        items = torch.zeros(len(users), k, dtype=torch.int64)
        wanted = torch.ones(len(users), k, dtype=torch.bool)
        for _ in range(ROUNDS):
            row, _ = places = torch.nonzero(wanted, as_tuple=True)
            if not len(row):
                break
            drawn = torch.searchsorted(
                self.upper, torch.rand(len(row), generator=generator, dtype=torch.float64), right=True
            )
            drawn = drawn.clamp_(max=self.n_items - 1)
            items[places] = drawn
            wanted[places] = self._liked(users[row], drawn)
        return items, ~wanted

    def _liked(self, users: Tensor, items: Tensor) -> Tensor:
        """Which pairs are positives."""
        keys = users * self.n_items + items
        at = torch.searchsorted(self.keys, keys).clamp_(max=len(self.keys) - 1)
        return self.keys[at] == keys
