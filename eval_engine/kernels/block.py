"""A block of dense scores, one row per user, and lists of positions in its rows, as compiled kernels take them.

Scores are float32 or float64 (float16 is widened), C-contiguous, aligned, in the machine's byte order. Offsets are
int64, positions int32. An array that already has this form is not copied. All arrays are read-only views: numba
compiles a function once per array type, Arrow's buffers are read-only, and so one kind of array means one compilation.
"""

from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from eval_engine.kernels.arrays import Floats, Ints

Scalar = TypeVar("Scalar", bound=np.generic)


class Block(NamedTuple):
    """Scores (n, n_items) and each row's labelled and excluded positions."""

    scores: Floats
    offsets: Ints
    positions: Ints
    excluded_offsets: Ints
    excluded_positions: Ints


def as_block(scores: Floats, offsets: Ints, positions: Ints, excluded_offsets: Ints, excluded_positions: Ints) -> Block:
    """The block, checked: compiled code does not check that a position is inside the row."""
    return Block(
        as_scores(scores),
        *as_lists(offsets, positions, scores.shape),
        *as_lists(excluded_offsets, excluded_positions, scores.shape),
    )


def as_scores(scores: npt.NDArray[Any]) -> Floats:
    """The scores as a matrix of float32 or float64."""
    if scores.ndim != 2:
        raise ValueError(f"scores must be a (n_users, n_items) matrix, found shape {scores.shape}")
    if scores.dtype == np.float16:
        scores = scores.astype(np.float32)
    if scores.dtype not in (np.float32, np.float64):
        raise ValueError(
            f"scores must be float16, float32 or float64 in the machine's byte order, found {scores.dtype}"
        )
    return _read_only(np.require(scores, requirements=("C", "A")))


def as_lists(offsets: Ints, positions: Ints, shape: tuple[int, ...]) -> tuple[Ints, Ints]:
    """Offsets (int64) and positions (int32) of one list per row; invalid ones raise a ValueError."""
    n_users, n_items = shape
    if (
        offsets.shape != (n_users + 1,)
        or offsets[0] != 0
        or offsets[-1] != positions.size
        or (np.diff(offsets) < 0).any()
    ):
        raise ValueError(
            f"offsets must rise from 0 to {positions.size}, and {n_users} rows need {n_users + 1} of them, "
            f"found {offsets.size}: {offsets}"
        )
    if positions.size and not 0 <= positions.min() <= positions.max() < n_items:
        raise ValueError(f"positions must be in 0..{n_items - 1}, found {positions.min()}..{positions.max()}")
    return _read_only(np.ascontiguousarray(offsets, np.int64)), _read_only(np.ascontiguousarray(positions, np.int32))


def _read_only(array: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
    view = array.view()
    view.flags.writeable = False
    return view
