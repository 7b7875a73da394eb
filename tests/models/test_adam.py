"""Adam equals a loop over its formula; lazy tables equal dense ones."""

import math

import numpy as np
import pytest
import torch

from models.adam import Adam, Rows


def test_matches_the_formula() -> None:
    rng = np.random.default_rng(3)
    start = [rng.normal(size=(2, 3)), rng.normal(size=4)]
    parameters = [torch.tensor(values, requires_grad=True) for values in start]
    optimizer = Adam(parameters, 0.05)
    gradients = [[rng.normal(size=values.shape) for values in start] for _ in range(5)]
    for step in gradients:
        optimizer.step([torch.from_numpy(gradient) for gradient in step])
    for which, values in enumerate(start):
        for at in np.ndindex(values.shape):
            w, m, v = values[at], 0.0, 0.0
            for t, step in enumerate(gradients, start=1):
                g = step[which][at]
                m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
                w -= 0.05 * (m / (1 - 0.9**t)) / (math.sqrt(v / (1 - 0.999**t)) + 1e-8)
            assert parameters[which][at].item() == pytest.approx(w, rel=1e-6)


def test_a_parameter_at_zero_without_gradient_stays_there() -> None:
    parameter = torch.zeros(3, requires_grad=True)
    optimizer = Adam([parameter], 0.1)
    for _ in range(3):
        optimizer.step([torch.tensor([0.0, 1.0, 0.0])])
    assert parameter[[0, 2]].tolist() == [0.0, 0.0]
    assert parameter[1] < 0


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_lazy_rows_are_those_of_dense_adam_whenever_they_are_read(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    start = torch.randn(40, 3, generator=generator)
    dense, lazy, other = start.clone(), start.clone(), torch.ones(2)
    all_rows, some_rows = Adam([dense], 0.02), Adam([lazy, other], 0.02, [0])
    for step in range(1500):
        among = 4 if step % 11 else 39  # gaps of all lengths; the last row is never touched
        rows = torch.randint(among, (3,), generator=generator).unique()
        gradient = torch.randn(len(rows), 3, generator=generator)
        some_rows.catch_up(0, rows, hold=step % 3 > 0)
        torch.testing.assert_close(lazy[rows], dense[rows], rtol=0, atol=2e-4)  # 100 steps of lr, rounded
        all_rows.step([torch.zeros_like(dense).index_copy_(0, rows, gradient)])
        some_rows.step([Rows(rows, gradient), torch.zeros(2)])
    assert (lazy - dense).abs().max() > 1e-3  # rows that were not read are behind
    some_rows.settle()
    torch.testing.assert_close(lazy, dense, rtol=0, atol=2e-4)
    torch.testing.assert_close(some_rows.first[0], all_rows.first[0], rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(some_rows.second[0], all_rows.second[0], rtol=1e-4, atol=1e-9)
    assert lazy[-1].tolist() == start[-1].tolist()
    assert (dense - start).abs().mean() > 0.1


def test_catching_up_twice_changes_nothing() -> None:
    generator = torch.Generator().manual_seed(4)
    table, rows = torch.randn(6, 2, generator=generator), torch.arange(6)
    optimizer = Adam([table], 0.1, [0])
    for row in (0, 1, 2, 1):
        optimizer.catch_up(0, torch.tensor([row]))
        optimizer.step([Rows(torch.tensor([row]), torch.randn(1, 2, generator=generator))])
    optimizer.catch_up(0, rows)
    once = table.clone()
    optimizer.catch_up(0, rows)
    optimizer.settle()
    assert torch.equal(table, once)
