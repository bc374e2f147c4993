"""Any number of rotators: each step is taken once."""

from __future__ import annotations

import json
import multiprocessing
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from datetime import datetime
from pathlib import Path

import pytest

from cardsign.jose.keys import PrivateKey
from cardsign.keys.agenda import TimelineSettings, record_publication
from cardsign.keys.store import KeyStore, StorePlace, create_store, open_store, read_place
from tests.keys import postgres as pg
from tests.keys.states import after, published, take_due_step
from tests.spoilt_cards import EXAMPLES

RACERS = 8 if EXAMPLES >= 40_000 else 4
EACH = 10  # due steps of one store, as a state grows with every key that ever was
STORES = 10 if EXAMPLES >= 40_000 else 1
EVERY = 1000  # seconds between two rotations
SETTINGS = TimelineSettings(0, 0, 0, 0, rotate_every=EVERY)
PASSPHRASE = b"correct horse battery staple"


def attempt(place: StorePlace, now: datetime) -> str | None:
    """One racer's tick, in a process of its own: what it did."""
    step = take_due_step(open_store(place), now=now, settings=SETTINGS)
    return step and step.action


@pytest.fixture
def racers() -> Iterator[ProcessPoolExecutor]:
    """The processes, which live through all the steps, with the environment of the test."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(RACERS, mp_context=spawn) as pool:
        yield pool


def prepare(store: KeyStore, now: datetime) -> None:
    """End the last rotation, and publish the key of the next one."""
    key = PrivateKey.generate("ES256")
    store.add_key(key, PASSPHRASE, now=now)
    for _ in range(3):  # retiring the one before, destroying its private key
        state = store.load()
        kids = [record.kid for record in state.published_keys()]
        signers = [record.kid for record in state.signing_keys(now)]
        store.commit(record_publication, published(now, kids, signers, max_age=0), now=now)
        take_due_step(store, now=now, settings=SETTINGS)


@pytest.fixture(params=["files", pytest.param("postgres", marks=pytest.mark.needs_postgres)])
def places(request: pytest.FixtureRequest, tmp_path: Path) -> list[StorePlace]:
    """Where stores can be made: in directories, in schemas of a PostgreSQL server."""
    if request.param == "files":
        return [tmp_path / str(number) for number in range(STORES)]
    server: pg.Server = request.getfixturevalue("postgres")
    return [read_place(server.new_url()) for _ in range(STORES)]


def test_of_many_racers_one_takes_each_due_step(
    places: list[StorePlace], racers: ProcessPoolExecutor
) -> None:
    """Of all attempts on a due step exactly one rotates, and the log is whole."""
    for place in places:
        store = create_store(place)
        prepare(store, after(0))
        for step in range(1, EACH + 1):
            prepare(store, after(EVERY * step - 2))
            taken = [racers.submit(attempt, place, after(EVERY * step)) for _ in range(RACERS)]
            outcome = Counter(one.result() for one in taken)
            assert outcome == {"activate": 1, None: RACERS - 1}, f"step {step}"
        store.load()
        lines = map(json.loads, store.read_lines())
        events = [event.get("to") for line in lines for event in line["events"]]
        assert (events.count("active"), len(store.state.active_keys())) == (EACH, 1)
