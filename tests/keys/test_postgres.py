"""The key store in PostgreSQL: what the database itself refuses, and what goes wrong around it."""

from __future__ import annotations

import logging
import subprocess
import sys
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from cardsign.errors import CardsignError, StoreFault
from cardsign.jose.keys import PrivateKey
from cardsign.keys import lifecycle
from cardsign.keys.opening import DatabaseUrl, create_store, open_store, read_place
from tests.keys.conftest import quick_postgres_store
from tests.keys.postgres import Server
from tests.keys.states import NOON, public, published

SECRET = "s3cret-of-the-database"

# --- the URL, without a server ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("secret", "shown"),
    [
        (f"me:{SECRET}@[::1]:5433/keys", "me@[::1]:5433/keys"),
        ("db/keys?sslmode=verify-full", "db/keys?sslmode=verify-full"),
        ("me@db/keys", "me@db/keys"),
        ("/keys?host=/run/postgresql", "/keys?host=/run/postgresql"),
    ],
)
def test_a_url_is_shown_without_its_password(secret: str, shown: str) -> None:
    """The rest is as it was named, and names the same database."""
    place = read_place(f"postgresql://{secret}")
    assert isinstance(place, DatabaseUrl)
    assert str(place) == place.shown == f"postgresql://{shown}"
    assert read_place(place.shown) == DatabaseUrl(place.shown, place.shown)
    assert SECRET not in repr(place)
    assert place.text == f"postgresql://{secret}"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"postgresql+psycopg://me:{SECRET}@db/keys", id="a driver in the scheme"),
        pytest.param(f"mysql://me:{SECRET}@db/keys", id="another database"),
        pytest.param(f"postgresql://me:p@{SECRET}@db/keys", id="an at sign in a password"),
        pytest.param(f"postgresql://me:p/{SECRET}@db/keys", id="a slash in a password"),
        pytest.param(f"postgresql://me:p?{SECRET}@db/keys", id="a question mark in one"),
        pytest.param(f"postgresql://me:p#{SECRET}@db/keys", id="a hash in one"),
        pytest.param(f"postgresql://me:{SECRET}@db", id="no database"),
        pytest.param(f"postgresql://me:{SECRET}@db:x/keys", id="a port that is no number"),
        pytest.param(f"postgresql://db/keys?password={SECRET}", id="a password parameter"),
        pytest.param(f"postgresql://db/keys?sslpassword={SECRET}", id="another one"),
    ],
)
def test_a_url_that_two_readers_could_read_differently_is_refused(text):
    """And not repeated: any part may be a part of the password."""
    with pytest.raises(StoreFault) as caught:
        read_place(text)

    assert (caught.value.code, caught.value.exit_status) == ("keystore.url", 2)
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_a_library_that_is_missing_is_one_helpful_line():
    """And the password is not in it."""
    program = (
        "import sys; sys.modules['psycopg'] = None; from cardsign.cli.main import main; main()"
    )
    url = f"postgresql://me:{SECRET}@127.0.0.1:1/keys"
    done = subprocess.run(
        [sys.executable, "-c", program, "keys", "list", "--keystore", url], capture_output=True
    )
    told = done.stderr.decode()

    assert done.returncode == 2
    assert "usage.not_installed" in told
    assert "pip install 'cardsign[postgres]'" in told
    assert "Traceback" not in told
    assert SECRET not in told


def test_a_store_in_files_loads_no_library_of_databases():
    """The extra costs nothing to those who do without it."""
    program = "import sys, cardsign.cli, cardsign.keys.opening; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)

    assert b"psycopg" not in done.stdout.split()


# --- with a server ---------------------------------------------------------------------------


@pytest.fixture
def store(postgres: Server) -> Any:
    """An empty key store."""
    return quick_postgres_store(postgres.new_url())


@pytest.fixture
def hand(postgres: Server, store: Any) -> Callable[..., Any]:
    """Runs SQL on the tables of `store`, as somebody with psql would."""

    def run(*statements: str) -> Any:
        return postgres.execute(store.url, *statements)

    return run


@pytest.fixture
def pair(store, es256, another_es256):
    """An active key and a prepublished one."""
    for private in (es256, another_es256):
        store.add(private, now=NOON)
    return store


def refusal(attempt: Callable[[], object]) -> CardsignError:
    """What `attempt` raises."""
    with pytest.raises(CardsignError) as caught:
        attempt()
    return caught.value


needs_server = pytest.mark.needs_postgres


@needs_server
def test_private_keys_are_sealed_and_in_a_table_of_their_own(store, es256, hand):
    """The lines hold what is public."""
    store.add(es256)

    ((line,),), ((blob,),) = (
        hand("SELECT line FROM cardsign_line"),
        hand("SELECT data FROM cardsign_blob"),
    )
    assert es256.to_pkcs8_der()[36:68] not in blob
    assert (b"ciphertext" in blob, "ciphertext" in line) == (True, False)


@needs_server
def test_a_commit_that_others_hold_up_is_busy(pair, postgres):
    """After some seconds, in one line."""
    pair.patience = "SET LOCAL lock_timeout = 50"
    with postgres.connect(pair.url) as other:
        other.autocommit = False
        other.execute("LOCK TABLE cardsign_line IN ACCESS EXCLUSIVE MODE")
        fault = refusal(lambda: pair.add(PrivateKey.generate("ES256")))
    assert fault.code == "file.busy"


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
def test_what_somebody_made_of_the_tables_is_told(statement, code, pair, hand):
    """By who has a way in; the chain of the log is checked as in a folder."""
    hand(statement)
    assert refusal(pair.again).code == code


@needs_server
def test_where_no_store_was_made_it_is_missing(postgres):
    """In an empty schema, or none; and no store is made in another one instead."""
    for url in (postgres.new_url(), postgres.url("nobody_made_it")):
        fault = refusal(lambda url=url: open_store(read_place(url)))
        assert (fault.code, fault.message) == ("keystore.missing", "there is no key store here")
    store = create_store(read_place(postgres.url("nobody_made_it")))
    attempt = lambda: store.apply(lifecycle.enter, public("x"), now=NOON, custody="exec:/x")  # noqa: E731
    assert refusal(attempt).code == "keystore.missing"


@needs_server
def test_a_role_without_rights_is_told(pair, postgres, hand):
    """The server says which right is wanting."""
    hand("DROP ROLE IF EXISTS reader", f"CREATE ROLE reader LOGIN PASSWORD '{SECRET}'")
    poor = read_place(pair.url.replace(f"cardsign:{postgres.password}", f"reader:{SECRET}"))
    schema = pair.url.rpartition("%3D")[2]
    hand(f"GRANT USAGE ON SCHEMA {schema} TO reader")
    fault = refusal(lambda: open_store(poor))
    hand(f"REVOKE ALL ON SCHEMA {schema} FROM reader", "DROP ROLE reader")
    assert fault.code == "keystore.unreachable"
    assert "permission denied" in fault.message


@needs_server
@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda server: server.url(password=SECRET), id="a wrong password"),
        pytest.param(lambda server: server.url(database="nowhere"), id="no such database"),
        pytest.param(
            lambda server: server.url(password=SECRET).replace(str(server.port), "1"),
            id="no server",
        ),
        pytest.param(
            lambda server: server.url(password=f"{SECRET}%zz"), id="a URL that libpq refuses"
        ),
        pytest.param(
            lambda server: server.url(password=SECRET) + "?sslmode=require", id="no TLS there"
        ),
    ],
)
def test_a_database_that_cannot_be_had_is_unreachable(spoil, postgres, caplog):
    """One line that says why, and in no form the password."""
    caplog.set_level(logging.DEBUG)
    url = spoil(postgres)
    place = read_place(url)

    fault = refusal(lambda: open_store(place))

    shown = "".join(traceback.format_exception(fault)) + repr(fault) + caplog.text + repr(place)
    assert (fault.code, fault.exit_status) == ("keystore.unreachable", 2)
    assert "\n" not in fault.message
    assert SECRET not in shown
    assert postgres.password not in shown


@needs_server
def test_no_store_shows_the_password(pair, postgres, caplog, capfd):
    """Neither itself, nor its state, nor what it raises."""
    caplog.set_level(logging.DEBUG)
    again = pair.again()
    fault = refusal(lambda: pair.append(7, [b"\x00"], {}))
    trace = "".join(traceback.format_exception(fault))
    output = capfd.readouterr()

    everything = [repr(again), repr(again.state), trace, caplog.text, output.out, output.err]
    assert not [text for text in everything if postgres.password in text]


@needs_server
def test_what_was_written_is_what_is_read(pair):
    """To the last character, also one that the database knows of in no text."""
    pair.apply(lifecycle.record_publication, published(NOON, ["\u0000", "\u00e9"]), now=NOON)

    assert pair.again().state == pair.state
