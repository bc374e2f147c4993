"""What an issuer does, by the library: results are data, refusals change nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from cardsign import sign_card
from cardsign.config import ProjectConfig
from cardsign.errors import CardsignError
from cardsign.issuer.cards import publish_signed
from cardsign.issuer.epochs import IssuerPlan, init_issuer, open_recovery_key, recover
from cardsign.issuer.keyset import (
    draft_keyset,
    review_keyset,
    sign_keyset,
)
from cardsign.issuer.reconcile import find_key_gaps, publish_keyset, renew_release
from cardsign.issuer.release import ReleaseChanges
from cardsign.issuer.work import Work, card_signers
from cardsign.jose.keys import PrivateKey
from cardsign.keys import agenda
from cardsign.keys.store import FolderStore, create_store, open_store
from cardsign.publish.generation import load_current
from cardsign.publish.publication import Documents
from cardsign.statements.keyset import RootKey
from tests.publish.publications import put_in_place
from tests.support import PORTABLE

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SECRET = b"correct horse battery staple"
OTHER = b"another horse entirely"
ORIGIN = "https://tides.example"
CARD = json.dumps(PORTABLE).encode()


@dataclass
class Made:
    """A folder that was set up at `NOW`."""

    folder: Path
    kids: dict[str, str]

    @property
    def store(self) -> FolderStore:
        return open_store(self.folder / "keys")

    @property
    def public(self) -> Path:
        return self.folder / "public"

    @property
    def recovery(self) -> Path:
        return self.folder / "recovery.key"

    def work(
        self, now: datetime = NOW, passphrase: bytes = SECRET, *, publishes: bool = False
    ) -> Work:
        """What a call works with, by default without a publication directory."""
        config = ProjectConfig(format=1, publish=self.public if publishes else None)
        return Work(self.store, now, config, passphrase)

    def tree(self) -> dict[str, bytes]:
        """Every file, but for empty locks."""
        found = (path for path in self.folder.rglob("*") if path.is_file())
        return {str(path): path.read_bytes() for path in found if path.name != ".lock"}


def never(*_: object) -> Any:
    raise AssertionError("nobody is to be asked")


@pytest.fixture
def made(tmp_path: Path) -> Made:
    """Root, card, release and recovery keys, keyset 1.1, release 1."""
    plan = IssuerPlan(tmp_path, tmp_path / "keys", ORIGIN, recovery_out=tmp_path / "recovery.key")
    passphrases = passphrases_of(root=SECRET, recovery=OTHER)
    keyset, _ = init_issuer(plan, passphrases, now=NOW)
    assert plan.list_shared(passphrases) == ("root", "release")
    kids = {role: key.public.kid for key in keyset.keys for role in key.roles}
    return Made(tmp_path, kids)


def passphrases_of(**own: bytes) -> dict[Any, bytes]:
    """One passphrase for each role, but for those that have their own."""
    return {"card": SECRET, "root": SECRET, "release": SECRET, **own}


def publish(made: Made, now: datetime) -> bytes:
    """Sign the card, list it, publish it."""
    signed = sign_card(CARD, card_signers(made.store, SECRET, now=now))
    listed = ReleaseChanges(cards=((None, signed),))
    renew_release(made.work(now, publishes=True), listed)
    publish_signed(made.work(now, publishes=True), Documents(signed))
    return signed


def code(refused: Callable[[], object]) -> str:
    """The code that a call is refused with."""
    with pytest.raises(CardsignError) as caught:
        refused()
    return caught.value.code


# ------------------------------------------------------------------ beginning


def test_a_folder_is_set_up_once(made: Made) -> None:
    """With a key store that is not there yet."""
    assert set(made.kids) == {"card", "release"}
    before = made.tree()
    keys, elsewhere = made.folder / "keys", made.folder / "more"
    assert code(IssuerPlan(made.folder, elsewhere, ORIGIN).check) == "file.exists"
    assert code(IssuerPlan(made.folder / "x", keys, ORIGIN).check) == "file.exists"
    assert made.tree() == before


def test_which_keys_share_a_passphrase_is_told(tmp_path: Path) -> None:
    """The root key has one of its own here, so the others are named."""
    plan = IssuerPlan(tmp_path, tmp_path / "keys", ORIGIN)
    assert plan.list_shared(passphrases_of(root=OTHER)) == ("release", "recovery")


# ------------------------------------------------------------------ keysets


def test_a_keyset_is_drafted_signed_and_published(made: Made) -> None:
    """With a release that speaks of it; once more is no change."""
    publish(made, NOW)
    now = NOW + timedelta(days=1)
    draft = draft_keyset(made.work(now), origins=(ORIGIN,))
    assert code(lambda: sign_keyset(made.work(), draft, digest="0" * 64)) == "statement.digest"
    review_keyset(made.work(now), draft)
    signed = sign_keyset(made.work(), draft, digest=draft.digest)
    work = made.work(now, publishes=True)
    progress = publish_keyset(work, signed, name="the draft")
    assert progress.done == (
        "kept keyset 1.2 as the newest",
        "signed release 3",
        "published generation 2",
    )
    assert "1.2" in load_current(made.public).keysets
    assert publish_keyset(work, signed, name="the draft").done == ()


def test_a_key_that_need_not_sign_signs_no_keyset(made: Made) -> None:
    """A recovery key signs a recovery, and nothing else."""
    draft = draft_keyset(made.work())
    stranger = PrivateKey.generate("ES256")
    how: dict[str, Any] = {"digest": draft.digest, "recovery": lambda: (stranger, b"")}
    assert code(lambda: sign_keyset(made.work(), draft, **how)) == "sign.no_key"


def test_recovery_opens_the_next_epoch(made: Made) -> None:
    """With the recovery key of the newest keyset, and with no other."""
    before = made.tree()
    new = made.folder / "new.key"
    work, how = made.work(NOW + timedelta(days=1)), {"new_recovery_out": new}
    stranger = PrivateKey.generate("ES256")
    refused = code(lambda: recover(work, lambda: (stranger, OTHER), passphrase=never, **how))
    assert (refused, made.tree()) == ("sign.no_key", before)
    key = open_recovery_key(made.recovery, OTHER)
    recovered, made_root = recover(work, lambda: (key, OTHER), passphrase=lambda _: SECRET, **how)
    assert (recovered.label, len(recovered.envelope.signatures)) == ("2.1", 2)
    assert recovered.root.keys == (RootKey(made_root.public, "owner"),)
    assert open_recovery_key(new, OTHER) != key


# ------------------------------------------------------------------ publishing


@pytest.mark.parametrize("year", [2099, 9999])
def test_a_publication_of_the_future_stops_no_rotation(made: Made, year: int) -> None:
    """All waits run from what the key store records, so nothing there is later than now."""
    publish(made, NOW)
    later = datetime(year, 12, 31, 23, 59, 59, tzinfo=UTC)
    put_in_place(made.public, replace(load_current(made.public), published_at=later))

    for days in (4, 5):
        now = NOW + timedelta(days=days)
        publish(made, now)
        assert max(one.at for one in made.store.state.publications) <= now
    assert load_current(made.public).published_at <= now


def test_a_store_without_keys_signs_no_card(tmp_path: Path) -> None:
    """And says so."""
    store = create_store(tmp_path / "empty")
    assert code(lambda: card_signers(store, SECRET, now=NOW)) == "sign.no_key"
    work = Work(store, NOW, access=SECRET)
    assert code(lambda: renew_release(work, ReleaseChanges())) == "keystore.no_keyset"


def test_the_next_key_of_a_signer_is_made_there(tmp_path: Path) -> None:
    """By a person: no private key comes to lie in the key store beside it."""
    store, key = create_store(tmp_path / "keys"), PrivateKey.generate("ES256")
    store.apply(agenda.enter, key.public, custody="exec:/usr/local/bin/sign", now=NOW)
    (gap,) = find_key_gaps(Work(store, NOW, access=SECRET))
    assert gap.what == "make the next ES256 card key where the active one is"
    assert (gap.close, gap.command) == (None, "cardsign keys import URI")
