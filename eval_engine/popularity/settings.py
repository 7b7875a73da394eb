"""How popularity classes are made, as the config says it: docs/popularity.md has the formulas.

popularity:
  method: elbow        # or elbow_log, share, quantile
"""

from typing import Literal

from pydantic import Field

from eval_engine.config import Strict

Method = Literal["elbow", "elbow_log", "share", "quantile"]
LOW_SHARE = 0.2


class Popularity(Strict):
    """Classes of items by the number of training pairs that are positives."""

    method: Method = "elbow"
    share: float = Field(
        LOW_SHARE, gt=0, lt=1, description="of method share: the least popular items that hold this share are low"
    )
