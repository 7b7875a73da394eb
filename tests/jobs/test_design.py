"""The stage design: the plan of the numpy API on any partitioning, in both frames; exports; what is refused."""

import csv
from io import StringIO

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable
from rich.console import Console

from eval_engine.errors import ConfigError, DataError
from eval_engine.exposure_design.design import design_exposures
from jobs import design, rank
from jobs.cli import load
from jobs.pipeline import check_asked, stages_of


def planned(run, spark, **section):
    """The said lines, and the rows of the plan by user."""
    run.config["design"] = {"exposures": 6, "uniform": 2, "cutoffs": [3, 5], "seed": 4} | section
    console = Console(record=True, file=StringIO(), width=500)
    design.run(spark, load(run.write()), console)
    return console.export_text(), {row["user_id"]: row for row in run.rows(spark, "exposure_plan")}


@pytest.fixture
def ranked(own_lake, tmp_path):
    own_lake.config, own_lake.folder = (
        dict(own_lake.config),
        tmp_path,
    )  # the inputs of the finished run stay as they are
    return own_lake


def top_lists(run, spark):
    """(models, users, length) of positions, and the users."""
    rows = run.rows(spark, "ranks")
    position = {item: n for n, item in enumerate(run.items.tolist())}
    users = sorted({row["user_id"] for row in rows})
    found = np.full((2, len(users), 10), -1)
    for row in rows:
        own = [position[item] for item in row["top"]["items"]]
        found["ab".index(row["model"]), users.index(row["user_id"]), : len(own)] = own
    return found, users


@pytest.mark.parametrize("partitions", ["1", "7"])
def test_the_plan_is_that_of_numpy_on_any_number_of_partitions(ranked, spark, partitions):
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", partitions)
    try:
        said, rows = planned(ranked, spark)
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)
    lists, users = top_lists(ranked, spark)
    logged = [ranked.logged[ranked.users.tolist().index(user)] for user in users]
    expected = design_exposures(lists, 30, 6, 2, 4, cutoffs=(3, 5), excluded=logged, users=users, items=ranked.items)
    assert sorted(rows) == users
    for n, user in enumerate(users):
        row = rows[user]
        assert row["items"] == ranked.items[expected.items[n]].tolist()
        assert row["probabilities"] == expected.probabilities[n].tolist()
        assert row["in_uniform"] == expected.in_uniform[n].tolist()
        assert row["in_targeted"] == expected.in_targeted[n].tolist()
        assert row["candidates"] == 25
    assert "of 40 users, 2 of 6 drawn from the whole frame" in said
    assert "take the uniform arm only" in said


def test_all_items_are_a_frame_too(ranked, spark):
    ranked.config["frame"] = "all_items"
    _, rows = planned(ranked, spark, uniform=6)
    logged = {
        user: set(ranked.items[row].tolist()) for user, row in zip(ranked.users.tolist(), ranked.logged, strict=True)
    }
    assert all(row["candidates"] == 30 for row in rows.values())
    assert any(logged[user] & set(row["items"]) for user, row in rows.items())


def test_a_budget_bounds_the_users_and_more_users_keep_them(ranked, spark):
    few = planned(ranked, spark, budget=60)[1]
    more = planned(ranked, spark, users=25)[1]
    assert 5 <= len(few) <= 10
    assert 15 <= len(more) <= 25
    assert {user: row["items"] for user, row in few.items()}.items() <= {u: r["items"] for u, r in more.items()}.items()


@pytest.mark.parametrize("written", ["parquet", "delta", "csv"])
def test_the_plan_is_written_for_who_serves_it(ranked, spark, tmp_path, written):
    to = {"path": str(tmp_path / "served"), "format": written, "columns": {"user_id": "uid"}}
    _, rows = planned(ranked, spark, users=10, to=to)
    expected = {
        (user, item): (p, u, t)
        for user, row in rows.items()
        for item, p, u, t in zip(row["items"], row["probabilities"], row["in_uniform"], row["in_targeted"], strict=True)
    }
    if written == "csv":
        lines = [row for file in (tmp_path / "served").glob("*.csv") for row in csv.DictReader(file.open())]
        found = {
            (int(x["uid"]), int(x["item_id"])): (
                float(x["exposure_probability"]), x["in_uniform"] == "true", x["in_targeted"] == "true",
            )
            for x in lines
        }  # fmt: skip
    else:
        table = (
            DeltaTable(str(tmp_path / "served")).to_pyarrow_table()
            if written == "delta"
            else ds.dataset(tmp_path / "served").to_table()
        )
        names = ("uid", "item_id", "exposure_probability", "in_uniform", "in_targeted")
        found = {(u, i): (p, a, t) for u, i, p, a, t in zip(*(table.column(n).to_pylist() for n in names), strict=True)}
    assert found == expected


def test_lists_of_a_third_of_the_frame_are_not_worth_it(ranked, spark):
    assert "Not worth it" in planned(ranked, spark, cutoffs=[9])[0]


@pytest.mark.parametrize(
    ("section", "error", "words"),
    [
        ({"budget": 5}, ConfigError, "fewer than the 6 of one user"),
        ({"uniform": 7}, ConfigError, "cannot be uniform"),
        ({"users": 5, "budget": 60}, ConfigError, "give one of them"),
        ({"exposures": 31, "uniform": 2}, ConfigError, "only 30 items"),
        ({"exposures": 30, "uniform": 26}, DataError, "user_id=.* fewer than 26 items"),
        ({"cutoffs": [10]}, ConfigError, "beyond the end of the top lists, which hold 9"),
        ({"models": ["a"], "aim": "differences"}, ConfigError, "two models or more"),
        ({"models": ["a", "c"]}, ConfigError, "c has no ranks in this run. It has a, b"),
        ({"models": ["a", "a"]}, ConfigError, "a model twice"),
    ],
)
def test_what_cannot_be_planned_is_an_error(ranked, spark, section, error, words):
    with pytest.raises(error, match=words):
        planned(ranked, spark, **section)


def test_identical_models_are_refused_and_leave_no_plan(small_run, spark):
    small_run.scores["b"] = small_run.scores["a"]
    small_run.tables["scores/b"] = small_run.vectors("b")
    small_run.config["inputs"].pop("truth")
    rank.run(spark, load(small_run.write()), Console(file=StringIO()))
    with pytest.raises(DataError, match="the same lists for every user"):
        planned(small_run, spark)
    assert small_run.rows(spark, "exposure_plan") == []


def test_a_plan_does_not_overwrite_an_input(ranked, spark):
    with pytest.raises(ConfigError, match=r"is inputs\.feedback"):
        planned(ranked, spark, to={"path": ranked.config["inputs"]["feedback"]["path"], "format": "parquet"})


def test_texts_are_ids_too(small_run, spark):
    for name, table in small_run.tables.items():
        for column in ("user_id", "item_id"):
            if column in table.column_names:
                text = pa.array([f"x{value}" for value in table.column(column).to_pylist()])
                table = table.set_column(table.column_names.index(column), column, text)
        small_run.tables[name] = table
    rank.run(spark, load(small_run.write()), Console(file=StringIO()))
    _, rows = planned(small_run, spark)
    assert len(rows) == 40
    assert all(item.startswith("x") for row in rows.values() for item in row["items"])


def test_a_run_without_labels_is_ranked_for_its_top_lists(small_run, spark):
    small_run.config["inputs"] = {name: small_run.config["inputs"][name] for name in ("catalogue", "feedback")}
    with pytest.raises(ConfigError, match=r"no labels to judge models by.*or a section design"):
        load(small_run.write())
    small_run.config["design"] = {"exposures": 6, "uniform": 2, "cutoffs": [3, 5], "seed": 4}
    config = load(small_run.write())
    assert stages_of(config) == ("rank", "design")
    with pytest.raises(ConfigError, match="no labels to judge models by, so there is nothing for the stage evaluate"):
        check_asked(config, "evaluate")
    rank.run(spark, config, Console(file=StringIO()))
    lists, users = top_lists(small_run, spark)
    assert users == small_run.users.tolist()
    scores = np.stack([small_run.scores[model].astype(float) for model in ("a", "b")])
    for own in scores:
        np.put_along_axis(own, small_run.logged, -np.inf, axis=1)
    assert (lists[:, :, :9] == np.argsort(-scores, axis=2, kind="stable")[:, :, :9]).all()
    _, rows = planned(small_run, spark)
    expected = design_exposures(
        lists, 30, 6, 2, 4, cutoffs=(3, 5), excluded=list(small_run.logged), users=users, items=small_run.items
    )
    assert [rows[user]["items"] for user in users] == [small_run.items[own].tolist() for own in expected.items]
