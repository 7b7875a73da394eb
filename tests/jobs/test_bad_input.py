"""Every bad input ends in an error that names table, key and value, or in quarantine with a count; nothing half-written is left."""

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from eval_engine.errors import DataError, LakeError, PlumblineError, as_operator_error
from eval_engine.lake.lake import Lake
from eval_engine.ranking.rank import plans
from eval_engine.tables import ESTIMATES, RANKS
from jobs import rank as job
from jobs.cli import load
from tests.eval_engine.ranking.test_layouts import long_files, rows


def add(table: str, **row: Any) -> Callable[[Any], None]:
    """A change that appends one row to a table."""

    def change(run: Any) -> None:
        old = run.tables[table]
        run.tables[table] = pa.concat_tables(
            [old, pa.table({name: pa.array([row[name]], old.schema.field(name).type) for name in old.column_names})]
        )

    return change


def column(table: str, name: str, make: Callable[[pa.Table], Any]) -> Callable[[Any], None]:
    """A change that replaces one column."""

    def change(run: Any) -> None:
        old = run.tables[table]
        run.tables[table] = old.set_column(old.column_names.index(name), name, make(old))

    return change


def probability(value: Any, row: int = 3) -> Callable[[Any], None]:
    """A change that gives the exposures probabilities, and one of them this one."""

    def change(run: Any) -> None:
        table = run.tables["exposures"]
        probabilities = pa.array([value if n == row else 0.25 for n in range(table.num_rows)], pa.float64())
        run.tables["exposures"] = table.append_column("exposure_probability", probabilities)

    return change


def vector(row: int, value: Any) -> Callable[[Any], None]:
    """A change of one user's score vector of model a."""

    def make(table: pa.Table) -> pa.Array:
        vectors = table.column("scores").to_pylist()
        vectors[row] = value(vectors[row]) if callable(value) else value
        return pa.array(vectors, pa.binary())

    return column("scores/a", "scores", make)


def with_nan(vector: bytes) -> bytes:
    scores = np.frombuffer(vector, "<f4").copy()
    scores[3] = np.nan
    return scores.tobytes()


def drop(table: str, name: str) -> Callable[[Any], None]:
    return lambda run: run.tables.update({table: run.tables[table].drop_columns([name])})


def emptied(table: str) -> Callable[[Any], None]:
    return lambda run: run.tables.update({table: run.tables[table].slice(0, 0)})


def copied(source: str, target: str) -> Callable[[Any], None]:
    """A change that adds the first row of one table to another."""
    return lambda run: run.tables.update(
        {target: pa.concat_tables([run.tables[target], run.tables[source].slice(0, 1)])}
    )


BAD = {
    "missing column": (drop("exposures", "value"), "exposures: column 'value' is missing; found user_id, item_id"),
    "wrong type of a value": (
        column("exposures", "value", lambda t: pa.array(["x"] * t.num_rows)),
        r"exposures.value has type STRING, but a number",
    ),
    "wrong type of an id": (
        column("feedback", "item_id", lambda t: t["item_id"].cast(pa.float64())),
        r"feedback.item_id has type DOUBLE",
    ),
    "ids of two types": (
        column("feedback", "user_id", lambda t: t["user_id"].cast(pa.string())),
        "Ids must be of one type.*feedback.user_id STRING",
    ),
    "empty table": (emptied("exposures"), "exposures: .* is empty"),
    "empty scores": (lambda run: (emptied("scores/a")(run), emptied("scores/b")(run)), "scores: .*no rows"),
    "duplicate pair": (copied("exposures", "exposures"), "exposures: 2 rows break the rule duplicate_key"),
    "exposure that was logged before": (
        copied("feedback", "exposures"),
        "rule exposed_but_seen.*frame: all_items if they were drawn from all",
    ),
    "NULL value": (
        add("exposures", user_id=100, item_id=1000, value=None),
        "exposures: 1 row breaks the rule null_value.*value=NULL",
    ),
    "NaN value": (
        add("exposures", user_id=100, item_id=1000, value=float("nan")),
        "exposures: 1 row breaks the rule nan_value",
    ),
    "NULL user": (
        add("feedback", user_id=None, item_id=1000, value=1.0),
        "feedback: 1 row breaks the rule null_key.*user_id=NULL",
    ),
    "exposed item outside the catalogue": (
        add("exposures", user_id=100, item_id=1, value=5.0),
        "exposures: 1 row breaks the rule outside_catalogue .first: user_id=100, item_id=1, value=5.0",
    ),
    "NULL probability": (
        probability(None),
        "exposures: 1 row breaks the rule bad_probability .first: user_id=100, item_id=.*probability=NULL",
    ),
    "NaN probability": (
        probability(float("nan")),
        "rule bad_probability .*exposure_probability=NaN.: .* above 0 and at most 1.*quarantine",
    ),
    "probability 0": (probability(0.0), "rule bad_probability .*exposure_probability=0.0"),
    "probability above 1": (
        probability(1.5),
        "exposures: 1 row breaks the rule bad_probability .first: user_id=100, item_id=.*probability=1.5",
    ),
    "probabilities that are text": (
        lambda run: run.tables.update(
            {"exposures": run.tables["exposures"].append_column("exposure_probability", pa.array(["x"] * 240))}
        ),
        "exposures.exposure_probability has type STRING, but a number",
    ),
    "probability mapped to a column that is missing": (
        lambda run: run.config["inputs"]["exposures"].update(columns={"exposure_probability": "p"}),
        "exposures: column 'p' is missing; found user_id, item_id, value.*columns: {exposure_probability: "
        "its_name_there}",
    ),
    "probability of feedback": (
        lambda run: run.config["inputs"]["feedback"].update(columns={"exposure_probability": "p"}),
        "feedback: columns maps exposure_probability, which is not a column of this table",
    ),
    "NaN score": (
        vector(4, with_nan),
        "scores of model a: user_id=104 cannot be ranked: its score of item_id=1009 is NaN",
    ),
    "NULL score vector": (vector(4, None), "user_id=104 cannot be ranked: its score vector is NULL"),
    "short score vector": (
        vector(4, lambda v: v[:-4]),
        "user_id=104 cannot be ranked: its score vector has 29 scores for a catalogue of 30",
    ),
    "vector of odd bytes": (
        vector(4, lambda v: v[:-1]),
        "user_id=104 cannot be ranked: its score vector has 29.75 scores",
    ),
    "a user scored twice": (
        lambda run: run.tables.update(
            {"scores/a": pa.concat_tables([run.tables["scores/a"], run.tables["scores/a"].slice(2, 1)])}
        ),
        "scores: 1 user breaks the rule duplicate_key .first: user_id=102",
    ),
    "model missing": (
        lambda run: (
            run.tables.update(
                {"scores/a": run.tables["scores/a"].append_column("model", pa.array(["a"] * 39 + [None]))}
            ),
            run.config["scores"][0].pop("model"),
        ),
        "scores of .*a: 1 rows have model=NULL",
    ),
    "labels without scores": (
        lambda run: run.tables.update({"scores/b": run.tables["scores/b"].slice(1)}),
        "scores: 1 user breaks the rule not_scored .first: user_id=100, model=b",
    ),
    "scores of another type": (
        column("scores/a", "scores", lambda t: pa.array([1.0] * t.num_rows)),
        "column 'scores' has type DOUBLE",
    ),
    "catalogue position missing": (
        column("catalogue", "position", lambda t: pa.array([None, *range(1, 30)], pa.int32())),
        "catalogue: item_id=1000 has position=NULL",
    ),
    "catalogue position twice": (
        column("catalogue", "position", lambda t: pa.array([1, *range(1, 30)], pa.int32())),
        "catalogue: positions of 30 items must be 0 to 29",
    ),
    "catalogue item twice": (
        add("catalogue", item_id=1000, position=30),
        "catalogue: item_id=1000 stands in it more than once",
    ),
    "absent input": (
        lambda run: run.config["inputs"]["exposures"].update(path=str(run.folder / "absent")),
        "exposures: .*absent cannot be read",
    ),
    "column mapped that is none": (
        lambda run: run.config["inputs"]["exposures"].update(columns={"rating": "value"}),
        "exposures: columns maps rating",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_an_error_that_says_what_and_where(small_run: Any, spark: SparkSession, name: str) -> None:
    change, told = BAD[name]
    change(small_run)
    with pytest.raises(PlumblineError, match=told) as error:
        small_run.ranks(spark)
    assert error.value.exit_code == 3
    assert "Traceback" not in str(error.value)


def test_a_failed_run_leaves_nothing_but_its_failure(small_run: Any, finished_run: Any, spark: SparkSession) -> None:
    small_run.config |= {"lake": finished_run.config["lake"], "run_id": "failed"}
    vector(39, with_nan)(small_run)  # found while ranking, after other tasks were done
    with pytest.raises(DataError, match="user_id=139 cannot be ranked"):
        small_run.run(spark)
    lake = Lake(spark, small_run.config["lake"])
    assert lake.read(RANKS, "failed").isEmpty()
    assert lake.read(ESTIMATES, "failed").isEmpty()
    assert not lake.read(RANKS, "small").isEmpty()
    ((stage, status, error),) = [(row[1], row[2], row[8]) for row in small_run.rows(spark, "runs")]
    assert (stage, status) == ("rank", "failed")
    assert "user_id=139" in error


def test_quarantine_counts_keeps_the_rows_and_goes_on(small_run: Any, finished_run: Any, spark: SparkSession) -> None:
    small_run.config |= {"lake": finished_run.config["lake"], "run_id": "kept_out", "on_bad_rows": "quarantine"}
    for change in (
        add("exposures", user_id=100, item_id=1, value=5.0),
        add("exposures", user_id=None, item_id=1000, value=5.0),
        add("truth", user_id=100, item_id=1000, value=2.0),
        vector(4, with_nan),
        vector(7, None),
    ):
        change(small_run)
    small_run.tables["scores/b"] = small_run.tables["scores/b"].slice(1)
    small_run.run(spark)
    counts = {
        (row[1], row[2]): (row[3], row[5]) for row in small_run.rows(spark, "quality") if row[6] is None
    }  # checks have a verdict
    assert counts == {
        ("exposures", "null_key"): (1, "quarantined"),
        ("exposures", "outside_catalogue"): (1, "quarantined"),
        ("scores", "bad_vector"): (2, "quarantined"),
        ("scores", "not_scored"): (1, "left out"),
        ("truth", "duplicate_key"): (2, "quarantined"),
        ("truth", "outside_frame"): counts["truth", "outside_frame"],
    }
    kept = small_run.rows(spark, "quarantine")
    assert len(kept) == 6
    assert ("kept_out", "exposures", "outside_catalogue", '{"user_id":100,"item_id":1,"value":5.0}') in kept
    ranks = {(row[1], row[3]): row for row in small_run.rows(spark, "ranks")}
    assert ranks["a", 104][4] is None
    assert "NaN" in ranks["a", 104][-1]
    assert ranks["a", 107][-1] == "its score vector is NULL"
    estimates = {(row[1], row[2], row[4]): row for row in small_run.rows(spark, "estimates")}
    # 2 vectors of model a cannot be ranked and model b lacks 1 user: all three are left out for both.
    assert [
        estimates[model, "full_macro", 3].n_users + estimates[model, "full_macro", 3].n_left_out for model in ("a", "b")
    ] == [37, 37]


def test_a_lake_that_cannot_be_written(small_run: Any, spark: SparkSession) -> None:
    (small_run.folder / "file").parent.mkdir(parents=True, exist_ok=True)
    (small_run.folder / "file").write_text("")
    small_run.config["lake"] = str(small_run.folder / "file" / "lake")
    with pytest.raises(LakeError, match=r"cannot be written.*Give a writable `lake`") as error:
        small_run.run(spark)
    assert error.value.exit_code == 4


@pytest.mark.parametrize(("first", "last"), [(0, -200), (4, None)])
def test_a_score_file_that_is_not_whole(small_run: Any, spark: SparkSession, first: int, last: int | None) -> None:
    path = small_run.write()
    file = small_run.folder / "in" / "scores" / "a" / "part-0.parquet"
    file.write_bytes(file.read_bytes()[first:last])
    config = load(path)
    lake = Lake(spark, config.lake)
    told = pytest.raises(DataError, match=r"part-0.parquet cannot be read|scores of a: .*cannot be read")
    with told, as_operator_error(), job.checked(spark, config, lake, job.already_ranked(spark, config, lake)):
        pass


def page_overwritten(file: Path, column: str) -> None:
    """Spoils the first page of a column; footer and other columns stay whole."""
    footer = pq.read_metadata(file)
    chunk = footer.row_group(0).column(footer.schema.to_arrow_schema().names.index(column))
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    data = bytearray(file.read_bytes())
    data[start : start + 24] = b"\xff" * 24
    file.write_bytes(bytes(data))


@pytest.mark.parametrize(("layout", "what"), [("dense", "vanished"), ("long", "corrupt")])
def test_a_score_file_that_changes_after_planning(small_run: Any, spark: SparkSession, layout: str, what: str) -> None:
    if layout == "long":
        small_run.config["scores"][0] = {"model": "a"} | long_files(
            small_run.folder / "long", rows(small_run, np.arange(1200)), 1, 500
        )
    config = load(small_run.write())
    file = small_run.folder / ("long/part-0.parquet" if layout == "long" else "in/scores/a/part-0.parquet")
    told = pytest.raises(
        DataError, match=r"part-0.parquet was replaced, changed or removed while it was read.*Start the run again"
    )
    lake = Lake(spark, config.lake)
    with told, as_operator_error(), job.checked(spark, config, lake, job.already_ranked(spark, config, lake)) as inputs:
        made = plans(inputs.found)
        if what == "vanished":
            file.unlink()
        else:
            page_overwritten(file, "score" if layout == "long" else "scores")
        try:
            job.write_ranks(lake, "small", inputs.found.id_type, made, {"a": "x", "b": "y"}, ())
        finally:
            assert not list(
                Path(config.lake).glob("ranks/run_id=small/**/*.parquet")
            )  # what other tasks had written is gone
            assert lake.read(RANKS, "small").isEmpty()


def test_long_rows_that_cannot_be_ranked(small_run: Any, spark: SparkSession) -> None:
    def spoilt(order: np.ndarray) -> pa.Table:
        table = rows(small_run, order).to_pydict()
        found = list(zip(table["user_id"], table["item_id"], table["score"], strict=True))
        again = next(row for row in found if row[0] == 101)
        found = [row for row in found if row[:2] != (104, 1000)]  # misses an item
        found = [
            (u, 7 if (u, i) == (102, 1003) else i, float("nan") if (u, i) == (103, 1006) else s) for u, i, s in found
        ]
        found.insert(found.index(again), again)  # an item twice, in the place of the first
        columns = list(zip(*found, strict=True))
        return pa.table({"user_id": columns[0], "item_id": columns[1], "score": pa.array(columns[2], pa.float32())})

    order = np.random.default_rng(1).permutation(1200)
    small_run.config["scores"] = [
        {"model": name} | long_files(small_run.folder / name, spoilt(chosen), 3, 200)
        for name, chosen in (("together", np.arange(1200)), ("apart", order))
    ]
    small_run.config["on_bad_rows"] = "quarantine"
    found = {(row["model"], row["user_id"]): row for row in small_run.ranks(spark)}
    told = {
        101: "1 of its 31 scores are of items that it scored before",
        102: "1 of its 30 scores are of items that are not in the catalogue",
        103: "1 of its 30 scores are NaN or NULL",
        104: "it has 29 scores for a catalogue of 30 items",
    }
    for model in ("together", "apart"):
        for user in small_run.users:
            row = found[model, user]
            assert (row["problem"] or "").startswith(told.get(user, "")), (model, user, row["problem"])
            assert (row["problem"] is None) == (row["top"] is not None) == (user not in told)


@pytest.mark.parametrize(
    ("kind", "change", "told"),
    [
        (
            pa.decimal128(20, 12),
            lambda score: Decimal(score).quantize(Decimal("1e-12")),
            r"scores of a: column 'score' has type DECIMAL\(20,12\), but scores are ranked as DOUBLE.*15 digits",
        ),
        (
            pa.int64(),
            lambda score: 2**53 + int(score * 100),
            r"scores of a: column 'score' of type BIGINT has the score 9007199254\d+.*up to 9007199254740992 only",
        ),
    ],
)
def test_scores_that_a_double_cannot_hold_are_refused(
    small_run: Any, spark: SparkSession, kind: pa.DataType, change: Any, told: str
) -> None:
    table = rows(small_run, np.arange(1200))
    changed = pa.array([change(score) for score in table.column("score").to_pylist()], kind)
    small_run.config["scores"][0] = {"model": "a"} | long_files(
        small_run.folder / "long", table.set_column(2, "score", changed), 1, 500
    )
    with pytest.raises(DataError, match=told):
        small_run.ranks(spark)


@pytest.mark.parametrize("kind", [pa.decimal128(15, 6), pa.int64(), pa.int16()])
def test_scores_of_other_types_are_ranked_as_they_are(small_run: Any, spark: SparkSession, kind: pa.DataType) -> None:
    table = rows(small_run, np.arange(1200))
    order = np.argsort(np.argsort(table.column("score").to_numpy())).astype(np.int64)
    made = (
        pa.array([Decimal(int(n)) / 1000 for n in order], kind) if pa.types.is_decimal(kind) else pa.array(order, kind)
    )
    small_run.config["scores"] = [
        {"model": name} | long_files(small_run.folder / name, table.set_column(2, "score", scores), 1, 500)
        for name, scores in (("as_it_is", made), ("double", pa.array(order, pa.float64())))
    ]
    found: dict[str, list[Any]] = {"as_it_is": [], "double": []}
    for row in sorted(small_run.ranks(spark), key=lambda row: row["user_id"]):
        found[row["model"]].append((row["user_id"], row["random"]["above"], row["random"]["tied"], row["top"]["items"]))
    assert found["as_it_is"] == found["double"]


def test_an_input_that_was_mended_is_read_anew_in_the_same_session(small_run: Any, spark: SparkSession) -> None:
    whole = small_run.tables["exposures"]
    small_run.tables["exposures"] = whole.slice(0, 0)
    with pytest.raises(DataError, match="is empty"):
        small_run.ranks(spark)
    small_run.tables["exposures"] = whole
    assert len(small_run.ranks(spark)) == 80
