"""The three ways in which this library asks, for tests that hold all of them to a rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import httpx
import pytest

from cardsign.errors import FetchFailed
from cardsign.net.fetch import FetchSettings, fetch_document
from cardsign.net.guarded import GuardedTransport, GuardRefused

#: Seconds for askers who meet somebody who never comes to an end.
SOON = 0.3


def called(
    method: str, url: str, settings: FetchSettings, *, origins: Any = None, **request: Any
) -> httpx.Response:
    """One call by a client who follows redirects and believes the environment."""
    transport = GuardedTransport(settings, origins=origins)
    with httpx.Client(transport=transport, follow_redirects=True, timeout=None) as client:
        return client.request(method, url, **request)


def acalled(
    method: str, url: str, settings: FetchSettings, *, origins: Any = None, **request: Any
) -> httpx.Response:
    """The same in an event loop."""

    async def call() -> httpx.Response:
        transport = GuardedTransport(settings, origins=origins)
        client = httpx.AsyncClient(transport=transport, follow_redirects=True, timeout=None)
        async with client:
            return await client.request(method, url, **request)

    return anyio.run(call)


Call = Callable[..., httpx.Response]
CALLERS: dict[str, Call] = {"sync": called, "async": acalled}

Ask = Callable[[str, FetchSettings], bytes]
ASKERS: dict[str, Ask] = {
    "fetch": lambda url, settings: fetch_document(url, settings).untrusted_body,
    "an httpx client": lambda url, settings: called("GET", url, settings).content,
    "an async httpx client": lambda url, settings: acalled("GET", url, settings).content,
}


def refusal_of(ask: Callable[..., object], *args: Any, **options: Any) -> FetchFailed:
    """The error in which a request ends; users of httpx catch it as theirs, with ours as cause."""
    with pytest.raises((FetchFailed, GuardRefused)) as caught:
        ask(*args, **options)
    failure = caught.value
    if isinstance(failure, GuardRefused):
        assert failure.request.url.host
        assert str(failure) == str(failure.__cause__)
        failure = failure.__cause__  # type: ignore[assignment]
    assert isinstance(failure, FetchFailed)
    return failure
