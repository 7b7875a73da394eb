"""Estimate every metric of one run from its ranks.

    spark-submit jobs/evaluate.py --config conf/demo.yaml --run-id 2026-11-15

Reads ranks, the tables of `slices`, propensities and test sets. Writes statistics, estimates, comparisons, reversals,
estimator_agreement and, if asked, user_metrics (replaces this run_id only: safe to retry). Reads no scores: a change of
metrics, cutoffs, tie policy or the rule for positives needs this job only.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from rich.text import Text

from eval_engine.config import folder_name
from eval_engine.errors import ConfigError, DataError, as_operator_error
from eval_engine.estimators.registry import ESTIMATORS
from eval_engine.estimators.test_set import TEST_SET
from eval_engine.evaluation.anytime import with_sequences
from eval_engine.evaluation.bqs_rows import not_scored, with_anova
from eval_engine.evaluation.label_set_users import UsersBySets, users_by_sets
from eval_engine.evaluation.model_ranks import ModelRanks
from eval_engine.evaluation.popularity_tables import PopularityTables, popularity_tables
from eval_engine.evaluation.propensity_strata import (
    NO_STRATA,
    HeldoutPairs,
    PropensityStrata,
    strata_of_items,
    strata_of_pairs,
)
from eval_engine.evaluation.propensity_tables import OF_ITEMS, PropensityTables, propensity_tables
from eval_engine.evaluation.result_groups import InferenceSettings, described
from eval_engine.evaluation.results import RESULT_TABLES, Results, results_by_workers, results_of
from eval_engine.evaluation.slice_tables import SlicesRead, SourceTable, read_slices
from eval_engine.evaluation.spec import EvaluationSpec, Slicing, Strata
from eval_engine.evaluation.statistics_plan import (
    File,
    ranked_by_all,
    statistics,
    statistics_here,
    statistics_of_files,
    unequal_users,
    user_metrics,
)
from eval_engine.evaluation.test_set_slices import slicing_of
from eval_engine.inputs.label_sets import pair_columns
from eval_engine.inputs.read import read_input
from eval_engine.lake.lake import Lake
from eval_engine.lake.part_files import write_file
from eval_engine.plain_text import plain
from eval_engine.quality.probability_sums import TopSum, off, top_sum
from eval_engine.ranking.ranks_files import unusable_ranks
from eval_engine.spark.session import batches_by_bytes, planned_once
from eval_engine.storage.stored_file import located, open_file
from eval_engine.tables import (
    CATALOGUE,
    POPULARITY,
    POPULARITY_CLASSES,
    PROPENSITIES,
    PROPENSITY_FITS,
    PROPENSITY_USERS,
    RANKS,
    STATISTICS,
    STRATA,
    TEST_SET_ITEMS,
    TEST_SET_USERS,
    TEST_SETS,
    USER_METRICS,
)
from eval_engine.test_sets.counts import COUNTED, count_tables, stored, totals_of
from eval_engine.test_sets.rule import SetRule
from eval_engine.test_sets.settings import TestSet
from jobs.progress import spark_progress
from jobs.run_config import RunConfig
from jobs.stage import stage
from jobs.test_sets import staging

# bytes of statistics, which do not grow with users or items: up to this size they are read by one process, since
# Spark's way to them and back takes ten times as long as the work
SMALL_STATISTICS = 64 * 2**20
SMALL_BYTES = 128 * 2**20  # of ranks: below this size, starting Spark tasks takes longer than the work


def label_sets(config: RunConfig) -> tuple[str, ...]:
    """The label sets that the run's inputs contain."""
    inputs = config.inputs.model_dump()
    tables = {"random": "exposures", "heldout": "heldout", "truth": "truth", "designed": "designed"}
    return tuple(name for name, table in tables.items() if inputs.get(table))


def run(spark: SparkSession, config: RunConfig, console: Console) -> None:
    """Evaluate and write."""
    lake = Lake(spark, config.lake)
    with (
        stage(lake, config, "evaluate") as running,
        planned_once(spark),
        batches_by_bytes(spark),
        spark_progress(spark, console, "Evaluating"),
        slices_of(spark, lake, config) as (slices, propensities, popularity),
        test_sets_of(lake, config) as test_sets,
    ):
        spec = spec_of(config, slices, propensities, test_sets, popularity)
        n_items = int(popularity.row["n_items"]) if popularity else 0  # without a job
        if not n_items and (spec.lists() or slices.n_items):
            n_items = lake.read(CATALOGUE, config.run_id).count()
        users = users_by_sets(one_model(spark, lake, config.run_id), spec)
        asking = inference_of(config, n_items, items_of_slices(slices, propensities, n_items), users)
        results = _evaluate(spark, lake, config, spec, user_gaps(lake, config.run_id, running.before["rank"]), asking)
        lines = not_scored(asking.bqs, results.bqs) if asking.bqs else []
        lines += off(top_sums(lake, config.run_id), config.checks.level) if "designed" in spec.label_sets() else []
    for line in lines:
        console.print(Text(plain(line), "yellow"))


def top_sums(lake: Lake, run_id: str) -> list[TopSum]:
    """The sums of 1 / probability over the top K of each model, from designed exposures."""
    own = lake.read(STATISTICS, run_id).where(
        "estimator = 'designed_mean_known' AND metric = 'precision' AND coalesce(slice, 'all') = 'all'"
    )
    users = F.sum(F.col("n_users") + F.col("n_left_out")).alias("n")
    rows = own.groupBy("model", "k").agg(users, F.sum("b").alias("b"), F.sum("bb").alias("bb")).collect()
    return [top_sum(row["model"], row["k"], row["n"], float(row["b"]), float(row["bb"])) for row in rows]


def spec_of(
    config: RunConfig,
    slices: SlicesRead,
    propensities: PropensityTables | None = None,
    test_sets: Slicing | None = None,
    popularity: PopularityTables | None = None,
) -> EvaluationSpec:
    """The evaluation that is requested for every model."""
    asked = config.evaluate
    slicings = slices.slicings + (propensities.strata.slicings if propensities else ())
    if test_sets is not None:  # slices of items and pairs are not made of test sets too
        others = frozenset(ESTIMATORS) - {TEST_SET.name}
        slicings = (*(one._replace(estimators=one.estimators or others) for one in slicings), test_sets)
    rule = propensities.rule((*slices.item_tables, *slices.user_tables)) if propensities else None
    spec = EvaluationSpec(
        asked.metrics,
        asked.traditional,
        config.positive,
        asked.ties,
        label_sets(config),
        slicings=slicings,
        item_tables=slices.item_tables,
        user_tables=slices.user_tables,
        propensity=rule,
        strata=propensities.strata.strata if propensities else (),
        popularity=popularity.rule((*slices.item_tables, *slices.user_tables)) if popularity else None,
        known_sizes=asked.known_sizes,
    )
    _all_defined(spec)
    return spec


def _all_defined(spec: EvaluationSpec) -> None:
    """An error if the run lacks what a metric needs."""
    defined = {metric for _, metric in spec.asked()} | {metric for _, _, metric in spec.lists()}
    for metric in spec.metrics:
        needs = frozenset().union(*(kernel.needs for kernel in spec.kernels[metric.base].means.values()))
        if metric not in defined and "popularity" in needs and spec.popularity is None:
            raise ConfigError(
                f"evaluate.metrics: {metric} is of classes of popularity, so the section popularity is needed, such as "
                "popularity: {method: elbow}"
            )


def inference_of(
    config: RunConfig, n_items: int, slice_items: Mapping[str, int], users: UsersBySets
) -> InferenceSettings:
    """The settings of intervals and tests. n_items: of the catalogue."""
    asked = config.evaluate
    return InferenceSettings(
        asked.confidence,
        asked.margin,
        asked.power,
        asked.replicates,
        asked.seed,
        n_items,
        asked.least_effective_pairs,
        slice_items,
        users,
        config.bqs_rule(),
    )


def items_of_slices(slices: SlicesRead, propensities: PropensityTables | None, n_items: int) -> dict[str, int]:
    """The number of items of each slice of items and each stratum; without a value are all other items."""
    counts = dict(slices.n_items)
    for slicing in slices.slicings:
        if slicing.of == "item":
            *valued, without = slicing.names()
            counts[without] = max(0, n_items - sum(counts[name] for name in valued))
    strata = propensities.strata.rows if propensities else ()
    return counts | {f"{row['strata']}={row['stratum']}": row["n_items"] for row in strata}


def _evaluate(
    spark: SparkSession,
    lake: Lake,
    config: RunConfig,
    spec: EvaluationSpec,
    gaps: set[str],
    asking: InferenceSettings,
) -> Results:
    run_id, asked = {"run_id": config.run_id}, config.evaluate
    chosen = ranks_files(lake, config.run_id)
    if chosen and not gaps and sum(n_bytes for _, _, n_bytes in chosen) <= SMALL_BYTES:
        table = statistics_here(chosen, spec)
        lake.create(STATISTICS, "BIGINT", run_id)
        uri = lake.uri(STATISTICS)
        lake.write_files(STATISTICS, run_id, lambda attempt: [write_file(uri, table, run_id, attempt)])
        results = results_of(table, asking, described(spec))
    else:
        ranks = None if chosen and not gaps else ranked_by_all(lake.read(RANKS, config.run_id), gaps)
        plan = statistics_of_files(spark, chosen, spec) if ranks is None else statistics(ranks, spec)
        rows = lake.replace_by_workers(STATISTICS, plan.rows, plan.worker, run_id)
        written = lake.files(STATISTICS, config.run_id)
        if written and sum(file.n_bytes for file in written) <= SMALL_STATISTICS:
            table = pa.concat_tables(pq.read_table(open_file(file.path)) for file in written)
            results = results_of(table, asking, described(spec))
        else:
            results = results_by_workers(rows, asking, described(spec), with_weights=spec.with_weights())
    results = results._replace(
        estimates=with_sequences(results.estimates, asked.confidence, asked.anytime),
        bqs=with_anova(results.bqs, 1 - asked.confidence),
    )
    for result, own in zip(RESULT_TABLES, results, strict=True):
        lake.put(result, own, run_id)
    if asked.user_metrics:
        whole = replace(spec, slicings=tuple(one for one in spec.slicings if one.of != "pair"))  # no terms of test sets
        lake.replace(USER_METRICS, user_metrics(ranked_by_all(lake.read(RANKS, config.run_id), gaps), whole), run_id)
    return results


def propensities_of(lake: Lake, config: RunConfig) -> PropensityTables | None:
    """The propensities of the run, if its config has them; without strata."""
    if config.propensity is None:
        return None
    fits = lake.rows(PROPENSITY_FITS, {"run_id": config.run_id})
    if not fits or fits[0]["method"] != config.propensity.method:
        made = f"by method {fits[0]['method']}" if fits else "by no job"
        raise DataError(
            f"propensity_fits: the propensities of run_id={config.run_id} were made {made}, but the config asks for "
            f"method {config.propensity.method}. Run jobs/propensity.py with this run_id."
        )
    items, users = lake.read(PROPENSITIES, config.run_id), lake.read(PROPENSITY_USERS, config.run_id)
    return propensity_tables(fits[0], config.propensity.floor, items, users)


def strata_of_run(
    spark: SparkSession, lake: Lake, config: RunConfig, slices: SlicesRead, propensities: PropensityTables
) -> PropensityStrata:
    """The strata of propensity that the config asks for. Strata that it does not name are left out where all held-out
    pairs have one propensity, which the remark of propensity_fits says.
    """
    asked = tuple(Strata(one.kind, one.n) for one in config.evaluate.strata)
    by_default = "strata" not in config.evaluate.model_fields_set
    if not asked or (by_default and propensities.fit["least"] == propensities.fit["largest"]):
        return NO_STRATA
    if propensities.fit["method"] in OF_ITEMS:
        return strata_of_items(lake.read(PROPENSITIES, config.run_id), asked)
    rule = propensities.rule((*slices.item_tables, *slices.user_tables))
    with as_operator_error():
        return strata_of_pairs(HeldoutPairs(one_model(spark, lake, config.run_id), rule), asked)


def ranks_files(lake: Lake, run_id: str) -> list[File]:
    """The files of ranks with model and bytes of each, none if only Spark can read them; an error if one is damaged."""
    files = lake.files(RANKS, run_id)
    for model, why in sorted(unusable_ranks(files).items()):
        raise DataError(
            f"ranks: model {model} of run_id={run_id}: {why}. Run jobs/rank.py with this run_id again: it ranks what "
            "is damaged."
        )
    return [(f.path, str(f.partition["model"]), f.n_bytes) for f in files]


def one_model(spark: SparkSession, lake: Lake, run_id: str) -> ModelRanks:
    """The ranks of the first model by name."""
    files = ranks_files(lake, run_id)
    if not files:  # only Spark can read them
        ranks = lake.read(RANKS, run_id)
        first = ranks.select(F.min("model")).first()
        return ModelRanks((), spark, ranks.where(F.col("model") == F.lit(first[0] if first else None)))
    small = sum(n_bytes for _, _, n_bytes in files) <= SMALL_BYTES
    name = min(model for _, model, _ in files)
    return ModelRanks(tuple(file for file in files if file[1] == name), None if small else spark)


@contextmanager
def slices_of(
    spark: SparkSession, lake: Lake, config: RunConfig
) -> Iterator[tuple[SlicesRead, PropensityTables | None, PopularityTables | None]]:
    """The slices and propensities of the run, with their codes in files that are removed at the end; the strata are
    written.
    """
    propensities, popularity = propensities_of(lake, config), popularity_of(spark, lake, config)
    sources = (*(propensities.sources if propensities else ()), *(popularity.sources if popularity else ()))
    with tables_of(spark, lake, config, sources) as slices:
        if propensities is not None:
            propensities = propensities._replace(strata=strata_of_run(spark, lake, config, slices, propensities))
        lake.put(STRATA, propensities.strata.rows if propensities else [], {"run_id": config.run_id})
        yield slices, propensities, popularity


def popularity_of(spark: SparkSession, lake: Lake, config: RunConfig) -> PopularityTables | None:
    """The popularity of the run, if its config has it."""
    if config.popularity is None:
        return None
    rows = lake.rows(POPULARITY_CLASSES, {"run_id": config.run_id})
    if not rows or rows[0]["method"] != config.popularity.method:
        made = f"by method {rows[0]['method']}" if rows else "by no job"
        raise DataError(
            f"popularity_classes: the classes of run_id={config.run_id} were made {made}, but the config asks for "
            f"method {config.popularity.method}. Run jobs/popularity.py with this run_id."
        )
    assert config.inputs.feedback is not None
    feedback = read_input(spark, "feedback", config.inputs.feedback, pair_columns("feedback"))
    return popularity_tables(rows[0], lake.read_files(POPULARITY, config.run_id), feedback)


@contextmanager
def tables_of(
    spark: SparkSession, lake: Lake, config: RunConfig, sources: tuple[SourceTable, ...]
) -> Iterator[SlicesRead]:
    """The tables of slices, item values and propensities, in files that are removed at the end."""
    if not (config.slices.items or config.slices.users or config.item_values or sources):
        yield SlicesRead((), (), ())
        return
    if config.staging is None and "/" not in config.lake:
        raise ConfigError(
            f"slices: the lake {config.lake} is a schema of a catalog, and workers read slices from files. Give "
            "`staging`, a folder that they can write and read."
        )
    folder = f"{config.staging or f'{config.lake}/_staging'}/{folder_name(config.run_id)}/slices-{uuid4().hex}"
    id_type = lake.id_type(RANKS, "user_id", config.run_id)
    try:
        yield read_slices(spark, config.slices, config.item_values, id_type, folder, sources)
    finally:
        system, place = located(folder)
        if system.get_file_info(place).type == fs.FileType.Directory:
            system.delete_dir(place)


@contextmanager
def test_sets_of(lake: Lake, config: RunConfig) -> Iterator[Slicing | None]:
    """The test sets of the run, if its config has them, with counts of users and items in files that are removed at the
    end."""
    if config.test_sets is None:
        yield None
        return
    rows = {(row["name"], row["draw"]): row for row in lake.rows(TEST_SETS, {"run_id": config.run_id})}
    rules: list[SetRule] = []
    for one in config.test_sets:
        for draw in range(one.n_draws):
            row = rows.get((one.name, draw))
            if row is None or not _is_of(row, one, draw):
                made = "drawn with other settings" if row else "not drawn"
                raise DataError(
                    f"test_sets: draw {draw} of the test set {one.name} of run_id={config.run_id} was {made}. Run "
                    "jobs/test_sets.py with this run_id."
                )
            hashed = None if row["threshold_hash"] is None else int(row["threshold_hash"])
            cap = f"cap_{sum(rule.cap is not None for rule in rules)}" if one.strategy == "CAP" else None
            rules.append(SetRule(one.name, draw, one.weighing, row["seed"], row["threshold"], hashed, cap))
    users = lake.read(TEST_SET_USERS, config.run_id).select("user_id", *COUNTED)
    caps = [
        F.try_element_at("caps", F.lit(f"{rule.name}.{rule.draw}")).alias(rule.cap)
        for rule in rules
        if rule.cap is not None
    ]
    items = lake.read(TEST_SET_ITEMS, config.run_id).select("item_id", *COUNTED, *caps)
    with staging(config, "test_sets") as folder:
        tables = count_tables(stored(users, items, folder), totals_of(users), totals_of(items))
        yield slicing_of(rules, tables)


def _is_of(row: dict[str, Any], asked: TestSet, draw: int) -> bool:
    """Whether a draw was made with these settings."""
    weighing = asked.weighing
    same = row["strategy"] == asked.strategy and row["seed"] == asked.first_seed + draw
    same = same and row["share"] == asked.kept_share
    policy = row["zero_support"] is None or row["zero_support"] == weighing.zero_support
    return same and policy and (row["exponent"] is None or row["exponent"] == weighing.exponent)


def user_gaps(lake: Lake, run_id: str, ranked: dict[str, Any]) -> set[str]:
    """The rules by which users must be left out, read from the ranks. `ranked`: the row of the rank stage; if it
    refused bad rows, every model has ranked the same users.
    """
    if json.loads(ranked["config"])["on_bad_rows"] == "error":
        return set()
    return unequal_users(lake.read(RANKS, run_id))


if __name__ == "__main__":
    from jobs.runner import main

    main("evaluate")
