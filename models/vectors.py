"""The scorer of a backbone with a vector per user and per item: x_ui = u . v.

The item matrix is computed once, not for every block: with 1e6 items it is larger than a block of scores.
"""

from torch import Tensor

from models.device_scorer import DeviceScorer


class VectorScorer(DeviceScorer):
    """User and item vectors on the device that scores."""

    users: Tensor
    items: Tensor

    def __init__(self, users: Tensor, items: Tensor) -> None:
        super().__init__()
        self.register_buffer("users", users.detach())  # (n_users, d)
        self.register_buffer("items", items.detach())  # (n_items, d)

    def scores(self, users: Tensor) -> Tensor:
        """Inner products of these users with all items, by one matrix product."""
        return self.users[users] @ self.items.T
