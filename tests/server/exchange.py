"""One request and its answer, as granian hands both to an application of RSGI."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from types import SimpleNamespace
from typing import Any

from cardsign.server.run import RsgiApplication


class Fields:
    """Headers of a request, as granian gives them."""

    def __init__(self, *fields: tuple[str, str]) -> None:
        self._fields = fields

    def items(self) -> list[tuple[str, str]]:
        return list(self._fields)

    def __contains__(self, name: str) -> bool:
        return name in dict(self._fields)

    def get_all(self, name: str) -> list[str]:
        return [value for each, value in self._fields if each == name]


class Exchange:
    """A request whose body comes in pieces; None among them is a silence without end."""

    def __init__(self, *pieces: bytes | None) -> None:
        self._pieces = pieces
        self.status = 0
        self.headers: list[tuple[str, str]] = []
        self.body = b""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            if piece is None:
                await asyncio.Event().wait()
            assert piece is not None
            yield piece

    def response_bytes(self, status: int, headers: Sequence[tuple[str, str]], body: bytes) -> None:
        assert not self.status
        self.status, self.headers, self.body = status, list(headers), body


def scope_of(**changes: Any) -> SimpleNamespace:
    """A request as granian gives it."""
    given = {
        "method": "POST",
        "path": "/a2a",
        "query_string": "",
        "client": "192.0.2.1:50000",
        "authority": None,
        "headers": Fields(),
    }
    return SimpleNamespace(**given | changes)


def asked(application: RsgiApplication, *pieces: bytes | None, **scope: Any) -> Exchange:
    """Ask once; what was answered."""
    exchange = Exchange(*pieces)
    asyncio.run(application.__rsgi__(scope_of(**scope), exchange))
    return exchange
