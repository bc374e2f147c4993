"""`cardsign serve` with an issuer of tokens, as an operator runs it: processes and sockets."""

from __future__ import annotations

import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from cardsign.jose.keys import PrivateKey
from cardsign.server.app import BODY_WAS_READ
from cardsign.server.mount import needs_thread
from cardsign.server.settings import ProviderSettings, ServerSettings
from tests.publish.publications import PUBLIC, publish_cards
from tests.server.identity import Issuer, counterpart
from tests.server.programs import PATIENCE, blocks, running

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


def test_an_issuer_that_gives_no_answer_keeps_nobody_else_waiting(
    tmp_path: Path, key: PrivateKey
) -> None:
    """Who asks for the public card or for health needs none of the threads that wait for it."""
    publish_cards(tmp_path / "pub", key, PUBLIC, AUDIENCE, now=datetime.now(UTC))
    with socket.create_server(("127.0.0.1", 0)) as silent, ThreadPoolExecutor() as pool:
        silent.settimeout(PATIENCE)
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/introspect"
        settings = (
            f'[[provider]]\ntype = "http_verifier"\nurl = "{url}"\nopens = "{AUDIENCE}"\n'
            "insecure_loopback_http = true\n"
        )
        with running(tmp_path, settings) as server:
            waiting = pool.submit(server.get, EXTENDED, Authorization="Bearer opaque")
            with silent.accept()[0]:
                for path in (CARD, "/healthz"):
                    assert server.get(path).status_code == 200
                assert not waiting.done()
                assert waiting.result().status_code == 503


ASKING = ServerSettings(
    providers=(ProviderSettings(type="http_verifier", url="https://login.example", opens="a"),)
)
#: Not validated, which would ask for the library of Redis.
SHARED = ServerSettings(rate="9/day").model_copy(update={"rate_storage": "redis://redis.example"})


@pytest.mark.parametrize(
    ("method", "path", "was_read", "settings", "is_needed"),
    [
        ("GET", CARD, True, ASKING, False),
        ("GET", EXTENDED, True, ServerSettings(token_file=Path("tokens")), False),
        ("GET", EXTENDED, True, ASKING, True),
        ("HEAD", "/a2a/v1/card", True, ASKING, True),
        ("GET", "/agent/authenticatedExtendedCard", True, ASKING, True),
        ("POST", "/a2a", True, ASKING, True),
        ("POST", "/a2a", False, ServerSettings(), True),
        ("GET", CARD, False, ServerSettings(), True),
        ("GET", CARD, True, SHARED, True),
        ("GET", "/a2a/agents", True, ServerSettings(), True),
    ],
)
def test_what_may_wait_or_is_much_work_takes_a_thread(
    method: str, path: str, settings: ServerSettings, *, was_read: bool, is_needed: bool
) -> None:
    """All else is answered at once."""
    environ = {"REQUEST_METHOD": method, "SCRIPT_NAME": "", "PATH_INFO": path}
    assert needs_thread({**environ, BODY_WAS_READ: was_read}, settings) is is_needed
