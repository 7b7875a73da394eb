"""NCF: the three formulas equal loops, and scores do not depend on the chunk size."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from models.backbones import pair_scorer
from models.backbones.backbone import Backbone
from models.backbones.ncf import GMF, MLP, NeuMF


def gmf(weights: dict[str, np.ndarray], u: int, i: int) -> float:
    """h . (u * v)."""
    return sum(
        weights["weights"][d] * weights["user.weight"][u, d] * weights["item.weight"][i, d]
        for d in range(len(weights["weights"]))
    )


def mlp(weights: dict[str, np.ndarray], u: int, i: int, layers: int) -> float:
    """The tower over [u, v], whose first matrix is [W_u, W_v]."""
    tower = np.concatenate([weights["user.weight"][u], weights["item.weight"][i]])
    matrices = [
        (np.concatenate([weights["first_user"], weights["first_item.weight"]], axis=1), weights["first_item.bias"])
    ]
    matrices += [(weights[f"rest.{2 * n + 1}.weight"], weights[f"rest.{2 * n + 1}.bias"]) for n in range(layers)]
    for matrix, bias in matrices[:-1]:
        tower = np.array(
            [
                max(0.0, sum(row[d] * tower[d] for d in range(len(tower))) + b)
                for row, b in zip(matrix, bias, strict=True)
            ]
        )
    matrix, bias = matrices[-1]
    return sum(matrix[0, d] * tower[d] for d in range(len(tower))) + bias[0]


def arrays(model: Backbone) -> dict[str, np.ndarray]:
    return {name: tensor.numpy().astype(np.float64) for name, tensor in model.state_dict().items()}


@pytest.mark.parametrize("layers", [1, 3, 5])
def test_forward_is_the_formula(filled: Callable[..., Backbone], pairs: tuple[Tensor, Tensor], layers: int) -> None:
    generator = torch.Generator()
    left, right, both = (
        filled(model)
        for model in (
            GMF(6, 5, 8, generator),
            MLP(6, 5, (8, layers), 0.3, generator),
            NeuMF(6, 5, (8, layers), 0.3, generator),
        )
    )
    assert isinstance(both, NeuMF)
    for n, u in enumerate(pairs[0].tolist()):
        for k, i in enumerate(pairs[1][n].tolist()):
            assert float(left(*pairs)[n, k].detach()) == pytest.approx(gmf(arrays(left), u, i), rel=1e-4, abs=1e-5)
            assert float(right(*pairs)[n, k].detach()) == pytest.approx(
                mlp(arrays(right), u, i, layers), rel=1e-4, abs=1e-5
            )
            expected = gmf(arrays(both.gmf), u, i) + mlp(arrays(both.mlp), u, i, layers)
            assert float(both(*pairs)[n, k].detach()) == pytest.approx(expected, rel=1e-4, abs=1e-5)


def test_each_layer_is_half_as_wide_and_has_at_least_one_unit() -> None:
    widths = [
        layer.out_features
        for layer in MLP(2, 2, (6, 5), 0.0, torch.Generator()).rest
        if isinstance(layer, torch.nn.Linear)
    ]
    assert widths == [3, 1, 1, 1, 1]


@pytest.mark.parametrize("size", [1, 4 * 8 * 3, 4 * 8 * 5, 4 * 8 * 12, 1 << 20])
def test_scores_do_not_depend_on_the_chunk_size(
    filled: Callable[..., NeuMF], monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    model = filled(NeuMF(6, 5, (8, 3), 0.3, torch.Generator()))
    monkeypatch.setattr(pair_scorer, "CHUNK_BYTES", size)
    users = torch.tensor([5, 0, 3, 1])
    expected = model(users, torch.arange(5).expand(4, 5)).detach().numpy()
    np.testing.assert_allclose(model.scorer().score_block(users.numpy()), expected, rtol=1e-5, atol=1e-6)


def test_gmf_starts_as_matrix_factorisation_and_mlp_near_its_base() -> None:
    assert (GMF(3, 4, 8, torch.Generator()).weights == 1).all()
    scores = MLP(3, 50, (8, 3), -1.5, torch.Generator().manual_seed(0)).scorer().score_block(np.arange(3))
    assert abs(scores + 1.5).max() < 0.3
