"""The command line, run in this process as a user would: arguments in, status and streams out."""

from __future__ import annotations

import functools
import io
import json
import os
import re
import ssl
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
import pytest

from cardsign.cli.main import command_line, run_words
from cardsign.errors import FetchFailed
from cardsign.jose.keys import PrivateKey
from cardsign.keys.store import FolderStore, create_store
from cardsign.net.fetch import FetchSettings, OtherStatus
from cardsign.trust.walk import FetchResult
from tests.support import LAX, stop_clock


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[datetime], None]:
    """Set the clock of every command."""
    return functools.partial(stop_clock, monkeypatch)


PASSPHRASE = "correct horse battery staple"
XDG = ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    status: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        """Standard output as text."""
        return self.out.decode()

    @property
    def json(self) -> Any:
        """Standard output as one JSON value."""
        return json.loads(self.out)


def run(ended: Ended) -> Ended:
    """What must have gone well."""
    assert ended.status == 0, ended.err
    return ended


Cardsign = Callable[..., Ended]


def parse(words: Sequence[str]) -> str:
    """The path of the command that some words call; an exception if they cannot be parsed."""
    context = command_line.make_context("cardsign", list(words))
    while isinstance(context.command, click.Group):
        rest = [*context._protected_args, *context.args]
        name, command, left = context.command.resolve_command(context, rest)
        assert name is not None
        assert command is not None
        context = command.make_context(name, left, parent=context)
    return context.command_path


class _Stream(io.TextIOWrapper):
    def __init__(self, data: bytes = b"", *, is_terminal: bool = False) -> None:
        super().__init__(io.BytesIO(data), encoding="utf-8", write_through=True)
        self.is_terminal = is_terminal

    def isatty(self) -> bool:
        return self.is_terminal

    def content(self) -> bytes:
        buffer = self.buffer
        assert isinstance(buffer, io.BytesIO)
        return buffer.getvalue()


@pytest.fixture
def cardsign(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cardsign:
    """Run a command in an empty folder with a passphrase, an empty home and no terminal."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CARDSIGN_PASSPHRASE", PASSPHRASE)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("CARDSIGN_KEYSTORE", "CARDSIGN_TRUST", *XDG):
        monkeypatch.delenv(name, raising=False)

    def command(
        *arguments: str | Path,
        stdin: bytes = b"",
        at_terminal: bool = False,
        **environment: str | None,
    ) -> Ended:
        out, err = _Stream(), _Stream(is_terminal=at_terminal)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "stdin", _Stream(stdin, is_terminal=at_terminal))
            patch.setattr(sys, "stdout", out)
            patch.setattr(sys, "stderr", err)
            for name, value in environment.items():
                patch.delenv(name, raising=False)
                if value is not None:
                    patch.setenv(name, value)
            words = [str(argument) for argument in arguments]
            status = run_words(words)
        return Ended(status, out.content(), err.content().decode())

    return command


@pytest.fixture
def keystore(cardsign: Cardsign, cheap: None, tmp_path: Path) -> FolderStore:
    """`./keys` with one active ES256 key, cheap to open."""
    store = create_store(tmp_path / "keys")
    store.add_key(
        PrivateKey.generate("ES256"), PASSPHRASE.encode(), now=datetime(2026, 11, 21, tzinfo=UTC)
    )
    return store


@pytest.fixture
def signed(cardsign: Cardsign, keystore: FolderStore, tmp_path: Path) -> Path:
    """`signed.json`, a lax card fully signed, with `jwks.json` beside it."""
    Path("card.json").write_text(json.dumps(LAX))
    assert cardsign("sign", "card.json", "-o", "signed.json").status == 0
    assert cardsign("keys", "jwks", "-o", "jwks.json").status == 0
    return tmp_path / "signed.json"


CHANGE = re.compile(r"(\S+) (?:serves (\S+)|fails with (\S+))")
VARIABLE = re.compile(r"([A-Z_]+)=(.*)|unset ([A-Z_]+)")
LATER = re.compile(r"\+(\d+)([dhm])")
UNITS = {"d": "days", "h": "hours", "m": "minutes"}


@dataclass
class World:
    """What a story changes beside its folder.

    Attributes:
        clock: Sets the time of all commands.
        variables: Sets the environment of all commands.
        sites: What answers at an origin or a URL: a folder, a file, or the code of a failure.
        now: The time that was set last.
    """

    clock: Callable[[datetime], None]
    variables: pytest.MonkeyPatch
    sites: dict[str, Path | str] = field(default_factory=dict)
    now: datetime = field(default_factory=lambda: datetime.now(UTC).replace(microsecond=0))

    def change(self, text: str) -> None:
        """Do what a line that begins with ``@`` says."""
        if site := CHANGE.fullmatch(text):
            url, place, code = site.groups()
            self.sites[url] = Path(place).resolve() if place else code
            return
        if variable := VARIABLE.fullmatch(text):
            name, value, unset = variable.groups()
            self.variables.delenv(unset) if unset else self.variables.setenv(name, value)
            return
        if not text:
            return
        later = LATER.fullmatch(text)
        if later:
            self.now += timedelta(**{UNITS[later[2]]: int(later[1])})
        else:
            self.now = datetime.fromisoformat(text)
        self.clock(self.now)

    def fetch(self, url: str, settings: FetchSettings, **conditions: object) -> FetchResult:
        """What a URL answers."""
        parts = urlsplit(url)
        place = self.sites.get(url, self.sites.get(f"{parts.scheme}://{parts.netloc}"))
        if isinstance(place, Path):
            file = place if url in self.sites else place / parts.path.lstrip("/")
            if file.is_file():
                return FetchResult(url, "found", file.read_bytes())
        if isinstance(place, str):
            raise FetchFailed(place, f"{url} did not answer")
        raise OtherStatus(url, 404)


@pytest.fixture
def world(clock: Callable[[datetime], None], monkeypatch: pytest.MonkeyPatch) -> World:
    """A world in which no URL answers yet."""
    world = World(clock, monkeypatch)
    programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    monkeypatch.setenv("PATH", programs)  # that of the shell has `cardsign`, too
    monkeypatch.setattr("os.fsync", lambda descriptor: None)  # no power fails here
    # No certificate is read, as nobody is asked.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    monkeypatch.setattr("cardsign.net.fetch.FetchSettings.tls_context", lambda settings: context)
    for module in ("net.fetch", "issuer.publishing"):
        monkeypatch.setattr(f"cardsign.{module}.fetch_document", world.fetch)
    return world
