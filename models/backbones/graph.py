"""Propagation of vectors along the graph of users and items whose edges are the training positives.

    R_ui = 1 / sqrt(d_u d_i) for a positive pair, else 0;  d_u, d_i numbers of positives     [He et al. 2020] eq. 3
    step: (U, V) -> (R V, R' U);   mean(first, last): the mean of (U, V) after first, ..., last steps

The mean is a linear and symmetric function of (U, V), so its gradient is the same mean of the incoming gradient. So
autograd records no steps and stores nothing for them. A node without edges is the zero vector after a step. The graph
is not part of the learned state.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from models.backbones.bags import Bags
from models.logged import Logged

Vectors = tuple[Tensor, Tensor]  # (n_users, d), (n_items, d)


class Edges(nn.Module):
    """The edges of each user, or of each item."""

    others: Tensor
    ends: Tensor
    weights: Tensor

    def __init__(
        self, others: npt.NDArray[np.int64], degrees: npt.NDArray[np.int64], weights: npt.NDArray[np.float32]
    ) -> None:
        super().__init__()
        self.register_buffer("others", torch.from_numpy(others), persistent=False)  # (n_edges,)
        ends = np.concatenate([[0], degrees.cumsum()])  # (n + 1,)
        self.register_buffer("ends", torch.from_numpy(ends), persistent=False)
        self.register_buffer("weights", torch.from_numpy(weights), persistent=False)  # (n_edges,)

    def bags(self) -> Bags:
        """The neighbours of each node."""
        return Bags(self.others, self.ends, self.weights)


class Graph(nn.Module):
    """The edges of users and of items."""

    def __init__(self, positives: Logged) -> None:
        super().__init__()
        of_users = np.bincount(positives.users, minlength=positives.n_users)
        of_items = np.bincount(positives.items, minlength=positives.n_items)
        weights = (1 / np.sqrt(of_users[positives.users] * of_items[positives.items])).astype(np.float32)
        by_item = np.argsort(positives.items, kind="stable")
        self.user = Edges(positives.items, of_users, weights)
        self.item = Edges(positives.users[by_item], of_items, weights[by_item])

    def step(self, users: Tensor, items: Tensor) -> Vectors:
        """The new vector of each node: the weighted sum of its neighbours' vectors."""
        return self.user.bags().sums(items), self.item.bags().sums(users)

    def mean(self, users: Tensor, items: Tensor, first: int, last: int) -> Vectors:
        """The mean of the vectors after first, ..., last steps."""
        users, items = _Mean.apply(users, items, self, first, last)
        return users, items


class _Mean(torch.autograd.Function):
    """The mean over steps, with gradients of any order."""

    @staticmethod
    def forward(ctx: Any, users: Tensor, items: Tensor, graph: Graph, first: int, last: int) -> Vectors:
        ctx.graph, ctx.first, ctx.last = graph, first, last
        for _ in range(first):
            users, items = graph.step(users, items)
        sums = users.clone(), items.clone()
        for _ in range(first, last):
            users, items = graph.step(users, items)
            sums[0].add_(users)
            sums[1].add_(items)
        return sums[0].div_(last - first + 1), sums[1].div_(last - first + 1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        return *ctx.graph.mean(*gradients, ctx.first, ctx.last), None, None, None
