"""What a terminal and a picture show of many models and many settings."""

import io
import struct
from pathlib import Path

from rich.console import Console

from eval_engine.report.answers import Answers
from eval_engine.report.console import print_report
from eval_engine.report.estimate_row import EstimateRow
from eval_engine.report.html import save_html
from eval_engine.report.panel import panels
from eval_engine.report.plot import save_plot
from eval_engine.report.shortened import MOST_MODELS, shortened

SETTINGS = [f"stratified(equal_count={n})" for n in (10, 2, 3, 4, 5, 6, 7, 8, 9)]
SETTINGS += [one.replace("stratified", "stratified_balanced") for one in SETTINGS]


def row(model: str, estimator: str, value: float) -> EstimateRow:
    return EstimateRow(model, estimator, "recall", 10, value, None, None, None, 100, 0, "")


def search(n_models: int) -> Answers:
    """Holdout puts the worst model first."""
    values = {f"m{i:02}": 1 - i / 100 for i in range(n_models)}
    rows = [row(model, name, value) for model, value in values.items() for name in ("full_macro", *SETTINGS)]
    return Answers(rows + [row(model, "holdout", 1 - value) for model, value in values.items()])


def test_one_setting_of_each_estimator_and_the_models_that_a_scheme_puts_first() -> None:
    (panel,) = panels(search(61))
    shown, n_schemes, n_models = small = shortened(panel)
    assert [s.estimator for s in shown.schemes] == [
        "full_macro", "holdout", "stratified(equal_count=2)", "stratified_balanced(equal_count=2)",
    ]  # fmt: skip
    assert (n_schemes, n_models) == (16, 61 - MOST_MODELS)
    assert shown.models == (*(f"m{i:02}" for i in range(MOST_MODELS - 1)), "m60")  # the order stays
    assert small.note == f"{61 - MOST_MODELS} more models and 16 more settings of these estimators: on the page."


def test_a_small_run_is_shown_whole() -> None:
    answers = search(5)
    (panel,) = panels(answers._replace(estimates=[r for r in answers.estimates if "(" not in r.estimator]))
    assert shortened(panel).panel == panel
    assert shortened(panel).note == ""


def test_the_terminal_and_the_picture_stay_short_and_the_page_has_all(tmp_path: Path) -> None:
    answers = search(61)
    console = Console(file=io.StringIO(), width=80, record=True)
    print_report(answers, console)
    text = console.export_text()
    assert "36 more models and 16 more settings of these estimators: on the page." in text
    assert text.count("\n") < 120
    picture = save_plot(answers, tmp_path / "run.png")
    assert struct.unpack(">I", picture.read_bytes()[20:24])[0] < 5000  # the height in pixels
    page = save_html(answers, {}, picture, tmp_path / "run.html").read_text()
    assert all(name in page for name in ("m59", "equal_count=10"))
