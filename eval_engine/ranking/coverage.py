"""How users of scores and labels fit together: which break a rule, and what the error of it says."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from eval_engine.errors import DataError
from eval_engine.judged_labels import SOURCES


def judged_users(users: DataFrame, labels: DataFrame, models: list[str]) -> DataFrame:
    """user_id, rule, told of each user without id, scored twice by a model, or labelled but not scored by every model."""
    labelled = labels.where(" OR ".join(f"size({source}.items) > 0" for source in SOURCES)).select("user_id", F.lit(True).alias("labelled"))
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
