"""The study of designed exposures as tables: on the terminal, and on a self-contained HTML page."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.text import Text

from eval_engine.report.sheet import Sheet, print_sheets, save_sheets
from eval_engine.report.study_tables import UNDEFINED
from eval_engine.studies.design import ESTIMATES, PLANS, UNIFORM, Line
from eval_engine.studies.settings import DesignCase, DesignStudy

AIM = (0.93, 0.97)  # of what 95 % intervals cover
PLAN_NAMES = {
    UNIFORM: "uniform",
    "half": "half in arm U",
    "fifth": "a fifth in arm U",
    "pair": "the pair, a fifth in arm U",
}


def case_of(line: Line) -> DesignCase:
    """The case that a row is of."""
    return DesignCase(**{name: getattr(line, name) for name in DesignCase.model_fields})


def name_of(case: DesignCase, base: DesignCase) -> str:
    """What differs from the base.

    >>> name_of(DesignCase(k=5), DesignCase()), name_of(DesignCase(), DesignCase())
    ('K = 5', 'base')
    """
    words = {"items": "N", "models": "M", "apart": "apart", "exposures": "e", "k": "K"}
    values = case.model_dump()
    differs = [f"{words[name]} = {values[name]:g}" for name, own in base.model_dump().items() if own != values[name]]
    return ", ".join(differs) or "base"


def sheets(study: DesignStudy, lines: Sequence[Line]) -> list[Sheet]:
    """Every table of the study."""
    return [_gains(study, lines), _coverage(study, lines)]


def headline(lines: Sequence[Line]) -> str:
    """How far the rule is from what was measured."""
    ratios = [line.gain / line.predicted_gain for line in lines if _ruled(line)]  # type: ignore[operator]
    gains = [line.gain for line in lines if _ruled(line) and line.gain is not None]
    if not ratios:
        return "No gain is defined"
    low, middle, high = np.quantile(ratios, [0.25, 0.5, 0.75])
    return (
        f"Plans need {min(gains):.1f} to {max(gains):.0f} times fewer users than uniform exposure: "
        f"{middle:.2f} times what the rule says in the median, half of them {low:.2f} to {high:.2f} times"
    )


def print_design(study: DesignStudy, lines: Sequence[Line], console: Console) -> None:
    """Print the tables."""
    print_sheets(sheets(study, lines), console)
    console.print(Text(headline(lines), style="bold"))


def save_design_page(
    study: DesignStudy, lines: Sequence[Line], pictures: Mapping[str, Path], run_facts: Mapping[str, str], path: Path
) -> Path:
    """Write the page; pictures: PNG files to embed, by what they show."""
    return save_sheets(headline(lines), sheets(study, lines), pictures, run_facts, path)


def _ruled(line: Line) -> bool:
    """Whether the rule says something of this row."""
    return not line.known_sizes and line.predicted_gain is not None and line.gain is not None


def _gains(study: DesignStudy, lines: Sequence[Line]) -> Sheet:
    found = {(case_of(line), line.plan, line.metric, line.known_sizes): line for line in lines}
    texts = []
    for case in dict.fromkeys(case for case, *_ in found):
        for way in (UNIFORM, *PLANS):
            own = [found.get((case, way, *one)) for one in ESTIMATES]
            rule = own[0].predicted_gain if own[0] else None
            name = name_of(case, study.base) if way == UNIFORM else ""
            texts.append((name, way, _number(rule), *(_number(x.gain if x else None) for x in own)))
    base = study.base
    note = (
        f"Base: N = {base.items:,}, M = {base.models}, apart {base.apart:g}, e = {base.exposures}, K = {base.k}; "
        f"{study.draws:,} draws of {study.users:,} users, so that a gain is known to about "
        f"{2 * (1 / (study.draws - 1)) ** 0.5:.0%} (one standard error)."
    )
    heads = ("case", "plan", "rule", *(f"{metric}{', known sizes' if known else ''}" for metric, known in ESTIMATES))
    return Sheet(
        "Times fewer users for the difference of two close models than uniform exposure takes", heads, texts, note
    )


def _coverage(study: DesignStudy, lines: Sequence[Line]) -> Sheet:
    texts = []
    for way in (UNIFORM, *PLANS):
        for metric in ("recall", "precision"):
            for known in (False, True):
                own = [x for x in lines if (x.plan, x.metric, x.known_sizes) == (way, metric, known)]
                covered = [x.coverage for x in own if x.coverage is not None]
                ratios = [x.se_ratio for x in own if x.se_ratio is not None]
                if not own:
                    continue
                out = sum(not AIM[0] <= x <= AIM[1] for x in covered)
                undefined = sum(x.n_undefined for x in own)
                texts.append(
                    (
                        f"{way}, {metric}{', known sizes' if known else ''}",
                        _range(covered, 100, 1), str(out), _range(ratios, 1, 2), f"{undefined:,}",
                    )
                )  # fmt: skip
    heads = ("way, estimate", "covered, %", "cases outside 93 to 97 %", "standard error over spread", "draws without")
    chance = 1.96 * (0.05 * 0.95 / study.draws) ** 0.5
    note = f"Of {study.draws:,} draws: 95 % is known to ± {chance:.1%}."
    return Sheet("What nominal 95 % intervals of the difference cover, over all cases", heads, texts, note)


def _range(values: Sequence[float], scale: float, digits: int) -> str:
    return f"{scale * min(values):.{digits}f} to {scale * max(values):.{digits}f}" if values else UNDEFINED


def _number(x: float | None, digits: int = 1) -> str:
    return UNDEFINED if x is None else f"{x:.{digits}f}"
