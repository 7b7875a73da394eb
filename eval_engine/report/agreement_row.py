"""One line of the table `estimator_agreement` as plain Python: an estimator compared with a reference over models."""

import math
from typing import NamedTuple

from eval_engine.metric import Metric
from eval_engine.report.scheme import Scheme


class AgreementRow(NamedTuple):
    """How far an estimator agrees with a reference; undefined is None."""

    estimator: str
    metric: str
    k: int
    reference: str
    n_models: int
    n_flipped: int
    n_tied: int
    kendall: float | None
    pearson: float | None
    confidence: float
    kendall_low: float | None = None  # over users
    kendall_high: float | None = None
    kendall_error: float | None = None  # over models
    pearson_low: float | None = None
    pearson_high: float | None = None
    bias_squared: float | None = None
    error_spread: float | None = None
    baseline: str | None = None
    kendall_difference: float | None = None  # from the baseline
    kendall_difference_p: float | None = None
    steiger_p: float | None = None
    steiger_p_one_sided: float | None = None
    reason: str | None = None  # why there is no correlation
    interval_reason: str | None = None
    remark: str | None = None
    n_users: int | None = None  # with labelled pairs that the estimator rests on
    n_reference_users: int | None = None
    n_shared_users: int | None = None

    @property
    def target(self) -> Metric:
        """Metric and cutoff."""
        return Metric(self.metric, self.k)

    @property
    def scheme(self) -> Scheme:
        """The estimator as the report names it."""
        return Scheme(self.estimator, self.target)

    @property
    def against(self) -> Scheme:
        """The reference as the report names it."""
        return Scheme(self.reference, self.target)

    @property
    def n_pairs(self) -> int:
        """Pairs of models."""
        return math.comb(self.n_models, 2)

    @property
    def n_same(self) -> int:
        """Pairs of models that both put in the same order."""
        return self.n_pairs - self.n_flipped - self.n_tied
