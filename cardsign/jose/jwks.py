"""JWK Sets (RFC 7517 section 5): read from a stranger, or built from our numbers.

A set whose answer could depend on its reader is refused whole: two keys under one kid, a
private key, a broken key. A key that is merely for something else (another type, curve, alg
or use) is passed over and reported, so that an issuer may publish keys of tomorrow today.

A set holds the keys of every algorithm that some policy may name. That a key is here does not
let it verify: :func:`cardsign.jose.jws.read_entry` refuses a signature by an algorithm that has
not been named.
"""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from cardsign.card.strictjson import parse_object
from cardsign.card.values import Json, pointer
from cardsign.errors import JsonRefused, KeyRefused, check_type, place_below
from cardsign.jose.jwk import jwk_of_pem, refuse_private_members, refuse_shared_primes
from cardsign.jose.keys import KID_FORM, PublicKey
from cardsign.urls import is_url

#: Bytes. Room for about 150 RSA keys of 2048 bits; a set of ten keys has 5 KiB.
MAX_JWKS_BYTES: Final = 64 * 1024

_FOR_ANOTHER_PURPOSE: Final = frozenset({"key.unsupported", "key.use", "key.alg_mismatch"})


@dataclass(frozen=True, slots=True)
class SkippedKey:
    """A key of a set that was passed over.

    Attributes:
        kid: Its kid as published, or empty where it has none that a header could name.
        code: ``key.unsupported``, ``key.use`` or ``key.alg_mismatch``.
        message: What it is not, in one sentence.
    """

    kid: str
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class JwkSet:
    """Sound public keys, each under a kid of its own. Make one with the class methods.

    Attributes:
        keys: In the order of the document; may be empty. Two may be the same numbers.
        skipped: The keys for another purpose, in the same order.
    """

    keys: tuple[PublicKey, ...]
    skipped: tuple[SkippedKey, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.keys, tuple):
            raise TypeError("JwkSet takes a tuple of keys; from a file: JwkSet.from_bytes(data)")

    @classmethod
    def of(cls, keys: Iterable[PublicKey]) -> JwkSet:
        """Gather keys.

        Raises:
            KeyRefused: ``jwks.duplicate_kid`` or ``jwks.shared_prime``.
        """
        gathered = tuple(keys)
        for key in gathered:
            check_type(key, PublicKey, "JwkSet.of takes public keys", "JwkSet.of([key.public])")
        return cls._checked(gathered, ())

    @classmethod
    def from_bytes(cls, untrusted_bytes: bytes) -> JwkSet:
        """Read a JWK Set of at most 64 KiB; members besides ``keys`` are ignored.

        One JWK, a public key in PEM and ``{kid: PEM}`` are read as a set too.

        Raises:
            KeyRefused: ``jwks.malformed`` (also where it is no strict JSON),
                ``key.private_material``, ``jwks.duplicate_kid``, ``jwks.shared_prime``, or of
                one key ``key.malformed`` or ``key.weak_rsa``. ``path`` is a JSON pointer.
        """
        example = "JwkSet.from_bytes(Path('jwks.json').read_bytes())"
        check_type(untrusted_bytes, bytes, "give the JWK Set's bytes", example)
        jwks = list(read_jwks(untrusted_bytes))
        for index, jwk in enumerate(jwks):
            with _in_key(index):
                refuse_private_members(jwk)
        keys: list[PublicKey] = []
        skipped: list[SkippedKey] = []
        for index, jwk in enumerate(jwks):
            try:
                with _in_key(index):
                    keys.append(PublicKey.from_jwk(jwk))
            except KeyRefused as refusal:
                if refusal.code not in _FOR_ANOTHER_PURPOSE:
                    raise
                kid = jwk.get("kid")
                kid = kid if isinstance(kid, str) and KID_FORM.fullmatch(kid) else ""
                skipped.append(SkippedKey(kid, refusal.code, refusal.message))
        return cls._checked(tuple(keys), tuple(skipped))

    @classmethod
    def read(cls, untrusted_keys: JwkSet | bytes | str | Mapping[str, Any]) -> JwkSet:
        """Read a JWK Set in any of the forms in which a program has one.

        Args:
            untrusted_keys: The document as bytes, as text, or parsed; a set comes back as it is.

        Raises:
            KeyRefused: As :meth:`from_bytes`.
            TypeError: It is none of these, or text that is no JSON, such as a path or a URL.
        """
        if isinstance(untrusted_keys, JwkSet):
            return untrusted_keys
        keys: Any = untrusted_keys
        if isinstance(keys, Mapping):
            keys = json.dumps(keys)
        if isinstance(keys, str):
            if not keys.lstrip().startswith(("{", "-----BEGIN ")):
                instead = f"not a path: jwks=Path({keys!r}).read_bytes()"
                if is_url(keys):
                    policy = f"policy=Policy.from_jwks_url({keys!r}, origin=...)"
                    instead = f"not their URL: use {policy} with discover()"
                raise TypeError(f"jwks takes the keys, {instead}")
            keys = keys.encode("utf-8", "surrogatepass")
        forms = "jwks takes a JWK Set as bytes, as text, as a dict or as a JwkSet"
        check_type(keys, bytes, forms, "jwks=Path('jwks.json').read_bytes()")
        return cls.from_bytes(keys)

    @classmethod
    def _checked(cls, keys: tuple[PublicKey, ...], skipped: tuple[SkippedKey, ...]) -> JwkSet:
        kids = Counter([key.kid for key in keys] + [key.kid for key in skipped if key.kid])
        if twice := [kid for kid, count in kids.items() if count > 1]:
            message = f"two keys have the kid {twice[0]!r}, expected one"
            raise KeyRefused("jwks.duplicate_kid", message, path="/keys")
        refuse_shared_primes(
            key.native.public_numbers().n for key in keys if isinstance(key.native, RSAPublicKey)
        )
        return cls(keys, skipped)

    @property
    def unsupported(self) -> tuple[str, ...]:
        """The kids of the keys that were passed over."""
        return tuple(key.kid for key in self.skipped)

    def find(self, kid: str) -> PublicKey | None:
        """The key that is published as `kid`; whose it is, the kid does not prove."""
        return next((key for key in self.keys if key.kid == kid), None)

    def to_bytes(self) -> bytes:
        """The set as a document: sorted by kid, so that every replica writes the same bytes.

        Skipped keys are left out.
        """
        document = {"keys": [key.jwk() for key in sorted(self.keys, key=lambda key: key.kid)]}
        return json.dumps(document, indent=2).encode("ascii") + b"\n"


def read_jwks(untrusted_bytes: bytes) -> Iterator[Mapping[str, Json]]:
    """Yield the JWKs of a document, none of them checked.

    It is a JWK Set, one JWK, a public key in PEM, or ``{kid: PEM}``, as the samples of A2A publish
    keys.

    Raises:
        KeyRefused: ``jwks.malformed``, or of a PEM as :func:`cardsign.jose.jwk.jwk_of_pem`.
    """
    if len(untrusted_bytes) <= MAX_JWKS_BYTES and untrusted_bytes.lstrip().startswith(b"-----"):
        yield jwk_of_pem(untrusted_bytes)
        return
    try:
        document = parse_object(untrusted_bytes, max_bytes=MAX_JWKS_BYTES)
    except JsonRefused as exc:
        refusal = KeyRefused("jwks.malformed", exc.message)
        refusal.finding = replace(exc.finding, code=refusal.code)
        raise refusal from exc
    if "kty" in document:
        yield document
        return
    jwks = document.get("keys")
    if jwks is None and any("-----BEGIN " in str(pem) for pem in document.values()):
        for kid, pem in document.items():
            try:
                yield {**jwk_of_pem(str(pem).encode()), "kid": kid}
            except KeyRefused as exc:
                # Its own place is within a JWK, which nobody wrote.
                path, hint = pointer(kid), exc.finding.fix
                raise KeyRefused(exc.code, exc.message, path=path, hint=hint) from exc
        return
    if not isinstance(jwks, list):
        message = "`keys` is missing or no list, expected a JWK Set, a JWK, or {kid: PEM}"
        raise KeyRefused("jwks.malformed", message, path="/keys")
    for index, jwk in enumerate(jwks):
        if not isinstance(jwk, dict):
            raise KeyRefused("jwks.malformed", "a key is no object", path=f"/keys/{index}")
        yield jwk


@contextlib.contextmanager
def _in_key(index: int) -> Iterator[None]:
    """Place the refusal of one key inside the set."""
    try:
        yield
    except KeyRefused as exc:
        raise place_below(exc, f"/keys/{index}", KeyRefused) from exc
