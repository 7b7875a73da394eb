"""Scorers of torch: scores are computed on the device that holds their tensors, and leave it once per block."""

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn


class DeviceScorer(nn.Module):
    """The base of scorers with tensors on a device."""

    def scores(self, users: Tensor) -> Tensor:
        """Scores of these users (n,) for all items, shape (n, n_items), all on the device."""
        raise NotImplementedError

    @torch.inference_mode()
    def score_block(self, users: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """Scores of these users for all items."""
        scores: npt.NDArray[np.float32] = self.scores(self.index(users)).cpu().numpy()
        return scores

    def index(self, users: npt.NDArray[np.int64]) -> Tensor:
        """The users on the device."""
        return torch.from_numpy(users).to(next(self.buffers()).device)
