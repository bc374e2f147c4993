"""The issuer `tides` with a card, a keyset and a release, and a verifier who has enrolled him."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from cardsign.card.extensions import ExtendedMarker, with_marker
from cardsign.trust.policy import Anchor, Policy, Subject
from cardsign.trust.walk import SuppliedStatements
from cardsign.verify.report import Report
from tests.statements.making import DAY, NOW, T0, URL, key
from tests.support import PORTABLE, Remembering, by_another_sdk, dump, reach_verdict
from tests.trust.establishing import anchored, enrolled, listed
from tests.trust.histories import keyset, release


def card_of(*signers: str, card: Mapping[str, Any] = PORTABLE) -> bytes:
    """A card with one full signature of each; by the key `card` if nobody is named."""
    signatures = [
        entry
        for name in signers or ("card",)
        for entry in by_another_sdk(card, key(name), "served-as-is")["signatures"]
    ]
    return dump({**card, "signatures": signatures})


def current(
    under: bytes, *, card: Mapping[str, Any] = PORTABLE, signer: str = "rel", **changes: Any
) -> bytes:
    """A release that lists a card, and else these changes."""
    return release(under, signer, **{"cards": [listed(card)], **changes})


def marked(**changes: Any) -> dict[str, Any]:
    """An extended card of audience `moor`, for release 5, for a day."""
    marker = ExtendedMarker(**{"audience": "moor", "seq": 5, "exp": T0 + DAY, **changes})
    return with_marker(PORTABLE, marker)


class Tides:
    """What one verifier has been given, and his verdicts.

    Args:
        one: The keyset statement that is the anchor; one with the key `card` if none is given.
        anchor: Another anchor than that.
        limits: The policy's.
        entry: The rest of the policy's entry.
    """

    def __init__(
        self,
        one: bytes | None = None,
        *,
        anchor: Anchor | None = None,
        limits: Mapping[str, Any] | None = None,
        **entry: Any,
    ) -> None:
        self.one = one or keyset("ann", "bob")
        issuer = enrolled(anchor or anchored(self.one), **entry)
        self.policy = Policy((issuer,), **(limits or {}))
        self.memory = Remembering()

    def says(
        self,
        card: bytes | None = None,
        *,
        keysets: Iterable[bytes] | None = None,
        releases: Iterable[bytes] | None = None,
        expect: Subject | None = None,
        now: datetime = NOW,
        **circumstances: Any,
    ) -> Report:
        """The verdict on a card, with all evidence that there is if none is named."""
        supplied = SuppliedStatements(
            tuple((self.one,) if keysets is None else keysets),
            tuple((current(self.one),) if releases is None else releases),
        )
        return reach_verdict(
            card_of() if card is None else card,
            expect=expect or Subject(url=URL),
            now=now,
            supplied=supplied,
            **{"memory": self.memory, "policy": self.policy, **circumstances},
        )
