"""Simpson's paradox in the report: what is said of a flag, what is counted, within 80 columns, outside text escaped."""

import io
from pathlib import Path

from rich.console import Console

from eval_engine.metric import Metric
from eval_engine.report.answers import Answers
from eval_engine.report.console import print_report
from eval_engine.report.estimate_row import EstimateRow
from eval_engine.report.html import save_html
from eval_engine.report.reversal_row import ReversalRow
from eval_engine.report.reversals_block import MOST_SENTENCES

FLAG = ReversalRow(
    "holdout", "ndcg", 10, "propensity", "reversed", 3, 1, 0, 1, "wmf", "bpr", -0.004, 1e-4, ["propensity=1"], [0.011],
    [0.99], 0.99, "pairs", [3445], "ure_macro", 0.003, "as the slices",
)  # fmt: skip
QUIET = ReversalRow("holdout", "ndcg", 10, "segment", "none", 3, 0, 0, 0)


def answers(*rows: ReversalRow) -> Answers:
    estimates = [
        EstimateRow(model, "holdout", "ndcg", 10, value, 0.01, value - 0.02, value + 0.02, 100, 0, "")
        for model, value in (("bpr", 0.373), ("wmf", 0.369))
    ]
    return Answers(estimates, metrics=(Metric("ndcg", 10),), reversals=rows)


def printed(given: Answers, width: int = 80) -> str:
    file = io.StringIO()
    print_report(given, Console(file=file, width=width))
    return file.getvalue()


def words(text: str) -> str:
    return " ".join(text.split())


def test_a_flag_in_words() -> None:
    text = words(printed(answers(FLAG, QUIET)))
    assert (
        "reversed, held-out pairs ndcg@10 by propensity: wmf is better than bpr in propensity=1 (3,445 items) by "
        "0.0110 (99 % of the test pairs); in the whole bpr is better by 0.0040; random exposure (URE macro) has wmf "
        "better by 0.0030."
    ) in text
    assert "held-out pairs ndcg@10 propensity 3 1 0 1 67 %" in text
    assert "held-out pairs ndcg@10 segment 3 0 0 0 0 %" in text
    vanishes = FLAG._replace(flag="vanishes", items=None, share_of="users", random_says="not decided")
    assert (
        "(99 % of the test users); the whole decides for neither (bpr ahead by 0.0040); random exposure (URE macro) "
        "does not decide (wmf ahead by 0.0030)."
    ) in words(printed(answers(vanishes)))
    alone = FLAG._replace(random_estimator=None, random_difference=None, random_says=None)
    assert "better by 0.0040. " in words(printed(answers(alone))) + " "
    weak = FLAG._replace(flag="weak")
    assert "is better than" not in printed(answers(weak))
    assert "paradox" not in printed(answers())


def test_the_page_has_all_and_the_terminal_counts_the_rest(tmp_path: Path) -> None:
    rows = [FLAG._replace(model_a=f"m{n}", n_reversed=9, n_model_pairs=45) for n in range(9)]
    text = printed(answers(*rows))
    assert f"{9 - MOST_SENTENCES} more flags" in text
    page = save_html(answers(*rows, QUIET), {}, None, tmp_path / "r.html").read_text()
    assert page.count("<li>reversed") == 9
    assert "9 pairs of models are flagged beyond chance." in page
    assert "No pair of models is flagged" in save_html(answers(QUIET), {}, None, tmp_path / "q.html").read_text()


def test_outside_text_is_escaped_and_fits(tmp_path: Path) -> None:
    nasty = "<b>[red]x\x1b[31m" + "y" * 90
    row = FLAG._replace(model_a=nasty, slicing=nasty, slices=[f"{nasty}=<i>"])
    text = printed(answers(row, FLAG))
    assert max(map(len, text.splitlines())) <= 80
    assert "\x1b" not in text
    assert "[red]x\\x1b" in text
    page = save_html(answers(row), {}, None, tmp_path / "r.html").read_text()
    assert "<b>" not in page
    assert "<i>" not in page
    assert "\x1b" not in page
