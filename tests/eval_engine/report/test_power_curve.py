"""The curve of `plumbline power`: numbers by hand, and a picture of many pairs or none."""

import math

import pytest

from eval_engine.exposure_design.power import DESIGNS, Power
from eval_engine.report.power_curve import save_curve, seen_with, users_shown


def row(pair, way, users, e=10):
    detectable = 0.02 * math.sqrt(users / 1000)
    return Power(*pair, way, e, 0.2, 0.004, 0.001, users, users / 4, users * 9, detectable, 99, 1.0)


def test_what_is_seen_falls_with_the_root_of_the_users():
    own = row((0, 1), "pair", 1000.0)
    assert seen_with(own, 1000, 1000) == pytest.approx((0.02, 0.01, 0.06))
    assert seen_with(own, 1000, 4000) == pytest.approx((0.01, 0.005, 0.03))


def test_users_range_from_the_fewest_to_the_most_that_are_needed():
    assert users_shown([row((0, 1), "pair", 500.0), row((0, 1), "uniform", 70_000.0)]) == [
        *(300, 1000, 3000, 10_000, 30_000, 100_000)
    ]
    many = users_shown([row((0, 1), "pair", 20.0), row((0, 1), "uniform", 9e6)])
    assert len(many) <= 7
    assert many[-1] == 10_000_000
    undefined = row((0, 1), "pair", 500.0)._replace(users=math.nan)
    assert users_shown([undefined]) == []


@pytest.mark.parametrize("n_models", [2, 5])
def test_the_same_rows_give_the_same_picture(n_models, tmp_path):
    pairs = [(a, b) for a in range(n_models) for b in range(a)]
    rows = [row(pair, way, 1000.0 * (n + 1)) for pair in pairs for n, way in enumerate(DESIGNS)]
    names = [f"model [{n}]" for n in range(n_models)]
    made = [
        save_curve(rows, names, 1000, 900, 0.02, "recall@20, 80 % power", tmp_path / f"{n}.png").read_bytes()
        for n in (1, 2)
    ]
    assert made[0] == made[1]
    assert made[0].startswith(b"\x89PNG")


def test_nothing_known_is_an_empty_picture(tmp_path):
    undefined = row((0, 1), "uniform", 500.0)._replace(users=math.nan)
    path = save_curve([undefined], ["a", "b"], 10, 10, 0.02, "recall@20", tmp_path / "new" / "curve.png")
    assert path.stat().st_size > 1000
