"""The sentences are true of the rows: each case is small enough to read off."""

import pytest

from eval_engine.report.answers import Answers
from eval_engine.report.comparison_row import ComparisonRow
from eval_engine.report.estimate_row import EstimateRow
from eval_engine.report.finding import CONSERVATIVE, PAIRED, certainty, conclusion, headline
from eval_engine.report.orders import agreements
from eval_engine.report.panel import Panel, panels


def panel_of(
    columns: dict[str, tuple[float | None, ...]],
    half: float | None = 0.001,
    pairs: list[ComparisonRow] | tuple[()] = (),
) -> Panel:
    """Models m0, m1, ... with these values; truth is m0 best unless the columns say otherwise."""
    rows = []
    for estimator, values in columns.items():
        for i, value in enumerate(values):
            low, high = (None, None) if value is None or half is None else (value - half, value + half)
            rows.append(
                EstimateRow(
                    f"m{i}",
                    estimator,
                    "recall",
                    5 if estimator == "traditional" else 10,
                    value,
                    None,
                    low,
                    high,
                    10,
                    0,
                    "",
                )
            )
    (panel,) = panels(Answers(rows, pairs))
    return panel


def test_traditional_wrong_and_ure_right():
    panel = panel_of(
        {"full_macro": (0.3, 0.1), "traditional": (0.5, 0.6), "ure_macro": (0.3, 0.1), "ure_micro": (0.3, 0.1)}
    )
    assert (
        conclusion(panel)
        == "Traditional recall@5 puts m1 above m0; the truth at 10 is the other way round. Every estimate has it right."
    )
    assert headline(panel).endswith("picks m1; the best model by recall@10 is m0, and every estimate finds it")


def test_nothing_wrong_is_said_as_plainly():
    panel = panel_of({"full_macro": (0.3, 0.2, 0.1), "traditional": (0.7, 0.6, 0.5), "ure_macro": (0.3, 0.2, 0.1)})
    assert (
        conclusion(panel)
        == "Traditional recall@5 orders all 3 pairs of models as the truth at 10 does. URE macro has every pair right."
    )
    assert (
        headline(panel)
        == "Traditional recall@5 orders all 3 pairs of models as the truth does; URE macro orders no pair wrong"
    )


def test_ure_wrong_is_not_hidden():
    panel = panel_of({"full_macro": (0.3, 0.1), "traditional": (0.6, 0.5), "ure_macro": (0.1, 0.3)})
    assert "URE macro orders 1 of 1 pair of models unlike the truth: it puts m1 above m0." in conclusion(panel)
    assert "right" not in conclusion(panel)
    assert headline(panel).endswith("URE macro orders 1 unlike the truth")


def test_both_wrong():
    panel = panel_of({"full_macro": (0.3, 0.1), "traditional": (0.5, 0.6), "ure_macro": (0.1, 0.3)})
    assert headline(panel).endswith("picks m1; the best model by recall@10 is m0, and URE macro misses it too")
    assert "has it right" not in conclusion(panel)


def test_a_flip_that_the_estimand_itself_has_is_another_question():
    columns = {"full_macro": (0.3, 0.1), "ure_micro": (0.1, 0.3), "full_micro": (0.1, 0.3)}
    assert "another question, not an error" in conclusion(panel_of(columns))
    assert "another question" not in conclusion(panel_of(columns | {"full_micro": (0.3, 0.1)}))


@pytest.mark.parametrize(("half", "noisy"), [(0.001, False), (0.5, True), (None, True)])
def test_noise_is_called_noise(half, noisy):
    panel = panel_of({"full_macro": (0.3, 0.1), "traditional": (0.5, 0.6)}, half)
    assert ("it may be noise" in conclusion(panel)) is noisy
    assert ("within the noise" in headline(panel)) is noisy


def test_without_truth_no_scheme_is_called_wrong():
    panel = panel_of({"traditional": (0.5, 0.6), "ure_macro": (0.3, 0.1), "ure_micro": (0.3, 0.1)})
    text = conclusion(panel)
    assert text.startswith(
        "Traditional recall@5 puts m1 above m0; URE macro at 10 is the other way round. URE micro puts m0 first."
    )
    assert "wrong" not in text
    assert "right." not in text
    assert headline(panel) == "Traditional recall@5 picks m1, URE macro recall@10 picks m0"
    assert "URE macro is an estimate of recall@10, and traditional recall@5 is not." in text


def test_without_truth_agreement_is_said():
    panel = panel_of({"traditional": (0.6, 0.5), "ure_macro": (0.3, 0.1)})
    assert conclusion(panel) == "Traditional recall@5 orders the two models as URE macro at 10 does."


def test_ties_are_not_agreement():
    panel = panel_of({"full_macro": (0.3, 0.2, 0.1), "traditional": (0.7, 0.7, 0.5), "ure_macro": (None, 0.2, 0.1)})
    assert "orders 2 of 3 pairs of models as the truth at 10 does; the other 1 is tied or undefined." in conclusion(
        panel
    )
    assert "every pair right" not in conclusion(panel)
    nothing = panel_of({"full_macro": (0.3, 0.1), "traditional": (0.5, 0.5)})
    assert "no pair of models that both put in an order" in conclusion(nothing)
    assert "as the truth does" not in headline(nothing)


def test_one_model():
    panel = panel_of({"full_macro": (0.3,), "traditional": (0.5,), "ure_macro": (0.3,)})
    assert conclusion(panel) == "There is only one model, m0: no order to compare."
    assert headline(panel) == "recall@10 of m0"


@pytest.mark.parametrize("alone", ["ure_macro", "full_macro", "full_micro"])
def test_a_scheme_alone(alone):
    panel = panel_of({alone: (0.3, 0.1)})
    assert conclusion(panel).startswith("There is no second scheme")
    assert headline(panel) == "recall@10 of 2 models"


def pair(estimator: str, difference: float, p_holm: float, verdict: str = "not decided") -> ComparisonRow:
    k = 5 if estimator == "traditional" else 10
    return ComparisonRow(estimator, "recall", k, "m0", "m1", difference, None, None, 0.95, p_holm, p_holm, verdict)


@pytest.mark.parametrize(("p_holm", "noisy"), [(0.01, False), (0.3, True)])
def test_noise_is_decided_by_comparisons_and_not_called_conservative(p_holm, noisy):
    pairs = [pair("full_macro", 0.2, 0.01), pair("traditional", -0.1, p_holm)]
    panel = panel_of({"full_macro": (0.3, 0.1), "traditional": (0.5, 0.6)}, 0.5, pairs)
    assert ("it may be noise" in conclusion(panel)) is noisy
    assert certainty(agreements(panel)) == PAIRED
    assert certainty(agreements(panel._replace(pairs={}))) == CONSERVATIVE
    assert certainty(agreements(panel_of({"full_macro": (0.3, 0.1), "traditional": (0.6, 0.5)}))) == ""


def test_balanced_ure_is_named_where_only_it_is_right():
    panel = panel_of(
        {
            "full_macro": (0.3, 0.1),
            "traditional": (0.5, 0.6),
            "ure_balanced": (0.3, 0.1),
            "ure_macro": (0.1, 0.3),
            "ure_micro": (0.1, 0.3),
        }
    )
    assert "URE balanced has it right." in conclusion(panel)
    assert headline(panel).endswith("and of the estimates only URE balanced finds it")
    panel = panel_of(
        {
            "full_macro": (0.3, 0.1),
            "traditional": (0.5, 0.6),
            "ure_balanced": (0.3, 0.1),
            "ure_macro": (0.3, 0.1),
            "ure_micro": (0.1, 0.3),
        }
    )
    assert "URE balanced and URE macro have it right." in conclusion(panel)
    assert headline(panel).endswith("and of the estimates only URE balanced and URE macro find it")


def test_an_undefined_ure_is_neither_right_nor_wrong():
    columns = {
        "full_macro": (0.3, 0.1),
        "traditional": (0.5, 0.6),
        "ure_balanced": (None, None),
        "ure_macro": (0.3, 0.1),
    }
    assert conclusion(panel_of(columns)).endswith("URE macro has it right.")
    assert headline(panel_of(columns)).endswith("and URE macro finds it")
    alone = panel_of({"full_mean": (0.3, 0.1), "ure_mean": (None, None)})
    assert "right" not in conclusion(alone)
    assert headline(alone) == "recall@10 of 2 models"


def test_with_nothing_to_compare_orders_with_the_pairs_speak():
    panel = panel_of({"ure_balanced": (0.3, 0.1)}, pairs=[pair("ure_balanced", 0.2, 0.01, "a better")])
    assert conclusion(panel) == "By URE balanced recall@10, m0 beats m1."
    assert headline(panel) == "recall@10 of 2 models: m0 beats m1"
