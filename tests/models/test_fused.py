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

N_USERS, N_ITEMS, TOP, CUTOFFS = 23, 12, 4, (1, 3)
USER_IDS, ITEM_IDS = pa.array(50 - 2 * np.arange(N_USERS)), pa.array(100 + 7 * np.arange(N_ITEMS))


class Given:
    """Scores that are given, few values: many ties."""

    def __init__(self, seed: int = 0) -> None:
        self.scores = np.random.default_rng(seed).integers(-2, 3, (N_USERS, N_ITEMS)).astype(np.float32)
        self.asked = list[list[int]]()

    def score_block(self, users: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        self.asked.append(users.tolist())
        return self.scores[users]


@pytest.fixture(params=["unseen", "all_items"])
def run(tmp_path: Path, request: pytest.FixtureRequest) -> Run:
    """Labels of some pairs in files: with all_items a pair may be exposed, held out, complete and, but for held-out
    pairs, trained on."""
    rng = np.random.default_rng(3)
    kind = rng.integers(0, 6, (N_USERS, N_ITEMS))  # in one table or none; none of the first two users
    chosen = {name: kind == number for number, name in enumerate(("exposures", "truth", "feedback", "heldout"))}
    chosen["truth"] |= chosen["heldout"] & (rng.random(kind.shape) < 0.5)
    if request.param == "all_items":
        chosen["exposures"] |= (chosen["feedback"] | chosen["heldout"]) & (rng.random(kind.shape) < 0.3)
        chosen["truth"] |= chosen["feedback"] & (rng.random(kind.shape) < 0.3)
    for name, pairs in chosen.items():
        users, items = np.nonzero(pairs[2:])
        columns = {
            "user_id": USER_IDS.take(users + 2),
            "item_id": ITEM_IDS.take(items),
            "value": rng.integers(1, 6, len(users)).astype(float),
        }
        pq.write_table(pa.table(columns), tmp_path / name)
    inputs = Inputs(catalogue=Input(path="catalogue"), **{name: Input(path=str(tmp_path / name)) for name in chosen})
    return Run(str(tmp_path / "lake" / "ranks"), "r1", inputs, request.param, TOP - 1, "error", CUTOFFS)


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
    frames = {
        "unseen": [item for item in range(N_ITEMS) if (user, item) not in pairs_of(run, "feedback")],
        "all_items": list(range(N_ITEMS)),
    }
    left = frames["unseen"]
    row: dict[str, Any] = {
        "model": model,
        "user_id": USER_IDS[user].as_py(),
        "candidates": len(left),
        "scored": len(left),
        "problem": None,
    }
    for source, name in (("random", "exposures"), ("heldout", "heldout"), ("truth", "truth")):
        items = sorted(item for owner, item in pairs_of(run, name) if owner == user)
        candidates = left if source == "heldout" else frames[run.frame]
        row[source] = {
            "items": [ITEM_IDS[item].as_py() for item in items],
            "values": [pairs_of(run, name)[user, item] for item in items],
            "scores": [mine[item] for item in items],
            "above": [sum(mine[other] > mine[item] for other in candidates) for item in items],
            "tied": [sum(mine[other] == mine[item] for other in candidates if other != item) for item in items],
            "probabilities": None,
            "candidates": len(candidates),
            "scored": len(candidates),
        }
    ranked = sorted((mine[item] for item in frames[run.frame]), reverse=True)
    none: dict[str, Any] = {key: [] for key in ("items", "values", "scores", "above", "tied")} | {"probabilities": None}
    row["designed"] = none | {"candidates": len(frames[run.frame]), "scored": len(frames[run.frame])}
    row["random"] |= {"k": list(CUTOFFS), "thresholds": [([*ranked, -np.inf])[min(k, len(ranked))] for k in CUTOFFS]}
    first = sorted(left, key=lambda item: (-mine[item], item))[:TOP]
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
    batches = list(rank_fused("m", scorer, labels, run.ranking(labels), threads))
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


def give_probabilities(run: Run, name: str, column: str) -> tuple[Run, dict[tuple[int, int], float]]:
    """The run with a probability of its own for each pair of the table, and these."""
    where, rng = getattr(run.inputs, name), np.random.default_rng(6)
    table = pq.read_table(where.path)
    known = table.append_column("p", pa.array(rng.integers(1, 65, table.num_rows) / 64)).take(
        pa.array(rng.permutation(table.num_rows))
    )
    pq.write_table(known, where.path)
    mapped = where.model_copy(update={"columns": {column: "p"}})
    wanted = {(row["user_id"], row["item_id"]): row["p"] for row in known.to_pylist()}
    return run._replace(inputs=run.inputs.model_copy(update={name: mapped})), wanted


def test_probabilities_stand_beside_their_items(run: Run, small_blocks: None) -> None:
    run, exposed = give_probabilities(run, "exposures", "exposure_probability")
    run, heldout = give_probabilities(run, "heldout", "propensity")
    labels = read_label_lists(run.inputs, USER_IDS, ITEM_IDS, run.frame, run.on_bad_rows)
    make_ranks_table(run.table, USER_IDS.type)
    write(run, labels, "m", "one", Given())
    rows = in_lake(run)
    for name, wanted in (("random", exposed), ("heldout", heldout)):
        pairs = {
            (row["user_id"], item): p
            for row in rows
            for item, p in zip(row[name]["items"], row[name]["probabilities"], strict=True)
        }
        assert pairs == wanted
        # of a user without pairs: an empty list, not NULL
        assert [row[name]["probabilities"] for row in rows if not row[name]["items"]]
    assert all(row["truth"]["probabilities"] is None for row in rows)


@pytest.mark.parametrize("kept", [("heldout",), ("truth",), ("exposures", "heldout")])
def test_label_sets_that_the_run_does_not_have_are_empty(run: Run, small_blocks: None, kept: tuple[str, ...]) -> None:
    inputs = run.inputs.model_copy(
        update={name: None for name in ("exposures", "heldout", "truth") if name not in kept}
    )
    labels = read_label_lists(inputs, USER_IDS, ITEM_IDS, run.frame, run.on_bad_rows)
    rows = pa.Table.from_batches(list(rank_fused("m", Given(), labels, run.ranking(labels), 2))).to_pylist()
    for user, row in enumerate(rows):
        wanted = expected_row(run, Given().scores, user, "m")
        for source, name in (("random", "exposures"), ("heldout", "heldout"), ("truth", "truth")):
            if name not in kept:
                wanted[source] |= {field: [] for field in ("items", "values", "scores", "above", "tied")}
        assert row == wanted


def test_blocks_are_bounded_in_bytes_and_few_are_held(run: Run, labels: LabelLists, small_blocks: None) -> None:
    scorer = Given()
    rows = rank_fused("m", scorer, labels, run.ranking(labels), 2)
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
