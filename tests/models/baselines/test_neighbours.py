"""kNN equals loops over the formula, implicit, and scikit-learn."""

import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from implicit.nearest_neighbours import CosineRecommender
from scipy.sparse import csr_array, csr_matrix, random_array
from sklearn.metrics.pairwise import cosine_similarity
from sklearn.neighbors import NearestNeighbors

from models.baselines import neighbours
from models.baselines.neighbours import item_knn, nearest, user_knn
from models.logged import Logged
from models.spec.baselines import ItemKNN, UserKNN

N_USERS, N_ITEMS = 6, 5
VALUES = st.integers(-2, 4).map(float)  # few values: many ties, equal vectors, zeros
PAIRS = st.dictionaries(st.tuples(st.integers(0, N_USERS - 1), st.integers(0, N_ITEMS - 1)), VALUES)
SETTINGS = st.fixed_dictionaries(
    {
        "neighbours": st.integers(1, 7),
        "power": st.sampled_from([0.5, 1.0, 2.0, 3.0]),
        "label": st.sampled_from(["positive", "value"]),
    }
)
POSITIVE = 2


def silent(_: float) -> None:
    pass


def to_logged(pairs: dict[tuple[int, int], float]) -> Logged:
    keys = np.array(sorted(pairs), np.int64).reshape(-1, 2)
    values = np.array([pairs[pair] for pair in sorted(pairs)], np.float64)
    return Logged(keys[:, 0], keys[:, 1], values >= POSITIVE, values, N_USERS, N_ITEMS)


def feedback(pairs: dict[tuple[int, int], float], label: str) -> list[list[int]]:
    def r(u: int, i: int) -> int:
        value = int(pairs.get((u, i), 0))
        return value if label == "value" else int((u, i) in pairs and value >= POSITIVE)

    return [[r(u, i) for i in range(N_ITEMS)] for u in range(N_USERS)]


def neighbours_by_loops(vectors: list[list[int]], a: int, k: int) -> dict[int, float]:
    """Neighbours and similarities, sorted by exact fractions, so that ties are exact."""
    squared = {}
    for b in range(len(vectors)):
        dot = sum(x * y for x, y in zip(vectors[a], vectors[b], strict=True))
        if b != a and dot > 0:
            squared[b] = Fraction(dot * dot, sum(x * x for x in vectors[a]) * sum(y * y for y in vectors[b]))
    best = sorted(squared, key=lambda b: (-squared[b], b))[:k]
    return {b: float(squared[b]) ** 0.5 for b in best}


@settings(deadline=None, max_examples=300)
@given(PAIRS, SETTINGS)
def test_user_knn_matches_loops(pairs: dict[tuple[int, int], float], chosen: dict) -> None:
    r = feedback(pairs, chosen["label"])
    expected = np.zeros((N_USERS, N_ITEMS))
    for u in range(N_USERS):
        for v, similarity in neighbours_by_loops(r, u, chosen["neighbours"]).items():
            for i in range(N_ITEMS):
                expected[u, i] += similarity ** chosen["power"] * r[v][i]
    scores = user_knn(UserKNN(name="m", **chosen), to_logged(pairs), silent).score_block(np.arange(N_USERS))
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores, expected, rtol=1e-6, atol=1e-6)


@settings(deadline=None, max_examples=300)
@given(PAIRS, SETTINGS)
def test_item_knn_matches_loops(pairs: dict[tuple[int, int], float], chosen: dict) -> None:
    r = feedback(pairs, chosen["label"])
    columns = [[r[u][i] for u in range(N_USERS)] for i in range(N_ITEMS)]
    expected = np.zeros((N_USERS, N_ITEMS))
    for i in range(N_ITEMS):
        for j, similarity in neighbours_by_loops(columns, i, chosen["neighbours"]).items():
            for u in range(N_USERS):
                expected[u, i] += similarity ** chosen["power"] * r[u][j]
    scores = item_knn(ItemKNN(name="m", **chosen), to_logged(pairs), silent).score_block(np.arange(N_USERS))
    np.testing.assert_allclose(scores, expected, rtol=1e-6, atol=1e-6)


@settings(deadline=None)
@given(PAIRS, st.permutations(range(N_USERS)), st.permutations(range(N_ITEMS)))
def test_scores_do_not_depend_on_the_numbering(
    pairs: dict[tuple[int, int], float], users: list[int], items: list[int]
) -> None:
    moved = {(users[u], items[i]): value for (u, i), value in pairs.items()}
    for fit, spec in ((user_knn, UserKNN(name="m")), (item_knn, ItemKNN(name="m", label="value"))):
        here, there = (fit(spec, to_logged(world), silent).score_block(np.arange(N_USERS)) for world in (pairs, moved))
        assert np.array_equal(here, there[np.ix_(users, items)])  # to the last bit: the order of the sums has no effect


@pytest.mark.parametrize(
    ("fit", "spec"), [(user_knn, UserKNN(name="m", neighbours=4)), (item_knn, ItemKNN(name="m", neighbours=4))]
)
def test_blocks_and_threads_do_not_matter(fit, spec, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = {(u, i): float((u * i) % 5) for u in range(N_USERS) for i in range(N_ITEMS) if (u + i) % 3}
    done: list[float] = []
    whole = fit(spec, to_logged(pairs), done.append).score_block(np.arange(N_USERS))
    assert done == [1.0]
    monkeypatch.setattr(neighbours, "BLOCK_ROWS", 1)
    again = fit(spec, to_logged(pairs), done.append, 3)
    assert done[1:] == sorted(done[1:])
    assert done[-1] == 1.0
    assert len(done) >= N_ITEMS
    for user in (5, 0):
        assert np.array_equal(again.score_block(np.array([user, 2])), whole[[user, 2]])


def test_empty_users_and_negative_values() -> None:
    pairs = {
        (0, 0): 4.0,
        (0, 1): -2.0,
        (1, 0): 4.0,
        (1, 1): -2.0,
        (1, 2): -1.0,
        (2, 3): 0.0,
    }  # users 3, 4, 5 and item 4 have no pairs
    by_user = user_knn(UserKNN(name="m", label="value"), to_logged(pairs), silent).score_block(np.arange(N_USERS))
    by_item = item_knn(ItemKNN(name="m", label="value"), to_logged(pairs), silent).score_block(np.arange(N_USERS))
    assert by_user[0, 2] < 0 == by_user[0, 4]
    for block in (by_user, by_item):
        assert not block[2:].any()
        assert not block[:, 3:].any()
    assert not user_knn(UserKNN(name="m"), to_logged({}), silent).score_block(np.arange(N_USERS)).any()


def test_of_equal_similarities_the_first_stay() -> None:
    one_taste = csr_array(np.array([[1.0, 0, 0], [0, 1, 0], [2, 0, 0], [3, 0, 0], [1, 1, 0], [4, 0, 0], [0, 0, 0]]))
    near = nearest(one_taste, 2, 1.0, silent).toarray()
    assert [np.flatnonzero(row).tolist() for row in near] == [[2, 3], [4], [0, 3], [0, 2], [0, 1], [0, 2], []]


@given(
    st.lists(st.lists(st.sampled_from([0.0, 0.0, 1.0, 2.0, -1.0]), min_size=3, max_size=3), min_size=1, max_size=40),
    st.integers(1, 5),
)
@settings(deadline=None)
def test_rows_with_many_ties_match_loops(rows: list[list[float]], k: int) -> None:
    near = nearest(csr_array(np.array(rows)), k, 2.0, silent).toarray()
    whole = [[int(x) for x in row] for row in rows]
    for a in range(len(rows)):
        expected = {b: similarity**2 for b, similarity in neighbours_by_loops(whole, a, k).items()}
        assert {b: pytest.approx(near[a, b], rel=1e-6) for b in np.flatnonzero(near[a])} == expected


def sparse(n: int, m: int, density: float, seed: int) -> csr_array:
    """No two similarities are equal, so a library with other tie-breaking agrees."""
    rng = np.random.default_rng(seed)
    return random_array((n, m), density=density, rng=rng, data_sampler=lambda size: rng.uniform(0.5, 5, size)).tocsr()


@pytest.mark.filterwarnings("ignore:Method expects CSR input")  # implicit passes a COO matrix to itself
def test_neighbours_are_those_of_implicit() -> None:
    r = sparse(120, 60, 0.15, 1)
    theirs = CosineRecommender(K=11, num_threads=1)  # implicit counts the item itself
    theirs.fit(csr_matrix(r), show_progress=False)
    similarity = theirs.similarity.toarray()
    np.fill_diagonal(similarity, 0)
    np.testing.assert_allclose(nearest(r.T.tocsr(), 10, 1.0, silent).toarray(), similarity, atol=1e-6)


@pytest.mark.filterwarnings("ignore:Method expects CSR input")
def test_scores_are_those_of_implicit_where_all_are_neighbours() -> None:
    r = sparse(40, 30, 0.2, 2)
    users, items = r.nonzero()
    logged = Logged(users.astype(np.int64), items.astype(np.int64), np.ones(r.nnz, bool), r.data, 40, 30)
    ours = item_knn(ItemKNN(name="m", neighbours=30, label="value"), logged, silent).score_block(np.arange(40))
    theirs = CosineRecommender(K=30, num_threads=1)
    theirs.fit(csr_matrix(r), show_progress=False)
    own = r.toarray()  # sim(i, i) = 1: implicit adds the user's own value
    ids, scores = theirs.recommend(np.arange(40), csr_matrix(r), N=30, filter_already_liked_items=False)
    for user in range(40):
        given_scores = np.zeros(30)
        given_scores[ids[user][ids[user] >= 0]] = scores[user][ids[user] >= 0]
        np.testing.assert_allclose(ours[user] + own[user], np.maximum(given_scores, 0), rtol=1e-5, atol=1e-5)


def test_neighbours_are_those_of_scikit_learn() -> None:
    r = sparse(80, 50, 0.3, 3)
    r.data -= 2.5  # some negative
    cosines = cosine_similarity(r)
    similarities = nearest(r, 7, 1.0, silent).toarray()
    _, theirs = NearestNeighbors(n_neighbors=8, metric="cosine", algorithm="brute").fit(r).kneighbors()
    for a in range(80):
        expected = [b for b in theirs[a][:7] if cosines[a, b] > 0]
        assert sorted(np.flatnonzero(similarities[a])) == sorted(expected)
        np.testing.assert_allclose(similarities[a, expected], cosines[a, expected], rtol=1e-6)


def test_no_dense_matrix_of_users_by_users() -> None:
    r = sparse(4000, 300, 0.01, 4)
    nearest(r[:10], 5, 1.0, silent)  # compiles the kernel
    tracemalloc.start()
    similarities = nearest(r, 5, 1.0, silent)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * 4000**2 / 20
    assert similarities.dtype == np.float32
    assert similarities.nnz <= 5 * 4000
