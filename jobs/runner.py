"""Runs stages of a run in one process: for the command line, and as the main function of every spark-submit script.

    run_stages(("rank", "evaluate"), config, console)
    main("rank")          of jobs/rank.py: spark-submit jobs/rank.py --config conf/run.yaml --run-id 2026-11-15

Java and Spark take seconds to start, and so do the imports of a stage: Spark is started in a thread, and stages are
imported meanwhile. A stage that finds nothing to do needs no Spark, and does not wait for it.
"""

import argparse
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from rich.console import Console

from eval_engine.config import read_yaml, yaml_content
from jobs.ending import run_and_exit
from jobs.outputs import check_outputs
from jobs.pipeline import STAGES, check_asked, module_of
from jobs.run_config import AnyConfig, RunConfig, SimulatedStudy

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def load(path: str | Path, run_id: str | None = None) -> RunConfig:
    """The run's config."""
    return read_yaml(path, RunConfig, {"run_id": run_id} if run_id is not None else None)


def load_any(path: str | Path, run_id: str | None = None) -> AnyConfig:
    """The config of a run, or of a study that simulates all it needs."""
    study = yaml_content(path).get("study")
    if not (isinstance(study, dict) and study.get("kind") == "design"):
        return load(path, run_id)
    return read_yaml(path, SimulatedStudy, {"run_id": run_id} if run_id is not None else None)


Starter = Callable[[], "SparkSession"]  # what a stage that needs Spark only at times is given
Several = Callable[[str, str | None, int], None]  # (config, run_id, processes)


def main(name: str, several: Several | None = None) -> None:
    """The main function of a spark-submit script: reads the config, runs one stage. several: runs it in more than one
    process, if the stage can."""
    parser = argparse.ArgumentParser(prog=f"jobs/{name}.py", description=STAGES[name].about)
    parser.add_argument("--config", required=True, help="the run's YAML file")
    parser.add_argument("--run-id", help="use this run_id instead of the config's")
    if several:
        parser.add_argument("--processes", type=int, default=1, help="run in so many tasks of a Spark cluster")
    given = parser.parse_args()

    def work() -> None:
        if several and given.processes > 1:
            several(given.config, given.run_id, given.processes)
            return
        with Session(Console(stderr=True)) as session:
            run_stages((name,), load_any(given.config, given.run_id), session)

    run_and_exit(work)


class Session:
    """A Spark session, started when it is first asked for, or before, in a thread."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._thread: Thread | None = None
        self._spark: SparkSession | None = None
        self._error: BaseException | None = None

    def start(self) -> None:
        """Starts Spark, and does not wait for it."""
        if self._thread is None:
            self._thread = Thread(target=self._run, name="start of Spark", daemon=True)  # an exit does not wait for it
            self._thread.start()

    def __call__(self) -> "SparkSession":
        """The session, when Spark runs."""
        self.start()
        assert self._thread is not None
        if self._thread.is_alive():
            with self.console.status("Starting Spark"):
                self._thread.join()
        if self._error is not None:
            raise self._error
        assert self._spark is not None
        return self._spark

    def _run(self) -> None:
        try:
            self._spark = start_spark()
        except BaseException as error:  # raised where the session is asked for
            self._error = error

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        """Stops Spark, if it runs: a cluster's executors are free before the process ends."""
        if self._spark is not None:
            self._spark.stop()


def start_spark() -> "SparkSession":
    """The session of this process; its log goes to the log file of the command."""
    from eval_engine.spark.run_log import run_log
    from eval_engine.spark.session import spark_session

    log = run_log()
    if log:
        logging.basicConfig(filename=log)  # py4j logs a Java that has ended with a trace
    return spark_session("plumbline", log=log)


def run_stages(names: Sequence[str], config: AnyConfig, session: Session) -> None:
    """Runs these stages, in this order. A config or folder that is wrong is an error before Spark starts."""
    for name in names:
        check_asked(config, name)
    check_outputs(config, names)
    if any(STAGES[name].spark == "always" for name in names):
        session.start()
    for at, name in enumerate(names):
        run = module_of(name).run
        if STAGES[name].spark == "never":
            run(config, session.console)
        elif STAGES[name].spark == "when needed":
            run(session, config, session.console)
        else:
            for later in names[at + 1 :]:
                module_of(later)  # while Spark starts
            run(session(), config, session.console)
