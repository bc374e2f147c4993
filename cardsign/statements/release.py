"""Release statements: which cards are current, said daily by an online key (K10, K11)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final

from cardsign.card.values import Json
from cardsign.jose.jws import Signer
from cardsign.statements import envelope as read
from cardsign.statements.envelope import (
    TYP_RELEASE,
    Envelope,
    StatementRefused,
    exact_object,
    list_signers,
    parse_payload,
    read_envelope,
    sign_envelope,
)
from cardsign.statements.keyset import KeysetId, KeysetStatement, check_still_revoked, keyset_id
from cardsign.times import utc

RELEASE_FORMAT: Final = "cardsign-release/1"
#: Seconds. Renewed daily: the longest that a withheld revocation stays unknown.
MAX_RELEASE_LIFETIME: Final = 14 * read.DAY
#: The one kind of card that a public statement lists; an extended card never is.
KIND_PUBLIC: Final = "public"
FLOOR_EXTENDED: Final = "extended"

_MEMBERS: Final = (
    *("format", "issuer", "keyset", "seq", "iat", "exp"),
    *("cards", "floor", "revoked", "audit_head"),
)


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
    members = read.document(parse_payload(envelope.payload), RELEASE_FORMAT, _MEMBERS)
    seq = read.integer(members["seq"], "/seq")
    iat, exp = read.span(members, ("iat", "exp"), "", most=MAX_RELEASE_LIFETIME)
    head = members["audit_head"]
    return ReleaseStatement(
        envelope,
        read.issuer(members["issuer"]),
        keyset_id(members["keyset"], "/keyset"),
        seq,
        iat,
        exp,
        _cards(members["cards"], seq),
        _floor(members["floor"], seq),
        read.revoked(members["revoked"]),
        None if head is None else read.digest(head, "/audit_head"),
    )


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
    revocable = {key.public.thumbprint for key in keyset.keys}
    if others := release.revoked - revocable:
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


def _cards(value: Json, seq: int) -> tuple[ListedCard, ...]:
    cards = dict[tuple[str, str], ListedCard]()
    entries = read.items(value, "/cards")
    for entry, path in entries:
        members = exact_object(entry, ("url", "kind", "payload_sha256", "seq"), path)
        if members["kind"] != KIND_PUBLIC:
            raise read.refused(f"{path}/kind", KIND_PUBLIC)
        url = read.url(members["url"], f"{path}/url", "the url of a card")
        digest = read.digest(members["payload_sha256"], f"{path}/payload_sha256")
        first = read.integer(members["seq"], f"{path}/seq", most=seq)
        cards[url, digest] = ListedCard(url, KIND_PUBLIC, digest, first)
    if len(cards) < len(entries):
        raise read.refused("/cards", "each payload once for its url")
    return tuple(cards.values())


def _floor(value: Json, seq: int) -> Mapping[str, int]:
    if not isinstance(value, dict):
        raise read.refused("/floor", "an object")
    floor = {}
    for url, least in value.items():
        if url != FLOOR_EXTENDED:
            read.url(url, "/floor", f"urls of cards, or {FLOOR_EXTENDED}")
        floor[url] = read.integer(least, "/floor")
        if floor[url] > seq:
            raise read.refused("/floor", f"no seq above the release's own {seq}", "statement.floor")
    return MappingProxyType(floor)
