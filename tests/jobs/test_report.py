"""What the report reads from a lake, also from one that an earlier version made. No Spark: these tables are small."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from eval_engine.errors import DataError
from eval_engine.lake.lake import Lake
from eval_engine.metric import Metric
from eval_engine.report.comparison_row import ComparisonRow
from eval_engine.tables import COMPARISONS, ESTIMATES
from jobs.report import read_answers

NO_SPARK: Any = None
ESTIMATE = {
    "run_id": "r",
    "model": "m",
    "estimator": "ure_macro",
    "metric": "recall",
    "k": 10,
    "value": 0.1,
    "standard_error": 0.01,
    "low": 0.08,
    "high": 0.12,
    "confidence": 0.9,
    "n_users": 9,
    "n_left_out": 1,
    "n_unknown": 0,
    "estimand": "words",
}


def test_a_lake_of_an_earlier_version_has_no_comparisons(tmp_path: Path) -> None:
    write_deltalake(
        tmp_path / "estimates", pa.table({name: [value] for name, value in ESTIMATE.items()}), partition_by=["run_id"]
    )
    answers = read_answers(NO_SPARK, str(tmp_path), "r", (Metric("recall", 10),))
    (row,) = answers.estimates
    assert (row.model, row.value, row.chance_best, row.reason) == ("m", 0.1, None, None)
    assert (answers.comparisons, answers.confidence) == ([], 0.9)


def test_comparisons_and_new_columns_are_read_by_name(tmp_path: Path) -> None:
    lake = Lake(NO_SPARK, str(tmp_path))
    estimate = ESTIMATE | {
        "chance_best": 0.7,
        "left_out": "nobody",
        "reason": None,
        "ties_low": 0.05,
        "ties_high": 0.15,
    }
    estimate = {name: estimate.get(name) for name in ESTIMATES.names if name != "run_id"}
    lake.put(ESTIMATES, [estimate], {"run_id": "r"})
    pair = {
        "estimator": "ure_macro",
        "metric": "recall",
        "k": 10,
        "model_a": "m",
        "model_b": "n",
        "difference": 0.1,
        "low": 0.05,
        "high": 0.15,
    }
    pair |= {
        "confidence": 0.9,
        "p": 0.01,
        "p_holm": 0.02,
        "p_fdr": 0.02,
        "verdict": "a better",
        "wins": 3,
        "ties": 2,
        "losses": 1,
        "users_needed": 40,
        "slice": "category=toys",
    }
    lake.put(COMPARISONS, [dict.fromkeys(COMPARISONS.names[1:]) | pair], {"run_id": "r"})
    answers = read_answers(NO_SPARK, str(tmp_path), "r", ())
    (row,) = answers.estimates
    assert (row.chance_best, row.left_out, row.ties_low, row.ties_high) == (0.7, "nobody", 0.05, 0.15)
    assert answers.comparisons == [
        ComparisonRow(
            "ure_macro", "recall", 10, "m", "n", 0.1, 0.05, 0.15, 0.9, 0.01, 0.02, "a better", 3, 2, 1, None, 40,
            slice="category=toys",
        )
    ]  # fmt: skip


def test_slices_are_read_and_their_column_may_be_missing_or_null(tmp_path: Path) -> None:
    rows = [ESTIMATE | {"slice": name, "value": n / 10} for n, name in enumerate(("all", None, "category=toys"))]
    write_deltalake(tmp_path / "estimates", pa.Table.from_pylist(rows), partition_by=["run_id"])
    estimates = read_answers(NO_SPARK, str(tmp_path), "r", ()).estimates
    assert {row.value: row.slice for row in estimates} == {0.0: "all", 0.1: None, 0.2: "category=toys"}


def test_a_run_without_rows_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no row of run_id=r"):
        read_answers(NO_SPARK, str(tmp_path), "r", ())
