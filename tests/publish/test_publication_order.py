"""Publications one after another, caches at each URL, and verifiers who come at any time.

Card, keysets and release change at different times in caches (threat 15). Every generation
is made by `publish` or `publish_statements`, and a copy is kept for as long as `serve` lets it be.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cardsign.errors import PublishRefused
from cardsign.issuer.keyset import draft_next, write_draft
from cardsign.issuer.release import ReleasePlan, card_digest, settled_cards
from cardsign.jose.keys import JwkSet
from cardsign.keys.agenda import TimelineSettings
from cardsign.keys.ledger import StoreState
from cardsign.publish.publication import (
    CheckedIssued,
    Documents,
    Issued,
    publication_of,
    publish_generation,
    publish_statements,
)
from cardsign.server.settings import ServerSettings
from cardsign.server.site import Document, public_documents
from cardsign.urls import CARD_PATH
from cardsign.verify.report import Report
from tests.keys.issuing import NOW, URL, first, key, online, released, signed
from tests.keys.states import record
from tests.simulation.peers import Copies, KeysetPeer, Site
from tests.support import PORTABLE, dump
from tests.support import signed as signed_card

HOME = "https://tides.example"
#: The issuer assumes nothing of caches but what he tells them, and clocks that agree.
SETTINGS = TimelineSettings(max_age=0, worst_cache=0, card_max_age=0, skew=1)


class Issuer:
    """Publishes what he is told to; each thing in its own generation."""

    def __init__(self, directory: Path, max_age: int) -> None:
        self.directory, self.max_age = directory, max_age
        self.t, self.version, self.signer = 0, 0, "card"
        self.state = StoreState()
        self.keysets = [first()]
        self.live: list[tuple[int, dict[str, Document]]] = []
        self.release = released(self.keysets[0], None)
        self.edit()

    @property
    def now(self) -> Any:
        """His clock."""
        return NOW + timedelta(seconds=self.t)

    def edit(self) -> None:
        """Another card: first the release that lists it, then the card."""
        self.version += 1
        self._renew(listing=True)
        self.publish_card()

    def edit_unlisted(self) -> None:
        """Another card that no release lists; it is refused."""
        self.version += 1
        with contextlib.suppress(PublishRefused):
            return self.publish_card()
        self.version -= 1

    def renew(self) -> None:
        """What cron does; here a card may settle."""
        self._renew()
        self.publish_statements()

    def sign_keyset(self) -> None:
        """The roots list one more card key; the release that speaks of it does not come yet."""
        before = self.keysets[-1]
        keys = (*before.keys, online(f"card-{before.version + 1}", "card"))
        plan = replace(before, keys=keys)
        self.keysets.append(signed(draft_next(plan, before, now=self.now), "ann", "bob"))
        self.publish_statements()

    def change_key(self) -> None:
        """The newest key that a published keyset lists signs the card from now on."""
        (keyset,) = [one for one in self.keysets if one.digest == self.release.keyset.digest]
        self.signer = "card" if keyset.version == 1 else f"card-{keyset.version}"
        assert keyset.lists(key(self.signer).public.thumbprint, "card")
        self.publish_card()

    def publish_card(self) -> None:
        """`cardsign publish`."""
        card = {**PORTABLE, "version": f"1.{self.version}.0"}
        documents = Documents(
            dump(signed_card(card, key(self.signer))),
            JwkSet.of([key(self.signer).public]),
            max_age=self.max_age,
            issued=self._issued(),
        )
        self._show(publish_generation(documents, self.directory, now=self.now))

    def publish_statements(self) -> None:
        """What there is to be published of keysets and release."""
        generation = publish_statements(self._issued(), self.directory, now=self.now)
        assert generation is not None
        self._show(generation)

    def _renew(self, *, listing: bool = False) -> None:
        digest = card_digest(dump({**PORTABLE, "version": f"1.{self.version}.0"}))
        cards = ((URL, digest),) if listing else ()
        settled = settled_cards(self.release.cards, self.state, SETTINGS, self.now)
        plan = ReleasePlan(cards, settled)
        self.release = released(self.keysets[-1], self.release, plan, now=self.now)
        if self.live:
            self.publish_statements()

    def _issued(self) -> Issued:
        return Issued(tuple(map(write_draft, self.keysets)), write_draft(self.release))  # type: ignore[arg-type]

    def _show(self, generation: Any) -> None:
        self.state = record(self.state, publication_of(generation))
        self.live.append((self.t, public_documents(generation, {}, ServerSettings())))


class Verifier(KeysetPeer):
    """Has pinned the first keyset and remembers; his cache holds a path as long as it was told.

    Args:
        issuer: Whom he verifies.
        handed: He gets his cards from others, and can only look for newer statements.
    """

    def __init__(self, issuer: Issuer, *, handed: bool) -> None:
        def at(t: int) -> datetime:
            return NOW + timedelta(seconds=t)

        self.issuer, self.handed = issuer, handed
        self.kept = dict[str, tuple[int, bytes]]()  # until when
        super().__init__(Copies(Site(), 0), HOME, issuer.keysets[0].id, at=at, skew=1)

    def answer(self, path: str, t: int, *, fresh: bool) -> tuple[int, bytes | None]:
        """A body from the cache or the newest generation; nobody keeps a 404."""
        if fresh or t >= self.kept.get(path, (t, b""))[0]:
            document = self.issuer.live[-1][1].get(path)
            if document is None:
                return t, None
            lifetime = dict(document.headers)["Cache-Control"].removeprefix("public, max-age=")
            self.kept[path] = t + int(lifetime), document.body
        return t, self.kept[path][1]

    def look(self) -> Report:
        """The verdict, after one more look without caches where the first is none to rely on."""
        t = self.issuer.t
        for fresh in (False, True):
            _, card = self.answer(CARD_PATH, t, fresh=fresh and not self.handed)
            report = self.examine(t, card or b"", fresh=fresh)
            if report.verdict == "trusted":
                break
        return report


STEPS: dict[str, Callable[[Issuer], None]] = {
    "edit": Issuer.edit,
    "edit unlisted": Issuer.edit_unlisted,
    "renew": Issuer.renew,
    "sign keyset": Issuer.sign_keyset,
    "change key": Issuer.change_key,
    "nothing": lambda issuer: None,
}
WAITS = st.sampled_from([0, 1, 59, 60, 299, 300, 301, 1799, 1800, 1801, 1860])


def histories(max_age: int, steps: list[tuple[int, str]]) -> list[tuple[int, Report]]:
    """Let an issuer take steps, and verifiers come after each; what they said, and when."""
    found = []
    with tempfile.TemporaryDirectory() as folder, patch.object(os, "fsync"):
        issuer = Issuer(Path(folder, "public"), max_age)
        often = [Verifier(issuer, handed=handed) for handed in (False, True)]
        seldom = [Verifier(issuer, handed=handed) for handed in (False, True)]
        for index, (wait, step) in enumerate(steps):
            issuer.t += wait
            STEPS[step](issuer)
            for verifier in often + (seldom if index % 3 == 0 else []):
                found.append((issuer.t, verifier.look()))
    return found


@settings(max_examples=max(20, settings().max_examples // 3), deadline=None)
@given(
    max_age=st.sampled_from([0, 60, 300, 1800]),
    steps=st.lists(st.tuples(WAITS, st.sampled_from(sorted(STEPS))), min_size=1, max_size=12),
)
def test_no_order_of_publications_has_an_honest_card_refused(
    max_age: int, steps: list[tuple[int, str]]
) -> None:
    """Nor any age of the copies: at most one look without caches, and the card is trusted."""
    for when, report in histories(max_age, steps):
        assert report.verdict == "trusted", (when, report.reasons)


THIS = sys.modules[__name__]
SIGNED = [(0, "nothing"), (60, "sign keyset")]
RENEWED = [(0, "nothing"), (60, "edit"), (400, "renew")]
UNLISTED = [(0, "nothing"), (60, "edit unlisted"), (1800, "nothing")]


def unchanged(self: Any, _: Any) -> Any:
    return self


def unchecked(self: Any, cards: Any, now: Any) -> None:
    return None


def settle_at_once(listed: Any, *_: Any) -> dict[str, str]:
    return {card.url: card.payload_sha256 for card in listed}


#: What goes wrong if one rule is left out; each must be seen to.
FAULTS: dict[str, tuple[Any, str, Any, list[tuple[int, str]]]] = {
    "a keyset is not withheld": (CheckedIssued, "withholding", unchanged, SIGNED),
    "the floor rises with the next release": (THIS, "settled_cards", settle_at_once, RENEWED),
    "the floor does not wait for caches": (TimelineSettings, "as_published", unchanged, RENEWED),
    "a card comes before its release": (CheckedIssued, "check_trusted", unchecked, UNLISTED),
}


@pytest.mark.parametrize(("owner", "name", "fault", "steps"), FAULTS.values(), ids=FAULTS)
def test_the_verifiers_find_what_is_published_in_a_wrong_order(
    owner: Any, name: str, fault: Any, steps: list[tuple[int, str]]
) -> None:
    """The twin: without the fault the same history is in order, with it somebody refuses."""
    assert all(report.verdict == "trusted" for _, report in histories(1800, steps))
    with patch.object(owner, name, fault):
        assert any(report.verdict != "trusted" for _, report in histories(1800, steps))
