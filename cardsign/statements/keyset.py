"""Keyset statements: who may sign for an issuer, said by its offline roots (rules K2 to K4).

Reading checks form and what the statement says by itself; :mod:`cardsign.statements.succession`
checks by what right it says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, Literal, TypeAlias

from cardsign.card.serialize import jcs
from cardsign.card.strictjson import Json, read_fast
from cardsign.errors import KeyRefused
from cardsign.jose import base64url
from cardsign.jose.algorithms import SIGNING_ALGORITHMS, STATEMENT_ALGORITHMS
from cardsign.jose.jwks import JwkSet
from cardsign.jose.keys import PublicKey
from cardsign.records import dataclass
from cardsign.statements import members as read
from cardsign.statements.envelope import (
    MAX_STATEMENT_BYTES,
    MAX_STATEMENT_DEPTH,
    TYP_KEYSET,
    Counted,
    Envelope,
    StatementRefused,
    parse_payload,
    read_envelope,
)

Role: TypeAlias = Literal["card", "release"]

KEYSET_FORMAT: Final = "cardsign-keyset/1"
#: Seconds. A year and a month: who renews once a year may be late.
MAX_KEYSET_LIFETIME: Final = 400 * read.DAY
#: Holders of root or recovery. More people than can meet.
MAX_HOLDERS: Final = 16

_MEMBERS: Final = (
    *("format", "issuer", "origins", "epoch", "version", "prev", "iat", "exp"),
    *("root", "recovery", "keys", "revoked"),
)
# Every non-empty set of roles, in the one order that is written.
_ROLES: Final[tuple[tuple[Role, ...], ...]] = (("card",), ("release",), ("card", "release"))


@dataclass(frozen=True, slots=True)
class RootKey:
    """A key of `root` or `recovery`, and the person or device that holds it."""

    public: PublicKey
    holder: str


@dataclass(frozen=True, slots=True)
class Quorum:
    """So many holders of these keys have to sign; each counts once, whatever they hold.

    Attributes:
        threshold: 1 to the number of holders.
        keys: In the order of the statement.
    """

    threshold: int
    keys: tuple[RootKey, ...]

    def holders(self, counted: Counted) -> frozenset[str]:
        """Those who signed."""
        return frozenset(key.holder for key in self.keys if key.public.thumbprint in counted.good)


@dataclass(frozen=True, slots=True)
class IssuerKey:
    """A key of an issuer and what it may sign, from `nbf` until before `exp` (Unix seconds).

    A pinned or published key of which no statement speaks signs cards without end.
    """

    public: PublicKey
    roles: tuple[Role, ...] = ("card",)
    holder: str = ""
    nbf: int = 0
    exp: int = read.MAX_TIME

    @property
    def signs_cards(self) -> bool:
        """Whether it has the role card; the times are not asked."""
        return "card" in self.roles


@dataclass(frozen=True, slots=True)
class KeysetId:
    """One keyset statement: its number within the issuer's history, and what it says.

    Later statements compare as greater. Two of one number with different digests are a fork:
    neither is less than the other, and they are not equal. The digest is SHA-256 of the payload in
    lower-case hex; epoch and version begin with 1.
    """

    epoch: int
    version: int
    digest: str

    def __lt__(self, other: KeysetId) -> bool:
        return self.number < other.number

    def __str__(self) -> str:
        return f"keyset {self.label} ({self.digest})"

    @property
    def label(self) -> str:
        """The number as people write it: ``1.2``."""
        return f"{self.epoch}.{self.version}"

    @property
    def number(self) -> tuple[int, int]:
        """The epoch, and the version within it."""
        return self.epoch, self.version

    def to_json(self) -> dict[str, Json]:
        """As statements and files of ours write it."""
        return {"epoch": self.epoch, "version": self.version, "digest": self.digest}


def keyset_id(value: Json, path: str) -> KeysetId:
    """Read what :meth:`KeysetId.to_json` gave."""
    members = read.exact_object(value, ("epoch", "version", "digest"), path)
    return KeysetId(
        read.integer(members["epoch"], f"{path}/epoch"),
        read.integer(members["version"], f"{path}/version"),
        read.digest(members["digest"], f"{path}/digest"),
    )


@dataclass(frozen=True, slots=True)
class KeysetStatement:
    """A keyset statement in good form; by what right it speaks has not been checked.

    Attributes:
        envelope: The payload as received, and its signatures.
        issuer: Whose keys these are; compared, never looked up.
        origins: Where the issuer's interfaces may stand, at least one.
        epoch: From 1; only recovery opens the next.
        version: From 1 within the epoch.
        prev: Digest of the version before; None in version 1.
        iat: Issued, Unix seconds.
        exp: Expires, Unix seconds; at most 400 days later.
        root: Who signs keyset statements.
        recovery: Who opens the next epoch; None if no key ever can.
        keys: May be empty: then nothing of this issuer is to be trusted.
        revoked: Thumbprints whose signatures never count, whatever their date.
    """

    envelope: Envelope
    issuer: str
    origins: tuple[str, ...]
    epoch: int
    version: int
    prev: str | None
    iat: int
    exp: int
    root: Quorum
    recovery: Quorum | None
    keys: tuple[IssuerKey, ...]
    revoked: frozenset[str]

    @property
    def digest(self) -> str:
        """SHA-256 of the payload in lower-case hex."""
        return self.envelope.digest

    @property
    def id(self) -> KeysetId:
        """What names this statement."""
        return KeysetId(self.epoch, self.version, self.digest)

    @property
    def label(self) -> str:
        """The number as people write it: ``1.2``."""
        return f"{self.epoch}.{self.version}"

    @property
    def number(self) -> tuple[int, int]:
        """The epoch, and the version within it: what statements are ordered by."""
        return self.epoch, self.version


#: Keyset statements that are not read again; an issuer's whole history is read at each step.
MAX_READ_BEFORE: Final = 64


@lru_cache(maxsize=MAX_READ_BEFORE)
def read_keyset(untrusted_bytes: bytes) -> KeysetStatement:
    """Read a keyset statement (K1 to K4, and the span of K9). No signature is verified.

    Raises:
        StatementRefused: ``statement.shape``, ``statement.header``, ``statement.typ``,
            ``statement.not_canonical``, ``statement.format``, ``statement.members``,
            ``statement.time_span``, ``statement.threshold``, ``statement.bad_key``. ``path`` is a
            JSON pointer into the payload, or into the envelope for the first three.
    """
    return keyset_of(read_envelope(untrusted_bytes, TYP_KEYSET))


def is_no_newer(untrusted_bytes: bytes, known: KeysetStatement) -> bool:
    """Whether bytes are a copy of a statement, or say that they are older than it.

    Serves to leave out a long history unread; nothing else is checked.
    """
    if len(untrusted_bytes) > MAX_STATEMENT_BYTES:
        return False
    match read_fast(untrusted_bytes, max_depth=MAX_STATEMENT_DEPTH):
        case {"payload": str(text)}:
            pass
        case _:
            return False
    try:
        payload = base64url.decode(text)
    except base64url.Base64urlError:
        return False
    if payload == known.envelope.payload:
        return True
    match read_fast(payload, max_depth=MAX_STATEMENT_DEPTH):
        case {"epoch": int(epoch), "version": int(version)} if epoch > 0 and version > 0:
            return (epoch, version) < known.number
    return False


def keyset_payload(members: Mapping[str, Json]) -> bytes:
    """The payload of a keyset statement, ready to be signed by its roots.

    Raises:
        StatementRefused: As for :func:`read_keyset`: no verifier would read it.
        CanonicalizationError: ``canonical.no_form``.
    """
    payload = jcs(dict(members))
    keyset_of(Envelope(TYP_KEYSET, payload, ()))
    return payload


def keyset_of(envelope: Envelope) -> KeysetStatement:
    """The statement inside an envelope.

    Raises:
        StatementRefused: As for :func:`read_keyset`.
    """
    members = read.document(parse_payload(envelope.payload), KEYSET_FORMAT, _MEMBERS)
    version = read.integer(members["version"], "/version")
    iat, exp = read.lifetime(members, MAX_KEYSET_LIFETIME)
    statement = KeysetStatement(
        envelope,
        read.issuer(members["issuer"]),
        _origins(members["origins"]),
        read.integer(members["epoch"], "/epoch"),
        version,
        _prev(members["prev"], version),
        iat,
        exp,
        _quorum(members["root"], "/root"),
        None if members["recovery"] is None else _quorum(members["recovery"], "/recovery"),
        tuple(_key(item, path) for item, path in read.items(members["keys"], "/keys")),
        read.revoked(members["revoked"]),
    )
    _check_keys(statement)
    return statement


def _origins(value: Json) -> tuple[str, ...]:
    found = tuple(read.origin(item, path) for item, path in read.items(value, "/origins"))
    if not found or len(set(found)) < len(found):
        raise read.refused("/origins", "at least one origin, each once")
    return found


def _prev(value: Json, version: int) -> str | None:
    if version > 1:
        return read.digest(value, "/prev")
    if value is not None:
        raise read.refused("/prev", "null in version 1")
    return None


def _quorum(value: Json, path: str) -> Quorum:
    members = read.exact_object(value, ("threshold", "keys"), path)
    keys = tuple(_root_key(item, at) for item, at in read.items(members["keys"], f"{path}/keys"))
    threshold = read.integer(members["threshold"], f"{path}/threshold")
    holders = len({key.holder for key in keys})
    if not threshold <= holders <= MAX_HOLDERS:
        raise StatementRefused(
            "statement.threshold",
            f"{threshold} of {holders} holders, expected at most {MAX_HOLDERS} holders "
            "and no more signatures than that",
            path=f"{path}/threshold",
        )
    return Quorum(threshold, keys)


def _root_key(value: Json, path: str) -> RootKey:
    members = read.exact_object(value, ("public", "holder"), path)
    return RootKey(
        read.public_key(members["public"], f"{path}/public"), _holder(members["holder"], path)
    )


def _key(value: Json, path: str) -> IssuerKey:
    members = read.exact_object(value, ("public", "roles", "holder", "nbf", "exp"), path)
    roles = next((known for known in _ROLES if list(known) == members["roles"]), None)
    if roles is None:
        raise read.refused(f"{path}/roles", '["card"], ["release"] or ["card", "release"]')
    nbf, exp = read.span(members, ("nbf", "exp"), path)
    # A key that signs cards alone may be for any algorithm that cardsign signs cards with.
    algorithms = SIGNING_ALGORITHMS if roles == ("card",) else STATEMENT_ALGORITHMS
    public = read.public_key(members["public"], f"{path}/public", algorithms=algorithms)
    return IssuerKey(public, roles, _holder(members["holder"], path), nbf, exp)


def _holder(value: Json, path: str) -> str:
    return read.text(value, read.HOLDER, f"{path}/holder", "a holder's name in [a-z0-9._@-]")


def _check_keys(statement: KeysetStatement) -> None:
    """No key stands in two places or under a shared kid, and none is revoked (K3, K4)."""
    quorums = [statement.root, *([statement.recovery] if statement.recovery else [])]
    every = [key.public for quorum in quorums for key in quorum.keys]
    every += [key.public for key in statement.keys]
    seen = set[str]()
    for key in every:
        if key.thumbprint in seen:
            raise StatementRefused(
                "statement.bad_key", f"the key {key.thumbprint} stands here twice"
            )
        if key.thumbprint in statement.revoked:
            raise StatementRefused(
                "statement.bad_key",
                f"the key {key.thumbprint} is listed and revoked",
                path="/revoked",
            )
        seen.add(key.thumbprint)
    try:
        JwkSet.of(every)
    except KeyRefused as exc:
        raise StatementRefused("statement.bad_key", f"{exc.message} ({exc.code})", path="") from exc
