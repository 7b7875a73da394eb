"""Matrix factorisation with or without biases.

    x_ui = b + b_u + b_i + u . v        [Koren, Bell, Volinsky 2009] eq. 4, as a logit
    x_ui = u . v                        without biases

Items start small and random, users and biases at zero. A user's vector gets its gradient through the user's items, from
the first step; an item's vector through its users, from the second step. So a user without training pairs keeps the
zero vector and is scored by the item biases alone. Without biases all items tie for this user; a small random vector
would rank them at random. An item without training pairs keeps its small vector, which weight decay shrinks.
"""

import torch
from torch import Tensor

from models.backbones import initial
from models.backbones.backbone import Backbone
from models.backbones.biases import Biases
from models.backbones.inner import inner
from models.vectors import VectorScorer


class MatrixFactorisation(Backbone):
    """User and item vectors, and biases if a base is given."""

    def __init__(self, n_users: int, n_items: int, dims: int, base: float | None, generator: torch.Generator) -> None:
        super().__init__()
        self.user = initial.zeros(n_users, dims)
        self.item = initial.small(n_items, dims, generator)
        self.biases = None if base is None else Biases(n_users, n_items, base)

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        numbers = inner(self.user(users), self.item(items))
        return numbers if self.biases is None else numbers + self.biases(users, items)

    @torch.no_grad()
    def scorer(self) -> VectorScorer:
        if self.biases is None:
            return VectorScorer(self.user.weight.clone(), self.item.weight.clone())
        return VectorScorer(self.biases.extend_users(self.user.weight), self.biases.extend_items(self.item.weight))
