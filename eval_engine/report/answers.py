"""What a run answered, as the report takes it: estimates, comparisons, what was asked, and what its checks say."""

from collections.abc import Sequence
from typing import NamedTuple

from eval_engine.metric import Metric
from eval_engine.report.agreement_row import AgreementRow
from eval_engine.report.check_line import CheckLine
from eval_engine.report.comparison_row import ComparisonRow
from eval_engine.report.estimate_row import EstimateRow
from eval_engine.report.reversal_row import ReversalRow


class Answers(NamedTuple):
    """The rows of one run; lakes of earlier versions hold no comparisons."""

    estimates: list[EstimateRow]
    comparisons: list[ComparisonRow] | tuple[()] = ()
    confidence: float = 0.95
    metrics: tuple[Metric, ...] = ()  # in the order they are reported in; others follow
    checks: Sequence[CheckLine] = ()  # of the random exposures
    reversals: Sequence[ReversalRow] = ()  # of a run with slices
    agreement: Sequence[AgreementRow] = ()  # of estimators with their reference
