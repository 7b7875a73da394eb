"""How far each number agrees with the reference over models, for the terminal and the page.

    number           against     tau   95 % interval   Pearson   same order
    SNIPS              truth    0.83    0.71 to 0.90      0.94    1,620 of 1,770

The terminal has the first metric, the page all of them.
"""

from collections.abc import Sequence
from html import escape

from rich.console import Group
from rich.table import Table
from rich.text import Text

from eval_engine.plain_text import plain
from eval_engine.report.agreement_row import AgreementRow
from eval_engine.report.answers import Answers
from eval_engine.report.cell import UNDEFINED, percent_text, value_text
from eval_engine.report.check_line import failed
from eval_engine.report.estimate_row import defined
from eval_engine.report.trust import first_target, trust_sentence

TITLE = "Which offline number to trust"
MOST_ROWS = 12  # in the terminal
COLUMNS = (
    "number", "against", "tau", "interval over users", "error over models", "Pearson", "interval over users",
    "same order", "bias²", "spread of errors", "tau ahead of the baseline", "p, jackknife", "p of Pearson, Steiger",
    "one-sided",
)  # fmt: skip
NOTE = (
    "tau: Kendall's tau-b over models. bias²: squared error that all models share; spread of errors: variance of the "
    "rest over models; both corrected for noise over users, so that they may be below 0."
)


def agreement_block(answers: Answers) -> Group | None:
    """For the terminal; nothing without agreement rows."""
    rows = first_target(answers.agreement, answers.metrics)
    if not rows:
        return None
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
    heads = ("number", "against", "tau", f"{percent_text(rows[0].confidence)} interval", "Pearson", "same order")
    for n, name in enumerate(heads):
        table.add_column(name, justify="left" if n < 2 else "right", overflow="fold", no_wrap=n > 1)
    shown = _first_settings(rows)[:MOST_ROWS]
    for row in shown:
        cells = (
            row.scheme.label,
            row.against.label,
            value_text(row.kendall, 2),
            _interval(row),
            value_text(row.pearson, 2),
        )
        table.add_row(*(Text(plain(cell)) for cell in (*cells, _same(row))))
    text = Text("\n".join(_reasons(shown)), style="dim")
    if more := len(rows) - len(shown):
        text.append(f"\n{more:,} more: the page has them all.")
    sentence = Text(plain(trust_sentence(rows, failed(answers.checks))), style="bold")
    title = Text(f"{TITLE}: {rows[0].target}", style="bold")
    return Group(title, table, *([text] if text else []), sentence, Text())


def _first_settings(rows: Sequence[AgreementRow]) -> list[AgreementRow]:
    """The rows; of too many, one setting of each estimator."""
    first = {(row.scheme.setting_of, row.against): row for row in sorted(rows, key=lambda r: r.scheme.place)[::-1]}
    return [row for row in rows if len(rows) <= MOST_ROWS or first[row.scheme.setting_of, row.against] == row]


def agreement_html(answers: Answers) -> str:
    """The section of the page; empty without agreement rows."""
    if not answers.agreement:
        return ""
    sentence = trust_sentence(first_target(answers.agreement, answers.metrics), failed(answers.checks))
    targets = dict.fromkeys(row.target for row in answers.agreement)
    first = {str(metric): n for n, metric in enumerate(answers.metrics)}
    parts = []
    for target in sorted(targets, key=lambda m: (first.get(str(m), len(first)), m.name, m.k)):
        rows = [row for row in answers.agreement if row.target == target]
        notes = "".join(f'<p class="note">{escape(plain(line))}</p>' for line in _reasons(rows))
        parts.append(f"<h3>{escape(str(target))}</h3>\n{_table(rows)}\n{notes}")
    return f"""<section>
<h2>{TITLE}</h2>
<p class="conclusion">{escape(plain(sentence))}</p>
{"".join(parts)}
<p class="note">{NOTE}</p>
</section>"""


def _table(rows: Sequence[AgreementRow]) -> str:
    heads = "".join(f'<th scope="col">{escape(name)}</th>' for name in COLUMNS)
    lines = "".join(_line(row) for row in rows)
    return (
        f'<div class="wide"><table class="numbers"><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table></div>'
    )


def _line(row: AgreementRow) -> str:
    cells = (
        plain(row.against.label),
        value_text(row.kendall, 3),
        _interval(row),
        value_text(row.kendall_error, 3),
        value_text(row.pearson, 3),
        _range(row.pearson_low, row.pearson_high),
        _same(row),
        _small(row.bias_squared),
        _small(row.error_spread),
        value_text(row.kendall_difference, 3),
        value_text(row.kendall_difference_p, 4),
        value_text(row.steiger_p, 4),
        value_text(row.steiger_p_one_sided, 4),
    )
    texts = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
    return f'<tr><th scope="row">{escape(plain(row.scheme.label))}</th>{texts}</tr>'


def _interval(row: AgreementRow) -> str:
    return _range(row.kendall_low, row.kendall_high)


def _range(low: float | None, high: float | None) -> str:
    return f"{low:.2f} to {high:.2f}" if defined(low) and defined(high) else UNDEFINED


def _small(x: float | None) -> str:
    return f"{x:.2g}" if defined(x) else UNDEFINED


def _same(row: AgreementRow) -> str:
    return f"{row.n_same:,} of {row.n_pairs:,}"


def _reasons(rows: Sequence[AgreementRow]) -> list[str]:
    """Why numbers are missing, and remarks, once each."""
    found: dict[str, list[str]] = {}
    for row in rows:
        for text in (row.reason, row.interval_reason, row.remark):
            if text:
                found.setdefault(text, []).append(row.scheme.label)
    return [f"{', '.join(dict.fromkeys(labels))}: {text}." for text, labels in found.items()]
