"""The time of all estimators over logged feedback, from a ranks table, against one plain Spark groupBy over the same
facts as flat rows: case logged-vs-groupby.

    make bench-evaluate                                     (python -m benchmarks.evaluate_logged --scale 0.1)

5 models, 500,000 users with 20 held-out pairs each: 50 M facts. Ours: holdout, snips, snips_user, clipped, ips,
stratified and stratified_balanced, with two strata of both kinds, five metrics at 5 cutoffs and AUC, with intervals,
bootstrap, comparisons, reversals and agreement, to written tables. Propensities are of items, as jobs/propensity.py
writes them. open_loop is not there: it is of random exposures. Theirs: `groupBy(model, user_id).count()`, its result
discarded. Best of three each. `jobs`: Spark jobs of one evaluation; `jobs_less`: of one with a single metric, one
cutoff and one kind of strata.

    python -m benchmarks.evaluate_logged --scale 0.02 --profile 30

prints the 30 functions that take the most time when a file of ranks is added up in this process, without Spark tasks;
then those of a whole evaluation, of which tasks on workers are not seen.
"""

import argparse
import cProfile
import pstats
import tempfile
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from rich.console import Console

from benchmarks.evaluate import (
    AT_ONCE,
    ITEMS,
    LABELS,
    MODELS,
    RUN,
    config,
    jobs_of,
    rows_of,
    timed,
    write_flat,
    write_ranks,
)
from benchmarks.measure import best, say
from eval_engine.evaluation.statistics_plan import _summed, read_ranks
from eval_engine.lake.lake import Lake
from eval_engine.propensity.power_law import power
from eval_engine.spark.session import spark_session
from eval_engine.tables import PROPENSITIES, PROPENSITY_CALIBRATION, PROPENSITY_FITS, PROPENSITY_USERS, RANKS
from jobs import evaluate
from jobs.run_config import RunConfig
from jobs.stage import stage

USERS, GAMMA, FLOOR = 500_000, 1.0, 0.01
NAMES, CUTOFFS = ("recall", "precision", "dcg", "ndcg", "map"), (5, 10, 20, 50, 100)
STRATA = ({"kind": "equal_width", "n": 2}, {"kind": "equal_count", "n": 2})


def items_of(first: int, n: int) -> np.ndarray:
    """The held-out items of n users, (n, LABELS), rising: one of each part of the catalogue, few of them often."""
    each = ITEMS // LABELS
    drawn = each * np.random.default_rng((first, 2)).random((n, LABELS)) ** 3
    return drawn.astype(np.int64) + np.arange(LABELS) * each


def held_out_rows(model: int, first: int, n: int) -> dict[str, pa.Array]:
    """Users with held-out pairs."""
    columns = rows_of(model, first, n)
    labels = columns.pop("random")
    names = [labels.type.field(number).name for number in range(labels.type.num_fields)]
    fields = {name: labels.field(name) for name in names}
    fields["items"] = pa.ListArray.from_arrays(fields["items"].offsets, pa.array(items_of(first, n).ravel()))
    return columns | {"heldout": pa.StructArray.from_arrays(list(fields.values()), names)}


def write_propensities(lake: Lake, n_users: int) -> None:
    """The propensities of items by their counts, as jobs/propensity.py writes them."""
    counts = np.zeros(ITEMS, np.int64)
    for first in range(0, n_users, AT_ONCE):
        counts += np.bincount(items_of(first, min(AT_ONCE, n_users - first)).ravel(), minlength=ITEMS)
    p = power(counts, GAMMA, int(counts.max()))
    rows = [
        {
            "item_id": item,
            "count": int(counts[item]),
            "heldout": int(counts[item]),
            "propensity": float(p[item]) if counts[item] else None,
            "logit": None,
        }
        for item in range(ITEMS)
    ]
    below = counts[p < FLOOR].sum() / counts.sum()
    fit = dict.fromkeys(name for name in PROPENSITY_FITS.names if name != "run_id") | {
        "method": "power",
        "gamma": GAMMA,
        "n_items": ITEMS,
        "n_unseen": int((counts == 0).sum()),
        "n_users": n_users,
        "n_pairs": int(counts.sum()),
        "n_heldout": int(counts.sum()),
        "n_bad_rows": 0,
        "least": float(np.nanmin(p)),
        "largest": float(np.nanmax(p)),
        "floor": FLOOR,
        "share_below_floor": float(below),
    }
    lake.put(PROPENSITIES, rows, RUN)
    lake.put(PROPENSITY_FITS, [fit], RUN)
    lake.put(PROPENSITY_USERS, [], RUN)
    lake.put(PROPENSITY_CALIBRATION, [], RUN)


def logged_config(folder: Path) -> RunConfig:
    """Every metric at every cutoff, by every estimator over held-out pairs."""
    asked = config(folder).model_dump()
    nowhere = asked["inputs"]["catalogue"]
    asked["inputs"] = {"catalogue": nowhere, "feedback": nowhere, "heldout": nowhere}
    asked["propensity"] = {"method": "power", "gamma": GAMMA, "floor": FLOOR}
    metrics = [f"{name}@{k}" for name in NAMES for k in CUTOFFS] + ["auc"]
    asked["evaluate"] = {"metrics": metrics, "strata": list(STRATA)}
    return RunConfig.model_validate(asked)


def less_of(asked: RunConfig) -> RunConfig:
    """The same run with one metric, one cutoff and one kind of strata."""
    return RunConfig.model_validate(
        asked.model_dump() | {"evaluate": {"metrics": [f"recall@{CUTOFFS[0]}"], "strata": [STRATA[0]]}}
    )


def profile(spark: SparkSession, lake: Lake, asked: RunConfig, n_lines: int) -> None:
    """Prints where the time goes when one file of ranks is added up."""
    file = lake.files(RANKS, asked.run_id)[0]
    with evaluate.slices_of(spark, lake, asked) as (slices, propensities, _):
        spec = evaluate.spec_of(asked, slices, propensities)

        def summed() -> float:
            start = time.perf_counter()
            deque(_summed(spec)(read_ranks(file.path, str(file.partition["model"]), spec)), maxlen=0)
            return time.perf_counter() - start

        summed()  # compiles
        print(f"{summed():.2f} s without the profiler")
        _print_profile(summed, n_lines)
    console = Console(stderr=True)
    evaluate.run(spark, asked, console)
    _print_profile(lambda: evaluate.run(spark, asked, console), n_lines)


def _print_profile(work: Callable[[], object], n_lines: int) -> None:
    profiler = cProfile.Profile()
    profiler.runcall(work)
    for order in ("tottime", "cumulative"):
        pstats.Stats(profiler).sort_stats(order).print_stats(n_lines)


def main(scale: float, n_lines: int) -> None:
    """Write both, time both."""
    n_users = int(USERS * scale)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "flat").mkdir()
        spark = spark_session("bench-evaluate-logged", java_options="")  # Spark's own work dominates the other side
        asked, console = logged_config(folder), Console(stderr=True)
        lake = Lake(spark, asked.lake)
        with stage(lake, asked, "rank"):
            write_ranks(lake, n_users, held_out_rows)
        write_propensities(lake, n_users)
        if n_lines:
            profile(spark, lake, asked, n_lines)
            return
        write_flat(folder / "flat", n_users, held_out_rows)
        seconds, n_jobs = timed(spark, asked, console)
        before = jobs_of(spark)
        evaluate.run(spark, less_of(asked), console)
        n_jobs_less = jobs_of(spark) - before
        grouped = spark.read.parquet(str(folder / "flat")).groupBy("model", "user_id").count()
        grouped.write.format("noop").mode("overwrite").save()
        theirs = best(lambda: grouped.write.format("noop").mode("overwrite").save())
        facts = n_users * MODELS * LABELS / 1e6
        say(
            "logged-vs-groupby",
            facts / min(seconds),
            facts / theirs,
            "M facts/s",
            seconds={"ours": round(min(seconds), 2), "theirs": round(theirs, 2)},
            times=round(min(seconds) / theirs, 2),
            jobs=n_jobs,
            jobs_less=n_jobs_less,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--profile", type=int, default=0, help="lines of a profile; nothing else is measured")
    options = parser.parse_args()
    main(options.scale, options.profile)
