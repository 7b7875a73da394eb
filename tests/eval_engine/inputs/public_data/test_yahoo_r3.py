"""Yahoo! R3's ratings become the pairs that stand in them; parts of the random ones leave the frame."""

from functools import partial
from typing import Any

import numpy as np
import pytest

from eval_engine.errors import DataError
from eval_engine.inputs.public_data import user_buckets
from eval_engine.inputs.public_data.logged_and_random import Division, Parts
from eval_engine.inputs.public_data.yahoo_r3 import FILE, YAHOO_R3, convert

UNSEEN = Division(0.2, None, 0, "unseen")


def convert_with(division: Division, only: bool, sources: Any, destination: Any, progress: Any) -> Any:
    return convert(sources, division, only, destination, progress)


@pytest.fixture
def yahoo(write: Any, ratings: Any) -> tuple[dict[tuple[int, int], float], dict[tuple[int, int], float]]:
    """Logged and random ratings; 20 of 40 users have random ones, none of them of a logged pair."""
    logged, random = ratings(40, 30, 0.3, 1), ratings(40, 30, 0.4, 2)
    random[logged > 0] = 0
    random[20:] = 0
    both = []
    rng = np.random.default_rng(0)
    for which, matrix in (("train", logged), ("test", random)):
        rows = [(int(u) + 1, int(i) + 1, int(matrix[u, i])) for u, i in zip(*np.nonzero(matrix), strict=True)]
        rng.shuffle(rows)
        write(FILE.format(which), "".join(f"{u}\t{i}\t{r}\n" for u, i, r in rows))
        both.append({(u, i): float(r) for u, i, r in rows})
    return both[0], both[1]


@pytest.mark.parametrize("bucket_bytes", [64 << 20, 700])
def test_every_rating_is_in_one_table(
    yahoo: Any, convert: Any, bucket_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user_buckets, "BYTES_PER_BUCKET", bucket_bytes)
    logged, random = yahoo
    result = convert(YAHOO_R3, partial(convert_with, UNSEEN, False))
    assert result.pairs("feedback") | result.pairs("heldout") == logged
    assert result.pairs("exposures") == random
    assert (result.config.frame, str(result.config.positive)) == ("unseen", "value > 3")
    assert result.table("catalogue").column("item_id").to_pylist() == sorted({i for _, i in {**logged, **random}})
    again = convert(YAHOO_R3, partial(convert_with, UNSEEN, False))
    assert again.content() == result.content()
    assert not list(result.folder.glob("_import.*.tmp"))


def test_only_users_with_random_ratings(yahoo: Any, convert: Any) -> None:
    logged, random = yahoo
    result = convert(YAHOO_R3, partial(convert_with, UNSEEN, True))
    known = {user for user, _ in random}
    kept = {pair: value for pair, value in logged.items() if pair[0] in known}
    assert result.pairs("feedback") | result.pairs("heldout") == kept
    assert result.imported.remarks == (
        f"{len(logged) - len(kept)} logged pairs of users without random ratings are left out",
    )


def test_random_pairs_for_training_leave_the_frame(yahoo: Any, convert: Any) -> None:
    _, random = yahoo
    result = convert(YAHOO_R3, partial(convert_with, Division(0.2, Parts.parse("15/15/70"), 0, "unseen"), False))
    parts = [result.pairs(name) for name in ("random_train", "random_validation", "exposures")]
    assert {**parts[0], **parts[1], **parts[2]} == random
    assert sum(map(len, parts)) == len(random)
    assert 0.05 < len(parts[0]) / len(random) < 0.25
    assert result.pairs("feedback").items() >= parts[0].items()
    assert not set(result.pairs("feedback")) & set(parts[2])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("1\t2\t3\n1\t3\t7\n", "test.txt: line 2: rating is 7, outside the scale of Yahoo! R3: 1 to 5 in steps of 1"),
        ("1\t2\t3\n\n1\t3\t2.5\n", "test.txt: line 3: rating is 2.5, outside"),
        ("1\t2\t3\n1\t3\n", "test.txt: line 2 has 2 fields, but Yahoo! R3 has 3 (user, song, rating): '1\\t3'"),
        ("1\t2\t3\n\n1\tsong\t2\n", "test.txt: line 3: 'song' is not a whole number"),
        ("1\t2\t3\n1\t\t2\n", "test.txt: line 2: song is empty"),
        ("1\t2\tnan\n", "test.txt: line 1: rating is nan"),
        ("1\t2\t3\n1\t2\t3\n", "test.txt: 1 row repeats a rating of the same user and item"),
        ("", "test.txt cannot be read (Empty CSV file)"),
    ],
)
def test_bad_files_are_named(yahoo: Any, write: Any, convert: Any, content: str, message: str) -> None:
    write(FILE.format("test"), content)
    with pytest.raises(DataError) as raised:
        convert(YAHOO_R3, partial(convert_with, UNSEEN, False))
    assert message in str(raised.value)
