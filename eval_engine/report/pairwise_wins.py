"""Who beats whom: every pair of models under the best estimate of the target there is, paired over users, best model first.

The estimate is URE (for recall balanced URE, or URE macro where that is undefined); the truth where URE says nothing. Models without a value
are left out, so are pairs that were not compared.
"""

from typing import NamedTuple

from eval_engine.report.cell import count_text, decimals_for, names_text, percent_text
from eval_engine.report.check_line import doubt
from eval_engine.report.comparison_row import ComparisonRow
from eval_engine.report.estimate_row import defined
from eval_engine.report.panel import TRUTHS, Panel, Scheme

FEW = 6  # models of which all pairs are shown in the terminal
WORDS = {"a better": "better", "b better": "worse"}


class PairwiseWins(NamedTuple):
    """Models best first, and their pairs; model_a of each is the better one by the estimate."""

    scheme: Scheme
    models: tuple[str, ...]
    pairs: tuple[ComparisonRow, ...]
    chances: tuple[float | None, ...]  # of each model to be the best
    n_users: int  # that the estimate rests on
    failed: tuple[str, ...] = ()  # checks of the data that the estimate rests on

    def pair(self, a: str, b: str) -> ComparisonRow | None:
        """a against b."""
        for row in self.pairs:
            if (row.model_a, row.model_b) == (a, b):
                return row
            if (row.model_a, row.model_b) == (b, a):
                return row.turned()
        return None

    @property
    def name(self) -> str:
        """The estimate in words."""
        return f"{'the ' if self.scheme.estimator in TRUTHS else ''}{self.scheme}"

    @property
    def by(self) -> str:
        """The same, and what casts doubt on it."""
        return f"{self.name}, {doubt(self.failed)}" if self.failed else self.name

    @property
    def shown(self) -> tuple[ComparisonRow, ...]:
        """All pairs of a few models; of many, neighbours and the best against all."""
        if len(self.models) <= FEW:
            return self.pairs
        place = {model: n for n, model in enumerate(self.models)}
        return tuple(
            row for row in self.pairs if place[row.model_a] == 0 or place[row.model_b] - place[row.model_a] == 1
        )

    @property
    def decimals(self) -> int:
        """Of differences and their intervals."""
        return decimals_for([row.difference for row in self.pairs])


def pairwise_wins(panel: Panel) -> PairwiseWins | None:
    """The pairs of the panel's best estimate; None if no two models were compared."""
    scheme = panel.best_estimate
    if scheme is None:
        return None
    values = {model: value for model in panel.models if (value := panel.value(scheme, model)) is not None}
    models = tuple(sorted(values, key=lambda model: (-values[model], model)))
    pairs = [panel.pair(scheme, a, b) for n, a in enumerate(models) for b in models[n + 1 :]]
    known = tuple(row for row in pairs if row is not None and defined(row.difference))
    rows = [panel.rows[scheme, model] for model in models]
    return (
        PairwiseWins(
            scheme,
            models,
            known,
            tuple(row.chance_best for row in rows),
            max((row.n_users or 0 for row in rows), default=0),
            () if scheme.estimator in TRUTHS else panel.failed,
        )
        if known
        else None
    )


def outcome(found: PairwiseWins) -> str:
    """What the pairs of the best model say, in one sentence without its full stop; it must not stand without `by`."""
    best, *others = found.models
    verdicts = {other: row.verdict for other in others if (row := found.pair(best, other))}
    beaten, equal = (
        [other for other, verdict in verdicts.items() if verdict == wanted] for wanted in ("a better", "equivalent")
    )
    undecided = [other for other in others if other not in beaten and other not in equal]
    if not equal and not undecided:
        return f"{best} beats {'every other model' if len(others) > 1 else others[0]}"
    parts = [f"is not told apart from {names_text(undecided)}"] if undecided else []
    parts += [f"is equivalent to {names_text(equal)}"] if equal else []
    parts += [f"beats {names_text(beaten)}"] if beaten else []
    return f"{best} leads, but {names_text(parts)}"


def verdict_text(row: ComparisonRow) -> str:
    """What is decided of model_a."""
    return WORDS.get(row.verdict, row.verdict)


def wins_text(row: ComparisonRow) -> str:
    """Users won, tied and lost."""
    return "–".join(map(count_text, (row.wins, row.ties, row.losses))) if row.wins is not None else count_text(None)


def needed_text(row: ComparisonRow, n_users: int) -> str:
    """Users it takes to decide; a dash where that is decided, not known, or a matter of how many pairs there are."""
    if row.verdict != "not decided" or row.users_needed is None or row.users_needed <= n_users:
        return count_text(None)
    return (
        count_text(row.users_needed)
        if row.users_needed < 10_000_000
        else f"{row.users_needed:.0e}".replace("e+", "e").replace("e0", "e")
    )


def chance_text(chance: float | None) -> str:
    """A chance as a percentage; a bootstrap knows no 0 and no 1."""
    if not defined(chance):
        return count_text(None)
    return "<1 %" if chance < 0.005 else ">99 %" if chance > 0.995 else percent_text(round(chance, 2))


def chances_text(found: PairwiseWins) -> str:
    """The chance of each model to be the best, but for those that have hardly any."""
    told = [(model, chance) for model, chance in zip(found.models, found.chances, strict=True) if defined(chance)]
    some = [f"{model} {chance_text(chance)}" for model, chance in told if chance >= 0.005]
    rest = len(told) - len(some)
    return ", ".join([*some, *([f"{'the other' if rest == 1 else f'the other {rest}'} <1 %"] if rest else [])])
