"""Agreement between two sets of model values over a panel of models.

    pearson     correlation of the values: do the distances between models agree?
    kendall     tau-b = (C - D) / sqrt((P - T_x)(P - T_y)): does the order agree?
                C, D: pairs in the same and in opposite order, P: all pairs, T: pairs tied in one
    n_flipped   D: pairs of models that the two sets put in strictly opposite order

Models without a value in one of the two (NaN) are left out. Undefined, with a reason: fewer than 3 models, or all
models with the same value.

**Over models**: leave each model out in turn (jackknife). With c_m the correlation without model m, of n models,

    se^2 = (n - 1)/n sum_m (c_m - mean c)^2

`kendall_difference` does so for the difference of two taus with the same x, and tests it by t with n - 1 degrees of
freedom.

**Over users**: x*, y* are bootstrap replicates of the values, with the same weights of user buckets for all models and
both sets (bootstrap.py). Noise makes the replicates' agreement lower than that of x and y by about as much as that of x
and y is lower than that of the true values, so quantiles are reflected:

    interval = [2 c - q_{(1 + confidence)/2}, 2 c - q_{(1 - confidence)/2}] of c* = c(x*, y*), cut at -1 and 1

`noise` is the standard error of the models' values over their spread. Values are taken relative to the panel's mean,
because an error that all models share changes no order:

    noise = sqrt(mean_m Var*(x*_m - mean x*)) / sd_m(x)

Where it exceeds 0.3 in x or y the interval does not cover: it is undefined, with the reason.

**Error** of x against the reference y, D = x - y of each model:

    bias_squared = (mean_m D)^2 - Var*(mean_m D*)            the error that all models share; it moves no order
    error_spread = Var_m(D) - mean* Var_m(D* - D)            the error that differs between models

Both are corrected for the noise over users, so of an unbiased x they are 0 on average, and may be below 0.
"""

import math
from typing import NamedTuple

import numpy as np
from scipy.special import stdtr

from eval_engine.kernels.arrays import Bools, Floats

FEWEST = 3  # two models always agree perfectly, or not at all
MOST_NOISE = 0.3  # of the spread of models: beyond it the interval over users does not cover
NUMBERS_AT_ONCE = 1 << 22  # pairs of models times replicates


class Agreement(NamedTuple):
    """Agreement between two sets of values of the same models."""

    n_models: int  # with a value in both
    n_flipped: int
    pearson: float
    kendall: float
    reason: str | None  # why there is no correlation
    n_tied: int = 0  # pairs of models that one of the two sets does not order


class Interval(NamedTuple):
    """Intervals over users of the two correlations; NaN with a reason."""

    kendall: tuple[float, float]
    pearson: tuple[float, float]
    noise: float  # the larger of the two sets'
    reason: str | None


class Error(NamedTuple):
    """How far values are from those of a reference."""

    bias_squared: float
    error_spread: float


class TauDifference(NamedTuple):
    """The difference of two taus with the same x, by the jackknife over models."""

    value: float
    standard_error: float
    p: float  # two-sided


def agreement(x: Floats, y: Floats) -> Agreement:
    """The agreement between x and y, each with one value per model."""
    both = ~np.isnan(x) & ~np.isnan(y)
    x, y = x[both], y[both]
    n = x.size
    signs_x, signs_y = _signs(x), _signs(y)
    flipped, tied = int((signs_x * signs_y < 0).sum()), int((signs_x * signs_y == 0).sum())
    reason = None
    if n < FEWEST:
        reason = (
            f"{n} {'model has' if n == 1 else 'models have'} both values, "
            f"but a correlation says something of {FEWEST} or more"
        )
    elif (x == x[0]).all() or (y == y[0]).all():
        reason = "all models have the same value in one of the two"
    if reason:
        return Agreement(n, flipped, math.nan, math.nan, reason, tied)
    return Agreement(n, flipped, float(pearson(x, y)), float(kendall(x, y)), None, tied)


def kendall(x: Floats, y: Floats) -> Floats:
    """tau-b over the first axis, the models; further axes are replicates. NaN where x or y is constant."""
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    shape, (flat_x, flat_y) = x.shape[1:], (values.reshape(len(values), -1) for values in (x, y))
    found = np.full(flat_x.shape[1], np.nan)
    at_once = max(1, NUMBERS_AT_ONCE // max(1, math.comb(len(x), 2)))
    for start in range(0, found.size, at_once):
        some = slice(start, start + at_once)
        signs_x, signs_y = _signs(flat_x[:, some]), _signs(flat_y[:, some])
        ordered = (signs_x != 0).sum(axis=0) * (signs_y != 0).sum(axis=0)
        concordance = (signs_x * signs_y).sum(axis=0, dtype=np.float64)
        np.divide(concordance, np.sqrt(ordered), out=found[some], where=ordered > 0)
    return np.clip(found, -1, 1).reshape(shape)


def pearson(x: Floats, y: Floats) -> Floats:
    """Correlation over the first axis; NaN where x or y is constant."""
    centred_x, centred_y = x - x.mean(axis=0), y - y.mean(axis=0)
    scale = np.sqrt((centred_x**2).sum(axis=0)) * np.sqrt((centred_y**2).sum(axis=0))
    products = np.asarray((centred_x * centred_y).sum(axis=0))
    varies = (x != x[:1]).any(axis=0) & (y != y[:1]).any(axis=0) & (scale > 0)
    return np.clip(np.divide(products, scale, out=np.full(products.shape, np.nan), where=varies), -1, 1)


def jackknife(x: Floats, y: Floats) -> tuple[float, float]:
    """Standard errors over models of kendall and pearson; NaN where a correlation without one model is undefined."""
    return _jackknife_error(_taus_without_one(x, y)), _jackknife_error(_pearsons_without_one(x, y))


def kendall_difference(x: Floats, y: Floats, z: Floats) -> TauDifference:
    """kendall(x, y) - kendall(x, z) over the same models, with its error and test."""
    value = float(kendall(x, y) - kendall(x, z))
    error = _jackknife_error(_taus_without_one(x, y) - _taus_without_one(x, z))
    if error > 0:
        return TauDifference(value, error, 2 * float(stdtr(len(x) - 1, -abs(value) / error)))
    return TauDifference(value, error, math.nan if math.isnan(error) else float(value == 0))


def intervals(
    x: Floats, y: Floats, replicates: tuple[Floats, Floats], confidence: float, most_noise: float = MOST_NOISE
) -> Interval:
    """The intervals over users of the agreement of x and y. replicates: x* and y*, (n_models, n_replicates) each."""
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1, found {confidence}")
    undefined = (math.nan, math.nan)
    if replicates[0].shape[1] < 2:
        return Interval(undefined, undefined, math.nan, "intervals over users need bootstrap replicates")
    if np.isnan(replicates[0]).any() or np.isnan(replicates[1]).any():
        return Interval(
            undefined, undefined, math.nan, "a bootstrap replicate of some model is undefined: too few users contribute"
        )
    noise = max(noise_of(x, replicates[0]), noise_of(y, replicates[1]))
    if not noise <= most_noise:
        reason = (
            f"the models' standard error is {noise:.2f} of their spread, beyond {most_noise:g}, where the interval "
            "does not cover"
        )
        return Interval(undefined, undefined, noise, reason)
    taus, correlations = kendall(*replicates), pearson(*replicates)
    return Interval(
        _reflected(float(kendall(x, y)), taus, confidence),
        _reflected(float(pearson(x, y)), correlations, confidence),
        noise,
        None,
    )


def noise_of(values: Floats, replicates: Floats) -> float:
    """The standard error of the models' values, relative to the panel's mean, over their spread."""
    relative = replicates - replicates.mean(axis=0)
    spread = float(values.std(ddof=1))
    return math.sqrt(float(relative.var(axis=1, ddof=1).mean())) / spread if spread > 0 else math.nan


def error_against(x: Floats, y: Floats, replicates: tuple[Floats, Floats]) -> Error:
    """The error of x against the reference y, corrected for noise over users."""
    difference, of_replicates = x - y, replicates[0] - replicates[1]
    if of_replicates.shape[1] < 2 or len(x) < 2:
        return Error(math.nan, math.nan)
    moved = of_replicates - difference[:, None]
    return Error(
        float(difference.mean() ** 2 - of_replicates.mean(axis=0).var(ddof=1)),
        float(difference.var(ddof=1) - moved.var(axis=0, ddof=1).mean()),
    )


def _signs(values: Floats) -> Floats:
    """The sign of the difference of every pair of models, int8 (n_pairs, ...)."""
    first, second = np.triu_indices(len(values), 1)
    return (values[first] > values[second]).astype(np.int8) - (values[first] < values[second]).astype(np.int8)


def _reflected(value: float, replicates: Floats, confidence: float) -> tuple[float, float]:
    low, high = np.quantile(replicates, [(1 - confidence) / 2, (1 + confidence) / 2])
    return max(2 * value - float(high), -1.0), min(2 * value - float(low), 1.0)


def _jackknife_error(without_one: Floats) -> float:
    n = without_one.size
    if n < FEWEST + 1:  # without one, too few are left
        return math.nan
    return math.sqrt((n - 1) / n * float(((without_one - without_one.mean()) ** 2).sum()))


def _taus_without_one(x: Floats, y: Floats) -> Floats:
    """tau-b without each model in turn, (n_models,)."""
    signs_x, signs_y = np.sign(x[:, None] - x), np.sign(y[:, None] - y)  # each pair twice
    counts = [
        (terms.sum() - 2 * terms.sum(axis=1)) / 2 for terms in (signs_x * signs_y, np.abs(signs_x), np.abs(signs_y))
    ]
    ordered = counts[1] * counts[2]
    return np.divide(counts[0], np.sqrt(ordered), out=np.full(len(x), np.nan), where=ordered > 0)


def _pearsons_without_one(x: Floats, y: Floats) -> Floats:
    """The correlation without each model in turn, (n_models,)."""
    if len(x) < FEWEST:
        return np.full(len(x), np.nan)
    kept: Bools = ~np.eye(len(x), dtype=np.bool_)
    return np.array([float(pearson(x[others], y[others])) for others in kept])
