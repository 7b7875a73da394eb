"""Every estimator by name, in the order in which a report shows them: what the tables call it, what people call it, and what it needs.

>>> [name for name, one in ESTIMATORS.items() if one.role == "estimate"]
['ure_balanced', 'ure_mean', 'ure_macro', 'ure_micro']
>>> ESTIMATORS["ure_macro"].label_of("recall"), ESTIMATORS["ure_macro"].label_of("auc")
('URE macro', 'URE')
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple

Role = Literal["truth", "naive", "estimate"]


class Estimator(NamedTuple):
    """A way from labelled pairs to estimates of metrics.

    role: truth is known from complete labels, naive is what others report and no estimate of the metric over all candidates,
    estimate is an estimate of it. estimates: the estimator over complete labels whose value it is an estimate of.
    """

    name: str  # in tables
    label: str  # in words, short enough for the head of a column
    role: Role
    estimates: str | None
    needs: frozenset[str]  # label sets (random, heldout, truth), top, and columns of items and users (item.propensity)
    labels: Mapping[str, str] = {}  # other words, by metric

    def label_of(self, metric: str) -> str:
        """The label beside a metric of this name."""
        return self.labels.get(metric, self.label)


RANDOM, TRUTH, BOTH = frozenset({"random"}), frozenset({"truth"}), frozenset({"truth", "random"})
_ALONE = {"auc": "URE", "map": "URE"}  # metrics with one URE only
_ALL = (
    Estimator("full_mean", "truth", "truth", None, TRUTH),
    Estimator("full_macro", "truth", "truth", None, TRUTH, {"ndcg": "truth of users with a positive"}),
    Estimator("lists", "lists", "truth", None, frozenset({"top"})),
    Estimator("traditional", "traditional", "naive", None, RANDOM),
    Estimator("holdout", "held-out pairs", "naive", None, frozenset({"heldout"})),
    Estimator("ure_balanced", "URE balanced", "estimate", "full_macro", RANDOM),
    Estimator("ure_mean", "URE", "estimate", "full_mean", RANDOM),
    Estimator("ure_macro", "URE macro", "estimate", "full_selected", RANDOM, _ALONE),
    Estimator(
        "full_selected",
        "URE macro's target",
        "truth",
        None,
        BOTH,
        dict.fromkeys(_ALONE, "URE's target"),
    ),
    Estimator("ure_micro", "URE micro", "estimate", "full_micro", RANDOM),
    Estimator("full_micro", "URE micro's target", "truth", None, TRUTH),
)
ESTIMATORS: Mapping[str, Estimator] = {one.name: one for one in _ALL}
