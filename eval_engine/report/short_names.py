"""Names of models cut to the room that a picture has for them, so that names which differ stay apart.

A long name is cut in the middle: names of a grid differ at the end. Names that would then look alike are cut to the
part where they differ,

    ranker_2026-11-14_candidate   ranker_2026-11-15_candidate   ->   ranker_…-11-14_…   ranker_…-11-15_…

or to all the parts where they differ, if no one part is enough; where those leave no room, they are numbered.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby

MAX_NAME = 16  # characters that fit beside a chart
CUT = "…"


def short_names(names: Iterable[str], most: int = MAX_NAME) -> dict[str, str]:
    """Each name in at most so many characters; no two are the same. Does not depend on the order of the names."""
    ordered = sorted(set(names))
    short = {name: name for name in ordered if len(name) <= most}
    alike: dict[str, list[str]] = {}
    for name in ordered:
        if name not in short:
            alike.setdefault(_ends(name, most), []).append(name)
    crowds = [group for label, group in alike.items() if len(group) > 1 or label in short]
    short |= {group[0]: label for label, group in alike.items() if group not in crowds}
    for group in crowds:
        taken = set(short.values())
        short |= next(labels for labels in _tries(group, most, taken) if _apart(labels, taken))
    return short


def _ends(name: str, most: int) -> str:
    """The name cut in the middle."""
    tail = (most - 1) // 2
    return f"{name[: most - 1 - tail]}{CUT}{name[-tail:]}"


def _tries(group: list[str], most: int, taken: set[str]) -> Iterator[dict[str, str]]:
    """Ways to label names that look alike when cut in the middle, the most telling first; the last always works."""
    first_apart = (n for n, letters in enumerate(zip(*group, strict=False)) if len(set(letters)) > 1)
    differ = next(first_apart, min(map(len, group)))
    for head in ((most - 2) // 2, (most - 2) // 4, 1):
        room = most - 2 - head
        starts = range(head + 1, max(map(len, group)) - 1)
        for start in sorted(starts, key=lambda start: (abs(start - (differ - 2 * room // 3)), start)):
            yield {name: _part(name, head, start, room) for name in group}
    parts = {name: CUT.join(_differing(name, group)) for name in group}
    head = most - 1 - max(map(len, parts.values()))
    if head > 0:
        yield {name: f"{name[:head]}{CUT}{part}" for name, part in parts.items()}
    free = (n for n in range(1, len(taken) + len(group) + 1) if not any(label.endswith(f"{CUT}{n}") for label in taken))
    numbers = dict(zip(group, free, strict=False))
    yield {name: f"{name[: most - 1 - len(str(n))]}{CUT}{n}" for name, n in numbers.items()}


def _part(name: str, head: int, start: int, room: int) -> str:
    """The beginning of a name, and what stands from `start` on."""
    end = start + room
    return f"{name[:head]}{CUT}{name[start:end]}{CUT if len(name) > end else ''}"


def _differing(name: str, group: list[str]) -> Iterator[str]:
    """The parts of a name where names of the group differ, place by place."""
    differ = [len({other[n : n + 1] for other in group}) > 1 for n in range(len(name))]
    for differs, places in groupby(range(len(name)), lambda n: differ[n]):
        if differs:
            yield "".join(name[n] for n in places)


def _apart(labels: dict[str, str], taken: set[str]) -> bool:
    return len(set(labels.values())) == len(labels) and not taken & set(labels.values())
