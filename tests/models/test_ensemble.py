"""The held-out result of an ensemble: its own metric, or its balanced quality score against its base [bqs] 3.6."""

from math import exp, log2
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from pydantic import ValidationError
from rich.progress import Progress

from eval_engine.errors import DataError
from eval_engine.positive import Positive
from models.interactions import Interactions
from models.keyed import id_keys
from models.learning import Ground, learn
from models.spec.train import MODEL, Train
from models.training import held_out_mask

N_USERS, N_ITEMS, K, LOW = 60, 24, 3, 0.5
BASE = {"epochs": 4, "dims": 4, "batch_size": 64, "stop_on": f"ndcg@{K}", "validation_share": 0.3}


def ground() -> Ground:
    """Users who like some items, of which the first are liked by many."""
    rng = np.random.default_rng(2)
    chance = np.linspace(0.6, 0.08, N_ITEMS)
    users, items = np.nonzero(rng.random((N_USERS, N_ITEMS)) < chance)
    data = Interactions(pa.array(range(N_USERS)), pa.array(range(N_ITEMS)), users, items, np.full(users.size, 5.0))
    return Ground(data, Positive(">", 3.0), 3, torch.device("cpu"), Progress(disable=True))


def entry(**settings: Any) -> dict[str, Any]:
    return {"model": "bpr_ensemble", "base": BASE, "low_share": LOW, **settings}


def low_of(data: Interactions) -> set[int]:
    """The half of the items with the fewest positives, of equal ones the first."""
    counts = [int((data.items == i).sum()) for i in range(N_ITEMS)]
    return set(sorted(range(N_ITEMS), key=lambda i: (counts[i], i))[: round(LOW * N_ITEMS)])


def by_loop(scores: np.ndarray, of: Ground, among: set[int]) -> float:
    """nDCG of held-out pairs of these items: ranks among what the user was not trained on."""
    data = of.data
    held = held_out_mask(of.seed, id_keys(data.user_ids)[data.users], id_keys(data.item_ids)[data.items], 0.3)
    found = []
    for user in range(N_USERS):
        mine = data.users == user
        seen, wanted = (set(data.items[mine & side].tolist()) for side in (~held, held))
        wanted &= among
        if wanted:
            order = sorted(set(range(N_ITEMS)) - seen, key=lambda i: (-scores[user, i], i))[:K]
            best = sum(1 / log2(2 + n) for n in range(min(K, len(wanted))))
            found.append(sum(1 / log2(2 + n) for n, i in enumerate(order) if i in wanted) / best)
    return sum(found) / len(found)


def phi(x: float) -> float:
    return x if x >= 0 else x - (2 * x) ** 2


def test_the_result_is_that_of_the_ensemble_or_its_score_against_its_base() -> None:
    here, every = ground(), set(range(N_ITEMS))
    low, users = low_of(here.data), np.arange(N_USERS)
    base = learn(MODEL.validate_python({"model": "bpr_mf", **BASE}), here).scorer.score_block(users)
    scores = {}
    for delta in (0.05, 0.5, 5.0):
        quality, bqs = (
            learn(MODEL.validate_python(entry(delta=delta, maximise=one)), here) for one in ("quality", "bqs")
        )
        own = bqs.scorer.score_block(users)
        np.testing.assert_array_equal(own, quality.scorer.score_block(users))
        assert quality.held_out == pytest.approx(by_loop(own, here, every))
        gains = [by_loop(own, here, among) - by_loop(base, here, among) for among in (every, low)]
        scores[delta] = 1 / (1 + exp(-sum(map(phi, gains))))
        assert bqs.held_out == pytest.approx(scores[delta])
    assert len(set(scores.values())) == 3  # delta matters


def test_without_a_metric_of_held_out_pairs_an_ensemble_has_no_result() -> None:
    for base in (BASE | {"stop_on": "loss"}, BASE | {"validation_share": 0.0}):
        assert learn(MODEL.validate_python(entry(base=base)), ground()).held_out is None


def test_a_search_for_delta_has_the_score_in_its_trials() -> None:
    fixed = {"base": BASE, "low_share": LOW, "maximise": "bqs"}
    search = {"model": "bpr_ensemble", "fixed": fixed, "grid": {"delta": [0.2, 0.5]}}
    panel = Train.model_validate({"scores": "s", "search": [search]}).panel
    assert [(model.delta, model.result) for model in panel] == [(0.2, f"bqs(ndcg@{K})"), (0.5, f"bqs(ndcg@{K})")]
    assert MODEL.validate_python(entry()).result == f"ndcg@{K}"


def test_no_held_out_positive_of_a_low_item_is_an_error() -> None:
    here = ground()
    data = here.data
    held = held_out_mask(here.seed, id_keys(data.user_ids)[data.users], id_keys(data.item_ids)[data.items], 0.3)
    rare = np.isin(data.items, list(low_of(data)))
    keep = ~(held & rare)
    one = here._replace(data=data._replace(users=data.users[keep], items=data.items[keep], values=data.values[keep]))
    with pytest.raises(DataError, match="maximise bqs needs held-out positives of items that the low-only model"):
        learn(MODEL.validate_python(entry(maximise="bqs")), one)


@pytest.mark.parametrize("change", [{"stop_on": "loss"}, {"validation_share": 0}])
def test_a_score_needs_a_metric_and_held_out_pairs(change: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=r"maximise: bqs scores a metric of held-out pairs: give base a stop_on"):
        MODEL.validate_python(entry(maximise="bqs", base=BASE | change))
