"""Keys beyond P-256 and RS256: read where they are asked for, as strictly as any."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Collection

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa

from cardsign.card.values import Json
from cardsign.errors import KeyRefused, SignatureRefused, SignerFault
from cardsign.jose import base64url
from cardsign.jose.algorithms import ALGORITHMS, SIGNING_ALGORITHMS, STATEMENT_ALGORITHMS
from cardsign.jose.jws import check_entry, read_entry, sign_payload
from cardsign.jose.keys import PrivateKey, PublicKey
from tests.jose.explicit_making import (
    ALL_ALGS,
    HEADER_ALGS,
    PAYLOAD,
    check_input,
    input_of,
    made,
    rsa_key,
)

Change = Callable[[dict[str, Json]], object]


def refusal_of(jwk: dict[str, Json], algorithms: Collection[str] = ALGORITHMS) -> tuple[str, str]:
    """Code and path of the refusal of a JWK; by default every algorithm is let in."""
    with pytest.raises(KeyRefused) as refusal:
        PublicKey.from_jwk(jwk, algorithms=algorithms)
    return refusal.value.code, refusal.value.path


NOT_BY_DEFAULT = {
    "Ed25519": ("key.unsupported", "/kty"),
    "ES384": ("key.unsupported", "/crv"),
    "ES512": ("key.unsupported", "/crv"),
    "PS256": ("key.alg_mismatch", "/alg"),
    "RS384": ("key.alg_mismatch", "/alg"),
    "RS512": ("key.alg_mismatch", "/alg"),
    "PS384": ("key.alg_mismatch", "/alg"),
    "PS512": ("key.alg_mismatch", "/alg"),
}


@pytest.mark.parametrize("alg", HEADER_ALGS)
def test_read_where_it_is_asked_for(alg: str) -> None:
    """By default a key for another algorithm is none for us; named, it is read as what it is."""
    key = made(alg)
    assert refusal_of(key.jwk, STATEMENT_ALGORITHMS) == NOT_BY_DEFAULT[alg]
    read = PublicKey.from_jwk(key.jwk, algorithms=[key.name])
    assert (read.kid, read.alg) == ("k", key.name)
    assert read.jwk() == {**read.numbers, "kid": "k", "use": "sig", "alg": key.name}
    assert PublicKey.from_jwk(read.jwk(), algorithms=[key.name]) == read


@pytest.mark.parametrize("alg", ["Ed25519", "ES384", "ES512"])
def test_type_and_curve_name_the_algorithm(alg: str) -> None:
    """These keys need no `alg`."""
    jwk = made(alg).jwk
    del jwk["alg"]
    assert PublicKey.from_jwk(jwk, algorithms=ALGORITHMS).alg == made(alg).name


def test_rsa_without_alg_is_for_rs256() -> None:
    """Whatever else is let in; and where RS256 is not, the key is for nothing."""
    jwk = made("RS256").jwk
    del jwk["alg"]
    assert PublicKey.from_jwk(jwk, algorithms=ALGORITHMS).alg == "RS256"
    assert PublicKey.from_jwk({**jwk, "alg": "PS256"}, algorithms=["PS256"]).alg == "PS256"
    with pytest.raises(KeyRefused, match=r"key\.alg_mismatch"):
        PublicKey.from_jwk(jwk, algorithms=["PS256"])


@pytest.mark.parametrize(
    "alg",
    [*ALGORITHMS, "Ed25519", "HS256", "none", "", "ES256K", "Ed448", "RSA-OAEP"],
)
@pytest.mark.parametrize("type_of", ["Ed25519", "ES384", "ES512", "RS256"])
def test_alg_must_fit_the_type(type_of: str, alg: str) -> None:
    """An `alg` that contradicts type or curve is refused, as is one that we do not know."""
    fitting = {
        "Ed25519": {"EdDSA", "Ed25519"},
        "ES384": {"ES384"},
        "ES512": {"ES512"},
        "RS256": {"RS256", "PS256", "RS384", "RS512", "PS384", "PS512"},
    }[type_of]
    jwk = {**made(type_of).jwk, "alg": alg}
    if alg in fitting:
        assert PublicKey.from_jwk(jwk, algorithms=ALGORITHMS).alg in {alg, "EdDSA"}
    else:
        assert refusal_of(jwk) == ("key.alg_mismatch", "/alg")


def put(**members: Json) -> Change:
    """Set members of a JWK."""
    return lambda jwk: jwk.update(members)


def respell(name: str, change: Callable[[bytes], bytes]) -> Change:
    """Change the bytes of a number of a JWK."""
    return lambda jwk: jwk.update(
        {name: base64url.encode(change(base64url.decode(str(jwk[name]))))}
    )


ANY: dict[str, tuple[Change, str, str]] = {
    "for encryption": (put(use="enc"), "key.use", "/use"),
    "use is a list": (put(use=["sig"]), "key.malformed", "/use"),
    "for signing only": (put(key_ops=["sign"]), "key.use", "/key_ops"),
    "for nothing": (put(key_ops=[]), "key.use", "/key_ops"),
    "operations as text": (put(key_ops="verify"), "key.malformed", "/key_ops"),
    "alg null": (put(alg=None), "key.malformed", "/alg"),
    "with its private half": (put(d="AA"), "key.private_material", "/d"),
    "with a private member null": (put(d=None), "key.private_material", "/d"),
    "a secret": (put(kty="oct"), "key.private_material", "/kty"),
    **{
        f"with the private member {name}": (put(**{name: "AA"}), "key.private_material", f"/{name}")
        for name in ("p", "q", "dp", "dq", "qi", "oth")
    },
    "kid with a line feed": (put(kid="k\n"), "key.malformed", "/kid"),
    "kid is a number": (put(kid=1), "key.malformed", "/kid"),
    "kid is null": (put(kid=None), "key.malformed", "/kid"),
    "kid is empty": (put(kid=""), "key.malformed", "/kid"),
    "kid too long": (put(kid="k" * 257), "key.malformed", "/kid"),
    "kid with NUL": (put(kid="k\0"), "key.malformed", "/kid"),
    "kid that reverses the text": (put(kid="k\u202e"), "key.malformed", "/kid"),
    "no kty": (lambda jwk: jwk.pop("kty"), "key.malformed", "/kty"),
    "kty is a list": (put(kty=["EC"]), "key.malformed", "/kty"),
    "kty in lower case": (put(kty="ec"), "key.unsupported", "/kty"),
    "a type of tomorrow": (put(kty="AKP"), "key.unsupported", "/kty"),
}


@pytest.mark.parametrize(("change", "code", "path"), ANY.values(), ids=ANY)
@pytest.mark.parametrize("alg", ALL_ALGS)
def test_refused_of_any_type(alg: str, change: Change, code: str, path: str) -> None:
    """What a key says about its purpose is obeyed, and a private half is never read."""
    jwk = made(alg).jwk
    change(jwk)
    assert refusal_of(jwk) == (code, path)


FIELDS = {
    "ES256": 2**256 - 2**224 + 2**192 + 2**96 - 1,
    "ES384": 2**384 - 2**128 - 2**96 + 2**32 - 1,
    "ES512": 2**521 - 1,
}
SIZES = {"ES256": 32, "ES384": 48, "ES512": 66}
ON_A_CURVE: dict[str, tuple[Callable[[str], Change], str]] = {
    "off the curve": (lambda alg: respell("y", lambda y: y[:-1] + bytes([y[-1] ^ 1])), "/x"),
    "x with a leading zero byte": (lambda alg: respell("x", lambda x: b"\0" + x), "/x"),
    "y with a leading zero byte": (lambda alg: respell("y", lambda y: b"\0" + y), "/y"),
    "x one byte short": (lambda alg: respell("x", lambda x: x[1:]), "/x"),
    "x is the field's order": (
        lambda alg: put(x=base64url.encode(FIELDS[alg].to_bytes(SIZES[alg]))),
        "/x",
    ),
    "x is not reduced": (lambda alg: respell("x", lambda x: b"\xff" * len(x)), "/x"),
    "the point at infinity": (
        lambda alg: put(**dict.fromkeys("xy", base64url.encode(bytes(SIZES[alg])))),
        "/x",
    ),
    "x is empty": (lambda alg: put(x=""), "/x"),
    "y is a number": (lambda alg: put(y=1), "/y"),
    "x with padding": (lambda alg: lambda jwk: jwk.update(x=f"{jwk['x']}="), "/x"),
    "no y": (lambda alg: lambda jwk: jwk.pop("y"), "/y"),
    "no curve": (lambda alg: lambda jwk: jwk.pop("crv"), "/crv"),
}


@pytest.mark.parametrize(("change", "path"), ON_A_CURVE.values(), ids=ON_A_CURVE)
@pytest.mark.parametrize("alg", SIZES)
def test_refused_on_a_curve(alg: str, change: Callable[[str], Change], path: str) -> None:
    """A point has one spelling, of its curve's length, and lies on the curve."""
    jwk = made(alg).jwk
    PublicKey.from_jwk(jwk, algorithms=ALGORITHMS)
    assert len(base64url.decode(str(jwk["x"]))) == SIZES[alg]
    change(alg)(jwk)
    assert refusal_of(jwk) == ("key.malformed", path)


@pytest.mark.parametrize("curve", ["P-256", "P-521"])
def test_a_point_of_another_curve(curve: str) -> None:
    """The numbers of one curve under the name of another are refused."""
    jwk = {**made("ES384").jwk, "crv": curve}
    del jwk["alg"]
    assert refusal_of(jwk) == ("key.malformed", "/x")


def test_a_point_in_two_spellings() -> None:
    """The point of P-256 with x = 5, also where x is the field's order more, or has stray bits."""
    y = "RZJDuapYGAb-kTvOmYF63hHKUDxk2aPFM0FcCDJI-8w"
    jwk = {"kty": "EC", "crv": "P-256", "x": base64url.encode((5).to_bytes(32)), "y": y}
    assert PublicKey.from_jwk(jwk).alg == "ES256"
    for x in (base64url.encode((FIELDS["ES256"] + 5).to_bytes(32)), "A" * 42 + "B"):
        assert refusal_of({**jwk, "x": x}) == ("key.malformed", "/x")
    for curve in ({"crv": "secp256k1"}, {"kty": "OKP"}):
        assert refusal_of({**jwk, **curve}) == ("key.unsupported", "/crv")


@pytest.mark.parametrize("curve", ["Ed448", "X25519", "X448", "ed25519", "P-256"])
def test_another_okp(curve: str) -> None:
    """Of the type OKP there is Ed25519 alone."""
    assert refusal_of({**made("Ed25519").jwk, "crv": curve}) == ("key.unsupported", "/crv")


@pytest.mark.parametrize("alg", ["RS256", "PS256", "RS384", "RS512"])
def test_rsa_is_as_strong_for_all(alg: str) -> None:
    """Length, exponent and spelling are the same whatever the key is for."""
    good = {**made("RS256").jwk, "alg": alg}
    PublicKey.from_jwk(good, algorithms=ALGORITHMS)
    short = rsa.generate_private_key(65537, 1024).public_key().public_numbers().n
    n = base64url.decode(str(good["n"]))
    for members, expected in (
        ({"n": base64url.encode(short.to_bytes(128))}, ("key.weak_rsa", "/n")),
        ({"n": "_" * 2_000}, ("key.weak_rsa", "/n")),
        ({"e": "Aw"}, ("key.weak_rsa", "/e")),
        ({"n": base64url.encode(b"\0" + n)}, ("key.malformed", "/n")),
        ({"e": "AAEAAQ"}, ("key.malformed", "/e")),
        ({"n": ""}, ("key.malformed", "/n")),
        ({"n": None}, ("key.malformed", "/n")),
        ({"n": f"+{str(good['n'])[1:]}"}, ("key.malformed", "/n")),
        ({"e": 65537}, ("key.malformed", "/e")),
        ({"e": None}, ("key.malformed", "/e")),
    ):
        assert refusal_of({**good, **members}) == expected


def test_thumbprint_of_rfc_8037() -> None:
    """The example of RFC 8037 A.3 comes out."""
    jwk: dict[str, Json] = {
        "kty": "OKP",
        "crv": "Ed25519",
        "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
    }
    key = PublicKey.from_jwk(jwk, algorithms=["EdDSA"])
    assert key.kid == key.thumbprint == "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"


@pytest.mark.parametrize("use", [{}, {"revoked": True}, {"nbf": 5}, {"exp": 7, "nbf": 5}], ids=str)
@pytest.mark.parametrize("alg", ALL_ALGS)
def test_pickle(alg: str, use: dict[str, Json]) -> None:
    """A key survives the way to another process, and what its JWK says of its use with it."""
    key = PublicKey.from_jwk({**made(alg).jwk, **use})
    copy = pickle.loads(pickle.dumps(key))
    assert (copy, copy.numbers, copy.validity) == (key, key.numbers, key.validity)
    assert (copy.validity == made(alg).public.validity) is (not use)


#: Those that cardsign only verifies.
VERIFIED = tuple(alg for alg in HEADER_ALGS if alg != "Ed25519")


@pytest.mark.parametrize("alg", VERIFIED)
def test_no_private_key_of_it(alg: str) -> None:
    """We neither read nor use a private key for what we only verify."""
    with pytest.raises(KeyRefused) as refusal:
        PrivateKey.from_jwk(made(alg).private_jwk)
    assert (refusal.value.code, refusal.value.path) == NOT_BY_DEFAULT[alg]


@pytest.mark.parametrize("alg", VERIFIED)
def test_no_signature_by_it(alg: str) -> None:
    """A signer of somebody's own making is refused before it is asked."""

    class Unasked:
        public = made(alg).public

        def sign(self, signing_input: bytes) -> bytes:
            raise AssertionError("the signer was asked")

    with pytest.raises(KeyRefused) as refusal:
        sign_payload(b"{}", Unasked(), typ="JOSE")
    assert (refusal.value.code, refusal.value.path) == ("key.unsupported", "/alg")
    assert " or ".join(SIGNING_ALGORITHMS) in refusal.value.message


def test_a_private_key_of_ed25519_is_read_and_signs() -> None:
    """The twin: by its JWK, its PKCS #8 and as generated; joserfc accepts what it signs."""
    theirs = made("Ed25519")
    read = PrivateKey.from_jwk(theirs.private_jwk)
    assert read.public == theirs.public
    assert PrivateKey.from_pkcs8_der(read.to_pkcs8_der(), "k").public == theirs.public
    entry = sign_payload(PAYLOAD, read, typ="JOSE")
    assert json.loads(base64url.decode(entry["protected"]))["alg"] == "EdDSA"
    check_entry(read_entry({**entry}), PAYLOAD, theirs.public)
    new = PrivateKey.generate("EdDSA")
    assert (new.public.alg, new.public.signature_bytes) == ("EdDSA", 64)
    assert sign_payload(PAYLOAD, new, typ="JOSE") == sign_payload(PAYLOAD, new, typ="JOSE")


@pytest.mark.parametrize(("name", "value"), [("d", "AA"), ("d", "A" * 43), ("x", "A" * 43)])
def test_a_private_key_of_ed25519_that_does_not_fit_is_refused(name: str, value: str) -> None:
    """Another length, another key's scalar, or no sound point."""
    with pytest.raises(KeyRefused) as refusal:
        PrivateKey.from_jwk({**made("Ed25519").private_jwk, name: value})
    assert refusal.value.code == "key.malformed"


def test_a_signer_of_ours_is_asked() -> None:
    """The twin: the same numbers, published for RS256, get as far as the signer."""

    class Broken:
        public = PublicKey.from_cryptography(rsa_key().public_key)

        def sign(self, signing_input: bytes) -> bytes:
            return b""

    with pytest.raises(SignerFault, match=r"signer\.wrong_key"):
        sign_payload(b"{}", Broken(), typ="JOSE")


# ------------------------------------------------------------------ what does not touch the numbers


def drop(name: str) -> Change:
    """Remove a member of a JWK."""
    return lambda jwk: jwk.__delitem__(name)


HARMLESS: dict[str, Change] = {
    "no alg": drop("alg"),
    "no use": drop("use"),
    "among other operations": put(key_ops=["sign", "verify"]),
    "certificates": put(x5c=["junk"], x5u="http://127.0.0.1/"),
    "unknown members": put(status="active", **{"x-n": None}),
    "a kid that looks like a path": put(kid="../../etc/passwd"),
    "the longest kid": put(kid="~" * 256),
}


@pytest.mark.parametrize("change", HARMLESS.values(), ids=HARMLESS)
def test_harmless(key: PrivateKey, change: Change) -> None:
    """What does not touch the numbers leaves the key as it is."""
    jwk: dict[str, Json] = {**key.public.jwk()}
    change(jwk)
    read = PublicKey.from_jwk(jwk)
    assert read.kid == jwk["kid"]
    assert (read.alg, read.numbers) == (key.public.alg, key.public.numbers)


def test_given_kid_goes_first(es256: PrivateKey) -> None:
    """A caller's name replaces the JWK's, even one that would be refused."""
    assert PublicKey.from_jwk({**es256.public.jwk(), "kid": 1}, kid="mine").kid == "mine"


@pytest.mark.parametrize(
    "public_key",
    [
        pytest.param(ec.generate_private_key(ec.SECP384R1()).public_key(), id="P-384"),
        pytest.param(ec.generate_private_key(ec.SECP256K1()).public_key(), id="secp256k1"),
        pytest.param(ed448.Ed448PrivateKey.generate().public_key(), id="Ed448"),
        pytest.param(ec.generate_private_key(ec.SECP256R1()), id="a private key"),
        pytest.param(b"MFkw", id="bytes"),
    ],
)
def test_from_cryptography_unsupported(public_key: object) -> None:
    """Only P-256, Ed25519 and RSA public keys are taken over."""
    with pytest.raises(KeyRefused) as refusal:
        PublicKey.from_cryptography(public_key)
    assert refusal.value.code == "key.unsupported"


def test_from_cryptography_ed25519() -> None:
    """Where statements or key services are meant it is none."""
    native = ed25519.Ed25519PrivateKey.generate().public_key()
    assert PublicKey.from_cryptography(native).alg == "EdDSA"
    with pytest.raises(KeyRefused, match=r"key\.unsupported"):
        PublicKey.from_cryptography(native, algorithms=STATEMENT_ALGORITHMS)


def test_wrong_length_is_named(key: PrivateKey) -> None:
    """A signature of the wrong length, DER most of all, is told apart from a wrong one."""
    expected = key.public.signature_bytes
    with pytest.raises(SignatureRefused, match=f"has 70 bytes, expected {expected} for"):
        check_input(key.public, input_of(key.public), bytes(70))
