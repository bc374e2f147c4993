"""The judges, started once, and what the experiment found out with them."""

from __future__ import annotations

import fcntl
import os
import pickle
from collections.abc import Iterator, Mapping
from pathlib import Path

import judges
import pytest
from experiment import ALGORITHMS, Row, run
from judges import Judge
from samples import Sample, load_samples

from cardsign import PrivateKey


@pytest.fixture(scope="session")
def sdk() -> Iterator[Judge]:
    """a2a-sdk; only for tests marked `needs_judges("py")`."""
    with judges.a2a_sdk() as judge:
        yield judge


@pytest.fixture(scope="session")
def js() -> Iterator[Judge]:
    """@a2a-js/sdk; only for tests marked `needs_judges("js")`."""
    with judges.a2a_js() as judge:
        yield judge


@pytest.fixture(scope="session")
def samples(shared: Path) -> tuple[Sample, ...]:
    """Every shared card; only for tests marked `needs_shared`."""
    return load_samples(shared)


@pytest.fixture(scope="session")
def rows(
    shared: Path, sdk: Judge, js: Judge, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, tuple[Row, ...]]:
    """The findings by algorithm: one row for each shared card."""

    def find_out() -> Mapping[str, tuple[Row, ...]]:
        return {alg: run(shared, PrivateKey.generate(alg), sdk, js) for alg in ALGORITHMS}

    if "PYTEST_XDIST_WORKER" not in os.environ:
        return find_out()
    # Each worker is a session of its own; the first one finds out for all.
    folder = tmp_path_factory.getbasetemp().parent
    found = folder / "interop-rows"
    with (folder / "interop-lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not found.exists():
            found.write_bytes(pickle.dumps(find_out()))
    shared_rows: Mapping[str, tuple[Row, ...]] = pickle.loads(found.read_bytes())
    return shared_rows
