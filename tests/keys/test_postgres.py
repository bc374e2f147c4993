"""The key store in PostgreSQL: what the database itself refuses, and what goes wrong around it."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from cardsign.jose.keys import PrivateKey
from cardsign.keys import agenda
from cardsign.keys.store import create_store, open_store, read_place
from tests.keys.conftest import quick_postgres_store
from tests.keys.elsewhere import fault, refusal
from tests.keys.postgres import Server
from tests.keys.states import FIRST, NOON, SECOND, published
from tests.support import each_case

SECRET = "s3cret-of-the-database"

# --- the URL, without a server ---------------------------------------------------------------


@pytest.mark.parametrize(
    "rest",
    ["me@[::1]:5433/keys", "db/keys?sslmode=verify-full", "/keys?host=/run/postgresql"],
)
def test_a_url_without_a_password_names_a_database(rest: str) -> None:
    """As libpq takes it."""
    assert read_place(f"postgresql://{rest}") == f"postgresql://{rest}"


@each_case(__file__, "password", "text")
def test_a_url_with_a_password_is_refused(text: str) -> None:
    """And not repeated."""
    refused = fault(read_place, text)
    assert (refused.code, refused.exit_status) == ("keystore.url", 2)
    assert SECRET not in "".join(traceback.format_exception(refused))


def test_a_library_that_is_missing_is_one_helpful_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says what to install."""
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.delitem(sys.modules, "cardsign.keys.postgres", raising=False)
    missing = fault(open_store, read_place("postgresql://me@127.0.0.1:1/keys"))
    assert missing.code == "usage.not_installed"
    assert "pip install '.[postgres]'" in missing.hint


# --- with a server ---------------------------------------------------------------------------


@pytest.fixture
def pair(postgres: Server) -> Any:
    """An active key and a prepublished one."""
    store = quick_postgres_store(postgres.new_url())
    for private in (FIRST, SECOND):
        store.add(private, now=NOON)
    return store


needs_server = pytest.mark.needs_postgres


@needs_server
def test_private_keys_are_sealed_and_in_a_table_of_their_own(pair: Any, postgres: Server) -> None:
    """The lines hold what is public."""
    lines = postgres.execute(pair.place, "SELECT line FROM cardsign_line")
    blobs = postgres.execute(pair.place, "SELECT data FROM cardsign_blob")
    assert {("ciphertext" in line) for (line,) in lines} == {False}
    assert {(b"ciphertext" in blob) for (blob,) in blobs} == {True}
    assert not [blob for (blob,) in blobs if FIRST.to_pkcs8_der()[36:68] in blob]


@needs_server
def test_a_commit_held_up_is_busy(pair: Any, postgres: Server, monkeypatch: Any) -> None:
    """After some seconds, in one line."""
    monkeypatch.setattr("cardsign.keys.postgres._PATIENCE", "SET LOCAL lock_timeout = 50")
    with postgres.connect(pair.place) as other:
        other.autocommit = False
        other.execute("LOCK TABLE cardsign_line IN ACCESS EXCLUSIVE MODE")
        assert refusal(pair.add, PrivateKey.generate("ES256")) == "file.busy"


@needs_server
@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("DELETE FROM cardsign_line WHERE seq = 1", "keystore.audit_broken"),
        ("UPDATE cardsign_line SET line = replace(line, 'card', 'root')", "keystore.audit_broken"),
        ("UPDATE cardsign_line SET line = 'x' WHERE seq = 2", "keystore.corrupt"),
        ("ALTER TABLE cardsign_line RENAME COLUMN line TO text", "keystore.corrupt"),
        ("DROP TABLE cardsign_line", "keystore.missing"),
    ],
)
def test_what_somebody_made_of_the_tables_is_told(
    statement: str, code: str, pair: Any, postgres: Server
) -> None:
    """By who has a way in; the chain of the log is checked as in a folder."""
    postgres.execute(pair.place, statement)
    assert refusal(pair.again) == code


@needs_server
def test_where_no_store_was_made_it_is_missing(postgres: Server) -> None:
    """In an empty schema, or none; and no store is made in another one instead."""
    nowhere = read_place(postgres.url("nobody_made_it"))
    for place in (read_place(postgres.new_url()), nowhere):
        assert refusal(open_store, place, match="is no key store here") == "keystore.missing"
    lines = create_store(nowhere).append, 1, [b"{}"], {}
    assert refusal(*lines, match="no schema has been selected") == "keystore.unreachable"


#: A password other than that of the server, or None; and what becomes of a URL.
SPOILT: dict[str, tuple[str | None, Callable[[Server], str]]] = {
    "a wrong password": (SECRET, lambda server: server.url()),
    "no such database": (None, lambda server: server.url(database="nowhere")),
    "no server": (SECRET, lambda server: server.url().replace(str(server.port), "1")),
    "a URL that libpq refuses": (SECRET, lambda server: server.url(database="a%zz")),
    "no TLS there": (SECRET, lambda server: server.url() + "?sslmode=require"),
}


@needs_server
@pytest.mark.parametrize(("password", "spoil"), SPOILT.values(), ids=SPOILT)
def test_a_database_that_cannot_be_had_is_unreachable(
    password: str | None,
    spoil: Callable[[Server], str],
    postgres: Server,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One line that says why, and in no form the password."""
    place = read_place(spoil(postgres))
    monkeypatch.setenv("PGPASSWORD", password or postgres.password)
    refused = fault(open_store, place)
    assert (refused.code, "\n" in refused.message) == ("keystore.unreachable", False)
    trace = "".join(traceback.format_exception(refused))
    assert (SECRET in trace, postgres.password in trace) == (False, False)


@needs_server
def test_what_was_written_is_what_is_read(pair: Any) -> None:
    """To the last character, also one that the database knows of in no text."""
    pair.commit(agenda.record_publication, published(NOON, ["\u0000", "\u00e9"]), now=NOON)
    assert pair.again().state == pair.state
