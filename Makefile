# Everything a developer needs. `make` alone prints this help; docs/development.md says the rest.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

BIN := .venv/bin
READY := .venv/.ready
ARGS ?=

.PHONY: help setup apt demo check format test pythons slowly differential sim faults lab bench bench-quick bench-growth figures lock changelog clean

help: ## print this
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "  PYTHON=/path/to/python3.12 make setup    choose the Python (3.11 or newer)"
	@echo "  make test ARGS='-k fence -x'             hand arguments to pytest"
	@echo "  TORPOR_BENCH_POSTGRES=postgresql://...   the server that make bench measures on; else one of its own"

setup: $(READY) ## make .venv with the pinned requirements, once

$(READY): requirements/development.txt pyproject.toml scripts/setup
	@scripts/setup
	@touch $@

apt: ## make sure that what the tests start from Debian is installed: PostgreSQL, PgBouncer, ip, dbus-daemon, QEMU
	@scripts/servers

demo: $(READY) ## audit a real folder while workers are killed and frozen, and prove that nothing repeated
	@$(BIN)/torpor demo $(ARGS)

check: $(READY) ## style, types and floors: ruff, mypy, import-linter
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: $(READY) ## let ruff format the code and mend what it can
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

test: check lab ## check, then every test; pytest has the last word
	@$(BIN)/pytest -m alone
	@$(BIN)/pytest -n 3 --maxschedchunk 16 -m "not alone" $(ARGS)

pythons: ## the tests of rouse on every other CPython from 3.11: PYTHONS='/path/to/python3.13'
	@scripts/pythons $(ARGS)

differential: $(READY) ## a model and both stores in step: EXAMPLES histories (200) from SEED (0); a failure is shrunk
	@TORPOR_EXAMPLES=$(or $(EXAMPLES),200) TORPOR_SEED=$(or $(SEED),0) \
		$(BIN)/pytest --timeout=0 tests/simulation/test_differential.py $(ARGS)

faults: $(READY) apt ## real faults under load: MINUTES (1) on STORE (postgres, sqlite), from SEED, of the kinds FAULTS=kill,stop
	@nice -n 10 $(BIN)/python -m tests.faults --minutes $(or $(MINUTES),1) --store $(or $(STORE),postgres) \
		$(if $(SEED),--seed $(SEED)) $(if $(FAULTS),--faults $(FAULTS)) $(ARGS)

sim: $(READY) ## repeat a simulated world, and shrink one that fails: SEED=1234; many: SEEDS=1000; STORE=postgres
	@$(BIN)/python -m tests.simulation --seed $(or $(SEED),1) --seeds $(or $(SEEDS),0) --store $(or $(STORE),sqlite) $(ARGS)

lab: $(READY) apt ## make the guest of tests/lab and boot it, once per machine, in two minutes; make test does it too
	@$(BIN)/python -m tests.lab

slowly: $(READY) apt ## the tests on a slow machine, whose pauses are drawn from SEED=7; what fails hopes for pace
	@SLOWNESS=$(or $(SEED),1) $(BIN)/pytest -n 6 -m "not alone" $(ARGS)

bench: $(READY) ## every workload, on both stores, in turn with the peers, whose environments it makes; a quarter of an hour
	@$(BIN)/python bench/run.py $(ARGS)

bench-quick: $(READY) ## the same in two minutes, torpor and the floor alone
	@$(BIN)/python bench/run.py --quick $(ARGS)

bench-growth: $(READY) ## torpor alone, up to a million parked runs and 100,000 steps in a run
	@$(BIN)/python bench/run.py --growth $(ARGS)

figures: $(READY) ## put what bench and bench-growth measured last into docs/performance.md, with charts
	@$(BIN)/python bench/draw.py --take

lock: ## pin the requirements anew from pyproject.toml
	@scripts/lock

changelog: $(READY) ## move the fragments of changelog.d into CHANGELOG.md, at a release
	@$(BIN)/towncrier build --yes

clean: ## remove everything that make, tools and the demo made, .venv too
	@rm -rf .venv .peers .pythons build dist .torpor .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	@find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
