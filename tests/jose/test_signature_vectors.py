"""Signatures that others made: RFC 7515, a third party's vectors, cards seen in public."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import rfc8785

from cardsign.errors import KeyRefused, SignatureRefused
from cardsign.jose.jwks import JwkSet
from cardsign.jose.jws import check_entry, read_entry
from cardsign.jose.keys import PublicKey


def served_as_is(card: dict[str, Any]) -> bytes:
    """The payload that leaves out `signatures` and nothing else."""
    return rfc8785.dumps({name: value for name, value in card.items() if name != "signatures"})


def fits(untrusted_entry: Any, payload: bytes, keys: JwkSet) -> bool:
    """Whether the key that the entry names made it over `payload`."""
    entry = read_entry(untrusted_entry)
    key = keys.find(entry.header.kid)
    assert key is not None
    try:
        check_entry(entry, payload, key)
    except SignatureRefused as exc:
        if exc.code != "sig.bad":
            raise
        return False
    return True


@pytest.mark.needs_shared
def test_third_party_vectors(shared: Path) -> None:
    """Every signature fits the canonical bytes that its vector states, but for the tampered one."""
    folder = shared / "corpus" / "vectors" / "a2a-card-sign-v01"
    keys = JwkSet.from_bytes((folder / "testkey_jwks.json").read_bytes())
    found: dict[str, list[bool]] = {}
    for path in sorted(folder.glob("s*/*.json")):
        vector = json.loads(path.read_bytes())
        entries = vector["served_card"]["signatures"]
        stated = [vector["canonical_utf8_hex"]] * len(entries)
        payloads = vector.get("canonical_utf8_hex_per_signature", stated)
        found[path.stem] = [
            fits(entry, bytes.fromhex(payload), keys)
            for entry, payload in zip(entries, payloads, strict=True)
        ]
    assert len(found) >= 35
    assert [name for name, fitting in found.items() if not all(fitting)] == ["S0-REJECT-005"]


@pytest.mark.needs_shared
def test_interop_vectors(shared: Path) -> None:
    """The SDKs' signatures over a portable card fit; Ed25519 not where others are named."""
    vectors = json.loads((shared / "interop" / "vectors.json").read_bytes())
    judged, named = 0, set[str]()
    for vector in vectors:
        (entry,) = vector["card"]["signatures"]
        if vector["alg"] == "EdDSA":
            with pytest.raises(SignatureRefused, match=r"sig\.alg_forbidden"):
                read_entry(entry, algorithms=("ES256", "RS256"))
            with pytest.raises(KeyRefused, match=r"key\.unsupported"):
                PublicKey.from_jwk(vector["jwk"], algorithms=("ES256", "RS256"))
            named.add(vector["id"])
        keys = JwkSet.of([PublicKey.from_jwk(vector["jwk"])])
        assert fits(entry, served_as_is(vector["card"]), keys) is vector["expect"], vector["id"]
        judged += 1
    assert judged - len(named) >= 5
    assert len(named) == 1


PUBLIC_CARDS = {
    "a production card, two profiles under one kid": (
        "282",
        "gate/gate_jwks_20260928",
        [True, False],
    ),
    "ES256": ("283", "inline/capiscio_jwks", [True]),
    "RS256": ("285", "inline/iac_rsa_jwks", [True]),
}


@pytest.mark.needs_shared
@pytest.mark.parametrize(("card", "jwks", "expected"), PUBLIC_CARDS.values(), ids=PUBLIC_CARDS)
def test_public_card(shared: Path, card: str, jwks: str, expected: list[bool]) -> None:
    """Real cards verify served as is; a second signature over another payload does not."""
    document = json.loads((shared / "corpus" / "cards" / f"{card}.json").read_bytes())
    keys = JwkSet.from_bytes((shared / "corpus" / "vectors" / f"{jwks}.json").read_bytes())
    payload = served_as_is(document)
    assert [fits(entry, payload, keys) for entry in document["signatures"]] == expected
    assert not any(fits(entry, payload + b" ", keys) for entry in document["signatures"])
