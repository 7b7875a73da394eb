"""LightGCN equals loops over neighbours, also in its gradient; without layers it is matrix factorisation."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from models.backbones.graph import Graph
from models.backbones.lightgcn import LightGCN
from models.backbones.mf import MatrixFactorisation
from models.logged import Logged


def vectors(
    positives: Logged, users: np.ndarray, items: np.ndarray, first: int, last: int
) -> tuple[np.ndarray, np.ndarray]:
    """The mean over layers first..last, edge by edge."""
    edges = list(zip(positives.users.tolist(), positives.items.tolist(), strict=True))
    degree = {("u", u): sum(a == u for a, _ in edges) for u in range(len(users))} | {
        ("i", i): sum(b == i for _, b in edges) for i in range(len(items))
    }
    layers = [(users, items)]
    for _ in range(last):
        new_users, new_items = np.zeros_like(users), np.zeros_like(items)
        for u, i in edges:
            weight = 1 / (degree["u", u] * degree["i", i]) ** 0.5
            new_users[u] += weight * layers[-1][1][i]
            new_items[i] += weight * layers[-1][0][u]
        layers.append((new_users, new_items))
    kept = layers[first:]
    return np.mean([layer[0] for layer in kept], axis=0), np.mean([layer[1] for layer in kept], axis=0)


@pytest.mark.parametrize("layers", [0, 1, 3])
def test_forward_is_the_formula(
    tiny: Logged, filled: Callable[..., LightGCN], pairs: tuple[Tensor, Tensor], layers: int
) -> None:
    model = filled(LightGCN(tiny.positives(), 3, layers, torch.Generator()))
    u, v = vectors(tiny.positives(), model.user.weight.detach().numpy(), model.item.weight.detach().numpy(), 0, layers)
    numbers = model(*pairs).detach().numpy()
    for n, user in enumerate(pairs[0].tolist()):
        for k, item in enumerate(pairs[1][n].tolist()):
            assert numbers[n, k] == pytest.approx(sum(u[user, d] * v[item, d] for d in range(3)), rel=1e-5, abs=1e-6)


def test_no_layers_is_matrix_factorisation_without_biases(
    tiny: Logged, filled: Callable[..., LightGCN], pairs: tuple[Tensor, Tensor]
) -> None:
    model = filled(LightGCN(tiny.positives(), 3, 0, torch.Generator()))
    plain = MatrixFactorisation(6, 5, 3, None, torch.Generator())
    plain.load_state_dict(model.state_dict())
    assert torch.equal(model(*pairs), plain(*pairs))
    assert (model.scorer().score_block(np.arange(6)) == plain.scorer().score_block(np.arange(6))).all()


@pytest.mark.parametrize(("first", "last"), [(0, 0), (0, 3), (1, 2)])
def test_gradients_of_first_and_second_order(tiny: Logged, first: int, last: int) -> None:
    graph = Graph(tiny.positives()).double()
    generator = torch.Generator().manual_seed(0)
    start = tuple(torch.randn(n, 2, generator=generator, dtype=torch.double, requires_grad=True) for n in (6, 5))

    def numbers(users: Tensor, items: Tensor) -> Tensor:
        left, right = graph.mean(users, items, first, last)
        return left @ right.T

    assert torch.autograd.gradcheck(numbers, start)
    assert torch.autograd.gradgradcheck(numbers, start)


def test_a_graph_without_edges(tiny: Logged, filled: Callable[..., LightGCN], pairs: tuple[Tensor, Tensor]) -> None:
    model = filled(LightGCN(tiny.where(np.zeros(12, bool)), 3, 1, torch.Generator()))
    plain = MatrixFactorisation(6, 5, 3, None, torch.Generator())
    plain.load_state_dict(model.state_dict())
    torch.testing.assert_close(model(*pairs), plain(*pairs) / 4)


def test_the_graph_is_not_part_of_the_state(tiny: Logged) -> None:
    assert list(LightGCN(tiny.positives(), 3, 2, torch.Generator()).state_dict()) == ["user.weight", "item.weight"]
