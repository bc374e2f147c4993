"""The page for people in a real browser: nothing is run, nothing asked, anyone can read it."""

from __future__ import annotations

import json
import subprocess
import threading
from pathlib import Path
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

import pytest

from cardsign.page import POLICY, card_page
from cardsign.testing import FakeIssuer
from tests.support import NOW
from tests.tools import BROWSER

pytestmark = pytest.mark.needs_chromium
HEADINGS = {"What a verifier says", "The agent", "Signatures", "Keys", "Trust this issuer"}
#: The twin: a page with a script, a picture of others, a text without contrast, and too wide.
WRONG = (
    "<!doctype html><html><head><title>x</title></head><body><main><h1>x</h1>"
    '<img src="/x"><p style="color:#ccc;background:#fff">x</p><script>alert(1)</script>'
    '<div style="width:3000px">x</div></main></body></html>'
)


class Quiet(WSGIRequestHandler):
    """Says nothing of requests."""

    def log_message(self, *args: Any) -> None:
        """Nothing."""


def show(folder: Path, *pages: str) -> list[list[dict[str, Any]]]:
    """What Chromium and axe-core find of each page, for each theme and size."""

    def answer(environ: Any, start: Any) -> list[bytes]:
        kind = ("Content-Type", "text/html; charset=utf-8")
        start("200 OK", [kind, ("Content-Security-Policy", POLICY)])
        number = environ["PATH_INFO"].strip("/")
        return [pages[int(number)].encode() if number.isdigit() else b""]

    axe = BROWSER / "node_modules/axe-core/axe.min.js"
    with make_server("127.0.0.1", 0, answer, handler_class=Quiet) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        urls = [f"http://127.0.0.1:{server.server_port}/{page}" for page in range(len(pages))]
        look = [BROWSER / "bin/python", Path(__file__).with_name("look.py"), axe, folder, *urls]
        try:
            done = subprocess.run(look, capture_output=True, text=True, check=True, timeout=300)
        finally:
            server.shutdown()
            thread.join()
    found: list[list[dict[str, Any]]] = json.loads(done.stdout)
    return found


def make_page(**members: str) -> str:
    """The page of a card with these members."""
    issuer = FakeIssuer(NOW)
    card, keyset = issuer.signed_card(issuer.card_members(**members)), issuer.keyset()
    release = issuer.release(keyset, **issuer.listing(json.loads(card), seq=4))
    return card_page(card, keyset=keyset, release=release, now=NOW)[0]


def test_nothing_is_wrong_in_chromium(tmp_path: Path) -> None:
    """Both themes, desktop and phone: no message, no request, no violation, no sideways scroll."""
    name = "<script>alert(1)</script><img src=/x onerror=alert(2)>" * 20
    *pages, wrong = show(tmp_path, make_page(), make_page(name=name, description=name), WRONG)
    for page in pages:
        for shown in page:
            assert (shown["status"], shown["messages"], shown["violations"]) == (200, [], [])
            assert (shown["too_wide"], shown["requests"]) == (0, [])
            assert set(shown["headings"]) >= HEADINGS
            assert shown["passed"] > 10
        assert len({shown["background"] for shown in page}) == 2  # the themes differ
    for shown in wrong:
        assert shown["violations"]
        assert shown["messages"]
