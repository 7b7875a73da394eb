"""Runs of the whole DAG on a small world: Airflow, spark-submit and Delta are real, and so are the kill and the bad
data. The tests follow on one another, as the days of a platform do."""

import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Any

import psutil
from conftest import Outcome, Platform, approved

GOOD, WORSE = "positive_popularity", "random"
ASKED = {"simulate", "split", "propensity", "train", "rank", "evaluate", "report", "gate"}
OTHERS = {"plan", "models", "train_model", "quality"}  # tasks that are no stage
RunDag = Callable[..., Outcome]


def kill_stage(lake: Path, stage: str, ended: Event) -> list[int]:
    """Kills every process of a stage once its row says that it runs; their ids, none if the run ended before."""
    while not ended.wait(0.1):
        if list(lake.glob(f"runs/*/stage={stage}/*.parquet")):
            killed = []
            for process in psutil.Process().children(recursive=True):
                with suppress(psutil.NoSuchProcess):  # it ended meanwhile, or is a zombie
                    if any(word.endswith(f"/{stage}.py") for word in process.cmdline()):
                        process.send_signal(signal.SIGKILL)
                        killed.append(process.pid)
            return killed
    return []


def test_a_good_world_is_approved_though_a_stage_was_killed(run_dag: RunDag, platform: Platform) -> None:
    ended, lake = Event(), platform.folder / "lake"
    with ThreadPoolExecutor() as threads:
        killing = threads.submit(kill_stage, lake, "rank", ended)
        try:
            done = run_dag(17, {"config": platform.config("good", GOOD)})
        finally:
            ended.set()
        killed = killing.result()
    assert done.run_id == "manual__2026-11-17T00:00:00+00:00"
    assert done.state == "success"
    assert killed  # Java and Python of the first try
    assert done.tries["rank"] == 2
    skipped = {name for name, states in done.states.items() if states == ["skipped"]}
    assert skipped == set(done.states) - ASKED - OTHERS  # what the config has no section for
    assert {"study", "test_sets"} <= skipped
    assert {state for name in set(done.states) - skipped for state in done.states[name]} == {"success"}
    assert len(done.states["train_model"]) == 2
    assert {row["stage"] for row in platform.rows("runs", done.run_id)} == ASKED
    assert {row["status"] for row in platform.rows("runs", done.run_id)} == {"done"}
    assert {row["model"] for row in platform.rows("trials", done.run_id)} == {"main", "chance"}
    users = [(row["model"], row["user_id"]) for row in platform.rows("ranks", done.run_id)]
    assert len(users) == len(set(users)) == 600  # every user once for each model, though it was ranked twice
    values = estimates(platform, done.run_id)
    assert values["main"] > 2 * values["chance"] > 0
    assert {row["status"] for row in platform.rows("gates", done.run_id)} == {"pass"}
    assert (platform.folder / "report" / f"{done.run_id}.html").exists()
    assert approved() == [{"run_id": done.run_id, "config": str(platform.folder / "good.yaml")}]


def estimates(platform: Platform, run_id: str) -> dict[str, float]:
    """The true recall of each model."""
    rows = platform.rows("estimates", run_id)
    return {row["model"]: row["value"] for row in rows if row["estimator"] == "full_macro" and row["slice"] == "all"}


def test_a_model_that_got_worse_is_refused_and_not_tried_again(run_dag: RunDag, platform: Platform) -> None:
    done = run_dag(18, {"config": platform.config("worse", WORSE)})
    assert done.state == "failed"
    assert done.states["gate"] == ["failed"]
    assert done.tries["gate"] == 1
    assert {states[0] for name, states in done.states.items() if name != "gate"} == {"success", "skipped"}
    assert {row["gate"]: row["status"] for row in platform.rows("gates", done.run_id)} == {
        "change": "fail",
        "lead": "fail",
    }
    assert (platform.folder / "report" / f"{done.run_id}.html").exists()  # to see why
    assert len(approved()) == 1


def test_alert_only_lets_the_run_pass_and_does_not_approve_it(run_dag: RunDag, platform: Platform) -> None:
    params: dict[str, Any] = {"config": str(platform.folder / "worse.yaml"), "alert_only": True}
    params["run_id"] = "manual__2026-11-18T00:00:00+00:00"  # whose stages are done
    done = run_dag(19, params, as_done="(?!plan|models|quality|gate).*")
    assert done.state == "success"
    assert done.states["quality"] == ["success"]
    assert done.states["gate"] == ["skipped"]
    assert len(approved()) == 1


def test_a_bad_config_is_found_before_any_stage_and_not_tried_again(run_dag: RunDag, platform: Platform) -> None:
    config = Path(platform.config("typo", GOOD))
    config.write_text(config.read_text().replace("metrics:", "metrcs:"))
    done = run_dag(20, {"config": str(config)})
    assert done.state == "failed"
    assert (done.states["plan"], done.tries["plan"]) == (["failed"], 1)
    assert {states[0] for name, states in done.states.items() if name != "plan"} == {"upstream_failed"}


def test_bad_data_ends_its_stage_and_is_not_tried_again(run_dag: RunDag, platform: Platform) -> None:
    config = Path(platform.config("no_exposures", GOOD))
    text = config.read_text().replace("world/exposures", "world/none")
    sections = [part for part in text.split("\n\n") if not part.startswith(("world:", "split:"))]
    config.write_text("\n\n".join(sections).replace("propensity: {method: power}\n", ""))
    done = run_dag(21, {"config": str(config)})
    assert done.state == "failed"
    failed = {name: done.tries[name] for name, states in done.states.items() if "failed" in states}
    assert failed == {"train_model": 1}, done
    assert done.states["gate"] == ["upstream_failed"]
    assert len(approved()) == 1
