"""Signing an extended card: the marker is written, signed, verified, and never left half right."""

from __future__ import annotations

from typing import Any

import pytest

from cardsign import sign_card
from cardsign.card.document import Card
from cardsign.card.extensions import ExtendedMarker, find_marker, with_marker
from cardsign.card.profiles import FULL_PROFILES, Payloads
from cardsign.errors import CardRefused
from cardsign.jose.jws import read_entry
from cardsign.jose.keys import PrivateKey
from cardsign.sign import SignedCard, SigningOptions, sign_with_notes
from cardsign.verify.signature import matching_payload
from tests.support import LAX, PORTABLE, dump, each_card, profiles_of, put, signed, without

MARKER = ExtendedMarker("7f0c1b52e6", 41, 1_798_761_600)


def sign(document: bytes, key: PrivateKey, marker: ExtendedMarker | None = MARKER) -> SignedCard:
    """What came of signing an extended card."""
    return sign_with_notes(document, [key], SigningOptions(extended=marker))


def read(document: bytes) -> ExtendedMarker | None:
    """The marker of a card's bytes."""
    return find_marker(Card.from_bytes(document).document)


@each_card
def test_the_marker_is_in_every_payload_that_is_signed(
    card: dict[str, Any], alice: PrivateKey
) -> None:
    """Whichever signature a reader takes, it holds the marker."""
    document = sign(dump(card), alice).document
    received = Card.from_bytes(document)
    payloads = Payloads(received.document)

    assert received.signatures
    for entry in map(read_entry, received.signatures):
        fitting = matching_payload(entry, alice.public, payloads)
        assert fitting is not None
        assert find_marker(fitting.value) == MARKER


@each_card
def test_a_marked_card_is_signed_as_the_same_card_without(
    card: dict[str, Any], alice: PrivateKey
) -> None:
    """It asks for no further signature."""
    marked, plain = sign(dump(card), alice), sign(dump(card), alice, None)

    assert profiles_of(marked) == profiles_of(plain)
    assert set(profiles_of(marked)) & set(FULL_PROFILES)
    assert {note.code for note in marked.notes} == {note.code for note in plain.notes}


def test_signing_again_with_the_same_marker_changes_nothing(alice: PrivateKey) -> None:
    """Bytes stay as they are, so ETags do."""
    first = sign(dump(LAX), alice)
    again = sign(first.document, alice)

    assert (first.changed, again.changed) == (True, False)
    assert again.document == first.document


def test_another_marker_is_another_card(alice: PrivateKey) -> None:
    """The old one and its signatures are replaced."""
    first = sign(dump(PORTABLE), alice)
    later = ExtendedMarker(MARKER.audience, 42, MARKER.exp)
    second = sign(first.document, alice, later)

    assert second.changed
    assert read(second.document) == later
    assert len(Card.from_bytes(second.document).signatures) == len(
        Card.from_bytes(first.document).signatures
    )


def test_a_marker_that_is_there_is_left_alone(alice: PrivateKey) -> None:
    """Signing anew, as after a change of keys, is no new statement about the audience."""
    signing = sign(dump(with_marker(PORTABLE, MARKER)), alice, None)

    assert read(signing.document) == MARKER
    assert {note.code for note in signing.notes} == {"sign.sdk_refuses"}


def test_an_unmarked_card_stays_unmarked(alice: PrivateKey) -> None:
    """The twin: nobody gets a marker who did not ask for one."""
    assert read(sign_card(dump(PORTABLE), [alice])) is None
    assert "extensions" not in signed(PORTABLE, alice)["capabilities"]


@pytest.mark.parametrize("force", [False, True], ids=["without force", "by force"])
@pytest.mark.parametrize("marker", [None, MARKER], ids=["left as it is", "written over"])
def test_a_malformed_marker_is_not_signed(
    marker: ExtendedMarker | None, force: bool, alice: PrivateKey
) -> None:
    """Somebody could take the card for a public one."""
    broken = without(with_marker(PORTABLE, MARKER), "/capabilities/extensions/0/params/audience")
    with pytest.raises(CardRefused) as refused:
        sign_with_notes(dump(broken), [alice], SigningOptions(extended=marker, force=force))

    assert refused.value.code == "extended.marker"


def test_a_card_that_cannot_hold_a_marker_is_not_signed(alice: PrivateKey) -> None:
    """Not even by force, which would make a public card of it."""
    card = put(PORTABLE, "/capabilities/extensions", {})
    with pytest.raises(CardRefused) as refused:
        sign_with_notes(dump(card), [alice], SigningOptions(extended=MARKER, force=True))

    assert (refused.value.code, refused.value.path) == ("card.type", "/capabilities/extensions")
