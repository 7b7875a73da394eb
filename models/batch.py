"""The input of losses: rows of one user and k items, the logged item first.

A row is one logged pair and the items drawn for it. Weight 0 marks an item that could not be drawn, such as a negative
of a user whose positives are the whole catalogue.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from models.host_memory import sent


class Batch(NamedTuple):
    """Rows of examples."""

    users: Tensor  # (n,) int64
    items: Tensor  # (n, k) int64
    labels: Tensor  # (n, k) float32
    logged: Tensor  # (n, k) bool: False for drawn items
    weights: Tensor  # (n, k) float32: 0 or 1

    def rows(self, part: Tensor | slice) -> "Batch":
        """A batch of some of the rows."""
        return Batch(*(tensor[part] for tensor in self))

    def to(self, device: torch.device) -> "Batch":
        """The batch on a device."""
        return Batch(*(sent(tensor, device) for tensor in self))
