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
CARDSIGN_JUDGE_PY11 ?= $(if $(wildcard .venv-judges-1.1/.installed),$(CURDIR)/.venv-judges-1.1/bin/python)
CARDSIGN_JUDGE_PY03 ?= $(if $(wildcard .venv-judges-0.3/.installed),$(CURDIR)/.venv-judges-0.3/bin/python)
CARDSIGN_JUDGE_JS_HOME ?= $(if $(wildcard .judges-js/.installed),$(CURDIR)/.judges-js)
CARDSIGN_JUDGE_RUST ?= $(if $(wildcard .judges-rust/debug/judge),$(CURDIR)/.judges-rust/debug/judge)
export CARDSIGN_JUDGE_PY CARDSIGN_JUDGE_PY11 CARDSIGN_JUDGE_PY03 CARDSIGN_JUDGE_JS_HOME
export CARDSIGN_JUDGE_RUST

# The last releases of a2a-sdk that sign as the opt-in profiles sdk-0.3 and sdk-1.0-legacy do.
RELEASE_0.3 := 0.3.26
RELEASE_1.1 := 1.1.3

.DELETE_ON_ERROR:
.PHONY: help demo test nightly dev check lint types format reference interop interop-env \
  interop-env-all interop-table measure \
  measure-page constraints package clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' Makefile

demo: $(VENV)/.installed  ## sign, publish, verify and attack a card, on this machine only
	@$(BIN)/python examples/demo.py

test: $(VENV)/.dev  ## run the tests; T="-k sign" goes to pytest
	@$(BIN)/python -m pytest $(T)

nightly: $(VENV)/.dev  ## the tests with many more random inputs, and interop; takes long
	@CARDSIGN_EXAMPLES=40000 $(BIN)/python -m pytest -n 2 --hypothesis-profile nightly $(T)
	@$(MAKE) --no-print-directory interop T=

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

reference: $(VENV)/.dev  ## write docs/cli.md, lint.md and reasons.md anew
	@$(BIN)/python docs/make_reference.py

interop-env: $(addsuffix /.installed,.venv-judges .venv-judges-1.1 .venv-judges-0.3 .judges-js)  ## install the SDKs that tests ask

measure: $(VENV)/.dev interop-env  ## what the official SDKs say of real cards; writes docs/measurements.md
	@$(MAKE) --no-print-directory measure-page

measure-page:
	@$(BIN)/python tests/interop/measure.py

interop: $(VENV)/.dev interop-env-all  ## every card before every judge; writes docs/interop.md
	@$(MAKE) --no-print-directory interop-table

interop-table:  # by a make that finds what the one before has installed
	@$(BIN)/python tests/interop/table.py $(T)

interop-env-all: interop-env .judges-rust/debug/judge  ## install the judges of other languages too
	@:

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
	rm -rf $(VENV) .venv-* .judges-* dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
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

# An old SDK keeps to our versions but where it cannot.
.venv-judges-%/.installed: constraints.txt Makefile
	@echo "installing a2a-sdk $(RELEASE_$*) into $(@D) ..."
	@$(PYTHON) -m venv $(@D)
	@grep -v -E '^(a2a-sdk|protobuf)==' constraints.txt > $(@D)/constraints.txt
	@$(@D)/bin/$(PIP) install -c $(@D)/constraints.txt 'a2a-sdk[signing]==$(RELEASE_$*)'
	@touch $@

.judges-js/.installed: tests/interop/package.json tests/interop/package-lock.json
	@mkdir -p .judges-js
	@cp $^ .judges-js
	@if command -v npm >/dev/null; then \
	  echo "installing @a2a-js/sdk into .judges-js ..."; \
	  npm ci --prefix .judges-js --no-audit --no-fund --loglevel=error >/dev/null && touch $@; \
	else echo "no npm on this machine: the JavaScript SDK is left out"; fi

.judges-rust/debug/judge: $(addprefix tests/interop/rust/,Cargo.toml Cargo.lock src/main.rs)
	@if command -v cargo >/dev/null; then \
	  echo "building the judge in Rust into .judges-rust ..."; \
	  cargo build --quiet --locked --manifest-path $< --target-dir .judges-rust && touch $@; \
	else echo "no cargo on this machine: the judge in Rust is left out"; fi
