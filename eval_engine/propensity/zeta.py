"""The Hurwitz zeta function on a log scale: zeta(s, q) = sum over k >= 0 of (q + k)^-s, s > 1, q > 0.

    ln zeta(s, q) = -s ln q + scaled_log_zeta(s, q)

zeta(200, 1e6) is 1e-1197, which no double holds, and scipy's zeta is 0 there. So the leading factor q^-s stays apart,
and what remains is a number near 1 or q / (s - 1):

    q^s zeta(s, q) = sum_{k < N} (q / (q+k))^s
                   + (q / a)^s [ a / (s-1) + 1/2 + sum_j B_2j / (2j)! (s)_{2j-1} a^{1-2j} ]

with a = q + N (Euler and Maclaurin), (s)_m = s (s+1) .. (s+m-1). N is 0 where q is large beside s, else 20. Either the
series converges fast, or the factor (q / a)^s makes its error small: the relative error is below 1e-13 for 1 < s <= 1e5
and q >= 1. s may be complex, for derivatives.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

DIRECT = 20  # terms that are summed one by one
SERIES = (  # B_2j / (2j)!
    1 / 12,
    -1 / 720,
    1 / 30240,
    -1 / 1209600,
    1 / 47900160,
    -691 / 1307674368000,
    1 / 74724249600,
    -3617 / 10670622842880000,
)


def scaled_log_zeta(s: npt.ArrayLike, q: npt.ArrayLike) -> npt.NDArray[Any]:
    """ln(q^s zeta(s, q)); s and q of one shape, or scalars."""
    s, q = np.broadcast_arrays(np.asarray(s), np.asarray(q, float))
    value = np.empty(s.shape, np.result_type(s, float))
    large = q >= 2 * (s.real + 2 * len(SERIES))
    value[large] = np.log(_series(s[large], q[large]))
    s, q = s[~large], q[~large]
    k = np.arange(DIRECT)[:, None]
    rest = np.exp(-s * np.log1p(DIRECT / q)) * _series(s, q + DIRECT)
    value[~large] = np.log(np.exp(-s * np.log1p(k / q)).sum(0) + rest)
    return value


def _series(s: npt.NDArray[Any], a: npt.NDArray[np.float64]) -> npt.NDArray[Any]:
    """a^s zeta(s, a), for a large beside s."""
    total = a / (s - 1) + 0.5
    power = s / a
    for j, coefficient in enumerate(SERIES):
        total = total + coefficient * power
        power = power * ((s + 2 * j + 1) / a) * ((s + 2 * j + 2) / a)
    return total
