from pathlib import Path

from eval_engine.report.estimate_row import EstimateRow
from eval_engine.report.popularity_block import lists_sheet, popularity_html, scores_sheet


def row(model: str, metric: str, value: float | None, **more: object) -> EstimateRow:
    fields = dict.fromkeys(EstimateRow._fields) | {
        "model": model, "estimator": "lists", "metric": metric, "k": 10, "slice": "all", "value": value,
    }  # fmt: skip
    return EstimateRow(**fields | more)


def score(debiased: str, value: float | None, repeat: int = 0) -> dict[str, object]:
    return {
        "debiased": debiased, "baseline": "mf", "metric": "ndcg", "k": 10, "slice": "popularity=low", "value": value,
        "estimator": "holdout", "repeat": repeat, "gain": -0.01, "group_gain": 0.02, "low": 0.4, "high": 0.6, "place": None,
    }  # fmt: skip


def test_a_line_for_each_model_and_darker_cells_for_larger_values() -> None:
    rows = [row("a", "arp", 7.0), row("b", "arp", 9.0), row("a", "p_reo", None), row("b", "p_reo", 0.5)]
    rows += [
        row("a", "arp", 1.0, slice="popularity=low"),
        row("a", "recall", 0.5),
        row("a", "gini", 0.5, estimator="x"),
    ]
    sheet = lists_sheet(rows)
    assert sheet.heads == ("model", "ARP@10", "P-REO@10")
    assert sheet.lines == [("a", "7", "–"), ("b", "9", "0.5")]
    assert list(sheet.shades) == [(0.0, None), (1.0, None)]


def test_scores_of_repeats_are_shown_as_their_mean() -> None:
    sheet = scores_sheet([score("mf_ips", 0.5), score("mf_ips", 0.4, repeat=1), score("mf_pd", None)])
    assert [line[0] for line in sheet.lines] == ["mf_ips", "mf_pd"]
    assert sheet.lines[1][6] == "–"
    assert all(len(shade) == len(sheet.heads) - 1 for shade in sheet.shades)


def test_a_page_without_scores_and_with_text_to_escape(tmp_path: Path) -> None:
    picture = tmp_path / "p.png"
    picture.write_bytes(b"\x89PNG")
    page = popularity_html(picture, [row("<b>", "aplt", 0.1)], [], "<i>")
    assert "Balanced" not in page
    assert "<b>" not in page
    assert "<i>" not in page
    assert "What top lists do" in page
