"""KuaiRand [Gao et al. 2022]: logs of a video app, in which some recommended videos were replaced by random ones.

    log_random_4_22_to_5_08_*.csv    user_id, video_id, is_click, ...: random videos, of a pool of 7,583
    log_standard_*.csv               the same columns; the recommender's videos, in one file or several
    video_features_basic_*.csv       video_id, tag (optional)
    user_features_*.csv              user_id, user_active_degree (optional)

in the versions pure, 1k and 27k; one of them per folder. The value is one of the signals, 0 or 1. The catalogue is the
pool: the videos of the random log. Rows of the standard log of other videos are left out and counted; version pure has
none. A user may have several rows of a video: the largest value counts. The owner's page says that random videos come
from the pool, and nothing of videos that a user has seen: frame all_items.
"""

from collections import Counter
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from eval_engine.inputs.public_data.delimited import Layout, pair_batches
from eval_engine.inputs.public_data.destination import Destination
from eval_engine.inputs.public_data.features import text_column
from eval_engine.inputs.public_data.logged_and_random import Division
from eval_engine.inputs.public_data.run_settings import Imported
from eval_engine.inputs.public_data.source_files import DataSet, Progress, Sources
from eval_engine.inputs.public_data.user_buckets import UserBuckets

KUAIRAND = DataSet("KuaiRand", "https://kuairand.com (KuaiRand-Pure, KuaiRand-1K or KuaiRand-27K)")


class Rows(NamedTuple):
    """What was read."""

    buckets: UserBuckets  # sources: standard, random
    items: np.ndarray  # of the random log, in rising order
    users: np.ndarray  # of both logs, in rising order


def convert(
    sources: Sources, division: Division, signal: str, destination: Destination, progress: Progress
) -> Imported:
    """Writes the tables; signal: the column of the values, such as is_click."""
    counts: Counter[str] = Counter()
    rows = _read(sources, signal, destination, progress, counts)
    for logged, random in rows.buckets.read(2):
        for name, source in (("standard", logged), ("random", random)):
            counts[f"rows of the {name} log repeat a pair: its largest {signal} is kept"] += source.n_repeated
        division.write(logged.pairs, random.pairs, destination, counts)
    columns = {}
    if file := sources.optional("video_features_basic_*.csv"):
        columns["tag"] = text_column(sources, file, "video_id", "tag", rows.items)
    destination.add_catalogue(rows.items, columns)
    if file := sources.optional("user_features_*.csv"):
        degree = text_column(sources, file, "user_id", "user_active_degree", rows.users)
        destination.add("users", pa.record_batch([pa.array(rows.users), degree], ["user_id", "user_active_degree"]))
    return Imported(
        "value > 0",
        division.frame,
        tuple(f"{n:,} {what}" for what, n in counts.items() if n),
        item_columns=tuple(columns),
        user_columns=("user_active_degree",) if "users" in destination.n_rows else (),
    )


def _read(sources: Sources, signal: str, destination: Destination, progress: Progress, counts: Counter[str]) -> Rows:
    """The rows of both logs by user, those of videos outside the pool left out."""
    random, standard = sources.one("log_random_4_22_to_5_08_*.csv"), sources.all("log_standard_*.csv")
    layout = Layout({"user_id": "user_id", "item_id": "video_id", "value": signal}, low=0, high=1, step=1)
    buckets = UserBuckets(destination.temporary, sum(file.stat().st_size for file in (random, *standard)))
    items = users = np.empty(0, np.int64)
    for batch in pair_batches(sources, random, layout, progress):
        buckets.add(1, batch)
        items = np.union1d(items, batch.column("item_id").to_numpy())
        users = np.union1d(users, batch.column("user_id").to_numpy())
    for file in standard:
        for batch in pair_batches(sources, file, layout, progress):
            known = np.isin(batch.column("item_id").to_numpy(), items)
            counts["rows of the standard log are of videos outside the random pool: left out"] += int((~known).sum())
            kept = batch.filter(pa.array(known))
            buckets.add(0, kept)
            users = np.union1d(users, kept.column("user_id").to_numpy())
    return Rows(buckets, items, users)
