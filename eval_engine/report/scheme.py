"""A scheme is an estimator at a metric, one column of the report: URE balanced recall@10, traditional recall@5.

What the report knows of an estimator comes from the registry (estimators/registry.py): its label, its role, what it is
an estimate of, which label sets it needs, and its place among the columns. An estimator that the registry does not have
(a user's own, or one of another version) is an estimate, labelled by its name in words, and comes after the known ones.
"""

import re
from typing import NamedTuple

from eval_engine.estimators.registry import ESTIMATORS, estimator_of
from eval_engine.metric import Metric
from eval_engine.plain_text import plain

TRUTH, NAIVE, ESTIMATE = "truth", "naive", "estimate"  # roles of estimators
RANDOM = "random"  # the label set that the checks of random exposures are about
LABEL_SETS = {RANDOM, "heldout", "truth"}


class Scheme(NamedTuple):
    """An estimator at a metric."""

    estimator: str
    metric: Metric

    @property
    def label(self) -> str:
        """The estimator in words."""
        known = estimator_of(self.estimator)
        settings = plain(f" ({given}" if (given := self.estimator.partition("(")[2]) else "")
        return known.label_of(self.metric.name) + settings if known else plain(self.estimator.replace("_", " "))

    @property
    def role(self) -> str:
        """TRUTH: computed from complete labels; NAIVE: what is usually reported instead; ESTIMATE: of the truth."""
        known = estimator_of(self.estimator)
        return known.role if known else ESTIMATE

    @property
    def estimates(self) -> str | None:
        """The estimator over complete labels that this one estimates; None if there is none."""
        known = estimator_of(self.estimator)
        return known.estimates if known else None

    @property
    def rests_on_random(self) -> bool:
        """Whether it reads the random exposures; of an estimator that the registry does not have, that is assumed."""
        known = estimator_of(self.estimator)
        return RANDOM in known.needs if known else True

    @property
    def judges(self) -> bool:
        """Whether it reads labels, so that a higher value is better; else it describes the lists that models give."""
        known = estimator_of(self.estimator)
        return bool(LABEL_SETS & known.needs) if known else True

    @property
    def setting_of(self) -> str:
        """The estimator without settings: stratified of stratified(equal_count=5)."""
        return self.estimator.partition("(")[0]

    @property
    def place(self) -> tuple[int, tuple[tuple[str, int], ...], str, int, str]:
        """Sorts schemes of one role into the order of the report; numbers in settings by their value."""
        names = list(ESTIMATORS)
        known = estimator_of(self.estimator)
        place = names.index(known.name) if known else len(names)
        settings = tuple((word, int(number or 0)) for word, number in re.findall(r"(\D+)(\d*)", self.estimator))
        return place, settings, self.metric.name, self.metric.k, str(self.metric)

    @property
    def name(self) -> str:
        """The label; of a naive scheme also the metric, which need not be the panel's."""
        return str(self) if self.role == NAIVE else self.label

    @property
    def spoken(self) -> str:
        """The label inside a sentence that gives a verdict."""
        if self.role == NAIVE:
            return f"{self.label} (naive: no estimate over all candidates)"
        return f"the {self.label}" if self.role == TRUTH else self.label

    def __str__(self) -> str:
        return f"{self.label} {self.metric}"
