"""One entry of `signatures`: what is read, what is refused, and what a key confirms."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cardsign.card.values import Json
from cardsign.errors import SignatureRefused
from cardsign.jose.jwk import ALGORITHMS, STATEMENT_ALGORITHMS, encode_base64url
from cardsign.jose.jws import check_entry, read_entry, sign_payload
from cardsign.jose.keys import PrivateKey
from tests.jose.explicit_making import PAYLOAD
from tests.support import each_case, read_cases

CASES = read_cases(__file__)

Forge = Callable[..., dict[str, Json]]


def header(**members: Json) -> bytes:
    """A protected header as it should be, but for `members`; a member `...` is left out."""
    whole = {"alg": "ES256", "kid": "es", "typ": "JOSE", **members}
    return json.dumps({name: value for name, value in whole.items() if value is not ...}).encode()


def refusal_of(untrusted_entry: Json) -> tuple[str, str]:
    """Code and path of the refusal of an entry."""
    with pytest.raises(SignatureRefused) as refusal:
        read_entry(untrusted_entry)
    return refusal.value.code, refusal.value.path


@each_case(__file__, "headers", "code", "text")
def test_refused_header(es256: PrivateKey, forge: Forge, code: str, text: str) -> None:
    """A header that leaves any doubt is refused, although the signature over it is good."""
    assert refusal_of(forge(es256, text.encode("latin-1"))) == (code, "/protected")


LONG = {
    "a number of 3900 digits": header()[:-1] + b',"x":' + b"1" * 3900 + b"}",
    "1900 levels": header()[:-1] + b',"x":' + b"[" * 1900 + b"]" * 1900 + b"}",
    "4097 bytes": header().ljust(4097),
    "5 MB": header().ljust(5_000_000),
}


@pytest.mark.parametrize("text", LONG.values(), ids=LONG)
def test_refused_long_header(es256: PrivateKey, forge: Forge, text: bytes) -> None:
    """Also what only is too long."""
    assert refusal_of(forge(es256, text)) == ("sig.header", "/protected")


SHOWN: list[tuple[Json, str]] = [
    *(("none", "is 'none',"), ("\u202e", r"is '\u202e',"), (["x" * 999], "is ['xxx")),
    (..., "is absent,"),
]


@pytest.mark.parametrize(("value", "shown"), SHOWN)
def test_message_shows_the_value(es256: PrivateKey, forge: Forge, value: Json, shown: str) -> None:
    """A message shows what it is about: in ASCII and short, whatever the signer wrote."""
    for allowed in (STATEMENT_ALGORITHMS, tuple(ALGORITHMS)):
        with pytest.raises(SignatureRefused) as refusal:
            read_entry(forge(es256, header(alg=value)), algorithms=allowed)
        message, listed = refusal.value.message, f", expected one of {', '.join(allowed)}"
        assert shown in message
        assert message.isascii()
        assert message.endswith(listed)
        assert len(message.removesuffix(listed)) < 120


@each_case(__file__, "typs", "typ", "kind")
def test_typ(es256: PrivateKey, forge: Forge, typ: str, kind: str) -> None:
    """A typ is kept as received and sorted by what it makes of the signature."""
    entry = read_entry(forge(es256, header(typ=typ or ...)))
    assert (entry.typ, entry.kind) == (typ or None, kind)
    check_entry(entry, PAYLOAD, es256.public)


@each_case(__file__, "harmless_headers", "text")
def test_harmless_header(es256: PrivateKey, forge: Forge, text: str) -> None:
    """What carries no weight is kept, and does not keep a good signature from being good."""
    for data in (text.encode(), text.encode().ljust(4096)):  # the longest that is read
        entry = read_entry(forge(es256, data))
        check_entry(entry, PAYLOAD, es256.public)
        assert entry.members == json.loads(text)


@pytest.mark.parametrize("text", CASES["embedded"]["headers"])
def test_embedded_key(es256: PrivateKey, forge: Forge, text: str) -> None:
    """A key that a header offers is neither used nor an obstacle, be it protected or not."""
    members = json.loads(text)
    for entry in (forge(es256, header(**members)), {**forge(es256, header()), "header": members}):
        check_entry(read_entry(entry), PAYLOAD, es256.public)


@pytest.mark.parametrize(("text", "code"), CASES["unprotected"].items())
def test_refused_unprotected_header(es256: PrivateKey, forge: Forge, text: str, code: str) -> None:
    """An unprotected header that repeats or replaces what must be signed is refused."""
    signed = forge(es256, header(typ=..., x=1))
    assert refusal_of({**signed, "header": json.loads(text)}) == (code, "/header")


def test_unprotected_header_cannot_stand_in(es256: PrivateKey, forge: Forge) -> None:
    """Nobody signed it, so that neither alg nor kid is taken from it."""
    for text, code in (
        (b'{"typ":"JOSE"}', "sig.alg_forbidden"),
        (header(kid=...), "sig.kid_missing"),
    ):
        entry = {**forge(es256, text), "header": {"alg": "ES256", "kid": "es"}}
        assert refusal_of(entry)[0] == code


@pytest.mark.parametrize("unprotected", [None, {}, {"note": "hi"}])
def test_harmless_members(es256: PrivateKey, forge: Forge, unprotected: Json) -> None:
    """What nobody signed and RFC 7515 gives no weight is ignored, a payload among it."""
    signed = forge(es256, header())
    more: dict[str, Json] = {"payload": "e30", "kid": "x", "alg": "none", "header": unprotected}
    entry = read_entry({**signed, **more})
    assert entry == read_entry(signed)
    check_entry(entry, PAYLOAD, es256.public)


@pytest.mark.parametrize(("text", "path"), CASES["shapes"].items())
def test_refused_shape(text: str, path: str) -> None:
    """What is no {protected, signature[, header]} is refused, with the member at fault."""
    assert refusal_of(json.loads(text)) == ("sig.shape", path)


def _other_ending(text: str) -> str:
    """Another text that a lenient decoder reads as the same bytes."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    assert len(text) % 4 in (2, 3)
    return text[:-1] + alphabet[alphabet.index(text[-1]) + 1]


SPELLINGS: dict[str, Callable[[str], str]] = {
    "padding": lambda text: text + "=" * (-len(text) % 4),
    "the other alphabet": lambda text: text.replace("-", "+").replace("_", "/"),
    "a line feed behind": lambda text: text + "\n",
    "a blank in front": lambda text: " " + text,
    "a blank inside": lambda text: f"{text[:4]} {text[4:]}",
    "stray bits at the end": _other_ending,
    "one character too few": lambda text: text[: len(text) // 4 * 4 + 1],
    "a dot": lambda text: text + ".",
    "a fullwidth digit": lambda text: text[:-1] + "\uff19",
}


@pytest.mark.parametrize("member", ["protected", "signature"])
@pytest.mark.parametrize("spelling", SPELLINGS.values(), ids=SPELLINGS)
def test_second_spelling(
    es256: PrivateKey, forge: Forge, member: str, spelling: Callable[[str], str]
) -> None:
    """Only one text stands for the bytes of either part."""
    entries = (forge(es256, header(x="~~~???"), b"%d" % count) for count in range(1000))
    entry = next(entry for entry in entries if {"-", "_"} & set(str(entry[member])))
    entry[member] = spelling(str(entry[member]))
    assert refusal_of(entry) == ("sig.base64url", f"/{member}")


def test_algorithm_is_the_key_s(es256: PrivateKey, rs256: PrivateKey, forge: Forge) -> None:
    """A header cannot make a key serve another algorithm, nor offer the key that it fits."""
    attacker = PrivateKey.generate("ES256")
    for signer, text, key, code in (
        (es256, header(alg="RS256"), es256, "key.alg_mismatch"),
        (es256, header(alg="RS256"), rs256, "sig.bad"),
        (rs256, header(), rs256, "key.alg_mismatch"),
        (rs256, header(), es256, "sig.bad"),
        (attacker, header(jwk={**attacker.public.jwk()}), es256, "sig.bad"),
    ):
        with pytest.raises(SignatureRefused) as refusal:
            check_entry(read_entry(forge(signer, text)), PAYLOAD, key.public)
        assert refusal.value.code == code


@pytest.mark.parametrize("size", [0, 1, 127_000, 256 * 1024, 2 * 1024 * 1024])
def test_payload_of_any_size(key: PrivateKey, size: int) -> None:
    """Payloads beyond joserfc's limits are verified; limiting cards is not done here."""
    payload = b"x" * size
    check_entry(read_entry({**sign_payload(payload, key, typ="JOSE")}), payload, key.public)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
MEMBERS = st.dictionaries(
    st.sampled_from(["alg", "kid", "typ", "crit", "b64", "jwk", "jku", "x"]),
    JSON | st.sampled_from(["ES256", "RS256", "es", "JOSE", "JWT"]),
)
PARTS = (
    JSON
    | st.just(encode_base64url(header()))
    | MEMBERS.map(lambda members: encode_base64url(json.dumps(members).encode()))
    | (st.binary() | st.binary(min_size=64, max_size=64)).map(encode_base64url)
)


@given(
    JSON | st.dictionaries(st.sampled_from(["protected", "signature", "header"]), PARTS | MEMBERS)
)
def test_any_json(es256: PrivateKey, untrusted_entry: Json) -> None:
    """No entry makes anything escape but a refusal, whatever stands for its signature."""
    with pytest.raises(SignatureRefused):
        check_entry(read_entry(untrusted_entry), PAYLOAD, es256.public)


@given(st.binary(min_size=64, max_size=64) | st.binary(max_size=80))
def test_garbage_is_bad(es256: PrivateKey, signature: bytes) -> None:
    """Whatever stands in the place of a signature is refused under one code."""
    with pytest.raises(SignatureRefused, match=r"sig\.bad"):
        es256.public.check(encode_base64url(header()), PAYLOAD, signature)
