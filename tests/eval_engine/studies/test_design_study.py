"""The study of designed exposures: the rule by hand, what is drawn, sums of draws against a loop, and what is refused."""

import math

import numpy as np
import pytest
from pydantic import ValidationError
from scipy.stats import chisquare

from eval_engine.exposure_design.design import expected_gain
from eval_engine.studies import design
from eval_engine.studies.design import (
    PLANS,
    Block,
    Sums,
    blocks_of,
    cases_of,
    estimated,
    exposed,
    lines_of,
    population,
    share_listed,
    sums_of,
    truths,
    uniform_items,
    ways_of,
)
from eval_engine.studies.settings import DesignCase, DesignStudy

STUDY = DesignStudy.model_validate(
    {
        "kind": "design",
        "population": 80,
        "users": 200,
        "draws": 30,
        "base": {"items": 120, "models": 3, "apart": 0.5, "exposures": 6, "k": 5},
        "vary": {"k": [3], "models": [2]},
    }
)


def test_the_rule_by_hand():
    # half of 10 uniform; arm T may show 50 of 2,000 items: 1/2 + 1/2 * 2000 / 50
    assert expected_gain(10, 5, 2000, 50 / 2000) == 0.5 + 0.5 * 40
    assert expected_gain(10, 2, 2000, 50 / 2000) == pytest.approx(0.2 + 0.8 * 40)
    # at most every item of the lists is shown with certainty: N / e
    assert expected_gain(10, 2, 2000, 4 / 2000) == 200
    # lists of the whole frame gain nothing; without any, arm U is all that is left
    assert expected_gain(10, 5, 2000, 1.0) == 1
    assert expected_gain(10, 5, 2000, 0.0) == 0.5


@pytest.mark.parametrize(("n_items", "exposures"), [(30, 4), (8, 5)])
def test_items_are_drawn_uniformly_without_replacement(n_items, exposures):
    found = uniform_items(np.random.default_rng(1), 6000, n_items, exposures)
    assert all(np.unique(row).size == exposures for row in found)
    counts = np.bincount(found.ravel(), minlength=n_items)
    assert chisquare(counts).pvalue > 1e-3
    pairs = np.bincount(found[:, 0] * n_items + found[:, 1], minlength=n_items**2).reshape(n_items, n_items)
    assert chisquare(pairs[~np.eye(n_items, dtype=bool)]).pvalue > 1e-3


def test_cases_differ_from_the_base_one_at_a_time():
    assert cases_of(STUDY) == [STUDY.base, *(STUDY.base.model_copy(update=x) for x in ({"models": 2}, {"k": 3}))]
    blocks = blocks_of(STUDY.model_copy(update={"draws": 60}))
    assert [(block.first, block.n_draws) for block in blocks] == [(0, 25), (25, 25), (50, 10)]


def test_the_truth_and_the_share_that_arm_t_may_show_by_loops():
    models = population(STUDY, 120, 0.5)
    case, hits, n = STUDY.base, [0, 0], 0
    listed = dict.fromkeys(PLANS, 0)
    for user in range(STUDY.population):
        tops = [set(models.lists[m, user, : case.k].tolist()) for m in range(case.models)]
        likes = set(np.flatnonzero(models.liked[user]).tolist())
        n += len(likes)
        for m in range(2):
            hits[m] += len(likes & tops[m])
        listed["half"] += len(set.union(*tops))
        listed["pair"] += len(tops[0] ^ tops[1])
    found = truths(models, case.k)
    assert found["recall"] == pytest.approx((hits[0] - hits[1]) / n)
    assert found["precision"] == pytest.approx((hits[0] - hits[1]) / (case.k * STUDY.population))
    for way in ("half", "pair"):
        assert share_listed(models, case, way) == pytest.approx(listed[way] / STUDY.population / case.items)


def test_rows_are_what_a_loop_over_the_draws_finds():
    case, models = STUDY.base, population(STUDY, 120, 0.5)
    rows = [row for block in blocks_of(STUDY) for row in sums_of(STUDY, block)]
    lines = {(x.models, x.k, x.plan, x.metric, x.known_sizes): x for x in lines_of(STUDY, rows[::-1])}
    assert len(lines) == 3 * 14
    values = {}
    for way in ("uniform", "half"):
        found = []
        for draw in range(STUDY.draws):
            users = np.random.default_rng((19, STUDY.seed, draw)).integers(0, STUDY.population, STUDY.users)
            facts = exposed(models, users, case, way, STUDY.seed + draw)
            found.append(estimated(facts, "precision", False, case.k, way != "uniform"))
        values[way] = np.array(found)
    truth = truths(models, case.k)["precision"]
    line = lines[3, 5, "half", "precision", False]
    value, error, low, high = values["half"].T
    assert (line.n_undefined, line.n_draws, line.uniform) == (0, 30, 3)
    assert line.variance == pytest.approx(value.var(ddof=1))
    assert line.bias == pytest.approx(value.mean() - truth)
    assert line.coverage == pytest.approx(((low <= truth) & (truth <= high)).mean())
    assert line.se_ratio == pytest.approx(math.sqrt((error**2).mean() / value.var(ddof=1)))
    assert line.gain == pytest.approx(values["uniform"][:, 0].var(ddof=1) / value.var(ddof=1))
    assert line.predicted_gain == pytest.approx(expected_gain(6, 3, 120, share_listed(models, case, "half")))
    assert line.gain > 1.5
    assert lines[3, 5, "uniform", "precision", False].gain == 1
    assert lines[3, 5, "uniform", "precision", False].predicted_gain is None


def test_rows_do_not_depend_on_who_did_which_block(monkeypatch):
    study = STUDY.model_copy(update={"draws": 6, "users": 60})
    monkeypatch.setattr(design, "BLOCK", 2)
    rows = [row for block in blocks_of(study) for row in sums_of(study, block)]
    assert lines_of(study, rows) == lines_of(study, rows[::-1])
    whole = sums_of(study, Block(120, 0.5, 0, 6))
    for one, other in zip(lines_of(study, rows), lines_of(study, whole), strict=True):
        assert one[:12] == other[:12]
        for a, b in zip(one[12:], other[12:], strict=True):
            assert a == b or a == pytest.approx(b, rel=1e-6, nan_ok=True)


def test_draws_without_an_interval_are_counted_and_left_out():
    rows = []
    for n, (way, _, _) in enumerate(ways_of(STUDY.base)):
        share = math.nan if way == "uniform" else 0.1
        rows += [Sums(case, n, 0, 0.5, share, [0.0, 0.0, 0.0, 0.0, 0.0, 30.0]) for case in range(3)]
    for line in lines_of(STUDY, rows):
        assert line.n_undefined == 30
        assert line[13:17] == (None, None, None, None)
        assert line.gain is None


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"base": {"items": 20, "k": 20}}, "base: k 20 of 20 items leave nothing to choose"),
        ({"vary": {"items": [10]}}, "vary.items: 10: exposures 10 of 10 items"),
        ({"vary": {"models": [1]}}, "greater than or equal to 2"),
        ({"vary": {"noise": [1]}}, "Extra inputs are not permitted"),
    ],
)
def test_what_cannot_be_studied_is_an_error(changed, words):
    with pytest.raises(ValidationError, match=words):
        DesignStudy.model_validate({"kind": "design"} | changed)
    assert DesignCase().items == 2000
