"""One world from a seed: an issuer, verifiers, perhaps a thief; and the three statements.

1. No honest card is refused by a verifier within the assumptions.
2. No card signed with a revoked key is accepted by a verifier that has refreshed since.
3. With statements withheld, a thief is believed as long as documented, to the second.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from unittest.mock import patch

import pytest

from cardsign import sign_card
from cardsign.card.document import Card
from cardsign.issuer.release import ReleasePlan, card_digest, draft_following
from cardsign.keys.ledger import ENDED
from cardsign.net.fetch import REFRESH_INTERVAL
from cardsign.statements.keyset import KeysetId, KeysetStatement, RootAnchor, read_keyset
from cardsign.statements.release import ReleaseStatement, read_release, sign_release
from cardsign.urls import KEYSET_PATH, RELEASE_PATH
from cardsign.verify.report import Report
from tests.simulation.clockwork import CARD, DAY, HOME, JWKS, START, Clockwork, at
from tests.simulation.issuer import URL, Issuer, document
from tests.simulation.peers import Copies, Demand, KeysetPeer, Site, believes
from tests.support import read_statements_once

RULES: tuple[Demand, ...] = ("one good signature", "every signature")
FORGED_LIFE = timedelta(days=14)  # the most that a release may last
ROOTED = 5
PLAIN = 260  # moments, evenly spread, at which somebody verifies
AFTER_CHANGES = 5  # and after each deployment


NAME = "tides"


class Rooted(KeysetPeer):
    """A verifier with a keyset anchor and a memory.

    Attributes:
        handed: He has his cards from others, who may keep them as long as any cache, and can
            only look for newer statements.
        frozen_at: From then on he gets what was live at that moment, whatever he asks.
        release_of: Of when the newest answer is that told him which release is the newest.
        forged_release: What a thief shows him instead.
    """

    def __init__(self, world: Clockwork, name: str, *, keep: int, offset: int) -> None:
        self.world, self.label, self.offset = world, name, offset
        random = world.random
        self.handed = random.random() < 0.3
        self.frozen_at: int | None = None
        self.forged_release: bytes | None = None
        first = world.site.live(KEYSET_PATH.format(epoch=1, version=1), 0) or b""
        statement = read_keyset(first)
        super().__init__(
            Copies(world.site, keep),
            HOME,
            random.choice([KeysetId(1, 1, statement.digest), RootAnchor.of(statement.root)]),
            at=lambda t: at(t + offset),
            name=NAME,
            skew=world.setting.timeline.skew,
        )
        random.random()  # once drew a cache; without it every seed would be another world

    def lose_state(self, *, lock: bool) -> None:
        """Begin anew from the anchor, with or without the floors of a lock file."""
        floor = self.remembered().floor
        self.forget({NAME: floor} if lock else {})
        self.world.note(f"{self.label} loses its state{', but has a lock' if lock else ''}")

    def meet(self, t: int, card: bytes, *, theirs: bool = True) -> Report:
        """The verdict, after one more look, uncached, where the first was none to rely on.

        Args:
            t: When.
            card: As it came.
            theirs: It came from the issuer's URL, and can be asked for again there.
        """
        report = self.examine(t, card, fresh=False)
        if report.verdict != "trusted":
            if theirs and not self.handed and self.frozen_at is None:
                card = self.world.site.live(CARD, t) or card
            report = self.examine(t, card, fresh=True)
        return report

    def answer(self, path: str, t: int, *, fresh: bool) -> tuple[int, bytes | None]:
        """What the thief shows, what was live when it was cut off, or what a cache has."""
        if self.frozen_at is not None:
            taken, body = self.frozen_at, self.world.site.live(path, self.frozen_at)
        else:
            taken, body = super().answer(path, t, fresh=fresh)
        if path == RELEASE_PATH and self.forged_release is not None:
            return -1, self.forged_release
        return taken, body

    def knows_release_of(self) -> int:
        """The number of the release in his memory; 0 for none."""
        release = self.remembered().release
        return release.seq if release else 0


def told(report: Report) -> str:
    """A verdict and its reasons."""
    codes = [f"{reason.code}: {reason.message}" for reason in report.reasons]
    return f"{report.verdict} ({'; '.join(codes)})"


def read_live(site: Site, t: int) -> tuple[KeysetStatement, ReleaseStatement]:
    """The release that is live, and the keyset that it names."""
    release = read_release(site.live(RELEASE_PATH, t) or b"")
    path = KEYSET_PATH.format(epoch=release.keyset.epoch, version=release.keyset.version)
    return read_keyset(site.live(path, t) or b""), release


def ended(world: Clockwork, t: int, clock: int) -> bool:
    """Whether what is live has ended by that clock: nobody has signed anew in time."""
    keyset, release = read_live(world.site, t)
    return at(clock).timestamp() >= min(release.exp, keyset.exp)


class World:
    """Everything of one seed.

    Attributes:
        verifications: How many there were.
        excluded: Honest cards that were refused where the assumptions say nothing.
        short_of_bound: By how many seconds who keeps a JWK Set for the longest has believed a thief
            less than is documented; None if nobody has.
        withheld: Whether a thief was believed until the bound by who gets no newer statements.
    """

    def __init__(self, seed: int) -> None:
        self.clockwork = Clockwork(seed)
        self.random, self.setting = self.clockwork.random, self.clockwork.setting
        self.issuer = Issuer(self.clockwork)
        self.rooted: list[Rooted] = []
        self.verifications = self.excluded = 0
        self.short_of_bound: int | None = None
        self.withheld = False
        self.stolen: Any = None  # the private key that a thief has
        self._changes_seen = 0
        self._thiefs_cards: dict[bytes, bytes] = {}

    def run(self) -> None:
        """Let 45 days go by; raises `Broken` if a statement does not hold."""
        self.issuer.begin()
        half = self.setting.timeline.skew // 2
        for index in range(ROOTED):
            keep = self.random.randint(0, self.setting.oldest_card)
            offset = self.random.choice([-half, half, self.random.randint(-half, half)])
            name = f"verifier {index + 1}"
            self.rooted.append(Rooted(self.clockwork, name, keep=keep, offset=offset))
        for _ in range(PLAIN):
            self.clockwork.plan(self.random.randint(1, self.setting.horizon), self._somebody)
        for _ in range(6):
            when = self.random.randint(DAY, self.setting.horizon)
            self.clockwork.plan(when, self._somebody_forgets)
        for hour in range(0, self.setting.horizon, 3600):
            self.clockwork.plan(hour, self._follow_changes)
        if self.setting.theft != "none":
            when = self.random.randint(3 * DAY, 30 * DAY)
            self.clockwork.plan(when, self._theft)
        self.clockwork.run()

    # -------------------------------------------------------------- honest cards

    def _follow_changes(self, t: int) -> None:
        """After each change come those whose copies are as old as can be."""
        for live in self.issuer.changes[self._changes_seen :]:
            for _ in range(AFTER_CHANGES):
                most = self.random.choice([self.setting.oldest_card, self.setting.oldest_jwks])
                when = live + self.random.randint(0, most + self.setting.timeline.skew)
                self.clockwork.plan(when, self._somebody)
        self._changes_seen = len(self.issuer.changes)

    def _somebody(self, t: int) -> None:
        self._sdk(t, self.random.choice(RULES))
        self._verifier(t, self.random.choice(self.rooted))
        if self.stolen is not None:
            self._thief_tries(t)

    def _somebody_forgets(self, t: int) -> None:
        self.random.choice(self.rooted).lose_state(lock=self.random.random() < 0.5)

    def _card(self, t: int) -> tuple[int, bytes]:
        """A copy of the card from some cache, and of when it is."""
        taken = max(0, t - self.clockwork.age(self.setting.oldest_card))
        return taken, self.clockwork.site.live(CARD, taken) or b""

    def _sdk(self, t: int, rule: Demand) -> None:
        taken, card = self._card(t)
        fetched = max(0, t - self.clockwork.age(self.setting.oldest_jwks))
        jwks = self.clockwork.site.live(JWKS, fetched) or b""
        self.verifications += 1
        if believes(jwks, card, rule=rule):
            return
        if not self._is_excused(t, fetched, card, rule):
            kids = " ".join(self.issuer.signers_of[card])
            raise self.clockwork.broken(
                1,
                f"an honest card, as it was live at {at(taken):%d %H:%M:%S} with signatures by "
                f"{kids}, is refused by the key set of {at(fetched):%d %H:%M:%S} ({rule})",
            )
        self.excluded += 1

    def _is_excused(self, t: int, fetched: int, card: bytes, rule: Demand) -> bool:
        """Whether a revocation took the last key of a card, or came too soon for its standby."""
        issuer, signers = self.issuer, self.issuer.signers_of[card]
        revoked = [kid for kid in signers if kid in issuer.revoked]
        if self._revocation_ended(signers) or (revoked and rule == "every signature"):
            return True
        new = [kid for kid in signers if issuer.expected.get(kid, t) > fetched]
        return bool(issuer.revoked and new and len(new) + len(revoked) == len(signers))

    def _revocation_ended(self, signers: tuple[str, ...]) -> bool:
        """Whether a revocation has taken the last key that a card was signed with."""
        ended = {key.kid for key in self.issuer.store.state.keys if key.state in ENDED}
        revoked = self.issuer.revoked.keys()
        return not revoked.isdisjoint(signers) and ended.union(revoked).issuperset(signers)

    def _verifier(self, t: int, verifier: Rooted) -> None:
        taken, card = self._card(t)
        self.verifications += 1
        report = verifier.meet(t, card)
        if report.verdict == "trusted":
            return
        signers = self.issuer.signers_of[
            card if verifier.handed else self.clockwork.site.live(CARD, t) or card
        ]
        is_over = ended(self.clockwork, t, t + verifier.offset)  # missed runs of cron
        if not is_over and not self._revocation_ended(signers):
            handed = " (handed)" if verifier.handed else ""
            raise self.clockwork.broken(
                1,
                f"an honest card, as it was live at {at(taken):%d %H:%M:%S} with signatures by "
                f"{' '.join(signers)}, is {told(report)} to {verifier.label}{handed}",
            )
        self.excluded += 1

    # -------------------------------------------------------------- theft

    def _theft(self, t: int) -> None:
        active = self.issuer.store.state.active_keys()
        if not active:
            return
        self.stolen = self.issuer.store.private[active[0].thumbprint]
        self.clockwork.note(f"a thief takes {self.stolen.public.kid} ({self.setting.theft})")
        revoked = t + self.random.randint(1, 2 * DAY)
        self.clockwork.plan(self.random.randint(t, revoked), self._cut_off)
        self.clockwork.plan(revoked, self._revocation)

    def _revocation(self, t: int) -> None:
        kid = self.stolen.public.kid
        if kid in self.issuer.revoked:
            return
        self.issuer.revoke(t, kid)
        for _ in range(40):
            most = self.random.choice([2 * REFRESH_INTERVAL, self.setting.oldest_jwks, 3 * DAY])
            self.clockwork.plan(t + self.random.randint(0, most), self._thief_tries)
        self.clockwork.plan(t, self._probe_jwks)

    def _probe_jwks(self, t: int) -> None:
        """Who took the key set a second before the key was gone, and keeps it for the longest."""
        gone = self.issuer.gone_from_jwks.get(self.stolen.public.kid)
        if gone is None:  # not before the roots have met
            if t < self.setting.horizon:
                self.clockwork.plan(t + 3600, self._probe_jwks)
            return
        oldest = self.setting.oldest_jwks
        for fetched in (gone - 1, gone):
            self.clockwork.plan(gone + oldest, lambda u, f=fetched: self._sdk_meets_thief(u, f))
        self.clockwork.plan(gone - 1 + oldest, lambda u: self._sdk_meets_thief(u, gone - 1))

    def _thief_tries(self, t: int) -> None:
        self._sdk_meets_thief(t, max(0, t - self.clockwork.age(self.setting.oldest_jwks)))
        self._verifier_meets_thief(t, self.random.choice(self.rooted))

    def _sdk_meets_thief(self, t: int, fetched: int) -> None:
        if t - fetched > self.setting.oldest_jwks:
            return
        kid = self.stolen.public.kid
        jwks = self.clockwork.site.live(JWKS, fetched) or b""
        self.verifications += 1
        gone = self.issuer.gone_from_jwks.get(kid)
        if gone is None or not believes(jwks, self._forged()):
            return
        if fetched >= gone:
            raise self.clockwork.broken(
                2, f"{kid}, revoked, is believed by the key set of {at(fetched):%d %H:%M:%S}"
            )
        short = self.setting.oldest_jwks - (t + 1 - gone)
        if self.short_of_bound is None or short < self.short_of_bound:
            self.short_of_bound = short

    def _verifier_meets_thief(self, t: int, verifier: Rooted) -> None:
        kid = self.stolen.public.kid
        self.verifications += 1
        report = verifier.meet(t, self._resigned(t), theirs=False)
        revoked = self.issuer.revoked_in_releases.get(kid)
        if revoked is None or report.verdict != "trusted":
            return
        if verifier.release_of >= revoked:
            raise self.clockwork.broken(
                2,
                f"{kid}, revoked at {at(revoked):%d %H:%M:%S}, is believed by "
                f"{verifier.label}, who has the release of {at(verifier.release_of):%d %H:%M:%S}",
            )
        keep = verifier.copies.keep
        most = keep + min(keep, REFRESH_INTERVAL)
        if t - revoked > most:
            raise self.clockwork.broken(3, f"{verifier.label} believes {kid} for {t - revoked} s")

    def _forged(self) -> bytes:
        """A card of the thief's own."""
        return self._signed_by_thief({"description": "evil"})

    def _resigned(self, t: int) -> bytes:
        """The issuer's own words under the stolen key: what a release lists."""
        live = Card.from_bytes(self.clockwork.site.live(CARD, t) or b"").document
        return self._signed_by_thief({"version": str(live["version"])})

    def _signed_by_thief(self, changes: dict[str, str]) -> bytes:
        card = document(**changes)
        if card not in self._thiefs_cards:
            self._thiefs_cards[card] = sign_card(card, [self.stolen])
        return self._thiefs_cards[card]

    # -------------------------------------------------------------- withheld statements

    def _cut_off(self, t: int) -> None:
        """A verifier who asks now, and from now on gets nothing newer."""
        half = self.setting.timeline.skew // 2
        offset = self.random.randint(-half, half)
        verifier = Rooted(self.clockwork, "the verifier cut off", keep=0, offset=offset)
        verifier.frozen_at = t
        keyset, release = read_live(self.clockwork.site, t)
        card, bound = self._resigned(t), release.exp
        if self.setting.theft == "card and release":
            card, bound = self._forged(), keyset.exp
        end = bound - int(START.timestamp()) - offset  # when his clock says so
        stolen = self.stolen.public.thumbprint
        counts = stolen in {key.public.thumbprint for key in keyset.keys} - release.revoked
        if end <= t + 1 or ended(self.clockwork, t, t + offset) or not counts:
            return
        self.clockwork.note(f"{verifier.label} gets nothing newer from now on, until {at(end)}")
        moments = sorted({t, end - 1, end, *(self.random.randint(t, end) for _ in range(8))})
        for when in moments:
            self.clockwork.plan(when, lambda u: self._cut_off_meets(u, verifier, card, t, end))

    def _cut_off_meets(self, t: int, verifier: Rooted, card: bytes, cut: int, end: int) -> None:
        if self.setting.theft == "card and release":
            verifier.forged_release = self._forged_release(t, verifier, card, cut)
        self.verifications += 1
        report = verifier.meet(t, card, theirs=False)
        if (report.verdict == "trusted") != (t < end):
            text = f"statements withheld, the bound is {at(end)}, and at {at(t)} the thief's card "
            raise self.clockwork.broken(3, f"{text}is {told(report)}")
        is_of_both = self.setting.theft == "card and release"
        life = self.setting.keyset_life if is_of_both else self.setting.release_life
        assert end - cut <= life + self.setting.timeline.skew
        self.withheld |= t == end - 1

    def _forged_release(self, t: int, verifier: Rooted, card: bytes, cut: int) -> bytes:
        """The thief's own release, renewed each time, under the keyset that he lets through."""
        keyset, newest = read_live(self.clockwork.site, cut)
        plan = ReleasePlan(((URL, card_digest(card)),))
        seq = max(newest.seq, verifier.knows_release_of()) + 1
        with patch("cardsign.issuer.release.RELEASE_LIFETIME", FORGED_LIFE):
            draft = draft_following(plan, keyset, newest, seq=seq, now=at(t + verifier.offset))
        listed = [key.public.thumbprint for key in keyset.keys if "release" in key.roles]
        thumbprints = [name for name in listed if name not in newest.revoked]
        keys = [self.issuer.store.private[thumbprint] for thumbprint in thumbprints]
        return sign_release(draft.envelope.payload, keys[:1])


def simulate(seed: int) -> World:
    """Run one world.

    Raises:
        Broken: A statement does not hold; says the seed and what led to it.
    """
    with pytest.MonkeyPatch.context() as patches:
        read_statements_once(patches)
        world = World(seed)
        world.run()
    return world
