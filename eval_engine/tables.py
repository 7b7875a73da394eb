"""The tables Plumbline writes: columns, key and row rules of each; Delta holds the rules as CHECK constraints.

    python -m eval_engine.tables > docs/tables.md

DDL, Arrow schema (lake/arrow_schema.py) and docs/tables.md are made from the columns. Every table is partitioned by
run_id at least, so that a run replaces its own rows only. Rules use no lambda: Delta cannot check `forall`. A later
version may add columns and fields of structs. Rows of older versions have NULL there, so a new column is nullable, and
rules hold where it is NULL.
"""

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from textwrap import fill

from eval_engine.columns import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    FLOAT,
    ID,
    INT,
    STRING,
    TIMESTAMP,
    Column,
    Decimal,
    List,
    Map,
    Struct,
)


@dataclass(frozen=True)
class Table:
    """A contract: what a table holds, what identifies a row, and what is true of each row."""

    name: str
    about: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    rules: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ("run_id",)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns' names."""
        return tuple(column.name for column in self.columns)

    @property
    def fields(self) -> tuple[str, ...]:
        """The columns' names, and those of the fields in their structs.

        >>> inside = Struct(Column("c", List(INT), ""), Column("d", STRING, ""))
        >>> Table("t", "", (Column("a", INT, ""), Column("b", inside, "")), ("a",)).fields
        ('a', 'b', 'b.c', 'b.d')
        """
        return tuple(path for column in self.columns for path, _ in column.paths())

    def ddl(self, id_type: str) -> str:
        """The columns as CREATE TABLE takes them; id_type: BIGINT or STRING."""
        return ", ".join(column.ddl(id_type) for column in self.columns)

    def row_ddl(self, id_type: str = "BIGINT", without: Collection[str] = ("run_id",)) -> str:
        """The columns as the schema of rows to be written, which come without those of their partition."""
        kept = (column for column in self.columns if column.name not in without)
        return ", ".join(f"{column.name} {column.type.sql(id_type)}" for column in kept)


RUN_ID = Column("run_id", STRING, "Run that wrote the row.", nullable=False)
MODEL = Column("model", STRING, "Name of the model.", nullable=False)
ESTIMATOR = Column("estimator", STRING, "Name of the estimator (docs/estimators.md).", nullable=False)
METRIC = Column("metric", STRING, "Name of the metric, without its cutoff.", nullable=False)
K = Column("k", INT, "Cutoff of the metric, in items; 0 where it has none.", nullable=False)
SLICE = Column(
    "slice",
    STRING,
    "'all', or the value of a column of items (which positives count) or users (which users count), such as "
    "'category=toys'; NULL in rows of older versions, which are of everything.",
)
SUM = Decimal(38, 12)

LABEL_FIELDS = (  # of a label set; new ones come last, as a table of an older version gets them
    Column("items", List(ID), "Items of the user's labelled pairs."),
    Column("values", List(DOUBLE), "Label of each pair, as the input table has it."),
    Column("scores", List(FLOAT), "Score that the model gives each pair; NULL if it gives none."),
    Column("above", List(INT), "Number of candidates with a higher score; NULL if it cannot be known."),
    Column("tied", List(INT), "Number of other candidates with the same score; NULL if it cannot be known."),
    Column("probabilities", List(DOUBLE), "Probability of each pair to be labelled; NULL if its table has none."),
    Column("candidates", INT, "Number of items that the pairs are ranked among, the frame of the set."),
    Column("scored", INT, "Number of these candidates that have a score."),
)
LABELS = Struct(*LABEL_FIELDS)
LABELS_AND_THRESHOLDS = Struct(
    *LABEL_FIELDS,
    Column("k", List(INT), "Cutoffs of the thresholds, in items."),
    Column(
        "thresholds",
        List(FLOAT),
        "Score of the (k+1)-th candidate at each k; -inf if there are no more than k, NULL if it cannot be known.",
    ),
)


def _ranked(name: str) -> tuple[str, ...]:
    """Every label of a set has a value and a place among that many candidates of the set. Rows of older versions have
    no candidates in the set: all their sets share those of the row."""
    same = " AND ".join(f"size({name}.{field}) = size({name}.items)" for field in ("values", "scores", "above", "tied"))
    least = " AND ".join(
        f"coalesce(array_min({name}.{field}), 0) >= 0" for field in ("above", "tied")
    )  # NULL: cannot be known
    place = f"{least} AND coalesce(array_max({name}.above), 0) < coalesce({name}.candidates, candidates)"
    return (
        f"{name} IS NULL OR ({same})",
        f"{name} IS NULL OR size({name}.items) = 0 OR ({place})",
        f"{name} IS NULL OR {name}.candidates IS NULL OR ({name}.scored >= 0 AND {name}.scored <= {name}.candidates)",
    )


def _probable(name: str) -> str:
    """Probabilities, NULL unless the table of the set has them: one for each item, above 0 and at most 1."""
    return (
        f"{name} IS NULL OR {name}.probabilities IS NULL OR (size({name}.probabilities) = size({name}.items) "
        f"AND coalesce(array_min({name}.probabilities), 1) > 0 AND coalesce(array_max({name}.probabilities), 1) <= 1)"
    )


CATALOGUE = Table(
    name="catalogue",
    about="The items of the run in the order of dense score vectors.",
    columns=(
        RUN_ID,
        Column("item_id", ID, "Item.", nullable=False),
        Column("position", INT, "Index of the item in score vectors, from 0.", nullable=False),
    ),
    key=("run_id", "item_id"),
    rules=("position >= 0",),
)
RANKS = Table(
    name="ranks",
    about="Per model and user: the place of each labelled pair in the model's full list (above, tied), and the top of "
    "that list. random, heldout, truth and designed are label sets, each with its own candidates.",
    columns=(
        RUN_ID,
        MODEL,
        Column("inputs", STRING, "Fingerprint of the inputs that the model was ranked from.", nullable=False),
        Column("user_id", ID, "User.", nullable=False),
        Column("candidates", INT, "Number of items in the user's list: all but the user's training pairs."),
        Column("scored", INT, "Number of candidates that have a score."),
        Column("random", LABELS_AND_THRESHOLDS, "Random exposures of the user; NULL if there are none."),
        Column("heldout", LABELS, "Logged pairs of the user that were kept from training; NULL if there are none."),
        Column("truth", LABELS, "Complete labels of the user; NULL if there are none."),
        Column("designed", LABELS, "Designed exposures of the user, of both arms; NULL if there are none."),
        Column(
            "top",
            Struct(
                Column("items", List(ID), "The best candidates, best first."),
                Column("scores", List(FLOAT), "Their scores."),
            ),
            "The first entries of the user's list.",
        ),
        Column("problem", STRING, "Why the user could not be ranked; NULL if the user was."),
    ),
    key=("run_id", "model", "user_id"),
    rules=(
        "problem IS NOT NULL OR (candidates >= 0 AND scored >= 0 AND scored <= candidates)",
        *_ranked("random"),
        *_ranked("heldout"),
        *_ranked("truth"),
        *_ranked("designed"),
        _probable("random"),
        _probable("heldout"),
        _probable("designed"),
        "truth IS NULL OR truth.probabilities IS NULL",
        "random IS NULL OR random.k IS NULL OR size(random.k) = size(random.thresholds)",
        "top IS NULL OR (size(top.items) = size(top.scores) AND size(top.items) <= scored)",
    ),
    partitions=("run_id", "model", "inputs"),  # a model whose inputs have not changed is not ranked again
)
STATISTICS = Table(
    name="statistics",
    about="Sums over the users of a bucket of each estimate's numerator a and denominator b. They are exact, so they "
    "do not depend on partitioning, and sums of several buckets and runs may be added. Rows of metric (weight) and "
    "(pairs) are of held-out pairs: a is the sum of their weights, a_high the largest weight, n_users the number of "
    "pairs.",
    columns=(
        RUN_ID,
        MODEL,
        ESTIMATOR,
        METRIC,
        K,
        Column(
            "stratum",
            Struct(
                Column("exposures", INT, "Random exposures per user."),
                Column("candidates", INT, "Candidates per user, rounded to a coarse grid."),
                Column("positives", INT, "Exposed positives per user, rounded to a coarse grid."),
            ),
            "Group of the users that balanced URE needs; NULL for other estimators.",
        ),
        Column(
            "bucket",
            INT,
            "Bucket of the users, pmod(xxhash64(user_id), 256); of slices and strata pmod(.., 32).",
            nullable=False,
        ),
        Column("n_users", BIGINT, "Number of users that are summed."),
        Column("n_left_out", BIGINT, "Number of users that the estimate does not cover."),
        Column("n_unknown", BIGINT, "Number of summed users whose value cannot be known."),
        Column("a", SUM, "Sum of numerators."),
        Column("b", SUM, "Sum of denominators."),
        Column("aa", SUM, "Sum of squared numerators."),
        Column("ab", SUM, "Sum of numerator times denominator."),
        Column("bb", SUM, "Sum of squared denominators."),
        Column("a_low", SUM, "Sum of numerators with every tie broken against the model."),
        Column("a_high", SUM, "Sum of numerators with every tie broken for the model."),
        Column("wins", Map(STRING, BIGINT), "Number of users on which the model is better than each other model."),
        SLICE,
        Column(
            "items",
            Map(BIGINT, BIGINT),
            "Of metrics of top lists: number of the bucket's items (of items) by how often they were recommended.",
        ),
    ),
    key=("run_id", "model", "estimator", "metric", "k", "slice", "stratum", "bucket"),
    rules=("n_users >= 0", "n_left_out >= 0", "n_unknown >= 0", "bucket >= 0 AND bucket < 256"),
)
ESTIMATES = Table(
    name="estimates",
    about="The value that each estimator gives each model, with its standard error and interval; NULL where it is "
    "undefined, and then the reason.",
    columns=(
        RUN_ID,
        MODEL,
        ESTIMATOR,
        METRIC,
        K,
        Column("value", DOUBLE, "The estimate, in units of the metric."),
        Column("standard_error", DOUBLE, "Its standard error over users."),
        Column("low", DOUBLE, "Lower end of its interval."),
        Column("high", DOUBLE, "Upper end of its interval."),
        Column("confidence", DOUBLE, "Confidence level of the intervals, a share: 0.95."),
        Column("ties_low", DOUBLE, "The estimate with every tie broken against the model."),
        Column("ties_high", DOUBLE, "The estimate with every tie broken for the model."),
        Column("bootstrap_error", DOUBLE, "Standard error by the Poisson bootstrap."),
        Column("bootstrap_low", DOUBLE, "Lower end of the bootstrap interval."),
        Column("bootstrap_high", DOUBLE, "Upper end of the bootstrap interval."),
        Column("chance_best", DOUBLE, "Share of bootstrap replicates in which the model is best."),
        Column("n_users", BIGINT, "Number of users that the estimate covers."),
        Column("n_left_out", BIGINT, "Number of users that it does not cover."),
        Column("n_unknown", BIGINT, "Number of covered users whose value cannot be known."),
        Column("left_out", STRING, "Which users it does not cover."),
        Column("estimand", STRING, "What it is an estimate of."),
        Column("reason", STRING, "Why there is no value or no interval; NULL if there is."),
        SLICE,
        Column("n_pairs", BIGINT, "Of held-out pairs: number of positives that the estimate counts."),
        Column("effective_pairs", DOUBLE, "Of weighted pairs: effective sample size (sum w)^2 / sum w^2, in pairs."),
        Column("largest_weight_share", DOUBLE, "Of weighted pairs: share of the largest weight."),
        Column("clipped_share", DOUBLE, "Of `clipped`: share of the positives whose weight was clipped."),
        Column("unreliable", STRING, "Why the estimate is not to be relied on; NULL if nothing was found."),
        Column("draws", INT, "Of test sets: number of draws that the estimate is the mean of."),
        Column("draws_sd", DOUBLE, "Standard deviation over these draws; NULL for a single one."),
        Column("anytime_low", DOUBLE, "Lower end of the interval that holds at every look; NULL unless asked for."),
        Column("anytime_high", DOUBLE, "Upper end of it."),
        Column(
            "numerator", DOUBLE, "Sum of the numerators of users; of raw_recall: hits. NULL where values are combined."
        ),
        Column("denominator", DOUBLE, "Sum of their denominators; of raw_recall: positives."),
    ),
    key=("run_id", "model", "estimator", "metric", "k", "slice"),
    rules=(
        "value IS NULL OR NOT isnan(value)",
        "low IS NULL OR low <= value",
        "high IS NULL OR high >= value",
        "value IS NOT NULL OR reason IS NOT NULL",
        "chance_best IS NULL OR (chance_best >= 0 AND chance_best <= 1)",
    ),
)
COMPARISONS = Table(
    name="comparisons",
    about="Every pair of models under each estimator, paired over users: the difference, its interval and p-values, "
    "wins, and users needed to decide.",
    columns=(
        RUN_ID,
        ESTIMATOR,
        METRIC,
        K,
        Column("model_a", STRING, "The first model.", nullable=False),
        Column("model_b", STRING, "The second model.", nullable=False),
        Column("difference", DOUBLE, "Estimate of model_a minus that of model_b, in units of the metric."),
        Column("standard_error", DOUBLE, "Standard error of the difference."),
        Column("low", DOUBLE, "Lower end of its interval."),
        Column("high", DOUBLE, "Upper end of its interval."),
        Column("confidence", DOUBLE, "Confidence level of the interval, a share: 0.95."),
        Column("p", DOUBLE, "Two-sided p-value of no difference."),
        Column("p_holm", DOUBLE, "p adjusted over all pairs of models by Holm."),
        Column("p_fdr", DOUBLE, "p adjusted over all pairs of models by Benjamini and Hochberg."),
        Column("wins", BIGINT, "Number of users on which model_a is better."),
        Column("ties", BIGINT, "Number of users on which both are equal."),
        Column("losses", BIGINT, "Number of users on which model_b is better."),
        Column("margin", DOUBLE, "Margin of equivalence, a share of the other model's value."),
        Column("p_a_no_worse", DOUBLE, "p-value that model_a is worse than model_b by more than the margin."),
        Column("p_b_no_worse", DOUBLE, "p-value that model_b is worse than model_a by more than the margin."),
        Column("verdict", STRING, "a better, b better, equivalent or not decided."),
        Column("users_needed", BIGINT, "Number of users with which the difference would be decided."),
        Column("power", DOUBLE, "Probability of a decision with that many users, a share: 0.8."),
        SLICE,
        Column(
            "users_equivalent",
            BIGINT,
            "Number of users with which the two would be called equivalent, were the difference as it is; NULL if it "
            "is not within the margin, or cannot be told.",
        ),
    ),
    key=("run_id", "estimator", "metric", "k", "slice", "model_a", "model_b"),
    rules=(
        "p IS NULL OR (p >= 0 AND p <= 1 AND p_holm >= p AND p_fdr >= p)",
        "verdict IN ('a better', 'b better', 'equivalent', 'not decided')",
        "model_a != model_b",
    ),
)
REVERSALS = Table(
    name="reversals",
    about="Simpson's paradox: pairs of models whose order in slices that hold most of the test pairs contradicts the "
    "whole. The family of tests is one estimator, metric, cutoff and slicing, adjusted by Holm; a family without such "
    "a pair has one row with flag 'none' and no models.",
    columns=(
        RUN_ID,
        ESTIMATOR,
        METRIC,
        K,
        Column("slicing", STRING, "Column of items or users that the slices are values of.", nullable=False),
        Column(
            "flag",
            STRING,
            "reversed: the slices named decide for model_a, the whole for model_b; vanishes: the whole has model_b "
            "ahead, or none, and decides for neither; weak: only the signs are so; none.",
            nullable=False,
        ),
        Column("model_a", STRING, "The model that is better in the slices named."),
        Column("model_b", STRING, "The other model."),
        Column("difference", DOUBLE, "Estimate of model_a minus that of model_b in the whole, in units of the metric."),
        Column("p_holm", DOUBLE, "Its two-sided p-value, adjusted over the family."),
        Column("slices", List(STRING), "The slices that contradict the whole, largest first."),
        Column("differences", List(DOUBLE), "Estimate of model_a minus that of model_b in each of them."),
        Column("slices_p_holm", List(DOUBLE), "The p-value of each, adjusted over the family."),
        Column("shares", List(DOUBLE), "Share of the test pairs that each of them holds."),
        Column("share", DOUBLE, "Share of the test pairs that they hold together, above 0.5."),
        Column("share_of", STRING, "What shares are counted in: pairs; users where pairs by slice are not known."),
        Column(
            "items",
            List(BIGINT),
            "Number of items of each of them: of the table of slices with this value, of the catalogue without a "
            "value, or of the table strata; NULL for slices of users, which hold all items.",
        ),
        Column("random_estimator", STRING, "Estimator from random exposure of the same metric; NULL if there is none."),
        Column("random_difference", DOUBLE, "Its estimate of model_a minus that of model_b, in the whole."),
        Column("random_p_holm", DOUBLE, "Its p-value, adjusted over all pairs of models."),
        Column("random_says", STRING, "What random exposure decides: as the slices, against the slices, not decided."),
        Column("n_model_pairs", BIGINT, "Pairs of models in the family."),
        Column("n_reversed", BIGINT, "Number of them with flag reversed."),
        Column("n_vanishes", BIGINT, "Number of them with flag vanishes."),
        Column("n_weak", BIGINT, "Number of them with flag weak."),
        Column("confidence", DOUBLE, "1 minus the level of the tests, a share: 0.95."),
    ),
    key=("run_id", "estimator", "metric", "k", "slicing", "model_a", "model_b"),
    rules=(
        "flag IN ('reversed', 'vanishes', 'weak', 'none')",
        "(flag = 'none') = (model_a IS NULL)",
        "flag = 'none' OR (share > 0.5 AND share <= 1)",
        "n_reversed + n_vanishes + n_weak <= n_model_pairs",
    ),
)
ESTIMATOR_AGREEMENT = Table(
    name="estimator_agreement",
    about="How far each estimator agrees with a reference over the run's models: complete labels, else random "
    "exposure, else every other estimator (docs/estimators.md).",
    columns=(
        RUN_ID,
        ESTIMATOR,
        METRIC,
        K,
        Column("reference", STRING, "Estimator that it is compared with.", nullable=False),
        Column("n_models", INT, "Number of models with a value in both.", nullable=False),
        Column("n_flipped", BIGINT, "Number of pairs of models in opposite order.", nullable=False),
        Column("n_tied", BIGINT, "Number of pairs of models that one of the two does not order.", nullable=False),
        Column("kendall", DOUBLE, "Kendall's tau-b over models."),
        Column("kendall_low", DOUBLE, "Lower end of its interval over users."),
        Column("kendall_high", DOUBLE, "Upper end of its interval over users."),
        Column("kendall_error", DOUBLE, "Its standard error over models, by the jackknife."),
        Column("pearson", DOUBLE, "Pearson correlation over models."),
        Column("pearson_low", DOUBLE, "Lower end of its interval over users."),
        Column("pearson_high", DOUBLE, "Upper end of its interval over users."),
        Column("pearson_error", DOUBLE, "Its standard error over models, by the jackknife."),
        Column("confidence", DOUBLE, "Confidence level of the intervals, a share: 0.95."),
        Column("noise", DOUBLE, "Standard error of the models' values over their spread, the larger of the two."),
        Column("bias_squared", DOUBLE, "Squared mean error against the reference, corrected for noise over users."),
        Column("error_spread", DOUBLE, "Variance of the error over models, corrected for noise over users."),
        Column("baseline", STRING, "Estimator whose agreement is compared: holdout, else traditional."),
        Column("kendall_difference", DOUBLE, "kendall minus that of the baseline, over models with all three values."),
        Column("kendall_difference_p", DOUBLE, "Its two-sided p-value by the jackknife over models."),
        Column("pearson_difference", DOUBLE, "pearson minus that of the baseline, over the same models."),
        Column("steiger_t", DOUBLE, "Steiger's statistic (Williams' T2) of pearson_difference."),
        Column("steiger_p", DOUBLE, "Its two-sided p-value."),
        Column("steiger_p_one_sided", DOUBLE, "Its one-sided p-value."),
        Column("steiger_kendall_p", DOUBLE, "Two-sided p-value of Steiger's test applied to kendall: far too large."),
        Column("steiger_kendall_p_one_sided", DOUBLE, "The one-sided p-value of the same, as [simpson] reports it."),
        Column("reason", STRING, "Why there is no correlation; NULL if there is."),
        Column("interval_reason", STRING, "Why there is no interval over users; NULL if there is."),
        Column("remark", STRING, "What else to know of the agreement; NULL if nothing."),
        Column(
            "n_users",
            BIGINT,
            "Number of users with labelled pairs that the estimator rests on. Where it is not that of the reference "
            "and of both, the two rest on different users; NULL in a run with one label set.",
        ),
        Column("n_reference_users", BIGINT, "Number of users with labelled pairs that the reference rests on."),
        Column("n_shared_users", BIGINT, "Number of users on both sides."),
    ),
    key=("run_id", "estimator", "metric", "k", "reference"),
    rules=(
        "kendall IS NULL OR (kendall >= -1 AND kendall <= 1)",
        "pearson IS NULL OR (pearson >= -1 AND pearson <= 1)",
        "reason IS NOT NULL OR (pearson IS NOT NULL AND kendall IS NOT NULL)",
        "kendall_low IS NOT NULL OR reason IS NOT NULL OR interval_reason IS NOT NULL",
        "estimator != reference",
    ),
)
USER_METRICS = Table(
    name="user_metrics",
    about="The terms of every user who is counted, on request (evaluate.user_metrics): an estimate is the sum of "
    "numerators over the sum of denominators.",
    columns=(
        RUN_ID,
        MODEL,
        Column("user_id", ID, "User.", nullable=False),
        ESTIMATOR,
        METRIC,
        K,
        Column("numerator", DOUBLE, "The user's numerator; NULL if it cannot be known."),
        Column("denominator", DOUBLE, "The user's denominator."),
    ),
    key=("run_id", "model", "user_id", "estimator", "metric", "k"),
    rules=("denominator > 0",),
    partitions=("run_id", "model"),
)
QUALITY = Table(
    name="quality",
    about="Number of input rows that broke a rule, one of them, and what was done; and the result of each check of the "
    "random exposures (docs/checks.md).",
    columns=(
        RUN_ID,
        Column("table", STRING, "Input table.", nullable=False),
        Column("rule", STRING, "Rule that rows broke, or check of the table.", nullable=False),
        Column("n_rows", BIGINT, "Number of rows that broke the rule, or that the check read."),
        Column("example", STRING, "One of the rows, or the check's figures in a sentence."),
        Column("action", STRING, "What was done with the rows."),
        Column("verdict", STRING, "Result of a check: pass, warn, fail, not applicable; NULL for a rule."),
        Column("statistic", DOUBLE, "Test statistic of a check."),
        Column("p", DOUBLE, "p-value of a check."),
    ),
    key=("run_id", "table", "rule"),
    rules=(
        "n_rows >= 0",
        "verdict IS NULL OR verdict IN ('pass', 'warn', 'fail', 'not applicable')",
        "p IS NULL OR (p >= 0 AND p <= 1)",
    ),
)
QUARANTINE = Table(
    name="quarantine",
    about="The rows themselves that on_bad_rows: quarantine kept out of the run.",
    columns=(
        RUN_ID,
        Column("table", STRING, "Input table.", nullable=False),
        Column("rule", STRING, "Rule that the row broke.", nullable=False),
        Column("row", STRING, "The row as JSON."),
    ),
    key=("run_id", "table", "rule", "row"),
)
RUNS = Table(
    name="runs",
    about="Each stage of each run: config, versions of software and inputs, time taken, how it ended.",
    columns=(
        RUN_ID,
        Column("stage", STRING, "Name of the stage.", nullable=False),
        Column("status", STRING, "running, done or failed.", nullable=False),
        Column("started_at", TIMESTAMP, "Time of the start, UTC."),
        Column("seconds", DOUBLE, "Time taken, in seconds; NULL while it runs."),
        Column("config", STRING, "Config of the run as JSON, without secrets."),
        Column("versions", Map(STRING, STRING), "Version of each piece of software."),
        Column("inputs", Map(STRING, STRING), "Version or fingerprint of each table that was read."),
        Column("error", STRING, "Why it failed; NULL if it did not."),
        Column("process", STRING, "Id of the process that ran it: hash of machine and boot, number, start."),
        Column("outputs", Map(STRING, STRING), "Fingerprint of each table that was written, where one is kept."),
    ),
    key=("run_id", "stage"),
    rules=("status IN ('running', 'done', 'failed')",),
    partitions=("run_id", "stage"),
)
TRIALS = Table(
    name="trials",
    about="Each model that a run trained: its spec, how training ended, and its result on held-out pairs.",
    columns=(
        RUN_ID,
        MODEL,
        Column("kind", STRING, "Kind of model.", nullable=False),
        Column("spec", STRING, "Its spec as JSON.", nullable=False),
        Column("status", STRING, "done or failed.", nullable=False),
        Column(
            "stop_on",
            STRING,
            "What training stopped on: loss, recall@K, ndcg@K, random_auc, or bqs(METRIC) of an ensemble with "
            "maximise: bqs.",
        ),
        Column(
            "held_out",
            DOUBLE,
            "Result of the best epoch on held-out pairs, in units of stop_on; a loss without weights and penalties; of "
            "an ensemble its own result, not that of base.",
        ),
        Column("train_loss", DOUBLE, "Training loss of the last epoch."),
        Column("epochs", INT, "Number of epochs trained."),
        Column("best_epoch", INT, "Number of the epoch with the best result on held-out pairs."),
        Column("seconds", DOUBLE, "Time taken, in seconds; NULL if the model was there already."),
        Column("inputs", STRING, "Fingerprint of spec and training data."),
        Column("error", STRING, "Why training failed; NULL if it did not."),
        Column(
            "better", STRING, "higher or lower: which values of held_out are better; NULL in rows of older versions."
        ),
    ),
    key=("run_id", "model"),
    rules=("status IN ('done', 'failed')", "epochs IS NULL OR best_epoch <= epochs"),
    partitions=("run_id", "model"),
)
AGREEMENT = Table(
    name="agreement",
    about="How far each scheme agrees with true recall at truth_k over the run's models, with exposures drawn from the "
    "truth (docs/study.md).",
    columns=(
        RUN_ID,
        Column("scheme", STRING, "traditional, ure_macro or ure_micro.", nullable=False),
        Column("exposures", INT, "Exposures drawn per user.", nullable=False),
        Column("k", INT, "Cutoff of the scheme, in items.", nullable=False),
        Column("truth_k", INT, "Cutoff of true recall, in items.", nullable=False),
        Column(
            "predicted_k",
            DOUBLE,
            "The truth_k of highest agreement by theory, in items: k N / exposures for traditional, k for URE.",
            nullable=False,
        ),
        Column("n_models", INT, "Number of models.", nullable=False),
        Column("n_flipped", INT, "Number of pairs of models in the wrong order.", nullable=False),
        Column("pearson", DOUBLE, "Pearson correlation with true recall over models."),
        Column("kendall", DOUBLE, "Kendall correlation with true recall over models."),
        Column("pearson_max", BOOLEAN, "Whether pearson is the highest over truth_k.", nullable=False),
        Column("kendall_max", BOOLEAN, "Whether kendall is the highest over truth_k.", nullable=False),
        Column("reason", STRING, "Why there is no correlation; NULL if there is."),
    ),
    key=("run_id", "scheme", "exposures", "k", "truth_k"),
    rules=(
        "scheme IN ('traditional', 'ure_macro', 'ure_micro')",
        "pearson IS NULL OR (pearson >= -1 AND pearson <= 1)",
        "kendall IS NULL OR (kendall >= -1 AND kendall <= 1)",
        "reason IS NOT NULL OR (pearson IS NOT NULL AND kendall IS NOT NULL)",
    ),
)
STUDY_ESTIMATES = Table(
    name="study_estimates",
    about="Recall of each model by each scheme of a study: over all candidates (full, which is the truth; ure_macro, "
    "ure_micro), or among the drawn ones (traditional).",
    columns=(
        RUN_ID,
        MODEL,
        Column("scheme", STRING, "full, traditional, ure_macro or ure_micro.", nullable=False),
        Column("exposures", INT, "Exposures drawn per user; NULL for full."),
        Column("k", INT, "Cutoff, in items.", nullable=False),
        Column("value", DOUBLE, "Recall."),
        Column("standard_error", DOUBLE, "Its standard error over users."),
        Column("low", DOUBLE, "Lower end of its interval."),
        Column("high", DOUBLE, "Upper end of its interval."),
        Column("confidence", DOUBLE, "Confidence level of the interval, a share: 0.95."),
        Column("n_users", BIGINT, "Number of users that the value covers."),
        Column("n_left_out", BIGINT, "Number of users that it does not cover."),
        Column("n_unknown", BIGINT, "Number of covered users whose value cannot be known."),
    ),
    key=("run_id", "model", "scheme", "exposures", "k"),
    rules=("scheme IN ('full', 'traditional', 'ure_macro', 'ure_micro')", "(scheme = 'full') = (exposures IS NULL)"),
)
MERGES = Table(
    name="merges",
    about="The runs that a run was added up from (docs/gates.md).",
    columns=(
        RUN_ID,
        Column("part", STRING, "Run that was added.", nullable=False),
        Column("day", STRING, "Day in its run_id; NULL if there is none."),
        Column("first_day", STRING, "First day that the window may hold; NULL for runs that were named one by one."),
        Column("evaluated_at", TIMESTAMP, "Time at which the evaluation of the part started, UTC.", nullable=False),
    ),
    key=("run_id", "part"),
)
GATES = Table(
    name="gates",
    about="What each gate of a run found (docs/gates.md). A run all of whose gates passed is approved: later runs may "
    "be compared with it.",
    columns=(
        RUN_ID,
        Column("gate", STRING, "Name of the gate.", nullable=False),
        Column("kind", STRING, "estimate, change, comparison, quality or reversal.", nullable=False),
        Column("status", STRING, "pass, warn (failed, with on_fail: warn) or fail.", nullable=False),
        Column("observed", DOUBLE, "What it observed; NULL if that is undefined, and then the message says why."),
        Column("threshold", DOUBLE, "The bound that it was held against; NULL where a verdict is."),
        Column("low", DOUBLE, "Lower bound of what was observed, at the confidence."),
        Column("high", DOUBLE, "Upper bound, at the confidence."),
        Column("confidence", DOUBLE, "Confidence of each of the two bounds, a share: 0.95."),
        Column("baseline", STRING, "Run that it was compared with; NULL if it was with none."),
        Column("message", STRING, "What was found, in a sentence.", nullable=False),
    ),
    key=("run_id", "gate"),
    rules=("status IN ('pass', 'warn', 'fail')",),
)
PROPENSITIES = Table(
    name="propensities",
    about="The items of the catalogue: how often each was logged, and its propensity (docs/propensities.md).",
    columns=(
        RUN_ID,
        Column("item_id", ID, "Item.", nullable=False),
        Column("count", BIGINT, "Number of logged pairs that were counted, of any label.", nullable=False),
        Column("heldout", BIGINT, "Number of held-out pairs.", nullable=False),
        Column(
            "propensity",
            DOUBLE,
            "Chance of the item to be logged, scaled to at most 1; NULL for an item that was never logged, and where "
            "propensities are of pairs.",
        ),
        Column("logit", DOUBLE, "Of method logistic: the item's part of the logit, with the intercept; else NULL."),
    ),
    key=("run_id", "item_id"),
    rules=(
        "count >= 0",
        "heldout >= 0",
        "propensity IS NULL OR (propensity > 0 AND propensity <= 1)",
        "logit IS NULL OR NOT isnan(logit)",
    ),
)
STRATA = Table(
    name="strata",
    about="The strata of propensity of a run: each is a slice `strata=stratum` of estimates and comparisons from "
    "held-out pairs.",
    columns=(
        RUN_ID,
        Column("strata", STRING, "Kind and number of strata: propensity_equal_count_5.", nullable=False),
        Column("stratum", STRING, "Q1 holds the least propensities.", nullable=False),
        Column("low", DOUBLE, "Least propensity of its test pairs; NULL without any."),
        Column("high", DOUBLE, "Largest propensity of its test pairs."),
        Column(
            "n_items",
            BIGINT,
            "Number of items: with a propensity in it, where propensities are of items; else with a held-out pair in "
            "it, so that an item may be in several strata.",
            nullable=False,
        ),
        Column("n_pairs", BIGINT, "Number of held-out pairs, of any label.", nullable=False),
        Column("inverse_propensity", DOUBLE, "Sum of 1 / propensity over these pairs.", nullable=False),
    ),
    key=("run_id", "strata", "stratum"),
    rules=("n_items >= 0", "n_pairs >= 0"),
)
PROPENSITY_USERS = Table(
    name="propensity_users",
    about="Of method logistic: the users' part of the logit. The propensity of a pair is 1 / (1 + exp(-(logit of the "
    "item + logit of the user))).",
    columns=(
        RUN_ID,
        Column("user_id", ID, "User.", nullable=False),
        Column("logit", DOUBLE, "The user's part of the logit.", nullable=False),
    ),
    key=("run_id", "user_id"),
    rules=("NOT isnan(logit)",),
)
PROPENSITY_FITS = Table(
    name="propensity_fits",
    about="How the propensities of a run were made, and how good they are: one row per run (docs/propensities.md).",
    columns=(
        RUN_ID,
        Column("method", STRING, "power, power_legacy, naive_bayes, logistic or logged.", nullable=False),
        Column("n_items", BIGINT, "Number of items of the catalogue.", nullable=False),
        Column("n_unseen", BIGINT, "Number of these without a counted pair: they have no propensity.", nullable=False),
        Column("n_users", BIGINT, "Number of users with a logged pair.", nullable=False),
        Column("n_cold_users", BIGINT, "Number of these with held-out pairs and no training pair. Their pairs count."),
        Column("n_pairs", BIGINT, "Number of logged pairs, trained or held out.", nullable=False),
        Column("n_heldout", BIGINT, "Number of held-out pairs.", nullable=False),
        Column("n_unseen_pairs", BIGINT, "Number of held-out pairs whose item has a count of 0 (unseen: once)."),
        Column("n_bad_rows", BIGINT, "Number of rows that broke a rule and count nowhere.", nullable=False),
        Column("alpha", DOUBLE, "Exponent of the power law of counts; NULL for other methods."),
        Column("xmin", BIGINT, "Least count from which the power law holds."),
        Column("ks", DOUBLE, "Distance of counts from the power law, 0 to 1; NULL if it was given."),
        Column("n_tail", BIGINT, "Number of items with a count of xmin or more; NULL if it was given."),
        Column("gamma", DOUBLE, "Of method power: p ~ count^((gamma + 1) / 2)."),
        Column("by_value", Map(DOUBLE, DOUBLE), "Of method naive_bayes: propensity of each rating value."),
        Column("coefficients", Map(STRING, DOUBLE), "Of method logistic: coefficient of each feature, and intercept."),
        Column("least", DOUBLE, "Least propensity of a held-out pair."),
        Column("largest", DOUBLE, "Largest propensity of a held-out pair."),
        Column("floor", DOUBLE, "Floor of the estimator `clipped`.", nullable=False),
        Column("share_below_floor", DOUBLE, "Share of the held-out pairs with a propensity below the floor."),
        Column("n_random_positives", BIGINT, "Number of randomly exposed positives."),
        Column("distance_heldout", DOUBLE, "Distance of held-out from random positives over groups, before weighting."),
        Column("distance_weighted", DOUBLE, "The same distance of held-out positives weighted by 1/propensity."),
        Column("distance_noise", DOUBLE, "The distance that right propensities give by chance, on average."),
        Column("remark", STRING, "What makes the propensities doubtful; NULL if nothing was found."),
    ),
    key=("run_id",),
    rules=("method IN ('power', 'power_legacy', 'naive_bayes', 'logistic', 'logged')",),
)
PROPENSITY_CALIBRATION = Table(
    name="propensity_calibration",
    about="Propensities against random exposure: shares of the positives in groups of items by their training pairs. "
    "weighted_share is close to random_share if the propensities are right (docs/propensities.md).",
    columns=(
        RUN_ID,
        Column("group", INT, "Group of items, from the least trained on; 0: without training pairs.", nullable=False),
        Column("trained_low", BIGINT, "Least number of training pairs of an item."),
        Column("trained_high", BIGINT, "Largest number of training pairs of an item."),
        Column("n_items", BIGINT, "Number of items."),
        Column("heldout", BIGINT, "Number of held-out pairs."),
        Column("positives", BIGINT, "Number of held-out positives."),
        Column("random_positives", BIGINT, "Number of randomly exposed positives."),
        Column("heldout_share", DOUBLE, "Share of the held-out positives."),
        Column("weighted_share", DOUBLE, "Share of the held-out positives, weighted by 1/propensity."),
        Column("random_share", DOUBLE, "Share of the randomly exposed positives; NULL if there are none."),
    ),
    key=("run_id", "group"),
    rules=("n_items >= 0",),
)
POPULARITY = Table(
    name="popularity",
    about="The items of the catalogue: how often each was trained on as a positive, and its popularity class "
    "(docs/popularity.md).",
    columns=(
        RUN_ID,
        Column("item_id", ID, "Item.", nullable=False),
        Column("count", BIGINT, "Number of training pairs of the item that are positives.", nullable=False),
        Column("class", STRING, "unseen (count 0), low, middle or high.", nullable=False),
    ),
    key=("run_id", "item_id"),
    rules=("count >= 0", "class IN ('unseen', 'low', 'middle', 'high')", "(class = 'unseen') = (count = 0)"),
)
POPULARITY_CLASSES = Table(
    name="popularity_classes",
    about="How the popularity classes of a run were made: one row per run (docs/popularity.md).",
    columns=(
        RUN_ID,
        Column("method", STRING, "elbow, elbow_log, share or quantile.", nullable=False),
        Column("used", STRING, "The method that was used: quantile, where the curve has no elbows.", nullable=False),
        Column("low_at_most", DOUBLE, "Class low: items with at most this count, and at least 1.", nullable=False),
        Column("high_above", DOUBLE, "Class high: items with a larger count.", nullable=False),
        Column("n_users", BIGINT, "Number of users with a training positive.", nullable=False),
        Column("n_items", BIGINT, "Number of items of the catalogue.", nullable=False),
        Column("n_unseen", BIGINT, "Number of items without a training positive.", nullable=False),
        Column("n_low", BIGINT, "Number of items of class low.", nullable=False),
        Column("n_middle", BIGINT, "Number of items of class middle.", nullable=False),
        Column("n_high", BIGINT, "Number of items of class high.", nullable=False),
        Column("n_low_least", BIGINT, "Smallest class low over nearby smoothing windows; NULL without elbows."),
        Column("n_low_most", BIGINT, "Largest class low over these."),
        Column("n_high_least", BIGINT, "Smallest class high over these."),
        Column("n_high_most", BIGINT, "Largest class high over these."),
        Column("fragile", BOOLEAN, "Whether low or high changes by more than a quarter over these.", nullable=False),
        Column("reason", STRING, "Why another method was used than the one asked for; NULL if it was not."),
        Column("remark", STRING, "What makes the classes doubtful; NULL if nothing was found."),
        Column("n_bad_rows", BIGINT, "Number of training pairs that broke a rule and count nowhere.", nullable=False),
        Column("counts", Map(BIGINT, BIGINT), "Number of items by count: the curve.", nullable=False),
    ),
    key=("run_id",),
    rules=(
        "used IN ('elbow', 'elbow_log', 'share', 'quantile')",
        "low_at_most <= high_above",
        "n_unseen + n_low + n_middle + n_high = n_items",
    ),
)
BQS = Table(
    name="bqs",
    about="The balanced quality score of debiased models against their baselines: per repeat, and the mean over "
    "repeats (docs/popularity.md).",
    columns=(
        RUN_ID,
        ESTIMATOR,
        METRIC,
        K,
        Column("slice", STRING, "Group that should gain, such as 'popularity=low'.", nullable=False),
        Column("baseline", STRING, "Name of the model without debiasing, without #repeat.", nullable=False),
        Column("debiased", STRING, "Name of the debiased model, without #repeat.", nullable=False),
        Column("repeat", INT, "Number of the repeat; 0: the mean over repeats, or a run without.", nullable=False),
        Column("value", DOUBLE, "Score: 0.5 of a baseline against itself, at most 0.881; NULL where undefined."),
        Column("low", DOUBLE, "Lower end of the interval over users."),
        Column("high", DOUBLE, "Upper end."),
        Column("confidence", DOUBLE, "Confidence of the interval."),
        Column("repeats_sd", DOUBLE, "Standard deviation over repeats; NULL for one repeat."),
        Column("n_repeats", INT, "Number of repeats in the row.", nullable=False),
        Column("quality", DOUBLE, "Quality of the debiased model over everything."),
        Column("baseline_quality", DOUBLE, "Quality of the baseline."),
        Column("group_quality", DOUBLE, "Quality of the debiased model in the group."),
        Column("baseline_group_quality", DOUBLE, "Quality of the baseline in the group."),
        Column("gain", DOUBLE, "quality - baseline_quality."),
        Column("group_gain", DOUBLE, "group_quality - baseline_group_quality."),
        Column("a", DOUBLE, "How much a loss is punished.", nullable=False),
        Column("anova_p", DOUBLE, "p-value that techniques of the baseline do not differ, with repeats as blocks."),
        Column("anova_p_holm", DOUBLE, "The same, adjusted for all tables of the run."),
        Column("place", STRING, "best or second among the baseline's techniques, if these differ; else NULL."),
        Column("reason", STRING, "Why there is no value; NULL if there is one."),
    ),
    key=("run_id", "estimator", "metric", "k", "slice", "baseline", "debiased", "repeat"),
    rules=("value IS NULL OR (value >= 0 AND value <= 1)", "repeat >= 0", "place IN ('best', 'second')"),
)

TEST_SETS = Table(
    name="test_sets",
    about="The test sets of a run, a row for each draw: its rule, how many pairs it has, and how far its marginals are "
    "from uniform and from the random exposures, before and after (docs/estimators.md).",
    columns=(
        RUN_ID,
        Column("name", STRING, "Name of the test set; estimates have it as test_set(name).", nullable=False),
        Column("draw", INT, "Number of the draw, from 0.", nullable=False),
        Column("strategy", STRING, "FULL, REG, SKEW, WTD, WTD_H or CAP.", nullable=False),
        Column("rule", STRING, "Which pairs are in the set.", nullable=False),
        Column("share", DOUBLE, "Share of the held-out pairs that is drawn; NULL for FULL and CAP."),
        Column("exponent", DOUBLE, "Exponent of w_i; NULL for others than WTD and WTD_H."),
        Column("zero_support", STRING, "Policy for users and items without support; NULL where weights are equal."),
        Column("seed", BIGINT, "Seed of the draw: of xxhash64(seed, user_id, item_id).", nullable=False),
        Column("n_pairs", BIGINT, "Number of held-out pairs that it is drawn from.", nullable=False),
        Column("size", BIGINT, "Number of pairs in the set.", nullable=False),
        Column("threshold", DOUBLE, "Key log(U) / w of the last pair that is in the set; NULL for FULL and CAP."),
        Column("threshold_hash", STRING, "Its hash, an unsigned whole number; equal keys with a smaller one are in."),
        Column("cap", BIGINT, "Of CAP: the most pairs of an item."),
        Column("weight_low", DOUBLE, "Least weight of a pair that can be drawn."),
        Column("weight_high", DOUBLE, "Largest weight."),
        Column("weight_mean", DOUBLE, "Mean weight of the pairs that can be drawn."),
        Column("effective_pairs", DOUBLE, "(sum w)^2 / sum w^2 of these weights, in pairs."),
        Column("n_drawable", BIGINT, "Number of pairs with a weight above 0.", nullable=False),
        Column("n_without_support", BIGINT, "Number of pairs whose user or item has no support.", nullable=False),
        Column(
            "n_bad_rows", BIGINT, "Number of rows of the inputs that broke a rule and count nowhere.", nullable=False
        ),
        Column("n_users", BIGINT, "Number of users with a pair in feedback, heldout or exposures.", nullable=False),
        Column("n_items", BIGINT, "Number of items of the catalogue.", nullable=False),
        Column("n_trained", BIGINT, "Number of training pairs.", nullable=False),
        Column("n_random", BIGINT, "Number of random exposures; 0 without any.", nullable=False),
        Column(
            "users_uniform_before", DOUBLE, "Total variation of the users' shares of all held-out pairs from uniform."
        ),
        Column("users_uniform", DOUBLE, "The same of the pairs in the set."),
        Column(
            "users_random_before", DOUBLE, "Total variation from the users' shares of the random exposures, before."
        ),
        Column("users_random", DOUBLE, "The same of the pairs in the set."),
        Column(
            "items_uniform_before", DOUBLE, "Total variation of the items' shares of all held-out pairs from uniform."
        ),
        Column("items_uniform", DOUBLE, "The same of the pairs in the set."),
        Column(
            "items_random_before", DOUBLE, "Total variation from the items' shares of the random exposures, before."
        ),
        Column("items_random", DOUBLE, "The same of the pairs in the set."),
    ),
    key=("run_id", "name", "draw"),
    rules=(
        "strategy IN ('FULL', 'REG', 'SKEW', 'WTD', 'WTD_H', 'CAP')",
        "size >= 0 AND size <= n_pairs",
        "threshold IS NULL OR threshold < 0",
        "users_uniform IS NULL OR (users_uniform >= 0 AND users_uniform <= 1)",
        "items_uniform IS NULL OR (items_uniform >= 0 AND items_uniform <= 1)",
    ),
)
TEST_SET_USERS = Table(
    name="test_set_users",
    about="What the weights of test sets follow from: how many pairs each user has. Users with a pair in any table.",
    columns=(
        RUN_ID,
        Column("user_id", ID, "User.", nullable=False),
        Column("trained", BIGINT, "Number of training pairs.", nullable=False),
        Column("heldout", BIGINT, "Number of held-out pairs.", nullable=False),
        Column("random", BIGINT, "Number of random exposures.", nullable=False),
    ),
    key=("run_id", "user_id"),
    rules=("trained >= 0", "heldout >= 0", "random >= 0"),
)
TEST_SET_ITEMS = Table(
    name="test_set_items",
    about="The same of each item of the catalogue, and which of its pairs a cap keeps.",
    columns=(
        RUN_ID,
        Column("item_id", ID, "Item.", nullable=False),
        Column("trained", BIGINT, "Number of training pairs.", nullable=False),
        Column("heldout", BIGINT, "Number of held-out pairs.", nullable=False),
        Column("random", BIGINT, "Number of random exposures.", nullable=False),
        Column(
            "caps",
            Map(STRING, BIGINT),
            "Of items beyond the cap, by name.draw of each CAP: hash of the last pair that is kept, sign bit flipped.",
        ),
    ),
    key=("run_id", "item_id"),
    rules=("trained >= 0", "heldout >= 0", "random >= 0"),
)
TEST_SET_PAIRS = Table(
    name="test_set_pairs",
    about="The pairs of test sets, on request (test_sets: pairs).",
    columns=(
        RUN_ID,
        Column("name", STRING, "Name of the test set.", nullable=False),
        Column("draw", INT, "Number of the draw, from 0.", nullable=False),
        Column("user_id", ID, "User.", nullable=False),
        Column("item_id", ID, "Item.", nullable=False),
    ),
    key=("run_id", "name", "draw", "user_id", "item_id"),
)
EXPOSURE_PLAN = Table(
    name="exposure_plan",
    about="What to show at random to whom, and with what probability each item is shown (docs/design.md). Items stand "
    "in random order.",
    columns=(
        RUN_ID,
        Column("user_id", ID, "User.", nullable=False),
        Column("items", List(ID), "Items to be shown, each once."),
        Column("probabilities", List(DOUBLE), "Probability of each item to be shown by either arm."),
        Column("in_uniform", List(BOOLEAN), "Whether each was drawn uniformly from the user's frame (arm U)."),
        Column("in_targeted", List(BOOLEAN), "Whether each was drawn from the models' top lists (arm T)."),
        Column("candidates", INT, "Number of items of the user's frame."),
        Column("listed", INT, "Number of items in the top of any model's list, up to the largest cutoff."),
        Column("in_lists", DOUBLE, "Expected number of shown items that are among these."),
        Column("alike", BOOLEAN, "Whether all models have the same list."),
    ),
    key=("run_id", "user_id"),
    rules=(
        "size(probabilities) = size(items) AND size(in_uniform) = size(items) AND size(in_targeted) = size(items)",
        "coalesce(array_min(probabilities), 1) > 0 AND coalesce(array_max(probabilities), 1) <= 1",
        "listed <= candidates",
    ),
)
DESIGN_STUDY = Table(
    name="design_study",
    about="How well the difference of two close models is estimated under a way to expose, in simulations "
    "(docs/design.md).",
    columns=(
        RUN_ID,
        Column("items", INT, "Number of items, N.", nullable=False),
        Column("models", INT, "Number of models whose lists a plan is made of, M.", nullable=False),
        Column("apart", DOUBLE, "Standard deviation of each close model's own noise.", nullable=False),
        Column("exposures", INT, "Items shown to each user, e.", nullable=False),
        Column("k", INT, "Cutoff, in items.", nullable=False),
        Column("plan", STRING, "uniform, half, fifth or pair.", nullable=False),
        Column("uniform", INT, "Exposures of arm U, e1.", nullable=False),
        METRIC,
        Column("known_sizes", BOOLEAN, "Whether sizes that are known are taken as known.", nullable=False),
        Column("n_users", INT, "Users of a draw.", nullable=False),
        Column("n_draws", INT, "Number of draws.", nullable=False),
        Column("n_undefined", INT, "Draws without an interval, which no other column covers.", nullable=False),
        Column("truth", DOUBLE, "The difference over the whole population.", nullable=False),
        Column("bias", DOUBLE, "Mean estimate less the truth."),
        Column("variance", DOUBLE, "Variance of the estimate over draws."),
        Column("se_ratio", DOUBLE, "Root of the mean squared standard error, over the standard deviation over draws."),
        Column("coverage", DOUBLE, "Share of the 95 % intervals that contain the truth."),
        Column("share_listed", DOUBLE, "Share of the items that arm T may show, mean over users; NULL for uniform."),
        Column("gain", DOUBLE, "Variance of the plain estimate under uniform exposure, over this variance."),
        Column("predicted_gain", DOUBLE, "The gain that the rule predicts; NULL for uniform."),
    ),
    key=("run_id", "items", "models", "apart", "exposures", "k", "plan", "metric", "known_sizes"),
    rules=(
        "plan IN ('uniform', 'half', 'fifth', 'pair')",
        "coverage IS NULL OR (coverage >= 0 AND coverage <= 1)",
        "uniform <= exposures AND n_undefined <= n_draws",
        "(plan = 'uniform') = (predicted_gain IS NULL)",
    ),
)

TABLES = (
    CATALOGUE,
    RANKS,
    STATISTICS,
    ESTIMATES,
    COMPARISONS,
    REVERSALS,
    ESTIMATOR_AGREEMENT,
    USER_METRICS,
    QUALITY,
    QUARANTINE,
    RUNS,
    TRIALS,
    MERGES,
    GATES,
    AGREEMENT,
    STUDY_ESTIMATES,
    DESIGN_STUDY,
    STRATA,
    PROPENSITIES,
    PROPENSITY_USERS,
    PROPENSITY_FITS,
    PROPENSITY_CALIBRATION,
    POPULARITY,
    POPULARITY_CLASSES,
    BQS,
    TEST_SETS,
    TEST_SET_USERS,
    TEST_SET_ITEMS,
    TEST_SET_PAIRS,
    EXPOSURE_PLAN,
)


def as_markdown() -> str:
    """The page docs/tables.md."""
    head = (
        "# Tables\n\n"
        "Every table that a run writes to the lake, as Delta. `python -m eval_engine.tables` prints this page.\n\n"
        "`ID` is BIGINT or STRING, the same in every table of a lake. A run replaces its own rows only.\n"
        "Rules are CHECK constraints.\n"
    )
    return "\n".join([head, *map(_section, TABLES)])


def _section(table: Table) -> str:
    """One table of the page."""
    rows = [
        f"| `{path}` | `{column.type.sql('ID') if not isinstance(column.type, Struct) else 'STRUCT'}` "
        f"| {'' if column.nullable else 'no'} | {column.about} |"
        for top in table.columns
        for path, column in top.paths()
    ]
    rules = [f"* `{rule}`" for rule in table.rules]
    lines = [
        f"## {table.name}",
        "",
        fill(table.about, 120),
        "",
        f"Key: {', '.join(table.key)}. Partitions: {', '.join(table.partitions)}.",
        "",
        "| column | type | NULL | holds |",
        "|---|---|---|---|",
        *rows,
        *(["", "Rules:", "", *rules] if rules else []),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(as_markdown(), end="")
