"""The score table: bytes, row groups, shards that are whole or absent, and resuming."""

import json
import os
import signal
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from eval_engine.errors import LakeError
from models.errors import TrainingError
from models.score_table import Content, Layout, binary_column, finished, layout_of, write_scores


class Affine:
    """Scores that say which user and item they are of."""

    def __init__(self, n_items: int, shift: float = 0.0) -> None:
        self.n_items, self.shift, self.asked = n_items, shift, list[int]()

    def score_block(self, users: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        self.asked += users.tolist()
        return (users[:, None] * 1000.0 + np.arange(self.n_items) + self.shift).astype(np.float32)


def content_of(n_users: int, n_items: int, fingerprint: str = "f1", ids: pa.Array | None = None) -> Content:
    return Content("m", pa.array(7 + 3 * np.arange(n_users)) if ids is None else ids, n_items, "inputs", fingerprint)


def write(folder: Path, content: Content, scorer: Affine, layout: Layout) -> int:
    return write_scores(folder, content, scorer, layout, lambda users: None)


def marks(folder: Path) -> dict[str, tuple[int, int]]:
    return {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in sorted(folder.glob("shard-*"))}


@pytest.mark.parametrize("ids", [None, pa.array(["", "ü", *map(str, range(9))])])
def test_round_trip_is_little_endian_byte_for_byte(tmp_path: Path, ids: pa.Array | None) -> None:
    content = content_of(11, 5, ids=ids)
    assert write(tmp_path / "m", content, Affine(5, 0.1), Layout(2, 4)) == 3
    table = ds.dataset(tmp_path / "m").to_table()
    assert table.schema.field("scores").type == pa.binary()
    assert table.column("user_id").to_pylist() == content.user_ids.to_pylist()
    for user, value in enumerate(table.column("scores").to_pylist()):
        assert value == struct.pack("<5f", *(user * 1000.0 + item + 0.1 for item in range(5)))
    manifest = json.loads((tmp_path / "m" / "_plumbline.json").read_text())
    assert (
        manifest["model"],
        manifest["n_users"],
        manifest["n_items"],
        manifest["dtype"],
        manifest["fingerprint"],
    ) == (
        "m",
        11,
        5,
        "float32-le",
        "f1",
    )
    assert manifest["shards"] == ["shard-00000.parquet", "shard-00001.parquet", "shard-00002.parquet"]
    assert sorted(path.name for path in (tmp_path / "m").iterdir()) == ["_plumbline.json", *manifest["shards"]]


def test_column_is_the_blocks_own_memory() -> None:
    block = np.arange(6, dtype=np.float32).reshape(2, 3)
    column = binary_column(block)
    assert column.buffers()[2].address == block.ctypes.data
    column.validate(full=True)
    strided = np.asfortranarray(block).astype(">f4")
    assert binary_column(strided).to_pylist() == column.to_pylist()


def test_row_groups_stay_under_the_cap(tmp_path: Path) -> None:
    content = content_of(900, 5000, ids=pa.array([f"user-{n:06d}" for n in range(900)]))
    layout = layout_of(content.user_ids, 5000, block_mb=2, shard_mb=8)
    write(tmp_path / "m", content, Affine(5000), layout)
    groups = [
        pq.read_metadata(tmp_path / "m" / name).row_group(number)
        for name in sorted(marks(tmp_path / "m"))
        for number in range(pq.read_metadata(tmp_path / "m" / name).num_row_groups)
    ]
    assert sum(group.num_rows for group in groups) == 900
    assert all(group.total_byte_size <= 2 << 20 for group in groups)
    assert groups[0].total_byte_size > 1.9 * (1 << 20)  # and fill it
    assert all(
        group.column(1).compression == "UNCOMPRESSED" and "RLE_DICTIONARY" not in group.column(1).encodings
        for group in groups
    )
    assert not any(group.column(1).is_stats_set for group in groups)
    assert all(path.stat().st_size <= 8 << 20 for path in (tmp_path / "m").glob("shard-*"))


def test_layout_of_rows_longer_than_the_cap() -> None:
    assert layout_of(pa.array([1, 2]), 3 << 20, block_mb=1, shard_mb=1) == Layout(1, 1)


def test_a_deleted_shard_is_the_only_one_rewritten(tmp_path: Path) -> None:
    folder, content = tmp_path / "m", content_of(10, 4)
    write(folder, content, Affine(4), Layout(2, 4))
    before, bytes_before = marks(folder), (folder / "shard-00001.parquet").read_bytes()
    assert finished(folder, "inputs")
    (folder / "shard-00001.parquet").unlink()
    assert not finished(folder, "inputs")
    scorer = Affine(4)
    assert write(folder, content, scorer, Layout(2, 4)) == 1
    after = marks(folder)
    assert scorer.asked == [4, 5, 6, 7]
    assert {name for name in before if before[name] != after[name]} == {"shard-00001.parquet"}
    assert (folder / "shard-00001.parquet").read_bytes() == bytes_before
    assert finished(folder, "inputs")


def test_a_damaged_shard_is_rewritten(tmp_path: Path) -> None:
    folder, content = tmp_path / "m", content_of(10, 4)
    write(folder, content, Affine(4), Layout(2, 4))
    with (folder / "shard-00002.parquet").open("r+b") as file:
        file.truncate(100)
    assert not finished(folder, "inputs")
    assert write(folder, content, Affine(4), Layout(2, 4)) == 1


def test_another_fingerprint_rewrites_everything_and_leaves_no_old_shard(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    write(folder, content_of(10, 4), Affine(4), Layout(2, 4))
    before = marks(folder)
    assert write(folder, content_of(6, 4, "f2"), Affine(4, 0.5), Layout(2, 4)) == 2
    after = marks(folder)
    assert sorted(after) == ["shard-00000.parquet", "shard-00001.parquet"]
    assert all(before[name] != after[name] for name in after)
    scores = np.frombuffer(b"".join(ds.dataset(folder).to_table().column("scores").to_pylist()), "<f4").reshape(6, 4)
    assert np.array_equal(scores, Affine(4, 0.5).score_block(np.arange(6)))


def test_finished_asks_for_the_same_inputs(tmp_path: Path) -> None:
    write(tmp_path / "m", content_of(3, 4), Affine(4), Layout(2, 4))
    assert finished(tmp_path / "m", "inputs")
    assert not finished(tmp_path / "m", "others")
    assert not finished(tmp_path / "none", "inputs")


KILLED = """
import os, signal, sys
from pathlib import Path
import numpy as np, pyarrow as pa
from models.errors import TrainingError
from models.score_table import Content, Layout, write_scores

class Zeros:
    def score_block(self, users):
        return np.zeros((len(users), 4), np.float32)

rename = os.replace
def replace(source, target):
    if Path(target).name == sys.argv[2]:
        os.kill(os.getpid(), signal.SIGKILL)
    rename(source, target)

os.replace = replace
write_scores(Path(sys.argv[1]), Content("m", pa.array(range(10)), 4, "inputs", "f1"), Zeros(), Layout(2, 4), lambda users: None)
"""


@pytest.mark.parametrize(("target", "readable", "missing"), [("shard-00000.parquet", 0, 3), ("_plumbline.json", 10, 0)])
def test_killed_before_the_rename_leaves_nothing_half_written(
    tmp_path: Path, target: str, readable: int, missing: int
) -> None:
    folder = tmp_path / "m"
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(folder), target],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    assert any(path.name.endswith(".tmp") for path in folder.iterdir())  # it was written, and not renamed
    assert ds.dataset(folder, format="parquet").count_rows() == readable
    assert not finished(folder, "inputs")
    content = Content("m", pa.array(range(10)), 4, "inputs", "f1")
    assert write(folder, content, Affine(4), Layout(2, 4)) == missing
    assert finished(folder, "inputs")
    assert not any(path.name.endswith(".tmp") for path in folder.iterdir())


def test_nan_is_refused_and_infinity_is_not(tmp_path: Path) -> None:
    class Broken(Affine):
        bad = -np.inf

        def score_block(self, users: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
            block = super().score_block(users)
            block[:, 1] = np.inf
            block[users == 5, 2] = self.bad
            return block

    assert write(tmp_path / "inf", content_of(8, 4), Broken(4), Layout(4, 8)) == 1
    Broken.bad = np.nan
    with pytest.raises(TrainingError, match="model m: the scores of user_id=22 contain NaN"):
        write(tmp_path / "nan", content_of(8, 4), Broken(4), Layout(4, 8))


def test_a_wrong_shape_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="shape"):
        write(tmp_path / "m", content_of(8, 4), Affine(3), Layout(4, 8))


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "shard-00009.parquet").write_text("who knows")
    with pytest.raises(LakeError, match=r"notes\.txt"):
        write(tmp_path, content_of(3, 4), Affine(4), Layout(2, 4))
    assert (tmp_path / "shard-00009.parquet").exists()
