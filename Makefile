# Everything a newcomer needs: `make run` and `make test`. `make` alone lists the targets.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
ONCE   ?=
SITE   ?=

.DEFAULT_GOAL := help
.PHONY: help setup run test lint types unit contract properties simulation integration mutants bench clean

help: ## list the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(STAMP) ## make .venv and install everything into it

$(STAMP): setup.cfg setup.py pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or later is needed; name one with: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV), which takes half a minute …"
	@$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[test]'
	@touch $@

run: $(STAMP) ## crawl the demo site through a real daemon; ONCE=1 ends with the crawl, SITE=DIR serves your pages
	@$(BIN)/taskqueue demo $(if $(ONCE),--once) $(if $(SITE),--site '$(SITE)')

test: lint types unit contract properties simulation integration ## everything that must hold

lint: $(STAMP) ## style and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache

types: $(STAMP) ## mypy --strict
	$(BIN)/mypy

unit contract properties simulation integration: $(STAMP)
	$(BIN)/pytest $(ALSO) tests/$@

unit: ALSO := tests/test_architecture.py tests/test_docs.py
unit: ## one piece at a time, plain numbers for time
contract: ## what every store promises; the protocol, byte for byte
properties: ## the real thing beside a naive model
simulation: ## hours of faults from one seed, 200 seeds
integration: ## real sockets, processes and disk

mutants: $(STAMP) ## bugs planted in the real code, each of which the simulation must catch
	@$(BIN)/python -m tests.simulation.mutants

bench: $(STAMP) ## lifecycles a second through a real daemon, and what the store costs, in a few minutes
	$(BIN)/python benchmarks/lifecycle.py
	$(BIN)/python benchmarks/store.py --quick

clean: ## remove what the other targets made
	rm -rf $(VENV) data build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
