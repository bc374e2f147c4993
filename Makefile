# Everything that a checkout can do; needs Python 3.11 or newer and a package index.

PYTHON ?= python3
T ?=

VENV := .venv
BIN := $(VENV)/bin
PIP := python -m pip --quiet --disable-pip-version-check --require-virtualenv

# pip reads dependency groups from 25.1 on; Python reads them from 3.11 on.
DEV_GROUP := import tomllib; \
  print(*tomllib.load(open("pyproject.toml", "rb"))["dependency-groups"]["dev"], sep="\n")

# Tests that ask another SDK run where `make interop-env` has been.
CARDSIGN_JUDGE_PY ?= $(if $(wildcard .venv-judges/.installed),$(CURDIR)/.venv-judges/bin/python)
CARDSIGN_JUDGE_JS_HOME ?= $(if $(wildcard .judges-js/.installed),$(CURDIR)/.judges-js)
export CARDSIGN_JUDGE_PY CARDSIGN_JUDGE_JS_HOME

.DELETE_ON_ERROR:
.PHONY: help demo test dev check lint types format reference interop-env constraints package clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' Makefile

demo: $(VENV)/.installed  ## sign, publish, verify and attack a card, on this machine only
	@$(BIN)/python examples/demo.py

test: $(VENV)/.dev  ## run the tests; T="-k sign" goes to pytest
	@$(BIN)/python -m pytest $(T)

dev: $(VENV)/.dev  ## make .venv with cardsign (editable) and the development tools
	@:

check: lint types test  ## what a change has to pass

lint: $(VENV)/.dev  ## ruff: rules and format
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(VENV)/.dev  ## mypy --strict
	@$(BIN)/mypy --strict

format: $(VENV)/.dev  ## let ruff mend what it can
	@$(BIN)/ruff check --fix --exit-zero .
	@$(BIN)/ruff format .

reference: $(VENV)/.dev  ## write docs/cli.md and docs/reasons.md anew
	@$(BIN)/python docs/make_reference.py

interop-env: .venv-judges/.installed .judges-js/.installed  ## install the SDKs that tests ask

constraints:  ## resolve every dependency anew into constraints.txt (with the oldest Python)
	@rm -rf .venv-constraints
	@$(PYTHON) -m venv .venv-constraints
	@$(PYTHON) -c '$(DEV_GROUP)' > .venv-constraints/dev.txt
	@.venv-constraints/bin/$(PIP) install -e '.[a2a]' -r .venv-constraints/dev.txt
	@{ grep '^#' constraints.txt; .venv-constraints/bin/$(PIP) freeze --exclude-editable; } \
	  > .venv-constraints/constraints.txt
	@mv .venv-constraints/constraints.txt constraints.txt
	@rm -rf .venv-constraints

package: $(VENV)/.dev  ## build dist/*.tar.gz and dist/*.whl
	@rm -rf dist
	@$(BIN)/python -m hatchling build -d dist

clean:  ## remove everything that make has made
	rm -rf $(VENV) .venv-* .judges-js dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find cardsign docs examples tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { echo >&2 \
	  "cardsign needs Python 3.11 or newer, and $(PYTHON) is not: make PYTHON=/path/to/python3.11"; \
	  exit 1; }
	@echo "installing cardsign into $(VENV), once ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/$(PIP) install -c constraints.txt -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.installed
	@echo "installing the development tools into $(VENV), once ..."
	@$(BIN)/python -c '$(DEV_GROUP)' > $(VENV)/dev.txt
	@$(BIN)/$(PIP) install -c constraints.txt -r $(VENV)/dev.txt
	@touch $@

.venv-judges/.installed: constraints.txt
	@echo "installing a2a-sdk into .venv-judges ..."
	@$(PYTHON) -m venv .venv-judges
	@.venv-judges/bin/$(PIP) install -c constraints.txt 'a2a-sdk[signing]'
	@touch $@

.judges-js/.installed: tests/interop/package.json tests/interop/package-lock.json
	@mkdir -p .judges-js
	@cp $^ .judges-js
	@if command -v npm >/dev/null; then \
	  echo "installing @a2a-js/sdk into .judges-js ..."; \
	  npm ci --prefix .judges-js --no-audit --no-fund --loglevel=error >/dev/null && touch $@; \
	else echo "no npm on this machine: the JavaScript SDK is left out"; fi
