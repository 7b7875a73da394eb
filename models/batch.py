"""What losses see: rows of a user and k of its items, the logged one first.

A row is one logged pair, and what was drawn beside it. Weight 0 is a place that could not be filled, such as a negative of a user who likes everything.
"""

from typing import NamedTuple

import torch
from torch import Tensor


class Batch(NamedTuple):
    """Rows of examples."""

    users: Tensor  # (n,) int64
    items: Tensor  # (n, k) int64
    labels: Tensor  # (n, k) float32
    logged: Tensor  # (n, k) bool: False for what was drawn
    weights: Tensor  # (n, k) float32: 0 or 1

    def rows(self, part: Tensor | slice) -> "Batch":
        """Some of the rows."""
        return Batch(*(tensor[part] for tensor in self))

    def to(self, device: torch.device) -> "Batch":
        """The same on a device."""
        return Batch(*(tensor.to(device, non_blocking=True) for tensor in self))
