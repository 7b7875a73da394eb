"""The training loop: it learns, stops early, is repeatable bit for bit, and names where the loss diverged."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from models.backbones.make_backbone import make_backbone
from models.backbones.mf import MatrixFactorisation
from models.checkpoint import Checkpoint
from models.errors import TrainingError
from models.keyed import id_keys, mix
from models.logged import Logged
from models.losses import make_loss
from models.samplers import Sampler, make_sampler
from models.spec.gradient import MF, MLP, SVDpp
from models.spec.losses import Bce
from models.spec.propensities import PopularityPropensity
from models.spec.samplers import HardNegatives, Observed, UniformNegatives
from models.training import Fit, Step, Task, fit, generator_of, held_out_mask
from models.used_rows import Used
from models.validation import HeldOutMetric


def task_of(spec: MF, logged: Logged, held_out: Sampler | None = None, seed: int = 0) -> Task:
    model = MatrixFactorisation(logged.n_users, logged.n_items, spec.dims, 0.0, generator_of(seed, "init"))
    return Task(
        model,
        make_loss(spec.loss, logged, generator_of(seed, "loss")),
        make_sampler(spec.sampler, logged, logged),
        held_out,
    )


def trained(
    spec: MF, logged: Logged, held_out: Sampler | None = None, seed: int = 0
) -> tuple[MatrixFactorisation, Fit]:
    task = task_of(spec, logged, held_out, seed)
    result = fit(task, spec, seed, lambda step: None)
    assert isinstance(task.backbone, MatrixFactorisation)
    return task.backbone, result


def some_log(n: int, n_users: int = 40, n_items: int = 30) -> Logged:
    key = np.sort(np.random.default_rng(2).permutation(n_users * n_items)[:n])
    users, items = np.divmod(key, n_items)
    return Logged(
        users, items, (users % 3 == items % 3), np.ones(n), n_users + 1, n_items
    )  # the last user has no feedback


def bits(model: torch.nn.Module) -> list[bytes]:
    return [tensor.numpy().tobytes() for tensor in model.state_dict().values()]


def test_overfits_ten_interactions() -> None:
    logged = Logged(
        np.arange(10) // 2,
        np.array([0, 3, 1, 2, 0, 1, 2, 3, 1, 3]),
        np.array([1, 0, 0, 1, 1, 1, 0, 0, 1, 0], bool),
        np.ones(10),
        5,
        4,
    )
    spec = MF(name="tiny", dims=8, epochs=200, batch_size=4, learning_rate=0.05, weight_decay=0, sampler=Observed())
    model, result = trained(spec, logged)
    logits = model(torch.from_numpy(logged.users), torch.from_numpy(logged.items)[:, None]).detach().numpy()[:, 0]
    assert ((logits > 0) == logged.positive).all()
    assert result.losses[-1] < 0.01 < result.losses[0]
    assert result.epochs == 200
    assert result.held_out == ()


@pytest.mark.parametrize("sampler", [Observed(), UniformNegatives(per_positive=3)])
def test_propensities_of_one_are_plain_bce_bit_for_bit(sampler: Observed | UniformNegatives) -> None:
    logged = some_log(300)
    plain, ips = (
        trained(MF(name="m", dims=4, epochs=5, batch_size=64, loss=loss, sampler=sampler), logged)[0]
        for loss in (Bce(), Bce(propensity=PopularityPropensity(power=0)))
    )
    assert bits(plain) == bits(ips)
    weighted, _ = trained(
        MF(name="m", dims=4, epochs=5, batch_size=64, loss=Bce(propensity=PopularityPropensity()), sampler=sampler),
        logged,
    )
    assert bits(plain) != bits(weighted)


def test_the_same_seed_gives_the_same_bits_and_another_does_not() -> None:
    logged, spec = some_log(500), MF(name="m", dims=4, epochs=4, batch_size=50)
    torch.manual_seed(1)
    first, _ = trained(spec, logged)
    torch.manual_seed(2)  # the global generator is not used
    assert bits(trained(spec, logged)[0]) == bits(first)
    assert bits(trained(spec, logged, seed=1)[0]) != bits(first)


def test_a_user_without_feedback_has_the_zero_vector() -> None:
    model, _ = trained(
        MF(name="m", dims=4, epochs=3, batch_size=50, weight_decay=1e-4, sampler=Observed()), some_log(500)
    )
    assert model.biases is not None
    assert not model.user.weight[-1].any()
    assert not model.biases.user.weight[-1].any()
    np.testing.assert_allclose(
        model.scorer().score_block(np.array([len(model.user.weight) - 1]))[0],
        model.biases.item.weight[:, 0].detach(),
        rtol=1e-6,
    )
    assert model.user.weight[:-1].any(dim=1).all()


def test_stops_early_and_keeps_the_best_weights() -> None:
    rng = np.random.default_rng(0)
    logged = some_log(600)._replace(
        positive=rng.random(600) < 0.5
    )  # noise: the held-out loss can only grow once the model overfits
    held = rng.random(600) < 0.3
    held_out = make_sampler(Observed(), logged.where(held), logged)
    spec = MF(
        name="noise",
        dims=8,
        epochs=100,
        batch_size=32,
        learning_rate=0.05,
        weight_decay=0,
        patience=2,
        patience_steps=0,
        sampler=Observed(),
    )
    model, result = trained(spec, logged.where(~held), held_out)
    assert result.epochs == result.best_epoch + 2 < 100
    assert result.held_out[result.best_epoch - 1] == min(result.held_out)
    rows = held_out.batch(held_out.epoch(torch.Generator()), torch.Generator(), lambda users, items: items)
    again = make_loss(Bce(), logged, torch.Generator())(model(rows.users, rows.items), rows).mean().item()
    assert again == pytest.approx(min(result.held_out), rel=1e-5)


def test_split_is_keyed_by_ids_and_has_the_share() -> None:
    users, items = (id_keys(pa.array(ids)) for ids in np.divmod(np.arange(20_000), 100))
    mask = held_out_mask(7, users, items, 0.2)
    assert abs(mask.mean() - 0.2) < 5 * np.sqrt(0.16 / 20_000)
    keep = mix(users) % 2 == 0
    assert np.array_equal(held_out_mask(7, users[keep], items[keep], 0.2), mask[keep])
    assert (held_out_mask(8, users, items, 0.2) != mask).any()
    assert not held_out_mask(7, users, items, 0.0).any()


def test_a_loss_that_is_not_finite_names_model_epoch_and_step() -> None:
    spec = MF(name="wild", dims=4, epochs=50, batch_size=50, learning_rate=1e20, sampler=Observed())
    with pytest.raises(
        TrainingError,
        match=r"model wild: the loss is (nan|inf) in epoch 1, step [2-9]\d*: .*(finite|products).*learning_rate",
    ):
        trained(spec, some_log(500))


def test_reports_every_step() -> None:
    logged, steps = some_log(100), list[Step]()
    spec = MF(name="m", dims=2, epochs=2, batch_size=40, sampler=Observed())
    fit(task_of(spec, logged), spec, 0, steps.append)
    assert [step.done for step in steps] == [0.4, 0.8, 1.0, 1.4, 1.8, 2.0]
    assert all(step.loss > 0 and step.rate > 0 for step in steps)


class KillError(RuntimeError):
    """Stands for the end of the process."""


@pytest.mark.parametrize(
    ("killed_at", "batch_size"),
    [(1, 20), (7, 20), (10, 20), (13, 20), (30, 3)],  # the last: tables are updated lazily
)
def test_resumes_from_a_checkpoint_with_the_same_weights(tmp_path: Path, killed_at: int, batch_size: int) -> None:
    logged, held = some_log(500), np.random.default_rng(1).random(500) < 0.2
    spec = MF(name="m", dims=4, epochs=4, batch_size=batch_size, patience=9)
    held_out = make_sampler(UniformNegatives(), logged.where(held), logged)
    whole, expected = trained(spec, logged.where(~held), held_out)
    task, steps = task_of(spec, logged.where(~held), held_out), 0

    def until_killed(step: Step) -> None:
        nonlocal steps
        steps += 1
        if steps > killed_at:
            raise KillError

    file = Checkpoint(tmp_path / "m.pt", "m", "these inputs", 0.0)
    with pytest.raises(KillError):
        fit(task, spec, 0, until_killed, file)
    task = task_of(spec, logged.where(~held), held_out)
    steps = -10_000
    result = fit(task, spec, 0, until_killed, Checkpoint(tmp_path / "m.pt", "m", "these inputs", 0.0))
    assert result == expected
    assert bits(task.backbone) == bits(whole)
    done, seen = task_of(spec, logged.where(~held), held_out), list[Step]()
    assert fit(done, spec, 0, seen.append, file) == expected  # training is finished: nothing is trained again
    assert seen == []
    assert bits(done.backbone) == bits(whole)


def test_a_checkpoint_of_another_config_or_broken_is_an_error(tmp_path: Path) -> None:
    logged, spec = some_log(100), MF(name="m", dims=2, epochs=1)
    path = tmp_path / "m.pt"
    fit(task_of(spec, logged), spec, 0, lambda step: None, Checkpoint(path, "m", "these inputs", 0.0))
    with pytest.raises(
        TrainingError, match=r"m\.pt: this checkpoint of model m is of another config, seed or data.*remove the file"
    ):
        fit(task_of(spec, logged), spec, 0, lambda step: None, Checkpoint(path, "m", "other inputs", 0.0))
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(TrainingError, match=r"m\.pt: not a checkpoint of training"):
        fit(task_of(spec, logged), spec, 0, lambda step: None, Checkpoint(path, "m", "these inputs", 0.0))


def test_stops_on_a_metric_of_held_out_positives() -> None:
    logged, held = some_log(700), np.random.default_rng(1).random(700) < 0.3
    spec = MF(
        name="m",
        dims=8,
        epochs=40,
        batch_size=50,
        learning_rate=0.02,
        patience=2,
        stop_on="ndcg@5",
        sampler=Observed(),
        weight_decay=0.01,
    )
    seen, kept_back = logged.where(~held), logged.where(held)
    metric = HeldOutMetric("m", spec.stop_on, seen, kept_back)
    task = task_of(spec, seen, make_sampler(Observed(), kept_back, logged))._replace(metric=metric)
    result = fit(task, spec, 0, lambda step: None)
    assert result.best_epoch == int(np.argmin(result.held_out)) + 1
    assert metric(task.backbone.scorer()) == -min(result.held_out)
    assert -min(result.held_out) > 0.5


def learned(spec: MLP, logged: Logged) -> Fit:
    task = Task(
        make_backbone(spec, logged, 0.0, generator_of(0, "init")),
        make_loss(spec.loss, logged, generator_of(0)),
        make_sampler(spec.sampler, logged, logged),
        None,
    )
    return fit(task, spec, 0, lambda step: None)


def test_bfloat16_learns_the_same_to_its_precision() -> None:
    logged = some_log(500)
    exact, half = (
        learned(
            MLP(
                name="m", dims=8, epochs=10, batch_size=50, learning_rate=0.02, sampler=Observed(), precision=precision
            ),
            logged,
        )
        for precision in ("float32", "bfloat16")
    )
    assert half.losses != exact.losses
    assert half.losses[0] == pytest.approx(exact.losses[0], rel=0.02)
    assert half.losses[-1] < half.losses[0] / 2


@pytest.mark.parametrize("sampler", [UniformNegatives(), HardNegatives(hardest=2, drawn=6)])
def test_lazy_tables_learn_the_same_as_whole_ones(
    monkeypatch: pytest.MonkeyPatch, sampler: UniformNegatives | HardNegatives
) -> None:
    logged = some_log(500)
    spec = MF(name="m", dims=4, epochs=5, batch_size=3, weight_decay=0.1, sampler=sampler)
    lazy, of_lazy = trained(spec, logged)
    assert lazy.user.sparse
    assert lazy.item.sparse
    monkeypatch.setattr("models.used_rows.LAZY", 10**9)
    whole, of_whole = trained(spec, logged)
    assert not whole.user.sparse
    assert of_lazy.losses == pytest.approx(of_whole.losses, rel=1e-3)
    for left, right in zip(lazy.parameters(), whole.parameters(), strict=True):
        torch.testing.assert_close(left, right, rtol=0, atol=2e-3)
    assert whole.user.weight.abs().mean() > 0.05


def test_more_decay_makes_shorter_vectors() -> None:
    specs = [MF(name="m", dims=4, epochs=20, batch_size=20, weight_decay=decay) for decay in (0.0, 0.05, 0.2)]
    norms = [float(trained(spec, some_log(500))[0].user.weight.detach().norm()) for spec in specs]
    assert norms[0] > norms[1] > 2 * norms[2] > 0


def test_vectors_of_histories_have_the_penalty(monkeypatch: pytest.MonkeyPatch) -> None:
    logged = some_log(500)
    spec = SVDpp(name="m", dims=4, epochs=20, batch_size=20, weight_decay=0.1)

    def norm() -> float:
        backbone = make_backbone(spec, logged, 0.0, generator_of(0, "init"))
        sampler = make_sampler(spec.sampler, logged, logged)
        fit(Task(backbone, make_loss(spec.loss, logged, generator_of(0)), sampler, None), spec, 0, lambda step: None)
        return float(backbone.get_parameter("past.weight").detach().norm())

    with_penalty = norm()
    no_rows = Used(torch.zeros(0, dtype=torch.int64), torch.zeros(0, 1))
    monkeypatch.setattr("models.training.rows_of_past", lambda uses: no_rows)
    assert with_penalty < 0.95 * norm()


def test_patience_has_to_pass_in_steps_too() -> None:
    rng = np.random.default_rng(0)
    logged = some_log(600)._replace(positive=rng.random(600) < 0.5)  # noise: more training is worse
    held = rng.random(600) < 0.3
    held_out = make_sampler(Observed(), logged.where(held), logged)
    settings: dict[str, Any] = {"dims": 8, "epochs": 100, "batch_size": 32, "learning_rate": 0.05, "weight_decay": 0.0}
    steps = -(-int((~held).sum()) // 32)
    for patience_steps in (0, 200):
        spec = MF(name="m", patience=2, patience_steps=patience_steps, sampler=Observed(), **settings)
        _, result = trained(spec, logged.where(~held), held_out)
        assert result.epochs - result.best_epoch == max(2, -(-patience_steps // steps))


def test_a_schedule_that_did_not_suit_the_data_is_told() -> None:
    logged, held = some_log(600), np.random.default_rng(0).random(600) < 0.3
    held_out = make_sampler(Observed(), logged.where(held), logged)

    def warning(**settings: Any) -> str:
        spec = MF(name="m", dims=4, sampler=Observed(), **settings)
        return trained(spec, logged.where(~held), held_out)[1].warning or ""

    assert "still getting better in the last of 2 epochs. Raise epochs" in warning(epochs=2, batch_size=10)
    assert re.search(
        r"kept are those after \d+ steps", warning(batch_size=300, learning_rate=2.0, weight_decay=0, epochs=30)
    )
    spec = MF(name="m", dims=4, epochs=3, batch_size=50, learning_rate=1e-7, sampler=Observed())
    assert "the loss hardly moved in 36 steps" in (trained(spec, some_log(600))[1].warning or "")
