"""Rule V4's second half: every interface of the verified payload stands where it may."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from cardsign.card.schema import fold
from cardsign.card.strictjson import Json, append
from cardsign.errors import CardRefused
from cardsign.urls import Origin, Place, Url, interface_url, may_stand_at

# Members that list endpoints, folded: a lenient reader takes `URL` or `SupportedInterfaces` too.
_LISTS: Final = ("supportedinterfaces", "additionalinterfaces")
_BINDINGS: Final = ("protocolbinding", "transport")


def check_interfaces(
    payload: Mapping[str, Json],
    places: tuple[Place, ...] | None,
    origins: tuple[Origin, ...] | None = None,
    reserved: tuple[Place, ...] = (),
) -> None:
    """Hold every endpoint of a payload, of both generations, against where it may stand.

    Args:
        payload: The object that the signature covers.
        places: Where the verifier's policy allows interfaces; None for anywhere.
        origins: Where the issuer's keyset statement does, besides; None without a statement.
            Where both are None, an endpoint must be a non-empty string and its grammar is not
            looked at.
        reserved: Where other issuers' interfaces may stand: not here, where that is narrower.

    Raises:
        CardRefused: ``card.no_interface`` (there must be one), ``card.interface_url``,
            ``card.origin_mismatch``.
    """
    found = False
    for pointer, untrusted_url, binding in _endpoints(payload):
        found = True
        if not isinstance(untrusted_url, str) or not untrusted_url:
            raise CardRefused(
                "card.interface_url", "an interface's url is not a non-empty string", path=pointer
            )
        if places is None and origins is None:
            continue
        try:
            url = interface_url(untrusted_url, binding)
        except CardRefused as refusal:
            raise CardRefused(refusal.code, refusal.message, path=pointer) from refusal
        if places is not None and not may_stand_at(url, places, reserved):
            raise _outside(url, places, "the policy's", pointer)
        if origins is not None and url.origin not in origins:
            raise _outside(url, origins, "the keyset statement's", pointer)
    if not found:
        raise CardRefused("card.no_interface", "the verified payload names no endpoint")


def _outside(url: Url, allowed: Iterable[object], whose: str, pointer: str) -> CardRefused:
    return CardRefused(
        "card.origin_mismatch",
        f"the interface at {url} lies outside {whose} {', '.join(map(str, allowed))}",
        path=pointer,
    )


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
