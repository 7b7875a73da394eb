"""The sections of a run's page on popularity: the curve with its cuts, what lists do to the classes, and balanced
quality scores; the darker a cell, the larger its value.
"""

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from eval_engine.plain_text import plain
from eval_engine.report.bqs_tables import shades_of
from eval_engine.report.cell import UNDEFINED
from eval_engine.report.estimate_row import EstimateRow
from eval_engine.report.sheet import Sheet, section_html
from eval_engine.report.study_tables import figure_html
from eval_engine.studies.bqs import LISTS

NAMES = {
    "arp": "ARP",
    "aplt": "APLT",
    "aclt": "ACLT",
    "tail_share": "tail share",
    "novelty": "novelty",
    "p_rsp": "P-RSP",
    "p_rsp_by_user": "P-RSP by user",
    "p_reo": "P-REO",
    "p_reo_by_user": "P-REO by user",
    "coverage": "coverage",
    "gini": "Gini",
}


def popularity_html(
    picture: Path, estimates: Sequence[EstimateRow], scores: Sequence[Mapping[str, Any]], remark: str
) -> str:
    """The sections; remark: what makes the classes doubtful."""
    note = f'<p class="note">{escape(plain(remark))}</p>' if remark else ""
    parts = [f"<section><h2>Popularity of items</h2>{figure_html('Popularity of items', picture)}{note}</section>"]
    parts += [section_html(sheet) for sheet in (lists_sheet(estimates), scores_sheet(scores)) if sheet.lines]
    return "\n".join(parts)


def lists_sheet(estimates: Sequence[EstimateRow]) -> Sheet:
    """Metrics of top lists, a line for each model."""
    rows = [row for row in estimates if row.estimator == LISTS and row.slice == "all" and row.metric in NAMES]
    cells = sorted({(list(NAMES).index(row.metric), row.metric, row.k) for row in rows})
    values = {(row.model, row.metric, row.k): row.value for row in rows}
    models = sorted({row.model for row in rows})
    table = [[values.get((model, metric, k)) for _, metric, k in cells] for model in models]
    lines = [(plain(model), *map(_number, line)) for model, line in zip(models, table, strict=True)]
    shades = list(zip(*(shades_of(column) for column in zip(*table, strict=True)), strict=True))
    heads = ("model", *(f"{NAMES[metric]}@{k}" for _, metric, k in cells))
    return Sheet("What top lists do to popular and rare items", heads, lines, shades=shades)


def scores_sheet(scores: Sequence[Mapping[str, Any]]) -> Sheet:
    """Balanced quality scores, a line for each pair of models and quality."""
    rows = sorted(
        (row for row in scores if row["repeat"] == 0),
        key=lambda row: (row["metric"], row["k"], row["estimator"], row["slice"], row["baseline"], row["debiased"]),
    )
    lines = [
        (
            plain(row["debiased"]), plain(row["baseline"]), f"{row['metric']}@{row['k']}", plain(row["slice"]),
            _number(row["gain"]), _number(row["group_gain"]), _number(row["value"]),
            UNDEFINED if row["low"] is None else f"{row['low']:.3f} to {row['high']:.3f}", row["place"] or "",
        )
        for row in rows
    ]  # fmt: skip
    shades = [shades_of([row[name] for row in rows]) for name in ("gain", "group_gain", "value")]
    none: tuple[None, ...] = (None,) * 3
    heads = ("model", "against", "quality", "group", "gain", "gain of the group", "BQS", "interval over users", "")
    return Sheet(
        "Balanced quality scores",
        heads,
        lines,
        "0.5: the baseline against itself. Means over seeds where there are several.",
        shades=[(*none, *(column[n] for column in shades), None, None) for n in range(len(rows))],
    )


def _number(x: float | None) -> str:
    return UNDEFINED if x is None else f"{x:.4g}"
