"""Simpson's paradox: pairs of models whose order in slices that hold most of the test pairs contradicts the whole.

    D_0, D_x      difference of two models in the whole and in slice x, each with a p-value
    family        one estimator, metric, cutoff and slicing: all pairs of models x (slices + whole), Holm
    s_x           share of the test pairs that slice x holds, sum_x s_x = 1

For models A and B, with `decided` = adjusted p below the level:

    reversed    A is decidedly better in the whole; slices with B decidedly better hold more than half: sum s_x > 1/2
    vanishes    slices with B decidedly better hold more than half; the whole has no difference, or A ahead, and decides
                for neither
    weak        not one of these, but the signs are so: D_0 favours A, and the slices whose D_x favours B hold more than
                half

[simpson] tables 1b and 2 to 4 are `reversed`, table 5 is `vanishes`. The slices of both models cannot hold more than
half, so a pair has one flag at most. A whole that favours B too, but does not decide, contradicts nothing: it has less
certainty than its slices, and no flag. A slice without p decides nothing; its share still counts in the total. A
difference of 0 has no sign.

Counts of independent groups, such as patients who get one of two treatments, have no pairs: `simpson_of_counts` tests
them by Fisher's exact test and adds the standardised rates E = sum_x s_x R_x (eqs 4, 5), s_x from both groups together.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from eval_engine.kernels.arrays import Bools, Floats
from eval_engine.statistics.multiplicity import holm

NONE, WEAK, VANISHES, REVERSED = "none", "weak", "vanishes", "reversed"
FLAGS = (REVERSED, VANISHES, WEAK)


class Reversals(NamedTuple):
    """The flag of every pair of models in one family."""

    flags: tuple[str, ...]  # (n_pairs,)
    favoured: npt.NDArray[
        np.int64
    ]  # (n_pairs,): 1 if the named slices favour the first model, -1 the second, 0 no flag
    slices: Bools  # (n_slices, n_pairs): the slices that contradict the whole
    share: Floats  # (n_pairs,): of the test pairs that they hold; NaN without a flag
    p_holm: Floats  # (1 + n_slices, n_pairs): of the whole, then of the slices

    @property
    def prevalence(self) -> float:
        """The share of pairs of models with a flag; NaN without pairs."""
        return float(np.mean([flag != NONE for flag in self.flags])) if self.flags else float("nan")


class CountReversal(NamedTuple):
    """The paradox of two groups of counts."""

    flag: str
    rates: Floats  # (2, n_strata)
    whole: Floats  # (2,): rates of all strata together
    standardised: Floats  # (2,): sum_x s_x R_x
    shares: Floats  # (n_strata,)
    p_holm: Floats  # (1 + n_strata,): of the whole, then of the strata


def simpson(difference: Floats, p: Floats, sizes: Floats, level: float) -> Reversals:
    """The flags of one family. difference, p: (1 + n_slices, n_pairs), the whole first, p not adjusted, NaN where
    undefined. sizes: the test pairs of each slice. level: of the family, such as 0.05.
    """
    difference, p, sizes = (np.asarray(x, np.float64) for x in (difference, p, sizes))
    if difference.ndim != 2 or difference.shape != p.shape or difference.shape[0] != sizes.size + 1:
        raise ValueError(
            f"differences and p-values of the whole and of {sizes.size} slices are expected for every pair of models, "
            f"found shapes {difference.shape} and {p.shape}"
        )
    if not (np.isfinite(sizes) & (sizes >= 0)).all():
        raise ValueError(f"the size of a slice is a number of test pairs, 0 or more, found {sizes.tolist()}")
    if not 0 < level < 1:
        raise ValueError(f"level must be between 0 and 1, found {level}")
    n_pairs = difference.shape[1]
    p_holm = holm(p.reshape(-1)).reshape(p.shape)
    sign = np.sign(np.nan_to_num(difference))
    decided = np.where(np.nan_to_num(p_holm, nan=1.0) < level, sign, 0.0)
    total = sizes.sum()
    flags = np.full(n_pairs, NONE, object)
    favoured = np.zeros(n_pairs, np.int64)
    slices = np.zeros((sizes.size, n_pairs), np.bool_)
    share = np.full(n_pairs, np.nan)
    for side in (1, -1):
        signs, sure = sign[1:] == side, decided[1:] == side  # (n_slices, n_pairs)
        held_signs, held_sure = (sizes @ chosen.astype(np.float64) for chosen in (signs, sure))  # test pairs
        reversed_here = (2 * held_sure > total) & (decided[0] == -side)
        vanishes_here = (2 * held_sure > total) & (decided[0] == 0) & (sign[0] != side)
        weak_here = (2 * held_signs > total) & (sign[0] == -side) & ~reversed_here & ~vanishes_here
        for name, chosen in ((REVERSED, reversed_here), (VANISHES, vanishes_here), (WEAK, weak_here)):
            flags[chosen] = name
            favoured[chosen] = side
            slices[:, chosen] = (signs if name == WEAK else sure)[:, chosen]
            share[chosen] = (held_signs if name == WEAK else held_sure)[chosen] / total
    return Reversals(tuple(flags), favoured, slices, share, p_holm)


def simpson_of_counts(successes: Floats, totals: Floats, level: float = 0.05) -> CountReversal:
    """The paradox of two independent groups, from successes and totals of shape (2, n_strata).

    >>> stones = simpson_of_counts([[81, 192], [234, 55]], [[87, 263], [270, 80]])
    >>> stones.flag, stones.standardised.round(4).tolist(), stones.whole.round(2).tolist()
    ('weak', [0.8325, 0.7789], [0.78, 0.83])
    """
    successes, totals = np.asarray(successes, np.float64), np.asarray(totals, np.float64)
    if successes.ndim != 2 or successes.shape[0] != 2 or successes.shape != totals.shape:
        raise ValueError(f"two groups of counts are expected, found shapes {successes.shape} and {totals.shape}")
    counts = np.stack([successes, totals])
    if not (np.isfinite(counts) & (counts >= 0) & (counts == np.floor(counts))).all() or (successes > totals).any():
        raise ValueError("successes and totals are whole numbers, 0 or more, and successes at most the total")
    if (totals == 0).any():
        group, stratum = np.argwhere(totals == 0)[0]
        raise ValueError(f"group {group} has nobody in stratum {stratum}, so it has no rate there. Merge strata.")
    with_whole = np.concatenate([counts.sum(axis=2, keepdims=True), counts], axis=2)  # (2, 2, 1 + n_strata)
    rates = with_whole[0] / with_whole[1]
    p = np.array([_fisher(*with_whole[:, :, n]) for n in range(rates.shape[1])])
    sizes = totals.sum(axis=0)
    found = simpson((rates[0] - rates[1])[:, None], p[:, None], sizes, level)
    shares = sizes / sizes.sum()
    return CountReversal(found.flags[0], rates[:, 1:], rates[:, 0], rates[:, 1:] @ shares, shares, found.p_holm[:, 0])


def _fisher(successes: Floats, totals: Floats) -> float:
    from scipy.stats import fisher_exact  # not at the top: its import takes a second, which workers need not spend

    return float(fisher_exact([successes.tolist(), (totals - successes).tolist()]).pvalue)
