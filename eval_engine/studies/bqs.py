"""The study of [bqs]: what measures of debiasing say of the same models, and what is true of them.

tables      of a backbone at k: quality over everything and of rare items, ARP, APLT, P-REO, BQS; means over repeats
best        which technique each measure calls best: least ARP, largest APLT, least P-REO, largest BQS
agreement   Kendall's tau-b over all pairs of backbone and technique: what each measure says of a technique against
            the true gain for rare items (complete labels), and against the unbiased estimate from random exposure;
            intervals by the bootstrap over pairs
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from eval_engine.evaluation.bqs_settings import REPEAT
from eval_engine.statistics.agreement import kendall

LOW = "popularity=low"
CLASSES = ("low", "middle", "high", "unseen")
LISTS = "lists"
COMPLETE, RANDOM = "full_micro", "ure_micro"  # recall of all pairs, of complete labels and by random exposure
BETTER = {"arp": -1, "aplt": 1, "p_reo": -1, "bqs": 1}  # sign of a better value
REPLICATES = 2000


class Line(NamedTuple):
    """A model of a table; means over repeats. NaN where a value is not defined."""

    model: str
    quality: float
    low_quality: float
    arp: float
    aplt: float
    p_reo: float
    bqs: float
    bqs_low: float
    bqs_high: float
    place: str


class Agreed(NamedTuple):
    """A measure against the gain for rare items, over pairs of backbone and technique."""

    measure: str
    against: str
    n_pairs: int
    tau: float
    low: float
    high: float


class Evaluated(NamedTuple):
    """Rows of a run, estimates averaged over repeats by model name."""

    values: Mapping[tuple[str, str, str, int, str], float]  # model, estimator, metric without parameters, k, slice
    sums: Mapping[tuple[str, str, str, int, str], tuple[float, float]]  # numerator, denominator, over repeats
    scores: Sequence[Mapping[str, Any]]  # rows of bqs that are means, or of runs without repeats
    n_repeats: int

    def value(self, model: str, estimator: str, metric: str, k: int, part: str = "all") -> float:
        """NaN where there is none."""
        return self.values.get((model, estimator, metric, k, part), math.nan)

    @property
    def baselines(self) -> list[str]:
        """Models without debiasing."""
        return sorted({row["baseline"] for row in self.scores})

    def techniques(self, baseline: str) -> list[str]:
        """Debiased forms of a model."""
        return sorted({row["debiased"] for row in self.scores if row["baseline"] == baseline})

    def score(self, baseline: str, debiased: str, metric: str, k: int) -> Mapping[str, Any] | None:
        """The row of bqs of a pair."""
        return next(
            (
                row
                for row in self.scores
                if (row["baseline"], row["debiased"], base_of(row["metric"]), row["k"], row["slice"])
                == (baseline, debiased, metric, k, LOW)
            ),
            None,
        )


def base_of(metric: str) -> str:
    """A metric's name without parameters."""
    return metric.partition("(")[0]


def evaluated(estimates: Sequence[Mapping[str, Any]], scores: Sequence[Mapping[str, Any]]) -> Evaluated:
    """From rows of the tables estimates and bqs of a run."""
    every: dict[tuple[str, str, str, int, str], list[Mapping[str, Any]]] = {}
    for row in estimates:
        name = row["model"].partition(REPEAT)[0]
        key = name, row["estimator"], base_of(row["metric"]), row["k"], row["slice"]
        every.setdefault(key, []).append(row)
    values, sums = {}, {}
    for key, rows in every.items():
        known = [row["value"] for row in rows if row["value"] is not None]
        values[key] = float(np.mean(known)) if len(known) == len(rows) else math.nan
        both = [(row["numerator"] or 0.0, row["denominator"] or 0.0) for row in rows]
        sums[key] = (sum(a for a, _ in both) / len(both), sum(b for _, b in both) / len(both))
    n = max((row["n_repeats"] for row in scores), default=0)
    return Evaluated(values, sums, [row for row in scores if row["repeat"] == 0], n)


def lines_of(read: Evaluated, baseline: str, quality: str, k: int) -> list[Line]:
    """The table of a backbone: the baseline first."""
    found = []
    for model in (baseline, *read.techniques(baseline)):
        score = read.score(baseline, model, quality, k) or {}
        arp, aplt, p_reo = (read.value(model, LISTS, name, k) for name in ("arp", "aplt", "p_reo"))
        low, high = (_number(score.get(name)) for name in ("low", "high"))
        value = 0.5 if model == baseline else _number(score.get("value"))
        of_all, of_low = (read.value(model, "holdout", quality, k, part) for part in ("all", LOW))
        found.append(Line(model, of_all, of_low, arp, aplt, p_reo, value, low, high, score.get("place") or ""))
    return found


def best_by(lines: Sequence[Line]) -> dict[str, str]:
    """The technique that each measure calls best; the baseline counts."""
    found = {}
    for measure, sign in BETTER.items():
        some = [(sign * getattr(line, measure), line.model) for line in lines if not math.isnan(getattr(line, measure))]
        found[measure] = max(some)[1] if some else ""
    return found


def agreement_of(read: Evaluated, qualities: Sequence[str], k: int) -> list[Agreed]:
    """How far each measure agrees with the gain in recall of rare items."""
    pairs = [(base, one) for base in read.baselines for one in read.techniques(base)]
    sides = {"complete labels": COMPLETE, "random exposure": RANDOM}
    gains = {
        against: np.array([_gain(read, pair, estimator, "recall", k, LOW) for pair in pairs])
        for against, estimator in sides.items()
    }
    measures: dict[str, np.ndarray[Any, Any]] = {}
    for quality in qualities:
        scored = ((read.score(*pair, quality, k) or {}).get("value") for pair in pairs)
        measures[f"BQS, {quality}"] = np.array([_number(x) for x in scored])
    for name, sign in (("arp", -1), ("aplt", 1), ("p_reo", -1)):
        measures[name] = sign * np.array([_gain(read, pair, LISTS, name, k, "all") for pair in pairs])
    measures["unbiased gain of low recall"] = gains["random exposure"]
    return [
        _agreed(measure, against, x, y)
        for against, y in gains.items()
        for measure, x in measures.items()
        if not (measure.startswith("unbiased") and against == "random exposure")
    ]


def _gain(read: Evaluated, pair: tuple[str, str], estimator: str, metric: str, k: int, part: str) -> float:
    baseline, debiased = (read.value(model, estimator, metric, k, part) for model in pair)
    return debiased - baseline


def _agreed(measure: str, against: str, x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> Agreed:
    both = ~np.isnan(x) & ~np.isnan(y)
    x, y = x[both], y[both]
    n = int(both.sum())
    if n < 3:
        return Agreed(measure, against, n, math.nan, math.nan, math.nan)
    chosen = np.random.default_rng(0).integers(0, n, (n, REPLICATES))
    taus = kendall(x[chosen], y[chosen])
    taus = taus[~np.isnan(taus)]
    low, high = np.quantile(taus, [0.025, 0.975]) if taus.size else (math.nan, math.nan)
    return Agreed(measure, against, n, float(kendall(x[:, None], y[:, None])[0]), float(low), float(high))


def _number(x: float | None) -> float:
    return math.nan if x is None else float(x)
