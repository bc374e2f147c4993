"""Where crashes are replayed: in memory if that can be, since nothing there has to last."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp

import pytest

from tests.crash.commands import CASES, PASSPHRASE, RECOVERY_PASSPHRASE, Folder
from tests.keys.states import after
from tests.support import cheap_envelopes, read_statements_once, stop_clock

_MEMORY = Path("/dev/shm")


@pytest.fixture(scope="session")
def ground() -> Iterator[Path]:
    """A folder for all tests."""
    with TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as folder:
        yield Path(folder)


@pytest.fixture
def tmp_path(ground: Path) -> Iterator[Path]:
    """A folder for one test, which is gone after it, unlike the usual one of this name."""
    with TemporaryDirectory(dir=ground) as folder:
        yield Path(folder)


@pytest.fixture(autouse=True)
def quick_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user with passphrases in the environment; envelopes that cost nothing to open.

    Commands are run an hour after what is there before them, by a clock that stands still. Nothing
    is synced in truth: what that would achieve is reckoned by the recording.
    """
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    cheap_envelopes(monkeypatch)
    read_statements_once(monkeypatch)
    stop_clock(monkeypatch, after(3600))
    monkeypatch.setenv("CARDSIGN_PASSPHRASE", PASSPHRASE)
    monkeypatch.setenv("CARDSIGN_RECOVERY_PASSPHRASE", RECOVERY_PASSPHRASE)
    monkeypatch.delenv("CARDSIGN_KEYSTORE", raising=False)


@pytest.fixture(scope="session")
def prepared(ground: Path) -> Folder:
    """Makes a folder in which a command can be run; each kind is prepared once, and copied."""
    made: dict[object, Path] = {}

    def prepare(case: str, target: Path) -> Path:
        steps = CASES[case].earlier
        if steps not in made:
            made[steps] = Path(mkdtemp(dir=ground))
            with pytest.MonkeyPatch.context() as patch:
                stop_clock(patch, after(0))
                for step in steps:
                    step(made[steps])
        return Path(shutil.copytree(made[steps], target))

    return prepare
