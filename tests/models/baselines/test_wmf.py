"""WMF equals least squares by loops and implicit, and its objective decreases from sweep to sweep."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from implicit.als import AlternatingLeastSquares
from scipy.sparse import csr_matrix
from threadpoolctl import threadpool_limits

from models.baselines.wmf import Likes, first_items, fit_wmf, solve
from models.errors import SingularError
from models.logged import Logged
from models.spec.baselines import WMF

N_USERS, N_ITEMS = 6, 5
PAIRS = st.dictionaries(st.tuples(st.integers(0, N_USERS - 1), st.integers(0, N_ITEMS - 1)), st.booleans())


def silent(_: int) -> None:
    pass


def to_logged(pairs: dict[tuple[int, int], bool], n_users: int = N_USERS, n_items: int = N_ITEMS) -> Logged:
    keys = np.array(sorted(pairs), np.int64).reshape(-1, 2)
    positive = np.array([pairs[pair] for pair in sorted(pairs)], bool)
    return Logged(keys[:, 0], keys[:, 1], positive, np.where(positive, 5.0, 1.0), n_users, n_items)


def drawn(n_users: int, n_items: int, share: float) -> Logged:
    """Two tastes and some noise; the last user and the last item have no pairs."""
    rng = np.random.default_rng(7)
    return to_logged(
        {
            (u, i): bool((u + i) % 2 == 0 or rng.random() < 0.1)
            for u in range(n_users - 1)
            for i in range(n_items - 1)
            if rng.random() < share
        },
        n_users,
        n_items,
    )


def liked(logged: Logged) -> np.ndarray:
    p = np.zeros((logged.n_users, logged.n_items))
    p[logged.users[logged.positive], logged.items[logged.positive]] = 1
    return p


def start(spec: WMF, logged: Logged, seed: int) -> np.ndarray:
    pairs = logged.positives()
    return first_items(spec, Likes.of(pairs.items, pairs.users, pairs.n_items), seed).numpy()


def best_by_loops(p: np.ndarray, spec: WMF, others: np.ndarray) -> np.ndarray:
    """The normal equations summed over every pair of every row, logged or not."""
    solution = np.zeros((len(p), spec.dims))
    for u in range(len(p)):
        a, b = spec.regularization * np.eye(spec.dims), np.zeros(spec.dims)
        for i in range(p.shape[1]):
            c = 1 + spec.confidence * p[u, i]
            a += c * np.outer(others[i], others[i])
            b += c * p[u, i] * others[i]
        solution[u] = np.linalg.solve(a, b)
    return solution


def objective(p: np.ndarray, spec: WMF, users: np.ndarray, items: np.ndarray) -> float:
    c = 1 + spec.confidence * p
    return float((c * (p - users @ items.T) ** 2).sum() + spec.regularization * ((users**2).sum() + (items**2).sum()))


@settings(deadline=None)
@given(PAIRS, st.sampled_from([0.01, 0.3]), st.sampled_from([0.5, 40.0]), st.integers(1, 3))
def test_matches_least_squares_by_loops(
    pairs: dict[tuple[int, int], bool], regularization: float, confidence: float, dims: int
) -> None:
    spec = WMF(name="m", dims=dims, regularization=regularization, confidence=confidence, sweeps=2)
    logged = to_logged(pairs)
    p, items = liked(logged), start(spec, logged, 3)
    for _ in range(2):
        users = best_by_loops(p, spec, items)
        items = best_by_loops(p.T, spec, users)
    scorer = fit_wmf(spec, logged, 3, silent)
    scores = scorer.score_block(np.arange(N_USERS))
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores, users @ items.T, atol=1e-4)
    assert not scorer.users[p.sum(axis=1) == 0].any()
    assert not scorer.items[p.sum(axis=0) == 0].any()


def test_same_products_as_implicit() -> None:
    logged = drawn(60, 40, 0.3)
    spec = WMF(name="m", dims=8, regularization=0.1, confidence=5.0, sweeps=4)
    p = liked(logged)
    with threadpool_limits(1, "blas"):  # implicit warns about more threads
        theirs = AlternatingLeastSquares(
            8, regularization=0.1, alpha=1.0, dtype=np.float64, use_cg=False, iterations=4, num_threads=1
        )
        theirs.item_factors = start(spec, logged, 0).copy()
        theirs.fit(csr_matrix(p * (1 + 5.0)), show_progress=False)  # implicit takes the confidence as the entry
    ours = fit_wmf(spec, logged, 0, silent)
    np.testing.assert_allclose(ours.score_block(np.arange(60)), theirs.user_factors @ theirs.item_factors.T, atol=1e-4)
    np.testing.assert_allclose(ours.users.numpy(), theirs.user_factors, atol=1e-4)


def test_objective_falls_with_every_sweep() -> None:
    logged = drawn(50, 30, 0.4)
    p = liked(logged)
    spec = WMF(name="m", dims=6)
    values = [objective(p, spec, np.zeros((50, 6)), start(spec, logged, 0))]
    for sweeps in range(1, 9):
        fitted = fit_wmf(spec.model_copy(update={"sweeps": sweeps}), logged, 0, silent)
        values.append(objective(p, spec, fitted.users.numpy().astype(float), fitted.items.numpy().astype(float)))
    assert all(after < before for before, after in pairwise(values)), values
    assert values[-1] < 0.5 * values[0]


def test_batches_and_threads_do_not_matter() -> None:
    logged = drawn(50, 30, 0.4).positives()
    spec = WMF(name="m", dims=7)
    likes = Likes.of(logged.users, logged.items, logged.n_users)
    items = torch.from_numpy(start(spec, logged, 0))
    alone = solve(spec, likes, items, batch_bytes=1)
    assert len(likes.batches(1)) == 49  # the last user has no pairs
    np.testing.assert_allclose(solve(spec, likes, items), alone, rtol=1e-4, atol=1e-5)
    assert torch.equal(solve(spec, likes, items, 3, 4000), solve(spec, likes, items, 1, 4000))
    assert all(len(owners) * int(likes.sizes[owners].max()) <= 40 for owners in likes.batches(40))


def test_draws_depend_on_seed_and_name_and_sweeps_are_reported() -> None:
    logged, spec, sweeps = drawn(20, 15, 0.4), WMF(name="m", dims=4, sweeps=3), []
    first, again, other, renamed = (
        fit_wmf(model, logged, seed, sweeps.append).items
        for model, seed in ((spec, 0), (spec, 0), (spec, 1), (spec.model_copy(update={"name": "n"}), 0))
    )
    assert sweeps == [1, 2, 3] * 4
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert not torch.equal(first, renamed)


def test_learns_the_two_tastes() -> None:
    block = fit_wmf(WMF(name="m", dims=4, regularization=1.0), drawn(60, 40, 0.5), 0, silent).score_block(
        np.arange(59)
    )[:, :39]
    same = (np.arange(59)[:, None] + np.arange(39)) % 2 == 0
    assert block[same].mean() > block[~same].mean() + 0.5


def test_an_item_without_positives_has_the_zero_vector() -> None:
    first = start(WMF(name="m", dims=4), drawn(20, 15, 0.4), 0)
    assert first[:-1].any(axis=1).all()
    assert not first[-1].any()


def test_no_positives_at_all() -> None:
    assert not fit_wmf(WMF(name="m"), to_logged({(0, 0): False}), 0, silent).score_block(np.arange(N_USERS)).any()


def test_a_singular_system_is_named() -> None:
    spec = WMF(name="m", dims=20, regularization=0)
    with pytest.raises(
        SingularError, match=r"model m: .* are singular with regularization=0 and dims=20.* Raise regularization"
    ):
        fit_wmf(spec, drawn(10, 8, 0.5), 0, silent)


@pytest.mark.parametrize("seed", range(30))
def test_a_singular_system_is_named_even_if_rounding_hides_it(seed: int) -> None:
    items = torch.randn(
        3, 4, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )  # they span 3 dimensions of 4
    with pytest.raises(SingularError, match=r"the least-squares systems are singular.*3 vectors do not span"):
        solve(WMF(name="m", dims=4, regularization=0), Likes.of(np.array([0, 0]), np.array([0, 2]), 1), items)


def test_the_default_penalty_leaves_vectors_of_a_single_positive() -> None:
    """With 1 + confidence above the penalty no log is so small that all vectors shrink to zero."""
    one = Logged(np.array([0]), np.array([1]), np.ones(1, bool), np.ones(1), 2, 3)
    scores = fit_wmf(WMF(name="m", sweeps=100), one, 0, silent).score_block(np.array([0]))[0]
    assert scores[1] > 0.1
    assert (scores[[0, 2]] == 0).all()
