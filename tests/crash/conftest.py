"""Where crashes are replayed: in memory if that can be, since nothing there has to last."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

_MEMORY = Path("/dev/shm")


@pytest.fixture(scope="module")
def ground() -> Iterator[Path]:
    """A folder for all the tests of a module."""
    with TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as folder:
        yield Path(folder)


@pytest.fixture
def tmp_path(ground: Path) -> Iterator[Path]:
    """A folder for one test, which is gone after it, unlike the usual one of this name."""
    with TemporaryDirectory(dir=ground) as folder:
        yield Path(folder)
