"""The scorer of a backbone whose score is not an inner product: each pair goes through a network.

    x_ui = network(p_u + q_i),   p_u and q_i the user's and the item's part of the first layer

The parts are computed once, for all users and items. The rest of the network is computed for all pairs of a block, in
chunks that fit the cache, on a GPU a share of its memory.
"""

import copy

import torch
from torch import Tensor, nn

from models.device_memory import chunk_bytes
from models.device_scorer import DeviceScorer

CHUNK_BYTES = 1 << 20  # of first-layer sums in memory at once, on the CPU


class PairScorer(DeviceScorer):
    """Parts of the first layer, and the rest of the network, on the scoring device."""

    users: Tensor
    items: Tensor

    def __init__(self, users: Tensor, items: Tensor, network: nn.Module) -> None:
        super().__init__()
        self.register_buffer("users", users.detach())  # (n_users, width)
        self.register_buffer("items", items.detach())  # (n_items, width)
        self.network = copy.deepcopy(network).requires_grad_(False)

    def scores(self, users: Tensor) -> Tensor:
        """Numbers of these users with all items."""
        parts = self.users[users]
        n_items, width = self.items.shape
        pairs = max(1, chunk_bytes(parts.device, CHUNK_BYTES) // (4 * width))
        scores = torch.empty(len(users), n_items, device=parts.device)
        for row in range(0, len(users), rows := max(1, pairs // n_items)):
            for column in range(0, n_items, pairs):
                first = parts[row : row + rows, None] + self.items[column : column + pairs]  # (rows, columns, width)
                scores[row : row + rows, column : column + pairs] = self.network(first).squeeze(2)
        return scores
