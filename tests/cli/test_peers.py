"""`cardsign peers` and live peers on the command line, with a network that is a table."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cardsign.errors import FetchFailed
from cardsign.jose.keys import JwkSet
from cardsign.net.fetch import FetchSettings
from cardsign.trust.lock import read_lock
from cardsign.trust.walk import FetchResult
from cardsign.urls import KEYSET_PATH, RELEASE_PATH
from cardsign.verify.report import NotTrusted
from cardsign.verify.verifier import Verifier
from tests.cli import peer
from tests.cli.conftest import Cardsign, Ended, Network
from tests.statements.making import DAY, URL, key
from tests.support import PORTABLE, dump, signed

HOME = "https://tides.example"
SHORE = "https://shore.example"


@pytest.fixture
def tides(network: Network) -> bytes:
    """The peer at his home: card, first keyset statement, release."""
    first = peer.keyset()
    network[URL] = dump(signed(PORTABLE, key("card")))
    network[HOME + KEYSET_PATH.format(epoch=1, version=1)] = first
    network[HOME + RELEASE_PATH] = peer.release(first, PORTABLE)
    return first


def add(cardsign: Cardsign, *arguments: str | Path) -> Ended:
    """Enrol the peer."""
    ended = cardsign("trust", "add", *arguments, "--yes")
    assert ended.status == 0, ended.err
    return ended


def lines(ended: Ended) -> list[dict[str, Any]]:
    """JSON Lines, by URL."""
    return sorted(map(json.loads, ended.text.splitlines()), key=lambda one: str(one["input"]))


def test_add_by_url_takes_other_words(cardsign: Cardsign, network: Network, tides: bytes) -> None:
    """A name, more cards, and the roots instead of the statement."""
    add(cardsign, HOME, "--name", "tides", "--card", f"{HOME}/b.json", "--roots")
    (said,) = cardsign("trust", "list", "--json").json
    assert said["name"] == "tides"
    assert said["cards"] == [HOME + "/", f"{HOME}/b.json"]
    assert list(said["anchor"]) == ["roots"]
    assert "roots" in Path("trust.toml").read_text()


# ------------------------------------------------------------------ verify URL


def moved_on(network: Network, tides: bytes) -> None:
    """The issuer publishes the next keyset."""
    second = peer.keyset(2, tides, iat=peer.T0 + 1)
    network[HOME + KEYSET_PATH.format(epoch=1, version=2)] = second
    network[HOME + RELEASE_PATH] = peer.release(second, PORTABLE, seq=43)


def test_the_lock_is_raised_by_who_is_told_to(
    cardsign: Cardsign, network: Network, tides: bytes
) -> None:
    """To what was verified, and said so that it is committed."""
    add(cardsign, HOME)
    moved_on(network, tides)
    update = ("peers", "verify", "--update", "--trust", "trust.toml")
    ended = cardsign(*update)
    assert (ended.status, "commit it" in ended.err) == (0, True)
    locked = read_lock(Path("trust.lock"))["tides.example"].keyset
    assert locked is not None
    assert locked.version == 2
    again = cardsign(*update)
    assert (again.status, "commit it" in again.err) == (0, False)


def test_an_update_that_was_not_answered_is_no_update(
    cardsign: Cardsign, network: Network, tides: bytes
) -> None:
    """Exit 3, the issuer is named, and the lock stays."""
    add(cardsign, HOME)
    before = Path("trust.lock").read_bytes()
    network.update(dict.fromkeys(network, "fetch.timeout"))
    ended = cardsign("trust", "update", "--trust", "trust.toml", "--json")
    assert (ended.status, list(ended.json["problems"])) == (3, ["tides.example"])
    assert Path("trust.lock").read_bytes() == before


# ------------------------------------------------------------------ peers verify


@pytest.fixture
def four(cardsign: Cardsign, network: Network, tides: bytes) -> Network:
    """Four cards of two issuers: one trusted, one unlisted; of the other, one gone, one silent."""
    other = {**PORTABLE, "version": "6.6.6"}
    network[f"{HOME}/b.json"] = dump(signed(other, key("card")))
    network[f"{SHORE}/slow.json"] = "fetch.timeout"
    Path("jwks.json").write_bytes(JwkSet.of([key("card").public]).to_bytes())
    add(cardsign, HOME, "--name", "tides", "--card", f"{HOME}/b.json")
    cards = ("--card", f"{SHORE}/gone.json", "--card", f"{SHORE}/slow.json")
    add(cardsign, "shore", "--origin", SHORE, "--jwks", "jwks.json", *cards)
    return network


def test_O8_O9_one_failure_hides_no_other_verdict(cardsign: Cardsign, four: Network) -> None:
    """JSON Lines, one object for each card; name and skills are of a verified payload alone."""
    name, count = PORTABLE["name"], len(PORTABLE["skills"])
    ended = cardsign("peers", "verify", "--json")
    said = lines(ended)
    assert [
        (one["name"], one["input"], one["verdict"], one["card_name"], one["skills"]) for one in said
    ] == [
        ("shore", f"{SHORE}/gone.json", "indeterminate", None, None),
        ("shore", f"{SHORE}/slow.json", "indeterminate", None, None),
        ("tides", URL, "trusted", name, count),
        ("tides", f"{HOME}/b.json", "untrusted", None, None),
    ]
    assert ended.status == 1
    assert "4 cards of 2 issuers: 1 trusted, 1 not trusted, 2 without a verdict" in ended.err


def test_a_line_for_each_card(cardsign: Cardsign, four: Network) -> None:
    """Verdict, issuer, URL, and until when or why; quiet leaves the trusted one out."""
    said = {line.split()[2]: line for line in cardsign("peers", "verify").text.splitlines()}
    assert len(said) == 4
    assert said[URL].startswith("trusted ")
    assert f'"{PORTABLE["name"]}", {len(PORTABLE["skills"])} skill; until 20' in said[URL]
    assert "card.digest_unlisted: " in said[f"{HOME}/b.json"]
    assert "fetch.timeout: " in said[f"{SHORE}/slow.json"]
    quiet = cardsign("peers", "verify", "--quiet")
    assert (len(quiet.text.splitlines()), URL in quiet.text, quiet.err) == (3, False, "")
    assert cardsign("peers", "verify", "shore", "shore").status == 3


def test_a_good_day(cardsign: Cardsign, four: Network) -> None:
    """The twin: all trusted is 0."""
    for url in (f"{HOME}/b.json", f"{SHORE}/gone.json", f"{SHORE}/slow.json"):
        text = Path("trust.toml").read_text()
        Path("trust.toml").write_text(text.replace(f', "{url}"', "").replace(f'"{url}"', ""))
    ended = cardsign("peers", "verify")
    assert (ended.status, len(ended.text.splitlines())) == (0, 1)
    assert "trust.toml lists no card of shore" in ended.err


def test_O10_optional_peers_are_told_and_change_nothing(cardsign: Cardsign, four: Network) -> None:
    """Neither their refusals nor their silence."""
    text = Path("trust.toml").read_text()
    for name in ("tides", "shore"):
        text = text.replace(f'name = "{name}"', f'name = "{name}"\npeer = "optional"')
    Path("trust.toml").write_text(text)
    ended = cardsign("peers", "verify")
    assert ended.status == 0
    assert "untrusted      tides (optional)" in ended.text
    assert len(ended.text.splitlines()) == 4


def _forked(network: Network, first: bytes) -> None:
    """Somebody with the roots shows another statement of the number that is held."""
    network[HOME + KEYSET_PATH.format(epoch=1, version=1)] = peer.keyset(exp=peer.T0 + 91 * DAY)
    network[HOME + RELEASE_PATH] = b"{}"


def _vanished(network: Network, first: bytes) -> None:
    """The release that was seen is gone."""
    del network[HOME + RELEASE_PATH]


def _rolled_back(network: Network, first: bytes) -> None:
    """An older release is served, by a cache perhaps."""
    network[HOME + RELEASE_PATH] = peer.release(first, PORTABLE, seq=41)


FOUND = {
    "a fork": (_forked, "statement.fork", 1),
    "a vanished release": (_vanished, "statement.vanished", 1),
    "a rollback": (_rolled_back, "statement.rollback", 0),
}


@pytest.mark.parametrize(("change", "code", "status"), FOUND.values(), ids=FOUND)
def test_what_is_found_beside_a_trusted_card_is_told(
    cardsign: Cardsign,
    network: Network,
    tides: bytes,
    change: Callable[[Network, bytes], None],
    code: str,
    status: int,
) -> None:
    """What somebody has to look into is no good day, though the card is trusted."""
    add(cardsign, HOME, "--name", "tides")
    good = cardsign("peers", "verify")
    assert (good.status, "statement." in good.text, "alarm" in good.err) == (0, False, False)
    change(network, tides)
    ended = cardsign("peers", "verify")
    (line,) = ended.text.splitlines()
    assert line.startswith("trusted ")
    assert f"; {code}: " in line
    assert (ended.status, "1 with an alarm" in ended.err) == (status, status == 1)
    assert (code in cardsign("peers", "verify", "--quiet").text) is (status == 1)
    text = Path("trust.toml").read_text().replace('"tides"', '"tides"\npeer = "optional"', 1)
    Path("trust.toml").write_text(text)
    ended = cardsign("peers", "verify")
    assert (ended.status, code in ended.text) == (0, True)


def test_a_line_says_why_and_not_only_that_something_is_missing(
    cardsign: Cardsign, network: Network, tides: bytes
) -> None:
    """Where a release came and was refused, that is why there is none; trust add says it too."""
    network[HOME + RELEASE_PATH] = peer.release(tides, PORTABLE, issuer="https://other.example")
    added = add(cardsign, HOME, "--name", "tides")
    assert "statement.issuer: " in added.err
    ended = cardsign("peers", "verify")
    assert ended.status == 3
    assert "statement.issuer: " in ended.text
    del network[HOME + RELEASE_PATH]
    assert "trust.freshness_unknown: there is no release" in cardsign("peers", "verify").text


def test_what_lists_no_card_cannot_be_checked(cardsign: Cardsign, tides: bytes) -> None:
    """A check that looks at nothing must not pass."""
    Path("trust.toml").write_text("format = 1\n")
    assert "policy.no_cards" in cardsign("peers", "verify").err
    add(cardsign, "tides", "--origin", f"{HOME}/agents/", "--jwks-url", f"{HOME}/keys.json")
    ended = cardsign("peers", "verify")
    assert (ended.status, "policy.no_cards" in ended.err) == (2, True)
    assert "policy.unknown_issuer" in cardsign("peers", "verify", "nobody").err


def test_cards_are_asked_for_together(
    cardsign: Cardsign, four: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not one after the other."""
    barrier = threading.Barrier(3, timeout=120)
    together = threading.Event()

    def fetch(url: str, settings: FetchSettings, **conditions: object) -> FetchResult:
        if url.startswith(SHORE) or url.endswith("b.json"):
            try:
                barrier.wait()
                together.set()
            except threading.BrokenBarrierError:
                pass
        raise FetchFailed("fetch.timeout", f"{url} did not answer")

    monkeypatch.setattr("cardsign.net.fetch.fetch_document", fetch)
    cardsign("peers", "verify")
    assert together.is_set()


def test_a_bug_in_one_check_hides_no_other(
    cardsign: Cardsign, four: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is a line like any other, and exit status 2."""
    look_up = Verifier.look_up

    def crash(self: Verifier, url: str, *about: Any, **more: Any) -> Any:
        if url.endswith("b.json"):
            raise ZeroDivisionError
        return look_up(self, url, *about, **more)

    monkeypatch.setattr(Verifier, "look_up", crash)
    ended = cardsign("peers", "verify")
    assert (ended.status, len(ended.text.splitlines())) == (2, 4)
    assert "internal.bug" in ended.err


# ------------------------------------------------------------------ peers status


def test_O23_how_issuers_stand(cardsign: Cardsign, four: Network) -> None:
    """By lock and cache alone: which statements, and until when."""
    cardsign("peers", "verify")
    four.update(dict.fromkeys(four, "fetch.failed"))
    ended = cardsign("peers", "status", "--json")
    tides, shore = ended.json
    assert (tides["keyset"]["number"], tides["release"]["seq"]) == ("1.1", 42)
    assert tides["until"] == tides["release"]["exp"] == peer.T0 + 7 * DAY
    assert tides["last_signed"] == peer.T0
    assert (shore["keyset"], shore["until"], shore["alarms"]) == (None, None, [])
    assert (ended.status, tides["alarms"]) == (0, [])
    text = cardsign("peers", "status", "tides").text
    assert text.startswith("tides: by keyset\n  keyset      1.1, until ")
    assert f"{HOME}/\n" in text


def test_what_will_need_a_person(cardsign: Cardsign, network: Network) -> None:
    """A release past half of its time, a keyset that ends soon: exit 1, and what to do."""
    week = peer.T0 - 4 * DAY
    first = peer.keyset(iat=week, exp=peer.T0 + 9 * DAY)
    network[URL] = dump(signed(PORTABLE, key("card")))
    network[HOME + KEYSET_PATH.format(epoch=1, version=1)] = first
    network[HOME + RELEASE_PATH] = peer.release(first, PORTABLE, iat=week, exp=week + 7 * DAY)
    add(cardsign, HOME)
    cardsign("verify", HOME)
    ended = cardsign("peers", "status", "--json")
    codes = [alarm["code"] for alarm in ended.json[0]["alarms"]]
    assert (ended.status, codes) == (1, ["peer.statement_ends", "peer.statement_ends"])
    assert "peer.statement_ends: release 42" in cardsign("peers", "status").text
    text = Path("trust.toml").read_text()
    Path("trust.toml").write_text(text.replace("\ncards =", '\npeer = "optional"\ncards ='))
    assert cardsign("peers", "status").status == 0


# ------------------------------------------------------------------ the page


def test_the_page_s_python_runs(cardsign: Cardsign, network: Network, tides: bytes) -> None:
    """As it stands, but for the host: a trusted card is used, another raises."""
    add(cardsign, HOME)
    page = (Path(__file__).parents[2] / "docs/guides/verify-a-peer.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    said: list[Any] = []
    names = {"print": lambda first, *_: said.append(first)}
    exec(code.replace("geo.acme.example", "tides.example"), dict(names))
    assert said == [PORTABLE["name"]]
    network[URL] = dump(signed(PORTABLE, key("mallory")))
    with pytest.raises(NotTrusted):
        exec(code.replace("geo.acme.example", "tides.example"), dict(names))
