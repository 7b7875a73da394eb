"""A run that is killed at any moment leaves nothing half-written to be read, and the next run completes it.

    python -m tests.faults.kills --rounds 20        some minutes; `make faults` runs it

Each round starts `plumbline run` on a new run, ends it by SIGTERM or SIGKILL after a random time, checks the lake,
and runs the command again. After SIGTERM: exit code 143 (0 if it was done before), no stage `running`, no file without
a commit. After SIGKILL: some stage is not done, or all are; `plumbline show` refuses a run that is not done. After the
second run: every table equals that of an undisturbed run, and there is no file that no commit named.
"""

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from tests.conftest import SmallRun

USERS, ITEMS, EXPOSED = 20_000, 300, 10
COMPARED = ("ranks", "statistics", "estimates", "comparisons", "quality", "catalogue")
COMMAND = [sys.executable, "-m", "jobs.cli"]


def world(folder: Path) -> SmallRun:
    """A run that takes some seconds, with random tables."""
    run = SmallRun(folder)
    rng = np.random.default_rng(1)
    run.users, run.items = np.arange(USERS), np.arange(ITEMS)
    order = np.argsort(rng.random((USERS, ITEMS)), axis=1)
    shown = {"feedback": order[:, :5], "exposures": order[:, 5 : 5 + EXPOSED]}
    run.tables = {"catalogue": pa.table({"item_id": run.items, "position": run.items.astype(np.int32)})}
    for name, items in shown.items():
        user = np.repeat(run.users, items.shape[1])
        run.tables[name] = pa.table(
            {"user_id": user, "item_id": items.ravel(), "value": rng.integers(1, 6, user.size) * 1.0}
        )
    for model in ("a", "b"):
        scores = rng.normal(size=(USERS, ITEMS)).astype("<f4")
        run.tables[f"scores/{model}"] = pa.table(
            {"user_id": run.users, "scores": pa.array([row.tobytes() for row in scores], pa.binary())}
        )
    del run.config["inputs"]["truth"]
    return run


def rows(lake: Path, table: str) -> list[Any]:
    """The rows of a table, sorted, without the columns that differ between two runs of the same config."""
    stored = DeltaTable(str(lake / table)).to_pyarrow_table()
    kept = [name for name in stored.column_names if name not in ("inputs",)]
    return sorted(map(str, stored.select(kept).to_pylist()))


def unnamed(lake: Path) -> list[str]:
    """Parquet files that no commit ever named."""
    left = []
    for table in lake.iterdir() if lake.exists() else ():
        if (table / "_delta_log").is_dir():
            delta = DeltaTable(str(table))
            replaced = delta.vacuum(retention_hours=0, dry_run=True, enforce_retention_duration=False)
            named = {path.rsplit("/", 1)[1] for path in (*delta.file_uris(), *replaced)}
            left += [
                str(file)
                for file in table.rglob("*.parquet")
                if file.name not in named and "_delta_log" not in file.parts
            ]
    return left


def stages(lake: Path) -> dict[str, str]:
    """The status of each stage; empty if there is no table yet."""
    if not DeltaTable.is_deltatable(str(lake / "runs")):
        return {}
    return {row["stage"]: row["status"] for row in DeltaTable(str(lake / "runs")).to_pyarrow_table().to_pylist()}


def round_of(
    config: Path, lake: Path, how: signal.Signals, after: float, expected: Callable[[str], list[Any]]
) -> list[str]:
    """Runs one round; returns what went wrong."""
    wrong = []
    job = subprocess.Popen([*COMMAND, "run", str(config)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(after)
    job.send_signal(how)
    code = job.wait(timeout=60)
    kill = f"{how.name} after {after:.2f} s"
    if how == signal.SIGTERM:
        if code not in (143, 0, -15):
            wrong.append(f"{kill}: exit {code}")
        if code == 143 and "running" in stages(lake).values():
            wrong.append(f"{kill}: {stages(lake)}")
        if code == 143 and unnamed(lake):
            wrong.append(f"{kill}: left {unnamed(lake)}")
    show = subprocess.run([*COMMAND, "show", "small", "--lake", str(lake)], capture_output=True, text=True, check=False)
    done = all(stages(lake).get(stage) == "done" for stage in ("rank", "evaluate"))
    if (show.returncode == 0) != done:
        wrong.append(f"{kill}: show exits {show.returncode} with {stages(lake)}")
    again = subprocess.run([*COMMAND, "run", str(config)], capture_output=True, text=True, check=False)
    if again.returncode:
        return [*wrong, f"{kill}: the next run exits {again.returncode}: {again.stderr.strip().splitlines()[-1:]}"]
    wrong += [f"{kill}: {table} differs" for table in COMPARED if rows(lake, table) != expected(table)]
    if left := unnamed(lake):
        wrong.append(f"{kill}: after the next run {len(left)} files stay, as {left[0]}")
    return wrong


def main() -> None:
    """Runs all rounds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    draw = random.Random(given.seed)
    failed = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run = world(folder)
        config = run.write()
        for name, table in run.tables.items():  # written again, with row groups of the usual size
            pq.write_table(table, folder / "in" / name / "part-0.parquet")
        start = time.monotonic()
        subprocess.run([*COMMAND, "run", str(config)], check=True, stdout=subprocess.DEVNULL)
        whole = time.monotonic() - start
        reference = {table: rows(Path(run.config["lake"]), table) for table in COMPARED}
        for n in range(given.rounds):
            lake = folder / f"lake-{n}"
            mine = folder / f"run-{n}.yaml"
            mine.write_text(config.read_text().replace(run.config["lake"], str(lake)))
            how = (signal.SIGKILL, signal.SIGTERM)[n % 2]
            wrong = round_of(mine, lake, how, draw.uniform(0.2, 0.95) * whole, lambda table: reference[table])
            print(f"round {n}: {len(wrong)} wrong", *wrong, sep="\n  ", flush=True)
            failed += bool(wrong)
    print(f"kills: {given.rounds} rounds, {failed} wrong")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
