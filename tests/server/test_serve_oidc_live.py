"""`cardsign serve` with an issuer of tokens, as an operator runs it: processes and sockets."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from identity import Issuer, counterpart
from publications import PUBLIC, publish_cards
from test_operated import AUDIENCE, blocks

from cardsign.jose.keys import PrivateKey

PATIENCE = 60.0


@dataclass
class Running:
    """A server, its issuer, and where its access log goes."""

    url: str
    issuer: Issuer
    log: Path


@pytest.fixture
def running(tmp_path: Path, key: PrivateKey) -> Iterator[Running]:
    """With the settings of the guide, and a rate."""
    publish_cards(tmp_path / "pub", key, PUBLIC, AUDIENCE, now=datetime.now(UTC))
    with counterpart() as peer, contextlib.ExitStack() as held:
        issuer = Issuer(peer)
        (text,) = (one for one in blocks("toml") if "oidc" in one)
        assert len(text.splitlines()) <= 10
        local = f'issuer = "{issuer.url}"\ninsecure_loopback_http = true'
        text = text.replace('issuer = "https://login.example.com"', local)
        more = 'access_log = true\nrate = "30/day"\n'
        (tmp_path / "serve.toml").write_text(text.replace("[[", f"{more}[[", 1))
        log = held.enter_context((tmp_path / "log").open("w"))
        command = [sys.executable, "-m", "cardsign", "serve", "pub", "--settings", "serve.toml"]
        process = subprocess.Popen(
            [*command, "--bind", "127.0.0.1:0", "--json"],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        )
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line, (tmp_path / "log").read_text()
            yield Running(json.loads(line)["url"], issuer, tmp_path / "log")
        finally:
            process.terminate()
            process.communicate(timeout=PATIENCE)


def test_an_operator_gives_cards_to_an_issuers_callers(running: Running) -> None:
    """Valid, without scope, without token, too often; the public card; the log without secrets."""
    token = running.issuer.token(scope="card.read", exp=int(time.time()) + 3600)
    bearer = {"Authorization": f"Bearer {token}"}
    idle = {"Authorization": f"Bearer {running.issuer.token(scope='')}"}
    with httpx.Client(base_url=running.url, timeout=PATIENCE) as http:
        assert http.get("/a2a/extendedAgentCard", headers=bearer).status_code == 200
        assert http.get("/a2a/extendedAgentCard", headers=idle).status_code == 403
        assert http.get("/a2a/extendedAgentCard").status_code == 401
        assert http.get("/.well-known/agent-card.json").status_code == 200
        statuses = [http.get("/.well-known/agent-card.json").status_code for _ in range(27)]
        assert statuses == [200] * 26 + [429]
        assert http.get("/healthz").status_code == 200
    log = running.log.read_text()
    lines = [json.loads(line) for line in log.splitlines() if '"status"' in line]
    assert [one["status"] for one in lines[:4]] == [200, 403, 401, 200]
    assert {one["client"] for one in lines} == {"127.0.0.1"}
    assert token not in log
