"""Random verifiers: those who have a keyset anchor and remember, and those who read a JWK Set.

The first run `trust.refresh` and `examine_card`, with a cache between them and each URL. The
second do what SDKs do: keys and card, each from a cache, and one good signature is enough, or
every signature must be good.
"""

from __future__ import annotations

import functools
from typing import Literal

from cardsign.card import Card, canonicalize
from cardsign.errors import SignatureRefused
from cardsign.jose import Entry, JwkSet, read_entry
from cardsign.statements import (
    MAX_STATEMENT_BYTES,
    KeysetId,
    RootPin,
    read_keyset,
    read_release,
)
from cardsign.trust import (
    NO_STATEMENTS,
    REFRESH_INTERVAL,
    CardUrl,
    FetchResult,
    IssuerState,
    KeysetAnchor,
    Limits,
    Policy,
    SuppliedStatements,
    TransientStates,
    TrustedIssuer,
    raise_floor,
    refresh_issuer,
)
from cardsign.urls import KEYSET_PATH, RELEASE_PATH, parse_place
from cardsign.verify import Report, VerdictCache, examine_card
from tests.simulation.checks import Checks
from tests.simulation.clockwork import CARD, HOME, Clockwork, at

URL = HOME + CARD
NAME = "tides"
Rule = Literal["one good signature", "every signature"]


@functools.lru_cache(maxsize=4096)
def read_card(card: bytes) -> tuple[bytes, tuple[Entry, ...]]:
    """The payload and the signatures of a card."""
    read = Card.from_bytes(card)
    payload = canonicalize(read.document, "served-as-is").data
    return payload, tuple(map(read_entry, read.signatures))


@functools.lru_cache(maxsize=4096)
def read_jwks(jwks: bytes) -> JwkSet:
    """A key set, as cardsign reads it."""
    return JwkSet.from_bytes(jwks)


def sdk_accepts(jwks: bytes, card: bytes, checks: Checks, rule: Rule) -> bool:
    """Whether somebody who has only these two believes the card."""
    payload, entries = read_card(card)
    keys = read_jwks(jwks)
    found = []
    for entry in entries:
        key = keys.find(entry.header.kid)
        try:
            if key is not None:
                checks.entry(entry, payload, key)
        except SignatureRefused:
            key = None
        found.append(key is not None)
    return bool(found) and (any(found) if rule == "one good signature" else all(found))


class Copies:
    """A cache for each URL, between one verifier and the site; an absence is kept as well."""

    def __init__(self, world: Clockwork, keep: int) -> None:
        self.world, self.keep = world, keep
        self._held: dict[str, tuple[int, bytes | None]] = {}

    def get(self, path: str, t: int, *, fresh: bool) -> tuple[int, bytes | None]:
        """An answer, and of when it is."""
        held = self._held.get(path)
        if held is None or fresh or t - held[0] >= self.keep:
            held = self._held[path] = (t, self.world.site.live(path, t))
        return held


class Rooted:
    """A verifier with a keyset anchor and a memory.

    Attributes:
        handed: He has his cards from others, who may keep them as long as any cache, and can
            only look for newer statements.
        frozen_at: From then on he gets what was live at that moment, whatever he asks.
        release_of: Of when the newest answer is that told him which release is the newest.
        forged_release: What a thief shows him instead.
    """

    def __init__(self, world: Clockwork, name: str, *, keep: int, offset: int) -> None:
        self.world, self.name, self.offset = world, name, offset
        random = world.random
        self.handed = random.random() < 0.3
        self.frozen_at: int | None = None
        self.forged_release: bytes | None = None
        self.release_of = -1
        self.copies = Copies(world, keep)
        first = world.site.live(KEYSET_PATH.format(epoch=1, version=1), 0) or b""
        statement = read_keyset(first)
        self.pin = random.choice([KeysetId(1, 1, statement.digest), RootPin.of(statement.root)])
        self.anchor = KeysetAnchor(self.pin, "tides.example")
        self.limits = Limits(skew=world.setting.timeline.skew)
        self.policy = Policy(
            (TrustedIssuer(NAME, self.anchor, (parse_place(HOME),)),), limits=self.limits
        )
        self.memory = TransientStates()
        self.verdicts = VerdictCache() if random.random() < 0.5 else None
        self._asked, self._again_after = -1, 0

    def lose_state(self, *, lock: bool) -> None:
        """Begin anew from the anchor, with or without the floors of a lock file."""
        known = self._known()
        (issuer,) = self.policy.issuers
        floor = raise_floor(NAME, issuer.floor, known.as_floor())
        self.policy = self.policy.known_as("", {NAME: floor} if lock else {})
        self.memory = TransientStates()
        self._asked = self.release_of = -1
        self.world.note(f"{self.name} loses its state{', but has a lock' if lock else ''}")

    def verify(self, t: int, card: bytes, *, theirs: bool = True) -> Report:
        """The verdict, after one more look, uncached, where the first was none to rely on.

        Args:
            t: When.
            card: As he got it.
            theirs: It came from the issuer's URL, and can be asked for again there.
        """
        report = self._examine(t, card, fresh=False)
        if report.verdict != "trusted":
            if theirs and not self.handed and self.frozen_at is None:
                card = self.world.site.live(CARD, t) or card
            report = self._examine(t, card, fresh=True)
        return report

    def knows_release_of(self) -> int:
        """The number of the release in his memory; 0 for none."""
        release = self._known().release
        return release.seq if release else 0

    def _examine(self, t: int, card: bytes, *, fresh: bool) -> Report:
        supplied = self._refresh(t, fresh=fresh)
        return examine_card(
            card,
            expect=CardUrl(URL),
            policy=self.policy,
            now=at(t + self.offset),
            supplied=supplied,
            states=self.memory,
            cache=self.verdicts,
        )

    def _refresh(self, t: int, *, fresh: bool) -> SuppliedStatements:
        if not fresh and self._asked >= 0 and t < self._asked + self._again_after:
            return NO_STATEMENTS

        def fetch(url: str, *, max_bytes: int, fresh: bool) -> FetchResult:
            assert max_bytes <= MAX_STATEMENT_BYTES
            path = url.removeprefix(HOME)
            if path == RELEASE_PATH and self.forged_release is not None:
                return FetchResult(url, "found", self.forged_release)
            if self.frozen_at is not None:
                taken, body = self.frozen_at, self.world.site.live(path, self.frozen_at)
            else:
                taken, body = self.copies.get(path, t, fresh=fresh)
            if path == RELEASE_PATH:
                self.release_of = max(self.release_of, taken)
            if body is None:
                return FetchResult(url, "absent")
            return FetchResult(url, "found", body, self.copies.keep)

        now = at(t + self.offset)
        known = self._known()
        brought = refresh_issuer(
            self.limits, known, self.pin, fetch, home=HOME, now=now, fresh=fresh
        )
        self._asked, self._again_after = t, min(brought.again_after, REFRESH_INTERVAL)
        return brought.supplied

    def _known(self) -> IssuerState:
        with self.memory.of(self.policy.issuers[0]) as state:
            assert state is not None
            return state


def ended(world: Clockwork, t: int, clock: int) -> bool:
    """Whether what is live has ended by that clock: nobody has signed anew in time."""
    release = world.site.live(RELEASE_PATH, t) or b""
    newest = read_release(release)
    path = KEYSET_PATH.format(epoch=newest.keyset.epoch, version=newest.keyset.version)
    keyset = read_keyset(world.site.live(path, t) or b"")
    return at(clock).timestamp() >= min(newest.exp, keyset.exp)
