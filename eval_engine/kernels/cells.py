"""Which cell each user belongs to: a hash of its id, the same in every process, so that all that is known of a user meets in one cell.

Numbers are mixed as splitmix64 does, text byte by byte as FNV-1a does and then mixed.
"""

import numpy as np
import numpy.typing as npt

from eval_engine.kernels.arrays import Ints
from eval_engine.kernels.compiled import compiled


def cells_of_numbers(ids: Ints, n_cells: int) -> npt.NDArray[np.int32]:
    """Cell of each id, 0 to n_cells - 1."""
    cells = np.empty(ids.size, np.int32)
    _number_cells(np.ascontiguousarray(ids, np.int64), np.uint64(n_cells), cells)
    return cells


def cells_of_text(offsets: Ints, text: npt.NDArray[np.uint8], n_cells: int) -> npt.NDArray[np.int32]:
    """Cell of each string text[offsets[n] : offsets[n + 1]], 0 to n_cells - 1."""
    cells = np.empty(offsets.size - 1, np.int32)
    _text_cells(np.ascontiguousarray(offsets, np.int64), text, np.uint64(n_cells), cells)
    return cells


@compiled
def _mixed(value):  # type: ignore[no-untyped-def]
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


@compiled
def _number_cells(ids, n_cells, cells):  # type: ignore[no-untyped-def]
    for n in range(ids.size):
        cells[n] = _mixed(np.uint64(ids[n]) + np.uint64(0x9E3779B97F4A7C15)) % n_cells


@compiled
def _text_cells(offsets, text, n_cells, cells):  # type: ignore[no-untyped-def]
    for n in range(cells.size):
        value = np.uint64(0xCBF29CE484222325)
        for at in range(offsets[n], offsets[n + 1]):
            value = (value ^ np.uint64(text[at])) * np.uint64(0x100000001B3)
        cells[n] = _mixed(value) % n_cells
