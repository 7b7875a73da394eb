"""Held-out recall and nDCG equal those of loops."""

import math

import numpy as np
import pytest
import torch

from eval_engine.errors import DataError
from models import validation
from models.logged import Logged
from models.validation import HeldOutMetric, RandomAuc
from models.vectors import VectorScorer

RNG = np.random.default_rng(4)
SCORES = RNG.integers(0, 4, (9, 7)).astype(np.float32)  # many ties, which the lower position wins


class Given:
    def score_block(self, users: np.ndarray) -> np.ndarray:
        return SCORES[users]


def pairs(cells: list[tuple[int, int]], positive: bool = True) -> Logged:
    users, items = np.array(sorted(cells)).T
    return Logged(users, items, np.full(len(users), positive), np.ones(len(users)), 9, 7)


@pytest.mark.parametrize("kind", ["recall", "ndcg"])
@pytest.mark.parametrize("k", [1, 3, 50])
def test_agrees_with_a_loop(kind: str, k: int) -> None:
    cells = [(u, i) for u in range(8) for i in range(7) if RNG.random() < 0.5]
    held = [cell for cell in cells if RNG.random() < 0.4]
    seen = [cell for cell in cells if cell not in held]
    expected = []
    for user in sorted({u for u, _ in held}):
        wanted = {i for u, i in held if u == user}
        order = sorted((i for i in range(7) if (user, i) not in seen), key=lambda i: (-SCORES[user, i], i))[:k]
        if kind == "recall":
            expected.append(len(wanted & set(order)) / len(wanted))
        else:
            gains = sum(1 / math.log2(2 + place) for place, item in enumerate(order) if item in wanted)
            expected.append(gains / sum(1 / math.log2(2 + place) for place in range(min(k, len(wanted), 7))))
    assert HeldOutMetric("m", f"{kind}@{k}", pairs(seen), pairs(held))(Given()) == pytest.approx(np.mean(expected))


def test_no_held_out_positive_is_an_error() -> None:
    with pytest.raises(DataError, match=r"model m: stop_on recall@5 needs held-out positives.*validation_share"):
        HeldOutMetric("m", "recall@5", pairs([(0, 0)]), pairs([(1, 1)], positive=False))


def test_agrees_with_a_full_sort_over_many_items_and_with_scores_that_are_not_numbers() -> None:
    rng = np.random.default_rng(1)
    scores = rng.integers(0, 30, (40, 900)).astype(np.float32)
    scores[3, ::7], scores[4] = np.nan, np.inf
    cells = np.unique(rng.integers(0, 40 * 900, 3000))
    users, items = np.divmod(cells, 900)
    held = rng.random(len(cells)) < 0.3
    logged = Logged(users, items, np.ones(len(cells), bool), np.ones(len(cells)), 40, 900)

    class Wide:
        def score_block(self, users: np.ndarray) -> np.ndarray:
            return scores[users]

    seen = np.zeros((40, 900), bool)
    seen[users[~held], items[~held]] = True
    wanted = np.zeros((40, 900), bool)
    wanted[users[held], items[held]] = True
    order = np.lexsort((np.isnan(scores), -np.nan_to_num(scores, nan=-np.inf, posinf=np.inf), seen), axis=1)
    hits = np.take_along_axis(wanted, order[:, :20], axis=1).sum(axis=1)
    expected = np.mean(hits[wanted.any(axis=1)] / wanted.sum(axis=1)[wanted.any(axis=1)])
    assert HeldOutMetric("m", "recall@20", logged.where(~held), logged.where(held))(Wide()) == pytest.approx(expected)


@pytest.mark.parametrize("name", ["recall@20", "ndcg@5", "random_auc"])
def test_the_path_of_a_gpu_gives_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    cells = np.unique(rng.integers(0, 40 * 90, 900))
    users, items = np.divmod(cells, 90)
    held = rng.random(len(cells)) < 0.3
    logged = Logged(users, items, rng.random(len(cells)) < 0.7, np.ones(len(cells)), 40, 90)
    # whole numbers, so that lists have many ties
    vectors = [torch.from_numpy(rng.integers(-1, 2, (n, 3)).astype(np.float32)) for n in (40, 90)]
    vectors[0][3] = torch.nan
    scorer = VectorScorer(*vectors)
    seen, kept_back = logged.where(~held), logged.where(held)
    metric = RandomAuc("m", logged) if name == "random_auc" else HeldOutMetric("m", name, seen, kept_back)
    on_cpu = metric(scorer)
    monkeypatch.setattr(validation, "on_gpu", lambda scorer: True)
    monkeypatch.setattr(validation, "BLOCK_BYTES", 4 * 90 * 7)  # of seven users
    assert metric(scorer) == on_cpu > 0
