"""A row of the quality table without run_id: how many rows broke a rule, or the verdict of a check."""

from typing import NamedTuple


class QualityRow(NamedTuple):
    """One rule or check of a run."""

    table: str
    rule: str
    n_rows: int  # that broke the rule; for a check: that it used
    example: str  # one of these rows; for a check: a sentence with its figures
    action: str  # what the run did about it
    verdict: str | None = None  # of a check: pass, warn, fail, not applicable; None for a rule
    statistic: float | None = None
    p: float | None = None
