"""Each signature inspected, whatever the card is: never a verdict, never an exception."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inspecting import inspected, only, over

from cardsign.card.canonical import DEFAULT_PROFILES, PROFILES, canonicalize
from cardsign.card.document import MAX_SIGNATURES
from cardsign.card.document import Card as AgentCard
from cardsign.findings import list_codes
from cardsign.inspect.card import MAX_LISTED, inspect_card
from cardsign.inspect.description import describe_card
from cardsign.jose import base64url
from cardsign.jose.jwks import JwkSet
from cardsign.jose.keys import PrivateKey
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
    signed,
    under_header,
)


def test_each_of_our_signatures_names_its_profiles(alice: PrivateKey) -> None:
    """Also those that share the bytes."""
    signatures = inspected(signed(LAX, alice), alice).signatures
    assert [one.profiles for one in signatures] == [
        ("prune-empty", "prune-empty-upgraded"),
        ("rule-1-as-written",),
        ("served-as-is",),
    ]
    assert [one.verdict for one in signatures] == ["valid"] * 3
    assert signatures[2].header == {"alg": "ES256", "kid": "alice", "typ": "JOSE"}
    assert signatures[2].reasons == ()


@pytest.mark.parametrize("card", [PORTABLE, LAX, OLD, DUAL], ids=["portable", "lax", "0.3", "both"])
def test_each_payload_is_described(card: dict[str, Any], alice: PrivateKey) -> None:
    """Its digest and size, whose bytes it has, what it leaves open; or why there is none."""
    described = {one.profile: one for one in inspected(card).profiles}
    assert list(described) == list(PROFILES)
    for name, one in described.items():
        if one.refusal is not None:
            assert (one.refusal.code, one.size, one.sha256) == ("canonical.no_form", None, None)
            continue
        payload = canonicalize(card, name)
        assert (one.size, one.sha256) == (
            len(payload.data),
            hashlib.sha256(payload.data).hexdigest(),
        )
        first = next(o for o in PROFILES if described[o].sha256 == one.sha256)
        assert one.same_as == (None if first == name else first)
    assert described["served-as-is"].uncovered == ()


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
    assert (signature.verdict, signature.spellings_tried) == ("other-profile", 0)
    assert report.exit_status == 0


def test_without_keys_nothing_is_claimed(alice: PrivateKey) -> None:
    """Headers and payloads are shown; what fits, and what others would say, is not known."""
    report = inspect_card(dump(signed(LAX, alice)), jwks=None)
    assert {one.verdict for one in report.signatures} == {"unknown-key"}
    assert {one.profiles for one in report.signatures} == {()}
    assert report.predictions == ()
    assert report.portable is False
    assert report.exit_status == 0


def test_a_good_signature_is_no_worse_for_a_bad_one_beside_it(
    alice: PrivateKey, bob: PrivateKey
) -> None:
    """Each is explained alone."""
    good = one_signature(LAX, alice, "served-as-is")
    bad = one_signature(put(LAX, "/name", "Other"), alice, "served-as-is")
    foreign = one_signature(LAX, bob, "served-as-is")
    report = inspected({**LAX, "signatures": [good, bad, foreign]}, alice)
    verdicts = [one.verdict for one in report.signatures]
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
    return {"protected": base64url.encode(data), "signature": "AA"}


#: Whose first signature is of no use: the code that says why.
ENTRIES: dict[str, tuple[Any, str]] = {
    "null": (None, "sig.shape"),
    "a string": ("eyJ", "sig.shape"),
    "a list": ([], "sig.shape"),
    "an object without members": ({}, "sig.shape"),
    "a header that is a list": (_protected(b"[]"), "sig.header"),
    "a header that is a number": (_protected(b"1"), "sig.header"),
    "a header that is no JSON": (_protected(b"\xff"), "sig.header"),
    "a header without members": (_protected(b"{}"), "sig.alg_forbidden"),
    "a header of another alphabet": ({"protected": "+/", "signature": "AA"}, "sig.base64url"),
    "an unprotected header that is a list": (
        {**_protected(b'{"alg":"ES256","kid":"alice"}'), "header": []},
        "sig.shape",
    ),
}


@pytest.mark.parametrize(("entry", "code"), ENTRIES.values(), ids=ENTRIES)
def test_a_malformed_signature_is_named_and_the_rest_explained(
    entry: Any, code: str, alice: PrivateKey
) -> None:
    """A stable code with its place; the good signature beside it is as good as ever."""
    report = inspected(_entries(entry)(alice), alice)
    bad, good = report.signatures
    assert (bad.verdict, bad.profiles, bad.reasons[0].code) == ("refused", (), code)
    assert bad.reasons[0].path.startswith("/signatures/0")
    assert good.profiles == ("served-as-is",)
    assert report.problems == ()
    assert report.exit_status == 1


def test_an_entry_that_cannot_be_read_spoils_no_good_one(alice: PrivateKey) -> None:
    """Every client that accepts the good signature alone accepts it beside that."""
    good = one_signature(PORTABLE, alice, "served-as-is")
    before, after = (
        {
            prediction.verifier
            for prediction in inspected({**PORTABLE, "signatures": entries}, alice).predictions
            if prediction.outcome == "accepted"
        }
        for entries in ([good], [_protected(b"{}"), good])
    )
    assert after == before != set()


def test_a_header_is_shown_even_where_it_is_refused(alice: PrivateKey) -> None:
    """A person wants to see what is wrong with it."""
    header = {"alg": "none", "kid": "alice", "typ": "x"}
    card = under_header(LAX, alice, header, profile="served-as-is")
    assert only(inspected(card, alice)).header == header


def test_seventeen_signatures_are_all_explained(alice: PrivateKey) -> None:
    """verify refuses them; here each is looked at, and the code is the same."""
    entry = one_signature(LAX, alice, "served-as-is")
    card = {**LAX, "signatures": [entry] * 17}
    report = inspected(card, alice)
    assert [one.code for one in report.problems] == ["card.signatures_too_many"]
    assert examine(card, alice).reasons[0].code == "card.signatures_too_many"
    assert [one.profiles for one in report.signatures] == [("served-as-is",)] * 17
    assert (report.a2a_version, report.exit_status) == ("1.0", 1)


def test_a_thousand_signatures_are_counted(alice: PrivateKey) -> None:
    """Only so many are looked at, and nothing is predicted from them alone."""
    entry = one_signature(put(LAX, "/name", "x"), alice, "served-as-is")
    report = inspected({**LAX, "signatures": [entry] * 1000}, alice)
    assert len(report.signatures) == MAX_LISTED
    assert report.signatures_left_out == 1000 - MAX_LISTED
    assert sum(bool(one.spellings_tried) for one in report.signatures) == MAX_SIGNATURES
    assert "refused" not in {one.outcome for one in report.predictions}


def test_one_payload_under_many_profiles_and_a_signature_under_none(alice: PrivateKey) -> None:
    """The profiles are said to be the same; the signature is said to fit none of them."""
    report = inspected(over(PORTABLE, b"something else", alice), alice)
    same = [one for one in report.profiles if one.same_as == "served-as-is"]
    assert len(same) >= len(DEFAULT_PROFILES) - 1
    signature = only(report)
    assert (signature.verdict, signature.reasons[0].code) == ("invalid", "sig.bad")
    assert (signature.spelling, signature.spellings_tried) == ("", 5)


#: Cards that verify refuses to read: the bytes, the code, whether one may read on.
UNREADABLE: dict[str, tuple[bytes, str, bool]] = {
    "nothing": (b"", "json.syntax", False),
    "no JSON": (b'{"name": }', "json.syntax", False),
    "a list": (b"[]", "json.not_object", False),
    "not UTF-8": (b'{"name": "\xff"}', "json.not_utf8", False),
    "too deep": (b'{"a":' * 40 + b"1" + b"}" * 40, "json.depth", False),
    "deep beyond any reader": (b'{"a":' * 40_000, "json.depth", False),
    "too many values": (b'{"a": [' + b"0," * 9_998 + b"0]}", "json.too_many_values", False),
    "too large": (b'{"a": "' + b"x" * 300_000 + b'"}', "json.too_large", False),
    "a name twice": (b'{"name": "a", "name": "b"}', "json.duplicate_member", True),
    "a byte order mark": (b'\xef\xbb\xbf{"name": "a"}', "json.bom", True),
    "something behind it": (b'{"name": "a"} x', "json.trailing", True),
    "a number beyond all doubles": (b'{"name": "a", "x": 1e999}', "json.number", True),
    "no number": (b'{"name": "a", "x": NaN}', "json.number", True),
    "an integer that is rounded": (b'{"x": 9007199254740993}', "json.integer_range", True),
    "half a character": (b'{"name": "\\ud800"}', "json.surrogate", True),
}


@pytest.mark.parametrize(("data", "code", "read_on"), UNREADABLE.values(), ids=UNREADABLE)
def test_a_card_that_cannot_be_read_is_explained_as_far_as_it_goes(
    data: bytes, code: str, read_on: bool, alice: PrivateKey
) -> None:
    """The code, the place and the lines around it; nothing is predicted."""
    report = inspected(data, alice)
    problem = report.problems[0]
    assert (problem.code, bool(problem.hint)) == (code, True)
    assert (problem.place.line is problem.place.column is None) == (
        code in ("json.too_large", "json.too_many_values")
    )
    assert bool([line for line in report.context if line.startswith("> ")]) == bool(
        data and problem.place.line
    )
    assert report.read_on is read_on
    assert bool(report.profiles) is read_on
    assert (report.predictions, report.exit_status) == ((), 1)


def test_a_long_line_is_cut_around_the_place() -> None:
    """What is at fault is seen, and not the whole of a card in one line."""
    (line,) = inspected(b'{"a": "' + b"x" * 300 + b'", "name": }').context
    assert len(line) <= 82
    assert line.startswith("> x")
    assert line.endswith('", "name": }')


@pytest.mark.parametrize("text", ["1e999", "NaN", "9007199254740993", '"\\ud800"'])
def test_a_card_without_any_payload_still_shows_its_signatures(
    text: str, alice: PrivateKey
) -> None:
    """No profile can canonicalize it: a code for the card, one for each profile, each header."""
    card = dump({**signed(LAX, alice), "x": "HERE"}).replace(b'"HERE"', text.encode())
    report = inspected(card, alice)
    assert len(report.problems) == 1
    refusals = {one.refusal.code for one in report.profiles if one.refusal}
    assert refusals == {"canonical.no_form"}
    assert len(report.profiles) == len(PROFILES)
    assert [one.verdict for one in report.signatures] == ["invalid"] * 3
    assert {(one.header or {}).get("kid") for one in report.signatures} == {"alice"}
    assert {one.spellings_tried for one in report.signatures} == {0}


def test_a_name_that_is_there_twice_is_read_as_others_read_it(alice: PrivateKey) -> None:
    """The last one counts for most readers, so signatures may fit; the card is refused still."""
    doubled = dump(signed(PORTABLE, alice)).replace(b'"name"', b'"name": "x", "name"', 1)
    report = inspected(doubled, alice)
    assert "served-as-is" in only(report).profiles
    assert (report.read_on, report.exit_status) == (True, 1)
    assert examine(doubled, alice).verdict == "invalid"


AMBIGUOUS: dict[str, tuple[dict[str, Any], list[str], str | None]] = {
    "two spellings of one name": ({**LAX, "Name": "x"}, ["card.two_spellings"], None),
    "signatures that are an object": ({**LAX, "signatures": {}}, ["card.signatures_shape"], "1.0"),
    "signatures that are a text": ({**OLD, "signatures": "x"}, ["card.signatures_shape"], "0.3"),
    "a signature block of its own kind": (
        {**LAX, "signature": {"algorithm": "RS256"}},
        ["card.single_signature_block"],
        "1.0",
    ),
    "no signatures": (LAX, [], "1.0"),
    "null for signatures": ({**LAX, "signatures": None}, [], "1.0"),
    "no card": ({}, [], "none"),
}


@pytest.mark.parametrize(("card", "codes", "a2a_version"), AMBIGUOUS.values(), ids=AMBIGUOUS)
def test_what_is_wrong_with_the_card_comes_first(
    card: dict[str, Any], codes: list[str], a2a_version: str | None
) -> None:
    """Its payloads are shown all the same."""
    report = inspected(card)
    assert [one.code for one in report.problems] == codes
    assert report.a2a_version == a2a_version
    assert (report.signatures, report.read_on) == ((), False)
    assert report.profiles[0].size is not None
    assert report.exit_status == (1 if codes else 0)


# ------------------------------------------------------------------ as JSON


def test_the_json_is_plain_and_complete(alice: PrivateKey) -> None:
    """What a program reads; every member is there whatever the card."""
    found = inspected(over({**LAX, "x": 1}, canonicalize(LAX, "served-as-is").data, alice), alice)
    shown = json.loads(json.dumps(found.to_json()))
    nothing = json.loads(json.dumps(inspected(b"").to_json()))
    assert shown["schema"] == nothing["schema"] == "cardsign.inspection/1"
    assert (
        list(shown)
        == list(nothing)
        == [
            "schema",
            "name",
            "a2a_version",
            "read_on",
            "portable",
            "problems",
            "context",
            "agent",
            "profiles",
            "signatures",
            "signatures_left_out",
            "predictions",
            "service",
            "asked",
        ]
    )
    (signature,) = shown["signatures"]
    assert list(signature) == [
        "index",
        "header",
        "verdict",
        "profiles",
        "reasons",
        "spelling",
        "advice",
        "spellings_tried",
    ]
    assert signature["reasons"][0]["code"] == "sig.bad"
    assert all("outcome" in one for one in shown["predictions"])


# ------------------------------------------------------------------ nothing makes it raise

_BASES = [dump(card) for card in (PORTABLE, LAX, OLD, DUAL)]
_SNIPPETS = [
    b"NaN",
    b"1e999",
    b'"\\ud800"',
    b"null",
    b"{}",
    b"[]",
    b'""',
    b"\xff",
    b'{"a":1,"a":2}',
]


def _inspects(data: bytes, key: PrivateKey) -> None:
    report = inspect_card(data, jwks=JwkSet.of([key.public]))
    json.dumps(report.to_json())
    for problem in report.problems:
        assert problem.code in list_codes()
    for signature in report.signatures:
        assert set(signature.profiles) <= set(PROFILES)


@given(data=st.binary(max_size=200))
def test_no_bytes_make_it_raise(data: bytes, alice: PrivateKey) -> None:
    """Whatever they are."""
    _inspects(data, alice)


@settings(max_examples=150)
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


def test_where_a_token_is_asked_for_is_shown() -> None:
    """Of each OAuth flow: its URLs and scopes; what cannot be read is left out."""
    flow = {"tokenUrl": "https://auth.example/token", "scopes": {"read": "Reads"}}
    flows = {"clientCredentials": flow, "implicit": "?"}
    scheme = {"oauth2SecurityScheme": {"flows": flows}}
    card = AgentCard.from_object({**PORTABLE, "securitySchemes": {"harbour": scheme}})
    (described,) = describe_card(card)["schemes"]
    assert described["flows"] == [
        {"flow": "clientCredentials", "token_url": flow["tokenUrl"], "scopes": ["read"]},
        {"flow": "implicit", "scopes": []},
    ]
    shown = "\n".join(inspected({**PORTABLE, "securitySchemes": {"harbour": scheme}}).lines())
    assert "clientCredentials https://auth.example/token read" in shown


def test_a_description_lists_the_first_elements_and_counts_the_others() -> None:
    """A list of a stranger's card may have thousands; the twin of a hundred is whole."""
    for count in (100, 9000):
        card = AgentCard.from_object({**PORTABLE, "skills": [{"id": "a"}] * count})
        described = describe_card(card)
        assert len(described["skills"]) == 100
        assert described["left_out"].get("skills", 0) == count - 100
