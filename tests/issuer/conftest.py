"""What the tests of an issuer share."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def always_cheap(cheap: None) -> None:
    """No test of this room is about what an envelope costs."""
