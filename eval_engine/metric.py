"""A metric is a small value that prints as it parses: Metric.parse("recall@10") prints recall@10.

>>> Metric.parse("recall@10")
Metric(name='recall', k=10)
>>> print(Metric.parse("recall@10"), Metric.parse("auc"))
recall@10 auc
"""

import re
from typing import NamedTuple, Self

AT_K = ("recall", "precision", "dcg", "ndcg", "map", "hit_rate")
WHOLE_LIST = ("auc",)
KNOWN = (*AT_K, *WHOLE_LIST)


class Metric(NamedTuple):
    """A quantity of a ranked list and its cutoff; k is 0 for one of the whole list."""

    name: str
    k: int

    def __str__(self) -> str:
        return f"{self.name}@{self.k}" if self.k else self.name

    @classmethod
    def parse(cls, text: str) -> Self:
        """The metric that prints as this text."""
        match = re.fullmatch(r"([a-z_]+)(?:@([1-9][0-9]{0,8}))?", text.strip())
        if not match or match[1] not in KNOWN or (match[1] in AT_K) != bool(match[2]):
            raise ValueError(
                f"unknown metric {text!r}: write NAME@K with K >= 1 and NAME one of {', '.join(AT_K)}; or {', '.join(WHOLE_LIST)} alone"
            )
        return cls(match[1], int(match[2] or 0))
