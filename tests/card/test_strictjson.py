"""The strict JSON reader: what passes, and what is refused where."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cardsign.card.strictjson import MAX_CARD_BYTES, MAX_DEPTH, offsets, parse_object
from cardsign.errors import JsonRefused
from cardsign.findings import list_codes


def nested(levels: int) -> str:
    """An object that is `levels` deep, its root included."""
    return '{"a":' * (levels - 1) + "{}" + "}" * (levels - 1)


def refusal(untrusted_bytes: bytes, **options: Any) -> JsonRefused:
    """The refusal that the bytes must meet."""
    with pytest.raises(JsonRefused) as caught:
        parse_object(untrusted_bytes, **options)
    return caught.value


def outcome(untrusted_bytes: bytes, **limits: int) -> str | tuple[object, ...]:
    """All that a caller can see of the value; or of the refusal, as a tuple."""
    try:
        return repr(parse_object(untrusted_bytes, **limits))
    except JsonRefused as refused:
        place = refused.finding.place
        return refused.code, refused.path, place.line, place.column


ACCEPTED: dict[str, tuple[str, object]] = {
    "the empty object": (" \t\r\n{ } \n", {}),
    "members in their order": ('{"b":[],"a":[ 1 , "x",{}]}', {"b": [], "a": [1, "x", {}]}),
    "the three literals": ('{"a":[true,false,null]}', {"a": [True, False, None]}),
    "the same name in two objects": ('{"a":{"a":1},"b":{"a":2}}', {"a": {"a": 1}, "b": {"a": 2}}),
    "names that differ in case or form": (
        '{"n":1,"N":2,"é":3,"e\u0301":4}',
        {"n": 1, "N": 2, "é": 3, "e\u0301": 4},
    ),
    "the empty name": ('{"":1}', {"": 1}),
    "every escape": (r'{"a":"\"\\\/\b\f\n\r\t\u0041\u00e9"}', {"a": '"\\/\b\f\n\r\tAé'}),
    "an escaped NUL": (r'{"a":"\u0000"}', {"a": "\0"}),
    "a surrogate pair in escapes": (r'{"\ud83d\ude00":"\uDBFF\uDFFF"}', {"😀": "\U0010ffff"}),
    "an escaped backslash before ud800": (r'{"a":"\\ud800"}', {"a": "\\ud800"}),
    "characters unescaped": ('{"a":"😀\u2028\x7f\ufeff\uffff"}', {"a": "😀\u2028\x7f\ufeff\uffff"}),
    "the greatest integers": (
        '{"a":[9007199254740991,-9007199254740991]}',
        {"a": [2**53 - 1, 1 - 2**53]},
    ),
    "integers of zero are int": ('{"a":[0,-0]}', {"a": [0, 0]}),
    "negative zero with a fraction is float": ('{"a":-0.0}', {"a": -0.0}),
    "numbers with fraction or exponent are float": (
        '{"a":[1.0,1e2,1E+2,25e-1,1e30,1.7976931348623157e308]}',
        {"a": [1.0, 100.0, 100.0, 2.5, 1e30, 1.7976931348623157e308]},
    ),
    "a float beyond the integers": ('{"a":9007199254740993.0}', {"a": 9007199254740992.0}),
    "a float that underflows": ('{"a":[1e-999,-1e-999]}', {"a": [0.0, -0.0]}),
    "as deep as allowed": (nested(MAX_DEPTH), json.loads(nested(MAX_DEPTH))),
}


@pytest.mark.parametrize(("text", "value"), ACCEPTED.values(), ids=ACCEPTED)
def test_accepted(text: str, value: object) -> None:
    """What is strict JSON is read with exactly these values and types, and has no fault."""
    # repr() tells 1 from 1.0 and True, 0.0 from -0.0, and one order of members from another.
    assert outcome(text.encode()) == repr(value)
    assert list(offsets(text))


@pytest.mark.parametrize("text", [row[0] for row in ACCEPTED.values()], ids=ACCEPTED)
def test_strict_json_is_read_once(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what is refused is looked through for the place of its fault."""
    monkeypatch.delattr("cardsign.card.strictjson._Walk")
    parse_object(text.encode())


# Code -> text (or bytes), pointer, line, column.
REFUSED: dict[str, dict[str, tuple[str | bytes, str, int, int]]] = {
    "json.syntax": {
        "nothing": ("", "", 1, 1),
        "nothing but whitespace": ("\n ", "", 2, 2),
        "no JSON": ("placeholder\n", "", 1, 1),
        "an object that does not end": ('{"a":1', "", 1, 7),
        "an array that does not end": ('{"a":[1', "/a", 1, 8),
        "a string that does not end": ('{"a":\n"b}', "/a", 2, 1),
        "a string that ends in a backslash": ('{"a":"b\\', "/a", 1, 8),
        "a member without value": ('{"a":}', "/a", 1, 6),
        "a member without colon": ('{"a" 1}', "/a", 1, 6),
        "a comma before a brace": ('{"a":1,}', "", 1, 8),
        "a comma before a bracket": ('{"a":[1,]}', "/a/1", 1, 9),
        "a comma first": ('{,"a":1}', "", 1, 2),
        "two commas": ('{"a":[1,,2]}', "/a/1", 1, 9),
        "no comma between elements": ('{"a":[1 2]}', "/a", 1, 9),
        "the wrong closing bracket": ('{"a":[1}}', "/a", 1, 8),
        "single quotes": ("{'a':1}", "", 1, 2),
        "a bare name": ("{a:1}", "", 1, 2),
        "typographic quotes": ("{“a”:1}", "", 1, 2),
        "a line comment": ('{"a":1 // b\n}', "", 1, 8),
        "a block comment": ("/* a */{}", "", 1, 1),
        "a literal in capitals": ('{"a":True}', "/a", 1, 6),
        "a literal cut short": ('{"a":nul}', "/a", 1, 6),
        "a literal too long": ('{"a":nullx}', "/a", 1, 6),
        "a leading zero": ('{"a":01}', "/a", 1, 6),
        "a plus sign": ('{"a":+1}', "/a", 1, 6),
        "a minus sign alone": ('{"a":-}', "/a", 1, 6),
        "a point without digits before it": ('{"a":.5}', "/a", 1, 6),
        "a point without digits after it": ('{"a":5.}', "/a", 1, 6),
        "an exponent without digits": ('{"a":5e}', "/a", 1, 6),
        "a hexadecimal number": ('{"a":0x1F}', "/a", 1, 6),
        "an underscore in a number": ('{"a":1_000}', "/a", 1, 6),
        "digits of another script": ('{"a":١٢}', "/a", 1, 6),
        "a digit of another script after ours": ('{"a":1٢}', "", 1, 7),
        "a line break in a string": ('{"a":"b\nc"}', "/a", 1, 8),
        "the last control character in a string": ('{"a":"\x1f"}', "/a", 1, 7),
        "a NUL in a string": ('{"a":"\0"}', "/a", 1, 7),
        "a tab in a name": ('{"\t":1}', "", 1, 3),
        "an unknown escape": (r'{"a":"\x41"}', "/a", 1, 7),
        "an escape with too few digits": (r'{"a":"\u41"}', "/a", 1, 7),
        "an escape with a sign": (r'{"a":"\u+041"}', "/a", 1, 7),
        "an escape with an underscore": (r'{"a":"\u0_41"}', "/a", 1, 7),
        "a no-break space": ("{\u00a0}", "", 1, 2),
        "a form feed": ("{\f}", "", 1, 2),
        "a line separator": ("{\u2028}", "", 1, 2),
        "UTF-16 without a mark": ("{}".encode("utf-16-le"), "", 1, 2),
        "a mark inside": ("{\ufeff}", "", 1, 2),
        "a place some lines down": ('{\r\n"a":1,\r\n\r\n  b}', "", 4, 3),
    },
    "json.duplicate_member": {
        "a name twice": ('{"a":1,\n "a":1}', "/a", 2, 2),
        "a name twice, deep down": ('{"a":[0,{"b":{"c":1,"d":2,"c":3}}]}', "/a/1/b/c", 1, 27),
        "a name twice in two spellings": (r'{"name":1,"na\u006de":2}', "/name", 1, 11),
        "a name twice as pair and character": (r'{"😀":1,"\ud83d\ude00":2}', "/😀", 1, 8),
        "the empty name twice": ('{"":1,"":2}', "/", 1, 7),
        "__proto__ twice": ('{"__proto__":1,"__proto__":2}', "/__proto__", 1, 16),
        "a name with slash and tilde twice": ('{"a/b~c":1,"a/b~c":2}', "/a~1b~0c", 1, 12),
    },
    "json.number": {
        "NaN": ('{"a":NaN}', "/a", 1, 6),
        "Infinity": ('{"a":[0,Infinity]}', "/a/1", 1, 9),
        "-Infinity": ('{"a":-Infinity}', "/a", 1, 6),
        "a float beyond the doubles": ('{"a":1e999}', "/a", 1, 6),
        "a negative float beyond the doubles": ('{"a":-1E+999}', "/a", 1, 6),
        "many digits with a fraction": (f'{{"a":{"9" * 400}.5}}', "/a", 1, 6),
    },
    "json.integer_range": {
        "2^53": ('{"a":9007199254740992}', "/a", 1, 6),
        "-2^53": ('{"a":-9007199254740992}', "/a", 1, 6),
        "an integer of 100,000 digits": (f'{{"a":{"9" * 100_000}}}', "/a", 1, 6),
    },
    "json.surrogate": {
        "a high surrogate alone": (r'{"a":"b\ud800"}', "/a", 1, 8),
        "a low surrogate alone": (r'{"a":"\uDFFFb"}', "/a", 1, 7),
        "a low surrogate before a high one": (r'{"a":"\ude00\ud83d"}', "/a", 1, 7),
        "a high surrogate before a pair": (r'{"a":"\ud800\ud83d\ude00"}', "/a", 1, 7),
        "a high surrogate before another escape": (r'{"a":"\ud83d\n"}', "/a", 1, 7),
        "a lone surrogate in a name": (r'{"a":{"\ud800":1}}', "/a", 1, 8),
    },
    "json.depth": {
        "objects too deep": (nested(MAX_DEPTH + 1), "/a" * MAX_DEPTH, 1, 161),
        "arrays too deep": (
            '{"a":' + "[" * MAX_DEPTH + "]" * MAX_DEPTH + "}",
            "/a" + "/0" * (MAX_DEPTH - 1),
            1,
            5 + MAX_DEPTH,
        ),
        "arrays without an end": ("[" * MAX_CARD_BYTES, "/0" * MAX_DEPTH, 1, 33),
    },
    "json.trailing": {
        "a second object": ("{}\n{}", "", 2, 1),
        "a comma after the object": ("{},", "", 1, 3),
        "a NUL after the object": ("{}\0", "", 1, 3),
    },
    "json.not_object": {
        "an array": (" [{}]", "", 1, 2),
        "a string": ('"{}"', "", 1, 1),
        "null": ("null", "", 1, 1),
    },
    "json.bom": {
        "a UTF-8 mark": (b"\xef\xbb\xbf{}", "", 1, 1),
        "UTF-16, little-endian": ("\ufeff{}".encode("utf-16-le"), "", 1, 1),
        "UTF-16, big-endian": ("\ufeff{}".encode("utf-16-be"), "", 1, 1),
        "UTF-32, little-endian": ("\ufeff{}".encode("utf-32-le"), "", 1, 1),
        "UTF-32, big-endian": ("\ufeff{}".encode("utf-32-be"), "", 1, 1),
    },
    "json.not_utf8": {
        "Latin-1": ('{\n"é":"é"}'.encode("latin-1"), "", 2, 2),
        "Latin-1 after a character": ('{\n"é":"'.encode() + b'\xe9"}', "", 2, 6),
        "an overlong slash": (b'{"\xc0\xaf":1}', "", 1, 3),
        "a surrogate encoded": (b'{"a":"\xed\xa0\x80"}', "", 1, 7),
        "a character cut short": (b'{"a":"\xf0\x9f\x98', "", 1, 7),
        "a character beyond Unicode": (b'{"a":"\xf4\x90\x80\x80"}', "", 1, 7),
    },
}
ROWS = [
    pytest.param(code, *row, id=name)
    for code, rows in REFUSED.items()
    for name, row in rows.items()
]


@pytest.mark.parametrize(("code", "untrusted", "pointer", "line", "column"), ROWS)
def test_refused(code: str, untrusted: str | bytes, pointer: str, line: int, column: int) -> None:
    """Everything else is refused with its code, its pointer and its place."""
    data = untrusted if isinstance(untrusted, bytes) else untrusted.encode()
    assert outcome(data) == (code, pointer, line, column)


def test_every_registered_json_code_is_raised() -> None:
    """The registry promises no code that the table above does not show."""
    shown = {*REFUSED, "json.too_large"}
    # tests/card/test_document.py has the one that cards alone have
    shown.add("json.too_many_values")
    assert shown == {
        code for code in list_codes() if code.startswith("json.") and code != "json.not-read"
    }


def test_limit_of_bytes() -> None:
    """One byte more than the limit is refused, whatever the bytes are."""
    whole = b"{}".ljust(MAX_CARD_BYTES)
    assert parse_object(whole) == {}
    assert refusal(whole + b" ").code == "json.too_large"
    assert refusal(b"\xff" * (MAX_CARD_BYTES + 1)).code == "json.too_large"
    assert refusal(b'{"a":1}', max_bytes=6).code == "json.too_large"


def test_limit_of_depth() -> None:
    """A caller may set a lower limit of depth; the root is level 1."""
    assert parse_object(b'{"a":[]}', max_depth=2) == {"a": []}
    assert refusal(b'{"a":[[]]}', max_depth=2).path == "/a/0"


MESSAGES = {
    "what was found is shown": ('{"a":True}', "expected a JSON value, found `True`"),
    "the end is named": (
        '{"a"',
        "expected a colon after the member name, found the end of the input",
    ),
    "a long word is cut": (f'{{"a":{"x" * 99}}}', f"expected a JSON value, found `{'x' * 24}...`"),
    "a control character is named": ("{}\x1b[31m", "U+001B follows the JSON value"),
    "a lookalike is named": ("{“a”:1}", "expected a member name in double quotes, found U+201C"),
    "a bidi override is named": ("{}\u202e", "U+202E follows the JSON value"),
    "a PEM file is shown by its first word": (
        "-----BEGIN PUBLIC KEY-----",
        "expected a JSON value, found `-----BEGIN`",
    ),
}


@pytest.mark.parametrize(("text", "message"), MESSAGES.values(), ids=MESSAGES)
def test_message(text: str, message: str) -> None:
    """A message says what stands there, and nothing in it can steer a terminal."""
    refused = refusal(text.encode())
    assert refused.message == message


TOKENS = (
    *'{}[]:,"\\/ \t\n\r\f\0-+.eE019',
    *('"a"', '"b"', r'"\u0061"', '"":', '"a":1', "true", "null", "NaN", "-Infinity", "tru"),
    *("1.5", "-0", "-0.0", "1e999", "1e-999", "9007199254740991", "9007199254740992", "9" * 5000),
    *(r"\ud83d", r"\ude00", r"\uD83D\uDE00", r"\\ud800", r"\n", r"\u00", "é", "😀", "٣", "\ufeff"),
)
token_soup = st.lists(st.sampled_from(TOKENS), max_size=12).map(lambda soup: "".join(soup).encode())

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3)
    ),
    max_leaves=6,
)


@st.composite
def damaged_json(draw: st.DrawFn) -> bytes:
    """Honest JSON in which some places may have been overwritten."""
    members = draw(st.dictionaries(st.text(max_size=2), json_values, max_size=3))
    text = json.dumps(members, ensure_ascii=draw(st.booleans()))
    for _ in range(draw(st.integers(0, 2))):
        start = draw(st.integers(0, len(text)))
        stop = draw(st.integers(start, min(start + 3, len(text))))
        text = text[:start] + draw(st.sampled_from(TOKENS)) + text[stop:]
    return text.encode("utf-8", "surrogatepass")


untrusted_inputs = (
    token_soup.map(lambda soup: b'{"a":[' + soup + b"]}") | damaged_json() | st.binary()
)


@given(untrusted_inputs)
@example(b'{"a":"\\ud83d"}')
@example(b'{"a":[[[[]]]]}')
def test_a_text_has_a_fault_exactly_where_it_is_refused(untrusted_bytes: bytes) -> None:
    """What decides and what explains never differ: no refusal lacks its reason, nor a value."""
    is_read = isinstance(outcome(untrusted_bytes, max_depth=4), str)
    try:
        text = untrusted_bytes.decode()
        places = [tokens for tokens, _, _ in offsets(text, max_depth=4)]
        assert is_read == (bool(places) and text.lstrip(" \t\r\n").startswith("{"))
    except (UnicodeDecodeError, JsonRefused):
        assert not is_read


def lax_outcome(untrusted_bytes: bytes) -> str | None:
    """The value as the standard library reads it; None where that calls it no JSON."""
    try:
        return repr(json.loads(untrusted_bytes.decode(), parse_int=lambda digits: int(digits[:99])))
    except ValueError:
        return None


@given(untrusted_inputs)
def test_definition_narrows_json(untrusted_bytes: bytes) -> None:
    """Nothing that is no JSON is taken, and JSON is refused for our reasons only."""
    strict, lax = outcome(untrusted_bytes, max_depth=4), lax_outcome(untrusted_bytes)
    if isinstance(strict, tuple):
        assert lax is None or strict[0] not in {"json.syntax", "json.trailing", "json.not_utf8"}
    else:
        assert strict == lax


@given(st.lists(st.text(max_size=3) | st.integers(0, 3), max_size=8), st.text(max_size=3))
def test_duplicate_is_found_anywhere(path: list[str | int], name: str) -> None:
    """A duplicate at any place is refused, and the pointer leads to it."""
    twice = f"{json.dumps(name)}:0"
    text = f"{{{twice},{twice}}}"
    for token in reversed(path):
        if isinstance(token, int):
            text = f"[{'0,' * token}{text}]"
        else:
            text = f"{{{json.dumps(token)}:{text}}}"
    refused = refusal(f'{{"root":{text}}}'.encode())
    tokens = ["root", *map(str, path), name]
    escaped = "".join("/" + token.replace("~", "~0").replace("/", "~1") for token in tokens)
    assert (refused.code, refused.path) == ("json.duplicate_member", escaped)


@pytest.mark.needs_shared
def test_public_cards_are_read(shared: Path) -> None:
    """Of all cards found in public repositories, the one that is no JSON is refused."""
    refused = {}
    files = sorted((shared / "corpus" / "cards").glob("*.json*"))
    cards = [file for file in files if file.name.endswith((".json", ".json.gz"))]
    for card in cards:
        data = card.read_bytes()
        data = gzip.decompress(data) if card.suffix == ".gz" else data
        try:
            parse_object(data)
        except JsonRefused as exc:
            refused[card.name] = exc.code
    assert len(cards) > 100
    assert refused == {"219.json": "json.syntax"}


@pytest.mark.needs_shared
def test_provocative_cards_are_refused(shared: Path) -> None:
    """Of the interoperability cards exactly those that readers read differently are refused."""
    refused = {}
    for card in sorted((shared / "interop" / "cards").glob("*.json")):
        try:
            parse_object(card.read_bytes())
        except JsonRefused as exc:
            refused[card.name[:2]] = (exc.code, exc.path)
    params = "/capabilities/extensions/0/params"
    too_deep = ("json.depth", params + "/a" * (MAX_DEPTH - 4))
    assert refused == {
        "26": ("json.integer_range", f"{params}/x"),
        "27": ("json.integer_range", f"{params}/x"),
        "28": ("json.number", f"{params}/x"),
        "34": ("json.surrogate", "/description"),
        "53": ("json.duplicate_member", "/name"),
        "57": too_deep,
        "58": too_deep,
        "59": too_deep,
        "60": too_deep,
    }
