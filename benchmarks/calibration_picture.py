"""The picture of benchmarks/calibration_grid.py, an SVG.

A row is an estimator and a metric, a column a number of users, of exposures and a share of positives; behind them the
power at users_needed and users_equivalent. A square is of the worse of the two worlds. A cell outside the aim, by more
than two Monte Carlo errors, is red or blue, or has a dot for false verdicts.
"""

from collections.abc import Iterable
from typing import Any

SIZE, LEFT, TOP, GAP = 10, 168, 66, 6
COLOURS = {
    "within the aim": "#7fbf7b",
    "fewer than 30 hits, 93 % or more": "#cfe8cb",
    "too wide": "#6fa8dc",
    "too narrow, or too little power": "#d6604d",
    "undefined, or power needs over 10,000 users": "#dddddd",
}
GOOD, FEW, WIDE, NARROW, NOTHING = COLOURS
Column = tuple[int, bool, int, int]  # power, common, users, exposures


def picture(lines: Iterable[dict[str, Any]]) -> str:
    """The SVG of some lines."""
    cells: dict[tuple[str, Column], list[dict[str, Any]]] = {}
    names: list[str] = []
    for line in lines:
        column = (int(not line["users"]), line["positives"] != "rare", line["users"], line["exposures"])
        cells.setdefault((line["case"], column), []).append(line)
        names += [] if line["case"] in names else [line["case"]]
    names = sorted(names, key=lambda name: name.split()[0])  # metrics stay in their order
    columns = sorted({column for _, column in cells})
    places = _places(columns)
    width, height = max(places.values()) + SIZE + 16, TOP + SIZE * len(names) + 40
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        'font-size="7">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        '<text x="6" y="14" font-size="10">95 % intervals and verdicts at the edges: the worse of two worlds</text>',
        *_headings(columns, places),
    ]
    squares: dict[str, list[str]] = {state: [] for state in COLOURS}
    dots = []
    for row, name in enumerate(names):
        y = TOP + SIZE * row
        if row and name.split()[0] != names[row - 1].split()[0]:
            parts.append(f'<path d="M6 {y - 0.5}H{width - 6}" stroke="#888888" stroke-width="0.4"/>')
        parts.append(f'<text x="{LEFT - 5}" y="{y + 7.5}" text-anchor="end">{name}</text>')
        for column in columns:
            own = cells.get((name, column))
            if own:
                squares[_state(own)].append(f"M{places[column]} {y}h9v9h-9z")
                if any(reason.startswith("false") for line in own for reason in line["outside"]):
                    dots.append(f"M{places[column] + 2.5} {y + 4.5}a2 2 0 1 0 4 0a2 2 0 1 0-4 0z")
    parts += [f'<path fill="{COLOURS[state]}" d="{"".join(own)}"/>' for state, own in squares.items()]
    parts += [f'<path d="{"".join(dots)}"/>', *_legend(height - 14)]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _places(columns: list[Column]) -> dict[Column, int]:
    """The left end of each column: numbers of users stand apart."""
    found, x = {}, LEFT
    for n, column in enumerate(columns):
        x += GAP if n and columns[n - 1][:3] != column[:3] else 0
        found[column] = x
        x += SIZE
    return found


def _headings(columns: list[Column], places: dict[Column, int]) -> Iterable[str]:
    for n, column in enumerate(columns):
        power, common, users, exposures = column
        x, before = places[column], columns[n - 1] if n else (-1, False, 0, 0)
        if before[:2] != column[:2]:
            yield f'<text x="{x}" y="28">{"common" if common else "rare"} positives</text>'
        if before[:3] != column[:3]:
            yield f'<text x="{x}" y="39">{"power" if power else f"{users:,} users"}</text>'
        yield f'<text transform="translate({x + 7},{TOP - 3}) rotate(-90)">e={exposures}</text>'


def _legend(y: int) -> Iterable[str]:
    x = 6.0
    for state, colour in COLOURS.items():
        yield f'<rect x="{x:g}" y="{y - 8}" width="9" height="9" fill="{colour}"/>'
        yield f'<text x="{x + 13:g}" y="{y}">{state}</text>'
        x += 22 + 3.6 * len(state)
    yield f'<circle cx="{x:g}" cy="{y - 3}" r="2"/><text x="{x + 6:g}" y="{y}">false verdicts</text>'


def _state(lines: list[dict[str, Any]]) -> str:
    """The state of the worse line."""
    reasons = {reason for line in lines for reason in line["outside"]}
    if reasons & {"coverage", "power", "power_equivalent"}:
        return NARROW
    known = [line for line in lines if line["coverage"] is not None or line.get("power") is not None]
    if not known and not any(line.get("power_equivalent") is not None for line in lines):
        return NOTHING
    if "wide" in reasons:
        return WIDE
    return GOOD if not lines[0]["users"] or all(line["hits"] >= 30 for line in known) else FEW
