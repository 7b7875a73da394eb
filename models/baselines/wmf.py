"""WMF: weighted matrix factorisation of implicit feedback by alternating least squares.

    min over x, y  sum_{u, i} c_ui (p_ui - x_u . y_i)^2 + regularization * (sum_u |x_u|^2 + sum_i |y_i|^2)
    p_ui = 1, c_ui = 1 + confidence for a logged positive;  p_ui = 0, c_ui = 1 for every other pair, logged or not
    x_u = (Y'Y + confidence * sum_{i in S_u} y_i y_i' + regularization * I)^-1  (1 + confidence) sum_{i in S_u} y_i

[Hu, Koren, Volinsky 2008, Collaborative filtering for implicit feedback datasets] eqs 3, 4 and 5, with r_ui = 1. A
sweep solves for all users, then for all items, each exactly: the objective never increases. With G = Y'Y +
regularization * I = LL', computed once per half sweep, and z_i = L^-1 y_i, the rows of Z being z_i for i in S_u,

    x_u = (1 + confidence) L'^-1 v,   v = (I + confidence Z'Z)^-1 Z'1 = Z' (I + confidence ZZ')^-1 1

The smaller of the two systems is solved, d x d or |S_u| x |S_u|: most users have fewer positives than dimensions. Their
eigenvalues are in [1, 1 + confidence], because Z'Z <= I, whatever the regularization: so v is computed in float32, in
which it has an error of (1 + confidence) 6e-8, and x in float64. Users with similar numbers of positives are solved
together, some of them on each thread; lists are filled up with z = 0, which changes no term. Results do not depend on
the number of threads.

Items start at normal draws of standard deviation 0.1 / sqrt(d) [Rendle, Krichene, Zhang, Koren 2022, Revisiting the
performance of iALS]. A user or item without positives is the zero vector from the start. Scores are float32. If
regularization is 0, or is lost by rounding when it is added to Y'Y, and the vectors do not span d dimensions, the
solution is not unique: a SingularError.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from models.errors import SingularError
from models.keyed import stream_seed
from models.logged import Ints, Logged
from models.spec.baselines import WMF
from models.vectors import VectorScorer

FLOAT32_UP_TO = 1000.0  # confidence; above, v is computed in float64
BATCH_BYTES = 2 * 2**20  # of vectors of positives at once: fits the cache
ROUNDING = 1e-12  # a pivot below this share of the largest one may consist of rounding errors


class Likes(NamedTuple):
    """The positives of each user, or of each item."""

    members: Tensor  # (n_positives,), owner after owner
    sizes: Tensor  # (n,)
    starts: Tensor  # (n,), of each owner's members

    @classmethod
    def of(cls, owners: Ints, members: Ints, n: int) -> Self:
        """The members of each of n owners."""
        sizes = torch.from_numpy(np.bincount(owners, minlength=n))
        order = np.argsort(owners, kind="stable")
        return cls(torch.from_numpy(members[order]), sizes, sizes.cumsum(0) - sizes)

    def batches(self, most: int) -> list[Tensor]:
        """Owners with members, by their number; each batch has at most `most` members, filled up, or one owner."""
        order = torch.argsort(self.sizes, stable=True)
        order = order[self.sizes[order] > 0]
        sizes, parts, stop = self.sizes[order].numpy(), [], len(order)
        while stop > 0:
            start = max(0, stop - max(1, most // int(sizes[stop - 1])))  # the last owner has the longest list
            parts.append(order[start:stop])
            stop = start
        return parts

    def padded(self, owners: Tensor, filler: int) -> Tensor:
        """The members of some owners, (n_owners, longest list), filled up with `filler`."""
        sizes = self.sizes[owners, None]
        nth = torch.arange(int(sizes.max()))
        at = (self.starts[owners, None] + nth).clamp_(max=len(self.members) - 1)
        return torch.where(nth < sizes, self.members[at], filler)


def fit_wmf(spec: WMF, logged: Logged, seed: int, report: Callable[[int], None], threads: int = 1) -> VectorScorer:
    """The vectors after all sweeps; `report` is called with the number of each finished sweep, from 1."""
    liked = logged.positives()
    by_user, by_item = (
        Likes.of(liked.users, liked.items, liked.n_users),
        Likes.of(liked.items, liked.users, liked.n_items),
    )
    items = first_items(spec, by_item, seed)
    users = torch.zeros(logged.n_users, spec.dims, dtype=torch.float64)
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # each batch has a thread to itself
    try:
        for sweep in range(1, spec.sweeps + 1):
            users = solve(spec, by_user, items, threads)
            items = solve(spec, by_item, users, threads)
            report(sweep)
    finally:
        torch.set_num_threads(before)
    return VectorScorer(users.float(), items.float())


def first_items(spec: WMF, by_item: Likes, seed: int) -> Tensor:
    """Small random vectors of the items with positives, zero for others, shape (n_items, d)."""
    generator = torch.Generator().manual_seed(stream_seed(seed, "init", spec.name))
    draws = torch.randn(len(by_item.sizes), spec.dims, generator=generator, dtype=torch.float64)
    return draws * (0.1 / spec.dims**0.5) * (by_item.sizes[:, None] > 0)


def solve(spec: WMF, likes: Likes, others: Tensor, threads: int = 1, batch_bytes: int = BATCH_BYTES) -> Tensor:
    """The least-squares vector of each owner, given the vectors of the other side, shape (n, d)."""
    vectors = torch.zeros(len(likes.sizes), spec.dims, dtype=others.dtype)
    batches = likes.batches(max(1, batch_bytes // (8 * spec.dims)))
    if not batches:
        return vectors
    lower = _factor(spec, others)
    white = torch.linalg.solve_triangular(lower, others.T, upper=False).T  # z of each member
    white = torch.cat([white, torch.zeros_like(white[:1])])  # the last one fills up
    white = white.float() if spec.confidence <= FLOAT32_UP_TO else white

    def one_batch(owners: Tensor) -> None:
        members = likes.padded(owners, len(others))
        near = white.index_select(0, members.flatten()).view(*members.shape, spec.dims)
        vectors[owners] = _whitened(near, spec.confidence).double()

    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(one_batch, batches):
            pass
    vectors *= 1 + spec.confidence
    return torch.linalg.solve_triangular(lower.T, vectors.T, upper=True).T.contiguous()


def _whitened(near: Tensor, confidence: float) -> Tensor:
    """v of each owner from the z of its members (n_owners, longest list, d), shape (n_owners, d)."""
    wide = near.transpose(1, 2)
    few = near.shape[1] < near.shape[2]
    systems = torch.bmm(near, wide) if few else torch.bmm(wide, near)
    systems *= confidence
    systems.diagonal(dim1=1, dim2=2).add_(1)
    targets = torch.ones_like(near[:, :, :1]) if few else near.sum(1)[:, :, None]
    solved = torch.cholesky_solve(targets, torch.linalg.cholesky_ex(systems).L)
    return (torch.bmm(wide, solved) if few else solved)[:, :, 0]


def _factor(spec: WMF, others: Tensor) -> Tensor:
    """L of G = LL'; a G that is singular, or may be by rounding, is an error."""
    gram = others.T @ others
    gram.diagonal().add_(spec.regularization)
    lower, failed = torch.linalg.cholesky_ex(gram)
    pivots = lower.diagonal() ** 2
    if failed or not (pivots.min() > ROUNDING * pivots.max()):
        raise SingularError(
            f"model {spec.name}: the least-squares systems are singular with regularization={spec.regularization:g} "
            f"and dims={spec.dims}: {len(others):,} vectors do not span the dimensions, so the solution is not unique. "
            "Raise regularization, such as to 0.01, or lower dims."
        )
    return lower
