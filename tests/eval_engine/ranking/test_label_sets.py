"""Label sets, each in its own frame, against loops over the definitions: ties, infinities, items in several tables,
users without labels, every layout of scores, whoever writes the table."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import yaml
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from rich.console import Console

from eval_engine.columns import Struct
from eval_engine.errors import ConfigError, DataError
from eval_engine.evaluation.spec import EvaluationSpec
from eval_engine.evaluation.statistics_plan import STATISTICS_COLUMNS, statistics, statistics_of_files
from eval_engine.lake.lake import Lake
from eval_engine.metric import Metric
from eval_engine.positive import Positive
from eval_engine.ranking.thresholds import thresholds_sql
from eval_engine.tables import LABELS, RANKS
from jobs import rank as job
from jobs.cli import load
from tests.eval_engine.ranking.test_layouts import long_files, rows
from tests.eval_engine.ranking.test_rank import check_ranks

LISTS = ("items", "values", "scores", "above", "tied")
TABLES = {"random": "exposures", "heldout": "heldout", "truth": "truth", "designed": "designed"}
SHARES = {"exposures": 0.3, "heldout": 0.2, "truth": 0.9, "feedback": 0.25}  # of all pairs
QUIET = Console(quiet=True)


class Nasty:
    """A small run with random labels: each user's pairs, by table, as positions; scores of few values, among them
    infinities, in five layouts. `kept`: of each model, the positions that are scored."""

    def __init__(self, run: Any, frame: str) -> None:
        rng = np.random.default_rng(17)
        n_users, n_items = len(run.users), len(run.items)
        self.run, self.frame = run, frame
        chosen = {name: rng.random((n_users, n_items)) < share for name, share in SHARES.items()}
        chosen["heldout"] &= ~chosen["feedback"]
        if frame == "unseen":  # exposures are drawn from what is left; the truth may have more
            chosen["exposures"] &= ~chosen["feedback"]
        for number, name in enumerate(SHARES):  # a user without pairs of each table, and one without any
            chosen[name][[number, 9]] = False
        chosen["feedback"][11] = True  # a user who has seen everything: no candidate is left to recommend
        for name in ("exposures", "heldout", "truth"):
            chosen[name][11] = False
        if frame == "all_items":
            chosen["exposures"][11, ::3] = True
        self.pairs = {name: [np.flatnonzero(row) for row in own] for name, own in chosen.items()}
        self.propensity = rng.integers(1, 9, (n_users, n_items)) / 8
        run.config |= {"frame": frame, "top": 7}
        run.config["evaluate"] = {"metrics": ["recall@1", "ndcg@7", "recall@7", "auc"], "traditional": []}
        for name, own in self.pairs.items():
            user = np.repeat(np.arange(n_users), [positions.size for positions in own])
            position = np.concatenate(own)
            order = rng.permutation(user.size)
            user, position = user[order], position[order]
            columns = {"user_id": run.users[user], "item_id": run.items[position]}
            columns["value"] = run.truth_values[user, position]
            if name == "heldout":
                columns["propensity"] = self.propensity[user, position]
            run.tables[name] = pa.table(columns)
            run.config["inputs"][name] = {"path": str(run.folder / "in" / name)}
        self.scores = rng.choice([-np.inf, -3.0, -0.0, 0.0, 0.5, 2.0, 4.0, np.inf], (n_users, n_items))
        run.scores = {"a": self.scores.astype(np.float32)}
        run.tables = {name: table for name, table in run.tables.items() if not name.startswith("scores/")}
        run.tables["scores/dense"] = run.vectors("a")
        everything, best = np.arange(n_users * n_items), np.flatnonzero(self.scores.ravel() >= 0.0)
        self.kept = {"dense": everything, "contiguous": everything, "scattered": rng.permutation(everything)}
        self.kept |= {"partial": best, "partial_scattered": rng.permutation(best)}
        run.config["scores"] = [{"model": "dense", "path": str(run.folder / "in" / "scores/dense")}]
        for name, order in self.kept.items():
            if name != "dense":
                where = long_files(run.folder / name, rows(run, order), 3, 100)
                run.config["scores"].append(where | {"model": name, "partial": name.startswith("partial")})

    def expected(self, model: str, u: int) -> dict[str, Any]:
        """A user's row of the ranks table."""
        n_items, items = len(self.run.items), [int(item) for item in self.run.items]
        scores = [float(score) for score in self.scores[u]]
        scored = {int(row) % n_items for row in self.kept[model] if row // n_items == u}
        left = [j for j in range(n_items) if j not in self.pairs["feedback"][u]]
        frame = left if self.frame == "unseen" else list(range(n_items))
        row: dict[str, Any] = {"candidates": len(left), "scored": len(scored & set(left))}
        for name, table in TABLES.items():
            candidates = left if name == "heldout" else frame
            labels = [i for i in (self.pairs[table][u].tolist() if table in self.pairs else []) if i in candidates]
            places = [
                (
                    scores[i],
                    sum(scores[j] > scores[i] for j in candidates),
                    sum(scores[j] == scores[i] for j in candidates) - 1,
                )
                if i in scored
                else (None, None, None)
                for i in labels
            ]
            if not scored.issuperset(candidates):  # a tie of the least score may go on beyond the list
                least = min((scores[j] for j in candidates if j in scored), default=None)
                places = [
                    (score, above, None if score is not None and score == least and tied else tied)
                    for score, above, tied in places
                ]
            row[name] = {
                "items": [items[i] for i in labels],
                "values": [float(self.run.truth_values[u, i]) for i in labels],
                "scores": [score for score, _, _ in places],
                "above": [above for _, above, _ in places],
                "tied": [tied for _, _, tied in places],
                "probabilities": [float(self.propensity[u, i]) for i in labels] if name == "heldout" else None,
                "candidates": len(candidates),
                "scored": len(scored & set(candidates)),
            }
        ranked = sorted((scores[j] for j in frame if j in scored), reverse=True)
        tau = [-np.inf if k >= len(frame) else ranked[k] if k < len(ranked) else None for k in (1, 7)]
        row["random"] |= {"k": [1, 7], "thresholds": tau}
        none: dict[str, Any] = {key: [] for key in ("items", "values", "scores", "above", "tied")} | {
            "probabilities": None
        }
        row["designed"] = none | {"candidates": len(frame), "scored": len(scored & set(frame))}
        top = sorted((j for j in left if j in scored), key=lambda j: (-scores[j], j))[:8]
        row["top"] = {"items": [items[j] for j in top], "scores": [scores[j] for j in top]}
        return row | {"problem": None}

    def check(self, found: list[Any]) -> None:
        users = {int(user): u for u, user in enumerate(self.run.users)}
        found = [row.asDict(recursive=True) for row in found]
        scored = {model: {int(row) // len(self.run.items) for row in kept} for model, kept in self.kept.items()}
        assert {(row["model"], users[row["user_id"]]) for row in found} == {
            (model, u) for model, own in scored.items() for u in own
        }
        for row in found:
            own = {name: value for name, value in row.items() if name not in ("run_id", "inputs", "model", "user_id")}
            assert own == self.expected(row["model"], users[row["user_id"]]), (row["model"], row["user_id"])


@pytest.fixture(params=["unseen", "all_items"])
def nasty(small_run: Any, request: pytest.FixtureRequest) -> Nasty:
    return Nasty(small_run, request.param)


@pytest.fixture
def partitions(spark: SparkSession) -> Iterator[Any]:
    """Sets the number of shuffle partitions, until the test is done."""
    before = spark.conf.get("spark.sql.shuffle.partitions")
    yield lambda n: spark.conf.set("spark.sql.shuffle.partitions", n)
    spark.conf.set("spark.sql.shuffle.partitions", before)


def test_every_set_in_its_own_frame_from_every_layout_on_any_partitioning_whoever_writes(
    nasty: Nasty, spark: SparkSession, partitions: Any
) -> None:
    partitions("1")
    nasty.check(nasty.run.ranks(spark))
    partitions("7")
    job.run(spark, load(nasty.run.write()), QUIET)  # the workers write
    lake = Lake(spark, nasty.run.config["lake"])
    found = lake.read(RANKS, "small")
    nasty.check(found.collect())
    assert found.where(" OR ".join(f"NOT coalesce(({rule}), false)" for rule in RANKS.rules)).isEmpty()
    spark.sql("DROP DATABASE IF EXISTS label_sets CASCADE")
    spark.sql(f"CREATE DATABASE label_sets LOCATION '{nasty.run.folder / 'catalog'}'")
    nasty.run.config["lake"] = "spark_catalog.label_sets"
    job.run(spark, load(nasty.run.write()), QUIET)  # Delta holds the rules of what Spark writes
    nasty.check(spark.table("label_sets.ranks").collect())
    shown = {tuple(row) for row in spark.table("label_sets.thresholds").collect()}
    over_paths = {tuple(row) for row in spark.sql(thresholds_sql(lake.name(RANKS))).collect()}
    assert shown == over_paths
    assert len(shown) == 2 * found.count()
    spark.sql("DROP DATABASE label_sets CASCADE")


def test_added_and_changed_label_sets_are_ranked_again_and_other_cutoffs_are_not(
    small_run: Any, spark: SparkSession
) -> None:
    job.run(spark, load(small_run.write()), QUIET)
    lake = Lake(spark, small_run.config["lake"])

    def kept() -> tuple[str, ...]:
        return job.already_ranked(spark, load(small_run.folder / "run.yaml"), lake).models

    def configured(**changes: Any) -> Path:
        path = small_run.folder / "run.yaml"
        path.write_text(yaml.safe_dump(small_run.config | changes))
        return path

    assert kept() == ("a", "b")
    inputs = small_run.config["inputs"]
    configured(inputs={name: where for name, where in inputs.items() if name != "truth"})
    assert kept() == ()
    configured(
        evaluate={"metrics": ["recall@3", "recall@5"], "traditional": ["recall@2"]}
    )  # evaluating reads no scores
    assert kept() == ("a", "b")
    configured(inputs=inputs | {"truth": inputs["exposures"], "exposures": inputs["truth"]})
    assert kept() == ()
    small_run.hold_out()
    job.run(spark, load(small_run.write()), QUIET)
    first = small_run.rows(spark, "ranks")
    assert all(len(row["heldout"]["items"]) == 5 for row in first)
    assert kept() == ("a", "b")
    table = small_run.tables["heldout"]
    small_run.tables["heldout"] = table.slice(1)
    small_run.write()
    assert kept() == ()


@pytest.mark.parametrize("given", ["heldout", "truth"])
def test_a_run_without_random_exposures(small_run: Any, spark: SparkSession, given: str) -> None:
    small_run.hold_out()
    inputs = small_run.config["inputs"]
    small_run.config["inputs"] = {name: inputs[name] for name in ("catalogue", "feedback", given)}
    job.run(spark, load(small_run.write()), QUIET)
    for row in small_run.rows(spark, "ranks"):
        for name in TABLES:
            assert bool(row[name]["items"]) == (name == given)
            assert row[name]["candidates"] == 25
        assert row["random"]["k"] == [3, 9]
    checks = {row["rule"]: row["verdict"] for row in small_run.rows(spark, "quality") if row["verdict"]}
    rules = ("uniform_exposure", "overlap", "score_coverage", "positives_per_user", "probability_sums")
    assert checks == dict.fromkeys(rules, "not applicable")


def test_a_run_without_labels_or_with_held_out_pairs_of_no_training_is_refused(small_run: Any) -> None:
    inputs = small_run.config["inputs"]
    small_run.config["inputs"] = {name: inputs[name] for name in ("catalogue", "feedback")}
    with pytest.raises(
        ConfigError, match=r"no labels to judge models by: give at least one of exposures .*heldout .*truth"
    ):
        load(small_run.write())
    small_run.config |= {"inputs": {"catalogue": inputs["catalogue"], "heldout": {"path": "x"}}, "frame": "all_items"}
    with pytest.raises(ConfigError, match=r"so feedback, the training pairs, is needed"):
        load(small_run.write())


def test_held_out_pairs_that_cannot_be_are_told_or_kept_out(small_run: Any, spark: SparkSession) -> None:
    small_run.hold_out()
    small_run.config["frame"] = "all_items"
    table = small_run.tables["heldout"]
    known = table.append_column("propensity", pa.array([0.5] * table.num_rows))

    def row(user: int, item: int | None, value: float | None, propensity: float | None) -> pa.Table:
        values = {"user_id": [user], "item_id": [item], "value": [value], "propensity": [propensity]}
        return pa.table(values, schema=known.schema)

    trained = int(small_run.items[small_run.logged[0, 0]])
    free = [int(item) for item in np.delete(small_run.items, [*small_run.logged[0], *small_run.held[0]])]
    bad = {
        "heldout_but_trained": row(100, trained, 4.0, 0.5),
        "outside_catalogue": row(100, 1, 4.0, 0.5),
        "bad_probability": row(100, free[0], 4.0, 1.5),
        "null_key": row(100, None, 4.0, 0.5),
        "null_value": row(100, free[1], None, 0.5),
        "nan_value": row(100, free[2], float("nan"), 0.5),
    }
    small_run.tables["heldout"] = pa.concat_tables([known, bad["heldout_but_trained"]])
    with pytest.raises(
        DataError,
        match=rf"heldout: 1 row breaks the rule heldout_but_trained \(first: user_id=100, item_id={trained}, value=4.0\).*"
        r"Take it out of feedback and train again, or take it out of heldout",
    ):
        small_run.ranks(spark)
    small_run.tables["heldout"] = pa.concat_tables([known, *bad.values()])
    small_run.config["on_bad_rows"] = "quarantine"
    job.run(spark, load(small_run.write()), QUIET)
    counts = {
        row["rule"]: (row["n_rows"], row["action"])
        for row in small_run.rows(spark, "quality")
        if row["table"] == "heldout"
    }
    assert counts == dict.fromkeys(bad, (1, "quarantined"))
    kept = {row["rule"]: row["row"] for row in small_run.rows(spark, "quarantine")}
    assert kept["bad_probability"] == f'{{"user_id":100,"item_id":{free[0]},"value":4.0,"propensity":1.5}}'
    assert kept["heldout_but_trained"] == f'{{"user_id":100,"item_id":{trained},"value":4.0,"propensity":0.5}}'
    ranked = next(row for row in small_run.rows(spark, "ranks") if row["user_id"] == 100)
    assert ranked["heldout"]["items"] == sorted(int(item) for item in small_run.items[small_run.held[0]])
    assert ranked["heldout"]["probabilities"] == [0.5] * 5


OLD_SET = Struct(*LABELS.fields[:6])  # to probabilities
OLD = replace(
    RANKS,
    columns=tuple(
        replace(column, type=OLD_SET) if column.name in ("random", "truth") else column
        for column in RANKS.columns
        if column.name != "heldout"
    ),
    rules=(
        "problem IS NOT NULL OR (candidates >= 0 AND scored >= 0 AND scored <= candidates)",
        "random IS NULL OR size(random.items) = 0 OR (coalesce(array_max(random.above), 0) < candidates)",
    ),
)  # as it was when all label sets shared one frame


def test_a_lake_from_before_label_sets_had_frames_keeps_its_runs_and_takes_new_ones(
    small_run: Any, spark: SparkSession
) -> None:
    small_run.run(spark)
    lake, older = Lake(spark, small_run.config["lake"]), Lake(spark, str(small_run.folder / "older"))
    old = lake.read(RANKS, "small").drop("heldout")
    for name in ("random", "truth"):
        fields = [f"{name}.{field}" for field in (*LISTS, "probabilities")]
        old = old.withColumn(name, F.struct(*fields))
    older.replace(OLD, old, {"run_id": "before"})
    small_run.hold_out()
    small_run.config |= {"lake": older.root, "run_id": "after", "frame": "all_items"}
    small_run.run(spark)
    check_ranks(small_run, older.read(RANKS, "after").collect())
    before = older.read(RANKS, "before").collect()
    assert len(before) == 80
    assert all(row["heldout"] is None and row["random"]["candidates"] is None for row in before)
    question = EvaluationSpec(
        (Metric("recall", 3), Metric("dcg", 9)), (), Positive(">", 3.0), "expected", ("random", "truth")
    )

    def statistics_rows(of: Lake, run_id: str, by_files: bool) -> list[str]:
        files = [(f.path, str(f.partition["model"]), f.n_bytes) for f in of.files(RANKS, run_id)]
        rows = of.read(RANKS, run_id)
        plan = statistics_of_files(spark, files, question) if by_files else statistics(rows, question)
        return sorted(map(str, plan.rows.mapInArrow(plan.worker, STATISTICS_COLUMNS).collect()))

    wanted = statistics_rows(lake, "small", True)
    assert len(wanted) > 100
    for by_files in (True, False):
        assert statistics_rows(older, "before", by_files) == wanted
