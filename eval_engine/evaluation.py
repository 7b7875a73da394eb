"""From the ranks table to estimates: one pass over the labelled pairs sums what every estimator, metric and cutoff needs, for all models.

Each task adds up its users (statistics/ratio.py: exact sums, so that partitioning does not matter) and sends one row per model, estimator and
metric; Spark adds those rows; the ratio is taken once, on the driver, of a table that grows with neither users nor items.
"""

import math
from collections.abc import Iterable, Iterator
from decimal import Decimal
from functools import reduce
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from eval_engine.estimators.estimator import Estimator, Terms
from eval_engine.estimators.registry import ESTIMATORS
from eval_engine.kernels.rank_facts import UNKNOWN, RankFacts
from eval_engine.metric import Metric
from eval_engine.positive import Positive
from eval_engine.ranking.part_files import Worker
from eval_engine.ranking.planned import Plan
from eval_engine.statistics.ratio import NO_USERS, SCALE, RatioSums, estimate, merge, ratio_sums
from eval_engine.worker_process import settle

Key = tuple[str, str, str, int]  # model, estimator, metric, k
COUNTS = ("n_users", "n_left_out", "n_unknown")
SUMS = ("a", "b", "aa", "ab", "bb")
SCHEMA = "model STRING, estimator STRING, metric STRING, k INT, n_users BIGINT, n_left_out BIGINT, n_unknown BIGINT, " + ", ".join(
    f"{name} DECIMAL(38, 12)" for name in SUMS
)


class Question(NamedTuple):
    """What is asked of every model."""

    metrics: tuple[Metric, ...]  # over all candidates
    traditional: tuple[Metric, ...]  # among the exposed items
    positive: Positive
    ties: str
    sources: tuple[str, ...]  # label sources that the run has: random, truth

    def asked(self) -> Iterator[tuple[Estimator, Metric]]:
        """Every estimator whose labels there are, with each of its metrics."""
        for estimator in ESTIMATORS:
            if self.sources_of(estimator) <= set(self.sources):
                for metric in self.traditional if estimator.name == "traditional" else self.metrics:
                    yield estimator, metric

    @staticmethod
    def sources_of(estimator: Estimator) -> set[str]:
        """The label sources it needs."""
        return {"random", "truth"} if estimator.source == "both" else {estimator.source}


def statistics(ranks: DataFrame, question: Question) -> DataFrame:
    """The statistics table's rows, but for run_id, of rows of the ranks table."""
    return _added(ranks.select("model", "candidates", "scored", *question.sources).mapInArrow(_summed(question), SCHEMA))


def statistics_of(plans: Iterable[Plan], question: Question) -> DataFrame:
    """The same while ranking: ranks go from the kernel to the sums, and are kept nowhere."""
    return _added(reduce(DataFrame.unionByName, [plan.rows.mapInArrow(_then(plan.worker, _summed(question)), SCHEMA) for plan in plans]))


def _then(first: Worker, second: Worker) -> Worker:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return second(first(batches))

    return run


def _added(partial: DataFrame) -> DataFrame:
    """The sums of all tasks in one: a few hundred rows of each come together in one worker."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        totals: dict[Key, RatioSums] = {}
        for batch in batches:
            columns = [column.to_pylist() for column in batch.columns]
            for model, estimator, metric, k, *numbers in zip(*columns, strict=True):
                key = (model, estimator, metric, k)
                counts = dict(zip(COUNTS, numbers, strict=False))
                sums = {name: int(x * SCALE) for name, x in zip(SUMS, numbers[len(COUNTS) :], strict=True)}
                totals[key] = merge(totals.get(key, NO_USERS), RatioSums(**counts, **sums))
        yield _rows(totals)

    return partial.repartition(1).mapInArrow(run, SCHEMA)


def ranked_by_all(ranks: DataFrame, gaps: bool) -> DataFrame:
    """Without the users that some model could not rank, or, where there are such gaps, did not score: models are compared on the same users."""
    unranked = ranks.where("problem IS NOT NULL").select("user_id").distinct()
    if gaps:
        n_models = ranks.select("model").distinct().count()
        unranked = unranked.union(ranks.groupBy("user_id").count().where(F.col("count") < n_models).select("user_id")).distinct()
    return ranks.join(unranked, "user_id", "left_anti")


def _summed(question: Question) -> Worker:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        totals: dict[Key, RatioSums] = {}
        for batch in batches:
            for model in pc.unique(batch.column("model")).to_pylist():
                rows = batch.filter(pc.equal(batch.column("model"), model))
                facts = {source: rank_facts_of(rows.column(source), rows.column("candidates"), rows.column("scored")) for source in question.sources}
                for estimator, metric in question.asked():
                    key = (model, estimator.name, metric.name, metric.k)
                    totals[key] = merge(totals.get(key, NO_USERS), ratio_sums(_terms(estimator, metric, facts, question)))
        yield _rows(totals)

    return run


def _rows(totals: dict[Key, RatioSums]) -> pa.RecordBatch:
    """Sums as rows of SCHEMA."""
    rows = [(*key, *[getattr(sums, n) for n in COUNTS], *[Decimal(getattr(sums, s)).scaleb(-12) for s in SUMS]) for key, sums in totals.items()]
    kinds = [pa.string(), pa.string(), pa.string(), pa.int32(), *[pa.int64()] * len(COUNTS), *[pa.decimal128(38, 12)] * len(SUMS)]
    names = ["model", "estimator", "metric", "k", *COUNTS, *SUMS]
    return pa.RecordBatch.from_arrays([pa.array([row[c] for row in rows], kind) for c, kind in enumerate(kinds)], names)


def _terms(estimator: Estimator, metric: Metric, facts: dict[str, RankFacts], question: Question) -> Terms:
    if estimator.source == "both":
        truth = facts["truth"]
        return estimator.terms(truth, question.positive.of(truth.value), metric.k, question.ties, facts["random"].n_labels)
    chosen = facts[estimator.source]
    return estimator.terms(chosen, question.positive.of(chosen.value), metric.k, question.ties)


def rank_facts_of(labels: pa.StructArray, candidates: pa.Array, scored: pa.Array) -> RankFacts:
    """The labels of one source, a struct of lists as the ranks table holds it, as flat arrays."""
    lengths = pc.list_value_length(labels.field("above")).fill_null(0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    columns = {name: labels.field(name).flatten() for name in ("values", "scores", "above", "tied")}
    if columns["above"].null_count:  # labels without a score, of a partial list: below all that have one, nobody knows where
        least = pa.array(np.repeat(scored.to_numpy(zero_copy_only=False), lengths), pa.int32())
        columns |= {"above": columns["above"].fill_null(least), "tied": columns["tied"].fill_null(UNKNOWN)}
        columns["scores"] = columns["scores"].fill_null(float("nan"))
    flat = {name: column.to_numpy(zero_copy_only=False) for name, column in columns.items()}
    return RankFacts(offsets, flat["values"], flat["scores"], flat["above"], flat["tied"], candidates.to_numpy(zero_copy_only=False))


def estimates(rows: Iterable[Row], confidence: float) -> list[tuple[object, ...]]:
    """The estimates table's rows of the statistics table's rows."""
    words = {estimator.name: estimator.estimand for estimator in ESTIMATORS}
    found: list[tuple[object, ...]] = []
    for row in sorted(rows, key=lambda r: (r["model"], r["estimator"], r["metric"], r["k"])):
        sums = RatioSums(**{name: row[name] for name in COUNTS}, **{name: int(row[name] * SCALE) for name in SUMS})
        result = estimate(sums, confidence)
        numbers = [None if math.isnan(x) else x for x in result[:4]]
        found.append(
            (
                row["model"],
                row["estimator"],
                row["metric"],
                row["k"],
                *numbers,
                confidence,
                sums.n_users,
                sums.n_left_out,
                sums.n_unknown,
                words[row["estimator"]],
            )
        )
    return found
