"""The strict JSON reader: what passes, and what is refused where."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cardsign.card.strictjson import MAX_CARD_BYTES, MAX_DEPTH, offsets, parse_object
from cardsign.errors import JsonRefused
from cardsign.findings import list_codes
from tests.support import read_cases

#: By code: texts that are refused, each with the pointer, line and column of its fault.
CASES = read_cases(__file__)


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
def test_accepted(text: str, value: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is strict JSON is read once, with exactly these values and types, and has no fault."""
    assert list(offsets(text))
    monkeypatch.delattr("cardsign.card.strictjson._Walk")  # which only looks for faults
    # repr() tells 1 from 1.0 and True, 0.0 from -0.0, and one order of members from another.
    assert outcome(text.encode()) == repr(value)


#: Beside `strictjson.toml`: what is no UTF-8 or of a certain size, with pointer, line and column.
BYTES: list[tuple[str, bytes, str, int, int]] = [
    ("json.syntax", "{}".encode("utf-16-le"), "", 1, 2),
    ("json.number", b'{"a":' + b"9" * 400 + b".5}", "/a", 1, 6),
    ("json.integer_range", b'{"a":' + b"9" * 100_000 + b"}", "/a", 1, 6),
    ("json.depth", nested(MAX_DEPTH + 1).encode(), "/a" * MAX_DEPTH, 1, 161),
    ("json.depth", b"[" * MAX_CARD_BYTES, "/0" * MAX_DEPTH, 1, 33),
    ("json.bom", b"\xef\xbb\xbf{}", "", 1, 1),
    *(
        ("json.bom", "\ufeff{}".encode(encoding), "", 1, 1)
        for encoding in ("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be")
    ),
    ("json.not_utf8", '{\n"é":"é"}'.encode("latin-1"), "", 2, 2),
    ("json.not_utf8", '{\n"é":"'.encode() + b'\xe9"}', "", 2, 6),
    ("json.not_utf8", b'{"\xc0\xaf":1}', "", 1, 3),  # an overlong slash
    ("json.not_utf8", b'{"a":"\xed\xa0\x80"}', "", 1, 7),  # a surrogate
    ("json.not_utf8", b'{"a":"\xf0\x9f\x98', "", 1, 7),  # a character cut short
    ("json.not_utf8", b'{"a":"\xf4\x90\x80\x80"}', "", 1, 7),  # one beyond Unicode
]
MESSAGES = CASES.pop("message")
REFUSED = BYTES + [
    (code, text.encode(), *place) for code, rows in CASES.items() for text, *place in rows.values()
]


@pytest.mark.parametrize(
    ("code", "untrusted", "pointer", "line", "column"), REFUSED, ids=lambda cell: ascii(cell)[:60]
)
def test_refused(code: str, untrusted: bytes, pointer: str, line: int, column: int) -> None:
    """Everything else is refused with its code, its pointer and its place."""
    assert outcome(untrusted) == (code, pointer, line, column)


def test_every_registered_json_code_is_raised() -> None:
    """The registry promises no code that is not shown here, or of cards in test_document.py."""
    shown = {code for code, *_ in REFUSED} | {"json.too_large", "json.too_many_values"}
    registered = {code for code in list_codes() if code.startswith("json.")}
    assert shown == registered - {"json.not-read"}


def test_limits() -> None:
    """One byte or level more is refused, whatever the bytes are; callers may set lower limits."""
    whole = b"{}".ljust(MAX_CARD_BYTES)
    assert parse_object(whole) == {}
    for refused in (whole + b" ", b"\xff" * (MAX_CARD_BYTES + 1)):
        assert refusal(refused).code == "json.too_large"
    assert refusal(b'{"a":1}', max_bytes=6).code == "json.too_large"
    assert parse_object(b'{"a":[]}', max_depth=2) == {"a": []}
    assert refusal(b'{"a":[[]]}', max_depth=2).path == "/a/0"


@pytest.mark.parametrize(("text", "message"), MESSAGES.values(), ids=MESSAGES)
def test_message(text: str, message: str) -> None:
    """A message says what stands there, and nothing in it can steer a terminal."""
    assert refusal(text.encode()).message == message


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
        places = [tokens for tokens, _ in offsets(text, max_depth=4)]
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
