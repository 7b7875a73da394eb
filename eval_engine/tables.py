"""The tables Plumbline writes: schema, key and row rules of each; Delta holds the rules as CHECK constraints.

ID stands for the type of user and item ids, BIGINT or STRING, the same in every table of a lake. Every table is partitioned by
run_id at least, so that runs replace their own rows and never meet. Rules use no lambda: Delta cannot check `forall`.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

LABELS = "STRUCT<items: ARRAY<ID>, values: ARRAY<DOUBLE>, scores: ARRAY<FLOAT>, above: ARRAY<INT>, tied: ARRAY<INT>>"
SUM = "DECIMAL(38, 12)"


class Table(NamedTuple):
    """A contract: what a table holds, what identifies a row, and what is true of each row."""

    name: str
    about: str
    ddl: str
    key: tuple[str, ...]
    rules: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ("run_id",)

    def columns(self, id_type: str) -> str:
        """The schema as SQL, with the id type filled in."""
        return re.sub(r"\bID\b", id_type, self.ddl)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names."""
        return tuple(column.split()[0] for column in split(self.ddl))


def split(text: str) -> Iterator[str]:
    """The parts between commas that stand in no brackets.

    >>> list(split("a INT, b MAP<STRING, STRING>, c DECIMAL(38, 12)"))
    ['a INT', 'b MAP<STRING, STRING>', 'c DECIMAL(38, 12)']
    """
    depth, start = 0, 0
    for at, letter in enumerate(text):
        depth += (letter in "<(") - (letter in ">)")
        if letter == "," and not depth:
            yield text[start:at].strip()
            start = at + 1
    yield text[start:].strip()


def _ranked(source: str) -> tuple[str, ...]:
    """Every label of a source has a value and a place in a list of that many candidates."""
    same = " AND ".join(f"size({source}.{name}) = size({source}.items)" for name in ("values", "scores", "above", "tied"))
    least = " AND ".join(f"coalesce(array_min({source}.{name}), 0) >= 0" for name in ("above", "tied"))  # NULL: cannot be known
    place = f"{least} AND coalesce(array_max({source}.above), 0) < candidates"
    return (f"{source} IS NULL OR ({same})", f"{source} IS NULL OR size({source}.items) = 0 OR ({place})")


CATALOGUE = Table(
    "catalogue",
    "The items of the run in the order of dense score vectors.",
    "run_id STRING NOT NULL, item_id ID NOT NULL, position INT NOT NULL",
    ("run_id", "item_id"),
    ("position >= 0",),
)
RANKS = Table(
    "ranks",
    "Per model and user: where each labelled pair stands in the model's full list (above, tied), and the top of that list.",
    f"run_id STRING NOT NULL, model STRING NOT NULL, inputs STRING NOT NULL, user_id ID NOT NULL, candidates INT, scored INT, random {LABELS}, "
    f"truth {LABELS}, top STRUCT<items: ARRAY<ID>, scores: ARRAY<FLOAT>>, problem STRING",
    ("run_id", "model", "user_id"),
    (
        "problem IS NOT NULL OR (candidates >= 0 AND scored >= 0 AND scored <= candidates)",
        *_ranked("random"),
        *_ranked("truth"),
        "top IS NULL OR (size(top.items) = size(top.scores) AND size(top.items) <= scored)",
    ),
    ("run_id", "model", "inputs"),  # inputs: a fingerprint of what the model was ranked from, so that it is not ranked again
)
STATISTICS = Table(
    "statistics",
    "Mergeable sums over users of each estimate's numerator a and denominator b: exact, so the same on any partitioning.",
    "run_id STRING NOT NULL, model STRING NOT NULL, estimator STRING NOT NULL, metric STRING NOT NULL, k INT NOT NULL, "
    f"n_users BIGINT, n_left_out BIGINT, n_unknown BIGINT, a {SUM}, b {SUM}, aa {SUM}, ab {SUM}, bb {SUM}",
    ("run_id", "model", "estimator", "metric", "k"),
    ("n_users >= 0", "n_left_out >= 0", "n_unknown >= 0"),
)
ESTIMATES = Table(
    "estimates",
    "What each estimator says of each model, with its standard error and interval; NULL where it is undefined.",
    "run_id STRING NOT NULL, model STRING NOT NULL, estimator STRING NOT NULL, metric STRING NOT NULL, k INT NOT NULL, value DOUBLE, "
    "standard_error DOUBLE, low DOUBLE, high DOUBLE, confidence DOUBLE, n_users BIGINT, n_left_out BIGINT, n_unknown BIGINT, estimand STRING",
    ("run_id", "model", "estimator", "metric", "k"),
    ("n_unknown = 0 OR value IS NULL", "value IS NULL OR NOT isnan(value)", "low IS NULL OR low <= value", "high IS NULL OR high >= value"),
)
QUALITY = Table(
    "quality",
    "How many input rows broke a rule, an example of them, and what was done.",
    "run_id STRING NOT NULL, table STRING NOT NULL, rule STRING NOT NULL, n_rows BIGINT, example STRING, action STRING",
    ("run_id", "table", "rule"),
    ("n_rows >= 0",),
)
QUARANTINE = Table(
    "quarantine",
    "The rows themselves, as JSON, that on_bad_rows: quarantine kept out of the run.",
    "run_id STRING NOT NULL, table STRING NOT NULL, rule STRING NOT NULL, row STRING",
    ("run_id", "table", "rule", "row"),
)
RUNS = Table(
    "runs",
    "Each stage of each run: config, versions of software and inputs, time taken, how it ended.",
    "run_id STRING NOT NULL, stage STRING NOT NULL, status STRING NOT NULL, started_at TIMESTAMP, seconds DOUBLE, config STRING, "
    "versions MAP<STRING, STRING>, inputs MAP<STRING, STRING>, error STRING",
    ("run_id", "stage"),
    ("status IN ('running', 'done', 'failed')",),
    ("run_id", "stage"),
)
TRIALS = Table(
    "trials",
    "Each model a run trained: its spec, how training went and ended, what its held-out result was (smaller is better).",
    "run_id STRING NOT NULL, model STRING NOT NULL, kind STRING NOT NULL, spec STRING NOT NULL, status STRING NOT NULL, stop_on STRING, held_out DOUBLE, "
    "train_loss DOUBLE, epochs INT, best_epoch INT, seconds DOUBLE, inputs STRING, error STRING",
    ("run_id", "model"),
    ("status IN ('done', 'failed')", "epochs IS NULL OR best_epoch <= epochs"),
    ("run_id", "model"),
)

TABLES = (CATALOGUE, RANKS, STATISTICS, ESTIMATES, QUALITY, QUARANTINE, RUNS, TRIALS)
