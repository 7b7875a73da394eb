"""The report in a terminal: the estimates, the order each scheme gives, and what follows from it, one block per target.

Model names are printed as they are: rich markup inside them is not interpreted.
"""

from collections.abc import Iterable

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from eval_engine.report.cell import best_value, digits, interval_text, mark_text, percent_text, users_text, value_text
from eval_engine.report.estimate_row import EstimateRow
from eval_engine.report.finding import CONSERVATIVE, conclusion
from eval_engine.report.orders import Agreement, agreements, in_clear_flip, misplaced, order
from eval_engine.report.panel import ESTIMATES_OF, TRADITIONAL, TRUTH, Panel, Scheme, panels

CLEAR, NOISE = "bold red", "yellow"
NO_INTERVAL = {TRUTH, TRADITIONAL, *ESTIMATES_OF.values()}


def print_report(rows: Iterable[EstimateRow], console: Console, confidence: float = 0.95) -> None:
    """Print the report to this console; confidence is the level of the rows' intervals."""
    for part in tables(rows, confidence):
        console.print(part)


def tables(rows: Iterable[EstimateRow], confidence: float = 0.95) -> list[RenderableType]:
    """One renderable per target."""
    found = panels(rows)
    if not found:
        return [Text("There are no estimates to report.")]
    return [Group(_estimates(panel, confidence), Text(), _orders(panel), Text(), Text(conclusion(panel), style="bold"), Text()) for panel in found]


def _estimates(panel: Panel, confidence: float) -> Table:
    held = {a.scheme: a for a in agreements(panel)}
    table = Table(
        title=Text(f"{panel.target} of {len(panel.models)} {'model' if len(panel.models) == 1 else 'models'}", style="bold"),
        title_justify="left",
        caption=_legend(panel, held.values()),
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    table.add_column("model", overflow="fold", min_width=8)
    for scheme in panel.schemes:
        table.add_column(_header(panel, scheme, confidence), justify="right", overflow="fold", min_width=_width(panel, scheme))
    for model in panel.models:
        table.add_row(Text(model), *(_cell(panel, scheme, model, held.get(scheme)) for scheme in panel.schemes))
    return table


def _header(panel: Panel, scheme: Scheme, confidence: float) -> str:
    if scheme.estimator in ESTIMATES_OF:
        return f"{scheme.label}\n{percent_text(confidence)} interval"
    if scheme.estimator == TRADITIONAL:
        return f"{scheme.label}\n{scheme.metric}"
    before = panel.schemes[panel.schemes.index(scheme) - 1].estimator
    return "its\ntarget" if ESTIMATES_OF.get(before) == scheme.estimator else scheme.label


def _width(panel: Panel, scheme: Scheme) -> int:
    number = digits(panel, scheme) + 2
    return number if scheme.estimator in NO_INTERVAL else 2 * number + 1


def _cell(panel: Panel, scheme: Scheme, model: str, held: Agreement | None) -> Text:
    decimals, value = digits(panel, scheme), panel.value(scheme, model)
    best = value is not None and value == best_value(panel, scheme)
    text = Text().append(value_text(value, decimals), style="bold" if best else "")
    if held and model in misplaced(held):
        text.append(f" {mark_text(held, model)}", style=_style(held, model))
    if scheme.estimator not in NO_INTERVAL:
        text.append(f" {interval_text(panel.rows.get((scheme, model)), decimals).replace(' to ', '–')}", style="dim")
    return text


def _style(held: Agreement, model: str) -> str:
    return CLEAR if in_clear_flip(held, model) else NOISE


def _legend(panel: Panel, held: Iterable[Agreement]) -> Text:
    text = Text(users_text(panel), style="dim not italic")
    if any(a.flips for a in held):
        judge = "the truth" if panel.has_truth else "URE"
        text.append(f"\n▲n ▼n: above, below n models that {judge} puts the other way round; ")
        text.append("▲▼", style=CLEAR).append(" beyond the intervals, ").append("△▽", style=NOISE).append(f" within. {CONSERVATIVE}")
    return text


def _orders(panel: Panel) -> Table:
    held = {a.scheme: a for a in agreements(panel)}
    table = Table(
        title=Text("The order each scheme gives, best first", style="bold"), title_justify="left", box=None, show_header=False, pad_edge=False
    )
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    table.add_column(overflow="fold", min_width=7)
    for scheme in panel.schemes:
        table.add_row(
            str(scheme) if scheme.estimator == TRADITIONAL else scheme.label,
            _arrows(panel, scheme, held.get(scheme)),
            _verdict(panel, held.get(scheme)),
        )
    return table


def _arrows(panel: Panel, scheme: Scheme, held: Agreement | None) -> Text:
    given, wrong = order(panel, scheme), misplaced(held) if held else {}
    names = {model: Text(model, style=_style(held, model) if held and model in wrong else "") for model in panel.models}
    text = Text(" → ").join(Text(" = ").join(names[model] for model in group) for group in given.groups)
    if given.undefined:
        text.append("; " if given.groups else "").append("undefined: ", style="dim").append_text(Text(", ").join(names[m] for m in given.undefined))
    return text


def _verdict(panel: Panel, held: Agreement | None) -> Text:
    if held is None or held.n_pairs == 0:
        return Text()
    if held.flips:
        return Text(f"{len(held.flips)} of {held.n_pairs} pairs differ", style=CLEAR if held.flips[0].clear else NOISE)
    if held.undecided:
        return Text(f"{len(held.undecided)} of {held.n_pairs} pairs open", style="dim")
    return Text("as the truth" if panel.has_truth else "as URE", style="green")
