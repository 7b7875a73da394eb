"""Draw a debiased training table from feedback, by the rule of a test set of the config [wtd].

    plumbline sample conf/run.yaml --to data/feedback_wtd_h --name wtd_h --format delta

Weights are those of the test set, from the marginals of feedback itself; the share is that of feedback. Reads the
catalogue, feedback, and exposures if there are some. Writes the rows that were drawn, with the columns by which the
config reads feedback; replaces the table. The same config draws the same rows.
"""

from collections.abc import Callable, Iterator
from importlib.metadata import version
from typing import Literal, cast

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from rich.text import Text

from eval_engine.config import Input
from eval_engine.errors import ConfigError, DataError, as_operator_error
from eval_engine.inputs.fingerprints import digest
from eval_engine.inputs.input_format import input_format
from eval_engine.inputs.made_table import make_table
from eval_engine.inputs.pair_rows import pair_files
from eval_engine.plain_text import plain
from eval_engine.spark.object_store import check_store
from eval_engine.spark.worker_process import prepare_worker
from eval_engine.spark.worker_types import Worker
from eval_engine.storage.stored_file import full_path
from eval_engine.test_sets.counts import usable
from eval_engine.test_sets.rule import CountTables, PairBatch, SetRule
from eval_engine.test_sets.sampling import draw_test_sets
from eval_engine.test_sets.settings import TestSet
from jobs.pipeline import check_asked
from jobs.progress import spark_progress
from jobs.run_config import RunConfig
from jobs.test_sets import prepared, read_pairs, staging


def draw_sample(
    start_spark: Callable[[], SparkSession],
    config: RunConfig,
    name: str | None,
    draw: int,
    to: str,
    written: str,
    console: Console,
) -> None:
    """Draw and write. name: of the test set, None: the first; written: delta, parquet."""
    asked = _asked(config, name, draw)
    where = _target(config, to, written)
    spark = start_spark()
    check_store(spark, where.path, "--to")
    with (
        spark_progress(spark, console, "Drawing training pairs"),
        as_operator_error(),
        staging(config, "sample") as folder,
    ):
        found = read_pairs(spark, config)
        found = found._replace(heldout=found.feedback)
        files = pair_files(spark, "feedback", config.inputs.feedback) if config.inputs.feedback else None
        with prepared(found, files, (asked,), folder, config.on_bad_rows, "feedback") as ready:
            wanted = ready.wanted[draw]
            draws = draw_test_sets(ready.pairs, ready.tables, [wanted], folder, ready.of_users.heldout, "feedback")
            if draws.n_unknown and config.on_bad_rows == "error":
                raise DataError(
                    f"feedback: the items of {draws.n_unknown:,} pairs are not in the catalogue. Add them to the "
                    "catalogue, take the rows out, or set on_bad_rows: quarantine to leave such rows out."
                )
            rows = usable(found.feedback)
            kept = rows.mapInArrow(_kept(draws.sets[0].rule, ready.tables), rows.schema)
            names = config.inputs.feedback.columns if config.inputs.feedback else {}
            text = f"plumbline {version('plumbline')} sample {digest(asked.model_dump(mode='json'), draw)}"
            make_table(kept.select(*[F.col(c).alias(names.get(c, c)) for c in rows.columns]), where, text)
    one = draws.sets[0]
    console.print(
        Text(
            plain(
                f"{one.size:,} of {draws.n_pairs:,} pairs; total variation from uniform: users "
                f"{draws.users.uniform:.3f} -> {one.users.uniform:.3f}, items {draws.items.uniform:.3f} -> "
                f"{one.items.uniform:.3f}. Written: {where.path}"
            )
        )
    )


def _asked(config: RunConfig, name: str | None, draw: int) -> TestSet:
    """The test set whose rule is applied."""
    check_asked(config, "test_sets")
    assert config.test_sets is not None
    known = {one.name: one for one in config.test_sets}
    if name is not None and name not in known:
        raise ConfigError(f"--name {name}: the config has no such test set. It has {', '.join(known)}.")
    asked = known[name] if name is not None else config.test_sets[0]
    if draw >= asked.n_draws:
        raise ConfigError(f"--draw {draw}: the test set {asked.name} has {asked.n_draws} draws, from 0.")
    return asked


def _target(config: RunConfig, to: str, written: str) -> Input:
    """The table that is written."""
    if written not in ("delta", "parquet"):
        raise ConfigError(f"--format {written} is not known: delta, parquet.")
    where = Input(path=to, format=cast(Literal["delta", "parquet"], written))
    if input_format(Input(path=to)) == "table":
        where = Input(path=to, format="table")
    inputs = config.inputs.model_dump()
    for table, own in inputs.items():
        if own and full_path(own["path"]) == full_path(to):
            raise ConfigError(f"--to {to} is inputs.{table}, which would be overwritten. Give another path.")
    return where


def _kept(rule: SetRule, tables: CountTables) -> Worker:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        for rows in batches:
            inside = PairBatch(rows.column("user_id"), rows.column("item_id"), tables).inside(rule)
            yield rows.filter(pa.array(inside))

    return run
