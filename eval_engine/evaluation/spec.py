"""The evaluation that is requested for every model: metrics, cutoffs, slices, the rule for positives, and the tie
policy.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eval_engine.estimators.estimator import Estimator, MetricTerms, undefined_terms
from eval_engine.estimators.metrics.kernel import ListKernel, MetricKernel
from eval_engine.estimators.metrics.parity import CLASSES
from eval_engine.estimators.registry import ESTIMATORS, METRICS, terms_of
from eval_engine.estimators.traditional import TRADITIONAL
from eval_engine.kernels.arrays import Ints
from eval_engine.metric import Metric
from eval_engine.positive import Positive
from eval_engine.storage.keyed_table import KeyedTable

Doubles = npt.NDArray[np.float64]
LABEL_SETS = frozenset({"random", "heldout", "truth", "designed"})
ALL = "all"  # the slice of all users and items
POPULARITY = "popularity"  # the slicing of items by their class


class Cell(NamedTuple):
    """A metric at a cutoff under an estimator: one number of a model."""

    formula: MetricTerms
    metric: Metric


class Group(NamedTuple):
    """The cells of an estimator and a metric, one for each cutoff: they share denominators."""

    formula: MetricTerms
    metrics: tuple[Metric, ...]
    cells: tuple[int, ...]  # their numbers


class LabelledPairs(NamedTuple):
    """Some labelled pairs of a label set."""

    users: pa.Array  # user_id of each user
    offsets: Ints  # of each user's pairs
    items: pa.Array  # item_id of each pair
    propensity: Doubles | None  # of each pair, where the run has propensities


class PairRule(Protocol):
    """Which slices the labelled pairs of a label set are in."""

    @property
    def label_set(self) -> str:
        """The name of the label set: random, heldout, truth."""

    @property
    def needs_items(self) -> bool:
        """Whether item ids are needed."""

    def codes(self, pairs: LabelledPairs) -> Ints:
        """The numbers of slices, (n, n_pairs): a pair may be in several; -1: in none."""


class Slicing(NamedTuple):
    """A column of items or users, or a rule of pairs; each of its values gets estimates of its own."""

    name: str
    of: str  # item, user, pair
    table: int  # its number among the tables of items, or of users
    values: tuple[str, ...]
    rule: PairRule | None = None  # of a slicing of pairs
    estimators: frozenset[str] | None = None  # those that have these slices; None: all

    @property
    def n_codes(self) -> int:
        """One slice for each value, and a last one for items or users without a value."""
        return len(self.values) + (self.of != "pair")

    def names(self) -> list[str]:
        """Slice names as in the tables: category=toys; category=NULL for items or users missing in the table."""
        return [f"{self.name}={value}" for value in (*self.values, "NULL")][: self.n_codes]

    def is_of(self, estimator: Estimator) -> bool:
        """Whether the estimator has these slices."""
        asked = self.estimators is None or estimator.name in self.estimators
        return asked and (self.rule is None or estimator.needs & LABEL_SETS == {self.rule.label_set})


class PropensityRule(NamedTuple):
    """Where the propensities of held-out pairs come from: columns of items and users, the value, or the pair itself."""

    method: str
    largest: float  # of all held-out pairs; 1 where propensities are never scaled
    floor: float  # of `clipped`
    items: KeyedTable | None = None  # propensity, or logit
    users: KeyedTable | None = None  # logit
    by_value: tuple[tuple[float, float], ...] = ()  # of naive_bayes


class PopularityRule(NamedTuple):
    """Where the popularity of items comes from."""

    counts: KeyedTable  # count, of items: training positives
    trained: KeyedTable  # low, middle, high, of users: training pairs of each class
    sizes: tuple[int, ...]  # items of each of CLASSES
    n_users: int  # with a training positive


class Strata(NamedTuple):
    """Strata of propensity; the slices of a slicing of items."""

    kind: str  # equal_width, equal_count
    n: int

    @property
    def slicing(self) -> str:
        """The name of its slicing."""
        return f"propensity_{self.kind}_{self.n}"

    @property
    def setting(self) -> str:
        """As it stands in the names of estimators."""
        return f"({self.kind}={self.n})"


@dataclass(frozen=True)
class EvaluationSpec:
    """The evaluation that is requested for every model."""

    metrics: tuple[Metric, ...]  # over all candidates
    traditional: tuple[Metric, ...]  # among the exposed items
    positive: Positive
    ties: str
    sets: tuple[str, ...]  # label sets that the run has: random, heldout, truth
    estimators: tuple[Estimator, ...] = field(default_factory=lambda: tuple(ESTIMATORS.values()))
    kernels: Mapping[str, MetricKernel] = field(default_factory=lambda: dict(METRICS))
    slicings: tuple[Slicing, ...] = ()
    item_tables: tuple[KeyedTable, ...] = ()  # columns of items, for slices and weights
    user_tables: tuple[KeyedTable, ...] = ()
    propensity: PropensityRule | None = None
    strata: tuple[Strata, ...] = ()
    popularity: PopularityRule | None = None
    known_sizes: bool = False  # also from uniform exposures

    def asked(self) -> list[Cell]:
        """Every estimator whose inputs the run has, with each of its metrics."""
        return self._asked

    @cached_property
    def _asked(self) -> list[Cell]:
        have = {*self.sets, "top", *(f"item.{name}" for table in self.item_tables for name in table.columns)}
        have |= {"propensity"} if self.propensity else set()
        logged = self.propensity is not None and self.propensity.method == "logged"
        drawn = any(slicing.name == "test_set" and slicing.of == "pair" for slicing in self.slicings)
        have |= {"test_sets"} if drawn else set()
        have |= {"keys", *({"popularity"} if self.popularity else set())}
        have |= {"known_sizes"} if self.known_sizes else set()
        return [
            Cell(formula, metric)
            for estimator in self.estimators
            if estimator.needs <= have
            for metric in (self.traditional if estimator.name == TRADITIONAL.name else self.metrics)
            if (formula := terms_of(estimator, self.kernels[metric.base], logged)) and formula.needs <= have
        ]

    @cached_property
    def needs(self) -> frozenset[str]:
        """What estimators and metrics need."""
        return frozenset().union(*(f.estimator.needs | f.needs for f, _ in self.asked()))

    def with_lists(self) -> bool:
        """Whether top lists are read."""
        return bool(self.lists()) or "top" in self.needs

    @cached_property
    def list_cutoff(self) -> int:
        """The number of items of each list that are needed."""
        ks = [metric.k for f, metric in self.asked() if "top" in f.estimator.needs]
        return max([*ks, *(metric.k for _, _, metric in self.lists())], default=0)

    def first_class(self) -> dict[int, int]:
        """The number of each class of popularity among CLASSES, by the code of its slice."""
        first = 0
        for slicing in self.slicings:
            if slicing.name == POPULARITY and slicing.of == "item":
                found = {value: first + n for n, value in enumerate(slicing.values)}
                return {found[name]: g for g, name in enumerate(CLASSES) if name in found}
            first += slicing.n_codes
        return {}

    def groups(self) -> list[Group]:
        """The cells by estimator and metric; a cell that shares no denominators is a group of its own."""
        found: dict[tuple[str, str, int], tuple[MetricTerms, list[Metric], list[int]]] = {}
        for number, (formula, metric) in enumerate(self.asked()):
            alone = 0 if formula.denominator or formula.terms is undefined_terms else number + 1
            key = (formula.estimator.name, metric.name, alone)
            _, metrics, cells = found.setdefault(key, (formula, [], []))
            metrics.append(metric)
            cells.append(number)
        return [Group(formula, tuple(metrics), tuple(cells)) for formula, metrics, cells in found.values()]

    def lists(self) -> list[tuple[Estimator, ListKernel, Metric]]:
        """The metrics of all users' top lists together."""
        found = []
        for estimator in self.estimators:
            for metric in self.metrics if "lists" in estimator.means else ():
                if kernel := self.kernels[metric.base].lists:
                    found.append((estimator, kernel, metric))
        return found

    def label_sets(self) -> tuple[str, ...]:
        """The label sets that are needed."""
        return self._label_sets

    @cached_property
    def _label_sets(self) -> tuple[str, ...]:
        return tuple(name for name in self.sets if name in self.needs)

    def item_sets(self) -> tuple[str, ...]:
        """The label sets whose items are needed: all for slices of items, else those of item-weighted estimators."""
        return self._item_sets

    @cached_property
    def _item_sets(self) -> tuple[str, ...]:
        if any(slicing.of == "item" for slicing in self.slicings):
            return self.label_sets()
        by_rule = {one.rule.label_set for one in self.slicings if one.rule is not None and one.rule.needs_items}
        by_item = self.propensity is not None and self.propensity.items is not None
        by_rule |= {"heldout"} if "keys" in self.needs else set()
        weighing = [
            f.estimator.needs
            for f, _ in self.asked()
            if any(n.startswith("item.") or (by_item and n == "propensity") for n in f.estimator.needs)
        ]
        return tuple(name for name in self.label_sets() if name in by_rule or any(name in needs for needs in weighing))

    def with_weights(self) -> bool:
        """Whether some estimator says how its weight is spread over pairs."""
        return any(formula.estimator.share is not None for formula, _ in self.asked())

    def cutoffs(self) -> tuple[int, ...]:
        """Every requested cutoff."""
        return tuple(sorted({metric.k for metric in (*self.metrics, *self.traditional)} - {0}))

    def slice_names(self) -> list[str]:
        """Every slice, in the order of their codes."""
        return [name for slicing in self.slicings for name in slicing.names()]

    def codes_of_pairs(self, estimator: Estimator) -> list[int]:
        """The codes of the slices of items and pairs that the estimator has."""
        codes, first = [], 0
        for slicing in self.slicings:
            if slicing.of != "user" and slicing.is_of(estimator):
                codes += list(range(first, first + slicing.n_codes))
            first += slicing.n_codes
        return codes

    def slicings_of_pairs(self, estimator: Estimator) -> tuple[int, ...]:
        """The numbers of the slicings of items and pairs that the estimator has."""
        return tuple(n for n, one in enumerate(self.slicings) if one.of != "user" and one.is_of(estimator))

    def compared(self) -> list[Cell]:
        """The quantities on which models are compared per user: recall and precision give the same order of models on a
        user, as do DCG and nDCG. A metric that random exposures cannot estimate per user is left out.
        """
        if "random" not in self.sets:
            return []
        metrics = {compared for metric in self.metrics if (compared := self.win_metric_of(metric))}
        cells = (Cell(formula, metric) for metric in sorted(metrics) if (formula := self._compared_by(metric)))
        return list(cells)

    def win_metric_of(self, metric: Metric) -> Metric | None:
        """The quantity on which models are compared per user for this metric; None: they are not compared."""
        other = self.kernels[metric.base].compared_as
        return None if other is None else Metric(other, metric.k) if other else metric

    def _compared_by(self, metric: Metric) -> MetricTerms | None:
        """The estimator whose numerators are compared: the first from random exposure that is a mean over users."""
        known = {one.name: one for one in self.estimators}
        for name in ("ure_macro", "ure_mean"):
            if name in known and (formula := terms_of(known[name], self.kernels[metric.base])):
                return formula
        return None
