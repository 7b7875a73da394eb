"""The strategies by which pairs are drawn, and what is done with users and items without support.

    FULL     every pair
    REG      drawn with equal weights
    SKEW     weight 1 / count(item)
    WTD      weight w_u w_i^q, w = P_mar / P_mnar, P_mar from a random sample            [wtd]
    WTD_H    the same with P_mar = 1 / number of users, 1 / number of items              [wtd]
    CAP      every pair, less those of an item beyond Q3 + 1.5 IQR of the items' counts

A user or item without a training pair (WTD: or without a pair of the random sample) has no support: its factor is
undefined, or 0. The policy says what it is then:

    laplace          (count + 1) / (total + number of users or items) in place of count / total; SKEW: 1 / (count + 1)
    missing_is_one   the factor is 1
    drop             the pair cannot be drawn
"""

from typing import Literal, NamedTuple, get_args

from eval_engine.errors import ConfigError

Strategy = Literal["FULL", "REG", "SKEW", "WTD", "WTD_H", "CAP"]
ZeroSupport = Literal["laplace", "missing_is_one", "drop"]
DRAWN = ("REG", "SKEW", "WTD", "WTD_H")  # by weight, a share of the pairs


class Weighing(NamedTuple):
    """How pairs are weighed."""

    strategy: Strategy
    zero_support: ZeroSupport = "laplace"
    exponent: float = 2.0  # of w_i

    @property
    def text(self) -> str:
        """The weight of a pair in words."""
        policy = f" (zero support: {self.zero_support})"
        if self.strategy == "SKEW":
            return f"1 / count_tr(i){policy}"
        if self.strategy in ("WTD", "WTD_H"):
            target = "the random sample" if self.strategy == "WTD" else "uniform"
            return f"w_u w_i^{self.exponent:g}, w = P_mar / P_mnar, P_mar {target}{policy}"
        return "1"


def weighing_of(strategy: str, zero_support: str, exponent: float) -> Weighing:
    """The same, checked."""
    if strategy not in get_args(Strategy):
        raise ConfigError(f"strategy {strategy!r} is not known: {', '.join(get_args(Strategy))}.")
    if zero_support not in get_args(ZeroSupport):
        raise ConfigError(f"zero_support {zero_support!r} is not known: {', '.join(get_args(ZeroSupport))}.")
    if not 0 <= exponent <= 100:
        raise ConfigError(f"exponent {exponent} of w_i is not between 0 and 100.")
    return Weighing(strategy, zero_support, float(exponent))  # type: ignore[arg-type]
