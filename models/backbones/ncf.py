"""Neural collaborative filtering: a learned function of both vectors in place of the inner product.

    GMF     x_ui = h . (u * v)                                                             [He et al. 2017] eq. 9
    MLP     x_ui = c + g . t_L,   t_l = relu(W_l t_{l-1} + b_l),  t_0 = [u, v]              eq. 10
    NeuMF   x_ui = c + [h, g] . [u * v, t_L]: the sum of both, each with its own vectors    eq. 12

W_1 has dims rows, each later W_l half as many as the one before, at least one. W_1 [u, v] = W_u u + W_v v is computed
as that sum, so that the user's part is computed once for its k items. h starts at 1, so GMF starts as u . v; c starts
at the base and is learned. Items start small and random, users at zero: for a user without training pairs all items tie
in GMF, and MLP ranks them by the output for the zero user vector. The authors train GMF and MLP first and start NeuMF
from them; here all three start from random vectors.
"""

from itertools import pairwise

import torch
from torch import Tensor, nn

from models.backbones import initial
from models.backbones.backbone import Backbone
from models.backbones.inner import inner
from models.backbones.pair_scorer import PairScorer
from models.device_scorer import DeviceScorer
from models.vectors import VectorScorer


class GMF(Backbone):
    """User and item vectors, and a weight for each of their entries."""

    def __init__(self, n_users: int, n_items: int, dims: int, generator: torch.Generator) -> None:
        super().__init__()
        self.user = initial.zeros(n_users, dims)
        self.item = initial.small(n_items, dims, generator)
        self.weights = nn.Parameter(torch.ones(dims))  # h

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        return inner(self.user(users) * self.weights, self.item(items))

    @torch.no_grad()
    def scorer(self) -> VectorScorer:
        return VectorScorer(self.user.weight * self.weights, self.item.weight.clone())


class MLP(Backbone):
    """User and item vectors, and a tower of layers over them."""

    def __init__(
        self, n_users: int, n_items: int, shape: tuple[int, int], base: float, generator: torch.Generator
    ) -> None:
        super().__init__()
        dims, layers = shape
        widths = [max(1, dims >> layer) for layer in range(layers)]
        self.user = initial.zeros(n_users, dims)
        self.item = initial.small(n_items, dims, generator)
        first_user = torch.randn(widths[0], dims, generator=generator) * initial.kaiming(2 * dims)
        self.first_user = nn.Parameter(first_user)  # W_u
        self.first_item = initial.linear(dims, widths[0], initial.kaiming(2 * dims), generator)  # W_v, b_1
        self.rest = nn.Sequential(nn.ReLU())  # from t_1 on
        for n_in, n_out in pairwise(widths):
            self.rest.extend([initial.linear(n_in, n_out, initial.kaiming(n_in), generator), nn.ReLU()])
        last = initial.linear(widths[-1], 1, initial.kaiming(widths[-1]), generator)  # g, c
        nn.init.constant_(last.bias, base)
        self.rest.append(last)

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        first = (self.user(users) @ self.first_user.T).unsqueeze(1) + self.first_item(self.item(items))  # (n, k, width)
        return self.rest(first).squeeze(2)

    @torch.no_grad()
    def scorer(self) -> PairScorer:
        return PairScorer(self.user.weight @ self.first_user.T, self.first_item(self.item.weight), self.rest)


class NeuMF(Backbone):
    """The sum of GMF and MLP."""

    def __init__(
        self, n_users: int, n_items: int, shape: tuple[int, int], base: float, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.gmf = GMF(n_users, n_items, shape[0], generator)
        self.mlp = MLP(n_users, n_items, shape, base, generator)

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        return self.gmf(users, items) + self.mlp(users, items)

    def scorer(self) -> "SumScorer":
        return SumScorer(self.gmf.scorer(), self.mlp.scorer())


class SumScorer(DeviceScorer):
    """The sum of two scorers."""

    def __init__(self, left: VectorScorer, right: PairScorer) -> None:
        super().__init__()
        self.left, self.right = left, right

    def scores(self, users: Tensor) -> Tensor:
        """The sums of both scores for all items."""
        return self.left.scores(users).add_(self.right.scores(users))
