"""Compiled code is kept unless its file, or one that it imports, has changed."""

from pathlib import Path

from tests.compiled_code import ROOMS, remove_stale

ROOT = Path(__file__).parent.parent


def test_code_is_removed_when_what_it_calls_has_changed(tmp_path: Path) -> None:
    room, cache = tmp_path / "eval_engine" / "kernels", tmp_path / "cache"
    room.mkdir(parents=True)
    (cache / "kernels_1").mkdir(parents=True)
    texts = {
        "outer": "from eval_engine.kernels.middle import f\n\n\n@compiled\ndef g(): ...\n",
        "middle": "from eval_engine.kernels import (\n    inner,\n)\n",
        "inner": "@compiled\ndef h(): ...\n",
        "other": "import numpy\n\n\n@compiled\ndef f(): ...\n",
    }
    codes = {name: cache / "kernels_1" / f"{name}.g-4.py311.nbi" for name in texts}

    def removed() -> set[str]:
        for path in codes.values():
            path.touch()
        told = remove_stale(cache, tmp_path)
        gone = {name for name, path in codes.items() if not path.exists()}
        assert {Path(name).stem for name in told} == gone
        return gone

    for name, text in texts.items():
        (room / f"{name}.py").write_text(text)
    assert removed() == {"outer", "inner", "other"}  # nobody knows what they were made of
    assert removed() == set()
    (room / "inner.py").write_text(texts["inner"] + "\n# changed\n")
    assert removed() == {"outer", "inner"}
    (room / "middle.py").write_text(texts["middle"] + "\n# changed\n")
    assert removed() == {"outer"}
    (room / "other.py").unlink()
    assert removed() == {"other"}


def test_every_room_with_compiled_functions_is_looked_at() -> None:
    rooms = [path for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith(".")]
    compiled = {room.name for room in rooms if any("@compiled" in path.read_text() for path in room.rglob("*.py"))}
    assert {"eval_engine", "models"} <= compiled <= set(ROOMS)
