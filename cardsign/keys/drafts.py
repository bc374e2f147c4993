"""Keyset and release statements as their issuer drafts them; who has yet to sign a keyset.

Pure. A draft of a keyset is the statement itself with too few signatures, down to none, so that
nothing is signed but what will be published. Every draft is checked as a verifier would check it,
but for the signatures that are still to come; what `cardsign.jose` refuses is never written. Each
host computes the same draft from the same state, byte for byte. So `keys rotate` may write one
without asking whether another host has.

A release lists a new card before it is served and the old one for as long as caches may hold it,
so that none of the orders in which copies expire refuses an honest card (threat 15).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from typing import Final

from cardsign.card.canonical import canonicalize
from cardsign.card.document import Card
from cardsign.card.values import Json, jcs
from cardsign.keys.lifecycle import TimelineSettings
from cardsign.keys.model import ENDED, KeyRecord, StoreState
from cardsign.statements.envelope import (
    TYP_KEYSET,
    TYP_RELEASE,
    Envelope,
    StatementRefused,
    list_signers,
    read_envelope,
)
from cardsign.statements.keyset import (
    KEYSET_FORMAT,
    IssuerKey,
    KeysetStatement,
    OnlineRole,
    Quorum,
    check_step,
    keyset_of,
    required_quorums,
)
from cardsign.statements.release import (
    FLOOR_EXTENDED,
    KIND_PUBLIC,
    RELEASE_FORMAT,
    ListedCard,
    ReleaseStatement,
    release_of,
)
from cardsign.times import day, second, utc

#: Where a tick writes its draft: one name, so there is one draft. Those of people have others.
DRAFT_FILE: Final = "next-keyset.json"

_KIDS_SHOWN: Final = 4  # kids in a sentence

# What a keyset statement changes, in sentences for those who are asked to sign it.


def differences(old: KeysetStatement | None, new: KeysetStatement) -> Iterator[str]:
    """Say what changes from one statement to another, the gravest first.

    Each line begins with ``+`` added, ``-`` removed, ``~`` changed, or ``=`` only to be known.
    `old` is the signer's own; where they have none, all is new.
    """
    message = f"keyset {new.label} of {new.issuer}"
    if old is None:
        yield f"+ {message}: nothing is held here to compare it with"
    elif new.epoch != old.epoch:
        yield f"~ {message} opens a new epoch and ends everything after {old.label}"
    else:
        yield f"= {message} follows {old.label}, held here"
    old_sentences = _sentences(old) if old else [[]] * 5
    for gone, come in zip(old_sentences, _sentences(new), strict=True):
        yield from (f"- {line}" for line in gone if line not in come)
        yield from (f"+ {line}" for line in come if line not in gone)
    if new.recovery is None:
        yield "= recovery: none; a stolen root key cannot be replaced"
    yield f"~ valid from {day(new.iat)} until {day(new.exp)}"


def _sentences(statement: KeysetStatement) -> list[list[str]]:
    """What a statement says of its root, its recovery, its origins, keys and revocations."""
    quorums = [_quorum("root", statement.root), _quorum("recovery", statement.recovery)]
    origins = [f"origin {origin}" for origin in statement.origins]
    keys = [f"key {_key(key)}" for key in statement.keys]
    return [*quorums, origins, keys, [f"revoked {name}" for name in sorted(statement.revoked)]]


def _quorum(name: str, quorum: Quorum | None) -> list[str]:
    if quorum is None:
        return []
    holders = {key.holder for key in quorum.keys}
    return [
        f"{name}: {quorum.threshold} of {len(holders)} must sign",
        *(
            f"{name} {key.public.alg} {key.public.thumbprint} held by {key.holder}"
            for key in quorum.keys
        ),
    ]


def _key(key: IssuerKey) -> str:
    """All of it; the kid, which its owner chooses freely, last and in quotes."""
    public = key.public
    name = "" if public.kid == public.thumbprint else f", kid {json.dumps(public.kid)}"
    return (
        f"{public.alg} {public.thumbprint} for {' and '.join(key.roles)}, held by "
        f"{key.holder}, {day(key.nbf)} to {day(key.exp)}{name}"
    )


#: How long a statement is believed: a quarter, so that the roots are used often enough to work.
KEYSET_LIFETIME: Final = timedelta(days=90)
#: How long a newly listed key counts. Renewed with the statement; a backstop, not the rotation.
KEY_LIFETIME: Final = timedelta(days=400)
#: Who holds an online key whose record names nobody.
DEFAULT_HOLDER: Final = "publisher"

_ONLINE: Final[tuple[OnlineRole, ...]] = ("card", "release")


@dataclass(frozen=True, slots=True)
class KeysetPlan:
    """What the next statement is to say, whatever its number and times.

    Attributes:
        recovery: Who opens the next epoch; None if nobody ever can.
        revoked: Thumbprints; within an epoch it only grows.
    """

    issuer: str
    origins: tuple[str, ...]
    root: Quorum
    recovery: Quorum | None
    keys: tuple[IssuerKey, ...] = ()
    revoked: frozenset[str] = frozenset()

    @classmethod
    def of(cls, statement: KeysetStatement) -> KeysetPlan:
        """The plan to say the same again."""
        return cls(*(getattr(statement, member.name) for member in fields(cls)))

    def following(self, state: StoreState, *, now: datetime, until: datetime) -> KeysetPlan:
        """The plan that says what has become of the keys of a store.

        Its keys are listed, also those that wait for that; retired ones no longer, revoked ones as
        revoked, whether they are online keys or roots. Keys that the store does not hold stay as
        they are. A key that was not listed counts from `now` on; one that ends before `until` is
        prolonged.
        """
        ours = {record.thumbprint for record in state.keys}
        gone = {record.thumbprint for record in state.keys if record.state == "revoked"}
        ended = frozenset(record.thumbprint for record in state.keys if record.state in ENDED)
        listed = {key.public.thumbprint: key for key in self.keys}
        kept = [key for name, key in listed.items() if name not in ours]
        own_keys = [
            _listed(record, listed.get(record.thumbprint), now, until)
            for record in state.keys
            if record.state not in ENDED
            and record.rotates
            and record.thumbprint not in self.revoked
        ]
        root, revoked = _without(self.root, ended), self.revoked | gone
        return replace(self, root=root, keys=(*kept, *own_keys), revoked=revoked)

    def revoking(self, thumbprints: Iterable[str]) -> KeysetPlan:
        """The plan that revokes these, and lists none that is revoked."""
        revoked = self.revoked.union(thumbprints)
        keys = tuple(key for key in self.keys if key.public.thumbprint not in revoked)
        return replace(self, root=_without(self.root, revoked), keys=keys, revoked=revoked)


@dataclass(frozen=True, slots=True)
class QuorumSignatures:
    """One quorum that has to sign a statement (``the root before``), and the holders who have."""

    whose: str
    quorum: Quorum
    signed: frozenset[str]

    @property
    def missing(self) -> int:
        """How many holders have yet to sign."""
        return max(0, self.quorum.threshold - len(self.signed))


def draft_next(
    plan: KeysetPlan,
    previous: KeysetStatement | None,
    *,
    now: datetime,
    lifetime: timedelta = KEYSET_LIFETIME,
    recovery: bool = False,
) -> KeysetStatement:
    """Draft the first statement, the next version, or by `recovery` the next epoch; unsigned.

    Raises:
        StatementRefused: What a verifier would refuse once everybody has signed.
    """
    epoch, version, prev = 1, 1, None
    if previous is not None and recovery:
        epoch = previous.epoch + 1
    elif previous is not None:
        epoch, version, prev = previous.epoch, previous.version + 1, previous.digest
    iat = int(now.timestamp())
    payload = jcs(
        {
            "format": KEYSET_FORMAT,
            "issuer": plan.issuer,
            "origins": list(plan.origins),
            "epoch": epoch,
            "version": version,
            "prev": prev,
            "iat": iat,
            "exp": iat + int(lifetime.total_seconds()),
            "root": plan.root.to_json(),
            "recovery": plan.recovery.to_json() if plan.recovery else None,
            "keys": [key.to_json() for key in plan.keys],
            "revoked": list[Json](sorted(plan.revoked)),
        }
    )
    statement = keyset_of(Envelope(TYP_KEYSET, payload, ()))
    check_draft(statement, previous)
    return statement


def check_draft(statement: KeysetStatement, previous: KeysetStatement | None) -> None:
    """Check all of a step but its signatures.

    Raises:
        StatementRefused: As :func:`check_step`, but for ``statement.unsigned``.
    """
    bare = replace(statement, envelope=Envelope(TYP_KEYSET, statement.envelope.payload, ()))
    try:
        check_step(bare, previous)
    except StatementRefused as refusal:
        if refusal.code != "statement.unsigned":  # the last thing that each of the checks asks
            raise


def quorum_signatures(
    statement: KeysetStatement, previous: KeysetStatement | None
) -> tuple[QuorumSignatures, ...]:
    """Say which quorums have to sign a draft, and who has; a check raises, this tells."""
    quorums = required_quorums(statement, previous)
    keys = (key.public for quorum in quorums.values() for key in quorum.keys)
    signers = list_signers(statement.envelope, keys)
    return tuple(
        QuorumSignatures(name, quorum, quorum.holders(signers)) for name, quorum in quorums.items()
    )


def _listed(
    record: KeyRecord, entry: IssuerKey | None, now: datetime, until: datetime
) -> IssuerKey:
    """The entry of a key; its times stay while they outlast the statement."""
    start, end = int(now.timestamp()), int((now + KEY_LIFETIME).timestamp())
    if entry is not None:
        start = entry.nbf
        end = entry.exp if entry.exp >= until.timestamp() else end
    holder = record.holder or (entry.holder if entry else DEFAULT_HOLDER)
    roles = tuple(role for role in _ONLINE if role in record.roles)
    return IssuerKey(record.public, roles, holder, start, end)


def _without(quorum: Quorum, thumbprints: frozenset[str]) -> Quorum:
    keys = tuple(key for key in quorum.keys if key.public.thumbprint not in thumbprints)
    return replace(quorum, keys=keys)


# A draft as a file, and whether the roots have to sign one.


def write_draft(statement: KeysetStatement) -> bytes:
    """A draft as a file: General JSON as a statement is, with the signatures that there are."""
    return statement.envelope.to_bytes(indent=2) + b"\n"


def read_draft(untrusted_bytes: bytes) -> KeysetStatement:
    """Read a draft or a statement. No signature is verified.

    Raises:
        StatementRefused: As :func:`cardsign.statements.keyset.read_keyset`.
    """
    return keyset_of(read_envelope(untrusted_bytes, TYP_KEYSET, is_draft=True))


@dataclass(frozen=True, slots=True)
class KeysetDue:
    """The next keyset statement, by its number as people write it.

    Attributes:
        due: From when on the roots are wanted.
        why: What for, in words.
        ends: When the newest one ends, and with it everything.
    """

    number: str
    due: datetime
    why: str
    ends: datetime

    def is_due(self, now: datetime) -> bool:
        return self.due <= now


def keyset_due(state: StoreState, previous: KeysetStatement, *, now: datetime) -> KeysetDue:
    """Say when the roots have to sign again: keys have changed, or a third of its time is left.

    Keys that have retired leave with the statement that is due for another reason. Until then each
    release names them as revoked, so the roots are not wanted for them alone.
    """
    ends = utc(previous.exp)
    changed = [key for key in find_changed(state, previous, now) if key.state != "retired"]
    due, why = previous.renew_at, f"keyset {previous.label} ends at {second(ends)}"
    if changed:
        why = f"keyset {previous.label} is out of date: {_kids(changed)} changed since"
        due = min(due, max(map(_last_change, changed)))
    return KeysetDue(f"{previous.epoch}.{previous.version + 1}", due, why, ends)


def find_changed(
    state: StoreState, statement: KeysetStatement, now: datetime
) -> tuple[KeyRecord, ...]:
    """Return the keys of a store of which a statement says something else than the store."""
    plan = KeysetPlan.of(statement)
    after = plan.following(state, now=now, until=now)
    names = plan.revoked ^ after.revoked
    names |= {key.public.thumbprint for key in {*plan.keys} ^ {*after.keys}}
    names |= {key.public.thumbprint for key in {*plan.root.keys} ^ {*after.root.keys}}
    return tuple(key for key in state.keys if key.thumbprint in names)


def _kids(keys: Sequence[KeyRecord]) -> str:
    """The first kids of some keys, for a sentence."""
    more = f" and {len(keys) - _KIDS_SHOWN} more" if len(keys) > _KIDS_SHOWN else ""
    return ", ".join(key.kid for key in keys[:_KIDS_SHOWN]) + more


def _last_change(key: KeyRecord) -> datetime:
    """When a key came into the state in which it is."""
    times = key.times
    moments = (times.prepublished, times.activated, times.retired, times.revoked)
    return max([key.created, *(time for time in moments if time is not None)])


def draft_if_due(
    state: StoreState,
    previous: KeysetStatement,
    untrusted_draft: bytes | None,
    *,
    now: datetime,
) -> tuple[KeysetStatement, bool] | None:
    """Draft the next statement if one is due, or find that the draft which is there will do.

    That one follows the newest statement and, once signed, leaves nothing to say. One that nobody
    has signed is made anew if it lists a key that has retired since.

    Returns:
        The draft, and whether it is a new one; None if nothing is due.

    Raises:
        StatementRefused: As :func:`draft_next`.
    """
    following = keyset_due(state, previous, now=now)
    if not following.is_due(now):
        return None
    with suppress(StatementRefused):
        draft = read_draft(untrusted_draft or b"")
        check_draft(draft, previous)
        is_right = is_begun(draft, previous) or not find_changed(state, draft, utc(draft.iat))
        if is_right and not keyset_due(state, draft, now=now).is_due(now):
            return draft, False
    # The draft says when it came to be due, unless that was too long ago.
    since = max(following.due, utc(previous.iat)).replace(microsecond=0)
    issued = now if since > now or now >= since + KEYSET_LIFETIME / 3 else since
    return _draft_at(state, previous, issued), True


def is_begun(draft: KeysetStatement, previous: KeysetStatement | None) -> bool:
    """Say whether a root of the statement before has signed a draft."""
    roots = previous.root.keys if previous else ()
    return bool(list_signers(draft.envelope, (key.public for key in roots)))


def _draft_at(state: StoreState, previous: KeysetStatement, issued: datetime) -> KeysetStatement:
    """Draft what a store has to say at a moment."""
    plan = KeysetPlan.of(previous).following(state, now=issued, until=issued + KEYSET_LIFETIME)
    return draft_next(plan, previous, now=issued)


def says_more(
    state: StoreState,
    previous: KeysetStatement,
    draft: KeysetStatement,
    *,
    now: datetime,
) -> tuple[str, ...]:
    """Return what a draft changes besides what the key store has to say; nobody vouches for it.

    A person may have drafted it so, `cardsign keyset draft --add-root`, or a stranger may have put
    it there. A draft from a later time than `now` says that as well. Not checked: that it follows
    `previous`; see :func:`check_draft`.
    """
    issued = utc(draft.iat)
    # A key of ours that has retired since was still to be listed when the draft was made.
    listed = {key.public.thumbprint for key in draft.keys}
    since = [key for key in state.keys if key.state == "retired" and key.thumbprint in listed]
    state = state.replacing(key.at("retiring") for key in since)
    try:
        ours = _draft_at(state, previous, issued)
    except StatementRefused:  # such as too few roots: only a person can fix that
        ours = previous
    *content, times = differences(ours, draft)
    additions = [change for change in content if not change.startswith("=")]
    if draft.exp != ours.exp or issued > now:
        additions.append(times)
    return tuple(additions)


# Releases.


#: How long a release is believed. It is renewed at half of it, so a dead cron is seen in time.
RELEASE_LIFETIME: Final = timedelta(days=7)
#: The clocks of the issuer's own hosts may differ by so much.
SKEW: Final = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class ReleasePlan:
    """What the next release says that the one before did not.

    Attributes:
        cards: (url, payload digest) of the cards to list; the listed ones stay.
        settled: By url, the digest of the only card that caches can still hold: what was listed
            before it no longer is, and the floor rises to it.
        withdrawn: Urls of which nothing is current any more.
        extended_floor: The least seq of an extended card that is still current, if it rises.
        revoked: Thumbprints; those that are no keys of the keyset are left out.
        audit_head: The digest of the newest line of the key store's log; None leaves it out.
    """

    cards: tuple[tuple[str, str], ...] = ()
    settled: Mapping[str, str] = field(default_factory=dict)
    withdrawn: frozenset[str] = frozenset()
    extended_floor: int | None = None
    revoked: frozenset[str] = frozenset()
    audit_head: str | None = None


def settled_cards(
    listed: Iterable[ListedCard], state: StoreState, settings: TimelineSettings, now: datetime
) -> dict[str, str]:
    """By url, the digest of the only card that caches can still hold, where there is just one.

    It is the one that the newest records show, of publications or of looks at what is live, and the
    first of these is as old as caches may keep a card. What nobody has recorded does not settle: it
    may never have been live.
    """
    turnover = settings.as_published(state).turnover
    shown = {
        card.payload_sha256: (card.since or publication.at) + turnover <= now
        for publication in state.publications
        for card in publication.cards
    }
    return {
        card.url: card.payload_sha256 for card in listed if shown.get(card.payload_sha256, False)
    }


def card_digest(card: bytes) -> str:
    """SHA-256 of a card's ``served-as-is`` payload in lower-case hex, as releases list it.

    Raises:
        JsonRefused, CardRefused: It cannot be read in one way only.
        CanonicalizationError: It has no such payload.
    """
    return hashlib.sha256(
        canonicalize(Card.from_bytes(card).document, "served-as-is").data
    ).hexdigest()


def draft_following(
    plan: ReleasePlan,
    keyset: KeysetStatement,
    previous: ReleaseStatement | None,
    *,
    seq: int,
    now: datetime,
    lifetime: timedelta = RELEASE_LIFETIME,
) -> ReleaseStatement:
    """Draft the next release, unsigned; `seq` is higher than any number that was used.

    Raises:
        StatementRefused: What a verifier would refuse however it is signed.
    """
    floor = dict(previous.floor) if previous else {}
    if plan.extended_floor is not None:
        floor[FLOOR_EXTENDED] = max(plan.extended_floor, floor.get(FLOOR_EXTENDED, 0))
    cards = _listed_cards(plan, previous, floor, seq)
    for card in cards:  # no cache holds what was listed before it any more
        if plan.settled.get(card.url) == card.payload_sha256:
            floor[card.url] = max(floor.get(card.url, 0), card.seq)
    # The floor outlives the card: so every later release knows that it was withdrawn.
    for url in plan.withdrawn:
        floor.setdefault(url, seq)
    revoked = plan.revoked
    if previous is not None and previous.keyset == keyset.id:
        revoked = revoked | previous.revoked
    iat = int(now.timestamp())
    payload = jcs(
        {
            "format": RELEASE_FORMAT,
            "issuer": keyset.issuer,
            "keyset": keyset.id.to_json(),
            "seq": seq,
            "iat": iat,
            "exp": iat + int(lifetime.total_seconds()),
            "cards": [
                {
                    "url": card.url,
                    "kind": card.kind,
                    "payload_sha256": card.payload_sha256,
                    "seq": card.seq,
                }
                for card in cards
                if card.url not in plan.withdrawn and card.seq >= floor.get(card.url, 0)
            ],
            "floor": dict(floor),
            "revoked": list[Json](sorted(revoked & {key.public.thumbprint for key in keyset.keys})),
            "audit_head": plan.audit_head,
        }
    )
    return release_of(Envelope(TYP_RELEASE, payload, ()))


def says_something_new(
    draft: ReleaseStatement, previous: ReleaseStatement | None, *, now: datetime
) -> bool:
    """Whether a release says anything new, or the one before is half over, or not begun.

    A longer audit log alone is nothing new: each release makes it longer itself.
    """
    if previous is None or now >= previous.renew_at or is_early(previous, now=now):
        return True
    new, old = (
        (
            release.issuer,
            release.keyset,
            frozenset(release.cards),
            dict(release.floor),
            release.revoked,
        )
        for release in (draft, previous)
    )
    return new != old


def is_early(release: ReleaseStatement, *, now: datetime) -> bool:
    """Whether nobody believes a release yet: the signer's clock was ahead."""
    return now.timestamp() < release.iat - SKEW.total_seconds()


def _listed_cards(
    plan: ReleasePlan, previous: ReleaseStatement | None, floor: Mapping[str, int], seq: int
) -> list[ListedCard]:
    """Cards that are current and those to come; who was listed first when stays so."""
    listed = {
        (card.url, card.payload_sha256): card
        for card in (previous.cards if previous else ())
        if card.seq >= floor.get(card.url, 0)
    }
    newest = {card.url: card for card in sorted(listed.values(), key=lambda card: card.seq)}
    # To return to a card before the newest is to list it anew: else its floor would let the newer
    # one pass for ever.
    for url, digest in plan.cards:
        if url not in newest or newest[url].payload_sha256 != digest:
            listed[url, digest] = ListedCard(url, KIND_PUBLIC, digest, seq)
    return sorted(listed.values(), key=lambda card: (card.url, card.seq, card.payload_sha256))
