"""A card that its signer did not write canonically is recognised, and nothing else is.

The bytes that are signed here are written by the standard library or by hand, never by the code
under test.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from cardsign.card.profiles import canonicalize
from cardsign.inspect import SPELLINGS, InspectedSignature, inspect_card
from cardsign.jose.jwk import encode_base64url
from cardsign.jose.jws import sign_payload
from cardsign.jose.keys import PrivateKey
from tests import hostile
from tests.inspect.inspecting import inspected, only, over
from tests.support import LAX, PORTABLE, count_calls, put, read_cases

COMPACT = (",", ":")

#: Everything that two writers of JSON may write differently; no member is in its sorted place.
ODD: dict[str, Any] = put(
    {**LAX, "description": "Ebbe & Flut / für <alle>"},
    "/capabilities/extensions",
    [{"uri": "x", "params": {"\uffff": 1, "\U0001d11e": 0.5, "a": 2}}],
)
SORTED = json.dumps(ODD, sort_keys=True, separators=COMPACT, ensure_ascii=False)

#: A card of A2A 0.3, and how Python's models name its members; keys of maps are no names.
CREW, SNAKE = read_cases(__file__).values()


def snake(text: str) -> str:
    """A text in which members have their names in Python."""
    for name, snake_name in SNAKE.items():
        text = text.replace(f'"{name}": ', f'"{snake_name}": ')
    return json.dumps(json.loads(text), sort_keys=True, separators=COMPACT)


def spelled(signature: InspectedSignature) -> list[str]:
    """What is said of spellings of the card."""
    messages = (reason.message for reason in signature.report.reasons)
    return [message for message in messages if "as written with" in message]


#: The card, what was signed of it, and the name of the spelling.
SPELT: dict[str, tuple[dict[str, Any], str, str]] = {
    "json.dumps": (ODD, json.dumps(ODD), "Python's json.dumps"),
    "json.dumps, compact": (ODD, json.dumps(ODD, separators=COMPACT), "Python's json.dumps"),
    "json.dumps, sorted": (ODD, json.dumps(ODD, sort_keys=True), "Python's json.dumps"),
    "json.dumps, sorted and compact": (
        ODD,
        json.dumps(ODD, sort_keys=True, separators=COMPACT),
        "Python's json.dumps",
    ),
    "Go": (
        ODD,
        SORTED.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"),
        "Go's encoding/json",
    ),
    "code points": (ODD, SORTED, "members sorted by code points"),
    "a newline": (
        ODD,
        canonicalize(ODD, "served-as-is").data.decode() + "\n",
        "a trailing newline",
    ),
    "crewAI": (CREW, snake(json.dumps(CREW)), "crewAI's snake_case members"),
}


@pytest.mark.parametrize(("card", "text", "name"), SPELT.values(), ids=SPELT)
def test_a_known_spelling_is_named(
    card: dict[str, Any], text: str, name: str, alice: PrivateKey
) -> None:
    """With what its signer should change; the signature fits nothing all the same."""
    signature = only(inspected(over(card, text.encode(), alice), alice))
    assert (signature.report.verdict, signature.profiles) == ("invalid", ())
    (reason,) = signature.report.reasons
    assert (reason.code, reason.path) == ("sig.bad", "/signatures/0")
    assert reason.message.endswith(f"as written with {name}")
    assert (name, reason.hint) in {spelling[:2] for spelling in SPELLINGS}


@pytest.mark.parametrize(("card", "text", "_name"), SPELT.values(), ids=SPELT)
def test_a_card_that_was_changed_since_fits_none(
    card: dict[str, Any], text: str, _name: str, alice: PrivateKey
) -> None:
    """The twin, of the same signer: one value is another one."""
    signed = over(card, text.encode(), alice)
    signature = only(inspected({**signed, "version": "9"}, alice))
    assert signature.report.verdict == "invalid"
    assert not spelled(signature)


def test_every_spelling_has_a_case() -> None:
    """One that is added needs a signature made that way."""
    assert {name for _, _, name in SPELT.values()} == {name for name, _, _ in SPELLINGS}


@pytest.mark.parametrize("name", ["crewAI", "json.dumps, sorted and compact"])
@pytest.mark.parametrize("typ", ["JWS", "JOSE"])
def test_a_signature_that_is_refused_for_its_header_is_searched_for(
    name: str, typ: str, alice: PrivateKey
) -> None:
    """CrewAI writes typ JWS and the kid twice. It stays refused; its changed twin fits nothing."""
    card, text, spelling = SPELT[name]
    entry = {**sign_payload(text.encode(), alice, typ=typ), "header": {"kid": "alice"}}
    signature = only(inspected({**card, "signatures": [entry]}, alice))
    code = "sig.typ_forbidden" if typ == "JWS" else "sig.header_overlap"
    assert (signature.report.verdict, signature.report.reasons[0].code) == ("refused", code)
    assert spelled(signature) == [f"the signature fits this card as written with {spelling}"]
    changed = only(inspected({**card, "version": "9", "signatures": [entry]}, alice))
    assert (changed.report.verdict, spelled(changed)) == ("refused", [])


def test_a_signature_that_fits_is_not_searched_for(alice: PrivateKey, bob: PrivateKey) -> None:
    """Nor is one by a key that nobody named."""
    good = only(
        inspected(over(PORTABLE, canonicalize(PORTABLE, "served-as-is").data, alice), alice)
    )
    assert (good.report.verdict, spelled(good)) == ("valid", [])
    foreign = only(inspected(over(ODD, json.dumps(ODD).encode(), bob), alice))
    assert (foreign.report.verdict, spelled(foreign)) == ("unknown-key", [])


def test_a_signature_by_another_key_of_the_set_is_told(alice: PrivateKey, bob: PrivateKey) -> None:
    """It names a kid of the set, whose key has not made it; an edit is by none of the keys."""
    header = {"alg": "ES256", "kid": alice.public.kid, "typ": "JOSE"}
    protected = encode_base64url(json.dumps(header).encode())
    signing_input = f"{protected}.{encode_base64url(canonicalize(ODD, 'served-as-is').data)}"
    signature = encode_base64url(bob.sign(signing_input.encode()))
    entry = {"protected": protected, "signature": signature}
    (reason,) = only(inspected({**ODD, "signatures": [entry]}, alice, bob)).report.reasons
    assert f"by the key {bob.public.kid!r}" in reason.message
    (reason,) = only(
        inspected({**ODD, "name": "x", "signatures": [entry]}, alice, bob)
    ).report.reasons
    assert "fits this card by no profile" in reason.message


def test_a_signature_of_a_wrong_length_is_not_searched_for(alice: PrivateKey) -> None:
    """No payload could fix a signature in DER; its length is named instead."""
    card = over(LAX, b"x", alice)
    card["signatures"][0]["signature"] += "AAAA"
    signature = only(inspected(card, alice))
    (reason,) = signature.report.reasons
    assert "67 bytes, expected 64" in reason.message


@pytest.mark.parametrize("shape", ["many wrong types", "many schemes", "deep nesting"])
def test_the_search_for_a_spelling_is_bounded(shape: str) -> None:
    """A card that is bad under two signatures is written out a few times for each."""
    data = hostile.card(shape, 8 * 1024, signatures=[hostile.entry(), hostile.entry()])
    searched = count_calls(lambda: inspected(data, hostile.KEY))
    assert searched - count_calls(lambda: inspect_card(data, jwks=None)) < 600_000
