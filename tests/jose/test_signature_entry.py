"""One entry of `signatures`: what is read, what is refused, and what a key confirms."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cardsign.card.values import Json
from cardsign.errors import SignatureRefused
from cardsign.jose import base64url
from cardsign.jose.algorithms import ALGORITHMS
from cardsign.jose.jws import Entry, check_entry, read_entry, sign_payload
from cardsign.jose.keys import PrivateKey, PublicKey

PAYLOAD = b'{"name":"Route planner"}'

Forge = Callable[..., dict[str, str]]


def header(**members: Json) -> bytes:
    """A protected header as it should be, but for `members`; a member `...` is left out."""
    whole = {"alg": "ES256", "kid": "es", "typ": "JOSE", **members}
    return json.dumps({name: value for name, value in whole.items() if value is not ...}).encode()


def refusal_of(untrusted_entry: Json) -> tuple[str, str]:
    """Code and path of the refusal of an entry."""
    with pytest.raises(SignatureRefused) as refusal:
        read_entry(untrusted_entry)
    return refusal.value.code, refusal.value.path


REFUSED_HEADERS: dict[str, tuple[bytes, str]] = {
    "alg none": (header(alg="none"), "sig.alg_forbidden"),
    "alg None": (header(alg="None"), "sig.alg_forbidden"),
    "alg nOnE": (header(alg="nOnE"), "sig.alg_forbidden"),
    "alg in lower case": (header(alg="es256"), "sig.alg_forbidden"),
    "alg absent": (header(alg=...), "sig.alg_forbidden"),
    "alg null": (header(alg=None), "sig.alg_forbidden"),
    "alg empty": (header(alg=""), "sig.alg_forbidden"),
    "alg a list": (header(alg=["ES256"]), "sig.alg_forbidden"),
    "alg an object": (header(alg={"ES256": 1}), "sig.alg_forbidden"),
    "alg with a blank": (header(alg="ES256 "), "sig.alg_forbidden"),
    "alg HS256": (header(alg="HS256"), "sig.alg_forbidden"),
    "alg HS384": (header(alg="HS384"), "sig.alg_forbidden"),
    "alg HS512": (header(alg="HS512"), "sig.alg_forbidden"),
    "alg PS224": (header(alg="PS224"), "sig.alg_forbidden"),
    "alg ES256K": (header(alg="ES256K"), "sig.alg_forbidden"),
    "alg Ed448": (header(alg="Ed448"), "sig.alg_forbidden"),
    "alg RS1": (header(alg="RS1"), "sig.alg_forbidden"),
    "alg PS256 in lower case": (header(alg="ps256"), "sig.alg_forbidden"),
    "alg EdDSA in lower case": (header(alg="eddsa"), "sig.alg_forbidden"),
    "alg EdDSA in upper case": (header(alg="EDDSA"), "sig.alg_forbidden"),
    "kid absent": (header(kid=...), "sig.kid_missing"),
    "kid null": (header(kid=None), "sig.kid_missing"),
    "kid a number": (header(kid=1), "sig.kid_form"),
    "kid a list": (header(kid=["es"]), "sig.kid_form"),
    "kid empty": (header(kid=""), "sig.kid_form"),
    "kid too long": (header(kid="k" * 257), "sig.kid_form"),
    "kid with CR and LF": (header(kid="es\r\nSet-Cookie: a"), "sig.kid_form"),
    "kid with NUL": (header(kid="es\0"), "sig.kid_form"),
    "kid with a line feed at the end": (header(kid="es\n"), "sig.kid_form"),
    "kid with an escape sequence": (header(kid="\x1b[2J"), "sig.kid_form"),
    "kid that reverses the text": (header(kid="\u202ese"), "sig.kid_form"),
    "kid beyond ASCII": (header(kid="és"), "sig.kid_form"),
    "typ of a keyset statement": (header(typ="cardsign-keyset+jws"), "sig.typ_forbidden"),
    "typ of a release statement": (header(typ="cardsign-release+jws"), "sig.typ_forbidden"),
    "typ of an access token": (header(typ="at+jwt"), "sig.typ_forbidden"),
    "typ empty": (header(typ=""), "sig.typ_forbidden"),
    "typ null": (header(typ=None), "sig.typ_forbidden"),
    "typ a list": (header(typ=["JOSE"]), "sig.typ_forbidden"),
    "typ with a blank": (header(typ="JOSE "), "sig.typ_forbidden"),
    "crit empty": (header(crit=[]), "sig.crit"),
    "crit null": (header(crit=None), "sig.crit"),
    "crit unknown": (header(crit=["x"], x=1), "sig.crit"),
    "crit names alg": (header(crit=["alg"]), "sig.crit"),
    "crit of numbers": (header(crit=[1]), "sig.crit"),
    "crit of lists": (header(crit=[[]]), "sig.crit"),
    "crit b64": (header(crit=["b64"], b64=False), "sig.crit"),
    "b64 false": (header(b64=False), "sig.b64"),
    "b64 true": (header(b64=True), "sig.b64"),
    "empty": (b"", "sig.header"),
    "a list": (b"[]", "sig.header"),
    "null": (b"null", "sig.header"),
    "a number": (b"1", "sig.header"),
    "text": (b'"ES256"', "sig.header"),
    "alg twice": (b'{"alg":"none",' + header()[1:], "sig.header"),
    "kid twice": (b'{"kid":"rs",' + header()[1:], "sig.header"),
    "crit twice": (b'{"crit":[],"crit":[],' + header()[1:], "sig.header"),
    "alg twice, once escaped": (b'{"\\u0061lg":"none",' + header()[1:], "sig.header"),
    "byte order mark": (b"\xef\xbb\xbf" + header(), "sig.header"),
    "UTF-16": (header().decode().encode("utf-16-le"), "sig.header"),
    "not UTF-8": (header()[:-1] + b',"x":"\xff"}', "sig.header"),
    "lone surrogate": (header(x="\ud800"), "sig.header"),
    "NaN": (header(x=float("nan")), "sig.header"),
    "Infinity": (header(x=float("inf")), "sig.header"),
    "integer of 4000 digits": (header()[:-1] + b',"x":' + b"1" * 3900 + b"}", "sig.header"),
    "something behind": (header() + b"{}", "sig.header"),
    "nested too deeply": (header(x=[[[[[[[[]]]]]]]]), "sig.header"),
    "nested 2000 deep": (header()[:-1] + b',"x":' + b"[" * 1900 + b"]" * 1900 + b"}", "sig.header"),
    "one byte too long": (header() + b" " * (4097 - len(header())), "sig.header"),
    "5 MB": (header() + b" " * 5_000_000, "sig.header"),
}


@pytest.mark.parametrize(("text", "code"), REFUSED_HEADERS.values(), ids=REFUSED_HEADERS)
def test_refused_header(es256: PrivateKey, forge: Forge, text: bytes, code: str) -> None:
    """A header that leaves any doubt is refused, although the signature over it is good."""
    assert refusal_of({**forge(es256, text, PAYLOAD)}) == (code, "/protected")


@pytest.mark.parametrize("alg", ["PS256", "ES384", "EdDSA", "Ed25519"])
def test_header_that_a_policy_does_not_name(es256: PrivateKey, forge: Forge, alg: str) -> None:
    """Read by default, and then no key for another algorithm; refused where others are named."""
    entry: Json = {**forge(es256, header(alg=alg), PAYLOAD)}
    with pytest.raises(SignatureRefused) as refusal:
        read_entry(entry, algorithms=("ES256", "RS256"))
    assert (refusal.value.code, refusal.value.path) == ("sig.alg_forbidden", "/protected")
    read = read_entry(entry)
    assert read.alg == ("EdDSA" if alg == "Ed25519" else alg)
    with pytest.raises(SignatureRefused, match=r"key\.alg_mismatch"):
        check_entry(read, PAYLOAD, es256.public)


def test_message_shows_the_value(es256: PrivateKey, forge: Forge) -> None:
    """A message shows what it is about: in ASCII and short, whatever the signer wrote."""
    for value, shown in (
        ("none", "is 'none',"),
        ("\u202e", r"is '\u202e',"),
        (["x" * 999], "is ['xxx"),
        (..., "is absent,"),
    ):
        entry: Json = {**forge(es256, header(alg=value), PAYLOAD)}
        for allowed in (("ES256", "RS256"), tuple(ALGORITHMS)):
            with pytest.raises(SignatureRefused) as refusal:
                read_entry(entry, algorithms=allowed)
            listed = " or ".join(allowed) if len(allowed) == 2 else f"one of {', '.join(allowed)}"
            message = refusal.value.message
            assert shown in message
            assert message.isascii()
            assert message.endswith(f", expected {listed}")
            assert (
                refusal.value.hint
                == "Ask the issuer to sign with ES256. No policy can accept this one."
            )
            # Only the list, which is ours, may be longer than that of two algorithms.
            assert len(message.removesuffix(listed)) < 150 - len("ES256 or RS256")


TYPS: dict[str, tuple[dict[str, Json], str | None, str]] = {
    "absent": ({"typ": ...}, None, "full"),
    "JOSE": ({"typ": "JOSE"}, "JOSE", "full"),
    "JOSE+JSON": ({"typ": "JOSE+JSON"}, "JOSE+JSON", "full"),
    "in lower case": ({"typ": "jose+json"}, "jose+json", "full"),
    "JWT": ({"typ": "JWT"}, "JWT", "jwt"),
    "jwt in lower case": ({"typ": "jwt"}, "jwt", "jwt"),
    "compat": ({"typ": "cardsign-compat+jws"}, "cardsign-compat+jws", "compat"),
    "compat in capitals": ({"typ": "CARDSIGN-COMPAT+JWS"}, "CARDSIGN-COMPAT+JWS", "compat"),
}


@pytest.mark.parametrize(("members", "typ", "kind"), TYPS.values(), ids=TYPS)
def test_typ(
    es256: PrivateKey, forge: Forge, members: dict[str, Json], typ: str | None, kind: str
) -> None:
    """A typ is kept as received and sorted by what it makes of the signature."""
    entry = read_entry({**forge(es256, header(**members), PAYLOAD)})
    assert (entry.typ, entry.kind) == (typ, kind)
    check_entry(entry, PAYLOAD, es256.public)


HARMLESS_HEADERS: dict[str, bytes] = {
    "whitespace": b'{ "kid" :\r\n"es",\t"alg":"ES256" }',
    "other order": b'{"typ":"JOSE","kid":"es","alg":"ES256"}',
    "escapes": b'{"\\u0061lg":"ES\\u003256","kid":"es"}',
    "unknown members": header(exp=1, x={"y": [None, 1.5]}),
    "beyond joserfc's limit": header(x="x" * 600),
    "exactly 4 KiB": header() + b" " * (4096 - len(header())),
    "the longest kid": header(kid="~" * 256),
    "a kid that looks like a path": header(kid="../../etc/passwd"),
    "a kid that looks like a lookup": header(kid="${jndi:ldap://127.0.0.1/a}"),
    "a content type": header(cty="application/json"),
    "the deepest allowed": header(x=[[[[[[[]]]]]]]),
}


@pytest.mark.parametrize("text", HARMLESS_HEADERS.values(), ids=HARMLESS_HEADERS)
def test_harmless_header(es256: PrivateKey, forge: Forge, text: bytes) -> None:
    """What carries no weight is kept, and does not keep a good signature from being good."""
    entry = read_entry({**forge(es256, text, PAYLOAD)})
    check_entry(entry, PAYLOAD, es256.public)
    assert entry.members == json.loads(text)


def test_a_header_that_is_changed_is_nobody_elses(es256: PrivateKey, forge: Forge) -> None:
    """An entry that is read again says what its signer wrote, whatever a caller did meanwhile."""
    entry = {**forge(es256, header(x5c=["one"], x={"y": 1}), PAYLOAD)}
    for _ in range(2):
        members = read_entry(entry).members
        assert (members["x5c"], members["x"]) == (["one"], {"y": 1})
        members["x5c"].append("two")  # type: ignore[union-attr]
        members["x"]["y"] = 2  # type: ignore[index,call-overload]


EMBEDDED_KEYS: dict[str, dict[str, Json]] = {
    "jku": {"jku": "https://example.com/jwks.json"},
    "jku of another scheme": {"jku": "file:///etc/passwd"},
    "jku that is no text": {"jku": 7},
    "jwk": {"jwk": {"kty": "oct", "k": "AA"}},
    "jwk that is no object": {"jwk": "x"},
    "x5c": {"x5c": ["junk"] * 50},
    "x5u": {"x5u": "http://169.254.169.254/"},
}


@pytest.mark.parametrize("members", EMBEDDED_KEYS.values(), ids=EMBEDDED_KEYS)
@pytest.mark.parametrize("protected", [True, False], ids=["protected", "unprotected"])
def test_embedded_key(
    es256: PrivateKey, forge: Forge, members: dict[str, Json], protected: bool
) -> None:
    """A key that a header offers is neither used nor an obstacle."""
    untrusted: dict[str, Json] = {
        **forge(es256, header(**(members if protected else {})), PAYLOAD),
        "header": None if protected else members,
    }
    check_entry(read_entry(untrusted), PAYLOAD, es256.public)


def test_embedded_key_of_an_attacker(es256: PrivateKey, forge: Forge) -> None:
    """A signature that only the embedded key fits is bad."""
    attacker = PrivateKey.generate("ES256")
    entry = read_entry({**forge(attacker, header(jwk=attacker.public.jwk()), PAYLOAD)})
    _refuses(entry, PAYLOAD, es256.public, "sig.bad")


UNPROTECTED: dict[str, tuple[Json, str]] = {
    "repeats alg": ({"alg": "ES256"}, "sig.header_overlap"),
    "repeats kid": ({"kid": "es"}, "sig.header_overlap"),
    "repeats an unknown member": ({"x": 1}, "sig.header_overlap"),
    "gives a typ": ({"typ": "JOSE"}, "sig.header_overlap"),
    "holds crit": ({"crit": ["exp"]}, "sig.crit"),
    "holds b64": ({"b64": False}, "sig.b64"),
    "is a list": ([], "sig.shape"),
    "is text": ("{}", "sig.shape"),
    "is false": (False, "sig.shape"),
}


@pytest.mark.parametrize(("unprotected", "code"), UNPROTECTED.values(), ids=UNPROTECTED)
def test_refused_unprotected_header(
    es256: PrivateKey, forge: Forge, unprotected: Json, code: str
) -> None:
    """An unprotected header that repeats or replaces what must be signed is refused."""
    signed = forge(es256, header(typ=..., x=1), PAYLOAD)
    assert refusal_of({**signed, "header": unprotected}) == (code, "/header")


def test_unprotected_header_cannot_stand_in(es256: PrivateKey, forge: Forge) -> None:
    """Nobody signed it, so that neither alg nor kid is taken from it."""
    entry = forge(es256, b'{"typ":"JOSE"}', PAYLOAD)
    assert refusal_of({**entry, "header": {"alg": "ES256", "kid": "es"}})[0] == "sig.alg_forbidden"
    only_kid_left_out = forge(es256, header(kid=...), PAYLOAD)
    assert refusal_of({**only_kid_left_out, "header": {"kid": "es"}})[0] == "sig.kid_missing"


@pytest.mark.parametrize("unprotected", [None, {}, {"note": "hi"}])
def test_harmless_unprotected_header(
    es256: PrivateKey, forge: Forge, unprotected: dict[str, Json] | None
) -> None:
    """An unprotected header that says nothing of weight is ignored."""
    entry = read_entry({**forge(es256, header(), PAYLOAD), "header": unprotected})
    assert entry.members == json.loads(header())
    check_entry(entry, PAYLOAD, es256.public)


def test_other_members_are_not_read(es256: PrivateKey, forge: Forge) -> None:
    """Members that RFC 7515 does not define are ignored, an embedded payload among them."""
    signed = forge(es256, header(), PAYLOAD)
    assert read_entry({**signed, "payload": "e30", "kid": "x", "alg": "none"}) == read_entry(
        {**signed}
    )


SHAPES: dict[str, tuple[Callable[[dict[str, Json]], Json], tuple[str, str]]] = {
    "no object": (lambda entry: [entry], ("sig.shape", "")),
    "text": (lambda entry: "x", ("sig.shape", "")),
    "null": (lambda entry: None, ("sig.shape", "")),
    "empty": (lambda entry: {}, ("sig.shape", "/protected")),
    "protected null": (lambda entry: {**entry, "protected": None}, ("sig.shape", "/protected")),
    "protected an object": (lambda entry: {**entry, "protected": {}}, ("sig.shape", "/protected")),
    "no signature": (
        lambda entry: {"protected": entry["protected"]},
        ("sig.shape", "/signature"),
    ),
    "signature a list": (lambda entry: {**entry, "signature": []}, ("sig.shape", "/signature")),
}


@pytest.mark.parametrize(("change", "expected"), SHAPES.values(), ids=SHAPES)
def test_refused_shape(
    es256: PrivateKey,
    forge: Forge,
    change: Callable[[dict[str, Json]], Json],
    expected: tuple[str, str],
) -> None:
    """What is no {protected, signature[, header]} is refused, with the member at fault."""
    good: dict[str, Json] = {**forge(es256, header(), PAYLOAD)}
    read_entry(good)
    assert refusal_of(change(good)) == expected


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
}


@pytest.mark.parametrize("member", ["protected", "signature"])
@pytest.mark.parametrize("spelling", SPELLINGS.values(), ids=SPELLINGS)
def test_second_spelling(
    es256: PrivateKey, forge: Forge, member: str, spelling: Callable[[str], str]
) -> None:
    """Only one text stands for the bytes of either part."""
    text = header(x="~~~???")
    assert {"-", "_"} & set(base64url.encode(text))
    entry = next(
        entry
        for count in range(1000)
        if {"-", "_"} & set((entry := forge(es256, text, b"%d" % count))["signature"])
    )
    entry[member] = spelling(entry[member])
    assert refusal_of({**entry}) == ("sig.base64url", f"/{member}")


def _refuses(entry: Entry, payload: bytes, key: PublicKey, code: str) -> None:
    with pytest.raises(SignatureRefused) as refusal:
        check_entry(entry, payload, key)
    assert refusal.value.code == code


def test_algorithm_is_the_key_s(es256: PrivateKey, rs256: PrivateKey, forge: Forge) -> None:
    """A header cannot make a key serve another algorithm, in either direction."""
    for signer, other in ((es256, rs256), (rs256, es256)):
        text = header(alg=other.public.alg)
        entry = read_entry({**forge(signer, text, PAYLOAD)})
        _refuses(entry, PAYLOAD, signer.public, "key.alg_mismatch")
        _refuses(entry, PAYLOAD, other.public, "sig.bad")


def test_kid_is_only_a_hint(es256: PrivateKey, forge: Forge) -> None:
    """Which key to try is the caller's business; another name in the header changes nothing."""
    check_entry(read_entry({**forge(es256, header(kid="zz"), PAYLOAD)}), PAYLOAD, es256.public)


@pytest.mark.parametrize("size", [0, 1, 127_000, 256 * 1024, 2 * 1024 * 1024])
def test_payload_of_any_size(key: PrivateKey, size: int) -> None:
    """Payloads beyond joserfc's limits are verified; limiting cards is not done here."""
    payload = b"x" * size
    check_entry(read_entry({**sign_payload(payload, key, typ="JOSE")}), payload, key.public)


@given(signature=st.binary(min_size=64, max_size=64) | st.binary(max_size=80))
def test_garbage_is_bad(es256: PrivateKey, signature: bytes) -> None:
    """Whatever stands in the place of a signature is refused under one code."""
    protected = base64url.encode(header())
    entry = read_entry({"protected": protected, "signature": base64url.encode(signature)})
    with pytest.raises(SignatureRefused) as refused:
        check_entry(entry, PAYLOAD, es256.public)
    assert refused.value.code == "sig.bad"


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
    | MEMBERS.map(lambda members: base64url.encode(json.dumps(members).encode()))
    | st.binary().map(base64url.encode)
)


@given(
    JSON | st.dictionaries(st.sampled_from(["protected", "signature", "header"]), PARTS | MEMBERS)
)
def test_any_json(es256: PrivateKey, untrusted_entry: Json) -> None:
    """No entry makes anything escape but a refusal."""
    with pytest.raises(SignatureRefused):
        check_entry(read_entry(untrusted_entry), PAYLOAD, es256.public)
