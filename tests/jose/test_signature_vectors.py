"""Signatures that others made: RFC 7515, a third party's vectors, cards seen in public."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import rfc8785

from cardsign.errors import KeyRefused, SignatureRefused
from cardsign.jose import base64url
from cardsign.jose.jwks import JwkSet
from cardsign.jose.jws import check_entry, read_entry
from cardsign.jose.keys import PublicKey

# The public halves of RFC 7515 A.2.1 and A.3.1, the payload of both, and the two signatures.
RFC_PAYLOAD = (
    "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ"
)
RFC_EXAMPLES: dict[str, tuple[dict[str, str], str, str]] = {
    "A.2, RS256": (
        {
            "kty": "RSA",
            "n": "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJ"
            "PMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63"
            "kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4"
            "LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ",
            "e": "AQAB",
        },
        "eyJhbGciOiJSUzI1NiJ9",
        "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5"
        "jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHl"
        "b1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9"
        "QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw",
    ),
    "A.3, ES256": (
        {
            "kty": "EC",
            "crv": "P-256",
            "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
            "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
        },
        "eyJhbGciOiJFUzI1NiJ9",
        "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q",
    ),
}


@pytest.mark.parametrize(("jwk", "protected", "signature"), RFC_EXAMPLES.values(), ids=RFC_EXAMPLES)
def test_rfc_7515(jwk: dict[str, str], protected: str, signature: str) -> None:
    """The examples verify, and not with one character of the payload changed."""
    key, made = PublicKey.from_jwk(jwk), base64url.decode(signature)
    payload = base64url.decode(RFC_PAYLOAD)
    key.check(protected, payload, made)
    with pytest.raises(SignatureRefused, match=r"sig\.bad"):
        key.check(protected, b"x" + payload[1:], made)


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
