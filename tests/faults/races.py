"""Jobs that write to one lake at the same time, many times: no row is doubled or lost, no job fails without reason.

    python -m tests.faults.races --rounds 200        some minutes; `make faults` runs it

    same         four processes commit the same new run of a new lake, started together: exactly one commits
    different    four processes make the tables of a new lake and commit a run each, started together: all commit
    lake         four processes write the tables of a stage of their own run to one lake, in many rounds: all commit
    evaluate     six `plumbline run` of different runs on one lake at the same time: all exit 0

Prints a line per case and exits 1 if any case failed.
"""

import argparse
import multiprocessing as mp
import subprocess
import sys
import tempfile
from collections import Counter
from datetime import UTC, datetime
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path

from deltalake import DeltaTable

from eval_engine.lake.lake import Lake
from eval_engine.quality.quality_row import QualityRow
from eval_engine.tables import COMPARISONS, ESTIMATES, QUALITY, RUNS
from tests.conftest import SmallRun
from tests.eval_engine.lake.test_commits import JOBS, race

TABLES = (RUNS, QUALITY, ESTIMATES, COMPARISONS)


def commits(folder: Path, same: bool, rounds: int) -> list[str]:
    """Commits to new lakes; returns what went wrong."""
    commits_tried = race(folder, same, rounds)
    wins = Counter(n for n, won, _ in commits_tried if won)
    wrong = [f"round {n}: {wins[n]} jobs committed" for n in range(rounds) if wins[n] != (1 if same else JOBS)]
    for n in range(rounds):
        n_rows = DeltaTable(f"{folder}/{n}/quality").to_pyarrow_table().num_rows
        if n_rows != (1 if same else JOBS):
            wrong.append(f"round {n}: {n_rows} rows")
    return wrong


def _write(number: int, root: str, rounds: int, barrier: Barrier, answers: "Queue[str | None]") -> None:
    lake = Lake(None, root)  # type: ignore[arg-type]  delta-rs writes these tables without Spark
    for n in range(rounds):
        run_id = {"run_id": f"{number}-{n}"}
        barrier.wait()
        try:
            lake.watch(TABLES[1:], run_id["run_id"])
            for status in ("running", "done"):
                row = dict.fromkeys(RUNS.names[2:]) | {"status": status, "started_at": datetime.now(UTC)}
                lake.put(RUNS, [row], run_id | {"stage": "evaluate"})
                lake.put(QUALITY, [QualityRow("t", "r", n, "one", "none")], run_id)
                for table in (ESTIMATES, COMPARISONS):
                    lake.put(table, [], run_id)
            answers.put(None)
        except Exception as error:  # sent to the caller
            answers.put(f"job {number}, round {n}: {type(error).__name__}: {error}")


def lakes(folder: Path, rounds: int) -> list[str]:
    """Stages of different runs on one lake; returns what went wrong."""
    start = mp.get_context("spawn")
    barrier, answers = start.Barrier(JOBS), start.Queue()
    jobs = [start.Process(target=_write, args=(n, str(folder), rounds, barrier, answers)) for n in range(JOBS)]
    for job in jobs:
        job.start()
    wrong = [why for _ in range(rounds * JOBS) if (why := answers.get(timeout=600))]
    for job in jobs:
        job.join()
    for table in (RUNS, QUALITY):
        counts = Counter(DeltaTable(f"{folder}/{table.name}").to_pyarrow_table().column("run_id").to_pylist())
        if counts != {f"{number}-{n}": 1 for number in range(JOBS) for n in range(rounds)}:
            wrong.append(f"{table.name}: {len(counts)} runs, at most {max(counts.values())} rows of one")
    return wrong


def evaluations(folder: Path, rounds: int) -> list[str]:
    """Whole runs on one lake; returns what went wrong."""
    wrong = []
    for n in range(rounds):
        lake = str(folder / f"lake-{n}")
        runs = [SmallRun(folder / f"{n}-{number}") for number in range(6)]
        for number, run in enumerate(runs):
            run.config |= {"run_id": f"run-{number}", "lake": lake}
        command = [sys.executable, "-m", "jobs.cli", "run"]
        jobs = [
            subprocess.Popen([*command, str(run.write())], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            for run in runs
        ]
        for number, job in enumerate(jobs):
            _, stderr = job.communicate(timeout=600)
            if job.returncode:
                wrong.append(f"round {n}, run-{number}: exit {job.returncode}: {stderr.strip().splitlines()[-1:]}")
        stages = DeltaTable(f"{lake}/runs").to_pyarrow_table().to_pylist()
        if sorted((row["run_id"], row["stage"], row["status"]) for row in stages) != [
            (f"run-{number}", stage, "done") for number in range(6) for stage in ("evaluate", "rank", "report")
        ]:
            wrong.append(f"round {n}: runs holds {[(row['run_id'], row['stage'], row['status']) for row in stages]}")
    return wrong


def main() -> None:
    """Runs all cases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--evaluations", type=int, default=2, help="rounds of six whole runs, half a minute each")
    given = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cases = {
            "same": lambda: commits(folder / "same", True, given.rounds),
            "different": lambda: commits(folder / "different", False, given.rounds),
            "lake": lambda: lakes(folder / "lake", given.rounds),
            "evaluate": lambda: evaluations(folder, given.evaluations),
        }
        for case, run in cases.items():
            wrong = run()
            rounds = given.evaluations if case == "evaluate" else given.rounds
            print(f"{case}: {rounds} rounds, {len(wrong)} wrong", *wrong[:5], sep="\n  ", flush=True)
            failed = failed or bool(wrong)
    sys.exit(failed)


if __name__ == "__main__":
    main()
