"""Attacks 1 to 6: what the header says about the algorithm."""

from __future__ import annotations

import hashlib
import hmac
import json

from corpus import JWKS_ANCHOR, Corpus, issuer, jwk_set, pinned
from crafting import (
    CARD,
    ec_key,
    ed25519_key,
    header_of,
    rsa_key,
    rsa_signing,
    signed,
    with_entry,
)
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from cardsign.jose import base64url


def build(corpus: Corpus) -> None:
    """Register them."""
    _none(corpus)
    _spellings(corpus)
    _hmac(corpus)
    _key_types(corpus)
    _curves(corpus)
    _rsa_variants(corpus)


def _none(corpus: Corpus) -> None:
    attack = corpus.attack(
        1,
        "alg-none",
        "The algorithm `none`",
        "A JWS library that takes the algorithm from the header accepts `none` without any key. "
        "Only algorithms that the verifier names may count.",
    )
    key = ec_key("harbour-1")
    attack.policy(issuer(pinned(key)))
    none = signed(CARD, key, header_of(key, alg="none"))
    for id_, title, card in (
        ("empty", "`none` and an empty signature", with_entry(none, signature="")),
        ("signed", "`none` over a signature that is good", none),
        (
            "absent",
            "`none` without the member `signature`: no signature at all",
            with_entry(none, signature=None),
        ),
    ):
        code = "sig.shape" if id_ == "absent" else "sig.alg_forbidden"
        attack.attack(id_, title, card, "untrusted", code)
    attack.twin("es256", "The same card under ES256", signed(CARD, key))


def _spellings(corpus: Corpus) -> None:
    attack = corpus.attack(
        2,
        "alg-spelling",
        "Other spellings of an algorithm",
        "Names are compared exactly (RFC 7515 4.1.1); a reader that folds case, takes the first "
        "of a list or fills in a default lets the header choose. Each signature here is good.",
    )
    key = ec_key("harbour-1")
    attack.policy(issuer(pinned(key)))
    for id_, title, alg in (
        ("none-capital", "`None`", "None"),
        ("none-mixed", "`nOnE`", "nOnE"),
        ("lower-case", "`es256`", "es256"),
        ("space", "`ES256` and a space", "ES256 "),
        ("nul", "`ES256` and a NUL", "ES256\0"),
        ("cyrillic", "`ЕS256`, the E being Cyrillic", "\u0415S256"),
        ("list", "a list that holds ES256", ["ES256"]),
        ("number", "a number", 256),
        ("registered-nowhere", "`ES257`", "ES257"),
    ):
        card = signed(CARD, key, header_of(key, alg=alg))
        attack.attack(id_, f"The algorithm is {title}", card, "untrusted", "sig.alg_forbidden")
    for id_, title, header in (
        ("absent", "There is no algorithm", header_of(key, alg=None)),
        ("null", "The algorithm is null", {**header_of(key), "alg": None}),
    ):
        attack.attack(id_, title, signed(CARD, key, header), "untrusted", "sig.alg_forbidden")
    attack.twin("exact", "The algorithm is ES256", signed(CARD, key))
    spaced = json.dumps({"typ": "JOSE", "kid": key.kid, "alg": "ES256"}, indent=2).encode()
    attack.twin("spaced", "Other order and white space", signed(CARD, key, spaced))
    escaped = f'{{"\\u0061lg":"ES\\u003256","kid":"{key.kid}","typ":"JOSE"}}'.encode()
    attack.twin("escaped", "Letters written as JSON escapes", signed(CARD, key, escaped))


def _hmac(corpus: Corpus) -> None:
    attack = corpus.attack(
        3,
        "hmac-confusion",
        "HMAC keyed with the public key",
        "A library that hands the public key to whatever algorithm the header names computes an "
        "HMAC whose key everybody knows.",
    )
    key, curve_key = rsa_key("harbour-rsa"), ec_key("harbour-1")
    attack.policy(issuer(pinned(key, curve_key)))
    public = key.native.public_key()
    info = PublicFormat.SubjectPublicKeyInfo
    pem, der = (public.public_bytes(one, info) for one in (Encoding.PEM, Encoding.DER))
    text = json.dumps(key.jwk(), separators=(",", ":")).encode()
    x_and_y = b"".join(base64url.decode(curve_key.numbers[name]) for name in "xy")
    for id_, title, alg, digest, secret, owner in (
        ("pem", "HS256 keyed with the PEM", "HS256", "sha256", pem, key),
        ("pem-stripped", "HS256, the PEM without its newline", "HS256", "sha256", pem[:-1], key),
        ("der", "HS256 keyed with the DER", "HS256", "sha256", der, key),
        ("jwk", "HS256 keyed with the JWK's text", "HS256", "sha256", text, key),
        ("modulus", "HS256 keyed with the modulus", "HS256", "sha256", _modulus(key), key),
        ("point", "HS256 keyed with x and y", "HS256", "sha256", x_and_y, curve_key),
        ("hs384", "HS384 keyed with the PEM", "HS384", "sha384", pem, key),
        ("hs512", "HS512 keyed with the PEM", "HS512", "sha512", pem, key),
    ):
        card = signed(
            CARD,
            owner,
            header_of(owner, alg=alg),
            sign=lambda data, s=secret, d=digest: hmac.digest(s, data, d),
        )
        attack.attack(id_, title, card, "untrusted", "sig.alg_forbidden")
    disguised = signed(CARD, key, sign=lambda data: hmac.new(pem, data, hashlib.sha256).digest())
    attack.attack("disguised", "An HMAC under the header RS256", disguised, "invalid", "sig.bad")
    attack.twin("rs256", "RS256 by the same key", signed(CARD, key))
    attack.twin("es256", "ES256 by the other", signed(CARD, curve_key))


def _modulus(key: object) -> bytes:
    return base64url.decode(key.numbers["n"])  # type: ignore[attr-defined]


def _key_types(corpus: Corpus) -> None:
    attack = corpus.attack(
        4,
        "key-type",
        "The algorithm of another kind of key",
        "The key says which algorithm it is for, and the header only repeats it. One that says "
        "otherwise is refused before anything is computed.",
    )
    elliptic, modular = ec_key("harbour-ec"), rsa_key("harbour-rsa")
    attack.policy(issuer(pinned(elliptic, modular)))
    for id_, title, key, alg in (
        ("rs256-for-ec", "RS256 names a key on P-256, which has signed", elliptic, "RS256"),
        ("es256-for-rsa", "ES256 names an RSA key, which has signed", modular, "ES256"),
    ):
        card = signed(CARD, key, header_of(key, alg=alg))
        attack.attack(id_, title, card, "untrusted", "key.alg_mismatch")
    crossed = signed(CARD, elliptic, header_of(elliptic, kid=modular.kid))
    attack.attack(
        "kid-of-rsa",
        "ES256 by the key on P-256 under the kid of the RSA key",
        crossed,
        "untrusted",
        "key.alg_mismatch",
    )
    attack.twin("ec", "The key on P-256 under ES256", signed(CARD, elliptic))
    attack.twin("rsa", "The RSA key under RS256", signed(CARD, modular))


def _curves(corpus: Corpus) -> None:
    attack = corpus.attack(
        5,
        "curve",
        "ES256 on another curve",
        "ES256 is P-256 with SHA-256 and nothing else (RFC 7518 3.4). Another curve is another "
        "algorithm, and a JWK that lies about its curve is no key.",
    )
    key = ec_key("harbour-1")
    strangers = {
        "p384": ec_key("odd", ec.SECP384R1()),
        "secp256k1": ec_key("odd", ec.SECP256K1()),
        "ed25519": ed25519_key("odd"),
    }
    attack.policy(issuer(JWKS_ANCHOR))
    for id_, title in (
        ("p384", "A P-384 key, SHA-256, and the header ES256"),
        ("secp256k1", "A key on secp256k1 and the header ES256"),
        ("ed25519", "An Ed25519 key and the header ES256"),
    ):
        odd = strangers[id_]
        card = signed(CARD, odd, header_of(odd, alg="ES256"))
        offered = jwk_set(key, odd.jwk(alg=None))
        code = "key.unsupported" if id_ == "secp256k1" else "key.alg_mismatch"
        attack.attack(id_, title, card, "untrusted", code, jwks=offered)
    forms = (
        ("crv-lie", "The point of P-384 is declared as one of P-256", strangers["p384"], {}),
        ("crv-lie-k1", "The point of secp256k1 as one of P-256", strangers["secp256k1"], {}),
        ("crv-absent", "The JWK names no curve", key, {"crv": None}),
    )
    for id_, title, odd, changes in forms:
        lying = odd.jwk(**{"crv": "P-256", "alg": "ES256", **changes})
        card = signed(CARD, odd, header_of(odd, alg="ES256"))
        attack.attack(id_, title, card, "indeterminate", "key.malformed", jwks=jwk_set(lying))
    attack.twin("p256", "P-256", signed(CARD, key), jwks=jwk_set(key))
    beside = jwk_set(strangers["secp256k1"].jwk(alg=None), key)
    attack.twin(
        "beside", "P-256 beside a key that nobody here uses", signed(CARD, key), jwks=beside
    )


def _rsa_variants(corpus: Corpus) -> None:
    attack = corpus.attack(
        6,
        "rsa-variant",
        "Other RSA signatures under RS256",
        "A key service asked for the wrong padding signs with PSS, and its signature must not "
        "pass as RS256; nor one over another digest, nor one without the digest's name.",
    )
    key = rsa_key("harbour-rsa")
    attack.policy(issuer(pinned(key)))
    anchor = pinned(key.jwk(alg="PS256"))
    pss = attack.policy(issuer(anchor, algorithms=["PS256"]), name="pss.toml")
    for id_, title, alg in (
        ("pss", "PSS", "PS256"),
        ("sha384", "PKCS #1 over SHA-384", "RS384"),
        ("sha512", "PKCS #1 over SHA-512", "RS512"),
        ("sha1", "PKCS #1 over SHA-1", "SHA1"),
    ):
        card = signed(CARD, key, sign=rsa_signing(key.native, alg))
        attack.attack(id_, f"{title}, and the header RS256", card, "invalid", "sig.bad")
    for alg in ("PS256", "RS512"):
        card = signed(CARD, key, header_of(key, alg=alg), sign=rsa_signing(key.native, alg))
        attack.attack(
            f"{alg.lower()}-unasked",
            f"{alg}, which this policy does not name",
            card,
            "untrusted",
            "sig.alg_forbidden",
        )
    card = signed(CARD, key, header_of(key, alg="PS256"), sign=rsa_signing(key.native, "PS256"))
    attack.attack(
        "rs256-under-ps256",
        "RS256 by a key that is for PS256 alone",
        signed(CARD, key),
        "untrusted",
        "sig.alg_forbidden",
        policy=pss,
    )
    attack.twin("rs256", "RS256", signed(CARD, key))
    attack.twin("ps256", "PS256 where the policy names it and the key is for it", card, policy=pss)
