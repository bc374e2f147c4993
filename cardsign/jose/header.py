"""The headers of one signature: what they may say, and what makes a signature refused.

The protected header is covered by the signature, the unprotected one by nothing. Neither is
ever asked which key or which rules of verification to use.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from cardsign.card.strictjson import Json, parse_object
from cardsign.errors import JsonRefused, SignatureRefused
from cardsign.jose import base64url
from cardsign.jose.algorithms import Algorithm, VerifyAlg, named
from cardsign.jose.keys import KID_FORM

TYP_JOSE: Final = "JOSE"
TYP_JOSE_JSON: Final = "JOSE+JSON"
TYP_JWT: Final = "JWT"
#: A compat signature: over a lossy payload, for other SDKs only.
TYP_COMPAT: Final = "cardsign-compat+jws"

#: What a card signature's typ makes of it. ``full`` may count; ``jwt`` is what a2a-sdk writes
#: and cannot be told from a token; ``compat`` never counts.
Kind: TypeAlias = Literal["full", "jwt", "compat"]

#: Bytes of the header's JSON. Ours have about 100, as have those of public cards; a signer may
#: add a certificate or two, which count for nothing.
MAX_HEADER_BYTES: Final = 4 * 1024
#: Levels of the header's JSON: a chain inside a JWK inside the header, with room to spare.
MAX_HEADER_DEPTH: Final = 8

# Media types are compared without regard to case (RFC 7515 4.1.9, RFC 2045 5.1).
_KINDS: Final[dict[str, Kind]] = {
    TYP_JOSE.lower(): "full",
    TYP_JOSE_JSON.lower(): "full",
    TYP_JWT.lower(): "jwt",
    TYP_COMPAT.lower(): "compat",
}
# What decides how a signature is checked, or what it means, must itself be signed.
_PROTECTED_ONLY: Final = ("alg", "kid", "typ")


@dataclass(frozen=True, slots=True)
class ProtectedHeader:
    """What a signer says about his signature, in the part that the signature covers.

    Attributes:
        alg: One that was allowed, ``EdDSA`` also where the header says ``Ed25519``; a claim until
            the key confirms it.
        kid: Opaque, 1 to 256 printable ASCII characters.
        typ: Exactly as received; None where absent.
        kind: What `typ` makes of the signature.
        members: The whole header, unknown members included; they carry no weight.
    """

    alg: VerifyAlg
    kid: str
    typ: str | None
    kind: Kind
    members: Mapping[str, Json] = field(hash=False)


def read_protected(untrusted_protected: str, algorithms: Collection[Algorithm]) -> ProtectedHeader:
    """Read a protected header, given as base64url, whose alg is one of `algorithms`.

    Raises:
        SignatureRefused: ``sig.base64url``, ``sig.header``, ``sig.crit``, ``sig.b64``,
            ``sig.alg_forbidden``, ``sig.kid_missing``, ``sig.kid_form``, ``sig.typ_forbidden``.
    """
    members = _read_members(untrusted_protected)
    _refuse_extensions(members, "/protected")
    algorithm = named(members.get("alg"), algorithms)
    if algorithm is None:
        allowed = " or ".join(one.name for one in algorithms)
        raise _refused("sig.alg_forbidden", members, "alg", f"expected {allowed}")
    kid = members.get("kid")
    if kid is None:
        raise _refused("sig.kid_missing", members, "kid", "expected the name of a key")
    if not isinstance(kid, str) or not KID_FORM.fullmatch(kid):
        raise _refused(
            "sig.kid_form", members, "kid", "expected 1 to 256 printable ASCII characters"
        )
    return ProtectedHeader(algorithm.name, kid, *_read_typ(members), members)


def read_unprotected(untrusted_header: Json, protected: ProtectedHeader) -> Mapping[str, Json]:
    """Read an unprotected header, so that it can be mentioned; {} where there is none.

    Raises:
        SignatureRefused: ``sig.shape``; ``sig.crit``; ``sig.b64``; ``sig.header_overlap``: it
            repeats a protected member (RFC 7515 7.2.1), or holds alg, kid or typ.
    """
    if untrusted_header is None:
        return {}
    if not isinstance(untrusted_header, dict):
        raise SignatureRefused("sig.shape", "`header` is no object", path="/header")
    _refuse_extensions(untrusted_header, "/header")
    for name in untrusted_header:
        if name in _PROTECTED_ONLY or name in protected.members:
            raise SignatureRefused(
                "sig.header_overlap",
                f"the unprotected header holds {name!a:.40}, expected only in the protected one",
                path="/header",
            )
    return untrusted_header


def decode_part(text: str, name: str) -> bytes:
    """The bytes of an entry's ``protected`` or ``signature``.

    Raises:
        SignatureRefused: ``sig.base64url``.
    """
    try:
        return base64url.decode(text)
    except base64url.Base64urlError as exc:
        raise SignatureRefused(
            "sig.base64url",
            f"`{name}` is not canonical unpadded base64url: {exc}",
            path=f"/{name}",
        ) from exc


def _read_members(untrusted_protected: str) -> dict[str, Json]:
    text = decode_part(untrusted_protected, "protected")
    try:
        return parse_object(text, max_bytes=MAX_HEADER_BYTES, max_depth=MAX_HEADER_DEPTH)
    except JsonRefused as exc:
        raise SignatureRefused(
            "sig.header",
            f"the protected header is no strict JSON object: {exc.message} ({exc.code})",
            path="/protected",
        ) from exc


def _refuse_extensions(members: dict[str, Json], path: str) -> None:
    """Refuse what would change the rules of verification (RFC 7515 4.1.11, RFC 7797)."""
    for name, code in (("crit", "sig.crit"), ("b64", "sig.b64")):
        if name in members:
            raise SignatureRefused(code, f"a header holds `{name}`, expected none", path=path)


def _read_typ(members: dict[str, Json]) -> tuple[str | None, Kind]:
    if "typ" not in members:
        return None, "full"
    typ = members["typ"]
    if not isinstance(typ, str) or typ.lower() not in _KINDS:
        raise _refused("sig.typ_forbidden", members, "typ", f"expected {TYP_JOSE}")
    return typ, _KINDS[typ.lower()]


def _refused(code: str, members: dict[str, Json], name: str, expectation: str) -> SignatureRefused:
    # Short, and in ASCII whatever the signer wrote.
    shown = f"is {members[name]!a:.40}" if name in members else "is absent"
    return SignatureRefused(
        code, f"`{name}` of the protected header {shown}, {expectation}", path="/protected"
    )
