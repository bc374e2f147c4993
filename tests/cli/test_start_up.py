"""Verifying a card by keys loads no server, HTTP client, key store, validator or settings file."""

from __future__ import annotations

import subprocess
import sys

import pytest

#: Libraries and rooms that a verdict by keys can do without.
UNNEEDED = {
    *("flask", "werkzeug", "granian", "httpx", "httpcore", "pydantic"),
    *("tomllib", "multiprocessing", "tempfile"),
    *("cardsign.keys", "cardsign.net", "cardsign.issuer", "cardsign.inspect", "cardsign.lint"),
}


@pytest.mark.usefixtures("signed")
def test_verifying_loads_what_it_needs() -> None:
    """And nothing else, so that it begins at once."""
    program = (
        "import sys; from cardsign.cli.main import run_words\n"
        "status = run_words(sys.argv[1:]); print(status, *sys.modules)"
    )
    words = ["verify", "signed.json", "--jwks", "jwks.json"]
    done = subprocess.run(
        [sys.executable, "-c", program, *words], check=True, capture_output=True, text=True
    )
    status, *loaded = done.stdout.splitlines()[-1].split()
    assert status == "0"
    assert "cardsign.verify.verdict" in loaded
    assert UNNEEDED.intersection(loaded) == set()
