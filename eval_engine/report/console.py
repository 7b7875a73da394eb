"""The report in a terminal: what its checks say; then per target estimates, orders, who beats whom, what follows.

Where there are several targets, the verdict by each of them stands last. Model names are printed whole: rich markup
inside them is not interpreted, and what is not printable stands there as its escape.
"""

from collections.abc import Collection

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from eval_engine.report.answers import Answers
from eval_engine.report.cell import (
    best_value,
    digits,
    interval_text,
    mark_text,
    open_ties,
    percent_text,
    reasons,
    users_text,
    value_text,
)
from eval_engine.report.finding import BY_METRIC, certainty, conclusion, verdicts
from eval_engine.report.orders import Agreement, agreements, in_clear_flip, misplaced, order
from eval_engine.report.panel import ESTIMATES_OF, TRADITIONAL, TRUTHS, Panel, Scheme, panels
from eval_engine.report.quality_block import checks_table, notices_block
from eval_engine.report.wins_block import wins_block

CLEAR, NOISE = "bold red", "yellow"
MIN_NAME = 10  # characters of a model's name on a line
NO_INTERVAL = {*TRUTHS, TRADITIONAL, *ESTIMATES_OF.values()}


def print_report(answers: Answers, console: Console) -> None:
    """Print the report to this console; what its checks say comes first."""
    if block := notices_block(answers.checks):
        console.print(block)
    if table := checks_table(answers.checks):
        console.print(Group(table, Text()))
    for part in tables(answers, console.width):
        console.print(part)


def tables(answers: Answers, width: int = 100) -> list[RenderableType]:
    """One renderable per target; where this width is too narrow for an interval on a line, it takes two."""
    found = panels(answers)
    if not found:
        return [Text("There are no estimates to report.")]
    blocks: list[RenderableType] = []
    for panel in found:
        parts: list[RenderableType] = [_estimates(panel, answers.confidence, width), _orders(panel)]
        if block := wins_block(panel, width):
            parts.append(block)
        parts.append(Text(conclusion(panel), style="bold"))
        blocks.append(Group(*(piece for part in parts for piece in (part, Text()))))
    return [*blocks, *([Group(_verdicts(found), Text())] if verdicts(found) else [])]


def _verdicts(found: list[Panel]) -> Table:
    """Who is best, metric by metric."""
    table = Table(
        title=Text(BY_METRIC, style="bold"), title_justify="left", box=None, show_header=False, pad_edge=False
    )
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for metric, told in verdicts(found):
        table.add_row(Text(metric), Text(told, style=CLEAR if found[0].failed else ""))
    return table


def _estimates(panel: Panel, confidence: float, width: int) -> Group:
    held = {a.scheme: a for a in agreements(panel)}
    narrow = MIN_NAME + sum(_width(panel, scheme) + 2 for scheme in panel.schemes) + 4 > width
    table = Table(
        title=Text(
            f"{panel.target} of {len(panel.models)} {'model' if len(panel.models) == 1 else 'models'}", style="bold"
        ),
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    table.add_column("model", overflow="fold", min_width=MIN_NAME)
    for scheme in panel.schemes:
        least = digits(panel, scheme) + 3 if narrow else _width(panel, scheme)
        table.add_column(Text(_header(panel, scheme, confidence)), justify="right", overflow="fold", min_width=least)
    for model in panel.models:
        table.add_row(Text(model), *(_cell(panel, scheme, model, held.get(scheme), narrow) for scheme in panel.schemes))
    return Group(table, _legend(panel, held.values()))


def _header(panel: Panel, scheme: Scheme, confidence: float) -> str:
    if scheme.estimator not in NO_INTERVAL:
        return f"{scheme.label}\n{percent_text(confidence)} interval"
    if scheme.estimator == TRADITIONAL:
        return f"tradi-\ntional\n{scheme.metric}"
    place = panel.schemes.index(scheme)
    return "its\ntarget" if place and scheme == panel.target_of(panel.schemes[place - 1]) else scheme.label


def _width(panel: Panel, scheme: Scheme) -> int:
    number = digits(panel, scheme) + 2
    if scheme.estimator == TRADITIONAL:
        return max(number + 3, len(str(scheme.metric)))  # with a mark
    return number if scheme.estimator in NO_INTERVAL else 2 * number + 1


def _cell(panel: Panel, scheme: Scheme, model: str, held: Agreement | None, narrow: bool) -> Text:
    decimals, value = digits(panel, scheme), panel.value(scheme, model)
    best = value is not None and value == best_value(panel, scheme)
    text = Text().append(value_text(value, decimals), style="bold" if best else "")
    if held and model in misplaced(held):
        text.append(f" {mark_text(held, model)}", style=_style(held, model))
    if scheme.estimator not in NO_INTERVAL and value is not None:
        before, between = ("\n", "–\n") if narrow else (" ", "–")
        text.append(
            before + interval_text(panel.rows.get((scheme, model)), decimals).replace(" to ", between), style="dim"
        )
    return text


def _style(held: Agreement, model: str) -> str:
    return CLEAR if in_clear_flip(held, model) else NOISE


def _legend(panel: Panel, held: Collection[Agreement]) -> Text:
    text = Text(users_text(panel), style="dim")
    if any(a.flips for a in held):
        judge = "the truth" if panel.has_truth else "URE"
        text.append(f"\n▲n ▼n: above, below n models that {judge} puts the other way round; ")
        text.append("▲▼", style=CLEAR).append(" clear, ").append("△▽", style=NOISE).append(
            f" may be noise. {certainty(held)}"
        )
    for line in (*reasons(panel), *open_ties(panel)):
        text.append(f"\n{line}")
    return text


def _orders(panel: Panel) -> Table:
    held = {a.scheme: a for a in agreements(panel)}
    table = Table(
        title=Text("The order each scheme gives, best first", style="bold"),
        title_justify="left",
        box=None,
        show_header=False,
        pad_edge=False,
    )
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    table.add_column(overflow="fold", min_width=7)
    for scheme in panel.schemes:
        table.add_row(
            Text(scheme.name),
            _arrows(panel, scheme, held.get(scheme)),
            _verdict(panel, held.get(scheme)),
        )
    return table


def _arrows(panel: Panel, scheme: Scheme, held: Agreement | None) -> Text:
    given, wrong = order(panel, scheme), misplaced(held) if held else {}
    names = {model: Text(model, style=_style(held, model) if held and model in wrong else "") for model in panel.models}
    text = Text(" → ").join(Text(" = ").join(names[model] for model in group) for group in given.groups)
    if given.undefined:
        text.append("; " if given.groups else "").append("undefined: ", style="dim").append_text(
            Text(", ").join(names[m] for m in given.undefined)
        )
    return text


def _verdict(panel: Panel, held: Agreement | None) -> Text:
    if held is None or held.n_pairs == 0:
        return Text()
    if held.flips:
        return Text(f"{len(held.flips)} of {held.n_pairs} pairs differ", style=CLEAR if held.flips[0].clear else NOISE)
    if held.undecided:
        return Text(f"{len(held.undecided)} of {held.n_pairs} pairs open", style="dim")
    return Text("as the truth" if panel.has_truth else "as URE", style="green")
