"""Is the random data random? Verdicts about the random exposures, as rows of the quality table.

    uniform_exposure      exposures per item, compared with uniform drawing from the declared frame
                          (statistics/uniformity.py)
    overlap               exposures that are logged pairs too: none with frame unseen; with all_items, as many as
                          independent drawing gives
    probability_sums      the sum of 1 / exposure_probability over a user's exposures, compared with the user's number
                          of candidates (probability_sums.py)
    score_coverage        share of users with exposures that every model scored
    positives_per_user    share of users with a positive among their exposures

The counts are made while labels and scores are joined (ranking/exposure_counts.py); one more job adds up the counts per
item. Only sums over users, and a few items per block of the catalogue, reach the driver, whatever the number of users,
items and models. A test fails if its p-value is below `level`. The verdict does not depend on the partitioning; figures
are kept to 6 digits. docs/checks.md has the remedies.
"""

import math
from fractions import Fraction
from typing import NamedTuple

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from eval_engine.errors import DataError
from eval_engine.quality.check_words import MEANING, REMEDY
from eval_engine.quality.probability_sums import FARTHEST, frame_sum
from eval_engine.quality.quality_row import QualityRow
from eval_engine.ranking.exposure_counts import UNIT, WORST, BadItem, add_blocks, block_size, from_json, sums_of
from eval_engine.ranking.rank import Assembled
from eval_engine.statistics.exposure_moments import Frames, Overlap
from eval_engine.statistics.uniformity import both, chi_square, overlap_p, rounded, two_sided

PASS, WARN, FAIL, NOT_APPLICABLE = "pass", "warn", "fail", "not applicable"
REPORTED, STOPPED = "reported", "stopped"
STOPS = {"nothing": (), "fail": (FAIL,), "warn": (FAIL, WARN)}  # verdicts that stop a run, by checks.stop_on
FEW_USERS = 30  # with a positive, or with exposures: with fewer, intervals are too narrow
BY_PROBABILITY = "exposures have an exposure_probability each, so they need not be drawn uniformly."


class Items(NamedTuple):
    """Sums over all items for the test of uniformity."""

    n_items: int  # that can be drawn
    squares: float
    dd: float
    ddd: float
    worst: list[BadItem]


def exposure_checks(
    spark: SparkSession, assembled: Assembled, frame: str, has_feedback: bool, level: float
) -> list[QualityRow]:
    """The verdicts; runs at most one Spark job. A run without random exposures has nothing to check."""
    if "random" not in assembled.ranking.label_sets:
        rules = (("exposures", "uniform_exposure"), ("exposures", "overlap"), ("scores", "score_coverage"))
        return [
            QualityRow(table, rule, 0, "Not tested: the run has no random exposures.", REPORTED, NOT_APPLICABLE)
            for table, rule in (*rules, ("exposures", "positives_per_user"), ("exposures", "probability_sums"))
        ]
    return [
        _uniform(spark, assembled, frame, level),
        _overlap(assembled, frame, has_feedback, level),
        _coverage(assembled.facts.exposed),
        _positives(assembled.facts.exposed),
        _probabilities(assembled),
    ]


def stopping(rows: list[QualityRow], stop_on: str) -> list[QualityRow]:
    """The same rows, with action "stopped" for those that stop the run."""
    return [row._replace(action=STOPPED) if row.verdict in STOPS[stop_on] else row for row in rows]


def refuse(rows: list[QualityRow]) -> DataError:
    """The error of a run that is stopped by these rows."""
    verdicts = " ".join(
        f"{row.table}: the check {row.rule} says {row.verdict}: {row.example} {MEANING[row.rule]} {REMEDY[row.rule]}."
        for row in rows
    )
    return DataError(f"{verdicts} The quality table has the figures. Or set checks.stop_on: nothing to go on.")


def _uniform(spark: SparkSession, assembled: Assembled, frame: str, level: float) -> QualityRow:
    exposed = assembled.facts.exposed
    n = exposed.get("n_exposures", 0)
    if "random" in assembled.ranking.probabilities:
        return QualityRow("exposures", "uniform_exposure", n, f"Not tested: {BY_PROBABILITY}", REPORTED, NOT_APPLICABLE)
    items = add_items(spark, assembled)
    chi = chi_square(items.squares, sums_of(exposed), items.dd, items.ddd) if items.n_items else None
    of_item = [float(two_sided(item.observed, item.expected, item.events)) for item in items.worst]
    p = both(chi.p, min(of_item), items.n_items) if chi else math.nan
    if chi is None or math.isnan(p) or math.isnan(chi.p):
        sentence = "Not tested: the test needs exposures that were drawn for several users from several items."
        return QualityRow("exposures", "uniform_exposure", n, sentence, REPORTED, NOT_APPLICABLE)
    first = of_item.index(min(of_item))
    worst, failed = items.worst[first], p < level
    z = (worst.observed - worst.expected) / math.sqrt(worst.variance)
    sentence = (
        f"{items.n_items:,} items in {n:,} exposures, {'not ' if failed else ''}as uniform drawing from {frame} gives: "
        f"chi-square {chi.statistic:,.1f} with {chi.freedom:,.1f} degrees of freedom (p = {chi.p:.2g}); "
        f"the worst, item_id={worst.item_id}: {worst.observed:,} times, {worst.expected:,.1f} expected "
        f"(z = {z:+.1f}, p = {min(1.0, items.n_items * of_item[first]):.2g} as the worst of all)"
    )
    if failed:
        others = ", ".join(
            f"{item.item_id} ({item.observed:,} for {item.expected:,.1f})"
            for n, item in enumerate(items.worst)
            if n != first
        )
        spread = math.sqrt(max(0.0, items.squares - sums_of(exposed).mean) * items.n_items) / exposed["n_drawn"]
        sentence += f"; next: {others}; beyond chance, exposures per item vary by {100 * spread:.0f} %"
    return QualityRow(
        "exposures",
        "uniform_exposure",
        n,
        f"{sentence}.",
        REPORTED,
        FAIL if failed else PASS,
        rounded(chi.statistic),
        rounded(p),
    )


def add_items(spark: SparkSession, assembled: Assembled) -> Items:
    """The sums over all items, block by block; one Spark job."""
    n_blocks = -(-assembled.ranking.n_items // block_size(assembled.ranking.n_items))
    counts = assembled.rows.where("kind = 'items'").select("block", "rows")
    every_block = spark.range(0, n_blocks, 1, 1).select(
        F.col("id").alias("block"), F.lit(None).cast("binary").alias("rows")
    )  # so that items without any exposure count too
    rows = (
        counts.unionByName(every_block)
        .repartitionById(n_blocks, F.col("block").cast("int"))
        .sortWithinPartitions("block")
    )
    blocks = [
        from_json(bytes(row["block"]))
        for row in rows.mapInArrow(add_blocks(assembled.ranking, assembled.facts.exposed), "block BINARY").collect()
    ]
    worst = sorted((item for block in blocks for item in block.worst), key=lambda item: -item.deviance)[:WORST]
    squares, dd, ddd = (math.fsum(sums) for sums in zip(*(block[1:4] for block in blocks), strict=True))
    return Items(sum(block.n_items for block in blocks), squares, dd, ddd, worst)


def _overlap(assembled: Assembled, frame: str, has_feedback: bool, level: float) -> QualityRow:
    exposed = assembled.facts.exposed
    n = exposed.get("n_exposures", 0)
    if frame == "unseen":
        seen = assembled.facts.broken.get(("random", "exposed_but_seen"))
        n_seen = seen.n_rows if seen else 0
        sentence = (
            f"{n_seen:,} of {n + n_seen:,} exposures are pairs that were logged before; "
            "with frame unseen there should be none."
        )
        return QualityRow(
            "exposures", "overlap", n + n_seen, sentence, REPORTED, WARN if n_seen else PASS, float(n_seen)
        )
    by_probability = "random" in assembled.ranking.probabilities
    if by_probability or not has_feedback:
        sentence = f"Not tested: {BY_PROBABILITY if by_probability else 'there is no feedback.'}"
        return QualityRow("exposures", "overlap", n, sentence, REPORTED, NOT_APPLICABLE)
    expected = Overlap(*(exposed.get(f"overlap_{name}", 0) / UNIT for name in Overlap._fields))
    z, p = overlap_p(exposed.get("overlap", 0), expected)
    sentence = (
        f"{exposed.get('overlap', 0):,} of {n:,} exposures are logged pairs too, "
        f"where {expected.mean:,.1f} are expected of a draw from all items"
    )
    if math.isnan(p):
        return QualityRow("exposures", "overlap", n, f"{sentence}: nothing to test.", REPORTED, NOT_APPLICABLE)
    sentence += f" (z = {z:+.1f}, p = {p:.2g})"
    if p < level:
        sentence += (
            ": exposures seem to be drawn from unseen items, so frame: unseen is right"
            if z < 0
            else ": exposures follow the log, or the feedback table contains them"
        )
    return QualityRow(
        "exposures", "overlap", n, f"{sentence}.", REPORTED, FAIL if p < level else PASS, rounded(z), rounded(p)
    )


def _coverage(exposed: dict[str, int]) -> QualityRow:
    n, missing = exposed.get("n_users", 0), exposed.get("n_unscored", 0)
    share = (n - missing) / n if n else 0.0
    sentence = f"{n - missing:,} of {n:,} users with exposures were scored by every model ({100 * share:.2f} %)."
    return QualityRow("scores", "score_coverage", n, sentence, REPORTED, WARN if missing else PASS, rounded(share))


def _positives(exposed: dict[str, int]) -> QualityRow:
    n, users, liked = (exposed.get(name, 0) for name in ("n_exposures", "n_users", "n_users_positive"))
    sentence = (
        f"{liked:,} of {users:,} users with exposures have a positive among them ({100 * liked / max(users, 1):.1f} %)"
    )
    sentence += f"; {exposed.get('n_positives', 0) / max(n, 1):.4f} positives per exposed item"
    if not liked:
        sentence += ": nothing can be estimated"
    elif liked < FEW_USERS:
        sentence += f": fewer than {FEW_USERS} users, so intervals are too narrow"
    verdict = FAIL if not liked else WARN if liked < FEW_USERS else PASS
    return QualityRow(
        "exposures", "positives_per_user", n, f"{sentence}.", REPORTED, verdict, rounded(liked / max(users, 1))
    )


def _probabilities(assembled: Assembled) -> QualityRow:
    exposed = assembled.facts.exposed
    n = exposed.get("n_exposures", 0)
    users = exposed.get("n_users", 0)
    if "random" not in assembled.ranking.probabilities or users < FEW_USERS:
        why = (
            f"{users:,} users with exposures are fewer than {FEW_USERS}."
            if "random" in assembled.ranking.probabilities
            else "exposures have no exposure_probability."
        )
        return QualityRow("exposures", "probability_sums", n, f"Not tested: {why}", REPORTED, NOT_APPLICABLE)
    d, dd, ddd = (Fraction(exposed[f"frame_{name}"], int(UNIT)) for name in Frames._fields)
    found = frame_sum(users, exposed["n_users_one"], exposed["n_users_two"], (d, dd, ddd))
    sentence = (
        f"The sum of 1 / exposure_probability over a user's exposures is {1 + found.mean:.4g} times the user's number "
        f"of candidates, in the mean over {users:,} users (standard error {found.se:.2g}; "
        f"{exposed['n_candidates'] / users:,.1f} candidates a user)"
    )
    if found.off:
        cause = (
            "probabilities are too small, or of other draws"
            if found.mean > 0
            else "probabilities are too large, exposures are missing, or some candidates cannot be shown"
        )
        sentence += f", and should be 1 within {FARTHEST:.0f} standard errors: {cause}"
    return QualityRow(
        "exposures",
        "probability_sums",
        n,
        f"{sentence}.",
        REPORTED,
        FAIL if found.off else PASS,
        rounded(1 + found.mean),
    )
