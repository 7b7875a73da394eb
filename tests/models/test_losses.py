"""The loss against its formula and its gradient against finite differences."""

import math

import numpy as np
import pytest
import torch

from models.losses import WeightedBce, make_loss
from models.mf import MatrixFactorisation
from models.samplers import Logged, Pairs
from models.spec import Bce, IpsBce, PopularityPropensity

BATCH = Pairs(torch.tensor([0, 1, 2, 0]), torch.tensor([1, 0, 2, 2]), torch.tensor([1.0, 0.0, 1.0, 0.0]), torch.tensor([True, True, True, False]))


def test_matches_the_formula() -> None:
    logits = {(0, 1): 0.3, (1, 0): -2.0, (2, 2): 40.0, (0, 2): 5.0}
    loss = WeightedBce(torch.tensor([0.5, 2.0, 3.0]))
    found = loss(lambda users, items: torch.tensor([logits[pair] for pair in zip(users.tolist(), items.tolist(), strict=True)]), BATCH)
    expected = [2.0 * math.log1p(math.exp(-0.3)), 0.5 * math.log1p(math.exp(-2.0)), 3.0 * math.exp(-40.0), 1.0 * math.log1p(math.exp(5.0))]
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-12)


@pytest.mark.parametrize("loss", [Bce(), IpsBce(propensity=PopularityPropensity(power=1, floor=0.1))])
def test_gradient_matches_finite_differences(loss: Bce | IpsBce) -> None:
    logged = Logged(np.array([0, 1, 2, 2, 3]), np.array([0, 0, 0, 1, 2]), np.array([True] * 5), 3)
    model = MatrixFactorisation(3, 3, 2, -0.5, torch.Generator().manual_seed(1)).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(parameter.numel()), dtype=torch.float64))
    batch = BATCH._replace(labels=BATCH.labels.double())
    objective = make_loss(loss, logged, torch.device("cpu"))
    objective(model, batch).mean().backward()
    step = 1e-6
    for parameter in model.parameters():
        flat = parameter.data.view(-1)
        for at in range(len(flat)):
            value = flat[at].item()
            flat[at] = value + step
            above = objective(model, batch).mean().item()
            flat[at] = value - step
            below = objective(model, batch).mean().item()
            flat[at] = value
            assert parameter.grad is not None
            assert parameter.grad.view(-1)[at].item() == pytest.approx((above - below) / (2 * step), abs=1e-8)


def test_ips_weighs_rare_items_more_and_drawn_negatives_as_one() -> None:
    logged = Logged(np.arange(5), np.array([0, 0, 0, 0, 1]), np.array([True] * 5), 3)
    loss = make_loss(IpsBce(propensity=PopularityPropensity(power=1, floor=0.1)), logged, torch.device("cpu"))
    pairs = Pairs(torch.zeros(4, dtype=torch.long), torch.tensor([0, 1, 2, 2]), torch.ones(4), torch.tensor([True, True, True, False]))
    weights = loss(lambda users, items: torch.zeros(4), pairs).numpy() / math.log(2)
    scale = 5 / (4 * 1 + 1 * 4)  # the mean over the five logged pairs is 1
    np.testing.assert_allclose(weights, [scale, 4 * scale, 10 * scale, 1], rtol=1e-6)
