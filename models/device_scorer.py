"""Scorers of torch: scores are computed on the device that holds their tensors, and leave it once per block."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from models.host_memory import leaving, sent

Ints = npt.NDArray[np.int64]
Block = npt.NDArray[np.float32]


class DeviceScorer(nn.Module):
    """The base of scorers with tensors on a device."""

    def scores(self, users: Tensor) -> Tensor:
        """Scores of these users (n,) for all items, shape (n, n_items), all on the device."""
        raise NotImplementedError

    @torch.inference_mode()
    def score_block(self, users: Ints) -> Block:
        """Scores of these users for all items."""
        scores = self.scores(self.index(users))
        block: Block = leaving(scores)() if scores.is_cuda else scores.numpy()
        return block

    @torch.inference_mode()
    def begin(self, users: Ints) -> Callable[[], Block]:
        """A GPU begins to score these users, and the call waits for it; on the CPU the call scores them."""
        if self.device.type == "cpu":
            return lambda: self.score_block(users)
        return leaving(self.scores(self.index(users)))

    @property
    def device(self) -> torch.device:
        """Where the tensors are."""
        return next(self.buffers()).device

    def index(self, users: Ints) -> Tensor:
        """The users on the device."""
        return sent(torch.from_numpy(users), self.device)
