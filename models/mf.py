"""Matrix factorisation with biases.

    x_ui = b + b_u + b_i + u . v        [Koren, Bell, Volinsky 2009] eq. 4, as a logit

b is fixed to the log odds of the training labels, so that an item nobody was shown stands at the average and not above everything.
Items start small and random, users and biases at zero: gradients reach a user through its items, so a user without training pairs keeps the
zero vector and is scored by the item biases alone; an item without training pairs keeps its small vector, which weight decay shrinks.
"""

import torch
from torch import Tensor, nn

from models.vectors import VectorScorer

ITEM_SCALE = 0.1


class MatrixFactorisation(nn.Module):
    """User and item vectors and biases."""

    base: Tensor

    def __init__(self, n_users: int, n_items: int, dims: int, base: float, generator: torch.Generator) -> None:
        super().__init__()
        self.user = nn.Embedding.from_pretrained(torch.zeros(n_users, dims), freeze=False)
        self.item = nn.Embedding.from_pretrained(torch.randn(n_items, dims, generator=generator) * (ITEM_SCALE / dims**0.5), freeze=False)
        self.user_bias = nn.Embedding.from_pretrained(torch.zeros(n_users, 1), freeze=False)
        self.item_bias = nn.Embedding.from_pretrained(torch.zeros(n_items, 1), freeze=False)
        self.register_buffer("base", torch.tensor(base, dtype=torch.float32))

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        """Logits of the pairs, shape (n,)."""
        biases = self.user_bias(users).squeeze(1) + self.item_bias(items).squeeze(1)
        return (self.user(users) * self.item(items)).sum(1) + biases + self.base

    def user_vectors(self, users: Tensor) -> Tensor:
        """[u, b + b_u, 1] of these users: x_ui is its inner product with the item's vector, shape (n, dims + 2)."""
        bias = self.user_bias(users) + self.base
        return torch.cat([self.user(users), bias, torch.ones_like(bias)], dim=1)

    def item_vectors(self) -> Tensor:
        """[v, 1, b_i] of all items, shape (n_items, dims + 2)."""
        bias = self.item_bias.weight
        return torch.cat([self.item.weight, torch.ones_like(bias), bias], dim=1)

    def scorer(self) -> VectorScorer:
        """What scores: the vectors as they are now."""
        with torch.no_grad():
            return VectorScorer(self.user_vectors(torch.arange(len(self.user.weight), device=self.base.device)), self.item_vectors())
