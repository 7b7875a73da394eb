"""SimGCL: the formula, the contrast and its gradient through noisy layers, and no term with contrast 0."""

import numpy as np
import pytest
import torch
from torch import Tensor

from models.backbones.backbone import Noise
from models.backbones.simgcl import SimGCL
from models.logged import Logged
from models.spec import gradient as spec


def noise(seed: int = 5) -> Noise:
    return Noise(torch.Generator().manual_seed(seed), 5, slice(0, 5), torch.device("cpu"))


def made(logged: Logged, **changes: float) -> SimGCL:
    return SimGCL(
        logged.positives(), spec.SimGCL(name="x", dims=3, layers=2, **changes), torch.Generator().manual_seed(0)
    )


def adjacency(positives: Logged) -> Tensor:
    """The whole matrix D^-1/2 A D^-1/2."""
    matrix = torch.zeros(positives.n_users + positives.n_items, positives.n_users + positives.n_items)
    for u, i in zip(positives.users, positives.items, strict=True):
        weight = 1 / ((positives.users == u).sum() * (positives.items == i).sum()) ** 0.5
        matrix[u, positives.n_users + i] = matrix[positives.n_users + i, u] = weight
    return matrix


def encoded(matrix: Tensor, start: Tensor, n_users: int, eps: float, draws: Noise | None) -> Tensor:
    """Two layers as written in the paper, recorded by autograd."""
    vectors, layers = start, []
    for _ in range(2):
        vectors = matrix @ vectors
        if draws is not None:
            drawn = torch.cat([draws.uniform(n_users, 3), draws.uniform(len(start) - n_users, 3)])
            vectors = vectors + vectors.sign() * drawn / drawn.norm(dim=1, keepdim=True) * eps
        layers.append(vectors)
    return (layers[0] + layers[1]) / 2


def contrast(first: Tensor, second: Tensor, temperature: float) -> Tensor:
    """InfoNCE, node by node."""
    total = torch.zeros(())
    for n in range(len(first)):
        cosines = [first[n] @ second[m] / (first[n].norm() * second[m].norm()) / temperature for m in range(len(first))]
        total = total + torch.logsumexp(torch.stack(cosines), 0) - cosines[n]
    return total / len(first)


def test_forward_does_not_use_layer_0(tiny: Logged, pairs: tuple[Tensor, Tensor]) -> None:
    model = made(tiny)
    vectors = encoded(adjacency(tiny.positives()), torch.cat([model.user.weight, model.item.weight]), 6, 0.0, None)
    expected = torch.stack(
        [torch.stack([vectors[u] @ vectors[6 + i] for i in row]) for u, row in zip(*pairs, strict=True)]
    )
    torch.testing.assert_close(model(*pairs), expected)


@pytest.mark.parametrize("eps", [0.0, 0.1])
def test_contrast_and_its_gradient_are_those_of_noisy_layers(tiny: Logged, eps: float) -> None:
    users, items = (
        torch.tensor([4, 0, 4, 1]),
        torch.tensor([[0, 4], [1, 2], [3, 2], [0, 3]]),
    )  # nodes 0, 1, 4 and 0, 1, 3
    model = made(tiny, noise=eps, contrast=0.3, temperature=0.5)
    numbers, own = model.train_batch(users, items, noise())
    assert own is not None
    torch.testing.assert_close(numbers, model(users, items))
    start, matrix, draws = (
        torch.cat([model.user.weight, model.item.weight]).detach().requires_grad_(),
        adjacency(tiny.positives()),
        noise(),
    )
    plain, first, second = (encoded(matrix, start, 6, eps, each) for each in (None, draws, draws))
    ours = [torch.tensor([0, 1, 4]), torch.tensor([6, 7, 9])]
    expected = 0.3 * (contrast(first[ours[0]], second[ours[0]], 0.5) + contrast(first[ours[1]], second[ours[1]], 0.5))
    torch.testing.assert_close(own, expected)
    expected_numbers = (plain[users].unsqueeze(1) * plain[6 + items]).sum(2)
    gradients = torch.autograd.grad(own + numbers.sum(), [model.user.weight, model.item.weight])
    torch.testing.assert_close(
        torch.cat(gradients), torch.autograd.grad(expected + expected_numbers.sum(), start)[0], rtol=1e-4, atol=1e-6
    )


def test_without_contrast_there_is_no_own_loss_term(tiny: Logged, pairs: tuple[Tensor, Tensor]) -> None:
    model = made(tiny, noise=0.0, contrast=0.0)
    numbers, own = model.train_batch(*pairs, noise())
    assert own is None
    assert torch.equal(numbers, model(*pairs))


def test_noise_changes_views_only(tiny: Logged, pairs: tuple[Tensor, Tensor]) -> None:
    model = made(tiny)
    (one, own), (other, own_other) = model.train_batch(*pairs, noise(1)), model.train_batch(*pairs, noise(2))
    assert own is not None
    assert own_other is not None
    assert torch.equal(one, other)
    assert own != own_other


def test_nodes_without_positives_have_finite_gradients(tiny: Logged) -> None:
    users, items = torch.tensor([3, 5, 0]), torch.tensor([[4], [2], [0]])
    model = made(tiny)
    numbers, own = model.train_batch(users, items, noise())
    assert own is not None
    gradients = torch.autograd.grad(numbers.sum() + own, list(model.parameters()))
    assert all(np.isfinite(gradient.numpy()).all() for gradient in gradients)
