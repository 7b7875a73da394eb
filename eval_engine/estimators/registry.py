"""Every estimator there is; a run computes those of its metrics whose source it has.

>>> [str(estimator) for estimator in estimators_of("recall")]
['full_macro recall', 'full_micro recall', 'full_selected recall', 'traditional recall', 'ure_macro recall', 'ure_micro recall']

Balanced URE (`ure_balanced recall`) is made of the sums of ure_macro by the number of exposed positives: statistics/balanced.py.
"""

from eval_engine.estimators import full_exposure, traditional, ure
from eval_engine.estimators.estimator import Estimator

ESTIMATORS: tuple[Estimator, ...] = (*full_exposure.ESTIMATORS, *traditional.ESTIMATORS, *ure.ESTIMATORS)


def estimators_of(metric: str) -> tuple[Estimator, ...]:
    """The estimators of a metric."""
    return tuple(estimator for estimator in ESTIMATORS if estimator.metric == metric)


def estimator(name: str, metric: str) -> Estimator:
    """The estimator of this name and metric."""
    return next(one for one in ESTIMATORS if (one.name, one.metric) == (name, metric))
