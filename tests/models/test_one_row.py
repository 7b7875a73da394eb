"""A log of one user, and one of one item: scores, or an error that names the model and the remedy."""

import numpy as np
import pyarrow as pa
import pytest
import torch
from rich.progress import Progress

from eval_engine.errors import DataError
from eval_engine.positive import Positive
from models.interactions import Interactions
from models.learning import Ground, learn
from models.registry import REGISTRY
from models.spec.baselines import Baseline
from models.spec.ensemble import Ensemble
from models.spec.gradient import Gradient
from models.spec.samplers import AllPairs, Observed, PopularityNegatives
from models.spec.train import MODEL

NAMES = [name for name in REGISTRY if name != "mf_autodebias"]  # it reads a table of its own


def made(name: str) -> Baseline | Ensemble | Gradient:
    """The model with two epochs."""
    model = MODEL.validate_python({"model": name})
    if isinstance(model, Ensemble):
        return model.model_copy(update={"base": model.base.model_copy(update={"epochs": 2})})
    return model.model_copy(update={"epochs": 2}) if isinstance(model, Gradient) else model


def ground(users: np.ndarray, items: np.ndarray) -> Ground:
    """Every second pair is liked."""
    ids = pa.array(range(users.max() + 1)), pa.array(range(items.max() + 1))
    data = Interactions(*ids, users, items, np.where(np.arange(len(users)) % 2 == 0, 5.0, 1.0))
    return Ground(data, Positive(">", 3.0), 1, torch.device("cpu"), Progress(disable=True))


def scores_of(name: str, where: Ground) -> np.ndarray:
    return learn(made(name), where).scorer.score_block(np.arange(where.data.n_users))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("error")
def test_one_user(name: str) -> None:
    alone = ground(np.zeros(12, np.int64), np.arange(12))
    if isinstance(getattr(made(name), "sampler", None), PopularityNegatives):
        # all items with a positive are positives of this user
        with pytest.raises(DataError, match=f"model {name}: sampler popularity_negatives can draw no negative"):
            scores_of(name, alone)
        return
    scores = scores_of(name, alone)
    assert scores.shape == (1, 12)
    assert np.isfinite(scores).all()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("error")
def test_one_item(name: str) -> None:
    alone, model = ground(np.arange(12), np.zeros(12, np.int64)), made(name)
    if isinstance(model, Baseline) or isinstance(getattr(model, "sampler", None), Observed | AllPairs):
        scores = scores_of(name, alone)
        assert scores.shape == (12, 1)
        assert np.isfinite(scores).all()
        return
    with pytest.raises(DataError, match=rf"model {name}: sampler \w+ can draw no negative: of 1 items.*Add items"):
        scores_of(name, alone)
