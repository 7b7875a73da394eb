"""A failed check stands above every verdict, in terminal, picture and page; each metric has its own verdict."""

import io
from html.parser import HTMLParser
from pathlib import Path

import matplotlib.style
import pytest
from matplotlib.text import Text
from rich.console import Console

from eval_engine.quality.check_words import MEANING, REMEDY
from eval_engine.report.answers import Answers
from eval_engine.report.check_line import ORDER, CheckLine
from eval_engine.report.comparison_row import ComparisonRow
from eval_engine.report.console import print_report
from eval_engine.report.estimate_row import EstimateRow
from eval_engine.report.finding import conclusion, headline, verdicts
from eval_engine.report.html import save_html
from eval_engine.report.panel import panels
from eval_engine.report.plot import STYLE, draw

OVERLAP = CheckLine("overlap", "fail", "0 of 240 exposures are logged pairs too (z = -24.5, p = 1e-133).")
FEW = CheckLine("positives_per_user", "warn", "12 of 40 users have a positive.")
GOOD = CheckLine("uniform_exposure", "pass", "30 items in 240 exposures.")
ODD = "mf[/dim]$x$<b>\x1b[31m"
DOUBT = "not to be relied on (overlap failed)"


def answers(
    checks: tuple[CheckLine, ...] = (), models: tuple[str, str] = ("mf", "pop"), by: str = "ure_balanced"
) -> Answers:
    """recall@10 does not decide, recall@50 puts the second model first."""
    rows, pairs = [], []
    for k, values, verdict in ((10, (0.3, 0.29), "not decided"), (50, (0.5, 0.6), "b better")):
        for model, value in zip(models, values, strict=True):
            rows.append(EstimateRow(model, by, "recall", k, value, 0.01, value - 0.02, value + 0.02, 40, 0, "words"))
        ahead = values[0] - values[1]
        pairs.append(
            ComparisonRow(by, "recall", k, *models, ahead, ahead - 0.05, ahead + 0.05, 0.95, 0.01, 0.01, verdict)
        )
    rows += [EstimateRow(model, "traditional", "recall", 5, 0.5, 0.01, 0.4, 0.6, 40, 0, "words") for model in models]
    return Answers(rows, pairs, checks=checks)


def printed(given: Answers, width: int = 80) -> str:
    file = io.StringIO()
    print_report(given, Console(file=file, width=width))
    return file.getvalue()


def drawn(given: Answers) -> list[Text]:
    """The texts of the picture, from the top."""
    every = panels(given)
    with matplotlib.style.context(STYLE, after_reset=True):
        figure = draw(every[0], every, given)
        figure.draw_without_rendering()
        texts = [text for text in figure.findobj(Text) if text.get_text() and text.get_visible()]
        return sorted(texts, key=lambda text: -text.get_window_extent().y1)


class Words(HTMLParser):
    """The text of a page's title and of its body."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: dict[str, list[str]] = {"title": [], "body": []}
        self.where: str | None = None

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.where = tag if tag in self.texts else self.where

    def handle_endtag(self, tag: str) -> None:
        self.where = None if tag in self.texts else self.where

    def handle_data(self, data: str) -> None:
        if self.where:
            self.texts[self.where].append(data)


def page(given: Answers, folder: Path) -> dict[str, str]:
    words = Words()
    words.feed(save_html(given, {}, None, folder / "r.html").read_text())
    return {where: " ".join(" ".join(texts).split()) for where, texts in words.texts.items()}


def ways(given: Answers, folder: Path) -> list[str]:
    """The report in the terminal, the picture and the page, each as one line of text."""
    texts = [printed(given), " ".join(text.get_text() for text in drawn(given)), page(given, folder)["body"]]
    return [" ".join(text.split()) for text in texts]


def test_a_failed_check_is_the_first_thing_said_with_its_meaning_and_remedy(tmp_path: Path) -> None:
    for text in ways(answers((GOOD, OVERLAP, FEW)), tmp_path):
        assert text.startswith(
            "Do not rely on numbers that rest on the random exposures: they failed the check overlap overlap: 0 of 240"
        )
        assert OVERLAP.sentence in text
        assert MEANING["overlap"][1:] in text
        assert REMEDY["overlap"][1:] in text
        failure, warning, number = (
            text.index(part) for part in ("failed the check", "Read numbers that rest on", "beats")
        )
        assert failure < warning < number


def test_no_verdict_stands_unqualified_over_failed_data(tmp_path: Path) -> None:
    given = answers((OVERLAP,))
    for text in ways(given, tmp_path):
        for sentence in ("pop beats mf", "mf leads, but its lead over pop is not decided"):
            before = text.split(sentence)[:-1]
            assert before
            assert all(DOUBT in part[-150:] for part in before), text
    title = page(given, tmp_path)["title"]
    assert title == headline(panels(given)[0])
    assert title.startswith("Not to be relied on (overlap failed): ")
    assert all(conclusion(panel).startswith("Not to be relied on (overlap failed): ") for panel in panels(given))


def test_data_that_passes_or_warns_is_not_doubted(tmp_path: Path) -> None:
    for checks in ((GOOD,), (GOOD, FEW), ()):
        for text in ways(answers(checks), tmp_path):
            assert "relied on" not in text
            assert ("with care" in text) is (FEW in checks)


def test_what_the_truth_says_does_not_rest_on_the_random_exposures() -> None:
    given = answers((OVERLAP,), by="full_macro")
    assert verdicts(panels(given))[1] == ("recall@50", "pop beats mf, by the truth")
    only_truth = given._replace(estimates=[row for row in given.estimates if row.estimator != "traditional"])
    assert "relied on" not in headline(panels(only_truth)[0])


def test_what_rests_on_heldout_pairs_only_is_not_doubted(tmp_path: Path) -> None:
    mixed = answers((OVERLAP,), by="holdout")
    assert all("relied on" not in sentence for _, sentence in verdicts(panels(mixed)))
    only_heldout = mixed._replace(estimates=[row for row in mixed.estimates if row.estimator == "holdout"])
    for text in ways(only_heldout, tmp_path):
        assert text.startswith("Do not rely on numbers that rest on the random exposures")
        assert "pop beats mf" in text
        assert DOUBT not in text
        assert "naive: no estimate over all candidates" in text


def test_each_metric_has_its_own_verdict_everywhere(tmp_path: Path) -> None:
    for text in ways(answers(), tmp_path):
        verdicts_part = text[text.index("The best model, metric by metric") :]
        parts = ("recall@10", "mf leads, but its lead over pop is not decided, by URE balanced")
        places = [verdicts_part.index(part) for part in (*parts, "recall@50", "pop beats mf, by URE balanced")]
        assert places == sorted(places)
    for text in (printed(answers(), 200), page(answers(), tmp_path)["body"]):
        assert text.count("Which model beats which, by URE balanced recall@") == 2


def test_one_metric_or_one_model_needs_no_list_of_verdicts(tmp_path: Path) -> None:
    given = answers()
    one_metric = given._replace(estimates=[row for row in given.estimates if row.k != 50])
    one_model = given._replace(estimates=[row for row in given.estimates if row.model == "mf"], comparisons=[])
    for one in (one_metric, one_model):
        assert all("metric by metric" not in text for text in ways(one, tmp_path))


def test_names_that_are_markup_math_or_control_characters_are_readable_everywhere(tmp_path: Path) -> None:
    given = answers((OVERLAP._replace(sentence="the worst, item_id=i[/]1."),), (ODD, "pop"))
    shown = "mf[/dim]$x$<b>\\x1b[31m"
    for text in (printed(given, 200), *ways(given, tmp_path)):
        assert shown in text
        assert "item_id=i[/]1" in text
        assert "\x1b" not in text
    assert not any(text.get_parse_math() for text in drawn(given))
    assert "<b>" not in save_html(given, {}, None, tmp_path / "r.html").read_text()


def test_labels_of_models_differ_in_the_picture() -> None:
    names = ("ranker_2026-11-14_candidate", "ranker_2026-11-15_candidate")
    texts = [text.get_text() for text in drawn(answers(models=names))]
    for label in ("ranker_…11-14_c…", "ranker_…11-15_c…"):
        assert sum(label in text for text in texts) == 6  # estimates, orders left and right, chances, matrix twice


@pytest.mark.parametrize("width", [80, 100])
def test_a_notice_fits_the_terminal(width: int) -> None:
    assert max(map(len, printed(answers((OVERLAP, FEW)), width).splitlines())) <= width


def test_every_check_has_a_meaning_and_a_remedy() -> None:
    assert set(MEANING) == set(REMEDY) == set(ORDER)
    assert not any(text.endswith(".") for text in REMEDY.values())
