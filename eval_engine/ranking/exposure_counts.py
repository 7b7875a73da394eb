"""What is counted of random exposures while labels and scores are brought together: sums over users for the driver, and
counts per item, which stay with the workers.

    of a shard    sums over its users (Facts.exposed), and rows position, observed, seen_n, seen_p, seen_variance of the
                  items that its users were shown or, with frame unseen, had seen
    of a block    the catalogue is cut into at most BLOCKS runs of positions; the rows of all shards add up to sums over
                  the block's items, and its worst ones

An item is a candidate of everybody who had not seen it, so E_i is the sum of p over all users less seen_p, and only
pairs that there are need to be looked at. Seen is what `feedback` has: a held-out pair is a candidate. Users who were
shown all of their candidates drew nothing: they do not count. Of exposures with probabilities, the powers of d in
statistics/exposure_moments.py are counted, of all users who were shown anything. Everything that adds up over users is
an integer: per item in units of 2^-40, other terms in units of 2^-60. The tests themselves: statistics/uniformity.py.
"""

import json
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eval_engine.kernels.ragged import users_of
from eval_engine.positive import Positive
from eval_engine.ranking.ranks_batch import catalogue_ids
from eval_engine.ranking.settings import Ranking
from eval_engine.spark.arrow_blobs import Ints, decode
from eval_engine.spark.binary_lists import unpack
from eval_engine.spark.worker_types import Worker
from eval_engine.statistics.exposure_moments import Draws, deviance, draws, frames, overlap

BLOCKS, LEAST_ITEMS = 64, 2**16
WORST = 5
UNIT, ITEM_UNIT = 2.0**60, 2.0**40
ITEM_SUMS = ("item_n", "item_p", "item_variance")  # over users with the item among their candidates
ITEM_COUNTS = ("observed", "seen_n", "seen_p", "seen_variance")
Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]


class TrainedPairs(NamedTuple):
    """Training pairs of a shard's users in the catalogue, each once."""

    user: Ints
    position: Ints


class BadItem(NamedTuple):
    """An item among the worst of a block."""

    deviance: float
    item_id: int | str
    observed: int
    events: int  # users with the item among their candidates
    expected: float
    variance: float


class Block(NamedTuple):
    """Sums over the items of a block that could be drawn."""

    n_items: int
    squares: float  # of observed less expected
    dd: float  # of d_i^2 and d_i^3, statistics/uniformity.py
    ddd: float
    worst: list[BadItem]


def block_size(n_items: int) -> int:
    """Items of a block."""
    return max(LEAST_ITEMS, -(-n_items // BLOCKS))


def counted(
    labels: pa.RecordBatch, trained: TrainedPairs, unscored: Bools, positive: Positive, n_items: int, unseen: bool
) -> tuple[dict[str, int], pa.RecordBatch]:
    """The sums over a shard's users, and its counts per item; unscored: users that a model did not score."""
    offsets, position = unpack(labels.column("random").field("positions"), np.int32)
    liked = positive.of(unpack(labels.column("random").field("values"), np.float64)[1])
    user, exposed = users_of(offsets), np.diff(offsets)
    shown = exposed > 0
    if not shown.any():
        return {}, pa.RecordBatch.from_pydict({name: pa.array([], pa.int64()) for name in ("position", *ITEM_COUNTS)})
    mine = shown[trained.user]
    trained = TrainedPairs(trained.user[mine], trained.position[mine])
    n_trained = np.bincount(trained.user, minlength=exposed.size)
    candidates = n_items - n_trained * unseen
    drew = shown & (exposed < candidates)
    terms = draws(exposed[drew], candidates[drew])
    in_units = np.zeros((3, exposed.size), np.int64)  # of each user, what a candidate adds to its item
    in_units[:, drew] = np.ones(terms.p.size), np.rint(terms.p * ITEM_UNIT), np.rint(terms.variance * ITEM_UNIT)
    found = {
        "n_users": int(shown.sum()),
        "n_exposures": int(exposed.sum()),
        "n_drawn": int(exposed[drew].sum()),
        "n_positives": int(liked.sum()),
        "n_users_positive": int(np.unique(user[liked]).size),
        "n_unscored": int((shown & unscored).sum()),
        **{name: int(n) for name, n in zip(ITEM_SUMS, in_units.sum(axis=1), strict=True)},
        **{name: total(term) for name, term in terms._asdict().items()},
    }
    if not unseen:
        both = np.intersect1d(user * n_items + position, trained.user * n_items + trained.position, assume_unique=True)
        chance = overlap(exposed[shown], n_trained[shown], n_items)
        found |= {"overlap": int(both.size)} | {
            f"overlap_{name}": total(term) for name, term in chance._asdict().items()
        }
    random = labels.column("random")
    if random.type.get_field_index("probabilities") >= 0:
        with np.errstate(over="ignore"):  # 1 / p of the least p is inf, and cut
            inverse = np.bincount(
                user, 1 / unpack(random.field("probabilities"), np.float64)[1], minlength=exposed.size
            ).astype(np.float64)
        of_frame = frames(inverse[shown], candidates[shown])
        found |= {f"frame_{name}": total(term) for name, term in of_frame._asdict().items()} | {
            "n_candidates": int(candidates[shown].sum()),
            "n_users_one": int((exposed == 1).sum()),
            "n_users_two": int((exposed == 2).sum()),
        }
    counts = np.zeros((1 + len(ITEM_SUMS), n_items), np.int64)
    counts[0] = np.bincount(position[drew[user]], minlength=n_items)
    if unseen:
        for n in range(len(ITEM_SUMS)):
            np.add.at(counts[1 + n], trained.position, in_units[n, trained.user])
    here = np.flatnonzero(counts.any(axis=0))
    return found, pa.RecordBatch.from_pydict(
        {"position": pa.array(here)} | {name: pa.array(counts[n, here]) for n, name in enumerate(ITEM_COUNTS)}
    )


def total(x: Floats) -> int:
    """The sum, each term rounded to a multiple of 2^-60, in units of it: the same in any order."""
    whole = np.floor(x)
    part = np.rint((x - whole) * UNIT).astype(np.int64)  # up to 2^60: two halves, so that their sums fit
    return (int(whole.astype(np.int64).sum()) << 60) + (int((part >> 30).sum()) << 30) + int((part & (2**30 - 1)).sum())


def sums_of(exposed: dict[str, int]) -> Draws:
    """The sums over all users as numbers."""
    return Draws(*(exposed.get(name, 0) / UNIT for name in Draws._fields))


def block_of(first: int, counts: npt.NDArray[np.int64], exposed: dict[str, int], items: pa.Array) -> Block:
    """The sums over items `first` to `first` + counts.shape[1] of the catalogue; counts: (ITEM_COUNTS, items)."""
    drawn = sums_of(exposed)
    events = exposed.get("item_n", 0) - counts[1]
    expected = exposed.get("item_p", 0) / ITEM_UNIT - counts[2] / ITEM_UNIT
    variance = exposed.get("item_variance", 0) / ITEM_UNIT - counts[3] / ITEM_UNIT
    able = np.flatnonzero(events > 0)
    observed, events, expected, variance = counts[0][able], events[able], expected[able], variance[able]
    far = deviance(observed.astype(np.float64), expected, events.astype(np.float64))
    d = variance * (drawn.c / drawn.variance) if able.size else variance
    worst = np.lexsort((able, -far))[:WORST]
    bad = [
        BadItem(
            float(far[n]),
            items[first + int(able[n])].as_py(),
            int(observed[n]),
            int(events[n]),
            float(expected[n]),
            float(variance[n]),
        )
        for n in worst
    ]
    return Block(
        int(able.size), float(((observed - expected) ** 2).sum()), float((d**2).sum()), float((d**3).sum()), bad
    )


def add_blocks(ranking: Ranking, exposed: dict[str, int]) -> Worker:
    """In: block, rows (blobs of counts per item, or NULL) of whole blocks, sorted by block. Out: `block`, a Block as
    JSON."""
    size = block_size(ranking.n_items)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        items = catalogue_ids(ranking.catalogue)
        now, counts = -1, np.zeros((len(ITEM_COUNTS), 0), np.int64)
        sums: list[Block] = []
        for batch in batches:
            for block, blob in zip(batch.column("block").to_pylist(), batch.column("rows"), strict=True):
                if block != now:
                    if now >= 0:
                        sums.append(block_of(now * size, counts, exposed, items))
                    now, counts = (
                        block,
                        np.zeros((len(ITEM_COUNTS), min(size, ranking.n_items - block * size)), np.int64),
                    )
                if blob.is_valid:
                    rows = decode([blob])
                    at = rows.column("position").to_numpy() - block * size
                    counts[:, at] += np.stack(
                        [rows.column(name).to_numpy() for name in ITEM_COUNTS]
                    )  # a position stands in a blob once
        if now >= 0:
            sums.append(block_of(now * size, counts, exposed, items))
        yield pa.RecordBatch.from_pydict(
            {"block": pa.array([json.dumps(of_block).encode() for of_block in sums], pa.binary())}
        )

    return run


def from_json(text: bytes) -> Block:
    """What add_blocks tells."""
    n_items, squares, dd, ddd, worst = json.loads(text)
    return Block(n_items, squares, dd, ddd, [BadItem(*item) for item in worst])
