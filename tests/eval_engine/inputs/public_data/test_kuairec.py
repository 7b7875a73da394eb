"""KuaiRec's matrix is divided into a draw that favours short videos, the rest as truth, and exposures from it."""

from collections import Counter
from functools import partial
from typing import Any

import numpy as np
import pytest

from eval_engine.errors import DataError
from eval_engine.inputs.public_data import user_buckets
from eval_engine.inputs.public_data.kuairec import KUAIREC, Draw, convert
from eval_engine.inputs.public_data.pair_hash import uniform

HEADER = "user_id,video_id,play_duration,video_duration,time,date,timestamp,watch_ratio\n"
USERS, ITEMS = 40, 30
BIASED = Draw("biased_draw", 0.4, 8.0, 0.0, 5, "absent", 0)
Rows = dict[tuple[int, int], float]


def convert_with(draw: Draw, sources: Any, destination: Any, progress: Any) -> Any:
    return convert(sources, draw, destination, progress)


def line(user: int, item: int, ratio: float) -> str:
    """A row of a matrix; video 10 + n is the (30 - n)-th shortest. Times may be missing, as in the owner's file."""
    duration = 1000 * (100 - item)
    time = ",," if item % 3 else "2020-07-05 00:08:23.438,20200705,1593878903.438"
    return f"{user},{item},{round(ratio * duration)},{duration},{time},{ratio}\n"


@pytest.fixture
def small(write: Any) -> Rows:
    rng = np.random.default_rng(3)
    rows = {
        (user, item): round(float(rng.exponential(1.2)), 4)
        for user in range(USERS)
        for item in range(10, 10 + ITEMS)
        if rng.random() < 0.97
    }
    shuffled = [list(rows.items())[n] for n in rng.permutation(len(rows))]
    write("data/small_matrix.csv", HEADER + "".join(line(*pair, ratio) for pair, ratio in shuffled))
    return rows


@pytest.mark.parametrize("bucket_bytes", [64 << 20, 10_000])
def test_the_draw_and_its_complement(
    small: Rows, convert: Any, bucket_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user_buckets, "BYTES_PER_BUCKET", bucket_bytes)
    result = convert(KUAIREC, partial(convert_with, BIASED))
    feedback, truth, exposures = (result.pairs(name) for name in ("feedback", "truth", "exposures"))
    assert feedback | truth == small
    assert not set(feedback) & set(truth)
    assert exposures.items() <= truth.items()
    seen, drawn = (Counter(user for user, _ in pairs) for pairs in (small, feedback))
    assert drawn == {user: int(0.4 * n + 0.5) for user, n in seen.items()}
    assert set(Counter(user for user, _ in exposures).values()) == {5}
    by_item = Counter(item for _, item in feedback)  # a larger id is a shorter video
    assert by_item[39] > 0.8 * USERS
    assert by_item[10] < 0.2 * USERS
    for user, item in exposures:  # the smallest hashes
        others = [other for owner, other in truth if owner == user]
        u = uniform(0, "exposures", np.full(len(others), user), np.array(others))
        assert others.index(item) in np.argsort(u)[:5]
    assert (result.config.frame, str(result.config.positive)) == ("unseen", "value > 2")
    assert result.config.inputs.heldout is None
    assert result.imported.remarks == (
        f"{USERS * ITEMS - len(small)} pairs of the small matrix have no row: not in truth, but candidates that are "
        "never positive and never exposed",
    )
    assert result.table("catalogue").to_pylist()[0] == {"item_id": 10, "position": 0, "duration_ms": 90_000}


def test_pairs_that_were_never_shown_are_no_positives(small: Rows, convert: Any) -> None:
    result = convert(KUAIREC, partial(convert_with, BIASED._replace(unlabelled="zero", exposures=12)))
    feedback, truth, exposures = (result.pairs(name) for name in ("feedback", "truth", "exposures"))
    every = {(user, item) for user in range(USERS) for item in range(10, 10 + ITEMS)}
    assert feedback | truth == dict.fromkeys(every, 0.0) | small
    assert len(feedback) + len(truth) == len(every)
    assert set(exposures) - set(small)  # such pairs are exposed, too
    assert feedback == convert(KUAIREC, partial(convert_with, BIASED), "absent").pairs("feedback")


def test_held_out_pairs_stay_in_the_truth(small: Rows, convert: Any) -> None:
    result = convert(KUAIREC, partial(convert_with, BIASED._replace(heldout=0.5)))
    feedback, truth, heldout = (result.pairs(name) for name in ("feedback", "truth", "heldout"))
    assert feedback | truth == small
    assert heldout.items() <= truth.items()
    whole = convert(KUAIREC, partial(convert_with, BIASED), "whole")
    assert feedback | heldout == whole.pairs("feedback")


def test_the_log_as_training_pairs(small: Rows, write: Any, convert: Any) -> None:
    """Repeated rows count once, by their largest value; rows of other videos are left out, other users stay."""
    rows = [(0, 10, 0.5), (0, 10, 2.5), (0, 10, 1.0), (900, 12, 0.25), (900, 5, 3.0), (1, 39, 0.0)]
    write("data/big_matrix.csv", HEADER + "".join(line(*row) for row in rows))
    result = convert(KUAIREC, partial(convert_with, BIASED._replace(training="big_matrix")))
    feedback = {(0, 10): 2.5, (900, 12): 0.25, (1, 39): 0.0}
    assert result.pairs("feedback") == feedback
    assert result.pairs("truth") == {pair: value for pair, value in small.items() if pair not in feedback}
    remarks = " ".join(result.imported.remarks)
    assert "1 rows of big_matrix.csv are of videos outside the small matrix" in remarks
    assert "2 rows of big_matrix.csv repeat a pair" in remarks


def test_categories_and_users(small: Rows, write: Any, convert: Any) -> None:
    write("data/item_categories.csv", 'video_id,feat\n10,[8]\n11,"[27, 9]"\n12,[]\n5,[1]\n')
    write(
        "data/user_features.csv", "user_id,user_active_degree,is_lowactive_period\n3,high_active,0\n4,full_active,1\n"
    )
    result = convert(KUAIREC, partial(convert_with, BIASED))
    assert result.table("catalogue").column("category").to_pylist()[:4] == ["8", "27", "unknown", "unknown"]
    users = result.table("users").to_pydict()
    assert users["user_id"] == list(range(USERS))
    assert users["user_active_degree"][2:5] == ["unknown", "high_active", "full_active"]


def test_bad_files_are_named(small: Rows, write: Any, convert: Any) -> None:
    cases = {
        HEADER + line(1, 10, -0.5): "line 2: watch_ratio is -0.5, outside the scale of KuaiRec: 0 or more",
        HEADER.replace("watch_ratio", "ratio")
        + line(1, 10, 1.0): "line 1 names no column 'watch_ratio'; found user_id",
        HEADER + line(1, 10, 1.0) + "1,11,5\n": "line 3 has 3 fields, but KuaiRec has 8",
        HEADER: "has no rows",
    }
    for content, message in cases.items():
        write("data/small_matrix.csv", content)
        with pytest.raises(DataError) as raised:
            convert(KUAIREC, partial(convert_with, BIASED))
        assert message in str(raised.value)
        assert "https://kuairec.com" in str(raised.value)
