"""What two runs share, over buckets of users: intervals of changes hold what they claim, and are no wider than needed."""

import numpy as np
import pytest

from eval_engine.quality.gate_rules import ChangeGate
from eval_engine.quality.gates import Answers, Sureness, judge
from eval_engine.statistics.bucket_sums import N_BUCKETS
from jobs.between_runs import shared_of

GATE = ChangeGate.model_validate(
    {"name": "g", "kind": "change", "model": "m", "estimator": "full_macro", "metric": "recall@10"}
    | {"baseline": "b", "at_least": 0.0, "fails": "surely_beyond"}
)


def answers(run_id: str, values: np.ndarray) -> Answers:
    cell = {"model": "m", "estimator": "full_macro", "metric": "recall", "k": 10, "slice": "all", "reason": None}
    error = values.std(ddof=1) / np.sqrt(values.size)
    return Answers(run_id, [cell | {"value": values.mean(), "standard_error": error, "n_users": values.size}])


@pytest.mark.parametrize("n_shared", [0, 1500, 3000])
def test_intervals_of_changes_cover_whatever_share_of_users_is_in_both(n_shared: int) -> None:
    """3,000 users a run, one model, which has changed for half of the users: each bound holds in 95 % of 600 draws."""
    rng = np.random.default_rng(n_shared)
    n_users, draws, sure = 3000, 600, Sureness(0.95)
    below, above, widths, apart = 0, 0, [], []
    for _ in range(draws):
        taste, bucket = rng.beta(1, 4, (2, n_users)), rng.integers(0, N_BUCKETS, (2, n_users))
        taste[1, :n_shared], bucket[1, :n_shared] = taste[0, :n_shared], bucket[0, :n_shared]
        old, new = (rng.random(n_users) < taste[0]), (rng.random(n_users) < taste[1])
        stays = np.arange(n_users) < n_shared
        new[stays] = np.where(rng.random(n_shared) < 0.5, old[stays], new[stays])
        values = np.stack([old, new]).astype(np.float64)
        sums = [
            np.stack([np.bincount(bucket[n], x[n], N_BUCKETS) for n in range(2)])
            for x in (values, np.ones_like(values))
        ]
        baseline, own = answers("b", values[0]), answers("r", values[1])
        seen = judge(GATE, own, baseline, sure, shared_of(sums[0], sums[1]))
        below, above = below + (seen.low > 0), above + (seen.high < 0)
        widths.append(seen.high - seen.low)
        alone = judge(GATE, own, baseline, sure)
        apart.append(alone.high - alone.low)
    slack = 3 * np.sqrt(0.05 * 0.95 * draws)
    assert abs(below - 0.05 * draws) < slack
    assert abs(above - 0.05 * draws) < slack
    ratio = np.mean(widths) / np.mean(apart)
    assert ratio == pytest.approx({0: 1.0, 1500: 0.84, 3000: 0.64}[n_shared], abs=0.03)


def test_nothing_is_known_of_runs_without_errors() -> None:
    sums = np.ones((2, N_BUCKETS))
    assert shared_of(sums, sums) is None  # no error at all
    assert shared_of(np.zeros((2, N_BUCKETS)), np.zeros((2, N_BUCKETS))) is None
    few = np.zeros((2, N_BUCKETS))
    few[:, :2] = [[1, 2], [2, 1]]
    assert shared_of(few, (few > 0).astype(np.float64)) is None  # two buckets
