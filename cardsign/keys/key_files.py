"""Files that hold one key: those of a key store, and those that were made elsewhere.

A key store's own file is an envelope: scrypt over a passphrase, then AES-256-GCM.

::

    {"format": 1, "kid": ..., "alg": ..., "thumbprint": ...,
     "kdf": {"name": "scrypt", "n": 131072, "r": 8, "p": 1, "salt": ...},
     "cipher": "AES-256-GCM", "nonce": ..., "ciphertext": ...}

Byte strings are unpadded base64url. The plaintext is PKCS#8 DER. Every member but
``ciphertext`` is associated data, so a file cannot be given another kid, alg or cost
without the passphrase: an altered file opens as little as a wrong passphrase does, and
the two cannot be told apart.

Keys that were made elsewhere are PEM, PKCS #12 and JWK, read as what they are or refused.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from cryptography.exceptions import InvalidTag, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt
from cryptography.hazmat.primitives.serialization import pkcs12

from cardsign.card.strictjson import parse_object
from cardsign.card.values import Json
from cardsign.errors import JsonRefused, KeyRefused, PassphraseFault, SignerFault, StoreFault
from cardsign.jose import base64url
from cardsign.jose.algorithms import SIGNING_ALGORITHMS
from cardsign.jose.keys import PrivateKey, PublicKey

FORMAT: Final = 1
CIPHER: Final = "AES-256-GCM"
KDF: Final = "scrypt"

MAX_ENVELOPE_BYTES: Final = 16 * 1024  # bytes; an RSA key of 8192 bits takes some 7 KiB
MAX_N: Final = 2**20
MAX_R: Final = 16
MAX_P: Final = 4
MAX_KDF_MEMORY: Final = 2**30  # bytes, 128*n*r; a file must not be able to ask for more

_KEY_BYTES: Final = 32
_SALT_BYTES: Final = 16
_NONCE_BYTES: Final = 12  # NIST SP 800-38D 8.2; the key is fresh with each salt
_MAX_DEPTH: Final = 2

_MEMBERS: Final = frozenset(
    {"format", "kid", "alg", "thumbprint", "kdf", "cipher", "nonce", "ciphertext"}
)
_KDF_MEMBERS: Final = frozenset({"name", "n", "r", "p", "salt"})


@dataclass(frozen=True, slots=True)
class ScryptCost:
    """What one guess at a passphrase costs (RFC 7914); by default some 0.7 s and 128 MiB.

    Raises:
        StoreFault: ``keystore.corrupt`` for a cost out of the bounds above, before a byte of
            memory is allocated.
    """

    n: int = 2**17
    r: int = 8
    p: int = 1

    def __post_init__(self) -> None:
        power_of_two = self.n > 0 and self.n & (self.n - 1) == 0
        if not (power_of_two and 2 <= self.n <= MAX_N):
            raise _malformed(f"scrypt's n is {self.n}, not a power of two from 2 to {MAX_N}")
        if not (1 <= self.r <= MAX_R and 1 <= self.p <= MAX_P):
            raise _malformed(
                f"scrypt's r and p are {self.r} and {self.p}, not at most {MAX_R} and {MAX_P}"
            )
        if self.memory > MAX_KDF_MEMORY:
            raise _malformed(
                f"scrypt would take {self.memory // 2**20} MiB of memory, more than "
                f"{MAX_KDF_MEMORY // 2**20} MiB"
            )

    @property
    def memory(self) -> int:
        """The bytes that one guess takes (RFC 7914 2)."""
        return 128 * self.n * self.r


DEFAULT_COST: Final = ScryptCost()


def label_of(public: PublicKey) -> dict[str, str]:
    """Return the members of an envelope that say which key it holds."""
    return {"kid": public.kid, "alg": public.alg, "thumbprint": public.thumbprint}


def seal(pkcs8: bytes, passphrase: bytes, public: PublicKey) -> bytes:
    """Return the envelope around a private key (PKCS#8 DER), as the bytes of its file.

    The label of `public` is bound to the key, and readable without the passphrase. Not checked:
    that the passphrase is long enough.
    """
    cost, salt, nonce = DEFAULT_COST, os.urandom(_SALT_BYTES), os.urandom(_NONCE_BYTES)
    members: dict[str, Json] = {
        "format": FORMAT,
        **label_of(public),
        "kdf": {
            "name": KDF,
            "n": cost.n,
            "r": cost.r,
            "p": cost.p,
            "salt": base64url.encode(salt),
        },
        "cipher": CIPHER,
        "nonce": base64url.encode(nonce),
    }
    cipher = AESGCM(_derive(passphrase, salt, cost))
    ciphertext = cipher.encrypt(nonce, pkcs8, _canonical(members))
    members["ciphertext"] = base64url.encode(ciphertext)
    return (json.dumps(members, indent=2) + "\n").encode("ascii")


def open_envelope(untrusted_bytes: bytes, passphrase: bytes) -> tuple[bytes, dict[str, str]]:
    """Return the private key (PKCS#8 DER) and the label that is bound to it.

    Not checked: that the label is the one expected, or that the private key is that key's; see
    :func:`open_sealed`.

    Raises:
        PassphraseFault: ``passphrase.wrong``: not this passphrase, or the file was changed.
        StoreFault: ``keystore.newer_format``, or ``keystore.corrupt``: malformed, or of an
            unreasonable cost, which is refused before any of it is spent.
    """
    members = _members(untrusted_bytes)
    kdf = members["kdf"]
    if not isinstance(kdf, dict) or kdf.keys() != _KDF_MEMBERS or kdf["name"] != KDF:
        raise _malformed(f"`kdf` is not an object of {KDF} and its parameters")
    cost = ScryptCost(*(_integer(kdf, name) for name in ("n", "r", "p")))
    salt, nonce = _decoded(kdf, "salt"), _decoded(members, "nonce")
    ciphertext = _decoded(members, "ciphertext")
    if members["cipher"] != CIPHER or len(nonce) != _NONCE_BYTES:
        raise _malformed(f"`cipher` and `nonce` are not those of {CIPHER}")
    label = _label(members)
    associated = {name: value for name, value in members.items() if name != "ciphertext"}
    try:
        cipher = AESGCM(_derive(passphrase, salt, cost))
        return cipher.decrypt(nonce, ciphertext, _canonical(associated)), label
    except InvalidTag as exc:
        raise PassphraseFault(
            "passphrase.wrong",
            f"the passphrase does not open key `{label['kid']}`, or its file was changed",
        ) from exc


def open_sealed(
    untrusted_bytes: bytes, public: PublicKey, passphrase: bytes, *, where: str
) -> PrivateKey:
    """Return the private key in an envelope, which must be that of `public`.

    Raises:
        SignerFault: ``signer.wrong_key``: the envelope is, or holds, another key's.
        StoreFault, PassphraseFault: As :func:`open_envelope`.
    """
    pkcs8, label = open_envelope(untrusted_bytes, passphrase)
    if label != label_of(public):
        raise _wrong_key(where, f"holds key {label['kid']!r}, not {public.kid!r}")
    try:
        private = PrivateKey.from_pkcs8_der(pkcs8, kid=public.kid)
    except KeyRefused as exc:
        raise _wrong_key(where, f"holds no acceptable private key: {exc.message}") from exc
    if private.public != public:
        raise _wrong_key(where, f"holds a private key that is not that of {public.kid!r}")
    return private


def _wrong_key(where: str, what: str) -> SignerFault:
    return SignerFault("signer.wrong_key", f"the key file {what}", path=where)


def is_envelope(data: bytes) -> bool:
    """Say whether bytes are meant as an envelope, which :func:`open_envelope` reads strictly."""
    return data.lstrip().startswith(b"{") and b'"ciphertext"' in data


def read_label(untrusted_bytes: bytes) -> dict[str, str]:
    """Return the label of an envelope, which nobody has proved until it is opened."""
    return _label(_members(untrusted_bytes))


def _label(members: Mapping[str, Json]) -> dict[str, str]:
    return {name: _text(members, name) for name in ("kid", "alg", "thumbprint")}


def _members(untrusted_bytes: bytes) -> dict[str, Json]:
    """Parse the file as a strict object of exactly our members and format."""
    try:
        members = parse_object(untrusted_bytes, max_bytes=MAX_ENVELOPE_BYTES, max_depth=_MAX_DEPTH)
    except JsonRefused as exc:
        raise _malformed(f"not strict JSON: {exc.message}") from exc
    version = _integer(members, "format")
    if version > FORMAT:
        raise StoreFault("keystore.newer_format", f"this key file is of format {version}")
    if version != FORMAT or members.keys() != _MEMBERS:
        raise _malformed(f"its members are not those of format {FORMAT}")
    return members


def _canonical(members: Mapping[str, Json]) -> bytes:
    """The associated data."""
    # Members and values are ASCII and integers (a kid is printable ASCII, the rest is ours). For
    # such, this is the text that JCS (RFC 8785) gives.
    return json.dumps(members, sort_keys=True, separators=(",", ":")).encode("ascii")


def _derive(passphrase: bytes, salt: bytes, cost: ScryptCost) -> bytes:
    kdf = Scrypt(salt=salt, length=_KEY_BYTES, n=cost.n, r=cost.r, p=cost.p)
    try:
        return kdf.derive(passphrase)
    except MemoryError as exc:
        needed = cost.memory // 2**20
        raise _malformed(f"opening it takes {needed} MiB of memory, which cannot be had") from exc


def _integer(members: Mapping[str, Json], name: str) -> int:
    value = members.get(name)
    if type(value) is not int:  # a bool is an int as well
        raise _malformed(f"`{name}` is not an integer")
    return value


def _text(members: Mapping[str, Json], name: str) -> str:
    value = members.get(name)
    if not isinstance(value, str):
        raise _malformed(f"`{name}` is not a string")
    return value


def _decoded(members: Mapping[str, Json], name: str) -> bytes:
    try:
        return base64url.decode(_text(members, name))
    except base64url.Base64urlError as exc:
        raise _malformed(f"`{name}` is not base64url") from exc


def _malformed(message: str) -> StoreFault:
    return StoreFault(
        "keystore.corrupt",
        message,
        hint="Put back the copy that you keep of it.",
    )


# Keys for elsewhere: public keys as JWK or PEM, private ones only encrypted.


PublicForm = Literal["jwk", "pem"]
PrivateForm = Literal["pkcs8", "pkcs12"]

ROUNDS: Final = 600_000  # of PBKDF2: what OWASP asks of HMAC-SHA-256; some 0.15 s a guess


def export_public(key: PublicKey, form: PublicForm) -> bytes:
    """Return the public key as a JWK, or as a PEM SubjectPublicKeyInfo."""
    if form == "jwk":
        return json.dumps(key.jwk(), indent=2).encode("ascii") + b"\n"
    return key.native.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def export_private(key: PrivateKey, form: PrivateForm, passphrase: bytes) -> bytes:
    """Return the private key, encrypted: PKCS #12 (RFC 7292), or PKCS #8 as PEM.

    A PKCS #12 names it by its kid, and takes :data:`ROUNDS` for a guess at its passphrase. PKCS #8
    takes what the library gives, 2,048 rounds, so its passphrase has to be a random one. Not
    checked: the passphrase.
    """
    native = serialization.load_der_private_key(key.to_pkcs8_der(), None)
    if form == "pkcs8":
        return native.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(passphrase),
        )
    kinds = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | Ed25519PrivateKey
    assert isinstance(native, kinds)  # noqa: S101
    how = (
        serialization.PrivateFormat.PKCS12.encryption_builder()
        .kdf_rounds(ROUNDS)
        .key_cert_algorithm(pkcs12.PBES.PBESv2SHA256AndAES256CBC)
        .hmac_hash(hashes.SHA256())
        .build(passphrase)
    )
    name = key.public.kid.encode("ascii")
    return pkcs12.serialize_key_and_certificates(name, native, None, None, how)


MAX_KEY_FILE_BYTES: Final = 64 * 1024  # bytes; a key with its certificates has some 10 KiB

_PEM_BEGIN: Final = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----")
# A sequence, of whatever length, that begins with version 3 (RFC 7292 4).
_PKCS12: Final = re.compile(rb"\x30(?:[\x00-\x80]|\x81.|\x82..|\x83...)\x02\x01\x03", re.DOTALL)
_PRIVATE_LABELS: Final = frozenset(
    {"PRIVATE KEY", "ENCRYPTED PRIVATE KEY", "EC PRIVATE KEY", "RSA PRIVATE KEY"}
)
_ENCRYPTED: Final = (b"BEGIN ENCRYPTED PRIVATE", b"Proc-Type: 4,ENCRYPTED")
_MAKE: Final = (
    "If you have none, make one: "
    "openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out card-key.pem."
)
# Told apart only to say what was given instead; of several, the first listed names it.
_OTHER_LABELS: Final = {
    "OPENSSH PRIVATE KEY": (
        "this is a private key in OpenSSH's own form",
        "Convert a copy of it: ssh-keygen -p -m PKCS8 -f COPY.",
    ),
    "PUBLIC KEY": ("this is a public key, expected the private key", _MAKE),
    "RSA PUBLIC KEY": ("this is a public key, expected the private key", _MAKE),
    "CERTIFICATE": ("this is a certificate, expected its private key", _MAKE),
}


def import_private_key(
    data: bytes, *, kid: str | None = None, password: Callable[[], bytes] | None = None
) -> PrivateKey:
    """Read a private key for ES256, RS256 or EdDSA.

    A JWK keeps its own kid, under which peers look the key up; otherwise the kid is the
    thumbprint.

    It may be PEM (PKCS #8, SEC 1 or PKCS #1, encrypted or not; certificates beside the key are
    passed over), PKCS #12 (RFC 7292), one private JWK, or a JWK Set of which `kid` names one.

    Raises:
        KeyRefused: ``key.malformed`` (also a public key, a certificate, a JWK Set of several
            keys without `kid`, DER, or something else), ``key.unsupported``, ``key.weak_rsa``,
            ``key.use``, ``key.alg_mismatch``.
        JsonRefused: A JWK that is not strict JSON.
        PassphraseFault: ``passphrase.none``, ``passphrase.wrong``, or what `password` raises.
    """
    if data.lstrip().startswith(b"{"):
        return _from_jwk(data, kid)
    if _PKCS12.match(data):
        return _from_pkcs12(data, kid, password)
    labels = [label.decode("ascii") for label in _PEM_BEGIN.findall(data)]
    private = sum(label in _PRIVATE_LABELS for label in labels)
    if private > 1:
        raise _refused("this file holds several private keys, expected one", "Split it.")
    if not private:
        for label, refusal in _OTHER_LABELS.items():
            if label in labels:
                raise _refused(*refusal)
        raise _refused(
            "this is neither a PEM private key nor a JWK",
            "If it is DER: openssl pkey -inform DER -in FILE -out FILE.pem.",
        )
    try:
        return PrivateKey.from_pem(data, kid=kid)
    except PassphraseFault:
        if password is None:
            raise
    return PrivateKey.from_pem(data, password(), kid=kid)


def _from_jwk(data: bytes, kid: str | None) -> PrivateKey:
    jwk = _one_jwk(data, kid, is_secret=True)
    if jwk.get("kty") == "oct":
        raise KeyRefused(
            "key.unsupported",
            "this is a symmetric (HMAC) key: everyone who can verify with it can also sign",
            path="/kty",
            hint=_MAKE,
        )
    if jwk.get("kty") in ("EC", "OKP", "RSA") and "d" not in jwk:
        raise _refused("this JWK is a public key, expected the private key", _MAKE)
    return PrivateKey.from_jwk(jwk, kid=kid)


def _one_jwk(data: bytes, kid: str | None, *, is_secret: bool = False) -> dict[str, Json]:
    """The JWK that is there, or the one of a JWK Set that `kid` names."""
    try:
        jwk = parse_object(data, max_bytes=MAX_KEY_FILE_BYTES)
    except JsonRefused as refusal:
        if not is_secret:
            raise
        found = refusal
    else:
        return _chosen(jwk, kid)
    # The scanner's message and pointer repeat parts of the text, and here that is a private key.
    # Raised outside the handler, so that no traceback shows them as the cause.
    raise JsonRefused(
        found.code,
        "this JWK is not strict JSON (what is there is not shown: it is part of a key)",
        line=found.line,
        column=found.column,
    )


def _chosen(jwk: dict[str, Json], kid: str | None) -> dict[str, Json]:
    keys = jwk.get("keys")
    if "kty" in jwk or not isinstance(keys, list):
        return jwk
    found = [key for key in keys if isinstance(key, dict)]
    named = found if len(found) == 1 else [key for key in found if key.get("kid") == kid]
    if len(named) == 1:
        return named[0]
    kids = [key["kid"] for key in found if isinstance(key.get("kid"), str)]
    raise _refused(
        f"this is a JWK Set of {len(found)} keys, expected one",
        f"Name one of them: --kid {kids[0]}." if kids else _MAKE,
    )


def _from_pkcs12(data: bytes, kid: str | None, password: Callable[[], bytes] | None) -> PrivateKey:
    """The one key of a PKCS #12 file, which always has a passphrase, be it an empty one."""
    try:
        native, _, _ = pkcs12.load_key_and_certificates(data, password() if password else b"")
    except ValueError as exc:  # it does not tell a wrong passphrase from a damaged file
        raise PassphraseFault(
            "passphrase.wrong", "the passphrase does not open the PKCS #12 file, or it is damaged"
        ) from exc
    except UnsupportedAlgorithm as exc:
        raise KeyRefused("key.unsupported", "the file's encryption is unknown here") from exc
    if native is None:
        raise _refused("this PKCS #12 file holds no private key", "Export it with its key.")
    plain = native.private_bytes(
        serialization.Encoding.DER,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return PrivateKey.from_pkcs8_der(plain, kid=kid)


def is_encrypted(data: bytes) -> bool:
    """Say whether a key file shows no private key to those who can read it."""
    return any(mark in data for mark in _ENCRYPTED) or bool(_PKCS12.match(data))


def import_public_key(data: bytes, *, kid: str | None = None) -> PublicKey:
    """Read a public key: a JWK, a JWK Set of which `kid` names one, or PEM.

    Raises:
        KeyRefused: ``key.private_material``: it is a private key; else as
            :meth:`PublicKey.from_jwk`.
        JsonRefused: Neither PEM nor strict JSON.
    """
    labels = [label.decode("ascii") for label in _PEM_BEGIN.findall(data)]
    if not labels:
        return PublicKey.from_jwk(_one_jwk(data, kid), kid=kid, algorithms=SIGNING_ALGORITHMS)
    if any(label in _PRIVATE_LABELS for label in labels):
        raise KeyRefused(
            "key.private_material",
            "this is a private key, expected the public key",
            hint="Write its public key: openssl pkey -in FILE -pubout -out public.pem.",
        )
    try:
        native = serialization.load_pem_public_key(data)
    except (ValueError, UnsupportedAlgorithm) as exc:
        raise _refused(
            "this PEM is no public key",
            "Of a certificate: openssl x509 -in FILE -pubkey -noout -out public.pem.",
        ) from exc
    return PublicKey.from_cryptography(native, kid=kid)


def _refused(message: str, hint: str) -> KeyRefused:
    return KeyRefused("key.malformed", message, hint=hint)
