"""What a study of [ure] found, in plain words made from its rows: where each curve peaks, who wins under each scheme, how many pairs are in the wrong order.

A model's place is 1 + the number of models with a higher value. A curve's K_max is the K' of its highest point, the middle one of several that are equally high.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from statistics import median
from typing import NamedTuple

from eval_engine.studies.settings import UreStudy
from eval_engine.studies.ure import FULL, SCHEMES, AgreementRow, Cell, StudyEstimate

LABELS = {"full": "truth", "traditional": "traditional", "ure_macro": "URE macro", "ure_micro": "URE micro"}
DEBIASED, HARD_NEGATIVES = "debiased", "hard negatives"  # groups of models
NEAR = 1.25  # a factor: a K_max within it is near the prediction


class Standing(NamedTuple):
    """A model under one scheme."""

    value: float | None
    place: int | None


class Peak(NamedTuple):
    """One curve: where it should be highest, where it is, and how high."""

    scheme: str
    exposures: int
    k: int
    predicted: float
    pearson: tuple[int, ...]  # K' of the highest points; none where it is undefined
    kendall: tuple[int, ...]
    highest_pearson: float | None
    highest_kendall: float | None
    expected_pearson: float | None  # at the K' nearest to where it should be highest, by ratio
    expected_kendall: float | None
    reason: str | None  # why it is nowhere defined


class Study(NamedTuple):
    """All that a report of the study needs."""

    settings: UreStudy
    candidates: float  # N, mean over users
    estimates: Sequence[StudyEstimate]
    agreement: Sequence[AgreementRow]
    groups: Mapping[str, str]  # of models: debiased, hard negatives or neither; "" or missing where nobody told

    def shown(self, scheme: str) -> Cell:
        """The scheme's cell in the table of models."""
        show = self.settings.show
        return Cell(
            scheme,
            None if scheme == FULL else show.exposures,
            show.traditional if scheme == "traditional" else show.ure,
        )

    def name(self, cell: Cell) -> str:
        """The cell in words."""
        return f"{'true' if cell.scheme == FULL else LABELS[cell.scheme]} recall@{cell.k}"


def standings(study: Study, cell: Cell) -> dict[str, Standing]:
    """Every model under one scheme."""
    values = {row.model: row.value for row in study.estimates if Cell(*row[1:4]) == cell}
    known = [value for value in values.values() if value is not None]
    return {
        m: Standing(v, None if v is None else 1 + sum(other > v for other in known)) for m, v in sorted(values.items())
    }


def by_truth(study: Study) -> list[str]:
    """The models, truly best first."""
    found = standings(study, study.shown(FULL))
    return sorted(found, key=lambda model: (found[model].place or len(found) + 1, model))


def peaks(rows: Iterable[AgreementRow]) -> list[Peak]:
    """Where every curve is highest."""
    found = []
    for (scheme, exposures, k), of in groupby(
        sorted(rows, key=lambda r: (SCHEMES.index(r.scheme), *r[1:4])), key=lambda r: r[:3]
    ):
        curve = list(of)
        nearest = min(curve, key=lambda r: abs(math.log(r.truth_k / r.predicted_k)))
        pearson, kendall = ([r for r in curve if r.pearson_max], [r for r in curve if r.kendall_max])
        found.append(
            Peak(
                scheme, exposures, k, curve[0].predicted_k, tuple(r.truth_k for r in pearson), tuple(r.truth_k for r in kendall),
                pearson[0].pearson if pearson else None, kendall[0].kendall if kendall else None, nearest.pearson, nearest.kendall, None if pearson else curve[0].reason,
            )
        )  # fmt: skip
    return found


def wrong_pairs(study: Study, cell: Cell) -> tuple[int, int]:
    """Pairs of models that the scheme orders unlike the truth at the shown cutoff, and all pairs."""
    row = next(
        r for r in study.agreement if Cell(r.scheme, r.exposures, r.k) == cell and r.truth_k == study.settings.show.ure
    )
    return row.n_flipped, row.n_models * (row.n_models - 1) // 2


def truly_better(study: Study, cell: Cell, model: str) -> list[str]:
    """The models that the scheme puts below this one, and the truth above."""
    scheme, truth = standings(study, cell), standings(study, study.shown(FULL))
    own, true = scheme[model].value, truth[model].value
    return [
        other for other in scheme
        if own is not None and true is not None and (scheme[other].value or own) < own and (truth[other].value or true) > true
    ]  # fmt: skip


def winner(study: Study, cell: Cell) -> str | None:
    """The model that the scheme puts first; None if none has a value."""
    return next((model for model, standing in standings(study, cell).items() if standing.place == 1), None)


def trap(study: Study) -> str | None:
    """The model that the traditional scheme puts highest of those with hard negatives, if it is wrongly above a debiased one; else the scheme's first."""
    own = standings(study, study.shown("traditional"))
    hard = [model for model, standing in own.items() if study.groups.get(model) == HARD_NEGATIVES and standing.place]
    best = min(hard, key=lambda model: own[model].place or 0, default=None)
    return best if best and _wrongly_below(study, best) else winner(study, study.shown("traditional"))


def _wrongly_below(study: Study, model: str) -> list[str]:
    """The debiased models that are truly better than this one, and below it under the traditional scheme."""
    return [
        other for other in truly_better(study, study.shown("traditional"), model) if study.groups.get(other) == DEBIASED
    ]


def headline(study: Study) -> str:
    """What the traditional scheme gets wrong: hard negatives above debiasing, or who is first."""
    cell, model = study.shown("traditional"), trap(study)
    if model is None:
        return f"No model has a value of {study.name(cell)}"
    if study.groups.get(model) == HARD_NEGATIVES and (below := _wrongly_below(study, model)):
        names = ", ".join(below) if len(below) <= 4 else f"{len(below)} debiased models"
        return f"{_capital(study.name(cell))} of {cell.exposures} exposures puts {model}, hard negatives and no debiasing, above {names}: truly it is below"
    return _first_sentence(study).removesuffix(".")


def _first_sentence(study: Study) -> str:
    cell, truth = study.shown("traditional"), standings(study, study.shown(FULL))
    first = winner(study, cell)
    if first is None:
        return f"No model has a value of {study.name(cell)}."
    place, n = truth[first].place, sum(s.place is not None for s in truth.values())
    stands = (
        "has no true recall"
        if place is None
        else "is truly the best too"
        if place == 1
        else f"is truly {ordinal(place)} of {n}"
    )
    return f"{_capital(study.name(cell))} of {cell.exposures} exposures puts {first}{_group(study, first)} first; it {stands} by recall@{study.settings.show.ure}."


def sentences(study: Study) -> list[str]:
    """What the study shows, a few sentences."""
    found = [_first_sentence(study), *_picks(study), _pairs_sentence(study)]
    curves = peaks(study.agreement)
    found.append(
        _peak_sentence(
            curves,
            "traditional",
            "The traditional scheme",
            f"Theorem 1's K = Kbar N / e (N = {study.candidates:.0f} candidates a user)",
        )
    )
    found += [_peak_sentence(curves, scheme, LABELS[scheme], "its own K") for scheme in ("ure_macro", "ure_micro")]
    return [text for text in [*found, _difference_sentence(study)] if text]


def _picks(study: Study) -> list[str]:
    truth = standings(study, study.shown(FULL))
    found, first = [], winner(study, study.shown("traditional"))
    if first is not None and (better := truly_better(study, study.shown("traditional"), first)):
        corrected = sum(study.groups.get(model) == DEBIASED for model in better)
        told = f", {corrected} of them debiased" if corrected else ""
        found.append(
            f"{len(better)} {'model is' if len(better) == 1 else 'models are'} truly better than {first} and placed below it{told}."
        )
    found += _hard_negatives(study)
    places = [
        (scheme, pick, truth[pick].place)
        for scheme in ("ure_macro", "ure_micro")
        if (pick := winner(study, study.shown(scheme)))
    ]
    told = "; ".join(f"{LABELS[s]} puts {pick} first, truly {ordinal(place)}" for s, pick, place in places if place)
    return [*found, f"From the same exposures {told}."] if told else found


def _hard_negatives(study: Study) -> list[str]:
    """Hard negatives against debiasing, under the traditional scheme."""
    model, own = trap(study), standings(study, study.shown("traditional"))
    if model is None or study.groups.get(model) != HARD_NEGATIVES:
        return []
    below, place = _wrongly_below(study, model), ordinal(own[model].place or 0)
    told = (
        f"{len(below)} debiased {'model that is' if len(below) == 1 else 'models that are'} truly better ({', '.join(below)})"
        if below
        else "no debiased model that is truly better"
    )
    return [
        f"Of models with hard negatives, which are no debiasing, {model} stands highest under the traditional scheme, {place}: above {told}."
    ]


def _pairs_sentence(study: Study) -> str:
    counts = {scheme: wrong_pairs(study, study.shown(scheme)) for scheme in SCHEMES}
    told = ", ".join(f"{LABELS[scheme]} {wrong}" for scheme, (wrong, _) in counts.items())
    show = study.settings.show
    fewest = [_fewest(study, scheme) for scheme in SCHEMES]
    least = ", ".join(f"{LABELS[cell.scheme]} {wrong} (at {cell.k})" for cell, wrong in filter(None, fewest))
    return (
        f"Pairs of models in the wrong order, of {counts['traditional'][1]}, by true recall@{show.ure} with {show.exposures} exposures: {told}; "
        f"fewest over the cutoffs of each: {least or 'undefined'}."
    )


def _fewest(study: Study, scheme: str) -> tuple[Cell, int] | None:
    """The cutoff of the scheme that has fewest pairs in the wrong order, of those that tell models apart."""
    told = [
        p
        for p in peaks(study.agreement)
        if (p.scheme, p.exposures) == (scheme, study.settings.show.exposures) and p.reason is None
    ]
    found = [(cell, wrong_pairs(study, cell)[0]) for cell in (Cell(p.scheme, p.exposures, p.k) for p in told)]
    return min(found, key=lambda one: one[1], default=None)


def _peak_sentence(curves: list[Peak], scheme: str, name: str, where: str) -> str:
    parts, near = [], []
    for measure in ("pearson", "kendall"):
        own = [p for p in curves if p.scheme == scheme and getattr(p, measure)]
        if not own:
            return f"{name}: no curve is defined."
        ratios = [median(getattr(p, measure)) / p.predicted for p in own]
        near.append(1 / NEAR <= median(ratios) <= NEAR)
        lost = [
            getattr(p, f"highest_{measure}") - there
            for p in own
            if (there := getattr(p, f"expected_{measure}")) is not None
        ]
        parts.append(
            f"by {measure.capitalize()} K_max / K is {median(ratios):.2f} in the median of {len(ratios)} curves ({min(ratios):.2f} to {max(ratios):.2f}), "
            f"and at K itself the curves are {median(lost):.3f} below their highest in the median, {max(lost):.3f} at most"
        )
    verdict = "near" if all(near) else "not near" if not any(near) else "by one of the two measures near"
    return f"{name} agrees best with the truth {verdict} {where}: {'; '.join(parts)}."


def _difference_sentence(study: Study) -> str:
    truth = standings(study, study.shown(FULL))
    told = []
    for scheme in ("ure_macro", "ure_micro"):
        own = standings(study, study.shown(scheme))
        both = [
            (s.value, t) for model, s in own.items() if s.value is not None and (t := truth[model].value) is not None
        ]
        if total := sum(t for _, t in both):
            share = sum(s for s, _ in both) / total - 1
            told.append(f"{LABELS[scheme]} {abs(share):.0%} {'below' if share < 0 else 'above'}")
    if not told:
        return ""
    return (
        f"On average over models, {' and '.join(told)} true recall@{study.settings.show.ure}, which is a plain mean over users: users with many positives weigh more in both. "
        "Here the order of models is what is held against the truth."
    )


def ordinal(n: int) -> str:
    """1st, 2nd, 3rd, 4th.

    >>> [ordinal(n) for n in (1, 2, 3, 11, 12, 22, 103)]
    ['1st', '2nd', '3rd', '11th', '12th', '22nd', '103rd']
    """
    ending = "th" if n % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n}{ending}"


def _group(study: Study, model: str) -> str:
    group = study.groups.get(model)
    return f" ({group})" if group else ""


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
