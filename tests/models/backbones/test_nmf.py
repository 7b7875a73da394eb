"""Non-negative factorisation: u . v, no entry below zero, and the base as the initial mean."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from models.backbones.nmf import LEAST, NonNegativeFactorisation


def test_forward_is_the_formula(filled: Callable[..., NonNegativeFactorisation], pairs: tuple[Tensor, Tensor]) -> None:
    model = filled(NonNegativeFactorisation(6, 5, 3, 0.5, torch.Generator()))
    u, v = model.user.weight.detach().numpy(), model.item.weight.detach().numpy()
    numbers = model(*pairs).detach().numpy()
    for n, user in enumerate(pairs[0].tolist()):
        for k, item in enumerate(pairs[1][n].tolist()):
            assert numbers[n, k] == pytest.approx(sum(u[user, d] * v[item, d] for d in range(3)), rel=1e-5, abs=1e-6)


def test_project_sets_negative_entries_to_zero_and_keeps_the_rest() -> None:
    model = NonNegativeFactorisation(6, 5, 3, 0.5, torch.Generator())
    with torch.no_grad():
        model.user.weight[2] = torch.tensor([-1.0, 0.0, 2.0])
    before = model.item.weight.clone()
    model.project()
    assert model.user.weight[2].tolist() == [0.0, 0.0, 2.0]
    assert torch.equal(model.item.weight, before)


@pytest.mark.parametrize(("base", "start"), [(0.6, 0.6), (-2.0, LEAST)])
def test_starts_at_the_base_on_average_and_never_at_zero(base: float, start: float) -> None:
    model = NonNegativeFactorisation(3, 2000, 16, base, torch.Generator().manual_seed(0))
    scores = model.scorer().score_block(np.arange(3))
    assert scores.mean() == pytest.approx(start, rel=0.02)
    assert (scores >= 0).all()
    assert (scores[0] == scores[1]).all()
