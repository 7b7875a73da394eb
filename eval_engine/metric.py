"""A metric is a small value that prints as it parses: Metric.parse("recall@10") prints recall@10.

>>> Metric.parse("recall@10")
Metric(name='recall', k=10)
>>> print(Metric.parse("recall@10"))
recall@10
"""

import re
from typing import NamedTuple, Self

KNOWN = ("recall",)


class Metric(NamedTuple):
    """A quantity of a ranked list and its cutoff."""

    name: str
    k: int

    def __str__(self) -> str:
        return f"{self.name}@{self.k}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """The metric that prints as this text."""
        match = re.fullmatch(r"([a-z]+)@([1-9][0-9]{0,8})", text.strip())
        if not match or match[1] not in KNOWN:
            raise ValueError(f"unknown metric {text!r}: write NAME@K with K >= 1 and NAME one of {', '.join(KNOWN)}")
        return cls(match[1], int(match[2]))
