"""Rule V4's second half: every interface of the verified payload stands where it may."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from cardsign.card.pointer import append
from cardsign.card.schema import fold
from cardsign.card.strictjson import Json
from cardsign.errors import CardRefused
from cardsign.trust.origins import Origin, interface_origin

# Members that list endpoints, folded: a lenient reader takes `URL` or `SupportedInterfaces` too.
_LISTS: Final = ("supportedinterfaces", "additionalinterfaces")
_BINDINGS: Final = ("protocolbinding", "transport")


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
    """Every endpoint that some reader may find: its pointer, url and binding."""
    for name, value in payload.items():
        folded = fold(name)
        if value is None:
            continue
        if folded == "url":
            yield append("", name), value, str(payload.get("preferredTransport", ""))
        elif folded in _LISTS:
            if not isinstance(value, list):
                raise CardRefused(
                    "card.interface_url", "expected a list of interfaces", path=append("", name)
                )
            for index, one in enumerate(value):
                yield _interface(one, append(append("", name), str(index)))


def _interface(value: Json, pointer: str) -> tuple[str, Json, str]:
    members = (
        {fold(name): (name, v) for name, v in value.items()} if isinstance(value, dict) else {}
    )
    spelled, url = members.get("url", ("url", None))
    binding = next((members[name][1] for name in _BINDINGS if name in members), "")
    return append(pointer, spelled), url, str(binding)
