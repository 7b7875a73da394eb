"""The test sets of a run, as the config names them.

test_sets:
  - {strategy: FULL}
  - {strategy: REG, share: 0.5, draws: 10}
  - {strategy: WTD_H, share: 0.5, draws: 10, exponent: 2, zero_support: laplace, pairs: true}
"""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from eval_engine.config import SLICING, Strict
from eval_engine.test_sets.strategies import Weighing, ZeroSupport

# A split and a draw hash the same pairs: with one seed, the pairs that were held out would have the least of the keys,
# and the draw would depend on the split more than on its weights. A split's seed is 0 unless given.
FIRST_SEED = 1_000_000


class _TestSet(Strict):
    name: str = Field("", description="in tables, as test_set(NAME); left out: the strategy in lower case")
    pairs: bool = Field(False, description="write the pairs of the set to the table test_set_pairs")

    @model_validator(mode="before")
    @classmethod
    def _named(cls, given: object) -> object:
        if isinstance(given, dict) and not given.get("name") and isinstance(given.get("strategy"), str):
            return given | {"name": given["strategy"].lower()}
        return given

    @model_validator(mode="after")
    def _usable(self) -> Self:
        if not SLICING.fullmatch(self.name):
            raise ValueError(
                f"name: {self.name!r} cannot name a test set: letters, digits and '_', a letter first, at most 64"
            )
        return self

    @property
    def n_draws(self) -> int:
        """How often it is drawn."""
        return 1

    @property
    def first_seed(self) -> int:
        """The seed of its first draw; draw d has seed + d."""
        return 0

    @property
    def kept_share(self) -> float | None:
        """The share of the pairs that is drawn; None: not drawn by weight."""
        return None

    @property
    def weighing(self) -> Weighing:
        """How pairs are weighed."""
        return Weighing(self.strategy)  # type: ignore[attr-defined]


class _Repeated(_TestSet):
    draws: int = Field(1, ge=1, le=1000, description="how often it is drawn, with seed, seed + 1 ...")
    seed: int = Field(FIRST_SEED, ge=0, lt=2**62, description="of the first draw; not that of the split")

    @property
    def n_draws(self) -> int:
        """How often it is drawn."""
        return self.draws

    @property
    def first_seed(self) -> int:
        """The seed of its first draw; draw d has seed + d."""
        return self.seed


class _Drawn(_Repeated):
    share: float = Field(0.5, gt=0, le=1, description="share of the held-out pairs that is drawn")

    @property
    def kept_share(self) -> float | None:
        """The share of the pairs that is drawn."""
        return self.share


class Full(_TestSet):
    """FULL: every held-out pair."""

    strategy: Literal["FULL"]


class Regular(_Drawn):
    """REG: drawn with equal weights."""

    strategy: Literal["REG"]


class Skew(_Drawn):
    """SKEW: weight 1 / count(item)."""

    strategy: Literal["SKEW"]
    zero_support: ZeroSupport = Field("laplace", description="of items without a training pair")

    @property
    def weighing(self) -> Weighing:
        """How pairs are weighed."""
        return Weighing(self.strategy, self.zero_support)


class _Weighted(_Drawn):
    zero_support: ZeroSupport = Field("laplace", description="of users and items without support")
    exponent: float = Field(2.0, ge=0, le=100, description="of w_i")

    @property
    def weighing(self) -> Weighing:
        """How pairs are weighed."""
        return Weighing(self.strategy, self.zero_support, self.exponent)  # type: ignore[attr-defined]


class Weighted(_Weighted):
    """WTD: weight w_u w_i^exponent, with marginals of the random exposures as target."""

    strategy: Literal["WTD"]


class WeightedUniform(_Weighted):
    """WTD_H: the same, with uniform marginals as target."""

    strategy: Literal["WTD_H"]


class Cap(_Repeated):
    """CAP: at most Q3 + 1.5 IQR pairs of an item, those with the smallest hashes."""

    strategy: Literal["CAP"]


TestSet = Annotated[Full | Regular | Skew | Weighted | WeightedUniform | Cap, Field(discriminator="strategy")]


def _distinct(sets: tuple[TestSet, ...]) -> tuple[TestSet, ...]:
    names = [one.name for one in sets]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{name} is the name of two test sets. Give one of them another name")
    if sum(one.n_draws for one in sets) > 1000:
        raise ValueError(f"{sum(one.n_draws for one in sets):,} draws in all test sets together: at most 1,000")
    return sets


TestSets = Annotated[tuple[TestSet, ...], Field(min_length=1), AfterValidator(_distinct)]
