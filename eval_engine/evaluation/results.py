"""From statistics to estimates, comparisons, reversals and agreement: numpy on sums by bucket, vectorised over groups
of models, in a Spark worker or any other process.

A group is an estimator, metric, cutoff and slice; the rows of all its models are processed together. The results are
estimates with intervals (from second moments over users where they are known, from the estimator's combination where it
has strata), a Poisson bootstrap over buckets, and every pair of models, paired by bucket. To evaluate several runs as
one, add their rows.
"""

from collections.abc import Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from eval_engine.estimators.test_set import TEST_SET
from eval_engine.evaluation.agreement_rows import Bootstrap, Valued, agreement_rows
from eval_engine.evaluation.bqs_rows import Bootstrap as Bqs
from eval_engine.evaluation.bqs_rows import Quality, bqs_rows, coarse
from eval_engine.evaluation.combined_groups import class_groups, stratified_groups, test_set_groups, with_spread
from eval_engine.evaluation.comparison_rows import comparison_rows, wins_of
from eval_engine.evaluation.estimate_rows import estimate_rows, list_rows
from eval_engine.evaluation.pair_weights import PAIRS, WEIGHT, spreads_of
from eval_engine.evaluation.result_groups import Described, InferenceSettings, ResultGroup, Rows, groups_of
from eval_engine.evaluation.reversals import reversal_rows
from eval_engine.evaluation.spec import ALL
from eval_engine.evaluation.strata import Spreads
from eval_engine.lake.arrow_schema import row_schema
from eval_engine.tables import BQS, COMPARISONS, ESTIMATES, ESTIMATOR_AGREEMENT, REVERSALS, Table

MOST_PARTITIONS = 16  # of a few dozen groups
NUMBERS_AT_ONCE = 1 << 22  # replicates or errors held in memory at once
SPREAD_COLUMNS = ["model", "estimator", "metric", "slice", "bucket", "n_users", "n_unknown", "a", "aa", "a_high"]


class Results(NamedTuple):
    """Rows of the tables, without run_id."""

    estimates: Rows
    comparisons: Rows
    reversals: Rows
    agreement: Rows
    bqs: Rows = []  # noqa: RUF012


RESULT_TABLES = (ESTIMATES, COMPARISONS, REVERSALS, ESTIMATOR_AGREEMENT, BQS)  # in the order of Results


def results_by_workers(
    statistics: DataFrame,
    asking: InferenceSettings,
    about: Mapping[tuple[str, str], Described] | None = None,
    with_weights: bool = False,
) -> Results:
    """The rows of all tables, from rows of the statistics table: one Spark job, and one more if there are weights of
    pairs.
    """
    types = (f"{table.name} ARRAY<STRUCT<{table.row_ddl()}>>" for table in RESULT_TABLES)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = [batch for batch in batches if batch.num_rows]
        if rows:
            yield _nested(results_of(pa.Table.from_batches(rows), asking, about, spreads))

    n_partitions = min(MOST_PARTITIONS, int(statistics.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1))
    spreads: Spreads = {}
    if with_weights:
        beside = statistics.where(F.col("metric").isin(WEIGHT, PAIRS)).select(*SPREAD_COLUMNS)
        spreads = spreads_of(row.asDict() for row in beside.collect())
    # Arrow's Java writes a NULL map in time that grows with those before it
    for name, kind in (("wins", "map<string, bigint>"), ("items", "map<bigint, bigint>")):
        statistics = statistics.withColumn(name, F.expr(f"coalesce({name}, cast(map() AS {kind}))"))
    # wins, combined estimates and agreement need rows of several estimators: groups of a metric stay together
    grouped = statistics.repartition(n_partitions, "metric", "k").mapInArrow(run, ", ".join(types))
    parts = grouped.collect()
    return Results(
        *(in_order(table, [row.asDict() for part in parts for row in part[table.name]]) for table in RESULT_TABLES)
    )


def in_order(table: Table, rows: Rows) -> Rows:
    """Rows of one run by their key, NULL first."""
    names = [name for name in table.key if name != "run_id"]
    keys = list(map(itemgetter(*names), rows))
    if any(None in key for key in keys):
        return sorted(rows, key=lambda row: [(row[name] is not None, row[name]) for name in names])
    return [rows[n] for n in sorted(range(len(rows)), key=keys.__getitem__)]


def _nested(results: Results) -> pa.RecordBatch:
    columns = {
        table.name: pa.array([rows], pa.list_(pa.struct(list(row_schema(table)))))
        for table, rows in zip(RESULT_TABLES, results, strict=True)
    }
    return pa.RecordBatch.from_pydict(columns)


def results_of(
    table: pa.Table,
    asking: InferenceSettings,
    about: Mapping[tuple[str, str], Described] | None = None,
    spreads: Spreads | None = None,
) -> Results:
    """The rows of all tables, from all statistics rows of some metrics. spreads: of weights over pairs, if the rows do
    not have them.
    """
    estimates: Rows = []
    comparisons: Rows = []
    wins = wins_of(table)
    beside = pc.is_in(table.column("metric"), pa.array([WEIGHT, PAIRS]))
    spreads = spreads_of(table.filter(beside).select(SPREAD_COLUMNS).to_pylist()) if spreads is None else spreads
    table = table.filter(pc.invert(beside))
    ready = list(groups_of(table, asking, about or {}))
    of_draws = [group for group in ready if group.key[0] == TEST_SET.name]
    ready = [group for group in ready if group.key[0] != TEST_SET.name]
    ready = [with_spread(group, spreads) for group in ready] + stratified_groups(ready, spreads)
    ready += test_set_groups(of_draws, spreads)
    ready += class_groups(ready)
    for group in (one for one in ready if one.about.lists):
        estimates += list_rows(group, table, asking)
    rest = [one for one in ready if not one.about.lists]
    rest.sort(key=lambda one: (one.values.errors.shape, one.key))
    for (n_models, n_units), same in groupby(rest, key=lambda one: one.values.errors.shape):
        groups = list(same)
        each = max(1, n_models * max(asking.replicates, n_models * n_units))
        at_once = max(1, NUMBERS_AT_ONCE // each)
        for start in range(0, len(groups), at_once):
            some = groups[start : start + at_once]
            estimates += estimate_rows(some, asking)
            defined = [
                group
                for group in some
                if group.about.ordered
                and (group.about.estimator.combine is None or group.combined is not None)
                and not group.about.estimator.no_interval
            ]
            comparisons += comparison_rows(defined, wins, asking) if defined else []
    reversals = reversal_rows(estimates, comparisons, asking.confidence, asking.slice_items)
    rows = (estimates, comparisons, reversals, _agreement_rows(rest, asking), _bqs_rows(rest, asking))
    return Results(*(in_order(table, own) for table, own in zip(RESULT_TABLES, rows, strict=True)))


def _agreement_rows(groups: list[ResultGroup], asking: InferenceSettings) -> Rows:
    """The agreement of estimators over the models, metric by metric."""
    by_metric: dict[tuple[str, int], list[Valued]] = {}
    for group in (one for one in groups if one.key[3] == ALL):
        values = group.values
        unknown = np.array([m.sums.n_unknown > 0 for m in group.models])
        a, b = (np.array([getattr(m, name) for m in group.models]) for name in ("a", "b"))
        errors = None if group.about.estimator.combine is None else values.errors
        names = tuple(m.name for m in group.models)
        valued = Valued(group.about.estimator, names, values.values, np.where(unknown[:, None], np.nan, a), b, errors)
        by_metric.setdefault((group.key[1], group.key[2]), []).append(valued)
    settings = Bootstrap(asking.confidence, asking.replicates, asking.seed)
    return [
        row
        for (metric, k), own in by_metric.items()
        for row in agreement_rows(metric, k, own, settings, asking.users_by_sets)
    ]


def _bqs_rows(groups: list[ResultGroup], asking: InferenceSettings) -> Rows:
    """The balanced quality scores of the pairs that are asked for; ANOVA needs those of all metrics (with_anova)."""
    if asking.bqs is None:
        return []
    whole, parts = {}, {}
    for group in groups:
        if group.about.estimator.combine is not None or group.key[1:3] not in asking.bqs.metrics:
            continue
        cell, part = group.key[:3], group.key[3]
        values = {m.name: float(x) for m, x in zip(group.models, group.values.values, strict=True)}
        quality = Quality(
            values, {m.name: coarse(m.a) for m in group.models}, {m.name: coarse(m.b) for m in group.models}
        )
        if part == ALL:
            whole[cell] = quality
        else:
            parts[cell, part] = quality
    return bqs_rows(asking.bqs, whole, parts, Bqs(asking.confidence, asking.replicates, asking.seed))
