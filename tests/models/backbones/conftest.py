"""A few users and items, and parameters drawn at a scale that no initialisation has."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from models.backbones.backbone import Backbone
from models.logged import Logged

Fill = Callable[[Backbone], Backbone]


@pytest.fixture
def tiny() -> Logged:
    """Six users and five items: user 3 and item 4 have no pairs, user 5 has no positives."""
    users = np.array([0, 0, 0, 1, 1, 2, 2, 4, 4, 4, 4, 5])
    items = np.array([0, 1, 3, 0, 2, 1, 3, 0, 1, 2, 3, 2])
    positive = np.array([1, 1, 0, 1, 1, 0, 1, 1, 1, 0, 1, 0], bool)
    return Logged(users, items, positive, np.where(positive, 4.0, 2.0), 6, 5)


@pytest.fixture
def pairs() -> tuple[torch.Tensor, torch.Tensor]:
    """Users with three items each: one user twice, and users of all kinds."""
    return torch.tensor([4, 3, 0, 5, 4]), torch.tensor([[0, 4, 2], [1, 1, 4], [3, 2, 0], [4, 0, 1], [2, 3, 1]])


@pytest.fixture
def filled() -> Fill:
    """Draws every parameter again, at a scale where every term of the formula matters."""

    def fill(model: Backbone) -> Backbone:
        generator = torch.Generator().manual_seed(1)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.7)
        model.project()
        return model

    return fill
