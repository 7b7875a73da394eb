"""From the ranks table to statistics: one pass over the labelled pairs sums what every estimator, metric and cutoff needs, for all models.

Each task adds up its users by bucket and sends, per model and bucket, the packed sums and the few numbers per user that models are compared on
(user_sums.py); a second step adds those up and counts, bucket by bucket, on how many users each model beats each other one (bucket_statistics.py). Nothing
else moves, and what comes out grows with neither users nor items.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from eval_engine.errors import DataError
from eval_engine.estimators.labelled import Labelled
from eval_engine.evaluation.bucket_statistics import statistics_rows
from eval_engine.evaluation.spec import EvaluationSpec
from eval_engine.evaluation.user_sums import PACKED, UserSums
from eval_engine.kernels.rank_facts import UNKNOWN, RankFacts
from eval_engine.kernels.xxhash64 import xxhash64
from eval_engine.spark.task_sizes import FEW_PARTITIONS, assign_tasks
from eval_engine.spark.worker_process import prepare_worker
from eval_engine.spark.worker_types import Plan, Worker
from eval_engine.storage.stored_file import open_file
from eval_engine.tables import STATISTICS

AT_ONCE = 64 * 2**20  # bytes of ranks, or of packed rows, that are worked on together
USERS_AT_ONCE = 1 << 16  # adding up costs as much for a few users as for these
SUMS_AT_ONCE = 1 << 20  # users times cutoffs: what is kept of each gain
TASK_BYTES = 64 * 2**20
FEW_TASKS = 16  # that there are at least, if there are files for them
STATISTICS_COLUMNS = STATISTICS.row_ddl()
FACTS = (
    "values",
    "above",
    "tied",
    "probabilities",
)  # of labelled pairs; items and scores, two fifths of the bytes, are not needed

FRAME = ("candidates", "scored")  # of a label set, else of the row


def statistics(ranks: DataFrame, question: EvaluationSpec) -> Plan:
    """Makes the statistics table's rows, but for run_id, of rows of the ranks table."""
    # Lists, not a struct of them, which Spark would build item by item; and empty ones for NULL: Arrow's Java writes a NULL list in time that grows with those before it.
    needed = [
        F.coalesce(F.col(f"{source}.{name}"), F.array()).alias(f"{source}_{name}")
        for source in question.sources
        for name in FACTS
    ]
    needed += [
        F.coalesce(F.col(f"{source}.{name}"), F.col(name)).alias(f"{source}_{name}")
        for source in question.sources
        for name in FRAME
    ]
    return _added(ranks.select("model", "user_id", *needed).mapInArrow(_summed(question), PACKED), question)


def statistics_of_files(spark: SparkSession, files: Sequence[tuple[str, str, int]], question: EvaluationSpec) -> Plan:
    """The same, of files of the ranks table, the model and the bytes of each, which workers read themselves: through Java, lists cost more than all estimators together."""
    sizes = [size for _, _, size in files]
    tasks = assign_tasks(
        sizes, max(FEW_TASKS, sum(sizes) // TASK_BYTES)
    )  # what a task sends does not shrink with its users, so not too many

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        mine = {number for batch in batches for number in batch.column(0).to_pylist()}
        chosen = (file for file, task in zip(files, tasks, strict=True) if task in mine)
        return _summed(question)(rows for path, model, _ in chosen for rows in _read(path, model, question.sources))

    n_tasks = max(tasks) + 1
    return _added(spark.range(0, n_tasks, 1, n_tasks).mapInArrow(run, PACKED), question, sum(sizes))


def _read(path: str, model: str, sources: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """What is needed of a file of ranks, in batches of bounded bytes."""
    wanted = ["user_id", *FRAME, *(f"{source}.{name}" for source in sources for name in (*FACTS, *FRAME))]
    try:
        with open_file(path) as handle, pq.ParquetFile(handle) as file:
            groups = [file.metadata.row_group(n) for n in range(file.num_row_groups)]
            per_row = max(1, sum(group.total_byte_size for group in groups) // max(1, file.metadata.num_rows))
            for batch in file.iter_batches(int(np.clip(AT_ONCE // per_row, 1, USERS_AT_ONCE)), columns=wanted):
                yield _flat(batch.append_column("model", pa.array([model] * batch.num_rows, pa.string())), sources)
    except (OSError, pa.ArrowException) as error:
        raise DataError(
            f"ranks: {path} of model {model} cannot be read ({' '.join(str(error).split())[:200]}). Remove the file and run jobs/rank.py again: it ranks what is gone."
        ) from None


def statistics_of(plans: Iterable[Plan], question: EvaluationSpec) -> Plan:
    """The same while ranking: ranks go from the kernel to the sums, and are kept nowhere."""
    return _added(
        reduce(
            DataFrame.unionByName,
            [plan.rows.mapInArrow(_then(plan.worker, _summed(question), question.sources), PACKED) for plan in plans],
        ),
        question,
    )


def _then(first: Worker, second: Worker, sources: Sequence[str]) -> Worker:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return second(_flat(batch, sources) for batch in first(batches))

    return run


def _flat(batch: pa.RecordBatch, sources: Sequence[str]) -> pa.RecordBatch:
    """Rows of ranks, with the lists that are needed as columns."""
    lists = {f"{source}_{name}": batch.column(source).field(name) for source in sources for name in FACTS}
    counts = {f"{source}_{name}": _own(batch, source, name) for source in sources for name in FRAME}
    return pa.RecordBatch.from_pydict({name: batch.column(name) for name in ("model", "user_id")} | lists | counts)


def _own(batch: pa.RecordBatch, source: str, name: str) -> pa.Array:
    """A number of the label set's own frame; rows of older versions have one frame for all sets."""
    field = batch.column(source).type.get_field_index(name)
    return batch.column(name) if field < 0 else pc.coalesce(batch.column(source).field(field), batch.column(name))


def unequal_users(ranks: DataFrame) -> set[str]:
    """Why models were not ranked on the same users: bad_vector, not_scored; empty if they were. Reads three narrow columns."""
    hashed = F.xxhash64("user_id")
    models = ranks.groupBy("model").agg(
        F.count("problem").alias("bad"), F.count(F.lit(1)).alias("users"), F.bit_xor(hashed).alias("who")
    )
    found = models.collect()
    bad = {"bad_vector"} if any(row["bad"] for row in found) else set()
    return bad | ({"not_scored"} if len({(row["users"], row["who"]) for row in found}) > 1 else set())


def ranked_by_all(ranks: DataFrame, gaps: Collection[str]) -> DataFrame:
    """Without the users that some model could not rank or did not score: models are compared on the same users. gaps: as unequal_users tells; without any
    nothing is joined, since that would send every row through a shuffle."""
    unranked = []
    if "bad_vector" in gaps:
        unranked.append(ranks.where("problem IS NOT NULL").select("user_id"))
    if "not_scored" in gaps:
        n_models = ranks.select("model").distinct().count()
        unranked.append(ranks.groupBy("user_id").count().where(F.col("count") < n_models).select("user_id"))
    return ranks.join(reduce(DataFrame.union, unranked).distinct(), "user_id", "left_anti") if unranked else ranks


def _summed(question: EvaluationSpec) -> Worker:
    """The function that adds up the users of a task: rows of ranks in, PACKED out."""
    at_once = min(USERS_AT_ONCE, SUMS_AT_ONCE // max(1, len(question.cutoffs())))

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        sums: dict[str, UserSums] = {}
        for batch in batches:
            models = pc.unique(batch.column("model")).to_pylist()
            for model in models:
                rows = batch.filter(pc.equal(batch.column("model"), model)) if len(models) > 1 else batch
                own = sums.setdefault(model, UserSums(model, question))
                for start in range(0, rows.num_rows, at_once):
                    some = rows.slice(start, at_once)
                    yield own.add(xxhash64(some.column("user_id")), _labelled(some, question))
        for own in sums.values():
            yield own.packed()

    return run


def _labelled(rows: pa.RecordBatch, question: EvaluationSpec) -> dict[str, Labelled]:
    """The labelled pairs of each source."""
    found = {}
    for source in question.sources:
        facts = rank_facts_of(
            {name: rows.column(f"{source}_{name}") for name in FACTS},
            *(rows.column(f"{source}_{name}") for name in FRAME),
        )
        found[source] = Labelled(
            facts, question.positive.of(facts.value), all_labelled=source == "truth", cutoffs=question.cutoffs()
        )
    return found


def _added(packed: DataFrame, question: EvaluationSpec, n_bytes: int = FEW_TASKS * TASK_BYTES) -> Plan:
    """Makes the statistics of each bucket from what tasks found of it; n_bytes: of the ranks, if they are known. Each partition becomes a file of statistics."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        waiting: list[tuple[Any, ...]] = []
        size = 0
        for batch in batches:
            for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                if size > AT_ONCE and row[0] != waiting[-1][0]:
                    yield statistics_rows(waiting, question)
                    waiting, size = [], 0
                waiting.append(row)
                size += sum(len(part) for part in row[2:] if part is not None)
        if waiting:
            yield statistics_rows(waiting, question)

    at_most = int(packed.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)
    n_partitions = min(at_most, max(FEW_PARTITIONS, -(-n_bytes // TASK_BYTES)))
    return Plan(packed.repartition(n_partitions, "bucket").sortWithinPartitions("bucket"), run)


def rank_facts_of(labels: Mapping[str, pa.Array], candidates: pa.Array, scored: pa.Array) -> RankFacts:
    """The labels of one source, its lists by name, as flat arrays; without scores."""
    lengths = pc.list_value_length(labels["above"]).fill_null(0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    columns = {name: labels[name].flatten() for name in FACTS}
    if columns[
        "above"
    ].null_count:  # labels without a score, of a partial list: below all that have one, nobody knows where
        least = pa.array(np.repeat(scored.to_numpy(zero_copy_only=False), lengths), pa.int32())
        columns |= {"above": columns["above"].fill_null(least), "tied": columns["tied"].fill_null(UNKNOWN)}
    value, above, tied, probability = (column.to_numpy(zero_copy_only=False) for column in columns.values())
    known = probability if probability.size else None
    return RankFacts(
        offsets, value, np.empty(0, np.float32), above, tied, candidates.to_numpy(zero_copy_only=False), known
    )
