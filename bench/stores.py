"""Reading a key store of many years, which each command does first.

A publication and a release a day, and another card key and release key each two months.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from measuring import Broken, table

from cardsign.jose.keys import PrivateKey
from cardsign.keys import agenda
from cardsign.keys.ledger import (
    Event,
    Publication,
    PublishedCard,
    Role,
    StoreState,
    read_line,
    write_line,
)
from cardsign.keys.store import FolderStore

_START: Final = datetime(2026, 1, 1, 12, tzinfo=UTC)
_DIGEST: Final = "0" * 64
_ROLES: Final[tuple[Role, ...]] = ("card", "release")
_YEARS: Final = (1, 10)


def measure_stores(folder: Path, rounds: int) -> dict[str, str]:
    """Return the table `stores`: seconds of CPU to read a log, the least of all rounds."""
    rows = []
    for years in _YEARS:
        path = folder / f"store-{years}"
        path.mkdir(mode=0o700)
        state, lines = log_of(365 * years)
        (path / "log.jsonl").touch(mode=0o600)
        (path / "log.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))
        seconds = min(_read(FolderStore(path), state) for _ in range(rounds))
        rows.append([str(years), f"{len(lines):,}", f"{seconds:.2f}"])
    return {"stores": table(["years", "lines of the log", "seconds of CPU to read it"], *rows)}


def log_of(days: int) -> tuple[StoreState, list[bytes]]:
    """The state after so many days, and the lines of its log."""
    state, lines = StoreState(), list[bytes]()
    for day in range(days):
        now = _START + timedelta(days=day)
        for events in _events_of(day, state, now):
            lines.append(write_line(state, events, now, "cron@host"))
            state = read_line(state, lines[-1], "log")
    return state, lines


def _events_of(day: int, state: StoreState, now: datetime) -> Iterator[list[Event]]:
    if day % 60 == 0:
        entered: list[Event] = []
        for role in _ROLES:
            public = PrivateKey.generate("ES256", kid=f"{role}-{day}").public
            entered += agenda.enter(state, public, custody="file:1", roles=(role,), blob=_DIGEST)
        ended = [event for key in state.active_keys() for event in _end(state, key.kid)]
        yield entered + ended
    kids = tuple(key.kid for key in state.published_keys())
    card = PublishedCard("agent-card.json", _DIGEST, kids, "https://tides.example/a2a")
    yield agenda.record_publication(state, Publication(day, now, 86_400, kids, (card,)))
    yield [{"event": "release", "seq": day + 1, "digest": _DIGEST, "blob": _DIGEST}]


def _end(state: StoreState, kid: str) -> list[Event]:
    return agenda.revoke(state, kid, reason="superseded")


def _read(store: FolderStore, state: StoreState) -> float:
    began = time.process_time()
    if store.load() != state:
        raise Broken("the store is not read as it was written")
    return time.process_time() - began
