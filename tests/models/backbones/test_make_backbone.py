"""For every backbone: the scorer equals forward, it learns, is repeatable bit for bit, and keeps no gradient."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import binary_cross_entropy_with_logits

from models.adam import Adam
from models.backbones.backbone import Backbone, Noise
from models.backbones.make_backbone import make_backbone
from models.logged import Logged
from models.spec import gradient as spec

SPECS: tuple[spec.Backbone, ...] = (
    spec.MF(name="mf", dims=8),
    spec.MF(name="mf-plain", dims=8, biases=False),
    spec.NMF(name="nmf", dims=8),
    spec.SVDpp(name="svdpp", dims=8),
    spec.LightGCN(name="lightgcn", dims=8, layers=2),
    spec.LightGCN(name="lightgcn-0", dims=8, layers=0),
    spec.SimGCL(name="simgcl", dims=8, layers=2, contrast=0.01),
    spec.RVAE(name="rvae", hidden=16, dims=8, dropout=0.2, kl=0.01),
    spec.GMF(name="gmf", dims=8),
    spec.MLP(name="mlp", dims=16, layers=2),
    spec.NeuMF(name="neumf", dims=8, layers=2),
)
every = pytest.mark.parametrize("model", SPECS, ids=lambda model: model.name)


def made(model: spec.Backbone, logged: Logged, seed: int = 0) -> Backbone:
    return make_backbone(model, logged, 0.3, torch.Generator().manual_seed(seed))


def noise(n: int, generator: torch.Generator | None = None) -> Noise:
    return Noise(generator or torch.Generator().manual_seed(0), n, slice(0, n), torch.device("cpu"))


def bits(module: nn.Module) -> list[bytes]:
    return [tensor.numpy().tobytes() for tensor in module.state_dict().values()]


def trained(backbone: Backbone, logged: Logged, steps: int) -> float:
    """Makes steps on all logged pairs; returns the last loss without the backbone's own term."""
    users, items = torch.from_numpy(logged.users), torch.from_numpy(logged.items).unsqueeze(1)
    labels = torch.from_numpy(logged.positive.astype(np.float32)).unsqueeze(1)
    optimizer, generator = Adam(list(backbone.parameters()), 0.03), torch.Generator().manual_seed(0)
    for _ in range(steps):
        numbers, own = backbone.train_batch(users, items, noise(len(users), generator))
        optimizer.step(
            torch.autograd.grad(_loss(backbone, numbers, labels) + (0 if own is None else own), optimizer.parameters)
        )
        backbone.project()
    return float(_loss(backbone, backbone(users, items), labels).detach())


def _loss(backbone: Backbone, numbers: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy; for NMF, whose numbers are not below zero, the squared error."""
    if type(backbone).__name__ == "NonNegativeFactorisation":
        return ((numbers - labels) ** 2).mean()
    return binary_cross_entropy_with_logits(numbers, labels)


@every
def test_scorer_scores_as_forward_does(
    model: spec.Backbone, tiny: Logged, filled: Callable[[Backbone], Backbone]
) -> None:
    backbone = filled(made(model, tiny))
    users = np.array([5, 0, 3, 4])
    block = backbone.scorer().score_block(users)
    assert block.dtype == np.float32
    assert block.shape == (4, 5)
    numbers = backbone(torch.from_numpy(users), torch.arange(5).expand(4, 5)).detach().numpy()
    np.testing.assert_allclose(block, numbers, rtol=1e-4, atol=1e-5)


@every
def test_the_number_of_a_pair_does_not_depend_on_the_rest_of_the_batch(
    model: spec.Backbone, tiny: Logged, filled: Callable[[Backbone], Backbone], pairs: tuple[Tensor, Tensor]
) -> None:
    backbone = filled(made(model, tiny))
    users, items = pairs
    together = backbone(users, items)
    assert together.shape == items.shape
    for k in range(items.shape[1]):
        torch.testing.assert_close(backbone(users, items[:, k : k + 1]), together[:, k : k + 1])


@every
def test_overfits_ten_interactions(model: spec.Backbone) -> None:
    users, items = np.arange(10) // 2, np.array([0, 3, 1, 2, 0, 2, 1, 3, 0, 1])
    positive = np.array(
        [1, 0, 1, 0, 0, 1, 0, 1, 1, 0], bool
    )  # a positive for each user: without one, SimGCL has no vector to learn
    logged = Logged(users, items, positive, np.ones(10), 5, 4)
    assert trained(made(model, logged), logged, 300) < 0.05


@every
def test_the_same_seed_gives_the_same_bits(model: spec.Backbone, tiny: Logged) -> None:
    torch.manual_seed(1)
    one = made(model, tiny)
    torch.manual_seed(2)
    two, three = made(model, tiny), made(model, tiny, seed=1)
    assert bits(one) == bits(two) != bits(three)
    trained(one, tiny, 3)
    trained(two, tiny, 3)
    assert bits(one) == bits(two)
    assert bits(one.scorer()) == bits(two.scorer())  # type: ignore[arg-type]


@every
def test_making_a_backbone_does_not_use_torchs_global_generator(model: spec.Backbone, tiny: Logged) -> None:
    before = torch.get_rng_state()
    made(model, tiny)
    assert torch.equal(torch.get_rng_state(), before)


@every
def test_a_scorer_is_a_copy_without_gradients(
    model: spec.Backbone, tiny: Logged, filled: Callable[[Backbone], Backbone]
) -> None:
    backbone = filled(made(model, tiny))
    scorer = backbone.scorer()
    assert isinstance(scorer, nn.Module)
    assert scorer.state_dict()
    assert not any(tensor.requires_grad for tensor in (*scorer.parameters(), *scorer.buffers()))
    before = scorer.score_block(np.arange(6))
    trained(backbone, tiny, 3)
    assert (scorer.score_block(np.arange(6)) == before).all()
    assert (backbone.scorer().score_block(np.arange(6)) != before).any()


@every
def test_state_restores_what_was_learned(
    model: spec.Backbone, tiny: Logged, filled: Callable[[Backbone], Backbone]
) -> None:
    backbone, other = filled(made(model, tiny)), made(model, tiny, seed=9)
    other.load_state_dict(backbone.state_dict())
    assert (other.scorer().score_block(np.arange(6)) == backbone.scorer().score_block(np.arange(6))).all()


@every
def test_forward_in_bfloat16_is_close(
    model: spec.Backbone, tiny: Logged, filled: Callable[[Backbone], Backbone], pairs: tuple[Tensor, Tensor]
) -> None:
    backbone = filled(made(model, tiny))
    with torch.autocast("cpu", torch.bfloat16):
        numbers, own = backbone.train_batch(*pairs, noise(5))
        near = backbone(*pairs)
    gradients = torch.autograd.grad(numbers.float().sum() + (0 if own is None else own), list(backbone.parameters()))
    assert all(gradient.dtype == torch.float32 for gradient in gradients)
    torch.testing.assert_close(near.float(), backbone(*pairs), rtol=0.05, atol=0.1)


@every
def test_a_step_can_itself_be_differentiated(
    model: spec.Backbone, tiny: Logged, filled: Callable[[Backbone], Backbone], pairs: tuple[Tensor, Tensor]
) -> None:
    backbone = filled(made(model, tiny)).double()
    parameters = dict(backbone.named_parameters())

    def after(weight: Tensor) -> Tensor:
        """The result of a step with this weight of the loss, as AutoDebias assumes one."""
        slopes = torch.autograd.grad(
            weight * backbone(*pairs).sigmoid().sum(), list(parameters.values()), create_graph=True, allow_unused=True
        )
        stepped = {
            name: value.detach() - 0.1 * (0 if slope is None else slope)
            for (name, value), slope in zip(parameters.items(), slopes, strict=True)
        }
        return functional_call(backbone, stepped, pairs).sigmoid().sum()

    assert torch.autograd.gradcheck(after, torch.tensor(0.5, dtype=torch.double, requires_grad=True))


@every
def test_a_log_without_positives(model: spec.Backbone, tiny: Logged, pairs: tuple[Tensor, Tensor]) -> None:
    backbone = made(model, tiny._replace(positive=np.zeros(12, bool)))
    numbers, own = backbone.train_batch(*pairs, noise(5))
    gradients = torch.autograd.grad(numbers.sum() + (0 if own is None else own), list(backbone.parameters()))
    assert all(gradient.isfinite().all() for gradient in gradients)
    assert np.isfinite(backbone.scorer().score_block(np.arange(6))).all()
