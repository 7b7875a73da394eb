"""A row of the quality table, but for run_id: how many rows broke a rule, or what a check says of them."""

from typing import NamedTuple


class QualityRow(NamedTuple):
    """One rule or check of a run."""

    table: str
    rule: str
    n_rows: int  # that broke the rule; of a check: that were looked at
    example: str  # one of them; of a check: a sentence with its figures
    action: str  # what was done
    verdict: str | None = None  # of a check: pass, warn, fail, not applicable
    statistic: float | None = None
    p: float | None = None
