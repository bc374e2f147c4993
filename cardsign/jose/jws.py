"""Detached signatures, one entry of a card's ``signatures`` at a time (RFC 7515, A2A 1.0 8.4); and
the signed tokens of those who call a server.

An entry is read before any key is looked up, and what the reading refuses, no key can make good: an
algorithm that is not allowed least of all. Which algorithm verifies it is said by the key, never
by the header. Nothing that a header says about keys (``jku``, ``jwk``, ``x5u``, ``x5c``) is
followed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol, TypeAlias

from joserfc.errors import JoseError

from cardsign.card.strictjson import parse_object
from cardsign.card.values import Json
from cardsign.errors import JsonRefused, KeyRefused, SignatureRefused, SigningRefused
from cardsign.jose.jwk import (
    ALGORITHMS,
    SIGNING_ALGORITHMS,
    VerifyAlg,
    decode_base64url,
    encode_base64url,
    named,
)
from cardsign.jose.keys import KID_FORM, MAX_HEADER_BYTES, PrivateKey, PublicKey, check_answer

# The headers of one signature: what they may say, and what makes a signature refused.


TYP_JOSE: Final = "JOSE"
#: A compat signature: over a lossy payload, for other SDKs only.
TYP_COMPAT: Final = "cardsign-compat+jws"

#: What a card signature's typ makes of it. ``full`` may count; ``jwt`` is what a2a-sdk writes, and
#: may count for a card with none of a token's claims; ``compat`` never counts.
EntryKind: TypeAlias = Literal["full", "jwt", "compat"]

#: Levels of the header's JSON: a chain inside a JWK inside the header, with room to spare.
MAX_HEADER_DEPTH: Final = 8

# Media types are compared without regard to case (RFC 7515 4.1.9, RFC 2045 5.1).
_KINDS: Final[dict[str, EntryKind]] = {
    "jose": "full",
    "jose+json": "full",
    "jwt": "jwt",
    TYP_COMPAT: "compat",
}
_PROTECTED_ONLY: Final = ("alg", "kid", "typ")
#: What no unprotected header holds that we write: of the last two, texts are no form.
NEVER_UNPROTECTED: Final = (*_PROTECTED_ONLY, "crit", "b64", "jwk", "x5c")


@dataclass(frozen=True, slots=True)
class Entry:
    """A well-formed signature of a card or statement, by an algorithm that is allowed.

    Nothing has been verified.

    Attributes:
        protected: The protected header, base64url, as received: these characters are signed.
        signature: Its bytes.
        alg: One that was allowed, ``EdDSA`` also where the header says ``Ed25519``; a claim until
            the key confirms it.
        kid: Opaque, 1 to 256 printable ASCII characters.
        typ: Exactly as received; None where absent.
        kind: What `typ` makes of the signature.
        members: The whole protected header, unknown members included; they carry no weight.
    """

    protected: str
    signature: bytes
    alg: VerifyAlg
    kid: str
    typ: str | None
    kind: EntryKind
    members: Mapping[str, Json] = field(hash=False)

    def to_json(self) -> dict[str, Json]:
        """Return the member of ``signatures`` without an unprotected header."""
        return {"protected": self.protected, "signature": encode_base64url(self.signature)}


def read_signer(members: dict[str, Json], algorithms: Collection[str]) -> tuple[VerifyAlg, str]:
    """Return the alg, which is one of those accepted, and the kid of a protected header.

    Raises:
        SignatureRefused: ``sig.crit``; ``sig.b64``; ``sig.alg_forbidden``; ``sig.kid_missing``;
            ``sig.kid_form``.
    """
    _refuse_extensions(members, "/protected")
    alg, kid = named(members.get("alg"), algorithms), members.get("kid")
    if alg is None:
        raise _refused("sig.alg_forbidden", members, "alg", f"one of {', '.join(algorithms)}")
    if kid is None:
        raise _refused("sig.kid_missing", members, "kid", "the name of a key")
    if not isinstance(kid, str) or not KID_FORM.fullmatch(kid):
        raise _refused("sig.kid_form", members, "kid", "1 to 256 printable ASCII characters")
    return alg, kid


def decode_part(text: str, name: str) -> bytes:
    """Return the bytes of an entry's ``protected`` or ``signature``.

    Raises:
        SignatureRefused: ``sig.base64url``.
    """
    try:
        return decode_base64url(text)
    except ValueError as exc:
        message = f"`{name}` is not canonical unpadded base64url"
        raise SignatureRefused("sig.base64url", message, path=f"/{name}") from exc


def header_members(untrusted_protected: str) -> dict[str, Json]:
    """Return what a protected header holds, whatever that says.

    Raises:
        SignatureRefused: ``sig.base64url``, ``sig.header``.
    """
    text = decode_part(untrusted_protected, "protected")
    try:
        return parse_object(text, max_bytes=MAX_HEADER_BYTES, max_depth=MAX_HEADER_DEPTH)
    except JsonRefused as exc:
        message = f"the protected header is not a strict JSON object: {exc.message} ({exc.code})"
        raise SignatureRefused("sig.header", message, path="/protected") from exc


def _refuse_extensions(members: dict[str, Json], path: str) -> None:
    """Refuse what would change the rules of verification (RFC 7515 4.1.11, RFC 7797)."""
    for name, code in (("crit", "sig.crit"), ("b64", "sig.b64")):
        if name in members:
            raise SignatureRefused(code, f"a header holds `{name}`, expected none", path=path)


def _refused(code: str, members: Mapping[str, Json], name: str, expected: str) -> SignatureRefused:
    # Short, and in ASCII whatever the signer wrote.
    shown = f"is {members[name]!a:.40}" if name in members else "is absent"
    message = f"`{name}` of the protected header {shown}, expected {expected}"
    return SignatureRefused(code, message, path="/protected")


#: Characters of base64url. joserfc's own limit, so what we sign beyond it many could not verify.
MAX_EMITTED_HEADER_CHARS: Final = 512
_HEADERS: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


class Signer(Protocol):
    """Something that signs with a private key: this process, a token, a key service."""

    @property
    def public(self) -> PublicKey:
        """The public key, known beforehand; the signer is not asked for it."""
        ...

    def sign(self, signing_input: bytes) -> bytes:
        """Sign ``protected.payload``: ES256 gives r and s, 32 bytes each; RS256 PKCS #1 v1.5;
        EdDSA R and S."""
        ...


def read_entry(untrusted_entry: Json, *, algorithms: Collection[str] = tuple(ALGORITHMS)) -> Entry:
    """Read one member of a card's ``signatures`` (RFC 7515 7.2.1, A2A 1.0 8.4.2).

    Of the entry, members besides ``protected``, ``signature`` and ``header`` are not read;
    of the protected header, unknown ones are kept and carry no weight (RFC 7515 4).

    Args:
        untrusted_entry: The member.
        algorithms: Names of those that the policy accepts. An entry by any other is refused
            here, so that no key, whatever it is for, can verify it.

    Raises:
        SignatureRefused: ``sig.shape``; ``sig.base64url``; ``sig.header``; ``sig.crit``;
            ``sig.b64``; ``sig.header_overlap``; ``sig.alg_forbidden``; ``sig.kid_missing``;
            ``sig.kid_form``; ``sig.typ_forbidden``. ``path`` is a JSON pointer into the entry.
    """
    if not isinstance(untrusted_entry, dict):
        raise SignatureRefused("sig.shape", "the entry is not an object")
    for name in ("protected", "signature"):
        if not isinstance(untrusted_entry.get(name), str):
            message = f"`{name}` is missing or not a string"
            raise SignatureRefused("sig.shape", message, path=f"/{name}")
    protected = str(untrusted_entry["protected"])
    signature = decode_part(str(untrusted_entry["signature"]), "signature")
    members = header_members(protected)
    alg, kid = read_signer(members, algorithms)
    typ = members.get("typ", TYP_JOSE)
    if not isinstance(typ, str) or typ.lower() not in _KINDS:
        raise _refused("sig.typ_forbidden", members, "typ", TYP_JOSE)
    if (unprotected := untrusted_entry.get("header")) is not None:
        if not isinstance(unprotected, dict):
            raise SignatureRefused("sig.shape", "`header` is not an object", path="/header")
        _refuse_extensions(unprotected, "/header")
        # What decides how a signature is checked, or what it means, must itself be signed.
        if repeated := {*_PROTECTED_ONLY, *members} & unprotected.keys():
            message = f"the unprotected header holds {min(repeated)!a:.40}, which must be protected"
            raise SignatureRefused("sig.header_overlap", message, path="/header")
    typed = typ if "typ" in members else None
    return Entry(protected, signature, alg, kid, typed, _KINDS[typ.lower()], members)


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
    if entry.alg != key.alg:
        message = f"the header says {entry.alg}, the key is for {key.alg}"
        raise SignatureRefused("key.alg_mismatch", message, path="/protected")
    key.check(entry.protected, payload, entry.signature)


def sign_payload(
    payload: bytes,
    signer: Signer,
    *,
    typ: str,
    kid: str | None = None,
    will_verify: bool = False,
) -> dict[str, str]:
    """Sign `payload`; returned is what goes into ``signatures`` (A2A 1.0 8.4.2).

    The protected header is exactly ``alg``, ``kid`` and ``typ``. The signature is verified with
    the key that the signer was known by beforehand.

    Args:
        payload: The bytes that a profile gives, before base64url.
        signer: Holds a private key for ES256, RS256 or EdDSA.
        typ: What the payload is; each kind of document has its own.
        kid: What the header calls the key; by default as it is published.
        will_verify: The caller verifies this very signature before anybody gets it. Then only
            what a signer outside of this process answers is verified here.

    Raises:
        KeyRefused: ``key.unsupported``: the key is for an algorithm that we only verify.
        SigningRefused: ``sign.header_too_long``.
        SignerFault: ``signer.wrong_key``, or what the signer itself raises.
    """
    key = signer.public
    if key.alg not in SIGNING_ALGORITHMS:
        message = (
            f"the key {key.kid!r} is for {key.alg}, expected {' or '.join(SIGNING_ALGORITHMS)}"
        )
        raise KeyRefused("key.unsupported", message, path="/alg")
    header = {"alg": key.alg, "kid": kid or key.kid, "typ": typ}
    protected = encode_base64url(_HEADERS.encode(header).encode("ascii"))
    size = len(protected)
    if size > MAX_EMITTED_HEADER_CHARS:
        message = f"the header has {size} characters, expected at most {MAX_EMITTED_HEADER_CHARS}"
        raise SigningRefused("sign.header_too_long", message, path="/kid")
    signing_input = f"{protected}.{encode_base64url(payload)}".encode("ascii")
    signature = signer.sign(signing_input)
    if not (will_verify and type(signer) is PrivateKey):
        check_answer(key, signing_input, signature)
    return {"protected": protected, "signature": encode_base64url(signature)}


# Signed tokens (RFC 7519) of other issuers: the signature, and the claims that bound them. The keys
# are held to our own rules, and the token has to name one of them. Nothing in a token chooses an
# algorithm that its key is not for, and no ``crit``, ``jku`` or embedded key is followed.


MAX_TOKEN_CHARS: Final = 16 * 1024  # common servers take no longer header
LEEWAY: Final = 60  # seconds by which clocks may differ (RFC 7519 4.1.4: "a few minutes")


def read_token(
    untrusted_token: str, find: Callable[[str], PublicKey | None], *, types: Collection[str] = ()
) -> dict[str, Json]:
    """Return the claims of a token that one of the keys signed; the claims are not checked.

    Args:
        untrusted_token: In the compact form.
        find: The issuer's key of a kid. It is called once, for a header that is in order: it may
            ask the issuer.
        types: The values of ``typ`` that will do, in lower case without ``application/``; any
            if empty. It keeps a token of one kind from passing for another (RFC 8725 3.11).

    Raises:
        ValueError: It is no signed token, or not one by a key of the issuer. The message holds
            nothing of it.
    """
    parts = untrusted_token.split(".")
    if len(parts) != 3 or len(untrusted_token) > MAX_TOKEN_CHARS:
        raise ValueError("this is not a signed token of three parts")
    protected, payload, signature = parts
    try:
        header = header_members(protected)
        alg, kid = read_signer(header, ALGORITHMS)
        if types and str(header.get("typ", "")).lower().removeprefix("application/") not in types:
            raise ValueError(f"`typ` is none of {', '.join(sorted(types))}")
        data = decode_part(payload, "payload")
        claims = parse_object(data, max_bytes=MAX_TOKEN_CHARS)
        key = find(kid)
        if key is None or key.alg != alg:
            raise ValueError("the token names no key of its issuer for its algorithm")
        key.check(protected, data, decode_part(signature, "signature"))
    except (JsonRefused, SignatureRefused) as exc:
        raise ValueError(f"header, claims or signature are refused ({exc.code})") from exc
    return claims


def check_claims(claims: Mapping[str, Json], *, issuer: str, audience: str, now: float) -> None:
    """Check by whom a token is, for whom, and when (RFC 7519 4.1, RFC 9068 4).

    Raises:
        ValueError: It is another issuer's, for another audience, or not of now.
    """
    from joserfc.jwt import JWTClaimsRegistry  # only who takes tokens needs it

    registry = JWTClaimsRegistry(
        now=lambda: int(now),
        leeway=LEEWAY,
        iss={"essential": True, "value": issuer},
        aud={"essential": True, "value": audience},
        exp={"essential": True},
    )
    try:
        registry.validate({**claims})
    except JoseError as exc:
        raise ValueError(f"the token is not for this: {exc}") from exc
