"""Recall at k with its certainty, in one call per estimator: for arrays in memory, without tables or Spark.

positive says which pairs are positives; left out, those with value > 0.
"""

from eval_engine.estimators.estimator import Terms
from eval_engine.estimators.full_exposure import full_macro, full_micro
from eval_engine.estimators.traditional import traditional
from eval_engine.estimators.ure import ure_macro, ure_micro
from eval_engine.kernels.arrays import Bools
from eval_engine.kernels.rank_facts import RankFacts
from eval_engine.statistics.ratio import Estimate, estimate, ratio_sums


def ure_recall(facts: RankFacts, k: int, positive: Bools | None = None, ties: str = "expected", confidence: float = 0.95) -> Estimate:
    """Mean over users of recall at k over all candidates, from randomly exposed pairs; users with many positives count more (URE_MACRO)."""
    return _estimate(ure_macro(facts, _positive(facts, positive), k, ties), confidence)


def ure_recall_micro(facts: RankFacts, k: int, positive: Bools | None = None, ties: str = "expected", confidence: float = 0.95) -> Estimate:
    """Recall at k of all users' positives pooled, over all candidates, from randomly exposed pairs (URE_MICRO)."""
    return _estimate(ure_micro(facts, _positive(facts, positive), k, ties), confidence)


def full_recall(facts: RankFacts, k: int, positive: Bools | None = None, ties: str = "expected", confidence: float = 0.95) -> Estimate:
    """Mean over users of recall at k, from complete labels (FULL_MACRO)."""
    return _estimate(full_macro(facts, _positive(facts, positive), k, ties), confidence)


def full_recall_micro(facts: RankFacts, k: int, positive: Bools | None = None, ties: str = "expected", confidence: float = 0.95) -> Estimate:
    """Recall at k of all users' positives pooled, from complete labels (FULL_MICRO)."""
    return _estimate(full_micro(facts, _positive(facts, positive), k, ties), confidence)


def traditional_recall(facts: RankFacts, k: int, positive: Bools | None = None, ties: str = "expected", confidence: float = 0.95) -> Estimate:
    """Mean over users of recall at k among the labelled items only, which is not recall over all candidates (TRADITIONAL)."""
    return _estimate(traditional(facts, _positive(facts, positive), k, ties), confidence)


def _positive(facts: RankFacts, positive: Bools | None) -> Bools:
    return facts.value > 0 if positive is None else positive


def _estimate(terms: Terms, confidence: float) -> Estimate:
    return estimate(ratio_sums(terms), confidence)
