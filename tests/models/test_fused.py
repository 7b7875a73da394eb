"""Fused ranking: rows as a loop over the definition has them, whatever the blocks and threads; commits that replace one model of one run."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from eval_engine.config import Input, Inputs
from eval_engine.errors import LakeError
from eval_engine.lake import part_files
from models import fused as module
from models.errors import TrainingError
from models.fused import Ranked, Run, block_users, rank_fused, write_fused
from models.label_lists import LabelLists, read_label_lists
from models.ranks_table import make_ranks_table, ranked_from

N_USERS, N_ITEMS, TOP = 23, 12, 4
USER_IDS, ITEM_IDS = pa.array(50 - 2 * np.arange(N_USERS)), pa.array(100 + 7 * np.arange(N_ITEMS))


class Given:
    """Scores that are given, few values: many ties."""

    def __init__(self, seed: int = 0) -> None:
        self.scores = np.random.default_rng(seed).integers(-2, 3, (N_USERS, N_ITEMS)).astype(np.float32)
        self.asked = list[list[int]]()

    def score_block(self, users: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        self.asked.append(users.tolist())
        return self.scores[users]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Exposures of most users, truth of some, logged pairs of others, in files."""
    rng = np.random.default_rng(3)
    names = {"exposures": 0, "truth": 1, "feedback": 2}
    kind = rng.integers(0, 5, (N_USERS, N_ITEMS))  # a pair is in one table or none
    for name, number in names.items():
        users, items = np.nonzero(kind[2:] == number)
        columns = {
            "user_id": USER_IDS.take(users + 2),
            "item_id": ITEM_IDS.take(items),
            "value": rng.integers(1, 6, len(users)).astype(float),
        }
        pq.write_table(pa.table(columns), tmp_path / name)
    inputs = Inputs(catalogue=Input(path="catalogue"), **{name: Input(path=str(tmp_path / name)) for name in names})
    return Run(str(tmp_path / "lake" / "ranks"), "r1", inputs, "unseen", TOP - 1, "error")


@pytest.fixture
def labels(run: Run) -> LabelLists:
    return read_label_lists(run.inputs, USER_IDS, ITEM_IDS, run.frame, run.on_bad_rows)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of five users."""
    monkeypatch.setattr(module, "LEAST_USERS", 1)
    monkeypatch.setattr(module, "BLOCK_BYTES", 5 * 4 * N_ITEMS)


def pairs_of(run: Run, name: str) -> dict[tuple[int, int], float]:
    table = pq.read_table(getattr(run.inputs, name).path)
    return {
        (USER_IDS.to_pylist().index(u), ITEM_IDS.to_pylist().index(i)): v
        for u, i, v in zip(*table.to_pydict().values(), strict=True)
    }


def expected_row(run: Run, scores: npt.NDArray[np.float32], user: int, model: str) -> dict[str, Any]:
    """A user's row, from the definitions of above, tied and the top."""
    mine = scores[user].tolist()
    candidates = [item for item in range(N_ITEMS) if (user, item) not in pairs_of(run, "feedback")]
    row: dict[str, Any] = {
        "model": model,
        "user_id": USER_IDS[user].as_py(),
        "candidates": len(candidates),
        "scored": len(candidates),
        "problem": None,
    }
    for source, name in (("random", "exposures"), ("truth", "truth")):
        items = sorted(item for owner, item in pairs_of(run, name) if owner == user)
        row[source] = {
            "items": [ITEM_IDS[item].as_py() for item in items],
            "values": [pairs_of(run, name)[user, item] for item in items],
            "scores": [mine[item] for item in items],
            "above": [sum(mine[other] > mine[item] for other in candidates) for item in items],
            "tied": [sum(mine[other] == mine[item] for other in candidates if other != item) for item in items],
            "probabilities": None,
        }
    first = sorted(candidates, key=lambda item: (-mine[item], item))[:TOP]
    row["top"] = {"items": [ITEM_IDS[item].as_py() for item in first], "scores": [mine[item] for item in first]}
    return row


def in_lake(run: Run) -> list[dict[str, Any]]:
    rows = DeltaTable(run.table).to_pyarrow_table().to_pylist()
    return sorted(rows, key=lambda row: (row["run_id"], row["model"], row["user_id"]))


def files(run: Run) -> set[str]:
    return {path.name for path in Path(run.table).rglob("*.parquet")}


def write(run: Run, labels: LabelLists, model: str, inputs: str, scorer: Any, threads: int = 2) -> Any:
    return write_fused(Ranked(model, inputs, scorer), labels, run, threads, lambda users: None)


@pytest.mark.parametrize("threads", [1, 3])
def test_rows_are_those_of_a_loop_over_the_definition(
    run: Run, labels: LabelLists, small_blocks: None, threads: int
) -> None:
    scorer = Given()
    batches = list(rank_fused("m", scorer, labels, TOP, threads))
    assert sorted(scorer.asked) == [list(range(start, min(start + 5, N_USERS))) for start in range(0, N_USERS, 5)]
    assert [batch.num_rows for batch in batches] == [5, 5, 5, 5, 3]
    assert pa.Table.from_batches(batches).to_pylist() == [
        expected_row(run, scorer.scores, user, "m") for user in range(N_USERS)
    ]


def test_every_block_may_just_fill_a_row_group(
    run: Run, labels: LabelLists, small_blocks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(part_files, "GROUP_BYTES", 1)
    make_ranks_table(run.table, USER_IDS.type)
    write(run, labels, "m", "one", Given())
    assert [row["user_id"] for row in in_lake(run)] == sorted(USER_IDS.to_pylist())


def test_probabilities_of_exposures_stand_beside_their_items(run: Run, small_blocks: None) -> None:
    exposures = pq.read_table(run.inputs.exposures.path)
    rng = np.random.default_rng(6)
    known = exposures.append_column("p", pa.array(rng.integers(1, 65, exposures.num_rows) / 64)).take(
        pa.array(rng.permutation(exposures.num_rows))
    )
    pq.write_table(known, run.inputs.exposures.path)
    where = run.inputs.exposures.model_copy(update={"columns": {"exposure_probability": "p"}})
    run = run._replace(inputs=run.inputs.model_copy(update={"exposures": where}))
    labels = read_label_lists(run.inputs, USER_IDS, ITEM_IDS, run.frame, run.on_bad_rows)
    make_ranks_table(run.table, USER_IDS.type)
    write(run, labels, "m", "one", Given())
    want = {(row["user_id"], row["item_id"]): row["p"] for row in known.to_pylist()}
    rows = in_lake(run)
    found = {
        (r["user_id"], item): p
        for r in rows
        for item, p in zip(r["random"]["items"], r["random"]["probabilities"], strict=True)
    }
    assert found == want
    assert [
        row["random"]["probabilities"] for row in rows if not row["random"]["items"]
    ]  # of nobody exposed: an empty list, not NULL
    assert all(row["truth"]["probabilities"] is None for row in rows)


def test_blocks_are_bounded_in_bytes_and_few_are_held(labels: LabelLists, small_blocks: None) -> None:
    scorer = Given()
    rows = rank_fused("m", scorer, labels, TOP, 2)
    next(rows)
    assert len(scorer.asked) <= 3
    rows.close()
    assert len(scorer.asked) <= 3


def test_users_in_a_block() -> None:
    assert block_users(10_000) * 10_000 * 4 <= 16 * 2**20 < (block_users(10_000) + 1) * 10_000 * 4
    assert block_users(10_000_000) == 16


def test_written_rows_replace_those_of_the_model_and_run_only(run: Run, labels: LabelLists, small_blocks: None) -> None:
    make_ranks_table(run.table, USER_IDS.type)
    done: list[int] = []
    write_fused(Ranked("m", "one", Given(0)), labels, run, 2, done.append)
    assert done == [5, 5, 5, 5, 3]
    write(run, labels, "n", "one", Given(1))
    write(run._replace(run_id="r2"), labels, "m", "one", Given(2))
    before = in_lake(run)
    assert len(before) == 3 * N_USERS
    parts = write(run, labels, "m", "two", Given(3))
    after = in_lake(run)
    mine = [row for row in after if (row["run_id"], row["model"]) == ("r1", "m")]
    kept = [row for row in after if row not in mine]
    assert kept == [row for row in before if (row["run_id"], row["model"]) != ("r1", "m")]
    expected = [
        {"run_id": "r1", "inputs": "two"} | expected_row(run, Given(3).scores, user, "m") for user in range(N_USERS)
    ]
    assert mine == sorted(expected, key=lambda row: row["user_id"])
    assert {model: ranked_from(run.table, "r1", model) for model in ("m", "n", "o")} == {
        "m": {"two"},
        "n": {"one"},
        "o": set(),
    }
    assert ranked_from(run.table, "r2", "m") == {"one"}
    assert sum(part.n_rows for part in parts) == N_USERS


def test_scores_that_have_no_rank_leave_the_table_as_it_was(run: Run, labels: LabelLists, small_blocks: None) -> None:
    make_ranks_table(run.table, USER_IDS.type)
    write(run, labels, "m", "one", Given(0))
    before, there = in_lake(run), files(run)
    bad = Given(1)
    bad.scores[19, 2] = np.nan  # in the fourth block: others are written before
    with pytest.raises(
        TrainingError,
        match=r"model m: user_id=12 cannot be ranked: its score of item_id=114 is NaN.*lower learning_rate",
    ):
        write(run, labels, "m", "two", bad)
    bad.scores = bad.scores[:, :-1]
    with pytest.raises(TrainingError, match=r"scores of shape \(5, 11\) for 5 users and 12 items"):
        write(run, labels, "m", "two", bad)
    assert (in_lake(run), files(run)) == (before, there)


def test_a_lake_that_cannot_be_written_is_an_error(run: Run, labels: LabelLists) -> None:
    make_ranks_table(run.table, USER_IDS.type)
    (Path(run.table) / "run_id=r1").write_text("in the way")
    with pytest.raises(LakeError, match="cannot be written"):
        write(run, labels, "m", "one", Given())
