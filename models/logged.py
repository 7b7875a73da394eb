"""The logged pairs that models learn from, as index arrays sorted by (user, item)."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from eval_engine.positive import Positive
from models.interactions import Interactions

Ints = npt.NDArray[np.int64]


class Logged(NamedTuple):
    """Pairs with their labels and values, and the numbers of users and items."""

    users: Ints  # (n_pairs,)
    items: Ints  # (n_pairs,)
    positive: npt.NDArray[np.bool_]  # (n_pairs,)
    values: npt.NDArray[np.float64]  # (n_pairs,), as logged
    n_users: int
    n_items: int

    def where(self, keep: npt.NDArray[np.bool_]) -> "Logged":
        """The pairs where keep is True."""
        return self._replace(
            users=self.users[keep], items=self.items[keep], positive=self.positive[keep], values=self.values[keep]
        )

    def positives(self) -> "Logged":
        """The positive pairs."""
        return self.where(self.positive)

    def item_counts(self) -> Ints:
        """Number of logged pairs of each item, shape (n_items,)."""
        return np.bincount(self.items, minlength=self.n_items)

    def unit_values(self) -> npt.NDArray[np.float64]:
        """Values scaled to 0..1; all 1 if all values are equal."""
        if not len(self.values):
            return self.values
        low, high = self.values.min(), self.values.max()
        return (self.values - low) / (high - low) if high > low else np.ones_like(self.values)


def logged_of(data: Interactions, positive: Positive) -> Logged:
    """All pairs of the feedback, with the rule of positives applied."""
    return Logged(data.users, data.items, positive.of(data.values), data.values, data.n_users, data.n_items)
