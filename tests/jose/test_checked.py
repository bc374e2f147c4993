"""Good signatures are checked once; bad ones, and others than those, every time."""

from __future__ import annotations

import pytest

from cardsign.errors import SignatureRefused
from cardsign.jose import PrivateKey, PublicKey
from cardsign.statements import GoodSignatures


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What was really checked."""
    checks: list[bytes] = []
    check = PublicKey.check

    def counting(self: PublicKey, signing_input: bytes, signature: bytes) -> None:
        checks.append(signing_input)
        check(self, signing_input, signature)

    monkeypatch.setattr(PublicKey, "check", counting)
    return checks


def test_what_is_good_is_checked_once(alice: PrivateKey, counted: list[bytes]) -> None:
    """The same octets by the same key."""
    good, signature = GoodSignatures(), alice.sign(b"tides")
    for _ in range(3):
        good.check(alice.public, b"tides", signature)
    assert counted == [b"tides"]


def test_what_is_bad_stays_bad(alice: PrivateKey, bob: PrivateKey, counted: list[bytes]) -> None:
    """A good one beside it says nothing of another text, signature, key, or cut."""
    good, signature = GoodSignatures(), alice.sign(b"tides")
    good.check(alice.public, b"tides", signature)
    others = [
        (alice.public, b"lamps", signature),
        (alice.public, b"tides", bob.sign(b"tides")),
        (bob.public, b"tides", signature),
        (alice.public, signature[-1:] + b"tides", signature[:-1]),
    ]
    for key, text, one in others * 2:
        with pytest.raises(SignatureRefused):
            good.check(key, text, one)
    assert len(counted) == 1 + 2 * len(others)


def test_O18_the_memory_of_good_ones_is_bounded(alice: PrivateKey, counted: list[bytes]) -> None:
    """What was used longest ago is forgotten, and checked again."""
    good = GoodSignatures(2)
    texts = [b"1", b"2", b"3"]
    signatures = {text: alice.sign(text) for text in texts}
    for text in (b"1", b"2", b"1", b"3", b"1", b"2"):
        good.check(alice.public, text, signatures[text])
    assert counted == [b"1", b"2", b"3", b"2"]
