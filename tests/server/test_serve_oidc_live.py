"""`cardsign serve` with an issuer of tokens, as an operator runs it: processes and sockets."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path

import httpx
from identity import Issuer, counterpart
from programs import PATIENCE, blocks, running
from publications import PUBLIC, publish_cards

from cardsign.jose.keys import PrivateKey

AUDIENCE = "9f2c61d07be84a15"
CARD = "/.well-known/agent-card.json"
EXTENDED = "/a2a/extendedAgentCard"


def test_an_operator_gives_cards_to_an_issuers_callers(tmp_path: Path, key: PrivateKey) -> None:
    """By the guide's settings and a rate: valid, without scope, without token, too often."""
    publish_cards(tmp_path / "pub", key, PUBLIC, AUDIENCE, now=datetime.now(UTC))
    (text,) = (block for block in blocks("toml") if "oidc" in block)
    assert len(text.splitlines()) <= 10
    with counterpart() as peer:
        issuer = Issuer(peer)
        local = f'issuer = "{issuer.url}"\ninsecure_loopback_http = true'
        text = text.replace('issuer = "https://login.example.com"', local)
        text = text.replace("[[", 'access_log = true\nrate = "30/day"\n[[', 1)
        token = issuer.token(scope="card.read", exp=int(time.time()) + 3600)
        bearer = {"Authorization": f"Bearer {token}"}
        idle = {"Authorization": f"Bearer {issuer.token(scope='')}"}
        with (
            running(tmp_path, text.replace("format = 1", "")) as server,
            httpx.Client(base_url=server.url, timeout=PATIENCE) as http,
        ):
            assert http.get(EXTENDED, headers=bearer).status_code == 200
            assert http.get(EXTENDED, headers=idle).status_code == 403
            assert http.get(EXTENDED).status_code == 401
            statuses = [http.get(CARD).status_code for _ in range(28)]
            assert statuses == [200] * 27 + [429]
            assert http.get("/healthz").status_code == 200
    lines = [json.loads(line) for line in server.log if '"status"' in line]
    assert [line["status"] for line in lines[:4]] == [200, 403, 401, 200]
    assert {line["client"] for line in lines} == {"127.0.0.1"}
    assert token not in server.log_path.read_text()
