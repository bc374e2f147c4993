"""What a world is made of: a site, caches before it, verifiers behind them, and a key store.

A moment is a number of seconds since any beginning; nobody here asks a clock. Some verifiers have a
key set alone, and others follow the keysets. The store is in memory.
"""

from __future__ import annotations

import functools
from bisect import bisect_right
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from cardsign.card.document import Card
from cardsign.card.profiles import canonicalize
from cardsign.errors import SignatureRefused
from cardsign.issuer.work import PreviewStore
from cardsign.jose.jws import Entry, check_entry, read_entry
from cardsign.jose.keys import JwkSet, PrivateKey
from cardsign.keys import agenda
from cardsign.keys.ledger import KeyRecord
from cardsign.keys.store import FolderStore
from cardsign.net.fetch import REFRESH_INTERVAL
from cardsign.statements.keyset import KeysetId, RootAnchor
from cardsign.trust.lock import Floor
from cardsign.trust.policy import KeysetAnchor, Policy, Subject, TrustedIssuer
from cardsign.trust.session import Session
from cardsign.trust.walk import NO_STATEMENTS, FetchResult, Refresh, SuppliedStatements
from cardsign.urls import CARD_PATH, RELEASE_PATH, parse_place
from cardsign.verify.report import Report
from tests.support import Remembering, reach_verdict


class Site:
    """What is live at each path at each moment; the past can be asked for, as a cache would."""

    def __init__(self) -> None:
        self._shown: dict[str, tuple[list[int], list[bytes]]] = {}

    def show(self, path: str, body: bytes, since: int) -> bool:
        """Put a document up; whether that changes anything."""
        times, bodies = self._shown.setdefault(path, ([], []))
        if bodies and bodies[-1] == body:
            return False
        times.append(since)
        bodies.append(body)
        return True

    def live(self, path: str, when: int) -> bytes | None:
        """What an answer of that moment holds."""
        times, bodies = self._shown.get(path, ([], []))
        index = bisect_right(times, when)
        return bodies[index - 1] if index else None


class Copies:
    """A cache for each path, between one verifier and the site; an absence is kept as well."""

    def __init__(self, site: Site, keep: int) -> None:
        self.site, self.keep = site, keep
        self._held: dict[str, tuple[int, bytes | None]] = {}

    def get(self, path: str, t: int, *, fresh: bool) -> tuple[int, bytes | None]:
        """An answer, and of when it is."""
        held = self._held.get(path)
        if held is None or fresh or t - held[0] >= self.keep:
            held = self._held[path] = (t, self.site.live(path, t))
        return held


Demand = Literal["one good signature", "every signature"]


@functools.cache
def _read_card(card: bytes) -> tuple[bytes, tuple[Entry, ...]]:
    """The payload and the signatures of a card."""
    read = Card.from_bytes(card)
    payload = canonicalize(read.document, "served-as-is").data
    return payload, tuple(map(read_entry, read.signatures))


@functools.cache
def _read_jwks(jwks: bytes) -> JwkSet:
    return JwkSet.from_bytes(jwks)


def believes(jwks: bytes, card: bytes, *, rule: Demand = "one good signature") -> bool:
    """Whether a verifier that has only these two believes the card, as SDKs do.

    Args:
        jwks: A JWK Set, from whatever cache.
        card: A signed card, from whatever cache.
        rule: Whether one good signature is enough.
    """
    payload, entries = _read_card(card)
    keys = _read_jwks(jwks)
    found = []
    for entry in entries:
        key = keys.find(entry.kid)
        try:
            if key is not None:
                check_entry(entry, payload, key)
        except SignatureRefused:
            key = None
        found.append(key is not None)
    return bool(found) and (any(found) if rule == "one good signature" else all(found))


class KeysetPeer:
    """A verifier with a keyset anchor and a memory, with a cache before each URL.

    Attributes:
        copies: Its caches.
        release_of: Of when the newest answer is that told it which release is the newest.
    """

    def __init__(
        self,
        copies: Copies,
        home: str,
        pin: KeysetId | RootAnchor,
        *,
        at: Callable[[int], datetime],
        name: str = "issuer",
        skew: int = 300,
    ) -> None:
        self.copies, self.home, self.pin, self.at = copies, home, pin, at
        self.release_of = -1
        anchor = KeysetAnchor(pin, home.partition("://")[2])
        issuer = TrustedIssuer(name, anchor, (parse_place(home),))
        self.policy = Policy((issuer,), skew=skew)
        self.memory = Remembering()
        self._asked = -1

    def verify(self, t: int, card: bytes) -> Report:
        """The verdict, after one more look, uncached, where the first was none to rely on."""
        report = self.examine(t, card, fresh=False)
        return report if report.verdict == "trusted" else self.examine(t, card, fresh=True)

    def examine(self, t: int, card: bytes, *, fresh: bool) -> Report:
        """The verdict at a moment, after the statements were asked for if that was due."""
        supplied = self._refresh(t, fresh=fresh)
        return reach_verdict(
            card,
            expect=Subject(url=self.home + CARD_PATH),
            policy=self.policy,
            now=self.at(t),
            supplied=supplied,
            memory=self.memory,
        )

    def answer(self, path: str, t: int, *, fresh: bool) -> tuple[int, bytes | None]:
        """What this peer gets for a path, and of when that is."""
        return self.copies.get(path, t, fresh=fresh)

    def forget(self, floors: Mapping[str, Floor]) -> None:
        """Begin anew, from the anchor and what a lock says."""
        self.memory = Remembering(floors)
        self._asked = self.release_of = -1

    def remembered(self) -> Session:
        """What it knows of the issuer."""
        return self.memory.verifier(self.policy).session(self.policy.issuers[0])

    def _refresh(self, t: int, *, fresh: bool) -> SuppliedStatements:
        if (
            not fresh
            and self._asked >= 0
            and t < self._asked + min(self.copies.keep, REFRESH_INTERVAL)
        ):
            return NO_STATEMENTS

        def ask(url: str, _max_bytes: int) -> FetchResult:
            path = url.removeprefix(self.home)
            taken, body = self.answer(path, t, fresh=fresh)
            if path == RELEASE_PATH:
                self.release_of = max(self.release_of, taken)
            return FetchResult(url, "absent") if body is None else FetchResult(url, "found", body)

        known = self.remembered()
        refresh = Refresh(self.home, ask)
        supplied, _ = refresh.run(self.pin, known.keyset, known.release)
        self._asked = t
        return supplied


class MemoryStore(PreviewStore):
    """A key store in memory, for one thread; it seals nothing.

    Attributes:
        private: The private keys by thumbprint.
    """

    def __init__(self) -> None:
        super().__init__(FolderStore(Path("nowhere")))
        self.private: dict[str, PrivateKey] = {}

    def add_key(self, private: PrivateKey, passphrase: bytes, **how: Any) -> KeyRecord:
        """Take a key in as it is; `custody` says where a standby is kept."""
        words = ("now", "role", "holder", "standby", "custody")
        entering = {word: how[word] for word in words if how.get(word) is not None}
        if "custody" not in entering:
            # Whoever has revoked a custody gives the store another passphrase.
            entering.update(custody=f"file:{len(self.state.stolen)}", blob="0" * 64)
        self.commit(agenda.enter, private.public, **entering)
        self.private[private.public.thumbprint] = private
        return self.state.find(private.public.thumbprint)

    def signer(self, record: KeyRecord, access: object) -> PrivateKey:
        return self.private[record.thumbprint]
