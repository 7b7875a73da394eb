"""Rows of the table `comparisons`: every pair of models, paired by bucket of users."""

import numpy as np
import pyarrow as pa

from eval_engine.estimators.estimator import Estimator
from eval_engine.evaluation.result_groups import InferenceSettings, ModelSums, ResultGroup, Rows, known
from eval_engine.evaluation.spec import ALL
from eval_engine.statistics.comparison import compare_groups, hit_size
from eval_engine.statistics.ratio import SCALE, RatioSums

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
    pairs = compare_groups(
        np.array([group.values.values for group in groups]),
        np.array([group.values.errors for group in groups]),
        np.array([group.values.n_units for group in groups]),
        n_users,
        confidence=asking.confidence,
        margin=asking.margin,
        power=asking.power,
        hits=np.array([[_hit_size(m.sums) for m in group.models] for group in groups]),
    )
    level = 1 - asking.confidence
    rows: Rows = []
    for n, group in enumerate(groups):
        name, metric, k, part = group.key
        estimator = group.about.estimator
        won = wins.get((metric, k), {}) if part == ALL and _has_wins(estimator) else {}
        for p, (i, j) in enumerate(zip(pairs.first, pairs.second, strict=True)):
            first, second = group.models[i], group.models[j]
            difference, holm = float(pairs.difference[n, p]), float(pairs.p_holm[n, p])
            no_worse = float(pairs.p_no_worse_first[n, p]), float(pairs.p_no_worse_second[n, p])
            doubles = {
                "difference": difference,
                "standard_error": pairs.standard_error[n, p],
                "low": pairs.low[n, p],
                "high": pairs.high[n, p],
                "p": pairs.p[n, p],
                "p_holm": holm,
                "p_fdr": pairs.p_fdr[n, p],
                "p_a_no_worse": no_worse[0],
                "p_b_no_worse": no_worse[1],
            }
            scales = getattr(group.combined, "bias", None) is None
            needed, equivalent = (
                None if np.isnan(users) or not scales else int(users)
                for users in (pairs.users_needed[n, p], pairs.users_equivalent[n, p])
            )
            counts = dict(zip(("wins", "ties", "losses"), _wins_of_pair(first, second, won), strict=True))
            rows.append(
                {
                    "estimator": name,
                    "metric": metric,
                    "k": k,
                    "slice": part,
                    "model_a": first.name,
                    "model_b": second.name,
                    **{column: known(float(x)) for column, x in doubles.items()},
                    **counts,
                    "confidence": asking.confidence,
                    "margin": asking.margin,
                    "verdict": _verdict(difference, holm, no_worse, level),
                    "users_needed": needed,
                    "power": asking.power,
                    "users_equivalent": equivalent,
                }
            )
    return rows


def _hit_size(sums: RatioSums) -> float:
    """What a user's hit adds to the value of a model."""
    return float(hit_size(*(np.array(x / SCALE) for x in (sums.a, sums.b, sums.aa))))


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


def _verdict(difference: float, p_holm: float, no_worse: tuple[float, float], level: float) -> str:
    """The verdict: a difference that is significant at the family-wise error rate, else that neither model is worse by
    more than the margin.
    """
    if p_holm < level:
        return "a better" if difference > 0 else "b better"
    return "equivalent" if max(no_worse) < level else "not decided"
