"""From the ranks table to statistics: one pass over the labelled pairs computes the sums of every estimator, metric and
cutoff, for all models.

Each task adds up its users by bucket and sends, per model and bucket, the packed sums and the per-user values on which
models are compared (user_sums.py). A second step adds up the sums and counts, by bucket, the users for whom each model
beats each other model (bucket_statistics.py). Nothing else is shuffled, and the size of the result grows with neither
users nor items. Only the columns that the requested estimators need are read.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from eval_engine.errors import DataError
from eval_engine.estimators.metrics.parity import CLASSES
from eval_engine.estimators.user_batch import (
    LabelSet,
    ListItems,
    TopLists,
    UserBatch,
    list_items,
    list_set,
    popularity_columns,
)
from eval_engine.evaluation.bucket_statistics import statistics_rows
from eval_engine.evaluation.packed_rows import PACKED, unpacked_size
from eval_engine.evaluation.pair_propensities import pair_propensities
from eval_engine.evaluation.slice_codes import SliceCodes, slice_codes
from eval_engine.evaluation.spec import EvaluationSpec
from eval_engine.evaluation.user_sums import UserSums, terms_of_users
from eval_engine.kernels.rank_facts import UNKNOWN, RankFacts
from eval_engine.kernels.xxhash64 import xxhash64
from eval_engine.spark.task_sizes import FEW_PARTITIONS, assign_tasks
from eval_engine.spark.worker_process import prepare_worker
from eval_engine.spark.worker_types import Plan, Worker
from eval_engine.storage.keyed_table import KeyedTable, loaded
from eval_engine.storage.stored_file import open_file
from eval_engine.tables import STATISTICS

AT_ONCE = 64 * 2**20  # bytes of ranks, or of packed rows, processed at once
USERS_AT_ONCE = 1 << 14  # arrays of this size stay in the processor's cache; fewer users cost more calls
SUMS_AT_ONCE = 1 << 20  # users times cutoffs: cached sums of each gain
LISTED_AT_ONCE = 400_000  # items of top lists: several columns of them stay in the processor's cache
TASK_BYTES = 64 * 2**20
FEW_TASKS = 16  # minimum number of tasks, if there are as many files
STATISTICS_COLUMNS = STATISTICS.row_ddl()
FACTS = (
    "values",
    "above",
    "tied",
    "probabilities",
)  # of labelled pairs; items and scores, two fifths of the bytes, are rarely needed
File = tuple[str, str, int]  # path of a file of ranks, its model, its bytes

FRAME = ("candidates", "scored")  # of a label set, else of the row


def statistics(ranks: DataFrame, spec: EvaluationSpec) -> Plan:
    """The rows of the statistics table, without run_id, from rows of the ranks table."""
    return _added(needed_columns(ranks, spec).mapInArrow(_summed(spec), PACKED), spec)


def needed_columns(ranks: DataFrame, spec: EvaluationSpec) -> DataFrame:
    """The needed columns, flat."""
    # Lists, not a struct of them, which Spark would build item by item; and empty ones for NULL: Arrow's Java writes a
    # NULL list in time that grows with those before it.
    needed = [
        F.coalesce(F.col(f"{name}.{field}"), F.array()).alias(f"{name}_{field}")
        for name in spec.label_sets()
        for field in _fields(spec, name)
    ]
    for name in spec.label_sets():
        known = ranks.schema[name].dataType.names  # type: ignore[attr-defined]
        needed += [
            (F.coalesce(F.col(f"{name}.{count}"), F.col(count)) if count in known else F.col(count))
            .cast("int")
            .alias(f"{name}_{count}")
            for count in FRAME
        ]
    if spec.with_lists():
        needed.append(F.coalesce(F.col("top.items"), F.array()).alias("top_items"))
    return ranks.select("model", "user_id", *FRAME, *needed)


def _fields(spec: EvaluationSpec, name: str) -> tuple[str, ...]:
    """The needed lists of a label set."""
    return (*FACTS, "items") if name in spec.item_sets() else FACTS


def statistics_of_files(spark: SparkSession, files: Sequence[File], spec: EvaluationSpec) -> Plan:
    """The same, from files of the ranks table with model and bytes of each. Workers read the files themselves: through
    Java, lists cost more than all estimators together.
    """
    packed = by_files(spark, files, spec, _summed(spec), PACKED)
    return _added(packed, spec, sum(size for _, _, size in files))


def by_files(spark: SparkSession, files: Sequence[File], spec: EvaluationSpec, worker: Worker, ddl: str) -> DataFrame:
    """The rows that a function gives for the needed columns of files of ranks."""
    sizes = [size for _, _, size in files]
    # the bytes that a task sends do not shrink with its users, so the number of tasks is limited
    tasks = assign_tasks(sizes, max(FEW_TASKS, sum(sizes) // TASK_BYTES))

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        mine = {number for batch in batches for number in batch.column(0).to_pylist()}
        chosen = (file for file, task in zip(files, tasks, strict=True) if task in mine)
        return worker(rows for path, model, _ in chosen for rows in read_ranks(path, model, spec))

    n_tasks = max(tasks) + 1
    return spark.range(0, n_tasks, 1, n_tasks).mapInArrow(run, ddl)


def statistics_here(files: Sequence[File], spec: EvaluationSpec) -> pa.Table:
    """The rows themselves, computed in this process: for inputs so small that starting tasks would take longer."""
    rows = (batch for path, model, _ in files for batch in read_ranks(path, model, spec))
    packed = [row for batch in _summed(spec)(rows) for row in zip(*batch.to_pydict().values(), strict=True)]
    return pa.Table.from_batches([statistics_rows(sorted(packed, key=lambda row: row[0]), spec)])


def read_ranks(path: str, model: str, spec: EvaluationSpec) -> Iterator[pa.RecordBatch]:
    """The needed columns of a file of ranks, in batches of bounded bytes."""
    wanted = ["user_id", *FRAME]
    wanted += [f"{name}.{field}" for name in spec.label_sets() for field in (*_fields(spec, name), *FRAME)]
    wanted += ["top.items"] if spec.with_lists() else []
    try:
        with open_file(path) as handle, pq.ParquetFile(handle) as file:
            groups = [file.metadata.row_group(n) for n in range(file.num_row_groups)]
            per_row = max(1, sum(group.total_byte_size for group in groups) // max(1, file.metadata.num_rows))
            for batch in file.iter_batches(int(np.clip(AT_ONCE // per_row, 1, USERS_AT_ONCE)), columns=wanted):
                yield _flat(batch.append_column("model", pa.array([model] * batch.num_rows, pa.string())), spec)
    except (OSError, pa.ArrowException) as error:
        raise DataError(
            f"ranks: {path} of model {model} cannot be read ({' '.join(str(error).split())[:200]}). Remove the file "
            "and run jobs/rank.py again: it ranks what is gone."
        ) from None


def statistics_of(plans: Iterable[Plan], spec: EvaluationSpec) -> Plan:
    """The same while ranking: ranks go from the kernel to the sums and are not stored."""
    return _added(
        reduce(
            DataFrame.unionByName,
            [plan.rows.mapInArrow(_then(plan.worker, _summed(spec), spec), PACKED) for plan in plans],
        ),
        spec,
    )


def _then(first: Worker, second: Worker, spec: EvaluationSpec) -> Worker:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return second(_flat(batch, spec) for batch in first(batches))

    return run


def _flat(batch: pa.RecordBatch, spec: EvaluationSpec) -> pa.RecordBatch:
    """Rows of ranks, with the lists that are needed as columns."""
    columns = {name: batch.column(name) for name in ("model", "user_id", *FRAME)}
    for name in spec.label_sets():
        labels = batch.column(name)
        columns |= {f"{name}_{field}": labels.field(field) for field in _fields(spec, name)}
        columns |= {f"{name}_{count}": _own(batch, name, count).cast(pa.int32()) for count in FRAME}
    if spec.with_lists():
        columns["top_items"] = batch.column("top").field("items")
    return pa.RecordBatch.from_pydict(columns)


def _own(batch: pa.RecordBatch, name: str, count: str) -> pa.Array:
    """A count of the label set's own frame; rows of older versions have one frame for all sets."""
    field = batch.column(name).type.get_field_index(count)
    return batch.column(count) if field < 0 else pc.coalesce(batch.column(name).field(field), batch.column(count))


def unequal_users(ranks: DataFrame) -> set[str]:
    """The reasons why models were not ranked on the same users: bad_vector, not_scored; empty if they were. Reads three
    narrow columns.
    """
    hashed = F.xxhash64("user_id")
    models = ranks.groupBy("model").agg(
        F.count("problem").alias("bad"), F.count(F.lit(1)).alias("users"), F.bit_xor(hashed).alias("who")
    )
    found = models.collect()
    bad = {"bad_vector"} if any(row["bad"] for row in found) else set()
    return bad | ({"not_scored"} if len({(row["users"], row["who"]) for row in found}) > 1 else set())


def ranked_by_all(ranks: DataFrame, gaps: Collection[str]) -> DataFrame:
    """The ranks without users that some model could not rank or did not score: models are compared on the same users.
    gaps: the result of unequal_users; if it is empty nothing is joined, since a join would shuffle every row.
    """
    unranked = []
    if "bad_vector" in gaps:
        unranked.append(ranks.where("problem IS NOT NULL").select("user_id"))
    if "not_scored" in gaps:
        n_models = ranks.select("model").distinct().count()
        unranked.append(ranks.groupBy("user_id").count().where(F.col("count") < n_models).select("user_id"))
    return ranks.join(reduce(DataFrame.union, unranked).distinct(), "user_id", "left_anti") if unranked else ranks


def _summed(spec: EvaluationSpec) -> Worker:
    """The function that adds up the users of a task: rows of ranks in, PACKED out."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        sums: dict[str, UserSums] = {}
        for model, rows in _by_model(batches, spec):
            if model not in sums:
                sums[model] = UserSums(model, spec)
            yield sums[model].add(xxhash64(rows.column("user_id")), *user_batch(rows, spec))
        for own in sums.values():
            yield from own.packed()

    return run


def user_terms(spec: EvaluationSpec) -> Worker:
    """The function that computes the terms of every user: rows of ranks in; model, user_id, estimator, metric, k,
    numerator, denominator out.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        asked = spec.asked()
        for model, rows in _by_model(batches, spec):
            batch, _ = user_batch(rows, spec)
            for formula, metric in asked:
                a, b = terms_of_users(formula, metric, batch, spec.ties)
                counted = b > 0
                n = int(counted.sum())
                yield pa.RecordBatch.from_pydict(
                    {
                        "model": pa.array([model] * n, pa.string()),
                        "user_id": rows.column("user_id").filter(pa.array(counted)),
                        "estimator": pa.array([formula.estimator.name] * n, pa.string()),
                        "metric": pa.array([metric.name] * n, pa.string()),
                        "k": pa.array(np.full(n, metric.k, np.int32)),
                        "numerator": pa.array(a[counted], from_pandas=True),  # NaN (unknown) becomes NULL
                        "denominator": pa.array(b[counted]),
                    }
                )

    return run


def user_metrics(ranks: DataFrame, spec: EvaluationSpec) -> DataFrame:
    """The terms of every counted user, from rows of the ranks table."""
    kind = dict(ranks.dtypes)["user_id"]
    columns = (
        f"model STRING, user_id {kind}, estimator STRING, metric STRING, k INT, numerator DOUBLE, denominator DOUBLE"
    )
    return needed_columns(ranks, spec).mapInArrow(user_terms(spec), columns)


def _by_model(batches: Iterable[pa.RecordBatch], spec: EvaluationSpec) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Batches of rows of one model, small enough to be processed at once."""
    at_once = min(USERS_AT_ONCE, SUMS_AT_ONCE // max(1, len(spec.cutoffs())))
    if "top" in spec.needs:
        at_once = min(at_once, max(1, LISTED_AT_ONCE // spec.list_cutoff))
    for batch in batches:
        models = pc.unique(batch.column("model")).to_pylist()
        for model in models:
            rows = batch.filter(pc.equal(batch.column("model"), model)) if len(models) > 1 else batch
            for start in range(0, rows.num_rows, at_once):
                yield model, rows.slice(start, at_once)


def user_batch(rows: pa.RecordBatch, spec: EvaluationSpec) -> tuple[UserBatch, SliceCodes]:
    """The users of some rows as a batch for estimators, and the slices of the users and of their positives."""
    labels, keys = {}, {}
    for name in spec.label_sets():
        facts = rank_facts_of(
            {field: rows.column(f"{name}_{field}") for field in FACTS},
            *(rows.column(f"{name}_{count}") for count in FRAME),
        )
        labels[name] = LabelSet(facts, spec.positive.of(facts.value))
        if name in spec.item_sets():
            keys[name] = rows.column(f"{name}_items").flatten()
    item = {}
    weighing = {
        need.removeprefix("item.") for f, _ in spec.asked() for need in f.estimator.needs if need.startswith("item.")
    }
    for table in spec.item_tables:
        for column in weighing & set(table.columns):
            own = loaded(table)
            item[column] = own.columns[column]
            for name, ids in keys.items():
                labels[name] = labels[name]._replace(item=own.rows(xxhash64(ids)))
    top = None
    listed = None
    if spec.with_lists():
        offsets, ids = _top_lists(rows.column("top_items"), spec.list_cutoff)
        top = TopLists(offsets, xxhash64(ids))
    if top is not None and "top" in spec.needs:
        labels["top"], keys["top"] = (
            list_set(top.offsets, rows.column("candidates").to_numpy(zero_copy_only=False)),
            ids,
        )
        if spec.popularity is not None:
            listed, top = _list_items(rows, top, spec)
    if "keys" in spec.needs:
        users = xxhash64(rows.column("user_id"))
        for name in {"top", "heldout"} & set(keys):
            seeds = np.repeat(users, np.diff(labels[name].facts.offsets))
            labels[name] = labels[name]._replace(key=xxhash64(keys[name], seeds))
    propensities = None
    if spec.propensity is not None and "heldout" in labels:
        propensities = pair_propensities(rows, spec.propensity, labels["heldout"].facts, keys.get("heldout"))
    batch = UserBatch(labels, spec.cutoffs(), top, item, propensities, listed)
    return batch, slice_codes(rows, spec, labels, keys, propensities)


def _top_lists(lists: pa.Array, k: int) -> tuple[npt.NDArray[np.int64], pa.Array]:
    """Offsets and items of the first k items of each list."""
    lengths = pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False)
    ids, kept = lists.flatten(), np.minimum(lengths, k)
    offsets = np.concatenate([[0], np.cumsum(kept)]).astype(np.int64)
    if (kept < lengths).any():
        starts = np.concatenate([[0], np.cumsum(lengths)])[:-1]
        ids = ids.take(pa.array(np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], kept)))
    return offsets, ids


def _list_items(rows: pa.RecordBatch, top: TopLists, spec: EvaluationSpec) -> tuple[ListItems, TopLists]:
    """What the run's popularity says of the items of lists, and of what each user was trained on; and the lists with
    the numbers of their items.
    """
    rule = spec.popularity
    assert rule is not None
    items, trained = loaded(rule.counts), loaded(rule.trained)
    place = items.rows(top.items)
    user = trained.rows(xxhash64(rows.column("user_id")))
    seen = np.stack([np.append(trained.columns[name], 0.0)[user] for name in CLASSES])
    available = np.array(rule.sizes, np.float64)[:, None] - seen
    if place.min(initial=0) >= 0:
        top = top._replace(number=place, keys=items.keys.ids)
    return list_items(place, _popularity(rule.counts, rule.n_users), available), top


@lru_cache(maxsize=4)
def _popularity(counts: KeyedTable, n_users: int) -> npt.NDArray[np.float64]:
    """The columns of items, made once per process."""
    items = loaded(counts)
    return popularity_columns(items.columns["count"], items.columns["low"], n_users)


def _added(packed: DataFrame, spec: EvaluationSpec, n_bytes: int = FEW_TASKS * TASK_BYTES) -> Plan:
    """The statistics of each bucket from the packed rows of tasks. n_bytes: bytes of the ranks, if known. Each
    partition becomes a file of statistics.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        waiting: list[tuple[Any, ...]] = []
        size = 0
        for batch in batches:
            for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                if size > AT_ONCE and row[0] != waiting[-1][0]:
                    yield statistics_rows(waiting, spec)
                    waiting, size = [], 0
                waiting.append(row)
                size += unpacked_size(row[2]) + sum(len(part) for part in row[3:] if part is not None)
        if waiting:
            yield statistics_rows(waiting, spec)

    at_most = int(packed.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)
    n_partitions = min(at_most, max(FEW_PARTITIONS, -(-n_bytes // TASK_BYTES)))
    return Plan(packed.repartition(n_partitions, "bucket").sortWithinPartitions("bucket"), run)


def rank_facts_of(labels: Mapping[str, pa.Array], candidates: pa.Array, scored: pa.Array) -> RankFacts:
    """The labels of one set as flat arrays, from its lists by name; without scores."""
    lengths = pc.list_value_length(labels["above"]).fill_null(0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    columns = {name: labels[name].flatten() for name in FACTS}
    if columns["tied"].null_count:  # in a partial list: a label without a score is below all with one, in unknown order
        least = pa.array(np.repeat(scored.to_numpy(zero_copy_only=False), lengths), pa.int32())
        columns |= {"above": columns["above"].fill_null(least), "tied": columns["tied"].fill_null(UNKNOWN)}
    value, above, tied, probability = (column.to_numpy(zero_copy_only=False) for column in columns.values())
    known = probability if probability.size else None
    return RankFacts(
        offsets, value, np.empty(0, np.float32), above, tied, candidates.to_numpy(zero_copy_only=False), known
    )
