"""The scorer of a backbone with a vector per user and per item: x_ui = u . v.

The item matrix is computed once, not for every block: with 1e6 items it is larger than a block of scores.
"""

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn


class VectorScorer(nn.Module):
    """User and item vectors on the device that scores."""

    users: Tensor
    items: Tensor

    def __init__(self, users: Tensor, items: Tensor) -> None:
        super().__init__()
        self.register_buffer("users", users.detach())  # (n_users, d)
        self.register_buffer("items", items.detach())  # (n_items, d)

    @torch.inference_mode()
    def score_block(self, users: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """Inner products of these users with all items, by one matrix product."""
        index = torch.from_numpy(users).to(self.users.device)
        scores: npt.NDArray[np.float32] = (self.users[index] @ self.items.T).cpu().numpy()
        return scores
