"""Add the statistics of several runs into estimates of their own; nothing is ranked or evaluated again.

    plumbline merge conf/run.yaml --run-id 2026-11-17           the window of that day: section `window` of the config
    plumbline merge 2026-11-16 2026-11-17 --as two-days --lake /data/lake

The window that ends with run R is the run R.window. A day that is run again replaces its own rows only; when its window
is made, so are the later windows of the lake that hold it. Reads statistics, estimates, runs. Writes statistics,
estimates, comparisons, reversals, estimator_agreement and merges of the window (replaces these only: safe to retry).
Reads and writes by delta-rs, so it needs no Java. docs/gates.md
"""

import json
from collections.abc import Iterator, Sequence
from datetime import date
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.text import Text

from eval_engine.errors import ConfigError, LakeError, MergeError
from eval_engine.evaluation.anytime import with_sequences
from eval_engine.evaluation.bqs_rows import with_anova
from eval_engine.evaluation.days import DayRun, Window, day_of, days_of, window_id
from eval_engine.evaluation.merged_statistics import added, list_cells, merged_results, without_value
from eval_engine.evaluation.result_groups import InferenceSettings, described
from eval_engine.evaluation.results import RESULT_TABLES, in_order
from eval_engine.evaluation.spec import EvaluationSpec
from eval_engine.lake.delta_table import StoredFile
from eval_engine.lake.lake import Lake
from eval_engine.lake.part_files import write_file
from eval_engine.plain_text import plain
from eval_engine.storage.stored_file import open_file
from eval_engine.tables import ESTIMATES, MERGES, RUNS, STATISTICS
from jobs.alike import Definition, check_alike, definition_of, difference
from jobs.pipeline import check_asked
from jobs.run_config import RunConfig
from jobs.stage import done_stage, lake_without_spark, stage, stage_row


class Part(NamedTuple):
    """A run that is added."""

    run_id: str
    evaluated: dict[str, Any]  # its row of the stage evaluate
    definition: Definition


def run(config: RunConfig, console: Console) -> None:
    """Make the window of a run, and again those later windows that hold its day."""
    check_asked(config, "merge")
    window, lake = config.window, lake_of(config.lake)
    assert window is not None
    with stage(lake, config, "merge"):
        own = _day_run(lake, config.run_id)
        if own is None:
            raise ConfigError(
                f"run_id {config.run_id} holds no day, such as 2026-11-17, so no window can end with it. Give a run_id "
                "with one, or leave the section `window` out."
            )
        _make_window(lake, config, own, window, console)
        for later in _later_windows(lake, own):
            row = done_stage(lake, later.run_id, "evaluate")
            of_later = config_of_row(row, config.lake)
            if of_later.window is not None:
                _make_window(lake, of_later, later, of_later.window, console)


def merge_runs(lake: Lake, run_ids: Sequence[str], as_id: str, console: Console) -> None:
    """Add up these runs as a run of its own."""
    if twice := sorted({one for one in run_ids if run_ids.count(one) > 1}):
        raise ConfigError(f"run {twice[0]} is given twice: its users would count twice. Give each run once.")
    if as_id in run_ids or stage_row(lake, as_id, "evaluate"):
        raise ConfigError(f"--as {as_id} is a run of its own, whose answers would be replaced. Give another run_id.")
    parts = [_part(lake, run_id) for run_id in run_ids]
    for part in parts[1:]:
        check_alike(parts[0].run_id, parts[0].definition, part.run_id, part.definition)
    newest = max(parts, key=lambda part: part.evaluated["started_at"])
    config = config_of_row(newest.evaluated, lake.root).model_copy(update={"run_id": as_id})
    _merge(lake, config, parts)
    console.print(Text.assemble(("✓", "green"), plain(f" Added up {len(parts)} runs as {as_id}")))


def lake_of(root: str) -> Lake:
    """The lake, or an error where only Spark can read it."""
    lake = lake_without_spark(root)
    if lake is None:
        raise LakeError(
            f"The lake {root} can only be read by Spark, and runs are merged without. Give a `lake` that is a folder "
            "or URI."
        )
    return lake


def config_of_row(row: dict[str, Any], lake: str) -> RunConfig:
    """The config that a stage ran with; the lake is where the row was found."""
    return RunConfig.model_validate(json.loads(row["config"]) | {"lake": lake, "run_id": row["run_id"]})


def _make_window(lake: Lake, config: RunConfig, own: DayRun, window: Window, console: Console) -> None:
    runs = (_as_day(row) for row in lake.rows_of_runs(RUNS, {"stage": "evaluate"}) if row["status"] == "done")
    chosen = days_of(own, (run for run in runs if run), window)
    parts = [_part(lake, chosen[0].run_id)]
    why = ""
    for day in chosen[1:]:
        part = _part(lake, day.run_id)
        if name := difference(parts[0].definition, part.definition):
            why = f"; not beyond {day.day}, whose {name} differ"
            break
        parts.append(part)
    _merge(lake, config.model_copy(update={"run_id": window_id(own.run_id)}), parts)
    days = [chosen[n].day for n in range(len(parts))]
    text = f" Added up {len(parts)} days, {min(days)} to {max(days)}, as {window_id(own.run_id)}{why}"
    console.print(Text.assemble(("✓", "green"), plain(text)))


def _later_windows(lake: Lake, own: DayRun) -> list[DayRun]:
    """The runs of later days whose windows may hold the day, oldest first."""
    ends_with: dict[str, date] = {}
    for row in lake.rows_of_runs(MERGES, {}):
        day = day_of(row["run_id"])
        if row["first_day"] is not None and day is not None and date.fromisoformat(row["first_day"]) <= own.day < day:
            ends_with[row["run_id"].removesuffix(window_id(""))] = day
    runs = (_day_run(lake, run_id) for run_id, _ in sorted(ends_with.items(), key=lambda one: one[1]))
    return [run for run in runs if run is not None]


def _day_run(lake: Lake, run_id: str) -> DayRun | None:
    row = stage_row(lake, run_id, "evaluate")
    return _as_day(row) if row and row["status"] == "done" else None


def _as_day(row: dict[str, Any]) -> DayRun | None:
    day = day_of(row["run_id"])
    return None if day is None else DayRun(row["run_id"], day, row["started_at"])


def _part(lake: Lake, run_id: str) -> Part:
    """A run that is evaluated, with what its sums are of."""
    if stage_row(lake, run_id, "evaluate") is None and stage_row(lake, run_id, "merge"):
        raise MergeError(
            f"run {run_id} is itself added up from others, of which some might count twice. Give the runs that it was "
            "made from: the table `merges` has them."
        )
    row = done_stage(lake, run_id, "evaluate")
    files = _files(lake, run_id)
    models = {model for file in files for model in _read(file, ["model"]).column("model").unique().to_pylist()}
    return Part(run_id, row, definition_of(lake, run_id, row["config"], sorted(models)))


def _merge(lake: Lake, config: RunConfig, parts: Sequence[Part]) -> None:
    """Add up and write, as the run that the config names."""
    own, where = Lake(lake.spark, lake.root), {"run_id": config.run_id}  # each lake watches the tables of one run
    with stage(own, config, "merge", after=()):
        cells: set[tuple[str, str, int]] = set()
        total = added(_statistics(own, parts, cells))
        newest = max(parts, key=lambda part: part.evaluated["started_at"])
        results = merged_results(total, _inference(config), described(_spec(config)))
        lists = without_value(own.rows(ESTIMATES, {"run_id": newest.run_id}), cells)
        estimates = with_sequences([*results.estimates, *lists], config.evaluate.confidence, config.evaluate.anytime)
        own.create(STATISTICS, "BIGINT", where)
        uri = own.uri(STATISTICS)
        own.write_files(STATISTICS, where, lambda attempt: [write_file(uri, total, where, attempt)])
        scores = with_anova(results.bqs, 1 - config.evaluate.confidence)
        tables = results._replace(estimates=in_order(ESTIMATES, estimates), bqs=scores)
        for table, rows in zip(RESULT_TABLES, tables, strict=True):
            own.put(table, rows, where)
        first = _first_day(config)
        own.put(MERGES, [_row(part, first) for part in parts], where)


def _statistics(lake: Lake, parts: Sequence[Part], cells: set[tuple[str, str, int]]) -> Iterator[pa.Table]:
    """The statistics of each run; adds the metrics of top lists to `cells`."""
    for part in parts:
        table = pa.concat_tables(_read(file) for file in _files(lake, part.run_id))
        cells |= list_cells(table)
        yield table


def _files(lake: Lake, run_id: str) -> list[StoredFile]:
    files = lake.files(STATISTICS, run_id)
    if not files:
        raise MergeError(
            f"statistics: there is no row of run {run_id}, so it cannot be added up. Run jobs/evaluate.py with this "
            "run_id again."
        )
    return files


def _read(file: StoredFile, columns: list[str] | None = None) -> pa.Table:
    return pq.read_table(open_file(file.path), columns=columns)


def _row(part: Part, first: date | None) -> dict[str, Any]:
    day = day_of(part.run_id)
    return {
        "part": part.run_id,
        "day": None if day is None else day.isoformat(),
        "first_day": None if first is None else first.isoformat(),
        "evaluated_at": part.evaluated["started_at"],
    }


def _first_day(config: RunConfig) -> date | None:
    """The first day of a window that might be in it; None for runs that were named one by one."""
    day = day_of(config.run_id)
    of_window = config.run_id.endswith(window_id("")) and config.window is not None and day is not None
    return config.window.first_day(day) if of_window and config.window and day else None


def _spec(config: RunConfig) -> EvaluationSpec:
    """What is needed to describe estimators and metrics."""
    asked = config.evaluate
    sets = ("random", "heldout", "truth", "designed")
    return EvaluationSpec(asked.metrics, asked.traditional, config.positive, asked.ties, sets, known_sizes=True)


def _inference(config: RunConfig) -> InferenceSettings:
    asked = config.evaluate
    return InferenceSettings(
        asked.confidence,
        asked.margin,
        asked.power,
        asked.replicates,
        asked.seed,
        least_effective=asked.least_effective_pairs,
        bqs=config.bqs_rule(),
    )


if __name__ == "__main__":
    from jobs.runner import main

    main("merge")
