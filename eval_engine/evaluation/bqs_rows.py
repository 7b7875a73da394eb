"""Rows of the table `bqs`: each debiased model against its baseline, per repeat and on average (statistics/bqs.py).

Users are drawn by bucket, with the same Poisson weights for all models, for everything and for the group: 32 buckets,
since slices have no more. Percentiles over 32 buckets are too narrow, so replicates of the qualities are spread by

    sqrt(G / (G - 1)) t_(G-1) / z         around their value

before they become scores. BQS punishes losses, so replicates lie below the score on average; percentiles are corrected
for that [Efron 1981]: those at F(2 z0 - z) and F(2 z0 + z), F the normal distribution, z0 = F^-1(share of replicates
below the score). A mean over repeats has the mean of their replicates: it says what other users would change,
and the table of repeats what other seeds would. Techniques of one baseline are compared by analysis of variance with
repeats as blocks, Holm over all tables of the run; only then the best and the second are named.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri, stdtrit

from eval_engine.evaluation.bqs_settings import BqsRule
from eval_engine.kernels.arrays import Floats
from eval_engine.statistics.anova import anova_in_blocks
from eval_engine.statistics.bootstrap import poisson_weights
from eval_engine.statistics.bqs import bqs
from eval_engine.statistics.bucket_sums import N_COARSE
from eval_engine.statistics.multiplicity import holm
from eval_engine.tables import BQS

Rows = list[dict[str, Any]]
Cell = tuple[str, str, int]  # estimator, metric, cutoff


class Quality(NamedTuple):
    """A quality of some models, by bucket of users."""

    values: Mapping[str, float]
    a: Mapping[str, Floats]  # numerators, (N_COARSE,)
    b: Mapping[str, Floats]


NOTHING = Quality({}, {}, {})


class Bootstrap(NamedTuple):
    """Settings of the intervals."""

    confidence: float
    replicates: int
    seed: int


def coarse(x: Floats) -> Floats:
    """Sums of 256 buckets as sums of 32: bucket g of 32 has the users of all buckets g, g + 32, ..."""
    folded: Floats = x.reshape(-1, N_COARSE).sum(axis=0)
    return folded


def bqs_rows(
    rule: BqsRule, whole: Mapping[Cell, Quality], groups: Mapping[tuple[Cell, str], Quality], asking: Bootstrap
) -> Rows:
    """The rows of one run, without run_id and without what `with_anova` adds."""
    rows: Rows = []
    weights = poisson_weights(asking.seed, np.arange(asking.replicates), N_COARSE).T if asking.replicates else None
    for cell, part in sorted(product(whole, rule.slices)):
        estimator, metric, k = cell
        a = rule.metrics.get((metric, k))
        if a is None or estimator not in rule.estimators:
            continue
        group = groups.get((cell, part), NOTHING)
        for (baseline, debiased), repeats in sorted(rule.among(whole[cell].values).items()):
            scored = [_Scored(a, whole[cell], group, names, weights, asking.confidence) for names in repeats]
            about = {
                "estimator": estimator, "metric": metric, "k": k, "slice": part, "baseline": baseline,
                "debiased": debiased, "a": a, "confidence": asking.confidence,
            }  # fmt: skip
            own = [one.row(asking.confidence) | about for one in scored]
            if any(one.repeat for one in scored):
                rows += own
                own = [_mean(scored, asking.confidence) | about]
            rows += own
    return rows


def not_scored(rule: BqsRule, rows: Rows) -> list[str]:
    """What is asked for and has no row, as sentences."""
    if not rows:
        return [
            "bqs: there is no score: no estimator of bqs.estimators has estimates of bqs.metrics, or no pair has both "
            "its models in the run"
        ]
    cells = {(row["estimator"], row["metric"], row["k"]) for row in rows}
    pairs = {(row["baseline"], row["debiased"]) for row in rows}
    asked = [(estimator, *metric) for estimator in sorted(rule.estimators) for metric in sorted(rule.metrics)]
    lines = [
        f"bqs: {name} has no estimates of {metric}@{k}, so no scores"
        for name, metric, k in asked
        if (name, metric, k) not in cells
    ]
    return lines + [
        f"bqs: {debiased} has no score against {baseline}: the run does not have both models"
        for baseline, debiased in rule.pairs
        if (baseline, debiased) not in pairs
    ]


class _Scored:
    """A debiased model against its baseline, in one repeat."""

    def __init__(
        self,
        a: float,
        whole: Quality,
        group: Quality,
        names: tuple[int, str, str],
        weights: Floats | None,
        confidence: float,
    ) -> None:
        self.repeat, baseline, debiased = names
        models = ((whole, debiased), (whole, baseline), (group, debiased), (group, baseline))
        self.qualities = [quality.values.get(model, math.nan) for quality, model in models]
        own, base, of_group, base_of_group = self.qualities
        self.value = bqs(own, base, of_group, base_of_group, a)
        self.replicates: Floats | None = None
        if weights is not None and not math.isnan(self.value):
            drawn = [
                np.asarray(widened(one.a[model], one.b[model], weights, confidence), np.float64)
                for one, model in models
            ]
            self.replicates = bqs(drawn[0], drawn[1], drawn[2], drawn[3], a)

    def row(self, confidence: float) -> dict[str, Any]:
        """Its numbers."""
        return _numbers(self.repeat, self.value, self.qualities, self.replicates, confidence)


def _numbers(
    repeat: int, value: float, qualities: Sequence[float], replicates: Floats | None, confidence: float
) -> dict[str, Any]:
    low = high = math.nan
    if replicates is not None:
        low, high = bias_corrected(replicates, value, confidence)
    quality, baseline, of_group, baseline_of_group = qualities
    numbers = {
        "value": value,
        "low": low,
        "high": high,
        "quality": quality,
        "baseline_quality": baseline,
        "group_quality": of_group,
        "baseline_group_quality": baseline_of_group,
        "gain": quality - baseline,
        "group_gain": of_group - baseline_of_group,
    }
    known = {name: None if math.isnan(x) else float(x) for name, x in numbers.items()}
    reason = None
    if math.isnan(value):
        none = "the group" if math.isnan(of_group + baseline_of_group) else "everything"
        reason = f"the quality of {none} has no value: see its rows in estimates; a group without items has none"
    elif replicates is not None and math.isnan(low):
        reason = "no interval: some bootstrap samples of the buckets have no user of the group"
    empty = dict.fromkeys(name for name in BQS.names if name != "run_id")
    return empty | known | {"repeat": repeat, "n_repeats": 1, "reason": reason}


def _mean(scored: Sequence[_Scored], confidence: float) -> dict[str, Any]:
    """The mean over repeats."""
    some = [one for one in scored if one.repeat]
    qualities = [float(np.mean(values)) for values in zip(*(one.qualities for one in some), strict=True)]
    replicates = [one.replicates for one in some if one.replicates is not None]
    drawn = np.mean(replicates, axis=0) if len(replicates) == len(some) else None
    value = float(np.mean([one.value for one in some]))
    sd = float(np.std([one.value for one in some], ddof=1)) if len(some) > 1 else math.nan
    row = _numbers(0, value, qualities, drawn, confidence)
    return row | {"n_repeats": len(some), "repeats_sd": None if math.isnan(sd) else sd}


def with_anova(rows: Rows, level: float) -> Rows:
    """The rows with the p-value of each table (estimator, metric, cutoff, group, baseline), and the best techniques."""
    tables: dict[tuple[Any, ...], Rows] = {}
    for row in rows:
        key = tuple(row[name] for name in ("estimator", "metric", "k", "slice", "baseline"))
        tables.setdefault(key, []).append(row)
    keys = sorted(tables)
    p = np.array([_p_of(tables[key]) for key in keys])
    for key, own, adjusted in zip(keys, p, holm(p), strict=True):
        means = [row for row in tables[key] if row["repeat"] == 0]
        places: dict[str, str] = {}
        if adjusted < level:
            order = sorted((row for row in means if row["value"] is not None), key=lambda row: -row["value"])
            places = {row["debiased"]: place for row, place in zip(order, ("best", "second"), strict=False)}
        for row in means:
            row["anova_p"], row["anova_p_holm"] = (None if math.isnan(x) else float(x) for x in (own, adjusted))
            row["place"] = places.get(row["debiased"])
    return rows


def _p_of(rows: Rows) -> float:
    """Of the scores of techniques, with repeats as blocks."""
    repeats = sorted({row["repeat"] for row in rows} - {0})
    names = sorted({row["debiased"] for row in rows})
    values = {(row["repeat"], row["debiased"]): row["value"] for row in rows}
    table = [[values.get((n, name)) for name in names] for n in repeats]
    known = np.array([[math.nan if value is None else value for value in line] for line in table])
    return anova_in_blocks(known).p if table else math.nan


def bias_corrected(replicates: Floats, value: float, confidence: float) -> tuple[float, float]:
    """The percentiles that hold where replicates are shifted from the value."""
    n = replicates.size
    below = ((replicates < value).sum() + 0.5 * (replicates == value).sum()) / n
    z0, z = float(ndtri(np.clip(below, 1 / (2 * n), 1 - 1 / (2 * n)))), float(ndtri((1 + confidence) / 2))
    low, high = np.quantile(replicates, [ndtr(2 * z0 - z), ndtr(2 * z0 + z)])
    return float(low), float(high)


def widened(a: Floats, b: Floats, weights: Floats, confidence: float) -> Floats:
    """Replicates of a ratio, spread so that percentiles over few buckets cover as Student's interval does."""
    n = a.size
    factor = math.sqrt(n / (n - 1)) * float(stdtrit(n - 1, (1 + confidence) / 2) / ndtri((1 + confidence) / 2))
    value = a.sum() / b.sum()
    with np.errstate(invalid="ignore", divide="ignore"):
        found: Floats = value + factor * ((a @ weights) / (b @ weights) - value)
    return found
