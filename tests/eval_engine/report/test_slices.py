"""Slices: the right rows, the best model of each, contradictions of the whole beyond chance, and all of it readable."""

import io
import math
import re
from html.parser import HTMLParser
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from eval_engine.report.answers import Answers
from eval_engine.report.check_line import CheckLine
from eval_engine.report.comparison_row import ComparisonRow
from eval_engine.report.console import print_report
from eval_engine.report.estimate_row import EstimateRow
from eval_engine.report.html import save_html
from eval_engine.report.panel import panels
from eval_engine.report.slice_name import WHOLE, SliceName, slice_name
from eval_engine.report.slices import Slicing, slicings
from eval_engine.report.slices_block import MOST_VALUES
from eval_engine.report.slices_svg import MOST_MODELS, slices_svg
from eval_engine.report.slices_svg import MOST_VALUES as DRAWN

Values = dict[str, float | None]


def sliced(
    by_slice: dict[str | None, Values], p: float | None = 1e-9, estimator: str = "ure_balanced", n_users: int = 100
) -> Answers:
    """Models with these values in each slice, every pair of them compared with this p."""
    rows, pairs = [], []
    for text, values in by_slice.items():
        for model, v in values.items():
            low, high = (None, None) if v is None else (v - 0.02, v + 0.02)
            rows.append(EstimateRow(model, estimator, "recall", 10, v, 0.01, low, high, n_users, 0, "", slice=text))
        for a, b in combinations(sorted(values), 2):
            d = None if values[a] is None or values[b] is None else values[a] - values[b]
            ends = (None, None) if d is None else (d - 0.01, d + 0.01)
            verdict = "not decided" if d is None else "a better" if d > 0 else "b better"
            known = None if d is None else p
            pairs.append(
                ComparisonRow(
                    estimator, "recall", 10, a, b, d, *ends, 0.95, known, known, verdict, power=0.8, slice=text
                )
            )
    return Answers(rows, pairs)


def slicings_of(answers: Answers) -> list[Slicing]:
    (panel,) = panels(answers)
    return slicings(panel)


def printed(answers: Answers, width: int = 80) -> str:
    file = io.StringIO()
    print_report(answers, Console(file=file, width=width))
    return file.getvalue()


def page(answers: Answers, folder: Path) -> str:
    return save_html(answers, {}, None, folder / "r.html").read_text()


class Texts(HTMLParser):
    """Every text of a page, and the tags."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def texts_of(text: str) -> list[str]:
    parser = Texts()
    parser.feed(text)
    parser.close()
    assert parser.open == []
    return parser.texts


TOYS = {
    "all": {"a": 0.3, "b": 0.2, "c": 0.1},
    "category=toys": {"a": 0.1, "b": 0.4, "c": 0.2},
    "category=books": {"a": 0.4, "b": 0.3, "c": 0.2},
}


def test_names_of_slices() -> None:
    assert slice_name(None) == slice_name("all") == WHOLE
    assert slice_name("segment=") == SliceName("segment", "")
    assert slice_name("segment=NULL") == SliceName("segment", None)
    assert slice_name("a=all") == SliceName("a", "all") != WHOLE


def test_the_whole_is_reported_as_without_slices_and_null_is_the_whole() -> None:
    whole = {"all": TOYS["all"]}
    assert printed(sliced(TOYS)).startswith(printed(sliced(whole)).rstrip())
    assert printed(sliced({None: TOYS["all"]})) == printed(sliced(whole))
    assert slicings_of(sliced(whole)) == []


def test_best_model_and_contradictions_of_each_slice() -> None:
    (category,) = slicings_of(sliced(TOYS))
    assert (category.name, category.models, category.scheme.estimator) == ("category", ("a", "b", "c"), "ure_balanced")
    books, toys = category.rows
    assert [(row.value, row.best, row.decided, row.n_users) for row in (category.whole, books, toys)] == [
        ("all", "a", True, 100),
        ("books", "a", True, 100),
        ("toys", "b", True, 100),
    ]
    assert books.contradictions == ()
    above = {(one.slice_row.model_a, one.slice_row.model_b) for one in toys.contradictions}
    assert above == {("b", "a"), ("c", "a")}
    assert {model: toys.misplaced(model) for model in "abc"} == {"a": (0, 2), "b": (1, 0), "c": (1, 0)}
    assert category.contradicted == (toys,)
    for one in toys.contradictions:
        assert one.slice_row.difference > 0 > one.whole_row.difference
        assert (one.slice_row.model_a, one.slice_row.model_b) == (one.whole_row.model_a, one.whole_row.model_b)


@pytest.mark.parametrize(("p", "contradicts"), [(1e-9, True), (0.01, False), (None, False), (math.nan, False)])
def test_holm_over_all_pairs_of_all_slices_and_the_whole(p: float | None, contradicts: bool) -> None:
    """Nine tests: p = 0.01 alone would be beyond chance, nine of them are not."""
    (category,) = slicings_of(sliced(TOYS, p))
    assert bool(category.contradicted) is contradicts
    assert {row.decided for row in category.rows} == {contradicts}
    assert category.whole.decided is (p in (1e-9, 0.01))  # by its own pairs, as above the slices


@given(
    st.lists(
        st.dictionaries(st.sampled_from("abcd"), st.one_of(st.none(), st.integers(-3, 3).map(float)), min_size=1),
        min_size=2,
        max_size=4,
    ),
    st.lists(st.one_of(st.none(), st.sampled_from([1e-12, 0.004, 0.02, 0.9])), min_size=24, max_size=24),
)
def test_contradictions_match_brute_force(parts: list[Values], ps: list[float | None]) -> None:
    names = ["all", *(f"x={n}" for n in range(1, len(parts)))]
    answers = sliced(dict(zip(names, parts, strict=True)))
    answers = answers._replace(
        comparisons=[
            row._replace(p=None if row.difference is None else p)
            for row, p in zip(answers.comparisons, ps, strict=False)
        ]
    )
    expected = set()
    if any(v is not None for part in parts[1:] for v in part.values()):
        known = sorted((row.p, n) for n, row in enumerate(answers.comparisons) if row.p is not None)
        adjusted, highest = {}, 0.0
        for place, (p, n) in enumerate(known):
            highest = max(highest, (len(known) - place) * p)
            adjusted[n] = highest
        better = {}
        for n, row in enumerate(answers.comparisons):
            if adjusted.get(n, 1.0) < 0.05 and row.difference:
                a, b = (row.model_a, row.model_b) if row.difference > 0 else (row.model_b, row.model_a)
                better[row.slice, a, b] = True
        expected = {(s, a, b) for s, a, b in better if s != "all" and ("all", b, a) in better}
    seen = {
        (f"x={row.value}", one.slice_row.model_a, one.slice_row.model_b)
        for slicing in slicings_of(answers)
        for row in slicing.rows
        for one in row.contradictions
    }
    assert seen == expected


def test_values_are_sorted_numbers_by_size_and_unknown_last() -> None:
    values = {"a": 0.2, "b": 0.1}
    names = ["age=10", "age=9", "age=NULL", "age=unknown", "age=", f"age={'1' * 5000}"]
    (age,) = slicings_of(sliced({"all": values} | dict.fromkeys(names, values)))
    assert [row.value for row in age.rows] == ['""', "9", "10", "1" * 5000, "unknown", "unknown (NULL)"]
    (age,) = slicings_of(sliced({"all": values, "age=NULL": values, "age=9": values}))
    assert [row.value for row in age.rows] == ["9", "unknown"]


def test_an_estimate_that_is_not_computed_by_slice_leaves_it_to_the_next() -> None:
    balanced = sliced({"all": TOYS["all"]})
    macro, truth = sliced(TOYS, estimator="ure_macro"), sliced(TOYS, estimator="full_macro")
    parts = (balanced, macro, truth)
    rows = [row for one in parts for row in one.estimates]
    together = Answers(rows, [row for one in parts for row in one.comparisons])
    assert slicings_of(together)[0].scheme.estimator == "ure_macro"
    without = [row for row in rows if row.estimator != "ure_macro" or row.slice == "all"]
    assert slicings_of(together._replace(estimates=without))[0].scheme.estimator == "full_macro"


def test_a_model_or_a_value_may_be_missing_in_a_slice(tmp_path: Path) -> None:
    parts = {"all": {"a": 0.3, "b": 0.2}, "s=1": {"a": 0.3}, "s=2": {"a": None, "b": 0.1}, "s=3": {"a": 0.2, "b": 0.2}}
    (one,) = slicings_of(sliced(parts))
    assert [(row.best, row.decided) for row in one.rows] == [(None, False)] * 3
    assert "–" in printed(sliced(parts))
    texts_of(page(sliced(parts), tmp_path))
    nothing = {"all": {"a": 0.3, "b": 0.2}, "s=1": {"a": None, "b": None}}
    assert slicings_of(sliced(nothing)) == []


def test_terminal_and_page_show_values_users_marks_and_words(tmp_path: Path) -> None:
    answers = sliced(TOYS, n_users=1234)
    text = printed(answers)
    lines = [line.split() for line in text.splitlines()]
    assert ["toys", "0.1000", "▼2", "0.4000", "●", "▲1", "0.2000", "▲1"] in lines
    assert ["books", "0.4000", "●", "0.3000", "0.2000"] in lines
    assert ["1,234", "users", "0.0800–0.1200", "0.3800–0.4200", "0.1800–0.2200"] in lines
    sentence = (
        "category=toys: b is better than a by 0.3000 (0.2900 to 0.3100); in the whole a is better than b by 0.1000 "
        "(0.0900 to 0.1100)."
    )
    assert sentence in " ".join(text.split())
    texts = texts_of(page(answers, tmp_path))
    assert sentence in texts
    assert "1 of 2 slices contradict the whole beyond chance." in texts
    assert {"toys", "books", "1,234", "● ▲1", "▼2"} <= {one.strip() for one in texts}
    assert "No slice contradicts the whole beyond chance." in texts_of(page(sliced(TOYS, 0.9), tmp_path))


MARKUP = "[bold]x[/bold]<script>&$title"
CONTROL = "a\x1b[31m\n=b"
LONG = "a_category_with_a_name_of_some_eighty_characters_" * 2


def test_names_from_outside_are_escaped_and_shortened(tmp_path: Path) -> None:
    values = {MARKUP: 0.2, "b" * 60: 0.1, "b" * 59 + "c": 0.05}
    names = [f"{MARKUP}={CONTROL}", f"{MARKUP}={LONG}1", f"{MARKUP}={LONG}2", f"{MARKUP}=NULL"]
    answers = sliced({"all": values} | dict.fromkeys(names, values))
    text, html = printed(answers, 120), page(answers, tmp_path)
    assert not {"\x1b", "\r"} & set(text + html)
    assert "<script" not in html
    texts = texts_of(html)
    for shown in (MARKUP, r"a\x1b[31m\n=b", f"{LONG}1", f"{LONG}2", "unknown"):
        assert shown in texts
    assert "[bold]x[/bold]" in text
    assert len({line.split()[0] for line in text.splitlines() if line.strip().startswith("a_catego")}) == 2


@pytest.mark.parametrize("n_values", [1, MOST_VALUES, MOST_VALUES + 1, 300])
@pytest.mark.parametrize("n_models", [2, 4, 9])
def test_80_columns_hold_it_and_what_is_left_out_is_counted(tmp_path: Path, n_values: int, n_models: int) -> None:
    values: Values = {f"model_{n}": 0.1 + 0.01 * n for n in range(n_models)}
    flipped: Values = {model: -v for model, v in values.items() if v is not None}
    answers = sliced({"all": values} | {f"category={n}": flipped if n % 2 else values for n in range(n_values)})
    text = printed(answers)
    assert max(map(len, text.splitlines())) <= 80
    block = text[text.index("recall@10 by category") :]
    values_shown = list(re.findall(r"^ (\d+) +-?0\.", block, re.MULTILINE))
    assert values_shown == [str(n) for n in range(min(n_values, MOST_VALUES))]
    more = n_values - MOST_VALUES
    assert (f"{more:,} more value{'s'[: more - 1]} with fewer users" in block) is (more > 0)
    assert ("more models. The page has more of them." in " ".join(block.split())) is (n_models > 4)
    texts = texts_of(page(answers, tmp_path))
    assert all(str(n) in texts for n in range(n_values))
    assert all(texts.count(model) >= 2 for model in values)


def test_a_best_model_without_a_column_is_named() -> None:
    values: Values = {f"model_{n}": 0.2 - 0.01 * n for n in range(9)}
    block = printed(sliced({"all": values, "c=1": values | {"model_8": 0.9}}))
    assert re.search(r"^ ● model_8 *$", block, re.MULTILINE)


def test_of_many_values_those_with_the_most_users_are_shown() -> None:
    values: Values = {"a": 0.2, "b": 0.1}
    answers = sliced({"all": values} | {f"c={n}": values for n in range(30)})
    rows = [row._replace(n_users=int(row.slice[2:]) + 1) if row.slice != "all" else row for row in answers.estimates]
    (one,) = slicings_of(answers._replace(estimates=rows))
    assert [row.value for row in one.largest(3)] == ["27", "28", "29"]
    assert len(one.largest(99)) == 30


@pytest.mark.parametrize(("n_values", "n_models"), [(1, 1), (DRAWN + 3, 2), (3, MOST_MODELS + 2)])
def test_the_picture_has_a_dot_for_each_value_and_says_what_it_leaves_out(n_values: int, n_models: int) -> None:
    values: Values = {f"m{n}": 0.1 + 0.01 * n for n in range(n_models)}
    (one,) = slicings_of(sliced({"all": values} | {f"c={n}": values for n in range(n_values)}))
    text = slices_svg(one)
    texts_of(text)
    assert text.count("<title>") == (1 + min(n_values, DRAWN)) * min(n_models, MOST_MODELS)
    assert ("3 more values with fewer users" in text) is (n_values > DRAWN)
    assert ("2 more models" in text) is (n_models > MOST_MODELS)


def test_a_slicing_without_spread_or_with_one_number_is_drawn() -> None:
    for value in (0.0, 1e-12, -5.0, 1e6):
        (one,) = slicings_of(sliced({"all": {"a": value}, "c=1": {"a": value}}))
        flat = one.whole.estimates["a"]._replace(low=None, high=None)
        rows = tuple(row._replace(estimates={"a": flat}) for row in one.rows)
        assert "nan" not in slices_svg(one._replace(whole=one.whole._replace(estimates={"a": flat}), rows=rows))


def test_slices_over_data_that_failed_its_checks_say_so(tmp_path: Path) -> None:
    checks = (CheckLine("overlap", "fail", "0 of 240."),)
    for estimator, doubted in (("ure_balanced", True), ("holdout", False), ("full_macro", False)):
        answers = sliced(TOYS, estimator=estimator)._replace(checks=checks)
        for text in (printed(answers), page(answers, tmp_path)):
            part = " ".join(text[text.index("recall@10 by category") :].split())[:200]
            assert ("not to be relied on (overlap failed)" in part) is doubted
