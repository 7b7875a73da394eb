"""Non-negative matrix factorisation: parts that add up, none that takes away.

    x_ui = u . v,   all u, v >= 0       [Lee, Seung 1999], by projected gradient [Lin 2007] eq. 5: after each step, what fell below 0 is 0

Items start random, users all alike, so that x_ui is the base on average; at least LEAST, since zero vectors would have no gradient. A user without
training pairs stays as all users began, so its items stand in the order of the sums of their vectors.
"""

import torch
from torch import Tensor

from models.backbones import initial
from models.backbones.backbone import Backbone
from models.backbones.inner import inner
from models.vectors import VectorScorer

LEAST = 0.1


class NonNegativeFactorisation(Backbone):
    """User and item vectors without a negative entry."""

    def __init__(self, n_users: int, n_items: int, dims: int, base: float, generator: torch.Generator) -> None:
        super().__init__()
        entry = (max(base, LEAST) / dims) ** 0.5
        self.user = initial.table(torch.full((n_users, dims), entry))
        self.item = initial.table(torch.rand(n_items, dims, generator=generator) * (2 * entry))

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        return inner(self.user(users), self.item(items))

    @torch.no_grad()
    def project(self) -> None:
        """No entry below zero."""
        for parameter in self.parameters():
            parameter.clamp_(min=0)

    @torch.no_grad()
    def scorer(self) -> VectorScorer:
        return VectorScorer(self.user.weight.clone(), self.item.weight.clone())
