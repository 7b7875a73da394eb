"""The test_sets stage on real files: every strategy against numpy, its tables, and what it says of bad input."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from rich.console import Console

import eval_engine
from eval_engine.errors import ConfigError, DataError
from eval_engine.test_sets.cap import cap_of
from eval_engine.test_sets.settings import FIRST_SEED
from jobs import test_sets
from jobs.cli import load
from jobs.pipeline import STAGES
from jobs.sample import draw_sample

QUIET = Console(quiet=True)
SETS: list[dict[str, Any]] = [
    {"strategy": "FULL", "pairs": True},
    {"strategy": "REG", "share": 0.3, "draws": 2, "pairs": True},
    {"strategy": "SKEW", "share": 0.5, "seed": 7, "pairs": True},
    {"strategy": "WTD", "share": 0.5, "draws": 2, "zero_support": "missing_is_one", "pairs": True},
    {"strategy": "WTD_H", "share": 0.5, "draws": 3, "pairs": True},
    {"strategy": "WTD_H", "name": "flat", "exponent": 1, "zero_support": "drop", "share": 0.2, "pairs": True},
    {"strategy": "CAP", "seed": 3, "draws": 2, "pairs": True},
]


def rows(run: Any, table: str) -> list[dict[str, Any]]:
    """The run's rows of a table of the lake."""
    return DeltaTable(run.folder / "lake" / table).to_pyarrow_table().to_pylist()


def skewed(run: Any) -> None:
    """Logged pairs in which low positions are frequent; one user and one item without a training pair, one user and
    one item that were never exposed."""
    run.hold_out()
    rng = np.random.default_rng(4)
    n_users, n_items = run.truth_values.shape
    logged = (
        rng.random((n_users, n_items)) < np.linspace(0.95, 0.02, n_items) ** 2 * np.linspace(1, 0.4, n_users)[:, None]
    )
    held = rng.random((n_users, n_items)) < 0.4
    logged[3, :4] = held[3, :4] = True
    held[3] |= logged[3]
    logged[:, :2] = held[:30, :2] = True
    logged[:3, 20] = held[:, 20] = True
    for name, chosen in (("feedback", logged & ~held), ("heldout", logged & held)):
        user, item = np.nonzero(chosen)
        columns = {"user_id": run.users[user], "item_id": run.items[item], "value": run.truth_values[user, item]}
        run.tables[name] = pa.table(columns)
    run.config["frame"] = "all_items"


def drawn(run: Any, spark: SparkSession, sets: list[dict[str, Any]]) -> dict[tuple[str, int], dict[str, Any]]:
    """The stage is run; its rows of test_sets."""
    run.config["test_sets"] = sets
    test_sets.run(spark, load(run.write()), QUIET)
    return {(row["name"], row["draw"]): row for row in rows(run, "test_sets")}


def columns_of(run: Any, table: str) -> tuple[Any, Any]:
    return tuple(run.tables[table][name].combine_chunks() for name in ("user_id", "item_id"))  # type: ignore[return-value]


def by_numpy(run: Any, one: dict[str, Any], draw: int) -> set[tuple[Any, Any]]:
    """The pairs of a set by the numpy API."""
    users, items = columns_of(run, "heldout")
    pairs = list(zip(users.to_pylist(), items.to_pylist(), strict=True))
    strategy, seed = one["strategy"], one.get("seed", FIRST_SEED) + draw
    if strategy == "FULL":
        return set(pairs)
    if strategy == "CAP":
        mask = eval_engine.cap_test_set(users, items, seed)
    else:
        every = set().union(*(columns_of(run, table)[0].to_pylist() for table in ("feedback", "heldout", "exposures")))
        weights = eval_engine.test_set_weights(
            *columns_of(run, "feedback"),
            strategy,
            random=columns_of(run, "exposures"),
            zero_support=one.get("zero_support", "laplace"),
            exponent=one.get("exponent", 2),
            n_users=len(every),
            n_items=len(run.items),
        ).of(users, items)
        mask = eval_engine.draw_test_set(users, items, weights, one["share"], seed)
    return {pair for pair, inside in zip(pairs, mask, strict=True) if inside}


def check_against_numpy(run: Any, found: dict[tuple[str, int], dict[str, Any]]) -> dict[tuple[str, int], set]:
    """Every pair of every set, sizes, and total variation by its definition."""
    stored: dict[tuple[str, int], set] = {key: set() for key in found}
    for row in rows(run, "test_set_pairs"):
        stored[row["name"], row["draw"]].add((row["user_id"], row["item_id"]))
    for one in SETS:
        for draw in range(one.get("draws", 1)):
            key = one.get("name", one["strategy"].lower()), draw
            assert stored[key] == by_numpy(run, one, draw), key
            row = found[key]
            assert row["size"] == len(stored[key])
            every = [set(run_ids) for run_ids in ([*columns_of(run, "heldout")[0].to_pylist()],)]
            users = every[0].union(*(columns_of(run, t)[0].to_pylist() for t in ("feedback", "exposures")))
            items = run.tables["catalogue"]["item_id"].to_pylist()
            exposed = columns_of(run, "exposures")
            for side, (of, ids) in enumerate((("users", users), ("items", items))):
                own = [pair[side] for pair in stored[key]]
                random = exposed[side].to_pylist()
                uniform = sum(abs(own.count(x) / len(own) - 1 / len(ids)) for x in ids) / 2
                apart = sum(abs(own.count(x) / len(own) - random.count(x) / len(random)) for x in ids) / 2
                assert row[f"{of}_uniform"] == pytest.approx(uniform)
                assert row[f"{of}_random"] == pytest.approx(apart)
                if key[0] == "full":
                    assert row[f"{of}_uniform_before"] == row[f"{of}_uniform"]
                    assert row[f"{of}_random_before"] == row[f"{of}_random"]
    return stored


def test_every_strategy_is_that_of_numpy_on_any_partitioning(small_run: Any, spark: SparkSession) -> None:
    skewed(small_run)
    found = drawn(small_run, spark, SETS)
    stored = check_against_numpy(small_run, found)
    assert len({frozenset(stored["wtd_h", draw]) for draw in range(3)}) == 3
    n = small_run.tables["heldout"].num_rows
    assert found["reg", 0]["size"] == int(0.3 * n + 0.5)
    assert found["flat", 0]["n_drawable"] < n
    assert found["flat", 0]["n_without_support"] == n - found["flat", 0]["n_drawable"]
    assert found["wtd", 0]["n_without_support"] > 0
    counts = np.unique(columns_of(small_run, "heldout")[1].to_numpy(), return_counts=True)[1]
    assert found["cap", 0]["cap"] == cap_of(counts) < counts.max()
    assert (found["wtd_h", 2]["seed"], found["cap", 1]["seed"], found["skew", 0]["exponent"]) == (
        FIRST_SEED + 2,
        4,
        None,
    )
    assert found["wtd_h", 0]["effective_pairs"] < n
    for written in (one for one in STAGES["test_sets"].lake_tables if one.rules):
        broken = " OR ".join(f"NOT coalesce(({rule}), false)" for rule in written.rules)
        kept = spark.createDataFrame(DeltaTable(small_run.folder / "lake" / written.name).to_pyarrow_table())
        assert [row[0] for row in kept.select(F.expr(broken)).distinct().collect()] == [False], written.name
    for parts in (1, 5):
        folder = small_run.folder / "in" / "heldout"
        table = small_run.tables["heldout"].take(np.random.default_rng(parts).permutation(n))
        small_run.tables["heldout"] = table
        small_run.config["inputs"]["heldout"]["path"] = str(folder) + f"-{parts}"
        target = small_run.folder / "in" / f"heldout-{parts}"
        target.mkdir()
        for part in range(parts):
            pq.write_table(
                table.slice(part * n // parts, (part + 1) * n // parts - part * n // parts), target / f"{part}.parquet"
            )
        before = spark.conf.get("spark.sql.files.maxPartitionBytes")
        spark.conf.set("spark.sql.files.maxPartitionBytes", "1000")
        try:
            again = drawn(small_run, spark, SETS)
        finally:
            spark.conf.set("spark.sql.files.maxPartitionBytes", before)
        assert again == found
        twice: dict[tuple[str, int], set] = {key: set() for key in found}
        for row in rows(small_run, "test_set_pairs"):
            twice[row["name"], row["draw"]].add((row["user_id"], row["item_id"]))
        assert twice == stored
    assert not list((small_run.folder / "lake" / "_staging").rglob("*.arrow"))


def test_ids_that_are_text_and_windows_from_a_sample(
    small_run: Any, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    skewed(small_run)
    for name in ("catalogue", "feedback", "heldout", "exposures", "truth"):
        table = small_run.tables[name]
        for column in {"user_id", "item_id"} & set(table.column_names):
            text = pc.binary_join_element_wise(pa.scalar("id-é-"), table[column].cast(pa.string()), "")
            table = table.set_column(table.column_names.index(column), column, text)
        small_run.tables[name] = table
    monkeypatch.setattr("eval_engine.test_sets.sampling.SAMPLED", 60)
    check_against_numpy(small_run, drawn(small_run, spark, SETS))


def test_bad_input_is_an_error_that_names_it(small_run: Any, spark: SparkSession) -> None:
    skewed(small_run)
    with pytest.raises(DataError, match=r"share 0\.0001 of [\d,]+ pairs is fewer than one pair"):
        drawn(small_run, spark, [{"strategy": "REG", "share": 0.0001}])
    with pytest.raises(DataError, match=r"test_sets: wtd_h: \d+ pairs are to be drawn .* zero_support: laplace"):
        drawn(small_run, spark, [{"strategy": "WTD_H", "share": 1.0, "zero_support": "drop"}])
    feedback = small_run.tables["feedback"]
    small_run.tables["feedback"] = pa.concat_tables([feedback, feedback.take(np.zeros(300_000, int))])
    with pytest.raises(DataError, match=r"test_sets: wtd_h: .* weight that is neither 0 nor .* Lower the exponent"):
        drawn(small_run, spark, [{"strategy": "WTD_H", "exponent": 100}])
    small_run.tables["feedback"] = feedback
    heldout = small_run.tables["heldout"]
    small_run.tables["heldout"] = pa.concat_tables([heldout, heldout.slice(5, 1)])
    user, item = (heldout[name][5].as_py() for name in ("user_id", "item_id"))
    with pytest.raises(
        DataError, match=f"heldout: 1 pairs stand in it more than once .*user_id={user}, item_id={item}"
    ):
        drawn(small_run, spark, [{"strategy": "REG"}])
    outside = pa.table({"user_id": heldout["user_id"][:1], "item_id": [9], "value": [1.0]})
    small_run.tables["heldout"] = pa.concat_tables([heldout, outside])
    with pytest.raises(DataError, match="heldout: the items of 1 pairs are not in the catalogue"):
        drawn(small_run, spark, [{"strategy": "REG"}])
    nothing = pa.table({"user_id": pa.array([None], pa.int64()), "item_id": [1000], "value": [1.0]})
    small_run.tables["heldout"] = pa.concat_tables([heldout, outside, nothing])
    with pytest.raises(DataError, match=r"1 row breaks the rule .*heldout: user_id=NULL, item_id=1000"):
        drawn(small_run, spark, [{"strategy": "REG"}])
    small_run.config["on_bad_rows"] = "quarantine"
    found = drawn(small_run, spark, [{"strategy": "REG"}])["reg", 0]
    assert (found["n_bad_rows"], found["n_pairs"]) == (2, heldout.num_rows)
    small_run.tables["heldout"] = heldout


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        ([{"strategy": "WTD"}], "WTD.*inputs.exposures is needed"),
        ([{"strategy": "BEST"}], "FULL"),
        ([{"strategy": "REG", "share": 0}], "greater than 0"),
        ([{"strategy": "REG", "exponent": 1}], "Extra inputs"),
        ([{"strategy": "REG"}, {"strategy": "REG"}], "reg is the name of two test sets"),
        ([{"strategy": "REG", "name": "a b"}], "cannot name a test set"),
        ([], "at least 1"),
        ([{"strategy": "REG", "draws": 600}, {"strategy": "SKEW", "draws": 600}], "at most 1,000"),
    ],
)
def test_a_section_that_is_wrong_is_a_config_error(small_run: Any, sets: list, message: str) -> None:
    skewed(small_run)
    del small_run.config["inputs"]["exposures"]
    small_run.config["test_sets"] = sets
    with pytest.raises(ConfigError, match=message):
        load(small_run.write())


@pytest.mark.parametrize(("seed", "draws"), [(5, 1), (3, 3), (1, 9)])
def test_a_set_is_not_drawn_with_the_seed_of_the_split(small_run: Any, seed: int, draws: int) -> None:
    skewed(small_run)
    log = {"path": str(small_run.folder / "in/log"), "format": "parquet"}
    small_run.config["split"] = {"log": log, "how": {"strategy": "random", "seed": 5}}
    small_run.config["test_sets"] = [{"strategy": "FULL"}, {"strategy": "SKEW", "seed": 6}, {"strategy": "REG"}]
    load(small_run.write())
    small_run.config["test_sets"] = [{"strategy": "SKEW", "seed": seed, "draws": draws}]
    with pytest.raises(ConfigError, match=rf"seeds {seed} to {seed + draws - 1}, and split.how.seed is 5"):
        load(small_run.write())


def test_without_held_out_pairs_it_is_a_config_error(small_run: Any) -> None:
    small_run.config["test_sets"] = [{"strategy": "REG"}]
    with pytest.raises(ConfigError, match=r"inputs\.heldout is needed"):
        load(small_run.write())


@pytest.mark.parametrize("kind", ["delta", "parquet"])
def test_a_training_table_is_drawn_by_the_same_rule(small_run: Any, spark: SparkSession, kind: str) -> None:
    skewed(small_run)
    small_run.config["test_sets"] = [{"strategy": "REG"}, {"strategy": "WTD_H", "share": 0.4, "draws": 2}]
    feedback = small_run.tables["feedback"].rename_columns(["uid", "item_id", "value"])
    small_run.config["inputs"]["feedback"]["columns"] = {"user_id": "uid"}
    small_run.tables["feedback"] = feedback
    config = load(small_run.write())
    to = small_run.folder / "drawn"
    draw_sample(lambda: spark, config, "wtd_h", 1, str(to), kind, QUIET)
    found = (DeltaTable(to).to_pyarrow_table() if kind == "delta" else pq.read_table(to)).to_pylist()
    users, items = (feedback[name].combine_chunks() for name in ("uid", "item_id"))
    weights = eval_engine.test_set_weights(users, items, "WTD_H").of(users, items)
    mask = eval_engine.draw_test_set(users, items, weights, 0.4, FIRST_SEED + 1)
    expected = feedback.filter(pa.array(mask)).to_pylist()
    assert sorted(found, key=str) == sorted(expected, key=str)
    for wrong, message in (
        (("no", 0, str(to), kind), "has no such test set. It has reg, wtd_h"),
        (("wtd_h", 2, str(to), kind), "has 2 draws"),
        (("wtd_h", 0, str(to), "csv"), "delta, parquet"),
        (("wtd_h", 0, config.inputs.catalogue.path, kind), "inputs.catalogue, which would be overwritten"),
    ):
        with pytest.raises(ConfigError, match=message):
            draw_sample(lambda: spark, config, *wrong, QUIET)
