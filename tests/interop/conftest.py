"""The judges, started once, and the shared cards that are put to them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.judges import Judge
from tests.interop.population import Sample, load_samples
from tests.interop.roster import PROGRAMS, VERIFIERS, Verifier


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


MARKS = {"CARDSIGN_JUDGE_PY": "py", "CARDSIGN_JUDGE_JS_HOME": "js"}
ASKED = [
    pytest.param(
        verifier,
        marks=pytest.mark.needs_judges(MARKS[variable]) if variable else (),
        id=name,
    )
    for name, verifier in VERIFIERS.items()
    if (variable := PROGRAMS[verifier.program].variable) != "CARDSIGN_JUDGE_RUST"
]


@pytest.fixture(scope="module", params=ASKED)
def verifier(request: pytest.FixtureRequest) -> Verifier:
    """Each verifier of the roster, where it is installed."""
    verifier: Verifier = request.param
    return verifier


@pytest.fixture(scope="module")
def judge(verifier: Verifier) -> Iterator[Judge]:
    """Its program."""
    with PROGRAMS[verifier.program].start() as judge:
        yield judge
