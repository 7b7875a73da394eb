"""Several processes that train one model: each takes its rows of every batch, gradients are added up, and all make the
same step.

    torchrun --nproc-per-node 2 jobs/train.py --config conf/run.yaml          on one machine, gloo on CPU, nccl on GPU
    jobs/train.py --config conf/run.yaml --processes 2                        on a Spark cluster, by TorchDistributor

Every process draws the whole batch from the same generator, so n processes learn from what one would, and differ from
it by rounding alone. What is a property of a whole batch, not a mean over its rows (SimGCL's contrast, Boratto's
correlation), is taken over each process's own rows. A single process needs no torch here: a run that has nothing to
train does not import it.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor

WAIT = timedelta(hours=6)  # others wait while the first one scores what it has to itself


class Processes(NamedTuple):
    """This process's place among those that train together."""

    rank: int = 0
    size: int = 1

    @property
    def first(self) -> bool:
        """Whether this one writes what is written once."""
        return self.rank == 0

    def part(self, n: int) -> slice:
        """The rows of n that are this process's."""
        return slice(self.rank * n // self.size, (self.rank + 1) * n // self.size)

    def added(self, tensors: "list[Tensor]") -> "list[Tensor]":
        """Sums over all processes."""
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

    def wait(self) -> None:
        """Until all are here."""
        if self.size > 1:
            import torch.distributed as dist

            dist.barrier()


@contextmanager
def joined(device: str) -> Iterator[Processes]:
    """The processes that torchrun or TorchDistributor started this one with; alone, if none did. device: cpu, cuda."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield Processes()
        return
    import torch.distributed as dist

    dist.init_process_group("nccl" if device == "cuda" else "gloo", timeout=WAIT)
    try:
        yield Processes(dist.get_rank(), dist.get_world_size())
    finally:
        dist.destroy_process_group()
