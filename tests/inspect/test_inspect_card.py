"""Each signature inspected, whatever the card is; ``cli/transcripts/inspect.txt`` has the text."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cardsign.card.profiles import PROFILES, canonicalize
from cardsign.findings import list_codes
from cardsign.inspect import inspect_card
from cardsign.jose.jwk import encode_base64url
from cardsign.jose.keys import JwkSet, PrivateKey
from tests.inspect.inspecting import inspected, only, over
from tests.support import (
    DUAL,
    LAX,
    OLD,
    PORTABLE,
    by_another_sdk,
    dump,
    examine,
    one_signature,
    put,
)

# ------------------------------------------------------------------ nobody is accused

BY_OTHERS: dict[str, tuple[dict[str, Any], str]] = {
    "a2a-sdk on a card with empties": (LAX, "prune-empty"),
    "a2a-sdk on a 0.3 card": (OLD, "prune-empty-upgraded"),
    "the client of a2a-js": (LAX, "js-instance"),
}


@pytest.mark.parametrize(("card", "profile"), BY_OTHERS.values(), ids=BY_OTHERS)
def test_a_signature_by_another_profile_is_no_complaint(
    card: dict[str, Any], profile: str, alice: PrivateKey
) -> None:
    """It is named, nothing is searched, and the status is 0."""
    report = inspected(by_another_sdk(card, alice, profile), alice)
    signature = only(report)
    assert profile in signature.profiles
    assert signature.report.verdict == "other-profile"
    assert "sig.bad" not in {reason.code for reason in signature.report.reasons}
    assert report.exit_status == 0


def test_a_good_signature_is_no_worse_for_a_bad_one_beside_it(
    alice: PrivateKey, bob: PrivateKey
) -> None:
    """Each is explained alone."""
    good = one_signature(LAX, alice, "served-as-is")
    bad = one_signature(put(LAX, "/name", "Other"), alice, "served-as-is")
    foreign = one_signature(LAX, bob, "served-as-is")
    report = inspected({**LAX, "signatures": [good, bad, foreign]}, alice)
    verdicts = [one.report.verdict for one in report.signatures]
    assert verdicts == ["valid", "invalid", "unknown-key"]
    assert report.exit_status == 1
    alone = inspected({**LAX, "signatures": [good, foreign]}, alice)
    assert alone.exit_status == 0


# ------------------------------------------------------------------ bad input

Card = Callable[[PrivateKey], bytes]


def _entries(*entries: Any) -> Card:
    """A card whose last signature is good, with these before it."""
    return lambda key: dump(
        {**LAX, "signatures": [*entries, one_signature(LAX, key, "served-as-is")]}
    )


def _protected(data: bytes) -> dict[str, str]:
    return {"protected": encode_base64url(data), "signature": "AA"}


#: Whose first signature is of no use: the code that says why.
ENTRIES: dict[str, tuple[Any, str]] = {
    "null": (None, "sig.shape"),
    "a header that is a list": (_protected(b"[]"), "sig.header"),
    "a header without members": (_protected(b"{}"), "sig.alg_forbidden"),
    "a header of another alphabet": ({"protected": "+/", "signature": "AA"}, "sig.base64url"),
}


@pytest.mark.parametrize(("entry", "code"), ENTRIES.values(), ids=ENTRIES)
def test_a_malformed_signature_is_named_and_the_rest_explained(
    entry: Any, code: str, alice: PrivateKey
) -> None:
    """A stable code with its place; the good signature beside it is as good as ever."""
    report = inspected(_entries(entry)(alice), alice)
    bad, good = report.signatures
    assert (bad.report.verdict, bad.profiles, bad.report.reasons[0].code) == ("refused", (), code)
    assert bad.report.reasons[0].path.startswith("/signatures/0")
    assert good.profiles == ("served-as-is",)
    assert report.problems == ()
    assert report.exit_status == 1


def test_an_entry_that_cannot_be_read_spoils_no_good_one(alice: PrivateKey) -> None:
    """Every client that accepts the good signature alone accepts it beside that."""
    good = one_signature(PORTABLE, alice, "served-as-is")
    before, after = (
        {
            prediction["verifier"]
            for prediction in inspected({**PORTABLE, "signatures": entries}, alice).predictions
            if prediction["outcome"] == "accepted"
        }
        for entries in ([good], [_protected(b"{}"), good])
    )
    assert after == before != set()


#: Cards that verify refuses to read: the bytes and the code.
UNREADABLE: dict[str, tuple[bytes, str]] = {
    "deep beyond any reader": (b'{"a":' * 40_000, "json.depth"),
    "too many values": (b'{"a": [' + b"0," * 9_998 + b"0]}", "json.too_many_values"),
    "too large": (b'{"a": "' + b"x" * 300_000 + b'"}', "json.too_large"),
    "a name twice": (b'{"name": "a", "name": "b"}', "json.duplicate_member"),
}


@pytest.mark.parametrize(("data", "code"), UNREADABLE.values(), ids=UNREADABLE)
def test_a_card_that_cannot_be_read_is_refused_with_the_place(
    data: bytes, code: str, alice: PrivateKey
) -> None:
    """As verify refuses it; nothing else is said of it."""
    report = inspected(data, alice)
    (problem,) = report.problems
    assert (problem.code, bool(problem.hint)) == (code, True)
    assert (problem.place.line is problem.place.column is None) == (
        code in ("json.too_large", "json.too_many_values")
    )
    assert (report.agent, report.signatures, report.predictions) == ({}, (), ())
    assert report.exit_status == 1
    assert examine(data, alice).reasons[0].code == code


SINGLE = {"algorithm": "RS256"}  # a signature block of its own kind
PROBLEMS: list[tuple[dict[str, Any], list[str], str | None]] = [
    ({**LAX, "Name": "x"}, ["card.two_spellings"], None),
    ({**LAX, "signatures": {}}, ["card.signatures_shape"], None),
    ({**OLD, "signatures": "x"}, ["card.signatures_shape"], None),
    ({**LAX, "signature": SINGLE}, ["card.single_signature_block"], "1.0"),
    (LAX, [], "1.0"),
    ({**LAX, "signatures": None}, [], "1.0"),
    ({}, [], "none"),
]


@pytest.mark.parametrize(("card", "codes", "a2a_version"), PROBLEMS)
def test_what_is_wrong_with_the_card_is_named(
    card: dict[str, Any], codes: list[str], a2a_version: str | None
) -> None:
    """A card that can be read in one way is described all the same."""
    report = inspected(card)
    assert [one.code for one in report.problems] == codes
    assert report.a2a_version == a2a_version
    assert report.signatures == ()
    assert bool(report.agent) is (a2a_version is not None)
    assert report.exit_status == (1 if codes else 0)


# ------------------------------------------------------------------ as JSON


def test_the_json_is_plain_and_complete(alice: PrivateKey) -> None:
    """What a program reads; every member is there whatever the card."""
    found = inspected(over({**LAX, "x": 1}, canonicalize(LAX, "served-as-is").data, alice), alice)
    shown = json.loads(json.dumps(found.to_json()))
    nothing = json.loads(json.dumps(inspected(b"").to_json()))
    assert shown["schema"] == nothing["schema"] == "cardsign.inspection/1"
    assert list(shown) == list(nothing)
    (signature,) = shown["signatures"]
    of_verify = examine(over({**LAX, "x": 1}, b"x", alice), alice).to_json()["signatures"][0]
    assert list(signature) == [*of_verify, "header", "profiles"]
    assert signature["reasons"][0]["code"] == "sig.bad"
    assert all("outcome" in one for one in shown["predictions"])


# ------------------------------------------------------------------ nothing makes it raise

_BASES = [dump(card) for card in (PORTABLE, LAX, OLD, DUAL)]
_SNIPPETS = [
    snippet.encode("latin-1")
    for snippet in ("NaN", "1e999", r'"\ud800"', "null", "{}", "[]", '""', "\xff", '{"a":1,"a":2}')
]


def _inspects(data: bytes, key: PrivateKey) -> None:
    report = inspect_card(data, jwks=JwkSet.of([key.public]))
    json.dumps(report.to_json())
    for problem in report.problems:
        assert problem.code in list_codes()
    for signature in report.signatures:
        assert set(signature.profiles) <= set(PROFILES)


@given(data=st.data())
def test_no_spoilt_card_makes_it_raise(data: st.DataObject, alice: PrivateKey) -> None:
    """Real cards with something put in anywhere, and signatures of any kind."""
    card = data.draw(st.sampled_from(_BASES))
    entry, _ = data.draw(st.sampled_from(list(ENTRIES.values())))
    entries = [entry, one_signature(LAX, alice, "served-as-is")]
    text = bytearray(card[:-1] + b', "signatures": ' + json.dumps(entries).encode() + b"}")
    for _ in range(data.draw(st.integers(0, 2))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(len(text), start + 30)))
        text[start:end] = data.draw(st.sampled_from(_SNIPPETS))
    _inspects(bytes(text), alice)
