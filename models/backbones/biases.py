"""Biases of users and items: b + b_u + b_i.

b is fixed at the log odds of the training labels (or at their mean, depending on the loss), so that an item without
training pairs has the average number and does not rank above all others. b_u and b_i start at zero.
"""

import torch
from torch import Tensor, nn

from models.backbones import initial


class Biases(nn.Module):
    """One number per user, one per item, and one for all."""

    base: Tensor

    def __init__(self, n_users: int, n_items: int, base: float) -> None:
        super().__init__()
        self.user = initial.zeros(n_users, 1)
        self.item = initial.zeros(n_items, 1)
        self.register_buffer("base", torch.tensor(base, dtype=torch.float32))

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        """b + b_u + b_i of users (n,) with items (n, k), shape (n, k)."""
        return self.user(users) + self.item(items).squeeze(2) + self.base

    def extend_users(self, vectors: Tensor) -> Tensor:
        """[u, b + b_u, 1] of all users: its inner product with [v, 1, b_i] is u . v + b + b_u + b_i."""
        bias = self.user.weight + self.base
        return torch.cat([vectors, bias, torch.ones_like(bias)], dim=1)

    def extend_items(self, vectors: Tensor) -> Tensor:
        """[v, 1, b_i] of all items."""
        bias = self.item.weight
        return torch.cat([vectors, torch.ones_like(bias), bias], dim=1)
