"""Draw test sets from the held-out pairs whose users and items are more alike a random sample.

    spark-submit jobs/test_sets.py --config conf/run.yaml --run-id 2026-11-15

Reads the catalogue, feedback, heldout, and exposures if there are some. Writes test_sets, test_set_users,
test_set_items and, on request, test_set_pairs (replaces this run_id only: safe to retry). Strategies and formulas:
docs/estimators.md.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple
from uuid import uuid4

import pyarrow as pa
from pyarrow import fs
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from rich.text import Text

from eval_engine.config import folder_name
from eval_engine.errors import ConfigError, DataError
from eval_engine.inputs.label_sets import pair_columns
from eval_engine.inputs.pair_rows import PairFiles, PairRows, pair_files
from eval_engine.inputs.read import read_input, same_id_types
from eval_engine.lake.lake import Lake
from eval_engine.plain_text import plain
from eval_engine.spark.worker_process import prepare_worker
from eval_engine.spark.worker_types import Worker
from eval_engine.storage.stored_file import located
from eval_engine.tables import TEST_SET_ITEMS, TEST_SET_PAIRS, TEST_SET_USERS, TEST_SETS
from eval_engine.test_sets.counts import (
    COUNTED,
    PairTables,
    TableTotals,
    bad_rows,
    cap_hashes,
    cap_of_items,
    check_random,
    count_tables,
    item_counts,
    stored,
    totals_of,
    usable,
    user_counts,
)
from eval_engine.test_sets.draw import size_of_share
from eval_engine.test_sets.rule import CountTables, PairBatch, SetRule, masks
from eval_engine.test_sets.sampling import Drawn, Draws, Wanted, draw_test_sets
from eval_engine.test_sets.settings import TestSet
from jobs.pipeline import check_asked
from jobs.progress import spark_progress
from jobs.run_config import RunConfig
from jobs.stage import stage


class Prepared(NamedTuple):
    """The pairs that sets are drawn from, what their weights follow from, and the sets."""

    pairs: PairRows
    users: DataFrame  # counts, persisted
    items: DataFrame
    of_users: TableTotals
    of_items: TableTotals
    tables: CountTables
    wanted: tuple[Wanted, ...]
    cap: int | None
    n_bad_rows: int


def run(spark: SparkSession, config: RunConfig, console: Console) -> None:
    """Count, draw, write."""
    check_asked(config, "test_sets")
    lake = Lake(spark, config.lake)
    with (
        stage(lake, config, "test_sets"),
        spark_progress(spark, console, "Drawing test sets"),
        staging(config, "test_sets") as folder,
    ):
        rows = _run(spark, lake, config, folder)
    for key in ("n_bad_rows", "n_without_support"):
        for row in rows:
            if row["draw"] == 0 and row[key]:
                console.print(Text(plain(f"test_sets: {row['name']}: {key} = {row[key]:,}"), "yellow"))


def _run(spark: SparkSession, lake: Lake, config: RunConfig, folder: str) -> list[dict[str, Any]]:
    assert config.test_sets is not None
    run_id = {"run_id": config.run_id}
    found = read_pairs(spark, config)
    id_type = same_id_types({"heldout": found.heldout})
    where = config.inputs.heldout or config.inputs.feedback
    files = pair_files(spark, "heldout", where) if where else None
    with prepared(found, files, config.test_sets, folder, config.on_bad_rows, "heldout") as ready:
        draws = draw_test_sets(ready.pairs, ready.tables, ready.wanted, folder, ready.of_users.heldout)
        _check_known(draws, config)
        columns = ("user_id", *COUNTED)
        lake.replace_by_workers(TEST_SET_USERS, ready.users.select(*columns), lambda batches: batches, run_id, id_type)
        items = ready.items.select("item_id", *COUNTED, _caps(ready).alias("caps"))
        lake.replace_by_workers(TEST_SET_ITEMS, items, lambda batches: batches, run_id, id_type)
        rows = [_row(one, asked, draws, ready) for one, asked in zip(draws.sets, _asked(config.test_sets), strict=True)]
        lake.put(TEST_SETS, rows, run_id)
        written = [one.rule for one, asked in zip(draws.sets, _asked(config.test_sets), strict=True) if asked.pairs]
        if written:
            chosen = ready.pairs.mapped(_members(written, ready.tables), TEST_SET_PAIRS.row_ddl(id_type))
            lake.replace(TEST_SET_PAIRS, chosen, run_id)
        else:
            lake.put(TEST_SET_PAIRS, [], run_id, id_type)
    return rows


def read_pairs(spark: SparkSession, config: RunConfig) -> PairTables:
    """The tables of the run."""
    inputs = config.inputs
    assert inputs.feedback is not None
    frames = {"catalogue": read_input(spark, "catalogue", inputs.catalogue, {"item_id": "id", "position": "position"})}
    for name, where, label_set in (
        ("feedback", inputs.feedback, "feedback"),
        ("heldout", inputs.heldout, "heldout"),
        ("exposures", inputs.exposures, "random"),
    ):
        if where is not None:
            wanted = pair_columns(label_set)
            own = read_input(spark, name, where, wanted, tuple(list(wanted)[3:]))
            frames[name] = own.select("user_id", "item_id", "value")
    same_id_types(frames)
    heldout = frames.get("heldout", frames["feedback"])
    return PairTables(frames["catalogue"], frames["feedback"], heldout, frames.get("exposures"))


@contextmanager
def prepared(
    found: PairTables,
    files: PairFiles | None,
    asked: Sequence[TestSet],
    folder: str,
    on_bad_rows: str,
    table: str,
) -> Iterator[Prepared]:
    """Counts everything that weights follow from. files: of the pairs that are drawn from, if workers can read them;
    table: their name in errors.
    """
    bad = bad_rows(found)
    if bad and on_bad_rows == "error":
        rows = "row breaks" if bad.n == 1 else "rows break"
        raise DataError(
            f"{bad.n:,} {rows} the rule that a pair has user_id, item_id and a value (first: {bad.example}). Fix the "
            "job that makes the table, or set on_bad_rows: quarantine to leave such rows out."
        )
    pairs = usable(found.heldout).select("user_id", "item_id")
    users, every = user_counts(found).persist(), item_counts(found).persist()
    held = [users, every]
    try:
        items = every.where("in_catalogue").drop("in_catalogue")
        of_users, of_items = totals_of(users), totals_of(items)
        if not of_users.heldout:
            raise DataError(f"{table}: the table has no usable row, so that there is nothing to draw.")
        if not of_users.trained:
            raise DataError("feedback: the table has no usable row, so that no pair can be weighed.")
        rules = [
            SetRule(one.name, draw, one.weighing, one.first_seed + draw) for one in asked for draw in range(one.n_draws)
        ]
        check_random(rules, of_users.random)
        capped = [n for n, rule in enumerate(rules) if rule.weighing.strategy == "CAP"]
        cap = cap_of_items(items) if capped else None
        with_caps = items
        if cap is not None:
            with_caps = items.join(
                cap_hashes(pairs, items, cap, [rules[n] for n in capped]), "item_id", "left"
            ).persist()
            held.append(with_caps)
            for number, n in enumerate(capped):
                rules[n] = rules[n]._replace(cap=f"cap_{number}")
        tables = count_tables(stored(users, with_caps, folder), of_users, of_items)
        wanted = []
        for rule, one in zip(rules, _asked(asked), strict=True):
            share = one.kept_share
            size = None if share is None else size_of_share(share, of_items.heldout)
            wanted.append(Wanted(rule, share, size))
        every_pair = PairRows(pairs, None if bad else files)  # bad rows are left out by Spark
        yield Prepared(
            every_pair, users, with_caps, of_users, of_items, tables, tuple(wanted), cap, bad.n if bad else 0
        )
    finally:
        for kept in held:
            kept.unpersist()


def _asked(sets: Sequence[TestSet]) -> list[TestSet]:
    """The setting of each draw, in the order of the draws."""
    return [one for one in sets for _ in range(one.n_draws)]


def _check_known(draws: Draws, config: RunConfig) -> None:
    """An error if a held-out pair has an item outside the catalogue."""
    if draws.n_unknown and config.on_bad_rows == "error":
        raise DataError(
            f"heldout: the items of {draws.n_unknown:,} pairs are not in the catalogue, and only items of the "
            "catalogue are ranked. Add them to the catalogue, take the rows out, or set on_bad_rows: quarantine to "
            "leave such rows out."
        )


def _row(one: Drawn, asked: TestSet, draws: Draws, ready: Prepared) -> dict[str, Any]:
    """A row of test_sets."""
    rule, weighing = one.rule, one.rule.weighing
    weighted, drawn = weighing.strategy in ("WTD", "WTD_H"), rule.threshold is not None
    text = {"FULL": "every pair", "CAP": f"of each item the {ready.cap} pairs with the smallest hashes"}.get(
        weighing.strategy, f"{one.size} pairs drawn without replacement, weight {weighing.text}"
    )
    known = one.weights.n > 0
    return {
        "name": rule.name,
        "draw": rule.draw,
        "strategy": weighing.strategy,
        "rule": text,
        "share": asked.kept_share,
        "exponent": weighing.exponent if weighted else None,
        "zero_support": weighing.zero_support if weighted or weighing.strategy == "SKEW" else None,
        "seed": rule.seed,
        "n_pairs": draws.n_pairs,
        "size": one.size,
        "threshold": rule.threshold,
        "threshold_hash": str(rule.threshold_hash) if drawn else None,
        "cap": ready.cap if weighing.strategy == "CAP" else None,
        "weight_low": one.weights.low if known else None,
        "weight_high": one.weights.high if known else None,
        "weight_mean": one.weights.mean if known else None,
        "effective_pairs": one.weights.effective if known else None,
        "n_drawable": one.weights.n,
        "n_without_support": one.n_without_support,
        "n_bad_rows": ready.n_bad_rows + draws.n_unknown,
        "n_users": ready.of_users.n,
        "n_items": ready.of_items.n,
        "n_trained": ready.of_items.trained,
        "n_random": ready.of_items.random,
        "users_uniform_before": draws.users.uniform,
        "users_uniform": one.users.uniform,
        "users_random_before": draws.users.random,
        "users_random": one.users.random,
        "items_uniform_before": draws.items.uniform,
        "items_uniform": one.items.uniform,
        "items_random_before": draws.items.random,
        "items_random": one.items.random,
    }


def _caps(ready: Prepared) -> Column:
    """The hashes of caps by name.draw; empty for items below the cap."""
    entries: list[Column] = []
    rules = [one.rule for one in ready.wanted if one.rule.cap is not None]
    for rule in rules:
        entries += [F.lit(f"{rule.name}.{rule.draw}"), F.col(str(rule.cap))]
    # not NULL: Arrow's Java writes a NULL map in time that grows with those before it
    nothing = F.expr("cast(map() AS map<string, bigint>)")
    return F.when(F.col(str(rules[0].cap)).isNotNull(), F.create_map(*entries)).otherwise(nothing) if rules else nothing


def _members(rules: Sequence[SetRule], tables: CountTables) -> Worker:
    """The pairs of each set."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        for rows in batches:
            users, items = rows.column("user_id"), rows.column("item_id")
            inside = masks(PairBatch(users, items, tables), rules)
            for rule, own in zip(rules, inside, strict=True):
                n = int(own.sum())
                yield pa.RecordBatch.from_pydict(
                    {
                        "name": pa.array([rule.name] * n, pa.string()),
                        "draw": pa.array([rule.draw] * n, pa.int32()),
                        "user_id": users.filter(pa.array(own)),
                        "item_id": items.filter(pa.array(own)),
                    }
                )

    return run


@contextmanager
def staging(config: RunConfig, what: str) -> Iterator[str]:
    """A folder for files that workers hand to each other, removed at the end."""
    if config.staging is None and "/" not in config.lake:
        raise ConfigError(
            f"{what}: the lake {config.lake} is a schema of a catalog, and workers hand counts to each other in files. "
            "Give `staging`, a folder that they can write and read."
        )
    folder = f"{config.staging or f'{config.lake}/_staging'}/{folder_name(config.run_id)}/{what}-{uuid4().hex}"
    try:
        yield folder
    finally:
        system, place = located(folder)
        if system.get_file_info(place).type == fs.FileType.Directory:
            system.delete_dir(place)


if __name__ == "__main__":
    from jobs.runner import main

    main("test_sets")
