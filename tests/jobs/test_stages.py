"""A stage starts from what is done and whole, or not at all: after kills, refusals, lost files, and a stage that was run again."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from eval_engine.errors import DataError, LakeError, StageError
from eval_engine.lake.commits import commit_files
from eval_engine.lake.delta_table import files_of
from eval_engine.lake.lake import Lake
from eval_engine.quality.quality_row import QualityRow
from eval_engine.storage.process_id import process_id
from eval_engine.tables import ESTIMATES, QUALITY, RANKS, RUNS
from jobs import evaluate, rank, report
from jobs.cli import load
from jobs.run_config import RunConfig
from jobs.stage import stage, stage_row

QUIET = Console(quiet=True)


def mark(lake: Lake, name: str, status: str, process: str) -> None:
    """Change how a stage stands in the runs table."""
    (row,) = lake.rows(RUNS, {"run_id": "small", "stage": name})
    row |= {"status": status, "process": process, "error": "so the test says" if status == "failed" else None}
    where = {"run_id": "small", "stage": name}
    lake.put(RUNS, [{column: value for column, value in row.items() if column not in where}], where)


def values(run: Any, spark: SparkSession) -> list[tuple[Any, ...]]:
    return sorted(
        (r["model"], r["estimator"], r["k"], r["value"])
        for r in Lake(spark, run.config["lake"]).rows(ESTIMATES, {"run_id": "small"})
    )


def test_no_stage_starts_from_one_that_is_not_done(own_lake: Any, spark: SparkSession) -> None:
    config = RunConfig.model_validate(own_lake.config)
    lake = Lake(spark, config.lake)
    gone = f"{process_id().rsplit('.', 1)[0]}.1"  # a process with the number of this one that started at another time
    for status, process, told in (
        ("failed", "", "failed"),
        ("running", gone, "was killed"),
        ("running", "", "not done"),
    ):
        mark(lake, "rank", status, process)
        for job in (evaluate, report):
            with pytest.raises(StageError, match=rf"run small: its rank stage of .* {told}.*Run jobs/rank.py"):
                job.run(spark, config, QUIET)
        mark(lake, "rank", "done", gone)
        mark(lake, "evaluate", status, process)
        with pytest.raises(StageError, match=rf"run small: its evaluate stage of .* {told}.*Run jobs/evaluate.py"):
            report.show(spark, config.lake, "small", QUIET)
        mark(lake, "evaluate", "done", gone)
    report.show(spark, config.lake, "small", QUIET)
    with pytest.raises(StageError, match="there is no evaluate stage"):
        report.show(spark, config.lake, "other", QUIET)


def test_which_users_count_comes_from_the_ranks(small_run: Any, spark: SparkSession) -> None:
    small_run.config["on_bad_rows"] = "quarantine"
    small_run.tables["scores/a"] = small_run.tables["scores/a"].slice(3)  # a has not scored three users
    small_run.scores["b"][20, 0] = np.nan  # b cannot rank one
    small_run.tables["scores/b"] = small_run.vectors("b")
    small_run.run(spark)
    right = values(small_run, spark)
    config = load(small_run.folder / "run.yaml")
    Lake(spark, config.lake).put(QUALITY, [], {"run_id": "small"})  # as if rank was killed before it wrote it
    evaluate.run(spark, config, QUIET)
    assert values(small_run, spark) == right
    n_users = {
        row["n_users"] + row["n_left_out"] for row in Lake(spark, config.lake).rows(ESTIMATES, {"run_id": "small"})
    }
    assert n_users == {36}


def test_checks_that_stop_a_run_leave_no_old_ranks_to_evaluate(own_lake: Any, spark: SparkSession) -> None:
    own_lake.config |= {"checks": {"stop_on": "fail"}, "positive": "value > 9"}  # no exposed item is a positive
    config = RunConfig.model_validate(own_lake.config)
    with pytest.raises(DataError, match="the check positives_per_user says fail"):
        rank.run(spark, config, QUIET)
    for job in (evaluate, report):
        with pytest.raises(StageError, match=r"its rank stage of .* failed"):
            job.run(spark, config, QUIET)


def test_estimates_that_are_older_than_the_ranks_are_not_reported(
    own_lake: Any, small_run: Any, spark: SparkSession
) -> None:
    small_run.scores["a"] = -small_run.scores["a"]
    small_run.tables["scores/a"] = small_run.vectors("a")
    small_run.write()
    config = RunConfig.model_validate(
        own_lake.config | {"scores": [small_run.config["scores"][0], own_lake.config["scores"][1]]}
    )
    rank.run(spark, config, QUIET)
    for show in (lambda: report.run(spark, config, QUIET), lambda: report.show(spark, config.lake, "small", QUIET)):
        with pytest.raises(StageError, match=r"its estimates of .* are older than its ranks. Run jobs/evaluate.py"):
            show()
    evaluate.run(spark, config, QUIET)
    report.run(spark, config, QUIET)
    # Ranks that came after the rank stage, as training with output: ranks writes them, were checked by nobody.
    uri = f"{config.lake}/{RANKS.name}"
    commit_files(uri, RANKS, [], {"run_id": "small", "model": "b"})
    with pytest.raises(StageError, match=r"its ranks were written after its rank stage"):
        evaluate.run(spark, config, QUIET)


@pytest.mark.parametrize("harm", ["gone", "cut"])
def test_ranks_that_were_lost_are_named_and_ranked_again(own_lake: Any, spark: SparkSession, harm: str) -> None:
    right = values(own_lake, spark)
    config = RunConfig.model_validate(own_lake.config)
    uri = f"{config.lake}/{RANKS.name}"
    file = next(f for f in files_of(uri, {"run_id": "small"}) if f.partition["model"] == "b")
    if harm == "gone":
        Path(file.path).unlink()
    else:
        os.truncate(file.path, file.n_bytes // 2)
    with pytest.raises(
        DataError, match=r"ranks: model b of run_id=small: its file .*run_id=small/model=b/.*Run jobs/rank.py"
    ):
        evaluate.run(spark, config, QUIET)
    kept = {f.path for f in files_of(uri, {"run_id": "small"}) if f.partition["model"] == "a"}
    rank.run(spark, config, QUIET)
    assert {f.path for f in files_of(uri, {"run_id": "small"}) if f.partition["model"] == "a"} == kept
    evaluate.run(spark, config, QUIET)
    assert values(own_lake, spark) == right


def test_a_file_whose_content_is_broken_is_named(own_lake: Any, spark: SparkSession) -> None:
    config = RunConfig.model_validate(own_lake.config)
    file = files_of(f"{config.lake}/{RANKS.name}", {"run_id": "small"})[0]
    Path(file.path).write_bytes(b"\0" * file.n_bytes)
    with pytest.raises(
        DataError, match=r"ranks: .*/part-.*\.parquet of model a cannot be read .*Remove the file and run"
    ):
        evaluate.run(spark, config, QUIET)


def test_two_jobs_that_run_one_stage_of_a_run_at_once(own_lake: Any, spark: SparkSession) -> None:
    config = RunConfig.model_validate(own_lake.config)
    ours, theirs = Lake(spark, config.lake), Lake(spark, config.lake)

    def meanwhile() -> None:
        with stage(ours, config, "split"):
            with stage(theirs, config, "split"):
                theirs.put(QUALITY, [], {"run_id": "small"})
            ours.put(QUALITY, [QualityRow("t", "ours", 1, "one", "none")], {"run_id": "small"})

    with pytest.raises(LakeError, match="small was written by another job while this one ran"):
        meanwhile()
    assert theirs.rows(QUALITY, {"run_id": "small"}) == []


def test_the_row_of_another_job_outlives_a_refused_one(own_lake: Any, spark: SparkSession) -> None:
    config = RunConfig.model_validate(own_lake.config)
    lake = Lake(spark, config.lake)

    def refused() -> None:
        with stage(lake, config, "evaluate"):
            mark(lake, "evaluate", "done", "another process")
            raise LakeError("refused")

    with pytest.raises(LakeError, match="refused"):
        refused()
    row = stage_row(lake, "small", "evaluate")
    assert row is not None
    assert (row["status"], row["process"]) == ("done", "another process")
