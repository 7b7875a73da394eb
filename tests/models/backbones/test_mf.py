"""Matrix factorisation equals its formula, with and without biases; untrained vectors do not rank items."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from models.backbones.mf import MatrixFactorisation


@pytest.mark.parametrize("base", [0.7, None])
def test_forward_is_the_formula(
    filled: Callable[..., MatrixFactorisation], pairs: tuple[Tensor, Tensor], base: float | None
) -> None:
    model = filled(MatrixFactorisation(6, 5, 3, base, torch.Generator()))
    weights = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    users, items = pairs
    numbers = model(users, items).detach().numpy()
    assert numbers.shape == (5, 3)
    for n, u in enumerate(users.tolist()):
        for k, i in enumerate(items[n].tolist()):
            expected = sum(weights["user.weight"][u, d] * weights["item.weight"][i, d] for d in range(3))
            if base is not None:
                expected += 0.7 + weights["biases.user.weight"][u, 0] + weights["biases.item.weight"][i, 0]
            assert numbers[n, k] == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_starts_at_the_base_rate_with_small_item_vectors() -> None:
    model = MatrixFactorisation(4, 50, 8, -1.25, torch.Generator().manual_seed(0))
    assert (model.scorer().score_block(np.arange(4)) == -1.25).all()
    assert 0 < model.item.weight.abs().max() < 0.2


def test_without_biases_there_are_none() -> None:
    model = MatrixFactorisation(4, 50, 8, None, torch.Generator().manual_seed(0))
    assert [name for name, _ in model.named_parameters()] == ["user.weight", "item.weight"]
    assert (model.scorer().score_block(np.arange(4)) == 0).all()
