"""MovieLens [Harper, Konstan 2015]: ratings of movies that users chose themselves; there is no random data.

    ratings.csv    userId,movieId,rating,timestamp   ml-latest, ml-latest-small, ml-20m, ml-25m, ml-32m
    ratings.dat    UserID::MovieID::Rating::Timestamp    ml-1m, ml-10m
    u.data         user, item, rating, timestamp, with tabs    ml-100k
    movies.csv, movies.dat, u.item with u.genre    the first genre of each movie (optional)

Ratings are 0.5 to 5 in steps of 0.5 (1 to 5 in the old ones). Positive: rating >= 4 [simpson 6.1]; without half stars
that is the same as rating > 3 [bqs 4.1]. The table `log` has all ratings and their times; the stage `split` of the run
divides it into feedback and heldout, 80/20 at random as in [simpson] unless run.yaml is changed. The catalogue has the
movies with a rating.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

from eval_engine.errors import DataError
from eval_engine.inputs.public_data.delimited import Layout, pair_batches
from eval_engine.inputs.public_data.destination import LOG, Destination
from eval_engine.inputs.public_data.features import first_tags, text_column
from eval_engine.inputs.public_data.run_settings import Imported
from eval_engine.inputs.public_data.source_files import DataSet, Progress, Sources

MOVIELENS = DataSet("MovieLens", "https://grouplens.org/datasets/movielens/")
OURS = ("user_id", "item_id", "value", "timestamp")
CSV = dict(zip(OURS, ("userId", "movieId", "rating", "timestamp"), strict=True))
DAT = dict(zip(OURS, ("UserID", "MovieID", "Rating", "Timestamp"), strict=True))
LAYOUTS = {
    "ratings.csv": Layout(CSV, None, ",", 0.5, 5, 0.5),
    # Arrow's delimiter is one character, so that between two of `::` there is an empty field.
    "ratings.dat": Layout(DAT, ("UserID", "", "MovieID", " ", "Rating", "  ", "Timestamp"), ":", 0.5, 5, 0.5),
    "u.data": Layout(DAT, ("UserID", "MovieID", "Rating", "Timestamp"), "\t", 1, 5, 1),
}


def convert(sources: Sources, heldout: float, seed: int, destination: Destination, progress: Progress) -> Imported:
    """Writes the tables; heldout and seed are those of the split in run.yaml."""
    file = sources.one(*LAYOUTS)
    items = np.empty(0, np.int64)
    for batch in pair_batches(sources, file, LAYOUTS[file.name], progress):
        destination.add("log", batch.select(LOG.names).cast(LOG))
        items = np.union1d(items, batch.column("item_id").to_numpy())
    genres = _genres(sources, items)
    destination.add_catalogue(items, genres)
    split = {"strategy": "random", "share": heldout, "seed": seed}
    return Imported("value >= 4", "unseen", (), split=split, item_columns=tuple(genres))


def _genres(sources: Sources, items: np.ndarray) -> dict[str, pa.Array]:
    """The first genre of each movie; no column if the file is missing."""
    if file := sources.optional("movies.csv"):
        return {"genre": text_column(sources, file, "movieId", "genres", items)}
    if file := sources.optional("movies.dat"):
        return {"genre": _from_lines(sources, file, "::", lambda fields: fields[-1], items)}
    file, names = sources.optional("u.item"), sources.optional("u.genre")
    if file is None or names is None:
        return {}
    genres = [line.partition("|")[0] for line in names.read_text("latin-1").split("\n") if line.strip()]

    def first(fields: list[str]) -> str:
        flags = fields[-len(genres) :]
        return genres[flags.index("1")] if "1" in flags else ""

    return {"genre": _from_lines(sources, file, "|", first, items)}


def _from_lines(
    sources: Sources, file: Path, separator: str, genres: Callable[[list[str]], str], items: np.ndarray
) -> pa.Array:
    """The first genre of each movie from a file of the old versions, which are in Latin-1."""
    ids, texts = [], []
    for number, line in enumerate(file.read_text("latin-1").split("\n"), 1):  # splitlines also cuts at \x85
        if not line.strip():
            continue
        fields = line.rstrip("\r").split(separator)
        if len(fields) < 3 or not fields[0].isdecimal():
            raise DataError(
                f"{file}: line {number} is not a movie: {line[:80]!r}. Is the download whole? Or take the file away: "
                f"it is only needed for slices. {sources.origin}"
            )
        ids.append(int(fields[0]))
        texts.append(genres(fields))
    return first_tags(items, [(np.array(ids, np.int64), pa.array(texts, pa.string()))])
