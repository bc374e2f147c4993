"""What the tests of an issuer share."""

from __future__ import annotations

import pytest

from tests.support import cheap_envelopes


@pytest.fixture(autouse=True)
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Envelopes that cost nothing."""
    cheap_envelopes(monkeypatch)
