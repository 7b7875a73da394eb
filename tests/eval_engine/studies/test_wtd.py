"""The tables of the study of [wtd], on made rows, against sums that are written out."""

import io
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError
from rich.console import Console
from scipy.stats import kendalltau, t

from eval_engine.metric import Metric
from eval_engine.report.wtd_tables import Asking, headline, print_wtd, save_wtd_page, sheets, wtd_report
from eval_engine.studies.settings import Study, WtdStudy
from eval_engine.studies.wtd import EvaluatedRun, Measured, differences, measured, models_of, nearness, only, tau

RECALL = Metric("recall", 10)
MODELS = ("a", "b", "c", "d")
SETS = ("full", "wtd")
BUCKETS = 32
SETTINGS: dict[str, Any] = {"kind": "wtd", "random": {"path": "x"}}


def made(n_runs: int = 3, seed: int = 1) -> tuple[list[EvaluatedRun], dict[str, np.ndarray[Any, Any]]]:
    """Runs whose sums by bucket are drawn; the sums a, b, by estimator and draw: (n_runs, n_models, n_draws, 256)."""
    rng = np.random.default_rng(seed)
    sums: dict[str, list[Any]] = {"open_loop": [], "full": [], "wtd": []}
    runs = []
    for number in range(n_runs):
        estimates, statistics = [], []
        for name, draws, n in (("open_loop", 1, 256), ("full", 1, BUCKETS), ("wtd", 2, BUCKETS)):
            a = rng.uniform(0, 1, (len(MODELS), draws, n)) * np.array([1.0, 2.0, 3.0, 4.0])[:, None, None]
            b = np.broadcast_to(rng.uniform(4, 8, (1, draws, n)), a.shape)
            sums[name].append((a, b))
            for m, model in enumerate(MODELS):
                estimator = name if name == "open_loop" else f"test_set({name})"
                value = float(np.mean(a[m].sum(axis=1) / b[m].sum(axis=1)))
                key = {"model": model, "metric": "recall", "k": 10}
                estimates.append(key | {"estimator": estimator, "slice": "all", "value": value})
                estimates.append(key | {"estimator": estimator, "slice": "genre=toys", "value": 99.0})
                estimates.append(key | {"estimator": estimator, "slice": "all", "value": 98.0, "metric": "ndcg"})
                for d in range(draws):
                    part = None if name == "open_loop" else f"test_set={name}.{d}"
                    own = key | {"estimator": name if part is None else "test_set", "slice": part, "n_unknown": 0}
                    statistics += [own | {"bucket": g, "a": a[m, d, g], "b": b[m, d, g]} for g in range(n)]
                    statistics += [own | {"metric": "ndcg", "bucket": 0, "a": 7.0, "b": 1.0}]
        rows = [
            {"name": name, "rule": "10 pairs drawn without replacement, weight 1", "size": 10, "items_uniform": 0.25}
            | dict.fromkeys(("users_uniform", "items_random", "users_random"))
            for name in SETS
        ]
        runs.append(EvaluatedRun(f"wtd-{number + 1}", estimates, statistics, rows, {"d": f"dims {number % 2}"}))
    return runs, {name: np.array(own) for name, own in sums.items()}


def brute(sums: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Values (n_runs, n_models) and errors (n_runs, n_models, 32) of sums (n_runs, 2, n_models, n_draws, n_buckets)."""
    n_runs, _, n_models, n_draws, n = sums.shape
    values, errors = np.zeros((n_runs, n_models)), np.zeros((n_runs, n_models, BUCKETS))
    for r in range(n_runs):
        for m in range(n_models):
            for d in range(n_draws):
                a, b = sums[r, 0, m, d], sums[r, 1, m, d]
                ratio = a.sum() / b.sum()
                values[r, m] += ratio / n_draws
                for g in range(n):
                    errors[r, m, g % BUCKETS] += (a[g] - ratio * b[g]) / b.sum() / n_draws
    return values, errors


def test_values_and_errors_are_those_of_the_sums() -> None:
    runs, sums = made()
    found = measured(runs, RECALL, MODELS)
    assert set(found) == {"open_loop", "test_set(full)", "test_set(wtd)"}
    for name, key in (("open_loop", "open_loop"), ("full", "test_set(full)"), ("wtd", "test_set(wtd)")):
        values, errors = brute(sums[name])
        np.testing.assert_allclose(found[key].values, values, rtol=1e-12)
        np.testing.assert_allclose(found[key].errors, errors, atol=1e-15)


@pytest.mark.parametrize("n_runs", [1, 2, 5])
def test_differences_and_intervals_against_sums_written_out(n_runs: int) -> None:
    runs, sums = made(n_runs)
    found = measured(runs, RECALL, MODELS)
    (x, e), (y, f) = brute(sums["wtd"]), brute(sums["open_loop"])
    for m, line in enumerate(differences(found["test_set(wtd)"], found["open_loop"], MODELS, 0.9)):
        mean, true = x[:, m].mean(), y[:, m].mean()
        users = [100 * (e[:, m, g].mean() - mean / true * f[:, m, g].mean()) / true for g in range(BUCKETS)]
        by_run = [100 * (x[r, m] - mean - mean / true * (y[r, m] - true)) / true / n_runs for r in range(n_runs)]
        users_error = math.sqrt(BUCKETS / (BUCKETS - 1) * sum(d * d for d in users))
        runs_error = math.sqrt(n_runs / (n_runs - 1) * sum(d * d for d in by_run)) if n_runs > 1 else 0.0
        of_runs = t.ppf(0.95, n_runs - 1) * runs_error if n_runs > 1 else 0.0
        width = math.sqrt((t.ppf(0.95, BUCKETS - 1) * users_error) ** 2 + of_runs**2)
        assert line.model == MODELS[m]
        assert (line.truth, line.value) == pytest.approx((true, 100 * (mean - true) / true))
        assert (line.error_users, line.error_runs) == pytest.approx((users_error, runs_error))
        assert (line.low, line.high) == pytest.approx((line.value - width, line.value + width))


def test_the_interval_covers_over_users_and_runs() -> None:
    """x and y share noise of users; runs move both. 400 panels of one model, true difference 50 %."""
    rng, hits, n_runs = np.random.default_rng(3), 0, 8
    for _ in range(400):
        shared, own = rng.normal(0, 0.02, BUCKETS), rng.normal(0, 0.01, BUCKETS)
        drift = rng.normal(0, 0.05, n_runs)
        e, f = 1.5 * (shared + own), shared
        x = 1.5 + e.sum() + drift[:, None]
        y = np.full((n_runs, 1), 1.0 + f.sum())
        # errors as the engine has them sum to 0 over buckets
        one = Measured(x, np.tile(e - e.mean(), (n_runs, 1, 1)))
        truth = Measured(y, np.tile(f - f.mean(), (n_runs, 1, 1)))
        (line,) = differences(one, truth, ("a",), 0.95)
        hits += line.low <= 50 <= line.high
    assert 0.92 <= hits / 400 <= 0.99


def test_undefined_is_not_zero() -> None:
    nothing = np.zeros((2, 1, BUCKETS))
    zero, known = Measured(np.zeros((2, 1)), nothing), Measured(np.ones((2, 1)), nothing)
    (line,) = differences(known, zero, ("a",), 0.95)
    assert math.isnan(line.value)
    (line,) = differences(Measured(np.array([[1.0], [math.nan]]), nothing), known, ("a",), 0.95)
    assert math.isnan(line.value)
    assert nearness({"reg": [line]})[0].n_nearest == 0
    assert math.isnan(nearness({"reg": [line]})[0].distance)


def test_tau_is_of_run_means_and_of_each_run() -> None:
    runs, sums = made(4)
    found = measured(runs, RECALL, MODELS)
    x, y = brute(sums["full"])[0], brute(sums["open_loop"])[0]
    one = tau(found["test_set(full)"], found["open_loop"], 0.95, 200, 0)
    assert one.value == pytest.approx(kendalltau(x.mean(axis=0), y.mean(axis=0)).statistic)
    assert one.of_runs == pytest.approx([kendalltau(a, b).statistic for a, b in zip(x, y, strict=True)])
    assert one.reason or one.low <= one.high <= 1
    turned = Measured(-found["open_loop"].values, -found["open_loop"].errors)
    assert tau(turned, found["open_loop"], 0.95, 200, 0).value == -1
    few = tau(*(only(found[key], MODELS, "ab") for key in ("test_set(full)", "open_loop")), 0.95, 200, 0)
    assert math.isnan(few.value)
    assert few.reason is not None
    assert few.reason.startswith("2 models have both values")


def test_only_keeps_the_models_that_are_asked_for() -> None:
    runs, _ = made()
    one = measured(runs, RECALL, MODELS)["open_loop"]
    np.testing.assert_array_equal(only(one, MODELS, ("d", "b")).values, one.values[:, [1, 3]])


def test_nearness_counts_models() -> None:
    runs, _ = made()
    found = measured(runs, RECALL, MODELS)
    lines = {name: differences(found[f"test_set({name})"], found["open_loop"], MODELS, 0.95) for name in SETS}
    for one in nearness(lines):
        other = next(name for name in SETS if name != one.name)
        pairs = list(zip(lines[one.name], lines[other], strict=True))
        assert one.n_nearest == sum(abs(own.value) <= abs(rival.value) for own, rival in pairs)
        assert one.distance == pytest.approx(sum(abs(own.value) for own, _ in pairs) / 4)
        assert one.n_above == sum(own.low > 0 for own, _ in pairs)
        assert one.n_above + one.n_below + one.n_covered == 4


def test_models_are_those_of_every_run() -> None:
    runs, _ = made(2)
    fewer = runs[1]._replace(estimates=[row for row in runs[1].estimates if row["model"] != "c"])
    assert models_of([runs[0], fewer]) == ("a", "b", "d")


def test_the_report_has_every_table_and_names_the_nearest(tmp_path: Path) -> None:
    runs, _ = made(3)
    report = wtd_report(runs, (RECALL,), ("d",), Asking(0.95, 100, 0))
    titles = [sheet.title for sheet in sheets(report)]
    assert titles == [
        "recall@10: difference to the random truth (table 2)",
        "Which test set is nearest to the truth",
        "Kendall's tau with the random truth, 4 models (table 3)",
        "Kendall's tau with the random truth, without d (table 4)",
        "The test sets",
        "Hyper-parameters that were chosen",
    ]
    nearest = min(nearness(report.differences[RECALL]), key=lambda one: one.distance)
    assert headline(report).startswith(f"recall@10: {nearest.name} is nearest to the random truth")
    by_title = {sheet.title: sheet for sheet in sheets(report)}
    assert by_title["The test sets"].lines[0] == ("full", "1", "10", "0.250", "–", "–", "–")
    assert by_title["Hyper-parameters that were chosen"].lines == [("d", "dims 0", "2 of 3"), ("d", "dims 1", "1 of 3")]
    console = Console(file=io.StringIO(), width=200, record=True)
    print_wtd(report, console)
    assert "In brackets: 95% interval over users and runs" in console.export_text()
    page = save_wtd_page(report, {"run_id": "<b>"}, tmp_path / "page.html").read_text()
    assert "&lt;b&gt;" in page
    assert wtd_report(runs, (RECALL,), (), Asking(0.95, 100, 0)).taus_without == {}


def test_settings_that_leave_no_truth_are_refused() -> None:
    study = TypeAdapter(Study).validate_python(SETTINGS)
    assert isinstance(study, WtdStudy)
    assert (study.runs, study.tune_on, study.random.tuning, study.random.weights) == (10, RECALL, 0.15, 0.15)
    with pytest.raises(ValidationError, match="leave no share for the truth"):
        TypeAdapter(Study).validate_python(SETTINGS | {"random": {"path": "x", "tuning": 0.5, "weights": 0.5}})
