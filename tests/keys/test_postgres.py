"""The key store in PostgreSQL: what the database itself refuses, and what goes wrong around it."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import traceback
from collections.abc import Callable
from dataclasses import replace
from threading import Thread
from typing import Any

import pytest

from cardsign.errors import CardsignError, FileFault, SignerFault, StoreFault
from cardsign.keys import lifecycle
from cardsign.keys.audit import AuditEvent
from cardsign.keys.key_files import seal
from cardsign.keys.stores.address import PARAMETERS, is_database_url, parse_database_url
from cardsign.keys.stores.directory import DirectoryStore
from cardsign.keys.stores.opening import create_store, open_store
from tests.keys.conftest import quick_postgres_store
from tests.keys.postgres import Server
from tests.keys.states import NOON, QUICK, after, published

SECRET = "s3cret-of-the-database"
PASSPHRASE = b"correct horse battery staple"

# --- the URL, without a server ---------------------------------------------------------------


def test_a_url_is_taken_apart():
    """Each part, percent-decoded."""
    url = parse_database_url("postgresql://me:a%40b%2Fc@db.example:5433/keys?sslmode=verify-full")

    assert (url.username, url.password) == ("me", "a@b/c")
    assert (url.host, url.port, url.database) == ("db.example", 5433, "keys")
    assert url.query == {"sslmode": "verify-full"}
    assert url.without_password("no a@b/c here") == "no *** here"


def test_what_is_left_out_is_left_to_the_driver():
    """The local socket, and the role that the operating system says."""
    url = parse_database_url("postgresql:///keys?host=/run/postgresql")

    assert (url.username, url.password, url.host, url.port) == (None, None, None, None)
    assert url.without_password("nothing to hide") == "nothing to hide"


def test_a_url_shows_neither_user_nor_password():
    """Nor does an address in IPv6 keep them from being found."""
    url = parse_database_url(f"postgresql://me:{SECRET}@[::1]:5433/keys")

    assert str(url) == url.shown == "postgresql://[::1]:5433/keys"
    assert SECRET not in repr(url)
    assert url.host == "::1"


@pytest.mark.parametrize(
    "text",
    [
        "postgresql:///keys?options=-csearch_path%3Dcards",
        "postgresql://a%40b@[::1]:5433/keys?sslmode=verify-full",
    ],
)
def test_a_url_in_a_file_is_the_same_but_for_its_password(text):
    """A reader of cardsign.toml finds the database, and no secret."""
    open_to_all = parse_database_url(text)
    user, at, host = text.partition("@")
    secret = parse_database_url(f"{user}:{SECRET}{at}{host}") if at else open_to_all

    assert parse_database_url(open_to_all.to_file()) == open_to_all
    assert secret.to_file() == open_to_all.to_file()


SERVERS = {
    "postgresql://me@DB.example/keys": "db.example:5432",
    "postgresql://db.example:5433/keys": "db.example:5433",
    "postgresql://[::1]/keys": "[::1]:5432",
    "postgresql:///keys": ":5432",
}


@pytest.mark.parametrize(("text", "server"), SERVERS.items(), ids=SERVERS)
def test_a_server_has_one_spelling(text, server):
    """As the user allows it in a file of their own."""
    assert parse_database_url(text).server == server


UNCOMMITTED = {
    "passfile=%2Fhome%2Fme%2F.pgpass": ("passfile",),
    "sslkey=a&sslcert=b&sslrootcert=c&sslcrl=d": ("sslcert", "sslcrl", "sslkey", "sslrootcert"),
    "host=evil.example": ("host",),
    "sslmode=disable": ("sslmode",),
    "sslmode=require": ("sslmode",),
    "channel_binding=disable": ("channel_binding",),
    "sslmode=verify-full&channel_binding=require&options=-csearch_path%3Da": (),
    "connect_timeout=3&application_name=cards&target_session_attrs=any": (),
}


@pytest.mark.parametrize(("query", "names"), UNCOMMITTED.items(), ids=UNCOMMITTED)
def test_a_committed_url_names_no_file_and_lowers_nothing(query, names):
    """Such parameters are known by name, and left out of what is written to one."""
    url = parse_database_url(f"postgresql://db.example/keys?{query}")

    assert url.uncommitted == names
    written = parse_database_url(url.to_file())
    assert (written.uncommitted, set(written.query)) == ((), set(url.query) - set(names))


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
        pytest.param(f"postgresql://db/keys?{SECRET}=1", id="an unknown parameter"),
    ],
)
def test_a_url_that_two_readers_could_read_differently_is_refused(text):
    """And not repeated: any part may be a part of the password."""
    assert is_database_url(text)

    with pytest.raises(StoreFault) as caught:
        parse_database_url(text)

    assert (caught.value.code, caught.value.exit_status) == ("keystore.url", 2)
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_no_parameter_of_a_url_is_a_secret():
    """They are listed in errors and handed on as they are."""
    assert {name for name in PARAMETERS if "pass" in name} == {"passfile"}


def test_a_directory_is_no_url(tmp_path):
    """And opens as one."""
    assert not is_database_url(str(tmp_path))
    assert isinstance(create_store(tmp_path / "keys"), DirectoryStore)
    assert isinstance(open_store(tmp_path / "keys"), DirectoryStore)


@pytest.mark.parametrize("module", ["sqlalchemy", "psycopg"])
def test_a_library_that_is_missing_is_one_helpful_line(module):
    """Whichever of the two."""
    program = (
        f"import sys; sys.modules['{module}'] = None; from cardsign.cli.main import main; main()"
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
    program = "import sys, cardsign.cli, cardsign.keys.stores.opening; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)

    assert not {b"sqlalchemy", b"psycopg"} & set(done.stdout.split())


# --- with a server ---------------------------------------------------------------------------


@pytest.fixture
def store(postgres: Server) -> Any:
    """An empty key store."""
    return quick_postgres_store(postgres.new_url())


@pytest.fixture
def hand(postgres: Server, store: Any) -> Callable[..., Any]:
    """Runs SQL on the tables of `store`, as somebody with psql would."""

    def run(*statements: str) -> Any:
        return postgres.execute(postgres.url(store.url.query["options"][14:]), *statements)

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


def raw(store: Any, state: Any) -> Any:
    """Commit a state that no operation would make."""
    return store.commit(state, (AuditEvent("made-by-hand"),), now=NOON)


def everything(store: Any) -> tuple[Any, ...]:
    """What a store holds."""
    private = {name: store.read_private(name) for name in store.private_keys()}
    statements = (store.read_statements("keysets"), store.read_statements("releases"))
    return store.load(), store.read_audit(), private, statements


needs_server = pytest.mark.needs_postgres


@needs_server
def test_a_store_is_not_made_over_another_one(store, postgres):
    """Unless the caller means the one that is there."""
    url = store.url

    assert refusal(lambda: create_store(url)).code == "keystore.exists"
    assert create_store(url, exist_ok=True).state == store.state


@needs_server
def test_of_many_that_make_a_store_each_finds_it(postgres):
    """``CREATE TABLE IF NOT EXISTS`` alone fails in this race."""
    url = parse_database_url(postgres.new_url())
    states: list[Any] = []
    threads = [
        Thread(target=lambda: states.append(create_store(url, exist_ok=True).state))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert len(states) == 8
    assert {state.generation for state in states} == {0}


@needs_server
def test_the_private_half_is_encrypted_and_in_a_table_of_its_own(store, es256, hand):
    """The others hold what is public."""
    store.add(es256)

    ((envelope,),) = hand("SELECT envelope FROM cardsign_private")
    public = str(hand("SELECT * FROM cardsign_generation") + hand("SELECT * FROM cardsign_audit"))

    assert json.loads(bytes(envelope)).keys() >= {"format", "kdf"}
    assert es256.to_pkcs8_der() not in bytes(envelope)
    assert "ciphertext" not in public


@needs_server
def test_a_private_half_goes_in_the_transaction_that_destroys_it(pair, hand, monkeypatch):
    """A crash between commit and removal finds nothing left to remove."""
    pair.apply(lifecycle.revoke, pair.state.keys[0].kid, reason="ceased", now=after(1))
    pair.record_publication(published(after(2), [pair.state.keys[1].kid]), now=after(2))
    monkeypatch.setattr(type(pair), "remove_private", lambda self, thumbprint: None)

    gone = pair.destroy(pair.state.keys[0].kid, now=after(10**6), settings=QUICK)

    ((kept,),) = hand("SELECT thumbprint FROM cardsign_private")
    assert kept == pair.state.keys[1].thumbprint
    assert refusal(lambda: pair.read_private(gone.thumbprint)).code == "file.not_found"


@needs_server
def test_a_lost_private_half_is_told(store, es256, hand):
    """With its key, as for one in a file."""
    record = store.add(es256)
    hand("DELETE FROM cardsign_private")

    with pytest.raises(FileFault) as caught:
        store.signer(record, PASSPHRASE)

    assert caught.value.code == "file.not_found"


@needs_server
def test_private_halves_cannot_be_swapped(store, es256, another_es256, hand):
    """Nor can one be sealed anew for another key."""
    record = store.add(es256)
    other = seal(another_es256.to_pkcs8_der(), PASSPHRASE, another_es256.public)
    hand(f"UPDATE cardsign_private SET envelope = '\\x{other.hex()}'")

    with pytest.raises(SignerFault) as caught:
        store.signer(record, PASSPHRASE)

    assert caught.value.code == "signer.wrong_key"


@needs_server
def test_a_key_that_lies_elsewhere_is_asked_there(store, es256):
    """A custody other than a file is opened as for any store."""
    record = store.add_remote_key(es256.public, "exec:///nowhere", now=NOON)

    assert refusal(lambda: store.signer(record, PASSPHRASE)).code == "config.not_allowed"


@needs_server
def test_the_database_refuses_two_active_keys_of_one_algorithm(pair):
    """Even from a client that has forgotten to ask."""
    state = pair.load()
    first, second = state.keys
    both = state.replacing([second.at("active", activated=NOON)])

    fault = refusal(lambda: raw(pair, both))

    assert fault.code == "keystore.corrupt"
    assert "two keys of one role and algorithm are active" in fault.message
    assert pair.load() == state
    assert raw(pair, both.replacing([first.at("retiring", stops_signing=after(9))]))


@needs_server
def test_a_key_may_be_active_beside_one_of_another_role(pair, rs256):
    """The negative twin: release keys, roots and other algorithms have lines of their own."""
    first, second = pair.state.keys
    lone = replace(second.at("active", activated=NOON), roles=("release",))

    raw(pair, pair.load().replacing([lone]))
    pair.add(rs256)

    assert [key.state for key in pair.load().keys] == ["active"] * 3
    assert first.kid in pair.load().ever_held_kids()


@needs_server
def test_a_generation_is_committed_once(pair):
    """By who comes first; the second is told that the store has changed."""
    state = pair.load()
    raw(pair, state)

    fault = refusal(lambda: raw(pair, state))

    assert fault.code == "keystore.changed"
    assert refusal(lambda: raw(pair, replace(state, generation=99))).code == "keystore.changed"


@needs_server
def test_two_commits_at_one_time_are_one(pair, postgres):
    """The second waits for the first, and is then refused by the index on generations."""
    url = postgres.url(pair.url.query["options"][14:])
    taken = pair.load().generation + 1
    outcome: list[str] = []
    with postgres.connect(url) as rival:
        rival.autocommit = False
        rival.execute(
            f"INSERT INTO cardsign_generation SELECT {taken}, {taken - 1}, state "
            f"FROM cardsign_generation WHERE generation = {taken - 1}"
        )
        thread = Thread(target=lambda: outcome.append(refusal(lambda: raw(pair, pair.load())).code))
        thread.start()
        thread.join(0.5)
        assert thread.is_alive()
        rival.commit()
    thread.join(30)

    assert outcome == ["keystore.changed"]


@needs_server
def test_a_commit_that_others_hold_up_is_busy(pair, postgres, monkeypatch):
    """After a short wait, not for ever; nothing is changed."""
    from cardsign.keys.stores import postgres as module

    monkeypatch.setattr(module, "LOCK_PATIENCE", 50)
    before = pair.load()
    with postgres.connect(postgres.url(pair.url.query["options"][14:])) as rival:
        rival.autocommit = False
        rival.execute("LOCK TABLE cardsign_generation IN EXCLUSIVE MODE")
        fault = refusal(lambda: raw(pair, before))
        rival.rollback()

    assert fault.code == "file.busy"
    assert pair.load() == before


@needs_server
def test_a_commit_that_fails_at_its_end_leaves_nothing(pair, hand, monkeypatch):
    """One transaction: generation, keys, private keys and log."""
    from cardsign.keys.stores import postgres as module

    before = (pair.load(), pair.read_audit(), hand("SELECT count(*) FROM cardsign_private"))

    def killed(*arguments: Any, **named: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "write_lines", killed)
    with pytest.raises(KeyboardInterrupt):
        pair.apply(lifecycle.revoke, pair.state.keys[0].kid, reason="ceased", now=after(1))

    after_it = (pair.load(), pair.read_audit(), hand("SELECT count(*) FROM cardsign_private"))
    assert after_it == before


@needs_server
@pytest.mark.parametrize(
    "statement",
    [
        pytest.param("UPDATE cardsign_audit SET line = ''", id="an edited line of the log"),
        pytest.param("DELETE FROM cardsign_audit WHERE seq = 2", id="a line that is cut out"),
        pytest.param("TRUNCATE cardsign_audit", id="a log that is emptied"),
        pytest.param("INSERT INTO cardsign_audit VALUES (1, 'x')", id="a second first line"),
        pytest.param("UPDATE cardsign_generation SET generation = 0", id="a lowered generation"),
        pytest.param("DELETE FROM cardsign_generation", id="generations that are removed"),
        pytest.param("INSERT INTO cardsign_generation VALUES (9, 8, '{}')", id="a gap"),
        pytest.param("INSERT INTO cardsign_generation VALUES (9, 2, '{}')", id="a leap"),
        pytest.param(
            "INSERT INTO cardsign_generation VALUES (3, 2, '{\"keys\": []}')",
            id="keys that are forgotten",
        ),
        pytest.param(
            "INSERT INTO cardsign_generation SELECT 3, 2, replace(state, 'prepublished\"', "
            "'active\"') FROM cardsign_generation WHERE generation = 2",
            id="a second active key",
        ),
        pytest.param(
            "INSERT INTO cardsign_generation SELECT 3, 2, regexp_replace(state, "
            '\'"kid": "[^"]*"\', \'"kid": "x"\', \'g\') FROM cardsign_generation '
            "WHERE generation = 2",
            id="keys under another name",
        ),
        pytest.param("INSERT INTO cardsign_store VALUES (false, 2)", id="two"),
        pytest.param("INSERT INTO cardsign_private VALUES ('x', '')", id="a half of no key"),
        pytest.param("INSERT INTO cardsign_keyset VALUES (1, 1, '')", id="a second keyset 1.1"),
        pytest.param("UPDATE cardsign_keyset SET statement = ''", id="an edited keyset"),
        pytest.param("DELETE FROM cardsign_keyset", id="a keyset that is removed"),
        pytest.param("INSERT INTO cardsign_keyset VALUES (1, 0, '')", id="a keyset 1.0"),
        pytest.param("INSERT INTO cardsign_release VALUES (1, '')", id="a second release 1"),
        pytest.param("UPDATE cardsign_release SET seq = 2", id="a release that is renumbered"),
        pytest.param("TRUNCATE cardsign_release", id="releases that are removed"),
        pytest.param(
            "INSERT INTO cardsign_release VALUES (2, repeat('x', 1048576)::bytea)",
            id="a release that no verifier would read",
        ),
    ],
)
def test_the_database_refuses(statement, pair, hand):
    """For every user and every client."""
    import psycopg

    pair.add_statement("keysets", (1, 1), b"any")
    pair.add_statement("releases", (1,), b"any")
    before = everything(pair)

    with pytest.raises(psycopg.Error):
        hand(statement)

    assert everything(pair) == before


@needs_server
@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("UPDATE cardsign_store SET layout = 3", "keystore.newer_format"),
        ("UPDATE cardsign_store SET layout = 0", "keystore.corrupt"),
        ("DELETE FROM cardsign_store", "keystore.corrupt"),
        ("ALTER TABLE cardsign_store DROP COLUMN layout", "keystore.corrupt"),
        ("ALTER TABLE cardsign_generation DROP COLUMN state", "keystore.corrupt"),
        ("DROP TABLE cardsign_store", "keystore.missing"),
    ],
)
def test_what_somebody_made_of_the_tables_is_told(statement, code, pair, hand):
    """And nothing is added to it."""
    hand(statement)

    assert refusal(pair.again).code == code
    assert refusal(lambda: pair.apply(lifecycle.withdraw, "x", now=NOON)).code == code


UNGUARDED = "ALTER TABLE cardsign_generation DISABLE TRIGGER USER"


@needs_server
@pytest.mark.parametrize(
    ("edit", "code"),
    [
        ("replace(state, '\"ES256\"', '\"ES512\"')", "keystore.corrupt"),
        ("replace(state, '\"card\"', '\"release\"')", "keystore.audit_broken"),
        ("replace(state, '{', '{\"a\": 1, \"a\": 2,')", "keystore.corrupt"),
        ("state || '}'", "keystore.corrupt"),
    ],
    ids=["an algorithm that there is not", "another role", "a member twice", "more after it"],
)
def test_a_state_that_was_edited_is_refused(edit, code, pair, hand):
    """By the owner of the tables: it is read as strictly as a file, and held against its log."""
    assert pair.again().state == pair.state

    hand(UNGUARDED, f"UPDATE cardsign_generation SET state = {edit} WHERE generation = 2")

    assert refusal(pair.again).code == code


@needs_server
def test_the_database_refuses_a_state_without_a_key_of_before(pair):
    """Keys are never forgotten; the twin commits the same state with all of them."""
    state = pair.load()

    fault = refusal(lambda: raw(pair, replace(state, keys=state.keys[:1])))

    assert (fault.code, pair.load()) == ("keystore.corrupt", state)
    assert "a key of the state before is gone" in fault.message
    assert raw(pair, state).generation == state.generation + 1


@needs_server
def test_where_no_store_was_made_it_is_missing(postgres):
    """An empty schema, or none."""
    for url in (postgres.new_url(), postgres.url("nobody_made_it")):
        fault = refusal(lambda url=url: open_store(parse_database_url(url)))
        assert fault.code == "keystore.missing"
        assert fault.message == "there is no key store here"


@needs_server
def test_no_store_is_made_in_a_schema_that_is_not_there(postgres):
    """Nor in another one instead."""
    url = parse_database_url(postgres.url("nobody_made_it"))

    assert refusal(lambda: create_store(url)).code == "keystore.missing"


@needs_server
def test_a_role_without_rights_is_told(pair, postgres, hand):
    """The server says which right is wanting."""
    hand("DROP ROLE IF EXISTS reader", f"CREATE ROLE reader LOGIN PASSWORD '{SECRET}'")
    url = pair.url
    poor = parse_database_url(
        f"postgresql://reader:{SECRET}@{url.host}:{url.port}/{url.database}"
        f"?options={url.query['options'].replace('=', '%3D')}"
    )
    schema = url.query["options"][14:]
    hand(f"GRANT USAGE ON SCHEMA {schema} TO reader")

    fault = refusal(lambda: open_store(poor))
    hand(f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO reader")
    readable = open_store(poor)

    assert fault.code == "keystore.unreachable"
    assert "permission denied" in fault.message
    assert readable.state == pair.state
    assert refusal(lambda: raw(readable, pair.state)).code == "keystore.unreachable"
    hand(f"REVOKE ALL ON ALL TABLES IN SCHEMA {schema} FROM reader")
    hand(f"REVOKE ALL ON SCHEMA {schema} FROM reader", "DROP ROLE reader")


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
            lambda server: server.url(password=SECRET) + "?sslmode=require", id="no TLS there"
        ),
    ],
)
def test_a_database_that_cannot_be_had_is_unreachable(spoil, postgres, caplog):
    """One line that says why, and in no form the password."""
    caplog.set_level(logging.DEBUG)
    url = spoil(postgres)
    place = parse_database_url(url)

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
    fault = refusal(lambda: raw(pair, replace(pair.load(), generation=7)))
    trace = "".join(traceback.format_exception(fault))
    output = capfd.readouterr()

    everything = [repr(again), repr(again.state), trace, caplog.text, output.out, output.err]
    assert repr(again) == f"PostgresStore({pair.url.shown!r})"
    assert not [text for text in everything if postgres.password in text]


@needs_server
def test_what_was_written_is_what_is_read(pair):
    """To the last character, also one that the database knows of in no text."""
    pair.record_publication(published(NOON, ["\u0000", "\u00e9"]), now=NOON)

    assert pair.again().state == pair.state
