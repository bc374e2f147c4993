"""Attacks 18 to 22: key sets. They come from the URL that the policy names."""

from __future__ import annotations

import json
from itertools import count

from corpus import Corpus, fetching, jwk_set
from crafting import (
    CARD,
    P256_B,
    P256_FIELD,
    Key,
    b64,
    ec_key,
    ed25519_key,
    header_of,
    number,
    rsa_key,
    signed,
)

from cardsign.jose import base64url


def build(corpus: Corpus) -> None:
    """Register them."""
    for make in (_aliases, _off_curve, _purpose, _private, _collisions):
        make(corpus)


def _aliases(corpus: Corpus) -> None:
    attack = fetching(
        corpus,
        18,
        "aliases",
        "Another spelling of the same key",
        "The thumbprint identifies a key, and is computed from the text of its numbers. If one "
        "number had two spellings, a revoked key would come back under another name.",
    )
    key, modular = _with_leading_zero(), rsa_key("harbour-rsa")
    numbers = {name: base64url.decode(key.numbers[name]) for name in "xy"}
    n = base64url.decode(modular.numbers["n"])
    card, rsa_card = signed(CARD, key), signed(CARD, modular)
    for id_, title, changes in (
        ("x-long", "A zero byte before x", {"x": b64(b"\0" + numbers["x"])}),
        ("x-short", "x without its leading zero byte", {"x": b64(numbers["x"][1:])}),
        ("y-long", "A zero byte before y", {"y": b64(b"\0" + numbers["y"])}),
        ("x-padded", "x is padded", {"x": key.numbers["x"] + "="}),
        ("x-stray", "x ends with stray bits", {"x": _stray(key.numbers["x"])}),
    ):
        attack.bad_set(id_, title, card, "key.malformed", jwk_set(key.jwk(**changes)))
    for id_, title, changes in (
        ("n-long", "A zero byte before n", {"n": b64(b"\0" + n)}),
        ("e-long", "A zero byte before e", {"e": b64(b"\0\1\0\1")}),
        ("e-number", "e is a JSON number", {"e": 65537}),
    ):
        attack.bad_set(id_, title, rsa_card, "key.malformed", jwk_set(modular.jwk(**changes)))
    attack.twin("x-full", "x at full length, its first byte zero", card, jwks=jwk_set(key))
    attack.twin("rsa", "n and e in the shortest form", rsa_card, jwks=jwk_set(modular))


def _with_leading_zero() -> Key:
    while base64url.decode((key := ec_key("harbour-1")).numbers["x"])[0]:
        pass
    return key


def _stray(text: str) -> str:
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    return text[:-1] + alphabet[alphabet.index(text[-1]) ^ 1]


def _off_curve(corpus: Corpus) -> None:
    attack = fetching(
        corpus,
        19,
        "off-curve",
        "Points that are none",
        "A point that is not on P-256, or whose coordinates are not reduced, is no key; one that "
        "is on the curve by another spelling would be a second identity.",
    )
    key = ec_key("harbour-1")
    card = signed(CARD, key)
    x, y = (int.from_bytes(base64url.decode(key.numbers[name])) for name in "xy")
    small_x, small_y = _point_of_small_x()
    for id_, title, point in (
        ("infinity", "The point at infinity, written as (0, 0)", (0, 0)),
        ("off", "y is one too high", (x, y + 1)),
        ("exchanged", "x and y are exchanged", (y, x)),
        ("unreduced", "x is not reduced modulo p", (small_x + P256_FIELD, small_y)),
        ("max", "x and y are 2^256-1", (2**256 - 1, 2**256 - 1)),
    ):
        changes = dict(zip("xy", (number(one, 32) for one in point), strict=True))
        attack.bad_set(id_, title, card, "key.malformed", jwk_set(key.jwk(**changes)))
    attack.bad_set("half", "There is no y", card, "key.malformed", jwk_set(key.jwk(y=None)))
    mirrored = key.jwk(y=number(P256_FIELD - y, 32))
    attack.attack(
        "mirrored",
        "(x, -y), which is a point, and another key",
        card,
        "invalid",
        "sig.bad",
        jwks=jwk_set(mirrored),
    )
    attack.twin("on", "(x, y)", card, jwks=jwk_set(key))


def _point_of_small_x() -> tuple[int, int]:
    p = P256_FIELD
    for x in count(1):
        square = (x**3 - 3 * x + P256_B) % p
        y = pow(square, (p + 1) // 4, p)
        if y * y % p == square:
            return x, y
    raise AssertionError


def _purpose(corpus: Corpus) -> None:
    attack = fetching(
        corpus,
        20,
        "key-purpose",
        "Keys that are not meant for signatures",
        "What a JWK says about its use is obeyed: such a key is passed over, as one of an unknown "
        "type is, and a signature by it counts as one by nobody.",
    )
    key, modular = ec_key("harbour-1"), rsa_key("harbour-1")
    for id_, title, jwk in (
        ("use-enc", "use=enc", key.jwk(use="enc")),
        ("use-unknown", "use=tides", key.jwk(use="tides")),
        ("ops-sign", "key_ops=[sign] on a public key", key.jwk(key_ops=["sign"])),
        ("ops-empty", "key_ops=[]", key.jwk(key_ops=[])),
        ("ops-wrap", "key_ops=[wrapKey, encrypt]", key.jwk(key_ops=["wrapKey", "encrypt"])),
        ("alg-es384", "alg=ES384 on P-256", key.jwk(alg="ES384")),
        ("alg-ecdh", "alg=ECDH-ES", key.jwk(alg="ECDH-ES")),
        ("alg-rs256", "alg=RS256 on P-256", key.jwk(alg="RS256")),
    ):
        attack.attack(
            id_, title, signed(CARD, key), "untrusted", "key.unsupported", jwks=jwk_set(jwk)
        )
    for id_, title, changes in (
        ("rsa-oaep", "alg=RSA-OAEP-256", {"alg": "RSA-OAEP-256"}),
        ("rsa-hs256", "alg=HS256", {"alg": "HS256"}),
    ):
        offered = jwk_set(modular.jwk(**changes))
        attack.attack(
            id_, title, signed(CARD, modular), "untrusted", "key.unsupported", jwks=offered
        )
    for id_, title, changes in (
        ("ops-text", "key_ops is no list", {"key_ops": "verify"}),
        ("use-list", "use is a list", {"use": ["sig"]}),
        ("kty-absent", "There is no kty", {"kty": None}),
    ):
        malformed = jwk_set(key.jwk(**changes))
        attack.bad_set(id_, title, signed(CARD, key), "key.malformed", malformed)
    attack.twin("declared", "use=sig, alg=ES256", signed(CARD, key), jwks=jwk_set(key))
    attack.twin(
        "operations",
        "key_ops=[verify] and nothing else",
        signed(CARD, key),
        jwks=jwk_set(key.jwk(use=None, alg=None, key_ops=["verify"])),
    )
    attack.twin(
        "undeclared",
        "Nothing is said",
        signed(CARD, key),
        jwks=jwk_set(key.jwk(use=None, alg=None)),
    )


def _private(corpus: Corpus) -> None:
    attack = fetching(
        corpus,
        21,
        "private-members",
        "A private half in a public key set",
        "A key whose private half was published is everybody's. The set is refused whole, so that "
        "its owner notices; the values here are placeholders, for presence decides.",
    )
    key, modular = ec_key("harbour-1"), rsa_key("harbour-rsa")
    card = signed(CARD, key)
    for id_, title, jwks in (
        ("ec", "`d` of the key that signs", jwk_set(key.jwk(d="AQ"))),
        ("rsa", "`p` of another key", jwk_set(key, modular.jwk(p="AQ"))),
        ("rsa-oth", "`oth` of another key", jwk_set(key, modular.jwk(oth=[]))),
        ("okp", "`d` of a key of another type", jwk_set(key, ed25519_key("x").jwk(d="AQ"))),
        ("oct", "A shared secret", jwk_set(key, {"kty": "oct", "kid": "s", "k": "AQ"})),
        ("oct-bare", "A shared secret without its value", jwk_set(key, {"kty": "oct"})),
        ("unknown-type", "`d` of an unknown type", jwk_set(key, {"kty": "TIDE", "d": "AQ"})),
        ("akp", "`priv` of a post-quantum key", jwk_set(key, {"kty": "AKP", "priv": "AQ"})),
        ("null", "`d` is null", jwk_set({**key.jwk(), "d": None})),
    ):
        attack.bad_set(id_, title, card, "key.private_material", jwks)
    attack.twin("public", "Public members alone", card, jwks=jwk_set(key, modular))
    unknown = jwk_set(key.jwk(harbour="north"), {"kty": "TIDE", "kid": "tomorrow"})
    attack.twin("unknown", "An unknown member, and a key of an unknown type", card, jwks=unknown)


def _collisions(corpus: Corpus) -> None:
    attack = fetching(
        corpus,
        22,
        "kid-collision",
        "Several keys under one name",
        "Where two keys have one kid, the first, the last or every match may be tried, and the "
        "verdict hangs on the reader. Such a set is refused whole.",
    )
    key, evil = ec_key("harbour-1"), ec_key("harbour-1")
    modular = rsa_key("harbour-1")
    card = signed(CARD, key)
    for id_, title, jwks in (
        ("honest-first", "The honest key stands first", jwk_set(key, evil)),
        ("honest-last", "The honest key stands last", jwk_set(evil, key)),
        ("two-types", "An RSA key has the name as well", jwk_set(key, modular)),
        ("skipped", "A key for encryption has it", jwk_set(key, evil.jwk(use="enc"))),
        ("equal", "One key stands there twice", jwk_set(key, key)),
        ("hundred", "A hundred keys have it", jwk_set(*[evil] * 99, key)),
        (
            "thumbprint",
            "A nameless key, and another that bears its thumbprint as its name",
            jwk_set(key, evil.jwk(kid=None), ec_key(evil.thumbprint)),
        ),
    ):
        attack.bad_set(id_, title, card, "jwks.duplicate_kid", jwks)
    twice = json.dumps(jwk_set(key)).replace('"kid"', '"kid": "somebody", "kid"', 1).encode()
    attack.bad_set("two-kids", "One key has two names", card, "jwks.malformed", twice)
    case = signed(CARD, key, header_of(key, kid="Harbour-1"))
    attack.attack(
        "case",
        "The header writes the name with a capital",
        case,
        "untrusted",
        "key.unknown",
        jwks=jwk_set(key),
    )
    attack.twin("apart", "Each has its own", card, jwks=jwk_set(key, ec_key("harbour-2")))
    capital = jwk_set(ec_key("Harbour-1"), key, ec_key("harbour-1 "))
    attack.twin("capital", "Names that differ in case, or by a space, are two", card, jwks=capital)
    attack.twin(
        "two-names",
        "One key under two names",
        signed(CARD, key.called("harbour-2")),
        jwks=jwk_set(key, key.called("harbour-2")),
    )
