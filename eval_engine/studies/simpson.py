"""The study of [simpson]: over a panel of models, which estimate from logged feedback orders the models as the truth
does, and what do strata of propensity change?

It reads the tables that `evaluate` writes, and computes no estimate of its own:

    agreement_lines   tau and Pearson of each estimator with the reference                    table 6
    strata_summaries  mean and standard deviation of tau over the numbers of strata, and in how many of them the gain
                      over holdout is significant                                              figure 4, section 7.2
    stratum_lines     size of each stratum, and the agreement of holdout within it             table 6, Q1 and Q2
    instance          two models whose order in most of the feedback contradicts the whole     tables 2 to 5
    prevalences       how many pairs of models do, and whom the reference bears out

The reference is that of holdout in `estimator_agreement`: complete labels, else random exposure. Different
propensities of the same models are different runs.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import mean, stdev
from typing import Any, NamedTuple

import numpy as np

from eval_engine.config import StrataSettings
from eval_engine.errors import DataError
from eval_engine.estimators.registry import ESTIMATORS
from eval_engine.evaluation.spec import ALL, Strata
from eval_engine.statistics.agreement import agreement

HOLDOUT = "holdout"
SINGLE = ("snips", "snips_user")  # estimators without strata that the picture of tau has as level lines
SHARES = {"stratified": "pairs (eq. 4)", "stratified_balanced": "inverse propensity"}  # of strata, in words
STRATIFIED = re.compile(r"(stratified|stratified_balanced)\((equal_width|equal_count)=(\d+)\)")
LEVEL = 0.05  # of the paper's tests
SLICES_FAVOURED = ("reversed", "vanishes")  # flags that tests support
Row = Mapping[str, Any]


class Evaluated(NamedTuple):
    """Rows of one run's tables, of one metric and cutoff where they have one."""

    propensities: str  # their name
    fit: Row  # of propensity_fits
    estimates: Sequence[Row]
    agreement: Sequence[Row]  # of estimator_agreement
    reversals: Sequence[Row]
    strata: Sequence[Row]

    @property
    def reference(self) -> str:
        """The estimator that all others are compared with."""
        for row in self.agreement:
            if row["estimator"] == HOLDOUT:
                return str(row["reference"])
        raise DataError(
            "estimator_agreement has no row of holdout, so there is no reference. The run needs inputs.heldout, "
            "inputs.truth or inputs.exposures, and two models at least."
        )


class StrataSummary(NamedTuple):
    """Stratified evaluation over several numbers of strata; one kind of strata, one of shares."""

    estimator: str  # stratified, stratified_balanced
    kind: str
    numbers: tuple[int, ...]  # of strata
    rows: tuple[Row, ...]  # of estimator_agreement, one for each number
    n_higher: int  # tau above that of holdout
    n_steiger: int  # of these by Steiger's test of tau, one-sided, as published
    n_pearson: int  # Pearson above that of holdout by Steiger's test, two-sided
    n_jackknife: int  # tau above that of holdout by the jackknife over models

    @property
    def taus(self) -> tuple[float, ...]:
        """For each number of strata."""
        return tuple(row["kendall"] for row in self.rows)

    @property
    def mean(self) -> float:
        """Of tau."""
        return mean(self.taus)

    @property
    def deviation(self) -> float:
        """Standard deviation of tau, with n - 1; NaN for one number of strata."""
        return stdev(self.taus) if len(self.taus) > 1 else math.nan


class StratumLine(NamedTuple):
    """One stratum, and holdout within it."""

    stratum: str
    n_items: int
    n_pairs: int
    share: float  # of the held-out pairs
    balanced_share: float  # of the sum of 1 / propensity
    value: float  # mean over models
    kendall: float
    pearson: float


class InstanceLine(NamedTuple):
    """Two models under one estimator."""

    name: str  # of the estimator, or of the stratum
    values: tuple[float | None, float | None]
    p: float | None  # that they are equal; None: it has no test


class Instance(NamedTuple):
    """Two models whose order in the named slices contradicts the whole."""

    flag: str
    models: tuple[str, str]  # the one that the slices favour first
    share: float  # of the slices that contradict
    share_of: str  # pairs, users
    lines: tuple[InstanceLine, ...]


class Prevalence(NamedTuple):
    """Pairs of models whose order under holdout contradicts that in strata."""

    slicing: str
    n_model_pairs: int
    n_reversed: int
    n_vanishes: int
    n_weak: int
    n_as_slices: int  # of reversed and vanishes: the reference has the order of the slices
    n_against: int


def agreement_lines(run: Evaluated) -> list[Row]:
    """The rows of estimator_agreement of estimators without strata, in the order of the registry."""
    order = {name: n for n, name in enumerate(ESTIMATORS)}
    rows = [row for row in run.agreement if not STRATIFIED.fullmatch(row["estimator"])]
    main = run.reference
    return sorted(rows, key=lambda row: (order.get(row["estimator"], len(order)), row["reference"] != main))


def strata_summaries(run: Evaluated) -> list[StrataSummary]:
    """Of each kind of strata and of shares, over numbers of strata above 1 that have a tau."""
    found: dict[tuple[str, str], dict[int, Row]] = {}
    for row in run.agreement:
        match = STRATIFIED.fullmatch(row["estimator"])
        if match and int(match[3]) > 1 and row["reference"] == run.reference and row["kendall"] is not None:
            found.setdefault((match[1], match[2]), {})[int(match[3])] = row
    return [_summary(*key, dict(sorted(rows.items()))) for key, rows in sorted(found.items())]


def _summary(estimator: str, kind: str, rows: Mapping[int, Row]) -> StrataSummary:
    higher = [row for row in rows.values() if (row["kendall_difference"] or 0) > 0]
    return StrataSummary(
        estimator,
        kind,
        tuple(rows),
        tuple(rows.values()),
        len(higher),
        sum(_below(row["steiger_kendall_p_one_sided"]) for row in higher),
        sum((row["pearson_difference"] or 0) > 0 and _below(row["steiger_p"]) for row in rows.values()),
        sum(_below(row["kendall_difference_p"]) for row in higher),
    )


def _below(p: float | None) -> bool:
    return p is not None and p < LEVEL


def values_of(estimates: Iterable[Row], estimator: str, where: str = ALL) -> dict[str, float]:
    """Each model's value, those that are defined."""
    return {
        row["model"]: row["value"]
        for row in estimates
        if row["estimator"] == estimator and (row["slice"] or ALL) == where and row["value"] is not None
    }


def points(x: Mapping[str, float], y: Mapping[str, float]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The values of models that have both."""
    both = sorted(x.keys() & y.keys())
    return np.array([x[model] for model in both]), np.array([y[model] for model in both])


def line_of(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> tuple[float, float] | None:
    """Slope and intercept of the least squares line; None where x does not vary."""
    if x.size < 2 or np.ptp(x) == 0:
        return None
    slope = float(((x - x.mean()) * (y - y.mean())).sum() / ((x - x.mean()) ** 2).sum())
    return slope, float(y.mean() - slope * x.mean())


def slicing_of(show: StrataSettings) -> str:
    """The name of the strata's slicing."""
    return Strata(show.kind, show.n).slicing


def stratum_lines(run: Evaluated, show: StrataSettings) -> list[StratumLine]:
    """Every stratum of a setting, least propensities first; none where the run has no such strata."""
    slicing = slicing_of(show)
    rows = sorted((row for row in run.strata if row["strata"] == slicing), key=lambda row: int(row["stratum"][1:]))
    pairs, inverse = (sum(row[name] for row in rows) for name in ("n_pairs", "inverse_propensity"))
    truth = values_of(run.estimates, run.reference)
    lines = []
    for row in rows:
        x, y = points(truth, values_of(run.estimates, HOLDOUT, f"{slicing}={row['stratum']}"))
        own = agreement(y, x) if x.size else None
        lines.append(
            StratumLine(
                row["stratum"],
                row["n_items"],
                row["n_pairs"],
                row["n_pairs"] / pairs,
                row["inverse_propensity"] / inverse,
                float(y.mean()) if y.size else math.nan,
                own.kendall if own else math.nan,
                own.pearson if own else math.nan,
            )
        )
    return lines


def flagged_pair(run: Evaluated, show: StrataSettings) -> Row | None:
    """The pair of models to show: reversed before vanishes, then by the largest difference in the whole."""
    rows = [
        row
        for row in run.reversals
        if row["estimator"] == HOLDOUT and row["slicing"] == slicing_of(show) and row["flag"] in SLICES_FAVOURED
    ]
    return min(
        rows,
        key=lambda row: (SLICES_FAVOURED.index(row["flag"]), -abs(row["difference"]), row["model_a"], row["model_b"]),
        default=None,
    )


def instance(run: Evaluated, show: StrataSettings, pair: Row, comparisons: Iterable[Row]) -> Instance:
    """The flagged pair under every estimator, in the strata, and in the reference; comparisons: of this pair."""
    models = (pair["model_a"], pair["model_b"])
    setting = Strata(show.kind, show.n).setting
    names = [*(name for name in ("holdout", "ips", "snips", "snips_user", "clipped") if name in ESTIMATORS)]
    asked = [(name, ALL, name) for name in (*names, f"stratified{setting}", f"stratified_balanced{setting}")]
    asked += [(HOLDOUT, f"{slicing_of(show)}={line.stratum}", line.stratum) for line in stratum_lines(run, show)]
    asked.append((run.reference, ALL, run.reference))
    p = {(row["estimator"], row["slice"] or ALL): row["p"] for row in comparisons}
    lines = []
    for estimator, where, name in asked:
        values = values_of(run.estimates, estimator, where)
        lines.append(InstanceLine(name, (values.get(models[0]), values.get(models[1])), p.get((estimator, where))))
    return Instance(pair["flag"], models, pair["share"], pair["share_of"], tuple(lines))


def prevalences(run: Evaluated) -> list[Prevalence]:
    """Of holdout in every slicing of the run."""
    truth = values_of(run.estimates, run.reference)
    by_slicing: dict[str, list[Row]] = {}
    for row in run.reversals:
        if row["estimator"] == HOLDOUT:
            by_slicing.setdefault(row["slicing"], []).append(row)
    return [_prevalence(name, rows, truth) for name, rows in sorted(by_slicing.items(), key=_kind_and_number)]


def _kind_and_number(item: tuple[str, Any]) -> tuple[str, int]:
    head, _, number = item[0].rpartition("_")
    return (head, int(number)) if number.isdigit() else (item[0], 0)


def _prevalence(slicing: str, rows: Sequence[Row], truth: Mapping[str, float]) -> Prevalence:
    signs = list(_signs((row for row in rows if row["flag"] in SLICES_FAVOURED), truth))
    first = rows[0]  # every row of a family has its counts
    return Prevalence(
        slicing,
        first["n_model_pairs"],
        first["n_reversed"],
        first["n_vanishes"],
        first["n_weak"],
        sum(sign > 0 for sign in signs),
        sum(sign < 0 for sign in signs),
    )


def _signs(rows: Iterable[Row], truth: Mapping[str, float]) -> Iterator[float]:
    """The reference's difference of each pair, of the model that the slices favour minus the other."""
    for row in rows:
        if row["model_a"] in truth and row["model_b"] in truth:
            yield truth[row["model_a"]] - truth[row["model_b"]]
