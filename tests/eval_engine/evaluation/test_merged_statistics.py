"""Statistics of several runs added up: against loops over rows, and against the statistics of all users at once."""

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from eval_engine.evaluation.merged_statistics import SCHEMA, added, list_cells, merged_results, without_value
from eval_engine.evaluation.result_groups import InferenceSettings
from eval_engine.statistics.ratio import exact_sum

ASKING = InferenceSettings(0.95, 0.01, 0.8, 0, 0)
KEY = ("model", "estimator", "metric", "k", "slice", "bucket")


def decimal(x: float) -> Decimal:
    return Decimal(exact_sum(np.array([x]))) / 10**12


def statistics(rng: np.random.Generator, n_users: int, shift: float = 0.0) -> pa.Table:
    """A row per bucket, model and slice: users with a numerator and a denominator."""
    rows: list[dict[str, Any]] = []
    for part, n_buckets in (("all", 256), ("country=de", 32)):
        bucket = rng.integers(0, n_buckets, n_users)
        b = rng.integers(1, 4, n_users).astype(float)
        for model in ("m", "n"):
            a = rng.random(n_users) * b + shift
            for g in range(n_buckets):
                own = bucket == g
                sums = {"a": a, "b": b, "aa": a * a, "ab": a * b, "bb": b * b, "a_low": a, "a_high": a}
                row = {name: decimal(float(x[own].sum())) for name, x in sums.items()}
                cell = {
                    "model": model,
                    "estimator": "ure_micro",
                    "metric": "recall",
                    "k": 5,
                    "slice": part,
                    "bucket": g,
                }
                wins = [("m" if model == "n" else "n", int(own.sum()) // 2)] if part == "all" and own.any() else None
                counts = {"n_users": int(own.sum()), "n_left_out": 1, "n_unknown": 0}
                rows.append(row | cell | counts | {"stratum": None, "wins": wins, "items": None})
    return pa.Table.from_pylist(rows, SCHEMA)


def draws_as_models(rng: np.random.Generator, n_draws: int, n_users: int) -> pa.Table:
    """Users of their own for each of these models."""
    bucket = np.sort(rng.integers(0, 256, (n_draws, n_users)) + 256 * np.arange(n_draws)[:, None], axis=None)
    b = rng.integers(1, 4, bucket.size).astype(float)
    a = rng.random(bucket.size) * b
    sums = {
        name: pa.array(np.bincount(bucket, of, n_draws * 256)).cast(SCHEMA.field(name).type)
        for name, of in {"a": a, "b": b, "aa": a * a, "ab": a * b, "bb": b * b}.items()
    }
    cells = n_draws * 256
    columns: dict[str, Any] = {
        "model": [f"m{n:03}" for n in range(n_draws) for _ in range(256)],
        "bucket": list(range(256)) * n_draws,
        "n_users": np.bincount(bucket, minlength=cells).tolist(),
    }
    same = {"estimator": "ure_micro", "metric": "recall", "k": 5, "slice": "all", "n_left_out": 0, "n_unknown": 0}
    columns |= sums | {name: [value] * cells for name, value in same.items()}
    return pa.table({name: columns.get(name, [None] * cells) for name in SCHEMA.names}, SCHEMA)


def by_loop(tables: list[pa.Table]) -> dict[tuple[Any, ...], dict[str, Any]]:
    """The sums of rows with equal keys."""
    total: dict[tuple[Any, ...], dict[str, Any]] = {}
    for table in tables:
        for row in table.to_pylist():
            stratum = tuple(row["stratum"].values()) if row["stratum"] else None
            own = total.setdefault((*(row[name] for name in KEY), stratum), {"wins": None})
            for name in ("n_users", "n_left_out", "n_unknown", "a", "b", "aa", "ab", "bb", "a_low", "a_high"):
                if name == "a_high" and row["metric"] == "(weight)":
                    own[name] = max(own.get(name, row[name]), row[name])
                elif row[name] is not None:
                    own[name] = own.get(name, 0) + row[name]
            for rival, n in row["wins"] or ():
                own["wins"] = own["wins"] or {}
                own["wins"][rival] = own["wins"].get(rival, 0) + n
    return total


def as_dict(table: pa.Table) -> dict[tuple[Any, ...], dict[str, Any]]:
    rows = {}
    for row in table.to_pylist():
        stratum = tuple(row["stratum"].values()) if row["stratum"] else None
        rows[*(row[name] for name in KEY), stratum] = row | {"wins": None if row["wins"] is None else dict(row["wins"])}
    assert len(rows) == len(table)
    return rows


def assert_same(found: pa.Table, wanted: dict[tuple[Any, ...], dict[str, Any]]) -> None:
    rows = as_dict(found)
    assert rows.keys() == wanted.keys()
    for key, row in wanted.items():
        assert {name: rows[key][name] for name in row} == row


def with_strata_and_weights(rng: np.random.Generator) -> pa.Table:
    """Rows of strata, some with NULL, and rows of the weights of pairs."""
    rows = []
    for g in range(3):
        for stratum in (
            None,
            {"exposures": 5, "candidates": 100, "positives": g},
            {"exposures": 5, "candidates": 90, "positives": 1},
        ):
            if stratum is None or rng.random() < 0.7:
                cell = {
                    "model": "m",
                    "estimator": "ure_balanced",
                    "metric": "recall",
                    "k": 5,
                    "slice": None,
                    "bucket": g,
                }
                sums = {name: decimal(float(rng.random())) for name in ("a", "b", "aa", "ab", "bb")}
                rows.append(cell | sums | {"stratum": stratum, "n_users": 2, "n_left_out": 0, "n_unknown": 0})
        cell = {"model": "m", "estimator": "snips", "metric": "(weight)", "k": 0, "slice": "all", "bucket": g}
        weights = {"a": decimal(3.0), "aa": decimal(5.0), "a_high": decimal(float(rng.random()))}
        rows.append(cell | weights | {"n_users": 4, "n_left_out": 0, "n_unknown": 0})
    named = [dict.fromkeys(SCHEMA.names) | row for row in rows]
    return pa.Table.from_pylist(named, SCHEMA)


def test_rows_are_added_as_a_loop_does() -> None:
    rng = np.random.default_rng(1)
    tables = [pa.concat_tables([statistics(rng, n), with_strata_and_weights(rng)]) for n in (40, 300, 7)]
    loop = by_loop(
        [
            table.set_column(table.column_names.index("slice"), "slice", table.column("slice").fill_null("all"))
            for table in tables
        ]
    )
    assert_same(added(tables), loop)
    assert added(tables[::-1]).sort_by([(name, "ascending") for name in (*KEY, "n_users", "a")]) == added(
        tables
    ).sort_by([(name, "ascending") for name in (*KEY, "n_users", "a")])


def test_one_run_is_itself() -> None:
    table = statistics(np.random.default_rng(2), 500)
    assert_same(added([table]), by_loop([table]))


def test_a_user_of_two_runs_has_the_error_of_one() -> None:
    """The same users twice: values are as of one run, and so are errors by bucket; moments would make them smaller."""
    table = statistics(np.random.default_rng(3), 4000)
    once, twice = (merged_results(added(tables), ASKING).estimates for tables in ([table], [table, table]))
    for one, two in zip(once, twice, strict=True):
        assert two["value"] == one["value"]
        assert two["standard_error"] == pytest.approx(one["standard_error"])
        assert two["n_users"] == 2 * one["n_users"]
        assert "A user of several merged runs counts once in each." in two["estimand"]


def test_errors_by_bucket_cover() -> None:
    """Intervals of 95 % around the mean of three runs of other users hold the truth about as often as they say."""
    rng, n = np.random.default_rng(4), 150
    total = added([draws_as_models(rng, n, 400) for _ in range(3)])
    rows = merged_results(total, ASKING).estimates
    assert len(rows) == n
    held = sum(row["low"] <= 0.5 <= row["high"] for row in rows)
    assert abs(held / n - 0.95) < 4 * np.sqrt(0.95 * 0.05 / n)


def test_metrics_of_top_lists_are_not_added_and_say_so() -> None:
    table = statistics(np.random.default_rng(5), 50)
    of_lists = dict.fromkeys(SCHEMA.names) | {
        "model": "m",
        "estimator": "lists",
        "metric": "coverage",
        "k": 5,
        "bucket": 0,
    }
    of_lists |= {"slice": "all", "n_users": 0, "n_left_out": 0, "n_unknown": 0, "items": [(1, 3)]}
    both = pa.concat_tables([table, pa.Table.from_pylist([of_lists], SCHEMA)])
    assert list_cells(both) == {("lists", "coverage", 5)}
    assert_same(added([both, table]), by_loop([table, table]))
    estimate = {"model": "m", "estimator": "lists", "metric": "coverage", "k": 5, "slice": "all", "confidence": 0.95}
    (row,) = without_value([estimate | {"estimand": "e", "value": 0.5}], list_cells(both))
    assert row["value"] is None
    assert "cannot be added up over runs" in row["reason"]


def test_rows_of_older_versions_have_no_slice_and_no_items() -> None:
    table = statistics(np.random.default_rng(6), 60).filter(pa.compute.field("slice") == "all")
    older = table.drop_columns(["slice", "items"])
    assert_same(added([older]), by_loop([table]))


def test_nothing_to_add_is_an_error() -> None:
    with pytest.raises(ValueError, match="no runs"):
        added([])
