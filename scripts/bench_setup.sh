#!/usr/bin/env bash
# What the benchmarks compare with, from locks with hashes: DuckDB and Polars into .venv, RePlay into .venv-replay (it needs an older pyarrow). Safe to repeat.
# Needs scripts/setup.sh first.
set -euo pipefail
cd "$(dirname "$0")/.."
export UV_LINK_MODE=${UV_LINK_MODE:-hardlink}
say() { printf '\033[2m%s\033[0m\n' "$*"; }

[ -x .venv/bin/uv ] || { echo "There is no .venv here: run make setup first." >&2; exit 4; }
say "Installing DuckDB and Polars into .venv, RePlay into .venv-replay"
.venv/bin/uv pip install --quiet --require-hashes --python .venv/bin/python -r requirements/bench.txt
[ -x .venv-replay/bin/python ] || .venv/bin/uv venv --quiet --python .venv/bin/python .venv-replay
.venv/bin/uv pip sync --quiet --require-hashes --python .venv-replay/bin/python requirements/replay.txt
touch .venv-replay/.ready
