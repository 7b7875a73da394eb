"""What an operator sees of a run that fails or is told to end: a few lines that name key, remedy and log file; the trace is in the log. Real processes."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from eval_engine.errors import ClusterError, DataError, DiskFullError, PlumblineError, known_error
from eval_engine.spark import run_log as logs
from tests.jobs.test_bad_input import vector, with_nan

ROOT = Path(__file__).parent.parent.parent
# Several commands in one process, so that Java starts once; a line between what they print.
SCRIPT = """
import sys
from jobs.cli import main
for config in sys.argv[1:]:
    sys.argv = ["plumbline", "run", config]
    try:
        main()
    except SystemExit as ended:
        print(f"exit {ended.code}", file=sys.stderr, flush=True)
"""


def environment(folder: Path) -> dict[str, str]:
    """Of a command whose log lies in the folder; its processes can be told by it."""
    return os.environ | {"PLUMBLINE_LOG": str(folder / "log"), "PLUMBLINE_MASTER": "local[2]", "PYTHONPATH": str(ROOT)}


def as_any_user() -> None:
    """Takes from root the right to read and write what the file's mode forbids."""
    for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP


def test_a_failed_run_prints_its_message_and_the_trace_is_in_the_log(
    make_small_run: Callable[[str], Any], tmp_path: Path
) -> None:
    nan, short, unreadable, unwritable = (make_small_run(name) for name in ("nan", "short", "unreadable", "unwritable"))
    vector(4, with_nan)(nan)
    vector(4, lambda scores: scores[:-4])(short)
    paths = [str(run.write()) for run in (nan, short, unreadable, unwritable)]
    closed = unreadable.folder / "in" / "exposures"
    closed.chmod(0o000)
    (unwritable.folder / "report").mkdir(mode=0o555)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *paths],
        env=environment(tmp_path),
        preexec_fn=as_any_user,
        capture_output=True,
        text=True,
        check=False,
    )
    closed.chmod(0o755)
    *told, rest = done.stderr.split("exit ")
    assert [text.split("\n")[0] for text in [*told[1:], rest]] == ["3", "3", "3", "4"], done.stderr
    lines = [[line for line in text.split("\n") if line][-3:] for text in told]
    assert len(done.stderr.splitlines()) <= 4 * 4, done.stderr
    assert "user_id=104 cannot be ranked: its score of item_id=1009 is NaN. Score it again" in lines[0][-2]
    assert "user_id=104 cannot be ranked: its score vector has 29 scores" in lines[1][-2]
    assert f"{closed} cannot be opened: permission denied" in told[2]
    assert f"{unwritable.folder}/report cannot be written: Permission denied. Give a writable `report`" in told[3]
    assert not (unwritable.folder / "lake" / "ranks").exists()  # before any work
    (log,) = (tmp_path / "log").glob("*.log")
    assert lines[0][-1] == f"The trace is in {log}"
    kept = log.read_text()
    assert "ranks_batch.py" in kept  # of the worker
    assert "at org.apache.spark" in kept  # of Java


def test_sigterm_marks_the_stage_failed_exits_143_and_leaves_no_process(small_run: Any, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "jobs.cli", "run", str(small_run.write())]
    process = subprocess.Popen(command, env=environment(tmp_path), stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    runs = Path(small_run.config["lake"]) / "runs"
    while process.poll() is None and not [row for row in rows_of(runs) if row["status"] == "running"]:
        time.sleep(0.1)
    time.sleep(1)  # Spark works
    process.send_signal(signal.SIGTERM)
    time.sleep(0.05)
    process.send_signal(signal.SIGTERM)  # a scheduler that does not wait
    _, told = process.communicate(timeout=60)
    assert process.returncode == 143
    assert told == "Terminated: the process received SIGTERM\n"
    assert [(row["stage"], row["status"], row["error"]) for row in rows_of(runs)] == [
        ("rank", "failed", "Terminated: the process received SIGTERM")
    ]
    last = time.monotonic() + 30
    while (left := processes_of(tmp_path)) and time.monotonic() < last:
        time.sleep(0.2)
    assert not left


def rows_of(table: Path) -> list[dict[str, Any]]:
    return DeltaTable(str(table)).to_pyarrow_table().to_pylist() if (table / "_delta_log").exists() else []


def processes_of(folder: Path) -> list[str]:
    """Names of the processes, Java and workers too, whose log lies in the folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if f"PLUMBLINE_LOG={folder}/log".encode() in (process / "environ").read_bytes():
                found.append((process / "comm").read_text())
        except OSError:  # it has just ended, or is another user's
            continue
    return found


@pytest.mark.parametrize(
    ("told", "kind", "message"),
    [
        ("java.io.IOException: No space left on device", DiskFullError, "A disk is full: .*spark.local.dir.*Make room"),
        (
            "OSError: [Errno 28] Error writing bytes to file. Detail: [errno 28] No space left on device",
            DiskFullError,
            "run it again",
        ),
        (
            "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)",
            ClusterError,
            "kills it for want of memory.*memoryOverhead",
        ),
        (
            "org.apache.spark.SparkException: ModuleNotFoundError: No module named 'eval_engine'",
            ClusterError,
            "workers lacks a package: No module named 'eval_engine'. Set PYSPARK_PYTHON",
        ),
        (
            "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.10 than that in driver: 3.11, "
            "PySpark cannot run",
            ClusterError,
            "different version: 3.10 than that in driver: 3.11.*Set PYSPARK_PYTHON",
        ),
        (
            "Py4JJavaError: java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.",
            ClusterError,
            "Spark was stopped while it worked.*Run it again",
        ),
        (
            'java.io.IOException: Cannot run program "/opt/py": error=2, No such file or directory',
            ClusterError,
            "cannot start their Python: .*/opt/py.*Set PYSPARK_PYTHON",
        ),
    ],
)
def test_what_machine_disk_or_cluster_lack_has_a_remedy(told: str, kind: type[PlumblineError], message: str) -> None:
    known = known_error(RuntimeError(told))
    assert type(known) is kind
    with pytest.raises(kind, match=message):
        raise known


def test_a_data_error_of_a_worker_wins_over_what_surrounds_it() -> None:
    told = "PYTHON_EXCEPTION eval_engine.errors.DataError: scores: bad\n\nModuleNotFoundError: No module named 'x'"
    assert type(known_error(RuntimeError(told))) is DataError


def test_old_logs_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLUMBLINE_LOG", str(tmp_path))
    for n in range(60):
        (tmp_path / f"{n}.log").write_text("x")
        os.utime(tmp_path / f"{n}.log", (n, n))
    logs.run_log.cache_clear()
    path = logs.run_log()
    logs.run_log.cache_clear()
    assert path is not None
    assert sorted(p.stem for p in tmp_path.glob("*.log")) == sorted([path.stem, *map(str, range(11, 60))])
