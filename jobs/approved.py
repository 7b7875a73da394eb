"""Which run a gate compares with: a named one, or the approved one, which is the newest run before it whose gates all
passed.

A run is approved if its gate stage is done and every row that it has in the table `gates` says pass: nothing else is
kept. A gate that fails with on_fail: warn stops nothing, and the run is not approved. Newest is by the day in the
run_id, else the day on which the run was evaluated, then by the time of that: a day that is run late is compared with
what had been approved before that day. The run itself never counts, so a gate that is run again finds the same
baseline. Approved runs with other settings (jobs/alike.py), or without the estimate, are passed over.
"""

from collections.abc import Iterator
from datetime import date, datetime
from functools import cached_property
from typing import Any

from eval_engine.errors import ConfigError, StageError
from eval_engine.evaluation.days import day_of, window_id
from eval_engine.lake.lake import Lake
from eval_engine.quality.gate_rules import APPROVED, ChangeGate
from eval_engine.quality.gates import Answers, has_estimate
from eval_engine.tables import COMPARISONS, ESTIMATES, GATES, MERGES, QUALITY, REVERSALS, RUNS
from jobs.alike import difference, settings_of
from jobs.stage import done_stage, stage_row

Moment = tuple[date, datetime]


class Baselines:
    """The runs that changes are measured from; each is read once."""

    def __init__(self, lake: Lake, run_id: str) -> None:
        self._lake = lake
        self._run_id = run_id
        self._read: dict[tuple[str, str], Answers] = {}
        self._passed: dict[str, bool] = {}

    def of(self, rule: ChangeGate) -> Answers | None:
        """The answers of the rule's baseline; None if no run is approved that has the estimate."""
        if rule.baseline != APPROVED:
            return self._named(rule)
        for run_id in self._approved_runs():
            answers = self._answers(run_id, rule.of)
            if answers is not None and has_estimate(answers, rule):
                return answers
        return None

    def _named(self, rule: ChangeGate) -> Answers:
        row = answers_row(self._lake, rule.baseline)
        if row is None:
            raise ConfigError(
                f"gates: the baseline {rule.baseline} of the gate {rule.name} is no run of the lake {self._lake.root}: "
                "it has no evaluate stage there. Give the run_id of a run that was evaluated, or baseline: approved."
            )
        own = answers_row(self._lake, self._run_id)
        if own and (name := difference(settings_of(own["config"]), settings_of(row["config"]))):
            raise ConfigError(
                f"gates: the baseline {rule.baseline} of the gate {rule.name} was evaluated with another setting of "
                f"{name} than run {self._run_id}, so that their estimates are of different quantities. Evaluate it "
                "with this config, or give another baseline."
            )
        answers = self._answers(rule.baseline, rule.of)
        if answers is None:
            raise ConfigError(
                f"gates: the baseline {rule.baseline} of the gate {rule.name} has no window: there is no run "
                f"{window_id(rule.baseline)}. Run jobs/merge.py with that run_id, or give of: run."
            )
        return answers

    def _answers(self, run_id: str, of: str) -> Answers | None:
        if (run_id, of) not in self._read:
            if of == "window" and not _has_window(self._lake, run_id):
                return None
            self._read[run_id, of] = answers_of(self._lake, run_id, of)
        return self._read[run_id, of]

    def _approved_runs(self) -> Iterator[str]:
        """The approved runs before this one, newest first."""
        for run_id in self._earlier_runs:
            if run_id not in self._passed:
                gates = self._lake.rows(GATES, {"run_id": run_id})
                self._passed[run_id] = bool(gates) and all(gate["status"] == "pass" for gate in gates)
            if self._passed[run_id]:
                yield run_id

    @cached_property
    def _earlier_runs(self) -> list[str]:
        """The runs before this one with its settings whose gate stage is done, newest first."""
        own = answers_row(self._lake, self._run_id)
        assert own is not None  # the gate runs after it
        done = {r["run_id"] for r in self._lake.rows_of_runs(RUNS, {"stage": "gate"}) if r["status"] == "done"}
        answered = [r for stage in ("merge", "evaluate") for r in self._lake.rows_of_runs(RUNS, {"stage": stage})]
        rows = {r["run_id"]: r for r in answered if r["run_id"] in done - {self._run_id}}  # evaluate before merge
        settings = settings_of(own["config"])
        earlier = [
            row
            for row in rows.values()
            if _moment(row) < _moment(own) and difference(settings, settings_of(row["config"])) is None
        ]
        return [row["run_id"] for row in sorted(earlier, key=_moment, reverse=True)]


def answers_row(lake: Lake, run_id: str) -> dict[str, Any] | None:
    """The row of the stage that made a run's answers."""
    return stage_row(lake, run_id, "evaluate") or stage_row(lake, run_id, "merge")


def answers_of(lake: Lake, run_id: str, of: str) -> Answers:
    """What gates read of a run, or of the window that ends with it. A run that was added up is its own window."""
    if of == "window" and stage_row(lake, run_id, "evaluate") is not None:
        _check_window(lake, run_id)
        run_id = window_id(run_id)
    tables = (ESTIMATES, COMPARISONS, REVERSALS, QUALITY)
    return Answers(run_id, *(lake.rows(table, {"run_id": run_id}) for table in tables))


def _has_window(lake: Lake, run_id: str) -> bool:
    return stage_row(lake, run_id, "evaluate") is None or bool(lake.rows(MERGES, {"run_id": window_id(run_id)}))


def _check_window(lake: Lake, run_id: str) -> None:
    """An error if the window is not there, or older than one of its days."""
    done_stage(lake, window_id(run_id), "merge")
    for part in lake.rows(MERGES, {"run_id": window_id(run_id)}):
        row = stage_row(lake, part["part"], "evaluate")
        if row is None or row["started_at"] != part["evaluated_at"]:
            raise StageError(
                f"run {window_id(run_id)} is older than its day {part['part']}, which was evaluated again. Run "
                f"jobs/merge.py with run_id {run_id}."
            )


def _moment(row: dict[str, Any]) -> Moment:
    started = row["started_at"]
    return day_of(row["run_id"]) or started.date(), started
