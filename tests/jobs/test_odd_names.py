"""Names and ids that are markup, mathtext or control characters go through a whole run, and are readable everywhere."""

import io
import re
from html import escape
from pathlib import Path
from typing import Any

import matplotlib.style
import pyarrow as pa
import pytest
from matplotlib.text import Text
from pyspark.sql import SparkSession
from rich.console import Console

from eval_engine.errors import DataError
from eval_engine.lake.lake import Lake
from eval_engine.report.panel import panels
from eval_engine.report.plot import STYLE, draw
from eval_engine.tables import TRIALS
from jobs import evaluate, rank, report
from jobs.cli import load
from jobs.ending import run_and_exit
from jobs.progress import spark_progress
from jobs.run_config import RunConfig
from jobs.train import show_trials

NO_SPARK: Any = None
MODEL, USER = "mf[/dim]$x$<b>\x1b[31m", "u[/]1\n\x1b]0;x\x07"
MODEL_SHOWN, USER_SHOWN = r"mf[/dim]$x$<b>\x1b[31m", r"u[/]1\n\x1b]0;x\x07"
CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f]")


def as_text(run: Any) -> None:
    """User and item ids as strings, the first user's odd; the first model's name odd."""
    names = {int(user): f"u{user}" for user in run.users} | {int(run.users[0]): USER}
    for table, rows in run.tables.items():
        for column in ("user_id", "item_id"):
            if column in rows.column_names:
                ids = [names.get(x, f"i[/]{x}") for x in rows[column].to_pylist()]
                rows = rows.set_column(rows.column_names.index(column), column, pa.array(ids))
        run.tables[table] = rows
    run.config["scores"][0]["model"] = MODEL


def test_a_run_goes_through_and_its_names_are_readable_everywhere(small_run: Any, spark: SparkSession) -> None:
    as_text(small_run)
    seen, exposed = small_run.tables["feedback"], small_run.tables["exposures"]
    small_run.tables["exposures"] = pa.concat_tables([exposed, seen.slice(0, 1)])  # the odd user's: exposed but seen
    small_run.config |= {"on_bad_rows": "quarantine", "report": str(small_run.folder / "report")}
    said, config = io.StringIO(), load(small_run.write())
    console = Console(file=said, width=300)
    for stage in (rank.run, evaluate.run, report.run, rank.run):
        stage(spark, config, console)
    text = said.getvalue()
    assert f"Ranking b, {MODEL_SHOWN}" in text
    assert f"scores of {MODEL_SHOWN}, scores of b: " in text
    assert f"user_id={USER_SHOWN}" in text
    assert f"b, {MODEL_SHOWN} already ranked" in text
    assert not CONTROL.search(text)
    page = (small_run.folder / "report" / "small.html").read_text()
    assert escape(MODEL_SHOWN) in page
    assert not CONTROL.search(page)
    answers = report.read_answers(spark, config.lake, config.run_id, config.evaluate.metrics)
    with matplotlib.style.context(STYLE, after_reset=True):
        found = panels(answers)
        texts = draw(found[0], found, answers).findobj(Text)
    assert any(MODEL_SHOWN in one.get_text() for one in texts)
    assert not any(one.get_parse_math() or CONTROL.search(one.get_text()) for one in texts)


def test_an_error_shows_the_id_and_no_control_character(
    small_run: Any, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    as_text(small_run)
    exposed = small_run.tables["exposures"]
    small_run.tables["exposures"] = pa.concat_tables([exposed, exposed.slice(0, 1)])
    config = load(small_run.write())
    with pytest.raises(SystemExit) as error:
        run_and_exit(lambda: rank.run(spark, config, Console(quiet=True)))
    assert error.value.code == DataError.exit_code
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("DataError: exposures: ")
    assert f"user_id={USER_SHOWN}, item_id=i[/]" in last
    assert not CONTROL.search(last)


def test_a_trace_holds_no_control_character(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise RuntimeError(f"model {MODEL}")

    monkeypatch.setattr("jobs.ending.run_log", lambda: tmp_path / "log")
    with pytest.raises(SystemExit) as error:
        run_and_exit(fail)
    said = capsys.readouterr().err
    assert error.value.code == 4
    assert said.startswith(f"RuntimeError: model {MODEL_SHOWN}\n")
    kept = (tmp_path / "log").read_text()
    assert kept.endswith(f"RuntimeError: model {MODEL_SHOWN}\n")
    assert not CONTROL.search(said)
    assert not CONTROL.search(kept)


def test_a_title_of_progress_is_not_markup(spark: SparkSession) -> None:
    said = io.StringIO()
    with spark_progress(spark, Console(file=said, width=200, force_terminal=True), f"Ranking {MODEL}"):
        pass
    assert f"Ranking {MODEL_SHOWN}" in said.getvalue()
    assert MODEL not in said.getvalue()


def test_the_table_of_trials_shows_names_as_they_are(tmp_path: Path, small_run: Any) -> None:
    config = RunConfig.model_validate(small_run.config | {"lake": str(tmp_path / "lake")})
    values = {"kind": "mf", "spec": "{}", "status": "done", "held_out": -0.5, "stop_on": "recall@10[/]"}
    where = {"run_id": config.run_id, "model": MODEL}
    Lake(NO_SPARK, config.lake).put(TRIALS, [dict.fromkeys(TRIALS.names[2:]) | values], where)
    said = io.StringIO()
    show_trials(config, Console(file=said, width=200))
    assert MODEL_SHOWN in said.getvalue()
    assert "recall@10[/]" in said.getvalue()
    assert " 0.5000 " in said.getvalue()  # of an older version, which stored its negative
