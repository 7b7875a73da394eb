"""The interface of a backbone to the training loop, losses and samplers: a number for each pair, higher is better.

forward       numbers of pairs, as in scoring
train_batch   the same for a batch of training, with the backbone's own noise, and the backbone's own term of the loss
              (a contrast, a KL term)
project       called after each step of Adam: projects parameters into their bounds
scorer        the scorer of the trained backbone
"""

import torch
from torch import Tensor, nn

from models.device_scorer import DeviceScorer
from models.host_memory import sent


class Noise:
    """Random numbers of one batch, which do not depend on the number of processes.

    Every process draws for the whole batch, and takes the numbers of its own rows.
    """

    def __init__(self, generator: torch.Generator, n_rows: int, part: slice, device: torch.device) -> None:
        self.generator, self.n_rows, self.part, self.device = generator, n_rows, part, device

    def normal(self, width: int) -> Tensor:
        """Standard normal numbers for each row of this part, shape (n, width)."""
        return sent(torch.randn(self.n_rows, width, generator=self.generator)[self.part], self.device)

    def uniform(self, *shape: int) -> Tensor:
        """Uniform numbers in [0, 1) that belong to no row of the batch, such as one for each user."""
        return sent(torch.rand(*shape, generator=self.generator), self.device)

    def kept(self, keys: Tensor, share: float) -> Tensor:
        """Whether each key (m,) is kept, with probability `share`: by hash, so it is the same in every process."""
        seed = sent(torch.randint(1 << 62, (), generator=self.generator), self.device)
        return (_mix(keys + seed) >> 40) & 0xFFFFFF < share * (1 << 24)


def _mix(keys: Tensor) -> Tensor:
    """The mix of models/keyed.py on the device: the masks clear the copies of the sign bit that >> makes."""
    x = keys - 0x61C8864680B583EB
    x = (x ^ ((x >> 30) & 0x3FFFFFFFF)) * -0x40A7B892E31B1A47
    x = (x ^ ((x >> 27) & 0x1FFFFFFFFF)) * -0x6B2FB644ECCEEE15
    return x ^ ((x >> 31) & 0x1FFFFFFFF)


class Backbone(nn.Module):
    """The base of all backbones.

    A table named `user` or `item` has a row per user or item, and an example uses those of its user and items: the
    rows that weight decay shrinks.
    """

    reads_rows = True  # of these tables, a batch reads only the rows of its users and items

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        """Numbers of users (n,) with items (n, k), shape (n, k)."""
        raise NotImplementedError

    def train_batch(self, users: Tensor, items: Tensor, noise: Noise) -> tuple[Tensor, Tensor | None]:
        """Numbers of the batch's pairs, and the backbone's own term of the batch's mean loss."""
        return self(users, items), None

    def project(self) -> None:
        """Does nothing, unless parameters have bounds."""

    def scorer(self) -> DeviceScorer:
        """The scorer with the current parameters, without gradients."""
        raise NotImplementedError
