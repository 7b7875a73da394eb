"""A study of [bqs] as tables: on the terminal, and on a self-contained HTML page, darker where a value is larger."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.text import Text

from eval_engine.plain_text import plain
from eval_engine.report.sheet import Sheet, print_sheets, save_sheets
from eval_engine.report.study_tables import UNDEFINED
from eval_engine.studies.bqs import (
    BETTER,
    CLASSES,
    COMPLETE,
    RANDOM,
    Agreed,
    Evaluated,
    Line,
    agreement_of,
    best_by,
    lines_of,
)

NAMES = {"arp": "ARP", "aplt": "APLT", "p_reo": "P-REO", "bqs": "BQS"}


class BqsReport(NamedTuple):
    """All that a report of the study needs."""

    read: Evaluated
    qualities: tuple[str, ...]
    k: tuple[int, ...]
    show: int
    classes: Mapping[str, Any]  # row of popularity_classes

    @property
    def agreed(self) -> list[Agreed]:
        """The agreement of measures with the gain for rare items."""
        return agreement_of(self.read, self.qualities, self.show)


def sheets(report: BqsReport) -> list[Sheet]:
    """Every table of the study."""
    every = [_classes(report), _best(report), _agreement(report), _random(report)]
    every += [
        _table(report, base, quality, k)
        for base in report.read.baselines
        for quality in report.qualities
        for k in report.k
    ]
    return [sheet for sheet in every if sheet.lines]


def headline(report: BqsReport) -> str:
    """How often the measures disagree about the best technique."""
    found = [
        best_by(lines_of(report.read, base, quality, k))
        for base in report.read.baselines
        for quality in report.qualities
        for k in report.k
    ]
    apart = sum(len(set(one.values())) > 1 for one in found)
    return f"ARP, APLT, P-REO and BQS do not name one best technique in {apart} of {len(found)} tables"


def print_bqs(report: BqsReport, console: Console) -> None:
    """Print the tables."""
    print_sheets(sheets(report), console)
    console.print(Text(headline(report), style="bold"))


def save_bqs_page(
    report: BqsReport, pictures: Mapping[str, Path], run_facts: Mapping[str, str], path: str | Path
) -> Path:
    """Write the page; pictures: PNG files to embed, by what they show."""
    return save_sheets(headline(report), sheets(report), pictures, run_facts, path)


def _classes(report: BqsReport) -> Sheet:
    row = report.classes
    positives = sum(count * n for count, n in dict(row["counts"]).items())
    pairs = row["n_users"] * row["n_items"]
    seen = row["n_items"] - row["n_unseen"]
    sizes = [f"{row[name]:,} ({row[name] / seen:.1%})" if seen else "0" for name in ("n_low", "n_middle", "n_high")]
    heads = (
        "method", "users", "items", "unseen", "low", "middle", "high", "low: count at most", "high: count above",
        "training positives", "sparsity",
    )  # fmt: skip
    line = (
        str(row["used"]), f"{row['n_users']:,}", f"{row['n_items']:,}", f"{row['n_unseen']:,}", *sizes,
        f"{row['low_at_most']:,.0f}", f"{row['high_above']:,.0f}", f"{positives:,}",
        f"{1 - positives / pairs:.2%}" if pairs else UNDEFINED,
    )  # fmt: skip
    doubts = [str(row[name]) for name in ("reason", "remark") if row[name]]
    note = "; ".join([*doubts, "percentages: of the items with a training positive"])
    return Sheet("Popularity classes", heads, [line], plain(note))


def _table(report: BqsReport, baseline: str, quality: str, k: int) -> Sheet:
    lines = lines_of(report.read, baseline, quality, k)
    heads = ("model", f"{quality}@{k}", "of low items", "ARP", "APLT", "P-REO", "BQS", "interval over users")
    texts = [
        (
            plain(line.model), _number(line.quality), _number(line.low_quality), _number(line.arp, 1),
            _number(line.aplt), _number(line.p_reo, 3), _number(line.bqs, 3) + _marked(line), _range(line),
        )
        for line in lines
    ]  # fmt: skip
    columns = [shades_of([getattr(line, name) for line in lines]) for name in Line._fields[1:7]]
    shades = [(*(column[n] for column in columns), None) for n in range(len(lines))]
    note = (
        f"Means over {report.read.n_repeats} seeds. ** and *: best and second by BQS, where analysis of variance over "
        "seeds finds that techniques differ."
    )
    return Sheet(f"{plain(baseline)}: {quality}@{k}", heads, texts, note, shades=shades)


def _best(report: BqsReport) -> Sheet:
    lines = []
    for base in report.read.baselines:
        for quality in report.qualities:
            for k in report.k:
                best = best_by(lines_of(report.read, base, quality, k))
                names = (best[name].removeprefix(f"{base}_").removeprefix(base) or "none" for name in BETTER)
                lines.append((f"{plain(base)}, {quality}@{k}", *map(plain, names)))
    heads = ("best by", *(NAMES[name] for name in BETTER))
    return Sheet("Which technique each measure calls best", heads, lines, "none: the baseline, whose BQS is 0.5.")


def _agreement(report: BqsReport) -> Sheet:
    lines = [
        (NAMES.get(one.measure, one.measure), one.against, str(one.n_pairs), _number(one.tau, 2),
         UNDEFINED if math.isnan(one.low) else f"{one.low:.2f} to {one.high:.2f}")
        for one in report.agreed
    ]  # fmt: skip
    heads = ("measure", "gain in recall of low items, by", "pairs", "tau", "interval over pairs")
    note = f"Kendall's tau-b at {report.show}, pairs of backbone and technique; 95 % by bootstrap over pairs."
    return Sheet("What each measure says, against the gain for rare items", heads, lines, note)


def _random(report: BqsReport) -> Sheet:
    read, k, lines = report.read, report.show, []
    for base in read.baselines:
        for model in (base, *read.techniques(base)):
            cells = []
            for name in CLASSES[:3]:
                part = f"popularity={name}"
                hits, positives = read.sums.get((model, RANDOM, "raw_recall", k, part), (math.nan, math.nan))
                counts = UNDEFINED if math.isnan(hits) else f"{hits:,.0f} of {positives:,.0f}"
                truth = read.value(model, COMPLETE, "recall", k, part)
                cells += [_number(read.value(model, RANDOM, "recall", k, part)), counts, _number(truth)]
            lines.append((plain(model), *cells))
    heads = ("model", *(f"{name}: {what}" for name in CLASSES[:3] for what in ("random", "hits", "true")))
    title = f"Recall@{k} of each class by random exposure, and of complete labels"
    return Sheet(
        title, heads, lines, "hits: exposed positives in the top k, of all exposed positives; means over seeds."
    )


def shades_of(values: Sequence[float | None]) -> list[float | None]:
    """Each value's place between the least and the largest."""
    known = [x for x in values if x is not None and not math.isnan(x)]
    span = max(known, default=0.0) - min(known, default=0.0)
    return [None if x is None or math.isnan(x) or not span else (x - min(known)) / span for x in values]


def _marked(line: Line) -> str:
    return {"best": " **", "second": " *"}.get(line.place, "")


def _range(line: Line) -> str:
    return UNDEFINED if math.isnan(line.bqs_low) else f"{line.bqs_low:.3f} to {line.bqs_high:.3f}"


def _number(x: float, digits: int = 4) -> str:
    return UNDEFINED if math.isnan(x) else f"{x:.{digits}f}"
