"""What a study's report says, on panels whose findings are known."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from eval_engine.report.study_findings import Study, headline, peaks, sentences, standings, truly_better, wrong_pairs
from eval_engine.report.study_plot import save_curves, save_models
from eval_engine.report.study_tables import print_study, save_page
from eval_engine.studies.settings import UreStudy
from eval_engine.studies.ure import FULL, SCHEMES, StudyEstimate, agreement_rows, cells

SETTINGS = UreStudy(
    exposures=(10,),
    traditional=(1, 5),
    ure=(2, 10),
    truth=(1, 2, 10, 50, 60),
    show={"exposures": 10, "traditional": 5, "ure": 2},
)
TRUTH = {"ips": 0.30, "dr": 0.28, "mf": 0.20, "negs": 0.25, "<b>pop": 0.10}
AT_50 = {"ips": 0.50, "dr": 0.52, "mf": 0.70, "negs": 0.72, "<b>pop": 0.60}  # the order among many
GROUPS = {"ips": "debiased", "dr": "debiased", "negs": "hard negatives", "mf": "not debiased"}


def study(groups: dict[str, str] | None = None, models: tuple[str, ...] = tuple(TRUTH)) -> Study:
    """The traditional scheme at 5 is true recall@50, URE is true recall."""
    rows = []
    for model in models:
        for cell in cells(SETTINGS)[1:]:
            deep = cell.k >= 50 if cell.scheme == FULL else cell.scheme == "traditional" and cell.k == 5
            value = (AT_50 if deep else TRUTH)[model] - (0.01 if cell.scheme == "ure_macro" else 0)
            rows.append(StudyEstimate(model, *cell, value, 0.01, value - 0.02, value + 0.02, 0.95, 100, 5, 0))
    return Study(
        SETTINGS, 100.0, rows, list(agreement_rows(rows, SETTINGS, 100.0)), GROUPS if groups is None else groups
    )


def test_the_headline_is_hard_negatives_above_debiasing_where_that_is_so():
    assert headline(study()) == (
        "Traditional recall@5 of 10 exposures puts negs, hard negatives and no debiasing, above dr, ips: truly it is "
        "below"
    )
    assert (
        headline(study({})) == "Traditional recall@5 of 10 exposures puts negs first; it is truly 3rd of 5 by recall@2"
    )
    right = study(models=("negs", "mf", "<b>pop"))
    assert (
        headline(right)
        == "Traditional recall@5 of 10 exposures puts negs (hard negatives) first; it is truly the best too by recall@2"
    )


def test_sentences_have_picks_pairs_and_peaks():
    texts = " ".join(sentences(study()))
    assert "puts negs (hard negatives) first; it is truly 3rd of 5 by recall@2." in texts
    assert "2 models are truly better than negs and placed below it, 2 of them debiased." in texts
    assert (
        "stands highest under the traditional scheme, 1st: above 2 debiased models that are truly better (dr, ips)."
        in texts
    )
    assert "URE macro puts ips first, truly 1st" in texts
    assert "of 10, by true recall@2 with 10 exposures: traditional 7, URE macro 0, URE micro 0" in texts
    assert "fewest over the cutoffs of each: traditional 0 (at 1), URE macro 0 (at 2), URE micro 0 (at 2)" in texts
    assert "URE macro 4% below and URE micro 0% above true recall@2" in texts


def test_peaks_name_every_highest_point():
    curves = {(p.scheme, p.k): p for p in peaks(study().agreement)}
    assert curves["traditional", 5].kendall == (50, 60)
    assert curves["traditional", 5].predicted == 50.0
    assert curves["traditional", 1].kendall == (1, 2, 10)
    assert curves["ure_macro", 10].predicted == 10.0
    assert curves["traditional", 5].highest_kendall == pytest.approx(1.0)


def test_places_and_wrong_pairs():
    one = study()
    assert {m: s.place for m, s in standings(one, one.shown(FULL)).items()} == {
        "ips": 1,
        "dr": 2,
        "negs": 3,
        "mf": 4,
        "<b>pop": 5,
    }
    assert truly_better(one, one.shown("traditional"), "mf") == ["dr", "ips"]
    assert [wrong_pairs(one, one.shown(scheme)) for scheme in SCHEMES] == [(7, 10), (0, 10), (0, 10)]


def test_two_models_and_undefined_values_are_reported_too(tmp_path: Path):
    few = study(models=("ips", "mf"))
    assert {p.reason for p in peaks(few.agreement)} == {
        "2 models have both values, but a correlation says something of 3 or more"
    }
    assert any("no curve is defined" in text for text in sentences(few))
    hidden = [row._replace(value=None) if row.scheme == "traditional" else row for row in few.estimates]
    nothing = few._replace(estimates=hidden, agreement=list(agreement_rows(hidden, SETTINGS, 100.0)))
    assert headline(nothing) == "No model has a value of traditional recall@5"
    for one in (few, nothing):
        print_study(one, Console(file=io.StringIO()))
        for scheme in SCHEMES:
            save_curves(one, scheme, tmp_path / f"{scheme}.png")
        save_page(one, {"models": save_models(one, tmp_path / "models.png")}, {}, tmp_path / "page.html")


def test_names_are_no_markup_and_the_same_rows_give_the_same_picture(tmp_path: Path):
    one = study()
    pictures = [save_models(one, tmp_path / f"{n}.png").read_bytes() for n in range(2)]
    assert pictures[0] == pictures[1]
    page = save_page(one, {"models": tmp_path / "0.png"}, {"run_id": "<i>"}, tmp_path / "page.html").read_text()
    assert "&lt;b&gt;pop" in page
    assert "<b>pop" not in page
    assert "<i>" not in page
    console = Console(file=io.StringIO(), width=90)
    print_study(one._replace(groups={}), console)
    assert "<b>pop" in console.file.getvalue()  # type: ignore[attr-defined]
