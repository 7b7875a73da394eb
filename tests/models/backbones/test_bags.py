"""Sums over bags equal a matrix product, also with empty bags, and have gradients of any order."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from models.backbones.bags import Bags

N_ROWS = 4
BAGS = st.lists(st.lists(st.tuples(st.integers(0, N_ROWS - 1), st.floats(-2, 2)), max_size=5), min_size=1, max_size=5)


def bags_of(bags: list[list[tuple[int, float]]]) -> Bags:
    entries = [entry for bag in bags for entry in bag]
    rows, weights = (
        torch.tensor([row for row, _ in entries], dtype=torch.long),
        torch.tensor([weight for _, weight in entries], dtype=torch.double),
    )
    return Bags(rows, torch.tensor(np.concatenate([[0], np.cumsum([len(bag) for bag in bags])])), weights)


def table() -> Tensor:
    return torch.randn(N_ROWS, 3, generator=torch.Generator().manual_seed(0), dtype=torch.double).requires_grad_()


@settings(deadline=None)  # the first call of torch is slow
@given(BAGS)
def test_sums_match_loops(bags: list[list[tuple[int, float]]]) -> None:
    rows = table()
    expected = np.zeros((len(bags), 3))
    for n, bag in enumerate(bags):
        for row, weight in bag:
            expected[n] += weight * rows.detach().numpy()[row]
    np.testing.assert_allclose(bags_of(bags).sums(rows).detach().numpy(), expected, atol=1e-12)


@settings(deadline=None)  # the first call of torch is slow
@given(BAGS)
def test_twice_transposed_sums_as_before(bags: list[list[tuple[int, float]]]) -> None:
    once = bags_of(bags)
    twice = once.transposed(N_ROWS).transposed(len(bags))
    np.testing.assert_allclose(twice.sums(table()).detach().numpy(), once.sums(table()).detach().numpy(), atol=1e-12)


def test_gradients_of_first_and_second_order() -> None:
    bags = bags_of([[(1, 0.5), (3, -1.0), (1, 2.0)], [], [(0, 1.0)]])
    assert torch.autograd.gradcheck(lambda rows: bags.sums(rows).sin(), table())
    assert torch.autograd.gradgradcheck(lambda rows: bags.sums(rows).sin(), table())
