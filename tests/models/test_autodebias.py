"""AutoDebias: its loss and assumed step equal a computation by hand, and it learns from a random set."""

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

from eval_engine.config import Input
from eval_engine.errors import DataError
from models.autodebias import AutoDebiasLoss
from models.backbones.mf import MatrixFactorisation
from models.batch import Batch
from models.logged import Logged
from models.processes import Processes
from models.spec.losses import AutoDebias
from models.spec.train import MODEL
from models.validation import RandomAuc

LOGGED = Logged(np.array([0, 0, 1]), np.array([0, 2, 1]), np.array([True, False, True]), np.array([5.0, 1, 5]), 2, 3)
RANDOM = Logged(np.array([0, 1]), np.array([1, 2]), np.array([True, False]), np.array([5.0, 1]), 2, 3)
BATCH = Batch(
    torch.tensor([0, 1]),
    torch.tensor([[2, 0], [1, 2]]),
    torch.tensor([[0.0, 0], [1, 0]]),
    torch.tensor([[True, False]] * 2),
    torch.ones(2, 2),
)


def made(**changes: float) -> AutoDebiasLoss:
    return AutoDebiasLoss(AutoDebias(random=Input(path="random"), **changes), LOGGED, RANDOM, 2)


def error(x: Tensor, y: Tensor) -> Tensor:
    return -y * torch.log(torch.sigmoid(x)) - (1 - y) * torch.log(1 - torch.sigmoid(x))


def test_matches_the_formula() -> None:
    loss = made()
    with torch.no_grad():
        for parameter in loss.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(parameter.numel())))
    x = torch.tensor([[0.5, -1.0], [2.0, 0.3]])
    a, b = torch.stack([loss.user1, loss.user2]) / 5, torch.stack([loss.item1, loss.item2]) / 5
    c, c_all, e = loss.by_label / 5, loss.by_logged / 5, loss.label
    # row 0: logged (0, 2) disliked, drawn (0, 0), which is logged and liked
    # row 1: logged (1, 1) liked, drawn (1, 2), not logged
    first = torch.exp(a[0, 0] + b[0, 2] + c[0]) * error(x[0, 0], torch.tensor(0.0)) + torch.exp(
        a[1, 0] + b[1, 0] + c_all[1]
    ) * error(x[0, 1], torch.sigmoid(e[2]))
    second = torch.exp(a[0, 1] + b[0, 1] + c[1]) * error(x[1, 0], torch.tensor(1.0)) + torch.exp(
        a[1, 1] + b[1, 2] + c_all[0]
    ) * error(x[1, 1], torch.sigmoid(e[0]))
    torch.testing.assert_close(loss(x, BATCH), torch.stack([first, second]))


def test_the_meta_gradient_agrees_with_finite_differences() -> None:
    loss, model = (
        made(assumed_learning_rate=0.5).double(),
        MatrixFactorisation(2, 3, 2, 0.0, torch.Generator().manual_seed(1)).double(),
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(
                torch.randn(
                    parameter.shape, generator=torch.Generator().manual_seed(parameter.numel()), dtype=torch.float64
                )
            )
    batch = BATCH._replace(labels=BATCH.labels.double(), weights=BATCH.weights.double())
    taken: list[tuple[Tensor, ...]] = []
    for part in loss.parts:
        part.optimizer.step = taken.append  # records the gradients instead of making a step
    loss.learn(model, batch, torch.Generator().manual_seed(5), Processes())
    drawn = torch.randint(2, (2,), generator=torch.Generator().manual_seed(5))

    def after_assumed_step() -> float:
        parameters = dict(model.named_parameters())
        slopes = torch.autograd.grad(loss(model(batch.users, batch.items), batch).mean(), list(parameters.values()))
        moved = {
            name: (value - 0.5 * slope).detach()
            for (name, value), slope in zip(parameters.items(), slopes, strict=True)
        }
        x = torch.func.functional_call(model, moved, (loss.random_users[drawn], loss.random_items[drawn, None]))[:, 0]
        return error(x, loss.random_labels[drawn]).mean().item()

    step = 1e-5
    parameters = [weight for part in loss.parts for weight in part.optimizer.parameters]
    assert len(parameters) == len(list(loss.parameters()))
    for parameter, gradient in zip(parameters, [one for some in taken for one in some], strict=True):
        flat = parameter.data.view(-1)
        for at in range(len(flat)):
            flat[at] += step
            above = after_assumed_step()
            flat[at] -= 2 * step
            below = after_assumed_step()
            flat[at] += step
            assert abs(gradient.reshape(-1)[at].item() - (above - below) / (2 * step)) < 1e-7


def test_decay_pulls_each_part_to_its_start() -> None:
    near, far = (made(label_decay=decay, logged_decay=decay) for decay in (10.0, 0.0))
    model = MatrixFactorisation(2, 3, 2, 0.0, torch.Generator().manual_seed(1))
    for loss in (near, far):
        for _ in range(100):
            loss.learn(model, BATCH, torch.Generator().manual_seed(0), Processes())
    moved_near, moved_far = ((loss.label.detach() + 2).abs().max() for loss in (near, far))
    assert moved_near < 0.2 < 2 < moved_far
    assert near.by_label.abs().max() < far.by_label.abs().max()


def test_random_auc_is_the_share_of_ordered_pairs() -> None:
    rng = np.random.default_rng(4)
    users, items = np.divmod(np.sort(rng.permutation(60)[:30]), 6)
    random = Logged(users, items, rng.random(30) < 0.4, np.ones(30), 10, 6)
    scores = rng.integers(0, 4, (10, 6)).astype(np.float32)  # with ties

    class Fixed:
        def score_block(self, users: np.ndarray) -> np.ndarray:
            return scores[users]

    of_pairs = scores[users, items]
    better = [
        (of_pairs[i] > of_pairs[j]) + (of_pairs[i] == of_pairs[j]) / 2
        for i in np.flatnonzero(random.positive)
        for j in np.flatnonzero(~random.positive)
    ]
    assert RandomAuc("m", random)(Fixed()) == pytest.approx(np.mean(better))
    with pytest.raises(DataError, match=r"model m: stop_on random_auc needs liked and disliked.*of its 30 pairs 0 are"):
        RandomAuc("m", random._replace(positive=np.zeros(30, bool)))


def test_stop_on_random_auc_is_for_autodebias_only() -> None:
    with pytest.raises(ValidationError, match="random_auc needs loss autodebias"):
        MODEL.validate_python({"model": "bpr_mf", "stop_on": "random_auc"})
    loss = {"random": {"path": "r"}, "held_out": 0}
    with pytest.raises(ValidationError, match="with a held_out above 0"):
        MODEL.validate_python({"model": "mf_autodebias", "loss": loss})


def test_gives_more_weight_to_logged_pairs_that_the_random_set_confirms() -> None:
    n = 40  # all users like item 0 in the log and in truth, item 1 in the log only
    users = np.repeat(np.arange(n), 2)
    logged = Logged(users, np.tile([0, 1], n), np.ones(2 * n, bool), np.ones(2 * n), n, 3)
    random = Logged(users, np.tile([0, 1], n), np.tile([True, False], n), np.ones(2 * n), n, 3)
    loss = AutoDebiasLoss(
        AutoDebias(random=Input(path="random"), logged_learning_rate=0.25, all_learning_rate=0.25),
        logged,
        random,
        2 * n,
    )
    model = MatrixFactorisation(n, 3, 2, 0.0, torch.Generator().manual_seed(1))
    rows = torch.from_numpy(np.stack([logged.items, np.tile([2, 1], n)], axis=1))
    batch = Batch(
        torch.from_numpy(users),
        rows,
        torch.ones(2 * n, 2),
        torch.tensor([[True, False]]).expand(2 * n, 2),
        torch.ones(2 * n, 2),
    )
    generator = torch.Generator().manual_seed(0)
    for _ in range(50):
        loss.learn(model, batch, generator, Processes())
    assert loss.item1[0] > loss.item1[1] + 2.5
