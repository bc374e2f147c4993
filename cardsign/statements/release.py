"""Release statements: which cards are current, said daily by an online key (K10, K11)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from types import MappingProxyType
from typing import Final

from cardsign.card.values import Json
from cardsign.jose.jws import Signer
from cardsign.statements import envelope as read
from cardsign.statements.envelope import (
    TYP_RELEASE,
    Envelope,
    StatementRefused,
    list_signers,
    parse_payload,
    read_envelope,
    sign_envelope,
    write_payload,
)
from cardsign.statements.keyset import KeysetId, KeysetStatement, check_still_revoked, keyset_id
from cardsign.times import utc

RELEASE_FORMAT: Final = "cardsign-release/1"
#: Seconds. Renewed daily: the longest that a withheld revocation stays unknown.
MAX_RELEASE_LIFETIME: Final = 14 * read.DAY
#: The one kind of card that a public statement lists; an extended card never is.
KIND_PUBLIC: Final = "public"
FLOOR_EXTENDED: Final = "extended"


@dataclass(frozen=True, slots=True)
class ListedCard:
    """A current card: where it is served, and SHA-256 of its `served-as-is` payload.

    `seq` is the number of the release that listed this digest first.
    """

    url: str
    kind: str
    payload_sha256: str
    seq: int


@dataclass(frozen=True, slots=True)
class ReleaseStatement:
    """A release statement in good form; by what right it speaks has not been checked.

    Attributes:
        envelope: The payload as received, and its signatures.
        issuer: That of the keyset.
        keyset: The keyset statement that it names.
        seq: The release's number, one counter per issuer, from 1.
        iat: Issued, Unix seconds.
        exp: Expires, Unix seconds; at most 14 days later.
        cards: May be empty: then no card is current.
        floor: By URL, or ``extended``: the least seq that is still current.
        revoked: Thumbprints of keys of that keyset.
        audit_head: Digest of the newest line of the audit log, or None.
    """

    envelope: Envelope
    issuer: str
    keyset: KeysetId
    seq: int
    iat: int
    exp: int
    cards: tuple[ListedCard, ...]
    floor: Mapping[str, int] = field(hash=False)
    revoked: frozenset[str]
    audit_head: str | None

    @property
    def digest(self) -> str:
        """SHA-256 of the payload in lower-case hex."""
        return self.envelope.digest

    @property
    def order(self) -> tuple[int, int, int]:
        """What releases are ordered by: a new keyset ends the fast-forward of a thief."""
        return *self.keyset.number, self.seq

    @property
    def renew_at(self) -> datetime:
        """When half of its time is over: a program renews it, which is noticed if it stops."""
        return utc((self.iat + self.exp) / 2)

    def is_withdrawn(self, url: str) -> bool:
        """Return whether a card was listed at a URL once, and none is current there any more."""
        return url in self.floor and all(card.url != url for card in self.cards)


def read_release(untrusted_bytes: bytes) -> ReleaseStatement:
    """Read a release statement (K1, K2, K10). No signature is verified.

    Raises:
        StatementRefused: ``statement.shape``, ``statement.header``, ``statement.typ``,
            ``statement.not_canonical``, ``statement.format``, ``statement.members``,
            ``statement.time_span``, ``statement.floor``. ``path`` is a JSON pointer into the
            payload, or into the envelope for the first three.
    """
    return release_of(read_envelope(untrusted_bytes, TYP_RELEASE))


def release_of(envelope: Envelope) -> ReleaseStatement:
    """Return the statement inside an envelope.

    Raises:
        StatementRefused: As for :func:`read_release`.
    """
    members = parse_payload(envelope.payload, RELEASE_FORMAT, _MEMBERS)
    release = ReleaseStatement(envelope, **members)
    read.check_span(release.iat, release.exp, "/exp", most=MAX_RELEASE_LIFETIME)
    expected = f"no seq above the release's own {release.seq}"
    if any(card.seq > release.seq for card in release.cards):
        raise read.refused("/cards", expected)
    if any(least > release.seq for least in release.floor.values()):
        raise read.refused("/floor", expected, "statement.floor")
    return release


def draft_of(content: ReleaseStatement) -> ReleaseStatement:
    """Return a release that says this, as a verifier will read it; unsigned.

    Raises:
        StatementRefused: As for :func:`read_release`.
    """
    return release_of(Envelope(TYP_RELEASE, write_payload(content, RELEASE_FORMAT, _MEMBERS), ()))


def sign_release(payload: bytes, signers: Iterable[Signer]) -> bytes:
    """Sign the payload of a release statement, as :func:`cardsign.statements.keyset.sign_keyset`.

    Raises:
        CardsignError: As there.
    """
    envelope = Envelope(TYP_RELEASE, payload, ())
    release_of(envelope)
    return sign_envelope(envelope, signers)


def check_release(
    release: ReleaseStatement,
    keyset: KeysetStatement,
    previous: ReleaseStatement | None,
    *,
    now: datetime,
    skew: timedelta,
    revoked: frozenset[str] = frozenset(),
) -> frozenset[str]:
    """Check by what right a release speaks (K10, K11); its own times are not asked.

    `keyset` is the newest keyset statement and `previous` the last release; both are trusted
    already. A release key counts from its `nbf`, less `skew`, until before its `exp`, and unless
    it is among `revoked`. Return the thumbprints of those that signed.

    Raises:
        StatementRefused: ``statement.issuer``; ``statement.keyset``: another keyset is named;
            ``statement.revoked``: its signer is revoked, by itself or another, or it revokes what
            is no key of the keyset's `keys`; ``statement.unsigned``; as :func:`check_order`.
    """
    if release.issuer != keyset.issuer:
        raise read.refused("/issuer", f"the issuer {keyset.issuer!r}", "statement.issuer")
    if release.keyset != keyset.id:
        raise StatementRefused("statement.keyset", f"the newest is {keyset.id}", path="/keyset")
    if others := release.revoked - {key.public.thumbprint for key in keyset.keys}:
        message = f"{min(others)} is not a card or release key of the keyset"
        raise StatementRefused("statement.revoked", message, path="/revoked")
    signers = _check_signer(release, keyset, now, skew) - revoked
    if not signers:
        raise StatementRefused("statement.revoked", "its signer has been revoked")
    if previous is not None:
        if release.issuer != previous.issuer:
            raise read.refused("/issuer", f"the issuer {previous.issuer!r}", "statement.issuer")
        check_order(release, previous.order, previous.digest, previous.revoked, previous.floor)
    return signers


def effective_revoked(keyset: KeysetStatement, release: ReleaseStatement | None) -> frozenset[str]:
    """Return the keys whose signatures never count now: the keyset's, and the release's (K11).

    A higher keyset version has confirmed or dropped what a release named under a lower one. The
    release has passed :func:`check_release`, with this keyset or an older one.

    Raises:
        StatementRefused: ``statement.keyset``: the release names no such keyset.
    """
    if release is None:
        return keyset.revoked
    if release.issuer == keyset.issuer:
        if release.keyset == keyset.id:
            return keyset.revoked | release.revoked
        if release.keyset < keyset.id:
            return keyset.revoked
    raise StatementRefused("statement.keyset", f"the newest is {keyset.id}", path="/keyset")


def _check_signer(
    release: ReleaseStatement, keyset: KeysetStatement, now: datetime, skew: timedelta
) -> frozenset[str]:
    seconds, tolerance = now.timestamp(), skew.total_seconds()
    signers = list_signers(
        release.envelope,
        (
            key.public
            for key in keyset.keys
            if "release" in key.roles and key.nbf - tolerance <= seconds < key.exp
        ),
    )
    if not signers:
        expected = "a signature by a key that now has the role release in the keyset"
        raise read.refused("/signatures", expected, "statement.unsigned")
    if signers <= release.revoked:  # a thief of the key may sign its revocation
        raise StatementRefused("statement.revoked", "it revokes its own signer", path="/revoked")
    return signers


def check_order(
    release: ReleaseStatement,
    order: tuple[int, int, int],
    digest: str,
    revoked: frozenset[str],
    floor: Mapping[str, int],
) -> None:
    """Check that a release is not below one that was seen, nor takes back what that one said (K11).

    Raises:
        StatementRefused: ``statement.rollback``; ``statement.fork``; ``statement.unrevoked``,
            ``statement.floor``: within one keyset version a key is revoked no longer, or a floor
            falls.
    """
    if release.order < order:
        # The keyset's epoch and version come first in the order.
        message = f"release {release.seq} under keyset {release.keyset.label} is older than "
        message += f"{order[2]} under keyset {order[0]}.{order[1]}, which was already seen"
        raise StatementRefused("statement.rollback", message, path="/seq")
    if release.order == order and release.digest != digest:
        message = f"release {release.seq} is {digest} here and {release.digest} there"
        raise StatementRefused("statement.fork", message, path="/seq")
    if release.order[:2] != order[:2]:
        return
    check_still_revoked(revoked, release.revoked)
    for url, least in floor.items():
        if release.floor.get(url, 0) < least:
            message = f"the floor of {url} fell below {least}"
            raise StatementRefused("statement.floor", message, path="/floor")


def _card(value: Json, path: str) -> ListedCard:
    readers: read.Readers = {
        "url": read.url,
        "kind": partial(read.text, form=re.compile(KIND_PUBLIC), expected=KIND_PUBLIC),
        "payload_sha256": read.digest,
        "seq": read.integer,
    }
    return ListedCard(**read.record(value, path, readers))


def _cards(value: Json, path: str) -> tuple[ListedCard, ...]:
    cards = read.listed(_card, value, path)
    if len({(card.url, card.payload_sha256) for card in cards}) < len(cards):
        raise read.refused(path, "each payload once for its url")
    return cards


def _floor(value: Json, path: str) -> Mapping[str, int]:
    floor = read.numbers(value, path)
    for url in floor.keys() - {FLOOR_EXTENDED}:
        read.url(url, path)
    return MappingProxyType(floor)


_MEMBERS: Final[read.Readers] = {
    "issuer": read.issuer,
    "keyset": keyset_id,
    "seq": read.integer,
    "iat": read.time,
    "exp": read.time,
    "cards": _cards,
    "floor": _floor,
    "revoked": read.revoked,
    "audit_head": partial(read.optional, read.digest),
}
