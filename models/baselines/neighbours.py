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
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from models.baselines.nearest_rows import nearest_rows
from models.baselines.sparse_product import Rows, product_rows
from models.logged import Logged
from models.spec.baselines import ItemKNN, Neighbours, UserKNN

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
BLOCK_ROWS = 256  # of a task: each has sums of its own, one for every row of the matrix
BLOCK_NEIGHBOURS = 1 << 20  # of a task, at most: for a large number of neighbours


class SparseProductScorer:
    """Scores that are a product of two sparse matrices, left (n_users, m) and right (m, n_items)."""

    def __init__(self, left: csr_array, right: csr_array) -> None:
        self.left, self.right, self.n_items = Rows.of(left), Rows.of(right), right.shape[1]

    def score_block(self, users: Ints) -> npt.NDArray[np.float32]:
        """Rows of the product."""
        scores = np.empty((len(users), self.n_items), np.float32)
        product_rows(users, self.left, self.right, scores)
        return scores


def user_knn(spec: UserKNN, logged: Logged, report: Callable[[float], None], threads: int = 1) -> SparseProductScorer:
    """The scorer of sums over neighbouring users' feedback, weighted by their similarity."""
    feedback = _feedback(spec, logged)
    return SparseProductScorer(nearest(feedback, spec.neighbours, spec.power, report, threads), feedback)


def item_knn(spec: ItemKNN, logged: Logged, report: Callable[[float], None], threads: int = 1) -> SparseProductScorer:
    """The scorer of sums over the user's own feedback, weighted by the similarity of its items."""
    feedback = _feedback(spec, logged)
    near = nearest(feedback.T.tocsr(), spec.neighbours, spec.power, report, threads)
    return SparseProductScorer(feedback, near.T.tocsr())


def _feedback(spec: Neighbours, logged: Logged) -> csr_array:
    """r as a sparse matrix, shape (n_users, n_items)."""
    r = logged.values if spec.label == "value" else logged.positive.astype(np.float64)
    return csr_array((r, (logged.users, logged.items)), shape=(logged.n_users, logged.n_items))


def nearest(
    vectors: csr_array, neighbours: int, power: float, report: Callable[[float], None], threads: int = 1
) -> csr_array:
    """A sparse matrix whose row a has sim(a, b)^power for the neighbours b of a, shape (n, n)."""
    n = vectors.shape[0]
    left, right = Rows.of(vectors), Rows.of(vectors.T.tocsr())
    squares: Floats = vectors.power(2).sum(axis=1)  # |a|^2
    k = min(neighbours, n)
    step = min(BLOCK_ROWS, max(1, BLOCK_NEIGHBOURS // max(1, k)))
    sizes: list[npt.NDArray[np.int64]] = [np.zeros(1, np.int64)]
    others: list[npt.NDArray[np.int32]] = [np.empty(0, np.int32)]
    weights: list[npt.NDArray[np.float32]] = [np.empty(0, np.float32)]

    def block(start: int) -> tuple[Ints, npt.NDArray[np.int32], npt.NDArray[np.float32]]:
        size, columns, cosines = nearest_rows(start, min(start + step, n), left, right, squares, k)
        return size, columns, (cosines ** (power / 2)).astype(np.float32)

    with ThreadPoolExecutor(threads) as pool:
        for start, (size, columns, similar) in zip(range(0, n, step), pool.map(block, range(0, n, step)), strict=True):
            sizes.append(size)
            others.append(columns)
            weights.append(similar)
            report(min(start + step, n) / n)
    starts = np.cumsum(np.concatenate(sizes))
    return csr_array((np.concatenate(weights), np.concatenate(others), starts), shape=(n, n))
