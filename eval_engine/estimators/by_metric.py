"""Every estimator there is; a run computes those of its metrics whose source it has.

>>> [str(estimator) for estimator in estimators_of("recall")]
['full_macro recall', 'full_micro recall', 'full_selected recall', 'traditional recall', 'ure_macro recall', 'ure_micro recall']

Balanced URE (`ure_balanced recall`) is made of the sums of ure_macro by the number of exposed positives: statistics/balanced.py.
"""

from collections.abc import Sequence

from eval_engine.errors import DataError
from eval_engine.estimators import full_exposure, traditional, ure
from eval_engine.estimators.estimator import Estimator

ESTIMATORS: tuple[Estimator, ...] = (*full_exposure.ESTIMATORS, *traditional.ESTIMATORS, *ure.ESTIMATORS)


def estimators_of(metric: str) -> tuple[Estimator, ...]:
    """The estimators of a metric."""
    return tuple(estimator for estimator in ESTIMATORS if estimator.metric == metric)


def estimator(name: str, metric: str, among: Sequence[Estimator] = ESTIMATORS) -> Estimator:
    """The estimator of this name and metric; an error if there is none: no estimator has to have every metric."""
    for one in among:
        if (one.name, one.metric) == (name, metric):
            return one
    raise DataError(
        f"statistics: there is no estimator {name} of {metric}. Another version may have written these rows: run "
        "jobs/evaluate.py again."
    )
