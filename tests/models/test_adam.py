"""Adam equals a loop over its formula."""

import math

import numpy as np
import pytest
import torch

from models.adam import Adam


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_matches_the_formula(decay: float) -> None:
    rng = np.random.default_rng(3)
    start = [rng.normal(size=(2, 3)), rng.normal(size=4)]
    parameters = [torch.tensor(values, requires_grad=True) for values in start]
    optimizer = Adam(parameters, 0.05, decay)
    gradients = [[rng.normal(size=values.shape) for values in start] for _ in range(5)]
    for step in gradients:
        optimizer.step(tuple(torch.from_numpy(gradient) for gradient in step))
    for which, values in enumerate(start):
        for at in np.ndindex(values.shape):
            w, m, v = values[at], 0.0, 0.0
            for t, step in enumerate(gradients, start=1):
                g = step[which][at] + decay * w
                m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
                w -= 0.05 * (m / (1 - 0.9**t)) / (math.sqrt(v / (1 - 0.999**t)) + 1e-8)
            assert parameters[which][at].item() == pytest.approx(w, rel=1e-6)


def test_a_parameter_at_zero_without_gradient_stays_there() -> None:
    parameter = torch.zeros(3, requires_grad=True)
    optimizer = Adam([parameter], 0.1, 0.01)
    for _ in range(3):
        optimizer.step((torch.tensor([0.0, 1.0, 0.0]),))
    assert parameter[[0, 2]].tolist() == [0.0, 0.0]
    assert parameter[1] < 0
