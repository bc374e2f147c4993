"""The event that names each publication: row F41, and a running server.

`exchanges/following.txt` has what it says (F40).
"""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cardsign.jose.keys import PrivateKey
from cardsign.server.settings import ServerSettings
from cardsign.server.site import Publications
from tests.publish.publications import NOW, PUBLIC, publish_cards
from tests.server.programs import running, wait_until
from tests.server.served import hearing

MEMBERS = [
    *("agent", "generation", "name", "version", "protocol_version", "url", "skill_count"),
    *("capabilities", "security_schemes", "card_size_bytes", "card_sha256", "signatures"),
]


def test_F39_F40_a_server_takes_up_publications_whole_and_says_so(
    tmp_path: Path, key: PrivateKey
) -> None:
    """One event at the start and one for each reload; a broken one has none and changes nothing."""
    current, cards = tmp_path / "pub/current", list[bytes]()

    def publish() -> None:
        card = {**PUBLIC, "version": f"{len(cards)}.0.0"}
        cards.append(publish_cards(tmp_path / "pub", key, card, now=datetime.now(UTC)).card)

    publish()
    with running(tmp_path) as server:
        seen = {server.get().content}

        def is_served(card: bytes) -> bool:
            seen.add(server.get().content)
            return card in seen

        publish()
        wait_until(lambda: is_served(cards[-1]))
        whole = current.read_bytes()
        current.write_bytes(b"{")
        wait_until(lambda: any("still serving" in line for line in server.log))
        assert server.get().content == cards[-1]
        current.write_bytes(whole)
        publish()
        wait_until(lambda: is_served(cards[-1]))
        assert seen == set(cards)
        etag = server.get().headers["ETag"]
        wait_until(lambda: sum(line.startswith("{") for line in server.log) == 3)
    events = [json.loads(line) for line in server.log if line.startswith("{")]
    assert {event["event"] for event in events} == {"agent_card_published"}
    named = [event["fields"] for event in events]
    assert [fields["generation"] for fields in named] == [1, 2, 3]
    digests = [hashlib.sha256(card).hexdigest() for card in cards]
    assert [fields["card_sha256"] for fields in named] == digests
    assert etag == f'"{digests[-1]}"'


def event_of(directory: Path) -> tuple[str, dict[str, Any]]:
    """The line of the only event at the start, and its members."""
    with hearing("cardsign.events") as lines:
        Publications(directory, ServerSettings(), now=NOW.timestamp)
    (line,) = lines
    event = json.loads(line)
    assert list(event) == ["time", "event", "fields"]
    assert event["time"] == "2026-11-21T12:00:00.000+00:00"
    return line, event["fields"]


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
