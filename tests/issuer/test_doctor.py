"""What doctor tells of an issuer: its gaps, what is ahead, and what is good to have."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from cardsign.findings import Finding
from cardsign.issuer.doctor import examine_issuer
from cardsign.jose.keys import PrivateKey
from cardsign.keys import agenda
from tests.issuer.site import Site, begun
from tests.support import PORTABLE

DAY = timedelta(days=1)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return begun(tmp_path, usb=True)


def alarms(site: Site) -> list[str]:
    """What somebody has to act upon."""
    return [one.message for one in found(site) if one.severity == "error"]


def found(site: Site, later: timedelta = timedelta()) -> list[Finding]:
    return examine_issuer(replace(site.work(), now=site.now + later))


def test_an_issuer_in_which_nothing_is_missing_is_healthy(site: Site) -> None:
    """It is told what would be good to have, and nothing is changed or opened to find that."""
    lines = site.store.read_lines()
    codes = {one.code for one in found(site)}
    assert (alarms(site), codes) == ([], {"doctor.folder_counts"})
    assert site.store.read_lines() == lines


def test_a_cron_that_has_died_is_an_alarm_before_the_release_ends(site: Site) -> None:
    site.now += timedelta(days=3, hours=11)  # what the next release says anew can wait for cron
    assert alarms(site) == []
    site.now += timedelta(hours=2)
    assert [message.partition(";")[0] for message in alarms(site)] == ["renew the release"]


def test_a_revocation_that_no_release_witnesses_is_an_alarm(site: Site) -> None:
    """Also of a key that nobody trusts: who can write the log could take the line away."""
    spare = PrivateKey.generate("ES256")
    site.store.add_key(spare, site.secrets["card"], now=site.now)
    site.now += timedelta(minutes=1)
    site.store.apply(agenda.revoke, spare.public.kid, reason="ceased", now=site.now)
    assert any("names the newest revocation" in message for message in alarms(site))
    site.rotate("card", "release", root=True)
    assert alarms(site) == []


@pytest.mark.parametrize("has_settings", [True, False], ids=["cards named", "no cards named"])
def test_a_published_card_that_nobody_trusts_is_an_alarm(site: Site, *, has_settings: bool) -> None:
    """After a theft the new key is active, and cron can sign no card with it."""
    stolen, site.secrets["card"] = site.active("card"), b"a passphrase that no thief has"
    site.revoke(stolen, "compromised", "card", root=False)
    site.rotate("release", root=True)
    site.now += timedelta(hours=1)
    assert site.rotate("release").left
    work = site.work()
    if not has_settings:
        work.config = work.config.model_copy(update={"cards": ()})
    told = [one.message for one in examine_issuer(work) if one.severity == "error"]
    assert "sign the cards" in told
    site.rotate("card", "release")
    assert alarms(site) == []


def test_cards_that_wait_while_the_published_one_is_trusted_are_no_alarm(site: Site) -> None:
    """The honest twin."""
    site.config.cards[0].source.write_text(json.dumps({**PORTABLE, "name": "Tides again"}))
    assert ("sign the cards", "note") in [(one.message, one.severity) for one in found(site)]
    assert alarms(site) == []


def test_a_clock_that_was_set_back_is_an_alarm(site: Site) -> None:
    """By more than the skew."""
    site.now -= timedelta(seconds=301)
    assert any("this clock says it is not yet" in message for message in alarms(site))


def test_an_issuer_that_has_ended_leaves_no_alarm(site: Site) -> None:
    """Nobody is asked for anything."""
    kids = [key.kid for key in site.store.state.keys if key.rotates]
    site.revoke(kids, "ceased", "card", "release", root=True)
    assert alarms(site) == []
