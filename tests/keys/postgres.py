"""A real PostgreSQL server of our own, on a loopback port, which asks for a password."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.server.programs import ended, free_port, wait_until

ACCOUNT = "postgres"  # what the server runs as where we are root, which it refuses to be
SETTINGS = ("fsync=off", "max_connections=40", "shared_buffers=16MB")


@dataclass(frozen=True, slots=True)
class Server:
    """A running server; stores go each into a schema of its own."""

    port: int
    password: str

    def url(self, schema: str | None = None, database: str = "postgres") -> str:
        """The URL of a store; the password is in the environment."""
        options = f"?options=-csearch_path%3D{schema}" if schema else ""
        return f"postgresql://cardsign@127.0.0.1:{self.port}/{database}{options}"

    def new_url(self) -> str:
        """The URL of a schema that nobody has used."""
        schema = f"store_{secrets.token_hex(8)}"
        self.execute(None, f"CREATE SCHEMA {schema}")
        return self.url(schema)

    def connect(self, url: str | None = None) -> Any:
        """A connection as a person would have one, with psycopg."""
        import psycopg

        return psycopg.connect(url or self.url(), autocommit=True)

    def execute(self, url: str | None, *statements: str) -> list[Any]:
        """The rows of the last of the statements, run by a person's hand."""
        with self.connect(url) as connection:
            for statement in statements:
                cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []


def programs() -> Path | None:
    """Where `initdb` and `postgres` are: on the path, or where Debian puts them."""
    found = shutil.which("initdb")
    places = [Path(found).resolve().parent] if found else []
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((place for place in places if (place / "initdb").exists()), None)


def is_here() -> bool:
    """Whether server and libraries are installed."""
    return bool(programs() and find_spec("psycopg"))


@contextmanager
def running() -> Iterator[Server]:
    """Start a server, wait until it answers, and end it."""
    place = programs()
    assert place is not None
    account: dict[str, Any] = {}
    folder = Path(tempfile.mkdtemp(prefix="cardsign-pg-"))  # of few characters: for a socket
    if os.getuid() == 0:
        account = {"user": ACCOUNT, "group": pwd.getpwnam(ACCOUNT).pw_gid, "extra_groups": ()}
        shutil.chown(folder, ACCOUNT)
    account["cwd"] = folder
    port, password, log = free_port(), secrets.token_hex(16), folder / "server.log"
    try:
        _initialise(place, folder, password, account)
        command = [place / "postgres", "-D", folder / "data", "-p", str(port), "-h", "127.0.0.1"]
        command += ["-k", folder, *(part for setting in SETTINGS for part in ("-c", setting))]
        with log.open("wb") as sink:
            process = subprocess.Popen(
                command, stdout=sink, stderr=sink, start_new_session=True, **account
            )
        with ended(process, signal.SIGINT):  # a fast shutdown: nobody's work is waited for
            wait_until(lambda: b"ready to accept connections" in log.read_bytes())
            with patch.dict(os.environ, PGPASSWORD=password):
                yield Server(port, password)
    finally:
        shutil.rmtree(folder)


def _initialise(place: Path, folder: Path, password: str, account: dict[str, Any]) -> None:
    secret = folder / "password"
    secret.write_text(password)
    if "user" in account:
        shutil.chown(secret, ACCOUNT)
    command = [place / "initdb", "-D", folder / "data", "-U", "cardsign", "-A", "scram-sha-256"]
    command += [f"--pwfile={secret}", "--encoding=UTF8", "--locale=C", "--no-sync"]
    subprocess.run(command, check=True, capture_output=True, **account)
