"""An issuer's folder, the people and the cron that tend it, and a peer that pinned its keyset."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cardsign.config import ProjectConfig
from cardsign.errors import PassphraseFault
from cardsign.issuer.keyset import IssuerPlan, init_issuer
from cardsign.issuer.reconcile import Progress, reconcile, revoke_keys
from cardsign.issuer.work import Work
from cardsign.keys.ledger import RevocationReason
from cardsign.keys.signers import Access, SecretKind
from cardsign.keys.store import FolderStore, open_store
from cardsign.publish.generation import Generation, load_current
from cardsign.statements.keyset import read_keyset
from cardsign.trust.policy import KeysetAnchor, Policy, Subject, TrustedIssuer
from cardsign.trust.walk import SuppliedStatements
from cardsign.urls import parse_place
from tests.support import PORTABLE, Remembering, reach_verdict

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
ORIGIN = "https://tides.example"
ROOT = b"that of the offline root"
SECRETS = {"card": b"the passphrase of cards", "release": b"that of cron's releases", "root": ROOT}
RECOVERY = b"another horse entirely"


@dataclass
class Peer:
    """A verifier that pinned keyset 1.1 and remembers."""

    policy: Policy
    memory: Remembering = field(default_factory=Remembering)

    def verdict(self, generation: Generation, now: datetime, card: bytes | None = None) -> str:
        """What it says of a card, by default the published one."""
        assert generation.release is not None
        supplied = SuppliedStatements((*generation.keysets.values(),), (generation.release,))
        return reach_verdict(
            card or generation.card,
            expect=Subject(issuer="tides"),
            policy=self.policy,
            supplied=supplied,
            memory=self.memory,
            now=now,
        ).verdict


@dataclass
class Site:
    """An issuer's folder: roots in a store of their own, and three passphrases."""

    folder: Path
    now: datetime = NOW
    secrets: dict[str, bytes] = field(default_factory=lambda: dict(SECRETS))
    names_card: bool = True

    @property
    def store(self) -> FolderStore:
        return open_store(self.folder / "keys")

    @property
    def roots(self) -> FolderStore:
        return open_store(self.folder / "usb")

    @property
    def draft(self) -> Path:
        return self.folder / "next-keyset.json"

    @property
    def config(self) -> ProjectConfig:
        members = {"format": 1, "issuer": ORIGIN, "keystore": "keys", "publish": "public"}
        card = {"source": "card.json", "signed": "signed.json"}
        file = self.folder / "cardsign.toml"
        cards = [card] if self.names_card else []
        return ProjectConfig.model_validate({**members, "card": cards}, context=(file, ()))

    @property
    def live(self) -> Generation:
        return load_current(self.folder / "public")

    @property
    def holder(self) -> Work:
        """What the holder of the offline root works with."""
        return Work(self.roots, self.now, access=Access.by_passphrase(self.secrets["root"]))

    def work(self, *roles: str, root: bool = False) -> Work:
        """What a person, or cron, with these passphrases works with."""

        def nothing(_kind: SecretKind, name: str) -> bytes:
            raise PassphraseFault("passphrase.none", f"no passphrase of {name}")

        by_role = {role: Access.by_passphrase(self.secrets[role]).secrets for role in roles}
        access = Access(nothing, by_role=by_role)
        roots = self.holder if root else None
        return Work(self.store, self.now, self.config, access, roots, self.draft)

    def rotate(self, *roles: str, root: bool = False) -> Progress:
        """`keys rotate`."""
        return reconcile(self.work(*roles, root=root))

    def revoke(
        self, kids: str | list[str], reason: RevocationReason, *roles: str, root: bool
    ) -> Progress:
        """`keys revoke`."""
        kids = [kids] if isinstance(kids, str) else kids
        return revoke_keys(self.work(*roles, root=root), kids, reason=reason)

    def wait(self, *, days: int = 0, hours: int = 0) -> None:
        """Let cron run each day or each hour, with the passphrase of releases alone."""
        for step, times in ((timedelta(days=1), days), (timedelta(hours=1), hours)):
            for _ in range(times):
                self.now += step
                self.rotate("release")

    def state(self, kid: str) -> str:
        return self.store.state.find(kid).state

    def active(self, role: str) -> str:
        (key,) = [
            key for key in self.store.state.keys if key.role == role and key.state == "active"
        ]
        return key.kid


def begun(folder: Path, *, usb: bool, secrets: Mapping[str, bytes] | None = None) -> Site:
    """Set up and published, with successors that the root has listed.

    With the root on a stick each role has a passphrase of its own, else one opens all; `secrets`
    says otherwise.
    """
    usual = SECRETS if usb else dict.fromkeys(SECRETS, SECRETS["card"])
    secrets = dict(secrets or usual)
    (folder / "card.json").write_text(json.dumps(PORTABLE))
    plan = IssuerPlan(
        folder,
        folder / "keys",
        ORIGIN,
        root_keystore=folder / "usb" if usb else None,
        recovery_out=folder / "recovery.key",
    )
    init_issuer(plan, {**secrets, "recovery": RECOVERY}, now=NOW)
    made = Site(folder, secrets=secrets)
    made.now += timedelta(minutes=1)
    told = made.rotate("card", "release", "root", root=usb)
    assert told.left == ()
    return made


def peer_of(site: Site) -> Peer:
    """A verifier that pinned the first keyset of an issuer."""
    pin = read_keyset(next(iter(site.live.keysets.values()))).id
    issuer = TrustedIssuer("tides", KeysetAnchor(pin), (parse_place(ORIGIN),))
    return Peer(Policy((issuer,)))
