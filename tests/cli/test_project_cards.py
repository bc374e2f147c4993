"""The cards of an issuer stand in `cardsign.toml`: sign, release renew and publish name none."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from cardsign.card.convert import convert_card
from cardsign.card.document import Card
from cardsign.card.extensions import FIELDS_URI, find_marker
from cardsign.config import read_config
from cardsign.issuer.cards import sign_cards
from cardsign.issuer.doctor import examine_issuer
from cardsign.issuer.work import Work
from cardsign.keys.store import open_store
from cardsign.publish.generation import load_current
from tests.cli.conftest import PASSPHRASE, Cardsign, run
from tests.support import PORTABLE

ISSUER = "https://tides.example"
LEGACY = "/.well-known/agent.json"
PUBLIC = {**PORTABLE, "capabilities": {**PORTABLE["capabilities"], "extendedAgentCard": True}}
PARTNERS = '\n[[card]]\nsource = "more.json"\nsigned = "more.signed.json"\n'

pytestmark = pytest.mark.usefixtures("cheap")


@pytest.fixture
def issuer(cardsign: Cardsign) -> Cardsign:
    """A public card and one for partners, named by the settings."""
    Path("card.json").write_text(json.dumps(PUBLIC))
    Path("more.json").write_text(json.dumps({**PUBLIC, "description": "For partners."}))
    run(
        cardsign(
            "init", "--issuer", ISSUER, "--recovery-out", "recovery.key", "--card", "card.json"
        )
    )
    with open("cardsign.toml", "a") as config:
        config.write(PARTNERS + 'audience = "partners"\nexpires = "90d"\n')
    return cardsign


def publish(issuer: Cardsign) -> Any:
    """Three commands without an argument."""
    run(issuer("sign"))
    run(issuer("release", "renew"))
    return run(issuer("publish", "--json")).json


CONFIG = Path("cardsign.toml")


def foresee_ends(days: int) -> list[str]:
    """What `keys doctor` will say of extended cards that end."""
    now = datetime.now(UTC) + timedelta(days=days)
    findings = examine_issuer(Work(open_store(Path("keys")), now, read_config(CONFIG)))
    alarms = [finding for finding in findings if finding.severity == "error"]
    return [alarm.message for alarm in alarms if "extended card" in alarm.message]


def test_doctor_tells_of_the_end_of_an_extended_card(issuer: Cardsign) -> None:
    """A day earlier it does not; also where the settings name no card any more, and once (P7)."""
    publish(issuer)
    assert foresee_ends(44) == []
    end = f"{datetime.now(UTC) + timedelta(days=90):%Y-%m-%d}"
    expected = f"sign more.json again: the extended card for partners ends on {end}"
    for days in (46, 77, 89):
        assert [alarm[: len(expected)] for alarm in foresee_ends(days)] == [expected]
    CONFIG.write_text(CONFIG.read_text().partition("[[card]]")[0])
    assert foresee_ends(75) == []
    assert ["audience partners" in message for message in foresee_ends(77)] == [True]


def test_cron_without_the_card_passphrase_says_which_card_ends(
    issuer: Cardsign, clock: Callable[[datetime], None]
) -> None:
    """And when; the person with the passphrase types one command, and then nobody is needed."""
    run(issuer("keys", "rotate"))
    clock(datetime.now(UTC) + timedelta(days=46))
    cron = {"CARDSIGN_PASSPHRASE": None, "CARDSIGN_RELEASE_PASSPHRASE": PASSPHRASE}
    ended = issuer("keys", "rotate", "--quiet", **cron)
    assert ended.status == 1
    assert "Do this: cardsign keys rotate\n" in ended.err
    assert "  sign more.json again: the extended card for partners ends on 20" in ended.err
    assert ended.err.count("left for") == 1
    doctor = issuer("keys", "doctor", "--quiet")
    assert (doctor.status, "error: doctor.gap: sign more.json again" in doctor.err) == (1, True)
    run(issuer("keys", "rotate"))
    assert run(issuer("keys", "rotate", "--quiet", **cron)).err == ""


def test_a_successor_has_the_holder_of_its_predecessor(issuer: Cardsign) -> None:
    """A peer that requires the holder `owner` goes on believing the cards."""
    kids = [run(issuer("keys", "generate", "--json")).json["kid"]]
    run(issuer("keys", "rotate"))
    online = [key for key in open_store(Path("keys")).state.keys if key.rotates]
    assert kids[0] in {key.kid for key in online}
    assert len(online) > 3
    assert {key.holder for key in online} == {"owner"}


def test_F2_the_card_of_0_3_goes_along_until_it_is_dropped(issuer: Cardsign) -> None:
    """It has to be listed and to fit; what cron publishes keeps it."""
    publish(issuer)
    Path("old.json").write_text(json.dumps(convert_card(PUBLIC, "0.3").document))
    run(issuer("sign", "old.json", "-o", "old.signed.json"))
    named = ("signed.json", "--extended", "partners=more.signed.json", "--legacy-card")
    unlisted = issuer("publish", *named, "old.signed.json")
    assert (unlisted.status, "publish.unlisted" in unlisted.err) == (1, True)
    run(issuer("release", "renew", "--card", f"{ISSUER}{LEGACY}=old.signed.json"))
    run(issuer("publish", *named, "old.signed.json"))
    older = Path("old.signed.json").read_bytes()
    assert load_current(Path("public")).legacy_card == older

    run(issuer("keys", "rotate"))
    assert load_current(Path("public")).legacy_card == older

    Path("card.json").write_text(json.dumps({**PUBLIC, "version": "2.0.0"}))
    run(issuer("sign"))
    run(issuer("release", "renew"))
    refused = issuer("publish")
    assert (refused.status, "publish.legacy" in refused.err) == (1, True)
    run(issuer("publish", "--drop-others"))
    assert load_current(Path("public")).legacy_card is None


def _selecting(issuer: Cardsign, audience: str, source: str = '"full.json"') -> None:
    """Settings by which one source makes the public card and that of an audience."""
    settings = Path("cardsign.toml").read_text().partition("[[card]]")[0]
    settings += f"""[[card]]
source = {source}
signed = "signed.json"
skills = ["tides"]

[[card]]
source = {source}
signed = "partner.signed.json"
audience = "partners"
expires = "90d"
skills = {audience}
"""
    Path("cardsign.toml").write_text(settings)


def _skills(file: str) -> list[str]:
    return [one["id"] for one in json.loads(Path(file).read_bytes())["skills"]]


def test_O24_an_audience_is_a_selection_of_the_skills_of_one_source(issuer: Cardsign) -> None:
    """Nothing of another skill leaves, not even what our extension keeps of it."""
    skill = PUBLIC["skills"][0]
    skills = [{**skill, "id": name, "name": name} for name in ("tides", "berths", "private")]
    kept = {
        name: {"inputSchema": {"title": f"of {name}"}} for name in ("tides", "berths", "private")
    }
    extension = {"uri": FIELDS_URI, "description": "more", "params": {"skills": kept}}
    capabilities = {**PUBLIC["capabilities"], "extensions": [extension]}
    whole = {**PUBLIC, "skills": skills, "capabilities": capabilities}
    Path("full.json").write_text(json.dumps(whole))
    _selecting(issuer, '["berths", "tides"]')

    run(issuer("sign"))

    assert (_skills("signed.json"), _skills("partner.signed.json")) == (
        ["tides"],
        ["tides", "berths"],
    )
    text = Path("partner.signed.json").read_text()
    assert ("of berths" in text, "private" in text) == (True, False)
    assert "berths" not in Path("signed.json").read_text()


def test_several_agents_have_cards_of_files(cardsign: Cardsign) -> None:
    """Each is published in a folder of its name, the extended one with its agent's."""
    run(cardsign("init", "--issuer", ISSUER, "--recovery-out", "recovery.key"))
    table = '[[card]]\nagent = "{0}"\nsource = "{0}.json"\nsigned = "{0}.signed.json"\n'
    for name in ("tides", "waves"):
        Path(f"{name}.json").write_text(json.dumps({**PUBLIC, "name": name}))
    extended = 'agent = "tides"\naudience = "partners"\nexpires = "90d"\n'
    Path("more.json").write_text(json.dumps({**PUBLIC, "name": "tides"}))
    with open("cardsign.toml", "a") as config:
        config.write(table.format("tides") + table.format("waves") + PARTNERS + extended)

    run(cardsign("publish"))

    for name, audiences in (("tides", ["partners"]), ("waves", [])):
        generation = load_current(Path("public") / name)
        assert json.loads(generation.card or b"")["name"] == name
        assert list(generation.extended) == audiences


def test_an_extended_card_is_signed_anew_when_half_of_its_time_is_over(issuer: Cardsign) -> None:
    """Not before, so that its bytes stay."""
    store, now, config = open_store(Path("keys")), datetime.now(UTC), read_config(CONFIG)
    changed = []
    for days in (0, 44, 46, 47):
        work = Work(store, now + timedelta(days=days), config, PASSPHRASE.encode())
        changed.append(sign_cards(work)[1][1].changed)
    assert changed == [True, False, True, False]


def test_a_number_that_somebody_wrote_into_a_signed_card_is_not_signed(issuer: Cardsign) -> None:
    """What is read back counts if a key of ours has signed it, and then it stays."""
    publish(issuer)
    file = Path("more.signed.json")
    mine = file.read_bytes()
    marker = find_marker(Card.from_bytes(mine).document)
    assert marker is not None
    file.write_bytes(mine.replace(b'"seq": %d' % marker.seq, b'"seq": 9999'))
    assert file.read_bytes() != mine

    run(issuer("sign"))

    again = find_marker(Card.from_bytes(file.read_bytes()).document)
    assert again is not None
    assert again.seq < 9999
    run(issuer("sign"))
    assert find_marker(Card.from_bytes(file.read_bytes()).document) == again
