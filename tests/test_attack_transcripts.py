"""The transcripts of the attack corpus, played to our own verifier, whole and with a hole in it."""

from __future__ import annotations

import socket
import ssl
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cardsign.net.connection import IPAddress
from cardsign.net.fetch import FetchSettings
from tests.attack_runner.corpus import Case, load_attacks
from tests.attack_runner.outcome import deviations
from tests.attack_runner.verifier import play
from tests.attack_runner.world import Certificates

pytestmark = pytest.mark.usefixtures("no_network")
CASES = {case.id: case for attack in load_attacks() for case in attack.transcripts}


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """What the servers of transcripts show."""
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.mark.parametrize("case", CASES.values(), ids=[f"attack-{name}" for name in CASES])
def test_we_agree_with_the_transcript(
    case: Case, certificates: Certificates, tmp_path: Path
) -> None:
    """Verdict and reason at every step, and nobody is asked who must not be."""
    outcomes = list(play(case, certificates, tmp_path))
    assert deviations(case, lambda _: outcomes) == []


# ------------------------------------------------------------------ with one safeguard less

YEAR = 365 * 24 * 3600


class Careless(ssl.SSLContext):
    """Says that it checks names, and lets every certificate pass."""

    def wrap_socket(self, *args: Any, **more: Any) -> ssl.SSLSocket:
        """As a context that checks nothing."""
        unchecked = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        unchecked.check_hostname, unchecked.verify_mode = False, ssl.CERT_NONE
        return unchecked.wrap_socket(*args, **more)


def careless(settings: FetchSettings) -> FetchSettings:
    """Any certificate will do."""
    return replace(settings, ssl_context=Careless(ssl.PROTOCOL_TLS_CLIENT))


def asks_twice(settings: FetchSettings) -> FetchSettings:
    """The name is checked, and then connected to."""

    def dial(address: IPAddress, port: int, timeout: float) -> socket.socket:
        [again, *_] = settings.resolver("tides.example")
        return settings.dial(again, port, timeout)

    return replace(settings, dial=dial)


def unlimited(settings: FetchSettings) -> FetchSettings:
    """Any number of bytes."""
    return replace(settings, max_bytes=10**9)


#: What is left out, and the first case that sees it.
HOLES: dict[str, tuple[str, dict[str, Any]]] = {
    "certificates": ("038-certificates/self-signed", {"rewire": careless}),
    "names of certificates": ("038-certificates/other-name", {"rewire": careless}),
    "one look-up": ("031-rebinding/once", {"rewire": asks_twice}),
    "the ceiling on bytes": ("036-endless/too-large", {"rewire": unlimited}),
    "the cooldown": ("039-storm/storm-of-agents", {"COOLDOWN": 0}),
    "the ceiling on seconds": ("113-withheld/header-year", {"REFRESH_INTERVAL": YEAR}),
}


@pytest.mark.parametrize(("name", "hole"), HOLES.values(), ids=HOLES)
def test_a_missing_safeguard_is_seen(
    name: str,
    hole: dict[str, Any],
    certificates: Certificates,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The transcript that is about it fails."""
    rewire = hole.get("rewire", lambda settings: settings)
    for constant in hole.keys() - {"rewire"}:
        monkeypatch.setattr(f"cardsign.net.fetch.{constant}", hole[constant])
    outcomes = list(play(CASES[name], certificates, tmp_path, rewire=rewire))
    assert deviations(CASES[name], lambda _: outcomes) != []


@pytest.mark.parametrize("name", [name for name in CASES if "/resolved-" in name])
def test_an_address_that_is_not_checked_is_reached(
    name: str, certificates: Certificates, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Behind every address inside stands a server that shows the honest card."""
    monkeypatch.setattr("cardsign.net.connection.check_address", lambda *_, **__: None)
    [outcome] = play(CASES[name], certificates, tmp_path)
    assert outcome.verdict == "trusted"
    assert deviations(CASES[name], lambda _: [outcome]) != []
