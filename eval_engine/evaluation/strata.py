"""Estimates by strata of propensity, from the slices of holdout: estimators/stratified.py has the formulas.

The statistics have a slice propensity_equal_count_5=Q1 for each stratum. The estimators are named by their strata,
stratified(equal_count=5).
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from eval_engine.estimators.estimator import Estimator
from eval_engine.estimators.stratified import STRATIFIED, STRATIFIED_BALANCED, combine_strata
from eval_engine.evaluation.pair_weights import HELDOUT, PAIRS, WEIGHT, Spread
from eval_engine.statistics.bucket_sums import N_COARSE
from eval_engine.statistics.paired import Paired
from eval_engine.statistics.ratio import SCALE

Doubles = npt.NDArray[np.floating[Any]]
STRATUM = re.compile(r"propensity_(equal_width|equal_count)_(\d+)=Q(\d+)")
Spreads = Mapping[tuple[str, str, str, str, int], Spread]
Sums = Mapping[
    str, tuple[Doubles, Doubles, bool]
]  # by model: numerators, denominators by bucket; a numerator is unknown


class Linear(NamedTuple):
    """Values with linearised errors by bucket of users."""

    models: Paired
    bias: Doubles | None = None  # (n_models,): standard deviation of what the errors by bucket do not show
    users: Doubles | None = None  # (n_models,): effective number of users, where it is below that of all users

    def standard_errors(self) -> Doubles:
        """Of each model."""
        n = self.models.n_units
        inflation = n / (n - 1) if n > 1 else np.nan
        more = 0.0 if self.bias is None else self.bias**2
        return np.sqrt(inflation * (self.models.errors**2).sum(axis=1) + more)

    def degrees(self) -> Doubles:
        """Of freedom of each model's error: one fewer than buckets."""
        return np.full(self.models.values.size, max(self.models.n_units - 1, 1.0))


class Stratified(NamedTuple):
    """An estimator with its strata, and its values."""

    name: str  # stratified(equal_count=5)
    estimator: Estimator
    linear: Linear
    spread: Spread  # weights of pairs, in units of 1e-12 of the estimate
    left_out: float  # share of strata without a positive


def strata_in(slices: list[str]) -> dict[tuple[str, int], list[str]]:
    """The strata among slices: by kind and number, their slices in order."""
    found: dict[tuple[str, int], list[str]] = {}
    for name in slices:
        if match := STRATUM.fullmatch(name):
            kind, n = match[1], int(match[2])
            found[kind, n] = [f"propensity_{kind}_{n}=Q{x}" for x in range(1, n + 1)]
    return dict(sorted(found.items()))


def stratified(
    kind: str, n: int, models: list[str], slices: list[str], sums: Mapping[str, Sums], spreads: Spreads
) -> list[Stratified]:
    """Both estimators of one metric. sums: of holdout, by slice and model."""
    shape = len(models), len(slices), N_COARSE
    a, b = np.zeros(shape), np.zeros(shape)
    for x, name in enumerate(slices):
        for m, model in enumerate(models):
            if model in sums.get(name, {}):
                numerators, denominators, unknown = sums[name][model]
                a[m, x], b[m, x] = np.where(unknown, np.nan, numerators), denominators
    pairs, inverse = np.zeros((n, N_COARSE)), np.zeros((n, N_COARSE))
    for x, name in enumerate(slices):
        for g in range(N_COARSE):
            if own := spreads.get((models[0], HELDOUT, PAIRS, name, g)):
                pairs[x, g], inverse[x, g] = own.n, own.w / SCALE
    answers = []
    for estimator, weights in ((STRATIFIED, pairs), (STRATIFIED_BALANCED, inverse)):
        combined = combine_strata(a, b, weights)
        units = int((b > 0).any(axis=(0, 1)).sum())
        linear = Linear(
            Paired(combined.values, combined.errors, units),
            combined.unseen if combined.unseen.any() else None,
            combined.users,
        )
        of_strata = [spreads.get((models[0], "holdout", WEIGHT, name, 0)) for name in slices]
        spread = _spread(weights.sum(axis=1), of_strata)
        answers.append(Stratified(f"{estimator.name}({kind}={n})", estimator, linear, spread, combined.left_out))
    return answers


def _spread(weights: Doubles, of_strata: list[Spread | None]) -> Spread:
    """The spread over pairs: a pair of stratum x weighs s_x / B_x times its weight in holdout of the stratum."""
    used = [(weight, one) for weight, one in zip(weights, of_strata, strict=True) if one is not None and one.w]
    total = sum(weight for weight, _ in used)
    n = clipped = 0
    w = ww = largest = 0.0
    for weight, one in used:
        factor = weight / total * SCALE / one.w
        n += one.n
        w += weight / total
        ww += factor * factor * one.ww / SCALE
        largest = max(largest, factor * one.largest)
    return Spread(n, clipped, round(w * SCALE), round(ww * SCALE), largest)
