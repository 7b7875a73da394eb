"""What the page says of the run, from the rows of the runs table."""

import json
from datetime import UTC, datetime
from pathlib import Path

from eval_engine.report.answers import Answers
from eval_engine.report.html import save_html
from eval_engine.report.run_settings import run_settings


def row(stage: str, hour: int, **config: object) -> dict[str, object]:
    return {"stage": stage, "started_at": datetime(2026, 11, 15, hour, 5, tzinfo=UTC), "config": json.dumps(config)}


def test_name_date_positives_frame_and_ties_are_those_of_the_evaluation(tmp_path: Path) -> None:
    asked = {"positive": "value > 3", "frame": "unseen", "evaluate": {"ties": "strict"}}
    runs = [row("evaluate", 9, **asked), row("rank", 8, **asked | {"positive": "value > 4"})]
    settings = run_settings("r-1", runs)
    assert settings == {
        "run": "r-1",
        "evaluated": "2026-11-15 09:05 UTC",
        "positive": "value > 3",
        "frame": "unseen (items without logged feedback of the user)",
        "ties": "strict (an item stands below all with the same score)",
    }
    page = save_html(Answers([]), {}, None, tmp_path / "r.html", settings).read_text()
    for name, value in settings.items():
        assert f"<dt>{name}</dt><dd>{value.replace('>', '&gt;')}</dd>" in page


def test_what_is_not_known_is_left_out() -> None:
    assert run_settings("r", []) == {"run": "r"}
    assert run_settings("r", [row("rank", 8, frame="all_items")]) == {
        "run": "r",
        "ranked": "2026-11-15 08:05 UTC",
        "frame": "all_items (the whole catalogue)",
    }
