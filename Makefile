# Everything a person or CI does here. Needs GNU make and a Python >= 3.11, nothing else.

REPLICAS ?= 3
PORT     ?= 8080
TESTS    ?= tests
# One more than there are cores: many tests wait for a time to pass.
JOBS     ?= $(shell $(or $(PYTHON),python3) -c 'import os; print((os.cpu_count() or 1) + 1)' 2>/dev/null || echo auto)
SIZES    ?= 100,1000,10000,100000
ADAPTERS ?=
STORES   ?=
PLAN     ?= all
APPROVALS ?= 1000
HITS     ?= 50
SEED     ?=
ONLY     ?=
PYTHON   ?=

VENV      := .venv
RUN       := $(VENV)/bin/python
INSTALLED := $(VENV)/.installed

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help install up demo down status test upstream-suite chaos chaos-mutants chaos-soak prove check bench-growth \
    format lock clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(INSTALLED) ## Make .venv with exactly what requirements.lock names

up: $(INSTALLED) ## Run the local cluster in the foreground (REPLICAS=3 PORT=8080)
	@$(RUN) -m deploy.cluster up --replicas $(REPLICAS) --port $(PORT) $(if $(wildcard .env),--env-file .env)

demo: $(INSTALLED) ## Drive the running cluster as a user would; fails if a promise broke
	@$(RUN) -m deploy.demo

down: $(INSTALLED) ## Stop the local cluster
	@$(RUN) -m deploy.cluster down

status: $(INSTALLED) ## Show the replicas of the local cluster
	@$(RUN) -m deploy.cluster status

test: $(INSTALLED) ## Run the tests (TESTS=tests/unit JOBS=4)
	@$(RUN) -m pytest -n $(JOBS) --dist loadgroup -m 'not slow' $(TESTS)

upstream-suite: $(INSTALLED) ## Run upstream's own tests on this host (STORES=memory or sqlite)
	@$(RUN) -m tests.upstream_suite --stores $(or $(STORES),memory)

chaos: $(INSTALLED) ## Kill replicas while users approve (STORES=sqlite|postgres|redis|mixed PLAN=all APPROVALS=1000 HITS=50)
	@$(RUN) -m loadtests.chaos run --stores $(or $(STORES),sqlite) --plan $(PLAN) --approvals $(APPROVALS) --hits $(HITS) \
	    $(if $(SEED),--seed $(SEED))

chaos-mutants: $(INSTALLED) ## Switch deliberate bugs on, one at a time: the checker must catch each (ONLY=name,name)
	@$(RUN) -m loadtests.chaos mutants $(if $(ONLY),--only $(ONLY))

chaos-soak: $(INSTALLED) ## Ten minutes of everything on PostgreSQL; memory, connections and store size must be flat
	@$(RUN) -m loadtests.chaos run --stores $(or $(STORES),postgres) --soak --seconds-min 600 --seconds-max 600

prove: $(INSTALLED) ## Run everything: all tests, chaos on every kind of store, mutants, soak, growth curves (about two hours)
	@$(RUN) -m pytest -n $(JOBS) --dist loadgroup $(TESTS)
	@for stores in sqlite postgres redis mixed; do $(MAKE) --no-print-directory chaos STORES=$$stores || exit 1; done
	@$(MAKE) --no-print-directory chaos-mutants
	@$(MAKE) --no-print-directory chaos-soak STORES=postgres
	@$(MAKE) --no-print-directory bench-growth

check: $(INSTALLED) ## Lint, format check, types, import contracts
	@$(RUN) -m ruff check .
	@$(RUN) -m ruff format --check .
	@$(RUN) -m mypy
	@$(VENV)/bin/lint-imports

bench-growth: $(INSTALLED) ## Print what the stores cost against what is stored (SIZES=100,1000,10000,100000)
	@$(RUN) -m loadtests.bench.growth --sizes $(SIZES) $(if $(ADAPTERS),--adapters $(ADAPTERS))

format: $(INSTALLED) ## Format and sort imports
	@$(RUN) -m ruff check --select I --fix .
	@$(RUN) -m ruff format .

lock: $(INSTALLED) ## Resolve pyproject.toml anew into requirements.lock
	@$(VENV)/bin/uv lock --quiet --upgrade
	@$(VENV)/bin/uv export --quiet --frozen --all-groups --no-emit-project --no-header --no-annotate -o requirements.lock

clean: ## Remove .venv, caches and the local cluster's files
	@if [ -x $(RUN) ] && [ -e .agui/cluster.json ]; then $(RUN) -m deploy.cluster down; fi
	@rm -rf $(VENV) .agui .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find . -name node_modules -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

$(RUN):
	@for python in $(PYTHON) python3 python python3.14 python3.13 python3.12 python3.11; do \
	    if "$$python" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	        "$$python" -m venv --clear $(VENV) && exit 0; \
	    fi; \
	done; \
	echo 'No Python >= 3.11 with venv and ensurepip found; name one: make install PYTHON=/path/to/python3' >&2; exit 1

# The installer comes from the lock as well, so that everything is checked by hash; then it installs the rest.
$(INSTALLED): requirements.lock | $(RUN)
	@echo 'Installing what requirements.lock names into $(VENV); the first time this takes about a minute.'
	@sed -n '/^uv==/,/[^\\]$$/p' requirements.lock > $(VENV)/installer.txt
	@$(RUN) -m pip install --quiet --disable-pip-version-check --require-hashes -r $(VENV)/installer.txt
	@$(VENV)/bin/uv pip sync --quiet --compile-bytecode --python $(RUN) --require-hashes requirements.lock
	@touch $@
