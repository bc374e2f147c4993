"""What every test may use, and which tests this machine cannot run.

A test that needs something absent is deselected, never skipped, and the last lines of the
run say how many were left out and why.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"

_LEFT_OUT = pytest.StashKey[dict[str, int]]()


def _absent() -> dict[str, str]:
    """The markers whose tests cannot run here, each with the reason."""
    absent = {}
    if not SHARED.is_dir():
        absent["needs_shared"] = "no folder `shared` beside the checkout"
    return absent


@pytest.fixture(scope="session")
def shared() -> Path:
    """The shared corpus beside the checkout; only for tests marked `needs_shared`."""
    return SHARED


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what cannot run here, and count it by reason."""
    absent = _absent()
    left_out: dict[str, int] = {}
    kept, deselected = [], []
    for item in items:
        marker = next(filter(item.get_closest_marker, absent), None)
        if marker is None:
            kept.append(item)
        else:
            deselected.append(item)
            left_out[absent[marker]] = left_out.get(absent[marker], 0) + 1
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


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say what was left out, so that a green run does not claim more than it ran."""
    for reason, count in config.stash.get(_LEFT_OUT, {}).items():
        terminalreporter.write_line(f"left out: {count} tests ({reason})")
