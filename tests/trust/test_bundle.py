"""Bundles: exact texts in, exact texts out, and nothing that is not what it should be."""

from __future__ import annotations

import contextlib
import json
import tracemalloc
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cardsign.errors import BundleRefused, InputRefused
from cardsign.statements import (
    MAX_STATEMENT_BYTES,
    TYP_KEYSET,
    TYP_RELEASE,
    keyset_payload,
    read_keyset,
    release_payload,
    sign_statement,
)
from cardsign.trust import (
    BUNDLE_FORMAT,
    MAX_BUNDLE_BYTES,
    MAX_CHAIN_BYTES,
    MAX_STEPS,
    is_bundle,
    read_bundle,
    receive,
    write_bundle,
)
from tests.jose.statement_making import key, keyset_members, release_members
from tests.support import LAX, PORTABLE, dump

CARD = json.dumps(LAX, indent=3).encode() + b"\r\n\t"


def keyset(version: int, **changes: Any) -> bytes:
    """A keyset statement of that version."""
    prev = None if version == 1 else "0" * 64
    payload = keyset_payload(keyset_members(version=version, prev=prev, **changes))
    return sign_statement(payload, [key("ann"), key("bob")], TYP_KEYSET)


FIRST, SECOND = keyset(1), keyset(2)
RELEASE = sign_statement(
    release_payload(release_members(read_keyset(SECOND))), [key("rel")], TYP_RELEASE
)


def a_bundle(**changes: Any) -> bytes:
    """A bundle with these members; `...` leaves one out."""
    members = {
        "format": BUNDLE_FORMAT,
        "card": CARD.decode(),
        "keysets": [FIRST.decode(), SECOND.decode()],
        "release": RELEASE.decode(),
        **changes,
    }
    return dump({name: value for name, value in members.items() if value is not ...})


def test_texts_are_carried_exactly() -> None:
    """White space and line ends too: what is read is what was written, once each, in order."""
    written = write_bundle(CARD, [SECOND, FIRST, SECOND], RELEASE)
    assert is_bundle(written)
    card, supplied = read_bundle(written)
    assert card == CARD
    assert supplied.untrusted_keysets == (FIRST, SECOND)
    assert supplied.untrusted_releases == (RELEASE,)
    assert write_bundle(CARD, [FIRST, SECOND], RELEASE) == written


def test_nothing_but_statements_comes_out() -> None:
    """No key set and no place of first contact: a bundle brings no trust."""
    _, supplied = read_bundle(a_bundle())
    assert (supplied.untrusted_jwks, supplied.jwks_url, supplied.origin) == (None, None, None)


def test_a_card_may_travel_with_few_statements_or_none() -> None:
    """What the recipient lacks is for the caller to know."""
    card, supplied = read_bundle(write_bundle(CARD, [], None))
    assert card == CARD
    assert supplied.untrusted_keysets == supplied.untrusted_releases == ()


NOT_BUNDLED = {
    "a card that is no JSON": ((b"{", [FIRST], None), "json.syntax"),
    "a card without an endpoint": ((b'{"name": "x"}', [FIRST], None), "card.not_agent_card"),
    "a card of two spellings": (
        (dump({**PORTABLE, "supported_interfaces": []}), [FIRST], None),
        "card.two_spellings",
    ),
    "a card for a statement": ((CARD, [CARD], None), "statement.shape"),
    "a release for a keyset": ((CARD, [RELEASE], None), "statement.typ"),
    "a keyset for a release": ((CARD, [], FIRST), "statement.typ"),
}


@pytest.mark.parametrize(("contents", "code"), NOT_BUNDLED.values(), ids=NOT_BUNDLED)
def test_what_is_something_else_is_not_bundled(
    contents: tuple[bytes, list[bytes], bytes | None], code: str
) -> None:
    """Under its own code."""
    with pytest.raises(InputRefused) as refused:
        write_bundle(*contents)
    assert refused.value.code == code


MALFORMED = {
    "no format": a_bundle(format=...),
    "a later format": a_bundle(format="cardsign-bundle/2"),
    "no card": a_bundle(card=...),
    "a card that is an object": a_bundle(card=PORTABLE),
    "a card that is too large": a_bundle(card=" " * (256 * 1024 + 1)),
    "no keysets": a_bundle(keysets=...),
    "keysets that are a text": a_bundle(keysets="x"),
    "a keyset that is an object": a_bundle(keysets=[{"payload": ""}]),
    "too many keysets": a_bundle(keysets=[""] * (MAX_STEPS + 1)),
    "too long a chain": a_bundle(keysets=[" " * (MAX_CHAIN_BYTES // 2 + 1)] * 2),
    "no word about a release": a_bundle(release=...),
    "two releases": a_bundle(release=[RELEASE.decode()] * 2),
    "a release that is too large": a_bundle(release=" " * (MAX_STATEMENT_BYTES + 1)),
    "a key set": a_bundle(jwks='{"keys": []}'),
    "a policy": a_bundle(trust="format = 1"),
    "one member twice": a_bundle().replace(b'"card"', b'"card": "", "card"', 1),
    "something behind it": a_bundle() + b"{}",
    "a byte order mark": b"\xef\xbb\xbf" + a_bundle(),
    "a lone surrogate": a_bundle().replace(b'"release": "', b'"release": "\\ud800', 1),
    "no object": b'["cardsign-bundle/1"]',
    "more bytes than any bundle has": a_bundle() + b" " * MAX_BUNDLE_BYTES,
}


@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED)
def test_what_is_no_bundle_is_refused_whole(data: bytes) -> None:
    """With one code, and a place where there is one."""
    with pytest.raises(BundleRefused) as refused:
        read_bundle(data)
    assert refused.value.code == "bundle.malformed"
    assert refused.value.exit_status == 1


def test_the_bounds_themselves_are_kept() -> None:
    """What is as large as it may be is read."""
    chain = [" " * (MAX_CHAIN_BYTES // MAX_STEPS)] * MAX_STEPS
    largest = a_bundle(card=" " * (256 * 1024), keysets=chain, release=" " * MAX_STATEMENT_BYTES)
    _, supplied = read_bundle(largest)
    assert sum(map(len, supplied.untrusted_keysets)) == MAX_CHAIN_BYTES


RECOGNISED = {
    "ours": (a_bundle(), True),
    "a later one, which is refused rather than taken for a card": (
        a_bundle(format="cardsign-bundle/2"),
        True,
    ),
    "one with a member too many": (a_bundle(extra={}), True),
    "a card": (CARD, False),
    "a card that speaks of bundles": (
        dump({**PORTABLE, "description": "reads cardsign-bundle/1"}),
        False,
    ),
    "a statement": (FIRST, False),
    "half a bundle": (a_bundle()[:-1], False),
    "nothing": (b"", False),
}


@pytest.mark.parametrize(("data", "recognised"), RECOGNISED.values(), ids=RECOGNISED)
def test_a_bundle_is_recognised_by_its_content(data: bytes, recognised: bool) -> None:
    """By its `format` and nothing else."""
    assert is_bundle(data) is recognised


@given(st.binary(max_size=200) | st.text(max_size=60).map(lambda text: a_bundle(card=text)))
def test_only_our_refusal_comes_out(data: bytes) -> None:
    """Whatever the bytes are."""
    with contextlib.suppress(BundleRefused):
        card, _ = read_bundle(data)
        assert card == json.loads(data)["card"].encode()


def _expensive(shape: str, size: int = MAX_BUNDLE_BYTES) -> bytes:
    """So many bytes that say that they are a bundle, and are expensive to a reader of JSON."""
    head = b'{"format": "cardsign-bundle/1", "release": null, '
    opened, unit, end = EXPENSIVE[shape]
    filled = (size - len(head) - len(opened) - len(end)) // len(unit)
    return head + opened + unit * filled + end


SCANNER = "cardsign.card.strictjson.Scanner.document"
EXPENSIVE = {
    "elements, cut short": (b'"keysets": [', b"0,", b"0]"),
    "elements, and one too deep": (b'"keysets": [', b"0,", b"[" * 40 + b"]" * 40 + b"]}"),
    "elements, and more behind": (b'"keysets": [', b"0,", b"0]} x"),
    "texts, cut short": (b'"keysets": [', b'"",', b'""]'),
    "lists": (b'"keysets": [', b"[],", b"[]]}"),
    "objects": (b'"keysets": [', b"{},", b"{}]}"),
    "members": (b"", b'"a":0,', b'"a":0}'),
    "escapes, cut short": (b'"card": "', b"\\n", b'"'),
    "escapes, and half a character": (b'"card": "', b"\\n", b'\\ud800"}'),
    "escaped quotes, cut short": (b'"card": "', b'\\"', b'"'),
}


@pytest.mark.parametrize("shape", EXPENSIVE)
def test_what_is_expensive_is_refused_without_the_slow_reader(shape: str) -> None:
    """It took 17 s of CPU to find the fault in 4.9 MB, and as long to see that it is a bundle."""
    data = _expensive(shape)
    with mock.patch(SCANNER, side_effect=AssertionError("it was scanned")):
        assert is_bundle(data)
        with pytest.raises(BundleRefused) as refused:
            read_bundle(data)
    assert refused.value.code == "bundle.malformed"


@pytest.mark.parametrize("shape", EXPENSIVE)
def test_memory_grows_with_the_bytes_and_no_faster(shape: str) -> None:
    """Four times the bytes need at most five times the memory, and never ten times the bytes."""
    peaks = []
    for size in (MAX_BUNDLE_BYTES // 4, MAX_BUNDLE_BYTES):
        data = _expensive(shape, size)
        tracemalloc.start()
        with contextlib.suppress(BundleRefused):
            read_bundle(data)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] <= 5 * peaks[0]
    assert peaks[1] <= 10 * MAX_BUNDLE_BYTES


def test_a_small_fault_has_its_place() -> None:
    """The slow reader says where it is, in bundles of few marks and escapes."""
    with pytest.raises(BundleRefused) as refused:
        read_bundle(a_bundle()[:-1])
    assert refused.value.line is not None
    assert refused.value.column is not None


@pytest.mark.parametrize("size", [1024, MAX_STATEMENT_BYTES])
def test_no_statement_is_read_by_the_slow_reader(size: int) -> None:
    """Nor any of those in a bundle, of which 2 MiB that were broken cost 7 s of CPU."""
    broken = [
        b'{"n":%d,"x":[' % at + b"0," * ((size - 20) // 2) for at in range(MAX_CHAIN_BYTES // size)
    ]
    with mock.patch(SCANNER, side_effect=AssertionError("it was scanned")):
        keysets, _, reasons = receive(broken, ())
    assert keysets == ()
    assert {reason.code for reason in reasons} == {"statement.shape"}
    assert len(reasons) == len(broken)
