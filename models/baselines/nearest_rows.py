"""The nearest rows of each row of a sparse matrix, by a sparse product row by row: no dense similarity is ever made.

    v_b = sign(a . b) (a . b)^2 / (|a|^2 |b|^2)        for every b that shares a column with a

Sums of one row are kept in an array of one number per row of the matrix, with a list of those that were touched: the
work is that of the pairs that share a column, and of n numbers for each block of rows. The k highest v_b > 0 stay; ties
go to the lower index. A row is its own neighbour never.
"""

import numpy as np
import numpy.typing as npt

from eval_engine.kernels.compiled import compiled
from models.baselines.sparse_product import Rows

Floats = npt.NDArray[np.float64]


@compiled
def nearest_rows(
    start: int, stop: int, left: Rows, right: Rows, squares: Floats, k: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], Floats]:
    """Numbers of neighbours of rows start to stop, their indices in ascending order, and v; `right` is left'."""
    n = len(squares)
    sums = np.zeros(n, np.float64)
    touched = np.zeros(n, np.bool_)
    candidates, values = np.empty(n, np.int32), np.empty(n, np.float64)
    sizes = np.zeros(stop - start, np.int64)
    columns, cosines = np.empty((stop - start) * k, np.int32), np.empty((stop - start) * k, np.float64)
    filled = 0
    for row in range(start, stop):
        size = 0
        for a in range(left.starts[row], left.starts[row + 1]):
            j, factor = left.columns[a], left.values[a]
            for b in range(right.starts[j], right.starts[j + 1]):
                other = right.columns[b]
                if not touched[other]:
                    touched[other] = True
                    candidates[size] = other
                    size += 1
                sums[other] += factor * right.values[b]
        above = 0
        for c in range(size):
            other = candidates[c]
            dot = sums[other]
            sums[other] = 0.0
            touched[other] = False
            if dot > 0 and other != row:
                candidates[above] = other
                values[above] = dot * dot / (squares[row] * squares[other])
                above += 1
        kept = _keep_highest(candidates, values, above, k)
        order = np.argsort(candidates[:kept])
        for c in range(kept):
            columns[filled + c] = candidates[order[c]]
            cosines[filled + c] = values[order[c]]
        sizes[row - start] = kept
        filled += kept
    return sizes, columns[:filled].copy(), cosines[:filled].copy()


@compiled
def _keep_highest(candidates: npt.NDArray[np.int32], values: Floats, size: int, k: int) -> int:
    """Moves the k highest of the first `size` values, and their candidates, to the front; returns their number."""
    if size <= k:
        return size
    least = np.partition(values[:size], size - k)[size - k]
    tied = np.sort(candidates[:size][values[:size] == least])
    last = tied[k - (values[:size] > least).sum() - 1]  # of the ties, the last that stays
    kept = 0
    for c in range(size):
        if values[c] > least or (values[c] == least and candidates[c] <= last):
            candidates[kept], values[kept] = candidates[c], values[c]
            kept += 1
    return kept
