"""Adam, dense by torch's functional form, and lazy over the rows that a batch touches.

    m = b1 m + (1 - b1) g;   v = b2 v + (1 - b2) g^2
    w = w - lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)                       [Kingma, Ba 2015] algorithm 1

A row without a gradient still moves, by what is left of its m. In the steps last + 1, ..., t it moves by

    - lr m / sqrt(v) * sum_{s = last+1..t} r^(s - last) c_s,     r = b1 / sqrt(b2),   c_s = sqrt(1 - b2^s) / (1 - b1^s)
    sum = F(last) - r^(t - last) F(t),     F(t) = sum_{j >= 1} c_{t+j} r^j

so a lazy table leaves its other rows alone, and `catch_up` brings the rows that a batch reads to the present step at
once. After it, and after `settle` for all rows, parameters and moments are those of dense Adam up to rounding and eps:
in steps without a gradient, eps shrinks as sqrt(v) does, in place of being constant. That is below 1e-3 of a movement
where the gradients are above 1e-5 times their own history.

The class torch.optim.Adam imports torch's compiler when its first instance is made, which takes six seconds of CPU in
torch 2.15: more than the training of a small model. The function that it calls is public too, and imports nothing. The
fused kernel is used on CUDA only: on CPU it starts all threads for a few numbers.
"""

from collections.abc import Collection, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.optim.adam import adam

BETA1, BETA2, EPS = 0.9, 0.999, 1e-8
RATIO = BETA1 / BETA2**0.5  # r
TAIL = 20_000  # steps after which c_s is 1 in float32
BLOCK = 1 << 16  # rows that `settle` takes at once


class Rows(NamedTuple):
    """The gradient of some rows of a table; that of the others is zero."""

    rows: Tensor  # (n,) int64, each once
    values: Tensor  # (n, d)


class Adam:
    """Parameters, and the running means of their gradients and squared gradients."""

    def __init__(self, parameters: Sequence[Tensor], learning_rate: float, lazy: Collection[int] = ()) -> None:
        """lazy: the numbers of the parameters whose gradients are Rows."""
        self.parameters, self.learning_rate, self.t = list(parameters), learning_rate, 0
        self.first = [torch.zeros_like(p) for p in self.parameters]
        self.second = [torch.zeros_like(p) for p in self.parameters]
        self.dense = [k for k in range(len(self.parameters)) if k not in lazy]
        self.steps = [torch.zeros((), device=self.parameters[k].device) for k in self.dense]
        self.held: dict[int, tuple[Tensor, Tensor]] = {}  # moments of the rows of the next step
        # the step up to which a row of a lazy table is
        self.last = {
            k: torch.zeros(len(self.parameters[k]), dtype=torch.int32, device=self.parameters[k].device) for k in lazy
        }

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor | Rows]) -> None:
        """Updates the parameters in place; the rows of a lazy table were caught up before they were read."""
        self.t += 1
        for k, gradient in enumerate(gradients):
            if isinstance(gradient, Rows):
                self._step_rows(k, gradient)
        some = [gradients[k] for k in self.dense]
        if not some:
            return
        adam(
            [self.parameters[k] for k in self.dense],
            [gradient for gradient in some if isinstance(gradient, Tensor)],
            [self.first[k] for k in self.dense],
            [self.second[k] for k in self.dense],
            [],
            self.steps,
            foreach=False,
            fused=self.parameters[0].is_cuda,
            amsgrad=False,
            beta1=BETA1,
            beta2=BETA2,
            lr=self.learning_rate,
            weight_decay=0.0,
            eps=EPS,
            maximize=False,
        )

    def _step_rows(self, k: int, gradient: Rows) -> None:
        """One step of some rows."""
        rows, values = gradient
        m, v = self.held.pop(k) if k in self.held else (self.first[k][rows], self.second[k][rows])
        m.mul_(BETA1).add_(values, alpha=1 - BETA1)
        v.mul_(BETA2).addcmul_(values, values, value=1 - BETA2)
        self.first[k].index_copy_(0, rows, m)
        self.second[k].index_copy_(0, rows, v)
        self.last[k].index_fill_(0, rows, self.t)
        root = (1 - BETA2**self.t) ** 0.5
        moved = m.div_(v.sqrt_().add_(EPS * root)).mul_(-self.learning_rate * root / (1 - BETA1**self.t))
        self.parameters[k].index_add_(0, rows, moved)

    @torch.no_grad()
    def catch_up(self, k: int, rows: Tensor, hold: bool = False) -> None:
        """Makes these rows of a lazy table, each named once, those of dense Adam after the steps so far.

        hold: the next step has a gradient of the same rows in this order, and takes their moments from memory.
        """
        last = self.last[k][rows]
        steps = (self.t - last).float()[:, None]
        m, v = self.first[k][rows], self.second[k][rows]
        tails = _tails(self.parameters[k].device)
        left = tails[last.clamp(max=TAIL).long(), None] - RATIO**steps * tails[min(self.t, TAIL)]
        root = (1 - BETA2 ** last.clamp(min=1).float()).sqrt_()[:, None]
        moved = m / v.sqrt().add_(EPS * root) * left.mul_(-self.learning_rate)
        self.parameters[k].index_add_(0, rows, moved)
        m.mul_(BETA1**steps)
        v.mul_(BETA2**steps)
        if hold:
            self.held[k] = m, v
        else:
            self.first[k].index_copy_(0, rows, m)
            self.second[k].index_copy_(0, rows, v)
        self.last[k].index_fill_(0, rows, self.t)

    def settle(self) -> None:
        """Catches up all rows: then tables can be read whole."""
        for k, last in self.last.items():
            for rows in torch.arange(len(last), device=last.device).split(BLOCK):
                self.catch_up(k, rows)

    def state(self) -> dict[str, Any]:
        """The moments and step counts, for a checkpoint."""
        return {"first": self.first, "second": self.second, "steps": self.steps, "t": self.t, "last": self.last}

    def load(self, state: dict[str, Any]) -> None:
        """Restores the state of a checkpoint."""
        self.t = state["t"]
        pairs = [*zip(self.first, state["first"], strict=True), *zip(self.second, state["second"], strict=True)]
        pairs += [*zip(self.steps, state["steps"], strict=True)]
        for tensor, value in [*pairs, *((last, state["last"][k]) for k, last in self.last.items())]:
            tensor.copy_(value)


@cache
def _tails(device: torch.device) -> Tensor:
    """F(0), ..., F(TAIL)."""
    s = np.arange(1, TAIL + 1)
    c = np.sqrt(-np.expm1(s * np.log(BETA2))) / -np.expm1(s * np.log(BETA1))
    tails = np.empty(TAIL + 1)
    tails[TAIL] = RATIO / (1 - RATIO)
    for t in range(TAIL - 1, -1, -1):
        tails[t] = RATIO * (c[t] + tails[t + 1])
    return torch.from_numpy(tails.astype(np.float32)).to(device)
