"""What was signed is found where it differs as the usual mistakes do, and nothing is made up.

The bytes that are signed here are written by the standard library or by hand, never by the code
under test.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from explaining import explained, only, over

from cardsign.card.canonical import Payloads, canonicalize
from cardsign.explain import repairs
from cardsign.explain.repairs import Suspect, search
from cardsign.explain.report import Edit, Signed
from cardsign.jose.jws import read_entry, sign_payload
from cardsign.jose.keys import PrivateKey
from tests.support import LAX, OLD, PORTABLE, pointers, put, without

SERVED = "served-as-is"
NO_VERSION = without(LAX, "/version")
NO_PROTOCOL = without(OLD, "/protocolVersion")

#: What was received, the bytes that were signed, their profile, how the received card differs.
EDITS: dict[str, tuple[dict[str, Any], bytes, str, Edit]] = {
    "a member added in transit": (
        {**LAX, "x-note": "new"},
        canonicalize(LAX, SERVED).data,
        SERVED,
        Edit("/x-note", None, '"new"'),
    ),
    "an element added deep inside": (
        put(PORTABLE, "/skills/0/tags", ["sea", "shore"]),
        canonicalize(PORTABLE, SERVED).data,
        SERVED,
        Edit("/skills/0/tags/1", None, '"shore"'),
    ),
    "a REQUIRED member that only the signer writes out": (
        NO_VERSION,
        canonicalize({**LAX, "version": ""}, SERVED).data,
        SERVED,
        Edit("/version", '""', None),
    ),
    "an optional flag that only the signer writes out": (
        PORTABLE,
        canonicalize(put(PORTABLE, "/capabilities/pushNotifications", False), SERVED).data,
        SERVED,
        Edit("/capabilities/pushNotifications", "false", None),
    ),
    "an empty list that only the signer writes out": (
        PORTABLE,
        canonicalize(put(PORTABLE, "/skills/0/examples", []), SERVED).data,
        SERVED,
        Edit("/skills/0/examples", "[]", None),
    ),
    "a default of 0.3 that only the signer writes out": (
        NO_PROTOCOL,
        canonicalize(OLD, SERVED).data,
        SERVED,
        Edit("/protocolVersion", '"0.3.0"', None),
    ),
    "a tag added to a card that a pruning SDK signed": (
        put(LAX, "/skills/0/tags", ["new", "sea"]),
        canonicalize(LAX, "prune-empty").data,
        "prune-empty",
        Edit("/skills/0/tags/0", None, '"new"'),
    ),
    "a member added to a card that the JavaScript SDK signed": (
        {**OLD, "iconUrl": "https://tides.example/icon"},
        canonicalize(OLD, "js-instance").data,
        "js-instance",
        Edit("/iconUrl", None, '"https://tides.example/icon"'),
    ),
}


@pytest.mark.parametrize(("card", "payload", "profile", "change"), EDITS.values(), ids=EDITS)
def test_one_member_or_default_is_found(
    card: dict[str, Any], payload: bytes, profile: str, change: Edit, alice: PrivateKey
) -> None:
    """Which one it is, on which side, and by which profile the rest was signed."""
    signature = only(explained(over(card, payload, alice), alice))
    assert signature.verdict == "invalid"
    assert signature.signed == Signed("search", profile, (), (change,))
    assert signature.tried > 0


@pytest.mark.parametrize("a2a_version", ["1.0", "0.3"])
def test_every_value_that_was_added_is_found(
    a2a_version: str, alice: PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever member or element of the card is the new one, at any depth."""
    monkeypatch.setattr(repairs, "MAX_TRIES", 100_000)
    card = LAX if a2a_version == "1.0" else OLD
    where = [pointer for pointer in pointers(card) if pointer != "/signatures"]
    payloads = [canonicalize(without(card, pointer), SERVED).data for pointer in where]
    suspects = [
        Suspect(read_entry(sign_payload(payload, alice, typ="JOSE")), alice.public)
        for payload in payloads
    ]
    search(Payloads(card), suspects, is_0_3=a2a_version == "0.3")
    assert len(where) > 30
    for pointer, payload, one in zip(where, payloads, suspects, strict=True):
        assert one.signed is not None, pointer
        (change,) = one.signed.changes
        assert change.received is not None
        assert canonicalize(without(card, change.pointer), SERVED).data == payload, pointer


# ------------------------------------------------------------------ JSON that is not canonical

#: Everything that two writers of JSON may write differently; no member is in its sorted place.
ODD: dict[str, Any] = put(
    {**LAX, "description": "Ebbe & Flut / für <alle>"},
    "/capabilities/extensions",
    [{"uri": "x", "params": {"\uffff": 1, "\U0001d11e": 1e-7, "a": 2.0}}],
)
COMPACT = (",", ":")


def html(value: Any) -> str:
    """As Go's encoding/json writes it, which sorts the members of a map."""
    text = json.dumps(value, sort_keys=True, separators=COMPACT, ensure_ascii=False)
    text = text.replace("1e-07", "1e-7").replace("2.0", "2", 1)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


NO_NUMBERS = {**LAX, "description": ODD["description"], "x-berth": "4"}

FLOATS = put(put(ODD, "/capabilities/extensions/0/params/\uffff", 1.0), "/x-berth/pier", 4.0)

#: The card, what was signed of it, and a word of each deviation that is to be named.
SPELT: dict[str, tuple[dict[str, Any], str, tuple[str, ...]]] = {
    "json.dumps": (ODD, json.dumps(ODD), ("not sorted", "ASCII", "Python prints", "space")),
    "json.dumps, sorted and compact": (
        ODD,
        json.dumps(ODD, sort_keys=True, separators=COMPACT),
        ("code points", "ASCII", "Python prints"),
    ),
    "json.dumps, sorted": (
        ODD,
        json.dumps(ODD, sort_keys=True),
        ("code points", "ASCII", "Python prints", "space"),
    ),
    "json.dumps with every number a float": (
        ODD,
        json.dumps(
            FLOATS,
            sort_keys=True,
            separators=COMPACT,
        ),
        ("code points", "ASCII", "Python float"),
    ),
    "JSON.stringify": (
        NO_NUMBERS,
        json.dumps(NO_NUMBERS, separators=COMPACT, ensure_ascii=False),
        ("not sorted",),
    ),
    "Go's encoding/json": (ODD, html(ODD), ("code points", "Go")),
    "PHP's json_encode": (
        NO_NUMBERS,
        json.dumps(NO_NUMBERS, separators=COMPACT).replace("/", "\\/"),
        ("not sorted", "PHP"),
    ),
    "a sort by code points alone": (
        put(LAX, "/x-berth", {"\uffff": "", "\U0001d11e": ""}),
        json.dumps(
            put(LAX, "/x-berth", {"\uffff": "", "\U0001d11e": ""}),
            sort_keys=True,
            separators=COMPACT,
            ensure_ascii=False,
        ),
        ("code points",),
    ),
}


@pytest.mark.parametrize(("card", "text", "words"), SPELT.values(), ids=SPELT)
def test_json_that_is_not_canonical_is_recognised(
    card: dict[str, Any], text: str, words: tuple[str, ...], alice: PrivateKey
) -> None:
    """With the fewest deviations that explain it, each of them named."""
    signed = only(explained(over(card, text.encode(), alice), alice)).signed
    assert signed is not None
    assert (signed.source, signed.profile, signed.changes) == ("search", SERVED, ())
    assert len(signed.spelling) == len(words)
    for word, deviation in zip(words, signed.spelling, strict=True):
        assert word in deviation


def test_a_member_and_a_spelling_are_found_together(alice: PrivateKey) -> None:
    """The signer sorted nothing, and since then a member was added."""
    card = {**LAX, "x-note": "new"}
    payload = json.dumps(LAX, separators=COMPACT).encode()
    signed = only(explained(over(card, payload, alice), alice)).signed
    assert signed is not None
    assert signed.changes == (Edit("/x-note", None, '"new"'),)
    assert len(signed.spelling) == 1


# ------------------------------------------------------------------ what is not found

NOT_FOUND: dict[str, dict[str, Any]] = {
    "a changed value": {**LAX, "name": "Other"},
    "two members added": {**LAX, "x-one": 1, "x-two": 2},
    "a member added and a default left away": {**without(LAX, "/version"), "x-one": 1},
}


@pytest.mark.parametrize("card", NOT_FOUND.values(), ids=NOT_FOUND)
def test_what_is_not_found_is_not_guessed(card: dict[str, Any], alice: PrivateKey) -> None:
    """Only the number of payloads tried is said, and that nothing is left to try."""
    payload = canonicalize(LAX, SERVED).data
    signature = only(explained(over(card, payload, alice), alice))
    assert (signature.verdict, signature.signed) == ("invalid", None)
    assert (signature.tried > 100, signature.exhausted) == (True, True)


def test_a_signature_that_fits_is_not_searched_for(alice: PrivateKey, bob: PrivateKey) -> None:
    """Nor is one by a key that nobody named."""
    good = over(LAX, canonicalize(LAX, SERVED).data, alice)
    assert only(explained(good, alice)).tried == 0
    assert only(explained(over(LAX, b"x", bob), alice)).tried == 0


def test_a_signature_of_a_wrong_length_is_not_searched_for(alice: PrivateKey) -> None:
    """No payload could fix a signature in DER; its length is named instead."""
    card = over(LAX, b"x", alice)
    card["signatures"][0]["signature"] += "AAAA"
    signature = only(explained(card, alice))
    assert (signature.tried, signature.signed) == (0, None)
    assert "67 bytes, expected 64" in signature.reasons[0].message


# ------------------------------------------------------------------ the limits


def test_the_tries_of_one_card_are_bounded(
    alice: PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All signatures share them, and an unfinished search says so."""
    monkeypatch.setattr(repairs, "MAX_TRIES", 50)
    entries = [sign_payload(b"%d" % number, alice, typ="JOSE") for number in range(16)]
    signatures = explained({**LAX, "signatures": entries}, alice).signatures
    assert {one.tried for one in signatures} == {3}
    assert {one.exhausted for one in signatures} == {False}


def test_the_bytes_read_for_one_card_are_bounded(
    alice: PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large card is given up sooner, however little of it some profiles sign."""
    size = len(canonicalize(LAX, SERVED).data)
    monkeypatch.setattr(repairs, "MAX_READ_BYTES", 20 * size)
    signature = only(explained(over(LAX, b"x", alice), alice))
    assert 0 < signature.tried <= 20
    assert not signature.exhausted


def test_the_edits_leave_the_card_as_it_was(alice: PrivateKey) -> None:
    """What is not edited is shared, what is edited is copied."""
    before = json.dumps(LAX)
    only(explained(over(LAX, b"x", alice), alice))
    assert json.dumps(LAX) == before
