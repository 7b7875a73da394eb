"""The picture: a PNG of a sane size, the same bytes for the same rows, whatever the models are called."""

import struct
import warnings

import pytest

from eval_engine.errors import DataError
from eval_engine.metric import Metric
from eval_engine.report.answers import Answers
from eval_engine.report.estimate_row import EstimateRow
from eval_engine.report.plot import DPI, WIDTH, save_plot


def rows(
    names=("a", "b", "c"),
    estimators=("full_macro", "traditional", "ure_macro", "full_selected", "ure_micro", "full_micro"),
    k=10,
):
    return [
        EstimateRow(
            m,
            e,
            "recall",
            5 if e == "traditional" else k,
            0.1 + 0.01 * ((i * 7 + j) % 5),
            0.002,
            0.09 + 0.01 * ((i * 7 + j) % 5),
            0.2,
            9,
            1,
            "",
        )
        for i, m in enumerate(names)
        for j, e in enumerate(estimators)
    ]


def size(path):
    content = path.read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", content[16:24])


def test_a_png_of_a_sane_size_without_leftovers(tmp_path):
    path = save_plot(Answers(rows()), tmp_path / "new" / "report.png")
    width, height = size(path)
    assert width == WIDTH * DPI
    assert 400 < height < 2000
    assert 20_000 < path.stat().st_size < 1_000_000
    assert [p.name for p in path.parent.iterdir()] == ["report.png"]


def test_more_models_make_a_taller_picture(tmp_path):
    small, large = (save_plot(Answers(rows([f"m{i}" for i in range(n)])), tmp_path / f"{n}.png") for n in (3, 12))
    assert size(small)[1] < size(large)[1]


def test_same_rows_in_any_order_same_bytes(tmp_path):
    first, second = save_plot(Answers(rows()), tmp_path / "1.png"), save_plot(Answers(rows()[::-1]), tmp_path / "2.png")
    assert first.read_bytes() == second.read_bytes()


def test_other_rows_other_bytes(tmp_path):
    first, second = (
        save_plot(Answers(rows()), tmp_path / "1.png"),
        save_plot(Answers(rows(("a", "b", "d"))), tmp_path / "2.png"),
    )
    assert first.read_bytes() != second.read_bytes()


@pytest.mark.parametrize(
    ("names", "estimators"),
    [
        (("only",), ("full_macro", "traditional", "ure_macro")),
        (("a", "b"), ("traditional", "ure_macro")),
        (("a", "b"), ("ure_micro",)),
        (("a", "b"), ("full_macro", "full_micro")),
        (("$x^{$", "a" * 80, "<&>"), ("full_macro", "traditional", "ure_macro")),
    ],
)
def test_few_models_few_schemes_and_odd_names_are_drawn_without_a_warning(tmp_path, names, estimators):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        size(save_plot(Answers(rows(names, estimators)), tmp_path / "r.png"))


def test_undefined_values_are_drawn(tmp_path):
    undefined = [row._replace(value=None, low=None, high=None) if row.model == "b" else row for row in rows()]
    size(save_plot(Answers(undefined), tmp_path / "r.png"))


def test_the_target_is_chosen_by_name(tmp_path):
    both = Answers(rows() + [row for row in rows(("a", "b"), k=20) if row.estimator != "traditional"])
    first, named = save_plot(both, tmp_path / "1.png"), save_plot(both, tmp_path / "2.png", target=Metric("recall", 10))
    other = save_plot(both, tmp_path / "3.png", target=Metric("recall", 20))
    assert first.read_bytes() == named.read_bytes() != other.read_bytes()


def test_a_metric_of_lists_is_not_drawn_where_there_is_another(tmp_path):
    lists = [row._replace(estimator="lists", metric="coverage") for row in rows(("a", "b"), ("full_macro",))]
    recall = rows(("a", "b"))
    both = Answers([*lists, *recall], metrics=(Metric("coverage", 10),))
    first = save_plot(both, tmp_path / "1.png").read_bytes()
    assert first == save_plot(both, tmp_path / "2.png", target=Metric("recall", 10)).read_bytes()
    size(save_plot(Answers(lists), tmp_path / "3.png"))


def test_an_unknown_target_is_an_error_that_lists_the_known(tmp_path):
    with pytest.raises(DataError, match=r"recall@7.*Metrics with rows: recall@10"):
        save_plot(Answers(rows()), tmp_path / "r.png", target=Metric("recall", 7))
    assert list(tmp_path.iterdir()) == []
