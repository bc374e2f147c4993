"""A new user and a live peer on a loopback port: two commands, and a silent one."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from cardsign.jose.keys import JwkSet
from tests.cli.conftest import Cardsign, run
from tests.statements.making import key

ROOT = Path(__file__).resolve().parents[2]
LOOPBACK = "--insecure-loopback-http"


pytestmark = pytest.mark.usefixtures("cheap")


#: The command line with requests that may take an hour, so that no slow machine ends one of them.
#: It hears Ctrl-C even where the tests run in a shell's background, which ignores it.
PATIENT = """
import signal

from cardsign.net import fetch

signal.signal(signal.SIGINT, signal.default_int_handler)

limits = fetch.FetchSettings.__init__.__defaults__
hour = [3600.0 if limit == fetch.TOTAL_SECONDS else limit for limit in limits]
fetch.FetchSettings.__init__.__defaults__ = tuple(hour)
from cardsign.cli.main import main

main()
"""


def test_who_has_had_enough_is_not_kept_by_a_silent_peer(cardsign: Cardsign) -> None:
    """Ctrl-C ends it at once, though the peer's time is not over."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(30)
        home = f"http://127.0.0.1:{silent.getsockname()[1]}"
        Path("jwks.json").write_bytes(JwkSet.of([key("card").public]).to_bytes())
        run(cardsign("trust", "add", home, "--jwks", "jwks.json"))
        process = subprocess.Popen(
            [sys.executable, "-c", PATIENT, "peers", "verify", LOOPBACK],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(Path("home").resolve())},
        )
        try:
            connection, _ = silent.accept()
            with connection:
                connection.recv(1)
                process.send_signal(signal.SIGINT)
                out, err = process.communicate(timeout=120)  # far less than the request may take
        finally:
            process.kill()
            process.communicate()
    assert (process.returncode, out, err.strip()) == (2, "", "cardsign: stopped")
