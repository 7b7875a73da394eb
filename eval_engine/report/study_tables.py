"""A study of [ure] as tables: on the terminal by rich, and on a self-contained HTML page with the pictures inside.

Every text that comes from outside (names of models) is escaped, and not taken for markup.
"""

import base64
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from eval_engine.plain_text import plain
from eval_engine.report.html import PAGE
from eval_engine.report.study_findings import (
    DEBIASED,
    HARD_NEGATIVES,
    LABELS,
    Peak,
    Standing,
    Study,
    by_truth,
    headline,
    peaks,
    sentences,
    standings,
    wrong_pairs,
)
from eval_engine.storage.atomic_file import write_atomically
from eval_engine.studies.ure import FULL, SCHEMES, Cell

COLUMNS = (FULL, *SCHEMES)
UNDEFINED = "–"
MARKS = {DEBIASED: "*", HARD_NEGATIVES: "▲"}


def print_study(study: Study, console: Console) -> None:
    """Print the models, the peaks and what follows."""
    for table in (_models_table(study), _peaks_table(study)):
        console.print(table)
        console.print()
    for text in sentences(study):
        console.print(Text(f"• {text}"), highlight=False)
    console.print()


def save_page(study: Study, pictures: Mapping[str, Path], run_facts: Mapping[str, str], path: str | Path) -> Path:
    """Write the page; pictures: PNG files to embed, by what they show."""
    figures = "\n".join(figure_html(what, file) for what, file in pictures.items())
    items = "".join(f"<li>{escape(text)}</li>" for text in sentences(study))
    facts = "".join(
        f'<tr><th scope="row">{escape(plain(name))}</th><td>{escape(plain(fact))}</td></tr>'
        for name, fact in run_facts.items()
    )
    content = PAGE.substitute(
        title=escape(headline(study)),
        heading=escape(headline(study)),
        settings="",
        notices="",
        verdicts="",
        picture="",
        sections=f"<section><h2>What it shows</h2><ul>{items}</ul></section>\n{figures}\n"
        f"<section><h2>The models, truly best first</h2>{_models_html(study)}</section>\n"
        f"<section><h2>Where each curve is highest</h2>{_peaks_html(study)}</section>",
        facts=f'<section><h2>The run</h2><div class="wide"><table><tbody>{facts}</tbody></table></div></section>'
        if facts
        else "",
    )
    return write_atomically(content.encode(), path)


def figure_html(what: str, file: Path) -> str:
    """A picture inside the page."""
    data = base64.b64encode(file.read_bytes()).decode("ascii")
    return f'<figure><img src="data:image/png;base64,{data}" alt="{escape(what)}"></figure>'


def _value(standing: Standing) -> str:
    return UNDEFINED if standing.value is None else f"{standing.value:.4f}"


def _place(standing: Standing) -> str:
    return UNDEFINED if standing.place is None else str(standing.place)


def _head(study: Study, cell: Cell) -> str:
    return study.name(cell)


def _models_table(study: Study) -> Table:
    show = study.settings.show
    title = f"{show.exposures} random exposures of each user, {study.candidates:.0f} candidates: values and places"
    marks = ", ".join(f"{mark}: {group}" for group, mark in MARKS.items() if group in study.groups.values())
    table = Table(
        title=Text(title, style="bold"), caption=Text(marks, style="dim not italic"), title_justify="left",
        caption_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_footer=True,
    )  # fmt: skip
    places = {scheme: standings(study, study.shown(scheme)) for scheme in COLUMNS}
    table.add_column("model", overflow="fold", footer="pairs wrong", min_width=11)
    for scheme in COLUMNS:
        wrong = f"{wrong_pairs(study, study.shown(scheme))[0]}" if scheme != FULL else ""
        table.add_column(
            _head(study, study.shown(scheme)).replace(" recall", "\nrecall"),
            justify="right",
            no_wrap=True,
            footer=wrong,
        )
    for model in by_truth(study):
        cells = [
            Text(_value(places[scheme][model])).append(f"{_place(places[scheme][model]):>4}", style="dim")
            for scheme in COLUMNS
        ]
        table.add_row(Text(f"{model} {MARKS.get(study.groups.get(model, ''), '')}"), *cells)
    return table


def _peaks_table(study: Study) -> Table:
    table = Table(
        title=Text("Where each scheme agrees best with true recall@K': K_max, and what is expected", style="bold"),
        title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False,
    )  # fmt: skip
    for name in PEAK_COLUMNS:
        table.add_column(name, justify="left" if name == "scheme" else "right", no_wrap=True)
    shown = SCHEMES[:2]  # the page has the others
    for peak in peaks(row for row in study.agreement if row.scheme in shown):
        table.add_row(*(Text(cell) for cell in _peak_cells(study, peak)))
    return table


PEAK_COLUMNS = ("scheme", "of e", "expected", "Pearson\nK_max", "there", "Kendall\nK_max", "there", "pairs\nwrong")


def _peak_cells(study: Study, peak: Peak) -> Iterable[str]:
    yield f"{LABELS[peak.scheme]}@{peak.k}"
    yield str(peak.exposures)
    yield f"{peak.predicted:.0f}"
    for ks, highest in ((peak.pearson, peak.highest_pearson), (peak.kendall, peak.highest_kendall)):
        yield ", ".join(map(str, ks)) if 0 < len(ks) <= 3 else f"{ks[0]} … {ks[-1]}" if ks else UNDEFINED
        yield UNDEFINED if highest is None else f"{highest:.3f}"
    wrong, pairs = wrong_pairs(study, Cell(peak.scheme, peak.exposures, peak.k))
    yield UNDEFINED if peak.reason else f"{wrong} of {pairs}"


def _models_html(study: Study) -> str:
    places = {scheme: standings(study, study.shown(scheme)) for scheme in COLUMNS}
    heads = "".join(
        f'<th scope="col">{escape(_head(study, study.shown(scheme)))}<small>place</small></th>' for scheme in COLUMNS
    )
    lines = []
    for model in by_truth(study):
        cells = "".join(
            f"<td>{_value(places[scheme][model])}<small>{_place(places[scheme][model])}</small></td>"
            for scheme in COLUMNS
        )
        lines.append(
            f'<tr><th scope="row">{escape(model)}<small>{escape(study.groups.get(model, ""))}</small></th>{cells}</tr>'
        )
    wrong = {scheme: wrong_pairs(study, study.shown(scheme)) for scheme in SCHEMES}
    last = "".join(f"<td>{wrong[scheme][0]} of {wrong[scheme][1]}</td>" for scheme in SCHEMES)
    caption = f"{study.settings.show.exposures} random exposures of each user. {escape(_others(study))}"
    lines.append(f'<tr><th scope="row">pairs in the wrong order</th><td></td>{last}</tr>')
    return (
        f'<div class="wide"><table class="numbers"><caption>{caption}</caption>'
        f'<thead><tr><th scope="col">model</th>{heads}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>'
    )


def _others(study: Study) -> str:
    return (
        f"Other numbers of exposures and cutoffs ({len(study.agreement):,} points): the tables study_estimates and "
        "agreement of the lake."
    )


def _peaks_html(study: Study) -> str:
    heads = "".join(f'<th scope="col">{escape(name.replace(chr(10), " "))}</th>' for name in PEAK_COLUMNS)
    lines = []
    for peak in peaks(study.agreement):
        first, *rest = _peak_cells(study, peak)
        lines.append(
            f'<tr><th scope="row">{escape(first)}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in rest)}</tr>'
        )
    note = (
        f"expected: Kbar N / e with N = {study.candidates:.1f} for the traditional scheme, K for the others; "
        f"pairs wrong: by true recall@{study.settings.show.ure}"
    )
    undefined = {p.reason for p in peaks(study.agreement) if p.reason}
    note += "".join(f"; {UNDEFINED}: {reason}" for reason in sorted(undefined))
    return (
        f'<div class="wide"><table class="numbers"><thead><tr>{heads}</tr></thead>'
        f'<tbody>{"".join(lines)}</tbody></table></div><p class="note">{escape(note)}</p>'
    )
