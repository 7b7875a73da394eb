"""KuaiRand's random log is the exposures and the catalogue; the standard logs are the feedback."""

from functools import partial
from typing import Any

import pytest

from eval_engine.errors import ConfigError, DataError
from eval_engine.inputs.public_data.kuairand import KUAIRAND, convert
from eval_engine.inputs.public_data.logged_and_random import Division

HEADER = "user_id,video_id,date,hourmin,time_ms,is_click,is_like,long_view,is_rand,tab\n"
RANDOM, FIRST, SECOND = (
    f"KuaiRand-Pure/data/log_{name}_pure.csv"
    for name in ("random_4_22_to_5_08", "standard_4_08_to_4_21", "standard_4_22_to_5_08")
)


def convert_with(signal: str, heldout: float, sources: Any, destination: Any, progress: Any) -> Any:
    return convert(sources, Division(heldout, None, 0, "all_items"), signal, destination, progress)


def rows(*events: tuple[int, int, int, int]) -> str:
    """A log of (user, video, click, like)."""
    return HEADER + "".join(f"{u},{v},20220422,1100,1650596400000,{c},{x},0,0,1\n" for u, v, c, x in events)


@pytest.fixture
def kuairand(write: Any) -> None:
    write(RANDOM, rows((1, 7, 0, 0), (1, 7, 1, 0), (1, 5, 0, 1), (2, 9, 1, 0), (3, 5, 0, 0)))
    write(FIRST, rows((1, 5, 1, 0), (1, 100, 1, 0), (2, 5, 0, 0), (4, 9, 1, 1)))
    write(SECOND, rows((1, 5, 0, 1), (2, 7, 0, 0)))


def test_logs_become_pairs_of_the_pool(kuairand: None, convert: Any) -> None:
    result = convert(KUAIRAND, partial(convert_with, "is_click", 0.0))
    assert result.pairs("exposures") == {(1, 5): 0, (1, 7): 1, (2, 9): 1, (3, 5): 0}
    assert result.pairs("feedback") == {(1, 5): 1, (2, 5): 0, (2, 7): 0, (4, 9): 1}
    assert result.table("catalogue").to_pydict() == {"item_id": [5, 7, 9], "position": [0, 1, 2]}
    assert (result.config.frame, str(result.config.positive)) == ("all_items", "value > 0")
    assert result.imported.remarks == (
        "1 rows of the standard log are of videos outside the random pool: left out",
        "1 rows of the standard log repeat a pair: its largest is_click is kept",
        "1 rows of the random log repeat a pair: its largest is_click is kept",
    )


def test_another_signal_and_features(kuairand: None, write: Any, convert: Any) -> None:
    write("KuaiRand-Pure/data/video_features_basic_pure.csv", 'video_id,author_id,tag\n5,1,"12,65"\n9,2,\n80,1,3\n')
    write("KuaiRand-Pure/data/user_features_pure.csv", "user_id,user_active_degree\n1,high_active\n4,UNKNOWN\n")
    result = convert(KUAIRAND, partial(convert_with, "is_like", 0.5))
    assert result.pairs("feedback") | result.pairs("heldout") == {(1, 5): 1, (2, 5): 0, (2, 7): 0, (4, 9): 1}
    assert result.table("catalogue").column("tag").to_pylist() == ["12", "unknown", "unknown"]
    assert result.table("users").column("user_active_degree").to_pylist() == [
        "high_active",
        "unknown",
        "unknown",
        "UNKNOWN",
    ]


def test_one_version_and_signals_of_0_and_1_only(kuairand: None, write: Any, convert: Any) -> None:
    write(SECOND, rows((1, 5, 2, 1)))
    with pytest.raises(DataError, match=r"line 2: is_click is 2, outside the scale of KuaiRand: 0 to 1 in steps of 1"):
        convert(KUAIRAND, partial(convert_with, "is_click", 0.0))
    write("KuaiRand-1K/data/log_random_4_22_to_5_08_1k.csv", rows((1, 5, 1, 0)))
    with pytest.raises(ConfigError, match=r"more than one file of KuaiRand .*_1k.csv, KuaiRand-Pure"):
        convert(KUAIRAND, partial(convert_with, "is_click", 0.0))
