"""The report in a terminal: the checks; then per target estimates, orders, which model beats which, slices, conclusion.

Then come the verdict by each of several targets, Simpson's paradox in slices, and which offline number to trust. Model
names are printed whole: rich markup inside them is not interpreted, and what is not printable is printed as its escape.
"""

from collections.abc import Collection, Mapping

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from eval_engine.report.agreement_block import agreement_block
from eval_engine.report.answers import Answers
from eval_engine.report.cell import open_ties, reasons, users_text
from eval_engine.report.estimates_block import CLEAR, NOISE, estimates_block, mark_style
from eval_engine.report.finding import BY_METRIC, certainty, conclusion, verdicts
from eval_engine.report.orders import Agreement, agreements, misplaced, order
from eval_engine.report.pairwise_wins import pairwise_wins
from eval_engine.report.panel import Panel, panels
from eval_engine.report.quality_block import checks_table, notices_block
from eval_engine.report.reversals_block import reversals_block
from eval_engine.report.scheme import Scheme
from eval_engine.report.shortened import shortened
from eval_engine.report.slices_block import slices_blocks
from eval_engine.report.wins_block import wins_block


def print_report(answers: Answers, console: Console) -> None:
    """Print the report to this console, the checks first."""
    if block := notices_block(answers.checks):
        console.print(block)
    if table := checks_table(answers.checks):
        console.print(Group(table, Text()))
    for part in tables(answers, console.width):
        console.print(part)


def tables(answers: Answers, width: int = 80) -> list[RenderableType]:
    """One renderable per target, and the verdicts; no line is longer than `width`."""
    every = panels(answers)
    if not every:
        return [Text("There are no estimates to report.")]
    blocks: list[RenderableType] = []
    for panel in every:
        compared = {a.scheme: a for a in agreements(panel)}
        shown = (small := shortened(panel)).panel
        more = [Text(small.note, style="dim")] if small.note else []
        values = estimates_block(shown, compared, answers.confidence, width, len(panel.models))
        parts: list[RenderableType] = [Group(values, *more, _legend(shown, list(compared.values())))]
        if panel.judges:
            parts.append(_orders(shown, compared))
        if block := wins_block(panel, width):
            parts.append(block)
        parts.append(Text(conclusion(panel), style="bold"))
        parts += slices_blocks(panel, answers.confidence, width)
        blocks.append(Group(*(piece for part in parts for piece in (part, Text()))))
    blocks += [Group(_verdicts(every), Text())] if verdicts(every) else []
    return [*blocks, *(block for block in (reversals_block(answers), agreement_block(answers)) if block)]


def _verdicts(every: list[Panel]) -> Table:
    """The best model, metric by metric."""
    table = Table(
        title=Text(BY_METRIC, style="bold"), title_justify="left", box=None, show_header=False, pad_edge=False
    )
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for panel, (metric, sentence) in zip(every, verdicts(every), strict=True):
        wins = pairwise_wins(panel)
        table.add_row(Text(metric), Text(sentence, style=CLEAR if wins and wins.failed else ""))
    return table


def _legend(panel: Panel, compared: Collection[Agreement]) -> Text:
    text = Text(users_text(panel), style="dim")
    if any(a.flips for a in compared):
        text.append(f"\n▲n ▼n: above, below n models that {panel.judge} puts the other way round; ")
        text.append("▲▼", style=CLEAR).append(" clear, ").append("△▽", style=NOISE)
        text.append(f" may be noise. {certainty(compared)}")
    for line in (*reasons(panel), *open_ties(panel)):
        text.append(f"\n{line}")
    return text


def _orders(panel: Panel, compared: Mapping[Scheme, Agreement]) -> Group:
    """The order of each scheme, those with the same order together; targets of single estimates are on the page."""
    targets = {panel.own_target(scheme) for scheme in panel.schemes}
    by_order: dict[tuple[object, ...], list[Scheme]] = {}
    for scheme in (s for s in panel.schemes if s not in targets):
        given = order(panel, scheme)
        by_order.setdefault((given.groups, given.undefined), []).append(scheme)
    lines: list[RenderableType] = [Text("The order each scheme gives, best first", style="bold")]
    for schemes in by_order.values():
        lines += [_schemes_line(panel, schemes, compared), Padding(_arrows(panel, schemes, compared), (0, 0, 0, 2))]
    return Group(*lines)


def _schemes_line(panel: Panel, schemes: list[Scheme], compared: Mapping[Scheme, Agreement]) -> Text:
    """The schemes of one order, and how it differs from the reference's."""
    text = Text(", ".join(scheme.name for scheme in schemes))
    agreement = next((compared[scheme] for scheme in schemes if scheme in compared), None)
    if agreement is None or agreement.n_pairs == 0 or panel.reference in schemes:
        return text
    if agreement.flips:
        clear = any(compared[scheme].flips[0].clear for scheme in schemes if scheme in compared)
        of_pairs = f"{len(agreement.flips)} of {agreement.n_pairs} pairs differ from {panel.judge}"
        return text.append(": ").append(of_pairs, style=CLEAR if clear else NOISE)
    return text.append(f": {len(agreement.undecided)} of {agreement.n_pairs} pairs tied or undefined", style="dim")


def _arrows(panel: Panel, schemes: list[Scheme], compared: Mapping[Scheme, Agreement]) -> Text:
    """The models in the order that these schemes share."""
    given, agreements_here = order(panel, schemes[0]), [compared[s] for s in schemes if s in compared]
    styles = {m: mark_style(a, m) for a in agreements_here for m in misplaced(a)}
    styles |= {m: CLEAR for a in agreements_here for m in misplaced(a) if mark_style(a, m) == CLEAR}
    names = {model: Text(model, style=styles.get(model, "")) for model in panel.models}
    text = Text(" → ").join(Text(" = ").join(names[model] for model in group) for group in given.groups)
    if given.undefined:
        text.append("; " if given.groups else "").append("undefined: ", style="dim").append_text(
            Text(", ").join(names[m] for m in given.undefined)
        )
    return text
