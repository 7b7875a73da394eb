"""Tables, pictures and page of the study of [simpson]."""

import io
from pathlib import Path
from typing import Any

from rich.console import Console

from eval_engine.metric import Metric
from eval_engine.report.simpson_plot import save_scatter, save_taus
from eval_engine.report.simpson_tables import SimpsonReport, headline, print_simpson, save_simpson_page, sheets
from eval_engine.studies.simpson import Evaluated, Instance, InstanceLine
from tests.eval_engine.studies.test_simpson import SHOW, agreement_row, evaluated, reversal

COLUMNS = ("kendall_low", "kendall_high", "kendall_error", "pearson", "pearson_low", "pearson_high")


def row(estimator: str, tau: float | None, **others: Any) -> dict[str, Any]:
    more = dict.fromkeys((*COLUMNS, "interval_reason", "reason")) | {"n_models": 4}
    return more | agreement_row(estimator, tau, **others)


def report() -> SimpsonReport:
    rows = [row("holdout", 0.1, interval_reason="too noisy"), row("snips", 0.8, kendall_low=0.7, kendall_high=0.9)]
    rows += [row(f"stratified(equal_width={n})", 0.1 * n, kendall_difference=0.1) for n in (2, 3)]
    fit = {"method": "power", "gamma": 1.0, "alpha": None, "xmin": None, "least": 0.01, "largest": 1.0, "n_heldout": 40}
    run: Evaluated = evaluated(agreement=rows, fit=fit, reversals=[reversal("reversed", "d", "a", -0.1)])
    lines = (InstanceLine("holdout", (0.1, 0.2), 0.01), InstanceLine("Q1", (0.3, None), None))
    one = Instance("reversed", ("<b>d", "a"), 0.75, "users", lines)
    return SimpsonReport(Metric("recall", 20), [run, run._replace(propensities="<i>x", strata=[])], SHOW, {"true": one})


def test_the_headline_names_the_best_estimate_beside_holdout() -> None:
    assert "holdout 0.10, at best 0.80 (SNIPS" in headline(report())
    empty = report().runs[0]._replace(agreement=[row("holdout", None)])
    assert headline(report()._replace(runs=[empty])).startswith("No estimate")


def test_tables_have_what_the_rows_have() -> None:
    tables = {sheet.title: sheet for sheet in sheets(report())}
    (agreement,) = (sheet for title, sheet in tables.items() if title.startswith("Agreement with"))
    assert "recall@20, 4 models" in agreement.title
    assert agreement.note == "–: too noisy"
    assert ("0.800", "0.70 to 0.90") in {line[3:5] for line in agreement.lines}
    over = tables["Stratified evaluation over 2 to 3 strata"].lines[0]
    assert over[:9] == ("true", "equal width", "pairs (eq. 4)", "0.250", "0.071", "0.200", "0.300", "2 of 2", "0 of 2")
    by_number = tables["Stratified evaluation by number of strata"]
    assert by_number.heads[4:] == ("2", "3")
    assert by_number.lines[0][3:] == ("tau", "0.20 (–)", "0.30 (–)")
    assert tables["Holdout within 2 strata of equal width, propensities: true"].lines[0][:4] == (
        "Q1", "99", "30", "75.0%",
    )  # fmt: skip
    assert "Holdout within 2 strata of equal width, propensities: <i>x" not in tables
    pair = tables["An instance (reversed), propensities: true"]
    assert [line[1:3] for line in pair.lines] == [("0.1000", "0.2000*"), ("0.3000", "–")]


def test_a_narrow_terminal_gets_fewer_columns_and_breaks_no_number() -> None:
    console = Console(file=io.StringIO(), width=80, record=True)
    print_simpson(report(), console)
    lines = console.export_text().splitlines()
    assert max(map(len, lines)) <= 80
    best = [line for line in lines if line.lstrip().startswith("SNIPS") and "0.70 to 0.90" in line]
    assert best
    assert all("0.800" in line for line in best)
    text = " ".join(" ".join(lines).split())
    assert "On the page: error over models, Pearson, interval over users" in text
    assert "Stratified evaluation by number of strata: on the page." in text


def test_names_are_escaped_and_the_same_rows_give_the_same_pictures(tmp_path: Path) -> None:
    study = report()
    console = Console(file=io.StringIO(), width=200, record=True)
    print_simpson(study, console)
    assert "<b>d" in console.export_text()
    for name in ("first", "second"):
        save_scatter(study, study.runs[0], tmp_path / f"{name}-scatter.png")
        save_taus(study, study.runs[0], tmp_path / f"{name}-taus.png")
    for kind in ("scatter", "taus"):
        first, second = ((tmp_path / f"{name}-{kind}.png").read_bytes() for name in ("first", "second"))
        assert first == second
    page = save_simpson_page(study, {"<u>": tmp_path / "first-taus.png"}, {"run_id": "<s>"}, tmp_path / "page.html")
    text = page.read_text()
    assert not any(tag in text for tag in ("<b>d", "<i>x", "<u>", "<s>"))
    assert "data:image/png;base64" in text
