"""The split stage: both tables where the config has them, twice the same, and what it says of bad input."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from rich.console import Console

from eval_engine.errors import ConfigError, DataError, StageError
from eval_engine.inputs.label_sets import probability_column
from eval_engine.inputs.splits import PROPENSITY
from eval_engine.lake.lake import Lake
from eval_engine.tables import QUALITY, QUARANTINE, RUNS
from jobs import evaluate, rank, simulate, split, train
from jobs.cli import load

QUIET = Console(quiet=True)


def no_spark() -> SparkSession:
    raise AssertionError("Spark was started")


def with_log(run: Any, how: dict[str, Any], **section: Any) -> None:
    """The run's feedback as a log with times and a propensity, to be split."""
    rows = run.tables.pop("feedback")
    n = rows.num_rows
    rows = rows.append_column("seen", pa.array([(7 * k) % 11 for k in range(n)]))
    run.tables["log"] = rows.append_column("propensity", pa.array([1 / (k + 1) for k in range(n)]))
    log = {"path": str(run.folder / "in" / "log"), "columns": {"timestamp": "seen"}}
    run.config["split"] = {"log": log, "how": how} | section
    run.config["inputs"] |= {name: {"path": str(run.folder / "made" / name)} for name in ("feedback", "heldout")}


def made(run: Any, name: str) -> list[dict[str, Any]]:
    table = DeltaTable(run.folder / "made" / name).to_pyarrow_table()
    return sorted(table.to_pylist(), key=lambda row: (row["user_id"], row["item_id"]))


def quality(run: Any) -> dict[str, tuple[int, str]]:
    rows = Lake(None, run.config["lake"]).rows(QUALITY, {"run_id": "small"})  # type: ignore[arg-type]
    return {row["rule"]: (row["n_rows"], row["action"]) for row in rows if row["table"] == "log"}


def test_both_tables_twice_the_same_and_the_run_goes_on_from_them(small_run: Any, spark: SparkSession) -> None:
    with_log(small_run, {"strategy": "leave_last", "n": 2})
    config = load(small_run.write())
    split.run(lambda: spark, config, QUIET)
    feedback, heldout = made(small_run, "feedback"), made(small_run, "heldout")
    log = small_run.tables["log"].to_pylist()
    assert sorted(feedback + heldout, key=str) == sorted(log, key=str)  # with all of their columns
    assert len(heldout) == 2 * len(small_run.users)
    versions = [DeltaTable(small_run.folder / "made" / name).version() for name in ("feedback", "heldout")]
    split.run(no_spark, config, QUIET)  # the same log: nothing to do
    split.run(lambda: spark, config.model_copy(update={"run_id": "other"}), QUIET)  # counted, not written again
    assert [DeltaTable(small_run.folder / "made" / name).version() for name in ("feedback", "heldout")] == versions
    rank.run(spark, config, QUIET)
    evaluate.run(spark, config, QUIET)
    (row,) = Lake(spark, config.lake).rows(RUNS, {"run_id": "small", "stage": "split"})
    assert (row["status"], row["inputs"]) == ("done", {"log": f"{small_run.folder}/in/log (parquet)"})
    small_run.config["split"]["how"]["n"] = 1
    split.run(lambda: spark, load(small_run.write()), QUIET)
    assert len(made(small_run, "heldout")) == len(small_run.users)


@pytest.mark.parametrize("partitions", ["1", "7"])
def test_the_same_pairs_on_any_partitioning(small_run: Any, spark: SparkSession, partitions: str) -> None:
    with_log(small_run, {"strategy": "time", "share": 0.3}, cold="drop")
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", partitions)
    try:
        split.run(lambda: spark, load(small_run.write()), QUIET)
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)
    log = small_run.tables["log"].to_pylist()
    cut = sorted(row["seen"] for row in log)[len(log) - len(log) * 3 // 10]
    feedback = [row for row in log if row["seen"] < cut]
    users, items = {row["user_id"] for row in feedback}, {row["item_id"] for row in feedback}
    held = [row for row in log if row["seen"] >= cut]
    warm = [row for row in held if row["user_id"] in users and row["item_id"] in items]
    assert sorted(made(small_run, "feedback"), key=str) == sorted(feedback, key=str)
    assert sorted(made(small_run, "heldout"), key=str) == sorted(warm, key=str)
    cold_users = sum(row["user_id"] not in users for row in held)
    counted = {"cold_user": cold_users, "cold_item": len(held) - len(warm) - cold_users}
    assert quality(small_run) == {rule: (n, "left out") for rule, n in counted.items() if n}


def test_cold_pairs_are_kept_and_counted(small_run: Any, spark: SparkSession) -> None:
    with_log(small_run, {"strategy": "random", "share": 0.9})
    split.run(lambda: spark, load(small_run.write()), QUIET)
    assert len(made(small_run, "feedback")) + len(made(small_run, "heldout")) == small_run.tables["log"].num_rows
    counts = quality(small_run)
    assert {action for _, action in counts.values()} == {"kept in heldout"}
    users = {row["user_id"] for row in made(small_run, "feedback")}
    assert counts["cold_user"][0] == sum(row["user_id"] not in users for row in made(small_run, "heldout"))


def test_users_with_too_few_pairs_stay_in_training(small_run: Any, spark: SparkSession) -> None:
    with_log(small_run, {"strategy": "leave_last", "n": 3})
    small_run.tables["log"] = small_run.tables["log"].slice(2)  # the first user has 3 of 5 pairs left
    split.run(lambda: spark, load(small_run.write()), QUIET)
    assert quality(small_run)["too_few_pairs"] == (3, "kept for training")
    assert len(made(small_run, "heldout")) == 3 * (len(small_run.users) - 1)


def test_bad_rows_stop_the_split_or_go_to_quarantine_and_stay_there(small_run: Any, spark: SparkSession) -> None:
    with_log(small_run, {"strategy": "leave_last", "n": 1})
    log = small_run.tables["log"]
    first = log.slice(0, 1)
    bad = first.set_column(3, "seen", pa.array([None], pa.int64())).set_column(1, "item_id", pa.array([10**6]))
    small_run.tables["log"] = pa.concat_tables([log, first, bad])
    with pytest.raises(DataError, match=r"log: 2 rows break the rule duplicate_key \(first: user_id=100, item_id="):
        split.run(lambda: spark, load(small_run.write()), QUIET)
    assert not (small_run.folder / "made").exists()
    small_run.config["on_bad_rows"] = "quarantine"
    config = load(small_run.write())
    split.run(lambda: spark, config, QUIET)
    expected = {"duplicate_key": (2, "quarantined"), "no_timestamp": (1, "quarantined")}
    assert quality(small_run) == expected
    assert len(made(small_run, "feedback")) + len(made(small_run, "heldout")) == log.num_rows - 1
    rank.run(spark, config, QUIET)  # its own rows stand beside those of the split
    assert quality(small_run) == expected
    rows = Lake(spark, config.lake).read(QUARANTINE, "small").where("table = 'log'").collect()
    assert sorted(row["rule"] for row in rows) == ["duplicate_key", "duplicate_key", "no_timestamp"]
    assert {json.loads(row["row"])["propensity"] for row in rows} == {1.0}
    n_others = len(Lake(spark, config.lake).rows(QUALITY, {"run_id": "small"})) - 2
    small_run.tables["log"] = log
    split.run(lambda: spark, load(small_run.write()), QUIET)
    assert quality(small_run) == {}
    assert len(Lake(spark, config.lake).rows(QUALITY, {"run_id": "small"})) == n_others
    assert Lake(spark, config.lake).read(QUARANTINE, "small").where("table = 'log'").isEmpty()


@pytest.mark.parametrize(
    ("how", "section", "message"),
    [
        ({"strategy": "time", "cut": -5}, {}, r"200 pairs split by .*leave no pair for training: all are held out"),
        ({"strategy": "time", "cut": 99}, {}, r"leave no held-out pair. Hold out more in split.how"),
        ({"strategy": "leave_last", "n": 5}, {}, r"leave no held-out pair. Hold out more"),
        ({"strategy": "leave_last", "n": 5, "least_training": 0}, {}, "leave no pair for training"),
    ],
)
def test_a_side_without_a_pair(
    small_run: Any, spark: SparkSession, how: dict[str, Any], section: dict[str, Any], message: str
) -> None:
    with_log(small_run, how, **section)
    config = load(small_run.write())
    with pytest.raises(DataError, match=message):
        split.run(lambda: spark, config, QUIET)
    assert not (small_run.folder / "made").exists()
    with pytest.raises(StageError, match=r"its split stage of .* failed.*Run jobs/split.py with this run_id again"):
        rank.run(spark, config, QUIET)


def test_cold_pairs_that_are_all_there_is(small_run: Any, spark: SparkSession) -> None:
    with_log(small_run, {"strategy": "time", "cut": 3}, cold="drop")
    rows = small_run.tables["log"].slice(0, 4)
    times = pa.array([1, 2, 3, 4])
    rows = rows.set_column(3, "seen", times).set_column(1, "item_id", pa.array(small_run.items[:4]))
    small_run.tables["log"] = rows
    with pytest.raises(DataError, match=r"cold: drop takes all 2 held-out pairs.*Set split.cold: keep"):
        split.run(lambda: spark, load(small_run.write()), QUIET)


def test_an_empty_log_and_a_log_of_bad_rows(small_run: Any, spark: SparkSession) -> None:
    with_log(small_run, {"strategy": "random"})
    log = small_run.tables["log"]
    small_run.tables["log"] = log.slice(0, 0)
    with pytest.raises(DataError, match=r"log: .*/log is empty"):
        split.run(lambda: spark, load(small_run.write()), QUIET)
    small_run.tables["log"] = pa.concat_tables([log, log])
    small_run.config["on_bad_rows"] = "quarantine"
    with pytest.raises(DataError, match=r"every row of .* breaks a rule, duplicate_key among them"):
        split.run(lambda: spark, load(small_run.write()), QUIET)


def test_a_name_that_two_columns_would_have(small_run: Any, spark: SparkSession) -> None:
    with_log(small_run, {"strategy": "random"})
    small_run.config["inputs"]["heldout"]["columns"] = {"value": "propensity"}
    with pytest.raises(ConfigError, match=r"inputs.heldout.columns: propensity is a column of the log, which is kept"):
        split.run(lambda: spark, load(small_run.write()), QUIET)
    assert not (small_run.folder / "made").exists()


def test_other_formats_and_names(small_run: Any, spark: SparkSession) -> None:
    with_log(small_run, {"strategy": "leave_last", "n": 1})
    import pyarrow.csv as pa_csv

    small_run.write()
    pa_csv.write_csv(small_run.tables["log"], small_run.folder / "log.csv")
    small_run.config["split"]["log"]["path"] = str(small_run.folder / "log.csv")
    small_run.config["inputs"]["feedback"] |= {"format": "parquet", "columns": {"user_id": "who"}}
    config = load(small_run.write())
    split.run(lambda: spark, config, QUIET)
    feedback = pa.parquet.read_table(small_run.folder / "made" / "feedback")
    assert feedback.column_names == ["who", "item_id", "value", "seen", "propensity"]
    assert feedback.num_rows == small_run.tables["log"].num_rows - len(small_run.users)
    assert feedback.schema.field("propensity").type == pa.float64()  # which ranking reads; of CSV, others are text
    assert probability_column("heldout") == PROPENSITY
    assert feedback.schema.field("seen").type in (pa.string(), pa.int64())
    split.run(lambda: spark, config, QUIET)  # Parquet does not say what made it: written again
    assert sorted(map(str, pa.parquet.read_table(small_run.folder / "made" / "feedback").to_pylist())) == sorted(
        map(str, feedback.to_pylist())
    )
    rank.run(spark, config, QUIET)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"heldout": None}, "split writes inputs.heldout, so its path is needed"),
        ({"heldout": {"path": "x.csv"}}, "as Delta or Parquet, but x.csv is CSV"),
        ({"heldout": {"path": "LOG"}}, "would write inputs.heldout over it"),
        ({"heldout": {"path": "FEEDBACK"}}, "give each a path of its own"),
    ],
)
def test_places_that_cannot_be_written(small_run: Any, change: dict[str, Any], message: str) -> None:
    with_log(small_run, {"strategy": "random"})
    paths = {"LOG": small_run.config["split"]["log"]["path"], "FEEDBACK": str(small_run.folder / "made" / "feedback")}
    for where in filter(None, change.values()):
        where["path"] = paths.get(where["path"], where["path"])
    small_run.config["inputs"] |= change
    with pytest.raises(ConfigError, match=message):
        load(small_run.write())


def test_a_simulated_world_is_split_and_nothing_is_made_twice(tmp_path: Path, spark: SparkSession) -> None:
    paths = {name: {"path": f"{tmp_path}/{name}"} for name in ("catalogue", "feedback", "heldout", "exposures", "log")}
    log = paths.pop("log")
    config = {
        "run_id": "small",
        "lake": f"{tmp_path}/lake",
        "inputs": paths,
        "frame": "unseen",
        "world": {"users": 30, "items": 40, "exposures": 5, "shown": 20, "seed": 3},
        "split": {"log": log, "how": {"strategy": "random", "share": 0.25}},
        "train": {"scores": f"{tmp_path}/scores", "models": [{"kind": "popularity", "name": "popularity"}]},
    }
    (tmp_path / "run.yaml").write_text(json.dumps(config))
    loaded = load(tmp_path / "run.yaml")
    simulate.run(lambda: spark, loaded, QUIET)
    split.run(lambda: spark, loaded, QUIET)
    assert not (tmp_path / "truth").exists()
    n_rows = {name: DeltaTable(tmp_path / name).to_pyarrow_table().num_rows for name in ("log", "feedback", "heldout")}
    assert n_rows["log"] == n_rows["feedback"] + n_rows["heldout"]
    propensities = DeltaTable(tmp_path / "heldout").to_pyarrow_table().column("propensity").to_numpy()
    assert 0 < propensities.min() < propensities.max() < 0.25  # answers of at most a half of what is shown
    train.run(loaded, QUIET)
    simulate.run(no_spark, loaded, QUIET)
    split.run(no_spark, loaded, QUIET)
    rank.run(spark, loaded, QUIET)
    rows = {row["stage"]: row for row in Lake(spark, loaded.lake).rows(RUNS, {"run_id": "small"})}
    assert {name: row["status"] for name, row in rows.items()} == dict.fromkeys(
        ("simulate", "split", "train", "rank"), "done"
    )
    assert "spark" not in rows["train"]["versions"]
    assert set(rows["train"]["inputs"]) == {"catalogue", "feedback", "exposures"}
    config["split"] = config["split"] | {"how": {"strategy": "leave_last"}}  # type: ignore[operator]
    (tmp_path / "run.yaml").write_text(json.dumps(config))
    with pytest.raises(ConfigError, match="the simulated world has no times: use strategy: random"):
        load(tmp_path / "run.yaml")
