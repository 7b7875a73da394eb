"""The first k items of each user on the device of the scores: the lists of eval_engine/kernels/top_list.py, for GPUs.

A score and its position make one int64, in the order of the list: the bits of the float32, turned so that they compare
as the numbers do, then the position backwards. All keys differ, so their k highest are the same on every device. -0.0
is 0.0, NaN is the last of the list. An item that is left out has the least key of all, and its place holds -1.
"""

import torch
from torch import Tensor

LEFT_OUT = torch.iinfo(torch.int64).min


def first_items(scores: Tensor, k: int, rows: Tensor, left_out: Tensor) -> Tensor:
    """Positions (n, k) of the highest of scores (n, n_items) but for the pairs (rows, left_out); padded with -1."""
    n_items = scores.shape[1]
    bits = (scores.nan_to_num(nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf) + 0.0).view(torch.int32)
    bits = torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    backwards = torch.arange(n_items - 1, -1, -1, device=scores.device)
    keys = bits.long() * (1 << 32) + backwards
    keys[rows, left_out] = LEFT_OUT
    highest = keys.topk(k, dim=1).values
    return torch.where(highest == LEFT_OUT, -1, n_items - 1 - (highest & 0xFFFFFFFF))
