"""The whole loop on the synthetic world: a run, a plan, what was shown by it, and the verdict; and what did not come
back as planned.
"""

from io import StringIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

import eval_engine as e
from eval_engine.errors import ConfigError, DataError
from jobs import collect, design, evaluate, rank
from jobs.cli import load

SECTION = {"exposures": 8, "uniform": 4, "cutoffs": [3], "seed": 4}


def done(stage, run, spark):
    console = Console(record=True, file=StringIO(), width=1000)
    stage.run(spark, load(run.write()), console)
    return console.export_text()


@pytest.fixture
def served(own_lake, spark, tmp_path):
    """The finished run with a plan, and the answers to all that was planned, as a table `shown`."""
    run = own_lake
    run.folder = tmp_path
    run.config = dict(run.config) | {"design": SECTION}
    done(design, run, spark)
    run.plan = run.rows(spark, "exposure_plan")
    number = {user: n for n, user in enumerate(run.users.tolist())}
    place = {item: n for n, item in enumerate(run.items.tolist())}
    run.shown = [
        (row["user_id"], item, float(run.truth_values[number[row["user_id"]], place[item]]))
        for row in run.plan
        for item in row["items"]
    ]
    run.config = {name: value for name, value in run.config.items() if name != "design"} | {
        "run_id": "after",
        "collect": {"plan": "small", "shown": {"path": str(tmp_path / "shown")}},
        "inputs": run.config["inputs"] | {
            "designed": {"path": str(tmp_path / "designed"), "format": "parquet"},
            "exposures": {"path": str(tmp_path / "arm_u"), "format": "parquet"},
        },
    }  # fmt: skip
    return run


def collected(run, spark, shown):
    (run.folder / "shown").mkdir(exist_ok=True)
    columns = dict(zip(("user_id", "item_id", "value"), map(list, zip(*shown, strict=True)), strict=True))
    pq.write_table(pa.table(columns), run.folder / "shown" / "part-0.parquet")
    return done(collect, run, spark)


def test_what_was_planned_shown_and_answered_is_evaluated_as_by_numpy(served, spark):
    said = collected(served, spark, served.shown)
    assert f"{len(served.shown):,} of {len(served.shown):,} planned exposures were shown, to 40 of 40 users" in said
    assert "not planned" not in said
    served.config["evaluate"] = {"metrics": ["precision@3", "dcg@3", "recall@3"], "known_sizes": True}
    done(rank, served, spark)
    done(evaluate, served, spark)
    rows = {(row["model"], row["estimator"], row["metric"]): row for row in served.rows(spark, "estimates")}
    place = {item: n for n, item in enumerate(served.items.tolist())}
    plan = {row["user_id"]: row for row in served.plan}
    items = [[place[item] for item in plan[user]["items"]] for user in served.users.tolist()]
    values = [served.truth_values[n, row] > 3 for n, row in enumerate(items)]
    for model in ("a", "b"):
        facts = e.rank_facts(served.scores[model], items, values, list(served.logged))
        facts = facts._replace(
            probability=np.concatenate([plan[user]["probabilities"] for user in served.users.tolist()]),
            in_uniform=np.concatenate([plan[user]["in_uniform"] for user in served.users.tolist()]),
        )
        for estimator, metric, answer in (
            ("designed_mean", "precision", e.designed_precision),
            ("designed_mean", "dcg", e.designed_dcg),
            ("designed_micro", "recall", e.designed_recall),
            ("designed_mean_known", "precision", e.designed_precision_mean_known),
            ("designed_mean_known", "dcg", e.designed_dcg_mean_known),
            ("ure_mean", "precision", e.ure_precision),
            ("ure_mean_known", "precision", e.ure_precision_mean_known),
            ("ure_macro", "recall", e.ure_recall),
            ("ure_micro", "recall", e.ure_recall_micro),
        ):
            row, own = rows[model, estimator, metric], answer(facts, k=3)
            np.testing.assert_allclose([row["value"], row["standard_error"]], own[:2], rtol=1e-9, err_msg=estimator)
            assert (row["n_users"], row["n_left_out"]) == (own.n_users, own.n_left_out)
    assert not any(
        name.startswith("designed") and metric == "recall" and name != "designed_micro" for _, name, metric in rows
    )
    assert "both arms" in rows["a", "designed_mean", "dcg"]["estimand"]
    compared = {(row["estimator"], row["metric"]) for row in served.rows(spark, "comparisons")}
    assert {("designed_mean", "precision"), ("designed_micro", "recall"), ("designed_mean_known", "dcg")} <= compared
    quality = {(row["table"], row["rule"]): row for row in served.rows(spark, "quality")}
    assert not [key for key, row in quality.items() if row["verdict"] == "fail"]


def test_what_differs_from_the_plan_is_counted(served, spark):
    lost, twice = served.shown[0], served.shown[20]
    user = served.plan[3]["user_id"]
    rest = [row for row in served.shown[1:] if row[0] != user]
    stranger = (
        served.plan[0]["user_id"],
        next(i for i in served.items.tolist() if i not in served.plan[0]["items"]),
        1.0,
    )
    with pytest.raises(DataError, match=f"1 planned pairs are there more than once .first: user_id={twice[0]}"):
        collected(served, spark, [*rest, twice, stranger])
    served.config["on_bad_rows"] = "quarantine"
    said = collected(served, spark, [*rest, twice, stranger])
    assert "to 39 of 40 users" in said
    assert "Planned, not shown: 1 exposures" in said
    probability = next(
        p for i, p in zip(served.plan[0]["items"], served.plan[0]["probabilities"], strict=True) if i == lost[1]
    )
    total = sum(1 / p for row in served.plan if row["user_id"] != user for p in row["probabilities"])
    assert f"would be {1 / probability / total:.4f} higher" in said
    assert f"Shown, not planned: 1 rows (first: user_id={stranger[0]}, item_id={stranger[1]})" in said
    assert "Shown more than once: 1 planned pairs" in said
    kept = pq.read_table(served.folder / "designed")
    assert kept.num_rows == len(rest) - 1
    arm_u = pq.read_table(served.folder / "arm_u")
    assert arm_u.num_rows == sum(kept.column("in_uniform").to_pylist())


def test_plans_of_other_runs_frames_and_scores_are_named(served, spark):
    shown = served.shown
    served.config["collect"] = served.config["collect"] | {"plan": "nobody"}
    with pytest.raises(DataError, match="has no plan of run nobody"):
        collected(served, spark, shown)
    served.config["collect"]["plan"] = "small"
    with pytest.raises(DataError, match="none of its 1 rows is in the plan of run small"):
        collected(served, spark, [(1, 2, 3.0)])
    served.config["scores"] = [
        served.config["scores"][0],
        {"model": "c"} | {"path": served.config["scores"][1]["path"]},
    ]
    assert "other scores of b, c" in collected(served, spark, shown)
    served.config["frame"] = "all_items"
    with pytest.raises(ConfigError, match="the plan of run small drew from the frame unseen"):
        collected(served, spark, shown)


def test_designed_exposures_need_probabilities_that_are_some(served, spark):
    collected(served, spark, served.shown)
    rows = pq.read_table(served.folder / "designed")
    served.config.pop("collect")
    served.config["inputs"]["designed"] = {"path": str(served.folder / "own"), "format": "parquet"}
    (served.folder / "own").mkdir()
    for wrong in (0.0, 1.5):
        chance = pa.array([wrong, *rows.column("exposure_probability").to_pylist()[1:]])
        pq.write_table(rows.set_column(3, "exposure_probability", chance), served.folder / "own" / "part-0.parquet")
        with pytest.raises(DataError, match=f"designed: 1 row breaks the rule bad_probability .*probability={wrong}"):
            done(rank, served, spark)
    pq.write_table(rows.drop_columns(["exposure_probability"]), served.folder / "own" / "part-0.parquet")
    with pytest.raises(DataError, match="no column exposure_probability"):
        done(rank, served, spark)


def test_a_place_for_each_table_is_needed(served):
    served.config["inputs"]["exposures"] = served.config["inputs"]["designed"]
    with pytest.raises(ConfigError, match="give each a path of its own"):
        load(served.write())
    served.config["inputs"].pop("designed")
    with pytest.raises(ConfigError, match=r"collect writes inputs\.designed"):
        load(served.write())
