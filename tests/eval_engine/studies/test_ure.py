"""The study's numbers against loops over its definitions, and Theorem 1 itself."""

from itertools import combinations, permutations

import numpy as np
import pyarrow as pa
import pytest
from pydantic import ValidationError

from eval_engine.errors import DataError
from eval_engine.estimators.estimator import Terms
from eval_engine.estimators.labelled import Labelled
from eval_engine.estimators.registry import formula
from eval_engine.kernels.rank_facts import RankFacts, rank_facts
from eval_engine.positive import Positive
from eval_engine.statistics.ratio import RatioSums, estimate, merge, ratio_sums
from eval_engine.studies.even_draw import places_drawn, some_pairs
from eval_engine.studies.settings import UreStudy
from eval_engine.studies.ure import (
    CANDIDATES,
    FULL,
    Cell,
    EvaluationSpec,
    Found,
    agreement_rows,
    cells,
    found_of,
    sums_of,
)

N_USERS, N_ITEMS = 60, 14
STUDY = UreStudy(
    exposures=(4, 7),
    traditional=(1, 2, 4),
    ure=(2, 5),
    truth=(1, 2, 3, 5, 7, 9, 14),
    show={"exposures": 4, "traditional": 2, "ure": 2},
    seed=3,
)
QUESTION = EvaluationSpec(STUDY, Positive(">", 3.0), "expected")


def rows(scores: np.ndarray, values: np.ndarray, labelled: int = N_ITEMS) -> pa.RecordBatch:
    """Rows of the ranks table whose truth labels the first items."""
    n = len(scores)
    facts = rank_facts(scores, items=np.tile(np.arange(labelled), (n, 1)), values=values[:, :labelled])
    offsets = pa.array(facts.offsets.astype(np.int32))
    lists = {
        "items": np.tile(np.arange(labelled) + 500, n), "values": facts.value, "scores": facts.score.astype(np.float32),
        "above": facts.above.astype(np.int32), "tied": facts.tied.astype(np.int32),
    }  # fmt: skip
    columns = {name: pa.ListArray.from_arrays(offsets, pa.array(x)) for name, x in lists.items()} | {
        "probabilities": pa.nulls(n, pa.list_(pa.float64()))
    }
    truth = pa.StructArray.from_arrays(list(columns.values()), list(columns))
    return pa.RecordBatch.from_arrays(
        [pa.array(np.arange(n) + 100), pa.array(facts.candidates), pa.array(facts.candidates), truth],
        ["user_id", "candidates", "scored", "truth"],
    )


def world(seed: int = 0) -> tuple[np.ndarray, list[np.ndarray]]:
    """Values, and scores of five models that know more or less of them; few scores differ, so there are ties."""
    rng = np.random.default_rng(seed)
    values = rng.integers(1, 6, (N_USERS, N_ITEMS)).astype(float)
    return values, [np.round(values * skill + rng.normal(size=values.shape) * 2) for skill in (0.0, 0.3, 0.6, 1.0, 2.0)]


def chance_in_top(scores: np.ndarray, item: int, k: int) -> float:
    """q_k of an item in this list."""
    above, level = int((scores > scores[item]).sum()), int((scores == scores[item]).sum())
    return float(np.clip((k - above) / level, 0, 1))


def brute_force(scores: np.ndarray, values: np.ndarray, drawn: np.ndarray, cell: Cell) -> float:
    """The cell's value, user by user."""
    above_line, below_line = [], []
    for u in range(len(scores)):
        items = np.arange(N_ITEMS) if cell.exposures is None else np.flatnonzero(drawn[u] < cell.exposures)
        positives = [i for i in items if values[u, i] > 3]
        if not positives:
            continue
        seen = items if cell.scheme == "traditional" else np.arange(N_ITEMS)
        hits = sum(chance_in_top(scores[u, seen], int(np.flatnonzero(seen == i)[0]), cell.k) for i in positives)
        weight = N_ITEMS / cell.exposures if cell.scheme == "ure_micro" else 1 / len(positives)
        above_line.append(hits * weight)
        below_line.append(len(positives) * weight)
    return sum(above_line) / sum(below_line)


def found(values: np.ndarray, models: list[np.ndarray]) -> Found:
    sums = {
        f"m{n}": dict(zip(cells(STUDY), sums_of(rows(scores, values), QUESTION), strict=True))
        for n, scores in enumerate(models)
    }
    return found_of(sums, STUDY, 0.95)


def test_every_number_matches_brute_force():
    values, models = world()
    result = found(values, models)
    drawn = places_drawn(
        STUDY.seed,
        pa.array(np.arange(N_USERS) + 100),
        np.arange(N_USERS + 1) * N_ITEMS,
        pa.array(np.tile(np.arange(N_ITEMS) + 500, N_USERS)),
    ).reshape(N_USERS, N_ITEMS)
    assert result.candidates == N_ITEMS
    assert len(result.estimates) == len(models) * (len(cells(STUDY)) - 1)
    for row in result.estimates:
        want = brute_force(models[int(row.model[1:])], values, drawn, Cell(row.scheme, row.exposures, row.k))
        assert row.value == pytest.approx(want, abs=1e-11), row


def test_curves_are_correlations_over_the_models_and_their_highest_point_is_marked():
    values, models = world(1)
    result = found(values, models)
    of = {(row.model, Cell(row.scheme, row.exposures, row.k)): row.value for row in result.estimates}
    names = [f"m{n}" for n in range(len(models))]
    curves: dict[Cell, list] = {}
    for row in result.agreement:
        curves.setdefault(Cell(row.scheme, row.exposures, row.k), []).append(row)
    assert len(curves) == 2 * (3 + 2 + 2)
    for cell, curve in curves.items():
        assert [row.truth_k for row in curve] == list(STUDY.truth)
        for row in curve:
            x, y = [of[m, cell] for m in names], [of[m, Cell(FULL, None, row.truth_k)] for m in names]
            flipped = sum((x[i] - x[j]) * (y[i] - y[j]) < 0 for i, j in combinations(range(len(names)), 2))
            assert (row.n_models, row.n_flipped) == (5, flipped)
            assert row.predicted_k == (cell.k * N_ITEMS / cell.exposures if cell.scheme == "traditional" else cell.k)
            if row.truth_k == N_ITEMS or cell == Cell("traditional", 4, 4):  # everything is in the top
                assert (row.pearson, row.kendall, row.pearson_max, row.kendall_max) == (None, None, False, False)
                assert row.reason == "all models have the same value in one of the two"
            else:
                assert row.pearson == pytest.approx(np.corrcoef(x, y)[0, 1], abs=1e-9)
        for measure in ("pearson", "kendall"):
            defined = [getattr(row, measure) for row in curve if getattr(row, measure) is not None]
            marked = [getattr(row, measure) for row in curve if getattr(row, f"{measure}_max")]
            assert not defined or set(marked) == {max(defined)}


def test_sums_merge_exactly():
    values, models = world(2)
    whole = sums_of(rows(models[2], values), QUESTION)
    parts = [sums_of(rows(models[2], values).slice(start, 20), QUESTION) for start in (40, 0, 20)]
    assert [merge(merge(a, b), c) for a, b, c in zip(*parts, strict=True)] == whole


def test_two_models_have_no_correlation_and_say_why():
    values, models = world()
    for row in found(values, models[:2]).agreement:
        assert (row.n_models, row.pearson, row.kendall, row.pearson_max) == (2, None, None, False)
        assert row.reason == "2 models have both values, but a correlation says something of 3 or more"


def test_a_model_whose_places_are_not_known_is_left_out_of_its_correlations():
    values, models = world()
    result = found(values, models)
    hidden = [
        row._replace(value=None) if (row.model, row.scheme) == ("m0", "traditional") else row
        for row in result.estimates
    ]
    assert {(row.scheme, row.n_models) for row in agreement_rows(hidden, STUDY, 14.0)} == {
        ("traditional", 4),
        ("ure_macro", 5),
        ("ure_micro", 5),
    }


def test_bad_truth_is_an_error_with_a_remedy():
    values, models = world()
    with pytest.raises(DataError, match=r"truth: user_id=100 has labels of 9 of 14 candidates.*Label the others"):
        sums_of(rows(models[0], values, labelled=9), QUESTION)
    many = EvaluationSpec(STUDY.model_copy(update={"exposures": (4, 14)}), QUESTION.positive, "expected")
    with pytest.raises(
        DataError, match=r"study.exposures: 14 cannot be drawn of the 14 candidates of user_id=100 .*Lower it"
    ):
        sums_of(rows(models[0], values), many)
    no_truth = {"m0": {cell: RatioSums(0, 5, 0, 0, 0, 0, 0) for cell in cells(STUDY)}}
    with pytest.raises(DataError, match=r"ranks: no user of the run has truth.*inputs.truth"):
        found_of(no_truth, STUDY, 0.95)
    with pytest.raises(DataError, match="no user of the run has truth"):
        found_of({}, STUDY, 0.95)


def test_users_without_truth_are_left_out():
    values, models = world()
    some = rows(models[1], values)
    empty = rows(models[1][:3], values[:3], labelled=0)
    with_more = [merge(a, b) for a, b in zip(sums_of(some, QUESTION), sums_of(empty, QUESTION), strict=True)]
    for cell, sums, alone in zip(cells(STUDY), with_more, sums_of(some, QUESTION), strict=True):
        assert sums == alone._replace(n_left_out=alone.n_left_out + 3), cell
    assert estimate(with_more[cells(STUDY).index(Cell(CANDIDATES, None, 0))], 0.95).value == N_ITEMS


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"exposures": (20, 10)}, "exposures: .* must rise"),
        ({"show": {"exposures": 5, "traditional": 2, "ure": 2}}, "show.exposures: 5 is not among"),
        ({"ure": (2, 4), "show": {"exposures": 4, "traditional": 2, "ure": 4}}, "show.ure: 4 is not among truth"),
        ({"truth": ()}, "at least 1 item"),
    ],
)
def test_a_study_that_makes_no_sense(change, words):
    with pytest.raises(ValidationError, match=words):
        UreStudy.model_validate(STUDY.model_dump() | change)


def value(terms: Terms) -> float:
    return estimate(ratio_sums(terms), 0.95).value


def all_rankings(n_items: int, positives: tuple[int, ...]) -> RankFacts:
    """Every ranking of the items, as a user each."""
    scores = np.array(list(permutations(range(n_items))), float)
    values = np.zeros(n_items)
    values[list(positives)] = 1
    return rank_facts(
        scores, items=np.tile(np.arange(n_items), (len(scores), 1)), values=np.tile(values, (len(scores), 1))
    )


@pytest.mark.parametrize(
    ("n_items", "e", "k_bar", "k", "positives"),
    [(6, 3, 1, 2, (0, 4)), (6, 3, 2, 4, (1,)), (6, 2, 1, 3, (0, 1, 2, 3)), (4, 2, 1, 2, (2,))],
)
def test_theorem_1_averaged_over_all_rankings(n_items, e, k_bar, k, positives):
    facts = all_rankings(n_items, positives)
    assert k_bar / e == k / n_items
    assert value(
        formula("full_macro", "recall").terms(Labelled(facts, all_labelled=True), k, "expected")
    ) == pytest.approx(k / n_items, abs=1e-12)
    for drawn in combinations(range(n_items), e):
        if set(drawn) & set(positives):
            exposed = Labelled(some_pairs(facts, np.isin(np.tile(np.arange(n_items), facts.n_users), drawn)))
            assert value(formula("traditional", "recall").terms(exposed.among, k_bar, "expected")) == pytest.approx(
                k / n_items, abs=1e-12
            )


def test_theorem_1_says_nothing_of_one_ranking():
    facts = rank_facts(np.arange(6.0)[None, ::-1], items=[range(6)], values=[[1, 1, 0, 0, 0, 0]])  # a perfect one
    truth = value(formula("full_macro", "recall").terms(Labelled(facts, all_labelled=True), 2, "expected"))
    drawn = [
        some_pairs(facts, np.isin(np.arange(6), subset)) for subset in combinations(range(6), 3) if {0, 1} & set(subset)
    ]
    among = [value(formula("traditional", "recall").terms(Labelled(few).among, 1, "expected")) for few in drawn]
    assert truth == 1.0
    assert np.mean(among) == pytest.approx(
        (12 * 1 + 4 * 0.5) / 16
    )  # of 16 draws 4 have both positives, and room for one
