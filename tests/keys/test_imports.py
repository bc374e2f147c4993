"""Keys from elsewhere come in as what they are, or are refused by name."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)

from cardsign.errors import KeyRefused
from cardsign.jose.keys import PrivateKey
from cardsign.keys.imports import (
    MAX_KEY_FILE_BYTES,
    export_public,
    import_private_key,
    import_public_key,
)
from cardsign.keys.signers import Access, list_public_keys
from tests.keys.elsewhere import fault, refusal
from tests.keys.states import FIRST
from tests.support import each_case, native, private_jwk

PASSWORD, PASS = b"of the old tool", "pass:of the old tool"
OTHER = PrivateKey.generate("ES256", kid="b")
#: What writes a key, in a form that is to be read or refused.
Writer = Callable[[PrivateKey], bytes]


def pem(
    key: Any,
    form: PrivateFormat = PrivateFormat.PKCS8,
    encryption: KeySerializationEncryption = NoEncryption(),  # noqa: B008
) -> bytes:
    key = native(key) if isinstance(key, PrivateKey) else key
    return bytes(key.private_bytes(Encoding.PEM, form, encryption))


def certificate(private: PrivateKey, **how: Any) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "cards")])
    day, key = datetime(2026, 11, 21, tzinfo=UTC), native(private)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, day, day)
    return builder.sign(key, SHA256(), **how)


def certified(private: PrivateKey) -> bytes:
    """A certificate in PEM."""
    return certificate(private).public_bytes(Encoding.PEM)


def jwk_set(*keys: PrivateKey) -> bytes:
    """A JWK Set of private keys, each under its kid."""
    jwks = [json.loads(private_jwk(key, kid=key.public.kid)) for key in keys]
    return json.dumps({"keys": jwks}).encode()


def unasked() -> bytes:
    pytest.fail("asked for a password")


PARAMETERS = b"-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n"
FORMS: dict[str, Writer] = {
    "PKCS #8": pem,
    "SEC 1 or PKCS #1": lambda key: pem(key, PrivateFormat.TraditionalOpenSSL),
    "JWK": private_jwk,
    "among empty lines": lambda key: b"\n\n" + pem(key) + b"\n\n",
    "with CRLF": lambda key: pem(key).replace(b"\n", b"\r\n"),
    "after a remark": lambda key: "Schlüssel\n".encode() + pem(key),
    "among certificates": lambda key: certified(key) + pem(key) + certified(key),
    "after the parameters of openssl ecparam": lambda key: PARAMETERS + pem(key),
}


@pytest.mark.parametrize(
    ("form", "alg"),
    [*((form, "ES256") for form in FORMS), *((form, "RS256") for form in [*FORMS][:3])],
)
def test_a_private_key_comes_in_under_its_thumbprint(
    form: str, alg: str, rs256: PrivateKey
) -> None:
    """Or under the kid that is given; nobody is asked for a password."""
    private = FIRST if alg == "ES256" else rs256
    data = FORMS[form](private)
    imported = import_private_key(data, password=unasked)
    assert imported.public == private.public
    assert imported.public.kid == private.public.thumbprint
    assert import_private_key(data, kid="mine").public.kid == "mine"


def test_a_kid_names_one_key_of_a_set() -> None:
    """A set of one needs none, and a kid that the set lacks chooses nothing."""
    two = jwk_set(FIRST, OTHER)
    assert import_private_key(two, kid=FIRST.public.kid).public == FIRST.public
    assert import_private_key(jwk_set(FIRST)).public == FIRST.public
    assert refusal(import_private_key, two, kid="c", match="JWK Set of 2 keys") == "key.malformed"
    jwk = b" \n" + private_jwk(FIRST, kid="2024/a")
    assert import_private_key(jwk).public.kid == "2024/a", "peers look the key up by it"


@pytest.mark.parametrize("form", [PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL])
def test_an_encrypted_key_opens_with_its_password(form: PrivateFormat) -> None:
    """Which is asked for once."""
    answers = iter([PASSWORD])
    data = pem(FIRST, form, BestAvailableEncryption(PASSWORD))
    assert import_private_key(data, kid="card", password=lambda: next(answers)).public.kid == "card"
    assert refusal(import_private_key, data) == "passphrase.none"
    assert refusal(import_private_key, data, password=bytes) == "passphrase.none"
    assert refusal(import_private_key, data, password=lambda: b"wrong") == "passphrase.wrong"
    plain = b"this is not ENCRYPTED\n" + pem(FIRST)  # told by its label alone
    assert PrivateKey.from_pem(plain, PASSWORD).public == FIRST.public


def test_a_pem_with_a_short_initial_vector_is_refused() -> None:
    """Of which cryptography would panic."""
    data = pem(FIRST, PrivateFormat.TraditionalOpenSSL, BestAvailableEncryption(PASSWORD))
    dek = data.index(b"DEK-Info: AES-256-CBC,") + len(b"DEK-Info: AES-256-CBC,")
    for cut in (data[: dek + 16] + data[dek + 32 :], data[:dek] + data[dek + 32 :]):
        code = refusal(import_private_key, cut, password=lambda: PASSWORD, match="cut short")
        assert code == "key.malformed"


@each_case(__file__, "pem", "text")
def test_a_pem_that_takes_for_ever_to_open_is_refused(text: str) -> None:
    """At once, before its password is asked for."""
    assert refusal(import_private_key, armored(text), password=unasked) == "key.unsupported"


@each_case(__file__, "opens", "text")
def test_the_length_of_a_key_costs_nothing(text: str) -> None:
    """It is optional; Java writes it."""
    assert import_private_key(armored(text), password=lambda: PASSWORD).public.alg


def armored(text: str) -> bytes:
    label = "ENCRYPTED PRIVATE KEY-----"
    return f"-----BEGIN {label}\n{text}\n-----END {label}".encode()


@each_case(__file__, "pkcs12", "text")
def test_a_pkcs12_hides_no_cost_in_depth_or_number(text: str) -> None:
    """OpenSSL follows bags within bags, and opens one part after the other."""
    data = base64.b64decode(text)
    assert refusal(import_private_key, data, password=unasked) == "key.unsupported"


def public_pem(key: PrivateKey) -> bytes:
    return export_public(key.public, "pem")


def public_set(key: PrivateKey) -> bytes:
    return json.dumps({"keys": [key.public.jwk()]}).encode()


def public_jwk(key: PrivateKey) -> bytes:
    return export_public(key.public, "jwk")


NONE: dict[str, tuple[Writer, str, str]] = {
    "a public PEM": (public_pem, "found a PEM of: public key", "store the private"),
    "a public JWK": (public_jwk, "without `d`", "store the private"),
    "a JWK Set of a public key": (public_set, "without `d`", "store the private"),
    "a symmetric key": (lambda _: b'{"kty": "oct", "k": "AAAA"}', "without `d`", "openssl genpkey"),
    "a JWK Set of two": (lambda key: jwk_set(key, OTHER), "this is a JWK Set of 2 keys", "--kid"),
    "a certificate": (certified, "PEM of: certificate", "key"),
    "an OpenSSH key": (
        lambda key: pem(key, PrivateFormat.OpenSSH),
        "PEM of: openssh private key",
        "ssh-keygen",
    ),
    "two": (lambda key: pem(key) * 2, "private key, private key", ""),
    "DER": (lambda key: key.to_pkcs8_der(), "something else", "openssl pkey"),
    "garbage": (lambda _: b"\x00\xff" * 99, "something else", ""),
    "half a PEM": (lambda key: pem(key)[:150], "expected a private key", ""),
}


@pytest.mark.parametrize(("write", "fault", "hint"), NONE.values(), ids=NONE)
def test_what_is_no_private_key_is_called_what_it_is(write: Writer, fault: str, hint: str) -> None:
    """With what to do about it."""
    with pytest.raises(KeyRefused, match=fault) as caught:
        import_private_key(write(FIRST), password=unasked)
    assert caught.value.code == "key.malformed"
    assert hint in caught.value.hint


def test_a_key_whose_certificate_is_signed_by_pss_comes_in(rs256: PrivateKey) -> None:
    """The authority's signature is no word about the key."""
    made = certificate(rs256, rsa_padding=padding.PSS(padding.MGF1(SHA256()), 32))
    bundle = pkcs12.serialize_key_and_certificates(
        b"cards", native(rs256), made, None, BestAvailableEncryption(PASSWORD)
    )
    for data in (made.public_bytes(Encoding.PEM) + pem(rs256), bundle):
        assert import_private_key(data, password=lambda: PASSWORD).public == rs256.public


#: How OpenSSL encrypts a key; an RSA key comes in if it can be seen whether it is for PSS alone,
#: which in PKCS #12 only a certificate tells.
ENCRYPTIONS = {
    "PKCS #12": ("pkcs12", "-export"),
    "PKCS #12 without a certificate": ("pkcs12", "-export", "-nocerts"),
    "not at all": ("pkey",),
    "the usual one": ("pkey", "-aes256"),
    "AES of 128 bits": ("pkey", "-aes128"),
    "SHA-1": ("pkcs8", "-topk8", "-v2prf", "hmacWithSHA1"),
    "SHA-512": ("pkcs8", "-topk8", "-v2prf", "hmacWithSHA512"),
    "scrypt": ("pkcs8", "-topk8", "-scrypt"),
    "600,000 rounds, as careful people ask for": ("pkcs8", "-topk8", "-iter", "600000"),
    "Triple DES": ("pkcs8", "-topk8", "-v2", "des3"),
    "PKCS #5 v1": ("pkcs8", "-topk8", "-v1", "PBE-SHA1-3DES"),
}
BLIND = ("PKCS #12 without a certificate", "PKCS #5 v1")


@pytest.fixture(scope="module")
def openssl_keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a key of each kind, and a certificate for each."""
    folder = tmp_path_factory.mktemp("openssl")
    for kind in ("RSA-PSS", "RSA", "EC"):
        option = "ec_paramgen_curve:P-256" if kind == "EC" else "rsa_keygen_bits:2048"
        openssl("genpkey", "-algorithm", kind, "-pkeyopt", option, "-out", folder / kind)
        subject = ("-key", folder / kind, "-subj", "/CN=cards", "-out", folder / f"{kind}.crt")
        openssl("req", "-x509", *subject)
    return folder


def openssl(*words: object) -> None:
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True, timeout=60)


@pytest.mark.parametrize("how", ENCRYPTIONS)
@pytest.mark.parametrize("kind", ["RSA-PSS", "RSA", "EC"])
def test_an_encrypted_key_comes_in(kind: str, how: str, openssl_keys: Path, tmp_path: Path) -> None:
    """Unless it is for PSS alone, or its encryption is too old to see whether it is."""
    file, key = tmp_path / "file", openssl_keys / kind
    source = ("-inkey" if "-export" in ENCRYPTIONS[how] else "-in", key)
    if how == "PKCS #12":
        source = (*source, "-in", openssl_keys / f"{kind}.crt")
    openssl(*ENCRYPTIONS[how], *source, "-passout", PASS, "-out", file)
    arguments: dict[str, Any] = {"password": lambda: PASSWORD}
    if kind == "EC" or (kind == "RSA" and how not in BLIND):
        assert import_private_key(file.read_bytes(), **arguments).public.alg
    else:
        arguments["match"] = "for RSASSA-PSS alone"
        assert refusal(import_private_key, file.read_bytes(), **arguments) == "key.unsupported"


def test_a_public_key_for_pss_alone_is_refused(openssl_keys: Path) -> None:
    """As the private one is: it signs no PKCS #1."""
    file = openssl_keys / "public"
    openssl("pkey", "-in", openssl_keys / "RSA-PSS", "-pubout", "-out", file)
    assert refusal(import_public_key, file.read_bytes(), match="PSS") == "key.unsupported"


def test_a_pkcs12_without_a_passphrase_opens_unasked(tmp_path: Path) -> None:
    """An empty one is as good as none."""
    key, file = tmp_path / "key", tmp_path / "file"
    key.write_bytes(pem(FIRST))
    openssl("pkcs12", "-export", "-nocerts", "-inkey", key, "-passout", "pass:", "-out", file)
    write = partial(pkcs12.serialize_key_and_certificates, b"card", native(FIRST), None, None)
    for data in (file.read_bytes(), write(NoEncryption())):
        assert import_private_key(data, password=unasked).public == FIRST.public
    sealed = write(BestAvailableEncryption(PASSWORD))
    assert refusal(import_private_key, sealed) == "passphrase.none"


PUBLIC: dict[str, tuple[Writer, str | None]] = {
    "PEM": (public_pem, None),
    "JWK": (public_jwk, None),
    "JWK Set": (public_set, None),
    "a PEM by its kid": (lambda key: json.dumps({"k": public_pem(key).decode()}).encode(), None),
    "a private PEM": (pem, "key.private_material"),
    "a private JWK": (private_jwk, "key.private_material"),
    "a certificate": (certified, "key.malformed"),
    "something else": (lambda _: b"junk", "jwks.malformed"),
}


@pytest.mark.parametrize(("write", "code"), PUBLIC.values(), ids=PUBLIC)
def test_a_public_key_is_read_in_each_form(write: Writer, code: str | None) -> None:
    """A private key above all is refused: it may stand in a repository by now."""
    if code is None:
        assert import_public_key(write(FIRST), kid=FIRST.public.kid) == FIRST.public
    else:
        assert refusal(import_public_key, write(FIRST)) == code


JWK = private_jwk(FIRST)
DAMAGED: dict[str, tuple[bytes, str]] = {
    "cut short": (JWK[:-1], "json.syntax"),
    "a member twice": (JWK.replace(b'"d"', b'"kty": 1, "d"'), "json.duplicate_member"),
    "too large": (JWK + b" " * MAX_KEY_FILE_BYTES, "json.too_large"),
    "for something else": (private_jwk(FIRST, use="enc"), "key.use"),
}


@pytest.mark.parametrize(("data", "code"), DAMAGED.values(), ids=DAMAGED)
def test_no_refusal_shows_the_private_half(data: bytes, code: str) -> None:
    """Not even of a JWK that is damaged right behind it; all are read as strict JSON."""
    refused = fault(import_private_key, data)
    assert refused.code == code
    assert json.loads(JWK)["d"] not in f"{refused!s}{refused!r}{refused.hint}"


HANDED_OUT = {
    "OpenSSH": (b"ecdsa-sha2-nistp256 AAAA ann@host", "key.malformed"),
    "aws kms get-public-key": (b'{"KeyId": "1", "PublicKey": "MFkw"}', "jwks."),
    "a service account of Google": (b'{"private_key": "-----BEGIN"}', "jwks."),
    "az keyvault key show": (b'{"key": {"kty": "EC-HSM"}}', "jwks."),
    "of that the key alone": (b'{"keys": [{"kty": "EC-HSM"}]}', "key.unsupported"),
}


@pytest.mark.parametrize(("content", "code"), HANDED_OUT.values(), ids=HANDED_OUT)
def test_what_key_services_hand_out_is_named(content: bytes, code: str, tmp_path: Path) -> None:
    """As it is handed out, to `cardsign keys jwks --key file:FILE`; none of it is a key."""
    file = tmp_path / "FILE"
    file.write_bytes(content)
    file.chmod(0o600)
    access = Access.by_passphrase(PASSWORD)
    assert refusal(list_public_keys, f"file:{file}", access).startswith(code)
