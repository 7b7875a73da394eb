"""Ranks every labelled pair of all score tables of a run: `above`, `tied`, `candidates`, and the top of each list.

Three kinds of users, each with its plan: a vector (ranking/dense.py), rows that lie together (ranking/long.py), rows that lie apart (ranking/spread.py). Plans
make the same rows, which go to Spark, or to files that the workers write themselves (ranking/part_files.py).
"""

from functools import reduce
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession

from eval_engine.ranking.dense import Plan, dense_plan, models_of, scored_files, scored_users
from eval_engine.ranking.dense_worker import Files
from eval_engine.ranking.long import Index, gathered_plan, long_index
from eval_engine.ranking.part_files import MANIFEST, Target, writing
from eval_engine.ranking.settings import Ranking, Source
from eval_engine.ranking.spread import spread_plan
from eval_engine.tables import RANKS


class Table(NamedTuple):
    """A score table as Spark reads it, as its files have it, and, of a long one, these files."""

    df: DataFrame
    source: Source
    files: tuple[str, ...] = ()


class Scored(NamedTuple):
    """Who has scores, and where they lie."""

    models: dict[str, int]  # and the number of the score table that has it
    users: DataFrame | None  # model, user_id; None: no table has a row
    vectors: DataFrame | None  # dense: model, user_id, input, file, row_index
    vector_files: Files
    rows: Index | None  # long
    together: bool  # some users' rows lie together
    apart: bool  # some users' rows lie apart


def scored(spark: SparkSession, tables: list[Table], id_type: str) -> Scored:
    """Asks Spark where vectors lie, and workers where rows lie; reads no score. The caller unpersists rows.rows."""
    dense = [table for table in tables if table.source.item is None]
    long = [(file, table.source) for table in tables if table.source.item is not None for file in table.files]
    sources = {table.source.number: table.source for table in tables}
    models: dict[str, int] = {}
    vectors: DataFrame | None = None
    vector_files: Files = ()
    index: Index | None = None
    kinds: set[bool] = set()
    if dense:
        vectors = scored_users([(table.df, table.source) for table in dense])
        files, found = scored_files(vectors)
        models |= found
        vector_files = tuple((file, sources[number]) for file, number in files)
    if long:
        index = long_index(spark, tuple(long), id_type)
        told = index.users.groupBy("model", "input", "gathered").count().collect()
        models |= models_of(told)
        kinds = {row["gathered"] for row in told}
    found_users = [
        df.select("model", "user_id") for df in ((vectors if vector_files else None), (index.users if index and kinds else None)) if df is not None
    ]
    users = reduce(DataFrame.unionByName, found_users) if found_users else None
    return Scored(models, users, vectors if vector_files else None, vector_files, index, True in kinds, False in kinds)


def without(scored: Scored, users: DataFrame) -> Scored:
    """The same without some users (user_id)."""
    vectors, rows = scored.vectors, scored.rows
    if vectors is not None:
        vectors = vectors.join(users, "user_id", "left_anti")
    if rows is not None:
        rows = rows._replace(users=rows.users.join(users, "user_id", "left_anti"))
    return scored._replace(vectors=vectors, rows=rows)


def plans(spark: SparkSession, scored: Scored, labels: DataFrame, ranking: Ranking) -> list[Plan]:
    """What to rank where."""
    made = []
    if scored.vectors is not None:
        made.append(dense_plan(spark, scored.vectors, labels, scored.vector_files, ranking))
    if scored.rows is not None and scored.together:
        made.append(gathered_plan(spark, scored.rows.users.where("gathered"), labels, scored.rows, ranking))
    if scored.rows is not None and scored.apart:
        made.append(spread_plan(scored.rows.users.where("NOT gathered"), labels, scored.rows, ranking))
    return made


def ranked_rows(plans: list[Plan], id_type: str) -> DataFrame:
    """The ranks table's rows, but for run_id and inputs."""
    columns = RANKS.columns(id_type).replace("run_id STRING NOT NULL, ", "").replace("inputs STRING NOT NULL, ", "").replace(" NOT NULL", "")
    return reduce(DataFrame.unionByName, [plan.rows.mapInArrow(plan.worker, columns) for plan in plans])


def written_files(plans: list[Plan], target: Target) -> DataFrame:
    """The MANIFEST of the files that workers write; running it twice writes them twice, under other names."""
    return reduce(DataFrame.unionByName, [plan.rows.mapInArrow(writing(plan.worker, target), MANIFEST) for plan in plans])
