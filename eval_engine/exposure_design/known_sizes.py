"""Pooled recall, and how much better one model is than another, with sizes that are known taken as known.

    A = sum y q / pi      B = sum q / pi      C = sum y / pi      D = sum 1 / pi            over all exposures of all
    users positives in the top K   M  = K n A / B        A estimates it too, but B, which is K n on average, errs as A
    does
    positives                N+ = (sum N_u) C / D  likewise
    recall = M / N+          lift of a over b = M_a / M_b: it needs no N+

y: 1 of a positive; q: the chance that the item is in the top K; pi: the probability of being shown, e / N if drawn
uniformly. Sizes are pooled over users: over the few exposures of one user such a ratio would be far off. Consistent;
standard errors are linearised over users, n of them:

    recall_u = f a_u + recall (d_u / D - b_u / B - c_u / C - N_u / sum N + 1 / n),   f = K n D / (B C sum N)

a_u .. d_u: the user's part of A .. D. Differences are paired over users; the interval of a lift is that of its
logarithm. Undefined is NaN: no positive, or no exposure in the top K.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import stdtr, stdtrit

from eval_engine.estimators.labelled import Labelled
from eval_engine.kernels.arrays import Bools
from eval_engine.kernels.rank_facts import RankFacts

Doubles = npt.NDArray[np.float64]


class KnownSizes(NamedTuple):
    """A value, its standard error and interval."""

    value: float
    standard_error: float
    low: float
    high: float
    p: float = math.nan  # of differences and lifts: two-sided, of no difference


class Parts(NamedTuple):
    """Each user's parts of the sums, (n_users,) each."""

    hits: Doubles  # sum y q / pi
    in_top: Doubles  # sum q / pi
    positives: Doubles  # sum y / pi
    items: Doubles  # sum 1 / pi
    candidates: Doubles  # N_u


def parts(facts: RankFacts, k: int, positive: Bools | None = None, ties: str = "expected") -> Parts:
    """The parts of a model's facts."""
    own = Labelled(facts, positive)
    items = own.n_labelled * own.scale if own.weight is None else facts.per_user(1 / facts.probability)  # type: ignore[operator]
    hits = own.gained("hits", k, ties) * own.scale
    return Parts(hits, own.gained_by_all("hits", k, "expected"), own.total * own.scale, items, own.candidates)


def recall_known_sizes(
    facts: RankFacts, k: int, positive: Bools | None = None, ties: str = "expected", confidence: float = 0.95
) -> KnownSizes:
    """The share of all positives that are in their user's top k."""
    value, influence = _recall(parts(facts, k, positive, ties), k)
    return _interval(value, influence, confidence, False)


def recall_difference(
    facts_a: RankFacts,
    facts_b: RankFacts,
    k: int,
    positive: Bools | None = None,
    ties: str = "expected",
    confidence: float = 0.95,
) -> KnownSizes:
    """Pooled recall of a less that of b, paired over users; both of the same exposures."""
    _same_pairs(facts_a, facts_b)
    (a, own), (b, other) = (_recall(parts(facts, k, positive, ties), k) for facts in (facts_a, facts_b))
    return _interval(a - b, own - other, confidence, True)


def lift(
    facts_a: RankFacts,
    facts_b: RankFacts,
    k: int,
    positive: Bools | None = None,
    ties: str = "expected",
    confidence: float = 0.95,
) -> KnownSizes:
    """Positives in the top k of a over those in the top k of b: 1.02 is 2 % more, of precision and of pooled recall."""
    _same_pairs(facts_a, facts_b)
    logs, influence = [], []
    for facts in (facts_a, facts_b):
        own = parts(facts, k, positive, ties)
        hits, in_top = own.hits.sum(), own.in_top.sum()
        if not (hits > 0 and in_top > 0):
            return KnownSizes(*(math.nan,) * 5)
        logs.append(math.log(hits / in_top))
        influence.append(own.hits / hits - own.in_top / in_top)
    found = _interval(logs[0] - logs[1], influence[0] - influence[1], confidence, True)
    value = math.exp(found.value)
    return KnownSizes(value, value * found.standard_error, math.exp(found.low), math.exp(found.high), found.p)


def _recall(own: Parts, k: int) -> tuple[float, Doubles]:
    """The recall, and each user's linearised part of its error."""
    n, (a, b, c, d, frame) = own.hits.size, (float(x.sum()) for x in own)
    if not (b > 0 and c > 0):
        return math.nan, np.full(n, math.nan)
    factor = k * n * d / (b * c * frame)
    rest = own.items / d - own.in_top / b - own.positives / c - own.candidates / frame + 1 / n
    return factor * a, factor * own.hits + factor * a * rest


def _interval(value: float, influence: Doubles, confidence: float, compared: bool) -> KnownSizes:
    n = influence.size
    if n < 2 or math.isnan(value):
        return KnownSizes(value, *(math.nan,) * 4)
    error = math.sqrt(n / (n - 1) * float((influence**2).sum()))
    width = float(stdtrit(n - 1, (1 + confidence) / 2)) * error
    p = math.nan
    if compared:
        p = 2 * float(stdtr(n - 1, -abs(value) / error)) if error > 0 else float(value == 0)
    return KnownSizes(value, error, value - width, value + width, p)


def _same_pairs(facts_a: RankFacts, facts_b: RankFacts) -> None:
    same = np.array_equal(facts_a.offsets, facts_b.offsets) and np.array_equal(facts_a.value, facts_b.value)
    if not same or (facts_a.probability is None) != (facts_b.probability is None):
        raise ValueError("the two models must be ranked on the same exposures of the same users, in the same order")
