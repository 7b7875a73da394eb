"""How often a gate that looks every day says no: 200 days without a change, and with a real drop.

    python -m benchmarks.gate_looks [--series 1000]

prints one JSON line per case. A series is a model whose recall is looked at every day for 200 days, 2,000 users a day:
each user has one positive, which is in the top k with probability 0.2. The gate is that of
eval_engine/quality/gates.py: kind change, at_least 0, fails: surely_beyond, confidence 0.95, against a fixed baseline
run of 100,000 users.

    one look, that day         ordinary intervals, the users of that day alone
    one look, all days         ordinary intervals, all users since the first day (window: {since: DAY})
    every look, all days       evaluate.anytime, tightest_at 20,000 users, the same users

share_ever is the share of series in which the gate ever says no; without a change it must be at most 0.05. Of a drop of
5 per cent on day 1, days_median and days_p90 are the days until it does.
"""

import argparse
import json

import numpy as np

from eval_engine.quality.gate_rules import ChangeGate
from eval_engine.quality.gates import Answers, Sureness, judge

DAYS, PER_DAY, RATE, BASELINE = 200, 2000, 0.2, 100_000
RULE = ChangeGate.model_validate(
    {"name": "recall", "kind": "change", "model": "m", "estimator": "full_macro", "metric": "recall@10"}
    | {"baseline": "baseline", "at_least": 0.0, "fails": "surely_beyond"}
)
CASES = {
    "one look, that day": (False, Sureness(0.95)),
    "one look, all days": (True, Sureness(0.95)),
    "every look, all days": (True, Sureness(0.95, 20_000)),
}


def answers(run_id: str, hits: int, users: int) -> Answers:
    """A run whose recall is a share of users."""
    value = hits / users
    error = (value * (1 - value) / (users - 1)) ** 0.5
    row = {"model": "m", "estimator": "full_macro", "metric": "recall", "k": 10, "slice": "all"}
    return Answers(run_id, [row | {"value": value, "standard_error": error, "n_users": users, "reason": None}])


def first_no(rng: np.random.Generator, drop: float) -> dict[str, int | None]:
    """The first day on which each gate says no in one series."""
    baseline = answers("baseline", int(rng.binomial(BASELINE, RATE)), BASELINE)
    hits = rng.binomial(PER_DAY, RATE * (1 - drop), DAYS)
    total = hits.cumsum()
    found: dict[str, int | None] = {}
    for name, (all_days, sure) in CASES.items():
        days = (
            answers("day", int(total[d] if all_days else hits[d]), PER_DAY * (d + 1 if all_days else 1))
            for d in range(DAYS)
        )
        verdicts = (judge(RULE, day, baseline, sure).status for day in days)
        found[name] = next((d + 1 for d, status in enumerate(verdicts) if status == "fail"), None)
    return found


def main() -> None:
    """Both worlds."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--series", type=int, default=1000)
    n = parser.parse_args().series
    for drop in (0.0, 0.05):
        rng = np.random.default_rng(20)
        series = [first_no(rng, drop) for _ in range(n)]
        for name in CASES:
            days = [one[name] for one in series]
            said = np.array([day for day in days if day is not None])
            line = {"case": name, "drop": drop, "series": n, "share_ever": round(said.size / n, 4)}
            if drop:
                at = np.array([day or np.inf for day in days])
                line |= {"days_median": float(np.median(at)), "days_p90": float(np.quantile(at, 0.9, method="higher"))}
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
