"""The study of [wtd]: how near do test sets that are drawn from held-out pairs come to a random test set?

Each run splits the log and the random data anew, and has the same models. x_rm is the value of model m in run r on a
test set, y_rm that on the random truth (open_loop); X_m, Y_m are means over R runs.

    difference   D_m = 100 (X_m - Y_m) / Y_m                                                   table 2
    tau          Kendall's tau-b of X and Y over the models                                    tables 3 and 4

Errors. e_rmg is what bucket g of users moves x_rm by; buckets are of the same users in all runs, so that over users
X_m has the errors mean_r e_rmg. Over runs, run r moves X_m by (x_rm - X_m) / R. With f those of Y, linearised:

    users        d_mg = 100 (e_mg - X_m/Y_m f_mg) / Y_m,    se_u^2 = G/(G - 1) sum_g d_mg^2
    runs         d_mr = 100 ((x_rm - X_m) - X_m/Y_m (y_rm - Y_m)) / (R Y_m),    se_r^2 = R/(R - 1) sum_r d_mr^2
    interval     D_m -+ sqrt((t_{G-1} se_u)^2 + (t_{R-1} se_r)^2)

Noise of a user's own split is in both, so that the interval is somewhat too wide. One run has no se_r: its interval is
over users. The interval of tau is that of statistics/agreement.py, from Poisson replicates of the G buckets and the R
runs.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import stdtrit

from eval_engine.estimators.test_set import TEST_SET
from eval_engine.evaluation.spec import ALL
from eval_engine.evaluation.strata import Sums
from eval_engine.evaluation.test_set_slices import combined_set, sets_in
from eval_engine.kernels.arrays import Floats
from eval_engine.metric import Metric
from eval_engine.statistics.agreement import agreement, intervals
from eval_engine.statistics.bootstrap import poisson_weights
from eval_engine.statistics.bucket_sums import N_COARSE
from eval_engine.statistics.paired import paired

TRUTH = "open_loop"
Row = Mapping[str, Any]


class EvaluatedRun(NamedTuple):
    """Rows of one run's tables."""

    run_id: str
    estimates: Sequence[Row]
    statistics: Sequence[Row]  # of test_set and open_loop: model, estimator, metric, k, slice, bucket, n_unknown, a, b
    test_sets: Sequence[Row]
    chosen: Mapping[str, str]  # of each searched model: its trial in words


class Measured(NamedTuple):
    """One metric under one estimator, over runs."""

    values: Floats  # (n_runs, n_models)
    errors: Floats  # (n_runs, n_models, N_COARSE): what each bucket of users moves the value by

    @property
    def mean(self) -> Floats:
        """Of each model over runs."""
        return np.asarray(self.values.mean(axis=0))

    @property
    def over_users(self) -> Floats:
        """What each bucket moves the mean by, (n_models, N_COARSE), with G / (G - 1) of the buckets that do."""
        errors = self.errors.mean(axis=0)
        units = int((errors != 0).any(axis=0).sum())
        return np.asarray(errors * _inflation(units))

    @property
    def over_runs(self) -> Floats:
        """What each run moves the mean by, (n_models, n_runs), with R / (R - 1); zeros for one run."""
        n = len(self.values)
        moved = (self.values - self.mean).T / n
        return np.asarray(moved * _inflation(n) if n > 1 else np.zeros_like(moved))


class Difference(NamedTuple):
    """A model on a test set against the random truth, in percent."""

    model: str
    truth: float
    value: float  # NaN where the truth is 0
    error_users: float
    error_runs: float  # 0 for one run
    low: float
    high: float


class Tau(NamedTuple):
    """The order of the models on a test set against that on the random truth."""

    value: float
    low: float
    high: float
    reason: str | None  # why there is no tau, or no interval
    of_runs: tuple[float, ...]  # tau of each run by itself


class Nearness(NamedTuple):
    """How near a test set is to the truth over the models."""

    name: str
    distance: float  # mean over models of |D|
    n_nearest: int  # models of which no other set is nearer
    n_above: int  # models whose interval is above 0
    n_below: int
    n_covered: int  # models whose interval has 0


def models_of(runs: Sequence[EvaluatedRun]) -> tuple[str, ...]:
    """The models that every run has."""
    return tuple(sorted(set.intersection(*({row["model"] for row in run.estimates} for run in runs))))


def sets_of(runs: Sequence[EvaluatedRun]) -> tuple[str, ...]:
    """The names of the test sets, in the order of the config."""
    return tuple(dict.fromkeys(row["name"] for row in runs[0].test_sets))


def measured(runs: Sequence[EvaluatedRun], metric: Metric, models: Sequence[str]) -> dict[str, Measured]:
    """The metric under the truth and on each test set, by the estimator's name."""
    parts: dict[str, list[tuple[Floats, Floats]]] = {}
    for run in runs:
        errors = _errors(run, metric, models)
        for name in (TRUTH, *(f"{TEST_SET.name}({one})" for one in sets_of(runs))):
            values = {
                row["model"]: row["value"]
                for row in run.estimates
                if (row["estimator"], row["metric"], row["k"]) == (name, metric.name, metric.k)
                and (row["slice"] or ALL) == ALL
            }
            known = [math.nan if values.get(model) is None else values[model] for model in models]
            parts.setdefault(name, []).append((np.array(known, np.float64), errors[name]))
    return {
        name: Measured(np.array([values for values, _ in own]), np.array([errors for _, errors in own]))
        for name, own in parts.items()
    }


def differences(x: Measured, truth: Measured, models: Sequence[str], confidence: float) -> list[Difference]:
    """Table 2: of each model."""
    found = []
    for m, (model, mean, true) in enumerate(zip(models, x.mean, truth.mean, strict=True)):
        if not true > 0 or math.isnan(mean):
            found.append(Difference(model, float(true), *[math.nan] * 5))
            continue
        ratio, value = mean / true, float(100 * (mean - true) / true)
        users, runs = (
            100 * float(np.sqrt(((own - ratio * other) ** 2).sum())) / true
            for own, other in ((x.over_users[m], truth.over_users[m]), (x.over_runs[m], truth.over_runs[m]))
        )
        n_runs = len(x.values)
        width = math.hypot(
            _quantile(N_COARSE - 1, confidence) * users, _quantile(n_runs - 1, confidence) * runs if n_runs > 1 else 0.0
        )
        found.append(Difference(model, float(true), value, users, runs, value - width, value + width))
    return found


def tau(x: Measured, truth: Measured, confidence: float, replicates: int, seed: int) -> Tau:
    """Tables 3 and 4: of run means, with the interval over users and runs."""
    of_runs = tuple(agreement(own, other).kendall for own, other in zip(x.values, truth.values, strict=True))
    found = agreement(x.mean, truth.mean)
    if found.reason:
        return Tau(math.nan, math.nan, math.nan, found.reason, of_runs)
    both = ~np.isnan(x.mean) & ~np.isnan(truth.mean)
    weights = poisson_weights(seed, np.arange(replicates), N_COARSE + len(x.values)).T - 1
    stars = [
        one.mean[both][:, None] + np.hstack([one.over_users[both], one.over_runs[both]]) @ weights for one in (x, truth)
    ]
    over = intervals(x.mean[both], truth.mean[both], (stars[0], stars[1]), confidence)
    return Tau(found.kendall, *over.kendall, over.reason, of_runs)


def nearness(lines: Mapping[str, Sequence[Difference]]) -> list[Nearness]:
    """Of each test set; models without a difference on some set do not count."""
    names = list(lines)
    table = np.array([[one.value for one in lines[name]] for name in names])  # (n_sets, n_models)
    known = ~np.isnan(table).any(axis=0)
    distances = np.abs(table[:, known])
    nearest = distances == distances.min(axis=0, initial=math.inf)
    found = []
    for n, name in enumerate(names):
        own = [one for one, is_known in zip(lines[name], known, strict=True) if is_known]
        above, below = sum(one.low > 0 for one in own), sum(one.high < 0 for one in own)
        mean = float(distances[n].mean()) if own else math.nan
        found.append(Nearness(name, mean, int(nearest[n].sum()), above, below, len(own) - above - below))
    return found


def only(one: Measured, models: Sequence[str], kept: Iterable[str]) -> Measured:
    """The same of some of the models."""
    places = [n for n, model in enumerate(models) if model in set(kept)]
    return Measured(one.values[:, places], one.errors[:, places])


def _errors(run: EvaluatedRun, metric: Metric, models: Sequence[str]) -> dict[str, Floats]:
    """What each bucket of users moves the values by, (n_models, N_COARSE), by the estimator's name."""
    zeros = {model: [np.zeros(N_COARSE), np.zeros(N_COARSE), False] for model in models}
    sums: dict[str, dict[str, list[Any]]] = {}
    for row in run.statistics:
        if (row["metric"], row["k"]) != (metric.name, metric.k) or row["model"] not in zeros:
            continue
        part = row["slice"] or ALL
        if row["estimator"] != (TRUTH if part == ALL else TEST_SET.name):
            continue
        own = sums.setdefault(part, {model: [np.zeros(N_COARSE), np.zeros(N_COARSE), False] for model in models})
        a, b, unknown = own[row["model"]]
        at = row["bucket"] % N_COARSE
        a[at] += float(row["a"] or 0)
        b[at] += float(row["b"] or 0)
        own[row["model"]][2] = unknown or row["n_unknown"] > 0
    truth = sums.get(ALL, zeros)
    a, b = (np.array([truth[model][n] for model in models]) for n in (0, 1))
    unknown = np.array([truth[model][2] for model in models])
    found = {TRUTH: paired(np.where(unknown[:, None], np.nan, a), b).errors}
    as_sums: dict[str, Sums] = {part: {m: tuple(own[m]) for m in models} for part, own in sums.items()}
    for name, draws in sets_in(sorted(sums)).items():
        one = combined_set(name, draws, models, as_sums)
        found[one.name] = one.linear.models.errors
    return found


def _inflation(n: int) -> float:
    return math.sqrt(n / (n - 1)) if n > 1 else math.nan


def _quantile(degrees: int, confidence: float) -> float:
    return float(stdtrit(degrees, (1 + confidence) / 2))
