"""Whether the sums of two runs are of the same quantities, so that they may be added or compared.

What defines them is in the config of their `evaluate` stage (table `runs`): frame, rule for positives, label sets,
metrics, tie policy, slices. Sums that are added must also be of the same models, and, where the run has propensities,
strata, test sets or classes of popularity, of the same propensities, edges and thresholds (tables propensity_fits,
strata, test_sets, popularity_classes). Paths of
inputs, intervals, seeds of the bootstrap and the sections of later stages define none.
"""

import json
from collections.abc import Sequence
from typing import Any

from eval_engine.errors import MergeError
from eval_engine.lake.lake import Lake
from eval_engine.tables import POPULARITY_CLASSES, PROPENSITY_FITS, STRATA, TEST_SETS, Table

LABEL_SETS = ("exposures", "heldout", "truth", "designed")
FIT = (
    *("method", "n_items", "n_unseen", "n_users", "n_pairs", "alpha", "xmin", "gamma", "by_value", "coefficients"),
    *("largest", "floor"),
)
EDGES = ("strata", "stratum", "low", "high")
DRAWN = ("name", "draw", "strategy", "seed", "share", "exponent", "zero_support", "threshold", "threshold_hash", "cap")
FIT_OF_PAIRS = ("method", "floor")  # of logged propensities, which are those of the pairs whatever else is logged
RULES: tuple[tuple[str, Table, Sequence[str]], ...] = (
    ("propensities", PROPENSITY_FITS, FIT),
    ("edges of strata", STRATA, EDGES),
    ("thresholds of test sets", TEST_SETS, DRAWN),
    ("classes of popularity", POPULARITY_CLASSES, ("used", "low_at_most", "high_above")),
)
Definition = dict[str, str]  # of each thing that must be equal, as text


def settings_of(config: str) -> Definition:
    """What a config, as the table `runs` has it, says of the quantities."""
    asked = json.loads(config)
    evaluate, inputs, slices = asked["evaluate"], asked["inputs"], asked.get("slices") or {}
    found: dict[str, Any] = {
        "frame": asked["frame"],
        "positive": asked["positive"],
        "label sets": [name for name in LABEL_SETS if inputs.get(name)],
        "slices": {of: [table["by"] for table in slices.get(of) or ()] for of in ("items", "users")},
        "item_values": [table["by"] for table in asked.get("item_values") or ()],
    }
    found |= {f"evaluate.{name}": evaluate.get(name) for name in ("modules", "metrics", "traditional", "ties")}
    found |= {name: asked.get(name) for name in ("propensity", "test_sets", "popularity")}
    if asked.get("propensity"):
        found["evaluate.strata"] = evaluate.get("strata")
    return {name: json.dumps(value, sort_keys=True) for name, value in found.items()}


def definition_of(lake: Lake, run_id: str, config: str, models: Sequence[str]) -> Definition:
    """Everything that must be equal where sums are added."""
    found = settings_of(config) | {"models": ", ".join(sorted(models))}
    if any(json.loads(found[name]) for name in ("propensity", "test_sets", "popularity")):
        for name, table, columns in RULES:
            rows = lake.rows(table, {"run_id": run_id})
            if table is PROPENSITY_FITS and any(row["method"] == "logged" for row in rows):
                columns = FIT_OF_PAIRS
            values = sorted([json.dumps([row[column] for column in columns], default=str) for row in rows])
            found[name] = "; ".join(values)
    return found


def difference(one: Definition, other: Definition) -> str | None:
    """The first thing that two runs have differently, settings before what was made by them; None if they are alike."""
    return next((name for name in dict.fromkeys((*one, *other)) if one.get(name) != other.get(name)), None)


def check_alike(run_id: str, one: Definition, other_id: str, other: Definition) -> None:
    """An error if sums of the two runs cannot be added."""
    if name := difference(one, other):
        own, others = (_short(values.get(name) or "none") for values in (one, other))
        raise MergeError(
            f"Runs {run_id} and {other_id} cannot be added up: their {name} differ ({own}; {others}), so their sums "
            "are of different quantities. Run one of them again with the config of the other, or leave it out."
        )


def _short(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:197]}..."
