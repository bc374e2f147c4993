"""Row (ii) of the closed table: does a 0.3 member say what the covered 1.0 data says?

A document for both generations repeats its 1.0 data in 0.3 members, which the lossy profiles
do not cover. Such a member is harmless exactly if it equals what the *payload* gives, never
what the document gives: the document's 1.0 data may itself be uncovered.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from cardsign.card.canonical import Payload, jcs
from cardsign.card.pointer import split
from cardsign.card.strictjson import Json

_CONNECTION: Final = frozenset({"url", "preferredTransport", "protocolVersion"})
_DEFAULT_TRANSPORT: Final = "JSONRPC"  # A2A 0.3.0 5.5: preferredTransport's default
_VERSION: Final = re.compile(r"(?P<minor>[0-9]+\.[0-9]+)(?:\.[0-9]+)?")

# 1.0 wrapper -> (0.3 `type`, members that the 0.3 form names differently)
_FLAT: Final[dict[str, tuple[str, dict[str, str]]]] = {
    "apiKeySecurityScheme": ("apiKey", {"location": "in"}),
    "httpAuthSecurityScheme": ("http", {}),
    "oauth2SecurityScheme": ("oauth2", {}),
    "openIdConnectSecurityScheme": ("openIdConnect", {}),
    "mtlsSecurityScheme": ("mutualTLS", {}),
}


def says_the_same(
    pointer: str, value: Json, document: Mapping[str, Json], payload: Payload
) -> bool:
    """Whether the 0.3 member at `pointer` equals what the payload's 1.0 data gives.

    False for every member that A2A 0.3.0 does not define at that place.
    """
    tokens = split(pointer)
    match tokens:
        case [name] if name in _CONNECTION:
            return any(_same_connection(document, one) for one in _interfaces(payload))
        case ["additionalInterfaces"]:
            return isinstance(value, list) and _same_interfaces(value, payload)
        case ["supportsAuthenticatedExtendedCard"]:
            capabilities = payload.value.get("capabilities")
            flag = capabilities.get("extendedAgentCard") if isinstance(capabilities, dict) else None
            return isinstance(value, bool) and value is (flag is True)
        case ["security"]:
            return value == _requirements(payload.value)
        case ["skills", _, "security"]:
            skill = _at_destination(f"/skills/{tokens[1]}", payload)
            return isinstance(skill, dict) and value == _requirements(skill)
        case ["securitySchemes", _, member]:
            scheme = _at_destination(pointer.rpartition("/")[0], payload)
            flat = _flat_scheme(scheme)
            # Not `==`: to Python 1 is True, to JSON it is not.
            return flat is not None and member in flat and jcs(flat[member]) == jcs(value)
    return False


def _interfaces(payload: Payload) -> list[dict[str, Json]]:
    interfaces = payload.value.get("supportedInterfaces")
    return [i for i in interfaces if isinstance(i, dict)] if isinstance(interfaces, list) else []


def _is_0_3(interface: dict[str, Json]) -> bool:
    return str(interface.get("protocolVersion", "")).startswith("0.")


def _same_connection(document: Mapping[str, Json], interface: dict[str, Json]) -> bool:
    """One covered 0.x interface must give all three members, so they are judged as one."""
    if not _is_0_3(interface):
        return False
    version = interface.get("protocolVersion")
    defaults = {"preferredTransport": _DEFAULT_TRANSPORT, "protocolVersion": version}
    given = {name: document[name] for name in _CONNECTION if document.get(name) is not None}
    connection = {**defaults, **given}
    return (
        connection.get("url") == interface.get("url")
        and connection["preferredTransport"] == interface.get("protocolBinding")
        and _same_version(connection["protocolVersion"], version)
    )


def _same_version(one: Json, other: Json) -> bool:
    """0.3 and 0.3.0 are one version (A2A 1.0 3.6: the patch number does not count)."""
    matches = [_VERSION.fullmatch(v) for v in (one, other) if isinstance(v, str)]
    versions = [match["minor"] for match in matches if match]
    return len(versions) == 2 and versions[0] == versions[1]


def _same_interfaces(additional: list[Json], payload: Payload) -> bool:
    current = {
        jcs({"url": one.get("url"), "transport": one.get("protocolBinding")})
        for one in _interfaces(payload)
        if _is_0_3(one)
    }
    return all(jcs(one) in current for one in additional)


def _requirements(owner: dict[str, Json]) -> list[Json] | None:
    requirements = owner.get("securityRequirements")
    if not isinstance(requirements, list):
        return None
    flat: list[Json] = []
    for one in requirements:
        schemes = one.get("schemes") if isinstance(one, dict) else None
        if not isinstance(schemes, dict):
            return None
        flat.append({n: s.get("list", []) for n, s in schemes.items() if isinstance(s, dict)})
    return flat


def _flat_scheme(scheme: Json) -> dict[str, Json] | None:
    if not isinstance(scheme, dict) or len(scheme) != 1:
        return None
    ((wrapper, members),) = scheme.items()
    if wrapper not in _FLAT or not isinstance(members, dict):
        return None
    kind, renamed = _FLAT[wrapper]
    return {"type": kind, **{renamed.get(name, name): v for name, v in members.items()}}


def _at_destination(source: str, payload: Payload) -> Json:
    """The payload's value for the value that stood at `source`; None if it has no place."""
    places = payload.destinations.get(source)
    if not places:
        return None
    value: Json = payload.value
    for token in split(places[0]):
        if isinstance(value, list):
            value = value[int(token)]
        elif isinstance(value, dict):
            value = value[token]
    return value
