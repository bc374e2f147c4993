"""A card of one A2A version in the form of another: 0.2, 0.3 and 1.0.

Everything goes by way of 1.0. What A2A 1.0 has no place for is kept in an extension of ours; what
an older form cannot say is left out of it, and noted. Unknown members and signatures are left out
too: a signature covers the bytes that it was made over, and no others. What the agent speaks does
not change, so an interface keeps its `protocolVersion`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from cardsign.card import security
from cardsign.card.extensions import (
    KEPT_OF_CARD,
    KEPT_OF_SKILL,
    checked_object,
    kept_of,
    with_kept,
)
from cardsign.card.interfaces import DEFAULT_TRANSPORT, interfaces_of
from cardsign.card.schema import (
    CAPABILITIES_1_0,
    CARD_0_3,
    CARD_1_0,
    SKILL_1_0,
    A2aVersion,
    respelled,
)
from cardsign.card.values import Json, elements_of, members_of, objects_in
from cardsign.errors import CardRefused
from cardsign.findings import Finding, Place

#: The `protocolVersion` that a card of each form says, where its interfaces say nothing better.
PROTOCOL_VERSIONS: Final[Mapping[A2aVersion, str]] = {"0.2": "0.2", "0.3": "0.3.0", "1.0": "1.0"}
_SHARED: Final = ("provider", "version", "documentationUrl", "iconUrl")
_FLAGS: Final = ("supportsAuthenticatedExtendedCard", "supportsExtendedAgentCard")
_MODES: Final = ("defaultInputModes", "defaultOutputModes")
#: Members that the conversion reads by name; all others that are unknown get a note.
_READ: Final = frozenset(
    {"url", "preferredTransport", "protocolVersion", "additionalInterfaces", "security"}
    | {"authentication", "capabilities", "signatures", "securitySchemes", *_FLAGS}
    | {"supportedInterfaces", "securityRequirements"}
)
#: Notes a change, in words, and the place where it was.
_Change: TypeAlias = Callable[[str, str], None]
_FLOWS: Final = ("authorizationCode", "clientCredentials", "implicit", "password", "deviceCode")


def form_of(document: Mapping[str, Json]) -> A2aVersion:
    """Return the A2A version whose form a card has; a hybrid counts as 1.0.

    An old card is 0.2 by its `protocolVersion`, or by an `authentication` without schemes.
    """
    if document.get("supportedInterfaces") is not None:
        return "1.0"
    version = document.get("protocolVersion")
    if isinstance(version, str) and version.startswith(("0.1", "0.2")):
        return "0.2"
    if version is None and "authentication" in document and "securitySchemes" not in document:
        return "0.2"
    old = ("url", "protocolVersion", "security", "additionalInterfaces", *_FLAGS)
    return "0.3" if any(document.get(name) is not None for name in old) else "1.0"


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
    upgrade = _Upgrade(respelled(document, CARD_1_0, CARD_0_3), [] if notes is None else notes)
    card = upgrade.made()
    security.check_security(card)
    return card if to == "1.0" else _downgraded(card, to, upgrade.change)


# To 1.0.


class _Upgrade:
    """A card on its way to 1.0.

    Attributes:
        document: The card as it was given.
        card: What becomes of it.
        kept: What goes into our extension.
        notes: What has changed.
        names: Of each scheme of the card that was given, the names that it has now.
    """

    def __init__(self, document: Mapping[str, Json], notes: list[Finding]) -> None:
        self.document, self.notes = document, notes
        self.card: dict[str, Json] = {
            name: document[name]
            for name in ("name", "description", *_SHARED, *_MODES)
            if document.get(name) is not None
        }
        self.kept = kept_of(document)
        self.names: dict[str, list[str]] = {}

    def change(self, message: str, path: str) -> None:
        self.notes.append(Finding("build.changed", message, Place(path)))

    def made(self) -> dict[str, Json]:
        document, card, kept = self.document, self.card, self.kept
        if document.get("signatures"):
            text = "signatures are left out: they cover the card as it was; sign it again"
            self.change(text, "/signatures")
        self.interfaces()
        self.capabilities()
        self.schemes()
        for member in ("securityRequirements", "security"):
            requirements = _requirements(document.get(member), f"/{member}")
            if requirements is not None and "securityRequirements" not in card:
                card["securityRequirements"] = self.alternatives(requirements, member)
        if isinstance(skills := document.get("skills"), list):
            card["skills"] = self.skills(skills)
        for name in KEPT_OF_CARD:
            if name not in ("capabilities", "authentication") and name in document:
                self.change(f"{name} moves into our extension", f"/{name}")
                kept.setdefault(name, document[name])
        read = {*card, *kept, *_READ}
        for name, value in document.items():
            if name not in read and value is not None:
                self.change(f"{name} is no member of A2A and is left out", f"/{name}")
        return with_kept(card, kept)

    def interfaces(self) -> None:
        version = "0.2" if form_of(self.document) == "0.2" else "0.3.0"
        old: dict[str, Json] = {}
        # The list of 0.3 repeats the card's own url.
        for interface in sorted(interfaces_of(self.document), key=lambda i: i.member != "url"):
            if interface.written_in != "1.0":
                spoken = interface.version if isinstance(interface.version, str) else ""
                upgraded: Json = {
                    "url": interface.url,
                    "protocolBinding": interface.binding,
                    "protocolVersion": spoken or version,
                }
                old.setdefault(repr((interface.url, interface.binding)), upgraded)
        if old:
            self.change("url and interfaces become supportedInterfaces", "/url")
        listed = elements_of(self.document.get("supportedInterfaces"))
        if both := [*listed, *(interface for interface in old.values() if interface not in listed)]:
            self.card["supportedInterfaces"] = both

    def capabilities(self) -> None:
        declared = self.document.get("capabilities")
        if isinstance(declared, list):
            self.change("a list of capabilities moves into our extension", "/capabilities")
            self.kept.setdefault("capabilities", declared)
            declared = {}
        capabilities: dict[str, Json] = {}
        for name, declared_value in checked_object(declared, "capabilities").items():
            if name == "stateTransitionHistory" and declared_value is not None:
                text = f"{name}, which 1.0 does not have, moves into our extension"
                self.change(text, f"/capabilities/{name}")
                self.kept[name] = declared_value
            elif name not in (*CAPABILITIES_1_0.fields, "stateTransitionHistory"):
                self.change(f"{name} is no capability of A2A and is left out", "/capabilities")
            elif declared_value is not None:
                capabilities[name] = declared_value
        for flag in _FLAGS:
            if isinstance(value := self.document.get(flag), bool):
                capabilities.setdefault("extendedAgentCard", value)
        if capabilities or self.document.get("capabilities") is not None:
            self.card["capabilities"] = capabilities

    def schemes(self) -> None:
        document, card = self.document, self.card
        declared = checked_object(document.get("securitySchemes"), "securitySchemes")
        schemes: dict[str, Json] = {}
        taken = set(declared)
        for name, scheme in declared.items():
            upgraded = self.scheme(name, scheme, taken)
            self.names[name] = list(upgraded)
            schemes |= upgraded
        authentication = document.get("authentication")
        listed = any(
            isinstance(document.get(n), list) for n in ("security", "securityRequirements")
        )
        if authentication is not None and declared and listed:
            text = "authentication is left out, because securitySchemes say it"
            self.change(text, "/authentication")
        elif authentication is not None:
            derived, requirements = security.authentication_schemes(authentication)
            # A card that asks for a credential and lists schemes without requirements is not open.
            if requirements:
                alone: list[Json] = [{"schemes": {name: {}}} for name in schemes]
                card["securityRequirements"] = alone or requirements
            schemes = schemes or derived
            text = "becomes securitySchemes and securityRequirements"
            text = text if schemes else "says that there is none"
            self.change(f"authentication {text}", "/authentication")
        if schemes:
            card["securitySchemes"] = schemes

    def scheme(self, name: str, scheme: Json, taken: set[str]) -> dict[str, Json]:
        """Return one scheme, or one for each of its OAuth flows."""
        where = f"/securitySchemes/{name}"
        if not isinstance(scheme, dict):
            raise CardRefused("card.type", "expected a security scheme, an object", path=where)
        if security.unwrapped(scheme):
            return {name: scheme}
        scheme_type = security.type_of_flat(scheme)
        if scheme_type is None:
            unknown = f"no scheme is of type {scheme.get('type')!r}"
            raise CardRefused("card.auth_type", unknown, path=where)
        back = {old: new for new, old in scheme_type.renamed.items()}
        members = {
            back.get(member, member): value for member, value in scheme.items() if member != "type"
        }
        if scheme_type.name != "oauth2" or not isinstance(flows := members.get("flows"), dict):
            return {name: {scheme_type.wrapper: members}}
        stated = {flow: value for flow, value in flows.items() if value is not None}
        kept_flows = self.choose_flows(stated, where)
        if not kept_flows:
            return {name: {scheme_type.wrapper: {**members, "flows": {}}}}
        called = [name, *(security.free_name(f"{name}-{flow}", taken) for flow in kept_flows[1:])]
        if len(kept_flows) > 1:
            text = f"{len(kept_flows)} OAuth flows become a scheme each, of which one will do"
            self.change(f"{text}: {', '.join(called)}", where)
        return {
            new: {scheme_type.wrapper: {**members, "flows": {flow: stated[flow]}}}
            for new, flow in zip(called, kept_flows, strict=True)
        }

    def choose_flows(self, stated: Mapping[str, Json], where: str) -> list[str]:
        """Return the names of the OAuth flows that A2A has, in its order."""
        for flow in ("implicit", "password"):
            if flow in stated:
                self.change(f"the OAuth flow {flow} is deprecated; offer another", where)
        flows = [flow for flow in _FLOWS if flow in stated]
        # Without a flow there would be no scheme, and what requires it would let everybody in.
        if stated and not flows:
            raise CardRefused("card.type", "none of its OAuth flows is one of A2A", path=where)
        if len(flows) < len(stated):
            self.change("an OAuth flow that A2A does not know is left out", where)
        return flows

    def alternatives(self, listed: list[Json], member: str) -> list[Json]:
        """Return the requirements; one with a scheme of several flows becomes several."""
        upgraded: list[Json] = []
        for index, requirement in enumerate(listed):
            where = f"/{member}/{index}"
            if isinstance(requirement, str):
                self.change("a name alone becomes a requirement without scopes", where)
                requirement = {requirement: []}
            if not isinstance(requirement, dict):
                expected = "expected a security requirement, an object"
                raise CardRefused("card.type", expected, path=where)
            if security.is_wrapped_requirement(requirement, member) and (
                not requirement or "schemes" in requirement
            ):
                upgraded.append(requirement)
                continue
            names = [self.names.get(name, [name]) for name in requirement]
            count = math.prod(map(len, names))
            if count > 1:  # they multiply, four for each scheme of four flows
                security.check_alternatives(len(upgraded) + count, where)
            values: list[Json] = [
                {} if scopes == [] else {"list": scopes} for scopes in requirement.values()
            ]
            for called in itertools.product(*names):
                upgraded.append({"schemes": dict(zip(called, values, strict=True))})
        return upgraded

    def skills(self, skills: list[Json]) -> list[Json]:
        ours = dict(checked_object(self.kept.pop("skills", None), "skills"))
        upgraded: list[Json] = []
        for index, skill in enumerate(skills):
            where = f"/skills/{index}"
            if not isinstance(skill, dict):
                raise CardRefused("card.type", "expected a skill, an object", path=where)
            new: dict[str, Json] = {}
            own = dict(checked_object(ours.pop(str(skill.get("id")), None), "skills"))
            for name, value in skill.items():
                if name in SKILL_1_0.fields:
                    new |= {} if value is None else {name: value}
                elif name == "security" or value in (None, {}):
                    continue
                elif name in KEPT_OF_SKILL:
                    self.change(f"{name} moves into our extension", f"{where}/{name}")
                    own[name] = value
                else:
                    text = f"{name} is no member of a skill and is left out"
                    self.change(text, f"{where}/{name}")
            if (
                requirements := _requirements(skill.get("security"), f"{where}/security")
            ) is not None:
                new["securityRequirements"] = self.alternatives(requirements, "security")
            if own:
                ours[str(skill.get("id"))] = own
            upgraded.append(new)
        if ours:
            self.kept["skills"] = ours
        return upgraded


def _requirements(value: Json, where: str) -> list[Json] | None:
    """Return the requirements; any other form is refused, for a card without them is open."""
    if value is None or isinstance(value, list):
        return value
    raise CardRefused("card.type", "expected a list of security requirements", path=where)


# To 0.3 and 0.2.


def _downgraded(card: Mapping[str, Json], to: A2aVersion, change: _Change) -> dict[str, Json]:
    kept = kept_of(card)
    old: dict[str, Json] = {name: card[name] for name in ("name", "description") if name in card}
    old |= _old_interfaces(card, to, change)
    old |= {name: card[name] for name in (*_SHARED, *_MODES) if name in card}
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
        old["skills"] = [_old_skill(skill, ours, to) for skill in skills]
        kept |= {"skills": ours} if ours else {}
    if to == "0.2":  # which has none
        old.pop("iconUrl", None)
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
        change(f"no interface speaks A2A {to}, and the card now says so of all of them", path)
    elif len({str(entry.get("protocolVersion")) for entry in listed}) > 1:
        change(f"A2A {to} has one version for all interfaces, that of the first", path)
    if any("tenant" in entry for entry in listed):
        change(f"A2A {to} has no tenants, so they are left out", path)
    first, *others = sorted(listed, key=lambda interface: interface not in speaking)
    version = first.get("protocolVersion") if speaking else PROTOCOL_VERSIONS[to]
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
    schemes = checked_object(card.get("securitySchemes"), "securitySchemes")
    if to == "0.2":
        words: list[Json] = [_word(scheme) for scheme in schemes.values()]
        if [{"httpAuthSecurityScheme": {"scheme": word}} for word in words] != [*schemes.values()]:
            text = "securitySchemes become words of authentication, which say less"
            change(text, "/securitySchemes")
        return {"authentication": {"schemes": words}} if schemes else {}
    old: dict[str, Json] = {}
    if schemes:
        old["securitySchemes"] = {
            name: _flat(scheme, f"/securitySchemes/{name}", change)
            for name, scheme in schemes.items()
        }
    if (requirements := security.flat_requirements(card)) is not None:
        old["security"] = requirements
    return old


def _old_skill(skill: Json, ours: dict[str, Json], to: A2aVersion) -> Json:
    """Return a skill of an older form; what 0.2 has on the skill itself is taken out of `ours`."""
    old = dict(checked_object(skill, "skills"))
    flat = security.flat_requirements(old)
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


def _flat(scheme: Json, path: str, change: _Change) -> Json:
    """Return a scheme as 0.3 writes it. A device code flow has no place there; the rest has."""
    pair = security.unwrapped(members_of(scheme))
    if pair is None:
        return scheme
    kind, members = pair
    flows = members.get("flows")
    if isinstance(flows, dict):
        if "deviceCode" in flows:
            change("A2A 0.3 has no device code flow, so it is left out", path)
        members["flows"] = {
            flow: {name: setting for name, setting in value.items() if name != "pkceRequired"}
            for flow, value in flows.items()
            if flow != "deviceCode" and isinstance(value, dict)
        }
    return {"type": kind.name, **members}


def _word(scheme: Json) -> str:
    """Return the word of 0.2 for a scheme: that of HTTP, else its type."""
    kind, members = security.unwrapped(members_of(scheme)) or (None, members_of(scheme))
    name = members.get("type") if kind is None else kind.name
    word = members.get("scheme")
    return str(word if name == "http" and isinstance(word, str) else name)
