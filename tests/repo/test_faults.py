"""What users and attackers met stays gone: ``faults.toml`` names the tests that would see it again.

Q1 to Q90 are the faults' numbers, in groups with gaps. A place is a file, with the name of the
step, the case or the test in it; what is no matter of a test has its reason.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import read_cases

FAULTS: dict[str, list[str]] = read_cases(__file__)
NUMBERS = (*range(1, 17), *range(20, 33), *range(40, 50), *range(60, 64), 70, 71, *range(80, 91))


def test_every_fault_has_a_row() -> None:
    """In their order."""
    assert list(FAULTS) == [f"Q{number}" for number in NUMBERS]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_has_its_tests_or_its_reason(root: Path, fault: str) -> None:
    """Each file and name is there."""
    for place in FAULTS[fault]:
        file, _, name = place.partition("::")
        assert file.startswith("reason: ") or name in (root / file).read_text("utf-8"), place
    assert FAULTS[fault]
