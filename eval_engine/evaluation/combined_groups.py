"""Groups of estimators that combine others: strata of propensity, classes of popularity, draws of test sets; and the
spread of weights over pairs.
"""

import numpy as np

from eval_engine.estimators.holdout import HOLDOUT
from eval_engine.estimators.test_set import COMBINED, TEST_SET
from eval_engine.evaluation.class_variation import over_classes
from eval_engine.evaluation.pair_weights import NO_PAIRS, WEIGHT
from eval_engine.evaluation.result_groups import ResultGroup
from eval_engine.evaluation.spec import ALL
from eval_engine.evaluation.strata import Spreads, strata_in, stratified
from eval_engine.evaluation.test_set_slices import combined_set, sets_in
from eval_engine.statistics.bucket_sums import N_COARSE


def with_spread(group: ResultGroup, spreads: Spreads) -> ResultGroup:
    """The group with the spread of its weights over pairs, if its estimator has weights."""
    of_all = spreads.get((group.models[0].name, group.key[0], WEIGHT, ALL, 0))
    nothing = None if of_all is None else NO_PAIRS
    return group._replace(spread=spreads.get((group.models[0].name, group.key[0], WEIGHT, group.key[3], 0), nothing))


def stratified_groups(groups: list[ResultGroup], spreads: Spreads) -> list[ResultGroup]:
    """The groups of estimators that combine strata of propensity, from the slices of holdout."""
    strata = strata_in(sorted({group.key[3] for group in groups}))
    cells: dict[tuple[str, int], dict[str, ResultGroup]] = {}
    for group in groups if strata else ():
        if group.key[0] == HOLDOUT.name:
            cells.setdefault(group.key[1:3], {})[group.key[3]] = group
    found = []
    for (metric, k), slices in sorted(cells.items()):
        whole = slices[ALL]
        names = [model.name for model in whole.models]
        sums = {name: {m.name: (m.a, m.b, m.sums.n_unknown > 0) for m in one.models} for name, one in slices.items()}
        for (kind, n), own in strata.items():
            for one in stratified(kind, n, names, own, sums, spreads):
                estimand = f"{whole.about.estimand.rstrip('.')}; by stratum of propensity: {one.estimator.caveat}."
                about = whole.about._replace(estimator=one.estimator._replace(name=one.name), estimand=estimand)
                models = [model._replace(a=np.zeros(N_COARSE), b=np.zeros(N_COARSE)) for model in whole.models]
                caveat = f"strata with {one.left_out:.1%} of the weight have no positive" if one.left_out > 0 else ""
                found.append(
                    ResultGroup(
                        (one.name, metric, k, ALL),
                        about,
                        models,
                        one.linear.models,
                        None,
                        one.linear,
                        one.spread,
                        caveat,
                    )
                )
    return found


def class_groups(groups: list[ResultGroup]) -> list[ResultGroup]:
    """The groups of metrics that compare classes of popularity, from the slices of classes."""
    cells: dict[tuple[str, str, int], dict[str, ResultGroup]] = {}
    for group in groups:
        if group.about.over_classes is not None:
            cells.setdefault(group.key[:3], {})[group.key[3]] = group
    found = []
    for (name, metric, k), slices in sorted(cells.items()):
        whole = max(slices.values(), key=lambda group: max(model.sums.n_users for model in group.models))
        sums = {part: {m.name: (m.a, m.b, m.sums.n_unknown > 0) for m in one.models} for part, one in slices.items()}
        assert whole.about.over_classes is not None
        one = over_classes(whole.about.over_classes, [model.name for model in whole.models], sums)
        estimator = whole.about.estimator._replace(combine=over_classes, undefined="no class has a positive mean")
        about = whole.about._replace(
            estimator=estimator, estimand=f"{whole.about.estimand.rstrip('.')}: {one.remark}.", over_classes=None
        )
        models = [model._replace(a=np.zeros(N_COARSE), b=np.zeros(N_COARSE)) for model in whole.models]
        found.append(ResultGroup((name, metric, k, ALL), about, models, one.linear.models, None, one.linear))
    return found


def test_set_groups(groups: list[ResultGroup], spreads: Spreads) -> list[ResultGroup]:
    """The groups of test sets, each over its draws, from the slices of draws."""
    sets = sets_in(sorted({group.key[3] for group in groups}))
    cells: dict[tuple[str, int], dict[str, ResultGroup]] = {}
    for group in groups if sets else ():
        cells.setdefault(group.key[1:3], {})[group.key[3]] = group
    found = []
    for (metric, k), slices in sorted(cells.items()):
        sums = {name: {m.name: (m.a, m.b, m.sums.n_unknown > 0) for m in one.models} for name, one in slices.items()}
        for name, draws in sets.items():
            whole = slices[draws[0]]
            one = combined_set(name, draws, [model.name for model in whole.models], sums)
            about = whole.about._replace(estimator=COMBINED._replace(name=one.name))
            models = []
            for m, model in enumerate(whole.models):
                each = [slices[draw].models[m].sums for draw in draws]
                users, left_out = (
                    round(sum(getattr(x, c) for x in each) / len(each)) for c in ("n_users", "n_left_out")
                )
                counts = {"n_users": users, "n_left_out": left_out, "n_unknown": max(x.n_unknown for x in each)}
                models.append(
                    model._replace(a=np.zeros(N_COARSE), b=np.zeros(N_COARSE), sums=model.sums._replace(**counts))
                )
            pairs = [spreads.get((models[0].name, TEST_SET.name, WEIGHT, draw, 0), NO_PAIRS).n for draw in draws]
            found.append(
                ResultGroup(
                    (one.name, metric, k, ALL),
                    about,
                    models,
                    one.linear.models,
                    None,
                    one.linear,
                    draws=len(draws),
                    draws_sd=one.sd,
                    n_pairs=round(sum(pairs) / len(pairs)),
                )
            )
    return found
