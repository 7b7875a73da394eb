"""A trained model without vectors: each pair goes through a network of its own.

    x_ui = network(p_u + q_i),   p_u and q_i the user's and the item's part of the first layer

The parts are made once, for all users and items; what is left is done for all pairs of a block, a chunk at a time that stays in the cache.
"""

import copy

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

CHUNK_BYTES = 1 << 20  # of first-layer sums held at once


class PairScorer(nn.Module):
    """Parts of the first layer on the device that scores, and the rest of the network."""

    users: Tensor
    items: Tensor

    def __init__(self, users: Tensor, items: Tensor, network: nn.Module) -> None:
        super().__init__()
        self.register_buffer("users", users.detach())  # (n_users, width)
        self.register_buffer("items", items.detach())  # (n_items, width)
        self.network = copy.deepcopy(network).requires_grad_(False)

    @torch.inference_mode()
    def score_block(self, users: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """Numbers of these users with all items."""
        parts = self.users[torch.from_numpy(users).to(self.users.device)]
        n_items, width = self.items.shape
        pairs = max(1, CHUNK_BYTES // (4 * width))
        scores = torch.empty(len(users), n_items, device=parts.device)
        for row in range(0, len(users), rows := max(1, pairs // n_items)):
            for column in range(0, n_items, pairs):
                first = parts[row : row + rows, None] + self.items[column : column + pairs]  # (rows, columns, width)
                scores[row : row + rows, column : column + pairs] = self.network(first).squeeze(2)
        numbers: npt.NDArray[np.float32] = scores.cpu().numpy()
        return numbers
