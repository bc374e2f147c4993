"""One server under test."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from werkzeug.test import Client

from cardsign.publish.generation import Generation
from cardsign.server.app import create_app
from cardsign.server.settings import ServerSettings
from cardsign.server.site import Publications


def publications_of(client: Client) -> Publications:
    """What the application of a client serves."""
    served: Publications = client.application.extensions["cardsign"]  # type: ignore[attr-defined]
    return served


def serve(
    directory: Path, settings: ServerSettings | None = None, *, now: Callable[[], float] = time.time
) -> Client:
    """A client of the application; `look` takes up what was published, and no thread does."""
    app = create_app(Publications(directory, settings or ServerSettings(), now=now))
    app.testing = True
    app.extensions["cardsign"].start_watching = lambda: None
    return Client(app, use_cookies=False)


def look(client: Client) -> None:
    """Take up what was published, at once."""
    publications_of(client).look_at_all()


def write_tokens(folder: Path, *lines: str, name: str = "tokens") -> Path:
    """A token file with these lines."""
    (folder / name).write_text("".join(f"{line}\n" for line in lines))
    return folder / name


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


@dataclass
class Site:
    """One server under test, at the time of its publication.

    Attributes:
        client: werkzeug's test client.
        directory: What it serves.
        generation: What was published.
        token: Of the staff.
        settings: Its settings.
        log: What it said to the operator.
    """

    client: Client
    directory: Path
    generation: Generation
    token: str
    settings: ServerSettings
    log: list[str]

    def bearer(self) -> dict[str, str]:
        """The header that opens the card of the staff."""
        return {"Authorization": f"Bearer {self.token}"}


# ------------------------------------------------------------------ agents behind the cards

Messages = list[dict[str, Any]]
AGENTS_OWN = 202  # what the agent behind the cards answers, and nobody else


def agent(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    """An agent that says what came to it."""
    start_response(f"{AGENTS_OWN} ACCEPTED", [])
    return [environ["REQUEST_METHOD"].encode(), b" ", environ["wsgi.input"].read()]


async def async_agent(scope: Any, receive: Any, send: Any) -> None:
    """The same under ASGI, a message for each that came."""
    said, more = [f"{scope.get('method', scope['type'])} ".encode()], scope["type"] == "http"
    while more:
        message = await receive()
        said.append(message.get("body", b"") if message["type"] == "http.request" else b"gone")
        more = message.get("more_body", False)
    await send({"type": "http.response.start", "status": AGENTS_OWN, "headers": []})
    for text in said:
        await send({"type": "http.response.body", "body": text, "more_body": True})


async def exchange(app: Any, scope: dict[str, Any], *messages: dict[str, Any]) -> Messages:
    """What an application of ASGI sends to who sends these messages, and then nothing more."""
    waiting, sent = iter(messages), Messages()

    async def receive() -> dict[str, Any]:
        for message in waiting:
            return message
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return sent
