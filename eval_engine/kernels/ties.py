"""The chance q_k that a labelled item is in the top k, from its rank facts.

    strict       q = 1 if above + tied + 1 <= k       the papers' rule: its score is higher than that of the (k+1)-th item
    expected     q = clip((k - above) / (tied + 1), 0, 1)       the mean over random orders of the tied items
    optimistic   q = 1 if above + 1 <= k              the upper bound, as strict is the lower

A pair whose place is not known (a partial list: it has no score, and stands below all that have one) has q = 0 if k <= above, else NaN.
above + tied + 1 <= candidates, so all three put everything into the top k once k >= candidates. A constant scorer has strict recall 0
and expected recall k / candidates.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from eval_engine.kernels.rank_facts import UNKNOWN, RankFacts

Chances = npt.NDArray[np.float64]


def strict_in_top_k(facts: RankFacts, k: int) -> Chances:
    """1 where the item is in the top k however ties are broken, else 0."""
    return (facts.above.astype(np.int64) + facts.tied < k).astype(np.float64)


def expected_in_top_k(facts: RankFacts, k: int) -> Chances:
    """The share of tie-breaks that put the item into the top k."""
    return np.clip((k - facts.above.astype(np.float64)) / (np.maximum(facts.tied, 0) + 1.0), 0, 1)


def optimistic_in_top_k(facts: RankFacts, k: int) -> Chances:
    """1 where some tie-break puts the item into the top k, else 0."""
    return (facts.above < k).astype(np.float64)


IN_TOP_K: dict[str, Callable[[RankFacts, int], Chances]] = {
    "expected": expected_in_top_k,
    "strict": strict_in_top_k,
    "optimistic": optimistic_in_top_k,
}


def in_top_k(facts: RankFacts, k: int, ties: str) -> Chances:
    """The chance of each pair to be in the top k under the named tie policy, shape (n_pairs,)."""
    if k < 1:
        raise ValueError(f"k must be at least 1, found {k}")
    if ties not in IN_TOP_K:
        raise ValueError(f"unknown tie policy {ties!r}: one of {', '.join(IN_TOP_K)}")
    chances = IN_TOP_K[ties](facts, k)
    unknown = facts.tied == UNKNOWN
    chances[unknown] = np.where(k <= facts.above[unknown], 0.0, np.nan)
    return chances
