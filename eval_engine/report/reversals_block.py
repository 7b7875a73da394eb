"""Simpson's paradox in the report: how many pairs of models each family of slices flags, and the flags in words.

A family is an estimator, metric, cutoff and slicing. Sentences are of `reversed` and `vanishes` only: where only the
signs contradict each other, chance alone gives many. Names of models and slices come from outside: printed as they are
in the terminal, escaped in the page.
"""

from collections.abc import Sequence
from html import escape

from rich.console import Group
from rich.table import Table
from rich.text import Text

from eval_engine.metric import Metric
from eval_engine.plain_text import plain, plain_names
from eval_engine.report.answers import Answers
from eval_engine.report.cell import decimals_for, percent_text, value_text
from eval_engine.report.estimates_block import CLEAR
from eval_engine.report.left_out import left_out_html
from eval_engine.report.reversal_row import ReversalRow
from eval_engine.report.scheme import Scheme

TITLE = "Simpson's paradox: slices that hold most test pairs against the whole"
HEADS = ("number", "slicing", "pairs", "reversed", "vanishes", "weak", "flagged")
MOST_FAMILIES, MOST_SENTENCES = 10, 5  # in the terminal
FOLDED = 20  # sentences beyond which the page folds them
MOST_FLAGS, MOST_ROWS = 100, 200  # sentences and families on the page
QUERY = "SELECT * FROM reversals WHERE flag IN ('reversed', 'vanishes')"
TOLD = ("reversed", "vanishes")
NOTE = (
    "reversed: slices that hold most test pairs decide for one model, the whole for the other. vanishes: they decide, "
    "the whole has the other model ahead or none and does not decide. weak: only the signs contradict each other. "
    "Paired over users, all pairs of models in all slices and the whole considered (Holm)."
)


def reversals_block(answers: Answers) -> Group | None:
    """For the terminal; nothing for a run without slices."""
    rows = _plain_rows(answers)
    if not rows:
        return None
    families = _families(rows, answers.metrics)
    shown = sorted(families, key=lambda row: (-row.n_reversed, -row.n_vanishes))[:MOST_FAMILIES]
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
    for n, name in enumerate(HEADS):
        table.add_column(name, justify="left" if n < 2 else "right", overflow="fold", no_wrap=n > 1)
    for row in (row for row in families if row in shown):
        table.add_row(*(Text(cell) for cell in _cells(row)))
    note = Text(NOTE, style="dim")
    if len(families) > len(shown):
        note.append(f"\n{len(families) - len(shown):,} more families: the page has more of them.")
    texts = _sentences(rows, answers.metrics)
    for sentence in texts[:MOST_SENTENCES]:
        note.append(f"\n{sentence}", style=CLEAR)
    if len(texts) > MOST_SENTENCES:
        note.append(f"\n{len(texts) - MOST_SENTENCES:,} more flags: the page has more of them.")
    return Group(Text(TITLE, style="bold"), table, note, Text())


def reversals_html(answers: Answers) -> str:
    """The section of the page; empty for a run without slices."""
    rows = _plain_rows(answers)
    if not rows:
        return ""
    families = _families(rows, answers.metrics)
    heads = "".join(f'<th scope="col">{name}</th>' for name in HEADS)
    lines = "".join(
        f'<tr><th scope="row">{escape(first)}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in rest)}</tr>'
        for first, *rest in map(_cells, families[:MOST_ROWS])
    )
    more = ""
    if len(families) > MOST_ROWS:
        query = "SELECT DISTINCT estimator, metric, k, slicing, n_reversed, n_vanishes, n_weak FROM reversals"
        more = left_out_html(f"{len(families) - MOST_ROWS:,} more families", query)
    every = _sentences(rows, answers.metrics)
    texts = every[:MOST_FLAGS]
    flags = f"<ul>{''.join(f'<li>{escape(text)}</li>' for text in texts)}</ul>" if texts else ""
    if len(texts) > FOLDED:
        shown = f"All {len(texts):,} flags" if texts == every else f"{len(texts):,} of {len(every):,} flags"
        flags = f"<details><summary>{shown}</summary>{flags}</details>"
    if len(every) > len(texts):
        flags += left_out_html(f"{len(every) - len(texts):,} more flags", QUERY)
    n = sum(row.n_reversed + row.n_vanishes for row in families)
    lead = f"{n:,} pairs of models are flagged beyond chance." if n else "No pair of models is flagged beyond chance."
    return f"""<section>
<h2>{TITLE}</h2>
<p class="conclusion">{lead}</p>
{flags}
<div class="wide"><table class="numbers"><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table></div>
{more}
<p class="note">{NOTE}</p>
</section>"""


def _plain_rows(answers: Answers) -> list[ReversalRow]:
    """The rows with printable names, models called as in the rest of the report."""
    pairs = answers.comparisons
    models = [*(row.model for row in answers.estimates), *(m for c in pairs for m in (c.model_a, c.model_b))]
    names = plain_names(
        dict.fromkeys([*models, *(m for row in answers.reversals for m in (row.model_a, row.model_b) if m is not None)])
    )
    return [
        row._replace(
            slicing=plain(row.slicing),
            model_a=None if row.model_a is None else names[row.model_a],
            model_b=None if row.model_b is None else names[row.model_b],
            slices=None if row.slices is None else [plain(name) for name in row.slices],
        )
        for row in answers.reversals
    ]


def _place(row: ReversalRow, metrics: Sequence[Metric]) -> tuple[object, ...]:
    asked = [str(metric) for metric in metrics]
    metric = Metric(row.metric, row.k)
    place = asked.index(str(metric)) if str(metric) in asked else len(asked)
    return place, row.metric, row.k, Scheme(row.estimator, metric).place, row.slicing


def _families(rows: Sequence[ReversalRow], metrics: Sequence[Metric]) -> list[ReversalRow]:
    """One row of each family, in the order of the report."""
    first = {(row.estimator, row.metric, row.k, row.slicing): row for row in reversed(rows)}
    return sorted(first.values(), key=lambda row: _place(row, metrics))


def _cells(row: ReversalRow) -> tuple[str, ...]:
    scheme = Scheme(row.estimator, Metric(row.metric, row.k))
    counts = (row.n_model_pairs, row.n_reversed, row.n_vanishes, row.n_weak)
    flagged = sum(counts[1:]) / row.n_model_pairs if row.n_model_pairs else 0.0
    return (str(scheme), row.slicing, *(f"{n:,}" for n in counts), f"{100 * flagged:.0f} %")


def _sentences(rows: Sequence[ReversalRow], metrics: Sequence[Metric]) -> list[str]:
    """Every flag beyond chance in words, reversed ones first, then by share."""
    flagged = [row for row in rows if row.flag in TOLD]
    flagged.sort(key=lambda row: (TOLD.index(row.flag), _place(row, metrics), -(row.share or 0.0), row.model_a or ""))
    return [_sentence(row) for row in flagged]


def _sentence(row: ReversalRow) -> str:
    scheme = Scheme(row.estimator, Metric(row.metric, row.k))
    decimals = decimals_for([row.difference, row.random_difference, *(row.differences or ())])
    items = [f" ({n:,} {'item' if n == 1 else 'items'})" for n in row.items or ()] or [""] * len(row.slices or ())
    slices = ", ".join(
        f"{name}{held} by {value_text(difference, decimals)}"
        for name, held, difference in zip(row.slices or (), items, row.differences or (), strict=True)
    )
    whole = value_text(None if row.difference is None else abs(row.difference), decimals)
    if row.flag == "reversed":
        against = f"in the whole {row.model_b} is better by {whole}"
    else:
        against = f"the whole decides for neither ({row.model_b} ahead by {whole})"
    held = f"{percent_text(round(row.share or 0.0, 3))} of the test {row.share_of}"
    return (
        f"{row.flag}, {scheme} by {row.slicing}: {row.model_a} is better than {row.model_b} in {slices} ({held}); "
        f"{against}{_random(row, decimals)}."
    )


def _random(row: ReversalRow, decimals: int) -> str:
    if row.random_estimator is None or row.random_difference is None:
        return ""
    label = Scheme(row.random_estimator, Metric(row.metric, row.k)).label
    ahead = row.model_a if row.random_difference > 0 else row.model_b
    size = value_text(abs(row.random_difference), decimals)
    if row.random_says == "not decided":
        return f"; random exposure ({label}) does not decide ({ahead} ahead by {size})"
    return f"; random exposure ({label}) has {ahead} better by {size}"
