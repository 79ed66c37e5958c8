# Everything is installed into .venv; nothing global is touched. `make help` lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
SOURCES := controller informers ledger placement tests e2e

.PHONY: help install check format test e2e e2e-long demo lock clean

help: ## List the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

install: $(STAMP) ## Make .venv with the locked dependencies (the other targets do it when needed)

$(STAMP): requirements-dev.txt pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "error: $(PYTHON) is missing: install Python 3.11 or newer, or set PYTHON" >&2; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "error: $$($(PYTHON) --version) is too old: Python 3.11 or newer is needed (set PYTHON)" >&2; exit 2; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "error: $(PYTHON) has no venv module: on Debian, apt-get install python3-venv" >&2; exit 2; }
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $(STAMP)

check: $(STAMP) ## Formatter, linter, strict types on code and tests, import layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: $(STAMP) ## Rewrite the sources in the project's format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

test: $(STAMP) ## Fast tests: no cluster, no Go
	$(BIN)/pytest tests

e2e: $(STAMP) ## Scenarios on a real Kubernetes control plane (built on first use, needs Go)
	$(BIN)/pytest e2e -m "not long"

e2e-long: $(STAMP) ## Minutes of load and chance on a real control plane
	$(BIN)/pytest e2e -m long

demo: $(STAMP) ## Place a mix of workers on a real control plane and watch the seats fill
	$(BIN)/python -m e2e.demo

lock: $(STAMP) ## Resolve the dependencies again and write the hashed requirements files
	$(BIN)/pip-compile --quiet --generate-hashes --strip-extras --allow-unsafe --no-header --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --output-file requirements.txt pyproject.toml
	$(BIN)/pip-compile --quiet --generate-hashes --strip-extras --allow-unsafe --no-header --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --extra dev --output-file requirements-dev.txt pyproject.toml

clean: ## Remove .venv and caches of the checkout
	rm -rf $(VENV) build *.egg-info .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
