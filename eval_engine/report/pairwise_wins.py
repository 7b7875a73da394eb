"""Which model beats which: every pair of models under the best estimate of the target, paired over users.

The best model comes first. Models without a value are left out; so are pairs that were not compared.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from eval_engine.report.cell import count_text, decimals_for, names_text, percent_text
from eval_engine.report.check_line import doubt
from eval_engine.report.comparison_row import ComparisonRow
from eval_engine.report.estimate_row import defined
from eval_engine.report.panel import Panel
from eval_engine.report.scheme import TRUTH, Scheme

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
    true_pairs: Mapping[tuple[str, str], ComparisonRow] = MappingProxyType({})  # the same pairs under the truth

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
        return f"{self.scheme.spoken} {self.scheme.metric}"

    @property
    def by(self) -> str:
        """The same, with the checks that its data failed."""
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

    def true_pair(self, row: ComparisonRow) -> ComparisonRow | None:
        """The comparison of the same two models under the truth; None if there is none."""
        return self.true_pairs.get((row.model_a, row.model_b))

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
            panel.failed if scheme.rests_on_random else (),
            _true_pairs(panel, known) if scheme.role != TRUTH else {},
        )
        if known
        else None
    )


def _true_pairs(panel: Panel, pairs: Iterable[ComparisonRow]) -> dict[tuple[str, str], ComparisonRow]:
    """The comparisons of these pairs under the truth; empty if there is none."""
    models = [(row.model_a, row.model_b) for row in pairs]
    rows = {(a, b): panel.pair(panel.truth, a, b) for a, b in models} if panel.truth else {}
    return {key: row for key, row in rows.items() if row is not None and defined(row.difference)}


def outcome(wins: PairwiseWins) -> str:
    """What the pairs of the best model decide, in one sentence without its full stop; to be printed with `by`."""
    best, *others = wins.models
    verdicts = {other: row.verdict for other in others if (row := wins.pair(best, other))}
    beaten, equal = (
        [other for other, verdict in verdicts.items() if verdict == wanted] for wanted in ("a better", "equivalent")
    )
    undecided = [other for other in others if other not in beaten and other not in equal]
    if not equal and not undecided:
        return f"{best} beats {'every other model' if len(others) > 1 else others[0]}"
    parts = [f"its lead over {names_text(undecided)} is not decided"] if undecided else []
    parts += [f"it is equivalent to {names_text(equal)}"] if equal else []
    parts += [f"it beats {names_text(beaten)}"] if beaten else []
    return f"{best} leads, but {names_text(parts)}"


def verdict_text(row: ComparisonRow) -> str:
    """What is decided of model_a."""
    return WORDS.get(row.verdict, row.verdict)


def true_text(row: ComparisonRow | None, decimals: int) -> str:
    """The true difference, with a question mark where it is not beyond chance."""
    return f"{row.difference:.{decimals}f}{'' if row.clear else ' ?'}" if row else count_text(None)


def wins_text(row: ComparisonRow) -> str:
    """Users won, tied and lost."""
    return "–".join(map(count_text, (row.wins, row.ties, row.losses))) if row.wins is not None else count_text(None)


def needed_text(row: ComparisonRow, n_users: int) -> str:
    """Users needed to decide; a dash where it is decided, unknown, or undecided because of the number of pairs."""
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


def chances_text(wins: PairwiseWins) -> str:
    """The chance of each model to be the best; models below 0.5 % are counted together."""
    known = [(model, chance) for model, chance in zip(wins.models, wins.chances, strict=True) if defined(chance)]
    some = [f"{model} {chance_text(chance)}" for model, chance in known if chance >= 0.005]
    rest = len(known) - len(some)
    return ", ".join([*some, *([f"{'the other' if rest == 1 else f'the other {rest}'} <1 %"] if rest else [])])
