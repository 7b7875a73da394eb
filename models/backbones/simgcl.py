"""SimGCL: LightGCN without layer 0, with a contrastive loss between two noisy views of each node.

    x_ui = u . v,   (U, V) = 1 / L sum_{l=1..L} (U_l, V_l)                    [Yu et al. 2022] eq. 9, without noise
    view:  E_l = A E_{l-1} + eps sign(A E_{l-1}) * r / ||r||,                 eqs 7, 8
           r uniform in [0, 1), drawn for each node and layer
    contrast of two views z, z' of unit length, over the nodes of a batch:
        -mean_n log( exp(z_n . z'_n / tau) / sum_m exp(z_n . z'_m / tau) )    eq. 2

The nodes are the batch's users and logged items, each once; drawn negatives are not among them, as in the authors'
code. The loss of a batch has the term contrast * (that of users + that of items). The sign has gradient 0, so a view's
gradient is that of the vectors without noise: a view is computed without autograd, and its difference from the vectors
without noise is held constant. That saves two of three backward passes along the graph. A node without positives is the
zero vector, also in a view.
"""

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, embedding, normalize

from models.backbones import initial
from models.backbones.backbone import Backbone, Noise
from models.backbones.graph import Graph, Vectors
from models.backbones.inner import inner
from models.logged import Logged
from models.spec import gradient as spec
from models.vectors import VectorScorer


class SimGCL(Backbone):
    """User and item vectors, and the graph."""

    reads_rows = False  # a step along the graph reads all

    def __init__(self, positives: Logged, model: spec.SimGCL, generator: torch.Generator) -> None:
        super().__init__()
        self.user = initial.small(positives.n_users, model.dims, generator)
        self.item = initial.small(positives.n_items, model.dims, generator)
        self.graph, self.spec = Graph(positives), model

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        return _numbers(self.vectors(), users, items)

    def train_batch(self, users: Tensor, items: Tensor, noise: Noise) -> tuple[Tensor, Tensor | None]:
        """Numbers without noise, and the contrast of two views."""
        plain = self.vectors()
        numbers = _numbers(plain, users, items)
        if self.spec.contrast == 0:
            return numbers, None
        views = self._view(noise), self._view(noise)
        sides = zip(plain, *views, (users.unique(), items[:, 0].unique()), strict=True)
        return numbers, self.spec.contrast * sum(
            (self._contrast(*side) for side in sides), torch.zeros((), device=users.device)
        )

    def vectors(self) -> Vectors:
        """The vectors whose inner products are the scores."""
        return self.graph.mean(self.user.weight, self.item.weight, 1, self.spec.layers)

    @torch.no_grad()
    def _view(self, noise: Noise) -> Vectors:
        """The mean over noisy layers."""
        users, items = self.user.weight, self.item.weight
        sums = torch.zeros_like(users), torch.zeros_like(items)
        for _ in range(self.spec.layers):
            users, items = self.graph.step(users, items)
            for vectors, total in zip((users, items), sums, strict=True):
                vectors.addcmul_(vectors.sign(), normalize(noise.uniform(*vectors.shape), dim=1), value=self.spec.noise)
                total += vectors
        return sums[0] / self.spec.layers, sums[1] / self.spec.layers

    def _contrast(self, plain: Tensor, first: Tensor, second: Tensor, nodes: Tensor) -> Tensor:
        """Eq. 2: the cross-entropy of choosing a node's second view, among those of all nodes, by its first view."""
        vectors = embedding(nodes, plain)
        a, b = (normalize(vectors + (view[nodes] - vectors).detach(), dim=1) for view in (first, second))
        return cross_entropy(a @ b.T / self.spec.temperature, torch.arange(len(nodes), device=nodes.device))

    @torch.no_grad()
    def scorer(self) -> VectorScorer:
        return VectorScorer(*self.vectors())


def _numbers(vectors: Vectors, users: Tensor, items: Tensor) -> Tensor:
    """Inner products of the batch's pairs."""
    return inner(embedding(users, vectors[0]), embedding(items, vectors[1]))
