"""The judges, started once, and the shared cards that are put to them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.judges import Judge
from tests.interop.population import Sample, load_samples
from tests.interop.roster import PROGRAMS


@pytest.fixture(scope="session")
def sdk() -> Iterator[Judge]:
    """a2a-sdk; only for tests marked `needs_judges("py")`."""
    with PROGRAMS["a2a-sdk"].start() as judge:
        yield judge


@pytest.fixture(scope="session")
def js() -> Iterator[Judge]:
    """@a2a-js/sdk; only for tests marked `needs_judges("js")`."""
    with PROGRAMS["a2a-js"].start() as judge:
        yield judge


@pytest.fixture(scope="session")
def samples(shared: Path) -> tuple[Sample, ...]:
    """Every shared card; only for tests marked `needs_shared`."""
    return load_samples(shared)
