"""Holdout metrics against ir_measures and scikit-learn on random scores without ties, RBP against a loop.

Scores are integers below 2^24, which float32 holds exactly: ir_measures reads scores as float32. Training items are no
candidates, so the others never see them; candidates that are not held out are negatives.
"""

from typing import Any, NamedTuple

import ir_measures
import numpy as np
import pytest
from sklearn import metrics

from eval_engine.estimators.in_memory import evaluate
from eval_engine.kernels.rank_facts import RankFacts, rank_facts

N_USERS, N_ITEMS, TOLERANCE = 60, 70, 1e-9
CUTOFFS = (1, 3, 10, 50, 100)  # 100: longer than every list
IR_MEASURES = {"recall": "R", "precision": "P", "ndcg": "nDCG", "map": "AP", "mrr": "RR", "hit_rate": "Success"}


class Logged(NamedTuple):
    """Users with training items, and with some of the others held out."""

    scores: np.ndarray
    candidates: list[np.ndarray]
    items: list[np.ndarray]  # held out
    values: list[np.ndarray]  # of those, 0 or 1
    facts: RankFacts

    def positives(self, user: int) -> np.ndarray:
        return self.items[user][self.values[user] == 1]

    def lists(self) -> dict[int, tuple[np.ndarray, np.ndarray]]:
        """By user with a held-out positive: the score of each candidate, and whether it is one."""
        return {
            user: (self.scores[user, own], np.isin(own, self.positives(user)))
            for user, own in enumerate(self.candidates)
            if self.positives(user).size
        }


@pytest.fixture(scope="module", params=[1, 2, 3])
def logged(request: pytest.FixtureRequest) -> Logged:
    """The first user has no held-out pair, the second no held-out positive, the third positives only."""
    rng = np.random.default_rng(request.param)
    scores = np.stack([rng.choice(2**24, N_ITEMS, replace=False) for _ in range(N_USERS)]).astype(np.float32)
    assert all(np.unique(row).size == N_ITEMS for row in scores)
    trained, candidates, items, values = [], [], [], []
    for user in range(N_USERS):
        order, n_trained = rng.permutation(N_ITEMS), int(rng.integers(0, 30))
        trained.append(order[:n_trained])
        candidates.append(order[n_trained:])
        items.append(candidates[-1][: 0 if user == 0 else int(rng.integers(1, 25))])
        values.append(
            np.full(items[-1].size, user - 1) if user in (1, 2) else (rng.random(items[-1].size) < 0.4).astype(int)
        )
    return Logged(scores, candidates, items, values, rank_facts(scores, items, values, trained))


def compared(logged: Logged, metric: str, theirs: dict[int, float]) -> None:
    """The same value of every user with a held-out positive, the same mean, and no other user counts."""
    ours = evaluate(logged.facts, "holdout", metric)
    assert set(np.flatnonzero(~np.isnan(ours.per_user))) == set(theirs)
    assert 30 < len(theirs) < N_USERS
    np.testing.assert_allclose([ours.per_user[u] for u in theirs], list(theirs.values()), rtol=0, atol=TOLERANCE)
    assert ours.value == pytest.approx(np.mean(list(theirs.values())), rel=0, abs=TOLERANCE)


@pytest.mark.parametrize("k", CUTOFFS)
@pytest.mark.parametrize("name", IR_MEASURES)
def test_ir_measures(name: str, k: int, logged: Logged) -> None:
    own = range(N_USERS)
    judged = [u for u in own if logged.positives(u).size]
    qrels = {str(u): {str(i): int(v) for i, v in zip(logged.items[u], logged.values[u], strict=True)} for u in judged}
    run = {str(u): {str(i): float(logged.scores[u, i]) for i in logged.candidates[u]} for u in own}
    measure = getattr(ir_measures, IR_MEASURES[name]) @ k
    compared(logged, f"{name}@{k}", {int(m.query_id): m.value for m in ir_measures.iter_calc([measure], qrels, run)})


@pytest.mark.parametrize("k", CUTOFFS)
def test_scikit_learn_at_k(k: int, logged: Logged) -> None:
    theirs: dict[str, dict[int, float]] = {name: {} for name in ("ndcg", "dcg", "recall", "precision")}
    for user, (score, positive) in logged.lists().items():
        in_top = np.zeros(score.size, bool)
        in_top[np.argsort(-score)[:k]] = True
        theirs["ndcg"][user] = metrics.ndcg_score(positive[None], score[None], k=k)
        theirs["dcg"][user] = metrics.dcg_score(positive[None], score[None], k=k)
        theirs["recall"][user] = metrics.recall_score(positive, in_top)
        # ours counts k places also where the list is shorter
        theirs["precision"][user] = metrics.precision_score(positive, in_top) * min(k, score.size) / k
    for name, values in theirs.items():
        compared(logged, f"{name}@{k}", values)


@pytest.mark.parametrize(
    ("name", "function"),
    [("auc", metrics.roc_auc_score), (f"map@{N_ITEMS}", metrics.average_precision_score)],
    ids=["auc", "map"],
)
def test_scikit_learn_of_whole_lists(name: str, function: Any, logged: Logged) -> None:
    compared(logged, name, {user: function(positive, score) for user, (score, positive) in logged.lists().items()})


@pytest.mark.parametrize("p", [0.5, 0.95])
@pytest.mark.parametrize("k", CUTOFFS)
def test_rbp_by_hand(k: int, p: float, logged: Logged) -> None:
    theirs = {}
    for user, (score, positive) in logged.lists().items():
        total = 0.0
        for place, item in enumerate(sorted(range(score.size), key=lambda i: -score[i]), 1):
            if place <= k and positive[item]:
                total += (1 - p) * p ** (place - 1)
        theirs[user] = total
    compared(logged, f"rbp(p={p})@{k}", theirs)
