"""What a2a-sdk signs is recognised for what it is, and counts only where a policy wants it to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from experiment import ALGORITHMS, TYPS, Recognition, Row
from explanations import LOSSY
from judges import Judge, private_jwk
from samples import Sample
from support import DUAL, LAX, OLD, PORTABLE, codes, dump, examine, put

from cardsign import PrivateKey, canonicalize
from cardsign.card.canonical import FULL_PROFILES
from cardsign.card.coverage import uncovered_parts
from cardsign.card.document import Card
from cardsign.card.schema import CARD_1_0

#: a2a-sdk signs them, and we refuse to read them: each of two readers could see another card.
UNREADABLE = {
    "26-params-2^53+1.json": "json.integer_range",
    "27-params-2^53.json": "json.integer_range",
    "53-dup-key-top.json": "json.duplicate_member",
}
#: No member of it is one of a card, and a2a-sdk spells what is left `null`, not `{}`.
EMPTY = "279.json"

SPELLINGS = {field.snake_name: field.name for field in CARD_1_0.fields.values()}

Finding = tuple[Sample, Row, Recognition]


@pytest.fixture(params=ALGORITHMS)
def signed_rows(request: pytest.FixtureRequest, rows: Mapping[str, tuple[Row, ...]]) -> list[Row]:
    """The cards that a2a-sdk can sign, under one algorithm."""
    return [row for row in rows[request.param] if row.recognised]


@pytest.fixture(params=TYPS)
def findings(
    request: pytest.FixtureRequest, signed_rows: list[Row], samples: tuple[Sample, ...]
) -> list[Finding]:
    """What we say of those of them that can be read, under one typ."""
    by_name = {sample.file: sample for sample in samples}
    readable = [row for row in signed_rows if row.file not in {*UNREADABLE, EMPTY}]
    assert len(readable) > 100
    return [(by_name[row.file], row, row.recognised[request.param]) for row in readable]


@pytest.mark.needs_shared
@pytest.mark.needs_judges
def test_what_cannot_be_read_is_refused(signed_rows: list[Row]) -> None:
    """Known by name: nothing else that a2a-sdk signs is refused before its signature is seen."""
    refused = {
        row.file: found.signature
        for row in signed_rows
        for found in row.recognised.values()
        if found.signature.startswith(("json.", "card."))
    }
    assert refused == UNREADABLE
    (empty,) = [row for row in signed_rows if row.file == EMPTY]
    assert {found.signature for found in empty.recognised.values()} == {"invalid"}


@pytest.mark.needs_shared
@pytest.mark.needs_judges
def test_every_signature_is_recognised(findings: list[Finding]) -> None:
    """It always fits what a2a-sdk signs, and never more by accident."""
    for sample, row, found in findings:
        assert "prune-empty-upgraded" in found.profiles, row.file
        document = sample.document or {}
        signed = canonicalize(document, "prune-empty-upgraded").data
        full = {one for one in FULL_PROFILES if canonicalize(document, one).data == signed}
        assert full == set(found.profiles) & set(FULL_PROFILES), row.file


@pytest.mark.needs_shared
@pytest.mark.needs_judges
@pytest.mark.parametrize("alg", ALGORITHMS)
def test_by_default_only_a_full_payload_counts(
    alg: str, rows: Mapping[str, tuple[Row, ...]]
) -> None:
    """A card that loses nothing is trusted at once; any other is not, and nobody is accused."""
    seen = set()
    for row in rows[alg]:
        if not row.recognised or row.file in {*UNREADABLE, EMPTY}:
            continue
        as_jose = row.recognised["JOSE"]
        is_full = bool(set(as_jose.profiles) & set(FULL_PROFILES))
        assert as_jose.signature == ("valid" if is_full else "other-profile"), row.file
        # 285 is complete, but names no endpoint to call. The skill of 14 has an empty list of
        # input modes, which is not signed and might be read as "none" (S11).
        spoilt = row.file in ("285.json", "14-skill-empty-examples-list.json")
        assert (as_jose.by_default == "trusted") == (is_full and not spoilt)
        as_jwt = row.recognised["JWT"]
        # A card has none of a token's claims, so typ JWT changes nothing (E1).
        assert (as_jwt.signature, as_jwt.by_default) == (as_jose.signature, as_jose.by_default)
        seen.add((is_full, as_jose.by_default))
    assert seen == {(True, "trusted"), (True, "untrusted"), (False, "untrusted")}


@pytest.mark.needs_shared
@pytest.mark.needs_judges
def test_a_policy_may_accept_what_pruning_drops_and_nothing_else(findings: list[Finding]) -> None:
    """Trusted exactly if an endpoint is covered and nothing unexcused is left open."""
    trusted = 0
    for sample, row, found in findings:
        profile = next(one for one in LOSSY if one in found.profiles)
        document = sample.document or {}
        payload = canonicalize(document, profile)
        parts = uncovered_parts(payload, accept_lossy=True)
        complete = all(part.excuse for part in parts)
        assert (found.accepting == "trusted") == (complete and payload.names_an_endpoint), row.file
        trusted += found.accepting == "trusted"
    assert 10 < trusted < len(findings) / 2


@pytest.mark.needs_shared
@pytest.mark.needs_judges
def test_of_a_1_0_card_exactly_the_empties_are_excused(findings: list[Finding]) -> None:
    """The same, found without looking at coverage: what is left of a card without its empties."""
    seen = set()
    for sample, row, found in findings:
        card = Card.from_bytes(sample.data)
        if card.a2a_version != "1.0" or not card.has_endpoint:
            continue
        members = {n: child for n, child in card.document.items() if n != "signatures"}
        document = {SPELLINGS.get(n, n): child for n, child in members.items()}
        payload = canonicalize(card.document, "prune-empty-upgraded").value
        expected = _without_empties(document) == payload
        assert (found.accepting == "trusted") == expected, row.file
        seen.add(expected)
    assert seen == {True, False}


def _without_empties(value: Any, name: str = "") -> Any:
    """Null, "", [] and {} gone at every depth, and the default of the two plain booleans.

    Free-form content goes as a whole or not at all: its members are no schema's.
    """
    if name == "params":
        return value if _without_empties(value) else None
    if isinstance(value, dict):
        kept = {member: _without_empties(child, member) for member, child in value.items()}
        return {member: child for member, child in kept.items() if not _is_empty(child)} or None
    if isinstance(value, list):
        return [c for c in map(_without_empties, value) if not _is_empty(c)] or None
    return None if value is False and name in ("required", "pkceRequired") else value


def _is_empty(value: Any) -> bool:
    return value is None or value == ""


@pytest.mark.needs_shared
@pytest.mark.needs_judges
def test_a_requirement_without_scopes_is_named(findings: list[Finding]) -> None:
    """The commonest requirement is no part of what a2a-sdk signs, and we say so."""
    named = 0
    for sample, row, found in findings:
        if _requires_without_scopes(sample.document or {}):
            assert found.requirement_open, row.file
            named += 1
    assert named > 10


def _requires_without_scopes(document: Mapping[str, Any]) -> bool:
    current = document.get("securityRequirements") or []
    old = document.get("security") or []
    return any(
        scopes == {"list": []} for one in current for scopes in one.get("schemes", {}).values()
    ) or any(scopes == [] for one in old for scopes in one.values())


# ------------------------------------------------------------------ our own cards

NO_SCOPES = put(PORTABLE, "/securityRequirements/0/schemes/harbour/list", [])
WITH_EMPTIES = {**PORTABLE, "iconUrl": "", "provider": {}}

#: Card, typ, policy's profiles -> verdict on the card, on the signature, first reason
VERDICTS: dict[str, tuple[dict[str, Any], str, tuple[str, ...], str, str, str]] = {
    "a portable card is trusted outright": (
        (PORTABLE, "JOSE", FULL_PROFILES, "trusted", "valid", "trust.freshness_waived")
    ),
    "under typ JWT too, since a card has none of a token's claims": (
        (PORTABLE, "JWT", FULL_PROFILES, "trusted", "valid", "trust.freshness_waived")
    ),
    "under typ JWT it is where the pruning profile is accepted": (
        (PORTABLE, "JWT", LOSSY, "trusted", "valid", "trust.freshness_waived")
    ),
    "of a card with empties the signature covers less": (
        (WITH_EMPTIES, "JOSE", FULL_PROFILES, "untrusted", "other-profile", "sig.other_profile")
    ),
    "the empties are excused by name of the profile": (
        (WITH_EMPTIES, "JWT", LOSSY, "trusted", "valid", "coverage.uncovered")
    ),
    "a requirement without scopes is not covered": (
        (NO_SCOPES, "JOSE", FULL_PROFILES, "untrusted", "other-profile", "sig.other_profile")
    ),
    "a policy may put up with that, and is told so": (
        (NO_SCOPES, "JOSE", LOSSY, "trusted", "valid", "coverage.requirement_unsigned")
    ),
    "a member of a vendor is excused by nothing": (
        (LAX, "JOSE", LOSSY, "untrusted", "valid", "coverage.uncovered")
    ),
    "a 0.3 card is signed as what a2a-sdk makes of it": (
        (OLD, "JOSE", FULL_PROFILES, "untrusted", "other-profile", "sig.other_profile")
    ),
    "all of a 0.3 card may be covered that way": (
        (OLD, "JOSE", LOSSY, "trusted", "valid", "trust.freshness_waived")
    ),
    "0.3 members that say what is signed are harmless": (
        (DUAL, "JOSE", LOSSY, "trusted", "valid", "trust.freshness_waived")
    ),
}


@pytest.fixture(scope="module", params=ALGORITHMS)
def key(request: pytest.FixtureRequest) -> PrivateKey:
    """A key of each kind in turn."""
    return PrivateKey.generate(request.param)


@pytest.mark.needs_judges("py")
@pytest.mark.parametrize(
    ("card", "typ", "profiles", "verdict", "signature", "reason"), VERDICTS.values(), ids=VERDICTS
)
def test_a_card_that_a2a_sdk_has_signed(
    card: dict[str, Any],
    typ: str,
    profiles: tuple[str, ...],
    verdict: str,
    signature: str,
    reason: str,
    key: PrivateKey,
    sdk: Judge,
) -> None:
    """Its verdict with and without the policy's consent, and the reason that is put first."""
    made = sdk.sign(dump(card), private_jwk(key), typ=TYPS[typ])
    assert made is not None
    report = examine(made, key, profiles=profiles)

    (one,) = report.signatures
    assert (one.typ, one.verdict, report.verdict) == (typ, signature, verdict)
    assert codes(report)[0] == reason
    assert (report.card is None) == (verdict != "trusted")


@pytest.mark.needs_judges("py")
def test_the_requirement_left_open_can_be_deleted(alice: PrivateKey, sdk: Judge) -> None:
    """Why it counts for nothing by default: for a2a-sdk the card is signed with or without it."""
    made = sdk.sign(dump(NO_SCOPES), private_jwk(alice))
    assert made is not None
    edited = json.loads(made)
    del edited["securityRequirements"]

    assert examine(edited, alice).verdict == "trusted"
