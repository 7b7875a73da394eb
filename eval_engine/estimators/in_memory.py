"""Metrics with their standard errors and intervals, one call each, for arrays in memory; no tables, no Spark.

    ure_NAME           over all candidates, from randomly exposed pairs (estimators/ure.py)
    designed_NAME      the same, from both arms of designed exposures, weighted by 1 / probability
    (estimators/designed.py)
    full_NAME          the same, from complete labels: an unlabelled item is a negative (estimators/full_exposure.py)
    traditional_NAME   among the labelled items only (estimators/traditional.py)
    holdout_NAME       of logged pairs kept from training (estimators/holdout.py)
    snips_NAME, snips_NAME_user, clipped_NAME, ips_NAME
                       of such pairs weighted by 1 / propensity (estimators/ips.py)
    stratified         of such pairs by stratum of propensity (estimators/stratified.py)

    >>> import numpy as np
    >>> from eval_engine.kernels.rank_facts import rank_facts
    >>> scores = np.array([[4, 3, 2, 1], [1, 2, 3, 4]]) / 1.0
    >>> facts = rank_facts(scores, items=[[0, 2], [1, 3]], values=[[1, 0], [1, 0]])
    >>> ure_recall(facts, k=2).value, ure_auc(facts).value, ure_rbp(facts, k=2, p=0.5).value
    (0.5, 0.5, 0.5)
    >>> ure_recall(facts, k=2).per_user.tolist()
    [1.0, 0.0]

Weights of logged pairs come from their propensities, one for each labelled pair:

    >>> snips_recall(facts, k=2, propensity=[0.5, 0.5, 0.25, 0.5]).value
    0.3333333333333333
    >>> stratified(facts, "recall", 2, stratum=[1, 1, 2, 2]).value
    0.5

Items that a model was trained on are not candidates: exclude them.

    >>> facts = rank_facts(scores, items=[[2], [1]], values=[[1], [1]], excluded=[[0, 1], [3]])
    >>> ure_recall(facts, k=1).per_user.tolist()
    [1.0, 0.0]

The functions are those of the registry. A metric's first mean over users has its plain name (ure_recall is `ure_macro`
recall in the tables), others end in theirs (ure_recall_micro, ure_recall_balanced, full_ndcg_mean); `evaluate` takes
the names of the tables. The docstring of each function says what it estimates. `positive` marks the pairs that are
positives, such as positive=facts.value >= 4; it may be left out if values are 0 and 1, or False and True.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from eval_engine.estimators.estimator import MetricTerms, Terms, divided
from eval_engine.estimators.labelled import Labelled
from eval_engine.estimators.registry import ESTIMATORS, METRICS, formula, terms_of
from eval_engine.estimators.stratified import combine_strata
from eval_engine.estimators.user_batch import Propensities, UserBatch, batch_of
from eval_engine.kernels.arrays import Bools, Ints
from eval_engine.kernels.rank_facts import RankFacts
from eval_engine.kernels.slice_order import slice_order
from eval_engine.metric import KINDS, Metric
from eval_engine.statistics import ratio
from eval_engine.statistics.balanced import Strata
from eval_engine.statistics.bucket_sums import N_COARSE
from eval_engine.statistics.comparison import Comparison, hit_size
from eval_engine.statistics.comparison import compare as compare_models
from eval_engine.statistics.few_hits import Range, interval
from eval_engine.statistics.paired import paired
from eval_engine.statistics.ratio import estimate, ratio_sums

Doubles = npt.NDArray[np.float64]
FAMILIES = ("ure", "designed", "full", "traditional", "holdout", "snips", "clipped", "ips")
MEANS = (
    "macro",
    "mean",
    "micro",
    "balanced",
    "user",
    "mean_known",
)  # a metric's first mean in this order gets the plain name
SETS = ("random", "designed", "truth", "heldout")


class Estimate(ratio.Estimate):
    """An estimate with each user's terms, and the estimates of slices where slices were given."""

    terms: Terms
    slices: Mapping[int, "Estimate"]

    @property
    def per_user(self) -> Doubles:
        """Each user's own value, numerator / denominator; NaN for users who are left out."""
        return divided(*self.terms)


def evaluate(
    facts: RankFacts,
    estimator: str,
    metric: str,
    positive: Bools | None = None,
    ties: str = "expected",
    confidence: float = 0.95,
    slice: Ints | None = None,
    user_slice: Ints | None = None,
    propensity: npt.ArrayLike | None = None,
    floor: float = 0.01,
) -> Estimate:
    """An estimate by estimator and metric names as in the tables, such as evaluate(facts, "ure_macro", "recall@10").

    slice: a code for each labelled pair, given by its item. user_slice: a code for each user. `slices` holds the
    estimate of each code: over the positives of that code, or over the users of that code. propensity: of each
    labelled pair, for estimators that weigh pairs; floor: of `clipped`.
    """
    own = Metric.parse(metric)
    batch, terms = batch_of(facts, positive, SETS), formula(estimator, own.base)
    if "propensity" in terms.estimator.needs:
        batch.propensities = _propensities(facts, propensity, floor)
    view = terms.estimator.view(batch)
    found = _estimated(terms, own, batch, view, np.arange(facts.n_users), ties, confidence)
    found.slices = {}
    if slice is not None:
        codes = np.asarray(slice)
        if codes.shape != facts.value.shape:
            raise ValueError(
                f"slice must have a code for each of the {facts.value.size} pairs, found shape {codes.shape}"
            )
        distinct, numbers = np.unique(codes, return_inverse=True)
        order = slice_order(view.offsets, numbers.reshape(1, -1)[:, view.positive])
        sliced, users, code_of = view.sliced(order), order.users, order.slices
        parts = terms.of(batch, sliced, users, own.k, ties, **own.parameters)
        nobody = view.no_positives
        empty = terms.of(batch, nobody, np.arange(facts.n_users), own.k, ties, **own.parameters)
        for number, code in enumerate(distinct.tolist()):
            a, b = (column.copy() for column in empty)
            inside = code_of == number
            a[users[inside]], b[users[inside]] = (column[inside] for column in parts)
            kinds = _kinds(terms, batch, nobody)
            if kinds is not None:
                kinds[users[inside]] = _kinds(terms, batch, sliced)[inside]  # type: ignore[index]
            found.slices[code] = _of_terms(terms, Terms(a, b), kinds, confidence, own.k)
    if user_slice is not None:
        codes = np.asarray(user_slice)
        if codes.shape != (facts.n_users,):
            raise ValueError(
                f"user_slice must have a code for each of the {facts.n_users} users, found shape {codes.shape}"
            )
        for code in np.unique(codes).tolist():
            users = np.flatnonzero(codes == code)
            found.slices[code] = _estimated(terms, own, batch, view.of(users), users, ties, confidence)
    return found


def stratified(
    facts: RankFacts,
    metric: str,
    k: int,
    stratum: npt.ArrayLike,
    positive: Bools | None = None,
    propensity: npt.ArrayLike | None = None,
    ties: str = "expected",
    confidence: float = 0.95,
) -> ratio.Estimate:
    """Holdout within each stratum, weighted by the stratum's share of the pairs [simpson] eq. 4, or, with propensity,
    by its share of their 1 / propensity. stratum: of each labelled pair. Users are assigned to units round-robin; edges
    and propensities count as given.
    """
    codes = np.asarray(stratum)
    whole = evaluate(facts, "holdout", f"{metric}@{k}", positive, ties, confidence, slice=codes)
    weight = (
        np.ones(facts.value.size) if propensity is None else 1 / _propensities(facts, propensity, 1.0).of["heldout"]
    )
    unit, strata = np.arange(facts.n_users) % N_COARSE, np.unique(codes)
    shape = strata.size, min(N_COARSE, facts.n_users)
    a, b, n = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    for x, code in enumerate(strata.tolist()):
        terms = whole.slices[code].terms
        inside = codes == code
        a[x], b[x] = (np.bincount(unit, column, minlength=shape[1]) for column in terms)
        n[x] = np.bincount(unit[facts.user[inside]], weight[inside], minlength=shape[1])
    found = combine_strata(a[None], b[None], n)
    units = int((b > 0).any(axis=0).sum())
    inflation = units / (units - 1) if units > 1 else np.nan
    error = float(np.sqrt(inflation * (found.errors[0] ** 2).sum() + found.unseen[0] ** 2))
    value, of = float(found.values[0]), formula("holdout", metric).range(k)._replace(heavy=True)  # weights of strata
    users = min(float(whole.n_users), float(found.users[0]))
    low, high = interval(value, error, users, max(units - 1, 1), confidence, of)
    return ratio.Estimate(value, error, float(low), float(high), *whole[4:])


def _propensities(facts: RankFacts, propensity: npt.ArrayLike | None, floor: float) -> Propensities:
    """The propensities of labelled pairs; an error if one is missing, or not in (0, 1]."""
    if propensity is None:
        raise ValueError("propensity must be given: the chance of each labelled pair to be logged")
    p = np.asarray(propensity, np.float64)
    if p.shape != facts.value.shape:
        raise ValueError(
            f"propensity must have a value for each of the {facts.value.size} pairs, found shape {p.shape}"
        )
    for pair in np.flatnonzero(~((p > 0) & (p <= 1)))[:1]:
        raise ValueError(f"propensity: pair {pair} of user {facts.user[pair]} has {p[pair]}, not in (0, 1]")
    return Propensities({"heldout": p}, float(p.max(initial=0.0)) or 1.0, floor)


def compare(
    facts_a: RankFacts,
    facts_b: RankFacts,
    estimator: str,
    metric: str,
    positive: Bools | None = None,
    ties: str = "expected",
    confidence: float = 0.95,
    margin: float = 0.01,
) -> Comparison:
    """Paired comparison of two models on the same users: the difference a - b, its interval and p-value. Both facts
    must hold the same pairs in the same order.
    """
    if facts_a.offsets.tolist() != facts_b.offsets.tolist() or not np.array_equal(facts_a.value, facts_b.value):
        raise ValueError(
            "the two models must be ranked on the same labelled pairs of the same users, in the same order"
        )
    own = Metric.parse(metric)
    terms = formula(estimator, own.base)
    if terms.estimator.combine is not None:
        raise ValueError(
            f"{estimator} has no terms of single users to pair: compare by another estimator, or through the tables"
        )
    both = []
    for facts in (facts_a, facts_b):
        batch = batch_of(facts, positive, SETS)
        view = terms.estimator.view(batch)
        both.append(terms.of(batch, view, np.arange(facts.n_users), own.k, ties, **own.parameters))
    a, b = (np.array(columns) for columns in zip(*both, strict=True))
    n_users = int((b[0] > 0).sum())
    hits = hit_size(a.sum(axis=1), b.sum(axis=1), (a * a).sum(axis=1))
    (found,) = compare_models(paired(a, b), n_users, confidence, margin, hits=hits)
    return found


def _estimated(
    terms: MetricTerms, metric: Metric, batch: UserBatch, view: Labelled, users: Ints, ties: str, confidence: float
) -> Estimate:
    """The estimate over the users of a view."""
    each = terms.of(batch, view, users, metric.k, ties, **metric.parameters)
    return _of_terms(terms, each, _kinds(terms, batch, view), confidence, metric.k)


def _kinds(terms: MetricTerms, batch: UserBatch, view: Labelled) -> Ints | None:
    """The strata of the users, if the estimator has strata."""
    return None if terms.estimator.stratum is None else terms.estimator.stratum(batch, view)


def _of_terms(terms: MetricTerms, each: Terms, kinds: Ints | None, confidence: float, k: int) -> Estimate:
    """The estimate over users with these terms and strata."""
    found = Estimate(*estimate(ratio_sums(each), confidence, terms.range(k)))
    if kinds is not None:
        found = Estimate(*_combined(terms, each, kinds, confidence, terms.range(k)), *found[4:])
    if terms.estimator.no_interval:
        found = Estimate(found.value, np.nan, np.nan, np.nan, found.n_users, found.n_left_out, found.n_unknown)
    found.terms, found.slices = each, {}
    return found


def _combined(
    terms: MetricTerms, each: Terms, kinds: Ints, confidence: float, of: Range
) -> tuple[float, float, float, float]:
    """Value, standard error and interval that the estimator combines from strata; users are assigned to jackknife units
    round-robin.
    """
    assert terms.estimator.combine is not None
    if kinds.size == 0 or kinds.min() < 0 or np.isnan(each.numerator).any():
        return (np.nan,) * 4
    distinct, which = np.unique(kinds, axis=0, return_inverse=True)
    row = np.arange(len(kinds)) % N_COARSE * len(distinct) + which.reshape(-1)
    columns = (np.ones(len(kinds)), each.numerator, each.numerator**2)
    users, sums, squares = (
        np.bincount(row, x, minlength=N_COARSE * len(distinct)).reshape(N_COARSE, -1).astype(np.float64)
        for x in columns
    )
    exposures, candidates, positives = distinct.T
    found = terms.estimator.combine(Strata(exposures, candidates, positives, users, sums[None], squares[None]))
    value, error = float(found.models.values[0]), float(found.standard_errors()[0])
    low, high = interval(value, error, (each.denominator > 0).sum(), found.degrees()[0], confidence, of)
    return value, error, float(low), float(high)


def names() -> dict[str, tuple[str, str]]:
    """The functions of this module that follow from the registry: name, with estimator and metric of each."""
    found: dict[str, tuple[str, str]] = {}
    for family in FAMILIES:
        for metric in METRICS:
            plain = _has(family, metric)
            means = [mean for mean in MEANS if _has(f"{family}_{mean}", metric)]
            for n, mean in enumerate(means):
                name = f"{family}_{metric}" if n == 0 and not plain else f"{family}_{metric}_{mean}"
                found[name] = f"{family}_{mean}", metric
            if plain:
                found[f"{family}_{metric}"] = family, metric
    return found


def _has(estimator: str, metric: str) -> bool:
    """Whether the estimator defines the metric."""
    own = ESTIMATORS.get(estimator)
    found = None if own is None or metric in own.without else terms_of(own, METRICS[metric])
    return found is not None and not found.needs


def _function(name: str, estimator: str, metric: str) -> Callable[..., Estimate]:
    """The function of an estimator and a metric: facts, the cutoff if there is one, then as in `evaluate`, and the
    metric's parameters by name.
    """
    kind, own = KINDS[metric], formula(estimator, metric)

    def at_k(
        facts: RankFacts,
        k: int,
        positive: Bools | None = None,
        ties: str = "expected",
        confidence: float = 0.95,
        slice: Ints | None = None,
        user_slice: Ints | None = None,
        propensity: npt.ArrayLike | None = None,
        floor: float = 0.01,
        **parameters: float,
    ) -> Estimate:
        inside = f"({','.join(f'{name}={value!r}' for name, value in parameters.items())})" if parameters else ""
        name = f"{metric}{inside}@{k}"
        return evaluate(facts, estimator, name, positive, ties, confidence, slice, user_slice, propensity, floor)

    def whole_list(
        facts: RankFacts,
        positive: Bools | None = None,
        ties: str = "expected",
        confidence: float = 0.95,
        slice: Ints | None = None,
        user_slice: Ints | None = None,
        propensity: npt.ArrayLike | None = None,
        floor: float = 0.01,
    ) -> Estimate:
        return evaluate(facts, estimator, metric, positive, ties, confidence, slice, user_slice, propensity, floor)

    found: Callable[..., Estimate] = at_k if kind.at_k else whole_list
    found.__name__ = found.__qualname__ = name
    found.__doc__ = f"{own.estimand} ({own})"
    return found


FUNCTIONS: dict[str, Callable[..., Estimate]] = {name: _function(name, *what) for name, what in names().items()}
globals().update(FUNCTIONS)


def __getattr__(name: str) -> Any:
    """Functions of metrics and estimators that were registered after import."""
    if name in (known := names()):
        return _function(name, *known[name])
    raise AttributeError(f"module {__name__} has no {name}")
