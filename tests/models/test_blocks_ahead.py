"""A block is begun before the one ahead of it is taken, where a scorer can; on the CPU when it is asked for."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from models import device_memory
from models.blocks_ahead import begun, blocks_ahead
from models.device_memory import chunk_bytes
from models.host_memory import sent
from models.vectors import VectorScorer

GROUPS = [np.array([0, 1]), np.array([2]), np.array([3, 4])]


class Plain:
    """A scorer that cannot begin a block."""

    def __init__(self) -> None:
        self.log: list[str] = []

    def score_block(self, users: np.ndarray) -> np.ndarray:
        self.log.append(f"score {users[0]}")
        return np.repeat(users[:, None], 3, axis=1).astype(np.float32)


class Ahead(Plain):
    """A scorer that can."""

    def begin(self, users: np.ndarray) -> Callable[[], np.ndarray]:
        self.log.append(f"begin {users[0]}")

        def wait() -> np.ndarray:
            self.log.append(f"wait {users[0]}")
            return self.score_block(users)

        return wait


@pytest.mark.parametrize("kind", [Plain, Ahead])
def test_blocks_are_those_of_the_groups_in_order(kind: type[Plain]) -> None:
    scorer = kind()
    for (users, block), expected in zip(blocks_ahead(scorer, GROUPS), GROUPS, strict=True):
        assert users is expected
        np.testing.assert_array_equal(block[:, 0], expected)
    assert list(blocks_ahead(scorer, [])) == []


def test_the_next_block_is_begun_before_one_is_waited_for() -> None:
    scorer = Ahead()
    for users, _ in blocks_ahead(scorer, GROUPS):
        scorer.log.append(f"use {users[0]}")
    order = [event for event in scorer.log if not event.startswith("score")]
    assert order == ["begin 0", "begin 2", "wait 0", "use 0", "begin 3", "wait 2", "use 2", "wait 3", "use 3"]


def test_on_the_cpu_a_block_is_scored_when_it_is_asked_for() -> None:
    asked = []

    class Watched(VectorScorer):
        def scores(self, users: torch.Tensor) -> torch.Tensor:
            asked.append(users.tolist())
            return super().scores(users)

    scorer = Watched(torch.randn(5, 2), torch.randn(3, 2))
    block = begun(scorer, GROUPS[0])
    assert asked == []
    np.testing.assert_array_equal(block(), scorer.score_block(GROUPS[0]))
    assert asked == [[0, 1], [0, 1]]


def test_a_tensor_stays_where_it_is_on_the_cpu() -> None:
    tensor = torch.arange(3)
    assert sent(tensor, torch.device("cpu")) is tensor


def test_chunks_are_of_the_cache_or_of_a_share_of_a_gpus_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    assert chunk_bytes(torch.device("cpu"), 1000) == 1000
    assert chunk_bytes(torch.device("cuda"), 1000) >= 1000
    monkeypatch.setattr(device_memory, "_memory", lambda device: 64 << 20)
    assert chunk_bytes(torch.device("cuda"), 1000) == 1 << 20
    assert chunk_bytes(torch.device("cuda"), 1 << 21) == 1 << 21
