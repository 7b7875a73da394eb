"""The picture of benchmarks/calibration_grid.py: coverage by estimator and metric, an SVG.

A row is an estimator and a metric, a column a number of users, of exposures and a share of positives. A square shows the
coverage of the worse of the two worlds: green 93 to 97 %, or above with fewer than 30 hits; blue above 97 %, too wide;
red below 93 %, too narrow; grey undefined. A dot marks cells that are outside the aim by more than two Monte Carlo
errors, in coverage, false verdicts or power.
"""

from collections.abc import Iterable
from typing import Any

SIZE, LEFT, TOP = 11, 190, 78
COLOURS = {"good": "#7fbf7b", "wide": "#92b9dd", "narrow": "#d6604d", "undefined": "#cccccc"}


def picture(lines: Iterable[dict[str, Any]]) -> str:
    """The SVG of some lines."""
    kept = [line for line in lines if line["users"]]
    names = sorted({line["case"] for line in kept})
    columns = sorted(
        {(line["positives"] != "rare", line["users"], line["exposures"]) for line in kept}
    )  # rare positives first
    cells: dict[tuple[str, tuple[Any, ...]], list[dict[str, Any]]] = {}
    for line in kept:
        cells.setdefault((line["case"], (line["positives"] != "rare", line["users"], line["exposures"])), []).append(
            line
        )
    width, height = LEFT + SIZE * len(columns) + 10, TOP + SIZE * len(names) + 40
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="8">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        '<text x="6" y="14" font-size="11">Coverage of 95 % intervals, the worse of two worlds</text>',
    ]
    for n, (common, users, exposures) in enumerate(columns):
        x = LEFT + SIZE * n
        if not n or columns[n - 1][0] != common:
            parts.append(f'<text x="{x}" y="30">{"common" if common else "rare"} positives</text>')
        if not n or columns[n - 1][:2] != (common, users):
            parts.append(f'<text x="{x}" y="44">{users:,} users</text>')
        parts.append(f'<text transform="translate({x + 8},{TOP - 4}) rotate(-90)">e = {exposures}</text>')
    for row, name in enumerate(names):
        y = TOP + SIZE * row
        parts.append(f'<text x="{LEFT - 6}" y="{y + 8}" text-anchor="end">{name}</text>')
        for n, column in enumerate(columns):
            own = cells.get((name, column))
            if own:
                x, colour = LEFT + SIZE * n, COLOURS[_state(own)]
                parts.append(f'<rect x="{x}" y="{y}" width="{SIZE - 1}" height="{SIZE - 1}" fill="{colour}"/>')
                if any(line["outside"] for line in own):
                    parts.append(f'<circle cx="{x + SIZE / 2 - 0.5}" cy="{y + SIZE / 2 - 0.5}" r="2" fill="black"/>')
    x, y = 6, height - 14
    for state, colour in COLOURS.items():
        parts.append(f'<rect x="{x}" y="{y - 8}" width="9" height="9" fill="{colour}"/>')
        parts.append(f'<text x="{x + 13}" y="{y}">{state}</text>')
        x += 75
    parts.append(f'<circle cx="{x}" cy="{y - 3}" r="2" fill="black"/><text x="{x + 8}" y="{y}">outside the aim</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _state(lines: list[dict[str, Any]]) -> str:
    """The state of the worse line."""
    known = [line for line in lines if line["coverage"] is not None]
    if not known:
        return "undefined"
    if min(line["coverage"] for line in known) < 0.93:
        return "narrow"
    wide = any(line["coverage"] > 0.97 and line["hits"] >= 30 for line in known)
    return "wide" if wide else "good"
