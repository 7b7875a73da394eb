"""Labels and places of scores brought together, without Spark, against loops over the tables: from label and score files to the plan, parts and facts."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eval_engine.inputs.score_files import Files, ScoreFile, Source
from eval_engine.ranking.assembly import Assembly, assemble
from eval_engine.ranking.facts import Facts, from_json, to_json, together
from eval_engine.ranking.settings import Ranking
from eval_engine.ranking.splits import plan_splits
from eval_engine.ranking.user_shards import kept_users, pair_splits, read_splits
from eval_engine.spark.arrow_blobs import decode
from eval_engine.spark.binary_lists import unpack
from eval_engine.storage import stored_file

ITEMS = 20


def ids(numbers: Any, text: bool) -> pa.Array:
    return pa.array([f"id {n}" for n in numbers]) if text else pa.array(np.asarray(numbers, np.int64))


class World:
    """Files of a dense table of model d, a long one of models l and m, whose rows are together for some users only, and of labels; kept: users of model k."""

    def __init__(self, folder: Path, text: bool) -> None:
        rng = np.random.default_rng(11)
        self.text = text
        self.users = rng.permutation(60) + 7
        self.dense, self.kept = self.users[rng.random(60) < 0.95], self.users[:58]
        pq.write_table(
            pa.table({"u": ids(self.dense, text), "scores": pa.array([b"\0" * 4 * ITEMS] * len(self.dense))}),
            folder / "d",
            row_group_size=9,
        )
        together, apart = self.users[:40], self.users[40:]
        rows = [(model, user) for model in "lm" for user in together for _ in range(ITEMS)]
        loose = [(model, user) for model in "lm" for user in apart for _ in range(ITEMS)]
        rows += [loose[n] for n in rng.permutation(len(loose))]
        self.long = rows
        half = len(rows) // 2
        for n, part in enumerate((rows[:half], rows[half:])):
            table = {
                "model": [m for m, _ in part],
                "u": ids([u for _, u in part], text),
                "i": ids(np.zeros(len(part), int), text),
                "s": np.zeros(len(part)),
            }
            pq.write_table(pa.table(table), folder / f"l{n}", row_group_size=77)
        self.pairs = {
            "random": [
                (int(u), int(i), 1.0)
                for u in rng.choice([*self.users, 1000], 50)
                for i in rng.choice(ITEMS, 3, replace=False)
            ],
            "heldout": [
                (int(u), 1 + int(i), 3.0) for u, i in zip(self.users[:20], rng.integers(0, 9, 20), strict=True)
            ],
            "feedback": [(int(u), int(i), 2.0) for u in self.users for i in rng.choice(ITEMS + 2, 2, replace=False)],
        }
        for source, found in self.pairs.items():
            user, item, value = zip(*found, strict=True)
            pq.write_table(
                pa.table({"who": ids(user, text), "what": ids(item, text), "value": value}),
                folder / source,
                row_group_size=40,
            )
        pq.write_table(
            pa.table({"item_id": ids(range(ITEMS), text), "position": np.arange(ITEMS, dtype=np.int32)}),
            folder / "catalogue",
        )
        self.folder = folder
        long = Source(1, "long", None, "u", "i", "s")
        self.files: Files = (
            ScoreFile(str(folder / "d"), Source(0, "dense", "d", "u", None, "scores")),
            ScoreFile(str(folder / "l0"), long),
            ScoreFile(str(folder / "l1"), long),
        )

    def assembled(self, n_readers: int, n_shards: int, policy: str) -> tuple[dict[str, list[Any]], Facts]:
        """What comes out, by kind, and the facts."""
        splits = plan_splits(self.files, 3)
        columns = {"user_id": "who", "item_id": "what", "value": "value"}
        pairs = pair_splits({source: ((str(self.folder / source),), columns) for source in self.pairs}, n_readers)
        shards: dict[int, list[pa.RecordBatch]] = defaultdict(list)
        read = read_splits(self.files, splits, pairs, n_readers, n_shards)
        found = [batch for n in range(n_readers) for batch in read(iter([pa.RecordBatch.from_pydict({"id": [n]})]))]
        kept = pa.RecordBatch.from_pydict({"model": ["k"] * len(self.kept), "user_id": ids(self.kept, self.text)})
        found += kept_users(n_shards)(iter([kept]))
        for batch in found:
            for row in range(batch.num_rows):
                shards[batch["shard"][row].as_py()].append(batch.slice(row, 1))
        ranking = Ranking(ITEMS, 5, (str(self.folder / "catalogue"),), policy, "unseen", ("random", "heldout"), (3,))
        how = Assembly(
            ranking, self.files, (8, 100, 100), ("d", "k", "l", "m"), False, "STRING" if self.text else "BIGINT"
        )
        rows: dict[str, list[Any]] = defaultdict(list)
        facts = []
        for some in (sorted(shards)[::2], sorted(shards)[1::2]):  # two tasks
            for batch in assemble(how)(iter([row for shard in some for row in shards[shard][::-1]])):
                for n, kind in enumerate(batch["kind"].to_pylist()):
                    if kind == "facts":
                        facts.append(from_json(batch["rows"][n].as_py()))
                    else:
                        rows[kind] += list(self._rows(batch.slice(n, 1)))
        assert {split.task for split in splits} == {0, 1, 2}
        return rows, together(facts)

    @staticmethod
    def _rows(blob: pa.RecordBatch) -> Iterator[dict[str, Any]]:
        found = decode(blob["rows"])
        for row in found.to_pylist():
            yield {name: blob[name][0].as_py() for name in ("task", "file", "block")} | row

    def labels(self, user: int) -> tuple[list[int], list[int], list[int]]:
        """Positions of the user's exposures and held-out pairs that can be used, and of its training pairs."""
        trained = sorted({i for u, i, _ in self.pairs["feedback"] if u == user and i < ITEMS})
        found = []
        for name in ("random", "heldout"):
            mine = [i for u, i, _ in self.pairs[name] if u == user]
            found.append(sorted(i for i in mine if mine.count(i) == 1 and i not in trained))
        return *found, trained

    def named(self, user: int) -> Any:
        return f"id {user}" if self.text else user

    def covered(self) -> set[int]:
        """Users that every model scored, or that have no usable label."""
        everywhere = set(self.dense.tolist()) & set(self.kept.tolist()) & {int(u) for _, u in self.long}
        return {int(u) for u in self.users if int(u) in everywhere or not any(self.labels(int(u))[:2])}


def numbers(packed: bytes, kind: Any) -> list[Any]:
    return list(unpack(pa.array([packed], pa.binary()), kind)[1].tolist())


@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize(("n_readers", "n_shards"), [(1, 1), (5, 13)])
def test_every_list_is_planned_once_where_it_lies(tmp_path: Path, text: bool, n_readers: int, n_shards: int) -> None:
    world = World(tmp_path, text)
    found, facts = world.assembled(n_readers, n_shards, "quarantine")
    covered = world.covered()
    places: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
    for row, user in enumerate(world.dense.tolist()):
        places["d", user].append((0, row))
    half = len(world.long) // 2
    for row, (model, user) in enumerate(world.long):
        places[model, int(user)].append((1, row) if row < half else (2, row - half))
    whole = {
        key: at for key, at in places.items() if len({f for f, _ in at}) == 1 and at[-1][1] - at[0][1] + 1 == len(at)
    }
    planned = {(row["model"], row["user_id"]): row for row in found["plan"]}
    assert len(planned) == len(found["plan"])
    assert set(planned) == {(model, world.named(user)) for model, user in whole if user in covered}
    for (model, user), at in whole.items():
        if user in covered:
            row = planned[model, world.named(user)]
            assert (row["file"], row["first_row"], row["last_row"]) == (at[0][0], at[0][1], at[-1][1])
            assert row["block"] == at[0][1] // (8 if model == "d" else 100)
            random, heldout, trained = world.labels(user)
            assert numbers(row["random"]["positions"], np.int32) == random
            assert numbers(row["heldout"]["positions"], np.int32) == heldout
            assert numbers(row["excluded"], np.int32) == trained
            assert numbers(row["random"]["values"], np.float64) == [1.0] * len(random)
            assert "truth" not in row
    apart = {(model, world.named(user)) for (model, user) in set(places) - set(whole) if user in covered}
    assert {(row["model"], row["user_id"]) for row in found["parts"]} == apart
    assert facts.apart == len(set(places) - set(whole)) > 0
    assert {row["user_id"] for row in found["labels"]} == {user for _, user in apart}
    assert facts.users == {"d": len(world.dense), "k": len(world.kept), "l": 60, "m": 60}
    assert facts.label_rows == {"random": 150, "heldout": 20, "truth": 0, "designed": 0, "feedback": 120}


def test_what_breaks_a_rule_is_counted_with_the_first_example(tmp_path: Path) -> None:
    world = World(tmp_path, False)
    found, facts = world.assembled(3, 7, "quarantine")
    labelled = {u for name in ("random", "heldout") for u, _, _ in world.pairs[name]}
    uncovered = [u for u in labelled if any(world.labels(u)[:2]) and u not in world.covered()]
    assert facts.uncovered["not_scored"].n_rows == len(uncovered) > 1
    first = min(map(str, uncovered))
    assert facts.uncovered["not_scored"].example.startswith(f"user_id={first}, model=")
    copies = [p for p in world.pairs["random"] if [q[:2] for q in world.pairs["random"]].count(p[:2]) > 1]
    assert facts.broken["random", "duplicate_key"].n_rows == len(copies) > 0
    assert (
        facts.broken["feedback", "outside_catalogue"].n_rows
        == sum(i >= ITEMS for _, i, _ in world.pairs["feedback"])
        > 0
    )
    both = {p[:2] for p in world.pairs["heldout"]} & {p[:2] for p in world.pairs["feedback"]}
    assert facts.broken["heldout", "heldout_but_trained"].n_rows == len(both) > 0
    assert len(found["broken"]) == sum(told.n_rows for told in facts.broken.values())
    again = world.assembled(1, 2, "error")
    assert again[1] == facts
    assert not again[0]["broken"]
    assert from_json(to_json(facts)) == facts


def test_neighbouring_row_groups_of_a_reader_are_one_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each split reads the footer of its file, which grows with the row groups."""
    rows = {"random": 2000, "feedback": 700, "truth": 3}
    for source, n in rows.items():
        table = pa.table({"user_id": np.arange(n), "item_id": np.arange(n) % 7, "value": np.ones(n)})
        pq.write_table(table, tmp_path / source, row_group_size=2)
    columns = {name: name for name in ("user_id", "item_id", "value")}
    tables = {source: ((str(tmp_path / source),), columns) for source in rows}
    for n_readers in (1, 5, 3000):
        splits = pair_splits(tables, n_readers)
        assert len(splits) <= n_readers + len(rows)
        covered = {source: [s[3:5] for s in splits if s.source == source] for source in rows}
        for source, n in rows.items():
            assert [row for first, end in covered[source] for row in range(first, end)] == list(range(n))
        sizes = np.bincount([s.reader for s in splits], [s.end_row - s.first_row for s in splits])
        assert sizes.size <= n_readers
        assert sizes.max() <= sum(rows.values()) / n_readers + 2  # a row group
    opened = []
    real = stored_file.pq.ParquetFile
    monkeypatch.setattr(stored_file.pq, "ParquetFile", lambda *a, **k: opened.append(1) or real(*a, **k))
    splits = pair_splits(tables, 5)
    planned = len(opened)
    read = read_splits((), [], splits, 5, 3)
    found = [batch for n in range(5) for batch in read(iter([pa.RecordBatch.from_pydict({"id": [n]})]))]
    assert sum(decode([blob]).num_rows for batch in found for blob in batch["rows"]) == sum(rows.values())
    assert planned == len(rows)
    assert len(opened) - planned == 2 * len(splits) <= 2 * (5 + len(rows))
