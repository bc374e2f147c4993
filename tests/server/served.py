"""One server under test."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from werkzeug.test import Client

from cardsign.publish.generation import Generation
from cardsign.server.app import create_app
from cardsign.server.settings import ServerSettings
from cardsign.server.site import Publications
from tests.publish.publications import NOW


def publications_of(client: Client) -> Publications:
    """What the application of a client serves."""
    served: Publications = client.application.extensions["cardsign"]  # type: ignore[attr-defined]
    return served


def serve(
    directory: Path,
    settings: ServerSettings | None = None,
    *,
    now: Callable[[], float] = time.time,
) -> Client:
    """A client of the application; `look` takes up what was published, and no thread does."""
    app = create_app(Publications(directory, settings or ServerSettings(), now=now))
    app.testing = True
    app.extensions["cardsign"].start_watching = lambda: None
    return Client(app)


def look(client: Client) -> None:
    """Take up what was published, at once."""
    publications_of(client).look_at_all()


def write_tokens(folder: Path, *lines: str, name: str = "tokens") -> Path:
    """A token file with these lines."""
    (folder / name).write_text("".join(f"{line}\n" for line in lines))
    return folder / name


def fields(answer: Any) -> dict[str, str]:
    """The headers of an answer, but for the date of sending, which a clock decides."""
    return {name: value for name, value in answer.headers if name != "Date"}


@contextmanager
def hearing(logger: str = "cardsign.server") -> Iterator[list[str]]:
    """What is logged meanwhile, as `cardsign serve` writes it; refusals of callers apart."""
    lines: list[str] = []

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            word = "warning: " if record.levelno == logging.WARNING else ""
            if record.name != "cardsign.server.a2a" or record.levelno > logging.INFO:
                lines.append(word + record.getMessage())

    handler, target = Lines(), logging.getLogger(logger)
    before = target.level
    target.addHandler(handler)
    target.setLevel(logging.INFO)
    try:
        yield lines
    finally:
        target.removeHandler(handler)
        target.setLevel(before)


class Served:
    """A server, and what it says from then on.

    Attributes:
        client: werkzeug's test client.
        ahead: Seconds by which its clock is.
    """

    lines: ClassVar[list[str]]  # of the fixture `log`

    def __init__(
        self,
        directory: Path,
        settings: ServerSettings | None = None,
        now: Callable[[], float] = NOW.timestamp,
    ) -> None:
        self.ahead, self._begin = 0.0, len(self.lines)
        self.client = serve(directory, settings, now=lambda: now() + self.ahead)

    @property
    def log(self) -> list[str]:
        """What it said to the operator."""
        return self.lines[self._begin :]

    def look(self) -> None:
        """Take up what was published."""
        look(self.client)

    def status(self, path: str) -> int:
        """What a GET answers with."""
        return self.client.get(path).status_code

    def name(self, path: str) -> str:
        """Whose card is at a path."""
        name: str = json.loads(self.client.get(path).data)["name"]
        return name


@dataclass
class Site:
    """One server under test.

    Attributes:
        client: werkzeug's test client.
        directory: What it serves.
        generation: What was published last.
        tokens: A token by audience.
        seconds: What the server's clock shows.
        settings: Its settings.
        log: What it said to the operator.
    """

    client: Client
    directory: Path
    generation: Generation
    tokens: dict[str, str]
    seconds: list[float]
    settings: ServerSettings
    log: list[str] = field(default_factory=list)

    def bearer(self, audience: str = "staff") -> dict[str, str]:
        """The header that opens the card of an audience."""
        return {"Authorization": f"Bearer {self.tokens[audience]}"}

    def wait(self) -> None:
        """Let the time pass after which the server has taken up what was published."""
        self.seconds[0] += 1.5
        look(self.client)
