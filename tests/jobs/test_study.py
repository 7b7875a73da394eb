"""The study as a job: the same tables on any partitioning, pictures and page, and what it says of bad input."""

import io
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from rich.console import Console

from eval_engine.errors import ConfigError, DataError, StageError
from eval_engine.lake.lake import Lake
from eval_engine.positive import Positive
from eval_engine.spark.session import batches_by_bytes, planned_once
from eval_engine.studies.ure import EvaluationSpec, found_in
from eval_engine.tables import AGREEMENT, ESTIMATES, RANKS, STUDY_ESTIMATES
from jobs import evaluate, propensity, rank, study
from jobs.cli import load
from tests.jobs.test_logged_feedback import logged_run

STUDY: dict[str, Any] = {
    "exposures": [4, 8],
    "traditional": [1, 3],
    "ure": [2, 5],
    "truth": [1, 2, 3, 5, 8, 12, 20],
    "show": {"exposures": 4, "traditional": 3, "ure": 2},
}
QUIET = Console(quiet=True)


def with_study(run: Any, n_models: int = 4, **changes: Any) -> None:
    """The small run with more models, and a study of them."""
    rng = np.random.default_rng(8)
    for n, name in enumerate("cdef"[: n_models - 2]):
        run.scores[name] = (run.truth_values * n + rng.normal(size=run.truth_values.shape)).astype(np.float32)
        run.tables[f"scores/{name}"] = run.vectors(name)
        run.config["scores"].append({"model": name, "path": str(run.folder / "in" / "scores" / name)})
    run.config["study"] = STUDY | changes


@pytest.fixture(scope="module")
def studied(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> tuple[Any, str]:
    from tests.conftest import SmallRun

    run = SmallRun(tmp_path_factory.mktemp("studied"))
    with_study(run)
    config, console = load(run.write()), Console(record=True, width=100, file=open("/dev/null", "w"))  # noqa: SIM115
    rank.run(spark, config, QUIET)
    study.run(spark, config, console)
    return run, console.export_text()


def test_the_same_tables_on_one_and_three_partitions(studied: tuple[Any, str], spark: SparkSession) -> None:
    run, _ = studied
    config = load(run.folder / "run.yaml")
    assert config.study
    written = run.rows(spark, "agreement"), run.rows(spark, "study_estimates")
    assert len(written[0]) == 2 * (2 + 2 + 2) * 7
    assert len(written[1]) == 4 * (7 + 2 * (2 + 2 + 2))
    ranks = Lake(spark, config.lake).read(RANKS, config.run_id)
    for n in (1, 3):
        with planned_once(spark), batches_by_bytes(spark):
            found = found_in(
                ranks.repartition(n, "user_id"), EvaluationSpec(config.study, Positive(">", 3.0), "expected"), 0.95
            )
        assert sorted(("small", *row) for row in found.agreement) == sorted(written[0])
        assert sorted(map(str, (("small", *row) for row in found.estimates))) == sorted(
            str(tuple(row)) for row in written[1]
        )


def test_rows_keep_the_rules_of_their_tables(studied: tuple[Any, str], spark: SparkSession) -> None:
    for table in (AGREEMENT, STUDY_ESTIMATES):
        rows = Lake(spark, studied[0].config["lake"]).read(table, "small")
        assert rows.where(" OR ".join(f"NOT coalesce(({rule}), false)" for rule in table.rules)).isEmpty()


def test_the_truth_is_that_of_the_evaluation_and_a_perfect_model_would_be_first(
    studied: tuple[Any, str], spark: SparkSession
) -> None:
    run, told = studied
    best = {row[4]: row[5] for row in run.rows(spark, "study_estimates") if row[1:3] == ("d", "full")}
    others = {row[4]: row[5] for row in run.rows(spark, "study_estimates") if row[1:3] == ("a", "full")}
    assert all(best[k] >= others[k] for k in best)
    assert "Traditional recall@3 of 4 exposures puts d first; it is truly the best too by recall@2." in " ".join(
        told.split()
    )


def test_pictures_and_page_are_written(studied: tuple[Any, str]) -> None:
    folder = studied[0].folder / "report"
    names = {
        "small-models.png",
        "small-traditional.png",
        "small-ure_macro.png",
        "small-ure_micro.png",
        "small-study.html",
    }
    assert {path.name for path in folder.iterdir()} == names
    page = (folder / "small-study.html").read_text()
    assert page.count("data:image/png;base64,") == 4
    assert "pairs in the wrong order" in page


def test_what_cannot_be_studied_says_why(studied: tuple[Any, str], spark: SparkSession) -> None:
    config = load(studied[0].folder / "run.yaml")
    assert config.study
    ranks, question = (
        Lake(spark, config.lake).read(RANKS, config.run_id),
        EvaluationSpec(config.study, config.positive, "expected"),
    )
    found = found_in(ranks.where("model IN ('a', 'b')"), question, 0.95)
    reason = "2 models have both values, but a correlation says something of 3 or more"
    assert {(row.pearson, row.kendall, row.reason) for row in found.agreement} == {(None, None, reason)}
    with pytest.raises(DataError, match=r"no user of the run has truth.*run jobs/rank\.py again"):
        found_in(ranks.withColumn("truth", F.lit(None).cast(ranks.schema["truth"].dataType)), question, 0.95)
    too_many = config.model_copy(update={"study": config.study.model_copy(update={"exposures": (4, 25)})})
    with pytest.raises(
        DataError,
        match=r"study.exposures: 25 cannot be drawn of the 25 candidates of user_id=1\d\d and leave any. Lower it",
    ):
        study.run(spark, too_many, QUIET)


def test_a_study_needs_its_section_truth_and_ranks(small_run: Any, spark: SparkSession) -> None:
    with pytest.raises(ConfigError, match=r"no study section"):
        study.run(spark, load(small_run.write()), QUIET)
    with_study(small_run)
    with pytest.raises(StageError, match=r"run small: there is no rank stage in the lake .*Run jobs/rank\.py"):
        study.run(spark, load(small_run.write()), QUIET)
    del small_run.config["inputs"]["truth"]
    with pytest.raises(ConfigError, match=r"study holds schemes against the truth, so inputs\.truth is needed"):
        load(small_run.write())


def test_a_study_of_logged_feedback_evaluates_other_propensities_of_the_same_scores(
    small_run: Any, spark: SparkSession
) -> None:
    run, rng = small_run, np.random.default_rng(6)
    logged_run(run)
    for name in "cde":
        run.scores[name] = (run.truth_values + rng.normal(size=run.truth_values.shape) * 3).astype(np.float32)
        run.tables[f"scores/{name}"] = run.vectors(name)
        run.config["scores"].append({"model": name, "path": str(run.folder / "in" / "scores" / name)})
    run.config["inputs"].pop("exposures")  # the truth is the reference
    run.config["evaluate"] = {"metrics": ["recall@3"], "replicates": 50}
    run.config["study"] = {"kind": "simpson", "propensities": {"steep": {"method": "power", "gamma": 3.0}}}
    config, console = load(run.write()), Console(record=True, width=180, file=io.StringIO())
    rank.run(spark, config, QUIET)
    with pytest.raises(StageError, match="there is no evaluate stage"):
        study.run(spark, config, QUIET)
    for stage in (propensity, evaluate):
        stage.run(spark, config, QUIET)
    study.run(spark, config, console)
    text = console.export_text()
    for title in ("Agreement with the truth", "Stratified evaluation over 2 to 2 strata", "Simpson's paradox under"):
        assert title in text
    values = {
        (run_id, row["estimator"]): row["value"]
        for run_id in ("small", "small-steep")
        for row in Lake(spark, config.lake).rows(ESTIMATES, {"run_id": run_id})
        if row["model"] == "c" and row["slice"] == "all"
    }
    assert values["small", "holdout"] == values["small-steep", "holdout"]
    assert values["small", "snips"] != values["small-steep", "snips"]
    pictures = {path.name for path in (run.folder / "report").glob("*.png")}
    assert pictures == {f"small-{name}-{kind}.png" for name in ("own", "steep") for kind in ("strata", "taus")}
    assert (run.folder / "report" / "small-study.html").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"propensity": None}, "the section propensity is needed"),
        ({"study": {"kind": "simpson", "show": {"kind": "equal_width", "n": 9}}}, "n: 9} is not among evaluate.strata"),
        ({"study": {"kind": "paradox"}}, "kind is ure, simpson, wtd or bqs"),
    ],
)
def test_a_study_of_logged_feedback_that_cannot_be_made(change: dict[str, Any], message: str, small_run: Any) -> None:
    logged_run(small_run)
    small_run.config |= {"study": {"kind": "simpson"}} | change
    with pytest.raises(ConfigError, match=message):
        load(small_run.write())


def test_a_study_of_logged_feedback_needs_a_reference(small_run: Any) -> None:
    logged_run(small_run)
    small_run.config["study"] = {"kind": "simpson"}
    for name in ("truth", "exposures"):
        small_run.config["inputs"].pop(name)
    with pytest.raises(ConfigError, match=r"inputs\.truth or inputs\.exposures is needed"):
        load(small_run.write())
