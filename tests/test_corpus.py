"""Real cards and provocative ones: what is signed verifies, what is refused says why.

Nothing of the corpus is copied here; it is read in place where it is.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import load_der_public_key

from cardsign.card.document import Card, unsigned
from cardsign.card.profiles import DEFAULT_PROFILES, FULL_PROFILES, canonicalize
from cardsign.errors import CanonicalizationError, CardsignError
from cardsign.jose.jws import TYP_COMPAT, read_entry, sign_payload
from cardsign.jose.keys import JwkSet, PrivateKey, PublicKey
from cardsign.sign import SigningOptions, sign_with_notes
from cardsign.trust.policy import Policy
from tests.support import (
    NOW,
    at,
    by_another_sdk,
    codes,
    dump,
    examine,
    holder_of,
    pointers,
    reach_verdict,
    signed,
    trusting,
)

pytestmark = pytest.mark.needs_shared

LOSSY = tuple(profile for profile in DEFAULT_PROFILES if profile not in FULL_PROFILES)

Files = dict[str, bytes]


def read(path: Path) -> bytes:
    """The card's bytes; five of them are compressed."""
    data = path.read_bytes()
    return gzip.decompress(data) if path.suffix == ".gz" else data


@pytest.fixture(scope="module")
def corpus(shared: Path) -> Files:
    """The 101 real cards, and files that claim to be one."""
    folder = shared / "corpus" / "cards"
    paths = [*folder.glob("*.json"), *folder.glob("*.json.gz")]
    assert (len(paths), sum(path.suffix == ".gz" for path in paths)) == (101, 5)
    return {path.name.partition(".")[0]: read(path) for path in sorted(paths)}


@pytest.fixture(scope="module")
def provocative(shared: Path) -> Files:
    """The 60 cards made to part implementations."""
    paths = sorted((shared / "interop" / "cards").glob("*.json"))
    assert len(paths) == 60
    return {path.stem: read(path) for path in paths}


@pytest.fixture(scope="module")
def everything(corpus: Files, provocative: Files) -> Files:
    """All of them."""
    return corpus | provocative


@pytest.fixture(scope="module")
def honest(everything: Files, alice: PrivateKey) -> dict[str, dict[str, Any]]:
    """Those that could be signed, with our signatures alone: full, and compat where bytes part.

    A card without an endpoint for an SDK gets its compat signature as well.
    """
    found = {}
    for name, document in everything.items():
        try:
            options = SigningOptions(drop_foreign=True, compat="none")
            signing = sign_with_notes(document, [alice], options)
        except CardsignError:
            continue
        found[name] = json.loads(signing.document)
        full = payloads(found[name], *FULL_PROFILES).values()
        for payload in set(payloads(found[name], *LOSSY).values()) - set(full):
            found[name]["signatures"].append(sign_payload(payload, alice, typ=TYP_COMPAT))
    assert len(found) > 100
    return found


def payloads(card: dict[str, Any], *profiles: str) -> dict[str, bytes]:
    """The bytes under each of the profiles that has any."""
    made = {}
    for profile in profiles:
        try:
            made[profile] = canonicalize(card, profile).data
        except CanonicalizationError:
            continue
    return made


# ------------------------------------------------------------------ signed and verified back

REFUSED = {
    "card.interface_url": 1,
    "card.no_interface": 4,
    "card.not_agent_card": 13,
    "card.security": 2,
    "card.type": 15,
    "json.depth": 4,
    "json.duplicate_member": 1,
    "json.integer_range": 2,
    "json.number": 1,
    "json.surrogate": 1,
    "json.syntax": 1,
}


def test_every_file_is_signed_and_trusted_or_refused_with_a_code(
    everything: Files, alice: PrivateKey
) -> None:
    """Nothing but our own errors; what is signed is trusted, and stays as it is."""
    refused: Counter[str] = Counter()
    for name, document in everything.items():
        try:
            signing = sign_with_notes(document, [alice], SigningOptions())
        except CardsignError as error:
            refused[error.code] += 1
            continue
        report = examine(signing.document, alice)
        assert report.verdict == "trusted", name
        assert report.profile == "served-as-is", name
        assert report.card == unsigned(json.loads(document)), name
        again = sign_with_notes(signing.document, [alice], SigningOptions())
        assert (again.document, again.changed) == (signing.document, False), name
    assert refused == REFUSED


def test_of_the_provocative_cards_the_ambiguous_are_refused(
    provocative: Files, alice: PrivateKey
) -> None:
    """By number, as the rules say; the worked example of 8.4.1 is no whole card."""
    refused = set()
    for name, document in provocative.items():
        try:
            sign_with_notes(document, [alice], SigningOptions())
        except CardsignError:
            refused.add(int(name[:2]))
    assert refused == {8, 26, 27, 28, 34, 51, 52, 53, 57, 58, 59, 60}


# ------------------------------------------------------------------ deleting beats nothing


def test_no_lossy_payload_is_trusted_as_the_card(
    honest: dict[str, dict[str, Any]], alice: PrivateKey
) -> None:
    """Threat 1 on every card: served with all of its signatures, the pruned card is not it."""
    attacks = harmless = 0
    for name, card in honest.items():
        assert examine(card, alice).verdict == "trusted", name
        full = [canonicalize(card, profile).data for profile in FULL_PROFILES]
        for profile in LOSSY:
            try:
                pruned = canonicalize(card, profile)
            except CanonicalizationError:
                continue
            report = examine({**pruned.value, "signatures": card["signatures"]}, alice)
            if pruned.data in full:  # it drops defaults only, or nothing
                assert report.verdict == "trusted", name
                harmless += 1
            else:
                assert report.verdict in ("untrusted", "invalid"), name
                assert report.card is None, name
                attacks += 1
    assert (attacks, harmless) == (172, 60)


# ------------------------------------------------------------------ as a2a-sdk signs


def test_what_a2a_sdk_signs_is_named_and_not_trusted(
    honest: dict[str, dict[str, Any]], alice: PrivateKey
) -> None:
    """Unmarked signatures over its payload, under its default typ, by a pinned key."""
    tried = open_requirements = accepted = 0
    for name, card in honest.items():
        plain = unsigned(card)
        try:
            theirs = by_another_sdk(plain, alice, "prune-empty-upgraded", typ="JWT")
        except CanonicalizationError:
            continue
        tried += 1
        report = examine(theirs, alice)
        if set(payloads(plain, *FULL_PROFILES).values()) & set(
            payloads(plain, "prune-empty-upgraded").values()
        ):  # nothing of it is pruned, so its bytes are a full payload's as well (E1)
            # An empty list of a skill's modes is not signed, and might be read as "none" (S11).
            spoilt = name == "14-skill-empty-examples-list"
            assert report.verdict == ("untrusted" if spoilt else "trusted"), name
            assert report.profile in FULL_PROFILES, name
        else:
            assert report.verdict == "untrusted", name
            assert codes(report)[0] == "sig.other_profile", name
        open_requirements += "coverage.requirement_unsigned" in codes(report)
        by_name = examine(theirs, alice, profiles=("prune-empty-upgraded",))
        if by_name.verdict == "trusted":
            accepted += 1
            assert "coverage.absence_unprovable" in codes(by_name), name
            upgraded = canonicalize(plain, "prune-empty-upgraded").value
            assert by_name.card == upgraded, name
    assert tried > 100
    assert open_requirements > 20
    assert accepted > 20


# ------------------------------------------------------------------ real signatures


def public_keys(shared: Path, name: str, card: dict[str, Any]) -> JwkSet:
    """The keys with which the publisher's signatures verify."""
    vectors = shared / "corpus" / "vectors"
    files = {
        "282": vectors / "gate" / "gate_jwks_20260928.json",
        "283": vectors / "inline" / "capiscio_jwks.json",
        "285": vectors / "inline" / "iac_rsa_jwks.json",
    }
    if name in files:
        return JwkSet.from_bytes(files[name].read_bytes())
    # One publisher keeps its key as DER inside the card; lifted here, ignored by the verifier.
    (entry,) = card["signatures"]
    kid = read_entry(entry).kid
    holders = [at(card, w) for w in pointers(card) if isinstance(at(card, w), dict)]
    (der,) = {
        holder["public_key_der_base64"]
        for holder in holders
        if holder.get("key_id") == kid and "public_key_der_base64" in holder
    }
    native = load_der_public_key(base64.b64decode(der))
    return JwkSet.of([PublicKey.from_cryptography(native, kid=kid)])


SIGNED_BY_OTHERS: dict[str, tuple[str, list[str]]] = {
    "232": ("trusted", ["served-as-is"]),
    "272": ("trusted", ["served-as-is"]),
    "273": ("trusted", ["served-as-is"]),
    "282": ("trusted", ["served-as-is", "prune-empty"]),
    "283": ("trusted", ["served-as-is"]),
    "285": ("untrusted", ["served-as-is"]),  # a name and nothing else: nowhere to call
}


@pytest.fixture(params=SIGNED_BY_OTHERS)
def real(request: pytest.FixtureRequest) -> str:
    """Each card that a stranger signed well."""
    name = request.param
    assert isinstance(name, str)
    return name


def test_real_signatures_are_recognised(real: str, corpus: Files, shared: Path) -> None:
    """With their published keys, under the profile that their signer had in mind."""
    verdict, profiles = SIGNED_BY_OTHERS[real]
    card = json.loads(corpus[real])
    policy = Policy.from_jwks(public_keys(shared, real, card), name="the publisher")

    report = reach_verdict(corpus[real], expect=holder_of(policy), policy=policy, now=NOW)

    assert [one.profile for one in report.signatures] == profiles
    assert report.verdict == verdict
    assert report.answers.integrity == report.answers.complete == "yes"
    assert report.profile == "served-as-is"


def test_foreign_signatures_survive_our_signing(
    real: str, corpus: Files, alice: PrivateKey
) -> None:
    """Kept last, in their order, although we do not hold their keys."""
    if real == "285":
        with pytest.raises(CardsignError):
            signed(json.loads(corpus[real]), alice)
        return
    before = json.loads(corpus[real])

    after = signed(before, alice)

    assert after["signatures"][-len(before["signatures"]) :] == before["signatures"]
    policy = trusting(alice)
    assert (
        reach_verdict(dump(after), expect=holder_of(policy), policy=policy, now=NOW).verdict
        == "trusted"
    )
    assert Card.from_bytes(dump(after)).document == after
