"""How many bytes of intermediate results are computed at once: what fits the CPU's cache, or a share of a GPU's memory.

A GPU has the share of its whole memory, not of what is free, so that chunks, and so the rounding of their products, are
the same in every run on it.
"""

from functools import cache

import torch

SHARE = 64  # of the memory: 1 / SHARE, so that tables, gradients and a few chunks fit beside


def chunk_bytes(device: torch.device, on_cpu: int) -> int:
    """Bytes of a chunk; never fewer than on the CPU."""
    return on_cpu if device.type == "cpu" else max(on_cpu, _memory(device) // SHARE)


@cache
def _memory(device: torch.device) -> int:
    """Bytes of a GPU's memory; 0 where there is none, as for tensors that only stand in for its own."""
    if not torch.cuda.is_available():
        return 0
    return int(torch.cuda.get_device_properties(device).total_memory)
