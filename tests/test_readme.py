"""What the README says is true: its Python lines run, its files exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def test_the_numpy_lines_run_and_say_what_they_claim(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    names: dict[str, object] = {}
    exec(code, names)
    ure, traditional = capsys.readouterr().out.strip().splitlines()
    assert ure.startswith("Estimate(value=0.4")
    assert traditional.startswith("Estimate(value=0.9")


def test_files_that_are_linked_or_in_the_tree_exist() -> None:
    for link in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / link).exists(), link
    tree = README.rsplit("```", 2)[1]
    folder = ""
    for line in tree.splitlines():
        if match := re.match(r"( *)(\S+)", line):
            name = match[2]
            folder = name if not match[1] and name.endswith("/") else folder if match[1] else ""
            assert (ROOT / (folder + name if match[1] else name)).exists(), line


def test_make_targets_of_the_readme_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {"demo", "test"} <= set(re.findall(r"^    make ([a-z-]+)", README, re.MULTILINE)) <= targets
