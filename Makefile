# Everything a newcomer needs: `make demo` shows it, `make test` proves it. Both set up what is missing.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: help setup demo test test-full soak mutants bench docs lint format lock clean
.DEFAULT_GOAL := help

help: ## Show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: $(STAMP) ## Make .venv with the locked versions

$(STAMP): requirements.lock pyproject.toml
	@if command -v uv >/dev/null 2>&1; then \
		uv venv --quiet --allow-existing --python $(PYTHON) $(VENV) && \
		uv pip sync --quiet --python $(BIN)/python --require-hashes requirements.lock && \
		uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable . ; \
	else \
		$(PYTHON) -m venv $(VENV) && \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock && \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable . ; \
	fi
	@touch $@

demo: setup ## Start two real clusters, sync the example fleet from git, show what happened
	$(BIN)/python -m tests.demo

test: setup ## Run every test on real clusters
	$(BIN)/python -m fleet lab prepare images forge s3
	$(BIN)/python -m tests.suite

test-full: setup ## Run every test, and every case of the long suites (hours)
	$(BIN)/python -m fleet lab prepare images forge s3
	$(BIN)/python -m tests.suite --full

soak: setup ## An hour of commits, kills and faults at once; keeps what came of it in docs/soak.md
	$(BIN)/python -m tests.soak --write

mutants: setup ## Leave one thing out of each decision and see whether conformance notices; keeps docs/mutants.md
	$(BIN)/python -m tests.conformance.mutants --write

bench: setup ## Measure; prints figures, never fails on one
	$(BIN)/python -m tests.bench

docs: setup ## Renew the reference pages from the code
	$(BIN)/python -m docs.tools.reference

lint: setup ## Format, lint, types, layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup ## Format and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lock: setup ## Renew requirements.lock from pyproject.toml
	uv pip compile pyproject.toml --all-extras --group dev --universal --python-version 3.11 \
		--generate-hashes --no-emit-index-url --no-header --quiet --upgrade --output-file requirements.lock

clean: ## Remove what setup made
	rm -rf $(VENV)
