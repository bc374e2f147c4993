"""Keyset statements: who may sign for an issuer, said by its offline roots (rules K2 to K4).

Reading checks form and what the statement says by itself. The checks of a step (K5 to K8) then say
by what right it speaks: as the first one, the next one, or by recovery.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal, TypeAlias

from cardsign.card.values import Json
from cardsign.errors import KeyRefused
from cardsign.jose.jwk import SIGNING_ALGORITHMS, STATEMENT_ALGORITHMS
from cardsign.jose.jws import Entry, Signer
from cardsign.jose.keys import JwkSet, PublicKey, short_kid
from cardsign.statements import envelope as read
from cardsign.statements.envelope import (
    TYP_KEYSET,
    Envelope,
    StatementRefused,
    list_signers,
    parse_payload,
    read_envelope,
    sign_envelope,
    write_payload,
)
from cardsign.times import MAX_TIME

#: What an online key may sign; roots and recovery keys have no such role.
OnlineRole: TypeAlias = Literal["card", "release"]

KEYSET_FORMAT: Final = "cardsign-keyset/1"
#: Seconds. A year and a month: an issuer that renews once a year may be late.
MAX_KEYSET_LIFETIME: Final = 400 * read.DAY
#: Holders of root or recovery. More people than can meet.
MAX_HOLDERS: Final = 16

# Every non-empty set of roles, in the one order that is written.
_ROLES: Final[tuple[tuple[OnlineRole, ...], ...]] = (("card",), ("release",), ("card", "release"))


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

    def holders(self, signers: frozenset[str]) -> frozenset[str]:
        """Return those of the holders who signed, by the thumbprints of keys that did."""
        return frozenset(key.holder for key in self.keys if key.public.thumbprint in signers)


@dataclass(frozen=True, slots=True)
class IssuerKey:
    """A key of an issuer and what it may sign, from `nbf` until before `exp` (Unix seconds).

    A pinned or published key of which no statement speaks signs cards without end.
    """

    public: PublicKey
    roles: tuple[OnlineRole, ...] = ("card",)
    holder: str = ""
    nbf: int = 0
    exp: int = MAX_TIME

    @property
    def named(self) -> str:
        """The key as messages name it: its roles, and a short kid."""
        return f"{' and '.join(self.roles)} key {short_kid(self.public.kid)}"


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
        """Return it as statements and files of ours write it."""
        return {"epoch": self.epoch, "version": self.version, "digest": self.digest}


def keyset_id(value: Json, path: str) -> KeysetId:
    """Read what :meth:`KeysetId.to_json` gave."""
    readers: read.Readers = {"epoch": read.integer, "version": read.integer, "digest": read.digest}
    return KeysetId(**read.record(value, path, readers))


#: Of a statement that is still to be drafted.
_NO_ENVELOPE: Final = Envelope(TYP_KEYSET, b"", ())


@dataclass(frozen=True, slots=True)
class KeysetStatement:
    """A keyset statement in good form; by what right it speaks has not been checked.

    Attributes:
        issuer: Whose keys these are; compared, never looked up.
        origins: Where the issuer's interfaces may stand, at least one.
        root: Who signs keyset statements.
        recovery: Who opens the next epoch; None if no key ever can.
        epoch: From 1; only recovery opens the next.
        version: From 1 within the epoch.
        prev: Digest of the version before; None in version 1.
        iat: Issued, Unix seconds.
        exp: Expires, Unix seconds; at most 400 days later.
        keys: May be empty: then nothing of this issuer is to be trusted.
        revoked: Thumbprints whose signatures never count, whatever their date.
        envelope: The payload as received, and its signatures.
    """

    issuer: str
    origins: tuple[str, ...]
    root: Quorum
    recovery: Quorum | None = None
    epoch: int = 1
    version: int = 1
    prev: str | None = None
    iat: int = 0
    exp: int = 0
    keys: tuple[IssuerKey, ...] = ()
    revoked: frozenset[str] = frozenset()
    envelope: Envelope = _NO_ENVELOPE

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

    def lists(self, thumbprint: str, role: OnlineRole) -> bool:
        """Return whether a key stands in `keys` with a role."""
        return any(key.public.thumbprint == thumbprint and role in key.roles for key in self.keys)


def read_keyset(untrusted_bytes: bytes) -> KeysetStatement:
    """Read a keyset statement (K1 to K4, and the span of K9). No signature is verified.

    Raises:
        StatementRefused: ``statement.shape``, ``statement.header``, ``statement.typ``,
            ``statement.not_canonical``, ``statement.format``, ``statement.members``,
            ``statement.time_span``, ``statement.threshold``, ``statement.bad_key``. ``path`` is a
            JSON pointer into the payload, or into the envelope for the first three.
    """
    return keyset_of(read_envelope(untrusted_bytes, TYP_KEYSET))


def keyset_of(envelope: Envelope) -> KeysetStatement:
    """Return the statement inside an envelope.

    Raises:
        StatementRefused: As for :func:`read_keyset`.
    """
    members = parse_payload(envelope.payload, KEYSET_FORMAT, _MEMBERS)
    statement = KeysetStatement(**members, envelope=envelope)
    read.check_span(statement.iat, statement.exp, "/exp", most=MAX_KEYSET_LIFETIME)
    if (statement.prev is None) is not (statement.version == 1):
        raise read.refused("/prev", "null in version 1, and in no other")
    _check_keys(statement)
    return statement


def draft_of(content: KeysetStatement) -> KeysetStatement:
    """Return a statement that says this, as a verifier will read it; unsigned.

    Raises:
        StatementRefused: As for :func:`read_keyset`.
    """
    return keyset_of(Envelope(TYP_KEYSET, write_payload(content, KEYSET_FORMAT, _MEMBERS), ()))


def sign_keyset(payload: bytes, signers: Iterable[Signer], kept: tuple[Entry, ...] = ()) -> bytes:
    """Sign the payload of a keyset statement, in the form of RFC 8785, with each signer once.

    Returned is the statement as a file, ending in a newline. Not checked: that the signers are
    those whom the statement needs.

    Args:
        payload: Nothing else may ever carry that typ (K12).
        signers: Who sign; of what is kept, signatures under their keys are replaced.
        kept: What others have signed; not verified.

    Raises:
        KeyRefused: ``key.unsupported``: a signer's key is for what signs no statement. No signer
            has been asked by then.
        SigningRefused: ``sign.no_key``; ``sign.header_too_long``.
        StatementRefused: The payload is no keyset statement, or the result is too large.
        SignerFault: ``signer.wrong_key``, or what a signer itself raises.
    """
    envelope = Envelope(TYP_KEYSET, payload, kept)
    keyset_of(envelope)
    return sign_envelope(envelope, signers)


def _quorum(value: Json, path: str) -> Quorum:
    keys = partial(read.listed, _root_key)
    quorum = Quorum(**read.record(value, path, {"threshold": read.integer, "keys": keys}))
    holders = len({key.holder for key in quorum.keys})
    if not quorum.threshold <= holders <= MAX_HOLDERS:
        expected = f"at most {MAX_HOLDERS} holders (here {holders}), and no larger threshold"
        raise read.refused(f"{path}/threshold", expected, "statement.threshold")
    return quorum


def _root_key(value: Json, path: str) -> RootKey:
    return RootKey(**read.record(value, path, {"public": read.public_key, "holder": _holder}))


def _key(value: Json, path: str) -> IssuerKey:
    roles = value.get("roles") if isinstance(value, dict) else None
    # A key that signs cards alone may be for any algorithm that cardsign signs cards with.
    algorithms = SIGNING_ALGORITHMS if roles == ["card"] else STATEMENT_ALGORITHMS
    public = partial(read.public_key, algorithms=algorithms)
    readers: read.Readers = {"roles": _roles, "public": public, "holder": _holder}
    key = IssuerKey(**read.record(value, path, {**readers, "nbf": read.time, "exp": read.time}))
    read.check_span(key.nbf, key.exp, f"{path}/exp")
    return key


def _roles(value: Json, path: str) -> tuple[OnlineRole, ...]:
    for roles in _ROLES:
        if list(roles) == value:
            return roles
    raise read.refused(path, '["card"], ["release"] or ["card", "release"]')


_holder: Final = partial(read.text, form=read.HOLDER, expected="a holder's name in [a-z0-9._@-]")


def _origins(value: Json, path: str) -> tuple[str, ...]:
    origins = read.listed(read.origin, value, path)
    if not origins or len(set(origins)) < len(origins):
        raise read.refused(path, "at least one origin, each once")
    return origins


_MEMBERS: Final[read.Readers] = {
    "issuer": read.issuer,
    "origins": _origins,
    "epoch": read.integer,
    "version": read.integer,
    "prev": partial(read.optional, read.digest),
    "iat": read.time,
    "exp": read.time,
    "root": _quorum,
    "recovery": partial(read.optional, _quorum),
    "keys": partial(read.listed, _key),
    "revoked": read.revoked,
}


def _check_keys(statement: KeysetStatement) -> None:
    """Check that no key is there twice or under a shared kid, and none is revoked (K3, K4)."""
    quorums = [statement.root, *([statement.recovery] if statement.recovery else [])]
    every = [key.public for quorum in quorums for key in quorum.keys]
    every += [key.public for key in statement.keys]
    thumbprints = [key.thumbprint for key in every]
    for thumbprint in set(thumbprints):
        if thumbprints.count(thumbprint) > 1 or thumbprint in statement.revoked:
            problem = "listed and revoked" if thumbprint in statement.revoked else "listed twice"
            raise StatementRefused("statement.bad_key", f"the key {thumbprint} is {problem}")
    try:
        JwkSet.of(every)
    except KeyRefused as exc:
        raise StatementRefused("statement.bad_key", f"{exc.message} ({exc.code})", path="") from exc


# By what right a keyset statement speaks: the first one, the next one, recovery (K5 to K8). Each
# check is of one step and knows no other statement than those given. The caller stores each step
# before the next, bounds the walk, and asks the last statement alone for its times.


@dataclass(frozen=True, slots=True)
class RootAnchor:
    """An anchor: a statement with exactly this root set.

    Attributes:
        threshold: The root's threshold.
        holders: (thumbprint, holder) of every root key. The holders belong to it: who has
            two keys of one holder could otherwise relabel one and count twice. A lone
            thumbprint is a set of one pair with threshold 1, so it is no part of a larger set.
    """

    threshold: int
    holders: frozenset[tuple[str, str]]

    @classmethod
    def of(cls, root: Quorum) -> RootAnchor:
        """Return the root set of a statement as an anchor."""
        return cls(
            root.threshold, frozenset((key.public.thumbprint, key.holder) for key in root.keys)
        )


def check_step(statement: KeysetStatement, previous: KeysetStatement | None) -> None:
    """Check that a statement is signed and follows, or is signed by its own root where none does.

    Raises:
        StatementRefused: As the check that is made.
    """
    if previous is None:
        check_first(statement, RootAnchor.of(statement.root))
    elif statement.epoch == previous.epoch:
        check_successor(previous, statement)
    else:
        check_recovery(previous, statement)


def check_first(statement: KeysetStatement, anchor: KeysetId | RootAnchor) -> None:
    """Check that a statement is one that the anchor means, and is signed by its own root (K8).

    Raises:
        StatementRefused: ``statement.anchor``; ``statement.unsigned``.
    """
    anchored = statement.id if isinstance(anchor, KeysetId) else RootAnchor.of(statement.root)
    if anchored != anchor:
        raise StatementRefused("statement.anchor", f"expected {anchor}, found {anchored}")
    _check_signatures(statement, None)


def check_successor(current: KeysetStatement, following: KeysetStatement) -> None:
    """Check that `following` is the version after `current`, within its epoch (K6).

    Raises:
        StatementRefused: ``statement.issuer``; ``statement.recovery``: `recovery` changed without
            its own signatures; ``statement.fork``: the same version with another payload;
            ``statement.rollback``: not newer; ``statement.gap``: a version was left out, or the
            epoch is another; ``statement.prev``; ``statement.unrevoked``; ``statement.unsigned``.
    """
    _check_number(current, following, (current.epoch, current.version + 1))
    if following.prev != current.digest:
        expected = f"{current.digest}, the digest of the one before"
        raise read.refused("/prev", expected, "statement.prev")
    if following.iat < current.iat:
        message = f"issued before {current.iat}, as was the one before"
        raise StatementRefused("statement.rollback", message, path="/iat")
    check_still_revoked(current.revoked, following.revoked)
    if current.recovery is None and following.recovery is not None:
        message = "recovery was given up and cannot be set"
        raise StatementRefused("statement.recovery", message, path="/recovery")
    _check_signatures(following, current)


def check_still_revoked(earlier: frozenset[str], later: frozenset[str]) -> None:
    """Check that what was revoked still is; ``statement.unrevoked``."""
    if restored := earlier - later:
        message = f"{min(restored)} is no longer revoked"
        raise StatementRefused("statement.unrevoked", message, path="/revoked")


def check_recovery(current: KeysetStatement, following: KeysetStatement) -> None:
    """Check that `following` opens the epoch after that of `current` (K7).

    It beats every version of the old epoch, so neither `prev` nor `iat` binds it to one, and it
    may drop what a thief has revoked. `current` is the one that is known, of any version.

    Raises:
        StatementRefused: ``statement.issuer``; ``statement.fork``; ``statement.rollback``;
            ``statement.gap``: not version 1 of the epoch after; ``statement.recovery``: no
            key can open an epoch; ``statement.unsigned``.
    """
    _check_number(current, following, (current.epoch + 1, 1))
    if current.recovery is None:
        raise StatementRefused("statement.recovery", "the statement before names no recovery keys")
    _check_signatures(following, current)


def _check_number(
    current: KeysetStatement, following: KeysetStatement, number: tuple[int, int]
) -> None:
    """Check that a statement is of the same issuer, newer, and the one of that number."""
    if following.issuer != current.issuer:
        raise read.refused("/issuer", f"the issuer {current.issuer!r}", "statement.issuer")
    if following.number == current.number and following.digest != current.digest:
        message = f"keyset {current.label} is {current.digest} here and {following.digest} there"
        raise StatementRefused("statement.fork", message, path="/version")
    if following.number <= current.number:
        message = f"keyset {following.label} is no newer than {current.label}, already seen"
        raise StatementRefused("statement.rollback", message, path="/version")
    if following.number != number:
        message = f"this is keyset {following.label}, expected {number[0]}.{number[1]}"
        raise StatementRefused("statement.gap", message, path="/version")


_RECOVERY_BEFORE: Final = "the recovery keys before"


@dataclass(frozen=True, slots=True)
class QuorumSignatures:
    """One quorum that has to sign a statement (``the root before``), and the holders who have."""

    name: str
    quorum: Quorum
    signed: frozenset[str]

    @property
    def missing(self) -> int:
        """How many holders have yet to sign."""
        return max(0, self.quorum.threshold - len(self.signed))


def quorum_signatures(
    statement: KeysetStatement, previous: KeysetStatement | None
) -> tuple[QuorumSignatures, ...]:
    """Return the quorums that have to sign a step, and who has; a check raises, this tells."""
    quorums = {"its own root": statement.root}
    if previous is not None and statement.epoch == previous.epoch:
        if previous.root != statement.root:
            quorums = {"the root before": previous.root, **quorums}
        if previous.recovery is not None and previous.recovery != statement.recovery:
            quorums[_RECOVERY_BEFORE] = previous.recovery
    elif previous is not None and previous.recovery is not None:
        quorums = {"the recovery keys": previous.recovery, **quorums}
    keys = (key.public for quorum in quorums.values() for key in quorum.keys)
    signers = list_signers(statement.envelope, keys)
    return tuple(
        QuorumSignatures(name, quorum, quorum.holders(signers)) for name, quorum in quorums.items()
    )


def _check_signatures(statement: KeysetStatement, previous: KeysetStatement | None) -> None:
    for signatures in quorum_signatures(statement, previous):
        if signatures.missing:
            code, path = "statement.unsigned", "/signatures"
            if signatures.name == _RECOVERY_BEFORE:
                code, path = "statement.recovery", "/recovery"
            message = f"signed by {len(signatures.signed)} holders of {signatures.name}, expected "
            message += f"{signatures.quorum.threshold}"
            raise StatementRefused(code, message, path=path)
