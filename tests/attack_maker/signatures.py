"""Attacks 12 to 15: the value of a signature, and what it was made for."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from corpus import NOW, Attack, Corpus, issuer, pinned, pinning
from crafting import (
    CARD,
    LAX,
    P256_ORDER,
    Key,
    b64,
    dump,
    entry,
    header_of,
    payload_of,
    rsa_key,
    signed,
    with_entry,
    with_signature,
)
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from cardsign.jose import base64url


def build(corpus: Corpus) -> None:
    """Register them."""
    for make in (_base64url, _ecdsa_forms, _malleable, _typ):
        make(corpus)


def _base64url(corpus: Corpus) -> None:
    attack, key = pinning(
        corpus,
        12,
        "base64url",
        "Other spellings of the same bytes",
        "A lenient decoder takes many texts for one signature; a list of signatures seen, or "
        "revoked, can then be walked around. There is one text: base64url, unpadded, canonical.",
    )
    text = ""
    while not set("-_") & set(text):  # what the two alphabets differ in
        good = signed(CARD, key)
        text = good["signatures"][0]["signature"]
    stray = text[:-1] + _next(text[-1])
    for id_, title, signature in (
        ("padded", "The signature is padded", text + "=="),
        ("standard", "It is in the standard alphabet", text.translate({45: 43, 95: 47})),
        ("stray-bits", "Its last character has bits that stand for nothing", stray),
        ("newline", "A line break ends it", text + "\n"),
        ("wrapped", "A line break stands in it", text[:40] + "\r\n" + text[40:]),
        ("space", "A space stands before it", " " + text),
        ("one-more", "It has a length that no bytes have", text + "AAA"),
        ("full-width", "One letter is full-width", text[:-1] + "Ａ"),
        ("dot", "A dot stands in it", text[:40] + "." + text[40:]),
    ):
        card = with_entry(good, signature=signature)
        attack.attack(id_, title, card, "untrusted", "sig.base64url")
    plain = json.dumps(header_of(key)).encode()
    padded = b64(plain + b" " * ((1 - len(plain)) % 3))
    assert len(padded) % 4 == 2
    for id_, title, protected in (
        ("header-padded", "The protected header is padded", padded + "=="),
        ("header-stray-bits", "It ends with stray bits", padded[:-1] + _next(padded[-1])),
        ("header-newline", "A line break ends it", padded + "\n"),
    ):
        card = signed(CARD, key, protected=protected)
        attack.attack(id_, f"{title}, and is signed as it is", card, "untrusted", "sig.base64url")
    for id_, title, changes in (
        ("header-object", "`protected` is the header itself", {"protected": header_of(key)}),
        ("header-absent", "There is no `protected`", {"protected": None}),
        ("signature-list", "`signature` is a list of bytes", {"signature": [0] * 64}),
    ):
        attack.attack(id_, title, with_entry(good, **changes), "untrusted", "sig.shape")
    compact = f"{good['signatures'][0]['protected']}..{text}"
    attack.attack(
        "compact",
        "The entry is a compact JWS",
        {**CARD, "signatures": [compact]},
        "untrusted",
        "sig.shape",
    )
    for rest in range(3):
        header = plain + b" " * ((rest - len(plain)) % 3)
        title = f"A header of 3n+{rest} bytes" if rest else "A header of 3n bytes"
        attack.twin(f"canonical-{rest}", title, signed(CARD, key, header))


def _next(character: str) -> str:
    """The character of base64url whose lowest bit differs."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    return alphabet[alphabet.index(character) ^ 1]


def _ecdsa_forms(corpus: Corpus) -> None:
    attack, key = pinning(
        corpus,
        13,
        "signature-form",
        "Signatures of another form or out of range",
        "An ES256 signature is r and s, 32 bytes each, both between 1 and n-1; an RS256 one has "
        "the length of the modulus and is less than it. (0, 0) once passed a well-known library.",
    )
    modular = rsa_key("harbour-rsa")
    attack.standard = attack.policy(issuer(pinned(key, modular)), name="two-keys.toml")
    del attack.files["trust.toml"]
    n = P256_ORDER.to_bytes(32)
    zero = bytes(32)
    for id_, title, change in (
        ("der", "DER", _der),
        ("63-bytes", "63 bytes", lambda s: s[1:]),
        ("65-bytes", "65 bytes, the first being zero", lambda s: b"\0" + s),
        ("hex", "Its hexadecimal digits", lambda s: s.hex().encode()),
        ("nothing", "Nothing", lambda s: b""),
        ("zero", "r and s are 0", lambda s: zero + zero),
        ("r-zero", "r is 0", lambda s: zero + s[32:]),
        ("s-zero", "s is 0", lambda s: s[:32] + zero),
        ("r-n", "r is n", lambda s: n + s[32:]),
        ("s-n", "s is n", lambda s: s[:32] + n),
        ("both-max", "r and s are 2^256-1", lambda s: b"\xff" * 64),
        ("one-one", "r and s are 1", lambda s: (1).to_bytes(32) * 2),
        ("swapped", "s stands before r", lambda s: s[32:] + s[:32]),
        ("little-endian", "r and s in the other order of bytes", lambda s: s[31::-1] + s[:31:-1]),
    ):
        card = with_signature(signed(CARD, key), change)
        attack.attack(id_, title, card, "invalid", "sig.bad")
    modulus = int.from_bytes(base64url.decode(modular.numbers["n"]))
    for id_, title, change in (
        ("rsa-zero", "RS256: 0", lambda s: bytes(256)),
        ("rsa-one", "RS256: 1", lambda s: (1).to_bytes(256)),
        ("rsa-long", "RS256: a zero byte before it", lambda s: b"\0" + s),
        ("rsa-short", "RS256: without its last byte", lambda s: s[:-1]),
        (
            "rsa-beyond",
            "RS256: the modulus added to it",
            lambda s: (int.from_bytes(s) + modulus).to_bytes(257),
        ),
        ("rsa-minus", "RS256: the modulus less it", lambda s: _minus(s, modulus)),
    ):
        card = with_signature(signed(CARD, modular), change)
        attack.attack(id_, title, card, "invalid", "sig.bad")
    attack.twin("es256", "64 bytes", signed(CARD, key))
    leading = signed(CARD, key)
    while base64url.decode(leading["signatures"][0]["signature"])[0]:
        leading = signed(CARD, key)
    attack.twin("leading-zero", "64 bytes, r being short and filled up", leading)
    attack.twin("rs256", "256 bytes", signed(CARD, modular))


def _der(signature: bytes) -> bytes:
    return encode_dss_signature(int.from_bytes(signature[:32]), int.from_bytes(signature[32:]))


def _minus(signature: bytes, modulus: int) -> bytes:
    return (modulus - int.from_bytes(signature)).to_bytes(256)


def _malleable(corpus: Corpus) -> None:
    attack, key = pinning(
        corpus,
        14,
        "malleable",
        "The other signature of the same card",
        "Who holds (r, s) can make (r, n-s), which verifies too. That is lawful (RFC 7518 3.4), so "
        "it must neither change the verdict nor make another card of it; other changes fail.",
    )

    def negated(start: int) -> Any:
        def change(signature: bytes) -> bytes:
            part = int.from_bytes(signature[start : start + 32])
            flipped = (P256_ORDER - part).to_bytes(32)
            return signature[:start] + flipped + signature[start + 32 :]

        return change

    good = signed(CARD, key)
    same = attack.file("verified.json", dump(CARD))
    attack.attack("r", "n-r instead of r", with_signature(good, negated(0)), "invalid", "sig.bad")
    attack.attack(
        "r-and-s",
        "n-r and n-s",
        with_signature(with_signature(good, negated(0)), negated(32)),
        "invalid",
        "sig.bad",
    )
    expecting = {"card": same}
    attack.twin("original", "(r, s)", good, expecting=expecting)
    other = with_signature(good, negated(32))
    attack.twin("s", "(r, n-s): trusted, with the same card", other, expecting=expecting)
    both = {**CARD, "signatures": [*other["signatures"], *good["signatures"]]}
    attack.twin("both", "Both, which are two entries and one holder", both, expecting=expecting)


def _typ(corpus: Corpus) -> None:
    attack, key = pinning(
        corpus,
        15,
        "typ",
        "A signature made for another kind of document",
        "One key may sign cards, statements and tokens. What each signature is for is said by its "
        "`typ` (RFC 8725 3.11); one for anything else must never count for a card.",
    )
    for id_, title, typ in (
        ("keyset", "a keyset statement", "cardsign-keyset+jws"),
        ("release", "a release statement", "cardsign-release+jws"),
        ("access-token", "an access token", "at+jwt"),
        ("unknown", "something unknown", "harbour"),
        ("media-type", "a JWS in its full media type", "application/jose"),
        ("empty", "nothing", ""),
        ("number", "a number", 1),
        ("list", "a list", ["JOSE"]),
    ):
        card = signed(CARD, key, header_of(key, typ=typ))
        attack.attack(id_, f"The typ is that of {title}", card, "untrusted", "sig.typ_forbidden")
    attack.attack(
        "null",
        "The typ is null",
        signed(CARD, key, {**header_of(key), "typ": None}),
        "untrusted",
        "sig.typ_forbidden",
    )
    token = {**CARD, "iss": "https://tides.example", "sub": "tides", "exp": NOW + 60}
    attack.attack(
        "token-as-card",
        "A token whose claims look like a card",
        signed(token, key, header_of(key, typ="JWT")),
        "untrusted",
        "sig.typ_forbidden",
    )
    compat = signed(LAX, key, header_of(key, typ="cardsign-compat+jws"))
    attack.attack(
        "compat", "A compat signature over the whole card", compat, "untrusted", "sig.compat"
    )
    statement = payload_of({"format": "cardsign-keyset/1", "issuer": "tides.example"})
    made = entry(statement, key, header_of(key, typ="cardsign-keyset+jws"))
    attack.attack(
        "statement-as-card",
        "A signed statement is served as the card",
        {"payload": b64(statement), "signatures": [made]},
        "untrusted",
        "sig.typ_forbidden",
    )
    _card_as_statement(attack, key)
    for id_, title, typ in (
        ("jose", "JOSE, as A2A has it", "JOSE"),
        ("lower-case", "jose: media types do not heed case", "jose"),
        ("jose-json", "JOSE+JSON", "JOSE+JSON"),
        ("absent", "no typ", None),
    ):
        attack.twin(id_, f"The typ is {title}", signed(CARD, key, header_of(key, typ=typ)))
    lossy = attack.policy(issuer(pinned(key), profiles=["prune-empty"]), name="lossy.toml")
    attack.twin(
        "jwt-lossy",
        "JWT, as a2a-sdk writes it, where the policy accepts what that covers",
        signed(CARD, key, header_of(key, typ="JWT"), profile="prune-empty"),
        "trust.freshness_waived",
        "coverage.absence_unprovable",
        policy=lossy,
    )


def _card_as_statement(attack: Attack, key: Key) -> None:
    """The other way round: what was signed as a card must not come to be a statement."""
    keyset = {"format": "cardsign-keyset/1", "name": "x", "supportedInterfaces": [{"url": "x"}]}
    payload = payload_of(keyset)
    pin = {"epoch": 1, "version": 1, "digest": hashlib.sha256(payload).hexdigest()}
    anchored = attack.policy(issuer({"keyset": pin}), name="keyset.toml")
    for id_, title, typ in (
        ("card-as-statement", "A card is brought as the keyset statement", "JOSE"),
        ("token-as-statement", "A token is", "JWT"),
    ):
        made = entry(payload, key, header_of(key, typ=typ))
        statement = dump({"payload": b64(payload), "signatures": [made]})
        attack.attack(
            id_,
            title,
            signed(CARD, key),
            "indeterminate",
            "statement.typ",
            policy=anchored,
            evidence={"keysets": [attack.input(f"{id_}.keyset", statement)]},
        )
