"""Rule V4's second half: every interface of the verified payload stands where it may."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cardsign.card.strictjson import Json
from cardsign.errors import CardRefused
from cardsign.trust.origins import Origin, interface_origin

# Where a payload may name endpoints, and which member names the transport beside each url.
_LISTS = (
    ("supportedInterfaces", ("protocolBinding", "protocol_binding")),
    ("supported_interfaces", ("protocolBinding", "protocol_binding")),
    ("additionalInterfaces", ("transport",)),
)


def check_interfaces(payload: Mapping[str, Json], origins: tuple[Origin, ...] | None) -> None:
    """Hold every endpoint of a payload, of both generations, against the allowed origins.

    Args:
        payload: The object that the signature covers.
        origins: The origins allowed, exactly; None for anywhere. Without origins to compare
            with, an endpoint must be a non-empty string and its grammar is not looked at.

    Raises:
        CardRefused: ``card.no_interface`` (there must be one), ``card.interface_url``,
            ``card.origin_mismatch``.
    """
    found = False
    for pointer, url, binding in _endpoints(payload):
        found = True
        if not isinstance(url, str) or not url:
            raise CardRefused(
                "card.interface_url", "an interface's url is not a non-empty string", path=pointer
            )
        if origins is None:
            continue
        try:
            origin = interface_origin(url, binding)
        except CardRefused as refusal:
            raise CardRefused(refusal.code, refusal.message, path=pointer) from refusal
        if origin not in origins:
            allowed = ", ".join(str(one) for one in origins)
            raise CardRefused(
                "card.origin_mismatch",
                f"the interface at {origin} lies outside {allowed}",
                path=pointer,
            )
    if not found:
        raise CardRefused("card.no_interface", "the verified payload names no endpoint")


def _endpoints(payload: Mapping[str, Json]) -> Iterator[tuple[str, Json, str]]:
    if payload.get("url") is not None:
        yield "/url", payload["url"], str(payload.get("preferredTransport", ""))
    for member, binding_names in _LISTS:
        interfaces = payload.get(member)
        if not isinstance(interfaces, list):
            continue
        for index, one in enumerate(interfaces):
            entry = one if isinstance(one, dict) else {}
            binding = next((entry[name] for name in binding_names if name in entry), "")
            yield f"/{member}/{index}/url", entry.get("url"), str(binding)
