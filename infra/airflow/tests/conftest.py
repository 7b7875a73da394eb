"""An Airflow of its own in a temporary folder, with the DAG, a Spark of this machine, and runs of a small world."""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parents[3]
HOME = Path(tempfile.mkdtemp(prefix="plumbline-airflow-"))
PYTHON = ROOT / ".venv" / "bin" / "python"
SPARK = {  # spark-submit starts a Spark for a cluster: on small tables, most of its time is this machine's to save
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=128m",
    "spark.driver.host": "127.0.0.1",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}
os.environ |= {  # before Airflow is imported
    "AIRFLOW_HOME": str(HOME),
    "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "infra" / "airflow" / "dags"),
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(
        {"conn_type": "spark", "host": "local[2]", "extra": {"deploy-mode": "client"}}
    ),
    "PLUMBLINE_LOG": str(HOME / "log"),
    "PLUMBLINE_PYTHON": str(PYTHON),
    "PLUMBLINE_SPARK_CONF": json.dumps(SPARK),
    "PLUMBLINE_START": "2026-11-01",
    "SPARK_LOCAL_IP": "127.0.0.1",
}


def pytest_unconfigure() -> None:
    shutil.rmtree(HOME, ignore_errors=True)


@pytest.fixture(scope="session")
def dag_bag() -> Any:
    """The DAGs folder as Airflow reads it, over a new database."""
    from airflow.dag_processing.dagbag import DagBag
    from airflow.utils.db import initdb

    initdb()
    return DagBag(os.environ["AIRFLOW__CORE__DAGS_FOLDER"])


@pytest.fixture(scope="session")
def dag(dag_bag: Any) -> Any:
    """The DAG, which waits a second before a retry."""
    dag = dag_bag.dags["plumbline"]
    for task in dag.tasks:
        if not task.is_mapped:
            task.retry_delay = timedelta(seconds=1)
    return dag


class Outcome(NamedTuple):
    """How a run of the DAG went."""

    run_id: str
    state: str
    states: dict[str, list[str]]  # of each task, of a mapped one several
    tries: dict[str, int]  # of each task, the most


@pytest.fixture(scope="session")
def run_dag(dag: Any) -> Callable[..., Outcome]:
    """Runs the DAG, for a day of November 2026 and with these params."""

    def run(day: int, params: dict[str, Any], as_done: str | None = None) -> Outcome:
        date = datetime(2026, 11, day, tzinfo=UTC)
        done = dag.test(logical_date=date, run_after=date, run_conf=params, mark_success_pattern=as_done)
        instances = done.get_task_instances()
        states: dict[str, list[str]] = {}
        tries: dict[str, int] = {}
        for one in instances:
            states.setdefault(one.task_id, []).append(str(one.state))
            tries[one.task_id] = max(one.try_number, tries.get(one.task_id, 0))
        return Outcome(done.run_id, str(done.state), states, tries)

    return run


def approved() -> list[dict[str, Any]]:
    """What came with each update of the asset."""
    from airflow.models.asset import AssetEvent, AssetModel
    from airflow.utils.session import create_session

    with create_session() as session:
        events = session.query(AssetEvent).join(AssetModel, AssetModel.id == AssetEvent.asset_id)
        found = events.filter(AssetModel.name == "plumbline_approved").order_by(AssetEvent.id)
        return [dict(event.extra) for event in found]


class Platform:
    """A small world, its lake, and configs of runs on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def config(self, name: str, main: str) -> str:
        """Writes a config whose model `main` is of this kind; its path."""
        text = (Path(__file__).parent / "world.yaml").read_text()
        path = self.folder / f"{name}.yaml"
        path.write_text(text.replace("FOLDER", str(self.folder)).replace("MAIN", main))
        return str(path)

    def rows(self, table: str, run_id: str) -> list[dict[str, Any]]:
        """The run's rows of a table, as Plumbline reads them without Spark."""
        read = (
            "import json, sys; from eval_engine.lake.delta_table import rows_of; from eval_engine.tables import "
            "TABLES; (table,) = [table for table in TABLES if table.name == sys.argv[2]]; "
            "print(json.dumps(rows_of(f'{sys.argv[1]}/{table.name}', table, {'run_id': sys.argv[3]}), default=str))"
        )
        command = [str(PYTHON), "-c", read, str(self.folder / "lake"), table, run_id]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (done.returncode, done.stdout[-300:], done.stderr[-2000:])
        return json.loads(done.stdout)


@pytest.fixture(scope="session")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Platform:
    return Platform(tmp_path_factory.mktemp("platform"))
