"""Yahoo! R3 [Marlin, Zemel 2009]: 15,400 users rated 1,000 songs; 5,400 of them also 10 songs drawn at random.

    ydata-ymusic-rating-study-v1_0-train.txt    user, song, rating 1 to 5, with tabs: 311,704 logged ratings
    ydata-ymusic-rating-study-v1_0-test.txt     the same, 54,000 ratings of random songs

Positive: rating > 3. Random songs were drawn from those that the user had not rated: frame unseen. [wtd] keeps only
users with random ratings, 5,400 of them.
"""

from collections import Counter
from pathlib import Path

import numpy as np

from eval_engine.inputs.public_data.delimited import Layout, pair_batches
from eval_engine.inputs.public_data.destination import Destination
from eval_engine.inputs.public_data.logged_and_random import Division
from eval_engine.inputs.public_data.run_settings import Imported
from eval_engine.inputs.public_data.source_files import DataSet, Progress, Sources
from eval_engine.inputs.public_data.user_buckets import UserBuckets, refuse_repeated

YAHOO_R3 = DataSet("Yahoo! R3", "https://webscope.sandbox.yahoo.com/catalog.php?datatype=r (R3, on request)")
FILE = "ydata-ymusic-rating-study-v1_0-{}.txt"
FIELDS = ("user", "song", "rating")
LAYOUT = Layout(dict(zip(("user_id", "item_id", "value"), FIELDS, strict=True)), FIELDS, "\t", 1, 5, 1)


def convert(
    sources: Sources, division: Division, only_random_users: bool, destination: Destination, progress: Progress
) -> Imported:
    """Writes the tables; only_random_users: those of users without random ratings are left out."""
    files = [sources.one(FILE.format(which)) for which in ("train", "test")]
    buckets, items = _buckets(sources, files, destination, progress)
    counts: Counter[str] = Counter()
    for logged, random in buckets.read(2):
        for pairs, file in zip((logged, random), files, strict=True):
            refuse_repeated(pairs, file, "rating")
        kept = logged.pairs
        if only_random_users:
            known = np.isin(kept.user_id, random.pairs.user_id)
            counts["logged pairs of users without random ratings are left out"] += int((~known).sum())
            kept = kept.where(known)
        division.write(kept, random.pairs, destination, counts)
    destination.add_catalogue(items, {})
    return Imported("value > 3", division.frame, tuple(f"{n:,} {what}" for what, n in counts.items() if n))


def _buckets(
    sources: Sources, files: list[Path], destination: Destination, progress: Progress
) -> tuple[UserBuckets, np.ndarray]:
    """The pairs of both files, and the items in them."""
    buckets = UserBuckets(destination.temporary, sum(file.stat().st_size for file in files))
    items = np.empty(0, np.int64)
    for source, file in enumerate(files):
        for batch in pair_batches(sources, file, LAYOUT, progress):
            buckets.add(source, batch)
            items = np.union1d(items, batch.column("item_id").to_numpy())
    return buckets, items
