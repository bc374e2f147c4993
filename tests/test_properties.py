"""Properties that hold for every card: what never matters, what always shows, what never raises."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from cardsign import sign_card
from cardsign.card.document import Card
from cardsign.card.profiles import DEFAULT_PROFILES, FULL_PROFILES, PROFILES, canonicalize
from cardsign.card.schema import CARD_0_3, CARD_1_0, Message
from cardsign.card.values import append
from cardsign.errors import CanonicalizationError, CardRefused, CardsignError
from cardsign.jose.jwk import encode_base64url
from cardsign.jose.keys import PrivateKey
from cardsign.sign import SigningOptions, sign_with_notes
from cardsign.verify.report import Report
from tests.card.places import places_in
from tests.support import (
    DUAL,
    LAX,
    OLD,
    PORTABLE,
    WITH_DEFAULTS,
    at,
    codes,
    dump,
    examine,
    pointers,
    profiles_of,
    put,
    without,
)


def schema_names() -> set[str]:
    """Every member name of both schemas, in the JSON spelling and in protobuf's."""
    names: set[str] = set()
    seen: set[str] = set()
    pending: list[Message] = [CARD_1_0, CARD_0_3]
    while pending:
        message = pending.pop()
        if message.name not in seen:
            seen.add(message.name)
            for field in message.fields.values():
                names |= {field.name, field.snake_name}
                pending.extend([field.message] if field.message else [])
    return names - {"signatures"}


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(1 - 2**53, 2**53 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    texts,
    st.sampled_from(["", "http", "apiKey", "0.3.0", "https://tides.example/a2a"]),
)
names = st.one_of(st.sampled_from(sorted(schema_names())), texts)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4),
    max_leaves=12,
)
documents = st.dictionaries(names, values, max_size=6)


@st.composite
def cards(draw: st.DrawFn) -> dict[str, Any]:
    """A good card, with up to four members put anywhere into it."""
    card: dict[str, Any] = draw(st.sampled_from([PORTABLE, WITH_DEFAULTS, LAX, OLD, DUAL]))
    for _ in range(draw(st.integers(0, 4))):
        objects = ["", *(where for where in pointers(card) if isinstance(at(card, where), dict))]
        where = append(draw(st.sampled_from(objects)), draw(names))
        card = put(card, where, draw(values | st.sampled_from(["", [], {}, None, False])))
    return card


def readable(card: Mapping[str, Any]) -> dict[str, Any]:
    """The card, if it can be read one way only and names an endpoint that can be called."""
    try:
        found = Card.from_bytes(dump(card))
    except CardRefused:
        assume(False)
    return dict(found.document)


def payloads(card: Mapping[str, Any]) -> dict[str, bytes]:
    """The bytes under each profile that has any."""
    made = {}
    for profile in PROFILES:
        try:
            made[profile] = canonicalize(card, profile).data
        except CanonicalizationError:
            continue
    return made


def shuffled(value: Any) -> Any:
    """The value with the members of each object the other way round."""
    if isinstance(value, dict):
        return {name: shuffled(child) for name, child in reversed(value.items())}
    return [shuffled(child) for child in value] if isinstance(value, list) else value


# ------------------------------------------------------------------ what never matters


@given(documents, values)
def test_order_and_signatures_never_matter(document: dict[str, Any], signatures: Any) -> None:
    """No payload depends on them, and none that can be made fails because of them."""
    moved = {"signatures": signatures, **shuffled(document)}

    assert payloads(moved) == payloads(document)


@given(documents)
def test_white_space_never_matters(document: dict[str, Any]) -> None:
    """What is read from other bytes of the same JSON has the same payloads."""
    document = readable(document)
    for text in (
        json.dumps(document, indent="\t", ensure_ascii=False),
        json.dumps(document, separators=(",", ":"), sort_keys=True),
    ):
        assert payloads(Card.from_bytes(text.encode()).document) == payloads(document)


@given(documents)
def test_a_payload_is_its_own_payload(document: dict[str, Any]) -> None:
    """What a caller is handed says, by the same profile, what was signed."""
    for profile, data in payloads(document).items():
        if profile not in DEFAULT_PROFILES:
            continue  # never handed to anybody
        value = canonicalize(document, profile).value
        assert canonicalize(value, profile).data == data


@given(documents)
def test_a_full_profile_has_a_payload_for_everything_that_can_be_read(
    document: dict[str, Any],
) -> None:
    """Only the lossy ones know types, so only they refuse."""
    assert set(FULL_PROFILES) <= set(payloads(readable(document)))


# ------------------------------------------------------------------ what coverage promises


def altered(value: Any) -> Any:
    """Another scalar of the same JSON type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, str):
        return value + "~"
    return "~" if value is None else 1 if value != 1 else 2


@given(st.one_of(documents, cards()), st.data())
def test_an_alteration_is_signed_or_listed(document: dict[str, Any], data: st.DataObject) -> None:
    """Any scalar, under any profile: the payload changes, or the place is uncovered."""
    leaves = [w for w in pointers(document) if not isinstance(at(document, w), dict | list)]
    assume(leaves)
    where = data.draw(st.sampled_from(leaves))
    changed = put(document, where, altered(at(document, where)))
    before, after = payloads(document), payloads(changed)
    for profile in before:
        if before[profile] == after.get(profile):
            parts = canonicalize(changed, profile).uncovered
            assert any(where == p.pointer or where.startswith(p.pointer + "/") for p in parts)


@given(st.one_of(documents, cards()))
def test_whatever_is_not_covered_is_listed_once(document: dict[str, Any]) -> None:
    """Topmost places only, each of which is in the document and has no place in the payload."""
    for profile in payloads(document):
        payload = canonicalize(document, profile)
        listed = [part.pointer for part in payload.uncovered]
        assert len(set(listed)) == len(listed)
        for where in listed:
            at(document, where)
            assert where not in places_in(payload)
            assert not any(where.startswith(other + "/") for other in listed)


# ------------------------------------------------------------------ C7


def fitting(before: set[bytes], after: Mapping[str, Any]) -> set[bytes]:
    """Which of the signed payloads the edited card still has."""
    return before & set(payloads(after).values())


@given(cards(), st.data())
def test_edits(alice: PrivateKey, card: dict[str, Any], data: st.DataObject) -> None:
    """Additions, alterations and deletions, anywhere, of cards that we signed (C7)."""
    card = readable(card)
    try:
        signing = sign_with_notes(dump(card), [alice], SigningOptions(force=True))
    except CardsignError:
        assume(False)
    honest = json.loads(signing.document)
    assume(examine(honest, alice).verdict == "trusted")
    before = {profile: canonicalize(card, profile).data for profile in profiles_of(signing)}
    full = {before[profile] for profile in before if profile in FULL_PROFILES}

    kind = data.draw(st.sampled_from(["add", "alter", "delete"]))
    where = data.draw(st.sampled_from(sorted(pointers(card))))
    if kind == "add":
        objects = ["", *(w for w in pointers(card) if isinstance(at(card, w), dict))]
        where = append(data.draw(st.sampled_from(objects)), "edit~1")
    sentinel = data.draw(st.sampled_from(["an edit", {"an": "edit"}, ["an edit"]]))
    edited = without(honest, where) if kind == "delete" else put(honest, where, sentinel)
    assume(edited != honest)

    report = examine(edited, alice)

    left = fitting(set(before.values()), edited)
    assert (report.verdict == "invalid") == (not left)
    if report.verdict == "trusted":
        assert kind == "delete"
        assert left & full
    elif left and kind != "delete":
        assert any(where == w or where.startswith(w + "/") for w in report.uncovered)
        broken = any(one.verdict == "invalid" for one in report.signatures)
        assert ("sig.coverage_reduced" in codes(report)) == broken


@given(cards())
def test_whatever_is_signed_is_trusted_and_stable(alice: PrivateKey, card: dict[str, Any]) -> None:
    """Signing refuses with one of our errors, or makes what the signer himself would trust."""
    try:
        document = sign_card(dump(card), [alice])
    except CardsignError:
        return
    report = examine(document, alice)

    assert report.verdict == "trusted"
    assert report.card == card
    assert sign_card(document, [alice]) == document


# ------------------------------------------------------------------ what never raises


entries = st.one_of(
    values,
    st.fixed_dictionaries(
        {
            "protected": st.one_of(
                texts,
                values.map(lambda value: encode_base64url(dump(value))),
                st.fixed_dictionaries(
                    {"alg": st.sampled_from(["ES256", "RS256", "none"]) | values},
                    optional={
                        "kid": st.just("alice") | values,
                        "typ": st.sampled_from(["JOSE", "JWT", "cardsign-compat+jws"]) | values,
                        "crit": values,
                    },
                ).map(lambda value: encode_base64url(dump(value))),
            ),
            "signature": st.binary(max_size=70).map(encode_base64url) | texts,
        },
        optional={"header": values},
    ),
)


def assert_examined(untrusted_bytes: bytes, alice: PrivateKey) -> Report:
    """A verdict that is not "trusted", and that can be written down."""
    report = examine(untrusted_bytes, alice, profiles=DEFAULT_PROFILES)
    assert report.verdict != "trusted"
    assert report.reasons
    json.dumps(report.to_json())
    return report


@given(st.binary(max_size=200))
@example(b"")
@example(b"\xef\xbb\xbf{}")
@example(b"{" * 5000)
@example(b'{"a":' * 5000)
@example(b"[" * 200_000)
@example(b'{"a":1e999}')
@example(b'{"a":' + b"9" * 5000 + b"}")
def test_random_bytes(alice: PrivateKey, untrusted_bytes: bytes) -> None:
    """A verdict from verification, one of our errors from signing."""
    assert_examined(untrusted_bytes, alice)
    with pytest.raises(CardsignError):
        sign_card(untrusted_bytes, [alice])


@given(documents, st.lists(entries, max_size=3))
def test_random_documents(
    alice: PrivateKey, document: dict[str, Any], signatures: list[Any]
) -> None:
    """JSON of the right names and any shape, with entries of any shape."""
    untrusted_bytes = dump({**document, "signatures": signatures})

    assert_examined(untrusted_bytes, alice)
    for force in (False, True):
        try:
            sign_with_notes(untrusted_bytes, [alice], SigningOptions(force=force))
        except CardsignError:
            continue


@given(cards(), st.lists(entries, min_size=1, max_size=4))
def test_random_signatures_on_good_cards(
    alice: PrivateKey, card: dict[str, Any], signatures: list[Any]
) -> None:
    """No entry makes examination raise, or a card trusted."""
    report = assert_examined(dump({**card, "signatures": signatures}), alice)

    assert len(report.signatures) in (0, len(signatures))
