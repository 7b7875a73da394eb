"""What a reader must know of a run before its numbers: its name, its date, and the choices behind them."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

FRAMES = {
    "unseen": "unseen (items without logged feedback of the user)",
    "all_items": "all_items (the whole catalogue)",
}
TIES = {
    "expected": "expected (the mean over all orders of equal scores)",
    "strict": "strict (an item stands below all with the same score)",
}


def run_settings(run_id: str, runs: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """From the run's rows of the runs table; what they do not hold is left out."""
    stages = {row["stage"]: row for row in runs}
    settings = {"run": run_id}
    if row := stages.get("evaluate") or stages.get("rank"):
        config = json.loads(row["config"])
        frame, ties = config.get("frame"), config.get("evaluate", {}).get("ties")
        settings |= {
            "evaluated" if row["stage"] == "evaluate" else "ranked": f"{row['started_at']:%Y-%m-%d %H:%M} UTC",
            "positive": config.get("positive"),
            "frame": FRAMES.get(frame, frame),
            "ties": TIES.get(ties, ties),
        }
    return {name: value for name, value in settings.items() if value}
