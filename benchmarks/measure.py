"""How benchmarks measure and what they print: the best of three, one JSON line per case, ratio > 1 is good for us."""

import json
import time
from collections.abc import Callable

REPEATS = 3


def best(work: Callable[[], object]) -> float:
    """The shortest of three times, in seconds."""
    return best_of({"": work})[""]


def best_of(sides: dict[str, Callable[[], object]]) -> dict[str, float]:
    """The shortest of three times of each side, in seconds. They take turns: a machine that is slow for a minute is slow for all."""
    times: dict[str, list[float]] = {side: [] for side in sides}
    for _ in range(REPEATS):
        for side, work in sides.items():
            start = time.perf_counter()
            work()
            times[side].append(time.perf_counter() - start)
    return {side: min(found) for side, found in times.items()}


def say(case: str, ours: float, theirs: float, unit: str, **more: object) -> None:
    """One JSON line; ours and theirs are rates, so more is better."""
    line = {
        "case": case,
        "ours": round(ours, 3),
        "theirs": round(theirs, 3),
        "ratio": round(ours / theirs, 3),
        "unit": unit,
    }
    print(json.dumps(line | more), flush=True)
