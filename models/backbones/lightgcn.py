"""LightGCN: the mean of the vectors after 0, 1, ..., L steps along the graph of positives.

    x_ui = u . v,   (U, V) = 1 / (L + 1) sum_{l=0..L} (U_l, V_l)        [He et al. 2020] eqs 3, 4, 6

L = 0 is matrix factorisation without biases. Items start at random, N(0, 0.1^2) as in the authors' code (the mean over
layers shrinks them), users at zero: after one step along the graph a user's vector is a sum over the user's items. A
user without positives keeps the zero vector, and all items tie. Every call propagates along the whole graph, whatever
the batch.
"""

import torch
from torch import Tensor
from torch.nn.functional import embedding

from models.backbones import initial
from models.backbones.backbone import Backbone
from models.backbones.graph import Graph, Vectors
from models.backbones.inner import inner
from models.logged import Logged
from models.vectors import VectorScorer

DEVIATION = 0.1


class LightGCN(Backbone):
    """User and item vectors, and the graph."""

    reads_rows = False  # a step along the graph reads all

    def __init__(self, positives: Logged, dims: int, layers: int, generator: torch.Generator) -> None:
        super().__init__()
        self.user = initial.zeros(positives.n_users, dims)
        self.item = initial.normal(positives.n_items, dims, DEVIATION, generator)
        self.graph, self.layers = Graph(positives), layers

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        all_users, all_items = self.vectors()
        return inner(embedding(users, all_users), embedding(items, all_items))

    def vectors(self) -> Vectors:
        """The vectors whose inner products are the scores."""
        return self.graph.mean(self.user.weight, self.item.weight, 0, self.layers)

    @torch.no_grad()
    def scorer(self) -> VectorScorer:
        return VectorScorer(*self.vectors())
