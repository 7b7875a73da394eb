"""How benchmarks measure and print: best of three, one JSON line per case, ratio > 1 is good for us."""

import json
import time
from collections.abc import Callable

REPEATS = 3


def best(work: Callable[[], object]) -> float:
    """The shortest of three times, in seconds."""
    return best_of({"": work})[""]


def best_of(sides: dict[str, Callable[[], object]]) -> dict[str, float]:
    """The shortest of three times of each side, in seconds.

    The sides take turns, so that a slow minute of the machine affects all of them.
    """
    times: dict[str, list[float]] = {side: [] for side in sides}
    for _ in range(REPEATS):
        for side, work in sides.items():
            start = time.perf_counter()
            work()
            times[side].append(time.perf_counter() - start)
    return {side: min(seconds) for side, seconds in times.items()}


def say(case: str, ours: float, theirs: float, unit: str, **more: object) -> None:
    """Prints one JSON line; ours and theirs are rates, so more is better."""
    line = {
        "case": case,
        "ours": round(ours, 3),
        "theirs": round(theirs, 3),
        "ratio": round(ours / theirs, 3),
        "unit": unit,
    }
    print(json.dumps(line | more), flush=True)
