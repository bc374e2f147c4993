"""The card as the client of @a2a-js/sdk holds it when it verifies, frozen with its quirks.

Its resolver (1.0.1 to 1.3.0, with `legacyCompat`) hands its verifier the JSON as it came or,
for 0.3 cards and most of those with security schemes, an instance of its own. The verifier
reads either once more, as proto3 JSON. Quirks worth knowing:

* an instance spells a scheme ``{"scheme": {"$case": ...}}``, which that reading does not know:
  **every security scheme is lost**, and may be changed under a good signature. JSON is kept
  as it came, with its schemes, where the first of them has a `type` and the card is no 0.3 one.
* nothing is of a wrong type, and a member named ``__proto__`` disappears, as JavaScript has it
  (:mod:`cardsign.card.javascript`).
* a 0.3 card must have all its lists; its additional interfaces speak "0.3", whatever it says.
"""

from __future__ import annotations

import re
from typing import Final

from cardsign.card import javascript as js
from cardsign.card.fields import CARD_1_0
from cardsign.card.node import Node, refuse
from cardsign.card.prune import without_empties

_VERSION_0_3: Final = "0.3"
_FLOWS: Final = ("authorizationCode", "clientCredentials", "implicit", "password")
_KINDS: Final = ("apiKey", "http", "oauth2", "openIdConnect", "mutualTLS")
_ONLY_0_3: Final = (
    "preferredTransport",
    "additionalInterfaces",
    "supportsAuthenticatedExtendedCard",
)
#: From 0.3 on and before 1.0, as JavaScript's `parseInt` understands a version.
_IS_0_3: Final = re.compile(r"\s*[+-]?0+(?![0-9])[^.]*\.\s*\+?0*([3-9]|[1-9][0-9])")


def as_js_client(card: Node) -> Node:
    """Rewrite the root of a card.

    Raises:
        CanonicalizationError: The client would throw instead of verifying.
    """
    is_0_3 = _is_0_3(card)
    read = js.read_message(_from_0_3(card) if is_0_3 else card, CARD_1_0)
    if is_0_3 or _is_proto(card):
        kept = {n: child for n, child in js.members(read).items() if n != "securitySchemes"}
        read = Node(kept, read.source)
    return without_empties(js.without_proto(read))


# ------------------------------------------------------------------ which cards it rewrites


def _is_0_3(card: Node) -> bool:
    """The SDK's `isLegacyAgentCard`."""
    interfaces = js.get(card, "supportedInterfaces").value
    if isinstance(interfaces, list) and interfaces:
        return False
    names = js.members(card)
    if isinstance(js.get(card, "url").value, str) and "supportedInterfaces" not in names:
        return True
    if any(name in names for name in _ONLY_0_3):
        return True
    version = js.get(card, "protocolVersion").value
    return isinstance(version, str) and (not version.strip() or bool(_IS_0_3.match(version)))


def _is_proto(card: Node) -> bool:
    """The SDK's `isProtoAgentCard`: the first scheme or requirement looks like A2A 1.0."""
    for _, first in js.entries(js.get(card, "securitySchemes")):
        if isinstance(first.value, dict | list) and "type" not in js.members(first):
            return True
        break
    skills = js.get(card, "skills").value
    return any(map(_names_schemes, [card, *(skills if isinstance(skills, list) else [])]))


def _names_schemes(owner: Node) -> bool:
    security = js.members(owner).get("security", js.UNDEFINED).value
    return isinstance(security, list) and bool(security) and "schemes" in js.members(security[0])


# ------------------------------------------------------------------ a 0.3 card, rewritten


def _from_0_3(card: Node) -> Node:
    """The SDK's `toCoreAgentCard`; without the schemes, which are lost anyway."""
    capabilities = js.get(card, "capabilities")
    if not isinstance(capabilities.value, dict | list):
        refuse(card, "capabilities must be an object")
    for _, scheme in js.entries(js.get(card, "securitySchemes")):
        _check_scheme(scheme)
    return Node(
        {
            **js.pick(card, "name", "description", "version", "provider"),
            **js.pick(card, "documentationUrl", "iconUrl"),
            "supportedInterfaces": _interfaces(card),
            "capabilities": Node(
                {
                    **js.pick(capabilities, "streaming", "pushNotifications"),
                    "extensions": js.mapped(js.get(capabilities, "extensions"), lambda one: one),
                    "extendedAgentCard": js.get(card, "supportsAuthenticatedExtendedCard"),
                },
                capabilities.source,
            ),
            "securityRequirements": _requirements(card),
            "defaultInputModes": _list(card, "defaultInputModes"),
            "defaultOutputModes": _list(card, "defaultOutputModes"),
            "skills": js.mapped(_list(card, "skills"), _skill),
        },
        card.source,
    )


def _interfaces(card: Node) -> Node:
    transport, version = js.get(card, "preferredTransport"), js.get(card, "protocolVersion")
    primary = {
        "url": js.get(card, "url"),
        "protocolBinding": Node("JSONRPC") if transport.value is None else transport,
        "protocolVersion": version if js.is_true(version) else Node(_VERSION_0_3),
    }
    additional = js.get(card, "additionalInterfaces")
    others = [] if additional.value is None else js.elements(additional)
    return Node([Node(primary), *(_interface(one) for one in others)], additional.source)


def _interface(one: Node) -> Node:
    binding, version = js.get(one, "transport"), Node(_VERSION_0_3)
    entries = {"url": js.get(one, "url"), "protocolBinding": binding, "protocolVersion": version}
    return Node(entries, one.source)


def _skill(skill: Node) -> Node:
    lists = {
        name: js.spread(js.get(skill, name))
        for name in ("examples", "inputModes", "outputModes")
        if js.is_true(js.get(skill, name))
    }
    return Node(
        {
            **js.pick(skill, "id", "name", "description"),
            "tags": _list(skill, "tags"),
            **lists,
            "securityRequirements": _requirements(skill),
        },
        skill.source,
    )


def _requirements(owner: Node) -> Node:
    return js.mapped(js.get(owner, "security"), _requirement)


def _requirement(one: Node) -> Node:
    if one.value is None:
        refuse(one, "expected an object")
    schemes = {name: Node({"list": js.spread(scopes)}) for name, scopes in js.entries(one)}
    return Node({"schemes": Node(schemes)}, one.source)


def _check_scheme(scheme: Node) -> None:
    kind = js.get(scheme, "type").value
    if kind not in _KINDS:
        refuse(scheme, f"type must be one of {', '.join(_KINDS)}")
    if kind == "oauth2":
        flows = js.get(scheme, "flows")
        if not any(js.is_true(js.get(flows, name)) for name in _FLOWS):
            refuse(flows, "expected at least one OAuth flow of A2A 0.3")


def _list(owner: Node, name: str) -> Node:
    node = js.get(owner, name)
    if not isinstance(node.value, list):
        refuse(owner, f"{name} must be a list")
    return node
