# Everything a newcomer needs: `make run` and `make test`. `make` alone lists the targets.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
RUN_STAMP := $(VENV)/.installed-run
STAMP  := $(VENV)/.installed
BENCH_STAMP := $(VENV)/.installed-bench
COVER_STAMP := $(VENV)/.installed-cover
DOCS_STAMP := $(VENV)/.installed-docs
PACKAGE_STAMP := $(VENV)/.installed-package
BENCH  := $(BIN)/python -m benchmarks
# Everything is read anew, as generated pages depend on code that Sphinx doesn't watch. Broken links are warnings.
SPHINX := $(BIN)/python -m sphinx -b html -d build/doctrees -j auto -E -q -n -W --keep-going
# The tests start a thousand processes of Python. Where an environment forbids it to keep what it compiles, each of them
# would compile every module again, which takes longer than all else of a start.
export PYTHONDONTWRITEBYTECODE :=
# Two processes per core, since many tests wait; an idle process takes tests from the others.
PROCESSES ?= $(shell expr 2 \* $$(getconf _NPROCESSORS_ONLN))
PYTEST := $(BIN)/pytest --numprocesses $(PROCESSES) --dist worksteal
CHECKS ?= lint types
ONCE   ?=
SITE   ?=

.DEFAULT_GOAL := help
.PHONY: help setup run test programs lint client messages types unit contract properties simulation integration nightly lowest compiled \
        test-compiled cover mutants docs manual package hooks attack walk chaos failovers pauses politeness fuzz bench bench-full screenshots clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(STAMP) ## make .venv and install everything into it

# A newcomer waits for this before the first page is crawled, so it installs only what the demo needs, and Python compiles
# a module only on import: a quarter of them, for a tenth of the 14 s of CPU that all would take.
$(RUN_STAMP): setup.cfg setup.py pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or later is needed; name one with: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing taskqueue and its dashboard into $(VENV), which takes less than half a minute …"
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-compile -e '.[robots,web]'
	@touch $@

$(STAMP): $(RUN_STAMP)
	@echo "installing what the tests need, too, which takes about a minute …"
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-compile -e '.[test]'
	@touch $@

run: $(RUN_STAMP) ## crawl the demo site through a real daemon; ONCE=1 ends with the crawl, SITE=DIR serves your pages
	@$(BIN)/taskqueue demo $(if $(ONCE),--once) $(if $(SITE),--site '$(SITE)')

# Debian packages: the browser that opens the dashboard, and the server that scrapes the metrics. On other systems, install
# them by hand.
PROGRAMS := chromium prometheus
programs:
	@{ command -v chromium && command -v prometheus && command -v promtool; } >/dev/null || { \
	  test "$$(id -u)" = 0 && command -v apt-get >/dev/null && apt-get update -qq && \
	  DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends $(PROGRAMS) >/dev/null; } || \
	  { echo "make test needs these programs; as root: apt-get install $(PROGRAMS), or install your system's packages of them"; exit 1; }

# Compiles the tests once. Otherwise each process would compile all of them while it collects, 10 s of CPU each instead of
# 4. The test run, not this step, reports errors in tests.
COLLECTED := $(VENV)/.collected
$(COLLECTED): $(STAMP)
	@$(BIN)/pytest --collect-only -q >/dev/null 2>&1 || true
	@touch $@

# The tests build the site, too, but not with the lowest versions: rich's wants a Markdown parser that is too old for MyST.
DOCS ?= $(DOCS_STAMP)

# What hypothesis tries depends on the modules that are loaded: the properties go first, in processes of their own, so
# that they try the same in every run.
test: $(STAMP) $(DOCS) ## everything that must hold
	@$(MAKE) --no-print-directory --jobs 4 --output-sync=target $(CHECKS) properties programs $(COLLECTED)
	$(PYTEST) --ignore tests/properties

lint: $(STAMP) ## style, plain words, the direction of imports, the blocking client as generated
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m tools.blocking_client --check
	$(BIN)/python -m tools.plain_words

client: $(STAMP) ## generate the blocking client from the asynchronous one
	$(BIN)/python -m tools.blocking_client

messages: $(STAMP) ## generate docs/reference/messages.md from the types of messages
	$(BIN)/python -m tools.messages

types: $(STAMP) ## mypy --strict
	$(BIN)/mypy

unit contract properties simulation integration: $(STAMP)
	$(PYTEST) $(ALSO) tests/$@

unit: ALSO := tests/test_architecture.py tests/test_docs.py
unit: ## one piece at a time, plain numbers for time
contract: ## what every store promises; the protocol, byte for byte
properties: ## the real thing beside a naive model
simulation: ## hours of faults from one seed, 80 seeds
integration: $(DOCS) ## real sockets, processes and disk

nightly: $(STAMP) $(DOCS) programs ## all tests with many more seeds and examples, also random ones: some hours
	TASKQUEUE_NIGHTLY=1 $(PYTEST) --timeout 3600 --hypothesis-profile=explore

# setup.cfg has these versions. pip reads them from the environment, since the inner make calls it in `setup`. Types are
# left out: old versions of pyzmq and urllib3 have fewer annotations for the same code.
LOWEST := .venv-lowest
lowest: ## everything that must hold, with the lowest versions that setup.cfg allows, in a venv of their own
	@mkdir -p $(LOWEST)
	@$(PYTHON) tools/lowest.py > $(LOWEST)/constraints.txt
	PIP_CONSTRAINT=$(CURDIR)/$(LOWEST)/constraints.txt $(MAKE) --no-print-directory VENV=$(LOWEST) CHECKS=lint DOCS= test

# Installed, not linked, so that nothing compiled lies beside the sources. All other packages are those of the first venv;
# the checkout comes last on the path, for the tests and benchmarks. MYPYC_OPT_LEVEL sets the C compiler's level.
COMPILED := .venv-compiled
COMPILED_STAMP := $(COMPILED)/.installed
compiled: $(COMPILED_STAMP) ## a build with a compiled core, in a venv of its own; takes two minutes and a C compiler

$(COMPILED_STAMP): $(STAMP) $(shell find taskqueue -name '*.py')
	@test -x $(COMPILED)/bin/python || $(PYTHON) -m venv --without-pip $(COMPILED)
	@echo "compiling into $(COMPILED) …"
	@rm -rf build/lib.* build/temp.* build/bdist.* build/__native* $(COMPILED)/dist
	@TASKQUEUE_COMPILE=1 $(BIN)/python -m pip wheel -q --no-build-isolation --no-deps --wheel-dir $(COMPILED)/dist .
	@$(BIN)/python -m pip --python $(COMPILED)/bin/python install -q --no-deps --force-reinstall $(COMPILED)/dist/*.whl
	@{ $(BIN)/python -c 'import site; print(site.getsitepackages()[0])'; echo '$(CURDIR)'; } > \
	  "$$($(COMPILED)/bin/python -c 'import site; print(site.getsitepackages()[0])')/zz_the_rest.pth"
	@touch $@

# Left out: tests of modules that both builds interpret, and planted bugs, which compiled functions don't allow. The longest
# tests come first.
COMPILED_PYTEST := PYTHONSAFEPATH=1 $(COMPILED)/bin/python -m pytest -o pythonpath= --numprocesses $(PROCESSES) --dist worksteal
COMPILED_TESTS := --ignore tests/simulation/test_mutants.py tests/simulation tests/contract tests/unit/core \
                  tests/unit/settings tests/unit/hosts/test_url_hosts.py tests/unit/store/test_*.py tests/unit/store/records \
                  tests/unit/server/test_*.py tests/unit/server/network tests/unit/client/connection
DIGESTS := --seed 0 --count 20 | sed 's/ in [0-9.]* s$$//'
test-compiled: $(COMPILED_STAMP) ## unit, contract, properties and simulation on the compiled core, with the same digests
	@$(COMPILED)/bin/python -P -m taskqueue --version | grep ', compiled'
	@$(BIN)/python -m tests.simulation $(DIGESTS) > build/digests
	@$(COMPILED)/bin/python -P -m tests.simulation $(DIGESTS) | cmp - build/digests
	@echo 'simulated worlds have the same digests on either build'
	$(COMPILED_PYTEST) tests/properties
	$(COMPILED_PYTEST) $(COMPILED_TESTS)

$(COVER_STAMP): $(STAMP)
	@$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[cover]'
	@touch $@

cover: $(COVER_STAMP) ## branch coverage of in-process tests, of all code and of the core; lists branches that no test takes
	$(PYTEST) --cov --cov-report= tests/unit tests/contract tests/properties tests/simulation tests/integration/test_database*.py
	@$(BIN)/coverage report --skip-covered --show-missing
	@$(BIN)/python tools/cover.py

mutants: $(STAMP) ## bugs planted in the real code, each of which the simulation or a test must notice
	@$(BIN)/python -m tests.simulation.mutants
	@$(BIN)/python -m tests.mutants

$(DOCS_STAMP): $(STAMP)
	@$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[docs]'
	@touch $@

docs: $(DOCS_STAMP) ## the documents and the generated reference as HTML, in build/docs; fails on any warning
	@$(SPHINX) docs build/docs
	@echo "the documents are in build/docs/index.html"

manual: $(RUN_STAMP) ## the manual pages and completions of the commands' own help, in share
	@rm -rf share
	@$(BIN)/python -m tools.manual share

$(PACKAGE_STAMP): $(RUN_STAMP)
	@$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[package]'
	@touch $@

# The package's page has links only where TASKQUEUE_REPOSITORY is the address of the repository, which pyroma asks for. The
# developers have no address for mail, which it would count, too.
package: $(PACKAGE_STAMP) manual ## archive of the sources and wheel, in dist, and what strict checkers say of them
	@rm -rf dist
	$(BIN)/python -m build
	$(BIN)/twine check --strict dist/*
	$(BIN)/check-wheel-contents dist/*.whl
	$(BIN)/pyroma --skip-tests AuthorEmail --min $(if $(TASKQUEUE_REPOSITORY),10,9) dist/*.tar.gz

hooks: $(STAMP) ## let git check style, imports and message at each commit, types before each push
	@$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[hooks]'
	@$(BIN)/pre-commit install

# Some gigabytes of memory are used if a bound does not hold; a daemon that takes more than 6 GiB is killed.
ATTACKS := tests/attack/results
attack: $(STAMP) ## a real daemon beside every kind of bad peer, without and with keys, half an hour, and the tables of results
	-$(BIN)/python -m tests.attack --compare $(ATTACKS)/before.json --json $(ATTACKS)/after.json
	-$(BIN)/python -m tests.attack --keys --json $(ATTACKS)/keys.json
	$(BIN)/python -m tests.attack --report
	$(BIN)/python -m tests.attack.page

walk: $(STAMP) programs ## network namespaces as machines: what strangers are told; from nothing to production, with Prometheus
	$(BIN)/python -m tests.walk
	$(BIN)/python -m tests.walk.production

chaos: $(STAMP) ## kills, power cuts, a failing disk and damage beneath a real daemon, ten minutes, and its ledger
	$(BIN)/python -m tests.chaos --write

failovers: $(STAMP) ## a database that fails over under load, forty times, five minutes, and the ledger
	$(BIN)/python -m tests.chaos.failovers --write

pauses: $(STAMP) ## a store that fails for a moment, and how long 100 and 5,000 clients stand still, five minutes
	$(BIN)/python -m tests.chaos.pauses --write

politeness: $(STAMP) ## 200 hosts on loopback, four fetchers and a daemon, some of them killed, and what the hosts saw
	$(BIN)/python -m tests.politeness --write

fuzz: $(STAMP) ## a hundred times as many requests to the HTTP interface as in make test, made from its document
	TASKQUEUE_NIGHTLY=1 $(BIN)/pytest --timeout 3600 tests/integration/test_http_fuzz.py

$(BENCH_STAMP): $(STAMP)
	@echo "installing the systems that the benchmarks compare with …"
	@$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[bench]'
	@touch $@

# Other builds to measure in the same rounds: --compiled VENV, --before VENV.
BUILDS ?=
bench: $(BENCH_STAMP) ## every benchmark in a short form, a quarter of an hour, and the tables and plots of its figures
	$(BENCH).lifecycle --save --rounds 3 --tasks 40000 $(BUILDS)
	$(BENCH).apart --save --rounds 2 --tasks 40000 $(BUILDS)
	$(BENCH).limit --save --rounds 3 --tasks 40000 $(BUILDS)
	$(BENCH).clients --save --rounds 1 --tasks 10000 $(BUILDS)
	$(BENCH).growth --save --rounds 3 --levels 0,100k --tasks 20k
	$(BENCH).known --save --rounds 2 --known 100000 --tasks 20000
	$(BENCH).undo --save --rounds 2 --tasks 100000
	$(BENCH).database.lifecycles --save --rounds 2 --tasks 20000 $(BUILDS)
	$(BENCH).database.size --save --rounds 2 --levels 100k --tasks 20k
	$(BENCH).database.steady --save --minutes 2 --rate 3000
	$(BENCH).database.moving --save --tasks 50k
	$(BENCH).latency --save --rounds 2 --probes 100 $(BUILDS)
	$(BENCH).lateness --save --rounds 1 --timers 20000 --seconds 2 --far 100000 $(BUILDS)
	$(BENCH).idle --save --tasks 100000 --seconds 20 $(BUILDS)
	$(BENCH).sizing --save --rounds 1 --tasks 20000
	$(BENCH).slots --save --only core,daemon,scrapy --slots 1k,10k --tasks 50000 --measured 40000
	$(BENCH).web --save --rounds 1 --tasks 100000
	$(BENCH).keys --save --rounds 2 --tasks 20000 --probes 100 --connections 300 $(BUILDS)
	$(BENCH).report

bench-full: $(BENCH_STAMP) ## the same in full: some hours, up to 30 million tasks
	$(BENCH).lifecycle --save --rounds 5 $(BUILDS)
	$(BENCH).apart --save --rounds 5 $(BUILDS)
	$(BENCH).limit --save --rounds 5 --tasks 200000 $(BUILDS)
	$(BENCH).clients --save --rounds 3 --tasks 40000 $(BUILDS)
	$(BENCH).growth --save --full
	$(BENCH).known --save
	$(BENCH).undo --save
	$(BENCH).database.lifecycles --save $(BUILDS)
	$(BENCH).database.size --save
	$(BENCH).database.steady --save
	$(BENCH).database.steady --save --minutes 6 --snapshot 3
	$(BENCH).database.inbox --save
	$(BENCH).database.moving --save
	$(BENCH).latency --save $(BUILDS)
	$(BENCH).lateness --save $(BUILDS)
	$(BENCH).overdue $(BUILDS)
	$(BENCH).idle --save --rounds 3 $(BUILDS)
	$(BENCH).idle_clients
	$(BENCH).sizing --save
	$(BENCH).soak --save
	$(BENCH).slots --save --slots 1k,1m,10m --only daemon
	$(BENCH).slots --save --slots 1k,100k,1m --only core,memory,idle,scrapy
	$(BENCH).web --save --rounds 5
	$(BENCH).keys --save $(BUILDS)
	$(BENCH).store --tasks 1m,10m
	$(BENCH).check --tasks 1m
	$(BENCH).night
	$(BENCH).remaining
	$(BENCH).instructions
	$(BENCH).report

screenshots: $(STAMP) programs ## the documents' pictures, of a crawl of some minutes, in docs/img
	@$(BIN)/python -m tests.integration.browser.screenshots

clean: ## remove what the other targets made
	rm -rf $(VENV) $(LOWEST) $(COMPILED) data build dist share *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis \
          .coverage*
