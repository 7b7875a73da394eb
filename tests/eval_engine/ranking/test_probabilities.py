"""Probabilities of exposures, from rows in any order to the ranks table: each beside its item, whatever way the scores and the exposures lie."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from rich.console import Console

from eval_engine.lake.lake import Lake
from eval_engine.tables import RANKS
from jobs import rank as job
from jobs.cli import load
from tests.eval_engine.ranking.test_layouts import long_files, rows


def give_probabilities(run: Any, name: str = "exposure_probability") -> dict[tuple[int, int], float]:
    """Every exposure gets one of its own, and the rows are shuffled; by user and item."""
    rng = np.random.default_rng(12)
    old = run.tables["exposures"]
    known = old.append_column(name, pa.array((1 + rng.permutation(old.num_rows)) / old.num_rows)).take(
        pa.array(rng.permutation(old.num_rows))
    )
    run.tables["exposures"] = known
    return {(row["user_id"], row["item_id"]): row[name] for row in known.to_pylist()}


def rank(run: Any, spark: SparkSession) -> None:
    """The ranks into the lake."""
    job.run(spark, load(run.write()), Console(quiet=True))


def check(found: list[Any], want: dict[tuple[int, int], float], models: set[str]) -> None:
    for model in models:
        mine = [row for row in found if row["model"] == model]
        pairs = {
            (row["user_id"], item): probability
            for row in mine
            for item, probability in zip(row["random"]["items"], row["random"]["probabilities"], strict=True)
        }
        assert pairs == want
        assert all(row["truth"]["items"] and row["truth"]["probabilities"] is None for row in mine)
    assert {row["model"] for row in found} == models


def in_all_layouts(run: Any) -> set[str]:
    """Model a as long rows that lie together, and spread over files; model b stays dense."""
    n = run.scores["a"].size
    orders = {"together": np.arange(n), "spread": np.random.default_rng(3).permutation(n)}
    run.config["scores"] = run.config["scores"][1:] + [
        {"model": name} | long_files(run.folder / name, rows(run, order), 3, 100) for name, order in orders.items()
    ]
    return {"b", *orders}


@pytest.mark.parametrize("partitions", ["1", "5"])
def test_beside_their_items_in_every_layout_of_scores(small_run: Any, spark: SparkSession, partitions: str) -> None:
    want = give_probabilities(small_run)
    models = in_all_layouts(small_run)
    before = spark.conf.get("spark.sql.shuffle.partitions")
    try:
        spark.conf.set("spark.sql.shuffle.partitions", partitions)
        check(small_run.ranks(spark), want, models)
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)


def test_in_the_lake_with_its_rules_and_ranked_again_when_the_column_comes(small_run: Any, spark: SparkSession) -> None:
    models = in_all_layouts(small_run)
    rank(small_run, spark)
    lake = Lake(spark, small_run.config["lake"])
    found = lake.read(RANKS, "small").collect()
    assert all(row["random"]["items"] and row["random"]["probabilities"] is None for row in found)
    want = give_probabilities(small_run)
    rank(small_run, spark)
    table = lake.read(RANKS, "small")
    check(table.collect(), want, models)
    assert table.where(" OR ".join(f"NOT coalesce(({rule}), false)" for rule in RANKS.rules)).isEmpty()
    for bad in ("0D", "1.5D", "double('NaN')"):
        spoilt = table.withColumn(
            "random", F.col("random").withField("probabilities", F.expr(f"array_repeat({bad}, size(random.items))"))
        )
        with pytest.raises(Exception, match=r"DELTA_VIOLATE_CONSTRAINT|CHECK constraint"):
            lake.replace(RANKS, spoilt, {"run_id": "small"})
    spoilt = table.withColumn(
        "random", F.col("random").withField("probabilities", F.expr("slice(random.probabilities, 1, 2)"))
    )
    with pytest.raises(Exception, match=r"DELTA_VIOLATE_CONSTRAINT|CHECK constraint"):
        lake.replace(RANKS, spoilt, {"run_id": "small"})


def test_exposures_that_spark_reads_with_a_mapped_column(small_run: Any, spark: SparkSession) -> None:
    want = give_probabilities(small_run, "p")
    models = in_all_layouts(small_run)
    path = small_run.folder / "exposures.csv"
    small_run.write()
    pyarrow.csv.write_csv(small_run.tables["exposures"], path)
    small_run.config["inputs"]["exposures"] = {"path": str(path), "columns": {"exposure_probability": "p"}}
    found = small_run.ranks(spark)
    check(found, want, models)
    small_run.config["inputs"]["exposures"].pop("columns")  # p is a column like any other then
    assert all(row["random"]["probabilities"] is None for row in small_run.ranks(spark))


def test_a_file_from_before_the_table_had_the_column_has_null(small_run: Any, spark: SparkSession) -> None:
    want = give_probabilities(small_run)
    small_run.config["on_bad_rows"] = "quarantine"
    config = small_run.write()
    assert isinstance(config, Path)
    old = small_run.tables["exposures"]
    folder = small_run.folder / "in" / "exposures"
    pq.write_table(old.slice(0, 200), folder / "part-0.parquet")
    pq.write_table(old.slice(200).drop_columns(["exposure_probability"]), folder / "part-1.parquet")
    small_run.write = lambda: config
    rank(small_run, spark)
    late = {(row["user_id"], row["item_id"]) for row in old.slice(200).to_pylist()}
    found = Lake(spark, small_run.config["lake"]).read(RANKS, "small").collect()
    check(found, {pair: probability for pair, probability in want.items() if pair not in late}, {"a", "b"})
    ((_, table, rule, n_rows, example, action, *_),) = [
        row for row in small_run.rows(spark, "quality") if row[1:3] == ("exposures", "bad_probability")
    ]
    assert (table, rule, n_rows, action) == ("exposures", "bad_probability", 40, "quarantined")
    assert example.endswith(", exposure_probability=NULL")


def test_bad_ones_go_to_quarantine_with_their_row(small_run: Any, spark: SparkSession) -> None:
    want = give_probabilities(small_run)
    small_run.config["on_bad_rows"] = "quarantine"
    table = small_run.tables["exposures"]
    bad = dict(enumerate([None, float("nan"), 0.0, -0.5, 1.5]))
    probabilities = [bad.get(n, p) for n, p in enumerate(table["exposure_probability"].to_pylist())]
    small_run.tables["exposures"] = table.set_column(3, "exposure_probability", pa.array(probabilities, pa.float64()))
    feedback = small_run.tables["feedback"]
    nobody = pa.table({"user_id": pa.array([None], pa.int64()), "item_id": pa.array([1000]), "value": pa.array([1.0])})
    small_run.tables["feedback"] = pa.concat_tables([feedback, nobody])
    rank(small_run, spark)
    gone = [(row["user_id"], row["item_id"], row["value"]) for row in table.slice(0, 5).to_pylist()]
    check(
        Lake(spark, small_run.config["lake"]).read(RANKS, "small").collect(),
        {pair: p for pair, p in want.items() if pair not in {g[:2] for g in gone}},
        {"a", "b"},
    )
    counts = {(row[1], row[2]): (row[3], row[5]) for row in small_run.rows(spark, "quality")}
    assert counts["exposures", "bad_probability"] == (5, "quarantined")
    shown = ("null", '"NaN"', "0.0", "-0.5", "1.5")
    assert {row[3] for row in small_run.rows(spark, "quarantine")} == {
        *(
            f'{{"user_id":{user},"item_id":{item},"value":{value},"exposure_probability":{p}}}'
            for (user, item, value), p in zip(gone, shown, strict=True)
        ),
        '{"user_id":null,"item_id":1000,"value":1.0}',
    }
