"""How users of scores and labels fit together: which break a rule, and what the error of it says."""

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from eval_engine.errors import DataError
from eval_engine.judged_labels import SOURCES
from eval_engine.packed import unpack
from eval_engine.ranking.ranks_batch import catalogue_ids
from eval_engine.ranking.settings import Ranking


def judged_users(users: DataFrame, labels: DataFrame, models: list[str]) -> DataFrame:
    """user_id, rule, told of each user without id, scored twice by a model, or labelled but not scored by every model."""
    labelled = labels.where(" OR ".join(f"length({source}.positions) > 0" for source in SOURCES)).select("user_id", F.lit(True).alias("labelled"))
    scored = users.groupBy("user_id").agg(F.collect_list("model").alias("models"))
    joined = scored.join(labelled, "user_id", "full")
    known = F.array_distinct(F.coalesce("models", F.array().cast("array<string>")))
    missing = F.array_except(F.array(*[F.lit(m) for m in models]), known)
    rule = F.coalesce(
        F.when(F.col("user_id").isNull(), F.lit("null_key")),
        F.when(F.size("models") > F.size(known), F.lit("duplicate_key")),
        F.when(F.col("labelled") & (F.size(missing) > 0), F.lit("not_scored")),
    )
    told = F.concat(F.lit("user_id="), F.coalesce(F.col("user_id").cast("string"), F.lit("NULL")))
    told = F.when(rule == "not_scored", F.concat(told, F.lit(", model="), missing[0])).otherwise(told)
    return joined.select("user_id", rule.alias("rule"), told.alias("told")).where("rule IS NOT NULL")


def coverage_problems(judged: DataFrame) -> DataFrame:
    """rule, n_rows, example: one row per rule that some user breaks."""
    return judged.groupBy("rule").agg(F.count(F.lit(1)).alias("n_rows"), F.min("told").alias("example"))


REMEDY = {
    "null_key": "a score row needs its user_id. Fix the job that writes the scores",
    "duplicate_key": "a model scores a user in one row. Remove the copies",
    "not_scored": "a user with labels needs scores of every model, or the models are compared on different users. Score these users",
}


def refuse(rule: str, n_rows: int, example: str) -> DataError:
    """The error of a rule that the score tables break."""
    hint = ", or set on_bad_rows: quarantine to leave them out" if rule == "not_scored" else ""
    return DataError(
        f"scores: {n_rows:,} {'user breaks' if n_rows == 1 else 'users break'} the rule {rule} (first: {example}): {REMEDY[rule]}{hint}."
    )


def refuse_stale(fused: DataFrame, labels: DataFrame, ranking: Ranking) -> None:
    """Raises if rows of the ranks table, as the torch job wrote them, are of other labels, another frame or another length of the top list than asked."""
    now = labels.select("user_id", *[F.col(source).alias(f"{source}_now") for source in SOURCES], "excluded")
    ranked = [F.col(f"{source}.{name}").alias(f"{source}_{name}") for source in SOURCES for name in ("items", "values")]
    rows = fused.select("model", "user_id", "candidates", F.size("top.items").alias("n_top"), *ranked).join(now, "user_id", "left")
    kind = dict(fused.dtypes)["user_id"]
    other = rows.mapInArrow(_stale(ranking), f"model STRING, user_id {kind}").first()
    if other:
        raise DataError(
            f"ranks of model {other['model']}, user_id={other['user_id']}: the torch job ranked other labels, another frame or another `top` than this run has. "
            "Run jobs/train.py with this config again."
        )


def _stale(ranking: Ranking) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        items = catalogue_ids(ranking.catalogue)
        for batch in batches:
            candidates = ranking.n_items - np.diff(unpack(batch.column("excluded"), np.int32)[0])
            other = batch.column("candidates").to_numpy(zero_copy_only=False) != candidates
            other |= batch.column("n_top").to_numpy(zero_copy_only=False) != np.minimum(candidates, ranking.top)
            for source in SOURCES:
                offsets, positions = unpack(batch.column(f"{source}_now").field("positions"), np.int32)
                values = pa.array(unpack(batch.column(f"{source}_now").field("values"), np.float64)[1])
                for name, flat in (("items", items.take(pa.array(positions))), ("values", values)):
                    wanted = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), flat)
                    found = batch.column(f"{source}_{name}")
                    other |= np.array([a != b for a, b in zip(found.to_pylist(), wanted.to_pylist(), strict=True)], np.bool_)
            yield pa.RecordBatch.from_pydict({name: batch.column(name) for name in ("model", "user_id")}).filter(pa.array(other))

    return run
