"""A short load with every fault: no wrong byte, nothing older than seen, no error of the server."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.load.run import CARD, EXTENDED, FAULTS, Load


@pytest.mark.thorough
@pytest.mark.needs_redis
def test_nothing_goes_wrong_under_load_with_faults(tmp_path: Path) -> None:
    """`nox -s nightly` has the long one."""
    found = Load(tmp_path, 4000, 400).run(rounds=1)
    assert set(found.faults) == set(FAULTS)
    assert dict(found.answers) == {(CARD, 200): 4000, (EXTENDED, 200): 400}
    assert (found.wrong, found.older, found.server_errors) == (0, 0, 0)
    assert found.memory[1] < 2 * found.memory[0] + 50_000
