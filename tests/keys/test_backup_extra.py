"""Backups without the library that encrypts them."""

from __future__ import annotations

import sys

import pytest

from cardsign.errors import StoreFault
from cardsign.keys import decrypt, encrypt


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line that says what is missing; nothing is written in the clear instead."""
    monkeypatch.setitem(sys.modules, "pyrage", None)
    for use in (lambda: encrypt(b"x", ["age1x"]), lambda: decrypt(b"x", b"AGE-SECRET-KEY-1X")):
        with pytest.raises(StoreFault) as missing:
            use()
        assert missing.value.code == "usage.not_installed"
