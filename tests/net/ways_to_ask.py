"""The three ways in which this library asks, made alike, for tests that hold all to a rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import anyio
import httpx

from cardsign.errors import FetchFailed
from cardsign.net.fetch import FetchSettings, fetch_document
from cardsign.net.guarded import GuardedTransport, GuardRefused
from tests.net.peers import PATIENCE

#: Seconds for askers who meet somebody who never comes to an end.
SOON = 0.3


@dataclass(frozen=True)
class Refused:
    """A refusal, whoever made it."""

    code: str
    words: str


def by_fetch(url: str, settings: FetchSettings, seconds: float, max_bytes: int) -> bytes:
    limited = replace(settings, total_timeout=seconds, max_bytes=max_bytes)
    return fetch_document(url, limited).untrusted_body


def by_client(url: str, settings: FetchSettings, seconds: float, max_bytes: int) -> bytes:
    return called("GET", url, settings, total_timeout=seconds, max_bytes=max_bytes).content


def by_async_client(url: str, settings: FetchSettings, seconds: float, max_bytes: int) -> bytes:
    return acalled("GET", url, settings, total_timeout=seconds, max_bytes=max_bytes).content


Ask = Callable[[str, FetchSettings, float, int], bytes]
ASKERS: dict[str, Ask] = {
    "fetch": by_fetch,
    "an httpx client": by_client,
    "an async httpx client": by_async_client,
}


def answer_or_refusal(
    ask: Ask,
    url: str,
    settings: FetchSettings,
    *,
    seconds: float = PATIENCE,
    max_bytes: int = 2**18,
) -> bytes | Refused:
    """What came of it; any error but our own ones ends the test."""
    try:
        return ask(url, settings, seconds, max_bytes)
    except FetchFailed as failure:
        return Refused(failure.code, f"{failure} {failure.hint}")
    except GuardRefused as refused:
        return _checked(refused)


def _checked(refused: GuardRefused) -> Refused:
    """A refusal that users of httpx catch as such, and whose cause is our own."""
    cause = refused.__cause__
    assert isinstance(cause, FetchFailed)
    return Refused(cause.code, f"{refused} {cause.hint}")


def called(method: str, url: str, settings: FetchSettings, **options: Any) -> httpx.Response:
    """One call by a client who follows redirects and believes the environment."""
    transport, request = _split(settings, options)
    with httpx.Client(transport=transport, follow_redirects=True, timeout=None) as client:
        return client.request(method, url, **request)


def acalled(method: str, url: str, settings: FetchSettings, **options: Any) -> httpx.Response:
    """The same in an event loop."""
    transport, request = _split(settings, options)

    async def call() -> httpx.Response:
        async with httpx.AsyncClient(
            transport=transport, follow_redirects=True, timeout=None
        ) as client:
            return await client.request(method, url, **request)

    return anyio.run(call)


Call = Callable[..., httpx.Response]
CALLERS: dict[str, Call] = {"sync": called, "async": acalled}


def _split(
    settings: FetchSettings, options: dict[str, Any]
) -> tuple[GuardedTransport, dict[str, Any]]:
    """The transport, and what is for the request."""
    limits = {name: options.pop(name) for name in ("max_bytes", "total_timeout") if name in options}
    origins = options.pop("origins", None)
    return GuardedTransport(replace(settings, **limits), origins=origins), options
