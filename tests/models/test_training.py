"""The training loop: it learns, stops early, repeats itself bit for bit, and says where it went astray."""

import numpy as np
import pyarrow as pa
import pytest
import torch

from models.errors import TrainingError
from models.keyed import id_keys, mix
from models.losses import make_loss
from models.mf import MatrixFactorisation
from models.samplers import Logged, Sampler, make_sampler
from models.spec import MF, Bce, IpsBce, Observed, PopularityPropensity, UniformNegatives
from models.training import Fit, Step, Task, fit, generator_of, held_out_mask


def trained(spec: MF, logged: Logged, held_out: Sampler | None = None, seed: int = 0) -> tuple[MatrixFactorisation, Fit]:
    n_users = int(logged.users.max()) + 2  # the last one has no feedback
    model = MatrixFactorisation(n_users, logged.n_items, spec.dims, 0.0, generator_of(seed, "init"))
    task = Task(model, make_loss(spec.loss, logged, torch.device("cpu")), make_sampler(spec.sampler, logged, logged), held_out)
    return model, fit(task, spec, seed, lambda step: None)


def some_log(n: int, n_users: int = 40, n_items: int = 30) -> Logged:
    key = np.sort(np.random.default_rng(2).permutation(n_users * n_items)[:n])
    users, items = np.divmod(key, n_items)
    return Logged(users, items, (users % 3 == items % 3), n_items)


def bits(model: MatrixFactorisation) -> list[bytes]:
    return [tensor.numpy().tobytes() for tensor in model.state_dict().values()]


def test_overfits_ten_interactions() -> None:
    logged = Logged(np.arange(10) // 2, np.array([0, 3, 1, 2, 0, 1, 2, 3, 1, 3]), np.array([1, 0, 0, 1, 1, 1, 0, 0, 1, 0], bool), 4)
    spec = MF(name="tiny", dims=8, epochs=200, batch_size=4, learning_rate=0.05, weight_decay=0, sampler=Observed())
    model, result = trained(spec, logged)
    logits = model(torch.from_numpy(logged.users), torch.from_numpy(logged.items)).detach().numpy()
    assert ((logits > 0) == logged.positive).all()
    assert result.losses[-1] < 0.01 < result.losses[0]
    assert result.epochs == 200
    assert result.held_out == ()


@pytest.mark.parametrize("sampler", [Observed(), UniformNegatives(per_positive=3)])
def test_propensities_of_one_are_plain_bce_bit_for_bit(sampler: Observed | UniformNegatives) -> None:
    logged = some_log(300)
    plain, ips = (
        trained(MF(name="m", dims=4, epochs=5, batch_size=64, loss=loss, sampler=sampler), logged)[0]
        for loss in (Bce(), IpsBce(propensity=PopularityPropensity(power=0)))
    )
    assert bits(plain) == bits(ips)
    weighted, _ = trained(MF(name="m", dims=4, epochs=5, batch_size=64, loss=IpsBce(), sampler=sampler), logged)
    assert bits(plain) != bits(weighted)


def test_the_same_seed_gives_the_same_bits_and_another_does_not() -> None:
    logged, spec = some_log(500), MF(name="m", dims=4, epochs=4, batch_size=50)
    torch.manual_seed(1)
    first, _ = trained(spec, logged)
    torch.manual_seed(2)  # the global generator plays no part
    assert bits(trained(spec, logged)[0]) == bits(first)
    assert bits(trained(spec, logged, seed=1)[0]) != bits(first)


def test_a_user_without_feedback_has_the_zero_vector() -> None:
    model, _ = trained(MF(name="m", dims=4, epochs=3, batch_size=50, weight_decay=1e-4, sampler=Observed()), some_log(500))
    assert not model.user.weight[-1].any()
    assert not model.user_bias.weight[-1].any()
    np.testing.assert_allclose(
        model.scorer().score_block(np.array([len(model.user.weight) - 1]))[0], model.item_bias.weight[:, 0].detach(), rtol=1e-6
    )
    assert model.user.weight[:-1].any(dim=1).all()


def test_stops_early_and_keeps_the_best_weights() -> None:
    rng = np.random.default_rng(0)
    logged = some_log(600)._replace(positive=rng.random(600) < 0.5)  # noise: held-out loss can only grow once it is learned by heart
    held = rng.random(600) < 0.3
    held_out = make_sampler(Observed(), logged.where(held), logged)
    spec = MF(name="noise", dims=8, epochs=100, batch_size=32, learning_rate=0.05, weight_decay=0, patience=2, sampler=Observed())
    model, result = trained(spec, logged.where(~held), held_out)
    assert result.epochs == result.best_epoch + 2 < 100
    assert result.held_out[result.best_epoch - 1] == min(result.held_out)
    again = make_loss(Bce(), logged, torch.device("cpu"))(model, held_out.draw(torch.Generator())).mean().item()
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
    with pytest.raises(TrainingError, match=r"model wild: the loss is (nan|inf) in epoch 1, step [2-9]\d*\..*learning_rate"):
        trained(spec, some_log(500))


def test_reports_every_step() -> None:
    logged, steps = some_log(100), list[Step]()
    spec = MF(name="m", dims=2, epochs=2, batch_size=40, sampler=Observed())
    model = MatrixFactorisation(40, 30, 2, 0.0, generator_of(0, "init"))
    fit(Task(model, make_loss(Bce(), logged, torch.device("cpu")), make_sampler(Observed(), logged, logged), None), spec, 0, steps.append)
    assert [step.done for step in steps] == [0.4, 0.8, 1.0, 1.4, 1.8, 2.0]
    assert all(step.loss > 0 and step.rate > 0 for step in steps)
