"""Matrix factorisation: one matrix product gives what forward gives, and what was never trained is harmless."""

import numpy as np
import torch

from models.mf import MatrixFactorisation


def filled(n_users: int, n_items: int, dims: int) -> MatrixFactorisation:
    model = MatrixFactorisation(n_users, n_items, dims, 0.7, torch.Generator().manual_seed(0))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(parameter.numel())))
    return model


def test_block_scores_equal_forward() -> None:
    model = filled(7, 5, 3)
    users = np.array([6, 0, 3])
    block = model.scorer().score_block(users)
    assert block.dtype == np.float32
    assert block.shape == (3, 5)
    for row, user in enumerate(users):
        logits = model(torch.full((5,), int(user)), torch.arange(5)).detach().numpy()
        np.testing.assert_allclose(block[row], logits, rtol=1e-5, atol=1e-6)


def test_forward_is_the_formula() -> None:
    model = filled(2, 3, 4)
    u, v = model.user.weight[1].detach(), model.item.weight[2].detach()
    expected = 0.7 + model.user_bias.weight[1, 0] + model.item_bias.weight[2, 0] + sum(float(u[d]) * float(v[d]) for d in range(4))
    assert torch.isclose(model(torch.tensor([1]), torch.tensor([2]))[0], expected)


def test_starts_at_the_base_rate_with_small_item_vectors() -> None:
    model = MatrixFactorisation(4, 50, 8, -1.25, torch.Generator().manual_seed(0))
    assert (model.scorer().score_block(np.arange(4)) == -1.25).all()
    assert 0 < model.item.weight.abs().max() < 0.2
