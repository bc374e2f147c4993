"""The event that names each publication: rows F39, F40 and F41."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from publications import NOW, PUBLIC, PUBLIC_0_3, extended_card, publish_cards, sign
from served import hearing, look, serve, write_tokens
from werkzeug.test import Client

from cardsign.jose.jwks import JwkSet
from cardsign.jose.keys import PrivateKey
from cardsign.publish.publication import Documents, publish_generation
from cardsign.server.mount import mount_cards
from cardsign.server.settings import ServerSettings
from cardsign.server.tokens import create_token

CARD = "/.well-known/agent-card.json"
#: Seconds, for what happens at once on an idle machine; far more than any busy one takes.
PATIENCE = 120.0
MEMBERS = [
    "agent",
    "generation",
    "name",
    "version",
    "protocol_version",
    "url",
    "skill_count",
    "capabilities",
    "security_schemes",
    "card_size_bytes",
    "card_sha256",
    "signatures",
]


def _version(number: int) -> dict[str, Any]:
    return {**PUBLIC, "version": f"{number}.0.0"}


@contextmanager
def _serving(directory: Path, log: Path) -> Iterator[httpx.Client]:
    """`cardsign serve` as an operator starts it."""
    command = [sys.executable, "-m", "cardsign", "serve", str(directory), "--json"]
    with ExitStack() as held:
        process = held.enter_context(
            subprocess.Popen(
                [*command, "--bind", "127.0.0.1:0"],
                stdout=subprocess.PIPE,
                stderr=held.enter_context(log.open("w")),
                text=True,
                env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
            )
        )
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line, log.read_text()
            url = json.loads(line)["url"]
            yield held.enter_context(httpx.Client(base_url=url, trust_env=False, timeout=PATIENCE))
        finally:
            process.terminate()
            process.communicate(timeout=PATIENCE)


def _wait_for(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _events(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]


def test_F39_F40_a_server_takes_up_publications_whole_and_says_so(
    tmp_path: Path, key: PrivateKey
) -> None:
    """One event at the start and one for each reload; a broken one has none and changes nothing."""
    directory, log = tmp_path / "pub", tmp_path / "log"

    def publish(number: int) -> bytes:
        return publish_cards(directory, key, _version(number), now=datetime.now(UTC)).card

    first = publish(1)
    with _serving(directory, log) as http:
        seen = {http.get(CARD).content}

        def is_served(card: bytes) -> bool:
            seen.add(http.get(CARD).content)
            return card in seen

        second = publish(2)
        assert _wait_for(lambda: is_served(second))
        assert seen == {first, second}

        publish(3)
        (directory / "000003/agent-card.json").chmod(0o644)
        (directory / "000003/agent-card.json").write_bytes(b"{")
        assert _wait_for(lambda: is_served(second) and "still serving" in log.read_text())
        assert http.get(CARD).content == second
        assert seen == {first, second}

        fourth = publish(4)
        assert _wait_for(lambda: is_served(fourth))
        assert seen == {first, second, fourth}
        answer = http.get(CARD)
        assert _wait_for(lambda: len(_events(log)) == 3)
    events = _events(log)

    assert [one["event"] for one in events] == ["agent_card_published"] * 3
    events = [one["fields"] for one in events]
    assert [one["generation"] for one in events] == [1, 2, 4]
    assert [one["version"] for one in events] == ["1.0.0", "2.0.0", "4.0.0"]
    assert [one["card_sha256"] for one in events] == [
        hashlib.sha256(card).hexdigest() for card in (first, second, fourth)
    ]
    assert answer.headers["ETag"] == f'"{events[-1]["card_sha256"]}"'
    assert int(answer.headers["Content-Length"]) == events[-1]["card_size_bytes"]


class Watched:
    """A publication that is served, its events, and what else is said."""

    lines: list[str]
    log: list[str]

    def __init__(self, directory: Path, settings: ServerSettings | None = None) -> None:
        self.client = serve(directory, settings, now=NOW.timestamp)

    def ask(self, path: str = CARD) -> bytes:
        """What is answered once a newer publication was looked for."""
        look(self.client)
        body: bytes = self.client.get(path).data
        return body

    @property
    def last(self) -> dict[str, Any]:
        """The members of the last event."""
        event: dict[str, Any] = json.loads(self.lines[-1])
        return event["fields"]


@pytest.fixture(autouse=True)
def _lines(log: list[str]) -> Iterator[None]:
    with hearing("cardsign.events") as lines:
        Watched.lines, Watched.log = lines, log
        yield


def test_F40_the_event_names_the_card_its_digest_and_its_keys(tmp_path: Path) -> None:
    """Each member, of a card with two keys."""
    signers = [PrivateKey.generate("ES256"), PrivateKey.generate("EdDSA")]
    card = {**PUBLIC, "capabilities": {"streaming": True, "pushNotifications": False}}
    generation = publish_generation(
        Documents(sign(card, *signers), JwkSet.of([one.public for one in signers])),
        tmp_path / "pub",
        now=NOW,
    )
    watched = Watched(tmp_path / "pub")

    event = json.loads(watched.lines[-1])
    assert event.keys() == {"time", "event", "fields"}
    assert (event["time"], event["event"]) == (
        "2026-11-21T12:00:00.000+00:00",
        "agent_card_published",
    )
    assert list(watched.last) == MEMBERS
    assert watched.last == {
        "agent": None,
        "generation": 1,
        "name": "Tide tables",
        "version": "1.2.0",
        "protocol_version": "1.0",
        "url": "https://tides.example/a2a",
        "skill_count": 1,
        "capabilities": {
            "streaming": True,
            "push_notifications": False,
            "state_transition_history": False,
            "extended_agent_card": False,
        },
        "security_schemes": ["harbour"],
        "card_size_bytes": len(generation.card),
        "card_sha256": hashlib.sha256(watched.ask()).hexdigest(),
        "signatures": [
            {"kid": signers[0].public.kid, "alg": "ES256"},
            {"kid": signers[1].public.kid, "alg": "EdDSA"},
        ],
    }


def test_F40_a_card_of_0_3_is_named_likewise(tmp_path: Path, key: PrivateKey) -> None:
    """Its url, version and extended card stand elsewhere in it."""
    publish_cards(tmp_path / "pub", key, PUBLIC_0_3)
    event = Watched(tmp_path / "pub").last

    assert event["url"] == "https://tides.example/old"
    assert event["protocol_version"] == "0.3.0"
    assert event["capabilities"]["extended_agent_card"] is True
    assert event["signatures"] == [{"kid": key.public.kid, "alg": "ES256"}]


def test_F41_the_event_never_holds_the_card(tmp_path: Path, key: PrivateKey) -> None:
    """No skill, no description, no extension, no signature, nothing of an extended card."""
    extension = {"uri": "https://secret.example/ext", "params": {"a": "secret-params"}}
    skill = {"id": "secret-id", "name": "secret-skill", "description": "secret-text", "tags": ["t"]}
    card = {
        **PUBLIC,
        "description": "secret-description",
        "capabilities": {"extendedAgentCard": True, "extensions": [extension]},
        "skills": [skill],
    }
    generation = publish_generation(
        Documents(
            sign(card, key),
            JwkSet.of([key.public]),
            extended={"secret-audience": sign(extended_card(card, "secret-audience"), key)},
        ),
        tmp_path / "pub",
        now=NOW,
    )
    watched = Watched(tmp_path / "pub")

    assert generation.card.count(b"secret-") == 5
    assert b"secret-audience" in generation.extended["secret-audience"]
    assert "secret" not in watched.lines[0]
    assert json.loads(generation.card)["signatures"][0]["signature"] not in watched.lines[0]
    assert list(watched.last) == MEMBERS
    assert (watched.last["skill_count"], len(watched.lines)) == (1, 1)


def test_F41_a_card_cannot_fill_or_forge_the_log(tmp_path: Path, key: PrivateKey) -> None:
    """Texts and lists are cut off, and a line end in a name is escaped."""
    schemes = {
        f"{number}{'s' * 999}": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}
        for number in range(100)
    }
    name = 'Tides\n{"event":"forged"}\u2028\u001b[31m' + "x" * 9999
    publish_cards(
        tmp_path / "pub",
        key,
        {**PUBLIC, "name": name, "securitySchemes": schemes, "securityRequirements": []},
    )
    watched = Watched(tmp_path / "pub")

    assert watched.lines[0].isascii()
    assert watched.lines[0].isprintable()
    assert watched.last["name"] == name[:256]
    assert [len(one) for one in watched.last["security_schemes"]] == [256] * 32


def test_F39_a_publication_that_cannot_be_served_is_no_event(
    tmp_path: Path, key: PrivateKey
) -> None:
    """It is sound on disk, and demands a scheme that the server does not take."""
    settings = ServerSettings(token_file=write_tokens(tmp_path, create_token("staff")[1]))
    good = publish_cards(tmp_path / "pub", key, PUBLIC, "staff")
    watched = Watched(tmp_path / "pub", settings)
    schemes: dict[str, Any] = {"harbour": {"mtlsSecurityScheme": {}}}
    publish_cards(tmp_path / "pub", key, {**PUBLIC, "securitySchemes": schemes}, "staff")

    assert watched.ask() == good.card
    assert watched.last["generation"] == len(watched.lines) == 1
    assert "serve.schemes" in watched.log[0]


def test_F39_F40_each_of_several_agents_has_its_events(tmp_path: Path, key: PrivateKey) -> None:
    """At the start, when it is new, and when it changes."""
    publish_cards(tmp_path / "tides", key, {**PUBLIC, "name": "Tides"})
    watched = Watched(tmp_path)
    publish_cards(tmp_path / "waves", key, {**PUBLIC, "name": "Waves"})
    watched.ask("/agents/waves" + CARD)
    publish_cards(tmp_path / "tides", key, {**PUBLIC, "name": "Tides", "version": "2.0.0"})
    watched.ask("/agents/tides" + CARD)

    events = [json.loads(line) for line in watched.lines]
    named = [one["fields"] for one in events]
    assert [(one["agent"], one["name"], one["generation"]) for one in named] == [
        ("tides", "Tides", 1),
        ("waves", "Waves", 1),
        ("tides", "Tides", 2),
    ]


def test_F40_a_mounted_publication_has_its_event(tmp_path: Path, key: PrivateKey) -> None:
    """The agent's own process says it."""
    publish_cards(tmp_path / "pub", key)

    def agent(environ: Any, start_response: Any) -> list[bytes]:
        raise AssertionError(environ["PATH_INFO"])

    body = Client(mount_cards(agent, tmp_path / "pub")).get(CARD).data
    assert json.loads(Watched.lines[0])["fields"]["card_sha256"] == hashlib.sha256(body).hexdigest()
