"""Balanced URE: the macro mean of recall over all users who have a positive, from the users whose random exposures show
one.

e random exposures of a user with N+ positives among N candidates contain n positives; n is hypergeometric. m / n is
unbiased for the user's recall whatever n > 0 is, but users with small N+ mostly have n = 0 and drop out. Each user is
therefore weighted by g(n), chosen so that the users with n > 0 represent all users with a positive:

    estimate = sum_u g(n_u) m_u / n_u  /  sum_u g(n_u)
    unbiased if h(N+) = sum_{n>0} P(n | N+) g(n) is the same for every N+ > 0

1. The law of N+. Each user's positives are drawn at a rate rho; the log density of log rho is a polynomial of degree 4,
   or 6 where users have 40 exposures or more, which show more of its shape. It is fitted to the counts of n, zeros
   included, by penalised maximum likelihood (deconvolution by an exponential family [Efron 2016]; the NPMLE, a few
   spikes, would leave h free between them). N+ given rho is binomial, so that users with no positive at all are part of
   the law.
2. The weights. Recall as a function of N+ is taken to vary smoothly, as a random function of log N+ with covariance
   tau^2 exp(-(x - y)^2 / 2 l^2). Then

    mean squared error of g = d' C d + (1 / n_users) sum_n P(n) v(n) g(n)^2 / P(N+ > 0)^2,
    d(N+) = P(N+) (h(N+) - 1)

   is a quadratic form, with C that covariance (tau = SPREAD of the mean recall, l = LENGTH) and v(n) = V0 + V1 / n
   the variance of a user's ratio given n, in units of the squared mean recall: the more users there are, the more bias
   the weights correct. 1 / tau^2 is the lambda of ridge regression. C and v are constants, not fitted: weights follow
   from the exposures alone, so a model's estimate does not depend on which other models are in the run.
3. The standard error is a jackknife over groups of users that refits law and weights without each group: the weights
   are estimated, and their error is part of the standard error. The remaining bias d' C d is added to its square, with
   tau = LEFT_SPREAD and l = LEFT_LENGTH: a rougher recall than the weights reckon with; or with the slope of
   the model's own recall by log N+, as its ratios by n show it, if that makes it larger. The interval is
   Student's with as many degrees of freedom as the sum has [Satterthwaite 1946]. Of few exposures the bias is the
   larger part: where hardly anyone shows two positives, the weights can correct little.

In: counts of users and sums of m / n and (m / n)^2 by (e, N, n): they merge, and their size does not grow with the
number of users. Weights are the same for all models, so that differences are paired. Users with different e or N (both
to two digits) share one law; n above 16 is lumped, since m / n is unbiased for any n.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import bdtr, gammaln, stdtrit

from eval_engine.kernels.arrays import Bools, Ints
from eval_engine.statistics.law_of_rates import RATES, density, fit_laws
from eval_engine.statistics.paired import Paired

Doubles = npt.NDArray[np.float64]

DEGREE, FINE_DEGREE = 4, 6  # of the polynomial in the law: with few exposures, and with FINE_EXPOSURES or more
FINE_EXPOSURES = 40
SPREAD, LENGTH = 0.6, 2.0  # tau, as a share of the mean recall, and l, in units of log N+, of the weights
LEFT_SPREAD, LEFT_LENGTH = 0.8, 1.5  # the same of the bias that is left
LEFT_SLOPE = 0.75  # standard deviation of the bias that a slope of recall leaves, in units of that bias
V0, V1 = 0.5, 4.0  # variance of a ratio given n: that of one hit at a recall of 0.2, and what differs between users
EXACT = 16  # largest n that is not lumped
KEPT = 512  # groups of users whose weights are kept: those of every slice, for the next cutoff


class Strata(NamedTuple):
    """Users by number of random exposures, candidates and exposed positives. A unit is a group of users that the
    jackknife leaves out.
    """

    exposures: Ints  # (n_strata,)
    candidates: Ints  # (n_strata,)
    positives: Ints  # (n_strata,): the first n of a lump, 0 too
    users: Doubles  # (n_units, n_strata)
    sums: Doubles  # (n_models, n_units, n_strata): of m / n
    squares: Doubles  # (n_models, n_units, n_strata): of (m / n)^2


class Balanced(NamedTuple):
    """The estimate of each model with its errors, and the remaining bias."""

    models: Paired  # errors: by jackknife unit
    bias: Doubles  # (n_models,): standard deviation of the bias that the weights could not remove

    def standard_errors(self) -> Doubles:
        """(n_models,): standard error of sampling and of the remaining bias together."""
        errors: Doubles = np.sqrt(np.diag(self.models.covariance) + self.bias**2)
        return errors

    def degrees(self) -> Doubles:
        """(n_models,): degrees of freedom of the errors. The jackknife variance has n_units - 1; the variance of the
        bias is not estimated from units.
        """
        errors, sampling = self.standard_errors(), np.diag(self.models.covariance)
        degrees: Doubles = max(self.models.n_units - 1, 1) * np.divide(
            errors**4, sampling**2, out=np.ones(errors.size), where=sampling > 0
        )
        return degrees

    def half_widths(self, confidence: float) -> Doubles:
        """(n_models,): half-widths of the intervals, where hits are many (few_hits.py)."""
        widths: Doubles = self.standard_errors() * stdtrit(self.degrees(), (1 + confidence) / 2)
        return widths


class Cells(NamedTuple):
    """Strata with their probability laws."""

    grid: Doubles  # (n_grid,): values of N+ > 0
    given_rate: Doubles  # (n_rates, n_strata): P(stratum | rho), users of its (e, N) given
    joint: Doubles  # (n_rates, n_grid, n_strata): P(N+, stratum | rho) for N+ > 0, users of its (e, N) given
    has_positive: Doubles  # (n_rates, n_grid, n_groups): P(N+ | rho)
    group: Ints  # (n_strata,): its (e, N)


def two_digits(x: npt.ArrayLike) -> Ints:
    """Whole numbers rounded to two significant digits.

    >>> two_digits([7, 99, 104, 785]).tolist()
    [7, 99, 100, 780]
    """
    number = np.asarray(x, np.int64)
    unit = 10 ** np.maximum(np.floor(np.log10(np.maximum(number, 1))).astype(np.int64) - 1, 0)
    rounded: Ints = np.rint(number / unit).astype(np.int64) * unit
    return rounded


@lru_cache(maxsize=1)
def lumps() -> Ints:
    """The first n of each lump: 0, 1, .. 16, then each a quarter larger."""
    starts = list(range(EXACT + 1))
    while starts[-1] < 2**31:
        starts.append(math.ceil(starts[-1] * 1.25))
    return np.array(starts)


def lump_of(n: npt.ArrayLike) -> Ints:
    """The first number of the lump that n is in.

    >>> lump_of([0, 3, 16, 19, 22]).tolist()
    [0, 3, 16, 16, 20]
    """
    found: Ints = lumps()[np.searchsorted(lumps(), np.asarray(n), side="right") - 1]
    return found


def balanced(strata: Strata) -> Balanced:
    """The estimate of each model; NaN where it is undefined."""
    n_models, n_units = strata.sums.shape[:2]
    undefined = Balanced(
        Paired(np.full(n_models, np.nan), np.full((n_models, n_units), np.nan), 0), np.full(n_models, np.nan)
    )
    users = strata.users.sum(axis=0)
    seen = (strata.positives > 0) & (users > 0)
    if not seen.any() or strata.exposures.max(initial=0) < 2:
        return undefined
    kinds = tuple(tuple(column.tolist()) for column in strata[:3])
    mean = strata.sums.sum(axis=(1, 2)) / users[seen].sum()
    units = np.flatnonzero(strata.users[:, seen].sum(axis=1) > 0)
    found = _solved(kinds, strata.users.tobytes(), n_units)
    everyone, *without = found.weights
    total = strata.sums.sum(axis=1)
    whole = everyone.values(total[None])[0]
    values = np.array([whole] * n_units, np.float64)
    for one in without:
        values[one.units] = one.values(total - strata.sums[:, one.units].transpose(1, 0, 2))
    errors = np.zeros((n_models, n_units))
    n = units.size
    if n > 1:
        errors[:, units] = ((n - 1) / n * (values[units].mean(axis=0) - values[units])).T
    trend = LEFT_SLOPE * np.abs(_slopes(found.expected, total[:, seen], users[seen]) * found.slope)
    return Balanced(Paired(whole, errors, n), np.maximum(found.smooth * np.abs(mean), trend))


def _slopes(x: Doubles, sums: Doubles, n: Doubles) -> Doubles:
    """(n_models,): the slope of a model's recall by log N+: that of its mean ratios by the expected log N+ of their
    strata, x. n: users of each.
    """
    apart = x - n @ x / n.sum()
    spread = float(n @ apart**2)
    if not spread > 1e-9 * n.sum():
        return np.zeros(len(sums))
    slopes: Doubles = sums @ apart / spread
    return slopes


class _Weights(NamedTuple):
    """The weights of several groups of users, who have positives in the same strata."""

    units: list[int]  # that each group lacks; none: all users
    seen: Bools  # (n_strata,): strata with weights
    g: Doubles  # (n, n_seen, 1)
    total: Doubles  # (n, 1): the weight of all users
    left: Doubles  # (n, n_grid): the weight of each N+ beyond its share

    def values(self, sums: Doubles) -> Doubles:
        """The estimates of models, (n, n_models), from their sums over each group, (n, n_models, n_strata)."""
        found: Doubles = (sums[:, :, self.seen] @ self.g)[:, :, 0] / self.total
        return found


class _Solved(NamedTuple):
    """What follows from the exposures alone: the same for every cutoff and model."""

    weights: list[_Weights]  # of all users, then without each unit whose removal leaves a user with a positive
    expected: Doubles  # (n_seen,): expected log N+ of each stratum with a positive
    smooth: float  # standard deviation of the bias that is left, where recall is smooth, in units of its mean
    slope: float  # the bias that a slope of 1 by log N+ leaves


@lru_cache(maxsize=KEPT)
def _solved(kinds: tuple[tuple[int, ...], ...], users: bytes, n_units: int) -> _Solved:
    positives, cells = np.array(kinds[2]), _cells(*kinds)
    by_unit = np.frombuffer(users, np.float64).reshape(n_units, -1)
    total, laws, setting = by_unit.sum(axis=0), _laws(kinds, by_unit), _setting(cells, positives)
    seen, law = (positives > 0) & (total > 0), laws[-1]
    weights = [_weights(cells, seen, [], total[None], law[None], setting)]
    known = [unit for unit in laws if unit >= 0]
    rest = total - by_unit[known]
    counted = (positives > 0) & (rest > 0)
    for which in np.unique(counted, axis=0) if known else ():  # one, unless a unit has all users of a stratum
        some = np.flatnonzero((counted == which).all(axis=1))
        own = [known[n] for n in some]
        weights.append(_weights(cells, which, own, rest[some], np.stack([laws[unit] for unit in own]), setting))
    posterior = np.tensordot(density(law), cells.joint, 1)[:, seen]
    expected = np.log(cells.grid) @ posterior / np.maximum(posterior.sum(axis=0), 1e-300)
    left = weights[0].left[0]
    smooth = math.sqrt(max(float(left @ setting.smooth @ left), 0.0))
    return _Solved(weights, expected, smooth, float(left @ np.log(cells.grid)))


def _laws(kinds: tuple[tuple[int, ...], ...], by_unit: Doubles) -> dict[int, Doubles]:
    """The law of all users (-1), and without each unit whose removal leaves a user with a positive."""
    exposures, _, positives = (np.array(column) for column in kinds)
    total, cells = by_unit.sum(axis=0), _cells(*kinds)
    most = int(exposures.max())
    degree = min(FINE_DEGREE if most >= FINE_EXPOSURES else DEGREE, most)
    law = fit_laws(cells.given_rate, total[None], np.zeros(degree))[0]
    shows, rest = positives > 0, total - by_unit
    units = np.flatnonzero((by_unit[:, shows].sum(axis=1) > 0) & (rest[:, shows] > 0).any(axis=1))
    return {-1: law} | dict(zip(units.tolist(), fit_laws(cells.given_rate, rest[units], law), strict=True))


@lru_cache(maxsize=64)
def _cells(exposures: tuple[int, ...], candidates: tuple[int, ...], positives: tuple[int, ...]) -> Cells:
    kinds, group = np.unique(np.array([exposures, candidates]), axis=1, return_inverse=True)
    group, most = group.reshape(-1), max(candidates)
    grid = np.unique(
        np.concatenate([np.arange(0, min(most, 40) + 1), np.round(np.geomspace(min(most, 40), most, 40))])
    ).astype(np.int64)
    rates = np.geomspace(0.1 / most, 0.95, RATES)
    edges = np.concatenate([[-0.5], (grid[1:] + grid[:-1]) / 2, [most + 0.5]])
    joint = np.zeros((RATES, grid.size, len(positives)))
    has = np.zeros((RATES, grid.size, kinds.shape[1]))
    ends = dict(zip(lumps().tolist(), [*(lumps()[1:] - 1).tolist(), 2**31], strict=True))
    for number, (e, items) in enumerate(kinds.T):
        has[:, :, number] = np.diff(_binomial(np.floor(edges)[:, None], items, rates), axis=0).T
        fits = np.minimum(grid, items)
        for at in np.flatnonzero(group == number):
            low, high = min(positives[at], int(e)), min(ends[positives[at]], int(e))
            joint[:, :, at] = has[:, :, number] * sum(_hypergeometric(n, items, fits, e) for n in range(low, high + 1))
    return Cells(grid[1:].astype(np.float64), joint.sum(axis=1), joint[:, 1:], has[:, 1:], group)


def _binomial(n: Doubles, trials: int, rate: Doubles) -> Doubles:
    """P(at most n successes). Importing scipy.stats would take a worker one second."""
    chance: Doubles = np.where(n < 0, 0.0, np.where(n >= trials, 1.0, bdtr(np.clip(n, 0, trials), trials, rate)))
    return chance


def _hypergeometric(n: int, candidates: int, positives: Ints, exposures: int) -> Doubles:
    """P(n of the exposed are positives), for each number of positives."""
    possible = (n <= positives) & (exposures - n <= candidates - positives)
    good = np.where(possible, positives, n)
    bad = np.where(possible, candidates - positives, exposures)
    logarithm = _choose(good, n) + _choose(bad, exposures - n) - _choose(candidates, exposures)
    return np.where(possible, np.exp(np.minimum(logarithm, 0.0)), 0.0)


def _choose(n: npt.ArrayLike, k: int) -> Doubles:
    """log C(n, k)."""
    total = np.asarray(n, np.float64)
    logarithm: Doubles = gammaln(total + 1) - gammaln(k + 1.0) - gammaln(total - k + 1)
    return logarithm


class _Setting(NamedTuple):
    covariance: Doubles  # (n_grid, n_grid) of relative recall, its mean free
    smooth: Doubles  # the same for the bias that is left, without the mean
    variance: Doubles  # (n_strata,): of a relative ratio given n


def _setting(cells: Cells, positives: Ints) -> _Setting:
    """The covariance and v, in units of a model's mean recall."""
    apart = (np.log(cells.grid)[:, None] - np.log(cells.grid)) ** 2
    weighed = SPREAD**2 * np.exp(-apart / (2 * LENGTH**2))
    left = LEFT_SPREAD**2 * np.exp(-apart / (2 * LEFT_LENGTH**2))
    return _Setting(weighed + 100.0, left, V0 + V1 / np.maximum(positives, 1))


def _shares(cells: Cells, users: Doubles) -> Doubles:
    """The share of users in each (e, N), (n, n_groups)."""
    members = (cells.group[:, None] == np.arange(cells.has_positive.shape[2])).astype(np.float64)
    shares: Doubles = users @ members / users.sum(axis=1, keepdims=True)
    return shares


def _weights(cells: Cells, seen: Bools, units: list[int], users: Doubles, laws: Doubles, setting: _Setting) -> _Weights:
    """The best weights for several groups of users at once: users (n, n_strata), laws (n, degree)."""
    share, rates = _shares(cells, users), density(laws)
    n_rates, n_grid, n_groups = cells.has_positive.shape
    has = (rates @ cells.has_positive.reshape(n_rates, -1)).reshape(-1, n_grid, n_groups)
    law_of_positives = (has @ share[:, :, None])[:, :, 0]  # P(N+), N+ > 0
    some = law_of_positives.sum(axis=1)
    joint = (rates @ cells.joint[:, :, seen].reshape(n_rates, -1)).reshape(len(users), n_grid, -1)
    joint = joint * (share[:, cells.group[seen]] / some[:, None])[:, None, :]
    weight = law_of_positives / some[:, None]
    noise = joint.sum(axis=1) * setting.variance[seen] / (users.sum(axis=1) * some)[:, None]
    spread = joint.transpose(0, 2, 1) @ setting.covariance
    square = spread @ joint + (noise + 1e-15)[:, :, None] * np.eye(noise.shape[1])
    g = np.linalg.solve(square, spread @ weight[:, :, None])
    moved = (joint @ g)[:, :, 0]
    left = moved / moved.sum(axis=1, keepdims=True) - weight
    return _Weights(units, seen, g, (users[:, None, seen] @ g)[:, 0], left)
