"""The second half of the demo: a peer's keys change, one is stolen, and nobody is deceived.

All caches are assumed to forget at once (``[timeline]`` all 0), so that a rotation that takes days
elsewhere takes seconds here.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from steps import VERDICT, cardsign, expect, say, serving, tell

SETTINGS = """
[[card]]  # is signed again when its key changes
source = "card.json"
signed = "signed.json"

[timeline]  # seconds; nobody but a demo has caches like these
max_age = 0
worst_cache = 0
card_max_age = 0
skew = 0
"""
LOOPBACK = "--insecure-loopback-http"


def keys_that_change(issuer: Path, peer: Path, card: Path) -> None:
    """Enrol a peer by its keyset; it rotates and is followed; it revokes and is obeyed.

    Args:
        issuer: The folder of Harbour Office.
        peer: The folder of somebody who calls it.
        card: Harbour Office's card.
    """
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    with within(issuer):
        digest = set_up(address, card)
        with serving("public", port=port):
            with within(peer):
                add(address, digest)
            old_key = rotate(address)
            keyset = json.loads(cardsign("keyset", "show", "--json", quiet=True))
            newest = f"{keyset['epoch']}.{keyset['version']} until"
            with within(peer):
                tell("11. The peer verifies again, and follows to the new keyset by itself")
                cardsign("verify", address, LOOPBACK, "--verbose", only=VERDICT, said=newest)
            revoke(address, old_key)
            with within(peer):
                tell("13. The peer trusts the live card, and refuses one by the stolen key")
                cardsign("verify", address, LOOPBACK)
                shutil.copy(issuer / "before.json", "stolen-key.json")
                stolen = ("verify", "stolen-key.json", "--issuer", "harbour")
                cardsign(*stolen, status=1, said="key.revoked")


def set_up(address: str, card: Path) -> str:
    """What Harbour Office does once; gives the digest of its keyset, to be told to its peers."""
    tell("8. Another issuer, Harbour Office, sets up keys that can change")
    say("The card keys have a passphrase of their own, so that a theft of them is not one of all")
    os.environ["CARDSIGN_CARD_PASSPHRASE"] = secrets.token_urlsafe(16)
    cardsign(
        "init", "--issuer", address, "--recovery-out", "recovery.key", only=("cardsign: wrote",)
    )
    with Path("cardsign.toml").open("a") as settings:
        settings.write(SETTINGS)
    say("In cardsign.toml all waits for caches are set to 0 seconds, for this demo only")
    Path("card.json").write_text(card.read_text().replace("https://harbour.example", address))
    cardsign("publish", only=("cardsign:",), said="published")
    keyset = json.loads(cardsign("keyset", "show", "--json", quiet=True))
    return str(keyset["digest"])


def add(address: str, digest: str) -> None:
    """What a peer does once; from then on `verify` is all."""
    tell("9. A peer adds Harbour Office to its trusted issuers, and verifies its live card")
    say("It heard the digest of the keyset by telephone. Any other keyset is refused")
    cardsign("trust", "add", address, "--name", "harbour", "--digest", digest, LOOPBACK)
    cardsign("verify", address, LOOPBACK, "--verbose", only=VERDICT, said="1.2 until")


def rotate(address: str) -> str:
    """The next card key, which the root has listed, signs; gives the old one's kid."""
    tell("10. Harbour Office changes its card key: the next one signs, and the root lists another")
    old_key = active_card_key()
    shutil.copy("signed.json", "before.json")
    rotating = ("keys", "rotate", "--now", old_key)
    cardsign(*rotating, only=("cardsign:",), said="stored keyset 1.3")
    expect(active_card_key() != old_key, "another key signs cards")
    wait_for_the_server(address)
    return old_key


def revoke(address: str, kid: str) -> None:
    """The old key was stolen, and so all that its passphrase opens; new keys get another one."""
    tell("12. The old key was stolen. Harbour Office revokes it with all that was kept with it")
    say("New card keys are made under a passphrase that the thief does not have")
    os.environ["CARDSIGN_CARD_PASSPHRASE"] = secrets.token_urlsafe(16)
    revoking = ("keys", "revoke", kid, "--reason", "compromised", "--yes")
    shown = ("cardsign: revoked", "cardsign: signed", "cardsign: published", "cardsign: left")
    cardsign(*revoking, only=shown, said="revoked")
    wait_for_the_server(address)


def active_card_key() -> str:
    """The kid of the key that signs cards."""
    keys = json.loads(cardsign("keys", "list", "--json", quiet=True))
    return next(
        str(key["kid"]) for key in keys if key["state"] == "active" and "card" in key["roles"]
    )


def wait_for_the_server(address: str) -> None:
    """Until it serves the newest generation: it looks for one each second."""
    newest = json.loads(Path("public/current").read_text())["generation"]
    for _ in range(100):
        if httpx.get(f"{address}/healthz").json()["generation"] == newest:
            return
        time.sleep(0.1)
    expect(False, f"generation {newest} is served")


def free_port() -> int:
    """A port that nobody listens on: it stands in the issuer's name, so it is chosen first."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def within(folder: Path) -> Iterator[None]:
    """Do something in another folder."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
