"""One rehearsal: cron each hour, a person a day after being asked, and three peers who look.

It runs the state of a key store, with keys that stand in for its own, through the functions that
cron and operators run. Copies of cards and key sets are as old as ``[timeline]`` allows them to
be, and those of statements as old as their headers allow.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final, Literal

from cardsign.card.document import Card
from cardsign.config import ProjectConfig
from cardsign.errors import PassphraseFault, SigningRefused
from cardsign.issuer.cards import read_source
from cardsign.issuer.publishing import needed_publication, newest_generation, publish_cards
from cardsign.issuer.release import ReleaseChanges, renew_release
from cardsign.issuer.revocation import keys_stored_with, revoke_and_replace
from cardsign.issuer.rotation import rotate_keys
from cardsign.issuer.tasks import Progress, Work
from cardsign.jose.keys import PrivateKey
from cardsign.keys.drafts import keyset_due
from cardsign.keys.history import kept_keyset
from cardsign.keys.model import ENDED, KeyRecord, Role
from cardsign.keys.rotation import TimelineRow, key_rows, steps
from cardsign.keys.signers.access import Access, SecretKind
from cardsign.keys.stores.base import KeyStore
from cardsign.publish.generation import MAX_STATEMENT_AGE, load_current
from cardsign.rehearsal.world import Copies, KeysetPeer, MemoryStore, Site, believes, stand_in
from cardsign.sign.signing import SigningOptions, sign_document
from cardsign.times import utc
from cardsign.urls import CARD_PATH, JWKS_PATH, KEYSET_PATH, RELEASE_PATH
from cardsign.verify.verdict import VerdictCache

PeerName = Literal["pinned keys", "JWK Set", "keyset"]
Who = Literal["cron", "person"]
#: After how long a person does what cron asks for.
PATIENCE: Final = timedelta(hours=24)

_BY_HAND: Final[frozenset[Role]] = frozenset({"card", "root"})
_HOUR: Final = timedelta(hours=1)
_CLOSELY: Final = timedelta(minutes=5)  # between two looks, in the first hour after a theft
_DAY: Final = timedelta(days=1)
_LONGEST: Final = timedelta(days=500)  # such as where a key rotates once a year


@dataclass(frozen=True, slots=True)
class Event:
    """What was done at a moment.

    Attributes:
        at: When.
        who: ``cron`` or ``person``.
        what: In words.
    """

    at: datetime
    who: Who
    what: str


@dataclass(frozen=True, slots=True)
class Belief:
    """What a peer said from one moment until another.

    Attributes:
        start: Since when.
        end: Until when; the end of the rehearsal at the latest.
        honest: Whether it trusted the issuer's own card, in each copy that a cache may hold.
        thief: Whether it trusted a card signed with a stolen key; False without a theft.
        why: Why it refused the issuer's card, as a keyset peer says it; else empty.
    """

    start: datetime
    end: datetime
    honest: bool
    thief: bool
    why: str = ""


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What would happen.

    Attributes:
        start: The time of the store's state.
        end: When the rotation was over, or nobody believed the thief any more.
        events: What cron and people did.
        beliefs: What each peer said, oldest first; a keyset peer only where there are keysets.
        left: What still needed a person at the end, in words.
        rows: The stand-ins of the store's keys, as a timeline at the end shows them.
    """

    start: datetime
    end: datetime
    events: tuple[Event, ...]
    beliefs: dict[PeerName, tuple[Belief, ...]]
    left: tuple[str, ...]
    rows: tuple[TimelineRow, ...] = ()

    def refusals(self, peer: PeerName) -> tuple[Belief, ...]:
        """When a peer refused the issuer's own card."""
        return tuple(one for one in self.beliefs[peer] if not one.honest)

    def fooled_until(self, peer: PeerName) -> datetime | None:
        """When a peer stopped believing the thief; None where it never did."""
        ends = [one.end for one in self.beliefs[peer] if one.thief]
        return max(ends, default=None)

    @property
    def holds(self) -> bool:
        """Whether a rotation goes unnoticed, or a thief is believed by nobody in the end.

        It is asked of peers that ask again. One that pinned the keys of today learns of no change.
        After a theft the cards of the stolen key are refused by those that know no other yet.
        """
        asking = [told for peer, told in self.beliefs.items() if peer != "pinned keys"]
        if any(one.thief for told in asking for one in told):
            return not any(told[-1].thief for told in asking)
        return all(one.honest for told in asking for one in told)


def rehearse(
    store: KeyStore,
    config: ProjectConfig,
    *,
    now: datetime,
    folder: Path,
    revoke: Sequence[str] = (),
    stored_with: bool = False,
) -> Rehearsal:
    """Run a store's state through its next rotation, or through a theft.

    Nothing of the store, its cards or its publication is changed, and no passphrase is needed.

    Args:
        store: The key store; it is only read.
        config: The project: its issuer, cards, publication and timeline.
        now: The time, with its zone, in whole seconds.
        folder: An empty folder for what is published meanwhile.
        revoke: Kids of stolen keys, revoked five minutes after `now`; none: a rotation.
        stored_with: Revoke the keys that were stored with them too.

    Raises:
        SigningRefused: ``sign.no_key``: no card key is active.
        UsageFault: ``statement.expired``, ``statement.not_yet``: the newest keyset does not
            stand now.
        StoreFault: ``keystore.unknown_key``; or as :func:`cardsign.issuer.rotate_keys`.
    """
    state, keyset = store.load(), kept_keyset(store)
    taken = [state.find(kid) for kid in revoke]
    taken += keys_stored_with(state, taken, keyset, now) if stored_with else []
    stolen = tuple(dict.fromkeys(key.kid for key in taken))
    card = _published_card(config)
    copy, roots = stand_in(store)
    if not copy.state.active_keys("card"):
        raise SigningRefused(
            "sign.no_key", "no card key is active, so there is nothing to rehearse"
        )
    config = replace(config, publish=folder / "public", cards=())
    return _Run(config, copy, roots, now, folder / "next-keyset.json", stolen).through(card)


@dataclass(slots=True)
class _Run:
    """One rehearsal under way."""

    config: ProjectConfig
    store: MemoryStore
    roots: MemoryStore
    now: datetime
    draft: Path
    stolen: tuple[str, ...]
    site: Site = field(default_factory=Site)
    events: list[Event] = field(default_factory=list)
    beliefs: dict[PeerName, list[Belief]] = field(default_factory=dict)
    forged: dict[bytes, bytes] = field(default_factory=dict)
    thief: PrivateKey | None = None
    changed: datetime | None = None
    visit: datetime | None = None

    def through(self, card: bytes) -> Rehearsal:
        """Begin with this card, and go on until all is over."""
        start, before = self.now, self.store.state.active_keys("card")
        self.changed = start
        self._begin(card)
        pinned, peer = self.site.live(JWKS_PATH, _seconds(start)) or b"", self._keyset_peer()
        self.thief = next(
            (
                self.store.private[key.thumbprint]
                for key in self.store.state.keys
                if key.kid in self.stolen and "card" in key.roles
            ),
            None,
        )
        progress = self._tick()
        while True:
            self._look(pinned, peer, start)
            if self._is_over(progress, before, start) or self.now >= start + _LONGEST:
                break
            is_first, following = self.now == start, self._next(start)
            for end in self._copies_end(following):
                self.now = end
                self._look(pinned, peer, start)
            self.now = following
            if self.stolen and is_first:
                self._look(pinned, peer, start)  # who asks just before is told of it last
                progress = self._theft()
            else:
                progress = self._tick()
        left = tuple(f"{one.who}: {one.what}" for one in progress.left)
        beliefs = {name: _joined(told, self.now) for name, told in self.beliefs.items()}
        rows = key_rows(self.store.state, self.config.timeline, self.now)
        return Rehearsal(start, self.now, tuple(self.events), beliefs, left, rows)

    # What the issuer does.

    def _begin(self, card: bytes) -> None:
        """Publish the card, signed by the stand-ins of the keys that sign now."""
        work = self._work()
        keys = self.store.state.signing_keys(self.now)
        signers = [self.store.private[key.thumbprint] for key in keys]
        options = SigningOptions(own_kids=self.store.state.ever_held_kids())
        signed = sign_document(card, signers, options)
        if kept_keyset(self.store) is not None:
            changes = ReleaseChanges(cards=((None, signed),))
            renew_release(work, changes)
        publish_cards(work, signed)
        self._deploy()

    def _theft(self) -> Progress:
        """The stolen keys are revoked by a person who has every passphrase and root there."""
        work = self._work(by_person=True)
        progress = revoke_and_replace(work, self.stolen, reason="compromised")
        self._note("person", progress)
        return progress

    def _tick(self) -> Progress:
        """Cron, with the passphrase of releases alone; and the person whom it asked for."""
        self.store.locked = _BY_HAND
        progress = self._all_due("cron")
        self.store.locked = frozenset()
        if not progress.left:
            self.visit = None
        elif self.visit is None:
            self.visit = self.now + PATIENCE
        elif self.visit <= self.now:
            self.visit = None
            progress = self._all_due("person")
        return progress

    def _all_due(self, who: Who) -> Progress:
        progress = rotate_keys(self._work(by_person=who == "person"))
        self._note(who, progress)
        return progress

    def _work(self, *, by_person: bool = False) -> Work:
        """What cron may use, or a person, who brings the root keys."""
        work = Work(self.store, self.now, self.config, Access(self._secret), draft=self.draft)
        if by_person and self.roots.state.keys:
            work.roots = Work(self.roots, self.now)
        return work

    def _secret(self, _: SecretKind, of: str) -> bytes:
        if of in self.store.locked:
            raise PassphraseFault("passphrase.none", "only a person has this passphrase")
        return b""

    def _note(self, who: Who, progress: Progress) -> None:
        told = (one for one in progress.done if not one.startswith("published generation"))
        self.events += [Event(self.now, who, what) for what in told]
        self._deploy()

    def _deploy(self) -> None:
        """What is published is live at once."""
        generation, t = load_current(needed_publication(self.config)), _seconds(self.now)
        files = {CARD_PATH: generation.card, JWKS_PATH: generation.jwks}
        if generation.release is not None:
            files[RELEASE_PATH] = generation.release
        for number, data in generation.keysets.items():
            epoch, _, version = number.partition(".")
            files[KEYSET_PATH.format(epoch=epoch, version=version)] = data
        new = {path for path, data in files.items() if self.site.show(path, data, t)}
        if new & {CARD_PATH, JWKS_PATH}:
            self.changed = self.now

    # When it goes on, and until when.

    def _next(self, start: datetime) -> datetime:
        """The next moment to look at: soon after a change, else when something is due."""
        settings = self.config.timeline.as_published(self.store.state)
        if self.stolen and self.now < start + _HOUR:
            return self.now + _CLOSELY
        if self.changed is None or self.now < self.changed + settings.propagation + _HOUR:
            return self.now + _HOUR
        keyset = kept_keyset(self.store)
        due = [step.due for step in steps(self.store.state, settings, self.now) if step.due]
        due += [self.visit] if self.visit else []
        if keyset:
            due.append(keyset_due(self.store.state, keyset, now=self.now, settings=settings).due)
        soon = min((one for one in due if one > self.now), default=self.now + _DAY)
        hours = -(-(min(soon, self.now + _DAY) - self.now) // _HOUR)
        return self.now + max(1, hours) * _HOUR

    def _copies_end(self, following: datetime) -> list[datetime]:
        """When the oldest copies of what has changed last end, before the next moment."""
        settings = self.config.timeline
        ages = {settings.card_max_age, settings.max_age, settings.worst_cache}
        ends = [self.changed + timedelta(seconds=age) for age in ages] if self.changed else []
        return sorted(end for end in ends if self.now < end < following)

    def _is_over(self, progress: Progress, before: Sequence[KeyRecord], start: datetime) -> bool:
        """Whether caches have forgotten what was there before, and nobody is needed."""
        settings = self.config.timeline.as_published(self.store.state)
        settled = self.changed is None or self.now > self.changed + settings.propagation
        ended = all(self.store.state.find(key.thumbprint).state in ENDED for key in before)
        if self.stolen:  # what only an absent holder can do would never be over
            return self.now > start + settings.propagation + 2 * PATIENCE and settled
        return ended and settled and not progress.left

    # What the peers say.

    def _keyset_peer(self) -> KeysetPeer | None:
        keyset = kept_keyset(self.store)
        if keyset is None:
            return None
        settings = self.config.timeline
        return KeysetPeer(
            Copies(self.site, MAX_STATEMENT_AGE),
            keyset.origins[0],
            keyset.id,
            at=utc,
            skew=settings.skew,
            verdicts=VerdictCache(),
        )

    def _look(self, pinned: bytes, peer: KeysetPeer | None, start: datetime) -> None:
        settings, t, begun = self.config.timeline, _seconds(self.now), _seconds(start)
        worst = max(settings.max_age, settings.worst_cache)
        cards = self._copies(CARD_PATH, (t, max(begun, t - settings.card_max_age)))
        key_sets = self._copies(JWKS_PATH, (t, max(begun, t - worst)))
        stolen = [self._forged(card) for card in cards] if self.thief else []
        asked: dict[PeerName, list[bytes]] = {"pinned keys": [pinned], "JWK Set": key_sets}
        for name, sets in asked.items():
            self._believes(
                name,
                all(believes(one, card) for one in sets for card in cards),
                any(believes(one, card) for one in sets for card in stolen),
            )
        if peer is not None:
            report = peer.verify(t, cards[-1])
            if report.verdict != "trusted":  # it asks for the card again as well
                report = peer.verify(t, cards[0])
            fooled = any(peer.verify(t, card).verdict == "trusted" for card in stolen)
            why = "" if report.verdict == "trusted" else report.reasons[0].message
            self._believes("keyset", report.verdict == "trusted", fooled, why)

    def _believes(self, name: PeerName, honest: bool, thief: bool, why: str = "") -> None:
        self.beliefs.setdefault(name, []).append(Belief(self.now, self.now, honest, thief, why))

    def _copies(self, path: str, moments: tuple[int, ...]) -> list[bytes]:
        found = (self.site.live(path, moment) for moment in moments)
        return list(dict.fromkeys(one for one in found if one is not None))

    def _forged(self, card: bytes) -> bytes:
        """The issuer's own words under the stolen key: what a release lists."""
        if card not in self.forged:
            document = dict(Card.from_bytes(card).document)
            document.pop("signatures", None)
            assert self.thief is not None  # noqa: S101  asked before
            unsigned = json.dumps(document).encode()
            self.forged[card] = sign_document(unsigned, [self.thief], SigningOptions())
        return self.forged[card]


def _joined(told: Sequence[Belief], end: datetime) -> tuple[Belief, ...]:
    """What was said, each for as long as nothing else was."""
    joined: list[Belief] = []
    for one in told:
        last = joined[-1] if joined else None
        if last is not None and (last.honest, last.thief) == (one.honest, one.thief):
            continue
        if last is not None:
            joined[-1] = replace(last, end=one.start)
        joined.append(replace(one, end=end))
    return tuple(joined)


def _seconds(moment: datetime) -> int:
    return int(moment.timestamp())


def _published_card(config: ProjectConfig) -> bytes:
    """The card that is published; else the public one of the settings."""
    newest = newest_generation(config.publish)
    if newest is not None:
        return newest.card
    if not config.cards:
        raise SigningRefused(
            "sign.no_key",
            "no card is published or named in cardsign.toml, so no peer can look at one",
            hint="Name one in cardsign.toml: [[card]] with `source`.",
        )
    return read_source(config.cards[0], config.build)
