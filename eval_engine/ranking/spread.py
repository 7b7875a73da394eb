"""Ranks users whose long rows lie in several places, without moving a score: two passes over the rows where they lie.

    pass 1   each task finds, in its part of the rows, the scores of labels            by user: the score of every label
    pass 2   each task counts what is above and level with every label in its part,    by user: counts add up, top lists merge
             and the part's first k

What is shuffled are labels' numbers and top lists. A task's rows are at most a few million, so its part of a user's list is nearly always one piece.
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from eval_engine.judged_labels import SOURCES
from eval_engine.parcels import opened
from eval_engine.ranking.planned import Plan
from eval_engine.ranking.settings import Files, Ranking
from eval_engine.ranking.splits import Split
from eval_engine.ranking.spread_worker import COUNTS, count_parts, find_labels, merge_labels, merge_parts

KEYS = ("model", "user_id", "input")


def spread_plan(assembled: DataFrame, id_type: str, files: Files, splits: Sequence[Split], ranking: Ranking) -> Plan:
    """What to rank where, of users whose rows lie apart; assembled: ASSEMBLED (ranking/assembly.py)."""
    numbers = ", ".join(f"{name} BIGINT" for name in COUNTS)
    keys = f"model STRING, user_id {id_type}, input INT"
    n_tasks = 1 + max(split.task for split in splits)
    sources = {source.number: source for _, source in files}
    chosen = rows_of_parcels(assembled, "labels", labels_schema(id_type, ranking))
    parts = rows_of_parcels(assembled, "parts", f"{keys}, task INT").join(chosen, "user_id")
    found = parts.repartitionById(n_tasks, "task").mapInArrow(find_labels(ranking, files, splits), f"{keys}, scores BINARY, {numbers}")
    gathered = found.groupBy(*KEYS).agg(F.collect_list("scores").alias("scores"), *[F.sum(name).alias(name) for name in COUNTS])
    scored = gathered.mapInArrow(merge_labels(), f"{keys}, scores BINARY, {numbers}")
    again = parts.join(scored.drop("input"), ["model", "user_id"])
    partial = ", ".join(f"{name} BINARY" for name in ("above", "level", "top_positions", "top_scores"))
    counted = again.repartitionById(n_tasks, "task").mapInArrow(count_parts(ranking, files, splits), f"{keys}, scores BINARY, {numbers}, {partial}")
    of_part = F.struct("above", "level", "top_positions", "top_scores")
    merged = counted.groupBy(*KEYS).agg(
        F.collect_list(of_part).alias("part"), F.first("scores").alias("scores"), *[F.first(name).alias(name) for name in COUNTS]
    )
    lists = [F.col(f"part.{name}").alias(name) for name in ("above", "level", "top_positions", "top_scores")]
    rows = merged.select(*KEYS, "scores", *COUNTS, *lists).join(chosen, "user_id")
    return Plan(rows, merge_parts(ranking, sources))


def labels_schema(id_type: str, ranking: Ranking) -> str:
    """The labels by user, as parcels of the kind `labels` hold them."""
    more = {"random": ", probabilities: BINARY"} if ranking.probabilities else {}
    lists = ", ".join(f"{source} STRUCT<positions: BINARY, values: BINARY{more.get(source, '')}>" for source in SOURCES)
    return f"user_id {id_type}, {lists}, excluded BINARY"


def rows_of_parcels(assembled: DataFrame, kind: str, schema: str) -> DataFrame:
    """The rows in the parcels of one kind."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for parcel in batch.column("rows"):
                yield opened([parcel])

    return assembled.where(F.col("kind") == kind).select("rows").mapInArrow(run, schema)
