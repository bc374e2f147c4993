"""Signed statements: the envelope that keyset and release statements share (rules K1, K5, K9).

A statement is a JWS in General JSON Serialization (RFC 7515 7.2.1). Its payload is kept, hashed
and verified as the octets received. Reading proves nothing about a signature; `list_signers` says
whose are good. Nothing here asks a clock or a file, and `docs/spec/statements.md` is the
specification.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, Literal, TypeAlias

from cardsign.card.strictjson import MAX_INTEGER, object_or_none
from cardsign.card.values import Json, jcs
from cardsign.errors import CardRefused, InputRefused, KeyRefused, SignatureRefused, SigningRefused
from cardsign.jose.jwk import STATEMENT_ALGORITHMS, decode_base64url, encode_base64url, named
from cardsign.jose.jws import Entry, Signer, sign_payload
from cardsign.jose.keys import KID_FORM, PublicKey
from cardsign.times import MAX_TIME, away, second
from cardsign.urls import parse_origin, parse_url

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
class Envelope:
    """A well-formed statement of which neither payload nor signatures have been looked into.

    Attributes:
        typ: What all of its signatures say the payload is.
        payload: The octets received; these are signed and hashed.
        signatures: At least one; a kid counts only if it is the RFC 7638 thumbprint of its key.
        digest: SHA-256 of the payload in lower-case hex: the statement's identity.
    """

    typ: Typ
    payload: bytes
    signatures: tuple[Entry, ...]
    digest: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "digest", hashlib.sha256(self.payload).hexdigest())

    def to_bytes(self, *, indent: int | None = None) -> bytes:
        """Return the statement in its shortest form, or indented."""
        document = {
            "payload": encode_base64url(self.payload),
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
        raise refused("/signatures", f"a list of 1 to {MAX_SIGNATURES}", "statement.shape")
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
        raise refused("/payload", "a payload in RFC 8785 form", "statement.not_canonical")
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
                key.check(signature.protected, envelope.payload, signature.signature)
                signers.add(key.thumbprint)
    return frozenset(signers)


def sign_envelope(envelope: Envelope, signers: Iterable[Signer]) -> bytes:
    """Sign a payload with each signer once, and return the statement as a file.

    Signatures under other keys are kept and not verified, as their keys are not known here.
    """
    asked = tuple(signers)
    if not asked and not envelope.signatures:
        raise SigningRefused("sign.no_key", "a statement needs at least one signer")
    for key in (signer.public for signer in asked):
        if key.alg not in STATEMENT_ALGORITHMS:  # what signs cards may sign by more (E11)
            message = f"the key {key.kid!r} is for {key.alg}, expected "
            message += f"{' or '.join(STATEMENT_ALGORITHMS)} to sign a statement"
            raise KeyRefused("key.unsupported", message, path="/alg")
    payload, typ = envelope.payload, envelope.typ
    new = {signer.public.thumbprint for signer in asked}
    entries: list[Mapping[str, object]] = [
        signature.to_json() for signature in envelope.signatures if signature.kid not in new
    ]
    entries += [
        sign_payload(payload, signer, typ=typ, kid=signer.public.thumbprint) for signer in asked
    ]
    document = {"payload": encode_base64url(payload), "signatures": entries}
    data = json.dumps(document, indent=2).encode("ascii") + b"\n"
    read_envelope(data, typ)  # what we write, everybody can read
    return data


def check_times(iat: int, exp: int, *, now: datetime, skew: timedelta, name: str = "it") -> None:
    """Check ``iat - skew <= now < exp`` (K9); of a chain only the last statement is asked.

    `iat` and `exp` are Unix seconds, `skew` is how far the issuer's clock may be ahead of ours.

    Raises:
        StatementRefused: ``statement.not_yet`` or ``statement.expired``.
    """
    check_past(iat, now, skew, name=name)
    if now.timestamp() >= exp:
        message = f"{name} expired {away(exp, now)} ({second(exp)})"
        raise StatementRefused("statement.expired", message, path="/exp")


def check_past(iat: int, now: datetime, skew: timedelta, *, name: str = "it") -> None:
    """Check ``iat - skew <= now`` alone: that a statement has been issued already.

    Raises:
        StatementRefused: ``statement.not_yet``.
    """
    if iat - now.timestamp() > skew.total_seconds():
        message = f"{name} is issued for {second(iat, now)}"
        raise StatementRefused("statement.not_yet", message, path="/iat")


def _object(untrusted_bytes: bytes, max_bytes: int, code: str, path: str) -> dict[str, Json]:
    # Without the place of a fault: two megabytes of them must not cost a scan of each.
    if len(untrusted_bytes) > max_bytes:
        raise refused(path, f"at most {max_bytes} bytes", code)
    members = object_or_none(untrusted_bytes, max_depth=MAX_STATEMENT_DEPTH)
    if members is None:
        expected = f"one strict JSON object of at most {MAX_STATEMENT_DEPTH} levels"
        raise refused(path, expected, code)
    return members


def exact_object(
    value: Json, names: tuple[str, ...], path: str, *, code: str = "statement.members"
) -> Mapping[str, Json]:
    """Return an object that has exactly these members."""
    if not isinstance(value, dict) or set(value) != set(names):
        raise refused(path, f"an object of exactly {', '.join(names)}", code)
    return value


def _decoded(value: Json, path: str) -> bytes:
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            return decode_base64url(value)
    raise refused(path, "canonical unpadded base64url", "statement.shape")


def _signature(entry: Json, typ: Typ, path: str) -> Entry:
    members = exact_object(entry, ("protected", "signature"), path, code="statement.shape")
    at_header = f"{path}/protected"
    text = _decoded(members["protected"], at_header)
    header = _object(text, _MAX_HEADER_BYTES, "statement.header", at_header)
    exact_object(header, ("alg", "kid", "typ"), at_header, code="statement.header")
    if header["typ"] != typ:
        raise refused(at_header, f"the typ {typ}", "statement.typ")
    alg, kid = named(header["alg"], STATEMENT_ALGORITHMS), header["kid"]
    if alg is None:
        raise refused(at_header, " or ".join(STATEMENT_ALGORITHMS), "statement.header")
    if not isinstance(kid, str) or not KID_FORM.fullmatch(kid):
        raise refused(at_header, "a kid in ASCII", "statement.header")
    value = _decoded(members["signature"], f"{path}/signature")
    return Entry(str(members["protected"]), value, alg, kid, typ, "full", header)


# Strict readers of a statement's members: the right type in the one right form, or a refusal.
# Times are whole seconds since 1970 UTC, as in JWT (RFC 7519 2, without fractions): an integer has
# one spelling in RFC 8785, no zone, and is compared without a parser. Digests are SHA-256 in
# lower-case hex, which `sha256sum` prints; thumbprints are base64url, as RFC 7638 writes them.

DAY: Final = 24 * 60 * 60  # seconds

ISSUER: Final = re.compile(r"[\x21-\x7e]{1,256}")
#: Lower case alone: "Ann" and "ann" must not count as two persons.
HOLDER: Final = re.compile(r"[a-z0-9][a-z0-9._@-]{0,63}")
DIGEST: Final = re.compile(r"[0-9a-f]{64}")
#: 32 bytes of base64url; of the last character two bits must be zero.
THUMBPRINT: Final = re.compile(r"[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]")


def refused(path: str, expected: str, code: str = "statement.members") -> StatementRefused:
    """Return the refusal of what stands at a path, by what should stand there."""
    return StatementRefused(code, f"expected {expected}", path=path)


def items(value: Json, path: str) -> list[tuple[Json, str]]:
    """Return the elements of a list, each with its path."""
    if not isinstance(value, list):
        raise refused(path, "a list")
    return [(item, f"{path}/{index}") for index, item in enumerate(value)]


def text(value: Json, form: re.Pattern[str], path: str, expected: str) -> str:
    """Return a string of this form."""
    if not isinstance(value, str) or not form.fullmatch(value):
        raise refused(path, expected)
    return value


def origin(value: Json, path: str) -> str:
    """Return an origin in its one spelling."""
    expected = "an origin such as https://agents.example, in its one spelling"
    return one_spelling(value, lambda text: str(parse_origin(text)), path, expected)


def url(value: Json, path: str, expected: str) -> str:
    """Return a URL without query and fragment, in its one spelling."""
    return one_spelling(
        value,
        lambda text: str(replace(parse_url(text), query="")),
        path,
        f"{expected}, without query",
    )


def one_spelling(value: Json, spelt: Callable[[str], str], path: str, expected: str) -> str:
    """Return a text that `spelt` leaves as it is; CardRefused says that it cannot read it."""
    if isinstance(value, str):
        with contextlib.suppress(CardRefused):
            if spelt(value) == value:
                return value
    raise refused(path, expected)


def integer(value: Json, path: str, *, least: int = 1, most: int = MAX_INTEGER) -> int:
    """Return a whole number from `least` to `most`; true and 1.0 are none."""
    if type(value) is not int or not least <= value <= most:
        raise refused(path, f"a whole number from {least} to {most}")
    return value


def digest(value: Json, path: str) -> str:
    """Return a SHA-256 digest."""
    return text(value, DIGEST, path, "a SHA-256 digest in lower-case hex")


def issuer(value: Json) -> str:
    """Read whose statement it is: a name that is compared and never looked up."""
    return text(value, ISSUER, "/issuer", "1 to 256 visible ASCII characters")


def document(members: Json, form: str, names: tuple[str, ...]) -> Mapping[str, Json]:
    """Return a document of ours, once its format and the names of its members are checked.

    Raises:
        StatementRefused: ``statement.format``, also for that of a newer cardsign;
            ``statement.members``.
    """
    if not isinstance(members, dict) or members.get("format") != form:
        raise refused("/format", form, "statement.format")
    return exact_object(members, names, "")


def span(
    members: Mapping[str, Json], names: tuple[str, str], path: str, *, most: int = MAX_TIME
) -> tuple[int, int]:
    """Read two times, of which the second is later by at most so many seconds (K9)."""
    start, end = (integer(members[name], f"{path}/{name}", most=MAX_TIME) for name in names)
    if not 0 < end - start <= most:
        expected = f"{names[1]} after {names[0]}, by at most {most // DAY} days"
        raise refused(f"{path}/{names[1]}", expected, "statement.time_span")
    return start, end


def revoked(value: Json) -> frozenset[str]:
    """Return the thumbprints of revoked keys; they ascend, so that a set has one spelling."""
    thumbprints = [
        text(item, THUMBPRINT, at, "an RFC 7638 thumbprint")
        for item, at in items(value, "/revoked")
    ]
    if any(first >= right for first, right in itertools.pairwise(thumbprints)):
        raise refused("/revoked", "thumbprints in ascending order, each once")
    return frozenset(thumbprints)


def public_key(
    value: Json, path: str, *, algorithms: Collection[str] = STATEMENT_ALGORITHMS
) -> PublicKey:
    """Return the key of a public JWK that has minimal numbers, kid, use and alg alone (K4).

    What signs statements is for ES256 or RS256.
    """
    if not isinstance(value, dict):
        raise refused(path, "a public JWK", "statement.bad_key")
    try:
        key = PublicKey.from_jwk(value, algorithms=algorithms)
    except KeyRefused as exc:
        raise StatementRefused(
            "statement.bad_key", f"{exc.message} ({exc.code})", path=path + exc.path
        ) from exc
    if key.jwk() != value:
        raise refused(path, f"exactly the members {', '.join(key.jwk())}", "statement.bad_key")
    return key
