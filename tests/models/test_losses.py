"""Losses equal their formulas, and their gradients equal finite differences."""

import itertools
import math

import numpy as np
import pytest
import torch
from torch import Tensor

from models.batch import Batch
from models.doubly_robust import DoublyRobustLoss, doubly_robust
from models.logged import Logged
from models.losses import WeightedLoss, correlation, make_loss
from models.spec.losses import Bce, Bpr, DoublyRobust, Hinge, Loss, Mse, PopularityDeconfounding, PopularityPropensity

IPS = PopularityPropensity(power=1, floor=0.1)
LOGGED = Logged(
    np.array([0, 1, 2, 2, 3]),
    np.array([0, 0, 0, 1, 2]),
    np.array([True, True, True, True, False]),
    np.array([5.0, 4, 4, 5, 1]),
    4,
    3,
)
BATCH = Batch(
    torch.tensor([0, 1, 2]),
    torch.tensor([[0, 1, 2], [0, 2, 1], [1, 2, 2]]),
    torch.tensor([[1.0, 0, 0], [1, 0, 0], [1, 0, 0]]),
    torch.tensor([[True, False, False]] * 3),
    torch.tensor([[1.0, 1, 1], [1, 1, 0], [1, 1, 1]]),
)
NUMBERS = torch.tensor([[0.3, -2.0, 0.1], [40.0, 5.0, -1.0], [-0.7, 0.2, 0.9]])


def s(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def by_hand(loss: Loss) -> list[list[float]]:
    """Every weighted loss, by loops from the formulas."""
    counts = [3, 1, 1]
    raw = [1 / max(0.1, n / 3) for n in counts]
    scale = 5 / sum(n * w for n, w in zip(counts, raw, strict=True))
    weight = [scale * w for w in raw] if getattr(loss, "propensity", None) else [1.0] * 3
    positives = [3, 1, 0]
    rows = []
    for items, x, labels, kept in zip(
        BATCH.items.tolist(), NUMBERS.tolist(), BATCH.labels.tolist(), BATCH.weights.tolist(), strict=True
    ):
        row = []
        for j in range(3):
            w = kept[j] * (weight[items[0]] if j == 0 or loss.kind in ("bpr", "hinge", "pd") else 1.0)
            if loss.kind == "bce":
                row.append(w * (math.log1p(math.exp(-x[j])) if labels[j] else math.log1p(math.exp(x[j]))))
            elif loss.kind == "mse":
                row.append(w * ((s(x[j]) if loss.link == "sigmoid" else x[j]) - labels[j]) ** 2)
            elif j and loss.kind == "bpr":
                row.append(w * math.log1p(math.exp(-(x[0] - x[j]))))
            elif j and loss.kind == "hinge":
                row.append(w * max(0.0, 1 - (x[0] - x[j])))
            elif j:
                shown = [
                    (v + 1 if v > 0 else math.exp(v)) * (positives[i] / 3) ** loss.gamma
                    for v, i in zip(x, items, strict=True)
                ]
                row.append(w * math.log1p(math.exp(-(shown[0] - shown[j]))))
        rows.append(row)
    return rows


ALL = [Bce(), Mse(), Mse(link="sigmoid"), Bpr(), Hinge(), PopularityDeconfounding(gamma=0.2)]


@pytest.mark.parametrize("loss", [*ALL, *(loss.model_copy(update={"propensity": IPS}) for loss in ALL)], ids=str)
def test_matches_the_formula(loss: Loss) -> None:
    np.testing.assert_allclose(
        make_loss(loss, LOGGED, torch.Generator())(NUMBERS, BATCH).numpy(), by_hand(loss), rtol=1e-5, atol=1e-12
    )


@pytest.mark.parametrize("loss", ALL, ids=str)
def test_propensities_of_one_are_the_plain_loss_bit_for_bit(loss: Loss) -> None:
    ones = loss.model_copy(update={"propensity": PopularityPropensity(power=0)})
    plain, weighted = (make_loss(each, LOGGED, torch.Generator())(NUMBERS, BATCH) for each in (loss, ones))
    assert torch.equal(plain, weighted)


def gradient_of(objective: WeightedLoss | DoublyRobustLoss, numbers: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
    """The gradient by autograd, and by central differences."""
    numbers = numbers.double().requires_grad_()
    (exact,) = torch.autograd.grad(objective(numbers, batch).mean(), numbers)
    about, step = torch.zeros_like(exact), 1e-6
    for at in itertools.product(*map(range, numbers.shape)):
        for sign in (1, -1):
            moved = numbers.detach().clone()
            moved[at] += sign * step
            about[at] += sign * objective(moved, batch).mean().item() / (2 * step)
    return exact, about


@pytest.mark.parametrize(
    "loss",
    [
        *ALL,
        *(loss.model_copy(update={"propensity": IPS}) for loss in ALL),
        Bce(residual_correlation=0.5),
        Bpr(residual_correlation=0.5, propensity=IPS),
    ],
    ids=str,
)
def test_gradient_matches_finite_differences(loss: Loss) -> None:
    objective = make_loss(loss, LOGGED, torch.Generator()).double()
    batch = BATCH._replace(labels=BATCH.labels.double(), weights=BATCH.weights.double())
    exact, about = gradient_of(objective, NUMBERS.clamp(-5, 5), batch)
    np.testing.assert_allclose(exact, about, atol=1e-7)


def test_the_penalty_is_the_correlation_with_popularity() -> None:
    plain = make_loss(Bpr(), LOGGED, torch.Generator())(NUMBERS, BATCH)
    penalised = make_loss(Bpr(residual_correlation=2.0), LOGGED, torch.Generator())(NUMBERS, BATCH)
    r = np.corrcoef(plain.mean(1), [3, 3, 1])[0, 1]
    np.testing.assert_allclose(penalised - plain, np.full((3, 2), 2 * abs(r)), rtol=1e-5)
    assert correlation(torch.ones(4), torch.arange(4.0)).item() == 0


def test_doubly_robust_is_exact_if_the_imputation_is() -> None:
    errors = torch.tensor([[0.3, 1.2, 0.7, 2.0]])
    for logged in range(4):
        robust = doubly_robust(errors, errors[:, logged], errors[:, logged], torch.tensor([17.0]))
        assert robust.item() == pytest.approx(errors.mean().item())


def test_doubly_robust_is_unbiased_if_the_propensities_are() -> None:
    errors, imputed = torch.tensor([0.3, 1.2, 0.7, 2.0]), torch.tensor([9.0, -3.0, 0.1, 5.0])
    chance = torch.tensor([0.9, 0.2, 0.5, 0.4])
    expected = 0.0
    for mask in itertools.product((False, True), repeat=4):  # every possible log
        logged = torch.tensor(mask)
        likelihood = torch.where(logged, chance, 1 - chance).prod().item()
        n = int(logged.sum())
        if n == 0:
            expected += likelihood * imputed.mean().item()
            continue
        weights = n / 4 / chance[logged]  # the mean over n logged pairs estimates the mean over all four
        rows = doubly_robust(imputed.expand(n, 4), imputed[logged], errors[logged], weights)
        expected += likelihood * rows.mean().item()
    assert expected == pytest.approx(errors.mean().item(), rel=1e-6)
    assert imputed.mean().item() != pytest.approx(errors.mean().item(), rel=0.1)  # the imputation alone is far from it


def test_doubly_robust_gradients_reach_each_model_by_its_own_loss() -> None:
    loss = DoublyRobustLoss(DoublyRobust(dims=2, propensity=IPS), LOGGED, torch.Generator().manual_seed(3)).double()
    with torch.no_grad():
        for parameter in loss.parameters():
            parameter.copy_(
                torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
            )
    batch = BATCH._replace(labels=BATCH.labels.double(), weights=BATCH.weights.double())
    labels = loss.imputation(batch.users, batch.items).sigmoid().detach()
    weights = loss.logged_weights.item_weights[batch.items[:, 0]].double()

    def error(x: Tensor, y: Tensor) -> Tensor:
        return torch.nn.functional.binary_cross_entropy_with_logits(x, y, reduction="none")

    def of_model(x: Tensor) -> Tensor:
        return error(x, labels)[:, 1:].mean(1) + weights * (
            error(x[:, 0], batch.labels[:, 0]) - error(x[:, 0], labels[:, 0])
        )

    numbers = NUMBERS.clamp(-5, 5).double().requires_grad_()
    (gradient,) = torch.autograd.grad(loss(numbers, batch).mean(), numbers, retain_graph=True)
    (expected,) = torch.autograd.grad(of_model(numbers).mean(), numbers)
    torch.testing.assert_close(gradient, expected)

    learned = loss.imputation(batch.users, batch.items).sigmoid()
    own = (
        weights
        * (error(numbers.detach()[:, 0], learned[:, 0]) - error(numbers.detach()[:, 0], batch.labels[:, 0])) ** 2
    )
    expected_own = torch.autograd.grad(own.mean(), list(loss.parameters()))
    own_gradients = torch.autograd.grad(loss(numbers, batch).mean(), list(loss.parameters()))
    for left, right in zip(own_gradients, expected_own, strict=True):
        torch.testing.assert_close(left, right)


def test_ips_weighs_rare_items_more_and_drawn_negatives_as_one() -> None:
    weights = make_loss(Bce(propensity=IPS), LOGGED, torch.Generator())(torch.zeros(3, 3), BATCH).numpy() / math.log(2)
    scale = 5 / (3 * 1 + 3 + 3)  # the mean over the five logged pairs is 1
    np.testing.assert_allclose(weights, [[scale, 1, 1], [scale, 1, 0], [3 * scale, 1, 1]], rtol=1e-6)
