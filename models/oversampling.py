"""How often a positive occurs in an epoch: more often if its item has few positives.

    n'_i = n_0 max(rho) / (rho_i d_i)                          [bqs] eq. 19; rho_i the number of the item's positives
    d_i  = r_i / max(1, h) + 1                                 eq. 21; r_i the item's rank by popularity from 0,
                                                               h = |I_H| - 1
    n_i  = floor(n'_i) + (1 with probability n'_i - floor(n'_i))                    eq. 22
    uniform oversampling: d_i = 1, every item has the same exposure n_0 max(rho)    eq. 20

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

Epoch = Callable[[torch.Generator], Tensor]


def mean_comparisons(popularity: npt.NDArray[np.int64], spec: Oversampled) -> npt.NDArray[np.float64]:
    """n'_i of each item, shape (n_items,); 0 for an item without positives."""
    top = popularity.max(initial=0)
    with np.errstate(divide="ignore"):
        wanted = np.where(popularity > 0, spec.base * top / popularity, 0.0)
    if spec.strategy == "uniform":
        return wanted
    rank = np.empty(len(popularity))
    rank[np.argsort(-popularity, kind="stable")] = np.arange(len(popularity))
    last_high = max(1, round(spec.high_share * len(popularity))) - 1
    return wanted / (rank / max(1, last_high) + 1)


def comparisons(positives: Logged, spec: Oversampled) -> Epoch:
    """Rows of an epoch: each positive n_i times, with n_i drawn in each epoch."""
    mean = torch.from_numpy(mean_comparisons(positives.item_counts(), spec)[positives.items])
    rows = torch.arange(len(mean))

    def epoch(generator: torch.Generator) -> Tensor:
        times = torch.floor(mean + torch.rand(len(mean), generator=generator, dtype=torch.float64)).long()
        repeated = rows.repeat_interleave(times)
        return repeated[torch.randperm(len(repeated), generator=generator)]

    return epoch


def falling_chance(positives: Logged, spread: float) -> Epoch:
    """Rows of an epoch: as many as there are positives, drawn with a higher probability for unpopular items."""
    counts = positives.item_counts()
    exponent = -((counts / max(counts.max(initial=0), 1) / spread) ** 2)[positives.items] / 2
    # relative to the rarest item, which gets 1: with a small spread all would round to zero
    chance = np.exp(exponent - exponent.max(initial=-np.inf))
    upper = torch.from_numpy(np.cumsum(chance) / max(chance.sum(), 1.0))

    def epoch(generator: torch.Generator) -> Tensor:
        drawn = torch.searchsorted(upper, torch.rand(len(upper), generator=generator, dtype=torch.float64), right=True)
        return drawn.clamp_(max=max(len(upper) - 1, 0))

    return epoch
