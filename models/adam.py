"""Adam, by torch's functional form.

    g = grad + decay w;   m = b1 m + (1 - b1) g;   v = b2 v + (1 - b2) g^2
    w = w - lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)                       [Kingma, Ba 2015] algorithm 1

The class torch.optim.Adam imports torch's compiler when its first instance is made, which takes six seconds of CPU in
torch 2.15: more than the training of a small model. The function that it calls is public too, and imports nothing. The
fused kernel is used on CUDA only: on CPU it starts all threads for a few numbers.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim.adam import adam

BETA1, BETA2, EPS = 0.9, 0.999, 1e-8


class Adam:
    """Parameters and the running means of their gradients and squared gradients."""

    def __init__(self, parameters: Iterable[Tensor], learning_rate: float, weight_decay: float) -> None:
        self.parameters = list(parameters)
        self.learning_rate, self.weight_decay = learning_rate, weight_decay
        self.first = [torch.zeros_like(p) for p in self.parameters]
        self.second = [torch.zeros_like(p) for p in self.parameters]
        self.steps = [torch.zeros((), device=p.device) for p in self.parameters]

    @torch.no_grad()
    def step(self, gradients: tuple[Tensor, ...]) -> None:
        """Updates the parameters in place."""
        adam(
            self.parameters,
            list(gradients),
            self.first,
            self.second,
            [],
            self.steps,
            foreach=False,
            fused=self.parameters[0].is_cuda,
            amsgrad=False,
            beta1=BETA1,
            beta2=BETA2,
            lr=self.learning_rate,
            weight_decay=self.weight_decay,
            eps=EPS,
            maximize=False,
        )

    def state(self) -> dict[str, Any]:
        """The moments and step counts, for a checkpoint."""
        return {"first": self.first, "second": self.second, "steps": self.steps}

    def load(self, state: dict[str, Any]) -> None:
        """Restores the state of a checkpoint."""
        for ours, saved in zip(
            (self.first, self.second, self.steps), (state["first"], state["second"], state["steps"]), strict=True
        ):
            for tensor, value in zip(ours, saved, strict=True):
                tensor.copy_(value)
