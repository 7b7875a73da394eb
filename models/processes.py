"""Training of one model by several processes: each computes its rows of a batch, and all apply the summed gradients.

    torchrun --nproc-per-node 2 jobs/train.py --config conf/run.yaml          on one machine, gloo on CPU, nccl on GPU
    jobs/train.py --config conf/run.yaml --processes 2                        on a Spark cluster, by TorchDistributor

Every process draws the whole batch from the same generator, so n processes learn from the same examples as one, and the
weights differ by rounding only. A term that is not a mean over the rows of a batch (SimGCL's contrast, Boratto's
correlation) is computed over each process's own rows. A single process needs no torch here: a run that has nothing to
train does not import it.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor

WAIT = timedelta(hours=6)  # the others wait while the first process scores alone


class Processes(NamedTuple):
    """The rank of this process, and the number of processes that train together."""

    rank: int = 0
    size: int = 1

    @property
    def first(self) -> bool:
        """Whether this process writes the files that are written once."""
        return self.rank == 0

    def part(self, n: int) -> slice:
        """The rows of this process, out of n."""
        return slice(self.rank * n // self.size, (self.rank + 1) * n // self.size)

    def added(self, tensors: "list[Tensor]") -> "list[Tensor]":
        """The sum of each tensor over all processes."""
        if self.size == 1:
            return tensors
        import torch
        import torch.distributed as dist

        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
        dist.all_reduce(flat)
        return [
            part.view_as(tensor)
            for part, tensor in zip(flat.split([tensor.numel() for tensor in tensors]), tensors, strict=True)
        ]

    def agreed(self, value: float) -> float:
        """The first process's value: all take the same decision, also where their rounding differs."""
        if self.size == 1:
            return value
        import torch
        import torch.distributed as dist

        device = "cuda" if dist.get_backend() == "nccl" else "cpu"
        told = torch.tensor(value, dtype=torch.float64, device=device)
        dist.broadcast(told, 0)
        return float(told)

    def wait(self) -> None:
        """Waits until all processes have called it."""
        if self.size > 1:
            import torch.distributed as dist

            dist.barrier()


@contextmanager
def joined(device: str) -> Iterator[Processes]:
    """The processes that torchrun or TorchDistributor started; one process if neither did. device: cpu, cuda."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield Processes()
        return
    import torch.distributed as dist

    dist.init_process_group("nccl" if device == "cuda" else "gloo", timeout=WAIT)
    try:
        yield Processes(dist.get_rank(), dist.get_world_size())
    finally:
        dist.destroy_process_group()
