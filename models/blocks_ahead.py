"""Blocks of scores, of which a GPU computes the next one while the one before it is used.

    for users, block in blocks_ahead(scorer, groups): ...

A scorer that can begin a block (models/device_scorer.py) and go on says so by `begin`; every other scorer, and each of
them on the CPU, scores a block when it is asked for it, in the thread that needs it. This module does not import torch.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from models.scorer import Scorer

Ints = npt.NDArray[np.int64]
Block = npt.NDArray[np.float32]


@runtime_checkable
class Begins(Protocol):
    """A scorer that can begin a block."""

    def begin(self, users: Ints) -> Callable[[], Block]:
        """Begins to score these users; the call gives their scores."""
        ...


def begun(scorer: Scorer, users: Ints) -> Callable[[], Block]:
    """The scores of these users, begun where that is possible; the call gives them."""
    return scorer.begin(users) if isinstance(scorer, Begins) else lambda: scorer.score_block(users)


def blocks_ahead(scorer: Scorer, groups: Iterable[Ints]) -> Iterator[tuple[Ints, Block]]:
    """Each group of users with its scores, in order; the next block is begun before this one is waited for."""
    waiting: tuple[Ints, Callable[[], Block]] | None = None
    for users in groups:
        block = begun(scorer, users)
        if waiting is not None:
            yield waiting[0], waiting[1]()
        waiting = users, block
    if waiting is not None:
        yield waiting[0], waiting[1]()
