"""The endpoints at which a peer's verified card says that it can be called.

Read from the payload of a trusted card and from nothing else: rule V4 has held every one of
them against the places of the policy and the issuer's statement.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal, cast
from urllib.parse import quote

from cardsign.card.interfaces import Interface, current_interfaces
from cardsign.card.values import Json
from cardsign.errors import CallFailed, CardRefused
from cardsign.urls import Url, parse_url

A2AVersion = Literal["1.0", "0.3", "0.2"]

JSONRPC: Final = "JSONRPC"
HTTP_JSON: Final = "HTTP+JSON"
#: What is spoken here; gRPC is not.
BINDINGS: Final = (JSONRPC, HTTP_JSON)

MAX_TENANT: Final = 256  # characters; it goes into every request
# HTTP+JSON puts the tenant into the path: it must be one segment of it, which leads nowhere.
_TENANT: Final = re.compile(rf"(?!\.\.?\Z)[^/\\?#%]{{0,{MAX_TENANT}}}")

A2A_VERSIONS: Final[tuple[A2AVersion, ...]] = ("1.0", "0.3", "0.2")

_VERSION: Final = re.compile(r"(0\.2|0\.3|1)(?:\.[0-9]+)*")
_BY_VERSION: Final[dict[str, A2AVersion]] = {"0.2": "0.2", "0.3": "0.3", "1": "1.0"}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One interface that we can speak to.

    Attributes:
        url: Where.
        binding: ``JSONRPC`` or ``HTTP+JSON``.
        a2a_version: Which A2A it speaks; 0.2 and 0.3 differ in the place of the extended card.
        tenant: To be named in every request (A2A 1.0 8.3.2); empty where there is none.
        version: ``protocolVersion`` as the card has it.
    """

    url: Url
    binding: str
    a2a_version: A2AVersion
    tenant: str
    version: str

    def below(self, path: str) -> Url:
        """Return a URL below this one; its query, if it has any, is left out."""
        return replace(self.url, path=self.url.path.rstrip("/") + path, query="")

    def for_messages(self) -> Url:
        """Return where a message is sent."""
        if self.binding == JSONRPC:
            return self.url
        if self.a2a_version != "1.0":
            return self.below("/v1/message:send")
        return self.below(f"{self.tenant_path}/message:send")

    @property
    def tenant_path(self) -> str:
        """What HTTP+JSON puts before its own paths."""
        return f"/{quote(self.tenant, safe='')}" if self.tenant else ""


def endpoints_of(
    payload: Mapping[str, object], spoken: Collection[A2AVersion] = A2A_VERSIONS
) -> tuple[Endpoint, ...]:
    """Return every endpoint of a verified payload that we can speak to, in the card's order.

    Those of ``supportedInterfaces`` (A2A 1.0 4.4.6), or else of ``url`` and
    ``additionalInterfaces`` (A2A 0.3 5.5); other bindings and versions are left out, and so is a
    tenant that is not one plain segment of a path.

    Args:
        payload: Of a trusted card.
        spoken: The generations of A2A that the caller speaks.

    Raises:
        CallFailed: ``call.no_interface``: none is left.
    """
    if isinstance(spoken, str):  # which would be a collection of its characters
        raise TypeError(f"give a list of versions: endpoints_of(payload, [{spoken!r}])")
    interfaces = current_interfaces(cast(Mapping[str, Json], payload))
    readable = [endpoint for endpoint in map(_readable, interfaces) if endpoint is not None]
    fitting = tuple(endpoint for endpoint in readable if endpoint.a2a_version in spoken)
    if not fitting:
        older = ", ".join(sorted({endpoint.a2a_version for endpoint in readable}))
        message = (
            f"the agent speaks A2A {older}" if older else "no endpoint of the card can be called"
        )
        spoken_here = f"A2A {', '.join(spoken)} over {' or '.join(BINDINGS)}"
        raise CallFailed("call.no_interface", f"{message}; {spoken_here} is needed here")
    return fitting


def _readable(interface: Interface) -> Endpoint | None:
    """An interface as an endpoint; None where it is none that we can speak to."""
    silent = "1.0" if interface.written_in == "1.0" else "0.3.0"
    match (interface.url, interface.binding, interface.version or silent, interface.tenant or ""):
        case (str(url), str(binding), str(version), str(tenant)):
            spoken = _VERSION.fullmatch(version)
            is_plain = tenant.isprintable() and _TENANT.fullmatch(tenant)
            if spoken is None or binding not in BINDINGS or not is_plain:
                return None
            try:
                where = parse_url(url)
            except CardRefused:  # only where no policy bounds the places was it not held before
                return None
            return Endpoint(where, binding, _BY_VERSION[spoken[1]], tenant, version)
    return None
