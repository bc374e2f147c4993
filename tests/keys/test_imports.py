"""Keys from elsewhere come in as what they are, or are refused by name."""

from __future__ import annotations

import json
import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed448, padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    pkcs12,
)

from cardsign.errors import (
    CardsignError,
    InputRefused,
    JsonRefused,
    KeyRefused,
    PassphraseFault,
    UsageFault,
)
from cardsign.jose.keys import PrivateKey
from cardsign.keys.imports import (
    MAX_KEY_FILE_BYTES,
    export_public,
    import_private_key,
    import_public_key,
)
from cardsign.keys.signers.access import Access
from cardsign.keys.signers.registry import list_public_keys
from tests.support import native, private_jwk

PASSWORD = b"of the old tool"


def pem(
    key: Any,
    form: PrivateFormat = PrivateFormat.PKCS8,
    encryption: KeySerializationEncryption = NoEncryption(),  # noqa: B008
) -> bytes:
    return key.private_bytes(Encoding.PEM, form, encryption)


def certificate(key: Any) -> bytes:
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "cards")])
    day = datetime(2026, 11, 21, tzinfo=UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, day, day)
    return builder.sign(key, SHA256()).public_bytes(Encoding.PEM)


def unasked() -> bytes:
    pytest.fail("asked for a password")


@pytest.fixture(params=["ES256", "RS256"])
def private(request, es256, rs256) -> PrivateKey:
    """A key of either algorithm."""
    return es256 if request.param == "ES256" else rs256


@pytest.mark.parametrize(
    "written",
    [
        pytest.param(lambda key: pem(native(key)), id="PKCS #8"),
        pytest.param(
            lambda key: pem(native(key), PrivateFormat.TraditionalOpenSSL), id="SEC 1 or PKCS #1"
        ),
        pytest.param(lambda key: b"\n\n" + pem(native(key)) + b"\n\n", id="among empty lines"),
        pytest.param(lambda key: pem(native(key)).replace(b"\n", b"\r\n"), id="with CRLF"),
        pytest.param(lambda key: "Schlüssel\n".encode() + pem(native(key)), id="after a remark"),
        pytest.param(
            lambda key: certificate(native(key)) + pem(native(key)) + certificate(native(key)),
            id="among certificates",
        ),
        pytest.param(
            lambda key: (
                b"-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n"
                b"-----END EC PARAMETERS-----\n" + pem(native(key))
            ),
            id="after the parameters that openssl ecparam writes",
        ),
        pytest.param(private_jwk, id="JWK"),
        pytest.param(lambda key: b" \n" + private_jwk(key), id="JWK after spaces"),
    ],
)
def test_a_private_key_comes_in_under_its_thumbprint(written, private):
    """Both algorithms, in every form that is read; nobody is asked for a password."""
    imported = import_private_key(written(private), password=unasked)

    assert imported.public == private.public
    assert imported.public.kid == private.public.thumbprint


@pytest.mark.parametrize("form", [PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL])
def test_an_encrypted_key_comes_in_with_its_password(form, private):
    """Which is asked for once."""
    asked = []

    def password() -> bytes:
        asked.append(True)
        return PASSWORD

    data = pem(native(private), form, BestAvailableEncryption(PASSWORD))

    assert import_private_key(data, kid="card", password=password).public.kid == "card"
    assert asked == [True]


@pytest.mark.parametrize(
    ("password", "code"),
    [
        pytest.param(None, "passphrase.none", id="no password"),
        pytest.param(lambda: b"", "passphrase.none", id="an empty one"),
        pytest.param(lambda: b"wrong", "passphrase.wrong", id="a wrong one"),
    ],
)
def test_an_encrypted_key_stays_closed_otherwise(password, code, private):
    """A local fault: the key may be fine."""
    data = pem(native(private), PrivateFormat.PKCS8, BestAvailableEncryption(PASSWORD))

    with pytest.raises(PassphraseFault) as caught:
        import_private_key(data, password=password)

    assert caught.value.code == code


def test_a_jwk_keeps_its_published_kid(private):
    """Peers look the key up by it."""
    assert import_private_key(private_jwk(private, kid="2024/a")).public.kid == "2024/a"


@pytest.mark.parametrize("written", [private_jwk, lambda key: pem(native(key))])
def test_a_kid_that_is_given_goes_before_any_other(written, private):
    """For PEM there is no other."""
    assert import_private_key(written(private), kid="mine").public.kid == "mine"


def refused_pem(kind: str) -> bytes:
    """A private key that is none of ours."""
    keys = {
        "Ed448": lambda: ed448.Ed448PrivateKey.generate(),
        "P-384": lambda: ec.generate_private_key(ec.SECP384R1()),
        "secp256k1": lambda: ec.generate_private_key(ec.SECP256K1()),
        "RSA of 1024 bits": lambda: rsa.generate_private_key(65537, 1024),
        "RSA with e=3": lambda: rsa.generate_private_key(3, 2048),
        "DSA": lambda: dsa.generate_private_key(1024),
    }
    return pem(keys[kind]())


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("Ed448", "key.unsupported"),
        ("P-384", "key.unsupported"),
        ("secp256k1", "key.unsupported"),
        ("DSA", "key.unsupported"),
        ("RSA of 1024 bits", "key.weak_rsa"),
        ("RSA with e=3", "key.weak_rsa"),
    ],
)
def test_a_key_that_peers_would_refuse_does_not_come_in(kind, code):
    """Found out now, not when the first card is verified."""
    with pytest.raises(KeyRefused) as caught:
        import_private_key(refused_pem(kind))

    assert (caught.value.code, caught.value.exit_status) == (code, 1)


@pytest.mark.parametrize(
    ("written", "fault", "hint"),
    [
        pytest.param(
            lambda key: (
                native(key)
                .public_key()
                .public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
            ),
            "found a PEM of: public key",
            "openssl genpkey",
            id="a public PEM",
        ),
        pytest.param(
            lambda key: json.dumps(key.public.jwk()).encode(),
            "a JWK without `d`",
            "openssl genpkey",
            id="a public JWK",
        ),
        pytest.param(
            lambda key: json.dumps({"keys": [key.public.jwk()]}).encode(),
            "a JWK without `d`",
            "openssl genpkey",
            id="a JWK Set of a public key",
        ),
        pytest.param(
            lambda key: jwk_set(key, PrivateKey.generate("ES256", kid="b")),
            "this is a JWK Set of 2 keys",
            "--kid",
            id="a JWK Set of two",
        ),
        pytest.param(
            lambda key: certificate(native(key)), "PEM of: certificate", "key", id="a certificate"
        ),
        pytest.param(
            lambda key: pem(native(key), PrivateFormat.OpenSSH),
            "PEM of: openssh private key",
            "ssh-keygen",
            id="an OpenSSH key",
        ),
        pytest.param(lambda key: pem(native(key)) * 2, "private key, private key", "", id="two"),
        pytest.param(lambda key: key.to_pkcs8_der(), "something else", "openssl pkey", id="DER"),
        pytest.param(lambda key: b"", "something else", "", id="nothing"),
        pytest.param(lambda key: b"\x00\xff" * 99, "something else", "", id="garbage"),
        pytest.param(
            lambda key: re.sub(rb"\n[A-Za-z0-9+/=\n]+\n", b"\nAAAA\n", pem(native(key))),
            "expected a private key",
            "openssl",
            id="a PEM of garbage",
        ),
        pytest.param(
            lambda key: pem(native(key))[:150], "expected a private key", "", id="half a PEM"
        ),
    ],
)
def test_what_is_no_private_key_is_called_what_it_is(written, fault, hint, es256):
    """With what to do about it."""
    with pytest.raises(KeyRefused, match=fault) as caught:
        import_private_key(written(es256), password=unasked)

    assert caught.value.code == "key.malformed"
    assert hint in caught.value.hint


def jwk_set(*keys: PrivateKey) -> bytes:
    """A JWK Set of private keys, each under its kid."""
    return json.dumps(
        {"keys": [json.loads(private_jwk(key, kid=key.public.kid)) for key in keys]}
    ).encode()


def test_a_kid_names_one_key_of_a_set(es256):
    """A set of one needs none, and a kid that the set lacks chooses nothing."""
    two = jwk_set(es256, PrivateKey.generate("ES256", kid="b"))

    assert import_private_key(two, kid=es256.public.kid).public == es256.public
    assert import_private_key(jwk_set(es256)).public == es256.public
    with pytest.raises(KeyRefused, match="JWK Set of 2 keys"):
        import_private_key(two, kid="c")


def test_a_symmetric_key_is_refused():
    """HMAC: anyone who verifies could sign."""
    with pytest.raises(KeyRefused, match="without `d`") as caught:
        import_private_key(b'{"kty": "oct", "k": "AAAA"}')

    assert "openssl genpkey" in caught.value.hint


def test_a_key_for_pss_alone_signs_no_pkcs1(tmp_path: Path) -> None:
    """OpenSSL makes one; its other RSA keys come in."""
    for kind, is_refused in (("RSA-PSS", True), ("RSA", False)):
        file, public = tmp_path / kind, tmp_path / "public"
        for words in (
            ("genpkey", "-algorithm", kind, "-pkeyopt", "rsa_keygen_bits:2048", "-out", file),
            ("pkey", "-in", file, "-pubout", "-out", public),
        ):
            subprocess.run(["openssl", *words], check=True, capture_output=True, timeout=60)
        for read, path in ((import_private_key, file), (import_public_key, public)):
            if not is_refused:
                read(path.read_bytes())
                continue
            with pytest.raises(KeyRefused, match="PSS") as caught:
                read(path.read_bytes())
            assert caught.value.code == "key.unsupported"


def test_a_key_whose_certificate_is_signed_by_pss_comes_in(rs256: PrivateKey) -> None:
    """The authority's signature is no word about the key."""
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "cards")])
    day = datetime(2026, 11, 21, tzinfo=UTC)
    key = native(rs256)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, day, day)
    made = builder.sign(key, SHA256(), rsa_padding=padding.PSS(padding.MGF1(SHA256()), 32))
    bundle = pkcs12.serialize_key_and_certificates(
        b"cards", key, made, None, BestAvailableEncryption(PASSWORD)
    )
    for data in (made.public_bytes(Encoding.PEM) + pem(key), bundle):
        imported = import_private_key(data, password=lambda: PASSWORD)
        assert imported.public == rs256.public


#: How OpenSSL encrypts a key, and whether that hides what an RSA key is for.
ENCRYPTIONS = {
    "PKCS #12": (("pkcs12", "-export"), False),
    "the usual one": (("pkey", "-aes256"), True),
    "scrypt": (("pkcs8", "-topk8", "-scrypt"), True),
    "Triple DES": (("pkcs8", "-topk8", "-v2", "des3"), True),
}


@pytest.mark.parametrize(("words", "is_hidden"), ENCRYPTIONS.values(), ids=ENCRYPTIONS)
@pytest.mark.parametrize("kind", ["RSA-PSS", "RSA", "EC"])
def test_an_encrypted_key_comes_in(
    kind: str, words: tuple[str, ...], is_hidden: bool, tmp_path: Path
) -> None:
    """But one that is seen to be for PSS alone."""
    plain, file = tmp_path / "plain", tmp_path / "file"
    subject = ("-x509", "-key", plain, "-subj", "/CN=cards", "-out", tmp_path / "certificate")
    bundled = ("-inkey", plain) if words[0] == "pkcs12" else ()
    source = tmp_path / "certificate" if bundled else plain
    option = "ec_paramgen_curve:P-256" if kind == "EC" else "rsa_keygen_bits:2048"
    for command in (
        ("genpkey", "-algorithm", kind, "-pkeyopt", option, "-out", plain),
        ("req", *subject),
        (*words, *bundled, "-in", source, "-passout", f"pass:{PASSWORD.decode()}", "-out", file),
    ):
        subprocess.run(["openssl", *command], check=True, capture_output=True, timeout=60)
    if kind != "RSA-PSS" or is_hidden:
        assert import_private_key(file.read_bytes(), password=lambda: PASSWORD).public.alg
        return
    with pytest.raises(KeyRefused, match="for RSASSA-PSS alone") as caught:
        import_private_key(file.read_bytes(), password=lambda: PASSWORD)
    assert caught.value.code == "key.unsupported"


@pytest.mark.parametrize(
    ("how", "code"),
    [
        pytest.param(NoEncryption(), None, id="none"),
        pytest.param("", None, id="an empty one"),
        pytest.param(BestAvailableEncryption(PASSWORD), "passphrase.none", id="one"),
    ],
)
def test_a_pkcs12_without_a_passphrase_opens_unasked(
    how: Any, code: str | None, tmp_path: Path, es256: PrivateKey
) -> None:
    """An empty one is as good as none."""
    data = pkcs12.serialize_key_and_certificates(
        b"card", native(es256), None, None, how or NoEncryption()
    )
    if how == "":
        (tmp_path / "key").write_bytes(pem(native(es256)))
        made = ["openssl", "pkcs12", "-export", "-nocerts", "-inkey", str(tmp_path / "key")]
        data = subprocess.run(
            [*made, "-passout", "pass:"], check=True, capture_output=True, timeout=60
        ).stdout
    if code is None:
        assert import_private_key(data, password=unasked).public == es256.public
        return
    with pytest.raises(PassphraseFault) as caught:
        import_private_key(data)
    assert caught.value.code == code


def public_pem(key: PrivateKey) -> bytes:
    return export_public(key.public, "pem")


@pytest.mark.parametrize(
    "written",
    [
        pytest.param(public_pem, id="PEM"),
        pytest.param(lambda key: export_public(key.public, "jwk"), id="JWK"),
        pytest.param(lambda key: json.dumps({"keys": [key.public.jwk()]}).encode(), id="JWK Set"),
        pytest.param(
            lambda key: json.dumps({"of-ours": public_pem(key).decode()}).encode(),
            id="a PEM by its kid",
        ),
    ],
)
def test_a_public_key_is_read_in_each_form(written, es256):
    """Under the kid that is asked for, as a PEM has none."""
    assert import_public_key(written(es256), kid=es256.public.kid) == es256.public


@pytest.mark.parametrize(
    ("data", "code"),
    [
        pytest.param(lambda key: pem(native(key)), "key.private_material", id="a private PEM"),
        pytest.param(private_jwk, "key.private_material", id="a private JWK"),
        pytest.param(lambda key: certificate(native(key)), "key.malformed", id="a certificate"),
        pytest.param(lambda key: b"junk", "jwks.malformed", id="something else"),
    ],
)
def test_what_is_no_public_key_is_refused(data, code, es256):
    """A private key above all: it may stand in a repository by now."""
    with pytest.raises(InputRefused) as caught:
        import_public_key(data(es256))

    assert caught.value.code == code


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"{", id="half-written"),
        pytest.param(b'{"kty": "EC", "kty": "RSA"}', id="a member twice"),
        pytest.param(b"{" + b" " * MAX_KEY_FILE_BYTES + b"}", id="too large"),
    ],
)
def test_a_jwk_that_is_not_strict_json_is_refused(data):
    """By the one JSON reader of the house."""
    with pytest.raises(JsonRefused):
        import_private_key(data)


@pytest.mark.parametrize("kid", ["", "k" * 257, "ki\nd", "schlüssel"])
def test_a_kid_that_no_header_could_carry_is_refused(kid, es256):
    """Wherever it comes from."""
    for attempt in (
        lambda: import_private_key(pem(native(es256)), kid=kid),
        lambda: import_private_key(private_jwk(es256, kid=kid)),
    ):
        with pytest.raises(KeyRefused, match="kid"):
            attempt()


def test_a_jwk_for_another_purpose_is_refused(es256):
    """It says itself what it is for."""
    with pytest.raises(KeyRefused) as caught:
        import_private_key(private_jwk(es256, use="enc"))

    assert caught.value.code == "key.use"


def test_no_refusal_shows_the_private_half(es256):
    """Not even of a JWK that is damaged right behind it."""
    whole = private_jwk(es256)
    secret = json.loads(whole)["d"]

    for data in (
        whole[:-1],
        whole.replace(b'"d"', b'"kty": 1, "d"'),
        private_jwk(es256, use="enc"),
    ):
        with pytest.raises(CardsignError) as caught:
            import_private_key(data)
        assert isinstance(caught.value, InputRefused)
        assert secret not in f"{caught.value!s}{caught.value!r}{caught.value.hint}"


#: What tools and key services hand out, by the commands that make it, and what becomes of it.
HANDED_OUT: dict[str, tuple[str, str | None]] = {
    "openssl ecparam": ("openssl ecparam -name prime256v1 -genkey -out FILE", None),
    "openssl genrsa": ("openssl genrsa -traditional -out FILE 2048", None),
    "openssl, DER": (
        "openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -outform DER -out FILE",
        "key.malformed",
    ),
    "ssh-keygen": ("ssh-keygen -q -t ecdsa -N '' -f FILE", "key.malformed"),
    "ssh-keygen -m PEM": ("ssh-keygen -q -t ecdsa -m PEM -N '' -f FILE", None),
    "ssh-keygen -m PKCS8": ("ssh-keygen -q -t rsa -b 2048 -m PKCS8 -N '' -f FILE", None),
    "a public key of OpenSSH": (
        "ssh-keygen -q -t ecdsa -N '' -f KEY && mv KEY.pub FILE",
        "key.malformed",
    ),
    "the same by -e": (
        "ssh-keygen -q -t ecdsa -N '' -f KEY && ssh-keygen -e -f KEY > FILE",
        "key.malformed",
    ),
    "the same by -e -m PKCS8": (
        "ssh-keygen -q -t ecdsa -N '' -f KEY && ssh-keygen -e -m PKCS8 -f KEY > FILE",
        None,
    ),
    "aws kms get-public-key": ('echo \'{"KeyId": "1", "PublicKey": "MFkw"}\' > FILE', "jwks"),
    "gcloud kms keys versions get-public-key": (
        "openssl ecparam -name prime256v1 -genkey | openssl pkey -pubout -out FILE",
        None,
    ),
    "a service account of Google": (
        'echo \'{"type": "service_account", "private_key": "-----BEGIN"}\' > FILE',
        "jwks",
    ),
    "az keyvault key show": (
        'echo \'{"attributes": {}, "key": {"kty": "EC-HSM"}}\' > FILE',
        "jwks",
    ),
}


@pytest.mark.parametrize(("command", "code"), HANDED_OUT.values(), ids=HANDED_OUT)
def test_what_others_hand_out_is_a_key_or_named(
    command: str, code: str | None, tmp_path: Path
) -> None:
    """As it is handed out, to `cardsign keys jwks --key file:FILE`."""
    shell = ["sh", "-c", f"umask 077; {command}"]
    subprocess.run(shell, cwd=tmp_path, check=True, capture_output=True, timeout=60)
    access = Access.by_passphrase(PASSWORD)
    if code is None:
        (key,) = list_public_keys(f"file:{tmp_path}/FILE", access)
        assert key.kid == key.thumbprint
        return
    with pytest.raises(UsageFault) as caught:
        list_public_keys(f"file:{tmp_path}/FILE", access)
    assert caught.value.code.startswith(code)
    assert caught.value.hint or code == "jwks"
