"""How often a positive occurs in an epoch: more often if its item has few positives.

dynamic: a positive occurs n_i times, with one negative each
    n'_i = n_0 max(rho) / (rho_i d_i)                          [bqs] eq. 19; rho_i the number of the item's positives
    d_i  = r_i / max(1, h) + 1                                 eq. 21; r_i the item's rank by popularity from 0,
                                                               h = |I_H| - 1, I_H the items of class high
    n_i  = floor(n'_i) + (1 with probability n'_i - floor(n'_i))                    eq. 22
    On large logs that is hundreds of rows for each positive: beyond MOST, an epoch draws MOST for each positive, each
    with probability proportional to n'_i, which are the same exposures in expectation.
uniform: every item has the same exposure                      eq. 20: n_0 max(rho) / rho_i, d_i = 1
    An epoch draws as many positives as there are, each with probability proportional to 1 / rho_i, with n_0 negatives:
    the exposures of eq. 20 in expectation, in an epoch as long as that of other samplers. As printed, an epoch has
    n_0 max(rho) rows for each item, which is max(rho) / mean(rho) times as much.

Jannach: an epoch draws as many positives as there are, with probability proportional to
exp(-(rho_i / max(rho))^2 / (2 spread^2)). The paper requires a monotonically decreasing density and does not give its
scale.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from models.logged import Logged
from models.spec.samplers import Oversampled

MOST = 16  # rows of an epoch for each positive, on average
Epoch = Callable[[torch.Generator], Tensor]


def mean_comparisons(popularity: npt.NDArray[np.int64], spec: Oversampled) -> npt.NDArray[np.float64]:
    """n'_i of each item by dynamic oversampling, shape (n_items,); 0 for an item without positives."""
    top = popularity.max(initial=0)
    with np.errstate(divide="ignore"):
        wanted = np.where(popularity > 0, spec.base * top / popularity, 0.0)
    rank = np.empty(len(popularity))
    rank[np.argsort(-popularity, kind="stable")] = np.arange(len(popularity))
    last_high = max(1, round(spec.high_share * len(popularity))) - 1
    return wanted / (rank / max(1, last_high) + 1)


def comparisons(positives: Logged, spec: Oversampled) -> Epoch:
    """Rows of an epoch: each positive n_i times, with n_i drawn in each epoch; or MOST for each, drawn."""
    means = mean_comparisons(positives.item_counts(), spec)[positives.items]
    if means.sum() > MOST * len(means):
        return _drawn(means, MOST * len(means))
    mean = torch.from_numpy(means)
    rows = torch.arange(len(mean))

    def epoch(generator: torch.Generator) -> Tensor:
        times = torch.floor(mean + torch.rand(len(mean), generator=generator, dtype=torch.float64)).long()
        repeated = rows.repeat_interleave(times)
        return repeated[torch.randperm(len(repeated), generator=generator)]

    return epoch


def even_chance(positives: Logged) -> Epoch:
    """Rows of an epoch: as many as there are positives, drawn so that every item has the same exposure."""
    return _drawn(1 / np.maximum(positives.item_counts(), 1)[positives.items], len(positives.items))


def falling_chance(positives: Logged, spread: float) -> Epoch:
    """Rows of an epoch: as many as there are positives, drawn with a higher probability for unpopular items."""
    counts = positives.item_counts()
    exponent = -((counts / max(counts.max(initial=0), 1) / spread) ** 2)[positives.items] / 2
    # relative to the rarest item, which gets 1: with a small spread all would round to zero
    return _drawn(np.exp(exponent - exponent.max(initial=-np.inf)), len(positives.items))


def _drawn(chance: npt.NDArray[np.float64], n_rows: int) -> Epoch:
    """Rows of an epoch, each drawn with a probability proportional to its chance."""
    upper = torch.from_numpy(np.cumsum(chance) / max(chance.sum(), np.finfo(np.float64).tiny))

    def epoch(generator: torch.Generator) -> Tensor:
        drawn = torch.searchsorted(upper, torch.rand(n_rows, generator=generator, dtype=torch.float64), right=True)
        return drawn.clamp_(max=max(len(upper) - 1, 0))

    return epoch
