"""The 0.3 -> 1.0 rewriting that a2a-sdk's card resolver does before it verifies, frozen.

Signatures of a2a-sdk (1.0.0 to 1.3.0) on 0.3 and mixed cards cover the result of this
rewriting, so its quirks are reproduced, not mended; a conversion that serves people belongs in a
module of its own. Quirks worth knowing:

* `url` and `preferredTransport`, `protocolVersion`, `additionalInterfaces` are dropped whenever
  `supportedInterfaces` is there, even as null; without `url` they are dropped as well.
* every synthesised interface carries the card's `protocolVersion`, default ``0.3.0``.
* a scheme's `type` selects the wrapper; a wrapped 1.0 member beside it is lost, and a scheme
  of unknown `type` is left without it. Only the camelCase `securitySchemes` is looked at.
* `supportsAuthenticatedExtendedCard` counts by Python truth: "no" is true.
"""

from __future__ import annotations

from typing import Final

from cardsign.card.node import Node, refuse

_WRAPPERS: Final = {
    "apiKey": "apiKeySecurityScheme",
    "http": "httpAuthSecurityScheme",
    "oauth2": "oauth2SecurityScheme",
    "openIdConnect": "openIdConnectSecurityScheme",
    "mutualTLS": "mtlsSecurityScheme",
}
_DEFAULT_TRANSPORT: Final = "JSONRPC"
_DEFAULT_VERSION: Final = "0.3.0"


def upgrade(card: Node) -> Node:
    """Rewrite the root of a card; the argument is not changed.

    Raises:
        CanonicalizationError: The SDK would refuse the card's structure here.
    """
    members = dict(_object(card))
    _upgrade_extended_flag(members)
    _upgrade_interfaces(members)
    _upgrade_security(members)
    return Node(members, card.source)


def _upgrade_extended_flag(members: dict[str, Node]) -> None:
    legacy = members.pop("supportsAuthenticatedExtendedCard", None)
    if legacy is None or not legacy.value:
        return
    capabilities = members.get("capabilities", Node({}))
    entries = dict(_object(capabilities))
    if "extendedAgentCard" not in entries:
        entries["extendedAgentCard"] = Node(True, legacy.source if legacy.value is True else None)
    members["capabilities"] = Node(entries, capabilities.source)


def _upgrade_interfaces(members: dict[str, Node]) -> None:
    url = members.pop("url", None)
    transport = members.pop("preferredTransport", Node(_DEFAULT_TRANSPORT))
    version = members.pop("protocolVersion", Node(_DEFAULT_VERSION))
    additional = members.pop("additionalInterfaces", None)
    if "supportedInterfaces" in members or url is None or not url.value:
        return
    extra = [] if additional is None or not additional.value else _list(additional)
    interfaces = [
        Node({"url": url, "protocolBinding": transport, "protocolVersion": version}),
    ]
    for one in extra:
        entries = _object(one)
        interfaces.append(
            Node(
                {
                    "url": entries.get("url", Node(None)),
                    "protocolBinding": entries.get("transport", Node(None)),
                    "protocolVersion": version,
                },
                one.source,
            )
        )
    members["supportedInterfaces"] = Node(interfaces, additional.source if additional else None)


def _upgrade_security(members: dict[str, Node]) -> None:
    _upgrade_requirements(members)
    if "skills" in members:
        skills = members["skills"]
        members["skills"] = Node([_upgrade_skill(skill) for skill in _list(skills)], skills.source)
    schemes = members.get("securitySchemes")
    if schemes is not None and schemes.value:
        entries = {name: _upgrade_scheme(one) for name, one in _object(schemes).items()}
        members["securitySchemes"] = Node(entries, schemes.source)


def _upgrade_skill(skill: Node) -> Node:
    entries = dict(_object(skill))
    _upgrade_requirements(entries)
    return Node(entries, skill.source)


def _upgrade_requirements(members: dict[str, Node]) -> None:
    legacy = members.pop("security", None)
    if "securityRequirements" in members or legacy is None or legacy.value is None:
        return
    requirements = []
    for one in [] if legacy.value in ({}, "") else _list(legacy):
        schemes = {name: Node({"list": scopes}) for name, scopes in _object(one).items()}
        requirements.append(Node({"schemes": Node(schemes)}, one.source))
    members["securityRequirements"] = Node(requirements, legacy.source)


def _upgrade_scheme(scheme: Node) -> Node:
    entries = dict(_object(scheme))
    kind = entries.pop("type", None)
    if kind is None:
        return scheme
    if isinstance(kind.value, list | dict):
        refuse(kind, "expected a string")
    wrapper = _WRAPPERS.get(kind.value) if isinstance(kind.value, str) else None
    if wrapper is None:
        return Node(entries, scheme.source)
    if wrapper == "apiKeySecurityScheme" and "in" in entries:
        entries["location"] = entries.pop("in")
    # The wrapper's name says what `type` said, so `type` is covered by it.
    return Node({wrapper: Node(entries, kind.source)}, scheme.source)


def _object(node: Node) -> dict[str, Node]:
    if not isinstance(node.value, dict):
        refuse(node, "expected an object")
    return node.value


def _list(node: Node) -> list[Node]:
    if not isinstance(node.value, list):
        refuse(node, "expected a list")
    return node.value
