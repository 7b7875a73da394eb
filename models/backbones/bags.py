"""Bags of rows of a table, and their weighted sums: the product of a sparse matrix with a table.

    s_n = sum_{m in bag n} w_m t_{row_m};    gradient of t: the same sum over the transposed bags

An empty bag sums to zero. The sum is torch's embedding_bag: on CPU it takes 0.7 of the time of a product with a sparse CSR matrix, and it is the same on
GPU. Its own gradient is not used: it is slower than to sort the bag and sum again, and has no gradient of its own, which AutoDebias asks for.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag


class Bags(NamedTuple):
    """n bags, one after the other; the matrix in CSR form."""

    rows: Tensor  # (m,), of the table
    ends: Tensor  # (n + 1,): bag i is ends[i]:ends[i + 1]
    weights: Tensor  # (m,)

    def owners(self) -> Tensor:
        """The bag each entry is in, shape (m,)."""
        lengths = self.ends.diff()
        return torch.repeat_interleave(
            torch.arange(len(lengths), device=lengths.device), lengths, output_size=len(self.rows)
        )

    def transposed(self, n_rows: int) -> "Bags":
        """For each row of a table of n_rows, the bags it is in."""
        order = torch.argsort(self.rows, stable=True)
        ends = torch.zeros(n_rows + 1, dtype=torch.long, device=order.device)
        ends[1:] = torch.bincount(self.rows, minlength=n_rows).cumsum(0)
        return Bags(self.owners()[order], ends, self.weights[order])

    def sums(self, table: Tensor) -> Tensor:
        """The sum of each bag, shape (n, d)."""
        sums: Tensor = _Sums.apply(table, self)
        return sums


class _Sums(torch.autograd.Function):
    """The product, and by the transposed product its gradient: of any order."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, bags: Bags) -> Tensor:
        ctx.bags, ctx.n_rows = bags, len(table)
        weights = bags.weights.to(table.dtype)
        return embedding_bag(
            bags.rows, table.contiguous(), bags.ends, mode="sum", per_sample_weights=weights, include_last_offset=True
        )

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return ctx.bags.transposed(ctx.n_rows).sums(gradients[0]), None
