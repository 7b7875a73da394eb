"""The tables of the study of [simpson], from rows whose findings are known."""

import math
from statistics import mean, stdev
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from eval_engine.config import StrataSettings
from eval_engine.errors import DataError
from eval_engine.studies.settings import SimpsonStudy, Study, UreStudy
from eval_engine.studies.simpson import (
    Evaluated,
    agreement_lines,
    flagged_pair,
    instance,
    line_of,
    points,
    prevalences,
    strata_summaries,
    stratum_lines,
)

SHOW = StrataSettings(kind="equal_width", n=2)
SLICING = "propensity_equal_width_2"
TRUTH = {"a": 0.1, "b": 0.2, "c": 0.3, "d": 0.4}
IN_STRATA = {"Q1": {"a": 1.0, "b": 2.0, "c": 4.0, "d": 3.0}, "Q2": {"a": 4.0, "b": 3.0, "c": 2.0}}  # d is undefined


def estimate(model: str, estimator: str, value: float | None, where: str | None = "all") -> dict[str, Any]:
    return {"model": model, "estimator": estimator, "slice": where, "value": value}


def agreement_row(estimator: str, tau: float | None, reference: str = "full_macro", **others: Any) -> dict[str, Any]:
    names = ("kendall_difference", "pearson_difference", "steiger_kendall_p_one_sided", "steiger_p")
    row = dict.fromkeys((*names, "kendall_difference_p"))
    return row | {"estimator": estimator, "reference": reference, "kendall": tau} | others


def reversal(flag: str, a: str | None, b: str | None, difference: float | None, **others: Any) -> dict[str, Any]:
    row = {
        "estimator": "holdout",
        "slicing": SLICING,
        "flag": flag,
        "model_a": a,
        "model_b": b,
        "share": 0.9,
        "share_of": "pairs",
    }
    row |= {"difference": difference, "n_model_pairs": 6, "n_reversed": 2, "n_vanishes": 1, "n_weak": 1}
    return row | others


def evaluated(**changes: Any) -> Evaluated:
    estimates = [estimate(model, "full_macro", value, None) for model, value in TRUTH.items()]
    for stratum, values in IN_STRATA.items():
        estimates += [estimate(m, "holdout", values.get(m), f"{SLICING}={stratum}") for m in TRUTH]
    estimates += [estimate(m, "holdout", 1 - value) for m, value in TRUTH.items()]
    agreements = [
        agreement_row("snips", 0.7, "full_micro"),
        agreement_row("snips", 0.8),
        agreement_row("holdout", 0.1),
    ]
    strata = [
        {"strata": SLICING, "stratum": "Q2", "n_items": 1, "n_pairs": 10, "inverse_propensity": 10.0},
        {"strata": SLICING, "stratum": "Q1", "n_items": 99, "n_pairs": 30, "inverse_propensity": 190.0},
        {"strata": "propensity_equal_width_1", "stratum": "Q1", "n_items": 9, "n_pairs": 9, "inverse_propensity": 9.0},
    ]
    return Evaluated("true", {"method": "power"}, estimates, agreements, [], strata)._replace(**changes)


def test_rows_stand_in_the_order_of_the_registry_and_the_reference_of_all_is_first() -> None:
    rows = [(row["estimator"], row["reference"]) for row in agreement_lines(evaluated())]
    assert rows == [("holdout", "full_macro"), ("snips", "full_macro"), ("snips", "full_micro")]
    with pytest.raises(DataError, match="no row of holdout"):
        agreement_lines(evaluated(agreement=[agreement_row("snips", 0.8)]))


def test_a_summary_counts_gains_that_each_test_supports() -> None:
    up, down = {"kendall_difference": 0.1}, {"kendall_difference": -0.1}
    rows = [
        agreement_row("holdout", 0.1),
        agreement_row("stratified(equal_width=10)", 0.5, **up, steiger_kendall_p_one_sided=0.04),
        agreement_row("stratified(equal_width=2)", 0.2, **up, steiger_p=0.01, pearson_difference=0.2),
        agreement_row("stratified(equal_width=3)", 0.3, **down, kendall_difference_p=0.01, steiger_p=0.01),
        agreement_row("stratified(equal_width=1)", 0.9, **up),  # is holdout
        agreement_row("stratified(equal_width=4)", None),
        agreement_row("stratified(equal_width=5)", 0.9, "full_micro", **up),
        agreement_row("stratified_balanced(equal_width=2)", 0.6, **up, kendall_difference_p=0.01),
    ]
    plain, balanced = strata_summaries(evaluated(agreement=rows))
    assert (plain.numbers, plain.taus) == ((2, 3, 10), (0.2, 0.3, 0.5))
    assert (plain.mean, plain.deviation) == (mean(plain.taus), stdev(plain.taus))
    assert (plain.n_higher, plain.n_steiger, plain.n_pearson, plain.n_jackknife) == (2, 1, 1, 0)
    assert (balanced.estimator, balanced.n_jackknife) == ("stratified_balanced", 1)
    assert math.isnan(balanced.deviation)


def test_strata_have_their_sizes_and_their_own_agreement() -> None:
    first, second = stratum_lines(evaluated(), SHOW)
    assert (first.stratum, first.n_items, first.share, first.balanced_share) == ("Q1", 99, 0.75, 0.95)
    assert first.kendall == pytest.approx(4 / 6)  # one pair of six is in the wrong order
    assert (second.kendall, second.value) == (pytest.approx(-1), pytest.approx(3))  # of three models
    assert stratum_lines(evaluated(strata=[]), SHOW) == []


def test_the_pair_that_is_shown_is_reversed_with_the_largest_difference() -> None:
    rows = [
        reversal("weak", "a", "b", -0.9),
        reversal("vanishes", "a", "c", -0.8),
        reversal("reversed", "d", "a", -0.1),
        reversal("reversed", "d", "c", -0.3),
        reversal("reversed", "d", "b", -0.9, estimator="snips"),
        reversal("reversed", "d", "b", -0.9, slicing="propensity_equal_count_2"),
    ]
    run = evaluated(reversals=rows)
    pair = flagged_pair(run, SHOW)
    assert pair is not None
    assert (pair["model_a"], pair["model_b"]) == ("d", "c")
    assert flagged_pair(evaluated(reversals=rows[:1]), SHOW) is None
    compared = [{"estimator": "holdout", "slice": f"{SLICING}=Q1", "p": 0.01}]
    shown = instance(run, SHOW, pair, compared)
    assert (shown.flag, shown.share, shown.share_of) == ("reversed", 0.9, "pairs")
    lines = {line.name: line for line in shown.lines}
    assert (lines["Q1"].values, lines["Q1"].p) == ((3.0, 4.0), 0.01)
    assert lines["Q2"].values == (None, 2.0)
    assert (lines["full_macro"].values, lines["full_macro"].p) == ((0.4, 0.3), None)
    assert lines["stratified(equal_width=2)"].values == (None, None)


def test_prevalence_says_whom_the_reference_bears_out() -> None:
    rows = [
        reversal("reversed", "d", "a", -0.1),
        reversal("reversed", "a", "b", -0.1),
        reversal("vanishes", "c", "b", -0.1),
        reversal("weak", "a", "d", -0.1),
        reversal("none", None, None, None, slicing="propensity_equal_width_10", n_reversed=0, n_vanishes=0, n_weak=0),
    ]
    two, ten = prevalences(evaluated(reversals=rows))
    assert (two.n_reversed, two.n_vanishes, two.n_weak, two.n_as_slices, two.n_against) == (2, 1, 1, 2, 1)
    assert (ten.slicing, ten.n_as_slices, ten.n_against) == ("propensity_equal_width_10", 0, 0)


def test_lines_are_those_of_least_squares() -> None:
    x, y = points({"a": 1.0, "b": 2.0, "c": 4.0, "x": 9.0}, {"a": 0.0, "b": 5.0, "c": 1.0})
    assert line_of(x, y) == pytest.approx(tuple(np.polyfit(x, y, 1)))
    assert line_of(np.ones(3), y) is None


def test_a_study_without_a_kind_is_that_of_ure() -> None:
    read = TypeAdapter(Study).validate_python
    show = {"exposures": 1, "traditional": 1, "ure": 1}
    ure = {"exposures": [1], "traditional": [1], "ure": [1], "truth": [1], "show": show}
    assert isinstance(read(ure), UreStudy)
    study = read({"kind": "simpson", "propensities": {"fitted": {"method": "power"}}})
    assert isinstance(study, SimpsonStudy)
    assert read(study.model_dump()) == study
    with pytest.raises(ValidationError, match="kind is ure, simpson, wtd or bqs"):
        read({"kind": "paradox"})
    with pytest.raises(ValidationError, match="is the name of the run's own"):
        read({"kind": "simpson", "own": "x", "propensities": {"x": {"method": "logged"}}})
