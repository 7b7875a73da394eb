"""Dense rows of a product of two sparse matrices, block by block: the whole product is never in memory.

    out[n, :] = sum_j left[rows[n], j] * right[j, :]

A row is summed in float64 in the order of j, then stored in the type of `out`: it does not depend on the other rows.
Apart from the block, one row of float64 is needed. scipy's product makes the block sparse first, which takes more
memory if most entries are not zero, as with similarities.
"""

from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from eval_engine.kernels.compiled import compiled


class Rows(NamedTuple):
    """A sparse matrix by rows, as arrays for compiled functions."""

    starts: npt.NDArray[np.int64]  # (n_rows + 1,)
    columns: npt.NDArray[np.int32]  # (n_entries,), ascending in a row
    values: npt.NDArray[np.float64]  # (n_entries,), or float32

    @classmethod
    def of(cls, matrix: csr_array) -> Self:
        """The arrays of a matrix; entries stored as 0 are left out."""
        matrix = matrix.copy()
        matrix.eliminate_zeros()
        matrix.sort_indices()
        return cls(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data)


@compiled
def product_rows(rows: npt.NDArray[np.int64], left: Rows, right: Rows, out: npt.NDArray[np.floating]) -> None:
    """Fills `out` (n, n_columns) with these rows of left @ right."""
    total = np.empty(out.shape[1], np.float64)
    for n in range(len(rows)):
        total[:] = 0.0
        for a in range(left.starts[rows[n]], left.starts[rows[n] + 1]):
            j, factor = left.columns[a], left.values[a]
            for b in range(right.starts[j], right.starts[j + 1]):
                total[right.columns[b]] += factor * right.values[b]
        for column in range(len(total)):
            out[n, column] = total[column]
