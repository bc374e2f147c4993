"""The page for people in a real browser: nothing is run, nothing asked, anyone can read it."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

import pytest

from cardsign.inspect import POLICY, card_page
from cardsign.testing import FakeIssuer
from tests.support import NOW
from tests.tools import BROWSER

pytestmark = pytest.mark.needs_chromium
HEADINGS = ["What a verifier says", "The agent", "Signatures", "Keys", "Trust this issuer"]


class Quiet(WSGIRequestHandler):
    """Says nothing of requests."""

    def log_message(self, *args: Any) -> None:
        """Nothing."""


@contextmanager
def shown(page: str) -> Iterator[str]:
    """The page on a loopback port, with the policy that the server sends; its URL."""

    def answer(environ: Any, start: Any) -> list[bytes]:
        kind = ("Content-Type", "text/html; charset=utf-8")
        start("200 OK", [kind, ("Content-Security-Policy", POLICY)])
        return [page.encode()]

    with make_server("127.0.0.1", 0, answer, handler_class=Quiet) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


def looked_at(page: str, root: Path) -> list[dict[str, Any]]:
    """What Chromium and axe-core find, for each theme and size."""
    axe = BROWSER / "node_modules/axe-core/axe.min.js"
    with shown(page) as url:
        done = subprocess.run(
            [BROWSER / "bin/python", root / "tests/browser/look.py", url, axe],
            capture_output=True,
            text=True,
            check=True,
            timeout=300,
        )
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


@pytest.mark.parametrize("hostile", [False, True], ids=["an honest card", "a hostile one"])
def test_nothing_is_wrong_in_chromium(hostile: bool, root: Path) -> None:
    """Both themes, desktop and phone: no message, no request, no violation, no sideways scroll."""
    issuer = FakeIssuer(NOW)
    name = "<script>alert(1)</script><img src=/x onerror=alert(2)>" * (20 if hostile else 0)
    members = issuer.card_members(**({"name": name, "description": name} if hostile else {}))
    card = issuer.signed_card(members)
    keyset = issuer.keyset()
    release = issuer.release(keyset, **issuer.listing(json.loads(card), seq=4))
    page, _ = card_page(card, keyset=keyset, release=release, now=NOW)
    rows = looked_at(page, root)
    assert [(one["theme"], one["size"]) for one in rows] == [
        ("light", "desktop"),
        ("light", "phone"),
        ("dark", "desktop"),
        ("dark", "phone"),
    ]
    for one in rows:
        assert (one["status"], one["console"], one["violations"]) == (200, [], [])
        assert one["too_wide"] == 0
        assert set(HEADINGS) <= set(one["headings"])
        assert one["passed"] > 10
        assert [url for url in one["asked"] if not url.endswith("/favicon.ico")] == []
    assert len({one["background"] for one in rows}) == 2  # the themes differ


def test_the_test_would_see_it(root: Path) -> None:
    """The twin: a page with a script, a picture of others and a text without contrast."""
    page = (
        "<!doctype html><html><head><title>x</title></head><body><main><h1>x</h1>"
        '<img src="/x"><p style="color:#ccc;background:#fff">x</p><script>alert(1)</script>'
        '<div style="width:3000px">x</div></main></body></html>'
    )
    for one in looked_at(page, root):
        assert one["violations"]
        assert one["console"]
