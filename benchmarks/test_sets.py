"""The time of drawing test sets and of evaluating over them.

    make bench-test-sets                                    (python -m benchmarks.test_sets --scale 0.1; --only CASE)

draw-vs-sort    100 M pairs, 1 M users, 100,000 items, one WTD_H draw of half of them. Ours: thresholds and marginals,
the
                counts of users and items ready in files. Theirs: a global sort by Spark of the same keys, the weights
                ready as a column of the pairs; its result discarded.
draw-vs-sample  the same, against DataFrame.sample of half of the pairs and groupBys of users and items before and
after. driver-rss      the largest memory of the driver's Python with 10 M and with 100 M pairs, each in a process of
its own. fifty-vs-one    10 M pairs, one model, four metrics at 10: evaluating over 5 strategies of 10 draws, against
one test set.
variation       total variation from uniform after WTD_H, REG and SKEW, share 0.5 and 0.2, exponents 2 and 1, mean over
50
                draws: no speed. --variation prints it alone.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console

from benchmarks import evaluate as ranks_of
from benchmarks.evaluate_logged import held_out_rows
from benchmarks.measure import REPEATS, best_of, say
from eval_engine.config import Input
from eval_engine.inputs.pair_rows import PAIR, PairRows, pair_files
from eval_engine.kernels.xxhash64 import xxhash64
from eval_engine.lake.lake import Lake
from eval_engine.spark.session import spark_session
from eval_engine.storage.keyed_table import KEY, KeyedTable
from eval_engine.test_sets.draw import draw_test_set
from eval_engine.test_sets.factors import Counts, Totals, item_factors, user_factors
from eval_engine.test_sets.rule import CountTables, SetRule
from eval_engine.test_sets.sampling import Draws, Wanted, draw_test_sets
from eval_engine.test_sets.strategies import Weighing
from eval_engine.test_sets.weights import test_set_weights
from jobs import evaluate, test_sets
from jobs.run_config import RunConfig
from jobs.stage import stage

PAIRS, USERS, ITEMS, FILES = 100_000_000, 1_000_000, 100_000, 16
SHARE, SEED, WEIGHING = 0.5, 3, Weighing("WTD_H")
CASES = ("draw-vs-sort", "draw-vs-sample", "driver-rss", "fifty-vs-one", "variation")
METRICS = ["recall@10", "precision@10", "ndcg@10", "map@10"]
STRATEGIES = ("REG", "SKEW", "WTD", "WTD_H", "CAP")


class World:
    """Pairs in files: user u has a stretch of items after another, those of low numbers far more often."""

    def __init__(self, folder: Path, scale: float) -> None:
        self.n_users, self.n_items = max(100, int(USERS * scale)), max(100, int(ITEMS * scale))
        self.n_pairs = int(PAIRS * scale) // self.n_users * self.n_users
        self.folder, self.pairs = folder, folder / "pairs"
        rng = np.random.default_rng(1)
        self.trained = [rng.geometric(0.01, self.n_users), np.zeros(self.n_items, np.int64)]
        shares = 1.0 / np.arange(1, self.n_items + 1)
        self.trained[1] = rng.multinomial(int(self.trained[0].sum()), shares / shares.sum())
        self.weights = [
            of(WEIGHING, Counts(counts, None), Totals(int(self.trained[0].sum()), 0, counts.size))
            for of, counts in zip((user_factors, item_factors), self.trained, strict=True)
        ]

    def write(self, n_pairs: int) -> None:
        """The pairs, with the weight of each as a column, and the counts."""
        self.pairs.mkdir(parents=True)
        each = n_pairs // self.n_users
        for number, users in enumerate(np.array_split(np.arange(self.n_users), FILES)):
            rng = np.random.default_rng((number, 5))
            # items at quantiles of a skewed distribution, a different one for each pair of a user
            place = (np.arange(each) + rng.random((users.size, each))) / each
            items = np.minimum((self.n_items**place).astype(np.int64) + np.arange(each), self.n_items - 1)
            items = np.maximum.accumulate(items, axis=1)
            same = np.concatenate([np.zeros((users.size, 1), bool), items[:, 1:] == items[:, :-1]], axis=1)
            keep = ~same.ravel()
            user, item = np.repeat(users, each)[keep], items.ravel()[keep]
            order = rng.permutation(user.size)
            user, item = user[order], item[order]
            weight = self.weights[0][user] * self.weights[1][item]
            table = pa.table({"user_id": user, "item_id": item, "weight": weight})
            pq.write_table(table, self.pairs / f"{number}.parquet", row_group_size=1 << 20)

    def tables(self) -> CountTables:
        """The counts in files, as the stage hands them to workers."""
        found = []
        for of, trained in zip(("user", "item"), self.trained, strict=True):
            ids = pa.array(np.arange(trained.size))
            path = self.folder / f"{of}.parquet"
            nothing = np.zeros(trained.size, np.int64)
            pq.write_table(
                pa.table({KEY: xxhash64(ids), "trained": trained, "heldout": nothing, "random": nothing}), path
            )
            found.append(KeyedTable(of, (str(path),), ("trained", "heldout", "random")))
        totals = [Totals(int(trained.sum()), 0, trained.size) for trained in self.trained]
        return CountTables(found[0], found[1], totals[0], totals[1])


def drawn(spark: SparkSession, world: World, n_pairs: int) -> Draws:
    """Our side."""
    where = Input.model_validate({"path": str(world.pairs), "format": "parquet"})
    pairs = PairRows(spark.read.parquet(str(world.pairs)).select(*PAIR), pair_files(spark, "pairs", where))
    assert pairs.source is not None
    size = int(np.floor(SHARE * n_pairs + 0.5))
    with tempfile.TemporaryDirectory(dir=world.folder) as folder:
        wanted = [Wanted(SetRule("wtd_h", 0, WEIGHING, SEED), SHARE, size)]
        return draw_test_sets(pairs, world.tables(), wanted, folder, n_pairs)


def key() -> Column:
    """The key of a pair, in SQL."""
    hashed = F.xxhash64(F.lit(SEED).cast("bigint"), "user_id", "item_id")
    return F.log((F.shiftrightunsigned(hashed, 12).cast("double") + F.lit(0.5)) * F.lit(2.0**-52)) / F.col("weight")


def discard(rows: DataFrame) -> None:
    """Computes all rows."""
    rows.write.format("noop").mode("overwrite").save()


def draw_cases(spark: SparkSession, folder: Path, scale: float, cases: set[str]) -> None:
    """draw-vs-sort and draw-vs-sample."""
    world = World(folder / "draw", scale)
    world.write(world.n_pairs)
    rows = spark.read.parquet(str(world.pairs))
    n_pairs = rows.count()

    def sort() -> None:
        discard(rows.select("user_id", "item_id", key().alias("key")).orderBy(F.desc("key")))

    def sample() -> None:
        for chosen in (rows, rows.sample(SHARE, SEED)):
            for column in ("user_id", "item_id"):
                discard(chosen.groupBy(column).count())

    (one,) = drawn(spark, world, n_pairs).sets
    assert one.rule.threshold is not None
    near = [rows.where(key() >= one.rule.threshold * (1 + sign * 1e-12)).count() for sign in (-1, 1)]
    if not near[0] <= one.size <= near[1] or near[1] - near[0] > 10:
        raise SystemExit(f"the sides differ: {one.size} pairs drawn, {near} keys reach the threshold in Spark")
    sides = {"ours": lambda: drawn(spark, world, n_pairs)}
    sides |= {"sort": sort} if "draw-vs-sort" in cases else {}  # type: ignore[dict-item]
    sides |= {"sample": sample} if "draw-vs-sample" in cases else {}  # type: ignore[dict-item]
    for work in sides.values():
        work()  # workers start, Java compiles
    seconds = best_of(sides)  # type: ignore[arg-type]
    for side in ("sort", "sample"):
        if side in seconds:
            times = {"ours": round(seconds["ours"], 2), "theirs": round(seconds[side], 2)}
            ours, theirs = (n_pairs / 1e6 / seconds[name] for name in ("ours", side))
            say(f"draw-vs-{side}", ours, theirs, "M pairs/s", seconds=times, pairs=n_pairs)


def driver_rss(scale: float) -> None:
    """driver-rss."""
    found = []
    for share in (0.1, 1.0):
        command = [sys.executable, "-m", "benchmarks.test_sets", "--rss", str(share), "--scale", str(scale)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found.append(json.loads(done.stdout.strip().splitlines()[-1]))
    growth = found[1]["rss_mb"] - found[0]["rss_mb"]
    line = {"case": "driver-rss", "runs": found, "growth_mb": round(growth, 1), "aim_mb": 100}
    print(json.dumps(line), flush=True)


def one_draw(scale: float, share: float) -> None:
    """A draw from a share of the pairs in this process; prints its largest memory."""
    with tempfile.TemporaryDirectory() as name:
        world = World(Path(name), scale)
        n_pairs = int(world.n_pairs * share) // world.n_users * world.n_users
        command = [sys.executable, "-m", "benchmarks.test_sets", "--write", name, "--rss", str(share)]
        subprocess.run([*command, "--scale", str(scale)], check=True)  # so that making the pairs does not count
        spark = spark_session("bench-test-sets-rss")
        n_pairs = spark.read.parquet(str(world.pairs)).count()
        drawn(spark, world, n_pairs)
        megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps({"pairs": n_pairs, "rss_mb": round(megabytes, 1)}))


def fifty_vs_one(spark: SparkSession, folder: Path, scale: float) -> None:
    """fifty-vs-one."""
    n_users = int(500_000 * scale)
    ranks_of.MODELS = 1
    lake = Lake(spark, str(folder / "fifty" / "lake"))
    inputs = write_inputs(folder / "fifty" / "in", n_users)
    nowhere = {"path": str(folder / "nothing"), "format": "parquet"}
    base = {
        "run_id": ranks_of.RUN["run_id"],
        "lake": lake.root,
        "inputs": inputs,
        "scores": [nowhere | {"model": "m0"}],
        "evaluate": {"metrics": METRICS, "traditional": []},
    }
    fifty = [{"strategy": name, "draws": 10} for name in STRATEGIES]
    configs = {"one": [{"strategy": "WTD_H"}], "fifty": fifty}
    asked = {side: RunConfig.model_validate(base | {"test_sets": sets}) for side, sets in configs.items()}
    with stage(lake, asked["one"], "rank"):
        ranks_of.write_ranks(lake, n_users, held_out_rows)
    console = Console(stderr=True)
    seconds: dict[str, list[float]] = {side: [] for side in asked}
    for side, own in asked.items():
        test_sets.run(spark, own, console)
        evaluate.run(spark, own, console)  # workers start, Java compiles
        for _ in range(REPEATS):
            start = time.perf_counter()
            evaluate.run(spark, own, console)
            seconds[side].append(time.perf_counter() - start)
    least = {side: min(times) for side, times in seconds.items()}
    pairs = n_users * ranks_of.LABELS
    say(
        "fifty-vs-one",
        pairs / 1e6 / least["fifty"],
        pairs / 1e6 / least["one"],
        "M pairs/s",
        seconds={side: round(time, 2) for side, time in least.items()},
        times=round(least["fifty"] / least["one"], 2),
    )


def write_inputs(folder: Path, n_users: int) -> dict[str, dict[str, str]]:
    """Tables whose held-out pairs are those of the ranks."""
    rng, items = np.random.default_rng(2), ranks_of.ITEMS
    tables: dict[str, list[pa.Table]] = {
        "catalogue": [pa.table({"item_id": np.arange(items), "position": np.arange(items, dtype=np.int32)})]
    }
    for first in range(0, n_users, ranks_of.AT_ONCE):
        n = min(ranks_of.AT_ONCE, n_users - first)
        labels = held_out_rows(0, first, n)["heldout"]
        users = np.repeat(np.arange(first, first + n), ranks_of.LABELS)
        held = {"user_id": users, "item_id": labels.field("items").flatten(), "value": labels.field("values").flatten()}
        tables.setdefault("heldout", []).append(pa.table(held))
        for name, each, power in (("feedback", 20, 3), ("exposures", 2, 1)):
            chosen = (items * rng.random(n * each) ** power).astype(np.int64)
            own = {
                "user_id": np.repeat(np.arange(first, first + n), each),
                "item_id": chosen,
                "value": np.ones(n * each),
            }
            tables.setdefault(name, []).append(pa.table(own))
    for name, parts in tables.items():
        (folder / name).mkdir(parents=True)
        for number, part in enumerate(parts):
            pq.write_table(part, folder / name / f"{number}.parquet")
    return {name: {"path": str(folder / name), "format": "parquet"} for name in tables}


def variation(n_draws: int = 50) -> None:
    """Prints total variation from uniform after each strategy."""
    rng = np.random.default_rng(4)
    n_users, n_items = 1_000, 300
    logged = rng.random((n_users, n_items)) < np.outer(
        np.exp(rng.normal(-0.6, 0.7, n_users)), 0.4 * np.arange(1, n_items + 1) ** -0.5
    )
    held = rng.random((n_users, n_items)) < 0.4
    (train_users, train_items), (users, items) = np.nonzero(logged & ~held), np.nonzero(logged & held)
    sides = (("users", users, n_users), ("items", items, n_items))
    before = {of: round(_distance(ids, n), 4) for of, ids, n in sides}
    print(json.dumps({"case": "variation", "pairs": users.size, "before": before}), flush=True)
    for share in (0.5, 0.2):
        for strategy, exponent in (("REG", 2), ("SKEW", 2), ("WTD_H", 2), ("WTD_H", 1)):
            weights = test_set_weights(train_users, train_items, strategy, exponent=exponent).of(users, items)
            apart: dict[str, list[float]] = {"users": [], "items": []}
            for seed in range(n_draws):
                mask = draw_test_set(users, items, weights, share, seed)
                for of, ids, n in sides:
                    apart[of].append(_distance(ids[mask], n))
            after = {
                of: {"mean": round(float(np.mean(x)), 4), "sd": round(float(np.std(x)), 4)} for of, x in apart.items()
            }
            line = {"case": "variation", "strategy": strategy, "exponent": exponent, "share": share, "draws": n_draws}
            print(json.dumps(line | after), flush=True)


def _distance(ids: np.ndarray, n: int) -> float:
    """Total variation from uniform."""
    return float(np.abs(np.bincount(ids, minlength=n) / ids.size - 1 / n).sum() / 2)


def main(scale: float, cases: set[str]) -> None:
    """All cases."""
    if "variation" in cases:
        variation()
    if "driver-rss" in cases:
        driver_rss(scale)
    if cases & {"draw-vs-sort", "draw-vs-sample", "fifty-vs-one"}:
        with tempfile.TemporaryDirectory() as name:
            spark = spark_session("bench-test-sets", java_options="")  # Spark's own work dominates: its best compiler
            if cases & {"draw-vs-sort", "draw-vs-sample"}:
                draw_cases(spark, Path(name), scale, cases)
            if "fifty-vs-one" in cases:
                fifty_vs_one(spark, Path(name), scale)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--only", choices=CASES, action="append", help="these cases")
    parser.add_argument("--variation", action="store_true", help="total variation only")
    parser.add_argument("--rss", type=float, help="one draw from this share of the pairs, in this process")
    parser.add_argument("--write", type=Path, help="write the pairs of --rss to this folder, and end")
    options = parser.parse_args()
    if options.write:
        world = World(options.write, options.scale)
        world.write(int(world.n_pairs * options.rss) // world.n_users * world.n_users)
    elif options.rss:
        one_draw(options.scale, options.rss)
    else:
        main(options.scale, {"variation"} if options.variation else set(options.only or CASES))
