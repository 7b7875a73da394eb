"""MovieLens in its three formats becomes the same log."""

from functools import partial
from typing import Any

import pytest

from eval_engine.errors import DataError
from eval_engine.inputs.public_data.movielens import MOVIELENS, convert

RATINGS = [(1, 31, 2.0, 1260759144), (1, 1029, 4.0, 1260759179), (2, 31, 5.0, 835355493), (7, 10, 1.0, 835355681)]
GENRES = [("Action", 10), ("Comedy", 31)]


def convert_with(sources: Any, destination: Any, progress: Any) -> Any:
    return convert(sources, 0.25, 3, destination, progress)


def files(version: str) -> dict[str, str]:
    """The files of a version; no genre of movie 1029."""
    if version == "ml-25m":
        ratings = "userId,movieId,rating,timestamp\n" + "".join(f"{u},{i},{r},{t}\n" for u, i, r, t in RATINGS)
        movies = 'movieId,title,genres\n31,"Caf\u00e9, The (1995)",Comedy|Drama\n10,GoldenEye (1995),Action\n'
        return {"ratings.csv": ratings, "movies.csv": movies}
    if version == "ml-1m":
        ratings = "".join(f"{u}::{i}::{r:g}::{t}\n" for u, i, r, t in RATINGS)
        return {
            "ratings.dat": ratings,
            "movies.dat": "31::Caf\u00e9: The \x85 (1995)::Comedy|Drama\n10::GoldenEye::Action\n",
        }
    ratings = "".join(f"{u}\t{i}\t{r:g}\t{t}\n" for u, i, r, t in RATINGS)
    items = "31|Caf\u00e9 (1995)|01-Jan-1995||http://x|0|0|1\n10|GoldenEye||||0|1|1\n"
    return {"u.data": ratings, "u.item": items, "u.genre": "unknown|0\nAction|1\nComedy|2\n\n"}


@pytest.mark.parametrize("version", ["ml-25m", "ml-1m", "ml-100k"])
def test_every_rating_is_in_the_log(version: str, write: Any, convert: Any) -> None:
    for name, content in files(version).items():
        write(f"{version}/{name}", content, "utf-8" if version == "ml-25m" else "latin-1")
    result = convert(MOVIELENS, convert_with)
    log = result.table("log").to_pydict()
    columns = (log[name] for name in ("user_id", "item_id", "value", "timestamp"))
    assert list(zip(*columns, strict=True)) == RATINGS
    assert result.table("catalogue").to_pydict() == {
        "item_id": [10, 31, 1029],
        "position": [0, 1, 2],
        "genre": ["Action", "Comedy", "unknown"],
    }
    config = result.config
    assert str(config.positive) == "value >= 4"
    assert config.split is not None
    assert config.split.how.model_dump() == {"strategy": "random", "share": 0.25, "seed": 3}
    assert config.inputs.exposures is None
    assert config.inputs.heldout is not None


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("ratings.csv", "userId,movieId,rating,timestamp\n1,2,3.7,5\n", "line 2: rating is 3.7, outside"),
        ("ratings.csv", "userId,movieId,rating,timestamp\n1,2,0,5\n", "line 2: rating is 0, outside the scale"),
        ("ratings.csv", "userId,movieId,rating,timestamp\n1,2,4,5.5\n", "line 2: '5.5' is not a whole number"),
        ("ratings.dat", "1::2::3::4\n1::2:3::4\n", "line 2 has 6 fields"),
        ("u.data", "1\t2\t4.5\t5\n", "line 1: Rating is 4.5, outside the scale of MovieLens: 1 to 5 in steps of 1"),
        ("ratings.txt", "", "no file ratings.csv or ratings.dat or u.data of MovieLens"),
    ],
)
def test_bad_files_are_named(name: str, content: str, message: str, write: Any, convert: Any) -> None:
    write(name, content)
    with pytest.raises(DataError) as raised:
        convert(MOVIELENS, partial(convert_with))
    assert message in str(raised.value)
    assert "grouplens.org" in str(raised.value)
