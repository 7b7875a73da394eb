"""The DAG without running it: it is imported clean, has every stage, retries what may be mended, and names its runs."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import PYTHON, ROOT, Platform

OTHERS = {"plan", "models", "train_model", "quality"}  # tasks that are no stage
DAG_FILE = ROOT / "infra" / "airflow" / "dags" / "plumbline_dag.py"


@pytest.fixture(scope="module")
def stages() -> dict[str, Any]:
    """The registry itself, not what jobs/scheduling.py says of it."""
    read = (
        "import json; from jobs.pipeline import STAGES; "
        "print(json.dumps({name: [stage.after, stage.spark] for name, stage in STAGES.items()}))"
    )
    return json.loads(subprocess.run([PYTHON, "-c", read], capture_output=True, text=True, check=True).stdout)


def test_it_is_imported_without_an_error_or_a_warning(dag_bag: Any) -> None:
    assert dag_bag.import_errors == {}
    assert dag_bag.captured_warnings == {}
    assert list(dag_bag.dags) == ["plumbline"]


def test_a_missing_environment_is_an_import_error() -> None:
    bare = {name: value for name, value in os.environ.items() if name != "PLUMBLINE_PYTHON"}
    done = subprocess.run([sys.executable, DAG_FILE], capture_output=True, text=True, env=bare, check=False)
    assert "PLUMBLINE_PYTHON" in done.stderr.splitlines()[-1]


def test_every_stage_is_a_task_after_those_it_comes_after(dag: Any, stages: dict[str, Any]) -> None:
    from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

    assert set(dag.task_dict) == set(stages) | OTHERS
    for name, (after, spark) in stages.items():
        task = dag.task_dict[name]
        assert {"plan", *after} <= task.upstream_task_ids <= {"plan", *after, "train_model", "quality"}, name
        assert isinstance(task, SparkSubmitOperator) == (spark != "never"), name
        assert task.trigger_rule == "none_failed"  # stages before it may have been skipped
        if isinstance(task, SparkSubmitOperator):
            assert Path(task.application) == ROOT / "jobs" / f"{name}.py"
            assert task.name == f"plumbline {name}"
            assert task.durable is False
    assert dag.task_dict["train_model"].is_mapped
    assert "train_model" in dag.task_dict["train"].upstream_task_ids
    assert dag.task_dict["quality"].upstream_task_ids == {"split", "rank"}


def test_only_the_gate_approves(dag: Any) -> None:
    owners = {name: [asset.name for asset in task.outlets] for name, task in dag.task_dict.items() if task.outlets}
    assert owners == {"gate": ["plumbline_approved"]}
    assert "quality" in dag.task_dict["gate"].upstream_task_ids


@pytest.mark.parametrize(
    ("message", "action"),
    [
        ("Cannot execute: spark-submit jobs/rank.py. Error code is: 2.\nLast spark-submit output: 1", "fail"),
        ("Cannot execute: spark-submit jobs/rank.py. Error code is: 3.", "fail"),
        ("Cannot execute: spark-submit jobs/rank.py. Error code is: 4.\nError code is: 3.", "default"),
        ("Cannot execute: spark-submit jobs/rank.py. Error code is: -9.", "default"),
        ("Cannot execute: spark-submit jobs/rank.py. Error code is: 137.", "default"),
        ("Cannot execute: spark-submit jobs/rank.py. Error code is: 143.", "default"),
        ("Bash command failed. The command returned a non-zero exit code 2.", "fail"),
        ("Bash command failed. The command returned a non-zero exit code 5.", "fail"),
        ("Bash command failed. The command returned a non-zero exit code 1.", "default"),
        ("Plumbline returned a non-zero exit code 2: ConfigError: metrcs", "fail"),
        ("connection reset", "default"),
    ],
)
def test_only_what_another_try_may_mend_is_tried_again(dag: Any, message: str, action: str) -> None:
    from airflow.sdk.exceptions import AirflowException

    for name in ("plan", "rank", "gate"):
        task = dag.task_dict[name]
        assert task.retries == 2
        assert task.retry_policy.evaluate(AirflowException(message), 1, 3).action.value == action
    assert dag.task_dict["train_model"].partial_kwargs["retry_policy"]


def test_a_backfill_has_a_run_per_day_whose_run_id_is_the_day(dag_bag: Any, dag: Any, platform: Platform) -> None:
    from airflow.dag_processing.dagbag import sync_bag_to_db
    from airflow.models.backfill import ReprocessBehavior, _create_backfill
    from airflow.models.dagbundle import DagBundleModel
    from airflow.models.dagrun import DagRun
    from airflow.sdk.definitions.dag import _run_task
    from airflow.utils.session import create_session

    with create_session() as session:
        session.merge(DagBundleModel(name="dags-folder"))
    sync_bag_to_db(dag_bag, "dags-folder", None)
    config = platform.config("of-2026-11-03", "random")
    _create_backfill(
        dag_id="plumbline",
        from_date=datetime(2026, 11, 2, tzinfo=UTC),
        to_date=datetime(2026, 11, 4, tzinfo=UTC),
        max_active_runs=1,
        reverse=False,
        dag_run_conf={"config": config.replace("2026-11-03", "{run_id}")},
        triggering_user_name="test",
        reprocess_behavior=ReprocessBehavior.NONE,
    )
    with create_session() as session:
        runs = session.query(DagRun).filter(DagRun.run_type == "backfill").order_by(DagRun.logical_date).all()
        ids = [run_id_of(dag)(None, run, run.data_interval_start) for run in runs]
        assert ids == ["2026-11-02", "2026-11-03", "2026-11-04"]
        (plan,) = [ti for ti in runs[1].get_task_instances(session=session) if ti.task_id == "plan"]
        plan.try_number = 1
        _run_task(ti=plan, task=dag.task_dict["plan"])
        planned = plan.xcom_pull(task_ids="plan", session=session)
    assert (planned["run_id"], planned["config"]) == ("2026-11-03", config)  # the day's own config
    assert planned["models"] == ["main", "chance"]
    assert dag.catchup
    assert dag.max_active_runs == 1


def run_id_of(dag: Any) -> Any:
    """The function of the DAG file."""
    return dag.task_dict["plan"].python_callable.__globals__["run_id_of"]


def test_what_a_run_is_called(dag: Any) -> None:
    name, midnight = run_id_of(dag), datetime(2026, 11, 17, tzinfo=UTC)
    scheduled = SimpleNamespace(run_type="scheduled", run_id="scheduled__2026-11-17T00:00:00+00:00")
    manual = SimpleNamespace(run_type="manual", run_id="manual__2026-11-18T00:00:00+00:00")
    assert name(None, scheduled, midnight) == "2026-11-17"
    assert name(None, scheduled, midnight.replace(hour=5)) == "2026-11-17T05-00-00"  # two runs of a day differ
    assert name(None, manual, midnight) == manual.run_id  # the day's own run is not replaced
    assert name(None, manual, None) == manual.run_id  # started by an asset: no data interval
    assert name("again", scheduled, midnight) == "again"
