"""Propensities from features: logistic regression of logged pairs against unlogged ones, by Spark ML.

    logit p(u, i) = intercept + coefficients of items . features of i + coefficients of users . features of u
                  = logit of i + logit of u

So p of a pair needs one number per item, which includes the intercept, and one per user: two narrow tables, and no
table of pairs.

Logged pairs are used with a chance a, by hash of (seed, user, item): a = min(1, `logged` / their number). Unlogged
pairs cannot be listed: there are users x items of them. Each user draws b items of the catalogue with replacement, by
hash of (seed, user, number of the draw); logged ones among them are taken out. So each unlogged pair is in the sample
b / N times on average, N items. Sampling by label moves the intercept only, by ln a - ln(b / N): that is taken off.

Classes become 0/1 columns, one for each value but the first in alphabetical order. Every item of the catalogue and
every user of the log needs a row and no NULL in it: a guessed feature would be a guessed weight. Spark ML adds floats
partition by partition, so two fits agree to the tolerance of its solver and not to the last bit. All later stages use
the stored logits, and so the same numbers.
"""

import math
from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from eval_engine.config import Input
from eval_engine.errors import DataError
from eval_engine.inputs.read import read_input
from eval_engine.propensity.log import PROPENSITY, Log, Totals
from eval_engine.propensity.settings import Features, Logistic

MOST = 100  # values of a class


class LogisticFit(NamedTuple):
    """A logistic regression that is fitted."""

    items: DataFrame  # item_id, logit: with the intercept
    users: DataFrame  # user_id, logit
    coefficients: dict[str, float]  # intercept, items.price, users.country=fr

    def with_propensity(self, heldout: DataFrame) -> DataFrame:
        """The held-out pairs with their propensity; NULL if user or item is not known."""
        users = self.users.withColumnRenamed("logit", "_user")
        items = self.items.withColumnRenamed("logit", "_item")
        both = heldout.join(users, "user_id", "left").join(items, "item_id", "left")
        p = 1 / (1 + F.exp(-(F.col("_user") + F.col("_item"))))
        return both.withColumn(PROPENSITY, p).drop("_user", "_item")


class _Columns(NamedTuple):
    rows: DataFrame  # id, and the features under names of ours
    names: dict[str, str]  # of the features: ours, and as the config has them


def fit_logistic(spark: SparkSession, log: Log, settings: Logistic, totals: Totals) -> LogisticFit:
    """Logits of all items of the catalogue and of all users of the log."""
    from pyspark.ml.classification import LogisticRegression  # 0.4 s, which other methods need not wait for
    from pyspark.ml.feature import VectorAssembler

    pairs = log.pairs().select("user_id", "item_id")
    users = _features(spark, pairs.select("user_id").distinct(), "user", settings.users)
    items = _features(spark, log.catalogue.select("item_id", "position"), "item", settings.items)
    rows, shift = _sample(pairs, users.rows, items.rows, settings, totals)
    names = {**items.names, **users.names}
    assembled = VectorAssembler(inputCols=list(names), outputCol="_features").transform(rows)
    regression = LogisticRegression(
        featuresCol="_features", labelCol="_label", maxIter=200, tol=1e-9, regParam=settings.penalty
    )
    model = regression.fit(assembled.select("_features", "_label"))
    slopes = dict(zip(names, (float(b) for b in model.coefficients), strict=True))
    intercept = float(model.intercept) - shift
    if not all(map(math.isfinite, (intercept, *slopes.values()))):
        raise DataError(
            "propensity: the logistic regression has no finite solution: some features tell logged from unlogged pairs "
            "without error. Leave them out, or set propensity.penalty, 0.01 for one."
        )
    return LogisticFit(
        items.rows.select("item_id", _logit(items, slopes, intercept)),
        users.rows.select("user_id", _logit(users, slopes, 0.0)),
        {"intercept": intercept} | {shown: slopes[name] for name, shown in names.items()},
    )


def _logit(columns: _Columns, slopes: dict[str, float], start: float) -> Column:
    terms = [F.col(name) * F.lit(slopes[name]) for name in columns.names]
    return reduce(add, terms, F.lit(start)).alias("logit")


def _sample(
    pairs: DataFrame, users: DataFrame, items: DataFrame, settings: Logistic, totals: Totals
) -> tuple[DataFrame, float]:
    """Logged and unlogged pairs with their features, and by how much sampling moves the intercept."""
    share = min(1.0, settings.logged / totals.n_pairs)
    draws = settings.unlogged * share * totals.n_pairs / totals.n_users  # of a user, on average
    most = math.ceil(draws)
    seed = [F.lit(settings.seed + number).cast("bigint") for number in range(3)]
    logged = pairs.where(_uniform(F.xxhash64(seed[0], "user_id", "item_id")) < share)
    numbers = F.explode(F.sequence(F.lit(1), F.lit(most))).alias("_draw")
    drawn = (
        users.select("user_id", numbers)
        .where(_uniform(F.xxhash64(seed[1], "user_id", "_draw")) < draws / most)
        .withColumn("position", F.pmod(F.xxhash64(seed[2], "user_id", "_draw"), F.lit(totals.n_items)).cast("int"))
        .join(items.select("position", "item_id"), "position")
        .select("user_id", "item_id")
        .join(pairs, ["user_id", "item_id"], "left_anti")
    )
    both = logged.withColumn("_label", F.lit(1.0)).unionByName(drawn.withColumn("_label", F.lit(0.0)))
    rows = both.join(users, "user_id").join(items.drop("position"), "item_id")
    return rows, math.log(share) - math.log(draws / totals.n_items)


def _uniform(hashed: Column) -> Column:
    """A number in [0, 1) from a hash, as splits have it (inputs/splits.py)."""
    return F.shiftrightunsigned(hashed, 11).cast("double") * F.lit(2.0**-53)


def _features(spark: SparkSession, ids: DataFrame, of: str, tables: Sequence[Features]) -> _Columns:
    """The features of these items or users; an error if one is missing."""
    names: dict[str, str] = {}
    rows = ids
    for number, where in enumerate(tables):
        table, key = f"propensity.{of}s[{number}]", f"{of}_id"
        own = Input(path=where.path, format=where.format, columns=where.columns, csv=where.csv)
        wanted = {key: "id"} | dict.fromkeys(where.numbers, "value") | dict.fromkeys(where.classes, "text")
        read = read_input(spark, table, own, wanted)
        if dict(read.dtypes)[key] != dict(ids.dtypes)[key]:
            raise DataError(
                f"{table}.{key} is {dict(read.dtypes)[key].upper()}, but ids of the run are "
                f"{dict(ids.dtypes)[key].upper()}. Cast them where the table is made."
            )
        joined = ids.select(key).join(read, key, "left")
        _refuse(joined, table, key, where)
        chosen = [F.col(key)]
        for name in where.numbers:
            ours = f"_{of}_{len(names)}"
            names[ours] = f"{of}s.{name}"
            chosen.append(F.col(name).alias(ours))
        for name in where.classes:
            for value in _values(joined, table, name)[1:]:
                ours = f"_{of}_{len(names)}"
                names[ours] = f"{of}s.{name}={value}"
                chosen.append((F.col(name) == value).cast("double").alias(ours))
        rows = rows.join(joined.select(*chosen), key)
    return _Columns(rows, names)


def _refuse(joined: DataFrame, table: str, key: str, where: Features) -> None:
    """An error if an item or user has no row, two rows or a feature that is missing; one Spark job."""
    missing = F.lit(False)
    for name in where.numbers:
        missing = missing | F.col(name).isNull() | F.isnan(name) | (F.abs(name) == float("inf"))
    for name in where.classes:
        missing = missing | F.col(name).isNull()
    each = joined.groupBy(key).agg(F.count(F.lit(1)).alias("n"), F.max(missing).alias("missing"))
    row = each.agg(
        F.count_if("missing").alias("n_missing"),
        F.min(F.when(F.col("missing"), F.col(key))).alias("first_missing"),
        F.min(F.when(F.col("n") > 1, F.col(key))).alias("twice"),
    ).first()
    assert row is not None
    if row["twice"] is not None:
        raise DataError(f"{table}: {key}={row['twice']} stands in it more than once. Keep one row for each.")
    if row["n_missing"]:
        raise DataError(
            f"{table}: {row['n_missing']:,} of the run have no row in it, or a feature that is NULL, NaN or infinite "
            f"(first: {key}={row['first_missing']}), so that their propensity is not known. Complete the table, or "
            "leave the feature out."
        )


def _values(rows: DataFrame, table: str, name: str) -> list[str]:
    """The values of a class, sorted; one Spark job."""
    values = sorted(row[name] for row in rows.select(name).distinct().limit(MOST + 1).collect())
    if len(values) > MOST:
        raise DataError(
            f"{table}.{name} has more than {MOST} different values (such as {values[0]!r}), and each becomes a "
            "coefficient. Put them into fewer classes where the table is made."
        )
    return values
