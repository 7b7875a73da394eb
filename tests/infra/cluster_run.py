"""All stages of a small world on a standalone cluster of two workers: every table is that of a run on local[2].

    make cluster-test

Both runs have the same config but for its folders, and simulate, train, rank, evaluate and study all of it themselves.
The one is a `plumbline run` in one process with a Spark of two cores inside. The other is a spark-submit for each
stage, with infra/kubernetes/spark-defaults.conf and Java's quick compiler. Compared are all tables of the lake, the
inputs and the scores, row for row, without the columns in PER_RUN, and the names of the files of the report. Both
workers must have run tasks of the stages in ON_WORKERS, and the cluster must leave no process. A stage that CONFIG has
no section for is an error here: a new stage gets its section.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import yaml
from deltalake import DeltaTable

from eval_engine.spark.delta_jars import spark_home
from eval_engine.spark.java import java_home
from eval_engine.spark.session import QUICK_START
from eval_engine.tables import MERGES, RANKS, RUNS, TABLES, TRIALS
from infra.cluster.standalone import standalone_cluster
from infra.kubernetes.spark_applications import DEFAULTS
from jobs.pipeline import STAGES, stages_of
from jobs.runner import load

ROOT = Path(__file__).parents[2]
SECONDS = 900  # limit of one process
PER_RUN = {  # columns that tell when and from which files a row was made
    RANKS.name: {"inputs"},
    TRIALS.name: {"seconds", "inputs"},
    MERGES.name: {"evaluated_at"},
    RUNS.name: {"started_at", "seconds", "config", "versions", "inputs", "process", "outputs"},
}
ON_WORKERS = (
    "split",
    "propensity",
    "popularity",
    "test_sets",
    "rank",
    "evaluate",
    "study",
)  # too large for the driver alone
ALWAYS_EMPTY = {"quarantine", "propensity_users"}  # no row of this world is bad; its propensities are of items

CONFIG: dict[str, Any] = {  # folders are added
    "run_id": "2026-11-17",
    "world": {"users": 300, "items": 150, "shown": 50, "exposures": 10, "seed": 3},
    "positive": "value > 3",
    "frame": "unseen",
    "split": {"how": {"strategy": "random", "share": 0.3, "seed": 5}},
    "propensity": {"method": "power", "gamma": 1.0},
    "popularity": {"method": "share"},
    "bqs": {"pairs": [{"baseline": "mf", "debiased": "item_knn"}], "metrics": ["recall@5"]},
    "test_sets": [
        {"strategy": "SKEW", "share": 0.5, "draws": 2, "pairs": True},
        {"strategy": "WTD_H", "share": 0.5, "draws": 2},
    ],
    "train": {
        "seed": 3,
        "models": [{"model": "popularity"}, {"model": "item_knn"}, {"model": "mf", "epochs": 3}, {"model": "random"}],
    },
    "top": 20,
    "evaluate": {
        "metrics": ["recall@5", "recall@20", "ndcg@20", "arp@5", "p_rsp@5", "p_reo@5", "sampled_hit_rate@5"],
        "traditional": ["recall@2"],
        "strata": [{"kind": "equal_count", "n": 2}],
        "user_metrics": True,
    },
    "window": 7,
    "gates": {
        "rules": [
            {
                "name": "learns",
                "kind": "comparison",
                "model": "item_knn",
                "than": "random",
                "estimator": "ure_macro",
                "metric": "recall@20",
                "at_least": 0.0,
            },
            {"name": "exposures are random", "kind": "quality", "rule": "uniform_exposure", "on_fail": "warn"},
        ]
    },
    "design": {"exposures": 6, "cutoffs": [5], "seed": 3},
    "study": {
        "exposures": [5, 10],
        "traditional": [1, 2],
        "ure": [5, 10],
        "truth": [1, 2, 5, 10, 20],
        "show": {"exposures": 10, "traditional": 2, "ure": 10},
        "seed": 3,
    },
}


def main() -> None:
    """Runs both, compares; exits 1 if anything differs."""
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        here, there = written_config(folder / "local"), written_config(folder / "cluster")
        asked = stages_of(load(there))
        if missing := set(STAGES) - set(asked) - {"collect"}:  # it rests on the plan of another run
            sys.exit(
                f"CONFIG has no section for the stages {', '.join(sorted(missing))}: add one, so that they run here."
            )
        seconds = time.monotonic()
        embedded = os.environ | {"PLUMBLINE_MASTER": "local[2]"}
        done("plumbline run", [sys.executable, "-m", "jobs.cli", "run", str(here)], embedded, wrong)
        print(f"local[2]: all stages in one process, {time.monotonic() - seconds:.1f} s")
        logs = folder / "logs"
        started = time.monotonic()
        with standalone_cluster(logs) as url:
            print(f"{url}: a master and two workers of one core, started in {time.monotonic() - started:.1f} s")
            for stage in asked:
                before, seconds = applications(logs), time.monotonic()
                submit(stage, url, there, wrong)
                tasks = [tasks_of(logs, app) for app in applications(logs) - before]
                print(f"  {stage}: {time.monotonic() - seconds:.1f} s, tasks of each worker: {tasks or 'no Spark'}")
                if stage in ON_WORKERS and not (tasks and all(tasks[0])):
                    wrong.append(f"{stage}: not both workers ran tasks: {tasks}")
            stopping = time.monotonic()
        print(f"stopped in {time.monotonic() - stopping:.1f} s")
        if left := processes_in(logs):
            wrong.append(f"the cluster left processes: {left}")
        wrong += different(folder / "local", folder / "cluster")
    print("\n".join(["", *wrong]) if wrong else "all tables are equal")
    sys.exit(1 if wrong else 0)


def written_config(folder: Path) -> Path:
    """The config of a run in this folder, written there."""
    folder.mkdir()
    names = ("catalogue", "feedback", "heldout", "exposures", "truth")
    places = {name: {"path": str(folder / "in" / name), "format": "delta"} for name in (*names, "log")}
    config = CONFIG | {
        "lake": str(folder / "lake"),
        "report": str(folder / "report"),
        "inputs": {name: places[name] for name in names},
        "split": CONFIG["split"] | {"log": places["log"]},
        "train": CONFIG["train"] | {"scores": str(folder / "scores")},
    }
    (folder / "run.yaml").write_text(yaml.safe_dump(config))
    return folder / "run.yaml"


def submit(stage: str, master: str, config: Path, wrong: list[str]) -> None:
    """One stage by spark-submit."""
    command = [str(spark_home() / "bin" / "spark-submit"), "--master", master, "--properties-file", str(DEFAULTS)]
    for of in ("driver", "executor"):
        command += ["--conf", f"spark.{of}.extraJavaOptions={QUICK_START}"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    environment |= {"JAVA_HOME": java_home(), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    done(stage, [*command, str(ROOT / "jobs" / f"{stage}.py"), "--config", str(config)], environment, wrong)


def done(name: str, command: list[str], environment: dict[str, str], wrong: list[str]) -> None:
    """Runs a command; one that fails is noted with the end of what it printed."""
    run = subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    if run.returncode:
        wrong.append(f"{name}: exit code {run.returncode}: {(run.stdout + run.stderr)[-1500:]}")


def applications(logs: Path) -> set[str]:
    """The applications that a worker has run an executor of."""
    return {path.name for path in logs.glob("worker-*/app-*")}


def tasks_of(logs: Path, application: str) -> list[int]:
    """The number of tasks of an application that each worker's executors finished, by their logs."""
    return [
        sum(
            len(re.findall(r"Finished task \d", path.read_text(errors="replace")))
            for path in worker.glob(f"{application}/*/stderr")
        )
        for worker in sorted(path for path in logs.glob("worker-*") if path.is_dir())
    ]


def processes_in(folder: Path) -> list[str]:
    """The processes that name the folder in their command, or work in it."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_text().replace("\0", " ").strip()
            if str(folder) in command or str(folder) in os.readlink(process / "cwd"):
                found.append(f"{process.name}: {command[:200]}")
        except OSError:  # it has ended, or is another user's
            continue
    return found


def different(here: Path, there: Path) -> list[str]:
    """What differs between the tables, inputs and scores of two runs; prints how many rows each has."""
    differences = []
    for name, own, other in tables_of(here, there):
        print(f"  {name}: {len(own)} rows, equal: {own == other}")
        if own != other:
            first = next(
                (pair for pair in zip(own, other, strict=False) if pair[0] != pair[1]), "another number of rows"
            )
            differences.append(f"{name} differs: {first}")
        if not own and name not in ALWAYS_EMPTY:
            differences.append(f"{name} has no rows, so nothing was compared")
    pages = [sorted(path.name for path in (folder / "report").iterdir()) for folder in (here, there)]
    print(f"  report: {', '.join(pages[0])}, equal names: {pages[0] == pages[1]}")
    return [*differences, *(["the report folders hold other files"] if pages[0] != pages[1] else [])]


def tables_of(*runs: Path) -> Iterator[tuple[str, list[str], list[str]]]:
    """Name and sorted rows of everything that both runs wrote, in each of the two."""
    for table in TABLES:
        own, other = (delta_rows(run / "lake" / table.name, PER_RUN.get(table.name, set())) for run in runs)
        yield table.name, own, other
    for name in sorted(path.name for path in (runs[0] / "in").iterdir()):
        own, other = (delta_rows(run / "in" / name, set()) for run in runs)
        yield f"input {name}", own, other
    for model in sorted(path.name for path in (runs[0] / "scores").glob("[!_]*")):
        own, other = (
            as_text(ds.dataset(run / "scores" / model, format="parquet").to_table().to_pylist(), set()) for run in runs
        )
        yield f"scores of {model}", own, other


def delta_rows(path: Path, without: set[str]) -> list[str]:
    """The rows of a Delta table as sorted text; none if there is no such table."""
    if not DeltaTable.is_deltatable(str(path)):
        return []
    return as_text(DeltaTable(path).to_pyarrow_table().to_pylist(), without)


def as_text(rows: list[dict[str, Any]], without: set[str]) -> list[str]:
    """Rows as sorted text, every digit and byte of every value."""
    return sorted(repr({name: value for name, value in row.items() if name not in without}) for row in rows)


if __name__ == "__main__":
    main()
