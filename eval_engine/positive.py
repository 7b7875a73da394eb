"""The rule by which a label's value is a positive, such as `value > 3`; it prints as it parses.

>>> print(Positive.parse("value >= 4"))
value >= 4
>>> Positive.parse("value > 3").of([2.0, 3.0, 4.0]).tolist()
[False, False, True]
"""

import operator
import re
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
}


class Positive(NamedTuple):
    """A comparison of a label's value with a number."""

    compare: str
    threshold: float

    def __str__(self) -> str:
        return f"value {self.compare} {self.threshold:g}"

    def of(self, values: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Which of the values are positives."""
        return np.asarray(COMPARE[self.compare](np.asarray(values), self.threshold))

    @classmethod
    def parse(cls, text: str) -> Self:
        """The rule that prints as this text."""
        match = re.fullmatch(r"value\s*(>=|<=|==|>|<)\s*(-?[0-9.]+(?:[eE][-+]?[0-9]+)?)", text.strip())
        if not match:
            raise ValueError(f"{text!r} is not a rule: write it like `value > 3` (>, >=, ==, <, <= and a number)")
        return cls(match[1], float(match[2]))
