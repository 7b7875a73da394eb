"""SVD++: matrix factorisation whose user vector also has a term of the user's logged items, whatever their values.

    x_ui = b + b_u + b_i + v . (u + |N(u)|^-1/2 sum_{j in N(u)} y_j)        [Koren 2008] eq. 15

N(u) contains all logged pairs of the user, positive or not: that a pair was logged is information in itself. Items
start small and random, all other parameters at zero. For a user without logged pairs the sum is empty, and the item
biases alone give the scores.
"""

import torch
from torch import Tensor

from models.backbones import initial
from models.backbones.backbone import Backbone
from models.backbones.biases import Biases
from models.backbones.history import History
from models.backbones.inner import inner
from models.logged import Logged
from models.vectors import VectorScorer


class SVDpp(Backbone):
    """User and item vectors, biases, and a second vector per item, used if it is in a history."""

    def __init__(self, logged: Logged, dims: int, base: float, generator: torch.Generator) -> None:
        super().__init__()
        self.user = initial.zeros(logged.n_users, dims)
        self.item = initial.small(logged.n_items, dims, generator)
        self.past = initial.zeros(logged.n_items, dims)
        self.biases = Biases(logged.n_users, logged.n_items, base)
        self.history = History(logged)

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        return inner(self.user_vectors(users), self.item(items)) + self.biases(users, items)

    def user_vectors(self, users: Tensor) -> Tensor:
        """u plus the sum over the history, shape (n, dims)."""
        return self.user(users) + self.history.bags(users).sums(self.past.weight)

    @torch.no_grad()
    def scorer(self) -> VectorScorer:
        users = torch.cat([self.user_vectors(block) for block in self.history.blocks()])
        return VectorScorer(self.biases.extend_users(users), self.biases.extend_items(self.item.weight))
