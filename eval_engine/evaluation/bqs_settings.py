"""The section `bqs` of a run: which pairs of models are scored, by what quality, and for which group of items.

bqs:
  pairs: [{baseline: bpr_mf, debiased: bpr_ips}]      # left out: those that the models' registry knows
  metrics: [sampled_hit_rate@10, ndcg@10]
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Self

from pydantic import ConfigDict, Field, model_validator

from eval_engine.config import MetricText, Strict

PUNISHMENT = {  # a of [bqs]
    "sampled_hit_rate": 10.0,
    "sampled_hit_rate_drawn": 10.0,
    "recall": 10.0,
    "raw_recall": 10.0,
    "ndcg": 2.0,
    "ndcg_compressed": 2.0,
}
REPEAT = "#"  # name#1, name#2: the same model, trained with other seeds


class Pair(Strict):
    """A debiased model and what it is compared with."""

    baseline: str
    debiased: str


class BqsRule(NamedTuple):
    """What is scored."""

    pairs: tuple[tuple[str, str], ...]  # baseline, debiased
    metrics: Mapping[tuple[str, int], float]  # name and cutoff: a
    estimators: frozenset[str]
    slices: tuple[str, ...]

    def among(self, models: Iterable[str]) -> dict[tuple[str, str], list[tuple[int, str, str]]]:
        """By pair, the models that are compared: number of the repeat (0: without repeats), baseline, debiased."""
        known = set(models)
        found: dict[tuple[str, str], list[tuple[int, str, str]]] = {}
        for baseline, debiased in self.pairs:
            own = [(0, baseline, debiased)] if {baseline, debiased} <= known else []
            numbers = sorted(int(name.rpartition(REPEAT)[2]) for name in known if _is_repeat(name, debiased))
            own += [
                (n, f"{baseline}{REPEAT}{n}", f"{debiased}{REPEAT}{n}")
                for n in numbers
                if f"{baseline}{REPEAT}{n}" in known
            ]
            if own:
                found[baseline, debiased] = own
        return found


def _is_repeat(name: str, base: str) -> bool:
    start, _, number = name.rpartition(REPEAT)
    return start == base and number.isdigit()


class Bqs(Strict):
    """Balanced quality scores [bqs]: docs/popularity.md"""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)
    pairs: tuple[Pair, ...] = Field(
        (), description="left out: every debiased model of `train` whose baseline is there too, by their registry names"
    )
    metrics: tuple[MetricText, ...] = Field(min_length=1, description="quality measures, of evaluate.metrics")
    estimators: tuple[str, ...] = Field(("holdout",), min_length=1, description="by which they are estimated")
    slices: tuple[str, ...] = Field(("popularity=low",), min_length=1, description="groups of items or users that gain")
    a: dict[str, float] = Field(
        {}, description="how much a loss is punished, by metric; 10 for hit rate and recall, 2 for nDCG"
    )

    @model_validator(mode="after")
    def _punished(self) -> Self:
        for metric in self.metrics:
            if metric.base not in {**PUNISHMENT, **self.a}:
                raise ValueError(f"a: give one for {metric.base}, such as a: {{{metric.base}: 10}}")
        if wrong := [name for name, a in self.a.items() if not a >= 0]:
            raise ValueError(f"a: {wrong[0]} has {self.a[wrong[0]]}, but a is 0 or more")
        return self

    def rule(self, known: Iterable[tuple[str, str]]) -> BqsRule:
        """What is scored; known: pairs of the models' registry."""
        pairs = tuple((pair.baseline, pair.debiased) for pair in self.pairs) or tuple(known)
        of_metric: dict[Any, float] = {**PUNISHMENT, **self.a}
        metrics = {(metric.name, metric.k): of_metric[metric.base] for metric in self.metrics}
        return BqsRule(pairs, metrics, frozenset(self.estimators), self.slices)
