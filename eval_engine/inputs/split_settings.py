"""How a log is split into feedback and heldout, as the config says it: docs/stages.md has the rules in words.

split:
  log: {path: /data/log, columns: {timestamp: watched_at}}
  how: {strategy: time, share: 0.2}
  cold: keep
"""

from datetime import UTC, datetime
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from eval_engine.config import Input, Strict

TIMESTAMP = "timestamp"  # the log's column of times, under our name


class Random(Strict):
    """Each pair is held out with the same chance, by a hash of seed and ids: the same pairs on any machine."""

    strategy: Literal["random"]
    share: float = Field(0.2, gt=0, lt=1, description="chance of a pair to be held out")
    seed: int = Field(0, ge=0, lt=2**63)


def _in_utc(time: datetime | float | None) -> datetime | float | None:
    return time.replace(tzinfo=UTC) if isinstance(time, datetime) and time.tzinfo is None else time


class Time(Strict):
    """Pairs at or after a cut are held out: all pairs of one time go to the same side."""

    strategy: Literal["time"]
    cut: Annotated[int | float | datetime | None, AfterValidator(_in_utc)] = Field(
        None,
        description="first time that is held out: a number if the log has numbers, else a time, UTC without a zone",
    )
    share: float | None = Field(
        None,
        gt=0,
        lt=1,
        description="instead of cut: the last share of the log, and the pairs of the same time as its first pair",
    )

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        if (self.cut is None) == (self.share is None):
            raise ValueError("a split by time has a cut or a share: give one of them")
        return self


class LeaveLast(Strict):
    """The last n pairs of each user are held out; of pairs of one time, those with the larger item_id are later."""

    strategy: Literal["leave_last"]
    n: int = Field(1, ge=1, description="pairs of a user that are held out")
    least_training: int = Field(
        1,
        ge=0,
        description="a user with fewer than n + least_training pairs keeps all of them for training, and is counted",
    )


How = Annotated[Random | Time | LeaveLast, Field(discriminator="strategy")]


class Split(Strict):
    """One log becomes inputs.feedback, which models are trained on, and inputs.heldout, which is kept from training."""

    log: Input = Field(
        description="all logged pairs: user_id, item_id, value, timestamp if times are needed; other columns are kept"
    )
    how: How = Field(description="which pairs are held out")
    cold: Literal["keep", "drop"] = Field(
        "keep", description="what becomes of held-out pairs whose user or item has no training pair; they are counted"
    )

    @property
    def timed(self) -> bool:
        """Whether the split needs times."""
        return not isinstance(self.how, Random)
