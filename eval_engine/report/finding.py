"""What the numbers show, in plain words made from the data: a headline, and a conclusion of a few sentences.

"Wrong" and "right" are used only where there is a truth; without one the schemes agree or disagree. A difference that
chance can make is called noise. What rests on data that failed its checks begins with that remark.
"""

from collections.abc import Iterable, Sequence

from eval_engine.report.cell import names_text
from eval_engine.report.check_line import doubt
from eval_engine.report.orders import Agreement, Flip, agreements, order, prefers
from eval_engine.report.pairwise_wins import outcome, pairwise_wins
from eval_engine.report.panel import Panel
from eval_engine.report.scheme import ESTIMATE, NAIVE, TRUTH, Scheme
from eval_engine.report.shortened import shortened

PAIRED = "Clear: both differences, paired over users, are beyond chance, all pairs considered (Holm)."
CONSERVATIVE = (
    "Clear: both differences are beyond their intervals. These treat the models' errors as independent, which is "
    "conservative."
)
BY_METRIC = "The best model, metric by metric"


def headline(panel: Panel) -> str:
    """The finding in one line."""
    return _doubted(panel, _headline(panel))


def conclusion(panel: Panel) -> str:
    """The finding in a few sentences."""
    return _doubted(panel, _conclusion(panel))


def verdicts(every: Sequence[Panel]) -> list[tuple[str, str]]:
    """Metrics and the best model by each, which need not be the same; empty for one metric or one model."""
    several = len(every) > 1 and any(len(panel.models) > 1 for panel in every)
    return [(str(panel.target), _verdict(panel)) for panel in every] if several else []


def _verdict(panel: Panel) -> str:
    pairs = pairwise_wins(panel)
    if pairs is None:
        return "models were not compared" if panel.judges else "describes lists: models were not compared"
    sentence = f"{outcome(pairs)}, by {pairs.scheme.spoken}"
    return f"{doubt(pairs.failed)}: {sentence}" if pairs.failed else sentence


def _doubted(panel: Panel, text: str) -> str:
    """The text, after the checks that failed, if a scheme it speaks of rests on the random exposures."""
    if not panel.failed or not any(s.rests_on_random for s in panel.schemes if s.role != TRUTH):
        return text
    return f"{_capital(doubt(panel.failed))}: {text}"


def _headline(panel: Panel) -> str:
    compared = agreements(panel)
    naive = next((a for a in compared if a.scheme.role == NAIVE and len(a.undecided) < a.n_pairs), None)
    if len(panel.models) == 1:
        return f"{panel.target} of {panel.models[0]}"
    if not compared and (pairs := pairwise_wins(panel)):
        return f"{panel.target} of {len(panel.models)} models: {outcome(pairs)}"
    if naive is None:
        return f"{panel.target} of {len(panel.models)} models{_estimates_wrong(panel, compared)}"
    name = _capital(str(naive.scheme))
    picked, best = _pick(panel, naive.scheme), _pick(panel, naive.reference)
    misled = next((f for f in naive.flips if (f.above, f.below) == (picked, best)), None)
    noise = "" if misled is None or misled.clear else " (within the noise)"
    if not panel.has_truth:
        if misled:
            return f"{name} picks {picked}, {naive.reference} picks {best}{noise}"
        if naive.flips:
            return f"{name} and {naive.reference} disagree on {_of_pairs(naive)}"
        return f"{name} and {naive.reference} agree on the order of {_agreed(naive)}"
    if misled:
        return f"{name} picks {picked}; the best model by {panel.target} is {best}{noise}{_which_find(panel, best)}"
    if naive.flips:
        return f"{name} orders {_of_pairs(naive)} wrong{_estimates_wrong(panel, compared)}"
    return f"{name} orders {_agreed(naive)} as the truth does{_estimates_wrong(panel, compared)}"


def _conclusion(panel: Panel) -> str:
    if not panel.judges:
        return f"{panel.target} describes the lists that models give: a higher value is neither better nor worse."
    if len(panel.models) == 1:
        return f"There is only one model, {panel.models[0]}: no order to compare."
    compared = agreements(panel)
    if not compared and (pairs := pairwise_wins(panel)):
        return f"By {pairs.name}, {outcome(pairs)}."
    if not compared:
        return "There is no second scheme to compare the order with: read the values and their intervals."
    sentences: list[str] = []
    small = shortened(panel)
    for one in compared:
        if one.scheme.role == NAIVE and one.scheme in small.panel.schemes:
            sentences += _on_naive(panel, one)
    sentences += _on_estimates(panel, compared, small.panel.schemes) if panel.has_truth else []
    more = [f"Other settings of these estimators: {small.n_schemes}, in the tables."] if small.n_schemes else []
    return " ".join(sentences + more)


def certainty(compared: Iterable[Agreement]) -> str:
    """What makes a flip clear; empty if there is no flip."""
    paired = [f.paired for a in compared for f in a.flips]
    return "" if not paired else PAIRED if all(paired) else CONSERVATIVE


def _on_naive(panel: Panel, compared: Agreement) -> list[str]:
    name = _capital(str(compared.scheme))
    judge = f"{panel.judge} at {panel.target.k}" if panel.target.k else panel.judge
    if not compared.flips:
        return [_same_order(name, judge, compared)]
    worst, n = compared.flips[0], len(compared.flips)
    sentences = [f"{name} puts {worst.above} above {worst.below}; {judge} is the other way round."]
    if n > 1:
        wrong = "wrong" if panel.has_truth else "ordered differently"
        sentences.append(f"In all, {n} of {compared.n_pairs} pairs of models are {wrong}.")
    sentences += _noise(compared)
    if not panel.has_truth:
        sentences += _other_estimates(panel, worst, compared.reference)
        sentences.append(
            f"Without complete labels neither can be checked; but {panel.judge} is an estimate of {panel.target}, and "
            f"{compared.scheme} is not."
        )
    return sentences


def _on_estimates(panel: Panel, compared: Sequence[Agreement], shown: Sequence[Scheme]) -> list[str]:
    estimates = _with_values(panel, compared) or [a for a in compared if a.scheme.role == ESTIMATE]
    naive_flips = [f for a in compared if a.scheme.role == NAIVE for f in a.flips]
    right = [a for a in estimates if not a.flips and not a.undecided]
    sentences = []
    if right:
        which = _labels([a.scheme for a in right], all_of=len(estimates))
        sentences.append(f"{which} {'it' if len(naive_flips) == 1 else 'every pair'} right.")
    for one in (a for a in estimates if a not in right and a.scheme in shown):
        sentences.append(_own_flips(panel, one) if one.flips else _same_order(one.scheme.label, "the truth", one))
    return sentences


def _labels(schemes: Sequence[Scheme], all_of: int) -> str:
    """Which estimates have something right."""
    if len(schemes) == all_of > 1:
        return "Every estimate has"
    return f"{names_text([s.label for s in schemes], things='estimates')} {'has' if len(schemes) == 1 else 'have'}"


def _own_flips(panel: Panel, compared: Agreement) -> str:
    worst = compared.flips[0]
    pair = f"it puts {worst.above} above {worst.below}"
    text = f"{compared.scheme.label} orders {_of_pairs(compared)} unlike the truth: {pair}"
    own = panel.target_of(compared.scheme)
    if own and prefers(panel, own, worst.above, worst.below) == worst.above:
        return f"{text}, and so does the quantity that it estimates: another question, not an error."
    return " ".join([f"{text}.", *_noise(compared)])


def _same_order(name: str, judge: str, compared: Agreement) -> str:
    n_open = len(compared.undecided)
    if n_open == compared.n_pairs:
        return f"{name} and {judge} have no pair of models that both put in an order: values are tied or undefined."
    left = f"; the other {n_open} {'is' if n_open == 1 else 'are'} tied or undefined" if n_open else ""
    return f"{name} orders {_agreed(compared)} as {judge} does{left}."


def _other_estimates(panel: Panel, flip: Flip, reference: Scheme) -> list[str]:
    sentences = []
    for other in panel.of(ESTIMATE):
        if other != reference and panel.has_value(other):
            side = prefers(panel, other, flip.above, flip.below)
            sentences.append(f"{other.label} {'leaves it open' if side is None else f'puts {side} first'}.")
    return sentences


def _noise(compared: Agreement) -> list[str]:
    n_clear = sum(f.clear for f in compared.flips)
    if n_clear == len(compared.flips):
        return []
    if n_clear == 0:
        return [f"{'That is not' if len(compared.flips) == 1 else 'None of it is'} clear: it may be noise."]
    return [f"{n_clear} of them {'is' if n_clear == 1 else 'are'} clear, the rest may be noise."]


def _which_find(panel: Panel, best: str | None) -> str:
    """Which estimates put the best model first."""
    estimates = [s for s in shortened(panel).panel.of(ESTIMATE) if panel.has_value(s)]
    right = [s.label for s in estimates if _pick(panel, s) == best]
    if not estimates:
        return ""
    if len(estimates) == 1:
        return f", and {estimates[0].label} {'finds it' if right else 'misses it too'}"
    if len(right) in (0, len(estimates)):
        return f", and every estimate {'finds it' if right else 'misses it too'}"
    only = f"{names_text(right, things='estimates')} {'finds' if len(right) == 1 else 'find'}"
    return f", and of the estimates only {only} it"


def _with_values(panel: Panel, compared: Sequence[Agreement]) -> list[Agreement]:
    return [a for a in compared if a.scheme.role == ESTIMATE and panel.has_value(a.scheme)]


def _estimates_wrong(panel: Panel, compared: Sequence[Agreement]) -> str:
    estimates = _with_values(panel, compared)
    if not estimates:
        return ""
    if not any(a.flips for a in estimates):
        return f"; {estimates[0].scheme.label if len(estimates) == 1 else 'every estimate'} orders no pair wrong"
    shown = shortened(panel).panel.schemes
    wrong = [f"{a.scheme.label} orders {len(a.flips)}" for a in estimates if a.flips and a.scheme in shown]
    return f"; {', '.join(wrong)} unlike the truth" if wrong else ""


def _of_pairs(compared: Agreement) -> str:
    return f"{len(compared.flips)} of {compared.n_pairs} {'pair' if compared.n_pairs == 1 else 'pairs'} of models"


def _agreed(compared: Agreement) -> str:
    if compared.n_pairs == 1:
        return "the two models"
    if compared.undecided:
        return f"{compared.n_pairs - len(compared.undecided)} of {compared.n_pairs} pairs of models"
    return f"all {compared.n_pairs} pairs of models"


def _pick(panel: Panel, scheme: Scheme) -> str | None:
    groups = order(panel, scheme).groups
    return groups[0][0] if groups and len(groups[0]) == 1 else None


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
