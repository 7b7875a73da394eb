"""RVAE: the network equals loops, the KL term, and noise keyed by rows and (user, item), not by process."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from models.backbones.backbone import Noise
from models.backbones.rvae import RVAE
from models.logged import Logged
from models.spec import gradient as spec


def made(logged: Logged, dropout: float = 0.5, kl: float = 0.2) -> RVAE:
    model = spec.RVAE(name="x", hidden=4, dims=2, dropout=dropout, kl=kl)
    return RVAE(logged.positives(), model, 0.7, torch.Generator().manual_seed(0))


def noise(n: int, part: slice | None = None) -> Noise:
    return Noise(torch.Generator().manual_seed(3), n, part or slice(0, n), torch.device("cpu"))


def encoded(model: RVAE, logged: Logged, u: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and log-variance of a user, from a dense history."""
    weights = {name: tensor.numpy().astype(np.float64) for name, tensor in model.state_dict().items()}
    x = np.zeros(logged.n_items)
    for user, item, positive in zip(logged.users, logged.items, logged.positive, strict=True):
        if user == u and positive:
            x[item] = 1
    if x.any():
        x /= math.sqrt((x * x).sum())
    g = np.tanh(x @ weights["read.weight"] + weights["read_bias"])
    return tuple(weights[f"{name}.weight"] @ g + weights[f"{name}.bias"] for name in ("mean", "log_variance"))


def decoded(model: RVAE, z: np.ndarray, i: int) -> float:
    """The number of an item under z."""
    weights = {name: tensor.numpy().astype(np.float64) for name, tensor in model.state_dict().items()}
    h = np.tanh(weights["decoder.weight"] @ z + weights["decoder.bias"])
    return float(h @ weights["item.weight"][i] + weights["item_bias.weight"][i, 0] + 0.7)


def test_forward_is_the_formula(tiny: Logged, filled: Callable[..., RVAE], pairs: tuple[Tensor, Tensor]) -> None:
    model = filled(made(tiny))
    numbers = model(*pairs).detach().numpy()
    for n, u in enumerate(pairs[0].tolist()):
        for k, i in enumerate(pairs[1][n].tolist()):
            assert numbers[n, k] == pytest.approx(decoded(model, encoded(model, tiny, u)[0], i), rel=1e-4, abs=1e-5)


def test_training_draws_z_for_each_row_and_adds_the_divergence(
    tiny: Logged, filled: Callable[..., RVAE], pairs: tuple[Tensor, Tensor]
) -> None:
    model = filled(made(tiny, dropout=0.0, kl=0.3))
    numbers, own = model.train_batch(*pairs, noise(5))
    draws = noise(5)
    draws.kept(torch.zeros(1, dtype=torch.long), 1.0)
    drawn, total = draws.normal(2).numpy(), 0.0
    for n, u in enumerate(pairs[0].tolist()):
        mean, log_variance = encoded(model, tiny, u)
        z = mean + np.exp(log_variance / 2) * drawn[n]
        for k, i in enumerate(pairs[1][n].tolist()):
            assert float(numbers[n, k].detach()) == pytest.approx(decoded(model, z, i), rel=1e-4, abs=1e-5)
        divergence = sum((m * m + math.exp(s) - s - 1) / 2 for m, s in zip(mean, log_variance, strict=True))
        positives = int(((tiny.users == u) & tiny.positive).sum())
        total += divergence / max(1, positives) / 2  # two comparisons in a row of three items
    assert own is not None
    assert float(own.detach()) == pytest.approx(0.3 * total / 5, rel=1e-4)


def test_two_processes_draw_as_one(tiny: Logged, filled: Callable[..., RVAE], pairs: tuple[Tensor, Tensor]) -> None:
    model = filled(made(tiny))
    users, items = pairs
    whole, own = model.train_batch(users, items, noise(5))
    parts = [model.train_batch(users[part], items[part], noise(5, part)) for part in (slice(0, 2), slice(2, 5))]
    torch.testing.assert_close(torch.cat([numbers for numbers, _ in parts]), whole)
    (_, first), (_, second) = parts
    assert own is not None
    assert first is not None
    assert second is not None
    torch.testing.assert_close((2 * first + 3 * second) / 5, own)


def test_dropout_keeps_the_mean_of_the_input(tiny: Logged) -> None:
    model = made(tiny, dropout=0.4)
    bags = model.history.bags(torch.arange(6))
    draws = noise(1)
    keys = bags.owners() * 5 + bags.rows
    kept = torch.stack([draws.kept(keys, 0.6) for _ in range(4000)]).float()
    np.testing.assert_allclose(kept.mean(0).numpy(), 0.6, atol=0.04)
    np.testing.assert_allclose(np.corrcoef(kept.T.numpy()), np.eye(len(keys)), atol=0.08)
