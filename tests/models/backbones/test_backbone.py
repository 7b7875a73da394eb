"""Noise: each process gets its rows of one draw, and the hash equals that of models/keyed.py."""

import numpy as np
import torch

from models.backbones.backbone import Noise, _mix
from models.keyed import mix


def test_parts_are_rows_of_the_whole() -> None:
    def drawn(part: slice) -> torch.Tensor:
        return Noise(torch.Generator().manual_seed(0), 7, part, torch.device("cpu")).normal(3)

    assert torch.equal(torch.cat([drawn(slice(0, 3)), drawn(slice(3, 7))]), drawn(slice(0, 7)))


def test_mix_has_the_bits_of_keyed_mix() -> None:
    keys = np.concatenate([np.arange(100), np.random.default_rng(0).integers(-(2**63), 2**63 - 1, 1000)])
    assert (_mix(torch.from_numpy(keys)).numpy().view(np.uint64) == mix(keys.view(np.uint64))).all()


def test_whether_a_key_is_kept_does_not_depend_on_other_keys() -> None:
    def kept(keys: torch.Tensor) -> torch.Tensor:
        return Noise(torch.Generator().manual_seed(1), 1, slice(0, 1), torch.device("cpu")).kept(keys, 0.3)

    keys = torch.arange(10_000)
    every = kept(keys)
    assert torch.equal(every[::7], kept(keys[::7]))
    assert abs(every.float().mean() - 0.3) < 0.02
    assert kept(keys).dtype == torch.bool


def test_share_one_keeps_all_keys() -> None:
    noise = Noise(torch.Generator().manual_seed(1), 1, slice(0, 1), torch.device("cpu"))
    assert noise.kept(torch.arange(10_000), 1.0).all()
