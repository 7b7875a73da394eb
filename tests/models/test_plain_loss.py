"""The loss by which trials are compared equals loops, and draws uniform negatives whatever the sampler."""

import math

import numpy as np
import pytest
import torch

from models.backbones.mf import MatrixFactorisation
from models.logged import Logged
from models.plain_loss import NEGATIVES, plain_loss
from models.spec.train import MODEL

USERS, ITEMS = np.array([0, 0, 1, 2, 2]), np.array([0, 1, 2, 0, 3])
POSITIVE = np.array([True, False, True, True, False])
LOGGED = Logged(USERS, ITEMS, POSITIVE, np.array([5.0, 2, 4, 5, 1]), 3, 4)


def loss_of(**entry: object) -> float:
    model = MODEL.validate_python({"name": "m", "dims": 3, **entry})
    backbone = MatrixFactorisation(3, 4, 3, 0.3, torch.Generator().manual_seed(1))
    return plain_loss(model, backbone, LOGGED, LOGGED, torch.Generator().manual_seed(2))


def numbers() -> np.ndarray:
    backbone = MatrixFactorisation(3, 4, 3, 0.3, torch.Generator().manual_seed(1))
    return backbone(torch.from_numpy(USERS), torch.from_numpy(ITEMS)[:, None]).detach().numpy()[:, 0]


def test_logged_pairs_without_weights_match_a_loop() -> None:
    expected = [math.log(1 + math.exp(-x if y else x)) for x, y in zip(numbers(), POSITIVE, strict=True)]
    weighted = {"kind": "bce", "propensity": {"power": 2.0, "floor": 0.01}, "residual_correlation": 3.0}
    assert loss_of(model="mf_ips") == pytest.approx(np.mean(expected), rel=1e-6)
    assert loss_of(model="mf_ips", loss=weighted) == pytest.approx(np.mean(expected), rel=1e-6)
    assert loss_of(model="mf_dr") == pytest.approx(np.mean(expected), rel=1e-6)


def test_comparisons_have_the_same_negatives_in_every_trial() -> None:
    plain = loss_of(model="bpr_mf")
    assert plain == pytest.approx(math.log(2), abs=0.2)
    for model in ("bpr_ips", "bpr_pd", "bpr_oversampled", "bpr_jannach"):
        assert loss_of(model=model, batch_size=1) == plain
    assert loss_of(model="bpr_mf", sampler={"per_positive": NEGATIVES + 7}) == plain


def test_without_pairs_it_is_undefined() -> None:
    model = MODEL.validate_python({"name": "m", "model": "mf_ips"})
    backbone = MatrixFactorisation(3, 4, 3, 0.0, torch.Generator())
    none = LOGGED.where(np.zeros(5, bool))
    assert math.isnan(plain_loss(model, backbone, none, LOGGED, torch.Generator()))
