"""Join what was shown with its plan, and say what differs from the plan.

    spark-submit jobs/collect.py --config conf/run.yaml --run-id 2026-11-22

Reads the table of the section `collect` and exposure_plan of the run that made the plan. Writes inputs.designed (both
arms, with their probabilities) and inputs.exposures (arm U), each replaced whole: safe to retry. docs/design.md
"""

import json
from typing import Any

from pyspark.sql import SparkSession
from rich.console import Console
from rich.text import Text

from eval_engine.errors import ConfigError, DataError, as_operator_error
from eval_engine.exposure_design.returned import Returned, joined, label_sets, returned
from eval_engine.inputs.label_sets import pair_columns
from eval_engine.inputs.made_table import make_table
from eval_engine.inputs.read import empty, read_input, same_id_types
from eval_engine.lake.lake import Lake
from eval_engine.plain_text import plain
from eval_engine.spark.object_store import check_store
from eval_engine.tables import EXPOSURE_PLAN
from jobs.pipeline import check_asked, inputs_of
from jobs.progress import spark_progress
from jobs.run_config import RunConfig
from jobs.stage import done_stage, input_version, stage, stage_row


def run(spark: SparkSession, config: RunConfig, console: Console) -> None:
    """Join, judge and write."""
    check_asked(config, "collect")
    asked = config.collect
    assert asked is not None
    lake = Lake(spark, config.lake)
    source = lake if asked.lake is None else Lake(spark, asked.lake)
    for name in ("designed", "exposures"):
        check_store(spark, getattr(config.inputs, name).path, name)
    with stage(lake, config, "collect"), spark_progress(spark, console, "Collecting exposures"), as_operator_error():
        if stage_row(source, asked.plan, "design") is None:
            raise DataError(
                f"collect.plan: the lake {source.root} has no plan of run {asked.plan}. Give the run_id that "
                "jobs/design.py was run with, and its lake."
            )
        made = done_stage(source, asked.plan, "design")
        _check_frame(json.loads(made["config"]), config, asked.plan)
        wanted = pair_columns("feedback")
        rows = read_input(spark, "shown", asked.shown, wanted, tuple(list(wanted)[3:])).select(
            "user_id", "item_id", "value"
        )
        plan = source.read(EXPOSURE_PLAN, asked.plan)
        same_id_types({"shown": rows, "exposure_plan": plan.select("user_id")})
        pairs = joined(plan, rows).persist()
        try:
            found = returned(pairs)
            _refuse(found, config, asked.plan)
            for name, own in zip(("designed", "exposures"), label_sets(pairs), strict=True):
                where = getattr(config.inputs, name)
                names = [own[column].alias(where.columns.get(column, column)) for column in own.columns]
                make_table(own.select(*names), where, f"plumbline collect {asked.plan}")
        finally:
            pairs.unpersist()
        lines = said(found) + _other_versions(lake, source, config, asked.plan)
    for line in lines:
        console.print(Text(plain(line)))


def _check_frame(made: dict[str, Any], config: RunConfig, plan: str) -> None:
    if made["frame"] != config.frame:
        raise ConfigError(
            f"frame: {config.frame}, but the plan of run {plan} drew from the frame {made['frame']}. Exposures are "
            f"ranked among what they were drawn from: use frame: {made['frame']}."
        )


def _refuse(found: Returned, config: RunConfig, plan: str) -> None:
    """An error if nothing can be estimated from what was shown."""
    if not found.n_shown and not found.n_unplanned:
        assert config.collect is not None
        raise empty("shown", config.collect.shown.path)
    if not found.n_shown:
        raise DataError(
            f"shown: none of its {found.n_unplanned:,} rows is in the plan of run {plan} (first: {found.unplanned}). "
            "Give the plan that was served: collect.plan."
        )
    if found.n_twice and config.on_bad_rows == "error":
        raise DataError(
            f"shown: {found.n_twice:,} planned pairs are there more than once (first: {found.twice}). Keep one answer "
            "of each, or set on_bad_rows: quarantine to leave such pairs out."
        )


def said(found: Returned) -> list[str]:
    """What differs from the plan."""
    lines = [
        f"{found.n_shown:,} of {found.n_planned:,} planned exposures were shown, to {found.n_reached:,} of "
        f"{found.n_users:,} users."
    ]
    if found.n_missing:
        lines.append(
            f"Planned, not shown: {found.n_missing:,} exposures of users of whom others came back "
            f"({found.share_missing:.2%}). If that depends on what they would have answered it is a bias: were all of "
            f"them positives, the share of positives among the candidates would be {found.bias:.4f} higher."
        )
    if found.n_unplanned:
        lines.append(
            f"Shown, not planned: {found.n_unplanned:,} rows (first: {found.unplanned}), left out: they have no "
            "probability."
        )
    if found.n_twice:
        lines.append(f"Shown more than once: {found.n_twice:,} planned pairs (first: {found.twice}), left out.")
    return lines


def _other_versions(lake: Lake, source: Lake, config: RunConfig, plan: str) -> list[str]:
    """The models whose scores are not those that the plan was made of."""
    ranked = stage_row(source, plan, "rank")
    before = {} if ranked is None else ranked["inputs"]
    now = {name: input_version(lake.spark, where) for name, where in inputs_of(config, "rank")}
    scored = {name for name in (*before, *now) if name.startswith("scores of ")}
    other = sorted(name.removeprefix("scores of ") for name in scored if before.get(name) != now.get(name))
    if not other:
        return []
    return [
        f"The plan was made of other scores of {', '.join(other)}, or without them. Estimates stay unbiased; they err "
        "more where a model's top is not that of the plan."
    ]


if __name__ == "__main__":
    from jobs.runner import main

    main("collect")
