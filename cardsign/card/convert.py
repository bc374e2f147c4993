"""A card of one A2A version in the form of another: 0.2, 0.3 and 1.0.

Everything goes by way of 1.0. What A2A 1.0 has no place for is kept in an extension of ours; what
an older form cannot say is left out of it, and noted. Unknown members and signatures are left out
too: a signature covers the bytes that it was made over, and no others. What the agent speaks does
not change, so an interface keeps its `protocolVersion`.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from cardsign.card import extensions, security
from cardsign.card.document import DEFAULT_TRANSPORT, current_interfaces
from cardsign.card.extensions import KEPT_OF_CARD, KEPT_OF_SKILL, checked_object, kept_of, with_kept
from cardsign.card.schema import (
    ANY_CARD,
    CAPABILITIES_1_0,
    CARD_0_3,
    CARD_1_0,
    SKILL_1_0,
    A2aVersion,
    Message,
    respelled,
)
from cardsign.card.security import Scheme
from cardsign.card.values import Json, elements_of, members_of, objects_in
from cardsign.errors import CardRefused
from cardsign.findings import Finding, Place

#: The `protocolVersion` that a card of each form says, where its interfaces say nothing better.
PROTOCOL_VERSIONS: Final[Mapping[A2aVersion, str]] = {"0.2": "0.2", "0.3": "0.3.0", "1.0": "1.0"}
#: Members of a card that are converted by name.
_READ: Final = frozenset(
    {"url", "preferredTransport", "protocolVersion", "additionalInterfaces", "security", "skills"}
    | {"authentication", "capabilities", "signatures", "securitySchemes"}
    | {"supportedInterfaces", "securityRequirements", *extensions.EXTENDED_FLAGS}
)
#: Notes a change, in words, and the place where it was.
_Change: TypeAlias = Callable[[str, str], None]
#: A version with a patch number, which an interface of 1.0 does not have (A2A 1.0 3.6).
PATCHED: Final = re.compile(r"([0-9]+\.[0-9]+)\.[0-9]+")
_FLOWS: Final = ("authorizationCode", "clientCredentials", "implicit", "password", "deviceCode")


def convert_card(
    document: Mapping[str, Json], to: A2aVersion, notes: list[Finding] | None = None
) -> dict[str, Json]:
    """Return a card in another form, without signatures.

    Nothing is filled in: what is missing in the card is missing in the result.

    Args:
        document: The card, of any form or a mix of them.
        to: The form wanted. The card's own form gives the card without what is unknown in it.
        notes: Takes what is not what it was, and where it stood in the card that was given.

    Raises:
        CardRefused: ``card.auth_type``, ``card.auth_setting``: an `authentication` that cannot be
            read. ``card.security``: a scheme or requirement that cannot be read. ``card.type``: a
            member is of a type that cannot be converted. ``json.too_many_values``: a requirement
            becomes more alternatives than a card may have.
    """

    def change(message: str, path: str) -> None:
        if notes is not None:
            notes.append(Finding("build.changed", message, Place(path)))

    card = _upgraded(respelled(document, ANY_CARD), change)
    security.check_security(card)
    return card if to == "1.0" else _downgraded(card, to, change)


# To 1.0.


def _upgraded(document: Mapping[str, Json], change: _Change) -> dict[str, Json]:
    kept = kept_of(document)
    if document.get("signatures"):
        text = "signatures are left out: they cover the card as it was; sign it again"
        change(text, "/signatures")
    card: dict[str, Json] = {}
    if interfaces := _interfaces(document, change):
        card["supportedInterfaces"] = interfaces
    capabilities = _capabilities(document, kept, change)
    if capabilities or document.get("capabilities") is not None:
        card["capabilities"] = capabilities
    names = _add_schemes(document, card, change)
    for member in ("securityRequirements", "security"):
        listed = _requirements(document.get(member), member, names, change)
        # What cannot be read is refused, whatever the card has beside it.
        if listed is not None and not (isinstance(listed, list) and "securityRequirements" in card):
            card["securityRequirements"] = listed
    if isinstance(skills := document.get("skills"), list):
        card["skills"] = _skills(skills, kept, names, change)
    others = [n for n in (*KEPT_OF_CARD, *document) if n in document and n not in _READ]
    members = {name: document[name] for name in others}
    return with_kept(card | _choose(members, CARD_1_0, KEPT_OF_CARD, kept, "", change), kept)


def _choose(
    members: Mapping[str, Json],
    message: Message,
    keepable: Sequence[str],
    kept: dict[str, Json],
    where: str,
    change: _Change,
) -> dict[str, Json]:
    """Return the members that 1.0 has; of the others some move into `kept`."""
    chosen: dict[str, Json] = {}
    for name, value in members.items():
        if value is None or (value == {} and name not in message.fields):
            continue
        if name in message.fields:
            chosen[name] = value
        elif name in keepable:
            change(f"{name} moves into our extension", f"{where}/{name}")
            kept[name] = value
        else:
            change(f"{name} is not a member of A2A and is left out", f"{where}/{name}")
    return chosen


def _interfaces(document: Mapping[str, Json], change: _Change) -> list[Json]:
    # Cards of 0.2 have an `authentication` in place of schemes.
    is_0_2 = "authentication" in document and "securitySchemes" not in document
    version = "0.2" if is_0_2 else "0.3"
    old: dict[str, Json] = {}
    # The list of 0.3 repeats the card's own url.
    for interface in current_interfaces({**document, "supportedInterfaces": None}):
        spoken = interface.version if isinstance(interface.version, str) else ""
        upgraded: Json = {
            "url": interface.url,
            "protocolBinding": interface.binding,
            "protocolVersion": spoken or version,
        }
        old.setdefault(repr((interface.url, interface.binding)), upgraded)
    if old:
        change("url and interfaces become supportedInterfaces", "/url")
    listed = elements_of(document.get("supportedInterfaces"))
    return [*listed, *(interface for interface in old.values() if interface not in listed)]


def _capabilities(
    document: Mapping[str, Json], kept: dict[str, Json], change: _Change
) -> dict[str, Json]:
    declared = document.get("capabilities")
    if isinstance(declared, list):
        change("a list of capabilities moves into our extension", "/capabilities")
        kept.setdefault("capabilities", declared)
        declared = {}
    members = checked_object(declared, "capabilities")
    history = ("stateTransitionHistory",)
    capabilities = _choose(members, CAPABILITIES_1_0, history, kept, "/capabilities", change)
    for flag in extensions.EXTENDED_FLAGS:
        if isinstance(value := document.get(flag), bool):
            capabilities.setdefault("extendedAgentCard", value)
    return capabilities


def _add_schemes(
    document: Mapping[str, Json], card: dict[str, Json], change: _Change
) -> dict[str, list[str]]:
    """Add the schemes, and the requirements that an `authentication` says.

    Returns:
        Of each scheme of the card that was given, the names that it has now.
    """
    declared = checked_object(document.get("securitySchemes"), "securitySchemes")
    taken = set(declared)
    upgraded = {name: _scheme(name, declared[name], taken, change) for name in declared}
    schemes = {name: scheme for alike in upgraded.values() for name, scheme in alike.items()}
    authentication = document.get("authentication")
    listed = any(isinstance(document.get(n), list) for n in ("security", "securityRequirements"))
    if authentication is not None and declared and listed:
        text = "authentication is left out, because securitySchemes say it"
        change(text, "/authentication")
    elif authentication is not None:
        derived, requirements = security.authentication_schemes(authentication)
        # A card that asks for a credential and lists schemes without requirements is not open.
        if requirements:
            alone: list[Json] = [{"schemes": {name: {}}} for name in schemes]
            card["securityRequirements"] = alone or requirements
        schemes = schemes or derived
        text = "becomes securitySchemes and securityRequirements"
        text = text if schemes else "says that there is none"
        change(f"authentication {text}", "/authentication")
    if schemes:
        card["securitySchemes"] = schemes
    return {name: [*alike] for name, alike in upgraded.items()}


def _scheme(name: str, scheme: Json, taken: set[str], change: _Change) -> dict[str, Json]:
    """Return one scheme, or one for each of its OAuth flows; as it is what cannot be read."""
    kind = security.type_of_flat(members_of(scheme))
    if not isinstance(scheme, dict) or kind is None or security.unwrapped(scheme):
        return {name: scheme}
    members = security.renamed(
        kind, {name: scheme[name] for name in scheme if name != "type"}, "in", "location"
    )
    of_flow = members_of(members.get("flows")) if kind == "oauth2" else {}
    stated = [flow for flow, value in of_flow.items() if value is not None]
    wrapper = security.WRAPPERS[kind]
    if not stated:
        return {name: {wrapper: members}}
    where = f"/securitySchemes/{name}"
    flows = [flow for flow in _FLOWS if flow in stated]
    # Without a flow there would be no scheme, and what requires it would let everybody in.
    if not flows:
        raise CardRefused("card.type", "none of its OAuth flows is one of A2A", path=where)
    for flow in ("implicit", "password"):
        if flow in flows:
            change(f"the OAuth flow {flow} is deprecated; offer another", where)
    if len(flows) < len(stated):
        change("an OAuth flow that A2A does not know is left out", where)
    names = [name, *(security.free_name(f"{name}-{flow}", taken) for flow in flows[1:])]
    if len(flows) > 1:
        text = f"{len(flows)} OAuth flows become a scheme each, of which one will do"
        change(f"{text}: {', '.join(names)}", where)
    return {
        new: {wrapper: {**members, "flows": {flow: of_flow[flow]}}}
        for new, flow in zip(names, flows, strict=True)
    }


def _requirements(
    listed: Json, member: str, names: Mapping[str, list[str]], change: _Change, above: str = ""
) -> Json:
    """Return the requirements; one with a scheme of several flows becomes several.

    What cannot be read stays as it is: :func:`check_security` refuses it.
    """
    if not isinstance(listed, list):
        return listed
    upgraded: list[Json] = []
    for index, requirement in enumerate(listed):
        where = f"{above}/{member}/{index}"
        if isinstance(requirement, str):
            change("a name alone becomes a requirement without scopes", where)
            requirement = {requirement: []}
        if not isinstance(requirement, dict) or (
            security.is_wrapped_requirement(requirement, member)
            and (not requirement or "schemes" in requirement)
        ):
            upgraded.append(requirement)
            continue
        alternatives = [names.get(name, [name]) for name in requirement]
        # They multiply, four for each scheme of four flows.
        security.check_alternatives(len(upgraded) + math.prod(map(len, alternatives)), where)
        values = [{} if scopes == [] else {"list": scopes} for scopes in requirement.values()]
        for called in itertools.product(*alternatives):
            upgraded.append({"schemes": dict(zip(called, values, strict=True))})
    return upgraded


def _skills(
    skills: list[Json], kept: dict[str, Json], names: Mapping[str, list[str]], change: _Change
) -> list[Json]:
    ours = dict(checked_object(kept.pop("skills", None), "skills"))
    upgraded: list[Json] = []
    for index, skill in enumerate(skills):
        where = f"/skills/{index}"
        if not isinstance(skill, dict):
            raise CardRefused("card.type", "expected a skill, an object", path=where)
        members = dict(skill)
        own = dict(members_of(ours.pop(str(members.get("id")), None)))
        if (old := members.pop("security", None)) is not None:
            members["securityRequirements"] = _requirements(old, "security", names, change, where)
        upgraded.append(_choose(members, SKILL_1_0, KEPT_OF_SKILL, own, where, change))
        if own:
            ours[str(members.get("id"))] = own
    if ours:
        kept["skills"] = ours
    return upgraded


# To 0.3 and 0.2.


def _downgraded(card: Mapping[str, Json], to: A2aVersion, change: _Change) -> dict[str, Json]:
    kept = kept_of(card)
    old = {name: value for name, value in card.items() if name in CARD_0_3.fields}
    if to == "0.2":
        old = {name: old[name] for name in old if name not in ("iconUrl", "securitySchemes")}
    old |= _old_interfaces(card, to, change)
    capabilities = dict(checked_object(card.get("capabilities"), "capabilities"))
    extended = capabilities.pop("extendedAgentCard", None)
    if (history := kept.pop("stateTransitionHistory", None)) is not None:
        capabilities["stateTransitionHistory"] = history
    if extended is not None:
        old["supportsAuthenticatedExtendedCard"] = extended
    old["capabilities"] = capabilities
    old |= _old_security(card, to, change)
    if isinstance(skills := card.get("skills"), list):
        ours = dict(checked_object(kept.pop("skills", None), "skills"))
        old["skills"] = [_old_skill(members_of(skill), ours, to) for skill in skills]
        kept |= {"skills": ours} if ours else {}
    downgraded = with_kept(old, kept)
    order = (*CARD_0_3.fields, "authentication")
    return {name: downgraded[name] for name in order if name in downgraded}


def _old_interfaces(card: Mapping[str, Json], to: A2aVersion, change: _Change) -> dict[str, Json]:
    listed = [interface for _, interface in objects_in(card.get("supportedInterfaces"))]
    if not listed:
        return {}
    path = "/supportedInterfaces"
    speaking = [entry for entry in listed if str(entry.get("protocolVersion")).startswith(to)]
    if not speaking:
        change(f"no interface speaks A2A {to}, but the card now says that all of them do", path)
    elif len({str(entry.get("protocolVersion")) for entry in listed}) > 1:
        change(f"A2A {to} has one version for all interfaces, that of the first", path)
    if any("tenant" in entry for entry in listed):
        change(f"A2A {to} has no tenants, so they are left out", path)
    first, *others = sorted(listed, key=lambda interface: interface not in speaking)
    spoken = str(first.get("protocolVersion")) if speaking else ""
    version = spoken if PATCHED.fullmatch(spoken) else PROTOCOL_VERSIONS[to]
    old: dict[str, Json] = {"url": first.get("url"), "protocolVersion": version}
    binding = first.get("protocolBinding")
    if binding is not None and (binding != DEFAULT_TRANSPORT or to == "0.3"):
        old["preferredTransport"] = binding
    if others:
        old["additionalInterfaces"] = [_old_interface(entry) for entry in (first, *others)]
    return old


def _old_interface(interface: Mapping[str, Json]) -> Json:
    old = {"url": interface.get("url"), "transport": interface.get("protocolBinding")}
    return old if old["transport"] else {"url": old["url"]}


def _old_security(card: Mapping[str, Json], to: A2aVersion, change: _Change) -> dict[str, Json]:
    schemes = security.schemes_of(card)
    if to == "0.2":
        words: list[Json] = [_word(scheme) for scheme in schemes.values()]
        declared = members_of(card.get("securitySchemes")).values()
        if [{"httpAuthSecurityScheme": {"scheme": word}} for word in words] != [*declared]:
            text = "securitySchemes become words of authentication, which say less"
            change(text, "/securitySchemes")
        return {"authentication": {"schemes": words}} if schemes else {}
    old: dict[str, Json] = {}
    if schemes:
        old["securitySchemes"] = {name: _flat(scheme, change) for name, scheme in schemes.items()}
    if (requirements := security.flat_requirements(card)) is not None:
        old["security"] = requirements
    return old


def _old_skill(skill: Mapping[str, Json], ours: dict[str, Json], to: A2aVersion) -> Json:
    """Return a skill of an older form; what 0.2 has on the skill itself is taken out of `ours`."""
    old, flat = dict(skill), security.flat_requirements(skill)
    old.pop("securityRequirements", None)
    if to == "0.3":
        return old if flat is None else {**old, "security": flat}
    own = dict(checked_object(ours.pop(str(old.get("id")), None), "skills"))
    if (schema := own.pop("inputSchema", None)) is not None:
        tags = old.pop("tags", None)
        old |= {"inputSchema": schema} | ({} if tags is None else {"tags": tags})
    if own:
        ours[str(old.get("id"))] = own
    return old


def _flat(scheme: Scheme, change: _Change) -> Json:
    """Return a scheme as 0.3 writes it. A device code flow has no place there; the rest has."""
    members = dict(scheme.members)
    if isinstance(flows := members.get("flows"), dict):
        if "deviceCode" in flows:
            text = "A2A 0.3 has no device code flow, so it is left out"
            change(text, f"/securitySchemes/{scheme.name}")
        members["flows"] = {
            flow: {name: setting for name, setting in value.items() if name != "pkceRequired"}
            for flow, value in flows.items()
            if flow != "deviceCode" and isinstance(value, dict)
        }
    return {"type": scheme.type, **members}


def _word(scheme: Scheme) -> str:
    """Return the word of 0.2 for a scheme: that of HTTP, else its type."""
    word = scheme.members.get("scheme") if scheme.type == "http" else None
    return word if isinstance(word, str) else str(scheme.type)
