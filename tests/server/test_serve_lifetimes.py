"""For how long caches may keep what is served: less before the published keys change."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from served import serve
from stating import CARD, ISSUED, KEYSET, RELEASE

from cardsign.jose.jwks import JwkSet
from cardsign.publish.generation import LEAST_MAX_AGE, Generation, PublicFile
from cardsign.publish.publication import publish_generation, publish_statements
from tests.keys.issuing import NOW, key

CARD_PATH = "/.well-known/agent-card.json"
JWKS_PATH = "/.well-known/jwks.json"
CHANGE = NOW + timedelta(days=1)


def put(directory: Path, max_age: int, changes_at: datetime | None) -> Generation:
    """Publish a card with statements, of keys that change next at some time."""
    return publish_generation(
        CARD,
        jwks=JwkSet.of([key("card").public]),
        extended={},
        directory=directory,
        now=NOW,
        max_age=max_age,
        issued=ISSUED,
        next_change=lambda generation: changes_at,
    )


def told(directory: Path, path: str, seconds_before: float) -> int:
    """The max-age of a GET so long before the change; that of HEAD and of a 304 is the same."""
    moment = CHANGE.timestamp() - seconds_before
    client = serve(directory, now=lambda: moment)
    got = client.get(path)
    again = client.get(path, headers={"If-None-Match": got.headers["ETag"]})
    assert (got.status_code, again.status_code) == (200, 304)
    header = got.headers["Cache-Control"]
    assert {client.head(path).headers["Cache-Control"], again.headers["Cache-Control"]} == {header}
    assert header.startswith("public, max-age=")
    return int(header.removeprefix("public, max-age="))


#: max-age as published, seconds before the change; what a key set, and what a statement is told.
TOLD: dict[str, tuple[int, float, int, int]] = {
    "a day before, all of it": (3600, 86_400, 3600, 300),
    "a max-age before, all of it": (3600, 3600, 3600, 300),
    "a second later, a second less": (3600, 3599, 3599, 300),
    "statements shrink as well": (3600, 200, 200, 200),
    "parts of a second are not told": (3600, 200.9, 200, 200),
    "a minute before, a minute": (3600, 60, 60, 60),
    "never below a minute": (3600, 1, 60, 60),
    "nor when the change is late": (3600, -86_400, 60, 60),
    "nor more than was published": (7, 1, 7, 7),
    "and nothing stays nothing": (0, 1, 0, 0),
}


@pytest.mark.parametrize(("max_age", "before", "document", "brief"), TOLD.values(), ids=TOLD)
def test_max_age_shrinks_before_the_keys_change(
    max_age: int, before: float, document: int, brief: int, tmp_path: Path
) -> None:
    """Reckoned when it is answered, for the card, the key set and the statements."""
    put(tmp_path / "public", max_age, CHANGE)
    wanted = {CARD_PATH: document, JWKS_PATH: document, KEYSET: brief, RELEASE: brief}
    assert {path: told(tmp_path / "public", path, before) for path in wanted} == wanted


@pytest.mark.parametrize("before", [86_400, 1, -86_400])
def test_max_age_stays_while_no_change_is_known(before: float, tmp_path: Path) -> None:
    """The twin: nothing is due."""
    put(tmp_path / "public", 3600, None)
    assert told(tmp_path / "public", JWKS_PATH, before) == 3600
    assert told(tmp_path / "public", RELEASE, before) == 300


def test_newer_statements_leave_the_time_of_the_change(tmp_path: Path) -> None:
    """A release that is renewed does not put off what the keys are to do."""
    one = put(tmp_path / "public", 3600, CHANGE)
    two = publish_statements(ISSUED, directory=tmp_path / "public", now=NOW)
    assert two is not None
    assert two.changes_at == one.changes_at == CHANGE


@given(
    max_age=st.integers(0, 10**6),
    changes_at=st.floats(0, 10**7),
    now=st.floats(0, 10**7),
)
def test_no_copy_outlives_a_change_by_more_than_a_minute(
    max_age: int, changes_at: float, now: float
) -> None:
    """Whoever asked before the change asks again a minute after it, whatever max-age there is."""
    control = PublicFile(b"", "text/plain", max_age, changes_at).cache_control(now)
    kept = int(control.removeprefix("public, max-age="))
    assert 0 <= kept <= max_age
    assert now + kept <= max(changes_at, now) + LEAST_MAX_AGE
