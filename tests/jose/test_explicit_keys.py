"""Keys of every algorithm that we verify: one spelling of each, and each for what it says."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Collection

import pytest
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed448, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

from cardsign.card.values import Json
from cardsign.errors import KeyRefused, SignatureRefused
from cardsign.jose.jwk import (
    ALGORITHMS,
    SIGNING_ALGORITHMS,
    STATEMENT_ALGORITHMS,
    decode_base64url,
    encode_base64url,
)
from cardsign.jose.jws import check_entry, read_entry, sign_payload
from cardsign.jose.keys import PrivateKey, PublicKey
from tests.jose.explicit_making import ALL_ALGS, HEADER_ALGS, PAYLOAD, made
from tests.support import each_case

Change = Callable[[dict[str, Json]], object]


def refusal_of(jwk: dict[str, Json], algorithms: Collection[str] = ALGORITHMS) -> tuple[str, str]:
    """Code and path of the refusal of a JWK; by default every algorithm is let in."""
    with pytest.raises(KeyRefused) as refusal:
        PublicKey.from_jwk(jwk, algorithms=algorithms)
    return refusal.value.code, refusal.value.path


NOT_OF_STATEMENTS = {
    **dict.fromkeys(("Ed25519", "ES384", "ES512"), ("key.unsupported", "/crv")),
    **dict.fromkeys(("PS256", "RS384", "RS512", "PS384", "PS512"), ("key.alg_mismatch", "/alg")),
}


@pytest.mark.parametrize("alg", HEADER_ALGS)
def test_read_where_it_is_asked_for(alg: str) -> None:
    """Where other algorithms are named it is no key for us; named, it is read as what it is."""
    key = made(alg)
    assert refusal_of(key.jwk, STATEMENT_ALGORITHMS) == NOT_OF_STATEMENTS[alg]
    read = PublicKey.from_jwk(key.jwk, algorithms=[key.name])
    assert read.jwk() == {**key.library.as_dict(private=False)} | {
        **{"kid": "k", "use": "sig", "alg": key.name}
    }
    assert PublicKey.from_jwk({**read.jwk()}, algorithms=[key.name]) == read


def test_an_rsa_key_without_alg_is_for_rs256() -> None:
    """Whatever else is let in; and where RS256 is not, the key is for nothing."""
    jwk = made("RS256").jwk
    assert PublicKey.from_jwk({**jwk, "alg": "PS256"}, algorithms=["PS256"]).alg == "PS256"
    del jwk["alg"]
    assert PublicKey.from_jwk(jwk).alg == "RS256"
    assert refusal_of(jwk, ["PS256"]) == ("key.alg_mismatch", "/alg")


FITTING = {
    "Ed25519": ("EdDSA", "Ed25519"),
    "ES384": ("ES384",),
    "ES512": ("ES512",),
    "RS256": ("RS256", "PS256", "RS384", "RS512", "PS384", "PS512"),
}


@pytest.mark.parametrize(
    "alg", [*ALGORITHMS, "Ed25519", "HS256", "none", "", "ES256K", "Ed448", "RSA-OAEP"]
)
@pytest.mark.parametrize("type_of", FITTING)
def test_alg_must_fit_the_type(type_of: str, alg: str) -> None:
    """An `alg` that contradicts type or curve is refused, as is one that we do not know."""
    jwk = {**made(type_of).jwk, "alg": alg}
    if alg in FITTING[type_of]:
        assert PublicKey.from_jwk(jwk).alg in {alg, "EdDSA"}
    else:
        assert refusal_of(jwk) == ("key.alg_mismatch", "/alg")


def put(**members: Json) -> Change:
    """Set members of a JWK."""
    return lambda jwk: jwk.update(members)


def drop(name: str) -> Change:
    """Remove a member of a JWK."""
    return lambda jwk: jwk.pop(name)


def respell(name: str, change: Callable[[bytes], bytes]) -> Change:
    """Change the bytes of a number of a JWK."""
    return lambda jwk: jwk.update(
        {name: encode_base64url(change(decode_base64url(str(jwk[name]))))}
    )


@each_case(__file__, "refused", "code", "name", "values")
@pytest.mark.parametrize("alg", ALL_ALGS)
def test_refused_of_any_type(alg: str, code: str, name: str, values: list[Json]) -> None:
    """What a key says about its purpose is obeyed, and a private half is never read."""
    for value in values:
        assert refusal_of({**made(alg).jwk, name: value}) == (code, f"/{name}")


@each_case(__file__, "harmless", "members")
@pytest.mark.parametrize("alg", ["ES256", "ES384", "ES512", "Ed25519", "RS256"])
def test_harmless(alg: str, members: dict[str, Json]) -> None:
    """What does not touch the numbers leaves the key as it is; type and curve name it."""
    jwk, plain = {**made(alg).jwk, **members}, made(alg).public
    del jwk["alg"]
    read = PublicKey.from_jwk(jwk)
    assert read.kid == jwk["kid"]
    assert (read.alg, read.thumbprint) == (plain.alg, plain.thumbprint)
    assert PublicKey.from_jwk({**jwk, "kid": 1}, kid="mine").kid == "mine"


FIELDS = {
    "ES256": 2**256 - 2**224 + 2**192 + 2**96 - 1,
    "ES384": 2**384 - 2**128 - 2**96 + 2**32 - 1,
    "ES512": 2**521 - 1,
}
SIZES = {"ES256": 32, "ES384": 48, "ES512": 66}


@pytest.mark.parametrize("alg", SIZES)
def test_refused_on_a_curve(alg: str) -> None:
    """A point has one spelling, of its curve's length, and lies on the curve."""
    size, good = SIZES[alg], made(alg).jwk
    others = {"P-256", "P-384", "P-521"} - {good["crv"]}
    changes: list[tuple[Change, str]] = [
        (respell("y", lambda y: y[:-1] + bytes([y[-1] ^ 1])), "/x"),
        (respell("x", lambda x: b"\0" + x), "/x"),
        (respell("y", lambda y: b"\0" + y), "/y"),
        (respell("x", lambda x: x[1:]), "/x"),
        (put(x=encode_base64url(FIELDS[alg].to_bytes(size))), "/x"),
        (put(x=encode_base64url(b"\xff" * size)), "/x"),
        (put(**dict.fromkeys("xy", encode_base64url(bytes(size)))), "/x"),
        (put(x=""), "/x"),
        (put(y=1), "/y"),
        (put(x=f"{good['x']}="), "/x"),
        (drop("y"), "/y"),
        (drop("crv"), "/crv"),
        *((lambda jwk, crv=crv: jwk.pop("alg") and jwk.update(crv=crv), "/x") for crv in others),
    ]
    assert len(decode_base64url(str(good["x"]))) == size
    for change, path in changes:
        jwk = {**good}
        change(jwk)
        assert refusal_of(jwk) == ("key.malformed", path)


def test_a_point_in_two_spellings() -> None:
    """The point of P-256 with x = 5, also where x is the field's order more, or has stray bits."""
    y = "RZJDuapYGAb-kTvOmYF63hHKUDxk2aPFM0FcCDJI-8w"
    jwk = {"kty": "EC", "crv": "P-256", "x": encode_base64url((5).to_bytes(32)), "y": y}
    assert PublicKey.from_jwk(jwk).alg == "ES256"
    for x in (encode_base64url((FIELDS["ES256"] + 5).to_bytes(32)), "A" * 42 + "B"):
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
    short = rsa.generate_private_key(65537, 1024).public_key().public_numbers().n
    n = decode_base64url(str(good["n"]))
    longer, other = encode_base64url(b"\0" + n), f"+{str(good['n'])[1:]}"
    for name, values, code in (
        ("n", [encode_base64url(short.to_bytes(128)), "_" * 2_000], "key.weak_rsa"),
        ("n", [longer, other, "", None], "key.malformed"),
        ("e", ["Aw"], "key.weak_rsa"),
        ("e", ["AAEAAQ", 65537, None], "key.malformed"),
    ):
        for value in values:
            assert refusal_of({**good, name: value}) == (code, f"/{name}")


def test_thumbprint_of_rfc_8037() -> None:
    """The example of RFC 8037 A.3 comes out."""
    x = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"
    key = PublicKey.from_jwk({"kty": "OKP", "crv": "Ed25519", "x": x})
    assert key.kid == key.thumbprint == "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"


@pytest.mark.parametrize("use", [{}, {"revoked": True}, {"nbf": 5}, {"exp": 7, "nbf": 5}], ids=str)
@pytest.mark.parametrize("alg", ALL_ALGS)
def test_pickle(alg: str, use: dict[str, Json]) -> None:
    """A key survives the way to another process, and what its JWK says of its use with it."""
    key = PublicKey.from_jwk({**made(alg).jwk, **use})
    copy = pickle.loads(pickle.dumps(key))
    assert (copy, copy.jwk_in_use()) == (key, {**key.jwk(), **use})


@pytest.mark.parametrize("alg", [alg for alg in HEADER_ALGS if alg != "Ed25519"])
def test_what_we_only_verify(alg: str) -> None:
    """We read no private key for it, and a signer of somebody's own making is not asked."""

    class Unasked:
        public = made(alg).public

        def sign(self, signing_input: bytes) -> bytes:
            raise AssertionError("the signer was asked")

    with pytest.raises(KeyRefused) as refusal:
        PrivateKey.from_jwk(made(alg).private_jwk)
    assert (refusal.value.code, refusal.value.path) == NOT_OF_STATEMENTS[alg]
    with pytest.raises(KeyRefused) as refusal:
        sign_payload(b"{}", Unasked(), typ="JOSE")
    assert (refusal.value.code, refusal.value.path) == ("key.unsupported", "/alg")
    assert " or ".join(SIGNING_ALGORITHMS) in refusal.value.message


@pytest.mark.parametrize("alg", ["ES256", "RS256", "Ed25519"])
def test_what_we_sign_by(alg: str) -> None:
    """The twin: read from a JWK and from PKCS #8, it signs; the same input gives the same bytes."""
    read = PrivateKey.from_jwk(made(alg).private_jwk)
    assert read.public == made(alg).public
    assert PrivateKey.from_pkcs8_der(read.to_pkcs8_der(), "k") == read
    new = PrivateKey.generate("EdDSA")
    assert new.public.alg == "EdDSA"
    for private in (read, new):
        entry = sign_payload(PAYLOAD, private, typ="JOSE")
        assert entry == sign_payload(PAYLOAD, private, typ="JOSE")
        header = json.loads(decode_base64url(entry["protected"]))
        assert header["alg"] == private.public.alg  # not Ed25519, which few others read
        check_entry(read_entry({**entry}), PAYLOAD, private.public)


@pytest.mark.parametrize(
    "private",
    [
        pytest.param(ec.generate_private_key(ec.SECP384R1()), id="P-384"),
        pytest.param(ec.generate_private_key(ec.SECP256K1()), id="secp256k1"),
        pytest.param(ed448.Ed448PrivateKey.generate(), id="Ed448"),
        pytest.param(dsa.generate_private_key(1024), id="DSA"),
    ],
)
def test_from_cryptography_unsupported(private: PrivateKeyTypes) -> None:
    """Only P-256, Ed25519 and RSA keys are taken over."""
    for attempt in (
        lambda: PublicKey.from_cryptography(private.public_key()),
        lambda: PublicKey.from_cryptography(private),
        lambda: PublicKey.from_cryptography(made("ES256").library.private_key),
        lambda: PrivateKey.from_cryptography(private),
    ):
        with pytest.raises(KeyRefused, match=r"key\.unsupported"):
            attempt()


@pytest.mark.parametrize(
    ("alg", "size"), [("ES256", 64), ("ES384", 96), ("ES512", 132), ("Ed25519", 64), ("RS256", 256)]
)
def test_wrong_length_is_named(alg: str, size: int) -> None:
    """A signature of the wrong length, DER most of all, is told apart from a wrong one."""
    entry = read_entry({**made(alg).sign(), "signature": encode_base64url(bytes(70))})
    expected = f"has 70 bytes, expected {size} for {made(alg).name}"
    with pytest.raises(SignatureRefused, match=expected):
        check_entry(entry, PAYLOAD, made(alg).public)
