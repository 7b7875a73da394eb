"""A metric is a small value that prints as it parses: Metric.parse("recall@10") prints recall@10.

>>> Metric.parse("recall@10")
Metric(name='recall', k=10)
>>> print(Metric.parse("recall@10"), Metric.parse("auc"), Metric.parse("rbp@10"), Metric.parse("rbp(p=0.5)@10"))
recall@10 auc rbp(p=0.8)@10 rbp(p=0.5)@10

A metric's parameters are part of its name, each written out, so that tables hold them in the column `metric`. Metrics
register themselves (eval_engine/estimators/registry.py); those of other packages are known once their module is
imported.
"""

import re
from collections.abc import Mapping
from importlib import import_module
from typing import NamedTuple, Self

BUILT_IN = "eval_engine.estimators.registry"  # registers the metrics of this package; imported at the first parse


class Parameter(NamedTuple):
    """A number that a metric takes: what it is where it is not given, and what it must lie between."""

    default: float
    low: float
    high: float


class MetricKind(NamedTuple):
    """What can be written of a metric: with a cutoff (@K) or of the whole list, and its parameters."""

    name: str
    at_k: bool
    parameters: Mapping[str, Parameter] = {}


KINDS: dict[str, MetricKind] = {}
KNOWN: list[str] = []  # names, in the order in which they were registered


def register(kind: MetricKind) -> None:
    """Makes a metric known to Metric.parse; the same name again takes the place of the one before."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", kind.name):
        raise ValueError(f"metric name {kind.name!r}: small letters, digits and '_' only, a letter first")
    if kind.name not in KINDS:
        KNOWN.append(kind.name)
    KINDS[kind.name] = kind


class Metric(NamedTuple):
    """A quantity of a ranked list and its cutoff; k is 0 for one of the whole list."""

    name: str  # with its parameters: rbp(p=0.8)
    k: int

    def __str__(self) -> str:
        return f"{self.name}@{self.k}" if self.k else self.name

    @property
    def base(self) -> str:
        """The name without parameters."""
        return self.name.partition("(")[0]

    @property
    def parameters(self) -> dict[str, float]:
        """The parameters by name."""
        inside = self.name.partition("(")[2].rstrip(")")
        pairs = (part.split("=") for part in inside.split(",") if part)
        return {name.strip(): float(value) for name, value in pairs}

    @classmethod
    def parse(cls, text: str) -> Self:
        """The metric that prints as this text."""
        import_module(BUILT_IN)
        match = re.fullmatch(r"([a-z][a-z0-9_]*)(?:\(([^()]*)\))?(?:@([1-9][0-9]{0,8}))?", text.strip())
        kind = KINDS.get(match[1]) if match else None
        if match is None or kind is None or kind.at_k != bool(match[3]):
            at_k = ", ".join(name for name in KNOWN if KINDS[name].at_k)
            whole = ", ".join(name for name in KNOWN if not KINDS[name].at_k)
            raise ValueError(
                f"unknown metric {text!r}: write NAME@K with K >= 1 and NAME one of {at_k}; or {whole} alone"
            )
        return cls(_named(kind, match[2] or "", text), int(match[3] or 0))


def _named(kind: MetricKind, given: str, text: str) -> str:
    """The name with every parameter written out."""
    values = {name: parameter.default for name, parameter in kind.parameters.items()}
    for part in given.split(",") if given.strip() else ():
        name, _, value = (piece.strip() for piece in part.partition("="))
        if name not in values:
            known = f"its parameters are {', '.join(values)}" if values else "it has none"
            raise ValueError(f"metric {text!r}: {kind.name} has no parameter {name!r}; {known}")
        low, high = kind.parameters[name].low, kind.parameters[name].high
        try:
            values[name] = float(value)
        except ValueError:
            raise ValueError(f"metric {text!r}: {name}={value!r} is not a number") from None
        if not low < values[name] < high:
            raise ValueError(f"metric {text!r}: {name} must lie between {low:g} and {high:g}, found {value}")
    inside = ",".join(f"{name}={value:.12g}" for name, value in values.items())
    return f"{kind.name}({inside})" if inside else kind.name
