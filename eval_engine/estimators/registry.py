"""Every estimator there is; a run computes those whose source it has.

>>> [str(estimator) for estimator in ESTIMATORS]
['full_macro', 'full_micro', 'full_selected', 'traditional', 'ure_macro', 'ure_micro']
"""

from eval_engine.estimators.estimator import Estimator
from eval_engine.estimators.full_exposure import FULL_MACRO, FULL_MICRO, FULL_SELECTED
from eval_engine.estimators.traditional import TRADITIONAL
from eval_engine.estimators.ure import URE_MACRO, URE_MICRO

ESTIMATORS: tuple[Estimator, ...] = (FULL_MACRO, FULL_MICRO, FULL_SELECTED, TRADITIONAL, URE_MACRO, URE_MICRO)
