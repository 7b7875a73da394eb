"""The study of debiased models from rows of the tables, worked out by hand; its page and pictures."""

import math
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from eval_engine.report.bqs_tables import BqsReport, headline, print_bqs, save_bqs_page, sheets
from eval_engine.report.popularity_plot import save_curve, save_exposure
from eval_engine.studies.bqs import LOW, agreement_of, best_by, evaluated, lines_of

CLASSES = {
    "used": "elbow", "n_users": 40, "n_items": 9, "n_unseen": 1, "n_low": 5, "n_middle": 2, "n_high": 1, "low_at_most": 2.0,
    "high_above": 7.0, "reason": None, "remark": None, "counts": [(0, 1), (1, 4), (2, 1), (5, 1), (7, 1), (30, 1)],
}  # fmt: skip
TECHNIQUES = ("ips", "pd", "jannach")


def estimate(model: str, estimator: str, metric: str, value: float | None, part: str = "all") -> dict[str, Any]:
    return {
        "model": model, "estimator": estimator, "metric": metric, "k": 10, "slice": part, "value": value, "low": None,
        "high": None, "numerator": 3.0, "denominator": 12.0,
    }  # fmt: skip


def rows() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Two backbones, three techniques, two seeds: technique n gains n / 100 for rare items."""
    estimates, scores = [], []
    for base in ("mf", "simgcl"):
        for n, model in enumerate((base, *(f"{base}_{one}" for one in TECHNIQUES))):
            for seed in (1, 2):
                name, up = f"{model}#{seed}", 0.001 * seed
                estimates += [
                    estimate(name, "holdout", "sampled_hit_rate(negatives=100)", 0.3 - 0.01 * n + up),
                    estimate(name, "holdout", "sampled_hit_rate(negatives=100)", 0.1 + 0.01 * n, LOW),
                    estimate(name, "full_micro", "recall", 0.05 + 0.01 * n, LOW),
                    estimate(name, "ure_micro", "recall", 0.05 + 0.01 * n + 0.001 * (n == 1), LOW),
                    estimate(name, "ure_micro", "raw_recall", 0.25, LOW),
                    estimate(name, "lists", "arp", 100.0 - n),
                    estimate(name, "lists", "aplt", 0.1 + 0.1 * (n == 2)),
                    estimate(name, "lists", "p_reo", 1.0 + n),
                    estimate(name, "lists", "exposure_share", 0.5, LOW),
                ]
            if n:
                scores.append(
                    {
                        "baseline": base, "debiased": model, "metric": "sampled_hit_rate(negatives=100)", "k": 10,
                        "slice": LOW, "repeat": 0, "n_repeats": 2, "value": 0.5 + 0.1 * n, "low": 0.4, "high": 0.9,
                        "place": "best" if n == 3 else None,
                    }
                )  # fmt: skip
    return estimates, scores


def test_lines_are_means_over_seeds_and_each_measure_has_its_best() -> None:
    read = evaluated(*rows())
    lines = lines_of(read, "mf", "sampled_hit_rate", 10)
    assert [line.model for line in lines] == ["mf", "mf_ips", "mf_jannach", "mf_pd"]
    assert lines[0].quality == pytest.approx(0.3015)
    assert (lines[0].bqs, lines[0].low_quality) == (0.5, pytest.approx(0.1))
    assert best_by(lines) == {"arp": "mf_jannach", "aplt": "mf_pd", "p_reo": "mf", "bqs": "mf_jannach"}
    assert read.n_repeats == 2
    assert read.sums["mf", "ure_micro", "raw_recall", 10, LOW] == (3.0, 12.0)


def test_a_measure_that_orders_pairs_as_the_truth_has_tau_one() -> None:
    found = {(one.measure, one.against): one for one in agreement_of(evaluated(*rows()), ("sampled_hit_rate",), 10)}
    score = found["BQS, sampled_hit_rate", "complete labels"]
    assert (score.n_pairs, score.tau) == (6, pytest.approx(1.0))
    assert score.low <= score.tau <= score.high + 1e-12
    assert found["p_reo", "complete labels"].tau == pytest.approx(-1.0)
    assert found["unbiased gain of low recall", "complete labels"].tau == pytest.approx(1.0)
    assert ("unbiased gain of low recall", "random exposure") not in found


def test_too_few_pairs_and_values_that_are_not_defined() -> None:
    estimates, scores = rows()
    for row in estimates:
        if row["estimator"] == "full_micro" and row["model"].startswith("simgcl"):
            row["value"] = None
    found = {(one.measure, one.against): one for one in agreement_of(evaluated(estimates, scores), ("ndcg",), 10)}
    assert found["arp", "complete labels"].n_pairs == 3
    assert math.isnan(found["BQS, ndcg", "complete labels"].tau)


def test_page_pictures_and_terminal(tmp_path: Path) -> None:
    report = BqsReport(evaluated(*rows()), ("sampled_hit_rate",), (10,), 10, CLASSES)
    pictures = {
        "curve": save_curve(CLASSES, tmp_path / "curve.png"),
        "exposure": save_exposure(report.read, 10, tmp_path / "exposure.png"),
    }
    (line,) = sheets(report)[0].lines  # 4 * 1 + 2 + 5 + 7 + 30 positives among 40 users and 9 items
    assert line == ("elbow", "40", "9", "1", "5 (62.5%)", "2 (25.0%)", "1 (12.5%)", "2", "7", "48", "86.67%")
    nothing = report._replace(classes=CLASSES | {"counts": [(0, 9)], "n_users": 0, "n_unseen": 9, "n_low": 0})
    assert sheets(nothing)[0].lines[0][-2:] == ("0", "–")
    page = save_bqs_page(report, pictures, {"run": "<b>"}, tmp_path / "page.html").read_text()
    assert 'class="s5"' in page
    assert 'class="s0"' in page
    assert "3 of 12" in page
    assert "<b>" not in page
    assert headline(report).endswith("in 2 of 2 tables")
    console = Console(file=StringIO(), width=200, record=True)
    print_bqs(report, console)
    assert "mf_jannach" in console.export_text()
    table = next(sheet for sheet in sheets(report) if sheet.title.startswith("mf:"))
    assert all(len(line) == len(table.heads) for line in table.lines)
    assert table.shades[0][0] == 1.0  # the baseline has the largest hit rate
    assert np.isclose(table.shades[2][1], 1.0)  # and jannach the most for rare items


def test_a_curve_without_a_positive_is_drawn(tmp_path: Path) -> None:
    nothing = CLASSES | {"counts": [(0, 9)], "n_unseen": 9, "n_low": 0, "n_middle": 0, "n_high": 0}
    assert save_curve(nothing, tmp_path / "curve.png").stat().st_size > 0
