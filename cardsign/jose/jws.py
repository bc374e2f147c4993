"""Detached signatures, one entry of a card's ``signatures`` at a time (RFC 7515, A2A 1.0 8.4).

An entry is read before any key is looked up, and what the reading refuses no key can mend: an
algorithm that is not allowed least of all. ES256 and RS256 are then verified by joserfc, the
others by `cryptography`; which algorithm it is, is said by the key, never by the header.
Nothing that a header says about keys (``jku``, ``jwk``, ``x5u``, ``x5c``) is followed.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, Protocol

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, RSAKey
from joserfc.registry import JWS_HEADER_REGISTRY

from cardsign.card.strictjson import Json
from cardsign.errors import KeyRefused, SignatureRefused, SignerFault, SigningRefused
from cardsign.jose import base64url
from cardsign.jose.algorithms import DEFAULT_ALGORITHMS, choose
from cardsign.jose.header import (
    MAX_HEADER_BYTES,
    TYP_COMPAT,
    TYP_JOSE,
    TYP_JOSE_JSON,
    TYP_JWT,
    Kind,
    ProtectedHeader,
    decode_part,
    read_protected,
    read_unprotected,
)
from cardsign.jose.keys import PublicKey
from cardsign.jose.rsa import MAX_MODULUS_BITS

__all__ = [
    "MAX_EMITTED_HEADER_CHARS",
    "TYP_COMPAT",
    "TYP_JOSE",
    "TYP_JOSE_JSON",
    "TYP_JWT",
    "Entry",
    "Kind",
    "ProtectedHeader",
    "Signer",
    "check_entry",
    "read_entry",
    "sign_payload",
]

#: Characters of base64url. joserfc's own limit, so what we sign beyond it many could not verify.
MAX_EMITTED_HEADER_CHARS: Final = 512

_KEY_MEMBERS: Final = ("jku", "jwk", "x5c", "x5u")


@dataclass(frozen=True, slots=True)
class Entry:
    """A well-formed signature, by an algorithm that is allowed; nothing has been verified.

    Attributes:
        protected: base64url, as received: these characters are signed.
        signature: base64url, as received.
        header: What `protected` holds.
        ignored_keys: The members of either header that offer a key or say where to get one.
    """

    protected: str
    signature: str
    header: ProtectedHeader
    ignored_keys: tuple[str, ...] = ()


class Signer(Protocol):
    """Whatever holds a private half: this process, a token, a service."""

    @property
    def public(self) -> PublicKey:
        """The public half, known beforehand and not asked of what signs."""
        ...

    def sign(self, signing_input: bytes) -> bytes:
        """Sign ``protected.payload``: ES256 gives r and s, 32 bytes each; RS256 PKCS #1 v1.5."""
        ...


def _registry(alg: str) -> jws.JWSRegistry:
    registry = jws.JWSRegistry(algorithms=[alg], strict_check_header=False)
    # `read_entry` has checked the header. joserfc must neither take offence at a `jku` that
    # counts for nothing, nor refuse for its size what is within our limits.
    registry.header_registry = {name: JWS_HEADER_REGISTRY[name] for name in ("alg", "kid", "typ")}
    registry.max_header_length = base64url.encoded_length(MAX_HEADER_BYTES)
    registry.max_signature_length = base64url.encoded_length(MAX_MODULUS_BITS // 8)
    return registry


_REGISTRIES: Final = {alg: _registry(alg) for alg in DEFAULT_ALGORITHMS}


def read_entry(untrusted_entry: Json, *, algorithms: Collection[str] = DEFAULT_ALGORITHMS) -> Entry:
    """Read one member of a card's ``signatures`` (RFC 7515 7.2.1, A2A 1.0 8.4.2).

    Of the entry, members besides ``protected``, ``signature`` and ``header`` are not read;
    of the protected header, unknown ones are kept and carry no weight (RFC 7515 4).

    Args:
        untrusted_entry: The member.
        algorithms: Names of those that the policy accepts. An entry by any other is refused
            here, so that no key, whatever it is for, can verify it.

    Raises:
        UsageFault: ``usage.conflict``: an algorithm that nobody may accept, or none at all.
        SignatureRefused: ``sig.shape``; ``sig.base64url``; ``sig.header``; ``sig.crit``;
            ``sig.b64``; ``sig.header_overlap``; ``sig.alg_forbidden``; ``sig.kid_missing``;
            ``sig.kid_form``; ``sig.typ_forbidden``. ``path`` is a JSON pointer into the entry.
    """
    allowed = choose(algorithms)
    if not isinstance(untrusted_entry, dict):
        raise SignatureRefused("sig.shape", "the entry is no object")
    protected = _text(untrusted_entry, "protected")
    signature = _text(untrusted_entry, "signature")
    decode_part(signature, "signature")
    header = read_protected(protected, allowed)
    unprotected = read_unprotected(untrusted_entry.get("header"), header)
    return Entry(
        protected,
        signature,
        header,
        tuple(name for name in _KEY_MEMBERS if name in header.members or name in unprotected),
    )


def check_entry(entry: Entry, payload: bytes, key: PublicKey) -> None:
    """Check that `key` made this signature over `payload` (RFC 7515 5.2, detached).

    Not checked: that the entry's kid is the key's, whose the key is, and what the typ means.

    Args:
        entry: From :func:`read_entry`, which has seen to it that its algorithm is allowed.
        payload: The bytes that a profile gives, before base64url.
        key: The one key to try; its algorithm is the one used.

    Raises:
        SignatureRefused: ``key.alg_mismatch`` or ``sig.bad``.
    """
    if entry.header.alg != key.alg:
        raise SignatureRefused(
            "key.alg_mismatch",
            f"the header says {entry.header.alg}, the key is for {key.alg}",
            path="/protected",
        )
    signature = decode_part(entry.signature, "signature")
    if (jose_key := _jose_key(key)) is None:
        key.check(_signing_input(entry.protected, payload), signature)
        return
    key.check_length(signature)
    detached = f"{entry.protected}..{entry.signature}"
    registry = _REGISTRIES[key.alg]
    try:
        jws.deserialize_compact(detached, jose_key, registry=registry, payload=payload)
    except (JoseError, ValueError, TypeError) as exc:
        raise SignatureRefused(
            "sig.bad", "the signature does not fit this payload and this key", path="/signature"
        ) from exc


def sign_payload(payload: bytes, signer: Signer, *, typ: str) -> dict[str, str]:
    """Sign `payload`; returned is what goes into ``signatures`` (A2A 1.0 8.4.2).

    The protected header is exactly ``alg``, ``kid`` and ``typ``. The signature is verified
    with the key that the signer was known by beforehand.

    Args:
        payload: The bytes that a profile gives, before base64url.
        signer: Holds the private half of a key for ES256 or RS256.
        typ: What the payload is; each kind of document has its own.

    Raises:
        KeyRefused: ``key.unsupported``: the key is for an algorithm that we only verify.
        SigningRefused: ``sign.header_too_long``.
        SignerFault: ``signer.wrong_key``, or what the signer itself raises.
    """
    key = signer.public
    if key.alg not in DEFAULT_ALGORITHMS:
        raise KeyRefused(
            "key.unsupported",
            f"the key {key.kid!r} is for {key.alg}, expected {' or '.join(DEFAULT_ALGORITHMS)}",
            path="/alg",
        )
    header = {"alg": key.alg, "kid": key.kid, "typ": typ}
    text = json.dumps(header, sort_keys=True, separators=(",", ":"))
    protected = base64url.encode(text.encode("ascii"))
    if len(protected) > MAX_EMITTED_HEADER_CHARS:
        raise SigningRefused(
            "sign.header_too_long",
            f"the protected header would have {len(protected)} characters, "
            f"expected at most {MAX_EMITTED_HEADER_CHARS}",
            path="/kid",
        )
    signing_input = _signing_input(protected, payload)
    signature = signer.sign(signing_input)
    try:
        key.check(signing_input, signature)
    except SignatureRefused as exc:
        raise SignerFault("signer.wrong_key", f"with the key {key.kid!r}: {exc.message}") from exc
    return {"protected": protected, "signature": base64url.encode(signature)}


def _text(untrusted_entry: dict[str, Json], name: str) -> str:
    value = untrusted_entry.get(name)
    if not isinstance(value, str):
        raise SignatureRefused("sig.shape", f"`{name}` is missing or no string", path=f"/{name}")
    return value


def _signing_input(protected: str, payload: bytes) -> bytes:
    return f"{protected}.{base64url.encode(payload)}".encode("ascii")


def _jose_key(key: PublicKey) -> ECKey | RSAKey | None:
    """The key for joserfc, or None where it is not asked: it warns of EdDSA (RFC 9864)."""
    match key.alg, key.native:
        case "ES256", EllipticCurvePublicKey() as native:
            return ECKey.import_key(native)
        case "RS256", RSAPublicKey() as native:
            return RSAKey.import_key(native)
    return None
