"""What the driver learns of a run's inputs before anything is ranked: a few numbers and examples, whatever the number
of users.

Each task tells its own facts as JSON; they add up to the same whatever the partitioning.
"""

import json
from collections.abc import Iterable
from typing import NamedTuple

from eval_engine.inputs.labels import Violation


class Facts(NamedTuple):
    """How many rows there are of what, and which rules they break."""

    label_rows: dict[str, int]  # by source
    users: dict[str, int]  # scored, by model
    apart: int  # users, of all models, whose rows are scattered over files
    broken: dict[tuple[str, str], Violation]  # rules of labels, by source and rule
    uncovered: dict[str, Violation]  # rules of users with scores and labels
    exposed: dict[str, int]  # counts and sums over users with random exposures (ranking/exposure_counts.py)


def to_json(facts: Facts) -> bytes:
    """The facts as bytes."""
    broken = [[source, rule, *violation] for (source, rule), violation in facts.broken.items()]
    return json.dumps(facts._replace(broken=broken)).encode()  # type: ignore[arg-type]


def from_json(text: bytes) -> Facts:
    """What to_json wrote."""
    label_rows, users, apart, broken, uncovered, exposed = json.loads(text)
    rules = {(source, rule): Violation(n_rows, example) for source, rule, n_rows, example in broken}
    of_users = {rule: Violation(*violation) for rule, violation in uncovered.items()}
    return Facts(label_rows, users, apart, rules, of_users, exposed)


def together(facts: Iterable[Facts]) -> Facts:
    """The facts of all parts."""
    label_rows: dict[str, int] = {}
    users: dict[str, int] = {}
    broken: dict[tuple[str, str], Violation] = {}
    uncovered: dict[str, Violation] = {}
    exposed: dict[str, int] = {}
    apart = 0
    for part in facts:
        for source, n in part.label_rows.items():
            label_rows[source] = label_rows.get(source, 0) + n
        for model, n in part.users.items():
            users[model] = users.get(model, 0) + n
        for key, violation in part.broken.items():
            broken[key] = _both(broken.get(key), violation)
        for rule, violation in part.uncovered.items():
            uncovered[rule] = _both(uncovered.get(rule), violation)
        for name, n in part.exposed.items():
            exposed[name] = exposed.get(name, 0) + n
        apart += part.apart
    return Facts(label_rows, users, apart, broken, uncovered, exposed)


def _both(one: Violation | None, other: Violation) -> Violation:
    return other if one is None else Violation(one.n_rows + other.n_rows, min(one.example, other.example))
