"""A new user and a live peer: `cardsign serve` on a loopback port, and two commands."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cardsign.jose.jwks import JwkSet
from tests.cli.conftest import Cardsign, Ended
from tests.jose.statement_making import key
from tests.support import PORTABLE

ROOT = Path(__file__).resolve().parents[2]
RECOVERY = {"CARDSIGN_RECOVERY_PASSPHRASE": "another horse entirely"}
LOOPBACK = "--insecure-loopback-http"


pytestmark = pytest.mark.usefixtures("cheap")


def run(ended: Ended) -> Ended:
    """What must have gone well."""
    assert ended.status == 0, ended.err
    return ended


@pytest.fixture
def home(cardsign: Cardsign) -> Iterator[str]:
    """The peer's origin: a card that is signed, released, published and served."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        home = f"http://127.0.0.1:{free.getsockname()[1]}"
    interface = {**PORTABLE["supportedInterfaces"][0], "url": f"{home}/a2a"}
    card = {**PORTABLE, "supportedInterfaces": [interface]}
    Path("card.json").write_text(json.dumps(card))
    run(cardsign("init", "--issuer", home, "--recovery-out", "recovery.key", **RECOVERY))
    run(cardsign("sign", "card.json", "-o", "signed.json"))
    run(cardsign("release", "renew", "--card", "signed.json"))
    run(cardsign("publish", "signed.json"))
    with served(home):
        yield home


@contextlib.contextmanager
def served(home: str) -> Iterator[None]:
    """`cardsign serve`, in processes of its own."""
    bind = home.removeprefix("http://")
    command = [sys.executable, "-m", "cardsign", "serve", "public", "--bind", bind]
    process = subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        assert process.stderr is not None
        said = ""
        while "serving generation" not in said:
            said = process.stderr.readline()
            assert said, "the server ended"
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def test_two_commands(cardsign: Cardsign, home: str) -> None:
    """Add it, compare what is printed, verify it; then day by day, and what was remembered."""
    added = run(cardsign("trust", "add", home, "--yes", LOOPBACK))
    told = run(cardsign("keyset", "show", "--json")).json  # what the issuer reads out himself
    assert f"digest      {told['digest']}" in added.text
    ended = run(cardsign("verify", home, LOOPBACK, "--json"))
    assert ended.json["verdict"] == "trusted"
    assert ended.json["answers"]["current"] == "yes"
    run(cardsign("peers", "verify", LOOPBACK))
    assert run(cardsign("peers", "status", "--json")).json[0]["keyset"]["number"] == "1.1"


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
