# Everything is installed into .venv and nothing globally. `make help` lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEPENDENCIES := $(VENV)/.dependencies
STAMP := $(VENV)/.installed
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
COMPILE := $(BIN)/pip-compile --quiet --generate-hashes --strip-extras --allow-unsafe --no-header \
	--no-emit-index-url --no-emit-trusted-host --no-emit-find-links
GO_MODULE := e2e/controlplane/tools/kubernetes
GO_VERSION = $(shell sed -n 's/^go //p' $(GO_MODULE)/go.mod)

IMAGE ?=
BASE ?=
WHEELS ?=

.PHONY: help install check format test e2e e2e-kind e2e-kueue e2e-long image demo bench docs lock clean go

help: ## List the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

install: $(STAMP) ## Create .venv with the locked dependencies (the other targets do it if needed)

$(DEPENDENCIES): requirements-dev.txt
	@command -v $(PYTHON) >/dev/null || { echo "error: $(PYTHON) is missing: install Python 3.11 or newer, or set PYTHON" >&2; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "error: $$($(PYTHON) --version) is too old: Python 3.11 or newer is needed (set PYTHON)" >&2; exit 2; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "error: $(PYTHON) has no venv module: on Debian, apt-get install python3-venv" >&2; exit 2; }
	$(PYTHON) -m venv --clear $(VENV)
	$(PIP) install --require-hashes -r requirements-dev.txt
	@touch $@

$(STAMP): $(DEPENDENCIES) pyproject.toml
	@# setuptools warns about the folder names of every editable install. The folders are the packages.
	PYTHONWARNINGS=ignore $(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

check: $(STAMP) ## Formatter, linter, strict types on code and tests, import layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: $(STAMP) ## Format the sources
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

test: $(STAMP) ## Fast tests: no cluster, no Go
	$(BIN)/pytest tests -m "not long"

e2e: go ## Scenarios on a real Kubernetes control plane (built on first use, needs Go)
	$(BIN)/pytest e2e -m "not long"

e2e-kind: $(STAMP) ## Scenarios on a kind cluster, the controller as installed (needs Docker and kind, or a kit)
	E2E_PROVIDER=kind $(BIN)/pytest e2e

e2e-kueue: go ## Scenarios beside a real Kueue (built on first use, needs Go)
	$(BIN)/pytest e2e/kueue

e2e-long: go ## Load and random faults for minutes, simulated and on a real control plane
	$(BIN)/pytest tests -m long
	$(BIN)/pytest e2e -m long

image: $(STAMP) ## Build the container image: IMAGE=name BASE=python-image WHEELS=true (no package index in the build)
	$(BIN)/python -m e2e.kind image --tag="$(IMAGE)" --base="$(BASE)" --wheels="$(WHEELS)"

demo: $(if $(filter local,$(CLUSTER)),go,$(STAMP)) ## Demo on an in-memory cluster; CLUSTER=local: on a real control plane
	@case "$(CLUSTER)" in ""|embedded|local) ;; *) echo "error: CLUSTER=$(CLUSTER): use embedded (the default) or local" >&2; exit 2;; esac
	$(BIN)/$(if $(filter local,$(CLUSTER)),python -m e2e.demo,open-rl-scheduler demo)

bench: go ## Benchmarks on a real control plane, compared with a baseline that decides nothing (20 minutes)
	$(BIN)/python -m bench

docs: $(STAMP) ## Generate the tables of settings, metrics and events in docs/
	$(BIN)/python -m tests.docs.settings_table
	$(BIN)/python -m tests.docs.metrics_table

lock: $(STAMP) ## Resolve the dependencies and write the hashed requirements files
	$(COMPILE) --output-file requirements.txt pyproject.toml
	$(COMPILE) --extra dev --output-file requirements-dev.txt pyproject.toml

clean: ## Remove .venv and the caches of the checkout
	rm -rf $(VENV) build *.egg-info .mypy_cache .pytest_cache .ruff_cache .import_linter_cache

# Go builds the control plane. A built control plane needs no Go, and neither does a cluster of E2E_KUBECONFIG.
go: $(STAMP)
	@[[ -n "$${E2E_KUBECONFIG:-}" ]] \
		|| $(BIN)/python -c 'from e2e.controlplane.processes.binaries import cached_binaries; raise SystemExit(cached_binaries() is None)' \
		|| (cd $(GO_MODULE) && GOWORK=off go list -m) >/dev/null 2>&1 \
		|| { echo "error: building the control plane needs Go $(GO_VERSION) or newer on the PATH: https://go.dev/dl/" >&2; exit 2; }
