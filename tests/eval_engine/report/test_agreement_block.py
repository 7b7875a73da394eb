"""Which offline number may be trusted, in a sentence and a table."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from eval_engine.evaluation.agreement_rows import NO_REFERENCE, SHARED
from eval_engine.metric import Metric
from eval_engine.report.agreement_row import AgreementRow
from eval_engine.report.answers import Answers
from eval_engine.report.check_line import CheckLine
from eval_engine.report.console import print_report
from eval_engine.report.estimate_row import EstimateRow
from eval_engine.report.html import save_html
from eval_engine.report.trust import first_target, trust_sentence

SNIPS = AgreementRow(
    "snips", "recall", 10, "full_macro", 60, 150, 0, 0.83, 0.94, 0.95, 0.71, 0.9, 0.03, 0.9, 0.97, 1e-4, 2e-4,
    "holdout", 0.69, 1e-5, 1e-6, 5e-7,
)  # fmt: skip
HOLDOUT = AgreementRow(
    "holdout", "recall", 10, "full_macro", 60, 761, 0, 0.14, 0.2, 0.95, 0.02, 0.25, bias_squared=0.03
)


def answers(*rows: AgreementRow, checks: tuple[CheckLine, ...] = ()) -> Answers:
    estimates = [EstimateRow(m, "holdout", "recall", 10, 0.3, 0.01, 0.28, 0.32, 100, 0, "") for m in ("a", "b")]
    return Answers(estimates, metrics=(Metric("recall", 10),), checks=checks, agreement=rows)


def printed(given: Answers) -> str:
    file = io.StringIO()
    print_report(given, Console(file=file, width=80))
    return file.getvalue()


def test_the_best_number_how_far_and_why() -> None:
    assert trust_sentence([HOLDOUT, SNIPS]) == (
        "For the order of models by recall@10, SNIPS may be trusted most here: it orders 1,620 of 1,770 pairs of 60 "
        "models as the truth does (Kendall's tau 0.83, 95 % interval over users 0.71 to 0.90); held-out pairs has "
        "0.14, a difference beyond chance over models (p = 1e-05); its values are off by 0.0100 on average."
    )
    text = printed(answers(HOLDOUT, SNIPS))
    assert max(map(len, text.splitlines())) <= 80
    assert "SNIPS may be trusted most here" in " ".join(text.split())
    assert "1,620 of 1,770" in text


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([], ""),
        (
            [HOLDOUT._replace(kendall_low=-0.1)],
            "No offline number of recall@10 may be trusted here: at best, held-out pairs orders",
        ),
        (
            [HOLDOUT._replace(kendall_low=None, kendall_high=None, interval_reason="noise is too large")],
            "How far an offline number of recall@10 may be trusted is not known here: held-out pairs orders 1,009 of",
        ),
        (
            [HOLDOUT._replace(kendall=None, reason="2 models have both values")],
            "Which offline number of recall@10 may be trusted cannot be told here: 2 models have both values.",
        ),
        (
            [SNIPS._replace(reference="holdout", remark=NO_REFERENCE)],
            "No offline number of recall@10 can be checked here: the run has neither complete labels nor random "
            "exposures; its estimators agree with each other with Kendall's tau 0.83, which says nothing of the truth.",
        ),
        (
            [SNIPS._replace(estimator="ure_micro", reference="ure_macro", remark=SHARED)],
            "Which offline number of recall@10 may be trusted cannot be told here: no number is independent",
        ),
    ],
)
def test_what_cannot_be_trusted(rows: list[AgreementRow], says: str) -> None:
    assert trust_sentence(rows).startswith(says)
    if not rows:
        assert "Which offline" not in printed(answers())


def test_without_logged_numbers_it_is_about_the_others_and_failed_checks_come_first() -> None:
    ure, traditional = SNIPS._replace(estimator="ure_macro"), HOLDOUT._replace(estimator="traditional")
    assert "URE macro may be trusted most" in trust_sentence([traditional, ure])
    assert "URE macro may" not in trust_sentence([traditional, ure, HOLDOUT])  # logged numbers are what is asked about
    on_random = HOLDOUT._replace(reference="ure_macro", kendall_low=0.1)
    assert trust_sentence([on_random], ("overlap",)).startswith("Not to be relied on (overlap failed): For the order")
    assert not trust_sentence([HOLDOUT], ("overlap",)).startswith("Not")  # complete labels


def test_first_metric_in_the_terminal_all_on_the_page_and_reasons_once(tmp_path: Path) -> None:
    deeper = SNIPS._replace(k=50, interval_reason="noise <b>", kendall_low=None, kendall_high=None)
    rows = [deeper, HOLDOUT, SNIPS]
    assert {row.k for row in first_target(rows, (Metric("recall", 10), Metric("recall", 50)))} == {10}
    given = answers(*rows)
    assert "recall@50" not in printed(given).split("Which offline number")[1]
    page = save_html(given, {}, None, tmp_path / "r.html").read_text()
    assert "<h3>recall@50</h3>" in page
    assert page.index("<h3>recall@10</h3>") < page.index("<h3>recall@50</h3>")
    assert "SNIPS: noise &lt;b&gt;." in page


def test_other_users_of_the_reference_are_told() -> None:
    same = SNIPS._replace(n_users=90, n_reference_users=90, n_shared_users=90)
    assert trust_sentence([HOLDOUT, same]) == trust_sentence([HOLDOUT, SNIPS])
    other = SNIPS._replace(n_users=1200, n_reference_users=1000, n_shared_users=900)
    text = trust_sentence([HOLDOUT, other])
    assert text is not None
    assert text.endswith("; it rests on 1,200 users and the reference on 1,000, of which 900 are the same.")
