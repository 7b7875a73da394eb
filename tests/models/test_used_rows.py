"""The penalty of the rows that a batch uses: an unbiased estimate of the prior's, by autograd and by hand."""

import numpy as np
import pytest
import torch

from models.adam import Rows
from models.batch import Batch
from models.logged import Logged
from models.samplers import make_sampler
from models.spec.samplers import AllPairs, HardNegatives, Observed, Sampler, UniformNegatives
from models.used_rows import Table, Used, compact, even_factors, penalised, used_rows

ONES = {"user": torch.ones(9), "item": torch.ones(9)}


def batch_of(users: list[int], items: list[list[int]], weights: list[list[float]] | None = None) -> Batch:
    shape = torch.tensor(items)
    filled = torch.ones(shape.shape) if weights is None else torch.tensor(weights)
    return Batch(torch.tensor(users), shape, torch.zeros(shape.shape), shape > -1, filled)


def test_shares_of_pairs_and_of_comparisons() -> None:
    batch = batch_of([3, 3, 1], [[0, 2, 2], [1, 0, 4], [0, 1, 2]], [[1, 1, 1], [1, 1, 0], [1, 1, 1]])
    pairs, comparisons = used_rows(batch, True, ONES), used_rows(batch, False, ONES)
    assert pairs["user"].rows.tolist() == [1, 3]
    assert (pairs["user"].shares[:, 0] * 9).tolist() == pytest.approx([3, 5])
    assert pairs["item"].rows.tolist() == [0, 1, 2, 4]
    assert (pairs["item"].shares[:, 0] * 9).tolist() == pytest.approx([3, 2, 3, 0])
    assert (comparisons["user"].shares[:, 0] * 6).tolist() == pytest.approx([2, 3])
    # item 0 is positive in two full rows and negative once; item 2 is negative three times
    assert (comparisons["item"].shares[:, 0] * 6).tolist() == pytest.approx([2 + 1 + 2, 1 + 1, 3, 0])


@pytest.mark.parametrize(
    "sampler", [Observed(), UniformNegatives(per_positive=3), AllPairs(per_logged=2), HardNegatives(hardest=2, drawn=4)]
)
def test_over_an_epoch_every_row_has_the_same_penalty(sampler: Sampler) -> None:
    rng = np.random.default_rng(0)
    users, items = np.divmod(np.sort(rng.permutation(20 * 100)[:200]), 100)
    logged = Logged(users, items, np.ones(200, bool), np.ones(200), 20, 100)
    made, by_pair = make_sampler(sampler, logged, logged), not isinstance(sampler, AllPairs)
    factors, sums = even_factors(made.uses()), {"user": torch.zeros(20), "item": torch.zeros(100)}
    generator, epochs = torch.Generator().manual_seed(1), 600
    for _ in range(epochs):
        batch = made.batch(
            made.epoch(generator), generator, lambda users, items: torch.rand(items.shape, generator=generator)
        )
        for side, used in used_rows(batch, by_pair, factors).items():
            sums[side][used.rows] += used.shares[:, 0] / epochs
    assert sums["user"].numpy() == pytest.approx(np.full(20, 1 / 20), rel=1e-3)
    if by_pair:  # within the noise of draws, and up to a user's own positives, which are not drawn
        some = sums["item"] > 0  # without negatives, items without a pair have no penalty
        assert sums["item"][some].numpy() == pytest.approx(np.full(int(some.sum()), 1 / int(some.sum())), rel=0.2)
        assert float(sums["item"].sum()) == pytest.approx(1, rel=0.02)


@pytest.mark.parametrize("lazy", [False, True])
def test_the_gradient_of_the_penalty_is_that_of_its_formula(lazy: bool) -> None:
    weight = torch.randn(9, 2, requires_grad=True)
    used = Used(torch.tensor([1, 4]), torch.tensor([[0.5], [0.25]]))
    (0.3 / 2 * (used.shares * weight[used.rows].square()).sum()).backward()
    table = Table(0, "user", weight, True, lazy)
    start = torch.randn(9, 2)
    if lazy:
        made = penalised(Rows(used.rows, start[used.rows].clone()), table, used, 0.3)
        assert isinstance(made, Rows)
        slope = torch.zeros(9, 2).index_copy_(0, used.rows, made.values - start[used.rows])
    else:
        made = penalised(start.clone(), table, used, 0.3)
        assert isinstance(made, torch.Tensor)
        slope = made - start
    torch.testing.assert_close(slope, weight.grad)


def test_the_gradient_of_a_lookup_is_gathered_by_row() -> None:
    table = torch.nn.Embedding(9, 2, sparse=True)
    index = torch.tensor([[4, 1], [4, 7], [1, 4]])
    factors = torch.randn(3, 2, 2)
    (gradient,) = torch.autograd.grad((table(index) * factors).sum(), [table.weight])
    used = Used(torch.tensor([1, 2, 4, 7]), torch.ones(4, 1))  # row 2 is another process's
    torch.testing.assert_close(compact(gradient, used), compact(gradient.to_dense(), used))
    torch.testing.assert_close(compact(gradient, used)[0], factors[0, 1] + factors[2, 0])
