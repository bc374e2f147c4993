"""Signed statements: the envelope that keyset and release statements share (rules K1, K5, K9).

A statement is a JWS in General JSON Serialization (RFC 7515 7.2.1). Its payload is kept, hashed
and verified as the octets received. Reading proves nothing about a signature; `list_signers` says
whose are good. Nothing here asks a clock or a file, and `docs/spec/statements.md` is the
specification.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Literal, TypeAlias

from cardsign.card.strictjson import object_or_none
from cardsign.card.values import Json, jcs
from cardsign.errors import InputRefused, SignatureRefused
from cardsign.jose import base64url
from cardsign.jose.algorithms import STATEMENT_ALGORITHMS
from cardsign.jose.keys import KID_FORM, PublicKey
from cardsign.times import away, second

Typ: TypeAlias = Literal["cardsign-keyset+jws", "cardsign-release+jws"]
TYP_KEYSET: Final = "cardsign-keyset+jws"
TYP_RELEASE: Final = "cardsign-release+jws"

#: Bytes of a whole statement. One with three roots and ten keys has 5 KiB.
MAX_STATEMENT_BYTES: Final = 64 * 1024
#: Signatures of one statement: 16 holders each of two root sets and of recovery, and some over.
MAX_SIGNATURES: Final = 64
#: Levels of JSON; the deepest member is a key's number, at level 5.
MAX_STATEMENT_DEPTH: Final = 8
#: Bytes of a protected header: a kid that is written in escapes, and the rest.
_MAX_HEADER_BYTES: Final = 2 * 1024


class StatementRefused(InputRefused):
    """A keyset or release statement that is malformed, unsigned, out of order or out of date."""


@dataclass(frozen=True, slots=True)
class StatementSignature:
    """One member of ``signatures``, of which nothing has been verified.

    Attributes:
        kid: Whose it claims to be; it counts only if this is the key's RFC 7638 thumbprint.
        alg: ES256 or RS256.
        protected: base64url, as received.
        value: The signature's bytes.
    """

    kid: str
    alg: str
    protected: str
    value: bytes

    def to_json(self) -> dict[str, Json]:
        """The member as it stands in a statement."""
        return {"protected": self.protected, "signature": base64url.encode(self.value)}


@dataclass(frozen=True, slots=True)
class Envelope:
    """A well-formed statement of which neither payload nor signatures have been looked into.

    Attributes:
        typ: What all of its signatures say the payload is.
        payload: The octets received; these are signed and hashed.
        signatures: At least one.
        digest: SHA-256 of the payload in lower-case hex: the statement's identity.
    """

    typ: Typ
    payload: bytes
    signatures: tuple[StatementSignature, ...]
    digest: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "digest", hashlib.sha256(self.payload).hexdigest())

    def to_bytes(self, *, indent: int | None = None) -> bytes:
        """The statement in its shortest form, or indented."""
        document = {
            "payload": base64url.encode(self.payload),
            "signatures": [signature.to_json() for signature in self.signatures],
        }
        apart = (",", ":") if indent is None else None
        return json.dumps(document, indent=indent, separators=apart).encode("ascii")


def read_envelope(untrusted_bytes: bytes, typ: Typ, *, is_draft: bool = False) -> Envelope:
    """Read the outside of a statement (K1); the payload is only decoded.

    A draft may have no signature yet.

    Raises:
        StatementRefused: ``statement.shape``; ``statement.header``: a protected header is not
            exactly `alg`, `kid`, `typ`; ``statement.typ``: it is not exactly `typ`.
    """
    document = _object(untrusted_bytes, MAX_STATEMENT_BYTES, "statement.shape", "")
    exact_object(document, ("payload", "signatures"), "", code="statement.shape")
    entries, least = document["signatures"], 0 if is_draft else 1
    if not isinstance(entries, list) or not least <= len(entries) <= MAX_SIGNATURES:
        raise StatementRefused(
            "statement.shape", f"expected a list of 1 to {MAX_SIGNATURES}", path="/signatures"
        )
    return Envelope(
        typ,
        _decoded(document["payload"], "/payload"),
        tuple(_signature(entry, typ, f"/signatures/{at}") for at, entry in enumerate(entries)),
    )


def parse_payload(payload: bytes) -> dict[str, Json]:
    """Read a payload, which has to be RFC 8785 (JCS), so that one value has one digest (K2).

    Raises:
        StatementRefused: ``statement.shape`` or ``statement.not_canonical``.
    """
    members = _object(payload, MAX_STATEMENT_BYTES, "statement.shape", "/payload")
    if jcs(members) != payload:
        raise StatementRefused(
            "statement.not_canonical", "the payload is not in RFC 8785 form", path="/payload"
        )
    return members


def list_signers(envelope: Envelope, keys: Iterable[PublicKey]) -> frozenset[str]:
    """Return the thumbprints of those of `keys` that have signed (K5).

    Each signature is verified by itself against the key that it names; a bad one takes nothing
    from a good one. Not checked: whose the keys are, and whether there are enough of them.
    """
    keys_by_name = {key.thumbprint: key for key in keys}
    signers = set[str]()
    for signature in envelope.signatures:
        key = keys_by_name.get(signature.kid)
        if key is not None and signature.alg == key.alg:
            with contextlib.suppress(SignatureRefused):
                key.check(signature.protected, envelope.payload, signature.value)
                signers.add(key.thumbprint)
    return frozenset(signers)


def check_times(iat: int, exp: int, *, now: datetime, skew: timedelta, what: str = "it") -> None:
    """Check ``iat - skew <= now < exp`` (K9); of a chain only the last statement is asked.

    `iat` and `exp` are Unix seconds, `skew` is how far the issuer's clock may be ahead of ours.

    Raises:
        StatementRefused: ``statement.not_yet`` or ``statement.expired``.
    """
    check_past(iat, now, skew, what=what)
    if now.timestamp() >= exp:
        raise StatementRefused(
            "statement.expired",
            f"{what} expired {away(exp, now)} ({second(exp)})",
            path="/exp",
        )


def check_past(iat: int, now: datetime, skew: timedelta, *, what: str = "it") -> None:
    """Check ``iat - skew <= now`` alone: that a statement has been issued already.

    Raises:
        StatementRefused: ``statement.not_yet``.
    """
    if iat - now.timestamp() > skew.total_seconds():
        raise StatementRefused(
            "statement.not_yet",
            f"{what} is issued for {second(iat, now)}",
            path="/iat",
        )


def _object(untrusted_bytes: bytes, max_bytes: int, code: str, path: str) -> dict[str, Json]:
    # Without the place of a fault: who sends two megabytes of them is not to cost a scan of each.
    if len(untrusted_bytes) > max_bytes:
        raise StatementRefused(code, f"expected at most {max_bytes} bytes", path=path)
    members = object_or_none(untrusted_bytes, max_depth=MAX_STATEMENT_DEPTH)
    if members is None:
        expected = f"expected one strict JSON object of at most {MAX_STATEMENT_DEPTH} levels"
        raise StatementRefused(code, expected, path=path)
    return members


def exact_object(
    value: Json, names: tuple[str, ...], path: str, *, code: str = "statement.members"
) -> Mapping[str, Json]:
    """An object with exactly these members."""
    if not isinstance(value, dict) or set(value) != set(names):
        raise StatementRefused(code, f"expected an object of exactly {', '.join(names)}", path=path)
    return value


def _decoded(value: Json, path: str) -> bytes:
    if not isinstance(value, str):
        raise StatementRefused("statement.shape", "expected base64url", path=path)
    try:
        return base64url.decode(value)
    except base64url.Base64urlError as exc:
        raise StatementRefused(
            "statement.shape", f"not canonical unpadded base64url: {exc}", path=path
        ) from exc


def _signature(entry: Json, typ: Typ, path: str) -> StatementSignature:
    members = exact_object(entry, ("protected", "signature"), path, code="statement.shape")
    at_header = f"{path}/protected"
    text = _decoded(members["protected"], at_header)
    header = _object(text, _MAX_HEADER_BYTES, "statement.header", at_header)
    exact_object(header, ("alg", "kid", "typ"), at_header, code="statement.header")
    if header["typ"] != typ:
        raise StatementRefused("statement.typ", f"expected the typ {typ}", path=at_header)
    alg, kid = header["alg"], header["kid"]
    if alg not in STATEMENT_ALGORITHMS:
        raise StatementRefused(
            "statement.header", f"expected {' or '.join(STATEMENT_ALGORITHMS)}", path=at_header
        )
    if not isinstance(kid, str) or not KID_FORM.fullmatch(kid):
        raise StatementRefused("statement.header", "expected a kid in ASCII", path=at_header)
    value = _decoded(members["signature"], f"{path}/signature")
    return StatementSignature(kid, str(alg), str(members["protected"]), value)
