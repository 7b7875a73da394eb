"""Hold the answers of one run against the rules of its config, and approve it or say no.

    python -m jobs.gate --config conf/run.yaml --run-id 2026-11-15
    plumbline gate 2026-11-15 --lake /data/lake        the rules of the config that the run was evaluated with

Reads estimates, comparisons, reversals, quality, of changes statistics; of other runs estimates, statistics and gates.
Writes gates (replaces this run_id only: safe to retry). Reads and writes by delta-rs, so it needs no Java. Exit code 5:
a rule with on_fail: stop is broken. docs/gates.md
"""

import json
from collections.abc import Callable, Sequence

from pydantic import ValidationError
from rich.console import Console
from rich.table import Table as Shown
from rich.text import Text

from eval_engine.errors import ConfigError, GateError, LakeError, StageError
from eval_engine.lake.lake import Lake
from eval_engine.plain_text import plain
from eval_engine.quality.gate_rules import Bounded, ChangeGate, GateRule, Gates
from eval_engine.quality.gates import GateRow, Sureness, has_no, is_approved, judge
from eval_engine.tables import GATES
from jobs.approved import Baselines, answers_of
from jobs.between_runs import shared
from jobs.pipeline import check_asked
from jobs.run_config import RunConfig
from jobs.stage import lake_without_spark, stage, stage_row

Show = Callable[[str, Sequence[GateRow]], None]
SIGNS = {"pass": ("✓", "green"), "warn": ("!", "yellow"), "fail": ("✗", "red")}


def run(config: RunConfig, console: Console) -> None:
    """Judge, write, and print a line for each gate."""
    gate(config, shown_on(console))


def gate(config: RunConfig, show: Show) -> None:
    """Judge and write; an error with exit code 5 if a rule that stops is broken. show: gets the rows before that."""
    check_asked(config, "gate")
    gates = config.gates
    assert gates is not None
    lake = lake_of(config.lake)
    with stage(lake, config, "gate"):
        lake.create(GATES, "BIGINT", {"run_id": config.run_id})
        rows = judged(lake, config, gates)
        lake.put(GATES, rows, {"run_id": config.run_id})
        show(config.run_id, rows)
        if has_no(rows):
            failed = [row for row in rows if row.status == "fail"]
            raise GateError(
                f"run {config.run_id}: {len(failed)} of {len(rows)} gates say no. "
                + " ".join(f"{row.gate}: {row.message}" for row in failed)
            )


def lake_of(root: str) -> Lake:
    """The lake, or an error where only Spark can read it."""
    lake = lake_without_spark(root)
    if lake is None:
        raise LakeError(
            f"The lake {root} can only be read by Spark, and the gate has none. Give a `lake` that is a folder or "
            "URI, or ask the table `estimates` by SQL."
        )
    return lake


def judged(lake: Lake, config: RunConfig, gates: Gates) -> list[GateRow]:
    """The verdict of each rule, in the order of the config."""
    anytime = config.evaluate.anytime
    sure = Sureness(gates.confidence, anytime.tightest_at if anytime else None)
    baselines = Baselines(lake, config.run_id)
    answers = {of: answers_of(lake, config.run_id, of) for of in {_of(rule) for rule in gates.rules}}
    rows = []
    for rule in gates.rules:
        own, baseline, both = answers[_of(rule)], None, None
        if isinstance(rule, ChangeGate) and (baseline := baselines.of(rule)) is not None:
            both = shared(lake, (own.run_id, baseline.run_id), rule)
        rows.append(judge(rule, own, baseline, sure, both))
    return rows


def _of(rule: GateRule) -> str:
    return rule.of if isinstance(rule, Bounded) else "run"


def print_gates(run_id: str, rows: Sequence[GateRow], console: Console) -> None:
    """A line for each gate, then whether the run is approved."""
    shown = Shown.grid(padding=(0, 1))
    for row in rows:
        sign, colour = SIGNS[row.status]
        shown.add_row(Text(sign, colour), Text(plain(row.gate)), Text(plain(row.message)))
    console.print(shown)
    console.print(Text(plain(f"Run {run_id} is {'approved' if is_approved(rows) else 'not approved'}.")))


def shown_on(console: Console) -> Show:
    """Prints a line for each gate."""
    return lambda run_id, rows: print_gates(run_id, rows, console)


def printed_json(run_id: str, rows: Sequence[GateRow]) -> None:
    """Prints the verdicts as JSON."""
    print(as_json(run_id, rows))


def config_of(lake: str, run_id: str) -> RunConfig:
    """The config that a run of the lake was evaluated or added up with."""
    stored = lake_of(lake)
    row = stage_row(stored, run_id, "evaluate") or stage_row(stored, run_id, "merge")
    if not row:
        raise StageError(
            f"run {run_id}: there is no evaluate stage in the lake {lake}. Give another --lake, or run "
            "jobs/evaluate.py with this run_id."
        )
    try:
        return RunConfig.model_validate(json.loads(row["config"]) | {"lake": lake})
    except ValidationError as error:
        raise ConfigError(
            f"run {run_id}: its config in the table `runs` is not one of this version ({error.errors()[0]['msg']}). "
            "Use `plumbline gate CONFIG --run-id RUN`."
        ) from None


def as_json(run_id: str, rows: Sequence[GateRow]) -> str:
    """The verdicts for programs."""
    said = {"run_id": run_id, "approved": is_approved(rows), "passed": not has_no(rows)}
    return json.dumps(said | {"gates": [row._asdict() for row in rows]}, indent=1, allow_nan=False)


if __name__ == "__main__":
    from jobs.runner import main

    main("gate")
