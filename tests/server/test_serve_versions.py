"""One agent for clients of A2A 1.0 and of 0.3: which signed document each is given."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
from werkzeug.test import Client

from cardsign.errors import PublishRefused
from cardsign.jose.keys import JwkSet, PrivateKey
from cardsign.publish.generation import Generation
from cardsign.publish.publication import Documents, publish_generation
from cardsign.server.settings import ServerSettings
from cardsign.server.tokens import create_token
from tests.publish.publications import NOW, PUBLIC, PUBLIC_0_3, extended_card, sign
from tests.server.served import serve, write_tokens

CARD = "/.well-known/agent-card.json"
LEGACY = "/.well-known/agent.json"


def publish(
    directory: Path, key: PrivateKey, older: dict[str, Any] | None = PUBLIC_0_3
) -> Generation:
    """Both documents of an agent, and an extended card."""
    return publish_generation(
        Documents(
            sign(PUBLIC, key),
            JwkSet.of([key.public]),
            extended={"staff": sign(extended_card(PUBLIC, "staff"), key)},
            legacy_card=None if older is None else sign(older, key),
        ),
        directory,
        now=NOW,
    )


def served(directory: Path, **settings: Any) -> Client:
    """A client of the server."""
    return serve(directory, ServerSettings(**settings), now=NOW.timestamp)


@pytest.mark.parametrize(
    ("version", "is_older"),
    [(None, False), ("", False), ("1.0", False), ("99.0", False), ("0.3", True), ("0.3.0", True)],
)
def test_F2_clients_get_the_document_of_their_version(
    tmp_path: Path, key: PrivateKey, version: str | None, is_older: bool
) -> None:
    """By `A2A-Version`; caches are told that it decides, and each document has its tag."""
    generation = publish(tmp_path / "pub", key)
    client = served(tmp_path / "pub")
    body = generation.legacy_card if is_older else generation.card
    assert body is not None
    headers = {} if version is None else {"A2A-Version": version}
    answer = client.get(CARD, headers=headers)
    assert (answer.status_code, answer.data) == (200, body)
    assert answer.headers["Vary"] == "A2A-Version"
    assert answer.headers["ETag"] == f'"{hashlib.sha256(body).hexdigest()}"'
    assert "Deprecation" not in answer.headers
    held = client.get(CARD, headers={**headers, "If-None-Match": answer.headers["ETag"]})
    assert (held.status_code, held.headers["Vary"]) == (304, "A2A-Version")
    other = generation.card if is_older else generation.legacy_card
    tag = f'"{hashlib.sha256(other or b"").hexdigest()}"'
    assert client.get(CARD, headers={**headers, "If-None-Match": tag}).status_code == 200


@pytest.mark.parametrize("version", [None, "1.0", "0.3"])
def test_F2_the_legacy_path_has_the_document_of_0_3(
    tmp_path: Path, key: PrivateKey, version: str | None
) -> None:
    """Whatever is asked for, with the headers of a path that is to end."""
    generation = publish(tmp_path / "pub", key)
    headers = {} if version is None else {"A2A-Version": version}
    answer = served(tmp_path / "pub").get(LEGACY, headers=headers)
    assert answer.data == generation.legacy_card
    assert answer.headers["Deprecation"] == "true"
    assert answer.headers["Link"] == '<agent-card.json>; rel="successor-version"'
    assert "Vary" not in answer.headers
    assert served(tmp_path / "pub", legacy=False).get(LEGACY).status_code == 404


def test_F2_without_such_a_document_the_paths_have_the_same(
    tmp_path: Path, key: PrivateKey
) -> None:
    """And nothing depends on the version."""
    generation = publish(tmp_path / "pub", key, None)
    client = served(tmp_path / "pub")
    for path in (CARD, LEGACY):
        answer = client.get(path, headers={"A2A-Version": "0.3"})
        assert answer.data == generation.card
        assert "Vary" not in answer.headers


def test_F2_older_clients_find_the_extended_card_by_their_document(
    tmp_path: Path, key: PrivateKey
) -> None:
    """At the paths of A2A 0.3 and 0.2, the kit's `{url}/v1/card` among them."""
    generation = publish(tmp_path / "pub", key)
    token, line = create_token("staff")
    client = served(tmp_path / "pub", token_file=write_tokens(tmp_path, line))
    bearer = {"Authorization": f"Bearer {token}"}
    for path in ("/old/v1/card", "/old/rest/v1/card", "/agent/authenticatedExtendedCard"):
        assert client.get(path).status_code == 401
        assert client.get(path, headers=bearer).data == generation.extended["staff"]
    for path in ("/a2a/v1/card", "/a2a/agent/authenticatedExtendedCard"):  # of A2A 1.0
        assert client.get(path, headers=bearer).status_code == 404
    call = {"jsonrpc": "2.0", "id": 1, "method": "agent/getAuthenticatedExtendedCard"}
    for path in ("/old", "/old/"):
        assert client.post(path, json=call, headers=bearer).status_code == 200


@pytest.mark.parametrize(
    ("older", "words"),
    [
        ({**PUBLIC_0_3, "version": "1.1.0"}, "its version is not"),
        ({**PUBLIC_0_3, "name": "Waves"}, "its name is not"),
        (PUBLIC, "its form is that of A2A 1.0"),
    ],
    ids=["another version", "another name", "no older form"],
)
def test_F2_a_document_that_does_not_fit_is_not_published(
    tmp_path: Path, key: PrivateKey, older: dict[str, Any], words: str
) -> None:
    """Nothing changes."""
    with pytest.raises(PublishRefused, match=words) as caught:
        publish(tmp_path / "pub", key, older)
    assert caught.value.code == "publish.legacy"


def test_F2_a_document_of_another_key_is_not_published(tmp_path: Path, key: PrivateKey) -> None:
    """It would not verify with the published keys."""
    with pytest.raises(PublishRefused) as caught:
        publish_generation(
            Documents(
                sign(PUBLIC, key),
                JwkSet.of([key.public]),
                legacy_card=sign(PUBLIC_0_3, PrivateKey.generate("ES256")),
            ),
            tmp_path / "pub",
            now=NOW,
        )
    assert caught.value.code == "publish.not_verifying"
