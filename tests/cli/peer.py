"""A peer whose cards are verified on the command line: his statements, and a policy about him.

All of it is made for this run, as of now, and written where the command runs.
"""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cardsign.jose.keys import JwkSet
from cardsign.statements.keyset import read_keyset
from cardsign.statements.release import read_release
from cardsign.testing import FakeIssuer
from cardsign.testing.fake_issuer import card_digest, digest_of
from cardsign.trust.lock import Floor, raise_lock
from tests.cli.conftest import Cardsign, Ended
from tests.statements.making import key
from tests.support import PORTABLE, dump, signed

T0 = int(time.time()) - 3600
ORIGIN = "https://tides.example"
AUDIENCE = "9f2c61d07be84a15"
Card = dict[str, Any]


#: The same people with the same keys, speaking as of now.
PEER = FakeIssuer(datetime.fromtimestamp(T0, UTC), make_key=key)
digest = card_digest


def keyset(version: int = 1, previous: bytes | None = None, **changes: Any) -> bytes:
    """A keyset statement that holds now."""
    keys = [PEER.entry("card", "card"), PEER.entry("rel", "release")]
    prev = digest_of(previous) if previous else None
    return PEER.keyset(**{"version": version, "prev": prev, "keys": keys, **changes})


def release(under: bytes, *cards: Card, seq: int = 42, **changes: Any) -> bytes:
    """A release under a keyset statement that lists these cards, and holds now."""
    return PEER.release(under, **{**PEER.listing(*cards, seq=seq), **changes})


def write_cards() -> None:
    """`signed.json` by the peer, `unsigned.json`, and `jwks.json` with his card key."""
    Path("signed.json").write_bytes(dump(signed(PORTABLE, key("card"))))
    Path("unsigned.json").write_bytes(dump(PORTABLE))
    Path("jwks.json").write_bytes(JwkSet.of([key("card").public]).to_bytes())


def write_statements() -> tuple[bytes, bytes]:
    """`statements/`: a keyset and the release that lists the card."""
    first = keyset()
    current = release(first, PORTABLE)
    folder = Path("statements")
    folder.mkdir()
    (folder / "1.1.json").write_bytes(first)
    (folder / "release.json").write_bytes(current)
    return first, current


def write_policy(anchor: str, path: str = "trust.toml", **members: Any) -> None:
    """A policy that enrols the peer, under one anchor."""
    said = "\n".join(f"{name} = {json.dumps(value)}" for name, value in members.items())
    Path(path).write_text(
        f'format = 1\n[[issuer]]\nname = "tides"\norigins = ["{ORIGIN}"]\n{said}\n'
        f"[issuer.anchor]\n{anchor}\n"
    )


def keyset_anchor(statement: bytes) -> str:
    """An anchor that pins one keyset statement."""
    pinned = read_keyset(statement)
    return (
        f"keyset = {{epoch = {pinned.epoch}, version = {pinned.version}, "
        f'digest = "{pinned.digest}"}}'
    )


def jwks_anchor() -> str:
    """An anchor that names a URL."""
    return f'jwks = "{ORIGIN}/jwks.json"'


def enrol(cardsign: Cardsign) -> tuple[bytes, bytes]:
    """Cards, statements, a policy that pins the keyset, and its lock."""
    write_cards()
    statements = write_statements()
    write_policy(keyset_anchor(statements[0]))
    first, current = statements
    floor = Floor().with_statements(read_keyset(first), read_release(current))
    raise_lock(Path("trust.lock"), {"tides": floor})
    return statements


def codes(ended: Ended) -> list[str]:
    """The codes of the one verdict that was printed as JSON."""
    return [reason["code"] for reason in ended.json["reasons"]]
