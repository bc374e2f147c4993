"""The file that holds one private key: scrypt over a passphrase, then AES-256-GCM.

::

    {"format": 1, "kid": ..., "alg": ..., "thumbprint": ...,
     "kdf": {"name": "scrypt", "n": 131072, "r": 8, "p": 1, "salt": ...},
     "cipher": "AES-256-GCM", "nonce": ..., "ciphertext": ...}

Byte strings are unpadded base64url. The plaintext is PKCS#8 DER. Every member but
``ciphertext`` is associated data, so a file cannot be given another kid, alg or cost
without the passphrase: an altered file opens as little as a wrong passphrase does, and
the two cannot be told apart.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import ClassVar, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from cardsign.card.strictjson import Json, parse_object
from cardsign.errors import JsonRefused, KeyRefused, PassphraseFault, SignerFault, StoreFault
from cardsign.jose import base64url
from cardsign.jose.keys import PrivateKey, PublicKey
from cardsign.records import dataclass

FORMAT: Final = 1
CIPHER: Final = "AES-256-GCM"
KDF: Final = "scrypt"

MAX_ENVELOPE_BYTES: Final = 16 * 1024  # bytes; an RSA key of 8192 bits takes some 7 KiB
MIN_WRITTEN_N: Final = 2**15  # below it a guess costs an attacker less than about 0.1 s
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
class KeyLabel:
    """Which key an envelope holds: what the associated data binds to the private key."""

    kid: str
    alg: str
    thumbprint: str

    @classmethod
    def of(cls, public: PublicKey) -> KeyLabel:
        return cls(public.kid, public.alg, public.thumbprint)


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

    min_n: ClassVar[int] = MIN_WRITTEN_N

    def __post_init__(self) -> None:
        power_of_two = self.n > 0 and self.n & (self.n - 1) == 0
        if not (power_of_two and self.min_n <= self.n <= MAX_N):
            raise _malformed(
                f"scrypt's n is {self.n}, not a power of two from {self.min_n} to {MAX_N}"
            )
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


@dataclass(frozen=True, slots=True)
class UnsafeScryptCost(ScryptCost):
    """A cost without a floor: for reading what exists, and for tests that must be quick."""

    min_n: ClassVar[int] = 2


def seal(
    pkcs8: bytes,
    passphrase: bytes,
    *,
    label: KeyLabel,
    cost: ScryptCost,
    random: Callable[[int], bytes],
) -> bytes:
    """Return the envelope around a private key (PKCS#8 DER), as the bytes of its file.

    The label is bound to the key, and readable without the passphrase. Not checked: that the
    passphrase is long enough.
    """
    salt, nonce = random(_SALT_BYTES), random(_NONCE_BYTES)
    members: dict[str, Json] = {
        "format": FORMAT,
        "kid": label.kid,
        "alg": label.alg,
        "thumbprint": label.thumbprint,
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


def open_envelope(untrusted_bytes: bytes, passphrase: bytes) -> tuple[bytes, KeyLabel]:
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
    cost = UnsafeScryptCost(*(_integer(kdf, name) for name in ("n", "r", "p")))
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
            f"the passphrase does not open key `{label.kid}`, or its file was changed",
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
    if label != KeyLabel.of(public):
        raise _wrong_key(where, f"holds key {label.kid!r}, not {public.kid!r}")
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


def read_label(untrusted_bytes: bytes) -> KeyLabel:
    """Return the label of an envelope, which nobody has proved until it is opened."""
    return _label(_members(untrusted_bytes))


def _label(members: Mapping[str, Json]) -> KeyLabel:
    return KeyLabel(*(_text(members, name) for name in ("kid", "alg", "thumbprint")))


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
        hint="Restore it from a backup: cardsign keys restore FILE -i IDENTITY.",
    )
