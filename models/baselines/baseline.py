"""The baseline that a config names, from its spec, ready to score.

`report` is called with the share of the work done, from 0 to 1: at the end, and for neighbours and WMF also in between.
"""

from collections.abc import Callable

from eval_engine.errors import DataError
from models.baselines.averages import average_rating, global_average
from models.baselines.counts import popularity, positive_popularity
from models.baselines.item_row import ItemRowScorer
from models.baselines.neighbours import item_knn, user_knn
from models.baselines.random_scores import RandomScorer
from models.baselines.wmf import fit_wmf
from models.interactions import Interactions
from models.keyed import id_keys
from models.logged import Logged
from models.scorer import Scorer
from models.spec.baselines import (
    WMF,
    AverageRating,
    Baseline,
    GlobalAverage,
    ItemKNN,
    Neighbours,
    Popularity,
    PositivePopularity,
    Random,
    UserKNN,
)


def make_baseline(
    spec: Baseline, data: Interactions, logged: Logged, seed: int, report: Callable[[float], None], threads: int = 1
) -> Scorer:
    """The baseline of the spec, computed from the logged pairs; `data` has the ids."""
    if _learns_from_positives(spec) and not logged.positive.any():
        raise DataError(
            f"model {spec.name}: of {len(logged.positive):,} logged pairs, 0 are positive, so {spec.kind} would score "
            "every pair 0. Check the rule `positive` against the values of the feedback."
        )
    scorer = _make(spec, data, logged, seed, report, threads)
    report(1.0)
    return scorer


def _learns_from_positives(spec: Baseline) -> bool:
    """Whether positives are all that the baseline learns from."""
    if isinstance(spec, Neighbours):
        return spec.label == "positive"
    return isinstance(spec, PositivePopularity | WMF)


def _make(
    spec: Baseline, data: Interactions, logged: Logged, seed: int, report: Callable[[float], None], threads: int
) -> Scorer:
    """The scorer of the spec's kind."""
    match spec:
        case Random():
            return RandomScorer(seed, id_keys(data.user_ids), id_keys(data.item_ids))
        case GlobalAverage():
            return ItemRowScorer(global_average(logged))
        case Popularity():
            return ItemRowScorer(popularity(logged))
        case PositivePopularity():
            return ItemRowScorer(positive_popularity(logged))
        case AverageRating():
            return ItemRowScorer(average_rating(logged, spec.damping))
        case UserKNN():
            return user_knn(spec, logged, report, threads)
        case ItemKNN():
            return item_knn(spec, logged, report, threads)
        case WMF():
            return fit_wmf(spec, logged, seed, lambda sweep: report(sweep / spec.sweeps), threads)
