"""Coat's matrices become the pairs that stand in them, with the right frame."""

import re
from functools import partial
from typing import Any

import numpy as np
import pytest

from eval_engine.errors import DataError
from eval_engine.inputs.public_data.coat import COAT, convert
from eval_engine.inputs.public_data.logged_and_random import Division, Parts

USERS, ITEMS = 30, 25
FEATURES = ("gender:men", "gender:women", "onfrontpage:no", "onfrontpage:yes")


def text(matrix: np.ndarray) -> str:
    return "\n".join(" ".join(map(str, row)) for row in matrix) + "\n"


@pytest.fixture
def coat(write: Any, ratings: Any) -> tuple[np.ndarray, np.ndarray]:
    logged, random = ratings(USERS, ITEMS, 0.4, 1), ratings(USERS, ITEMS, 0.3, 2)
    write("train.ascii", text(logged))
    write("test.ascii", text(random))
    return logged, random


def pairs(matrix: np.ndarray) -> dict[tuple[int, int], float]:
    return {(int(u), int(i)): float(matrix[u, i]) for u, i in zip(*np.nonzero(matrix), strict=True)}


def test_every_rating_is_in_one_table(coat: Any, convert: Any) -> None:
    logged, random = map(pairs, coat)
    result = convert(COAT, partial(convert_with, Division(0.25, None, 3, "all_items")))
    assert result.pairs("feedback") | result.pairs("heldout") == logged
    assert not set(result.pairs("feedback")) & set(result.pairs("heldout"))
    assert 0.15 < len(result.pairs("heldout")) / len(logged) < 0.35
    assert result.pairs("exposures") == random
    assert set(random) & set(result.pairs("feedback"))  # the frame all_items keeps them
    config = result.config
    assert (config.frame, str(config.positive)) == ("all_items", "value > 3")
    assert config.inputs.truth is None
    assert result.table("catalogue").to_pydict() == {"item_id": list(range(ITEMS)), "position": list(range(ITEMS))}
    assert result.imported.remarks == ()


def test_random_pairs_for_training_leave_the_frame(coat: Any, convert: Any) -> None:
    logged, random = map(pairs, coat)
    result = convert(COAT, partial(convert_with, Division(0.2, Parts(0.3, 0.2), 3, "all_items")))
    train, validation, exposures, feedback, heldout = (
        result.pairs(name) for name in ("random_train", "random_validation", "exposures", "feedback", "heldout")
    )
    assert result.config.frame == "unseen"
    assert set(train) <= set(feedback)
    assert not set(exposures) & set(feedback)
    assert not set(heldout) & set(feedback)
    assert {pair: feedback[pair] for pair in set(feedback) - set(train)} | heldout == logged
    assert {**train, **validation, **exposures}.items() <= random.items()
    left_out = set(random) - set(train) - set(validation) - set(exposures)
    assert left_out <= set(logged)
    counted = [int(re.match(r"[\d,]+", remark)[0]) for remark in result.imported.remarks]  # type: ignore[index]
    assert sum(counted) == len(left_out) > 0
    assert [model.name for model in result.config.train.models][-1] == "mf_autodebias"
    # All random pairs of a part, whatever their labels: the parts are by hash of the pair alone.
    other = convert(COAT, partial(convert_with, Division(0, Parts(0.3, 0.2), 3, "all_items")), "other")
    assert set(other.pairs("random_validation")) == set(validation)


def test_random_pairs_for_weights_are_kept_apart(coat: Any, convert: Any) -> None:
    """As in [wtd]: 60/40 of the log, 15/15/70 of the random pairs, training pairs no candidates."""
    logged, random = map(pairs, coat)
    parts = Parts.parse("15/15/70", "weights")
    whole = convert(COAT, partial(convert_with, Division(0.4, parts, 3, "all_items")))
    names = ("random_weights", "random_validation", "exposures")
    divided = [whole.pairs(name) for name in names]
    assert {**divided[0], **divided[1], **divided[2]} == random
    assert sum(map(len, divided)) == len(random)
    assert whole.pairs("feedback") | whole.pairs("heldout") == logged
    assert whole.config.frame == "all_items"
    assert "random_train" not in whole.n_rows
    masked = convert(COAT, partial(convert_with, Division(0.4, parts, 3, "unseen")), "masked")
    seen = set(divided[2]) & set(masked.pairs("feedback"))
    assert set(masked.pairs("exposures")) == set(divided[2]) - seen
    assert masked.imported.remarks == (
        f"{len(seen)} random pairs are training pairs too: no exposures, since the frame leaves them out",
    )
    assert masked.config.frame == "unseen"


def test_features_are_columns_to_slice_by(coat: Any, write: Any, convert: Any) -> None:
    flags = np.array([[n % 2, 1 - n % 2, n < 3, n >= 3] for n in range(ITEMS)]).astype(int)
    flags[7, :2] = 0
    write("user_item_features/item_features.ascii", text(flags))
    write("user_item_features/item_features_map.txt", "\n".join(FEATURES))
    result = convert(COAT, partial(convert_with, Division(0.2, None, 0, "all_items")))
    rows = result.table("catalogue").to_pylist()
    assert rows[2] == {"item_id": 2, "position": 2, "gender": "women", "onfrontpage": "no"}
    assert rows[7]["gender"] == "unknown"
    assert "# slices:" in (result.folder / "run.yaml").read_text()
    write("user_item_features/item_features.ascii", text(flags[1:]))
    with pytest.raises(DataError, match=r"24 rows x 4 features, but 25 items are rated"):
        convert(COAT, partial(convert_with, Division(0.2, None, 0, "all_items")))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("train.ascii", "0 1 2\n0 6 1\n", r"train.ascii: line 2, field 2 is '6', but a whole number from 0 to 5"),
        ("train.ascii", "0 1 2\n\n0 1.5 1\n", r"line 3, field 2 is '1.5'"),
        ("test.ascii", "0 1 2\n0 1\n", r"test.ascii: line 2 has 2 fields, but the lines before it have 3"),
        ("test.ascii", "0 1\n", r"has 1 users x 2 items, but .*train.ascii has 30 x 25"),
        ("test.ascii", "\n", r"test.ascii has no rows"),
    ],
)
def test_bad_files_are_named(coat: Any, write: Any, convert: Any, name: str, content: str, message: str) -> None:
    write(name, content)
    with pytest.raises(DataError, match=message) as raised:
        convert(COAT, partial(convert_with, Division(0.2, None, 0, "all_items")))
    assert "schnabts/mnar" in str(raised.value)


def test_a_missing_file_is_named_with_its_owner(write: Any, convert: Any) -> None:
    write("train.ascii", "1\n")
    with pytest.raises(DataError, match=r"no file test.ascii of Coat.*has train.ascii.*coat.zip"):
        convert(COAT, partial(convert_with, Division(0.2, None, 0, "all_items")))


def convert_with(division: Division, sources: Any, destination: Any, progress: Any) -> Any:
    return convert(sources, division, destination, progress)
