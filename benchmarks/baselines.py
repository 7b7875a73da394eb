"""Speed of kNN and of alternating least squares against implicit, over a log of the size of Gowalla's.

    python -m benchmarks.models --only knn-vs-implicit          (or wmf-vs-implicit; both are in make bench-models)

knn-vs-implicit     the 100 most similar items of each of 40,981 items, from 810,128 pairs of 29,858 users: against
                    implicit's CosineRecommender
wmf-vs-implicit     alternating least squares, vectors of 64, 15 sweeps, the same pairs: against implicit's with its
                    default solver, three steps of conjugate gradients in float32 (ours solves exactly)

Numbers of pairs of users and of items are log-normal, with the means and the sums of squares of Gowalla's. Both sides
use as many threads, and take turns; best of three. Weights of the neighbours must be the same, and our objective must
be no higher than implicit's.
"""

import sys

import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse import csr_array, csr_matrix
from threadpoolctl import threadpool_limits

from benchmarks.measure import best_of, say
from models.baselines.neighbours import nearest
from models.baselines.wmf import fit_wmf
from models.logged import Logged
from models.spec.baselines import WMF

USERS, ITEMS, PAIRS, DIMS = 29_858, 40_981, 810_128, 64
SPREAD_OF_USERS, SPREAD_OF_ITEMS = 1.02, 1.15  # sd of the logarithm of the numbers of pairs
NEIGHBOURS = 100


def gowalla_like(scale: float) -> Logged:
    """A log of positives; scale: of users, items and pairs."""
    rng = np.random.default_rng(0)
    n_users, n_items, n_pairs = (max(1000, int(size * scale)) for size in (USERS, ITEMS, PAIRS))

    def drawn(n: int, spread: float) -> npt.NDArray[np.int64]:
        chance = rng.lognormal(sigma=spread, size=n)
        return rng.choice(n, 2 * n_pairs, p=chance / chance.sum())

    keys = np.unique(drawn(n_users, SPREAD_OF_USERS) * n_items + drawn(n_items, SPREAD_OF_ITEMS))
    users, items = np.divmod(np.sort(rng.permutation(keys)[:n_pairs]), n_items)
    return Logged(users, items, np.ones(len(users), bool), np.ones(len(users)), n_users, n_items)


def knn_vs_implicit(scale: float, threads: int) -> None:
    """Measures the search for neighbours of items."""
    from implicit.nearest_neighbours import CosineRecommender

    logged = gowalla_like(scale)
    matrix = csr_matrix((np.ones(len(logged.users)), (logged.users, logged.items)), (logged.n_users, logged.n_items))
    columns = csr_array(matrix.T.tocsr())
    nearest(columns[:10], NEIGHBOURS, 1.0, lambda done: None)  # compiles the kernel
    theirs = CosineRecommender(K=NEIGHBOURS + 1, num_threads=threads)  # implicit counts the item itself
    seconds = best_of(
        {
            "ours": lambda: nearest(columns, NEIGHBOURS, 1.0, lambda done: None, threads),
            "theirs": lambda: theirs.fit(matrix, show_progress=False),
        }
    )
    ours = nearest(columns, NEIGHBOURS, 1.0, lambda done: None, threads)
    other = csr_matrix(theirs.similarity)
    other.setdiag(0.0)
    if not np.allclose(_sorted_weights(csr_matrix(ours)), _sorted_weights(other), atol=1e-5):
        sys.exit("knn-vs-implicit: the two sides found different neighbours")
    n = logged.n_items
    more = {"threads": threads, **_rounded(seconds)}
    say("knn-vs-implicit", n / seconds["ours"], n / seconds["theirs"], "items/s", **more)


def _sorted_weights(similarity: csr_matrix) -> npt.NDArray[np.float64]:
    """The weights of each row, highest first, filled up with 0: equal whichever of equal neighbours a side takes."""
    weights = np.zeros((similarity.shape[0], NEIGHBOURS))
    for row, (start, stop) in enumerate(zip(similarity.indptr[:-1], similarity.indptr[1:], strict=True)):
        highest = np.sort(similarity.data[start:stop])[::-1][:NEIGHBOURS]
        weights[row, : len(highest)] = highest
    return weights


def wmf_vs_implicit(scale: float, threads: int) -> None:
    """Measures alternating least squares."""
    from implicit.als import AlternatingLeastSquares

    logged, spec = gowalla_like(scale), WMF(name="m", dims=DIMS)
    entries = np.full(len(logged.users), 1 + spec.confidence, np.float32)
    matrix = csr_matrix((entries, (logged.users, logged.items)), (logged.n_users, logged.n_items))
    theirs = AlternatingLeastSquares(
        DIMS,
        regularization=spec.regularization,
        alpha=1.0,
        iterations=spec.sweeps,
        num_threads=threads,
        random_state=1,
    )

    def fit_theirs() -> None:
        theirs.user_factors = theirs.item_factors = None  # or it goes on from where it ended
        theirs.fit(matrix, show_progress=False)

    torch.set_num_threads(1)  # both sides have threads of their own
    with threadpool_limits(1, "blas"):
        seconds = best_of({"ours": lambda: fit_wmf(spec, logged, 0, lambda sweep: None, threads), "theirs": fit_theirs})
        ours = fit_wmf(spec, logged, 0, lambda sweep: None, threads)
    mine, other = (
        _objective(spec, logged, users.astype(np.float64), items.astype(np.float64))
        for users, items in ((ours.users.numpy(), ours.items.numpy()), (theirs.user_factors, theirs.item_factors))
    )
    if mine > 1.001 * other:
        sys.exit(f"wmf-vs-implicit: our objective is {mine:g}, implicit's is {other:g}")
    n = len(logged.users) * spec.sweeps
    more = {"threads": threads, **_rounded(seconds), "our_objective": round(mine), "their_objective": round(other)}
    say("wmf-vs-implicit", n / seconds["ours"], n / seconds["theirs"], "pairs/s of a sweep", **more)


def _objective(spec: WMF, logged: Logged, users: npt.NDArray[np.float64], items: npt.NDArray[np.float64]) -> float:
    """sum c (p - x.y)^2 + L2 over all pairs, where those that are not logged come from the two Gram matrices."""
    of_pairs = (users[logged.users] * items[logged.items]).sum(axis=1)
    every = float(((users.T @ users) * (items.T @ items)).sum())
    logged_terms = (1 + spec.confidence) * (1 - of_pairs) ** 2 - of_pairs**2
    return every + float(logged_terms.sum()) + spec.regularization * float((users**2).sum() + (items**2).sum())


def _rounded(seconds: dict[str, float]) -> dict[str, float]:
    """Seconds of each side, for the line."""
    return {f"{side}_s": round(value, 2) for side, value in seconds.items()}
