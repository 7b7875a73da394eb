"""Ranks users whose long rows are scattered over files, moving no scores but those of labels, top lists and training
pairs: two passes over the rows.

    pass 1   each task finds, in its part of the rows, the scores of labels            by user: the score of every label
    pass 2   each task counts what is above and level with every label in its part,    by user: counts add up, top lists
             and the part's first k                                                    merge

What is shuffled are labels' numbers and top lists, in blobs (spark/arrow_blobs.py), to tasks and to shards of users in
turn. A task's rows are at most a few million, so its part of a user's list is nearly always one piece.
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from eval_engine.inputs.score_files import Files
from eval_engine.ranking.scattered_worker import (
    TASK_PARCELS,
    count_parts,
    find_labels,
    labels_by_shard,
    merge_labels,
    merge_parts,
    parts_of,
)
from eval_engine.ranking.settings import Ranking
from eval_engine.ranking.splits import Split
from eval_engine.ranking.user_shards import BLOBS
from eval_engine.spark.arrow_blobs import decode
from eval_engine.spark.worker_types import Plan

CELL_BYTES = 64 * 2**20  # what the parts of a shard's users send
PART_BYTES = 300  # of a part, beside its top list


def scattered_plan(
    assembled: DataFrame, n_apart: int, files: Files, splits: Sequence[Split], ranking: Ranking, partitions: int
) -> Plan:
    """What to rank where, of the n_apart lists whose rows are scattered; assembled: ASSEMBLED (ranking/assembly.py)."""
    n_tasks = 1 + max(split.task for split in splits)
    n_shards = partitions * -(-n_apart * n_tasks * (12 * ranking.top + PART_BYTES) // (partitions * CELL_BYTES))
    sources = {source.number: source for _, source, _ in files}

    def to_tasks(rows: DataFrame) -> DataFrame:
        return rows.repartitionById(n_tasks, "task")

    def to_cells(rows: DataFrame) -> DataFrame:
        return rows.repartitionById(partitions, "shard").sortWithinPartitions("shard")

    planned = assembled.where("kind IN ('labels', 'parts')").select("kind", "task", "rows")
    parts = planned.mapInArrow(parts_of(), TASK_PARCELS)
    found = to_tasks(parts).mapInArrow(find_labels(ranking, files, splits, n_shards), BLOBS)
    scored = to_cells(found).mapInArrow(merge_labels(), TASK_PARCELS)
    counted = to_tasks(parts.unionByName(scored)).mapInArrow(count_parts(ranking, files, splits, n_shards), BLOBS)
    labels = planned.where("kind = 'labels'").select("rows").mapInArrow(labels_by_shard(n_shards), BLOBS)
    return Plan(to_cells(labels.unionByName(counted)), merge_parts(ranking, sources))


def labels_schema(id_type: str, ranking: Ranking) -> str:
    """The labels by user, as blobs of the kind `labels` hold them."""
    more = dict.fromkeys(ranking.probabilities, ", probabilities: BINARY")
    lists = [f"{name} STRUCT<positions: BINARY, values: BINARY{more.get(name, '')}>" for name in ranking.label_sets]
    return f"user_id {id_type}, {', '.join(lists)}, excluded BINARY"


def rows_of_blobs(assembled: DataFrame, kind: str, schema: str) -> DataFrame:
    """The rows in the blobs of one kind."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for blob in batch.column("rows"):
                yield decode([blob])

    return assembled.where(F.col("kind") == kind).select("rows").mapInArrow(run, schema)
