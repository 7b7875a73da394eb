"""Every composition of the registry can overfit ten interactions with its own loss and sampler."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from rich.progress import Progress

from eval_engine.config import Input
from eval_engine.errors import DataError
from eval_engine.positive import Positive
from models.interactions import Interactions
from models.learning import Ground, learn
from models.registry import REGISTRY
from models.spec.ensemble import Ensemble
from models.spec.gradient import Gradient
from models.spec.train import MODEL

USERS, ITEMS, VALUES = (
    np.arange(10) // 2,
    np.array([0, 3, 1, 2, 0, 2, 1, 3, 0, 1]),
    np.array([5.0, 1, 5, 1, 1, 5, 1, 5, 5, 1]),
)  # a like, a dislike
FAST = {"epochs": 300, "batch_size": 10, "learning_rate": 0.05, "weight_decay": 0.0, "validation_share": 0.0, "dims": 8}
OWN: dict[str, dict[str, Any]] = {
    "mlp": {"dims": 32, "learning_rate": 0.01},
    "bpr_jannach": {"sampler": {"spread": 2.0}},
    "rvae": {"hidden": 16, "dropout": 0.0, "kl": 0.01},
    "simgcl": {"contrast": 0.01, "layers": 1},
    "mf_negs": {"sampler": {"hardest": 2, "drawn": 3}},
    "lightgcn_negs": {"sampler": {"hardest": 2, "drawn": 3}},
    "mf_autodebias": {"stop_on": "loss"},  # of three random pairs the AUC is 1 at once
}
GRADIENT = [
    name
    for name in REGISTRY
    if name
    not in (
        "random",
        "global_average",
        "popularity",
        "positive_popularity",
        "average_rating",
        "user_knn",
        "item_knn",
        "wmf",
    )
]


def ground(users: np.ndarray = USERS, items: np.ndarray = ITEMS, values: np.ndarray = VALUES) -> Ground:
    data = Interactions(pa.array(range(5)), pa.array(range(4)), users, items, values)
    order = np.argsort(users * 4 + items)
    data = data._replace(users=users[order], items=items[order], values=values[order])
    return Ground(data, Positive(">", 3.0), 1, torch.device("cpu"), Progress(disable=True))


def entry(name: str, random: Input) -> dict[str, Any]:
    """The composition, with settings that make it small and fast."""
    if name == "bpr_ensemble":
        return {"model": name, "base": FAST}
    loss = {"loss": {"random": {"path": random.path}}} if name == "mf_autodebias" else {}
    return {"model": name, **FAST, **OWN.get(name, {}), **loss}


@pytest.mark.parametrize("name", GRADIENT)
def test_overfits_ten_interactions(name: str, save: Callable[..., Input]) -> None:
    random = save("random", {"user_id": USERS, "item_id": ITEMS, "value": VALUES})
    model = MODEL.validate_python(entry(name, random))
    assert isinstance(model, Gradient | Ensemble)
    learned = learn(model, ground())
    scores = learned.scorer.score_block(np.arange(5))
    liked, disliked = (scores[USERS[mask], ITEMS[mask]] for mask in (VALUES > 3, VALUES < 3))
    assert (liked > disliked).all(), (liked, disliked)
    assert learned.fit is not None
    assert learned.fit.losses[-1] < learned.fit.losses[0]


@pytest.mark.parametrize("name", ["mf", "mf_ips", "bpr_mf", "mf_ratings"])
def test_labels_that_are_all_equal_are_an_error(name: str) -> None:
    with pytest.raises(
        DataError, match=rf"model {name}: of \d+ training pairs, 0 are positive; .*nothing can be learned"
    ):
        learn(MODEL.validate_python({"model": name}), ground(values=np.ones(10)))


@pytest.mark.parametrize("name", ["mf", "bpr_mf", "weighted_bpr_mf", "mf_negs", "lightgcn", "bpr_oversampled_evenly"])
def test_negatives_asked_for_where_users_have_seen_everything_are_an_error(name: str) -> None:
    users, items = np.divmod(np.arange(20), 4)
    model = MODEL.validate_python({"model": name, "validation_share": 0})
    with pytest.raises(DataError, match=rf"model {name}: sampler \w+ can draw no negative: of 4 items"):
        learn(model, ground(users, items, np.full(20, 5.0)))


@pytest.mark.parametrize("name", ["weighted_bpr_mf", "lightgcn", "bpr_oversampled_evenly", "mf_negs"])
@pytest.mark.filterwarnings("error")
def test_no_positive_pair_is_an_error(name: str) -> None:
    with pytest.raises(DataError, match=rf"model {name}: of \d+ training pairs, 0 are positive"):
        learn(MODEL.validate_python({"model": name}), ground(values=np.ones(10)))


def test_an_ensemble_is_its_two_models() -> None:
    model = MODEL.validate_python({"model": "bpr_ensemble", "base": FAST, "delta": 0.7, "low_share": 0.5})
    whole = learn(model, ground()).scorer.score_block(np.arange(5))
    base = learn(MODEL.validate_python({"model": "bpr_mf", **FAST}), ground()).scorer.score_block(np.arange(5))
    low_items = np.argsort(np.bincount(ITEMS[VALUES > 3], minlength=4), kind="stable")[:2]
    low = np.isin(ITEMS, low_items)
    second = learn(
        MODEL.validate_python({"model": "bpr_mf", **FAST}), ground(USERS[low], ITEMS[low], VALUES[low])
    ).scorer.score_block(np.arange(5))

    def softmax(scores: np.ndarray) -> np.ndarray:
        shown = np.exp(scores - scores.max(axis=1, keepdims=True))
        return shown / shown.sum(axis=1, keepdims=True)

    np.testing.assert_allclose(whole, softmax(base) + 0.7 * softmax(second), rtol=1e-5)
