"""Ranks every labelled pair of all score tables of a run: `above`, `tied`, `candidates`, and the top of each list.

    label tables ─ pairs ─────────┐ by user shard  labels judged,    by task  workers read   rows of the ranks table,
    score files ─ users and places┴──────────────> scores assigned ─────────> scores, rank   to Spark or to files

What moves between workers are blobs (spark/arrow_blobs.py) of labels and places, never a score vector. A user's scores
are a vector (dense_worker.py), rows that are contiguous (long_worker.py), or rows that are scattered over files
(scattered.py); one job ranks all models. Every label set (inputs/label_sets.py) is ranked in its own frame, in the same
pass.
"""

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from eval_engine.inputs.file_stamp import stamped, unchanged
from eval_engine.inputs.label_sets import LABEL_SETS, NUMBER, TABLE, probability_column
from eval_engine.inputs.labels import PROBABILITY
from eval_engine.inputs.read import plain_id
from eval_engine.inputs.score_files import Files, ScoreFile, Source
from eval_engine.lake.part_files import MANIFEST, Target, writing
from eval_engine.positive import Positive
from eval_engine.ranking.assembly import ASSEMBLED, Assembly, assemble
from eval_engine.ranking.facts import Facts, from_json, together
from eval_engine.ranking.long_worker import BLOCK_ROWS
from eval_engine.ranking.rank_task import rank_plan
from eval_engine.ranking.scattered import scattered_plan
from eval_engine.ranking.settings import Ranking
from eval_engine.ranking.splits import Split, plan_splits, reading_tasks
from eval_engine.ranking.user_shards import BLOBS, kept_users, pair_splits, read_splits, scanned_pairs, scanned_rows
from eval_engine.spark.task_sizes import partitions_for
from eval_engine.spark.worker_types import Plan
from eval_engine.tables import RANKS

CELL_BYTES = 32 * 2**20  # labels and places of a shard; several times that while they are brought together
PLAN_BYTES = 64 * 2**20  # scores of the users whose labels a task holds at a time


class Table(NamedTuple):
    """A score table as its files have it."""

    source: Source
    files: tuple[str, ...]
    rows: DataFrame | None = None  # set if only Spark knows which rows of the files count: the table, dense


class Pairs(NamedTuple):
    """A label table."""

    rows: DataFrame | None  # our columns (inputs/label_sets.py); None if workers read the files
    files: tuple[str, ...]
    columns: dict[str, str]  # what our columns are called in the files; the optional one only if there is one
    n_bytes: int  # of the files, more or less


class RankingRequest(NamedTuple):
    """What is ranked and judged together."""

    tables: Sequence[Table]
    labels: dict[str, Pairs]  # by source: label sets, and feedback
    models: tuple[str, ...]  # that must have scored every labelled user, kept ones among them
    kept: DataFrame | None  # model, user_id of models that are ranked already
    all_labels: bool  # assembled.rows tells the labels of every user
    id_type: str
    positive: Positive | None = None  # of exposures; None: they are not counted


class Assembled(NamedTuple):
    """Labels and scores brought together; rows are kept by Spark until the caller unpersists them."""

    rows: DataFrame  # ASSEMBLED
    facts: Facts
    files: Files
    splits: list[Split]
    id_type: str
    ranking: Ranking  # as asked, and which label sets come with probabilities
    partitions: int  # of shuffles
    n_tasks: int  # that rank users whose rows are contiguous, each those of some neighbouring splits' tasks


def assembled(spark: SparkSession, asked: RankingRequest, ranking: Ranking) -> Assembled:
    """Reads labels and user ids, no score; one job."""
    files: Files = tuple(
        ScoreFile(file.path, table.source, file.stamp)
        for table in asked.tables
        for file in stamped(table.source.name, table.files)
    )
    labels = [
        file
        for source, pairs in asked.labels.items()
        if pairs.rows is not None
        for file in stamped(TABLE[source], pairs.files)
    ]
    at_most = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    splits = plan_splits(files, at_most)
    n_bytes = sum((s.end_row - s.first_row) * (64 if files[s.file].source.item is None else 8) for s in splits)
    n_bytes += sum(8 * pairs.n_bytes for pairs in asked.labels.values())
    partitions = partitions_for(max(n_bytes, sum(split.n_bytes for split in splits)), at_most)
    n_tasks = reading_tasks(files, splits, partitions)
    n_shards = partitions * max(1, -(-n_bytes // (partitions * CELL_BYTES)))
    block_rows = tuple(_block_rows(source, ranking) for _, source, _ in files)
    known = [name for name in LABEL_SETS if name in asked.labels and _has_probabilities(name, asked.labels[name])]
    ranking = ranking._replace(probabilities=tuple(known))
    how = Assembly(ranking, files, block_rows, asked.models, asked.all_labels, asked.id_type, asked.positive)
    blobs = reduce(DataFrame.unionByName, _blobs(spark, asked, files, splits, partitions, n_shards))
    rows = (
        blobs.repartitionById(partitions, "shard")
        .sortWithinPartitions("shard")
        .mapInArrow(assemble(how), ASSEMBLED)
        .persist()
    )
    try:
        with unchanged(labels):
            facts = rows.where("kind = 'facts'").collect()
    except BaseException:
        rows.unpersist()
        raise
    return Assembled(
        rows,
        together(from_json(bytes(row["rows"])) for row in facts),
        files,
        splits,
        asked.id_type,
        ranking,
        partitions,
        n_tasks,
    )


def _blobs(
    spark: SparkSession, asked: RankingRequest, files: Files, splits: list[Split], n_readers: int, n_shards: int
) -> list[DataFrame]:
    """BLOBS of labelled pairs, and of users and where their scores are stored."""
    by_spark = {table.source.number for table in asked.tables if table.rows is not None}
    mine = [split for split in splits if files[split.file].source.number not in by_spark]
    pairs = pair_splits(
        {source: (table.files, table.columns) for source, table in asked.labels.items() if table.rows is None},
        n_readers,
    )
    found = []
    if mine or pairs:
        found.append(
            spark.range(0, n_readers, 1, n_readers).mapInArrow(
                read_splits(files, mine, pairs, n_readers, n_shards), BLOBS
            )
        )
    for source, label_table in asked.labels.items():
        if label_table.rows is not None:
            number, renamed = F.lit(NUMBER[source]).cast("tinyint").alias("source"), probability_column(source)
            columns = [F.col(name).alias(PROBABILITY if name == renamed else name) for name in label_table.columns]
            found.append(label_table.rows.select(number, *columns).mapInArrow(scanned_pairs(n_shards), BLOBS))
    for table in asked.tables:
        if table.rows is not None:
            model = F.lit(table.source.model) if table.source.model else F.col("model")
            rows = table.rows.select(
                model.alias("model"),
                plain_id(table.rows, table.source.user).alias("user_id"),
                F.col("_metadata.file_path").alias("path"),
                F.col("_metadata.row_index").alias("row_index"),
            )
            found.append(rows.mapInArrow(scanned_rows(files, splits, table.source.number, n_shards), BLOBS))
    if asked.kept is not None:
        found.append(asked.kept.select("model", "user_id").mapInArrow(kept_users(n_shards), BLOBS))
    return found


def _has_probabilities(source: str, pairs: Pairs) -> bool:
    return probability_column(source) in pairs.columns


def _block_rows(source: Source, ranking: Ranking) -> int:
    return BLOCK_ROWS if source.item is not None else max(1, PLAN_BYTES // (4 * max(1, ranking.n_items)))


def plans(found: Assembled) -> list[Plan]:
    """What to rank where."""
    n_parts = 1 + max((split.task for split in found.splits), default=0)
    task = F.expr(f"CAST(task * {found.n_tasks} DIV {n_parts} AS INT)")
    rows = found.rows.where("kind = 'plan'").repartitionById(found.n_tasks, task).sortWithinPartitions("file", "block")
    made = [Plan(rows, rank_plan(found.ranking, found.files))]
    if found.facts.apart:
        made.append(
            scattered_plan(found.rows, found.facts.apart, found.files, found.splits, found.ranking, found.partitions)
        )
    return made


def ranked_rows(plans: list[Plan], id_type: str) -> DataFrame:
    """The ranks table's rows, but for run_id and inputs."""
    columns = RANKS.row_ddl(id_type, without=("run_id", "inputs"))
    return reduce(DataFrame.unionByName, [plan.rows.mapInArrow(plan.worker, columns) for plan in plans])


def written_files(plans: list[Plan], target: Target) -> DataFrame:
    """The MANIFEST of the files that workers write; running it twice writes them twice, under other names."""
    return reduce(
        DataFrame.unionByName, [plan.rows.mapInArrow(writing(plan.worker, target), MANIFEST) for plan in plans]
    )
