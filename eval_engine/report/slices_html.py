"""Slices on the page: for each slicing a picture (slices_svg.py) and a table of every value and model.

Of many contradictions those with the largest difference in the slice are told, of many models the best ones in the
whole have a column: a page of 60 models and 20 slicings would be 20 MB otherwise. What is left out is counted, with the
SQL that shows it.
"""

from collections.abc import Sequence
from html import escape

from eval_engine.report.cell import count_text, decimals_for, interval_text, percent_text, value_text
from eval_engine.report.left_out import left_out_html
from eval_engine.report.panel import Panel
from eval_engine.report.slices import SliceRow, Slicing, contradictions_text, slicings
from eval_engine.report.slices_block import FAMILY, LEGEND, best_text, slicing_title
from eval_engine.report.slices_svg import slices_svg

FOLDED = 20  # lines beyond which a table is folded
MOST_SENTENCES = 20  # contradictions in words, of a slicing
MOST_MODELS = 20  # columns of a table


def slices_html(panel: Panel, confidence: float) -> str:
    """The sections of all slicings; empty without slices."""
    return "\n".join(_section(slicing, confidence) for slicing in slicings(panel))


def _section(slicing: Slicing, confidence: float) -> str:
    texts = contradictions_text(slicing, MOST_SENTENCES)
    sentences = f"<ul>{''.join(f'<li>{escape(text)}</li>' for text in texts)}</ul>" if texts else ""
    if more := sum(len(row.contradictions) for row in slicing.rows) - len(texts):
        left_out = f"{more:,} more contradictions, with smaller differences in the slice"
        sentences += left_out_html(left_out, _query("comparisons", slicing))
    table = _table(slicing, confidence)
    if len(slicing.rows) > FOLDED:
        table = f"<details><summary>All {len(slicing.rows):,} values</summary>{table}</details>"
    n = len(slicing.contradicted)
    contradicted = (
        f"{n} of {len(slicing.rows):,} slices contradict the whole" if n else "No slice contradicts the whole"
    )
    return f"""<section>
<h2>{escape(slicing_title(slicing))}</h2>
<p class="conclusion">{contradicted} beyond chance.</p>
{sentences}
{slices_svg(slicing)}
{table}
<p class="note">{escape(LEGEND)}, {escape(FAMILY)}.</p>
</section>"""


def _query(table: str, slicing: Slicing) -> str:
    """The SQL that shows all rows of a slicing."""
    scheme = slicing.scheme
    return (
        f"SELECT * FROM {table} WHERE estimator = '{scheme.estimator}' AND metric = '{scheme.metric.name}' "
        f"AND k = {scheme.metric.k} AND slice LIKE '{slicing.name}=%'"
    )


def _table(slicing: Slicing, confidence: float) -> str:
    decimals = decimals_for(row.estimate(model) for row in (slicing.whole, *slicing.rows) for model in slicing.models)
    models = slicing.models[:MOST_MODELS]
    heads = "".join(f'<th scope="col">{escape(name)}</th>' for name in (slicing.name, "users", *models))
    lines = "".join(_line(row, models, decimals) for row in (slicing.whole, *slicing.rows))
    caption = f"Values, with {percent_text(confidence)} intervals below them"
    more = len(slicing.models) - len(models)
    left_out = left_out_html(f"{more:,} more models", _query("estimates", slicing)) if more else ""
    return (
        f'<div class="wide"><table class="numbers"><caption>{caption}</caption><thead><tr>{heads}</tr></thead>'
        f"<tbody>{lines}</tbody></table></div>{left_out}"
    )


def _line(row: SliceRow, models: Sequence[str], decimals: int) -> str:
    cells = "".join(_cell(row, model, decimals) for model in models)
    return f'<tr><th scope="row">{escape(row.value)}</th><td>{count_text(row.n_users)}</td>{cells}</tr>'


def _cell(row: SliceRow, model: str, decimals: int) -> str:
    shown = value_text(row.estimate(model), decimals)
    if model == row.best:
        shown = f"<strong>{shown}</strong>"
    marks = best_text(row, model)
    kind = "clear" if any(row.misplaced(model)) else "" if row.decided else "noise"
    mark = f' <span class="{kind}">{marks}</span>' if marks else ""
    return f"<td>{shown}{mark}<small>{interval_text(row.estimates.get(model), decimals)}</small></td>"
