"""Thieves of each custody: once a command says that nothing is left, no forged card is trusted.

Each world is a real folder with real commands under a virtual clock. A thief takes all keys of one
custody. The operator revokes it, by day or by night, with the passphrases that are at hand; cron
goes on; and people come later. Peers that pinned the first keyset look all the time, through
caches, and the thief shows them whatever he can sign.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from cardsign import sign_card
from cardsign.issuer import release
from cardsign.issuer.keyset import accept_keyset, open_recovery_key, recover
from cardsign.issuer.reconcile import Progress, revoke_keys
from cardsign.issuer.release import ReleasePlan, card_digest, draft_following
from cardsign.jose.keys import PrivateKey
from cardsign.keys import agenda
from cardsign.keys.ledger import Event, Role, StoreState
from cardsign.keys.signers import Access
from cardsign.publish.generation import RELEASE_FILE, Generation
from cardsign.statements.keyset import read_keyset
from cardsign.statements.release import ReleaseStatement, read_release, sign_release
from cardsign.urls import CARD_PATH
from tests.issuer.site import ORIGIN, RECOVERY, Site, begun, peer_of
from tests.spoilt_cards import EXAMPLES
from tests.support import PORTABLE, dump

pytestmark = pytest.mark.usefixtures("cheap")

ROLES: Final[tuple[Role, ...]] = ("root", "card", "release")
WORLDS: Final = max(1, min(12, EXAMPLES // 400))
CACHED: Final = timedelta(hours=24)  # the most that a cache may keep


@dataclass(frozen=True)
class Custody:
    """How the keys are kept.

    Attributes:
        passphrases: Of each role's keys; equal ones are one custody.
        usb: Whether the root keys are in a store of their own, as on a token.
        by_hand: Roles whose passphrase is on no machine of the operator, so not there by night.
    """

    passphrases: Mapping[str, bytes]
    usb: bool = False
    by_hand: frozenset[str] = frozenset()


CUSTODIES: Final = {
    "all keys in one place": Custody(dict.fromkeys(ROLES, b"of everything")),
    "root on a token": Custody(
        {"root": b"the PIN of the token", "card": b"of the server", "release": b"of the server"},
        usb=True,
    ),
    "release key elsewhere": Custody(
        {"root": b"of the desk", "card": b"of the desk", "release": b"the one of cron"}
    ),
    "root passphrase not on this machine": Custody(
        {"root": b"written down in a safe", "card": b"of the desk", "release": b"the one of cron"},
        by_hand=frozenset({"root"}),
    ),
}


class World:
    """One issuer, one thief, and the peers that look at both."""

    def __init__(self, folder: Path, custody: Custody, seed: str) -> None:
        self.random, self.custody = Random(seed), custody
        self.site: Site = begun(folder, usb=custody.usb, secrets=custody.passphrases)
        if self.random.random() < 0.5:  # a card that nothing but its publication names
            self.site.names_card = False
            (folder / "signed.json").unlink()
        self.peers = [peer_of(self.site) for _ in range(3)]
        self.shown: list[tuple[datetime, Generation]] = []
        self.stolen: dict[str, list[PrivateKey]] = {}
        self.led_ahead = peer_of(self.site)
        self.told_since: datetime | None = None  # since when nobody trusts the thief, as was said
        self.over_since: datetime | None = None  # since when nothing is left for anybody
        self.verifications = 0
        self._show()

    # What the site shows, and what a peer has of it.

    def _show(self) -> None:
        live = self.site.live
        if not self.shown or self.shown[-1][1].number != live.number:
            self.shown.append((self.site.now, live))

    def _cached(self) -> tuple[datetime, Generation]:
        """Return what a cache shows that has kept it for a while, or for as long as it may."""
        age = self.random.choice([timedelta(), CACHED, CACHED * self.random.random()])
        taken = [each for each in self.shown if each[0] <= self.site.now - age]
        return taken[-1] if taken else self.shown[0]

    def look(self, *, honest: bool) -> None:
        """Let each peer look, and the thief show what he can; nobody believes what is revoked.

        A peer whom a thief of a release key has led ahead of the issuer's own releases believes him
        until the roots have signed, and no longer.
        """
        for peer in (*self.peers, self.led_ahead):
            since, generation = self._cached()
            if honest and peer is not self.led_ahead:
                self.verifications += 1
                assert peer.verdict(generation, self._moment) == "trusted"
            until = self.over_since if peer is self.led_ahead else self.told_since
            is_over = until is not None and since >= until
            for card, shown in self._forge(generation):
                is_forged_too = shown is not generation
                if is_forged_too and not is_over and peer is not self.led_ahead:
                    continue
                self.verifications += 1
                verdict = peer.verdict(shown, self._moment, card)
                assert not is_over or verdict != "trusted", "a forged card is trusted"

    @property
    def _moment(self) -> datetime:
        return self.site.now + timedelta(seconds=1)

    # The thief.

    def steal(self, role: Role) -> None:
        """Take every key of a role's custody, with those that wait in it."""
        custody = self.custody.passphrases[role]
        stores = [self.site.store, *([self.site.roots] if self.custody.usb else [])]
        for store in stores:
            for key in store.state.keys:
                if self.custody.passphrases[key.role] == custody and key.private == "held":
                    access = Access(lambda *_: custody)
                    self.stolen.setdefault(key.role, []).append(store.signer(key, access))

    def _forge(self, generation: Generation) -> list[tuple[bytes, Generation]]:
        """Return each forged card, beside what is published, and beside the thief's own release."""
        if not self.stolen.get("card") or generation.release is None:
            return []
        evil, honest = dump({**PORTABLE, "description": "evil"}), dump(PORTABLE)
        cards = [sign_card(card, self.stolen["card"]) for card in (evil, honest)]
        forged = [(card, generation) for card in cards]
        if "release" in self.stolen:  # it lists his card, and revokes nothing
            seq = read_release(generation.release).seq + 7
            keyset = read_keyset([*generation.keysets.values()][-1])
            plan = ReleasePlan(cards=((ORIGIN + CARD_PATH, card_digest(cards[0])),))
            draft = draft_following(plan, keyset, None, seq=seq, now=self.site.now)
            newer = sign_release(draft.envelope.payload, self.stolen["release"][:1])
            files = {**generation.files, RELEASE_FILE: newer}
            forged.append((cards[0], replace(generation, files=files)))
        return forged

    # The operator.

    def revoke(self, role: Role, *, at_hand: tuple[str, ...], root: bool) -> Progress:
        """Report the theft, and give each stolen custody another passphrase afterwards."""
        kid, custody = self.stolen[role][0].public.kid, self.custody.passphrases[role]
        if role == "root" and self.custody.usb:
            revoke_keys(self.site.holder, [kid], reason="compromised")
            return self.site.rotate(*at_hand, root=root)
        progress = self.site.revoke(kid, "compromised", *at_hand, root=root)
        for each in ROLES:
            if self.custody.passphrases[each] == custody:
                self.site.secrets[each] = b"new: " + custody
        return progress

    def visit(self) -> Progress:
        """Let everybody come with every passphrase that was not stolen, and recover if need be."""
        has_token = self.custody.usb and "root" not in self.stolen
        progress = self.site.rotate(*ROLES, root=has_token)
        if "root" in self.stolen:
            work = self.site.work(*ROLES)
            key = open_recovery_key(self.site.folder / "recovery.key", RECOVERY)
            draft, _ = recover(
                work, lambda: (key, RECOVERY), passphrase=lambda each: self.site.secrets[each]
            )
            accept_keyset(work, draft)
            progress = self.site.rotate(*ROLES)
        return progress

    def note(self, progress: Progress) -> None:
        """Take the command at its word: what it does not say is left is done."""
        self._show()
        stolen = [key.public.kid[:8] for key in self.stolen.get("card", ())]
        # What they still trust stands before the colon; what follows may name other keys.
        told = (gap.what.partition("still trust")[2] for gap in progress.left)
        trusted = [keys.partition(": ")[0] for keys in told]
        is_left = any(kid in what for kid in stolen for what in trusted)
        if not is_left and self.told_since is None:
            self.told_since = self.site.now


@pytest.mark.parametrize("seed", range(WORLDS))
@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("kept", CUSTODIES)
def test_no_forged_card_is_trusted_once_nothing_is_left(
    kept: str, role: Role, seed: int, tmp_path: Path
) -> None:
    """Honest cards stay trusted as long as a good signature can be made."""
    run_world(tmp_path, CUSTODIES[kept], role, f"{kept}, {role}, {seed}")


_revoke: Final = agenda.revoke


def revoke_one_key(state: StoreState, name: str, **_: Any) -> list[Event]:
    """Forget what lies beside a stolen key."""
    return _revoke(state, name, reason="superseded")


def draft_without_revocations(plan: ReleasePlan, *statements: Any, **how: Any) -> ReleaseStatement:
    """Draft a release that does not tell which keys are revoked."""
    return draft_following(replace(plan, revoked=frozenset()), *statements, **how)


WRONG: Final = {
    "only the key that was named": (agenda, "revoke", revoke_one_key),
    "a release that tells nobody": (release, "draft_following", draft_without_revocations),
}


@pytest.mark.thorough
@pytest.mark.parametrize("rule", WRONG)
def test_a_wrong_revocation_is_found(
    rule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each makes a world fail that holds without it."""
    monkeypatch.setattr(*WRONG[rule])
    with pytest.raises(AssertionError):
        run_world(tmp_path, CUSTODIES["all keys in one place"], "card", "0")


def run_world(folder: Path, custody: Custody, role: Role, seed: str) -> None:
    """Let a thief take the custody of a role's keys, and see who is trusted."""
    world = World(folder, custody, seed)
    random, site = world.random, world.site
    for _ in range(random.randint(1, 3)):
        site.wait(days=1)
        world.note(site.rotate("release"))
        world.look(honest=True)
    world.told_since = None
    world.steal(role)
    is_of_cards = "card" in world.stolen
    site.now += timedelta(hours=random.randint(1, 40))
    world.look(honest=True)

    at_hand = [each for each in ROLES if each not in custody.by_hand]
    if random.random() < 0.5:  # by night, with nothing but what cron has
        at_hand = ["release"]
    by_day = random.random() < 0.5
    world.note(world.revoke(role, at_hand=tuple(at_hand), root=custody.usb and by_day))
    assert world.told_since is not None, "what can sign a release is at hand"
    world.look(honest=not is_of_cards)
    for _ in range(random.randint(1, 2)):
        site.now += timedelta(hours=random.randint(1, 30))
        world.note(site.rotate("release"))
        world.look(honest=not is_of_cards)

    site.now += timedelta(hours=random.randint(1, 12))
    progress = world.visit()
    assert progress.left == ()
    world.note(progress)
    world.over_since = site.now
    site.now += CACHED + timedelta(hours=1)
    world.note(site.rotate(*ROLES, root=custody.usb and "root" not in world.stolen))
    site.now += CACHED + timedelta(hours=1)
    world.look(honest=True)
    assert world.verifications > 10
