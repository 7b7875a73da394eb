"""The report as one self-contained HTML page: no script, nothing loaded from anywhere, the picture inside.

First the checks that did not pass; then the verdict by each metric, the picture of the first, and all numbers. Every
text that comes from outside (model names, estimands, run facts, checks) is escaped, what is not printable too. The page
follows the reader's light or dark setting.
"""

import base64
from collections.abc import Mapping
from html import escape
from pathlib import Path
from string import Template

from eval_engine.plain_text import plain
from eval_engine.report.answers import Answers
from eval_engine.report.cell import (
    UNDEFINED,
    best_value,
    count_text,
    digits,
    interval_text,
    mark_text,
    percent_text,
    reasons,
    ties_text,
    value_text,
)
from eval_engine.report.finding import BY_METRIC, certainty, conclusion, headline, verdicts
from eval_engine.report.orders import Agreement, agreements, in_clear_flip, misplaced, order
from eval_engine.report.panel import TRUTHS, Panel, Scheme, panels
from eval_engine.report.quality_block import checks_html, notices_html
from eval_engine.report.wins_block import wins_html
from eval_engine.storage.atomic_file import write_atomically

PAGE = Template(Path(__file__).with_name("page.html").read_text(encoding="utf-8"))


def save_html(
    answers: Answers,
    run_facts: Mapping[str, object],
    picture: str | Path | None,
    path: str | Path,
    settings: Mapping[str, object] | None = None,
) -> Path:
    """Write the page; picture: a PNG to embed, or None; settings: what a reader must know of the run, by name."""
    found = panels(answers)
    content = PAGE.substitute(
        title=escape(headline(found[0]) if found else "No estimates"),
        heading=escape(_heading(found)),
        settings=_settings(settings or {}),
        notices=notices_html(answers.checks),
        verdicts=_verdicts(found),
        picture=_picture(Path(picture), found)
        if picture is not None
        else "".join(f'<p class="lead">{escape(headline(p))}</p>' for p in found[:1]),
        sections="\n".join(wins_html(panel) + _section(panel, answers.confidence) for panel in found)
        or "<p>There are no estimates to report.</p>",
        facts=checks_html(answers.checks) + _facts(run_facts),
    )
    return write_atomically(content.encode(), path)


def _heading(found: list[Panel]) -> str:
    n = len({model for panel in found for model in panel.models})
    return (
        f"{n} {'model' if n == 1 else 'models'}, {', '.join(str(panel.target) for panel in found)}"
        if found
        else "No estimates"
    )


def _settings(settings: Mapping[str, object]) -> str:
    """Name and value of each, on a line."""
    pairs = "".join(
        f"<div><dt>{escape(plain(name))}</dt><dd>{escape(plain(value))}</dd></div>" for name, value in settings.items()
    )
    return f'<dl class="settings">{pairs}</dl>' if pairs else ""


def _verdicts(found: list[Panel]) -> str:
    lines = "".join(
        f'<tr><th scope="row">{escape(metric)}</th><td>{escape(told)}</td></tr>' for metric, told in verdicts(found)
    )
    table = f'<div class="wide"><table class="verdicts"><tbody>{lines}</tbody></table></div>'
    return f"<section><h2>{BY_METRIC}</h2>{table}</section>" if lines else ""


def _picture(file: Path, found: list[Panel]) -> str:
    data = base64.b64encode(file.read_bytes()).decode("ascii")
    text = escape(conclusion(found[0])) if found else ""
    return f'<figure><img src="data:image/png;base64,{data}" alt="{text}"></figure>'


def _section(panel: Panel, confidence: float) -> str:
    held = {a.scheme: a for a in agreements(panel)}
    judge = "the truth" if panel.has_truth else "URE"
    note = f"▲n ▼n: the scheme puts the model above, below n models that {judge} puts the other way round; hollow marks (△▽): may be noise."
    return f"""<section>
<h2>{escape(str(panel.target))}</h2>
<p class="conclusion">{escape(conclusion(panel))}</p>
{_estimates(panel, held, confidence)}
<p class="note">{f"{note} {certainty(held.values())}" if any(a.flips for a in held.values()) else ""}</p>
{"".join(f'<p class="note">{escape(line)}</p>' for line in reasons(panel))}
<h3>The order each scheme gives, best first</h3>
{_orders(panel, held)}
<h3>What each number is, and the users it rests on</h3>
{_estimands(panel)}
</section>"""


def _estimates(panel: Panel, held: Mapping[Scheme, Agreement], confidence: float) -> str:
    heads = "".join(
        f'<th scope="col">{escape(s.label)}<small>{escape(str(s.metric))}</small></th>' for s in panel.schemes
    )
    lines = []
    for model in panel.models:
        cells = "".join(_cell(panel, scheme, model, held.get(scheme)) for scheme in panel.schemes)
        lines.append(f'<tr><th scope="row">{escape(model)}</th>{cells}</tr>')
    ties = (
        "; ties: with equal scores ordered against and for the model"
        if any("<small>ties" in line for line in lines)
        else ""
    )
    caption = f"Values, with {percent_text(confidence)} intervals below them{ties}"
    return (
        f'<div class="wide"><table class="numbers"><caption>{caption}</caption><thead><tr><th scope="col">model</th>{heads}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def _cell(panel: Panel, scheme: Scheme, model: str, held: Agreement | None) -> str:
    decimals, value = digits(panel, scheme), panel.value(scheme, model)
    shown = value_text(value, decimals)
    if value is not None and value == best_value(panel, scheme):
        shown = f"<strong>{shown}</strong>"
    mark = (
        f' <span class="{_mark_class(held, model)}">{mark_text(held, model)}</span>'
        if held and model in misplaced(held)
        else ""
    )
    row = panel.rows.get((scheme, model))
    ties = f"<small>ties {text}</small>" if (text := ties_text(row, decimals)) else ""
    return f"<td>{shown}{mark}<small>{interval_text(row, decimals)}</small>{ties}</td>"


def _mark_class(held: Agreement, model: str) -> str:
    return "clear" if in_clear_flip(held, model) else "noise"


def _orders(panel: Panel, held: Mapping[Scheme, Agreement]) -> str:
    lines = []
    for scheme in panel.schemes:
        lines.append(
            f'<tr><th scope="row">{escape(scheme.name)}</th><td>{_arrows(panel, scheme, held.get(scheme))}</td><td>{_verdict(held.get(scheme))}</td></tr>'
        )
    return f'<div class="wide"><table><tbody>{"".join(lines)}</tbody></table></div>'


def _arrows(panel: Panel, scheme: Scheme, held: Agreement | None) -> str:
    given, wrong = order(panel, scheme), misplaced(held) if held else {}
    shown = {
        m: f'<span class="{_mark_class(held, m)}">{escape(m)}</span>' if held and m in wrong else escape(m)
        for m in panel.models
    }
    text = " → ".join(" = ".join(shown[model] for model in group) for group in given.groups)
    undefined = f"undefined: {', '.join(shown[model] for model in given.undefined)}" if given.undefined else ""
    return "; ".join(part for part in (text, undefined) if part)


def _verdict(held: Agreement | None) -> str:
    if held is None or held.n_pairs == 0:
        return ""
    against, judge = (
        f"of {held.n_pairs} pairs",
        "the truth" if held.reference.estimator in TRUTHS else held.reference.label,
    )
    if held.flips:
        return f"{len(held.flips)} {against} unlike {judge}, {sum(f.clear for f in held.flips)} of them clear"
    return f"{len(held.undecided)} {against} tied or undefined" if held.undecided else f"same as {judge}"


def _estimands(panel: Panel) -> str:
    lines = []
    for scheme in panel.schemes:
        rows = [panel.rows[scheme, model] for model in panel.models if (scheme, model) in panel.rows]
        facts = dict.fromkeys(
            (
                r.estimand or UNDEFINED,
                count_text(r.n_users),
                count_text(r.n_left_out),
                r.left_out if r.n_left_out else "",
            )
            for r in rows
        )
        lines += [
            f'<tr><th scope="row">{escape(scheme.name)}</th><td>{escape(what)}</td><td>{n}</td><td>{out}</td><td>{escape(whom or "")}</td></tr>'
            for what, n, out, whom in facts
        ]
    head = '<thead><tr><th scope="col">number</th><th scope="col">is an estimate of</th><th scope="col">users</th><th scope="col">left out</th><th scope="col">whom</th></tr></thead>'
    return f'<div class="wide"><table class="estimands">{head}<tbody>{"".join(lines)}</tbody></table></div>'


def _facts(run_facts: Mapping[str, object]) -> str:
    if not run_facts:
        return ""
    lines = "".join(
        f'<tr><th scope="row">{escape(plain(name))}</th><td>{escape(plain(fact))}</td></tr>'
        for name, fact in run_facts.items()
    )
    return f'<section><h2>The run</h2><div class="wide"><table><tbody>{lines}</tbody></table></div></section>'
