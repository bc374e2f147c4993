"""What a key store tells of a generation in return: when the published keys change next."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from cardsign.jose.jwks import JwkSet
from cardsign.jose.keys import PrivateKey
from cardsign.keys.model import StoreState
from cardsign.publish.generation import Generation
from cardsign.publish.publication import next_change_by, publication_of, publish_generation
from tests.keys.states import EMPTY, NOON, QUICK, after, do, enter, record, revoke
from tests.support import PORTABLE, dump, signed

ONE, TWO = (PrivateKey.generate("ES256", kid=kid) for kid in ("one", "two"))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "public"


def put(directory: Path, now: datetime, *signers: PrivateKey) -> Generation:
    """A card by these keys, beside both in the key set."""
    return publish_generation(
        dump(signed(PORTABLE, *signers)),
        jwks=JwkSet.of([ONE.public, TWO.public]),
        extended={},
        directory=directory,
        now=now,
        max_age=50,
    )


def told(state: StoreState, generation: Generation) -> datetime | None:
    """When the keys of a store change next, once a generation is on record."""
    return next_change_by(state, QUICK, after(0))(generation)


def both() -> StoreState:
    """One is active, two waits."""
    state = enter(EMPTY, ONE.public, now=NOON)
    return enter(state, TWO.public, now=NOON)


def test_a_key_alone_does_not_change(directory: Path) -> None:
    """That it has no successor is for `rotate` to say; no cache has to hurry for it."""
    state = enter(EMPTY, ONE.public, now=NOON)
    assert told(state, put(directory, NOON, ONE)) is None


def test_the_next_change_is_the_activation_of_the_next_key(directory: Path) -> None:
    """When it is its turn, or when caches hold it, whichever is later."""
    assert told(both(), put(directory, NOON, ONE)) == after(1000)
    assert told(both(), put(directory, after(900), ONE, TWO)) == after(900 + 210)


def test_then_it_is_that_the_old_key_goes(directory: Path) -> None:
    """Once it has stopped signing, and its signature is on no published card."""
    state = record(both(), publication_of(put(directory, NOON, ONE)))
    state = do(state, "activate", "two", 300)
    stops = after(300 + 260)
    assert told(state, put(directory, after(301), ONE, TWO)) is None
    assert told(state, put(directory, after(600), TWO)) == after(600 + 60) > stops


def test_what_is_overdue_changes_at_once(directory: Path) -> None:
    """A standby waits for nothing where no key signs; no time before the publication is told."""
    state = enter(EMPTY, ONE.public, now=NOON)
    state = revoke(state, "one", "superseded")
    state = enter(state, TWO.public, now=after(2))
    generation = put(directory, after(9), ONE)
    assert told(state, generation) == generation.published_at == after(9)
