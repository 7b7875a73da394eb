"""Copies between host and GPU that nobody waits for: through pinned host memory, which the GPU reads and writes itself.

A step's batch is copied in the order of the step's kernels, and the CPU, which only starts them, draws the next batch
while the GPU still computes. Scores leave on a stream of their own, so that the next block is computed meanwhile. torch
keeps pinned buffers, and uses one again when its copy has ended.
"""

from collections.abc import Callable
from functools import cache

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor


def sent(tensor: Tensor, device: torch.device) -> Tensor:
    """A tensor of the host on a device, without waiting for the device; on the CPU itself the same tensor."""
    if device.type == "cuda" and tensor.device.type == "cpu" and torch.cuda.is_available():
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


def leaving(scores: Tensor) -> Callable[[], npt.NDArray[np.float32]]:
    """Starts to copy scores of a GPU to the host; the call waits for them."""
    stream = _copies(scores.device)
    stream.wait_stream(torch.cuda.current_stream(scores.device))
    with torch.cuda.stream(stream):
        host = torch.empty(scores.shape, dtype=scores.dtype, pin_memory=True)
        host.copy_(scores, non_blocking=True)
        scores.record_stream(stream)  # its memory is not given away before
        copied = stream.record_event()

    def arrived() -> npt.NDArray[np.float32]:
        copied.synchronize()
        block: npt.NDArray[np.float32] = host.numpy()
        return block

    return arrived


@cache
def _copies(device: torch.device) -> torch.cuda.Stream:
    """The stream of a GPU's outward copies."""
    return torch.cuda.Stream(device)
