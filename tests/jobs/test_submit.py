"""spark-submit with real executor processes: what local[*] hides (imports in workers, closures, files) shows here."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from jobs.cli import main

ROOT = Path(__file__).parent.parent.parent
Submit = Callable[..., subprocess.CompletedProcess[str]]


def test_a_cluster_leaves_the_same_ranks(
    finished_run: Any, small_run: Any, spark: SparkSession, submit: Submit
) -> None:
    done = submit("jobs/rank.py", "local-cluster[2,1,1024]", "--config", str(small_run.write()))
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    here, there = finished_run.rows(spark, "ranks"), small_run.rows(spark, "ranks")
    assert len(here) == 80
    assert [(*row[:2], *row[3:]) for row in there] == [
        (*row[:2], *row[3:]) for row in here
    ]  # but for what they were ranked from: other files


def test_a_bad_config_is_told_before_spark_starts(small_run: Any) -> None:
    small_run.config["metrcs"] = 1
    path = str(small_run.write())
    for command in (["jobs/rank.py", "--config", path], ["-m", "jobs.cli", "run", path]):
        done = subprocess.run([sys.executable, *command], capture_output=True, text=True, cwd=ROOT, check=False)
        assert done.returncode == 2
        assert done.stderr.startswith("ConfigError: ")
        assert "metrcs: Extra inputs are not permitted" in done.stderr


@pytest.mark.parametrize("run", ["it's", "a/b", "..", "x; DROP TABLE y"])
def test_a_run_id_that_is_none(run: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["plumbline", "show", run])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "is not usable" in capsys.readouterr().err
