"""The histories of users, the items of their logged pairs, as bags; only the requested users' histories are read.

Each entry has weight |N(u)|^-1/2: SVD++'s factor, and the 1 / ||x_u|| of Mult-VAE's input. The histories are not part
of the learned state.
"""

import numpy as np
import torch
from torch import Tensor, nn

from models.backbones.bags import Bags
from models.logged import Logged

AT_ONCE = 1 << 14  # users per block: bounds the memory of their histories when all users are processed


class History(nn.Module):
    """The histories of all users."""

    items: Tensor
    ends: Tensor

    def __init__(self, logged: Logged) -> None:
        super().__init__()
        ends = np.concatenate([[0], np.bincount(logged.users, minlength=logged.n_users).cumsum()])
        self.register_buffer("items", torch.from_numpy(logged.items), persistent=False)  # (n_pairs,), sorted by user
        self.register_buffer("ends", torch.from_numpy(ends), persistent=False)  # (n_users + 1,)

    def lengths(self, users: Tensor) -> Tensor:
        """|N(u)|, shape (n,)."""
        return self.ends[users + 1] - self.ends[users]

    def bags(self, users: Tensor) -> Bags:
        """The histories of these users."""
        lengths = self.lengths(users)
        ends = torch.zeros(len(users) + 1, dtype=torch.long, device=users.device)
        ends[1:] = lengths.cumsum(0)
        at = torch.repeat_interleave(self.ends[users] - ends[:-1], lengths)
        at += torch.arange(len(at), device=at.device)
        return Bags(self.items[at], ends, torch.repeat_interleave(lengths.rsqrt(), lengths, output_size=len(at)))

    def blocks(self) -> tuple[Tensor, ...]:
        """All users, in blocks of AT_ONCE."""
        return torch.arange(len(self.ends) - 1, device=self.ends.device).split(AT_ONCE)
