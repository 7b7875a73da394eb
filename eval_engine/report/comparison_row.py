"""One line of the comparisons table as plain Python: two models under one estimator, paired over users."""

from typing import NamedTuple, Self

from eval_engine.report.estimate_row import defined

TURNED = {"a better": "b better", "b better": "a better"}


class ComparisonRow(NamedTuple):
    """By how much model_a is better than model_b, and how surely; undefined is None or NaN."""

    estimator: str
    metric: str
    k: int
    model_a: str
    model_b: str
    difference: float | None
    low: float | None
    high: float | None
    confidence: float
    p: float | None
    p_holm: float | None  # adjusted over all pairs of the estimator
    verdict: str  # a better, b better, equivalent, not decided
    wins: int | None = None  # users for which model_a is better
    ties: int | None = None
    losses: int | None = None
    margin: float | None = None  # of equivalence
    users_needed: int | None = None  # to decide this pair, were it the only one
    power: float | None = None
    slice: str | None = "all"  # which users or items: `category=toys`; the whole: `all`, or NULL

    def turned(self) -> Self:
        """The same comparison with the two models exchanged."""
        return self._replace(
            model_a=self.model_b,
            model_b=self.model_a,
            difference=_negative(self.difference),
            low=_negative(self.high),
            high=_negative(self.low),
            verdict=TURNED.get(self.verdict, self.verdict),
            wins=self.losses,
            losses=self.wins,
        )

    @property
    def clear(self) -> bool | None:
        """Whether the difference is beyond chance, all pairs considered; None where that is not known."""
        return self.p_holm < 1 - self.confidence if defined(self.p_holm) else None


def _negative(x: float | None) -> float | None:
    return None if x is None else 0.0 - x  # not -x: 0 has no sign here
