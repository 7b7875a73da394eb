"""WMF: weighted matrix factorisation of implicit feedback by alternating least squares.

    min over x, y  sum_{u, i} c_ui (p_ui - x_u . y_i)^2 + regularization * (sum_u |x_u|^2 + sum_i |y_i|^2)
    p_ui = 1, c_ui = 1 + confidence for a logged positive;  p_ui = 0, c_ui = 1 for every other pair, logged or not
    x_u = (Y'Y + confidence * sum_{i in S_u} y_i y_i' + regularization * I)^-1  (1 + confidence) sum_{i in S_u} y_i

[Hu, Koren, Volinsky 2008, Collaborative filtering for implicit feedback datasets] eqs 3, 4 and 5, with r_ui = 1. A
sweep solves for all users, then for all items, each exactly by Cholesky: the objective never increases. Y'Y is computed
once per half sweep, so that a sweep is O(n_positives d^2 + (n_users + n_items) d^3).

Items start at normal draws of standard deviation 0.1 / sqrt(d) [Rendle, Krichene, Zhang, Koren 2022, Revisiting the
performance of iALS]. A user or item without positives is the zero vector from the start. Systems are solved in float64,
scores are float32. If regularization is 0, or is lost by rounding when it is added to Y'Y, and the vectors do not span
d dimensions, the solution is not unique: a TrainingError, if the pivots show it.
"""

from collections.abc import Callable
from typing import NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from models.errors import TrainingError
from models.keyed import stream_seed
from models.logged import Ints, Logged
from models.spec.baselines import WMF
from models.vectors import VectorScorer

BATCH_BYTES = 2 * 2**20  # of systems solved at once: fits the cache
ROUNDING = 1e-12  # a pivot below this share of the largest one may consist of rounding errors


class Likes(NamedTuple):
    """The positives of each user, or of each item."""

    members: Tensor  # (n_positives,), owner after owner
    sizes: list[int]  # (n,)

    @classmethod
    def of(cls, owners: Ints, members: Ints, n: int) -> Self:
        """The members of each of n owners."""
        order = np.argsort(owners, kind="stable")
        return cls(torch.from_numpy(members[order]), np.bincount(owners, minlength=n).tolist())


def fit_wmf(spec: WMF, logged: Logged, seed: int, report: Callable[[int], None]) -> VectorScorer:
    """The vectors after all sweeps; `report` is called with the number of each finished sweep, from 1."""
    liked = logged.positives()
    by_user, by_item = (
        Likes.of(liked.users, liked.items, liked.n_users),
        Likes.of(liked.items, liked.users, liked.n_items),
    )
    items = first_items(spec, by_item, seed)
    users = torch.zeros(logged.n_users, spec.dims, dtype=torch.float64)
    for sweep in range(1, spec.sweeps + 1):
        users = solve(spec, by_user, items)
        items = solve(spec, by_item, users)
        report(sweep)
    return VectorScorer(users.float(), items.float())


def first_items(spec: WMF, by_item: Likes, seed: int) -> Tensor:
    """Small random vectors of the items with positives, zero for others, shape (n_items, d)."""
    generator = torch.Generator().manual_seed(stream_seed(seed, "init", spec.name))
    draws = torch.randn(len(by_item.sizes), spec.dims, generator=generator, dtype=torch.float64)
    return draws * (0.1 / spec.dims**0.5) * (torch.tensor(by_item.sizes)[:, None] > 0)


def solve(spec: WMF, likes: Likes, others: Tensor, batch_bytes: int = BATCH_BYTES) -> Tensor:
    """The least-squares vector of each owner, given the vectors of the other side, shape (n, d)."""
    gram = others.T @ others + spec.regularization * torch.eye(spec.dims, dtype=torch.float64)
    vectors = torch.zeros(len(likes.sizes), spec.dims, dtype=torch.float64)
    busy = [n for n, size in enumerate(likes.sizes) if size]
    lists = likes.members.split([likes.sizes[n] for n in busy])
    step = max(1, batch_bytes // (8 * spec.dims**2))
    for at in range(0, len(busy), step):
        part = lists[at : at + step]
        systems = torch.empty(len(part), spec.dims, spec.dims, dtype=torch.float64)
        targets = torch.empty(len(part), spec.dims, dtype=torch.float64)
        for n, members in enumerate(part):
            near = others.index_select(0, members)  # (n_members, d)
            torch.addmm(gram, near.T, near, alpha=spec.confidence, out=systems[n])
            torch.sum(near, 0, out=targets[n])
        vectors[busy[at : at + step]] = _cholesky_solve(spec, systems, (1 + spec.confidence) * targets)
    return vectors


def _cholesky_solve(spec: WMF, systems: Tensor, targets: Tensor) -> Tensor:
    """x of each system A x = b."""
    lower, failed = torch.linalg.cholesky_ex(systems)
    pivots = lower.diagonal(dim1=1, dim2=2) ** 2
    singular = (failed > 0) | (pivots.amin(1) <= ROUNDING * pivots.amax(1))
    if singular.any():
        raise TrainingError(
            f"model {spec.name}: {int(singular.sum()):,} of {len(singular):,} least-squares systems are singular with "
            f"regularization={spec.regularization:g} and dims={spec.dims}: their solution is not unique. "
            "Raise regularization, such as to 0.01, or lower dims."
        )
    return torch.cholesky_solve(targets[:, :, None], lower)[:, :, 0]
