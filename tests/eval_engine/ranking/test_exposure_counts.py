"""What is counted of exposures, shard by shard and block by block, against loops over users and items; no Spark."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eval_engine.positive import Positive
from eval_engine.ranking import exposure_counts
from eval_engine.ranking.exposure_counts import (
    UNIT,
    Block,
    TrainedPairs,
    add_blocks,
    block_size,
    counted,
    from_json,
    sums_of,
    total,
)
from eval_engine.ranking.facts import Facts, together
from eval_engine.ranking.settings import Ranking
from eval_engine.spark.arrow_blobs import encode_by_key
from eval_engine.spark.binary_lists import pack
from eval_engine.statistics.exposure_moments import deviance

ITEMS = 23


def users_and_items(rng: np.random.Generator, unseen: bool) -> list[tuple[list[int], list[float], list[int]]]:
    """Of each user: exposed positions, their values, logged positions. One was shown nothing, one all that was left, item 0 is nobody's candidate."""
    found = []
    for user in range(40):
        logged = sorted({0, *rng.choice(ITEMS, rng.integers(0, 9), replace=False).tolist()})
        open_to = [i for i in range(ITEMS) if not (unseen and i in logged)]
        n = 0 if user == 3 else len(open_to) if user == 5 else int(rng.integers(1, 7))
        exposed = sorted(rng.choice(open_to, n, replace=False).tolist())
        found.append((exposed, rng.integers(1, 6, n).astype(float).tolist(), logged))
    return found


def shard(
    users: list[tuple[list[int], list[float], list[int]]],
    unscored: int,
    unseen: bool,
    chance: list[list[float]] | None = None,
) -> tuple[dict[str, int], pa.RecordBatch]:
    """What is counted of these users, the first `unscored` of whom lack a score."""
    starts = np.cumsum([0, *(len(exposed) for exposed, _, _ in users)])
    lists = [
        pack(np.array([i for exposed, _, _ in users for i in exposed], np.int32), starts),
        pack(np.array([v for _, values, _ in users for v in values], np.float64), starts),
    ]
    if chance is not None:
        lists.append(pack(np.array([p for own in chance for p in own], np.float64), starts))
    names = ["positions", "values", "probabilities"][: len(lists)]
    labels = pa.RecordBatch.from_pydict({"random": pa.StructArray.from_arrays(lists, names)})
    pairs = np.array([(u, i) for u, (_, _, logged) in enumerate(users) for i in logged], np.int64).reshape(-1, 2)
    return counted(
        labels,
        TrainedPairs(pairs[:, 0], pairs[:, 1]),
        np.arange(len(users)) < unscored,
        Positive(">", 3.0),
        ITEMS,
        unseen,
    )


def blocks(shards: list[tuple[dict[str, int], pa.RecordBatch]], folder: Any) -> tuple[dict[str, int], list[Block]]:
    """The sums over all shards, and the blocks."""
    nothing = Facts({}, {}, 0, {}, {}, {})
    exposed = together(nothing._replace(exposed=sums) for sums, _ in shards).exposed
    pq.write_table(
        pa.table({"item_id": np.arange(ITEMS) + 500, "position": np.arange(ITEMS, dtype=np.int32)}),
        folder / "catalogue",
    )
    rows: list[tuple[int, Any]] = [(block, None) for block in range(-(-ITEMS // block_size(ITEMS)))]
    for _, counts in shards:
        (numbers,), blobs = encode_by_key(counts, counts.column("position").to_numpy() // block_size(ITEMS))
        rows += list(zip(numbers.tolist(), blobs.to_pylist(), strict=True))
    rows.sort(key=lambda row: row[0])
    batch = pa.RecordBatch.from_pydict(
        {"block": pa.array([b for b, _ in rows], pa.int64()), "rows": pa.array([r for _, r in rows], pa.binary())}
    )
    (blocks,) = add_blocks(
        Ranking(ITEMS, 5, (str(folder / "catalogue"),), "error", "all_items", ("random",), ()), exposed
    )(iter([batch.slice(0, 3), batch.slice(3)]))
    return exposed, [from_json(row) for row in blocks.column("block").to_pylist()]


@pytest.mark.parametrize("unseen", [True, False])
@pytest.mark.parametrize("items_per_block", [4, 100])
def test_counts_and_sums_against_loops(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, unseen: bool, items_per_block: int
) -> None:
    monkeypatch.setattr(exposure_counts, "LEAST_ITEMS", items_per_block)
    users = users_and_items(np.random.default_rng(4), unseen)
    exposed, found = blocks([shard(users[:17], 6, unseen), shard(users[17:], 0, unseen)], tmp_path)
    shown = [user for user in users if user[0]]
    assert exposed["n_users"] == len(shown) == 39
    assert exposed["n_exposures"] == sum(len(e) for e, _, _ in users)
    assert exposed["n_positives"] == sum(v > 3 for _, values, _ in users for v in values)
    assert exposed["n_users_positive"] == sum(any(v > 3 for v in values) for _, values, _ in users)
    assert exposed["n_unscored"] == 5  # of the first 6, one was shown nothing
    if not unseen:
        assert exposed["overlap"] == sum(len(set(e) & set(logged)) for e, _, logged in users)
        assert exposed["overlap_mean"] / UNIT == pytest.approx(
            sum(len(e) * len(logged) / ITEMS for e, _, logged in users)
        )
    observed, expected, variance, d, events = (np.zeros(ITEMS) for _ in range(5))
    for e, _, logged in shown:
        open_to = [i for i in range(ITEMS) if not (unseen and i in logged)]
        p = len(e) / len(open_to)
        for i in open_to if p < 1 else ():
            observed[i] += i in e
            expected[i] += p
            variance[i] += p * (1 - p)
            d[i] += p * (1 - p) * len(open_to) / (len(open_to) - 1)
            events[i] += 1
    able = events > 0
    assert able[0] != unseen
    assert sum(block.n_items for block in found) == able.sum()
    assert len(found) == -(-ITEMS // max(items_per_block, 1))
    assert math.fsum(block.squares for block in found) == pytest.approx(
        ((observed - expected) ** 2)[able].sum(), rel=1e-9
    )
    # d is taken from V and the ratio of their sums: off by less than 1/N
    assert math.fsum(block.dd for block in found) == pytest.approx((d**2).sum(), rel=1e-2)
    assert math.fsum(block.ddd for block in found) == pytest.approx((d**3).sum(), rel=1e-2)
    assert sums_of(exposed).mean == pytest.approx(variance.sum())
    worst = min((item for block in found for item in block.worst), key=lambda item: -item.deviance)
    far = np.where(able, deviance(observed, np.where(able, expected, 0.5), np.where(able, events, 1)), -1)
    i = int(np.argmax(far))
    assert (worst.item_id, worst.observed, worst.events) == (500 + i, observed[i], events[i])
    assert (worst.expected, worst.variance) == pytest.approx((expected[i], variance[i]))


def test_the_same_bits_however_users_are_divided(tmp_path: Any) -> None:
    users = users_and_items(np.random.default_rng(5), True)
    one = blocks([shard(users, 0, True)], tmp_path)
    assert blocks([shard(users[n : n + 3], 0, True) for n in range(0, 40, 3)][::-1], tmp_path) == one


@pytest.mark.parametrize("unseen", [True, False])
def test_sums_of_inverse_probabilities_against_loops(unseen: bool) -> None:
    rng = np.random.default_rng(7)
    users = users_and_items(rng, unseen)
    chance = [rng.choice([5e-324, 1e-3, 0.1, 0.7, 1.0], len(exposed)).tolist() for exposed, _, _ in users]
    halves = [shard(users[a:b], 0, unseen, chance[a:b])[0] for a, b in ((0, 17), (17, 40))]
    nothing = Facts({}, {}, 0, {}, {}, {})
    exposed = together(nothing._replace(exposed=sums) for sums in halves).exposed
    assert exposed == shard(users, 0, unseen, chance)[0]
    d = []
    for (items, _, logged), p in zip(users, chance, strict=True):
        if items:
            inverse = sum(math.inf if x == 5e-324 else 1 / x for x in p)
            d.append(min(4096.0, inverse / (ITEMS - len(logged) * unseen) - 1))
    for power, name in enumerate(("frame_d", "frame_dd", "frame_ddd"), 1):
        assert exposed[name] / UNIT == pytest.approx(math.fsum(x**power for x in d))
    assert exposed["n_candidates"] == sum(ITEMS - len(logged) * unseen for items, _, logged in users if items)
    sizes = [len(items) for items, _, _ in users]
    assert (exposed["n_users_one"], exposed["n_users_two"]) == (sizes.count(1), sizes.count(2))
    assert "frame_d" not in shard(users, 0, unseen)[0]


def test_users_without_exposures_count_nothing(tmp_path: Any) -> None:
    exposed, (block,) = blocks([shard([([], [], [1, 2])], 0, True)], tmp_path)
    assert exposed == {}
    assert block == Block(0, 0.0, 0.0, 0.0, [])


def test_totals_are_exact() -> None:
    x = np.r_[np.random.default_rng(6).normal(size=1000) * 1e3, 1e-12, 0.1, -0.3]
    assert total(x) / UNIT == pytest.approx(math.fsum(x), abs=1e-12)
    assert total(np.full(100_000, 0.75)) == 75_000 * 2**60
    assert total(x) == total(x[::-1]) == total(x[:500]) + total(x[500:])
    assert abs(Fraction(total(x), 2**60) - sum(map(Fraction, x))) < Fraction(len(x), 2**60)
