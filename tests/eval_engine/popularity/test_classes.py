from math import atan2, cos, sin

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import savgol_filter

from eval_engine import popularity_classes
from eval_engine.popularity.classes import CLASSES, METHODS
from eval_engine.popularity.elbow import MOST_POINTS, curve, default_window, elbow, elbows, rotated

RNG = np.random.default_rng(3)


def kinked(n: int = 1000, first: int = 120, second: int = 850) -> np.ndarray:
    """Counts that rise by 10, from `first` on by 1, and from `second` on by 30 an item."""
    steps = np.where(np.arange(n) < first, 10, np.where(np.arange(n) < second, 1, 30))
    return 5 + np.cumsum(steps) - steps[0]


def rotor(x: list[float], y: list[float]) -> list[float]:
    """The rotated heights as the package kneebow computes them: scaled to 0..1, times the rotation matrix."""

    def scaled(values: list[float]) -> list[float]:
        low, high = min(values), max(values)
        return [(value - low) / ((high - low) or 1.0) for value in values]

    x, y = scaled(x), scaled(y)
    theta = atan2(y[-1] - y[0], x[-1] - x[0])
    co, si = cos(theta), sin(theta)
    return [a * -si + b * co for a, b in zip(x, y, strict=True)]


def smoothed(rho: np.ndarray, window: int) -> list[float]:
    """A parabola fitted to each window by least squares; at the ends, that of the first and the last window."""
    half = window // 2
    t = np.arange(window)
    found = []
    for i in range(rho.size):
        first = min(max(i - half, 0), rho.size - window)
        own = np.polynomial.Polynomial.fit(t, rho[first : first + window], 2)
        found.append(float(own(i - first)))
    return found


def test_kinks_of_a_piecewise_linear_curve_are_the_thresholds() -> None:
    rho = kinked()
    found = popularity_classes(rho)
    assert found.thresholds.used == "elbow"
    assert abs(found.n_low - 120) <= 40  # smoothed over 200 points
    assert abs(1000 - found.n_high - 850) <= 40
    assert found.n_low + found.n_middle + found.n_high == 1000
    assert found.low_at_most == rho[found.n_low - 1]


@settings(max_examples=25)
@given(st.randoms(use_true_random=False))
def test_classes_do_not_depend_on_the_order_of_items(random) -> None:
    rho = kinked(300, 36, 250)
    order = list(range(rho.size))
    random.shuffle(order)
    for method in METHODS:
        a, b = popularity_classes(rho, method), popularity_classes(rho[order], method)
        assert (b.class_of_each == a.class_of_each[order]).all()
        assert a.thresholds == b.thresholds


@pytest.mark.parametrize("method", METHODS)
def test_ten_times_the_counts_give_the_same_classes(method: str) -> None:
    rho = np.concatenate([kinked(), np.zeros(50, np.int64)])
    a, b = popularity_classes(rho, method), popularity_classes(10 * rho, method)
    assert (a.class_of_each == b.class_of_each).all()
    assert b.low_at_most == 10 * a.low_at_most
    assert b.high_above == 10 * a.high_above


def test_the_smoothing_of_this_test_is_scipys() -> None:
    """The windows fitted one by one, which elbows are held against below."""
    rho = kinked(200, 24, 170).astype(float)
    np.testing.assert_allclose(smoothed(rho, 41), savgol_filter(rho, 41, 2), rtol=1e-9)


def test_elbows_agree_with_the_steps_of_the_definition() -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        rho = np.sort(np.round(np.exp(rng.normal(4, 1, 205))).astype(np.int64) + 1).astype(float)
        window = 41  # an odd one: scipy centres an even one between two points
        s = smoothed(rho, window)
        bent = [abs(s[i + 2] - 2 * s[i + 1] + s[i]) for i in range(rho.size - 2)]
        idx = next(i for i, one in enumerate(bent) if one <= min(bent) + 1e-12 * max(s))
        ours = elbows(rho, window)
        if idx < 2:
            assert ours.reason
            continue
        left = rotor(list(range(idx)), [-value for value in s[:idx]])
        right = rotor(list(range(rho.size - idx)), s[idx:])
        at_left = max(i for i, h in enumerate(left) if h <= min(left) + 1e-9)
        at_right = min(i for i, h in enumerate(right) if h <= min(right) + 1e-9)
        assert (ours.inflection, ours.low_at_most, ours.high_above) == (idx, rho[at_left], rho[idx + at_right])


@given(st.lists(st.integers(0, 50), min_size=2, max_size=40))
def test_rotation_agrees_with_the_rotor(values: list[int]) -> None:
    y = np.array(values, float)
    np.testing.assert_allclose(rotated(y), rotor(list(range(len(values))), list(y)), atol=1e-12)


@given(st.lists(st.integers(0, 50), min_size=2, max_size=40))
def test_rotation_and_elbow_are_those_of_kneebow(values: list[int]) -> None:
    from kneebow.rotor import Rotor

    y = np.array(values, float)
    rotor = Rotor()
    rotor.fit_rotate(np.column_stack([np.arange(y.size), y]))
    np.testing.assert_allclose(rotated(y), rotor._data[:, 1], atol=1e-12)
    lowest = np.flatnonzero(rotated(y) <= rotated(y).min() + 1e-9)
    assert elbow(y, last=False) == lowest[0]
    assert elbow(y, last=True) == lowest[-1]
    if lowest.size == 1:  # otherwise rounding decides which one kneebow takes
        assert lowest[0] == rotor.get_elbow_index()
    else:
        assert rotor.get_elbow_index() in lowest


@pytest.mark.parametrize(
    ("y", "last", "first"),
    [
        ([0.0, 1.0, 2.0, 3.0, 4.0], 4, 0),  # straight: every point is on the chord
        ([0.0, -1.0, -1.0, 0.0], 2, 1),  # two equal points
        ([0.0, -1.0, -1.0 + 5e-10, 0.0], 2, 1),  # equal but for rounding, whichever is lower
        ([0.0, -1.0 + 5e-10, -1.0, 0.0], 2, 1),
        ([0.0, -1.0, -1.0 + 5e-9, 0.0], 1, 1),  # more than 1e-9 apart
        ([0.0, 1.0, 1.0, 0.0], 3, 0),  # no point below the chord: its ends
        ([3.0], 0, 0),
        ([2.0, 2.0, 2.0], 2, 0),
    ],
)
def test_of_equal_points_the_last_on_the_left_and_the_first_on_the_right(y: list[float], last: int, first: int) -> None:
    assert (elbow(np.array(y), last=True), elbow(np.array(y), last=False)) == (last, first)


def bent(second: np.ndarray, slope: float) -> np.ndarray:
    """The counts whose second differences are these."""
    return np.cumsum(slope + np.cumsum(second)).astype(np.int64) + 1


def test_a_side_without_an_elbow_ends_where_the_other_begins() -> None:
    """A curve that bends one way only is on one side not below its chord, so that both ends of this side are equal."""
    second = 2.0 + np.abs(np.arange(200) - 100)
    rising, falling = bent(second, 5), bent(-second, 40 + second.sum())
    one, other = elbows(rising.astype(float)), elbows(falling.astype(float))
    assert (one.inflection, one.low_at_most, one.high_above) == (97, rising[96], rising[155])
    assert (other.inflection, other.low_at_most, other.high_above) == (97, falling[40], falling[97])
    assert popularity_classes(rising).thresholds.remark == "the curve has no left elbow"
    assert popularity_classes(falling).thresholds.remark == ""


@pytest.mark.parametrize(
    ("counts", "method", "sizes", "remark"),
    [
        (
            [1, 2, 2, 3, 3, 4],
            "quantile",
            (1, 4, 1),
            "",
        ),  # 1 or 3 items are as far from a third: the first; 3 or 5: the last
        ([1, 1, 2, 2, 3, 3], "quantile", (2, 2, 2), ""),
        ([1, 1, 1, 1, 1, 9], "quantile", (0, 5, 1), "no item is in class low"),
        ([5, 5, 5], "share", (0, 0, 3), "no item is in class low"),  # the first count has more than a fifth already
        ([1, 1, 8], "share", (2, 0, 1), ""),  # exactly a fifth
        ([1, 1, 7], "share", (0, 0, 3), "no item is in class low"),
        ([0, 0, 1, 1, 8], "share", (2, 0, 1), ""),
    ],
)
def test_ties_of_share_and_thirds(counts: list[int], method: str, sizes: tuple[int, int, int], remark: str) -> None:
    found = popularity_classes(counts, method)  # type: ignore[arg-type]
    assert (found.n_low, found.n_middle, found.n_high) == sizes
    assert found.thresholds.remark == remark


@pytest.mark.parametrize(
    ("counts", "reason", "sizes"),
    [
        ([], "no item has a training positive", (0, 0, 0)),
        ([0] * 10, "no item has a training positive", (0, 0, 0)),
        ([7], "fewer than 25 items", (0, 1, 0)),
        ([1, 2, 3], "fewer than 25 items", (1, 1, 1)),
        ([4] * 100, "1 different counts", (0, 100, 0)),
        ([4] * 60 + [5] * 60, "2 different counts", (60, 0, 60)),
        ([1] * 500 + [2] * 200 + [3] * 100 + list(range(4, 104)), "inflection point at its beginning", (500, 200, 200)),
    ],
)
def test_without_elbows_classes_are_thirds_and_say_why(
    counts: list[int], reason: str, sizes: tuple[int, int, int]
) -> None:
    found = popularity_classes(np.array(counts, np.int64))
    assert reason in found.thresholds.reason
    assert (found.n_low, found.n_middle, found.n_high) == sizes
    if counts and any(counts):
        assert found.thresholds.used == "quantile"
    if 0 in sizes and any(counts):
        assert "no item is in class" in found.thresholds.remark


@given(st.lists(st.integers(0, 30), max_size=60), st.sampled_from(METHODS))
def test_every_item_has_one_class_and_equal_counts_the_same(counts: list[int], method: str) -> None:
    found = popularity_classes(np.array(counts, np.int64), method)
    by_count: dict[int, set[str]] = {}
    for count, name in zip(counts, found.class_of_each, strict=True):
        by_count.setdefault(count, set()).add(str(name))
        assert (name == "unseen") == (count == 0)
    assert all(len(names) == 1 for names in by_count.values())
    sizes = [int((found.class_of_each == name).sum()) for name in CLASSES]
    assert sizes == [found.thresholds.n_unseen, found.n_low, found.n_middle, found.n_high]
    ordered = [CLASSES.index(next(iter(by_count[count]))) for count in sorted(by_count)]
    assert ordered == sorted(ordered)


@given(st.lists(st.integers(1, 30), min_size=1, max_size=60))
def test_share_is_the_largest_low_class_within_a_fifth(counts: list[int]) -> None:
    found = popularity_classes(np.array(counts), "share")
    total = sum(counts)
    best = 0
    for at_most in sorted(set(counts)):
        if 5 * sum(c for c in counts if c <= at_most) <= total:
            best = sum(c <= at_most for c in counts)
    assert (found.n_low, found.n_middle, found.n_high) == (best, 0, len(counts) - best)


def test_unseen_items_change_no_class() -> None:
    rho = kinked()
    with_zeros = np.concatenate([rho, np.zeros(500, np.int64)])
    for method in METHODS:
        a, b = popularity_classes(rho, method), popularity_classes(with_zeros, method)
        assert (a.n_low, a.n_middle, a.n_high) == (b.n_low, b.n_middle, b.n_high)
        assert (b.class_of_each[-500:] == "unseen").all()


def test_stability_is_over_nearby_windows() -> None:
    rho = kinked()
    found = popularity_classes(rho).thresholds
    assert found.stability is not None
    windows = {200 + n for n in range(-10, 11)} | {20 * n for n in range(5, 16)}
    nearby = [one for window in windows if not (one := elbows(rho.astype(float), window)).reason]
    sizes = [int((rho <= one.low_at_most).sum()) for one in nearby]
    assert found.stability.n_low == (min(sizes), max(sizes))
    highs = [int((rho > one.high_above).sum()) for one in nearby]
    assert found.stability.n_high == (min(highs), max(highs))


def test_fragile_and_stable_curves() -> None:
    rough = popularity_classes(np.random.default_rng(1).geometric(0.01, 800)).thresholds
    assert rough.stability == ((33, 453), (63, 108))
    assert rough.fragile
    assert "fragile: over nearby smoothing windows low has 33 to 453 items and high has 63 to 108 items" in rough.remark
    assert "2 of 31 nearby smoothing windows give no elbows" in rough.remark
    some = popularity_classes(kinked()).thresholds  # low and high hardly move, but two windows find nothing
    assert some.stability == ((110, 134), (171, 190))
    assert (some.fragile, some.remark) == (True, "2 of 31 nearby smoothing windows give no elbows")
    smooth = popularity_classes(bent(2.0 + np.abs(np.arange(200) - 100), 5)).thresholds
    assert smooth.stability == ((97, 98), (43, 44))
    assert not smooth.fragile


def test_a_long_curve_is_read_at_evenly_spaced_places() -> None:
    counts, items = np.array([1, 2, 3]), np.array([100_000, 50_000, 50_000])
    rho = curve(counts, items)
    assert rho.size == MOST_POINTS
    assert abs((rho == 1).mean() - 0.5) < 1e-3
    np.testing.assert_array_equal(curve(np.array([3, 1]), np.array([2, 1])), [1, 3, 3])


def test_the_window_is_a_fifth_of_the_points() -> None:
    assert [default_window(n) for n in (10, 25, 26, 1000)] == [5, 5, 5, 200]


@pytest.mark.parametrize("counts", [[-1], [0.5], [float("nan")], [float("inf")], [[1]], ["a"]])
def test_what_is_no_count_is_an_error(counts: list[object]) -> None:
    with pytest.raises(ValueError, match="count"):
        popularity_classes(counts)  # type: ignore[arg-type]


def test_an_unknown_method_is_an_error() -> None:
    with pytest.raises(ValueError, match="elbow, elbow_log, share, quantile"):
        popularity_classes([1, 2], "knee")  # type: ignore[arg-type]
