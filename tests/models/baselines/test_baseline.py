"""Every kind of the config gives the right scorer."""

import numpy as np
import pyarrow as pa
import pytest

from eval_engine.errors import DataError
from models.baselines.baseline import make_baseline
from models.interactions import Interactions
from models.logged import Logged
from models.spec.baselines import (
    WMF,
    AverageRating,
    Baseline,
    GlobalAverage,
    ItemKNN,
    Popularity,
    PositivePopularity,
    Random,
    UserKNN,
)

USERS, ITEMS = np.array([0, 0, 0, 1, 1, 2]), np.array([0, 1, 2, 0, 1, 1])
VALUES = np.array([5.0, 4.0, 1.0, 5.0, 2.0, 4.0])
DATA = Interactions(pa.array(["a", "b", "c", "d"]), pa.array([10, 20, 30, 40, 50]), USERS, ITEMS, VALUES)
LOGGED = Logged(USERS, ITEMS, VALUES > 3, VALUES, 4, 5)
ROWS = [
    (GlobalAverage(name="m"), [3.5] * 5),
    (Popularity(name="m"), [2, 3, 1, 0, 0]),
    (PositivePopularity(name="m"), [2, 2, 0, 0, 0]),
    (AverageRating(name="m"), [5, 10 / 3, 1, 3.5, 3.5]),
    (AverageRating(name="m", damping=2.0), [17 / 4, 17 / 5, 8 / 3, 3.5, 3.5]),
]


@pytest.mark.parametrize(("spec", "row"), ROWS, ids=lambda case: getattr(case, "kind", ""))
def test_the_same_row_for_all(spec: Baseline, row: list[float]) -> None:
    np.testing.assert_allclose(
        make_baseline(spec, DATA, LOGGED, 0, lambda _: None).score_block(np.array([3, 1])), [row, row], rtol=1e-6
    )


def test_neighbours_of_users_and_of_items_differ() -> None:
    by_user = make_baseline(UserKNN(name="m", neighbours=1), DATA, LOGGED, 0, lambda _: None).score_block(np.arange(4))
    by_item = make_baseline(ItemKNN(name="m", neighbours=1), DATA, LOGGED, 0, lambda _: None).score_block(np.arange(4))
    half = 0.5**0.5  # positives: a likes 10 and 20, b likes 10, c likes 20
    np.testing.assert_allclose(
        by_user, np.array([[half, 0], [half, half], [half, half], [0, 0]]) @ np.eye(2, 5), rtol=1e-6
    )
    np.testing.assert_allclose(by_item, np.array([[0.5, 0.5], [0, 0.5], [0.5, 0], [0, 0]]) @ np.eye(2, 5), rtol=1e-6)


@pytest.mark.parametrize(
    "spec",
    [
        Random(name="m"),
        *(spec for spec, _ in ROWS),
        UserKNN(name="m"),
        ItemKNN(name="m", label="value"),
        WMF(name="m", dims=2),
    ],
)
def test_scores_are_finite_keyed_by_the_user_alone_and_reported(spec: Baseline) -> None:
    done: list[float] = []
    scorer = make_baseline(spec, DATA, LOGGED, 5, done.append)
    whole = scorer.score_block(np.arange(4))
    assert whole.dtype == np.float32
    assert whole.shape == (4, 5)
    assert np.isfinite(whole).all()
    np.testing.assert_allclose(scorer.score_block(np.array([2])), whole[2:3], rtol=1e-6, atol=1e-7)
    assert done == sorted(done)
    assert done[-1] == 1.0


@pytest.mark.parametrize(
    "spec", [PositivePopularity(name="m"), UserKNN(name="m"), ItemKNN(name="m"), WMF(name="m", dims=2)]
)
def test_no_positive_pair_is_an_error_of_those_that_learn_from_nothing_else(spec: Baseline) -> None:
    none = LOGGED._replace(positive=np.zeros(6, bool))
    with pytest.raises(DataError, match=rf"model m: of 6 logged pairs, 0 are positive, so {spec.kind} would score"):
        make_baseline(spec, DATA, none, 0, lambda _: None)
    by_value = make_baseline(ItemKNN(name="m", label="value"), DATA, none, 0, lambda _: None)
    assert by_value.score_block(np.arange(4)).any()
