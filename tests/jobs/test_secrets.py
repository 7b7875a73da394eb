"""Secrets in the paths of a config stay out of tables, page and terminal; the work uses the paths as they are."""

import io
from pathlib import Path
from typing import Any

import pytest
import yaml
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from rich.console import Console

from eval_engine.errors import DataError
from jobs import evaluate, rank, report
from jobs.cli import load
from jobs.ending import run_and_exit

SECRET = "hunter2"


def with_secrets(run: Any) -> Any:
    """The run with a secret in the paths of its report, of an input and of a score table: folders may be called so."""
    run.config["inputs"]["truth"]["path"] += f"?token={SECRET}"
    run.config["evaluate"]["replicates"] = 0
    run.config["report"] += f"?sig={SECRET}"
    run.tables[f"truth?token={SECRET}"] = run.tables.pop("truth")
    scores = run.tables.pop("scores/b")
    run.tables[f"scores/b?sig={SECRET}"] = scores.append_column("model", [["b"] * scores.num_rows])
    run.config["scores"][1] = {"path": f"{run.config['scores'][1]['path']}?sig={SECRET}"}
    return run


def stored_text(run: Any) -> str:
    """Every row of every table of the lake."""
    tables = [folder for folder in Path(run.config["lake"]).iterdir() if (folder / "_delta_log").is_dir()]
    assert {"runs", "quality"} <= {folder.name for folder in tables}
    return repr([DeltaTable(folder).to_pyarrow_table().to_pylist() for folder in tables])


def test_a_secret_in_a_path_is_in_no_table_page_or_output(small_run: Any, spark: SparkSession) -> None:
    config, shown = load(with_secrets(small_run).write()), io.StringIO()
    console = Console(file=shown, width=400)
    for stage in (rank.run, evaluate.run, report.run):
        stage(spark, config, console)
    page = (Path(config.report) / "small.html").read_text()
    text = stored_text(small_run)
    assert SECRET in config.report
    for what in (text, page, shown.getvalue()):
        assert SECRET not in what
        assert "=***" in what  # it was there to be masked


def test_a_secret_is_not_in_what_a_failed_run_leaves(small_run: Any, spark: SparkSession) -> None:
    with_secrets(small_run)
    del small_run.tables[f"truth?token={SECRET}"]
    with pytest.raises(DataError) as raised:
        small_run.run(spark)
    assert "truth?token=***" in str(raised.value)
    runs = repr(DeltaTable(Path(small_run.config["lake"]) / "runs").to_pyarrow_table().to_pylist())
    assert "truth?token=***" in runs
    assert SECRET not in runs


def test_a_secret_in_a_config_that_cannot_be_used_is_not_printed(
    small_run: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small_run.config["lake_of"] = f"s3://AKIA1:{SECRET}@bucket/lake"
    (tmp_path / "bad.yaml").write_text(yaml.safe_dump(small_run.config))
    with pytest.raises(SystemExit, match="2"):
        run_and_exit(lambda: load(tmp_path / "bad.yaml"))
    shown = capsys.readouterr()
    assert "s3://***@bucket/lake" in shown.err
    assert SECRET not in shown.out + shown.err


def test_a_secret_is_not_in_the_trace_of_an_unknown_error(capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> None:
        raise RuntimeError(f"no route to s3://AKIA1:{SECRET}@bucket/lake?token={SECRET}")

    with pytest.raises(SystemExit, match="4"):
        run_and_exit(work)
    shown = capsys.readouterr()
    assert "s3://***@bucket/lake?token=***" in shown.err
    assert SECRET not in shown.out + shown.err.replace("{SECRET}", "")
