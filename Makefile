# What people run in a checkout; needs Python 3.11 or newer and a package index.
# What takes another environment, or hours, stands in noxfile.py: .venv/bin/nox --list

PYTHON ?= python3
T ?=

# Every start of Python in the tests would compile cardsign anew.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
BIN := $(VENV)/bin
PIP := python -m pip --quiet --disable-pip-version-check --require-virtualenv

# pip reads dependency groups from 25.1 on; Python reads them from 3.11 on.
DEV := import tomllib; groups = tomllib.load(open("pyproject.toml", "rb"))["dependency-groups"]; \
  print(*groups["dev"], sep="\n")

.DELETE_ON_ERROR:
.PHONY: help demo test check lint types format reference bench docs tools dev package clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

demo: $(VENV)/.demo  ## sign, publish, verify and attack a card, on this machine only
	@$(BIN)/python examples/demo.py

test: $(VENV)/.dev  ## run the tests on all cores; T="-k sign" goes to pytest
	@$(BIN)/python -m pytest -n auto --dist worksteal $(T)

check: lint types test  ## what a change has to pass

lint: $(VENV)/.dev  ## ruff: rules and format; import-linter: which room imports which
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports --no-cache

types: $(VENV)/.dev  ## mypy --strict
	@$(BIN)/mypy --strict

format: $(VENV)/.dev  ## let ruff fix what it can
	@$(BIN)/ruff check --fix --exit-zero .
	@$(BIN)/ruff format .

reference: $(VENV)/.dev  ## write the pages of docs/reference that repeat the program anew
	@$(BIN)/python docs/reference/make_reference.py

bench: $(VENV)/.installed  ## how fast, as ratios, beside other SDKs where they are; T="--page"
	@$(BIN)/python bench/run.py $(T)
	@$(BIN)/python bench/commands.py

docs: $(VENV)/.dev  ## the documentation as a site in .site/site; a link that leads nowhere fails
	@$(BIN)/nox -s docs

tools: $(VENV)/.dev  ## install what more tests drive: servers, stores, a browser, other SDKs
	@$(BIN)/nox -s tools

dev: $(VENV)/.dev  ## make .venv with cardsign (editable) and the development tools
	@:

package: $(VENV)/.dev  ## build dist/*.tar.gz and dist/*.whl
	@rm -rf dist
	@$(BIN)/python -m hatchling build -d dist

clean:  ## remove everything that make and nox have made
	rm -rf $(VENV) .nox .site dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find bench cardsign docs examples tests -name __pycache__ -type d -prune -exec rm -rf {} +

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
	@$(BIN)/python -c '$(DEV)' > $(VENV)/dev.txt
	@$(BIN)/$(PIP) install -c constraints.txt -r $(VENV)/dev.txt
	@touch $@

# One step of the demo uses a2a-sdk; without it the step says so.
$(VENV)/.demo: $(VENV)/.installed
	@echo "installing a2a-sdk into $(VENV), once ..."
	@$(BIN)/$(PIP) install -c constraints.txt 'a2a-sdk[signing]' && touch $@ || \
	  echo "a2a-sdk could not be installed: one step of the demo is left out"
