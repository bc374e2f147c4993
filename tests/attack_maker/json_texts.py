"""Attacks 63, 64, 66 and 68: what is no JSON, or is read differently."""

from __future__ import annotations

import json
from typing import Any

from corpus import (
    Corpus,
    pinning,
)
from crafting import (
    CARD,
    LAX,
    dump,
    signed,
)

_VENDOR = '"x-berth": {"a": 1, "a": 2}'


def build(corpus: Corpus) -> None:
    """Register them."""
    for make in (_duplicates, _differentials, _numbers, _encodings):
        make(corpus)


def _duplicates(corpus: Corpus) -> None:
    attack, key = pinning(
        corpus,
        63,
        "duplicate-members",
        "One member twice in the card",
        "The verifier sees one value, the client that calls the agent another. Two members of one "
        "name, or of two spellings of one name, are refused before anything else.",
    )
    good = signed(CARD, key)

    def replaced(old: str, new: str) -> bytes:
        text = json.dumps(good)
        assert text.count(old) == 1, old
        return text.replace(old, new).encode()

    url = '"url": "https://tides.example/a2a"'
    evil = '"url": "https://evil.example/a2a"'
    version = '"version": "1.2.0"'
    for id_, title, data in (
        ("last", "A second version, behind", replaced(version, f'{version}, "version": "9"')),
        ("first", "A second version, before", replaced(version, f'"version": "9", {version}')),
        ("equal", "The same version twice", replaced(version, f"{version}, {version}")),
        (
            "escaped",
            "A second version, written with an escape",
            replaced(version, f'{version}, "versi\\u006fn": "9"'),
        ),
        ("deep", "A second url of an interface", replaced(url, f"{url}, {evil}")),
        ("vendor", "In an object without a schema", replaced(version, f"{version}, {_VENDOR}")),
        (
            "signatures",
            "A second list of signatures",
            replaced('"signatures": [', '"signatures": [], "signatures": ['),
        ),
        (
            "in-an-entry",
            "A second `protected`",
            replaced('"protected": ', '"protected": "e30", "protected": '),
        ),
    ):
        attack.attack(id_, title, data, "invalid", "json.duplicate_member")
    for id_, title, data in (
        ("case", "`Version` beside `version`", {**good, "Version": "9"}),
        ("snake", "Both spellings of the interfaces", {**good, "supported_interfaces": []}),
        (
            "case-deep",
            "`URL` beside `url`",
            {**good, "supportedInterfaces": [{**CARD["supportedInterfaces"][0], "URL": "x"}]},
        ),
        ("signatures-case", "`Signatures` beside `signatures`", {**good, "Signatures": []}),
    ):
        attack.attack(id_, title, data, "invalid", "card.two_spellings")
    attack.twin("once", "Each name once", good)
    named = {**CARD, "x-berth": {"name": "a", "Name": "b", "version": "c"}}
    attack.twin("vendor-names", "A vendor's object may use such names", signed(named, key))


def _differentials(corpus: Corpus) -> None:
    attack, key = pinning(
        corpus,
        64,
        "readers-differ",
        "Bytes that readers take for different cards",
        "The caller gets the object that was parsed from the verified payload, never the bytes. "
        "What only some readers take for JSON is refused; other spellings of one value are not.",
    )
    good = json.dumps(signed(CARD, key))
    verified = attack.file("verified.json", dump(CARD))
    for id_, title, old, new, code in (
        ("comment", "A comment", "{", '{/* "name": "evil", */', "json.syntax"),
        ("line-comment", "A comment up to the line's end", "{", "{// x\n", "json.syntax"),
        ("comma", "A comma too many", "]}", "],}", "json.syntax"),
        ("single-quotes", "Single quotes", '"name"', "'name'", "json.syntax"),
        ("bare-name", "A name without quotes", '"name"', "name", "json.syntax"),
        ("tab", "A tab within a string", "Tide tables", "Tide\ttables", "json.syntax"),
        ("hex-escape", "An escape of JavaScript", "Tide tables", "Tide\\x20tables", "json.syntax"),
        ("octal", "A number with a leading zero", "true", "01", "json.syntax"),
        ("plus", "A number with a plus", "true", "+1", "json.syntax"),
        ("capital", "True as Python writes it", "true", "True", "json.syntax"),
        ("trailing", "A second card behind it", "", "{}", "json.trailing"),
        ("padding", "A NUL behind it", "", "\0", "json.trailing"),
    ):
        data = good.replace(old, new, 1) if old else good + new
        attack.attack(id_, title, data.encode(), "invalid", code)
    for id_, title, data in (
        ("array", "A list of one card", f"[{good}]"),
        ("text", "The card as a string", json.dumps(good)),
        ("null", "Null", "null"),
    ):
        attack.attack(id_, title, data.encode(), "invalid", "json.not_object")
    attack.attack("nothing", "Nothing at all", b"", "invalid", "json.syntax")
    proto = {**signed(LAX, key), "__proto__": {"name": "evil"}}
    attack.attack("proto", "`__proto__` was added", proto, "invalid", "sig.bad")
    unknown = {**signed(LAX, key), "x-berth": None}
    attack.attack("null-added", "An unknown member was added, null", unknown, "invalid", "sig.bad")
    expecting = {"card": verified}
    other = json.dumps(json.loads(good), indent=4, sort_keys=True)
    attack.twin(
        "null-of-the-schema",
        "A member of the schema was added, null: the caller gets the card without it",
        {**json.loads(good), "iconUrl": None},
        expecting=expecting,
    )
    attack.twin("indented", "Other order and space", other.encode(), expecting=expecting)
    escaped = good.replace("Tide tables", "\\u0054ide\\u0020tables").replace("/a2a", "\\/a2a")
    attack.twin("escapes", "Letters as escapes", escaped.encode(), expecting=expecting)
    odd = {**CARD, "x-berth": {"__proto__": {"name": "evil"}, "constructor": "x"}}
    attack.twin(
        "proto-signed",
        "Names that JavaScript knows, signed",
        signed(odd, key),
        expecting={"card": attack.file("odd.json", dump(odd))},
    )


def _numbers(corpus: Corpus) -> None:
    attack, key = pinning(
        corpus,
        66,
        "numbers",
        "Numbers that readers round differently",
        "Integers beyond 2^53-1 and numbers that no double holds are one value here and another "
        "there, under one signature. They are refused; two spellings of one double are one.",
    )
    text = json.dumps(signed(_with_depth(1), key))

    def with_number(spelling: str) -> bytes:
        return text.replace('"depth": 1', f'"depth": {spelling}').encode()

    for id_, title, spelling, code in (
        ("nan", "NaN", "NaN", "json.number"),
        ("infinity", "Infinity", "Infinity", "json.number"),
        ("minus-infinity", "-Infinity", "-Infinity", "json.number"),
        ("too-large", "1e400", "1e400", "json.number"),
        (
            "long-fraction",
            "A fraction with 400 digits before the point",
            "9" * 400 + ".5",
            "json.number",
        ),
        (
            "2-53",
            "2^53, the first of which two integers are one double",
            str(2**53),
            "json.integer_range",
        ),
        ("2-53-plus-1", "2^53+1", str(2**53 + 1), "json.integer_range"),
        ("minus-2-53", "-2^53", str(-(2**53)), "json.integer_range"),
        ("5000-digits", "An integer of 5,000 digits", "7" * 5000, "json.integer_range"),
    ):
        attack.attack(id_, title, with_number(spelling), "invalid", code)
    for id_, title, spelling in (
        ("other", "2 instead of 1", "2"),
        ("text", 'The text "1" instead of 1', '"1"'),
        ("near", "1 and the least that a double can add", "1.0000000000000002"),
    ):
        attack.attack(id_, title, with_number(spelling), "invalid", "sig.bad")
    attack.twin("one", "1", with_number("1"))
    attack.twin("float", "1.0, which is 1", with_number("1.0"))
    attack.twin("exponent", "10e-1, which is 1", with_number("10e-1"))
    largest = signed(_with_depth(2**53 - 1), key)
    attack.twin("2-53-minus-1", "2^53-1", largest)
    zero = json.dumps(signed(_with_depth(0), key)).replace('"depth": 0', '"depth": -0')
    attack.twin("minus-zero", "-0, which is 0", zero.encode())


def _with_depth(value: int) -> dict[str, Any]:
    """The card with a number where every profile keeps it."""
    extension = {"uri": "https://tides.example/gauge", "params": {"depth": value}}
    return {**CARD, "capabilities": {"streaming": True, "extensions": [extension]}}


def _encodings(corpus: Corpus) -> None:
    attack, key = pinning(
        corpus,
        68,
        "encodings",
        "Bytes that are no UTF-8",
        "Decoders that mend what is malformed mend it differently. There is one encoding, UTF-8 "
        "without byte order mark, and no half of a surrogate pair.",
    )
    sign = {**CARD, "name": "Tide tables @"}
    good = json.dumps(signed(sign, key), ensure_ascii=False)

    def spelled(data: bytes) -> bytes:
        return good.encode().replace(b"@", data, 1)

    for id_, title, data, code in (
        ("latin-1", "A letter of Latin-1", spelled(b"\xe4"), "json.not_utf8"),
        ("overlong", "An overlong @", spelled(b"\xc1\x80"), "json.not_utf8"),
        ("overlong-nul", "An overlong NUL", spelled(b"\xc0\x80"), "json.not_utf8"),
        (
            "cesu-8",
            "A surrogate pair as two characters",
            spelled(b"\xed\xa0\xbd\xed\xb8\x80"),
            "json.not_utf8",
        ),
        ("cut", "A character that is cut off", spelled(b"\xe2\x82"), "json.not_utf8"),
        ("beyond", "A character beyond U+10FFFF", spelled(b"\xf4\x90\x80\x80"), "json.not_utf8"),
        ("bom", "A byte order mark", b"\xef\xbb\xbf" + good.encode(), "json.bom"),
        ("utf-16", "UTF-16 with its mark", good.encode("utf-16"), "json.bom"),
        ("utf-16-bare", "UTF-16 without a mark", good.encode("utf-16-be"), "json.syntax"),
        ("utf-32", "UTF-32 with its mark", good.encode("utf-32"), "json.bom"),
        ("lone-high", "The first half of a pair", spelled(b"\\ud83d"), "json.surrogate"),
        ("lone-low", "The second half", spelled(b"\\ude00"), "json.surrogate"),
        ("exchanged", "Both, exchanged", spelled(b"\\ude00\\ud83d"), "json.surrogate"),
    ):
        attack.attack(id_, title, data, "invalid", code)
    surrogate_name = good.replace('"name"', '"\\ud800": 1, "name"', 1).encode()
    attack.attack(
        "in-a-name", "Half a pair in a member's name", surrogate_name, "invalid", "json.surrogate"
    )
    attack.attack(
        "replaced",
        "The replacement character instead of @",
        spelled("\ufffd".encode()),
        "invalid",
        "sig.bad",
    )
    attack.twin("ascii", "ASCII", good.encode())
    wide = signed({**CARD, "name": "Gezeiten \U0001f30a für Häfen"}, key)
    attack.twin("utf-8", "Characters of two to four bytes", wide)
    attack.twin("escaped", "The same as escapes", json.dumps(wide).encode())
