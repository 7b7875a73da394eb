"""The interval of a ratio R = A / B over users, also where few users carry a hit, or few a miss.

    x = R^2 / se^2              the number of equal hits that would vary as much: of equal hits, the users with a hit
    y = (1 - R)^2 / se^2        the same for misses, where a user's numerator is at most the denominator

With many hits and misses, x and y at least MANY: R -+ t se (statistics/ratio.py). The linearised interval of few hits
is too narrow above and too low below, and without a hit it is [0, 0]. With fewer the interval comes from these numbers:

    rare        hits are rare events of size s = se^2 / R, as in precision of a few exposures, where one hit stands for
                N / e items. The gamma interval of a sum of such events [Fay, Feuer 1997]; above, one event more of size
                LARGER s, because a larger hit may not have been seen yet. Without a hit the size of one is not known:
                the upper end is that of the metric's range
    bounded     a user's numerator is at most the denominator, as in recall. Clopper and Pearson's interval of R n hits
                among n = R (1 - R) / se^2 users [Korn, Graubard 1998]; without a hit, or a miss, n is the effective
                number of users B^2 / sum b^2. A small share of hits (below SMALL) may be of unequal sizes, so the
                upper end is then at least the gamma interval's; likewise the lower end of a small share of misses
    of pairs    the numerator grows with pairs of hits of one user (MAP of a sample), which are rare and large: the
    event
                more is of size PAIR s

    heavy       hits are weighted by 1 / propensity (or by 1 / rank, as in MAP): the event more is of size HEAVY s,
    since the heaviest are the rarest

All with se t / z in place of se, t of as many degrees of freedom as there are users in effect: of few users the error
is itself not known well. Every interval is cut to the metric's range, 0 to `top`. A value outside, which an unbiased
estimator may have, stays: the interval then ends at the value.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv, gammaincinv, ndtri, stdtrit

Doubles = npt.NDArray[np.float64]

MANY = 100.0  # hits or misses from which the linearised interval holds
LARGER = 1.5  # the size of a hit that was not seen, in units of those seen
SMALL = 0.25  # a share of hits or misses up to which they may be of very unequal size
PAIR = 10.0  # that of a pair of hits
HEAVY = 5.0  # that of a hit with a large weight


class Range(NamedTuple):
    """What values an estimate can take."""

    top: float = np.inf  # of the metric; the lower end is 0. inf: not known, nothing is cut
    bounded: bool = False  # a user's numerator is at most the denominator
    pairs: bool = False  # pairs of hits of a user count
    heavy: bool = False  # hits have weights of a long tail
    counted: bool = True  # the value is a sum of hits; else its interval is cut to the range, and no more


UNKNOWN_RANGE = Range()


def interval(
    value: npt.ArrayLike,
    standard_error: npt.ArrayLike,
    users: npt.ArrayLike,
    degrees: npt.ArrayLike,
    confidence: float,
    of: Range,
) -> tuple[Doubles, Doubles]:
    """The ends of the intervals of estimates; NaN where they are undefined. users: the effective number of users,
    B^2 / sum b^2; degrees: of freedom of the standard error.

    >>> low, high = interval(0.0, 0.0, 50, 49, 0.95, Range(1.0, True))
    >>> float(low), round(float(high), 4)  # 50 users without a hit
    (0.0, 0.0711)
    """
    r, se, n, free = np.broadcast_arrays(*(np.asarray(x, np.float64) for x in (value, standard_error, users, degrees)))
    tail = (1 - confidence) / 2
    with np.errstate(all="ignore"):
        width = stdtrit(np.maximum(free, 1), (1 + confidence) / 2) * se
        low, high = np.asarray(r - width), np.asarray(r + width)
        if not np.isfinite(of.top):
            return low, high
        if not of.counted:
            return np.minimum(np.maximum(low, 0.0), r), np.maximum(np.minimum(high, of.top), r)
        larger = PAIR if of.pairs else HEAVY if of.heavy else LARGER
        t = stdtrit(np.maximum(np.minimum(free, np.where(n > 1, n - 1, 1.0)), 1.0), (1 + confidence) / 2)
        hits = np.where(se > 0, r * r / (se * se), np.where(r > 0, n, 0.0))
        misses = np.where(se > 0, (1 - r) ** 2 / (se * se), np.where(r < 1, n, 0.0))
        se = se * t / ndtri((1 + confidence) / 2)
        if of.bounded:
            few = ((hits < MANY) | (misses < MANY)) & (r >= 0) & (r <= 1)
            sure = (r <= 0) | (r >= 1) | ~(se > 0)
            size = np.where(sure, n, r * (1 - r) / (se * se))
            some, others = size * r, size * (1 - r)
            below = np.where(some > 0, betaincinv(np.where(some > 0, some, 1.0), others + 1, tail), 0.0)
            above = np.where(others > 0, betaincinv(some + 1, np.where(others > 0, others, 1.0), 1 - tail), 1.0)
            unequal = ~sure & (hits < MANY) & (r < SMALL), ~sure & (misses < MANY) & (1 - r < SMALL)
            above = np.where(unequal[0], np.maximum(above, _at_most(r, se, tail, larger)), above)
            below = np.where(unequal[1], np.minimum(below, 1 - _at_most(1 - r, se, tail, larger)), below)
        else:
            few = hits < MANY
            some = np.where(hits > 0, r * r / (se * se), 1.0)
            below = np.where(hits > 0, se * se / r * gammaincinv(some, tail), 0.0)
            above = np.where(hits > 0, _at_most(r, se, tail, larger), of.top)
        few = few & ~np.isnan(se)
        low, high = np.where(few, below, low), np.where(few, above, high)
        # a value beyond the range stays inside its interval; NaN stays
        low, high = np.minimum(np.maximum(low, 0.0), r), np.maximum(np.minimum(high, of.top), r)
    undefined = np.isnan(r) | np.isnan(se)
    return np.where(undefined, np.nan, low), np.where(undefined, np.nan, high)


def _at_most(r: Doubles, se: Doubles, tail: float, larger: float) -> Doubles:
    """The upper end of a sum of rare events, with one more, larger than those seen."""
    more = larger * se * se / r
    spread = (se * se + more * more) / (r + more)
    end: Doubles = spread * gammaincinv((r + more) / spread, 1 - tail)
    return end
