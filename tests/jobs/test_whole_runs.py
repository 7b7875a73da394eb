"""Whole runs on real files: right numbers, the same tables on any partitioning and twice, any kind of input and id."""

from io import StringIO
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from eval_engine import full_recall, full_recall_micro, rank_facts, traditional_recall, ure_recall, ure_recall_micro
from eval_engine.lake.lake import Lake
from jobs import rank
from jobs.cli import load

ANSWERS = {
    "full_macro": full_recall,
    "full_micro": full_recall_micro,
    "traditional": traditional_recall,
    "ure_macro": ure_recall,
    "ure_micro": ure_recall_micro,
}


def in_memory(run: Any) -> dict[tuple[str, str, int], tuple[float, ...]]:
    """The run's estimates by the functions for arrays, without Spark or files."""
    found = {}
    everything = np.tile(np.arange(len(run.items)), (len(run.users), 1))
    unseen = [np.setdiff1d(row, logged) for row, logged in zip(everything, run.logged, strict=True)]
    for model, scores in run.scores.items():
        for estimator, answer in ANSWERS.items():
            shown = unseen if estimator.startswith("full") else list(run.exposed)
            values = [row[items] for row, items in zip(run.truth_values, shown, strict=True)]
            facts = rank_facts(scores, shown, values, list(run.logged))
            for k in (2,) if estimator == "traditional" else (3, 9):
                found[model, estimator, k] = answer(facts, k, facts.value > 3)
    return found


def test_estimates_are_those_of_the_functions_for_arrays(finished_run: Any, spark: SparkSession) -> None:
    rows = {(row[1], row[2], row[4]): row for row in finished_run.rows(spark, "estimates")}
    expected = in_memory(finished_run)
    assert {key for key in rows if key[1] not in ("full_selected", "ure_balanced")} == set(expected)
    for key, want in expected.items():
        np.testing.assert_allclose(rows[key][5:9], want[:4], rtol=1e-12)
        assert (rows[key].n_users, rows[key].n_left_out, rows[key].n_unknown) == (want.n_users, want.n_left_out, 0)
    assert all("recall" in row.estimand or "share" in row.estimand for row in rows.values())
    pairs = finished_run.rows(spark, "comparisons")
    assert {row.estimator for row in pairs} == {key[1] for key in rows}
    for row in pairs:
        both = [rows[model, row.estimator, row.k].value for model in (row.model_a, row.model_b)]
        assert row.difference == pytest.approx(both[0] - both[1], abs=1e-12)
    runs = {row[1]: row for row in finished_run.rows(spark, "runs")}
    assert {name: row[2] for name, row in runs.items()} == {"rank": "done", "evaluate": "done"}
    assert runs["rank"][6]["spark"] == spark.version
    assert "exposures (parquet)" in runs["rank"][7]["exposures"]


def test_a_second_run_on_other_partitions_leaves_the_same_tables(finished_run: Any, spark: SparkSession) -> None:
    before = {
        table: finished_run.rows(spark, table)
        for table in ("ranks", "statistics", "estimates", "comparisons", "quality", "catalogue")
    }
    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "5")
    try:
        finished_run.run(spark)
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", partitions)
    after = {table: finished_run.rows(spark, table) for table in before}
    assert {row[2] for row in after["ranks"]} != {
        row[2] for row in before["ranks"]
    }  # the input files were written anew, so all was ranked again
    for tables in (before, after):
        tables["ranks"] = [(*row[:2], *row[3:]) for row in tables["ranks"]]
    assert after == before


def test_workers_and_spark_read_the_same_of_ranks(finished_run: Any, spark: SparkSession) -> None:
    from eval_engine.evaluation.spec import EvaluationSpec
    from eval_engine.evaluation.statistics_plan import STATISTICS_COLUMNS, statistics, statistics_of_files
    from eval_engine.metric import Metric
    from eval_engine.positive import Positive
    from eval_engine.tables import RANKS

    lake, run_id = Lake(spark, finished_run.config["lake"]), finished_run.config["run_id"]
    question = EvaluationSpec(
        (Metric("recall", 3), Metric("auc", 0)),
        (Metric("recall", 2),),
        Positive(">", 3.0),
        "expected",
        ("random", "truth"),
    )
    files = [(f.path, f.partition["model"], f.n_bytes) for f in lake.files(RANKS, run_id)]
    assert {model for _, model, _ in files} == {"a", "b"}
    plans = statistics(lake.read(RANKS, run_id), question), statistics_of_files(spark, files, question)
    spark_read, workers_read = (
        sorted(map(str, plan.rows.mapInArrow(plan.worker, STATISTICS_COLUMNS).collect())) for plan in plans
    )
    assert workers_read == spark_read
    assert len(spark_read) > 100


def test_inputs_of_any_kind_with_ids_that_are_strings(finished_run: Any, small_run: Any, spark: SparkSession) -> None:
    other = small_run

    def name(column: str, number: int) -> str:
        return f'{column[0]}"{number:07d}",\n'

    def named(table: pa.Table) -> pa.Table:
        for column in ("user_id", "item_id"):
            if column in table.column_names:
                number = table.column_names.index(column)
                table = table.set_column(number, column, pa.array([name(column, x) for x in table[column].to_pylist()]))
        return table

    other.tables = {name: named(table) for name, table in other.tables.items()}
    other.write()
    folder = other.folder / "in"
    exposures = other.tables["exposures"].rename_columns(["who", "what", "stars"])
    pa_csv.write_csv(exposures, folder / "exposures.csv")
    other.config["inputs"]["exposures"] = {
        "path": str(folder / "exposures.csv"),
        "columns": {"user_id": "who", "item_id": "what", "value": "stars"},
    }
    spark.read.parquet(str(folder / "truth")).write.format("delta").save(str(folder / "truth_delta"))
    other.config["inputs"]["truth"] = {"path": str(folder / "truth_delta")}
    spark.sql("CREATE DATABASE IF NOT EXISTS shop")
    spark.sql("DROP TABLE IF EXISTS shop.feedback")
    spark.read.parquet(str(folder / "feedback")).write.format("delta").option(
        "path", str(folder / "feedback_delta")
    ).saveAsTable("shop.feedback")
    other.config["inputs"]["feedback"] = {"path": "shop.feedback"}
    other.run(spark)
    both = [
        [
            (row.model, row.estimator, row.k, row.value, row.low, row.high, row.ties_low, row.n_users)
            for row in run.rows(spark, "estimates")
        ]
        for run in (other, finished_run)
    ]
    # other ids are other buckets, so that what is found by bucket differs; the rest is the same
    one, two = ([row for row in rows if row[1] != "ure_balanced"] for rows in both)
    assert one == two
    (first, *_) = other.rows(spark, "ranks")
    assert first[3] == name("user_id", 100)
    assert set(first[6]["items"]) < {name("item_id", x) for x in other.items}
    assert {row[1]: row[7] for row in other.rows(spark, "runs")}["rank"]["truth"].endswith("(delta version 0)")


def test_csv_numbers_are_numbers_and_only_then(small_run: Any, spark: SparkSession) -> None:
    from eval_engine.config import Input
    from eval_engine.inputs.read import read_input

    wanted = {"user_id": "id", "item_id": "id", "value": "value"}
    small_run.folder.mkdir(exist_ok=True)
    cases = {
        "1,2,3.5": ("bigint", "bigint"),
        "007,2,3.5": ("string", "bigint"),
        "1,a,3.5": ("bigint", "string"),
        "123456789012345678901,2,1": ("string", "bigint"),
    }
    for line, kinds in cases.items():
        path = small_run.folder / "x.csv"
        path.write_text(f"user_id,item_id,value\n{line}\n")
        found = read_input(spark, "exposures", Input(path=str(path)), wanted)
        assert tuple(kind for _, kind in found.dtypes) == (*kinds, "double")
        assert str(found.first()["user_id"]) == line.split(",")[0]


def test_only_what_changed_is_ranked_again(small_run: Any, spark: SparkSession) -> None:
    config = load(small_run.write())
    lake = Lake(spark, config.lake)
    rank.run(spark, config, Console(quiet=True))
    first = {row[1]: row[2] for row in small_run.rows(spark, "ranks")}
    assert rank.already_ranked(spark, config, lake) == rank.Ranked(("a", "b"), (), {})
    said = Console(record=True, file=StringIO())
    rank.run(spark, config, said)
    assert "a, b already ranked from the same inputs" in said.export_text()

    small_run.scores["b"] = -small_run.scores["b"]
    pq.write_table(small_run.vectors("b"), small_run.folder / "in" / "scores" / "b" / "part-0.parquet")
    assert rank.already_ranked(spark, config, lake).models == ("a",)
    said = Console(record=True, file=StringIO())
    rank.run(spark, config, said)
    assert "Ranking b " in said.export_text()
    rows = small_run.rows(spark, "ranks")
    second = {row[1]: row[2] for row in rows}
    assert second["a"] == first["a"]
    assert second["b"] != first["b"]
    assert len(rows) == 80
    want = rank_facts(small_run.scores["b"], list(small_run.exposed), excluded=list(small_run.logged))
    assert sum(sum(row[6].above) for row in rows if row[1] == "b") == want.above.sum()

    shorter = config.model_copy(update={"scores": config.scores[:1]})
    rank.run(spark, shorter, Console(quiet=True))
    assert {row[1] for row in small_run.rows(spark, "ranks")} == {"a"}  # a model that is no longer asked for is gone
    assert (
        rank.already_ranked(spark, config.model_copy(update={"top": 10}), lake).models == ()
    )  # other settings: all anew
