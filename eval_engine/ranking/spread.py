"""Ranks users whose long rows lie in several places, without moving a score: two passes over the rows where they lie.

    pass 1   each task finds, in its part of the rows, the scores of labels            by user: the score of every label
    pass 2   each task counts what is above and level with every label in its part,    by user: counts add up, top lists merge
             and the part's first k

What is shuffled are labels' numbers and top lists. A task's rows are at most a few million, so its part of a user's list is nearly always one piece.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from eval_engine.judged_labels import SOURCES
from eval_engine.ranking.dense import Plan
from eval_engine.ranking.long import Index
from eval_engine.ranking.settings import Ranking
from eval_engine.ranking.spread_worker import COUNTS, count_parts, find_labels, merge_labels, merge_parts

KEYS = ("model", "user_id", "input")


def spread_plan(users: DataFrame, labels: DataFrame, index: Index, ranking: Ranking) -> Plan:
    """What to rank where, of users whose rows lie apart (model, user_id, input)."""
    id_type = dict(users.dtypes)["user_id"]
    numbers = ", ".join(f"{name} BIGINT" for name in COUNTS)
    keys = f"model STRING, user_id {id_type}, input INT"
    n_tasks = 1 + max(split.task for split in index.splits)
    sources = {source.number: source for _, source in index.files}
    chosen = labels.select("user_id", *SOURCES, "excluded")
    parts = index.rows.select("model", "user_id", "task").distinct().join(users.select(*KEYS), ["model", "user_id"])
    parts = parts.join(chosen, "user_id", "left")
    found = parts.repartitionById(n_tasks, "task").mapInArrow(find_labels(ranking, index.files, index.splits), f"{keys}, scores BINARY, {numbers}")
    gathered = found.groupBy(*KEYS).agg(F.collect_list("scores").alias("scores"), *[F.sum(name).alias(name) for name in COUNTS])
    scored = gathered.mapInArrow(merge_labels(), f"{keys}, scores BINARY, {numbers}")
    again = parts.join(scored.drop("input"), ["model", "user_id"])
    partial = ", ".join(f"{name} BINARY" for name in ("above", "level", "top_positions", "top_scores"))
    counted = again.repartitionById(n_tasks, "task").mapInArrow(
        count_parts(ranking, index.files, index.splits), f"{keys}, scores BINARY, {numbers}, {partial}"
    )
    of_part = F.struct("above", "level", "top_positions", "top_scores")
    merged = counted.groupBy(*KEYS).agg(
        F.collect_list(of_part).alias("part"), F.first("scores").alias("scores"), *[F.first(name).alias(name) for name in COUNTS]
    )
    lists = [F.col(f"part.{name}").alias(name) for name in ("above", "level", "top_positions", "top_scores")]
    rows = merged.select(*KEYS, "scores", *COUNTS, *lists).join(chosen, "user_id", "left")
    return Plan(rows, merge_parts(ranking, sources))
