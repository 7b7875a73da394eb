"""The study of [wtd], which jobs/study.py runs where `study` has `kind: wtd`: docs/wtd.md.

Run number n, RUN_ID-n, splits the log and the random data anew, trains every trial, chooses one of each search by the
tuning part of the random data (run RUN_ID-n-tuning), draws the test sets with the marginals of the weights part, and
evaluates the chosen models on the test sets and on the rest of the random data. Each step is a stage of the pipeline. A
run that is done with the same settings and data is not done again. Writes a page into the folder `report` of the
config.
"""

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from rich.text import Text

from eval_engine.config import Input
from eval_engine.errors import DataError, StageError
from eval_engine.estimators.test_set import TEST_SET
from eval_engine.evaluation.spec import ALL
from eval_engine.evaluation.test_set_slices import SLICING
from eval_engine.inputs.fingerprints import content_of, digest
from eval_engine.inputs.random_parts import PARTS, TRUTH, TUNING, WEIGHTS, Division, make_parts
from eval_engine.lake.lake import Lake
from eval_engine.masked import masked
from eval_engine.plain_text import plain
from eval_engine.report.wtd_tables import Asking, print_wtd, save_wtd_page, wtd_report
from eval_engine.studies.settings import WtdStudy
from eval_engine.studies.wtd import TRUTH as TRUTH_ESTIMATOR
from eval_engine.studies.wtd import EvaluatedRun
from eval_engine.tables import ESTIMATES, STATISTICS, TEST_SETS
from jobs import evaluate, rank, split, test_sets, train
from jobs.progress import spark_progress
from jobs.report import run_facts
from jobs.run_config import RunConfig
from jobs.stage import fresh, stage, stage_row

MADE_FROM = "made_from"  # in the outputs of a run's row of the stage `study`
# A pair's hash of one seed decides on its side of the split, its part and its draws: each has seeds of its own
PARTS_SEED, DRAWS_SEED, RUN_SEEDS = 1 << 40, 1 << 41, 1 << 20
SUMS = ("model", "estimator", "metric", "k", "slice", "bucket", "n_unknown", "a", "b")


def run(spark: SparkSession, config: RunConfig, settings: WtdStudy, console: Console) -> None:
    """Make the runs that are missing, read all of them and report."""
    lake = Lake(spark, config.lake)
    with stage(lake, config, "study"):
        text = _made_from(spark, config, settings)
        read = []
        for number in range(1, settings.runs + 1):
            if _is_done(lake, config, number, text):
                message = f" Run {number} of {settings.runs} is done already, from the same data and settings"
                console.print(Text.assemble(("✓", "green"), message))
            else:
                console.print(Text(f"Run {number} of {settings.runs}", style="bold"))
                _make(spark, lake, config, settings, number, text, console)
        with spark_progress(spark, console, "Studying"):
            for number in range(1, settings.runs + 1):
                read.append(read_run(lake, config, settings, number))
            asked = config.evaluate
            asking = Asking(asked.confidence, asked.replicates, asked.seed)
            report = wtd_report(read, asked.metrics, settings.without, asking)
    facts = run_facts(spark, config.lake, config.run_id)
    page = save_wtd_page(report, facts, Path(config.report) / f"{config.run_id}-study.html")
    print_wtd(report, console)
    console.print(Text(plain(masked(f"Tables: {config.lake}   Page: {page}"))), soft_wrap=True)


def _make(
    spark: SparkSession,
    lake: Lake,
    config: RunConfig,
    settings: WtdStudy,
    number: int,
    text: str,
    console: Console,
) -> None:
    """One run, from its split to its estimates."""
    split.run(lambda: spark, split_config(config, number), console)
    assert config.inputs.exposures is not None
    parts, random = parts_of(settings, number), settings.random
    seed = random.seed + PARTS_SEED + number
    feedback = Input.model_validate(_inputs(config, number, None)["feedback"])
    division = Division(config.inputs.exposures, feedback, (random.tuning, random.weights), seed)
    n_seen = make_parts(spark, division, parts, f"{text} run {number}")
    if n_seen:
        console.print(Text(f"exposures: {n_seen:,} random pairs are training pairs, no candidates, left out", "yellow"))
    tuned = tuning_config(config, settings, number)
    train.run(_with(tuned, inputs=_inputs(config, number, config.inputs.exposures)), console)
    rank.run(spark, tuned, console)
    evaluate.run(spark, tuned, console)
    final = final_config(config, settings, number, chosen_trials(lake, config, settings, number))
    test_sets.run(spark, _with(final, inputs=_inputs(config, number, parts[WEIGHTS])), console)
    rank.run(spark, final, console)
    evaluate.run(spark, final, console)
    with stage(lake, final, "study") as running:
        running.outputs[MADE_FROM] = text


def run_id_of(config: RunConfig, number: int) -> str:
    """The run_id of a run of the study."""
    return f"{config.run_id}-{number}"


def parts_of(settings: WtdStudy, number: int) -> dict[str, Input]:
    """Where the parts of the random data of a run are."""
    return {name: Input(path=f"{settings.random.path}_{name}_{number}", format="delta") for name in PARTS}


def split_config(config: RunConfig, number: int) -> RunConfig:
    """The run as its split sees it."""
    assert config.split is not None
    divided = config.split.model_dump()
    divided["how"] |= {"seed": divided["how"]["seed"] + number}
    inputs = _inputs(config, number, config.inputs.exposures)
    return _with(_single(config, number), split=divided, inputs=inputs, train=_train(config, number))


def tuning_config(config: RunConfig, settings: WtdStudy, number: int) -> RunConfig:
    """The run that trials are trained in and compared by. It has the held-out pairs too, beside open_loop."""
    return _with(
        _single(config, number),
        run_id=f"{run_id_of(config, number)}-{TUNING}",
        inputs=_inputs(config, number, parts_of(settings, number)[TUNING]),
        train=_train(config, number),
        test_sets=None,
        evaluate=config.evaluate.model_dump() | {"metrics": [str(settings.tune_on)], "traditional": [], "strata": []},
    )


def final_config(config: RunConfig, settings: WtdStudy, number: int, chosen: Mapping[str, str]) -> RunConfig:
    """The run of the chosen models; chosen: the trial of each searched model."""
    assert config.train is not None
    folder = _train(config, number)["scores"]
    models = {model.name: model.name for model in config.train.models if model.name not in config.train.without}
    scores = [
        {"model": name, "path": f"{folder}/{trained}", "format": "parquet"}
        for name, trained in (models | dict(chosen)).items()
    ]
    inputs = _inputs(config, number, parts_of(settings, number)[TRUTH])
    return _with(_single(config, number), inputs=inputs, scores=scores, train=None)


def chosen_trials(lake: Lake, config: RunConfig, settings: WtdStudy, number: int) -> dict[str, str]:
    """The trial of each searched model that is best on the tuning part; of equal ones the first."""
    assert config.train is not None
    run_id, metric = tuning_config(config, settings, number).run_id, settings.tune_on
    values = {
        row["model"]: row["value"]
        for row in lake.rows(ESTIMATES, {"run_id": run_id})
        if (row["estimator"], row["metric"], row["k"]) == (TRUTH_ESTIMATOR, metric.name, metric.k)
        and (row["slice"] or ALL) == ALL
        and row["value"] is not None
    }
    chosen = {}
    for search in config.train.search:
        trials = [entry["name"] for entry in search.entries(config.train.seed) if entry["name"] in values]
        if not trials:
            raise DataError(
                f"study: no trial of {search.model} has {metric} in run {run_id}, so that none can be chosen. The "
                "tuning part of the random data needs positives: raise study.random.tuning."
            )
        chosen[search.model] = max(trials, key=lambda name: values[name])  # the first of equal ones
    return chosen


def read_run(lake: Lake, config: RunConfig, settings: WtdStudy, number: int) -> EvaluatedRun:
    """The rows of a run that the study reads."""
    assert config.train is not None
    run_id, metrics = run_id_of(config, number), config.evaluate.metrics
    fresh(lake, run_id, "evaluate")
    own = {"run_id": run_id}
    named = F.col("metric").isin([metric.name for metric in metrics])
    truth = (F.col("estimator") == TRUTH_ESTIMATOR) & (F.coalesce("slice", F.lit(ALL)) == ALL)
    drawn = (F.col("estimator") == TEST_SET.name) & F.col("slice").startswith(f"{SLICING}=")
    sums = lake.read(STATISTICS, run_id).where(named & (truth | drawn)).select(*SUMS).collect()
    words = {}
    trials = chosen_trials(lake, config, settings, number)
    for search in config.train.search:
        (entry,) = (one for one in search.entries(config.train.seed) if one["name"] == trials[search.model])
        varied = {key: value for key, value in entry.items() if key not in ("model", "name", *search.fixed)}
        words[search.model] = ", ".join(f"{key} {value}" for key, value in varied.items())
    estimates = lake.rows(ESTIMATES, own)
    return EvaluatedRun(run_id, estimates, [row.asDict() for row in sums], lake.rows(TEST_SETS, own), words)


def _is_done(lake: Lake, config: RunConfig, number: int, text: str) -> bool:
    """Whether a run was made with the same settings from the same data, and its tables are as they were."""
    run_id = run_id_of(config, number)
    row = stage_row(lake, run_id, "study")
    if row is None or row["status"] != "done" or row["outputs"].get(MADE_FROM) != text:
        return False
    try:
        fresh(lake, run_id, "evaluate")
    except StageError:
        return False
    return True


def _made_from(spark: SparkSession, config: RunConfig, settings: WtdStudy) -> str:
    """What every run follows from, as a text that changes when it does; more runs change nothing in those before."""
    assert config.split is not None
    assert config.inputs.exposures is not None
    kept = {
        "split",
        "train",
        "test_sets",
        "propensity",
        "evaluate",
        "inputs",
        "positive",
        "top",
        "on_bad_rows",
        "slices",
    }
    said = config.model_dump(mode="json", include=kept)
    asked = settings.model_dump(mode="json", exclude={"runs", "without"})
    content = [content_of(spark, one) for one in (config.split.log, config.inputs.exposures, config.inputs.catalogue)]
    return f"plumbline {version('plumbline')} {digest(said, asked, content)}"


def _single(config: RunConfig, number: int) -> RunConfig:
    """One run without the sections that make its inputs. Training pairs are no candidates, in all sets alike."""
    drawn = []
    for one in config.test_sets or ():
        setting = one.model_dump()
        if "seed" in setting:
            setting["seed"] += DRAWS_SEED + number * RUN_SEEDS
        drawn.append(setting)
    return _with(
        config,
        run_id=run_id_of(config, number),
        test_sets=drawn,
        frame="unseen",
        train=_train(config, number),
        **dict.fromkeys(("world", "split", "study")),
    )


def _train(config: RunConfig, number: int) -> dict[str, Any]:
    """The training of a run, with folders of its own."""
    assert config.train is not None
    training = config.train.model_dump()
    for name in ("scores", "checkpoints"):
        if training[name]:
            training[name] = f"{training[name]}/{number}"
    return training


def _inputs(config: RunConfig, number: int, exposures: Input | None) -> dict[str, Any]:
    """The inputs of a run: the split's tables of its own, and a part of the random data."""
    inputs = config.inputs.model_dump()
    for name in ("feedback", "heldout"):
        inputs[name]["path"] = f"{inputs[name]['path']}_{number}"
    inputs["exposures"] = exposures.model_dump() if exposures else None
    return inputs | {"truth": None}


def _with(config: RunConfig, **changes: Any) -> RunConfig:
    return type(config).model_validate({**config.model_dump(), **changes})
