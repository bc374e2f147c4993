"""Algorithms beyond ES256 and RS256: accepted by default, or what a policy names and no more."""

from __future__ import annotations

import hmac
import itertools
import json
import warnings
from collections.abc import Callable, Collection

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA1, SHA256, SHA384, SHA512, HashAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from joserfc import jws
from joserfc.errors import JoseError

from cardsign.card.values import Json
from cardsign.errors import KeyRefused, SignatureRefused
from cardsign.jose.jwk import (
    ALGORITHMS,
    SIGNING_ALGORITHMS,
    STATEMENT_ALGORITHMS,
    decode_base64url,
    encode_base64url,
)
from cardsign.jose.jws import check_entry, read_entry
from cardsign.jose.keys import MAX_SIGNATURE_BYTES, REGISTRY, PublicKey
from tests.jose.explicit_making import (
    ALL_ALGS,
    HEADER_ALGS,
    PAYLOAD,
    Made,
    check_input,
    made,
    rsa_key,
)
from tests.support import each_case

# As RFC 7518 3.3 and 3.5 have them, for `cryptography`.
HASHES: dict[str, HashAlgorithm] = {"256": SHA256(), "384": SHA384(), "512": SHA512()}
RSA_ALGS = ("RS256", "PS256", "RS384", "RS512", "PS384", "PS512")


def rsa_signature(entry: dict[str, Json], how: padding.AsymmetricPadding, digest: str) -> Json:
    """The entry, signed anew by the RSA key with another padding or digest."""
    native = rsa_key().private_key
    assert isinstance(native, rsa.RSAPrivateKey)
    signing_input = f"{entry['protected']}.{encode_base64url(PAYLOAD)}".encode()
    signature = native.sign(signing_input, how, HASHES[digest])
    return {**entry, "signature": encode_base64url(signature)}


def verdict(entry: Json, key: PublicKey, algorithms: Collection[str] = ALGORITHMS) -> str:
    """The code of the refusal of a signature over PAYLOAD, or `good`."""
    try:
        check_entry(read_entry(entry, algorithms=algorithms), PAYLOAD, key)
    except SignatureRefused as refusal:
        return refusal.code
    return "good"


def respelt(key: Made, alg: str) -> PublicKey:
    """The same numbers, published for another algorithm."""
    return PublicKey.from_jwk({**key.jwk, "alg": alg})


def test_what_there_is() -> None:
    """The closed list of decision E11; statements and what we sign with are parts of it."""
    assert STATEMENT_ALGORITHMS == ("ES256", "RS256")
    assert (*STATEMENT_ALGORITHMS, "EdDSA") == SIGNING_ALGORITHMS
    assert set(ALGORITHMS) == {*STATEMENT_ALGORITHMS, *(made(alg).name for alg in HEADER_ALGS)}


@pytest.mark.parametrize("alg", ALL_ALGS)
def test_only_where_it_is_named(alg: str) -> None:
    """A good signature counts by default and where named, and is forbidden where others are."""
    key = made(alg)
    entry = key.sign()
    assert verdict(entry, key.public) == verdict(entry, key.public, {key.name}) == "good"
    assert read_entry(entry).alg == key.name
    assert verdict(entry, key.public, set(ALGORITHMS) - {key.name}) == "sig.alg_forbidden"
    of_statements = verdict(entry, key.public, STATEMENT_ALGORITHMS)
    assert of_statements == ("good" if alg in STATEMENT_ALGORITHMS else "sig.alg_forbidden")


@pytest.mark.filterwarnings("ignore::joserfc.errors.SecurityWarning")
def test_both_names_of_ed25519() -> None:
    """A header may say EdDSA or Ed25519, and so may the key; all four mean the same."""
    for in_header, in_key in itertools.product(("EdDSA", "Ed25519"), repeat=2):
        entry = made("Ed25519").sign(alg=in_header)
        key = respelt(made("Ed25519"), in_key)
        assert key.alg == read_entry(entry, algorithms=["EdDSA"]).alg == "EdDSA"
        assert verdict(entry, key, {"EdDSA"}) == "good"


#: A secret, none, another salt, a weak digest, other curves, nothing, and other ways to write.
UNACCEPTABLE = ("HS256", "HS512", "none", "None", "", "PS224", "RS1", "ES256K", "Ed448", "XS256")
UNACCEPTABLE += ("es384", "ps512", "EDDSA", "Ed25519")


@pytest.mark.parametrize("name", UNACCEPTABLE)
def test_what_nobody_may_accept(name: str) -> None:
    """Whatever a caller names: no entry by it is read, no key is for it."""
    protected = encode_base64url(json.dumps({"alg": name, "kid": "k"}).encode())
    entry: Json = {"protected": protected, "signature": ""}
    for names in ((), {name}, [*ALGORITHMS, name] if name != "Ed25519" else ()):
        assert verdict(entry, made("ES256").public, names) == "sig.alg_forbidden"
        for key in (made("ES256"), made("RS256"), made("Ed25519")):
            with pytest.raises(KeyRefused):
                PublicKey.from_jwk({**key.jwk, "alg": name}, algorithms=names)
    assert verdict(made("ES256").sign(), made("ES256").public, {name}) == "sig.alg_forbidden"
    if name != "Ed25519":  # which is EdDSA by the name that only headers have
        with pytest.raises(JoseError):
            REGISTRY.get_alg(name)


@pytest.mark.parametrize("alg", ALL_ALGS)
def test_a_public_key_is_no_secret(alg: str) -> None:
    """HS256 with any spelling of the public key is refused, whatever the caller names."""
    key, jwk = made(alg).public, made(alg).jwk
    protected = encode_base64url(json.dumps({"alg": "HS256", "kid": key.kid}).encode())
    signing_input = f"{protected}.{encode_base64url(PAYLOAD)}".encode()
    numbers = [str(jwk[name]) for name in ("x", "y", "n", "e") if name in jwk]
    for secret in (
        json.dumps(key.jwk()).encode(),
        json.dumps(jwk).encode(),
        *(text.encode() for text in numbers),
        *(decode_base64url(text) for text in numbers),
        key.native.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        key.native.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
    ):
        tag = encode_base64url(hmac.digest(secret, signing_input, "sha256"))
        entry: Json = {"protected": protected, "signature": tag}
        for names in (STATEMENT_ALGORITHMS, ALGORITHMS, {"HS256"}, [*ALGORITHMS, "HS256"]):
            assert verdict(entry, key, names) == "sig.alg_forbidden"
        with pytest.raises(SignatureRefused, match=r"sig\.bad"):  # by joserfc alone
            key.check(protected, PAYLOAD, decode_base64url(tag))


@pytest.mark.parametrize(("alg", "other"), list(itertools.product(ALL_ALGS, repeat=2)))
def test_a_key_serves_one_algorithm(alg: str, other: str) -> None:
    """Only that which it is published for, whatever the header says; of RSA all have one key."""
    expected = "good" if alg == other else "key.alg_mismatch"
    entry, key = made(alg).sign(), made(other).public
    assert verdict(entry, key) == expected
    if alg != other:  # and by joserfc alone
        with pytest.raises(SignatureRefused, match=r"sig\.bad"):
            key.check(str(entry["protected"]), PAYLOAD, decode_base64url(str(entry["signature"])))


@pytest.mark.parametrize(("made_by", "claimed"), list(itertools.permutations(RSA_ALGS, 2)))
def test_a_header_does_not_make_the_signature(made_by: str, claimed: str) -> None:
    """A signature by one algorithm under a header and key of another does not fit."""
    digest, how = made_by[2:], padding.PKCS1v15()
    if made_by.startswith("PS"):
        how = padding.PSS(padding.MGF1(HASHES[digest]), int(digest) // 8)
    entry = rsa_signature(made(claimed).sign(), how, digest)
    assert verdict(entry, made(claimed).public) == "sig.bad"


@pytest.mark.parametrize("alg", ALL_ALGS)
@pytest.mark.parametrize("changed", ["payload", "protected", "signature"])
def test_every_bit_counts(alg: str, changed: str) -> None:
    """No bit is free, of a signature the high ones of a P-521 number included.

    The other RSA signatures are of the same length by the same key: of them one in each byte.
    """
    signed = made(alg).sign()
    parts = {name: decode_base64url(str(text)) for name, text in signed.items()}
    parts["payload"] = PAYLOAD
    sound = parts[changed]
    step = 8 if alg[1:] in ("S384", "S512") and alg[0] in "RP" else 1
    for bit in range(0, len(sound) * 8, step):
        parts[changed] = (int.from_bytes(sound) ^ (1 << bit)).to_bytes(len(sound))
        entry: Json = {member: encode_base64url(parts[member]) for member in signed}
        with pytest.raises(SignatureRefused):
            check_entry(read_entry(entry), parts["payload"], made(alg).public)


# What is not the signature.


# RFC 8032 5.1: the order of the base point.
ED25519_ORDER = 2**252 + 27742317777372353535851937790883648493
ANY: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda signature: b"",
    "a byte short": lambda signature: signature[1:],
    "the last byte short": lambda signature: signature[:-1],
    "a byte behind": lambda signature: signature + b"\0",
    "a byte in front": lambda signature: b"\0" + signature,
    "all zero": lambda signature: bytes(len(signature)),
    "one": lambda signature: bytes(len(signature) - 1) + b"\1",
    "all ones": lambda signature: b"\xff" * len(signature),
}
OF_TWO_NUMBERS: dict[str, Callable[[bytes, bytes], bytes]] = {
    "exchanged": lambda r, s: s + r,
    "the first is zero": lambda r, s: bytes(len(r)) + s,
    "the second is zero": lambda r, s: r + bytes(len(s)),
    "a byte more for each": lambda r, s: b"\0" + r + b"\0" + s,
    "DER": lambda r, s: encode_dss_signature(int.from_bytes(r), int.from_bytes(s)),
    # There is one spelling of one by Ed25519: S is reduced (RFC 8032 5.1.7).
    "the second beyond the order": lambda r, s: (
        r + ((int.from_bytes(s, "little") + ED25519_ORDER) % 2**256).to_bytes(len(s), "little")
    ),
}


@pytest.mark.parametrize("alg", ALL_ALGS)
def test_forgery(alg: str) -> None:
    """Whatever is not the signature of this input, at its full length, is refused."""
    entry, key = made(alg).sign(), made(alg).public
    signature = decode_base64url(str(entry["signature"]))
    half = len(signature) // 2
    forgeries = {name: change(signature) for name, change in ANY.items()}
    if alg.startswith("E"):
        halves = signature[:half], signature[half:]
        forgeries |= {name: change(*halves) for name, change in OF_TWO_NUMBERS.items()}
    for name, forged in forgeries.items():
        forgery: Json = {**entry, "signature": encode_base64url(forged)}
        assert (name, verdict(forgery, key)) == (name, "sig.bad")


def test_a_leading_zero_counts() -> None:
    """A signature by RSA is as long as the modulus (RFC 8017 8.1.2): OpenSSL takes it shorter."""
    key = made("PS256")  # whose salt makes one in 256 signatures begin with a zero
    entries = (key.sign() for _ in range(10_000))
    entry = next(one for one in entries if decode_base64url(str(one["signature"]))[0] == 0)
    assert verdict(entry, key.public) == "good"
    shorter = encode_base64url(decode_base64url(str(entry["signature"]))[1:])
    assert verdict({**entry, "signature": shorter}, key.public) == "sig.bad"


def test_other_half_of_the_range() -> None:
    """(r, n-s) is as good as (r, s) on P-384 too (RFC 7518 3.4)."""
    entry = made("ES384").sign()
    signature = decode_base64url(str(entry["signature"]))
    s = ec.SECP384R1().group_order - int.from_bytes(signature[48:])
    entry["signature"] = encode_base64url(signature[:48] + s.to_bytes(48))
    assert verdict(entry, made("ES384").public) == "good"


@pytest.mark.parametrize(
    ("mask", "salt", "digest"),
    [
        *(("256", salt, "256") for salt in (0, 20, 31, 32, 33, 222)),
        *((mask, 32, "256") for mask in ("1", "384")),
        ("384", 48, "384"),
    ],
)
def test_pss_in_one_form(mask: str, salt: int, digest: str) -> None:
    """PS256 is SHA-256, MGF1 with SHA-256 and a salt of 32 bytes, nothing else (RFC 7518 3.5)."""
    how = padding.PSS(padding.MGF1({"1": SHA1(), **HASHES}[mask]), salt)
    expected = "good" if (mask, salt, digest) == ("256", 32, "256") else "sig.bad"
    entry = rsa_signature(made("PS256").sign(), how, digest)
    assert verdict(entry, made("PS256").public) == expected


# What others made.


@each_case(__file__, "examples", "jwk", "signing_input", "signature")
def test_the_standards_examples(jwk: dict[str, Json], signing_input: str, signature: str) -> None:
    """The examples verify, and not with one character of the payload changed."""
    key, value = PublicKey.from_jwk(jwk), decode_base64url(signature)
    check_input(key, signing_input.encode(), value)
    with pytest.raises(SignatureRefused, match=r"sig\.bad"):
        key.check(signing_input.partition(".")[0], b"another payload", value)


# What we rely on joserfc for, line by line: a new version that differs fails here first.


def test_the_signature_of_the_largest_rsa_key_is_not_too_long() -> None:
    """8192 bits; joserfc's own limit lies below."""
    largest = encode_base64url(bytes(MAX_SIGNATURE_BYTES)).encode()
    REGISTRY.validate_signature_size(largest)
    with pytest.raises(JoseError, match="exceeds"):
        jws.default_registry.validate_signature_size(largest)


@pytest.mark.parametrize("alg", [*HEADER_ALGS, "EdDSA"])
def test_no_algorithm_of_ours_is_warned_of(alg: str) -> None:
    """joserfc warns of EdDSA by its older name, which is what most headers have."""
    key = made("Ed25519" if alg == "EdDSA" else alg)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        entry = key.sign(alg=alg)
    assert verdict(entry, key.public) == "good"


@pytest.mark.parametrize(
    "header", ["", "e30", "eyJhbGciOiJub25lIn0", "W10", "AA", "bnVsbA", "!", "eyJhbGciOjF9"]
)
def test_garbage_is_no_signature_and_no_crash(header: str) -> None:
    """Whatever joserfc raises, nothing of it gets out."""
    with pytest.raises(SignatureRefused, match=r"sig\.bad"):
        made("ES256").public.check(header, b"{}", bytes(64))
