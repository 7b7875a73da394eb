"""Rows of the table `comparisons`: every pair of models, paired by bucket of users."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eval_engine.estimators.estimator import Estimator
from eval_engine.evaluation.result_groups import InferenceSettings, ModelSums, ResultGroup, Rows, nullable
from eval_engine.evaluation.spec import ALL
from eval_engine.kernels.arrays import Floats
from eval_engine.statistics.comparison import compare_groups, hit_size
from eval_engine.statistics.ratio import SCALE

Wins = dict[tuple[str, int], dict[tuple[str, str], int]]


def wins_of(table: pa.Table) -> Wins:
    """The number of users for whom each model beats each other model, by metric and cutoff: the same for every
    estimator from random exposure.
    """
    has = table.filter(table.column("wins").is_valid())
    parts = []
    for batch in has.to_batches():
        entries = batch.column("wins")
        ends = entries.offsets.to_numpy()
        own = slice(ends[0], ends[-1]) if ends.size else slice(0)
        flat = batch.select(["estimator", "metric", "k", "model"]).take(np.repeat(np.arange(len(batch)), np.diff(ends)))
        parts.append(
            pa.table(flat.columns, flat.schema.names)
            .append_column("rival", entries.keys[own])
            .append_column("n", entries.items[own])
        )
    if not parts:
        return {}
    flat = pa.concat_tables(parts)
    summed = flat.group_by(["estimator", "metric", "k", "model", "rival"]).aggregate([("n", "sum")])
    wins: Wins = {}
    seen: dict[tuple[str, int], str] = {}
    for row in summed.sort_by("estimator").to_pylist():
        cell = row["metric"], row["k"]
        if seen.setdefault(cell, row["estimator"]) == row["estimator"]:
            wins.setdefault(cell, {})[row["model"], row["rival"]] = row["n_sum"]
    return wins


def comparison_rows(groups: list[ResultGroup], wins: Wins, asking: InferenceSettings) -> Rows:
    """The rows of groups with the same numbers of models and buckets."""
    n_users = np.array([max(m.sums.n_users for m in group.models) for group in groups])
    sums = (
        np.array([[getattr(m.sums, x) / SCALE for m in group.models] for group in groups]) for x in ("a", "b", "aa")
    )
    pairs = compare_groups(
        np.array([group.values.values for group in groups]),
        np.array([group.values.errors for group in groups]),
        np.array([group.values.n_units for group in groups]),
        n_users,
        confidence=asking.confidence,
        margin=asking.margin,
        power=asking.power,
        hits=hit_size(*sums),
    )
    no_worse = np.maximum(pairs.p_no_worse_first, pairs.p_no_worse_second)
    scales = np.array([getattr(group.combined, "bias", None) is None for group in groups])[:, None]
    doubles = {
        "difference": pairs.difference,
        "standard_error": pairs.standard_error,
        "low": pairs.low,
        "high": pairs.high,
        "p": pairs.p,
        "p_holm": pairs.p_holm,
        "p_fdr": pairs.p_fdr,
        "p_a_no_worse": pairs.p_no_worse_first,
        "p_b_no_worse": pairs.p_no_worse_second,
    }
    users = (np.where(scales, x, np.nan) for x in (pairs.users_needed, pairs.users_equivalent))
    needed, equivalent = ([None if x is None else int(x) for x in nullable(own)] for own in users)
    verdicts = _verdicts(pairs.difference, pairs.p_holm, no_worse, 1 - asking.confidence).ravel().tolist()
    ij = list(zip(pairs.first.tolist(), pairs.second.tolist(), strict=True))
    names = ("estimator", "metric", "k", "slice", "model_a", "model_b", *doubles, "wins", "ties", "losses")
    names += ("confidence", "margin", "verdict", "users_needed", "power", "users_equivalent")
    numbers = zip(*(nullable(x) for x in doubles.values()), strict=True)
    ends = zip(verdicts, needed, equivalent, strict=True)
    rows: Rows = []
    for group in groups:
        name, metric, k, part = group.key
        won = wins.get((metric, k), {}) if part == ALL and _has_wins(group.about.estimator) else {}
        for i, j in ij:
            first, second = group.models[i], group.models[j]
            verdict, own, same = next(ends)
            values = (name, metric, k, part, first.name, second.name, *next(numbers))
            values += _wins_of_pair(first, second, won) if won else (None, None, None)
            values += (asking.confidence, asking.margin, verdict, own, asking.power, same)
            rows.append(dict(zip(names, values, strict=True)))
    return rows


def _has_wins(estimator: Estimator) -> bool:
    """Whether models are compared per user: only where random exposures give a value per user."""
    return estimator.role == "estimate" and "random" in estimator.needs


def _wins_of_pair(
    first: ModelSums, second: ModelSums, won: dict[tuple[str, str], int]
) -> tuple[int | None, int | None, int | None]:
    """Wins, ties and losses among users with an exposed positive."""
    if (first.name, second.name) not in won or (second.name, first.name) not in won:
        return None, None, None
    wins, losses = won[first.name, second.name], won[second.name, first.name]
    return wins, max(min(first.sums.n_users, second.sums.n_users) - wins - losses, 0), losses


def _verdicts(difference: Floats, p_holm: Floats, no_worse: Floats, level: float) -> npt.NDArray[np.str_]:
    """The verdicts: a difference that is significant at the family-wise error rate, else that neither model is worse by
    more than the margin. no_worse: the larger p-value of the two tests.
    """
    better = np.where(difference > 0, "a better", "b better")
    return np.where(p_holm < level, better, np.where(no_worse < level, "equivalent", "not decided"))
