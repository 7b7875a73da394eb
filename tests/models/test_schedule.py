"""Batch size, epochs and weight decay follow from the pairs; the decay of values is a prior that no size changes."""

import numpy as np
import pytest
import torch

from models.logged import Logged
from models.samplers import make_sampler
from models.schedule import PRIOR, schedule_of
from models.spec.gradient import MF
from models.spec.losses import Mse
from models.spec.samplers import Observed
from models.used_rows import even_factors, rows_of_past, used_rows

VALUES = Observed(label="value")


def random_log(n_users: int, n_items: int, n: int) -> Logged:
    """A log whose last user and last item have no pair."""
    rng = np.random.default_rng(0)
    users, items = np.divmod(np.sort(rng.permutation((n_users - 1) * (n_items - 1))[:n]), n_items - 1)
    return Logged(users, items, rng.random(n) < 0.4, rng.random(n), n_users, n_items)


@pytest.mark.parametrize(
    ("n_rows", "size", "epochs", "decay"),
    [
        (0, 128, 3000, 0.1),
        (40, 128, 3000, 0.1),
        (5_000, 256, 150, 0.0636),
        (28_000, 2048, 215, 0.0269),
        (10**6, 2048, 60, 0.0045),
    ],
)
def test_the_schedule_follows_from_the_number_of_rows(n_rows: int, size: int, epochs: int, decay: float) -> None:
    pairs = Logged(*(np.zeros(n_rows, np.int64),) * 2, np.ones(n_rows, bool), np.ones(n_rows), 1, 1)
    training = make_sampler(Observed(), pairs, pairs)
    sides = {side: pytest.approx(decay, rel=1e-2) for side in ("user", "item", "past")}
    assert schedule_of(MF(name="m"), training) == (size, epochs, sides)
    given = schedule_of(MF(name="m", batch_size=7, epochs=2, weight_decay=0.5), training)
    assert given == (7, 2, dict.fromkeys(("user", "item", "past"), 0.5))


def test_no_pair_has_a_schedule_with_values() -> None:
    nothing = Logged(*(np.zeros(0, np.int64),) * 2, np.ones(0, bool), np.ones(0), 3, 2)
    training = make_sampler(VALUES, nothing, nothing)
    assert schedule_of(MF(name="m", loss=Mse(), sampler=VALUES), training).decay["user"] == 0


@pytest.mark.parametrize("shape", [(30, 8, 200), (8, 30, 200), (60, 40, 90)])
@pytest.mark.parametrize(("link", "prior"), [("identity", PRIOR), ("sigmoid", PRIOR / 4)])
def test_the_decay_of_values_is_one_prior_of_every_row(shape: tuple[int, int, int], link: str, prior: float) -> None:
    """pairs * sum over batches of the penalty = prior / 2 * sum over rows that have pairs of |w|^2."""
    logged = random_log(*shape)
    spec = MF(name="m", loss=Mse.model_validate({"kind": "mse", "link": link}), sampler=VALUES)
    training = make_sampler(VALUES, logged, logged)
    decay, uses = schedule_of(spec, training).decay, training.uses()
    rows = {side: torch.randn(len(n), 3) for side, n in uses.items()}
    generator = torch.Generator().manual_seed(1)
    penalty = dict.fromkeys(uses, 0.0)
    for batch in training.epoch(generator).split(16):
        examples = training.batch(batch, generator, lambda users, items: items)
        for side, used in used_rows(examples, spec.by_pair, even_factors(uses)).items():
            squares = (used.shares * rows[side][used.rows].square()).sum()
            penalty[side] += decay[side] / 2 * float(squares) * len(batch)  # a mean over the batch's pairs
    for side, index in (("user", logged.users), ("item", logged.items)):
        expected = prior / 2 * sum(float(rows[side][row].square().sum()) for row in set(index.tolist()))
        assert penalty[side] == pytest.approx(expected, rel=1e-4)


def test_items_of_a_history_have_the_prior_in_every_step() -> None:
    logged = random_log(30, 8, 150)
    training = make_sampler(VALUES, logged, logged)
    decay = schedule_of(MF(name="m", loss=Mse(), sampler=VALUES), training).decay
    used = rows_of_past(training.uses()["item"])
    assert used.rows.tolist() == list(range(8))
    assert (decay["past"] / 2 * used.shares * 150).flatten().tolist() == pytest.approx([PRIOR / 2] * 8)


def test_a_sigmoid_with_a_quarter_of_the_prior_predicts_as_the_product_does_near_zero() -> None:
    """s(2u . 2v) - 1/2 = u . v for short vectors, and the penalties are the same."""
    u, v = (torch.randn(50, 4, dtype=torch.float64) / 100 for _ in range(2))
    product, link = (u * v).sum(1), torch.sigmoid((2 * u * 2 * v).sum(1)) - 0.5
    torch.testing.assert_close(product, link, rtol=1e-3, atol=1e-12)
    assert float((PRIOR * u.square()).sum()) == pytest.approx(float((PRIOR / 4 * (2 * u).square()).sum()))
