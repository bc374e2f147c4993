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
from dataclasses import dataclass, replace
from datetime import timedelta
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
from cardsign.trust.policy import KeysetAnchor, Limits, Policy, Subject, TrustedIssuer
from cardsign.trust.walk import FetchResult, Refresh
from cardsign.urls import CARD_PATH, parse_place
from cardsign.verify.report import Report
from tests.keys.issuing import NOW, URL, first, key, online, released, signed
from tests.keys.states import record
from tests.support import PORTABLE, Remembering, dump, reach_verdict
from tests.support import signed as signed_card

HOME = "https://tides.example"
#: The issuer assumes nothing of caches but what he tells them, and clocks that agree.
SETTINGS = TimelineSettings(max_age=0, worst_cache=0, card_max_age=0, skew=1)


class Issuer:
    """Publishes what he is told to; each thing in its own generation."""

    def __init__(self, directory: Path, max_age: int) -> None:
        self.directory, self.max_age = directory, max_age
        self.t = 0
        self.state = StoreState()
        self.keysets = [first()]
        self.version = 0
        self.signer = "card"
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
        plan = before
        new = f"card-{before.version + 1}"
        plan = replace(plan, keys=(*plan.keys, online(new, "card")))
        self.keysets.append(signed(draft_next(plan, before, now=self.now), "ann", "bob"))
        self.publish_statements()

    def change_key(self) -> None:
        """The newest key that a published keyset lists signs the card from now on."""
        published = {key.public.thumbprint for key in self._spoken_for().keys}
        number = self._spoken_for().version
        newest = "card" if number == 1 else f"card-{number}"
        assert key(newest).public.thumbprint in published
        self.signer = newest
        self.publish_card()

    def publish_card(self) -> None:
        """`cardsign publish`."""
        card = {**PORTABLE, "version": f"1.{self.version}.0"}
        generation = publish_generation(
            Documents(
                dump(signed_card(card, key(self.signer))),
                JwkSet.of([key(self.signer).public]),
                max_age=self.max_age,
                issued=self._issued(),
            ),
            self.directory,
            now=self.now,
        )
        self._show(generation)

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

    def _spoken_for(self) -> Any:
        return next(one for one in self.keysets if one.digest == self.release.keyset.digest)

    def _show(self, generation: Any) -> None:
        self.state = record(self.state, publication_of(generation))
        self.live.append((self.t, public_documents(generation, ServerSettings())))


@dataclass
class Copies:
    """A verifier's cache: what it holds of each path, and until when that is fresh."""

    issuer: Issuer
    held: dict[str, tuple[bytes, int]]

    def get(self, path: str, *, fresh: bool = False) -> tuple[bytes, int] | None:
        """A body, and for how long it may be used; None for a 404, which nobody keeps."""
        t = self.issuer.t
        if not fresh and path in self.held and t < self.held[path][1]:
            body, until = self.held[path]
            return body, until - t
        document = self.issuer.live[-1][1].get(path)
        if document is None:
            return None
        lifetime = dict(document.headers)["Cache-Control"]
        kept = int(lifetime.removeprefix("public, max-age="))
        self.held[path] = document.body, t + kept
        return document.body, kept


class Verifier:
    """Has pinned the first keyset and remembers.

    Args:
        issuer: Whom he verifies.
        handed: He gets his cards from others, and can only look for newer statements.
    """

    def __init__(self, issuer: Issuer, *, handed: bool) -> None:
        self.issuer, self.handed = issuer, handed
        self.copies = Copies(issuer, {})
        one = issuer.keysets[0]
        self.pin = one.id
        anchor = KeysetAnchor(self.pin, one.issuer)
        self.policy = Policy(
            (TrustedIssuer("tides", anchor, (parse_place(HOME),)),), Limits(skew=1)
        )
        self.memory = Remembering()

    def verify(self) -> Report:
        """The verdict, after one more look without caches where the first is none to rely on."""
        report = self._examine(fresh=False)
        return report if report.verdict == "trusted" else self._examine(fresh=True)

    def _examine(self, *, fresh: bool) -> Report:
        def ask(url: str, _max_bytes: int) -> FetchResult:
            got = self.copies.get(url.removeprefix(HOME), fresh=fresh)
            return FetchResult(url, "absent") if got is None else FetchResult(url, "found", got[0])

        known = self.memory.verifier(self.policy).session(self.policy.issuers[0])
        now = self.issuer.now
        refresh = Refresh(HOME, ask)
        supplied, _ = refresh.run(self.pin, known.keyset, known.release)
        got = self.copies.get(CARD_PATH, fresh=fresh and not self.handed)
        assert got is not None
        return reach_verdict(
            got[0],
            expect=Subject(url=URL),
            policy=self.policy,
            now=now,
            supplied=supplied,
            memory=self.memory,
        )


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
                found.append((issuer.t, verifier.verify()))
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
#: What goes wrong if one rule is left out; each must be seen to.
FAULTS: dict[str, tuple[Any, str, Any, list[tuple[int, str]]]] = {
    "a keyset is not withheld": (
        CheckedIssued,
        "withholding",
        lambda self, before: self,
        [(0, "nothing"), (60, "sign keyset")],
    ),
    "the floor rises with the next release": (
        THIS,
        "settled_cards",
        lambda listed, state, settings, now: {card.url: card.payload_sha256 for card in listed},
        [(0, "nothing"), (60, "edit"), (400, "renew")],
    ),
    "the floor does not wait for what caches were told": (
        TimelineSettings,
        "as_published",
        lambda self, state: self,
        [(0, "nothing"), (60, "edit"), (400, "renew")],
    ),
    "a card comes before the release that lists it": (
        CheckedIssued,
        "check_trusted",
        lambda self, cards, now: None,
        [(0, "nothing"), (60, "edit unlisted"), (1800, "nothing")],
    ),
}


@pytest.mark.parametrize(("owner", "name", "fault", "steps"), FAULTS.values(), ids=FAULTS)
def test_the_verifiers_find_what_is_published_in_a_wrong_order(
    owner: Any, name: str, fault: Any, steps: list[tuple[int, str]]
) -> None:
    """The twin: without the fault the same history is in order, with it somebody refuses."""
    assert all(report.verdict == "trusted" for _, report in histories(1800, steps))
    with patch.object(owner, name, fault):
        assert any(report.verdict != "trusted" for _, report in histories(1800, steps))
