"""Rows of a product equal those of numpy's dense product."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse import csr_array

from models.baselines.sparse_product import Rows, product_rows

ENTRIES = st.sampled_from([0.0, 0.0, 0.0, 1.0, -2.5, 3.0])


@settings(deadline=None)
@given(
    arrays(np.float64, (4, 3), elements=ENTRIES),
    arrays(np.float64, (3, 6), elements=ENTRIES),
    st.lists(st.integers(0, 3)),
)
def test_matches_the_dense_product(left: np.ndarray, right: np.ndarray, rows: list[int]) -> None:
    for kind in (np.float32, np.float64):
        out = np.full((len(rows), 6), np.nan, kind)
        product_rows(np.array(rows, np.int64), Rows.of(csr_array(left)), Rows.of(csr_array(right)), out)
        assert out.tolist() == (left @ right)[rows].tolist()


def test_stored_zeros_are_dropped_and_the_matrix_is_not_changed() -> None:
    matrix = csr_array((np.array([0.0, 2.0, 1.0]), np.array([2, 1, 0]), np.array([0, 3])), shape=(1, 3))
    rows = Rows.of(matrix)
    assert rows.columns.tolist() == [0, 1]
    assert rows.values.tolist() == [1, 2]
    assert matrix.nnz == 3
