"""Hit rate against sampled negatives at k: is a held-out positive among the first k of itself and n other candidates?

    sampled_hit_rate(negatives=100)     sum_u sum_{i in S_u} P(i is among the first k) / sum_u |S_u|

Negatives are drawn from all candidates but the user's held-out positives. The expectation over draws follows from the
places in the full list (kernels/sampled_negatives.py), so the value has no sampling noise. In the slice popularity=low
it is HR_L of [bqs].

    sampled_hit_rate_drawn(negatives=100,seed=0)     the same with one draw of negatives for each positive

i is hit if U(hash(seed, user, item)) < P: as a draw of negatives has it, the same on every machine, and a hit at k is
one at every larger k. hit_rate is another metric, and this one is not recall: with 100 of 3,462 candidates, 10 of them
about recall@343.
"""

import numpy as np

from eval_engine.estimators.estimator import Doubles, Terms
from eval_engine.estimators.labelled import Labelled
from eval_engine.estimators.metrics.kernel import Kernel, MetricKernel, one
from eval_engine.kernels.sampled_negatives import chance_among_negatives
from eval_engine.kernels.splitmix64 import mix
from eval_engine.kernels.user_totals import user_totals
from eval_engine.metric import Parameter


def chances(labelled: Labelled, k: int, ties: str, negatives: float) -> Doubles:
    """The chance of each positive."""
    above, tied, population = labelled.negatives_ahead
    return chance_among_negatives(above, tied, population, k, round(negatives), ties)


def expected(labelled: Labelled, k: int, ties: str, negatives: float) -> Terms:
    """The expected hits of each user, and the number of positives."""
    return Terms(user_totals(labelled.offsets, chances(labelled, k, ties, negatives)), labelled.n_positive)


def drawn(labelled: Labelled, k: int, ties: str, negatives: float, seed: float) -> Terms:
    """The hits of one draw, and the number of positives."""
    chance = chances(labelled, k, ties, negatives)
    hits = np.where(np.isnan(chance), np.nan, uniform(labelled.column("key"), round(seed)) < chance)
    return Terms(user_totals(labelled.offsets, hits), labelled.n_positive)


def uniform(keys: Doubles, seed: int) -> Doubles:
    """A number in (0, 1) for each key of a pair."""
    mixed = mix(keys.view(np.uint64) ^ mix(np.array([seed % 2**64], np.uint64)))
    found: Doubles = ((mixed >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
    return found


NEGATIVES = Parameter(default=100.0, low=0.5, high=1e9)
QUANTITY = "the share of positives that are among the first k of themselves and the sampled negatives"
SAMPLED_HIT_RATE = MetricKernel(
    "sampled_hit_rate",
    at_k=True,
    means={"pairs": Kernel(expected, "positive", f"{QUANTITY}, expected over draws of negatives", top=one)},
    parameters={"negatives": NEGATIVES},
    compared_as=None,
)
SAMPLED_HIT_RATE_DRAWN = MetricKernel(
    "sampled_hit_rate_drawn",
    at_k=True,
    means={
        "pairs": Kernel(
            drawn, "positive", f"{QUANTITY}, of one draw for each positive", needs=frozenset({"keys"}), top=one
        )
    },
    parameters={"negatives": NEGATIVES, "seed": Parameter(default=0.0, low=-1.0, high=2.0**52)},
    compared_as=None,
)
