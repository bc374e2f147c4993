"""Third-party vectors, held against the readings that we have."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from cardsign.card.profiles import DEFAULT_PROFILES, canonicalize
from cardsign.card.strictjson import parse_object
from cardsign.card.values import jcs
from cardsign.errors import CanonicalizationError, JsonRefused
from cardsign.jose.keys import JwkSet
from cardsign.trust.policy import Policy
from cardsign.verify.report import Report
from tests.support import NOW, dump, holder_of, reach_verdict, read_cases

pytestmark = pytest.mark.needs_shared

READINGS: dict[str, str] = read_cases(__file__)["readings"]


@pytest.fixture(scope="module")
def vectors(shared: Path) -> dict[str, dict[str, Any]]:
    """The 35 vectors of a2a-card-sign-v01, by id."""
    folder = shared / "corpus" / "vectors" / "a2a-card-sign-v01"
    found = [json.loads(path.read_bytes()) for path in sorted(folder.glob("*/*.json"))]
    assert len(found) == 35
    return {vector["id"]: vector for vector in found}


@pytest.fixture(scope="module")
def jwks(shared: Path) -> JwkSet:
    """Their key."""
    path = shared / "corpus" / "vectors" / "a2a-card-sign-v01" / "testkey_jwks.json"
    return JwkSet.from_bytes(path.read_bytes())


def verdict(card: dict[str, Any], jwks: JwkSet, *profiles: str) -> Report:
    """The verdict of who pins the key and accepts these profiles."""
    policy = Policy.from_jwks(jwks, name="x", accept="sdk", only=profiles or DEFAULT_PROFILES)
    return reach_verdict(dump(card), expect=holder_of(policy), policy=policy, now=NOW)


def expectations(vector: dict[str, Any]) -> dict[str, bool]:
    """Our profiles that must, or must not, explain the signature."""
    found = {READINGS[name]: True for name in vector["accept_under"] if name in READINGS}
    found |= {READINGS[name]: False for name in vector["reject_under"] if name in READINGS}
    return found


def test_signatures_verify_under_the_readings_named(
    vectors: dict[str, dict[str, Any]], jwks: JwkSet
) -> None:
    """The signature's own verdict is compared, never ours on the card: that asks for more."""
    checked: Counter[bool] = Counter()
    for name, vector in vectors.items():
        card = vector["served_card"]
        for profile, accepted in expectations(vector).items():
            report = verdict(card, jwks, profile)
            explained = [one.profile == profile for one in report.signatures]
            assert any(explained) is accepted, (name, profile)
            counts = [one.counts for one in report.signatures]
            assert any(counts) is accepted, (name, profile)
            checked[accepted] += 1
    assert checked == {True: 50, False: 42}


def test_every_reading_of_the_vectors_is_accounted_for(vectors: dict[str, dict[str, Any]]) -> None:
    """A new name in a newer set must not pass for "not applicable"."""
    names = {name for v in vectors.values() for name in v["accept_under"] + v["reject_under"]}
    assert sorted(names - set(READINGS)) == read_cases(__file__)["other_readings"]["names"]


def test_payloads_are_the_vectors_own_bytes(vectors: dict[str, dict[str, Any]]) -> None:
    """Byte for byte under the readings that accept, other bytes under those that reject."""
    checked: Counter[bool] = Counter()
    for name, vector in vectors.items():
        if not vector["accept_under"]:
            continue  # the card was edited after signing: the bytes are those of the edited card
        signed_bytes = bytes.fromhex(vector["canonical_utf8_hex"])
        for profile, accepted in expectations(vector).items():
            data = canonicalize(vector["served_card"], profile).data
            assert (data == signed_bytes) is accepted, (name, profile)
            checked[accepted] += 1
    assert checked == {True: 50, False: 39}


def test_two_names_of_one_field_are_refused(
    vectors: dict[str, dict[str, Any]], jwks: JwkSet
) -> None:
    """The axis on which we side with the proposal: a well-signed card, refused at once."""
    dual = [vector for vector in vectors.values() if vector.get("axis") == "dual-name"]
    assert len(dual) == 2
    for vector in dual:
        report = verdict(vector["served_card"], jwks)
        assert (report.verdict, report.reasons[0].code) == ("invalid", "card.two_spellings")


@pytest.mark.parametrize("name", ["S3-T-011", "S3-D-013"])
def test_a_url_edited_after_signing_is_not_trusted(
    name: str, vectors: dict[str, dict[str, Any]], jwks: JwkSet
) -> None:
    """Where the vector says "accept": the signature fits, and the verdict names the url."""
    card = vectors[name]["served_card"]
    assert "attacker.example" in card["url"]
    for profiles in ((), ("served-as-is", "rule-1-as-written"), ("prune-empty",)):
        report = verdict(card, jwks, *profiles)
        assert report.verdict == "untrusted"
        assert "/url" in report.uncovered
    if name == "S3-D-013":
        assert "sig.coverage_reduced" in [reason.code for reason in report.reasons]


def test_a_jku_is_ignored(vectors: dict[str, dict[str, Any]], jwks: JwkSet) -> None:
    """Every vector names a key set in its header; without a pinned key none is known."""
    report = verdict(vectors["S0-001"]["served_card"], JwkSet.of([]))

    assert (report.verdict, report.reasons[0].code) == ("untrusted", "key.unknown")


def test_the_sdks_own_signatures(shared: Path) -> None:
    """By a2a-sdk, @a2a-js/sdk, a2a-go (Ed25519) and a reference; none once it is edited."""
    found = json.loads((shared / "interop" / "vectors.json").read_bytes())
    assert len(found) == 6
    for vector in found:
        keys = JwkSet.from_bytes(dump({"keys": [vector["jwk"]]}))
        edited = {**vector["card"], "name": "x"}
        for card, is_sound in ((vector["card"], vector.get("expect", True)), (edited, False)):
            report = verdict(card, keys, "served-as-is", "rule-1-as-written")
            assert report.verdict == ("trusted" if is_sound else "invalid"), vector["id"]


# ------------------------------------------------------------------ RFC 8785


@pytest.fixture(scope="module")
def jcs_vectors(shared: Path) -> dict[str, Any]:
    """The inputs of a2a-jcs-v01."""
    path = shared / "corpus" / "vectors" / "a2a-jcs-v01-inputs.json"
    found: dict[str, Any] = json.loads(path.read_bytes())
    assert (len(found["accept"]), len(found["reject"])) == (44, 8)
    return found


def test_jcs_bytes(jcs_vectors: dict[str, Any]) -> None:
    """Every input that has a canonical form has exactly this one."""
    for name, vector in jcs_vectors["accept"].items():
        assert jcs(vector["input"]).hex() == vector["canonical_utf8_hex"], name


def test_jcs_refusals(jcs_vectors: dict[str, Any]) -> None:
    """What has none is refused by the reader; and where it is read laxly, by the writer."""
    for text in jcs_vectors["reject"].values():
        with pytest.raises(JsonRefused):
            parse_object(text.encode())
        laxly_read = json.loads(text)
        with pytest.raises(CanonicalizationError):
            jcs(laxly_read)
