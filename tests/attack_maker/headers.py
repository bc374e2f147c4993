"""Attacks 7 to 11: the protected and the unprotected header."""

from __future__ import annotations

import json
from typing import Any

from corpus import NOW, Corpus, issuer, pinned, pinning, recipe
from crafting import (
    CARD,
    b64,
    dump,
    ec_key,
    encoded,
    header_of,
    payload_of,
    signed,
    with_entry,
)

_MAX_HEADER_BYTES = 4096


def build(corpus: Corpus) -> None:
    """Register them."""
    for make in (_crit, _b64, _unprotected, _duplicates, _header_json):
        make(corpus)


def _crit(corpus: Corpus) -> None:
    attack, key = pinning(
        corpus,
        7,
        "crit",
        "Extensions that must be understood",
        "`crit` names header members without which a signature must not be accepted (RFC 7515 "
        "4.1.11). No card needs one, so its mere presence refuses the signature.",
    )
    for id_, title, members in (
        ("unknown", "an extension that nobody knows", {"crit": ["x-tide"], "x-tide": 1}),
        ("empty", "nothing", {"crit": []}),
        ("registered", "`alg`, which RFC 7515 forbids to name", {"crit": ["alg"]}),
        ("twice", "one extension twice", {"crit": ["x-tide", "x-tide"], "x-tide": 1}),
        ("absent-member", "a member that is not there", {"crit": ["x-tide"]}),
        ("exp", "`exp`, which has passed", {"crit": ["exp"], "exp": NOW - 1}),
        ("text", "a text instead of a list", {"crit": "x-tide", "x-tide": 1}),
    ):
        card = signed(CARD, key, header_of(key, **members))
        attack.attack(id_, f"`crit` names {title}", card, "untrusted", "sig.crit")
    null = signed(CARD, key, {**header_of(key), "crit": None})
    attack.attack("null", "`crit` is null", null, "untrusted", "sig.crit")
    outside = with_entry(signed(CARD, key), header={"crit": ["x-tide"]})
    attack.attack(
        "unprotected", "`crit` in the unprotected header", outside, "untrusted", "sig.crit"
    )
    unknown = signed(CARD, key, header_of(key, **{"x-tide": 1}))
    attack.twin("plain", "Without `crit`", signed(CARD, key))
    attack.twin("not-critical", "An unknown member without `crit` is ignored", unknown)


def _b64(corpus: Corpus) -> None:
    attack, key = pinning(
        corpus,
        8,
        "b64",
        "The payload that is not encoded",
        "`b64` (RFC 7797) changes which bytes are signed. A reader that honours it and one that "
        "ignores it verify different payloads under one signature.",
    )
    payload = payload_of(CARD)

    def unencoded(header: dict[str, Any]) -> dict[str, Any]:
        text = encoded(header)
        signature = key.sign(text.encode() + b"." + payload)
        return {**CARD, "signatures": [{"protected": text, "signature": b64(signature)}]}

    critical = header_of(key, b64=False, crit=["b64"])
    attack.attack(
        "false-critical",
        "b64=false as RFC 7797 has it",
        unencoded(critical),
        "untrusted",
        "sig.crit",
    )
    bare = header_of(key, b64=False)
    attack.attack("false", "b64=false without crit", unencoded(bare), "untrusted", "sig.b64")
    attack.attack(
        "false-ignored",
        "b64=false without crit, over the encoded payload",
        signed(CARD, key, bare),
        "untrusted",
        "sig.b64",
    )
    true = signed(CARD, key, header_of(key, b64=True))
    attack.attack("true", "b64=true, which changes nothing", true, "untrusted", "sig.b64")
    outside = with_entry(signed(CARD, key), header={"b64": False})
    attack.attack(
        "unprotected", "b64=false in the unprotected header", outside, "untrusted", "sig.b64"
    )
    attack.attack(
        "undeclared",
        "The payload was signed unencoded, and no header says so",
        unencoded(header_of(key)),
        "invalid",
        "sig.bad",
    )
    attack.twin("encoded", "Without b64", signed(CARD, key))


def _unprotected(corpus: Corpus) -> None:
    attack, key = pinning(
        corpus,
        9,
        "unprotected-header",
        "What only the unprotected header says",
        "No signature covers the unprotected header. What decides which key or rule is used must "
        "not stand there, and nothing may stand in both (RFC 7515 7.2.1).",
    )
    other = ec_key("harbour-2")
    attack.standard = attack.policy(issuer(pinned(key, other)), name="two-keys.toml")
    del attack.files["trust.toml"]
    good = signed(CARD, key)
    for id_, title, header in (
        ("alg-repeated", "repeats `alg`", {"alg": "ES256"}),
        ("alg-replaced", "says `alg: none`", {"alg": "none"}),
        ("kid-repeated", "repeats `kid`", {"kid": key.kid}),
        ("kid-replaced", "names another enrolled key", {"kid": other.kid}),
        ("typ-replaced", "says that it is a compat signature", {"typ": "cardsign-compat+jws"}),
    ):
        card = with_entry(good, header=header)
        attack.attack(
            id_, f"The unprotected header {title}", card, "untrusted", "sig.header_overlap"
        )
    with_jku = signed(CARD, key, header_of(key, jku="https://tides.example/jwks.json"))
    attack.attack(
        "jku-replaced",
        "`jku` stands in both, with another URL",
        with_entry(with_jku, header={"jku": "https://evil.example/jwks.json"}),
        "untrusted",
        "sig.header_overlap",
    )
    for id_, name, code in (
        ("alg-only", "alg", "sig.alg_forbidden"),
        ("kid-only", "kid", "sig.kid_missing"),
        ("typ-only", "typ", "sig.header_overlap"),
    ):
        card = signed(CARD, key, header_of(key, **{name: None}))
        moved = with_entry(card, header={name: header_of(key)[name]})
        attack.attack(id_, f"`{name}` stands only there", moved, "untrusted", code)
    listed = with_entry(good, header=[{"kid": key.kid}])
    attack.attack("list", "The unprotected header is a list", listed, "untrusted", "sig.shape")
    attack.twin("without", "No unprotected header", good)
    noted = with_entry(good, header={"note": "counts for nothing"})
    attack.twin("note", "An unknown member there is ignored", noted)


def _duplicates(corpus: Corpus) -> None:
    attack, key = pinning(
        corpus,
        10,
        "header-duplicates",
        "One member twice in the protected header",
        "JSON readers keep the first, the last or both; two of them would take one signature for "
        "two different ones. Each signature here is good over the header's text.",
    )
    rest = f'"kid":"{key.kid}","typ":"JOSE"'
    for id_, title, text in (
        ("alg-none-first", "`alg`, first none", f'{{"alg":"none","alg":"ES256",{rest}}}'),
        ("alg-none-last", "`alg`, last none", f'{{"alg":"ES256",{rest},"alg":"none"}}'),
        ("alg-escaped", "`alg`, once as an escape", f'{{"alg":"ES256",{rest},"\\u0061lg":"none"}}'),
        ("kid", "`kid`", f'{{"alg":"ES256",{rest},"kid":"somebody"}}'),
        ("typ", "`typ`", f'{{"alg":"ES256",{rest},"typ":"JWT"}}'),
        ("equal", "`alg` with one value", f'{{"alg":"ES256","alg":"ES256",{rest}}}'),
        ("nested", "a member of an unknown one", f'{{"alg":"ES256",{rest},"x":{{"a":1,"a":2}}}}'),
    ):
        card = signed(CARD, key, text.encode())
        attack.attack(id_, f"Twice: {title}", card, "untrusted", "sig.header")
    once = f'{{"alg":"ES256",{rest},"x":{{"a":1}},"y":{{"a":2}}}}'
    attack.twin("plain", "Each name once", signed(CARD, key))
    attack.twin("once", "One name in two objects", signed(CARD, key, once.encode()))


def _header_json(corpus: Corpus) -> None:
    attack, key = pinning(
        corpus,
        11,
        "header-json",
        "A protected header that is no strict JSON object",
        "The header is read before any key is known, so it is the first thing that an attacker "
        "can feed to a parser. It is one strict JSON object of at most 4 KiB and 8 levels.",
    )
    good = json.dumps(header_of(key), separators=(",", ":"))

    def extended(value: str) -> bytes:
        return f'{good[:-1]},"x":{value}}}'.encode()

    for id_, title, header in (
        ("bom", "It starts with a byte order mark", b"\xef\xbb\xbf" + good.encode()),
        ("nan", "It holds NaN", extended("NaN")),
        ("infinity", "It holds 1e999", extended("1e999")),
        ("huge-integer", "It holds an integer of 3,000 digits", extended("9" * 3000)),
        ("surrogate", "It holds a lone surrogate", extended('"\\ud800"')),
        ("not-utf8", "It is no UTF-8", good.replace("JOSE", "\xff").encode("latin-1")),
        ("utf16", "It is UTF-16", good.encode("utf-16-le")),
        ("comment", "It holds a comment", good.encode() + b"/* */"),
        ("trailing", "Another object follows", good.encode() + b'{"alg":"none"}'),
        ("array", "It is an array", f"[{good}]".encode()),
        ("text", "It is a string", json.dumps(good).encode()),
        ("null", "It is null", b"null"),
        ("number", "It is a number", b"7"),
        ("nothing", "It is empty", b""),
        ("nine-levels", "It has nine levels", extended("[" * 8 + "]" * 8)),
        ("deep", "It has 2,000 levels", extended("[" * 1990 + "]" * 1990)),
        ("long", "It is one byte too long", _header_of_size(good, _MAX_HEADER_BYTES + 1)),
    ):
        attack.attack(id_, title, signed(CARD, key, header), "untrusted", "sig.header")
    head, tail = dump(with_entry(signed(CARD, key), protected="@")).split(b'"@"')
    for id_, title, unit, times, verdict, code in (
        ("depth-100000", "It has 100,000 levels", "W1tb", 33_334, "untrusted", "sig.header"),
        ("five-megabytes", "It has 5 MB", "ICAg", 1_666_667, "invalid", "json.too_large"),
    ):
        card = recipe(head + b'"eyJhIjog', (unit, times), b'"' + tail)
        attack.attack(id_, title, card, verdict, code)
    attack.twin("plain", "It is as it should be", signed(CARD, key))
    eight = signed(CARD, key, extended("[" * 7 + "]" * 7))
    attack.twin("eight-levels", "It has eight levels", eight)
    full = signed(CARD, key, _header_of_size(good, _MAX_HEADER_BYTES))
    attack.twin("full", "It has 4 KiB", full)


def _header_of_size(good: str, size: int) -> bytes:
    room = size - len(good) - len(',"x":""')
    return f'{good[:-1]},"x":"{"-" * room}"}}'.encode()
