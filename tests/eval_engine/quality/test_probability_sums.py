"""The sum of 1 / pi over the top K: right probabilities pass, wrong ones and missing exposures are seen."""

import numpy as np

from eval_engine.exposure_design.design import design_exposures
from eval_engine.quality.probability_sums import off, top_sum

N, ITEMS, K = 20_000, 80, 5


def sums(change=lambda chance, in_top: chance, keep=lambda arm, in_top: in_top):
    rng = np.random.default_rng(0)
    lists = np.argsort(rng.random((2, N, ITEMS)), axis=2)[:, :, :K]
    plan = design_exposures(lists, ITEMS, 8, 4, 1)
    found = []
    for m in range(2):
        b = np.array(
            [
                (keep(arm, np.isin(items, top)) / change(chance, np.isin(items, top))).sum()
                for items, chance, arm, top in zip(
                    plan.items, plan.probabilities, plan.in_targeted, lists[m], strict=True
                )
            ]
        )
        found.append(top_sum("ab"[m], K, N, float(b.sum()), float((b**2).sum())))
    return found


def test_planned_and_shown_exposures_pass():
    found = sums()
    assert all(abs(one.mean - K) < 0.1 for one in found)
    assert off(found, 0.001) == []


def test_wrong_probabilities_are_seen():
    lines = off(sums(change=lambda chance, in_top: np.where(in_top, chance * 0.8, chance)), 0.001)
    assert len(lines) == 1
    assert "the sum of 1 / probability over the top 5 is 6.2" in lines[0]


def test_exposures_that_were_not_shown_are_seen():
    assert off(sums(keep=lambda arm, in_top: in_top & (np.arange(arm.size) % 4 > 0)), 0.001)


def test_a_user_alone_has_no_verdict():
    assert off([top_sum("a", 5, 1, 4.0, 16.0), top_sum("a", 5, 0, 0.0, 0.0)], 0.001) == []
