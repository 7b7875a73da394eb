"""The stage gate without a JVM: exit codes, baselines, windows, and run_ids that Airflow makes."""

import copy
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from eval_engine.errors import ConfigError, GateError, LakeError, MergeError, StageError
from eval_engine.tables import ESTIMATES, GATES, MERGES, RUNS
from jobs import evaluate, gate, merge, rank, report
from jobs.cli import load
from jobs.stage import lake_without_spark, stage_row

ROOT = Path(__file__).parent.parent.parent
QUIET = Console(quiet=True)
CELL = {"model": "a", "estimator": "ure_micro", "metric": "recall@9"}
PASSES = {"name": "there", "kind": "estimate", "at_least": 0.0} | CELL
FAILS = {"name": "high", "kind": "estimate", "at_least": 2.0} | CELL
CHANGE = {"name": "change", "kind": "change", "at_least": -0.01} | CELL
AIRFLOW = "manual__2026-11-17T00:00:00+00:00"


class Days:
    """Daily runs in a lake, each a copy of one finished run."""

    def __init__(self, run: Any) -> None:
        self.run = run
        self.root = run.config["lake"]

    def config(self, run_id: str, *rules: dict[str, Any], **sections: Any) -> Any:
        run = copy.copy(self.run)
        gates = {"gates": {"rules": list(rules)}} if rules else {}
        run.config = self.run.config | {"run_id": run_id} | gates | sections
        return load(run.write())

    def evaluated(self, spark: SparkSession, run_id: str, *rules: dict[str, Any], **sections: Any) -> Any:
        config = self.config(run_id, *rules, **sections)
        rank.run(spark, config, QUIET)
        evaluate.run(spark, config, QUIET)
        return config

    def rows(self, table: Any, run_id: str) -> list[dict[str, Any]]:
        lake = lake_without_spark(self.root)
        assert lake is not None
        return lake.rows(table, {"run_id": run_id})


@pytest.fixture(scope="module")
def made_days(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Days:
    """Three days; on the second model a is worse."""
    from tests.conftest import SmallRun

    days = Days(SmallRun(tmp_path_factory.mktemp("days")))
    days.run.config["evaluate"]["replicates"] = 20
    good = days.run.tables["scores/a"]
    for run_id in ("2026-11-15", "2026-11-16", AIRFLOW):
        if run_id == "2026-11-16":
            days.run.scores["a"] = -days.run.truth_values.astype("float32")
            days.run.tables["scores/a"] = days.run.vectors("a")
        else:
            days.run.tables["scores/a"] = good
        days.evaluated(spark, run_id)
    return days


@pytest.fixture
def days(made_days: Days, tmp_path: Path) -> Days:
    """The days in a lake of their own."""
    run = copy.copy(made_days.run)
    shutil.copytree(made_days.root, tmp_path / "lake")
    run.config = made_days.run.config | {"lake": str(tmp_path / "lake"), "report": str(tmp_path / "report")}
    return Days(run)


def gated(days: Days, run_id: str, *rules: dict[str, Any], **sections: Any) -> dict[str, str]:
    """The status of each gate; gates that fail raise."""
    gate.run(days.config(run_id, *rules, **sections), QUIET)
    return {row["gate"]: row["status"] for row in days.rows(GATES, run_id)}


def test_a_gate_that_passes_and_one_that_says_no(days: Days) -> None:
    assert gated(days, "2026-11-15", PASSES) == {"there": "pass"}
    with pytest.raises(
        GateError, match=r"1 of 2 gates say no\. high: recall@9 of a by ure_micro is 0\.\d+ .*at least 2"
    ):
        gated(days, "2026-11-15", PASSES, FAILS)
    assert {row["gate"]: row["status"] for row in days.rows(GATES, "2026-11-15")} == {"there": "pass", "high": "fail"}
    (row,) = (row for row in days.rows(RUNS, "2026-11-15") if row["stage"] == "gate")
    assert row["status"] == "failed"
    assert "GateError" in row["error"]
    assert GateError.exit_code == 5


def test_a_warning_stops_nothing_and_approves_nothing(days: Days) -> None:
    assert gated(days, "2026-11-15", FAILS | {"on_fail": "warn"}) == {"high": "warn"}
    gated(days, AIRFLOW, CHANGE)
    assert days.rows(GATES, AIRFLOW)[0]["baseline"] is None


def test_the_next_run_finds_the_approved_one_and_a_worse_model_is_stopped(days: Days) -> None:
    assert gated(days, "2026-11-15", CHANGE) == {"change": "pass"}  # nothing is approved yet
    with pytest.raises(GateError, match=r"below .* in the approved run 2026-11-15"):
        gated(days, "2026-11-16", CHANGE)
    assert gated(days, AIRFLOW, CHANGE) == {"change": "pass"}
    (row,) = days.rows(GATES, AIRFLOW)
    assert (row["baseline"], row["observed"]) == ("2026-11-15", 0.0)
    assert (row["low"], row["high"]) == pytest.approx((0.0, 0.0), abs=1e-9)  # the same users, the same scores
    assert gated(days, AIRFLOW, CHANGE) == {"change": "pass"}  # not compared with itself
    assert days.rows(GATES, AIRFLOW)[0]["baseline"] == "2026-11-15"
    gated(days, "2026-11-15", CHANGE)  # run late: nothing was approved before it
    assert days.rows(GATES, "2026-11-15")[0]["baseline"] is None


def test_a_baseline_that_is_not_there_or_of_other_settings_is_a_named_error(days: Days, spark: SparkSession) -> None:
    with pytest.raises(ConfigError, match="the baseline 2026-01-01 of the gate change is no run of the lake"):
        gated(days, "2026-11-15", CHANGE | {"baseline": "2026-01-01"})
    gated(days, "2026-11-15", PASSES)
    days.run.config["evaluate"] = days.run.config["evaluate"] | {"ties": "strict"}
    days.evaluated(spark, "2026-11-18")
    with pytest.raises(ConfigError, match=r"another setting of evaluate\.ties"):
        gated(days, "2026-11-18", CHANGE | {"baseline": "2026-11-15"})
    assert gated(days, "2026-11-18", CHANGE) == {"change": "pass"}  # no approved run with these settings
    assert days.rows(GATES, "2026-11-18")[0]["baseline"] is None


def test_a_missing_estimate_fails_and_says_why(days: Days) -> None:
    with pytest.raises(
        GateError, match="No answer, so no approval: there is no estimate of recall@9 of gone by ure_micro"
    ):
        gated(days, "2026-11-15", PASSES | {"model": "gone"})


def test_a_gate_before_its_run_is_evaluated(days: Days) -> None:
    with pytest.raises(StageError, match="there is no evaluate stage"):
        gated(days, "2026-12-01", PASSES)
    with pytest.raises(StageError, match="there is no merge stage"):
        gated(days, "2026-11-15", PASSES | {"of": "window"}, window=2)


def test_the_command_has_exit_codes_json_and_no_java(days: Days) -> None:
    days.config("2026-11-15", PASSES, FAILS)
    environment = os.environ | {"PYTHONPATH": str(ROOT), "JAVA_HOME": "/nowhere", "PATH": "/nowhere"}

    def said(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "jobs.cli", *words]
        return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT, check=False)

    path = str(days.run.folder / "run.yaml")
    done = said("gate", path, "--json", "--run-id", AIRFLOW)
    assert done.returncode == 5, done.stderr
    found = json.loads(done.stdout)
    assert (found["run_id"], found["approved"], found["passed"]) == (AIRFLOW, False, False)
    assert {one["gate"]: one["status"] for one in found["gates"]} == {"there": "pass", "high": "fail"}
    assert "1 of 2 gates say no" in done.stderr
    no_rules = said("gate", "2026-11-15", "--lake", days.root)  # its config in the lake has none
    assert no_rules.returncode == 2
    assert "no gates section" in no_rules.stderr
    assert said("gate", "2026-01-01", "--lake", days.root).returncode == 4
    merged = said("merge", "2026-11-15", AIRFLOW, "--as", "two", "--lake", days.root)
    assert merged.returncode == 0, merged.stderr
    assert {row["part"] for row in days.rows(MERGES, "two")} == {"2026-11-15", AIRFLOW}


def values(rows: list[dict[str, Any]]) -> dict[tuple[Any, ...], Any]:
    return {(r["model"], r["estimator"], r["metric"], r["k"], r["slice"]): r for r in rows}


def test_days_of_the_same_users_have_the_values_of_one(days: Days) -> None:
    lake = merge.lake_of(days.root)
    merge.merge_runs(lake, ["2026-11-15", AIRFLOW], "sum", QUIET)
    one, both = (values(days.rows(ESTIMATES, run_id)) for run_id in ("2026-11-15", "sum"))
    assert one.keys() == both.keys()
    for cell, row in one.items():
        if "cannot be added" in (both[cell]["reason"] or "") or cell[1] == "ure_balanced":
            continue  # balanced URE smooths less with more users
        if row["value"] is not None:
            assert both[cell]["value"] == pytest.approx(row["value"], rel=1e-9), cell
            assert both[cell]["n_users"] == 2 * row["n_users"]
    before = days.rows(ESTIMATES, "sum")
    merge.merge_runs(lake, [AIRFLOW, "2026-11-15"], "sum", QUIET)  # again, in another order
    assert values(days.rows(ESTIMATES, "sum")) == values(before)


def test_runs_of_other_models_or_settings_are_refused(days: Days, spark: SparkSession) -> None:
    lake = merge.lake_of(days.root)
    days.evaluated(spark, "2026-11-18", evaluate=days.run.config["evaluate"] | {"metrics": ["recall@3"]})
    with pytest.raises(
        MergeError, match=r"2026-11-15 and 2026-11-18 cannot be added up: their evaluate\.metrics differ"
    ):
        merge.merge_runs(lake, ["2026-11-15", "2026-11-18"], "sum", QUIET)
    days.evaluated(spark, "2026-11-19", scores=days.run.config["scores"][:1])
    with pytest.raises(MergeError, match="their models differ"):
        merge.merge_runs(lake, ["2026-11-15", "2026-11-19"], "sum", QUIET)
    merge.merge_runs(lake, ["2026-11-15", "2026-11-16"], "sum", QUIET)
    with pytest.raises(MergeError, match="run sum is itself added up"):
        merge.merge_runs(lake, ["sum", AIRFLOW], "more", QUIET)
    for runs, name in ((["2026-11-15"] * 2, "x"), (["2026-11-15", AIRFLOW], "2026-11-15")):
        with pytest.raises(ConfigError, match=r"given twice|a run of its own"):
            merge.merge_runs(lake, runs, name, QUIET)


def test_a_window_its_gate_and_a_day_that_is_run_again(days: Days, spark: SparkSession) -> None:
    rules = (PASSES | {"of": "window"}, CHANGE | {"of": "window", "at_least": -1.0})
    for run_id in ("2026-11-15", "2026-11-16", AIRFLOW):
        config = days.evaluated(spark, run_id, *rules, window=2)
        merge.run(config, QUIET)
        gate.run(config, QUIET)
    assert {row["part"] for row in days.rows(MERGES, f"{AIRFLOW}.window")} == {"2026-11-16", AIRFLOW}
    assert {row["gate"]: row["baseline"] for row in days.rows(GATES, AIRFLOW)} == {
        "there": None,
        "change": "2026-11-16.window",
    }
    report.show(spark, days.root, f"{AIRFLOW}.window", QUIET)
    merge.merge_runs(merge.lake_of(days.root), ["2026-11-15", AIRFLOW], "named", QUIET)
    gate.run(gate.config_of(days.root, "named"), QUIET)
    before = {
        run_id: values(days.rows(ESTIMATES, run_id)) for run_id in ("2026-11-15.window", f"{AIRFLOW}.window", AIRFLOW)
    }
    config = days.evaluated(spark, "2026-11-16", *rules, window=2)  # late data: the day is run again
    with pytest.raises(StageError, match=rf"{AIRFLOW[:10]}.*window is older than its day 2026-11-16"):
        gate.run(days.config(AIRFLOW, *rules, window=2), QUIET)
    merge.run(config, QUIET)
    after = {run_id: values(days.rows(ESTIMATES, run_id)) for run_id in before}
    assert after == before  # the same data; now of the new run of the day
    lake = merge.lake_of(days.root)
    row = stage_row(lake, "2026-11-16", "evaluate")
    assert row is not None
    (part,) = (one for one in days.rows(MERGES, f"{AIRFLOW}.window") if one["part"] == "2026-11-16")
    assert part["evaluated_at"] == row["started_at"]
    gate.run(days.config(AIRFLOW, *rules, window=2), QUIET)


def test_a_window_does_not_reach_beyond_other_settings_and_needs_a_day(days: Days, spark: SparkSession) -> None:
    evaluation = days.run.config["evaluate"] | {"ties": "strict"}
    for run_id in ("2026-11-18", "2026-11-19"):
        config = days.evaluated(spark, run_id, window=7, evaluate=evaluation)
    said = Console(record=True, width=300)
    merge.run(config, said)
    assert {row["part"] for row in days.rows(MERGES, "2026-11-19.window")} == {"2026-11-18", "2026-11-19"}
    assert "not beyond 2026-11-17, whose evaluate.ties differ" in said.export_text()
    with pytest.raises(ConfigError, match="run_id nameless holds no day"):
        merge.run(days.evaluated(spark, "nameless", window=7), QUIET)


def test_a_lake_of_a_catalog_cannot_be_gated_or_merged(days: Days) -> None:
    for sections in ({"window": 7}, {"gates": {"rules": [PASSES]}}):
        name = next(iter(sections))
        with pytest.raises(
            ConfigError, match=rf"{name}: the lake shop\.lake is a schema of a catalog, which only Spark"
        ):
            days.config("2026-11-15", lake="shop.lake", **sections)
    with pytest.raises(LakeError, match=r"The lake shop\.lake can only be read by Spark, and runs are merged without"):
        merge.lake_of("shop.lake")
    command = [sys.executable, "-m", "jobs.cli", "gate", "2026-11-15", "--lake", "shop.lake"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT, check=False)
    assert done.returncode == LakeError.exit_code, done.stderr
    assert "The lake shop.lake can only be read by Spark" in done.stderr


@pytest.mark.parametrize(
    ("rules", "sections", "told"),
    [
        ([PASSES | {"of": "window"}], {}, "section window is needed"),
        ([PASSES | {"of": "window"}], {"window": 7, "anytime": {}}, "which moves"),
        ([CHANGE | {"fails": "surely_beyond"}], {"anytime": {}}, "which changes"),
    ],
)
def test_gates_that_cannot_be_judged_are_bad_config(
    days: Days, rules: list[dict[str, Any]], sections: dict[str, Any], told: str
) -> None:
    if "anytime" in sections:
        anytime = sections["anytime"]
        sections = {k: v for k, v in sections.items() if k != "anytime"}
        sections["evaluate"] = days.run.config["evaluate"] | {"anytime": anytime}
    with pytest.raises(ConfigError, match=told):
        days.config("2026-11-15", *rules, **sections)
