"""SVD++ equals its formula; the history has all logged pairs, and is empty for a user without pairs."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from models.backbones import history
from models.backbones.svdpp import SVDpp
from models.logged import Logged


def number(model: SVDpp, logged: Logged, u: int, i: int) -> float:
    """Eq. 15, by loops."""
    weights = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    past = [j for user, j in zip(logged.users, logged.items, strict=True) if user == u]
    x = float(weights["biases.base"] + weights["biases.user.weight"][u, 0] + weights["biases.item.weight"][i, 0])
    for d in range(weights["item.weight"].shape[1]):
        user = weights["user.weight"][u, d]
        for j in past:
            user += weights["past.weight"][j, d] / len(past) ** 0.5
        x += weights["item.weight"][i, d] * user
    return x


def test_forward_is_the_formula(tiny: Logged, filled: Callable[..., SVDpp], pairs: tuple[Tensor, Tensor]) -> None:
    model = filled(SVDpp(tiny, 3, 0.7, torch.Generator()))
    numbers = model(*pairs).detach().numpy()
    for n, u in enumerate(pairs[0].tolist()):
        for k, i in enumerate(pairs[1][n].tolist()):
            assert numbers[n, k] == pytest.approx(number(model, tiny, u, i), rel=1e-5, abs=1e-6)


def test_scores_do_not_depend_on_the_block_of_users(
    tiny: Logged, filled: Callable[..., SVDpp], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = filled(SVDpp(tiny, 3, 0.7, torch.Generator()))
    once = model.scorer().score_block(np.arange(6))
    monkeypatch.setattr(history, "AT_ONCE", 4)
    np.testing.assert_allclose(model.scorer().score_block(np.arange(6)), once, rtol=1e-6)


def test_starts_at_the_base(tiny: Logged) -> None:
    assert (SVDpp(tiny, 3, -0.4, torch.Generator()).scorer().score_block(np.arange(6)) == np.float32(-0.4)).all()
