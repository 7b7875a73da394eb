"""User- and item-kNN: unnormalised sums over the nearest neighbours.

    user_knn   s_ui = sum_{v in N(u)} sim(u, v)^power * r_vi
    item_knn   s_ui = sum_{j in N(i)} sim(i, j)^power * r_uj
    sim(a, b)  = a . b / (|a| |b|), the cosine of two rows (users) or columns (items) of r

[Cremonesi, Koren, Turrin 2010, Performance of recommender algorithms on top-n recommendation tasks] for sums that are
not divided by the sum of similarities; [Aiolli 2013, Efficient top-n recommendation for very large scale binary rated
datasets] for the power. r is 1 for a positive and 0 otherwise, or the logged value; a pair that is not logged has r =
0.

N contains at most `neighbours` others, those with the highest similarity; ties go to the lower index. A similarity <= 0
makes no neighbour: so a zero vector neither has neighbours nor is one. A cosine can be negative only with label: value.
A pair of value 0 adds nothing, like a pair that was never logged. A negative value lowers the score: the item then
ranks below items that no neighbour has. A user without feedback has score 0 for all items, and an item without feedback
has score 0 for all users.

Neighbours are ranked by sign(a . b) (a . b)^2 / (|a|^2 |b|^2), which is exact but for one division if values are whole
numbers or halves: ties of the formula are ties here. For the same reason weights are float32 and are summed in float64,
which is exact in almost all cases.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from models.baselines.sparse_product import Rows, product_rows
from models.logged import Logged
from models.spec.baselines import ItemKNN, Neighbours, UserKNN

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
BLOCK_BYTES = 4 * 2**20  # of similarities: fits the cache, because several passes read it


class SparseProductScorer:
    """Scores that are a product of two sparse matrices, left (n_users, m) and right (m, n_items)."""

    def __init__(self, left: csr_array, right: csr_array) -> None:
        self.left, self.right, self.n_items = Rows.of(left), Rows.of(right), right.shape[1]

    def score_block(self, users: Ints) -> npt.NDArray[np.float32]:
        """Rows of the product."""
        scores = np.empty((len(users), self.n_items), np.float32)
        product_rows(users, self.left, self.right, scores)
        return scores


def user_knn(spec: UserKNN, logged: Logged, report: Callable[[float], None]) -> SparseProductScorer:
    """The scorer of sums over neighbouring users' feedback, weighted by their similarity."""
    feedback = _feedback(spec, logged)
    return SparseProductScorer(nearest(feedback, spec.neighbours, spec.power, report), feedback)


def item_knn(spec: ItemKNN, logged: Logged, report: Callable[[float], None]) -> SparseProductScorer:
    """The scorer of sums over the user's own feedback, weighted by the similarity of its items."""
    feedback = _feedback(spec, logged)
    return SparseProductScorer(feedback, nearest(feedback.T.tocsr(), spec.neighbours, spec.power, report).T.tocsr())


def _feedback(spec: Neighbours, logged: Logged) -> csr_array:
    """r as a sparse matrix, shape (n_users, n_items)."""
    r = logged.values if spec.label == "value" else logged.positive.astype(np.float64)
    return csr_array((r, (logged.users, logged.items)), shape=(logged.n_users, logged.n_items))


def nearest(vectors: csr_array, neighbours: int, power: float, report: Callable[[float], None]) -> csr_array:
    """A sparse matrix whose row a has sim(a, b)^power for the neighbours b of a, shape (n, n)."""
    n = vectors.shape[0]
    left, right = Rows.of(vectors), Rows.of(vectors.T.tocsr())
    squares: Floats = vectors.power(2).sum(axis=1)  # |a|^2
    parts: list[tuple[Ints, Ints, npt.NDArray[np.float32]]] = [
        (np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32))
    ]
    step = max(1, BLOCK_BYTES // (8 * max(1, n)))
    for start in range(0, n, step):
        rows = np.arange(start, min(start + step, n))
        cosines = _squared_cosines(rows, left, right, squares)
        at, columns = highest(cosines, neighbours)
        parts.append((rows[at], columns, (cosines[at, columns] ** (power / 2)).astype(np.float32)))
        report((start + len(rows)) / n)
    owners, others, weights = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return csr_array((weights, (owners, others)), shape=(n, n))


def _squared_cosines(rows: Ints, left: Rows, right: Rows, squares: Floats) -> Floats:
    """sign(cos) cos^2 of these rows with all, 0 with itself, shape (n_rows, n)."""
    block = np.empty((len(rows), len(squares)))
    product_rows(rows, left, right, block)
    block *= np.abs(block)
    filled = np.where(squares > 0, squares, 1.0)  # the product with a zero vector is 0 without a division
    block /= filled[rows, None] * filled
    block[np.arange(len(rows)), rows] = 0.0
    return block


def highest(block: Floats, k: int) -> tuple[Ints, Ints]:
    """Rows and columns of the k highest entries above 0 of each row, sorted by (row, column); ties go to the first."""
    n = block.shape[1]
    least = np.partition(block, n - k, axis=1)[:, n - k] if k < n else np.zeros(len(block))  # the k-th highest
    least = np.maximum(least, np.nextafter(0.0, 1.0))
    rows, columns = np.nonzero(block >= least[:, None])
    tied = block[rows, columns] == least[rows]
    above = np.bincount(rows[~tied], minlength=len(block))
    ties = np.bincount(rows[tied], minlength=len(block))
    nth = np.cumsum(tied) - (np.cumsum(ties) - ties)[rows]  # the number of a tied entry in its row, from 1
    keep = ~tied | (nth <= k - above[rows])
    return rows[keep], columns[keep]
