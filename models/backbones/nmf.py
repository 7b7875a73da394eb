"""Non-negative matrix factorisation: all entries of the vectors are at least 0.

    x_ui = u . v,   all u, v >= 0       [Lee, Seung 1999]
    after each step entries below 0 are set to 0: projected gradient [Lin 2007] eq. 5

Items start at random and all users at the same vector, such that the mean of x_ui is the base, or LEAST if that is
larger: zero vectors would have no gradient. A user without training pairs keeps the initial vector, which ranks items
by the sums of their vectors.
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

    reads_rows = False  # each step projects all

    def __init__(self, n_users: int, n_items: int, dims: int, base: float, generator: torch.Generator) -> None:
        super().__init__()
        entry = (max(base, LEAST) / dims) ** 0.5
        self.user = initial.table(torch.full((n_users, dims), entry))
        self.item = initial.table(torch.rand(n_items, dims, generator=generator) * (2 * entry))

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        return inner(self.user(users), self.item(items))

    @torch.no_grad()
    def project(self) -> None:
        """Sets entries below zero to zero."""
        for parameter in self.parameters():
            parameter.clamp_(min=0)

    @torch.no_grad()
    def scorer(self) -> VectorScorer:
        return VectorScorer(self.user.weight.clone(), self.item.weight.clone())
