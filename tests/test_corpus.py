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
from cardsign.errors import CardsignError
from cardsign.jose.jws import read_entry
from cardsign.jose.keys import JwkSet, PrivateKey, PublicKey
from cardsign.sign import SigningOptions, sign_with_notes
from cardsign.trust.policy import Policy
from tests.support import (
    NOW,
    at,
    dump,
    each_case,
    examine,
    holder_of,
    pointers,
    reach_verdict,
    read_cases,
    signed,
)

pytestmark = pytest.mark.needs_shared

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


# ------------------------------------------------------------------ signed and verified back


def test_every_file_is_signed_and_trusted_or_refused_with_a_code(
    corpus: Files, provocative: Files, alice: PrivateKey
) -> None:
    """Nothing but our own errors; what is signed is trusted, and stays as it is."""
    refused: dict[str, str] = {}
    for name, document in (corpus | provocative).items():
        try:
            signing = sign_with_notes(document, [alice], SigningOptions())
        except CardsignError as error:
            refused[name] = error.code
            continue
        report = examine(signing.document, alice)
        assert report.verdict == "trusted", name
        assert report.profile == "served-as-is", name
        assert report.card == unsigned(json.loads(document)), name
        again = sign_with_notes(signing.document, [alice], SigningOptions())
        assert (again.document, again.changed) == (signing.document, False), name
    expected = read_cases(__file__)["refused"]
    assert Counter(refused.values()) == expected["codes"]
    assert [name[:2] for name in refused if name in provocative] == expected["ambiguous"]


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


@each_case(__file__, "signed_by_others", "name", "verdict", "profiles")
def test_real_signatures_are_recognised_and_survive_ours(
    name: str, verdict: str, profiles: list[str], corpus: Files, shared: Path, alice: PrivateKey
) -> None:
    """By published keys, as their signer had in mind; kept last, in order, beside ours."""
    card = json.loads(corpus[name])
    policy = Policy.from_jwks(public_keys(shared, name, card), name="the publisher")

    report = reach_verdict(corpus[name], expect=holder_of(policy), policy=policy, now=NOW)

    assert [one.profile for one in report.signatures] == profiles
    assert report.verdict == verdict
    assert report.answers.integrity == report.answers.complete == "yes"
    assert report.profile == "served-as-is"

    if verdict == "untrusted":
        with pytest.raises(CardsignError):
            signed(card, alice)
        return
    after = signed(card, alice)
    assert after["signatures"][-len(card["signatures"]) :] == card["signatures"]
    assert examine(after, alice).verdict == "trusted"
    assert Card.from_bytes(dump(after)).document == after
