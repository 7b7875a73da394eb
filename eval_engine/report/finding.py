"""What the numbers say, in plain words, made from the data: a headline, and a conclusion of a few sentences.

"Wrong" and "right" are said only where there is a truth; without one the schemes agree or disagree. A difference that
chance can make is called noise even where it makes a good story. Of what rests on data that failed its checks, that is
said before anything else.
"""

from collections.abc import Iterable, Sequence

from eval_engine.report.cell import names_text
from eval_engine.report.check_line import doubt
from eval_engine.report.orders import Agreement, Flip, agreements, order, prefers
from eval_engine.report.pairwise_wins import outcome, pairwise_wins
from eval_engine.report.panel import TRADITIONAL, TRUTHS, URE, Panel, Scheme

PAIRED = "Clear: both differences, paired over users, are beyond chance, all pairs considered (Holm)."
CONSERVATIVE = "Clear: both differences are beyond their intervals. These treat the models' errors as independent, which is conservative."

BY_METRIC = "Who is best, metric by metric"


def headline(panel: Panel) -> str:
    """The finding in one line."""
    return _doubted(panel, _headline(panel))


def conclusion(panel: Panel) -> str:
    """The finding in a few sentences."""
    return _doubted(panel, _conclusion(panel))


def verdicts(found: Sequence[Panel]) -> list[tuple[str, str]]:
    """Metrics and who is best by each, which need not be the same; nothing where there is one metric or one model."""
    several = len(found) > 1 and any(len(panel.models) > 1 for panel in found)
    return [(str(panel.target), _verdict(panel)) for panel in found] if several else []


def _verdict(panel: Panel) -> str:
    pairs = pairwise_wins(panel)
    if pairs is None:
        return "models were not compared"
    told = f"{outcome(pairs)}, by {'the ' if pairs.scheme.estimator in TRUTHS else ''}{pairs.scheme.label}"
    return f"{doubt(pairs.failed)}: {told}" if pairs.failed else told


def _doubted(panel: Panel, text: str) -> str:
    """The text, after what casts doubt on it: everything but the truth rests on the random exposures."""
    if not panel.failed or all(scheme.estimator in TRUTHS for scheme in panel.schemes):
        return text
    return f"{_capital(doubt(panel.failed))}: {text}"


def _headline(panel: Panel) -> str:
    found = agreements(panel)
    traditional = next((a for a in found if a.scheme.estimator == TRADITIONAL and len(a.undecided) < a.n_pairs), None)
    if len(panel.models) == 1:
        return f"{panel.target} of {panel.models[0]}"
    if not found and (pairs := pairwise_wins(panel)):
        return f"{panel.target} of {len(panel.models)} models: {outcome(pairs)}"
    if traditional is None:
        return f"{panel.target} of {len(panel.models)} models{_ure_wrong(panel, found)}"
    name = _capital(str(traditional.scheme))
    picked, best = _pick(panel, traditional.scheme), _pick(panel, traditional.reference)
    misled = next((f for f in traditional.flips if (f.above, f.below) == (picked, best)), None)
    noise = "" if misled is None or misled.clear else " (within the noise)"
    if not panel.has_truth:
        if misled:
            return f"{name} picks {picked}, URE {panel.target} picks {best}{noise}"
        if traditional.flips:
            return f"{name} and URE {panel.target} disagree on {_of_pairs(traditional)}"
        return f"{name} and URE {panel.target} agree on the order of {_agreed(traditional)}"
    if misled:
        return f"{name} picks {picked}; the best model by {panel.target} is {best}{noise}{_who_finds(panel, best)}"
    if traditional.flips:
        return f"{name} orders {_of_pairs(traditional)} wrong{_ure_wrong(panel, found)}"
    return f"{name} orders {_agreed(traditional)} as the truth does{_ure_wrong(panel, found)}"


def _conclusion(panel: Panel) -> str:
    if len(panel.models) == 1:
        return f"There is only one model, {panel.models[0]}: no order to compare."
    found = agreements(panel)
    if not found and (pairs := pairwise_wins(panel)):
        return f"By {pairs.name}, {outcome(pairs)}."
    if not found:
        return "There is no second scheme to compare the order with: read the values and their intervals."
    sentences: list[str] = []
    for one in found:
        if one.scheme.estimator == TRADITIONAL:
            sentences += _on_traditional(panel, one)
    return " ".join(sentences + (_on_ure(panel, found) if panel.has_truth else []))


def certainty(found: Iterable[Agreement]) -> str:
    """What makes a flip clear; empty if there is no flip."""
    paired = [f.paired for a in found for f in a.flips]
    return "" if not paired else PAIRED if all(paired) else CONSERVATIVE


def _on_traditional(panel: Panel, found: Agreement) -> list[str]:
    name = _capital(str(found.scheme))
    judge = f"{'the truth' if panel.has_truth else found.reference.label} at {panel.target.k}"
    if not found.flips:
        return [_same_order(name, judge, found)]
    worst, n = found.flips[0], len(found.flips)
    sentences = [f"{name} puts {worst.above} above {worst.below}; {judge} is the other way round."]
    if n > 1:
        sentences.append(
            f"In all, {n} of {found.n_pairs} pairs of models are {'wrong' if panel.has_truth else 'ordered differently'}."
        )
    sentences += _noise(found)
    if not panel.has_truth:
        sentences += _other_ure(panel, worst, found.reference)
        sentences.append("Without full exposure there is no judge; but only URE estimates the target at all.")
    return sentences


def _on_ure(panel: Panel, found: Sequence[Agreement]) -> list[str]:
    ure = _with_values(panel, found) or [a for a in found if a.scheme.estimator in URE]
    traditional_flips = [f for a in found if a.scheme.estimator == TRADITIONAL for f in a.flips]
    right = [a for a in ure if not a.flips and not a.undecided]
    sentences = []
    if right:
        who = (
            "URE has"
            if len(right) == len(ure)
            else f"{names_text([a.scheme.label for a in right])} {'has' if len(right) == 1 else 'have'}"
        )
        sentences.append(f"{who} {'it' if len(traditional_flips) == 1 else 'every pair'} right.")
    for one in (a for a in ure if a not in right):
        sentences.append(_own_flips(panel, one) if one.flips else _same_order(one.scheme.label, "the truth", one))
    return sentences


def _own_flips(panel: Panel, found: Agreement) -> str:
    worst = found.flips[0]
    text = f"{found.scheme.label} orders {_of_pairs(found)} unlike the truth: it puts {worst.above} above {worst.below}"
    own = panel.target_of(found.scheme)
    if own and prefers(panel, own, worst.above, worst.below) == worst.above:
        return f"{text}, and so does the quantity that it estimates: another question, not an error."
    return " ".join([f"{text}.", *_noise(found)])


def _same_order(name: str, judge: str, found: Agreement) -> str:
    n_open = len(found.undecided)
    if n_open == found.n_pairs:
        return f"{name} and {judge} have no pair of models that both put in an order: values are tied or undefined."
    left = f"; the other {n_open} {'is' if n_open == 1 else 'are'} tied or undefined" if n_open else ""
    return f"{name} orders {_agreed(found)} as {judge} does{left}."


def _other_ure(panel: Panel, flip: Flip, reference: Scheme) -> list[str]:
    sentences = []
    for other in panel.of(*URE):
        if other != reference and panel.has_value(other):
            side = prefers(panel, other, flip.above, flip.below)
            sentences.append(f"{other.label} {'leaves it open' if side is None else f'puts {side} first'}.")
    return sentences


def _noise(found: Agreement) -> list[str]:
    n_clear = sum(f.clear for f in found.flips)
    if n_clear == len(found.flips):
        return []
    if n_clear == 0:
        return [f"{'That is not' if len(found.flips) == 1 else 'None of it is'} clear: it may be noise."]
    return [f"{n_clear} of them {'is' if n_clear == 1 else 'are'} clear, the rest may be noise."]


def _who_finds(panel: Panel, best: str | None) -> str:
    finds = {s: _pick(panel, s) == best for s in panel.of(*URE) if panel.has_value(s)}
    if not finds:
        return ""
    if all(finds.values()):
        return ", and URE finds it"
    found = [s.label for s, it in finds.items() if it]
    only = f"{names_text(found)} {'finds' if len(found) == 1 else 'find'}"
    return f", and of the URE estimates only {only} it" if found else ", and URE misses it too"


def _with_values(panel: Panel, found: Sequence[Agreement]) -> list[Agreement]:
    return [a for a in found if a.scheme.estimator in URE and panel.has_value(a.scheme)]


def _ure_wrong(panel: Panel, found: Sequence[Agreement]) -> str:
    ure = _with_values(panel, found)
    if not ure:
        return ""
    if not any(a.flips for a in ure):
        return "; URE orders no pair wrong"
    return "; " + ", ".join(f"{a.scheme.label} orders {len(a.flips)}" for a in ure) + " unlike the truth"


def _of_pairs(found: Agreement) -> str:
    return f"{len(found.flips)} of {found.n_pairs} {'pair' if found.n_pairs == 1 else 'pairs'} of models"


def _agreed(found: Agreement) -> str:
    if found.n_pairs == 1:
        return "the two models"
    return (
        f"{found.n_pairs - len(found.undecided)} of {found.n_pairs} pairs of models"
        if found.undecided
        else f"all {found.n_pairs} pairs of models"
    )


def _pick(panel: Panel, scheme: Scheme) -> str | None:
    groups = order(panel, scheme).groups
    return groups[0][0] if groups and len(groups[0]) == 1 else None


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
