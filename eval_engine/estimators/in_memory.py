"""Metrics with their certainty, in one call per estimator: for arrays in memory, without tables or Spark.

    ure_NAME           over all candidates, from randomly exposed pairs (estimators/ure.py)
    full_NAME          the same, from complete labels: what is not labelled is no positive (estimators/full_exposure.py)
    traditional_NAME   among the labelled items only (estimators/traditional.py)

    >>> import numpy as np
    >>> from eval_engine.kernels.rank_facts import rank_facts
    >>> facts = rank_facts(np.array([[4, 3, 2, 1], [1, 2, 3, 4]]) / 1.0, items=[[0, 2], [1, 3]], values=[[1, 0], [1, 0]])
    >>> ure_recall(facts, k=2).value, ure_auc(facts).value
    (0.5, 0.5)

Each says in its docstring what it is an estimate of. positive says which pairs are positives, such as
positive=facts.value >= 4; it may be left out if values are 0 and 1, or False and True.
"""

from typing import Protocol

from eval_engine.estimators import full_exposure, traditional, ure
from eval_engine.estimators.estimator import Estimator
from eval_engine.estimators.labelled import Labelled
from eval_engine.kernels.arrays import Bools
from eval_engine.kernels.rank_facts import RankFacts
from eval_engine.statistics.ratio import Estimate, estimate, ratio_sums

NO_CUTOFF = 1  # an estimator of the whole list does not look at k


class AtK(Protocol):
    """A metric of the top k."""

    def __call__(
        self, facts: RankFacts, k: int, positive: Bools | None = None, ties: str = "expected", confidence: float = 0.95
    ) -> Estimate:
        """The estimate with its interval."""


class WholeList(Protocol):
    """A metric of the whole list."""

    def __call__(
        self, facts: RankFacts, positive: Bools | None = None, ties: str = "expected", confidence: float = 0.95
    ) -> Estimate:
        """The estimate with its interval."""


def at_k(estimator: Estimator) -> AtK:
    """The estimator as a function of facts and a cutoff."""

    def estimated(
        facts: RankFacts, k: int, positive: Bools | None = None, ties: str = "expected", confidence: float = 0.95
    ) -> Estimate:
        labelled = Labelled(facts, positive, all_labelled=estimator.source == "truth")
        return estimate(ratio_sums(estimator.terms(labelled, k, ties)), confidence)

    estimated.__doc__ = f"{estimator.estimand} ({estimator})"
    return estimated


def whole_list(estimator: Estimator) -> WholeList:
    """The estimator as a function of facts."""
    of = at_k(estimator)

    def estimated(
        facts: RankFacts, positive: Bools | None = None, ties: str = "expected", confidence: float = 0.95
    ) -> Estimate:
        return of(facts, NO_CUTOFF, positive, ties, confidence)

    estimated.__doc__ = of.__doc__
    return estimated


ure_recall = at_k(ure.URE_MACRO)
ure_recall_micro = at_k(ure.URE_MICRO)
ure_precision = at_k(ure.URE_PRECISION)
ure_dcg = at_k(ure.URE_DCG)
ure_ndcg = at_k(ure.URE_NDCG)
ure_auc = whole_list(ure.URE_AUC)
ure_map = at_k(ure.URE_MAP)
full_recall = at_k(full_exposure.FULL_MACRO)
full_recall_micro = at_k(full_exposure.FULL_MICRO)
full_precision = at_k(full_exposure.FULL_PRECISION)
full_dcg = at_k(full_exposure.FULL_DCG)
full_ndcg = at_k(full_exposure.FULL_NDCG)
full_ndcg_mean = at_k(full_exposure.FULL_NDCG_MEAN)  # what ure_ndcg estimates
full_auc = whole_list(full_exposure.FULL_AUC)
full_map = at_k(full_exposure.FULL_MAP)
traditional_recall = at_k(traditional.TRADITIONAL)
