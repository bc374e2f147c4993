"""A random issuer: two hosts with cron, a store, roots who meet now and then, and a site.

What he decides is cardsign's own code: `keys.life`, `timeline`, `rotation`, `renewal`,
`statements`, `releases`, `operations`. Here he only comes late, skips, loses a host, and has
wrong clocks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from random import Random
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from cardsign.jose import JwkSet, PrivateKey
from cardsign.keys import (
    AuditEvent,
    KeysetPlan,
    Publication,
    PublishedCard,
    ReleasePlan,
    Role,
    StoreState,
    card_digest,
    draft_following,
    draft_next,
    lifecycle,
    plan_renewal,
    steps,
)
from cardsign.keys.releases import says_something_new
from cardsign.keys.stores import KeyStore
from cardsign.sign import sign_card
from cardsign.statements import (
    TYP_KEYSET,
    TYP_RELEASE,
    KeysetStatement,
    Quorum,
    ReleaseStatement,
    RootKey,
    StatementRefused,
    check_release,
    read_keyset,
    read_release,
    sign_statement,
)
from cardsign.trust import KEYSET_PATH, RELEASE_PATH
from tests.simulation.clockwork import CARD, DAY, HOME, HOUR, JWKS, Clockwork, at
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


class Store(KeyStore):
    """A key store in memory; both hosts use the same. It keeps no log and no private keys."""

    __slots__ = ()
    place = log_place = "memory"

    def load(self) -> StoreState:
        return self._state

    def commit(
        self,
        state: StoreState,
        events: Sequence[AuditEvent],
        *,
        now: datetime,
        envelopes: Mapping[str, bytes] | None = None,
    ) -> StoreState:
        self._state = replace(state, generation=state.generation + 1)
        return self._state

    def remove_private(self, thumbprint: str) -> None:
        """There are no files."""

    def _nothing(self, *arguments: Any, **named: Any) -> Any:
        raise NotImplementedError

    read = write = read_audit = read_private = private_keys = private_place = _nothing
    signer = statement_storage = _nothing

    def put(self, state: StoreState) -> None:
        """What only a mutant does: a state that no lawful change leads to."""
        self._state = state


class Issuer:
    """What he holds, and what he does at each tick."""

    def __init__(self, world: Clockwork) -> None:
        self.world, self.setting, self.random = world, world.setting, world.random
        self.store = Store(StoreState(0, ()))
        self.private: dict[str, PrivateKey] = {}
        self.roots = {name: key_of(self.random, name) for name in ("ann", "bob", "cat", "rita")}
        half = self.setting.timeline.skew // 2
        self.clocks = [self.random.randint(-half, half) for _ in range(2)]
        self.lost: dict[int, int] = {}
        self.keysets: list[KeysetStatement] = []
        self.release: ReleaseStatement | None = None
        self.release_bytes = b""
        self.content = 1
        self.newest_digest = ""
        self.ceremony_planned = False
        self.deployed_until = 0
        self.card_first_seen: dict[str, datetime] = {}
        self.cards: dict[tuple[int, tuple[str, ...]], bytes] = {}
        self.signers_of: dict[bytes, tuple[str, ...]] = {}
        self._statements: dict[str, bytes] = {}
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

    def _enter(self, role: Role, now: datetime, *, standby: bool = False) -> None:
        self._serial += 1
        key = key_of(self.random, f"{'standby' if standby else role}-{self._serial}")
        self.private[key.public.thumbprint] = key
        custody = SAFE if standby else None
        state, _ = lifecycle.enter(
            self.store.state, key.public, now=now, roles=(role,), custody=custody, standby=standby
        )
        self.store.put(state)
        self.world.note(f"issuer enters {key.public.kid}: {state.keys[-1].state}")

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

    def _rotate(self, now: datetime) -> None:
        timeline = self.setting.timeline
        while (step := self.store.tick(now=now, settings=timeline)) is not None:
            self.world.note(f"issuer: {step.action} {step.key.kid if step.key else ''}")
        for step in steps(self.store.state, timeline, now):
            if step.key is None and step.is_due(now):
                self._enter(step.role, now)
        states = ("generated", "prepublished")
        waits = [key for key in self.store.state.keys if key.state in states]
        if not any(key.custody == SAFE for key in waits):
            self._enter("card", now, standby=True)

    def _edit(self, t: int) -> None:
        """The card is to say something else from the next tick on."""
        self.content += 1
        self.world.note(f"issuer edits the card: {self.content}")

    def _look(self, t: int, now: datetime) -> None:
        """Put on record what is live, as ``keys look`` does."""
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
        self.store.record_publication(told, now=now)
        if next(reversed(self.card_first_seen), None) != digest:
            self.card_first_seen.pop(digest, None)
            self.card_first_seen[digest] = when

    # -------------------------------------------------------------- statements

    def _plan(self, now: datetime) -> KeysetPlan:
        until = now + timedelta(seconds=self.setting.keyset_life)
        if self.keysets:
            return KeysetPlan.of(self.keysets[-1]).following(self.store.state, now=now, until=until)
        people = [RootKey(self.roots[name].public, name) for name in ("ann", "bob", "cat")]
        rita = Quorum(1, (RootKey(self.roots["rita"].public, "rita"),))
        empty = KeysetPlan("tides.example", (HOME,), Quorum(2, tuple(people)), rita)
        return empty.following(self.store.state, now=now, until=until)

    def _keyset(self, now: datetime) -> None:
        previous = self.keysets[-1] if self.keysets else None
        life_time = timedelta(seconds=self.setting.keyset_life)
        draft = draft_next(self._plan(now), previous, now=now, lifetime=life_time)
        signers = [self.roots["ann"], self.roots["bob"]]
        data = sign_statement(draft.envelope.payload, signers, TYP_KEYSET)
        self.keysets.append(read_keyset(data))
        self._statements[self._path()] = data
        self.keep(draft, now)
        listed = ", ".join(key.public.kid for key in draft.keys)
        self.world.note(f"the roots sign keyset 1.{draft.version}: {listed}")

    def keep(self, keyset: KeysetStatement, now: datetime) -> None:
        """Note it, as ``keyset publish`` does: what it lists may be published from now on."""
        held = keyset.id
        listed = {key.public.thumbprint for key in keyset.keys}
        self.store.apply(lifecycle.keep_keyset, held, listed, now=now)

    def _path(self) -> str:
        return KEYSET_PATH.format(epoch=self.keysets[-1].epoch, version=self.keysets[-1].version)

    def _ceremony(self, t: int) -> None:
        """The roots sign what the store's state asks for by now, and it is published."""
        self.ceremony_planned = False
        now = self.clock(t, 0)
        try:
            self._keyset(now)
        except StatementRefused as refusal:
            self.world.note(f"the roots cannot sign: {refusal.code}")
            return
        self._publish(t, now)

    def _release(self, now: datetime, card: bytes) -> None:
        keyset, state = self.keysets[-1], self.store.state
        self.newest_digest = card_digest(card)
        plan = ReleasePlan(
            cards=((URL, self.newest_digest),),
            settled=self.settled(now),
            revoked=frozenset(key.thumbprint for key in state.keys if key.state == "revoked"),
        )
        seq = self.release.seq + 1 if self.release else 1
        life_time = timedelta(seconds=self.setting.release_life)
        draft = draft_following(plan, keyset, self.release, seq=seq, now=now, lifetime=life_time)
        if not says_something_new(draft, self.release, now=now):
            return
        wanted = {key.public.thumbprint for key in keyset.keys} - draft.revoked
        holders = [key for key in state.signing_keys(now, "release") if key.thumbprint in wanted]
        signers = [self.private[key.thumbprint] for key in holders]
        self.release_bytes = sign_statement(draft.envelope.payload, signers, TYP_RELEASE)
        self.release = read_release(self.release_bytes)
        check_release(self.release, keyset, None, now=now, skew=timedelta())
        said = f"release {seq} of keyset 1.{keyset.version}, {len(draft.cards)} cards"
        denied = ", ".join(self._kid(one) for one in self.release.revoked)
        self.world.note(f"issuer signs {said}{f', revokes {denied}' if denied else ''}")

    def settled(self, now: datetime) -> dict[str, str]:
        """The card that is the only one in caches, once it has been live for long enough."""
        if not self.card_first_seen:
            return {}
        digest, since = next(reversed(self.card_first_seen.items()))
        return {URL: digest} if since + self.setting.timeline.turnover <= now else {}

    # -------------------------------------------------------------- publishing

    def _publish(self, t: int, now: datetime, delay: int | None = None) -> None:
        """Statements first, then the card and the keys; each is live when it is deployed."""
        wanted = plan_renewal(self.store.state, self.keysets[-1], now=now)
        if wanted.is_due(now) and not self.ceremony_planned:
            self.world.note(f"rotate.needs_root: {wanted.why}")
            self.ceremony_planned = True
            self.world.plan(t + self.random.randint(0, self.setting.ceremony), self._ceremony)
        card = self._card(now)
        try:
            self._release(now, card)
        except StatementRefused as refusal:  # the other host's clock was ahead
            self.world.note(f"issuer cannot sign a release: {refusal.code}")
            return
        self._deploy(t, {**self._statements, RELEASE_PATH: self.release_bytes}, delay)
        jwks = JwkSet.of([key.public for key in self.store.state.published_keys()])
        live = self._deploy(t, {JWKS: jwks.to_bytes(), CARD: card}, delay)
        self._expect(live)
        if not self.setting.deploys_late:
            self._record(len(self.changes), now, jwks, card)

    def _card(self, now: datetime) -> bytes:
        keys = self.store.state.signing_keys(now)
        kids = tuple(key.kid for key in keys)
        made = self.content, kids
        if made not in self.cards:
            signers = [self.private[key.thumbprint] for key in keys]
            self.cards[made] = sign_card(document(version=f"1.{self.content}.0"), signers)
        self.signers_of[self.cards[made]] = kids
        return self.cards[made]

    def _deploy(self, t: int, files: Mapping[str, bytes], delay: int | None) -> int:
        late = self.random.randint(0, self.setting.deploys_late) if delay is None else delay
        live = self.deployed_until = max(t + late, self.deployed_until)
        changed = [path for path, body in files.items() if self.world.site.show(path, body, live)]
        if changed:
            self.world.note(f"deployed, live {at(live):%d %H:%M:%S}: {self._told(files, changed)}")
            self.changes.append(live)
        self._mark(files, live)
        return live

    def _told(self, files: Mapping[str, bytes], changed: list[str]) -> str:
        said = []
        for path in changed:
            more = ""
            if path == CARD:
                more = f" [{' '.join(self.signers_of[files[path]])}]"
            if path == JWKS:
                more = f" [{' '.join(key.kid for key in JwkSet.from_bytes(files[path]).keys)}]"
            said.append(path.rpartition("/")[2] + more)
        return ", ".join(said)

    def _mark(self, files: Mapping[str, bytes], live: int) -> None:
        """Since when the world can know that a key was revoked."""
        revoked = [key for key in self.store.state.keys if key.kid in self.revoked]
        denied = self.keysets[-1].revoked | (self.release.revoked if self.release else frozenset())
        for key in revoked:
            if RELEASE_PATH in files and key.thumbprint in denied:
                self.revoked_in_releases.setdefault(key.kid, live)
            if JWKS in files and JwkSet.from_bytes(files[JWKS]).find(key.kid) is None:
                self.gone_from_jwks.setdefault(key.kid, live)

    def _expect(self, live: int) -> None:
        for key in self.store.state.keys:
            if "card" in key.roles and key.state in ("prepublished", "active"):
                self.expected.setdefault(key.kid, live)

    # -------------------------------------------------------------- theft

    def revoke(self, t: int, kid: str) -> None:
        """At 3 a.m.: the key is revoked, the card signed anew and published."""
        now = self.clock(t, 0)
        self.store.apply(lifecycle.revoke, kid, reason="compromised", now=now)
        self.revoked[kid] = t
        active = " ".join(key.kid for key in self.store.active_keys())
        self.world.note(f"issuer revokes {kid}; active: {active}")
        self._publish(t, now)

    def was_revoked(self, kid: str) -> bool:
        """Whether that ever happened."""
        return kid in self.revoked

    def has_ended(self, kid: str) -> bool:
        """Whether the key is retired or revoked by now."""
        ended = ("retired", "revoked")
        return any(key.kid == kid and key.state in ended for key in self.store.state.keys)

    def _kid(self, thumbprint: str) -> str:
        return next(key.kid for key in self.store.state.keys if key.thumbprint == thumbprint)
