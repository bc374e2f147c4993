"""Whole tasks of an issuer in one call each, under a virtual clock, as a peer or doctor sees."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from cardsign.card.convert import convert_card
from cardsign.card.extensions import ExtendedMarker
from cardsign.issuer import keyset as keysets
from cardsign.issuer.doctor import examine_issuer
from cardsign.issuer.reconcile import find_gaps, reconcile, renew_release
from cardsign.issuer.release import ReleasePlan, needed_keyset
from cardsign.issuer.work import Work, card_signers
from cardsign.jose.keys import PrivateKey
from cardsign.keys import agenda
from cardsign.keys.history import kept_release
from cardsign.keys.ledger import StoreState
from cardsign.keys.signers import Access
from cardsign.keys.store import create_store
from cardsign.publish.generation import CARD_FILE, LEGACY_FILE
from cardsign.sign import SigningOptions, sign_document
from cardsign.statements.envelope import StatementRefused
from cardsign.statements.keyset import KeysetStatement, RootKey
from cardsign.statements.release import read_release
from tests.issuer.site import NOW, SECRETS, Peer, Site, begun, peer_of
from tests.keys.elsewhere import refusal
from tests.publish.publications import put_in_place
from tests.support import PORTABLE, dump

pytestmark = pytest.mark.usefixtures("cheap")


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """With the root in a store of its own."""
    return begun(tmp_path, usb=True)


@pytest.fixture
def together(tmp_path: Path) -> Site:
    """With all keys in one store."""
    return begun(tmp_path, usb=False)


@pytest.fixture
def peer(site: Site) -> Peer:
    """It pinned the first keyset."""
    return peer_of(site)


def test_a_rotation_takes_two_visits_of_one_command(site: Site, peer: Peer) -> None:
    """The peer never notices, and cron has only the passphrase of releases."""
    old = site.store.state.find(site.active("card"))
    site.now += timedelta(days=60)
    site.rotate("release", root=True)  # the roots renew a keyset at two thirds of its time
    site.now += timedelta(days=30)
    site.wait(days=1)
    assert (site.state(old.kid), site.rotate("card", "release", root=True).left) == ("retiring", ())
    for _ in range(8):
        assert peer.verdict(site.live, site.now) == "trusted"
        site.now += timedelta(hours=7)
        site.wait(hours=1)
    assert (site.state(old.kid), old.kid in site.live.kids) == ("retired", False)
    release = kept_release(site.store)
    assert release, "a copy of the old key is of no use until the roots sign again"
    assert old.thumbprint in release.revoked
    assert site.rotate("release").left == (), "cron is quiet until the roots are due"


def test_cron_can_neither_sign_a_card_nor_make_its_key(site: Site) -> None:
    """Its passphrase given for everything: a successor has that of its predecessor alone."""
    site.now += timedelta(days=91)
    told = reconcile(replace(site.work(), access=Access.by_passphrase(SECRETS["release"])))
    made = [key for key in site.store.state.keys if key.created == site.now]
    assert [key.role for key in made] == ["release"], told
    assert any("card key" in one.what for one in told.left)


def test_a_key_that_another_host_has_made_is_not_made_again(site: Site) -> None:
    """The gap was found before; nothing is done, and the next look finds none."""
    site.now += timedelta(days=61)
    slow = site.work("card", "release")
    gaps = [gap for gap in find_gaps(slow) if gap.what.startswith("activate")]
    assert gaps
    site.rotate("release")
    (gap,) = [gap for gap in find_gaps(slow) if gap.what.startswith("make")]
    assert gap.close is not None
    site.rotate("card")
    keys = site.store.state.keys
    assert refusal(gap.close) == "keystore.changed"
    assert not [gap for gap in find_gaps(slow) if gap.what.startswith("make")]
    assert site.store.state.keys == keys


def overtaken(site: Site, reads: int) -> Work:
    """A host that another one overtakes, all the way, once it has read the log so many times."""
    (site.folder / "card.json").write_bytes(dump({**PORTABLE, "version": "2.0.0"}))
    work = site.work("card", "release")
    load, readings = work.store.load, iter(range(1, 1000))

    def read(**options: bool) -> StoreState:
        state = load(**options)
        if next(readings) == reads:
            assert site.rotate("card", "release").left == ()
        return state

    vars(work.store)["load"] = read
    return work


@pytest.mark.parametrize("reads", range(1, 9))
def test_a_host_that_another_one_overtakes_needs_nobody(site: Site, reads: int) -> None:
    """What it read of the log is older than what is published then: it looks again."""
    assert reconcile(overtaken(site, reads)).left == ()
    assert alarms(site) == []


@pytest.mark.parametrize("reads", [2, 3, 4])
def test_who_only_looks_meanwhile_sees_no_stranger(site: Site, reads: int) -> None:
    told = examine_issuer(overtaken(site, reads))
    assert [finding.message for finding in told if finding.severity == "error"] == []
    assert reconcile(replace(overtaken(site, reads), is_dry_run=True)).left == ()


def test_who_renews_a_release_after_another_host_repeats_the_command(site: Site) -> None:
    slow = site.work("release")
    for _ in range(2):
        renew_release(site.work("release"), ReleasePlan(), force=True)
    assert refusal(renew_release, slow, ReleasePlan(), force=True) == "keystore.changed"


@pytest.mark.parametrize("year", [2099, 9999])
def test_a_publication_of_the_future_stops_no_rotation(together: Site, year: int) -> None:
    """All waits run from what the key store records, so nothing there is later than now."""
    later = datetime(year, 12, 31, 23, 59, 59, tzinfo=UTC)
    put_in_place(together.folder / "public", replace(together.live, published_at=later))
    for _ in range(2):
        together.now += timedelta(days=4)
        together.rotate("card", "release", "root")
        assert together.live.published_at <= together.now
        assert max(one.at for one in together.store.state.publications) <= together.now


def test_what_is_not_there_signs_nothing(site: Site, tmp_path: Path) -> None:
    """Neither a store without keys, nor one without a keyset, nor a key that need not sign."""
    work = Work(create_store(tmp_path / "empty"), NOW)
    assert refusal(card_signers, work.store, b"", now=NOW) == "sign.no_key"
    assert refusal(renew_release, work, ReleasePlan()) == "keystore.no_keyset"
    draft, stranger = keysets.draft_keyset(site.work()), PrivateKey.generate("ES256")
    how: dict[str, Any] = {"digest": draft.digest, "recovery": lambda: (stranger, b"")}
    assert refusal(keysets.sign_keyset, site.work(), draft, **how) == "sign.no_key"


def test_a_key_that_another_process_has_revoked_signs_no_more(site: Site) -> None:
    store, old = site.store, site.active("card")
    site.revoke(old, "superseded", "card", "release", root=True)
    kids = [signer.public.kid for signer in card_signers(store, None, now=site.now)]
    assert kids == [site.active("card")] != [old]


NEW = b"a passphrase that no thief has"


def test_a_successor_that_has_ended_replaces_nothing(site: Site) -> None:
    """Another key and its successor are made, and one keyset lists both."""
    card = site.active("card")
    (following,) = [
        key.kid for key in site.store.state.keys if key.succeeds(site.store.state.find(card))
    ]
    before = needed_keyset(site.store).version
    site.revoke(following, "superseded", root=False)
    told = site.revoke(card, "superseded", "card", "release", root=True)
    assert len([line for line in told.done if line.startswith("made card key")]) == 2
    assert (needed_keyset(site.store).version, told.left) == (before + 1, ())


def test_a_key_that_signs_at_once_gets_its_successor_in_the_same_call(site: Site) -> None:
    """Also where an earlier rotation has ended: only what this call retired ends it."""
    site.now += timedelta(days=61)
    site.rotate("card", "release", root=True)
    site.wait(days=4)
    site.now += timedelta(days=57)
    waiting = [key for key in site.store.state.keys if key.state == "prepublished"]
    (following,) = [key.kid for key in waiting if key.role == "release"]
    told = site.revoke(following, "superseded", "card", "release", root=True)
    assert len([line for line in told.done if line.startswith("made release key")]) == 2


def test_the_roots_are_wanted_before_a_release_ends_that_no_key_renews(site: Site) -> None:
    """Nobody has stolen the key, so until then nothing is harmed."""
    site.now += timedelta(hours=3)
    revoked = [key.kid for key in site.store.state.keys if key.role == "release"]
    told = site.revoke(revoked, "superseded", "card", "release", root=False)
    (left,) = [gap for gap in told.left if gap.awaits_roots]
    assert site.live.release is not None
    assert left.until == datetime.fromtimestamp(read_release(site.live.release).exp, UTC)


def sign_elsewhere(site: Site, draft: KeysetStatement, key: PrivateKey) -> None:
    """Add the signature of another holder to the draft that lies there."""
    keysets.review_keyset(site.work(), draft)
    signed = keysets.sign_keyset(
        site.work(), draft, digest=draft.digest, recovery=lambda: (key, b"")
    )
    site.draft.write_bytes(keysets.write_draft(signed))


def add_bob(site: Site, *, threshold: int) -> PrivateKey:
    """List another root holder, in a keyset that both holders of a key store here keep."""
    bob = PrivateKey.generate("ES256")
    site.now += timedelta(days=1)
    roots = (RootKey(bob.public, "bob"),)
    drafted = keysets.draft_keyset(site.work(), add_roots=roots, threshold=threshold)
    signed = keysets.sign_keyset(site.holder, drafted, digest=drafted.digest)
    signed = keysets.sign_keyset(
        site.work(), signed, digest=drafted.digest, recovery=lambda: (bob, b"")
    )
    for store in (site.store, site.roots):
        keysets.accept_keyset(Work(store, site.now), signed)
    return bob


def test_a_revoked_root_key_is_not_listed_again(site: Site) -> None:
    """It is refused, not left out silently."""
    bob = PrivateKey.generate("ES256")
    site.store.add_key(bob, SECRETS["root"], now=site.now, role="root")
    site.store.commit(agenda.revoke, bob.public.kid, reason="superseded", now=site.now)
    roots = (RootKey(bob.public, "bob"),)
    assert refusal(keysets.draft_keyset, site.work(), add_roots=roots) == "statement.bad_key"


def test_a_holder_elsewhere_is_asked_once_the_draft_is_final(site: Site) -> None:
    """While a key is to be made, another draft will follow; who has signed too early is told."""
    bob = add_bob(site, threshold=2)
    site.now += timedelta(days=61)
    cron = site.rotate("release")
    assert not any("bob" in gap.who for gap in cron.left), cron.left
    sign_elsewhere(site, keysets.read_draft(site.draft.read_bytes()), bob)
    visit = site.rotate("card", "release", root=True)
    assert [gap.who for gap in visit.left] == ["bob"]


def test_a_stick_that_missed_a_visit_is_brought_up_to_date(site: Site) -> None:
    """Another holder has signed meanwhile; the stick holds the next draft against that."""
    bob = add_bob(site, threshold=1)
    site.now += timedelta(days=61)
    site.rotate("card", "release")
    draft = keysets.read_draft(site.draft.read_bytes())
    sign_elsewhere(site, draft, bob)
    assert site.rotate("card", "release").left == ()
    assert needed_keyset(site.roots).digest != draft.digest
    with pytest.raises(StatementRefused, match="gap") as refused:
        keysets.review_keyset(site.holder, keysets.draft_keyset(site.work()))
    assert f"publish STATEMENT --keystore {site.folder}" in refused.value.finding.fix

    site.now += timedelta(days=61)
    assert site.rotate("card", "release", root=True).left == ()
    assert needed_keyset(site.roots).digest == needed_keyset(site.store).digest


def test_a_draft_of_a_theft_that_one_root_alone_has_signed_is_drafted_again(site: Site) -> None:
    """The twin: too few have signed it, so nobody holds it, and its number is free."""
    bob = PrivateKey.generate("ES256")
    site.now += timedelta(days=1)
    draft = keysets.draft_keyset(site.work(), add_roots=(RootKey(bob.public, "bob"),), threshold=2)
    half = keysets.sign_keyset(site.holder, draft, digest=draft.digest)
    site.draft.write_bytes(keysets.write_draft(half))
    stolen = site.active("card")
    site.secrets["card"] = NEW
    told = site.revoke(stolen, "compromised", "card", "release", root=True)
    newest = needed_keyset(site.store)
    assert stolen in newest.revoked, told
    assert (newest.number, newest.digest) != (half.number, half.digest)


def put_there(site: Site, name: str, card: bytes) -> None:
    """Put a card into what is published, as anyone who can write there may; cron comes by."""
    later = site.live.published_at + timedelta(minutes=1)
    files = {**site.live.files, name: card}
    put_in_place(site.folder / "public", replace(site.live, files=files, published_at=later))
    site.wait(days=1)


@pytest.mark.parametrize("name", [CARD_FILE, "extended/partners.json"])
def test_a_card_that_a_thief_has_published_is_not_signed_again(
    name: str, site: Site, peer: Peer
) -> None:
    """Its signature and the record of cron say nothing: a person looks at it first."""
    site.names_card = False
    stolen = site.store.state.find(site.active("card"))
    thief = site.store.signer(stolen, site.secrets["card"])
    marker = None if name == CARD_FILE else ExtendedMarker("partners", 1, 2**32)
    evil = dump({**PORTABLE, "description": "evil"})
    forged = sign_document(evil, [thief], SigningOptions(extended=marker))
    put_there(site, name, forged)
    site.revoke(stolen.kid, "compromised", "release", root=False)
    site.secrets["card"] = NEW
    told = site.rotate("card", "release", root=True)
    assert [gap.what.partition(",")[0] for gap in told.left] == ["sign these published cards again"]
    assert site.live.files[name] == forged
    assert peer.verdict(site.live, site.now, forged) != "trusted"


@pytest.fixture
def bare(tmp_path: Path) -> Site:
    """Published without statements."""
    site = Site(tmp_path, secrets=dict.fromkeys(SECRETS, SECRETS["card"]))
    (tmp_path / "card.json").write_bytes(dump(PORTABLE))
    key = PrivateKey.generate("ES256")
    create_store(tmp_path / "keys").add_key(key, site.secrets["card"], now=site.now)
    assert site.rotate("card").left == ()
    return site


EVIL = {**PORTABLE, "description": "evil"}
LEGACY = convert_card(EVIL, "0.3")
#: Where a card is put, and what it is; no settings name another one.
PUT: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "unsigned": (CARD_FILE, lambda _: dump(EVIL)),
    "what prune-empty leaves out": (
        CARD_FILE,
        lambda card: dump({**json.loads(card), "url": "https://evil.example"}),
    ),
    "a card of A2A 0.3": (LEGACY_FILE, lambda _: dump(LEGACY)),
}


@pytest.mark.parametrize(("name", "forge"), PUT.values(), ids=PUT)
def test_a_card_that_somebody_has_put_there_is_not_signed(
    name: str, forge: Callable[[bytes], bytes], bare: Site
) -> None:
    """Cron has it on record as soon as it is there, which says nothing."""
    bare.names_card = False
    forged = forge(bare.live.card)
    put_there(bare, name, forged)
    assert bare.rotate("card").left
    assert bare.live.files[name] == forged


def test_an_older_card_is_not_signed_again_by_the_next_key(bare: Site) -> None:
    """Whoever can write there could undo a publication for good."""
    bare.names_card = False
    older, first = bare.live, bare.active("card")
    while bare.state(first) != "retired":
        bare.now += timedelta(days=20)
        bare.rotate("card")
    put_there(bare, CARD_FILE, older.card)
    assert bare.rotate("card").left
    assert bare.live.card == older.card


# What doctor tells of an issuer.


def alarms(site: Site, severity: str = "error") -> list[str]:
    """What somebody has to act upon."""
    findings = examine_issuer(site.work())
    return [finding.message for finding in findings if finding.severity == severity]


def test_a_cron_that_has_died_is_an_alarm_before_the_release_ends(site: Site) -> None:
    site.now += timedelta(days=3, hours=11)  # what the next release says anew can wait for cron
    assert alarms(site) == []
    site.now += timedelta(hours=2)
    assert [message.partition(": ")[2] for message in alarms(site)] == ["renew the release"]


def test_a_revocation_that_no_release_witnesses_is_an_alarm(site: Site) -> None:
    """Also of a key that nobody trusts: who can write the log could take the line away."""
    spare = PrivateKey.generate("ES256")
    site.store.add_key(spare, site.secrets["card"], now=site.now)
    site.now += timedelta(minutes=1)
    site.store.commit(agenda.revoke, spare.public.kid, reason="ceased", now=site.now)
    assert any("names the newest revocation" in message for message in alarms(site))
    site.rotate("card", "release", root=True)
    assert alarms(site) == []


def test_cards_that_wait_while_the_published_one_is_trusted_are_no_alarm(site: Site) -> None:
    """The honest twin."""
    site.config.cards[0].source.write_text(json.dumps({**PORTABLE, "name": "Tides again"}))
    assert "sign the cards" in alarms(site, "note")
    assert alarms(site) == []


def test_a_clock_that_was_set_back_is_an_alarm(site: Site) -> None:
    """By more than the skew."""
    site.now -= timedelta(seconds=301)
    assert any("set this machine's clock" in message for message in alarms(site))
