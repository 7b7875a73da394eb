"""Whether designed exposures were shown with the probabilities that they came with.

Over the exposures of a user, sum of q / pi estimates the size of the user's top K, which is K: q is the chance that an
item is in the top K of a model, pi that it is shown. The mean over users must be K within its error, for any model; it
is below K where planned items were not shown, and off where pi is not what the item was shown with.

    z = (mean - K) / se          se: standard deviation over users / sqrt(n)

The sums are the denominators of `designed_mean_known` precision. Users whose frame has fewer than K items are not
expected.
"""

import math
from typing import NamedTuple

from scipy.special import ndtr


class TopSum(NamedTuple):
    """The sum of q / pi over the top K of a model."""

    model: str
    k: int
    mean: float  # over users
    z: float
    p: float  # two-sided


def top_sum(model: str, k: int, n_users: int, b: float, bb: float) -> TopSum:
    """From the sums of b and b^2 over n users."""
    mean = b / n_users if n_users else math.nan
    variance = (bb - n_users * mean**2) / (n_users * (n_users - 1)) if n_users > 1 else math.nan
    if not variance > 0:
        return TopSum(model, k, mean, math.nan, math.nan)
    z = (mean - k) / math.sqrt(variance)
    return TopSum(model, k, mean, z, 2 * float(ndtr(-abs(z))))


def off(sums: list[TopSum], level: float) -> list[str]:
    """A sentence for each cutoff at which some model is off, by Bonferroni over all models and cutoffs."""
    bad = [one for one in sums if one.p * len(sums) < level]
    lines = []
    for k in sorted({one.k for one in bad}):
        own = [one for one in bad if one.k == k]
        worst = max(own, key=lambda one: abs(one.z))
        lines.append(
            f"Designed exposures: the sum of 1 / probability over the top {k} is {worst.mean:.3f} for {worst.model} (z = "
            f"{worst.z:.1f}; {len(own)} models in all), and must be {k} on average. Items were not shown as planned, or "
            "their probabilities are not those of the plan: compare `shown` with exposure_plan."
        )
    return lines
