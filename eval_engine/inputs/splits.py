"""One log of pairs split into feedback, which models are trained on, and heldout, which is kept from training.

    random       held out iff U(xxhash64(seed, user_id, item_id)) < share;  U(h) = (h >>> 11) / 2^53, in [0, 1)
    time         held out iff timestamp >= cut.  With a share: of n pairs by time, cut is the timestamp of pair number
                 n - floor(share n), counted from 0; all pairs of that time are held out: floor(share n) or more
    leave_last   held out iff the pair is among the user's last n by (timestamp, item_id); a user with fewer than
                 n + least_training pairs keeps all of them for training

Which side a pair falls on depends on its ids, its time and the log as a whole, never on the order or partitioning of
rows. The cut of a share is exact: pairs are counted in intervals of time, and the interval that holds the cut is
divided again until all of its pairs have the same time. Each step is one Spark job and at most 4,096 counts.

A pair that breaks a rule is on neither side:

    null_key        user_id or item_id is NULL
    null_value, nan_value
    no_timestamp    NULL, NaN, infinite, or text that is no time; only if the split needs times
    duplicate_key   the pair is logged more than once: every copy counts, since it is not known which is right

A held-out pair is cold if its user, or else its item, has no training pair. Other columns of the log go with their
pair.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from math import floor
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from eval_engine.config import Csv, Input
from eval_engine.errors import ConfigError, DataError
from eval_engine.inputs.csv_file import CsvFile
from eval_engine.inputs.csv_table import csv_files, delimiter_hint, table_columns
from eval_engine.inputs.input_format import input_format
from eval_engine.inputs.pair_table import PAIR
from eval_engine.inputs.read import matched, pick, plain_id, read_input, read_table
from eval_engine.inputs.split_settings import TIMESTAMP, LeaveLast, Random, Split

PROPENSITY = "propensity"  # a number that ranking reads from heldout (label_sets.py, which a split need not import)
AT, RULE, SIDE = "_plumbline_at", "_plumbline_rule", "_plumbline_side"  # columns of ours beside those of the log
TRAINING, TOO_FEW = "training", "too_few_pairs"  # sides: for training; the second of users with too few pairs
HELD_OUT, COLD_USER, COLD_ITEM = "held_out", "cold_user", "cold_item"  # sides: kept from training
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
INTERVALS = 1 << 12
WHOLE_NUMBERS = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
REMEDY = {
    "null_key": "user_id and item_id must be there. Fix the job that makes the log",
    "null_value": "a pair needs a value. Fix the job that makes the log",
    "nan_value": "NaN is not a value: it is neither positive nor negative. Fix the job that makes the log",
    "no_timestamp": "a split by time needs the time of every pair. Fix the job that makes the log",
    "duplicate_key": "a pair is logged once. Keep the one row you mean",
}


class Log(NamedTuple):
    """A log whose pairs are judged."""

    rows: DataFrame  # user_id, item_id, value, the log's other columns, AT, RULE (NULL: none is broken)
    others: tuple[str, ...]  # names of the other columns
    time: str | None  # the one of them that holds times; None: the split needs none
    clock: bool  # AT is in microseconds since 1970, not in numbers of the log's own


class Count(NamedTuple):
    """How many pairs break a rule or are on a side, and one of them as text: the first in alphabetical order."""

    n_rows: int
    example: str


class Sides(NamedTuple):
    """The pairs that break no rule, with SIDE."""

    training: DataFrame
    held_out: DataFrame  # cold pairs too


def read_log(spark: SparkSession, split: Split) -> Log:
    """The log in our columns, each pair judged."""
    where, kind = split.log, input_format(split.log)
    optional = () if split.timed else (TIMESTAMP,)
    if kind == "csv":
        header = _csv_header(where)
        own = matched(header, "log", PAIR | {TIMESTAMP: "time"}, where.columns, optional, delimiter_hint(header))
        others = _others(header, own)
        numbers = {own.get(TIMESTAMP): "id", PROPENSITY: "value"}
        meanings = {name: numbers.get(name, "text") for name in others}
        columns = {name: own[name] for name in PAIR} | {name: name for name in others}
        table = read_input(spark, "log", where.model_copy(update={"columns": columns}), PAIR | meanings)
    else:
        table = read_table(spark, "log", where.path, kind)
        own = matched(tuple(table.columns), "log", PAIR | {TIMESTAMP: "time"}, where.columns, optional)
        others = _others(table.columns, own)
        pick(
            table, "log", PAIR, {name: own[name] for name in PAIR}
        )  # an error if a column has a type that is not meant
        table = table.select(
            plain_id(table, own["user_id"]).alias("user_id"),
            plain_id(table, own["item_id"]).alias("item_id"),
            F.col(f"`{own['value']}`").cast("double").alias("value"),
            *[F.col(f"`{name}`") for name in others],
        )
    if not split.timed:
        return Log(_judged(table.withColumn(AT, F.lit(None).cast("bigint")), timed=False), others, None, False)
    at, clock = _time(table, own[TIMESTAMP])
    return Log(_judged(table.withColumn(AT, at), timed=True), others, own[TIMESTAMP], clock)


def counts(rows: DataFrame, by: str, time: str | None) -> dict[str | None, Count]:
    """The pairs by rule or side; None: no rule is broken. time: the column that holds times."""
    names = ("user_id", "item_id", "value", *([time] if time else []))
    shown = [
        F.concat(F.lit(f"{name}="), F.coalesce(F.col(f"`{name}`").cast("string"), F.lit("NULL"))) for name in names
    ]
    found = rows.groupBy(by).agg(F.count(F.lit(1)).alias("n"), F.min(F.concat_ws(", ", *shown)).alias("example"))
    return {row[by]: Count(row["n"], row["example"]) for row in found.collect()}


def refuse(rule: str, count: Count) -> DataError:
    """The error of a rule that is broken."""
    rows = "row breaks" if count.n_rows == 1 else "rows break"
    return DataError(
        f"log: {count.n_rows:,} {rows} the rule {rule} (first: {count.example}): {REMEDY[rule]}, "
        "or set on_bad_rows: quarantine."
    )


def sides(log: Log, split: Split, n_pairs: int) -> Sides:
    """Which pairs are for training and which are held out; n_pairs: how many break no rule."""
    rows, how = log.rows.where(F.col(RULE).isNull()), split.how
    if isinstance(how, LeaveLast):
        rows = _last_pairs(rows, how)
    elif isinstance(how, Random):
        hashed = F.xxhash64(F.lit(how.seed).cast("bigint"), "user_id", "item_id")
        held = F.shiftrightunsigned(hashed, 11).cast("double") * F.lit(2.0**-53) < F.lit(how.share)
        rows = rows.withColumn(SIDE, F.when(held, HELD_OUT).otherwise(TRAINING))
    else:
        cut = _given_cut(how.cut, log) if how.cut is not None else _cut_of_share(log, how.share or 0.0, n_pairs)
        held = F.col(AT) >= F.lit(cut)
        rows = rows.withColumn(SIDE, F.when(held, HELD_OUT).otherwise(TRAINING))
    return _with_cold(rows)


def _csv_header(where: Input) -> tuple[str, ...]:
    """The columns of a CSV log."""
    dialect = where.csv or Csv()
    for file in csv_files(where.path) or ():
        if columns := table_columns(CsvFile(file), where.path, dialect, "log"):
            return sum(columns, ())
    raise DataError(
        f"log: {where.path} has no line, or Arrow does not reach it. Check the path, or give it as Parquet."
    )


def _others(columns: Iterable[str], own: dict[str, str]) -> tuple[str, ...]:
    """The columns beside user, item and value; an error if one has a name that is taken."""
    pair = {own[name] for name in PAIR}
    others = tuple(name for name in columns if name not in pair)
    if taken := sorted({*PAIR, AT, RULE, SIDE} & set(others)):
        raise DataError(
            f"log: {taken[0]} is another column's name in the config, and the log has a column of this name too. "
            "Rename the column where the log is made, or leave it out."
        )
    return others


def _time(table: DataFrame, name: str) -> tuple[Column, bool]:
    """The time of a pair as a number, NULL if it has none; and whether it is in microseconds since 1970."""
    kind, column = table.schema[name].dataType, F.col(f"`{name}`")
    if isinstance(kind, WHOLE_NUMBERS):
        return column.cast("bigint"), False
    if isinstance(kind, T.NumericType):
        number = column.cast("double")
        return F.when(F.abs(number) < F.lit(float("inf")), number), False  # in Spark NaN is larger than inf
    if isinstance(kind, (T.TimestampType, T.TimestampNTZType, T.DateType)):
        return F.unix_micros(column.cast("timestamp")), True
    if isinstance(kind, T.StringType):
        return F.unix_micros(column.try_cast("timestamp")), True
    raise DataError(
        f"log.{name} has type {kind.simpleString().upper()}, but a timestamp, a date, a number or text is needed. "
        "Map another column: columns: {timestamp: its_name_there}."
    )


def _judged(rows: DataFrame, timed: bool) -> DataFrame:
    """The rows with RULE, those of a user together."""
    copies = F.count(F.lit(1)).over(Window.partitionBy("user_id", "item_id"))
    rule = (
        F.when(F.col("user_id").isNull() | F.col("item_id").isNull(), "null_key")
        .when(F.col("value").isNull(), "null_value")
        .when(F.isnan("value"), "nan_value")
        .when(F.lit(timed) & F.col(AT).isNull(), "no_timestamp")
        .when(copies > 1, "duplicate_key")
    )
    return rows.repartition("user_id").withColumn(RULE, rule)


def _last_pairs(rows: DataFrame, how: LeaveLast) -> DataFrame:
    """The rows with SIDE, by the place of a pair among its user's."""
    of_user = Window.partitionBy("user_id")
    place = F.row_number().over(of_user.orderBy(F.desc(AT), F.desc("item_id")))
    n_pairs = F.count(F.lit(1)).over(of_user)
    side = F.when(n_pairs < how.n + how.least_training, TOO_FEW).when(place <= how.n, HELD_OUT).otherwise(TRAINING)
    return rows.withColumn(SIDE, side)


def _with_cold(rows: DataFrame) -> Sides:
    """The two sides; held-out pairs without a training pair of their user or item are told apart."""
    trained = F.col(SIDE).isin(TRAINING, TOO_FEW)
    known_user = F.max(trained).over(Window.partitionBy("user_id"))
    rows = rows.withColumn(SIDE, F.when(trained | known_user, F.col(SIDE)).otherwise(COLD_USER))
    training = rows.where(trained)
    items = training.select("item_id").distinct().withColumn("_known", F.lit(True))
    cold_item = (F.col(SIDE) == HELD_OUT) & F.col("_known").isNull()
    held_out = rows.where(~trained).join(items, "item_id", "left")
    return Sides(
        training, held_out.withColumn(SIDE, F.when(cold_item, COLD_ITEM).otherwise(F.col(SIDE))).drop("_known")
    )


def _given_cut(cut: datetime | float, log: Log) -> int | float:
    """The cut of the config, in the numbers of AT."""
    if isinstance(cut, datetime) != log.clock:
        have, need = (
            ("times", "a time, as in 2026-11-15T00:00") if log.clock else ("numbers", "a number of the same kind")
        )
        raise ConfigError(f"split.how.cut is {cut}, but the log's column {log.time} holds {have}: give {need}.")
    return (cut - EPOCH) // timedelta(microseconds=1) if isinstance(cut, datetime) else cut


def _cut_of_share(log: Log, share: float, n_pairs: int) -> int | float:
    """The time from which on the last share of the pairs is held out."""
    n_held = floor(Fraction(str(share)) * n_pairs)
    if n_held == 0:
        raise DataError(
            f"log: the last {share:g} of {n_pairs:,} pairs is less than one pair, so no pair is held out. "
            "Raise split.how.share."
        )
    return _time_at(log.rows.where(F.col(RULE).isNull()), n_pairs - n_held)


def _time_at(rows: DataFrame, place: int) -> int | float:
    """The time of the pair at this place, counted from 0, of all pairs by time."""
    whole = isinstance(rows.schema[AT].dataType, T.LongType)
    first = rows.agg(F.min(AT).alias("low"), F.max(AT).alias("high")).first()
    assert first is not None
    low, high, before = first["low"], first["high"], 0  # before: pairs with times below low
    while low < high:
        if whole:  # a difference of two BIGINT may be none
            part = (F.col(AT).cast("decimal(20, 0)") - F.lit(Decimal(low))).cast("double") / F.lit(float(high - low))
        else:
            part = (F.col(AT) * 0.5 - F.lit(low * 0.5)) / F.lit(high * 0.5 - low * 0.5)
        interval = F.least(F.floor(part * INTERVALS), F.lit(INTERVALS - 1))
        inside = rows.where(F.col(AT).between(low, high)).groupBy(interval.alias("interval"))
        found = inside.agg(F.count(F.lit(1)).alias("n"), F.min(AT).alias("low"), F.max(AT).alias("high")).collect()
        for row in sorted(found, key=lambda row: row["interval"]):
            low, high = row["low"], row["high"]
            if before + row["n"] > place:
                break
            before += row["n"]
    return low
