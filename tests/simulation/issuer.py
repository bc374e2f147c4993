"""A random issuer: two hosts with cron, a store, roots who meet now and then, and a site.

What it does is the library `cardsign.issuer`: it rotates, drafts and publishes keysets, renews
releases and revokes. Here it only comes late, skips, loses a host, and has wrong clocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from random import Random
from typing import Any
from unittest.mock import patch

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from cardsign import sign_card
from cardsign.config import ProjectConfig
from cardsign.errors import CardsignError
from cardsign.issuer.keyset import accept_keyset, draft_keyset, keyset_due
from cardsign.issuer.release import ReleasePlan, card_digest, sign_next_release
from cardsign.issuer.work import Work
from cardsign.jose.keys import JwkSet, PrivateKey
from cardsign.keys import agenda
from cardsign.keys.agenda import steps
from cardsign.keys.history import follow_events, kept_keysets
from cardsign.keys.ledger import Publication, PublishedCard, Role, statement_blob
from cardsign.statements.keyset import KeysetStatement, RootKey, read_keyset, sign_keyset
from cardsign.statements.release import ReleaseStatement
from cardsign.urls import KEYSET_PATH, RELEASE_PATH
from tests.keys.states import take_due_step
from tests.simulation.clockwork import CARD, DAY, HOME, HOUR, JWKS, Clockwork, at
from tests.simulation.peers import MemoryStore
from tests.support import PORTABLE, dump

URL = HOME + CARD
SAFE = "exec:/safe"  # another custody than the store's files
TICK = 6 * HOUR


def document(**changes: Any) -> bytes:
    """A small card, unsigned."""
    words = ("name", "description", "version", "supportedInterfaces", "capabilities")
    more = ("defaultInputModes", "defaultOutputModes", "skills")
    return dump({**{word: PORTABLE[word] for word in (*words, *more)}, **changes})


def key_of(random: Random, kid: str) -> PrivateKey:
    """A key that follows from the seed, so that a run can be had again to the byte."""
    order = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
    native = ec.derive_private_key(random.randrange(1, order), ec.SECP256R1())
    der = native.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    return PrivateKey.from_pkcs8_der(der, kid=kid)


class Issuer:
    """What he holds, and what he does at each tick."""

    def __init__(self, world: Clockwork) -> None:
        self.world, self.setting, self.random = world, world.setting, world.random
        self.store = MemoryStore()
        self.roots = {name: key_of(self.random, name) for name in ("ann", "bob", "cat", "rita")}
        half = self.setting.timeline.skew // 2
        self.clocks = [self.random.randint(-half, half) for _ in range(2)]
        self.lost: dict[int, int] = {}
        self.keysets: list[KeysetStatement] = []
        self.release: ReleaseStatement | None = None
        self.content = 1
        self.newest_digest = ""
        self.ceremony_planned = False
        self.deployed_until = 0
        self.cards: dict[tuple[int, tuple[str, ...]], bytes] = {}
        self.signers_of: dict[bytes, tuple[str, ...]] = {}
        self.statements: dict[str, bytes] = {}
        self.expected: dict[str, int] = {}  # kid: since when a JWK Set ought to hold it
        self.revoked_in_releases: dict[str, int] = {}
        self.gone_from_jwks: dict[str, int] = {}
        self.changes: list[int] = []
        self.revoked: dict[str, int] = {}
        self._serial = 0

    # -------------------------------------------------------------- beginning

    def begin(self) -> None:
        """Keys for both roles, a standby elsewhere, the first statements, a first publication."""
        now = self.clock(0, 0)
        self._enter("card", now)
        self._enter("release", now)
        self._enter("card", now, standby=True)
        self._keyset(now)
        self._publish(0, now, delay=0)
        for host in range(2):
            self.world.plan(self.random.randint(1, TICK), lambda t, h=host: self._tick(t, h))
        if self.random.random() < 0.5:
            self.lost[self.random.randrange(2)] = self.random.randint(0, self.setting.horizon)
        for _ in range(6):
            self.world.plan(self.random.randint(DAY, self.setting.horizon), self._edit)

    def clock(self, t: int, host: int) -> datetime:
        """What a host believes the time to be."""
        return at(t + self.clocks[host])

    def _new_key(self, kind: str) -> PrivateKey:
        self._serial += 1
        return key_of(self.random, f"{kind}-{self._serial}")

    def _enter(self, role: Role, now: datetime, *, standby: bool = False) -> None:
        private = self._new_key("standby" if standby else role)
        custody = SAFE if standby else None
        record = self.store.add_key(private, b"", now=now, role=role, custody=custody)
        self.world.note(f"issuer enters {record.kid}: {record.state}")

    # -------------------------------------------------------------- a tick

    def _tick(self, t: int, host: int) -> None:
        if t >= self.setting.horizon:
            return
        following = t + self.random.randint(TICK // 2, 3 * TICK // 2)
        self.world.plan(following, lambda u: self._tick(u, host))
        if t >= self.lost.get(host, t + 1) or self.random.random() < self.setting.skips:
            return
        now = self.clock(t, host)
        if self.setting.deploys_late:
            self._look(t, now)
        self._rotate(now)
        self._publish(t, now)

    def _work(self, now: datetime) -> Work:
        return Work(self.store, now, ProjectConfig(format=1, timeline=self.setting.timeline))

    def _rotate(self, now: datetime) -> None:
        timeline = self.setting.timeline
        if self.keysets:
            self.store.commit(lambda state: follow_events(state, kept_keysets(self.store)), now=now)
        while step := take_due_step(self.store, now=now, settings=timeline):
            self.world.note(f"issuer: {step.action} {step.key.kid}")
        for due in steps(self.store.state, timeline, now):
            if due.action == "generate" and due.is_due(now):
                self._enter(due.key.role, now)
        states = ("generated", "prepublished")
        waits = [key for key in self.store.state.keys if key.state in states]
        if not any(key.custody == SAFE for key in waits):
            self._enter("card", now, standby=True)

    def _edit(self, t: int) -> None:
        """The card is to say something else from the next tick on."""
        self.content += 1
        self.world.note(f"issuer edits the card: {self.content}")

    def _look(self, t: int, now: datetime) -> None:
        """Put on record what is live, as ``keys rotate`` does where a live URL is named."""
        card, jwks = self.world.site.live(CARD, t), self.world.site.live(JWKS, t)
        if card is not None and jwks is not None:
            self._record(0, now, JwkSet.from_bytes(jwks), card)

    def _record(self, generation: int, now: datetime, jwks: JwkSet, card: bytes) -> None:
        before = self.store.state.publications
        when = max(now, before[-1].at + timedelta(seconds=1)) if before else now
        digest = card_digest(card)
        kids = tuple(key.kid for key in jwks.keys)
        shown = PublishedCard("agent-card.json", digest, self.signers_of[card], URL)
        told = Publication(generation, when, self.setting.oldest_card, kids, (shown,))
        self.store.commit(agenda.record_publication, told, now=now)

    # -------------------------------------------------------------- statements

    def _keyset(self, now: datetime) -> None:
        lifetime = timedelta(seconds=self.setting.keyset_life)
        changes = {} if self.keysets else self._first()
        work = self._work(now)
        draft = draft_keyset(work, lifetime=lifetime, **changes)
        signers = [self.roots["ann"], self.roots["bob"]]
        data = sign_keyset(draft.envelope.payload, signers)
        accept_keyset(work, read_keyset(data))
        self.keysets.append(read_keyset(data))
        self.statements[KEYSET_PATH.format(epoch=draft.epoch, version=draft.version)] = data
        listed = ", ".join(key.public.kid for key in draft.keys)
        self.world.note(f"the roots sign keyset {draft.label}: {listed}")

    def _first(self) -> dict[str, Any]:
        """Two of three roots, and a recovery key, each on a machine of its own."""
        people = [RootKey(self.roots[name].public, name) for name in ("ann", "bob", "cat")]
        rita = RootKey(self.roots["rita"].public, "rita")
        return {"origins": (HOME,), "add_roots": people, "threshold": 2, "recovery": (rita,)}

    def _ceremony(self, t: int) -> None:
        """The roots sign what the store's state asks for by now, and it is published."""
        self.ceremony_planned = False
        now = self.clock(t, 0)
        try:
            self._keyset(now)
        except CardsignError as refusal:
            self.world.note(f"the roots cannot sign: {refusal.code}")
            return
        self._publish(t, now)

    def _release(self, now: datetime, card: bytes) -> None:
        self.newest_digest = card_digest(card)
        lifetime = timedelta(seconds=self.setting.release_life)
        changes = ReleasePlan(((URL, card_digest(card)),))
        with patch("cardsign.issuer.release.RELEASE_LIFETIME", lifetime):
            signed = sign_next_release(self._work(now), changes)
        if signed is not None:
            self.release = signed
            denied = " ".join(sorted(map(self._kid, self.release.revoked)))
            under = f"release {signed.seq} of keyset 1.{signed.keyset.version}"
            self.world.note(f"issuer signs {under}, revokes [{denied}]")

    # -------------------------------------------------------------- publishing

    def _publish(self, t: int, now: datetime, delay: int | None = None) -> None:
        """Statements first, then the card and the keys; each is live when it is deployed."""
        wanted = keyset_due(self.store.state, self.keysets[-1], now=now)
        if wanted.due <= now and not self.ceremony_planned:
            self.world.note(f"the roots have to sign: {wanted.why}")
            self.ceremony_planned = True
            self.world.plan(t + self.random.randint(0, self.setting.ceremony), self._ceremony)
        card = self._card(now)
        try:
            self._release(now, card)
        except CardsignError as refusal:  # the other host's clock was ahead
            self.world.note(f"issuer cannot sign a release: {refusal.code}")
            return
        assert self.store.state.release is not None
        release = self.store.checked_blob(statement_blob(self.store.state.release.blob))
        self._deploy(t, {**self.statements, RELEASE_PATH: release}, delay)
        jwks = JwkSet.of([key.public for key in self.store.state.published_keys()])
        live = self._deploy(t, {JWKS: jwks.to_bytes(), CARD: card}, delay)
        for key in self.store.state.keys:
            if key.role == "card" and key.state in ("prepublished", "active"):
                self.expected.setdefault(key.kid, live)
        if not self.setting.deploys_late:
            self._record(len(self.changes), now, jwks, card)

    def _card(self, now: datetime) -> bytes:
        keys = self.store.state.signing_keys(now)
        kids = tuple(key.kid for key in keys)
        made = self.content, kids
        if made not in self.cards:
            signers = [self.store.private[key.thumbprint] for key in keys]
            self.cards[made] = sign_card(document(version=f"1.{self.content}.0"), signers)
        self.signers_of[self.cards[made]] = kids
        return self.cards[made]

    def _deploy(self, t: int, files: Mapping[str, bytes], delay: int | None) -> int:
        late = self.random.randint(0, self.setting.deploys_late) if delay is None else delay
        live = self.deployed_until = max(t + late, self.deployed_until)
        changed = [path for path, body in files.items() if self.world.site.show(path, body, live)]
        if changed:
            signers = " ".join(self.signers_of.get(files.get(CARD, b""), ()))
            names = " ".join(path.rpartition("/")[2] for path in changed)
            self.world.note(f"deployed, live {at(live):%d %H:%M:%S}: {names} [{signers}]")
            self.changes.append(live)
        self._mark(files, live)
        return live

    def _mark(self, files: Mapping[str, bytes], live: int) -> None:
        """Since when the world can know that a key was revoked."""
        revoked = [key for key in self.store.state.keys if key.kid in self.revoked]
        denied = self.keysets[-1].revoked | (self.release.revoked if self.release else frozenset())
        for key in revoked:
            if RELEASE_PATH in files and key.thumbprint in denied:
                self.revoked_in_releases.setdefault(key.kid, live)
            if JWKS in files and JwkSet.from_bytes(files[JWKS]).find(key.kid) is None:
                self.gone_from_jwks.setdefault(key.kid, live)

    # -------------------------------------------------------------- theft

    def revoke(self, t: int, kid: str) -> None:
        """At 3 a.m.: a key is revoked with all of its custody, the card signed and published."""
        now = self.clock(t, 0)
        self.store.commit(agenda.revoke, kid, reason="compromised", now=now)
        while take_due_step(self.store, now=now, settings=self.setting.timeline):
            pass
        for key in self.store.state.keys:
            if key.state == "revoked":
                self.revoked.setdefault(key.kid, t)
        active = " ".join(key.kid for key in self.store.state.active_keys())
        self.world.note(f"issuer revokes {kid}; active: {active}")
        self._publish(t, now)

    def _kid(self, thumbprint: str) -> str:
        return next(key.kid for key in self.store.state.keys if key.thumbprint == thumbprint)
