"""A run of Plumbline per day: scoring per model, ranks, estimates, report, and the gate that approves the run.

The tasks are the stages that PLUMBLINE_PYTHON knows (jobs/pipeline.py of Plumbline), in its order, and four more:
`plan` (run_id, config and connection are checked once, for all tasks), `models` and `train_model` (one mapped task per
model), `quality` (is the random data random?). A stage that the config has no section for is skipped. docs/airflow.md
says how this file is deployed.

    PLUMBLINE_PYTHON        Python of the environment that Plumbline is installed in; needed
    PLUMBLINE_CONFIG        config of a run; {run_id} in it is replaced. Default of the param `config`
    PLUMBLINE_SCHEDULE      cron (UTC) or asset:NAME; @daily if left out
    PLUMBLINE_START         first day of the schedule, as in 2026-11-01; missed days are caught up. Left out: none is
    PLUMBLINE_SPARK         id of the Spark connection; spark_default
    PLUMBLINE_SPARK_CONF    settings of every Spark job, as JSON
    PLUMBLINE_SPARK_SUBMIT  left out: the spark-submit beside PLUMBLINE_PYTHON
    PLUMBLINE_MODELS_AT_ONCE    how many models are trained side by side; 4
"""

import json
import os
import re
import shlex
import subprocess
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import (
    Asset,
    BaseHook,
    CronDataIntervalTimetable,
    Param,
    RetryDecision,
    RetryPolicy,
    TriggerRule,
    dag,
    get_current_context,
    task,
)
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowNotFoundException,
    AirflowSkipException,
)

PYTHON = os.environ["PLUMBLINE_PYTHON"]
CONNECTION = os.environ.get("PLUMBLINE_SPARK", "spark_default")
SPARK_SUBMIT = os.environ.get("PLUMBLINE_SPARK_SUBMIT", str(Path(PYTHON).with_name("spark-submit")))
SPARK_CONF = json.loads(os.environ.get("PLUMBLINE_SPARK_CONF", "{}"))
APPROVED = Asset("plumbline_approved")

BAD_CONFIG, BAD_DATA, GATE_SAID_NO, SKIP = 2, 3, 5, 99  # exit codes of Plumbline; and that of Bash tasks to skip
FINAL = {BAD_CONFIG: "bad config", BAD_DATA: "bad data", GATE_SAID_NO: "the gate said no"}
EXIT_CODE = re.compile(r"(?:Error code is:|returned a non-zero exit code) (-?\d+)\b")  # of spark-submit, of Bash

CONFIG, RUN_ID = (  # of the task `plan`
    f"{{{{ ti.xcom_pull(task_ids='plan')['{key}'] }}}}" for key in ("config", "run_id")
)


class RetryUnlessFinal(RetryPolicy):
    """Another try does not mend a config, data, or a model that got worse."""

    def evaluate(self, exception: BaseException, try_number: int, max_tries: int, context: Any = None) -> RetryDecision:
        """Fail at once on the exit codes that say so."""
        found = EXIT_CODE.search(str(exception))
        reason = FINAL.get(int(found[1])) if found else None
        return RetryDecision.fail(reason) if reason else RetryDecision.default()


def asked(*words: str) -> Any:
    """What Plumbline answers, which is JSON."""
    done = subprocess.run([PYTHON, "-m", "jobs.scheduling", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise AirflowException(f"Plumbline returned a non-zero exit code {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def run_id_of(given: str | None, dag_run: Any, start: datetime | None) -> str:
    """The run_id: the param's; of a scheduled run and a backfill the start of its data interval; else Airflow's."""
    if given:
        return given
    if start is not None and dag_run.run_type in ("scheduled", "backfill"):
        return start.strftime("%Y-%m-%d" if start.time().isoformat() == "00:00:00" else "%Y-%m-%dT%H-%M-%S")
    return dag_run.run_id


def planned() -> dict[str, Any]:
    """What the task `plan` found: config, run_id, stages, models."""
    return get_current_context()["ti"].xcom_pull(task_ids="plan")


def skip_unless_asked(context: Any, stage: str) -> None:
    """Skips a stage that the config has no section for."""
    if stage not in context["ti"].xcom_pull(task_ids="plan")["stages"]:
        raise AirflowSkipException(f"This config has nothing for the stage {stage} to do.")


def command_of(*words: str) -> str:
    """A command of Plumbline for this run. The config comes last: Bash tasks read what ends with .sh as a file."""
    return shlex.join([PYTHON, "-m", *words, "--run-id", planned()["run_id"], planned()["config"]])


def or_alert(command: str, refused: int) -> str:
    """With the param alert_only, the task is skipped where the command would fail with this exit code."""
    alert_only = get_current_context()["params"]["alert_only"]
    return f"{command} || exit $(($? == {refused} ? {SKIP} : $?))" if alert_only else command


def spark_stage(name: str, stage: dict[str, Any]) -> SparkSubmitOperator:
    """A stage with Spark."""
    return SparkSubmitOperator(
        task_id=name,
        name=f"plumbline {name}",
        doc_md=stage["about"],
        application=stage["script"],
        application_args=["--config", CONFIG, "--run-id", RUN_ID],
        conn_id=CONNECTION,
        conf=SPARK_CONF,
        spark_binary=SPARK_SUBMIT,
        env_vars={"PYSPARK_PYTHON": PYTHON},
        durable=False,  # else a stage that is cleared after it was done would not run again
        trigger_rule=TriggerRule.NONE_FAILED,
        pre_execute=partial(skip_unless_asked, stage=name),
    )


def python_stage(name: str, stage: dict[str, Any]) -> Any:
    """A stage without Spark. In Bash: Airflow ends its whole process group when the task is ended."""

    @task.bash(
        task_id=name,
        doc_md=stage["about"],
        outlets=[APPROVED] if name == "gate" else [],
        trigger_rule=TriggerRule.NONE_FAILED,
        pre_execute=partial(skip_unless_asked, stage=name),
    )
    def run() -> str:
        return gate_command() if name == "gate" else command_of("jobs.cli", name)

    return run()


def gate_command() -> str:
    """The gate. Airflow updates APPROVED if the task succeeds, so it is skipped where gates only warn. A run whose
    exposures failed their checks, which alert_only lets come so far, is not judged: its gates could approve it."""
    context = get_current_context()
    if context["ti"].xcom_pull(task_ids="quality") is None:
        raise AirflowSkipException("The random exposures failed their checks: the task quality has the verdicts.")
    context["outlet_events"][APPROVED].extra = {key: planned()[key] for key in ("run_id", "config")}
    return or_alert(command_of("jobs.scheduling", "gate"), GATE_SAID_NO)


def schedule() -> Any:
    """When the DAG runs: after each interval of a cron expression, or after an asset is updated."""
    text = os.environ.get("PLUMBLINE_SCHEDULE", "@daily")
    return [Asset(text[6:])] if text.startswith("asset:") else CronDataIntervalTimetable(text, timezone="UTC")


@dag(
    dag_id="plumbline",
    doc_md=__doc__,
    schedule=schedule(),
    start_date=datetime.fromisoformat(os.environ.get("PLUMBLINE_START", "2026-01-01")).replace(tzinfo=UTC),
    catchup="PLUMBLINE_START" in os.environ,
    max_active_runs=1,  # in the order of days: a gate compares with the last approved run
    default_args={"retries": 2, "retry_delay": timedelta(minutes=5), "retry_policy": RetryUnlessFinal()},
    params={
        "config": Param(
            os.environ.get("PLUMBLINE_CONFIG", ""), type="string", description="the run's YAML file; may hold {run_id}"
        ),
        "run_id": Param(None, type=["null", "string"], description="left out: the day, or Airflow's own run_id"),
        "alert_only": Param(False, type="boolean", description="what would stop the run is skipped, not failed"),
        "stop_on": Param(
            "fail", enum=["fail", "warn", "nothing"], description="verdicts on the exposures that keep a run unapproved"
        ),
    },
    tags=["plumbline"],
)
def plumbline() -> None:
    """The tasks."""
    stages = asked("stages")

    @task
    def plan() -> dict[str, Any]:
        context = get_current_context()
        params = context["params"]
        run_id = run_id_of(params["run_id"], context["dag_run"], context.get("data_interval_start"))
        try:
            BaseHook.get_connection(CONNECTION)
        except AirflowNotFoundException:
            raise AirflowFailException(
                f"There is no connection {CONNECTION}, without which Spark runs on YARN. Add it: docs/airflow.md."
            ) from None
        return asked("plan", params["config"].replace("{run_id}", run_id), "--run-id", run_id)

    @task
    def models() -> list[str]:
        return planned()["models"]

    @task.bash(
        map_index_template="{{ task.op_kwargs['model'] }}",
        max_active_tis_per_dagrun=int(os.environ.get("PLUMBLINE_MODELS_AT_ONCE", "4")),
        trigger_rule=TriggerRule.NONE_FAILED,
    )
    def train_model(model: str) -> str:
        return command_of("jobs.scheduling", "train-model", "--model", model)

    @task.bash(trigger_rule=TriggerRule.NONE_FAILED)
    def quality() -> str:
        stop_on = get_current_context()["params"]["stop_on"]
        return or_alert(command_of("jobs.scheduling", "checks", "--stop-on", stop_on), BAD_DATA)

    planning, checking = plan(), quality()
    tasks = {
        name: python_stage(name, stage) if stage["spark"] == "never" else spark_stage(name, stage)
        for name, stage in stages.items()
    }
    for name, stage in stages.items():
        planning >> tasks[name]
        for before in stage["after"]:
            tasks[before] >> tasks[name]
        if "quality" in stage["writes"]:
            tasks[name] >> checking
    names = models()
    trained = train_model.expand(model=names)
    planning >> names
    [tasks[before] for before in stages["train"]["after"]] >> trained >> tasks["train"]
    if "gate" in tasks:
        checking >> tasks["gate"]


plumbline()
