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
from dataclasses import dataclass, field, fields, is_dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, Literal, TypeAlias

from cardsign.card.strictjson import MAX_INTEGER, object_or_none
from cardsign.card.values import Json, jcs
from cardsign.errors import CardRefused, InputRefused, KeyRefused, SignatureRefused, SigningRefused
from cardsign.jose.jwk import STATEMENT_ALGORITHMS, decode_base64url, encode_base64url, named
from cardsign.jose.jws import Entry, Signer, sign_payload
from cardsign.jose.keys import KID_FORM, PublicKey
from cardsign.times import MAX_TIME, away, second
from cardsign.urls import parse_origin, parse_url

#: What reads a value at a path, and what reads each member of an object.
Reader: TypeAlias = Callable[[Json, str], Any]
Readers: TypeAlias = Mapping[str, Reader]
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
        """Return the statement in its shortest form, or indented as a file."""
        document = {
            "payload": encode_base64url(self.payload),
            "signatures": [signature.to_json() for signature in self.signatures],
        }
        apart, end = ((",", ":"), "") if indent is None else (None, "\n")
        return (json.dumps(document, indent=indent, separators=apart) + end).encode("ascii")


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


def parse_payload(payload: bytes, form: str, readers: Readers) -> dict[str, Any]:
    """Read a payload of a format, which has to be RFC 8785 (JCS): one value, one digest (K2).

    Raises:
        StatementRefused: ``statement.shape``; ``statement.not_canonical``; as :func:`document`.
    """
    members = _object(payload, MAX_STATEMENT_BYTES, "statement.shape", "/payload")
    if jcs(members) != payload:
        raise refused("/payload", "a payload in RFC 8785 form", "statement.not_canonical")
    return document(members, form, readers)


def write_payload(statement: object, form: str, readers: Readers) -> bytes:
    """Return the payload that :func:`parse_payload` reads as the members of this statement."""
    return jcs({"format": form} | {name: to_json(getattr(statement, name)) for name in readers})


def to_json(part: object) -> Any:
    """Return a part of a statement as a payload has it: a dataclass by the names of its fields."""
    match part:
        case PublicKey():
            return part.jwk()
        case frozenset():
            return sorted(part)
        case tuple():
            return [to_json(item) for item in part]
        case Mapping():
            return dict(part)
    if is_dataclass(part):
        return {entry.name: to_json(getattr(part, entry.name)) for entry in fields(part)}
    return part


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
    kept = (signature for signature in envelope.signatures if signature.kid not in new)
    added = [
        sign_payload(payload, signer, typ=typ, kid=signer.public.thumbprint) for signer in asked
    ]
    signatures = (*kept, *(_signature(dict(entry), typ, "/signatures") for entry in added))
    data = replace(envelope, signatures=signatures).to_bytes(indent=2)
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
        raise refused(path, f"one strict JSON object of at most {MAX_STATEMENT_DEPTH} levels", code)
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


# Strict readers of a statement's members: each takes a value and its path, and returns the right
# type in the one right form, or refuses. Times are whole seconds since 1970 UTC, as in JWT (RFC
# 7519 2, without fractions): an integer has one spelling in RFC 8785, no zone, and is compared
# without a parser. Digests are SHA-256 in lower-case hex, which `sha256sum` prints; thumbprints are
# base64url, as RFC 7638 writes them.

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


def document(members: Json, form: str, readers: Readers) -> dict[str, Any]:
    """Return the members of a document of ours, once its format is checked.

    Raises:
        StatementRefused: ``statement.format``, also for that of a newer cardsign;
            ``statement.members``, and as the readers.
    """
    if not isinstance(members, dict) or members.get("format") != form:
        raise refused("/format", form, "statement.format")
    exact_object(members, ("format", *readers), "")
    return record({name: members[name] for name in members if name != "format"}, "", readers)


def record(
    value: Json, path: str, readers: Readers, *, may_lack: Collection[str] = ()
) -> dict[str, Any]:
    """Return an object that has exactly these members, each as its reader returns it.

    Those that it `may_lack` are not among the members returned where they are absent.
    """
    present = value if isinstance(value, dict) else {}
    names = tuple(name for name in readers if name in present or name not in may_lack)
    members = exact_object(value, names, path)
    return {name: readers[name](members[name], f"{path}/{name}") for name in names}


def listed(read: Reader, value: Json, path: str) -> tuple[Any, ...]:
    """Return the elements of a list, each as its reader returns it."""
    if not isinstance(value, list):
        raise refused(path, "a list")
    return tuple(read(item, f"{path}/{index}") for index, item in enumerate(value))


def optional(read: Reader, value: Json, path: str) -> Any:
    """Return what may be null, and else is as its reader returns it."""
    return None if value is None else read(value, path)


def text(value: Json, path: str, *, form: re.Pattern[str], expected: str) -> str:
    """Return a string of this form."""
    if not isinstance(value, str) or not form.fullmatch(value):
        raise refused(path, expected)
    return value


#: Read a SHA-256 digest, the thumbprint of a key, or whose statement it is: a name that is
#: compared and never looked up.
digest: Final = partial(text, form=DIGEST, expected="a SHA-256 digest in lower-case hex")
thumbprint: Final = partial(text, form=THUMBPRINT, expected="an RFC 7638 thumbprint")
issuer: Final = partial(text, form=ISSUER, expected="1 to 256 visible ASCII characters")


def origin(value: Json, path: str) -> str:
    """Return an origin in its one spelling."""
    expected = "an origin such as https://agents.example, in its one spelling"
    return _one_spelling(value, path, parse_origin, expected)


def url(value: Json, path: str) -> str:
    """Return a URL without query and fragment, in its one spelling."""
    return _one_spelling(value, path, parse_url, "the url of a card, without query")


def _one_spelling(value: Json, path: str, parse: Callable[[str], object], expected: str) -> str:
    if isinstance(value, str) and "?" not in value:
        with contextlib.suppress(CardRefused):
            if str(parse(value)) == value:
                return value
    raise refused(path, expected)


def integer(value: Json, path: str, *, least: int = 1, most: int = MAX_INTEGER) -> int:
    """Return a whole number from `least` to `most`; true and 1.0 are none."""
    if type(value) is not int or not least <= value <= most:
        raise refused(path, f"a whole number from {least} to {most}")
    return value


def numbers(value: Json, path: str) -> dict[str, int]:
    """Return whole numbers by their names, whatever these are."""
    if not isinstance(value, dict):
        raise refused(path, "an object")
    return {name: integer(number, path) for name, number in value.items()}


#: Read a time, in seconds since 1970.
time: Final = partial(integer, most=MAX_TIME)


def check_span(start: int, end: int, path: str, *, most: int = MAX_TIME) -> None:
    """Check that the time at a path is later than another by at most so many seconds (K9)."""
    if not 0 < end - start <= most:
        expected = f"a time after {second(start)}, by at most {most // DAY} days"
        raise refused(path, expected, "statement.time_span")


def revoked(value: Json, path: str) -> frozenset[str]:
    """Return the thumbprints of revoked keys; they ascend, so that a set has one spelling."""
    thumbprints = listed(thumbprint, value, path)
    if any(first >= right for first, right in itertools.pairwise(thumbprints)):
        raise refused(path, "thumbprints in ascending order, each once")
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
        message = f"{exc.message} ({exc.code})"
        raise StatementRefused("statement.bad_key", message, path=path + exc.path) from exc
    if key.jwk() != value:
        raise refused(path, f"exactly the members {', '.join(key.jwk())}", "statement.bad_key")
    return key
