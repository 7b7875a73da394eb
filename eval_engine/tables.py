"""The tables Plumbline writes: schema, key and row rules of each; Delta holds the rules as CHECK constraints.

ID stands for the type of user and item ids, BIGINT or STRING, the same in every table of a lake. Every table is partitioned by
run_id at least, so that runs replace their own rows and never meet. Rules use no lambda: Delta cannot check `forall`.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

LABELS = "STRUCT<items: ARRAY<ID>, values: ARRAY<DOUBLE>, scores: ARRAY<FLOAT>, above: ARRAY<INT>, tied: ARRAY<INT>, probabilities: ARRAY<DOUBLE>>"
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

    @property
    def fields(self) -> tuple[str, ...]:
        """The columns' names, and those of the fields in their structs.

        >>> Table("t", "", "a INT NOT NULL, b STRUCT<c: ARRAY<INT>, d: STRING>", ("a",)).fields
        ('a', 'b', 'b.c', 'b.d')
        """
        found = []
        for name, kind in (column.split(maxsplit=1) for column in split(self.ddl)):
            inside = split(kind[len("STRUCT<") : -1]) if kind.startswith("STRUCT<") else ()
            found += [name, *(f"{name}.{field.split(':')[0]}" for field in inside)]
        return tuple(found)


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
    same = " AND ".join(
        f"size({source}.{name}) = size({source}.items)" for name in ("values", "scores", "above", "tied")
    )
    least = " AND ".join(
        f"coalesce(array_min({source}.{name}), 0) >= 0" for name in ("above", "tied")
    )  # NULL: cannot be known
    place = f"{least} AND coalesce(array_max({source}.above), 0) < candidates"
    return (f"{source} IS NULL OR ({same})", f"{source} IS NULL OR size({source}.items) = 0 OR ({place})")


PROBABLE = (  # random.probabilities, NULL unless exposures come with theirs: one for each item, above 0 and at most 1
    "size(random.probabilities) = size(random.items) AND coalesce(array_min(random.probabilities), 1) > 0 "
    "AND coalesce(array_max(random.probabilities), 1) <= 1"
)

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
        f"random IS NULL OR random.probabilities IS NULL OR ({PROBABLE})",
        "truth IS NULL OR truth.probabilities IS NULL",
        "top IS NULL OR (size(top.items) = size(top.scores) AND size(top.items) <= scored)",
    ),
    (
        "run_id",
        "model",
        "inputs",
    ),  # inputs: a fingerprint of what the model was ranked from, so that it is not ranked again
)
STATISTICS = Table(
    "statistics",
    "Mergeable sums, by bucket of users, of each estimate's numerator a and denominator b: exact, so the same on any partitioning. bucket is "
    "pmod(xxhash64(user_id), 256), of slices and strata pmod(that, 32); slice: 'all', or the value of a column of items or users ('category=toys'), NULL in older rows, which are of "
    "everything; stratum: exposures, candidates and exposed positives of the users, each coarse, where balanced URE needs them; a_low, a_high: a with all ties broken against and for the "
    "model; wins: users on which the model is better than each other one; items: of metrics of top lists, how many items of the bucket (of items) were recommended how often.",
    "run_id STRING NOT NULL, model STRING NOT NULL, estimator STRING NOT NULL, metric STRING NOT NULL, k INT NOT NULL, "
    "stratum STRUCT<exposures: INT, candidates: INT, positives: INT>, bucket INT NOT NULL, n_users BIGINT, n_left_out BIGINT, n_unknown BIGINT, "
    f"a {SUM}, b {SUM}, aa {SUM}, ab {SUM}, bb {SUM}, a_low {SUM}, a_high {SUM}, wins MAP<STRING, BIGINT>, "
    "slice STRING, items MAP<BIGINT, BIGINT>",
    ("run_id", "model", "estimator", "metric", "k", "slice", "stratum", "bucket"),
    ("n_users >= 0", "n_left_out >= 0", "n_unknown >= 0", "bucket >= 0 AND bucket < 256"),
)
ESTIMATES = Table(
    "estimates",
    "What each estimator says of each model, with its standard error and interval; NULL where it is undefined, and then the reason. slice: 'all', or the value of a column of items "
    "(which positives count) or users (which users count); NULL in older rows, which are of everything.",
    "run_id STRING NOT NULL, model STRING NOT NULL, estimator STRING NOT NULL, metric STRING NOT NULL, k INT NOT NULL, value DOUBLE, "
    "standard_error DOUBLE, low DOUBLE, high DOUBLE, confidence DOUBLE, ties_low DOUBLE, ties_high DOUBLE, bootstrap_error DOUBLE, bootstrap_low DOUBLE, "
    "bootstrap_high DOUBLE, chance_best DOUBLE, n_users BIGINT, n_left_out BIGINT, n_unknown BIGINT, left_out STRING, estimand STRING, reason STRING, slice STRING",
    ("run_id", "model", "estimator", "metric", "k", "slice"),
    (
        "value IS NULL OR NOT isnan(value)",
        "low IS NULL OR low <= value",
        "high IS NULL OR high >= value",
        "value IS NOT NULL OR reason IS NOT NULL",
        "chance_best IS NULL OR (chance_best >= 0 AND chance_best <= 1)",
    ),
)
COMPARISONS = Table(
    "comparisons",
    "Every pair of models under each estimator, paired over users: the difference, its interval and p, adjusted over the pairs (Holm, Benjamini-Hochberg); on how many "
    "users each wins; p that one is no worse than the other by more than the margin; users it would take to tell them apart; slice: as in estimates.",
    "run_id STRING NOT NULL, estimator STRING NOT NULL, metric STRING NOT NULL, k INT NOT NULL, model_a STRING NOT NULL, model_b STRING NOT NULL, "
    "difference DOUBLE, standard_error DOUBLE, low DOUBLE, high DOUBLE, confidence DOUBLE, p DOUBLE, p_holm DOUBLE, p_fdr DOUBLE, wins BIGINT, ties BIGINT, losses BIGINT, "
    "margin DOUBLE, p_a_no_worse DOUBLE, p_b_no_worse DOUBLE, verdict STRING, users_needed BIGINT, power DOUBLE, slice STRING",
    ("run_id", "estimator", "metric", "k", "slice", "model_a", "model_b"),
    (
        "p IS NULL OR (p >= 0 AND p <= 1 AND p_holm >= p AND p_fdr >= p)",
        "verdict IN ('a better', 'b better', 'equivalent', 'not decided')",
        "model_a != model_b",
    ),
)
USER_METRICS = Table(
    "user_metrics",
    "The terms of every user who is counted, on request (evaluate.user_metrics): an estimate is the sum of numerators over the sum of denominators. numerator is NULL where it cannot be known.",
    "run_id STRING NOT NULL, model STRING NOT NULL, user_id ID NOT NULL, estimator STRING NOT NULL, metric STRING NOT NULL, k INT NOT NULL, numerator DOUBLE, denominator DOUBLE",
    ("run_id", "model", "user_id", "estimator", "metric", "k"),
    ("denominator > 0",),
    ("run_id", "model"),
)
QUALITY = Table(
    "quality",
    "How many input rows broke a rule, an example of them, and what was done; and what each check of the random exposures says (verdict, docs/checks.md).",
    "run_id STRING NOT NULL, table STRING NOT NULL, rule STRING NOT NULL, n_rows BIGINT, example STRING, action STRING, verdict STRING, statistic DOUBLE, p DOUBLE",
    ("run_id", "table", "rule"),
    (
        "n_rows >= 0",
        "verdict IS NULL OR verdict IN ('pass', 'warn', 'fail', 'not applicable')",
        "p IS NULL OR (p >= 0 AND p <= 1)",
    ),
)
QUARANTINE = Table(
    "quarantine",
    "The rows themselves, as JSON, that on_bad_rows: quarantine kept out of the run.",
    "run_id STRING NOT NULL, table STRING NOT NULL, rule STRING NOT NULL, row STRING",
    ("run_id", "table", "rule", "row"),
)
RUNS = Table(
    "runs",
    "Each stage of each run: config, versions of software and inputs, time taken, how it ended; process: which process runs it; outputs: what was written, "
    "as a fingerprint by table.",
    "run_id STRING NOT NULL, stage STRING NOT NULL, status STRING NOT NULL, started_at TIMESTAMP, seconds DOUBLE, config STRING, "
    "versions MAP<STRING, STRING>, inputs MAP<STRING, STRING>, error STRING, process STRING, outputs MAP<STRING, STRING>",
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
AGREEMENT = Table(
    "agreement",
    "How far each scheme agrees with true recall at truth_k over the run's models, exposures drawn from the truth (docs/study.md): correlations and pairs of models in the wrong "
    "order; predicted_k: where agreement should be highest, k N / exposures for the traditional scheme (Theorem 1 of the paper) and k for URE; *_max: highest of its curve.",
    "run_id STRING NOT NULL, scheme STRING NOT NULL, exposures INT NOT NULL, k INT NOT NULL, truth_k INT NOT NULL, predicted_k DOUBLE NOT NULL, n_models INT NOT NULL, "
    "n_flipped INT NOT NULL, pearson DOUBLE, kendall DOUBLE, pearson_max BOOLEAN NOT NULL, kendall_max BOOLEAN NOT NULL, reason STRING",
    ("run_id", "scheme", "exposures", "k", "truth_k"),
    (
        "scheme IN ('traditional', 'ure_macro', 'ure_micro')",
        "pearson IS NULL OR (pearson >= -1 AND pearson <= 1)",
        "kendall IS NULL OR (kendall >= -1 AND kendall <= 1)",
        "reason IS NOT NULL OR (pearson IS NOT NULL AND kendall IS NOT NULL)",
    ),
)
STUDY_ESTIMATES = Table(
    "study_estimates",
    "What each scheme of a study says of each model: recall over all candidates (full: the truth, exposures NULL; ure_macro, ure_micro), or among so many drawn ones (traditional).",
    "run_id STRING NOT NULL, model STRING NOT NULL, scheme STRING NOT NULL, exposures INT, k INT NOT NULL, value DOUBLE, standard_error DOUBLE, low DOUBLE, high DOUBLE, "
    "confidence DOUBLE, n_users BIGINT, n_left_out BIGINT, n_unknown BIGINT",
    ("run_id", "model", "scheme", "exposures", "k"),
    ("scheme IN ('full', 'traditional', 'ure_macro', 'ure_micro')", "(scheme = 'full') = (exposures IS NULL)"),
)

TABLES = (
    CATALOGUE,
    RANKS,
    STATISTICS,
    ESTIMATES,
    COMPARISONS,
    USER_METRICS,
    QUALITY,
    QUARANTINE,
    RUNS,
    TRIALS,
    AGREEMENT,
    STUDY_ESTIMATES,
)
