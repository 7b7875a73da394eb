"""KuaiRec [Gao et al. 2022]: 1,411 users who watched nearly all of 3,327 videos (small_matrix.csv), and the log of
7,176 users and 10,728 videos around them (big_matrix.csv).

    small_matrix.csv, big_matrix.csv    user_id, video_id, video_duration, watch_ratio, and columns that are not read
    item_categories.csv                 video_id, feat: a list of tags, as in "[27, 9]" (optional)
    user_features.csv                   user_id, user_active_degree (optional)

The value is watch_ratio, which may exceed 1. Positive: watch_ratio > 2 [ure A.1]. Training pairs are

    biased_draw    of each user's n pairs in the small matrix, floor(share n + 1/2) drawn without replacement, the k-th
                   shortest video of the catalogue with weight exp(-k / lambda)  [ure A.1, whose printed sign would
                   favour long videos; it gives neither lambda nor the size of the draw, but 1,934,404 pairs in all]
    big_matrix     the log, of videos of the small matrix

`truth` is the rest of the small matrix. 0.4 % of its pairs were never shown, since the user had blocked the author:
they are in truth with watch_ratio 0 (unlabelled: zero), so that every candidate has a label and exposures are drawn
from all candidates; or they are left out as in [ure] (absent), and are then candidates that are never positive and
never exposed. `exposures` are e pairs of each user, uniformly from truth. Frame: unseen. A pair may have many rows in
the log: the largest watch_ratio counts.
"""

from collections import Counter
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa

from eval_engine.inputs.public_data.delimited import Layout, pair_batches
from eval_engine.inputs.public_data.destination import Destination
from eval_engine.inputs.public_data.features import text_column
from eval_engine.inputs.public_data.logged_and_random import joined
from eval_engine.inputs.public_data.pair_hash import first_of_each_user, held_out, uniform, weighted_keys
from eval_engine.inputs.public_data.run_settings import Imported
from eval_engine.inputs.public_data.source_files import DataSet, Progress, Sources
from eval_engine.inputs.public_data.user_buckets import Pairs, UserBuckets

KUAIREC = DataSet("KuaiRec", "https://kuairec.com (KuaiRec.zip)")
LAYOUT = Layout(
    {"user_id": "user_id", "item_id": "video_id", "value": "watch_ratio", "duration_ms": "video_duration"}, low=0
)
SMALL, BIG = 0, 1  # sources of pairs
UNLABELLED = {
    "zero": "in truth with watch_ratio 0, not positive",
    "absent": "not in truth, but candidates that are never positive and never exposed",
}


class Draw(NamedTuple):
    """Which pairs are for training, and which are exposed."""

    training: Literal["biased_draw", "big_matrix"]
    share: float  # of a user's pairs in the small matrix, of the biased draw
    scale: float  # lambda of the biased draw, in videos
    heldout: float  # share of the pairs for training that are kept from it
    exposures: int  # of each user
    unlabelled: Literal["zero", "absent"]  # what becomes of pairs without a row in the small matrix
    seed: int

    def biased(self, pairs: Pairs, place: np.ndarray) -> np.ndarray:
        """Which pairs are drawn; place: of each pair's video among all by duration, from 1."""
        n = np.bincount(np.searchsorted(users := np.unique(pairs.user_id), pairs.user_id), minlength=len(users))
        wanted = np.floor(self.share * n + 0.5).astype(np.int64)[np.searchsorted(users, pairs.user_id)]
        uniforms = uniform(self.seed, "biased_draw", pairs.user_id, pairs.item_id)
        return first_of_each_user(pairs.user_id, weighted_keys(uniforms, -place / self.scale), wanted)

    def exposed(self, pairs: Pairs) -> np.ndarray:
        """Which pairs are exposed."""
        uniforms = uniform(self.seed, "exposures", pairs.user_id, pairs.item_id)
        return first_of_each_user(pairs.user_id, uniforms, np.full(len(pairs), self.exposures))


def convert(sources: Sources, draw: Draw, destination: Destination, progress: Progress) -> Imported:
    """Writes the tables."""
    small = sources.one("small_matrix.csv")
    big = sources.one("big_matrix.csv") if draw.training == "big_matrix" else None
    buckets = UserBuckets(destination.temporary, sum(file.stat().st_size for file in (small, big) if file))
    durations: dict[int, int] = {}
    for batch in pair_batches(sources, small, LAYOUT, progress):
        buckets.add(SMALL, batch)
        _note_durations(durations, batch)
    items = np.array(sorted(durations), np.int64)
    duration = np.array([durations[item] for item in items.tolist()], np.int64)
    counts: Counter[str] = Counter()
    for batch in pair_batches(sources, big, LAYOUT, progress) if big else ():
        known = np.isin(batch.column("item_id").to_numpy(), items)
        counts["rows of big_matrix.csv are of videos outside the small matrix: left out"] += int((~known).sum())
        buckets.add(BIG, batch.filter(pa.array(known)))
    place = np.empty(len(items), np.int64)
    place[np.lexsort((items, duration))] = np.arange(1, len(items) + 1)
    users = _write_pairs(buckets, draw, items, place, destination, counts)
    columns = {"duration_ms": pa.array(duration)}
    if file := sources.optional("item_categories.csv"):
        columns["category"] = text_column(sources, file, "video_id", "feat", items)
    destination.add_catalogue(items, columns)
    if file := sources.optional("user_features.csv"):
        degree = text_column(sources, file, "user_id", "user_active_degree", users)
        destination.add("users", pa.record_batch([pa.array(users), degree], ["user_id", "user_active_degree"]))
    return Imported(
        "value > 2",
        "unseen",
        tuple(f"{n:,} {what}" for what, n in counts.items() if n),
        item_columns=("category",) if "category" in columns else (),
        user_columns=("user_active_degree",) if "users" in destination.n_rows else (),
    )


def _write_pairs(
    buckets: UserBuckets,
    draw: Draw,
    items: np.ndarray,
    place: np.ndarray,
    destination: Destination,
    counts: Counter[str],
) -> np.ndarray:
    """Writes feedback, heldout, truth and exposures; the users of all of them."""
    users = []
    for small, big in buckets.read(2):
        for name, source in (("small", small), ("big", big)):
            counts[f"rows of {name}_matrix.csv repeat a pair: its largest watch_ratio is kept"] += source.n_repeated
        pairs = small.pairs
        if draw.training == "biased_draw":
            drawn = draw.biased(pairs, place[np.searchsorted(items, pairs.item_id)])
            logged = pairs.where(drawn)
        else:
            logged = big.pairs
        held = held_out(draw.seed, draw.heldout, logged.user_id, logged.item_id)
        feedback = logged.where(~held)
        missing = _missing(pairs, items)
        counts[f"pairs of the small matrix have no row: {UNLABELLED[draw.unlabelled]}"] += len(missing)
        complete = joined(pairs, missing) if draw.unlabelled == "zero" else pairs
        truth = complete.where(~complete.in_any(feedback))
        destination.add_pairs("feedback", feedback)
        destination.add_pairs("truth", truth)
        if draw.exposures:
            destination.add_pairs("exposures", truth.where(draw.exposed(truth)))
        if draw.heldout:
            destination.add_pairs("heldout", logged.where(held))
        users.append(np.union1d(pairs.user_id, logged.user_id))
    return np.sort(np.concatenate(users))


def _missing(pairs: Pairs, items: np.ndarray) -> Pairs:
    """The pairs of these users and items without a row, with value 0."""
    users = np.unique(pairs.user_id)
    n = len(users) * len(items)
    every = Pairs(np.repeat(users, len(items)), np.tile(items, len(users)), np.zeros(n))
    return every.where(~every.in_any(pairs))


def _note_durations(durations: dict[int, int], batch: pa.RecordBatch) -> None:
    """Adds the videos of a batch; if a video's rows differ, its largest duration counts."""
    items, at = np.unique(batch.column("item_id").to_numpy(), return_inverse=True)
    longest = np.zeros(len(items), np.int64)
    np.maximum.at(longest, at, batch.column("duration_ms").to_numpy())
    for item, duration in zip(items.tolist(), longest.tolist(), strict=True):
        durations[item] = max(duration, durations.get(item, 0))
