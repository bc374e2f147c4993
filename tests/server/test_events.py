"""The event that names each publication: rows F39, F40 and F41."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cardsign.jose.keys import JwkSet, PrivateKey
from cardsign.publish.publication import Documents, publish_generation
from cardsign.server.settings import ServerSettings
from cardsign.server.site import Publications
from tests.publish.publications import NOW, PUBLIC, PUBLIC_0_3, publish_cards, sign
from tests.server.programs import running, wait_until
from tests.server.served import hearing

CARD = "/.well-known/agent-card.json"
MEMBERS = [
    *("agent", "generation", "name", "version", "protocol_version", "url", "skill_count"),
    *("capabilities", "security_schemes", "card_size_bytes", "card_sha256", "signatures"),
]


def test_F39_F40_a_server_takes_up_publications_whole_and_says_so(
    tmp_path: Path, key: PrivateKey
) -> None:
    """One event at the start and one for each reload; a broken one has none and changes nothing."""

    def publish(number: int) -> bytes:
        card = {**PUBLIC, "version": f"{number}.0.0"}
        return publish_cards(tmp_path / "pub", key, card, now=datetime.now(UTC)).card

    cards = [publish(1)]
    with running(tmp_path) as server:
        seen = {server.get().content}

        def is_served(card: bytes) -> bool:
            seen.add(server.get().content)
            return card in seen

        cards.append(publish(2))
        wait_until(lambda: is_served(cards[-1]))
        publish(3)
        (tmp_path / "pub/000003/agent-card.json").write_bytes(b"{")
        wait_until(lambda: any("still serving" in line for line in server.log))
        assert server.get().content == cards[-1]
        cards.append(publish(4))
        wait_until(lambda: is_served(cards[-1]))
        assert seen == set(cards)
        answer = server.get()
        wait_until(lambda: sum(line.startswith("{") for line in server.log) == 3)
    events = [json.loads(line) for line in server.log if line.startswith("{")]
    assert {event["event"] for event in events} == {"agent_card_published"}
    named = [event["fields"] for event in events]
    assert [fields["generation"] for fields in named] == [1, 2, 4]
    assert [fields["card_sha256"] for fields in named] == [
        hashlib.sha256(card).hexdigest() for card in cards
    ]
    assert answer.headers["ETag"] == f'"{named[-1]["card_sha256"]}"'
    assert int(answer.headers["Content-Length"]) == named[-1]["card_size_bytes"]


def event_of(directory: Path) -> tuple[str, dict[str, Any]]:
    """The line of the only event at the start, and its members."""
    with hearing("cardsign.events") as lines:
        Publications(directory, ServerSettings(), now=NOW.timestamp)
    (line,) = lines
    return line, json.loads(line)["fields"]


def test_F40_the_event_names_the_card_its_digest_and_its_keys(tmp_path: Path) -> None:
    """Each member, of a card with two keys."""
    signers = [PrivateKey.generate("ES256"), PrivateKey.generate("EdDSA")]
    card = {**PUBLIC, "capabilities": {"streaming": True, "pushNotifications": False}}
    documents = Documents(sign(card, *signers), JwkSet.of([key.public for key in signers]))
    generation = publish_generation(documents, tmp_path / "pub", now=NOW)
    line, fields = event_of(tmp_path / "pub")

    event = json.loads(line)
    assert list(event) == ["time", "event", "fields"]
    assert event["time"] == "2026-11-21T12:00:00.000+00:00"
    assert event["event"] == "agent_card_published"
    assert list(fields) == MEMBERS
    assert fields == {
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
        "card_sha256": hashlib.sha256(generation.card).hexdigest(),
        "signatures": [
            {"kid": signers[0].public.kid, "alg": "ES256"},
            {"kid": signers[1].public.kid, "alg": "EdDSA"},
        ],
    }


def test_F40_a_card_of_0_3_is_named_likewise(tmp_path: Path, key: PrivateKey) -> None:
    """Its url, version and extended card stand elsewhere in it."""
    publish_cards(tmp_path / "pub", key, PUBLIC_0_3)
    _, event = event_of(tmp_path / "pub")

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
    generation = publish_cards(tmp_path / "pub", key, card, "secret-audience")
    line, fields = event_of(tmp_path / "pub")

    assert generation.card.count(b"secret-") == 5
    assert b"secret-audience" in generation.extended["secret-audience"]
    assert "secret" not in line
    assert json.loads(generation.card)["signatures"][0]["signature"] not in line
    assert (list(fields), fields["skill_count"]) == (MEMBERS, 1)


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
    line, fields = event_of(tmp_path / "pub")

    assert line.isascii()
    assert line.isprintable()
    assert fields["name"] == name[:256]
    assert [len(scheme) for scheme in fields["security_schemes"]] == [256] * 32


def test_F39_F40_each_of_several_agents_has_its_events(tmp_path: Path, key: PrivateKey) -> None:
    """At the start, when it is new, and when it changes."""
    with hearing("cardsign.events") as lines:
        publish_cards(tmp_path / "tides", key, {**PUBLIC, "name": "Tides"})
        publications = Publications(tmp_path, ServerSettings(), now=NOW.timestamp)
        publish_cards(tmp_path / "waves", key, {**PUBLIC, "name": "Waves"})
        publications.look_at_all()
        publish_cards(tmp_path / "tides", key, {**PUBLIC, "name": "Tides", "version": "2.0.0"})
        publications.look_at_all()
    named = [json.loads(line)["fields"] for line in lines]
    assert [(fields["agent"], fields["name"], fields["generation"]) for fields in named] == [
        ("tides", "Tides", 1),
        ("waves", "Waves", 1),
        ("tides", "Tides", 2),
    ]
