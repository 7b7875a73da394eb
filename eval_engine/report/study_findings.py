"""What a study of [ure] shows, in plain words made from its rows.

Where each curve peaks, which model is first under each scheme, how many pairs of models are in the wrong order. A
model's place is 1 + the number of models with a higher value. A curve's K_max is the K' of its highest point, the
middle one of several that are equally high.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from statistics import median
from typing import NamedTuple

from eval_engine.estimators.registry import ESTIMATORS
from eval_engine.studies.settings import UreStudy
from eval_engine.studies.ure import FULL, SCHEMES, AgreementRow, Cell, StudyEstimate

LABELS = {FULL: "truth"} | {scheme: ESTIMATORS[scheme].label_of("recall") for scheme in SCHEMES}
(TRADITIONAL,) = (scheme for scheme in SCHEMES if ESTIMATORS[scheme].role == "naive")  # recall@Kbar of Theorem 1
ESTIMATES = tuple(scheme for scheme in SCHEMES if ESTIMATORS[scheme].role == "estimate")
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
    groups: Mapping[str, str]  # of models: debiased, hard negatives or neither; "" or missing: unknown

    def shown(self, scheme: str) -> Cell:
        """The scheme's cell in the table of models."""
        show = self.settings.show
        return Cell(
            scheme,
            None if scheme == FULL else show.exposures,
            show.traditional if scheme == TRADITIONAL else show.ure,
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
    truth = standings(study, study.shown(FULL))
    return sorted(truth, key=lambda model: (truth[model].place or len(truth) + 1, model))


def peaks(rows: Iterable[AgreementRow]) -> list[Peak]:
    """Where every curve is highest."""
    highest = []
    for (scheme, exposures, k), of in groupby(
        sorted(rows, key=lambda r: (SCHEMES.index(r.scheme), *r[1:4])), key=lambda r: r[:3]
    ):
        curve = list(of)
        nearest = min(curve, key=lambda r: abs(math.log(r.truth_k / r.predicted_k)))
        pearson, kendall = ([r for r in curve if r.pearson_max], [r for r in curve if r.kendall_max])
        highest.append(
            Peak(
                scheme=scheme,
                exposures=exposures,
                k=k,
                predicted=curve[0].predicted_k,
                pearson=tuple(r.truth_k for r in pearson),
                kendall=tuple(r.truth_k for r in kendall),
                highest_pearson=pearson[0].pearson if pearson else None,
                highest_kendall=kendall[0].kendall if kendall else None,
                expected_pearson=nearest.pearson,
                expected_kendall=nearest.kendall,
                reason=None if pearson else curve[0].reason,
            )
        )
    return highest


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
    if own is None or true is None:
        return []
    return [m for m in scheme if (scheme[m].value or own) < own and (truth[m].value or true) > true]


def winner(study: Study, cell: Cell) -> str | None:
    """The model that the scheme puts first; None if none has a value."""
    return next((model for model, standing in standings(study, cell).items() if standing.place == 1), None)


def trap(study: Study) -> str | None:
    """The highest model with hard negatives under the traditional scheme, if it is wrongly above a debiased one.

    Else the first model of the traditional scheme.
    """
    own = standings(study, study.shown(TRADITIONAL))
    hard = [model for model, standing in own.items() if study.groups.get(model) == HARD_NEGATIVES and standing.place]
    best = min(hard, key=lambda model: own[model].place or 0, default=None)
    return best if best and _wrongly_below(study, best) else winner(study, study.shown(TRADITIONAL))


def _wrongly_below(study: Study, model: str) -> list[str]:
    """The debiased models that are truly better than this one, and below it under the traditional scheme."""
    return [
        other for other in truly_better(study, study.shown(TRADITIONAL), model) if study.groups.get(other) == DEBIASED
    ]


def headline(study: Study) -> str:
    """What the traditional scheme gets wrong: hard negatives above debiasing, or who is first."""
    cell, model = study.shown(TRADITIONAL), trap(study)
    if model is None:
        return f"No model has a value of {study.name(cell)}"
    if study.groups.get(model) == HARD_NEGATIVES and (below := _wrongly_below(study, model)):
        names = ", ".join(below) if len(below) <= 4 else f"{len(below)} debiased models"
        return (
            f"{_capital(study.name(cell))} of {cell.exposures} exposures puts {model}, hard negatives and no "
            f"debiasing, above {names}: truly it is below"
        )
    return _first_sentence(study).removesuffix(".")


def _first_sentence(study: Study) -> str:
    cell, truth = study.shown(TRADITIONAL), standings(study, study.shown(FULL))
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
    name = f"{_capital(study.name(cell))} of {cell.exposures} exposures"
    return f"{name} puts {first}{_group(study, first)} first; it {stands} by recall@{study.settings.show.ure}."


def sentences(study: Study) -> list[str]:
    """What the study shows, a few sentences."""
    curves = peaks(study.agreement)
    theorem = f"Theorem 1's K = Kbar N / e (N = {study.candidates:.0f} candidates a user)"
    texts = [
        _first_sentence(study),
        *_picks(study),
        _pairs_sentence(study),
        _peak_sentence(curves, TRADITIONAL, "The traditional scheme", theorem),
        *(_peak_sentence(curves, scheme, LABELS[scheme], "its own K") for scheme in ESTIMATES),
        _difference_sentence(study),
    ]
    return [text for text in texts if text]


def _picks(study: Study) -> list[str]:
    truth = standings(study, study.shown(FULL))
    texts, first = [], winner(study, study.shown(TRADITIONAL))
    if first is not None and (better := truly_better(study, study.shown(TRADITIONAL), first)):
        corrected = sum(study.groups.get(model) == DEBIASED for model in better)
        debiased = f", {corrected} of them debiased" if corrected else ""
        models = "model is" if len(better) == 1 else "models are"
        texts.append(f"{len(better)} {models} truly better than {first} and placed below it{debiased}.")
    texts += _hard_negatives(study)
    picks = [(scheme, pick) for scheme in ESTIMATES if (pick := winner(study, study.shown(scheme)))]
    places = [(scheme, pick, place) for scheme, pick in picks if (place := truth[pick].place)]
    firsts = "; ".join(f"{LABELS[s]} puts {pick} first, truly {ordinal(place)}" for s, pick, place in places)
    return [*texts, f"From the same exposures {firsts}."] if firsts else texts


def _hard_negatives(study: Study) -> list[str]:
    """Hard negatives compared with debiasing, under the traditional scheme."""
    model, own = trap(study), standings(study, study.shown(TRADITIONAL))
    if model is None or study.groups.get(model) != HARD_NEGATIVES:
        return []
    below, place = _wrongly_below(study, model), ordinal(own[model].place or 0)
    models = "model that is" if len(below) == 1 else "models that are"
    better = f"{len(below)} debiased {models} truly better ({', '.join(below)})"
    return [
        f"Of models with hard negatives, which are no debiasing, {model} stands highest under the traditional scheme, "
        f"{place}: above {better if below else 'no debiased model that is truly better'}."
    ]


def _pairs_sentence(study: Study) -> str:
    counts = {scheme: wrong_pairs(study, study.shown(scheme)) for scheme in SCHEMES}
    shown = ", ".join(f"{LABELS[scheme]} {wrong}" for scheme, (wrong, _) in counts.items())
    show = study.settings.show
    fewest = [_fewest(study, scheme) for scheme in SCHEMES]
    least = ", ".join(f"{LABELS[cell.scheme]} {wrong} (at {cell.k})" for cell, wrong in filter(None, fewest))
    return (
        f"Pairs of models in the wrong order, of {counts[TRADITIONAL][1]}, by true recall@{show.ure} with "
        f"{show.exposures} exposures: {shown}; fewest over the cutoffs of each: {least or 'undefined'}."
    )


def _fewest(study: Study, scheme: str) -> tuple[Cell, int] | None:
    """The cutoff of the scheme with the fewest pairs in the wrong order, of those at which a curve is defined."""
    exposures = study.settings.show.exposures
    curves = [p for p in peaks(study.agreement) if (p.scheme, p.exposures) == (scheme, exposures) and p.reason is None]
    counts = [(cell, wrong_pairs(study, cell)[0]) for cell in (Cell(p.scheme, p.exposures, p.k) for p in curves)]
    return min(counts, key=lambda one: one[1], default=None)


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
            f"by {measure.capitalize()} K_max / K is {median(ratios):.2f} in the median of {len(ratios)} curves "
            f"({min(ratios):.2f} to {max(ratios):.2f}), and at K itself the curves are {median(lost):.3f} below their "
            f"highest in the median, {max(lost):.3f} at most"
        )
    verdict = "near" if all(near) else "not near" if not any(near) else "by one of the two measures near"
    return f"{name} agrees best with the truth {verdict} {where}: {'; '.join(parts)}."


def _difference_sentence(study: Study) -> str:
    truth = standings(study, study.shown(FULL))
    shares = []
    for scheme in ESTIMATES:
        own = standings(study, study.shown(scheme))
        both = [
            (s.value, t) for model, s in own.items() if s.value is not None and (t := truth[model].value) is not None
        ]
        if total := sum(t for _, t in both):
            share = sum(s for s, _ in both) / total - 1
            shares.append(f"{LABELS[scheme]} {abs(share):.0%} {'below' if share < 0 else 'above'}")
    if not shares:
        return ""
    return (
        f"On average over models, {' and '.join(shares)} true recall@{study.settings.show.ure}, which is a plain mean "
        "over users: users with many positives weigh more in both. Only the order of models is compared with the truth "
        "here."
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
