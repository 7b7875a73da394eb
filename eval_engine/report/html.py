"""The report as one self-contained HTML page: no script, nothing loaded from anywhere, the pictures inside.

First the checks that did not pass; then the verdict by each metric, the picture of the first, and all numbers, those of
slices last. Every text that comes from outside (names of models and slices, estimands, run facts, checks) is escaped;
what is not printable is shown as its escape. The page follows the reader's light or dark setting.
"""

import base64
from collections.abc import Mapping
from html import escape
from pathlib import Path
from string import Template

from eval_engine.plain_text import plain
from eval_engine.report.agreement_block import agreement_html
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
from eval_engine.report.panel import Panel, panels
from eval_engine.report.quality_block import checks_html, notices_html
from eval_engine.report.reversals_block import reversals_html
from eval_engine.report.scheme import Scheme
from eval_engine.report.slices_html import slices_html
from eval_engine.report.wins_block import wins_html
from eval_engine.storage.atomic_file import write_atomically

PAGE = Template(Path(__file__).with_name("page.html").read_text(encoding="utf-8"))


def save_html(
    answers: Answers,
    run_facts: Mapping[str, object],
    picture: str | Path | None,
    path: str | Path,
    settings: Mapping[str, object] | None = None,
    more: str = "",
) -> Path:
    """Write the page; picture: a PNG to embed, or None; settings: the choices that the numbers follow from, by name;
    more: further sections.
    """
    every = panels(answers)
    lead = f'<p class="lead">{escape(headline(every[0]))}</p>' if every else ""
    sections = [wins_html(panel) + _section(panel, answers.confidence) for panel in every]
    sections += [agreement_html(answers)] if every else []
    sections += [slices_html(panel, answers.confidence) for panel in every]
    sections += [reversals_html(answers)] if every else []
    sections += [more] if more else []
    content = PAGE.substitute(
        title=escape(headline(every[0]) if every else "No estimates"),
        heading=escape(_heading(every)),
        settings=_settings(settings or {}),
        notices=notices_html(answers.checks),
        verdicts=_verdicts(every),
        picture=lead if picture is None else _picture(Path(picture), every),
        sections="\n".join(sections) or "<p>There are no estimates to report.</p>",
        facts=checks_html(answers.checks) + _facts(run_facts),
    )
    return write_atomically(content.encode(), path)


def _heading(every: list[Panel]) -> str:
    n = len({model for panel in every for model in panel.models})
    targets = ", ".join(str(panel.target) for panel in every)
    return f"{n} {'model' if n == 1 else 'models'}, {targets}" if every else "No estimates"


def _settings(settings: Mapping[str, object]) -> str:
    """Name and value of each, on a line."""
    pairs = "".join(
        f"<div><dt>{escape(plain(name))}</dt><dd>{escape(plain(value))}</dd></div>" for name, value in settings.items()
    )
    return f'<dl class="settings">{pairs}</dl>' if pairs else ""


def _verdicts(every: list[Panel]) -> str:
    lines = "".join(
        f'<tr><th scope="row">{escape(metric)}</th><td>{escape(sentence)}</td></tr>'
        for metric, sentence in verdicts(every)
    )
    table = f'<div class="wide"><table class="verdicts"><tbody>{lines}</tbody></table></div>'
    return f"<section><h2>{BY_METRIC}</h2>{table}</section>" if lines else ""


def _picture(file: Path, every: list[Panel]) -> str:
    data = base64.b64encode(file.read_bytes()).decode("ascii")
    text = escape(conclusion(every[0])) if every else ""
    return f'<figure><img src="data:image/png;base64,{data}" alt="{text}"></figure>'


def _section(panel: Panel, confidence: float) -> str:
    compared = {a.scheme: a for a in agreements(panel)}
    note = (
        f"▲n ▼n: the scheme puts the model above, below n models that {escape(panel.judge)} puts the other way round; "
        f"hollow marks (△▽): may be noise. {certainty(compared.values())}"
    )
    return f"""<section>
<h2>{escape(str(panel.target))}</h2>
<p class="conclusion">{escape(conclusion(panel))}</p>
{_estimates(panel, compared, confidence)}
<p class="note">{note if any(a.flips for a in compared.values()) else ""}</p>
{"".join(f'<p class="note">{escape(line)}</p>' for line in reasons(panel))}
{_orders(panel, compared) if panel.judges else ""}
<h3>What each number is, and the users it rests on</h3>
{_estimands(panel)}
</section>"""


def _estimates(panel: Panel, compared: Mapping[Scheme, Agreement], confidence: float) -> str:
    heads = "".join(
        f'<th scope="col">{escape(s.label)}<small>{escape(str(s.metric))}</small></th>' for s in panel.schemes
    )
    lines = []
    for model in panel.models:
        cells = "".join(_cell(panel, scheme, model, compared.get(scheme)) for scheme in panel.schemes)
        lines.append(f'<tr><th scope="row">{escape(model)}</th>{cells}</tr>')
    tied = any("<small>ties" in line for line in lines)
    ties = "; ties: with equal scores ordered against and for the model" if tied else ""
    caption = f"Values, with {percent_text(confidence)} intervals below them{ties}"
    return (
        f'<div class="wide"><table class="numbers"><caption>{caption}</caption>'
        f'<thead><tr><th scope="col">model</th>{heads}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>'
    )


def _cell(panel: Panel, scheme: Scheme, model: str, compared: Agreement | None) -> str:
    decimals, value = digits(panel, scheme), panel.value(scheme, model)
    shown = value_text(value, decimals)
    if value is not None and value == best_value(panel, scheme):
        shown = f"<strong>{shown}</strong>"
    mark = (
        f' <span class="{_mark_class(compared, model)}">{mark_text(compared, model)}</span>'
        if compared and model in misplaced(compared)
        else ""
    )
    row = panel.rows.get((scheme, model))
    ties = f"<small>ties {text}</small>" if (text := ties_text(row, decimals)) else ""
    return f"<td>{shown}{mark}<small>{interval_text(row, decimals)}</small>{ties}</td>"


def _mark_class(compared: Agreement, model: str) -> str:
    return "clear" if in_clear_flip(compared, model) else "noise"


def _orders(panel: Panel, compared: Mapping[Scheme, Agreement]) -> str:
    lines = []
    for scheme in panel.schemes:
        agreement = compared.get(scheme)
        cells = f"<td>{_arrows(panel, scheme, agreement)}</td><td>{_verdict(panel, agreement)}</td>"
        lines.append(f'<tr><th scope="row">{escape(scheme.name)}</th>{cells}</tr>')
    table = f'<div class="wide"><table><tbody>{"".join(lines)}</tbody></table></div>'
    return f"<h3>The order each scheme gives, best first</h3>\n{table}"


def _arrows(panel: Panel, scheme: Scheme, compared: Agreement | None) -> str:
    given, wrong = order(panel, scheme), misplaced(compared) if compared else {}
    shown = {
        m: f'<span class="{_mark_class(compared, m)}">{escape(m)}</span>' if compared and m in wrong else escape(m)
        for m in panel.models
    }
    text = " → ".join(" = ".join(shown[model] for model in group) for group in given.groups)
    undefined = f"undefined: {', '.join(shown[model] for model in given.undefined)}" if given.undefined else ""
    return "; ".join(part for part in (text, undefined) if part)


def _verdict(panel: Panel, compared: Agreement | None) -> str:
    if compared is None or compared.n_pairs == 0:
        return ""
    pairs, judge = f"of {compared.n_pairs} pairs", escape(panel.judge)
    if compared.flips:
        n_clear = sum(f.clear for f in compared.flips)
        return f"{len(compared.flips)} {pairs} unlike {judge}, {n_clear} of them clear"
    return f"{len(compared.undecided)} {pairs} tied or undefined" if compared.undecided else f"same as {judge}"


def _estimands(panel: Panel) -> str:
    lines = []
    for scheme in panel.schemes:
        rows = [panel.rows[scheme, model] for model in panel.models if (scheme, model) in panel.rows]
        users = dict.fromkeys(
            (
                r.estimand or UNDEFINED,
                count_text(r.n_users),
                count_text(r.n_left_out),
                r.left_out if r.n_left_out else "",
            )
            for r in rows
        )
        lines += [
            f'<tr><th scope="row">{escape(scheme.name)}</th><td>{escape(estimand)}</td><td>{used}</td>'
            f"<td>{left_out}</td><td>{escape(words or '')}</td></tr>"
            for estimand, used, left_out, words in users
        ]
    names = ("number", "is an estimate of", "users", "left out", "users left out")
    head = "".join(f'<th scope="col">{name}</th>' for name in names)
    table = f'<table class="estimands"><thead><tr>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table>'
    return f'<div class="wide">{table}</div>'


def _facts(run_facts: Mapping[str, object]) -> str:
    if not run_facts:
        return ""
    lines = "".join(
        f'<tr><th scope="row">{escape(plain(name))}</th><td>{escape(plain(fact))}</td></tr>'
        for name, fact in run_facts.items()
    )
    return f'<section><h2>The run</h2><div class="wide"><table><tbody>{lines}</tbody></table></div></section>'
