"""Which model beats which, for the terminal and the page; nothing where models were not compared.

Model names come from outside: escaped in the page, printed as they are in the terminal.
"""

from collections.abc import Collection, Sequence
from html import escape

from rich.console import Group
from rich.table import Table
from rich.text import Text

from eval_engine.report.cell import UNDEFINED, interval_text, p_text, percent_text, value_text
from eval_engine.report.comparison_row import ComparisonRow
from eval_engine.report.estimate_row import defined
from eval_engine.report.left_out import left_out_html
from eval_engine.report.pairwise_wins import (
    FEW,
    PairwiseWins,
    chance_text,
    chances_text,
    needed_text,
    outcome,
    pairwise_wins,
    true_text,
    verdict_text,
    wins_text,
)
from eval_engine.report.panel import Panel

QUESTION = "Which model beats which"
WON, NEEDED, TRULY = "won–tied–lost", "needed", "truly"
WORDS = ("model", "against", "verdict")  # columns that begin at the left
STYLES = {"a better": "green", "equivalent": "cyan", "not decided": "yellow"}
MOST_PAIRS, MOST_LINES = 300, 40  # pairs on the page, in the terminal
CLASSES = {"not decided": "noise"}  # classes of page.html
PAIR_COLUMNS = (
    "model",
    "against",
    "ahead by",
    "verdict",
    "truly ahead by",
    "p",
    "p, all pairs considered",
    "users won",
    "tied",
    "lost",
    "users needed",
)


def wins_block(panel: Panel, width: int) -> Group | None:
    """For the terminal; the counts of users won and lost are left out where long names leave no room for them."""
    wins = pairwise_wins(panel)
    if wins is None:
        return None
    pairs = wins.shown[:MOST_LINES]
    columns = {"model": [row.model_a for row in pairs], "against": [row.model_b for row in pairs]}
    columns["ahead"] = [value_text(row.difference, wins.decimals) for row in pairs]
    columns[f"{percent_text(pairs[0].confidence)} interval"] = [interval_text(row, wins.decimals) for row in pairs]
    columns["verdict"] = [verdict_text(row) for row in pairs]
    columns[TRULY] = [true_text(wins.true_pair(row), wins.decimals) for row in pairs]
    columns[WON] = [wins_text(row) for row in pairs]
    columns[NEEDED] = [needed_text(row, wins.n_users) for row in pairs]
    shown = {name: texts for name, texts in columns.items() if any(text != UNDEFINED for text in texts)}
    room = width + 1 - sum(max(map(len, (name, *texts))) + 1 for name, texts in shown.items())
    left_out = shown.pop(WON, None) if room < 0 else None
    table = Table(
        box=None,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        header_style="dim",
    )
    for name in shown:
        table.add_column(
            name,
            justify="left" if name in WORDS else "right",
            overflow="fold",
            no_wrap=name not in ("model", "against"),
        )
    for n, row in enumerate(pairs):
        table.add_row(
            *(
                Text(texts[n], style=STYLES.get(row.verdict, "") if name == "verdict" and not wins.failed else "")
                for name, texts in shown.items()
            )
        )
    chances = f"Chance to be the best: {text}. " if (text := chances_text(wins)) else ""
    title = Text(f"{QUESTION}, by {wins.by}: {outcome(wins)}", style="bold")
    more = f" {WON}: on the page." if left_out else ""
    more += f" {n_more:,} more pairs: on the page." if (n_more := len(wins.shown) - len(pairs)) else ""
    return Group(title, table, Text(f"{chances}{_note(wins, shown)}{more}", style="dim"))


def wins_html(panel: Panel) -> str:
    """For the page: the chances, and every pair; of many, neighbours and the best model against all."""
    wins = pairwise_wins(panel)
    if wins is None:
        return ""
    chosen = wins.pairs if len(wins.pairs) <= MOST_PAIRS else wins.shown
    pairs = _pairs_html(chosen, wins)
    if len(wins.models) > FEW:
        all_or_some = f"All {len(wins.pairs)} pairs"
        if len(chosen) < len(wins.pairs):
            all_or_some = f"{len(chosen):,} of {len(wins.pairs):,} pairs: neighbours, and the best model against all"
        pairs = f"<details><summary>{all_or_some}</summary>{pairs}</details>"
    if len(chosen) < len(wins.pairs):
        scheme = wins.scheme
        query = (
            f"SELECT * FROM comparisons WHERE estimator = '{scheme.estimator}' AND metric = '{scheme.metric.name}' "
            f"AND k = {scheme.metric.k} AND slice = 'all'"
        )
        pairs += left_out_html(f"{len(wins.pairs) - len(chosen):,} more pairs", query)
    return f"""<section>
<h2>{QUESTION}, by {escape(wins.name)}</h2>
<p class="conclusion">By {escape(wins.by)}, {escape(outcome(wins))}.</p>
{_chances_html(panel, wins)}
<h3>Pairs, the model that is ahead first</h3>
{pairs}
<p class="note">{escape(_note(wins, (TRULY, WON, NEEDED)))}</p>
</section>"""


def _chances_html(panel: Panel, wins: PairwiseWins) -> str:
    lines = []
    for model, chance in zip(wins.models, wins.chances, strict=True):
        width = f"{100 * chance:.1f}" if defined(chance) else "0"
        bar = (
            '<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
            f'<rect width="{width}" height="8"/></svg>'
        )
        value = value_text(panel.value(wins.scheme, model), wins.decimals)
        cells = f"<td>{value}</td><td>{escape(chance_text(chance))}</td><td>{bar}</td>"
        lines.append(f'<tr><th scope="row">{escape(model)}</th>{cells}</tr>')
    heads = "".join(f'<th scope="col">{name}</th>' for name in ("model", "value", "chance to be the best"))
    head = f"<thead><tr>{heads}<td></td></tr></thead>"
    return f'<div class="wide"><table class="chances">{head}<tbody>{"".join(lines)}</tbody></table></div>'


def _pairs_html(pairs: Sequence[ComparisonRow], wins: PairwiseWins) -> str:
    heads = "".join(f'<th scope="col">{name}</th>' for name in PAIR_COLUMNS)
    lines = "".join(_pair_html(row, wins) for row in pairs)
    return f'<div class="wide"><table class="pairs"><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table></div>'


def _pair_html(row: ComparisonRow, wins: PairwiseWins) -> str:
    true = wins.true_pair(row)
    verdict = f'<span class="{CLASSES.get(row.verdict, "")}">{escape(verdict_text(row))}</span>'
    numbers = [
        f"{value_text(row.difference, wins.decimals)}<small>{interval_text(row, wins.decimals)}</small>",
        verdict,
        f"{true_text(true, wins.decimals)}<small>{interval_text(true, wins.decimals)}</small>",
        escape(p_text(row.p)),
        escape(p_text(row.p_holm)),
    ]
    counts = [value_text(n, 0) if n is None else f"{n:,}" for n in (row.wins, row.ties, row.losses)]
    cells = "".join(f"<td>{text}</td>" for text in (*numbers, *counts, needed_text(row, wins.n_users)))
    return f'<tr><th scope="row">{escape(row.model_a)}</th><th scope="row">{escape(row.model_b)}</th>{cells}</tr>'


def _note(wins: PairwiseWins, columns: Collection[str]) -> str:
    """What the columns mean."""
    row, n = wins.pairs[0], len(wins.pairs)
    text = f"Paired over users, all {n} pairs considered (Holm)." if n > 1 else "Paired over users."
    if any(pair.verdict == "equivalent" for pair in wins.pairs) and row.margin is not None:
        text += f" Equivalent: neither is worse by more than {percent_text(row.margin)}."
    if TRULY in columns and wins.true_pairs:
        text += " Truly: the difference by the truth, paired over users; ? not beyond chance."
    if WON in columns and row.wins is not None:
        text += " Won, tied, lost: users shown a positive."
    if NEEDED in columns and any(needed_text(pair, wins.n_users) != UNDEFINED for pair in wins.pairs):
        power = f", with {percent_text(row.power)} power" if row.power else ""
        text += f" Needed: users (now {wins.n_users:,}) to decide that pair{power}."
    return text
