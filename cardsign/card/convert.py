"""A card of one A2A version in the form of another: 0.2, 0.3 and 1.0.

Everything goes by way of 1.0. What the other form has no place for is kept in an extension of
ours and put back on the way home, if it still agrees with the other members. Unknown members
and signatures are left out: a signature covers the bytes that it was made over, and no others.
What the agent speaks does not change, so an interface keeps its `protocolVersion`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from typing import Final, Literal, get_type_hints

from cardsign.card.interfaces import DEFAULT_TRANSPORT, Interface, interfaces_of
from cardsign.card.providers import SchemeNames, authentication_schemes, check_alternatives
from cardsign.card.schema import CARD_0_3, CARD_1_0, AgentCapabilities, AgentSkill
from cardsign.card.security import SCHEME_TYPES, flat_requirements, unwrapped
from cardsign.card.strictjson import Json
from cardsign.errors import CardRefused
from cardsign.reasons import Reason
from cardsign.records import dataclass

A2aVersion = Literal["0.2", "0.3", "1.0"]

#: The `protocolVersion` that a card of each form says, where its interfaces say nothing better.
PROTOCOL_VERSIONS: Final[Mapping[A2aVersion, str]] = {"0.2": "0.2", "0.3": "0.3.0", "1.0": "1.0"}
#: Our extension: what cards have and A2A 1.0 has no member for.
FIELDS_URI: Final = "urn:uuid:6d5ef2e3-32a0-4bd5-8c37-2f0a4a1c9f6b"
#: What is kept there of a card; the last three are what an older form could not hold.
KEPT_OF_CARD: Final = (
    "id",
    "spiffe_id",
    "metadata",
    "authentication",
    "capabilities",
    "rateLimits",
    "stateTransitionHistory",
    "supportedInterfaces",
    "securitySchemes",
    "securityRequirements",
)
#: Where a gateway's copy came from: no member of any manifest, so nothing moves there.
UPSTREAM: Final = "upstream"
#: What is kept there of a skill.
KEPT_OF_SKILL: Final = ("inputSchema", "outputSchema", "deprecated", "security")
_ORIGINALS: Final = KEPT_OF_CARD[-3:]
_SHARED: Final = ("provider", "version", "documentationUrl", "iconUrl")
_FLAGS: Final = ("supportsAuthenticatedExtendedCard", "supportsExtendedAgentCard")
_MODES: Final = ("defaultInputModes", "defaultOutputModes")
_FLOWS: Final = ("authorizationCode", "clientCredentials", "implicit", "password", "deviceCode")


@dataclass(frozen=True, slots=True)
class Conversion:
    """A card in another form.

    Attributes:
        document: The card, without signatures.
        changes: What is not what it was, and where it stood in the card that was given.
    """

    document: dict[str, Json]
    changes: tuple[Reason, ...]


def version_of(document: Mapping[str, Json]) -> A2aVersion:
    """The A2A version whose form a card has; a hybrid counts as 1.0.

    An old card is 0.2 by its `protocolVersion`, or by an `authentication` without schemes.
    """
    if document.get("supportedInterfaces") is not None:
        return "1.0"
    said = document.get("protocolVersion")
    if isinstance(said, str) and said.startswith(("0.1", "0.2")):
        return "0.2"
    if said is None and "authentication" in document and "securitySchemes" not in document:
        return "0.2"
    old = ("url", "protocolVersion", "security", "additionalInterfaces", *_FLAGS)
    return "0.3" if any(document.get(name) is not None for name in old) else "1.0"


def convert_card(document: Mapping[str, Json], to: A2aVersion) -> Conversion:
    """Put a card into another form.

    Nothing is filled in: what is missing in the card is missing in the result.

    Args:
        document: The card, of any form or a mix of them.
        to: The form wanted. The card's own form gives the card without what is unknown in it.

    Raises:
        CardRefused: ``card.auth_type``, ``card.auth_setting``: an `authentication` that cannot be
            read. ``card.type``: a member is of a type that cannot be converted.
            ``json.too_many_values``: a requirement becomes more alternatives than a card may have.
    """
    changes: list[Reason] = []
    upgraded = _upgraded(document, changes)
    if to == "1.0":
        return Conversion(upgraded, tuple(changes))
    return Conversion(_downgraded(upgraded, to, changes), tuple(changes))


def with_kept(document: Mapping[str, Json], kept: Mapping[str, Json]) -> dict[str, Json]:
    """The card with our extension, whose `params` are `kept`; without it, where that is empty."""
    card = dict(document)
    capabilities = _object(card.get("capabilities"), "capabilities")
    others = [one for one in _list(capabilities.get("extensions")) if not _is_ours(one)]
    ours: list[Json] = []
    if kept:
        text = "Members of the agent's manifest for which A2A has no place"
        ours = [{"uri": FIELDS_URI, "description": text, "params": dict(kept)}]
    capabilities = {name: one for name, one in capabilities.items() if name != "extensions"}
    if others or ours:
        capabilities["extensions"] = [*others, *ours]
    if capabilities or "capabilities" in card:
        card["capabilities"] = capabilities
    names = [*CARD_1_0.fields, *(name for name in card if name not in CARD_1_0.fields)]
    return {name: card[name] for name in names if name in card}


def kept_of(document: Mapping[str, Json]) -> dict[str, Json]:
    """What our extension holds; only its closed list of members."""
    capabilities = document.get("capabilities")
    found = capabilities.get("extensions") if isinstance(capabilities, dict) else None
    for one in _list(found):
        params = one.get("params") if isinstance(one, dict) and _is_ours(one) else None
        if isinstance(params, dict):
            kept = {
                name: value for name, value in params.items() if name in (*KEPT_OF_CARD, UPSTREAM)
            }
            skills = params.get("skills")
            named = skills.items() if isinstance(skills, dict) else ()
            chosen: dict[str, Json] = {
                skill: {name: one for name, one in members.items() if name in KEPT_OF_SKILL}
                for skill, members in named
                if isinstance(members, dict)
            }
            return kept | ({"skills": chosen} if chosen else {})
    return {}


# ------------------------------------------------------------------ to 1.0


def _upgraded(document: Mapping[str, Json], changes: list[Reason]) -> dict[str, Json]:
    if document.get("signatures"):
        text = "signatures are left out: they cover the card as it was; sign it again"
        _change(changes, text, "/signatures")
    kept = kept_of(document)
    card: dict[str, Json] = {
        name: document[name]
        for name in ("name", "description", *_SHARED, *_MODES)
        if document.get(name) is not None
    }
    _upgrade_interfaces(document, card, kept, changes)
    _upgrade_capabilities(document, card, kept, changes)
    names = _upgrade_schemes(document, card, kept, changes)
    for member in ("securityRequirements", "security"):
        found = _requirements(document.get(member), f"/{member}")
        if found is not None and "securityRequirements" not in card:
            card["securityRequirements"] = _upgraded_requirements(found, names, changes, member)
    if isinstance(skills := document.get("skills"), list):
        card["skills"] = _upgraded_skills(skills, names, kept, changes)
    for name in KEPT_OF_CARD:
        if name not in (*_ORIGINALS, "capabilities", "authentication") and name in document:
            _change(changes, f"{name} moves into our extension", f"/{name}")
            kept.setdefault(name, document[name])
    read = {*card, *kept, *_ORIGINALS, *_FLAGS, "url", "preferredTransport", "protocolVersion"}
    read |= {"additionalInterfaces", "security", "authentication", "capabilities", "signatures"}
    for name, value in document.items():
        if name not in read and value is not None:
            _change(changes, f"{name} is no member of A2A and is left out", f"/{name}")
    return with_kept(card, {name: one for name, one in kept.items() if name not in _ORIGINALS})


def _upgrade_interfaces(
    document: Mapping[str, Json],
    card: dict[str, Json],
    kept: Mapping[str, Json],
    changes: list[Reason],
) -> None:
    found: list[Json] = []
    old: set[tuple[object, object]] = set()
    for one in sorted(interfaces_of(document), key=_order):
        if one.written_in == "1.0":
            continue
        if (one.url, one.binding) not in old:  # the list of 0.3 repeats the card's own url
            found.append(_interface(one, "0.2" if version_of(document) == "0.2" else "0.3.0"))
        old.add((one.url, one.binding))
    original = _list(kept.get("supportedInterfaces"))
    if original and _called(original) == _called(found):
        found = original
    elif found:
        _change(changes, "url and interfaces become supportedInterfaces", "/url")
    listed = _list(document.get("supportedInterfaces"))
    if listed or found:
        card["supportedInterfaces"] = [*listed, *(one for one in found if one not in listed)]


def _order(one: Interface) -> bool:
    return one.member != "url"


def _interface(one: Interface, version: str) -> Json:
    spoken = one.version if isinstance(one.version, str) and one.version else version
    return {"url": one.url, "protocolBinding": one.binding, "protocolVersion": spoken}


def _called(interfaces: Iterable[Json]) -> set[tuple[str, str]]:
    """Where an agent is called and how, whatever is spoken there."""
    return {
        (str(one.get("url")), str(one.get("protocolBinding") or DEFAULT_TRANSPORT))
        for one in interfaces
        if isinstance(one, dict)
    }


def _upgrade_capabilities(
    document: Mapping[str, Json],
    card: dict[str, Json],
    kept: dict[str, Json],
    changes: list[Reason],
) -> None:
    given = document.get("capabilities")
    if isinstance(given, list):
        _change(changes, "a list of capabilities moves into our extension", "/capabilities")
        kept.setdefault("capabilities", given)
        given = {}
    capabilities = _object(given, "capabilities")
    fields = get_type_hints(AgentCapabilities)
    history = capabilities.get("stateTransitionHistory")
    if history is not None:
        text = "stateTransitionHistory, which 1.0 does not have, moves into our extension"
        _change(changes, text, "/capabilities/stateTransitionHistory")
        kept["stateTransitionHistory"] = history
    for name in capabilities:
        if name not in fields and name != "stateTransitionHistory":
            _change(changes, f"{name} is no capability of A2A and is left out", "/capabilities")
    known: dict[str, Json] = {
        name: one for name, one in capabilities.items() if name in fields and one is not None
    }
    for flag in _FLAGS:
        if isinstance(value := document.get(flag), bool):
            known.setdefault("extendedAgentCard", value)
    if known or document.get("capabilities") is not None:
        card["capabilities"] = known


def _upgrade_schemes(
    document: Mapping[str, Json],
    card: dict[str, Json],
    kept: dict[str, Json],
    changes: list[Reason],
) -> dict[str, list[str]]:
    """Put the schemes into the card; of each old name, the names that it has now."""
    declared = _object(document.get("securitySchemes"), "securitySchemes")
    schemes: dict[str, Json] = {}
    names: dict[str, list[str]] = {}
    originals = _object(kept.get("securitySchemes"), "securitySchemes")
    taken = SchemeNames(declared)
    for name, scheme in declared.items():
        if name in originals and _flat(originals[name]) == scheme:
            made = {name: originals[name]}
        else:
            made = _upgraded_scheme(name, scheme, taken, changes)
        names[name] = list(made)
        schemes |= made
    authentication = document.get("authentication")
    if authentication is not None and not declared:
        # The words of 0.2 say less than what was kept; they only have to be the same ones.
        if originals and authentication == {"schemes": [_word(one) for one in originals.values()]}:
            schemes = originals
            requirements = _list(kept.get("securityRequirements"))
        else:
            derived = authentication_schemes(authentication)
            schemes, requirements = dict(derived.schemes), list(derived.requirements)
        if requirements:
            card["securityRequirements"] = requirements
        text = "authentication becomes securitySchemes and securityRequirements"
        none = "authentication says that there is none"
        _change(changes, text if schemes else none, "/authentication")
    elif authentication is not None and not any(
        isinstance(document.get(name), list) for name in ("security", "securityRequirements")
    ):
        # A card that asks for a credential and lists schemes without requirements is not open.
        if authentication_schemes(authentication).requirements:
            card["securityRequirements"] = [{"schemes": {name: {}}} for name in schemes]
        text = "authentication becomes securityRequirements: any of the schemes"
        _change(changes, text, "/authentication")
    elif authentication is not None:
        text = "authentication is left out, because securitySchemes say it"
        _change(changes, text, "/authentication")
    if schemes:
        card["securitySchemes"] = schemes
    return names


def _upgraded_scheme(
    name: str, scheme: Json, taken: SchemeNames, changes: list[Reason]
) -> dict[str, Json]:
    where = f"/securitySchemes/{name}"
    if not isinstance(scheme, dict):
        raise CardRefused("card.type", "expected a security scheme, an object", path=where)
    if unwrapped(scheme):
        return {name: scheme}
    known = next((one for one in SCHEME_TYPES if one.name == scheme.get("type")), None)
    if known is None:
        raise CardRefused(
            "card.auth_type", f"no scheme is of type {scheme.get('type')!r}", path=where
        )
    back = {old: new for new, old in known.renamed.items()}
    members = {back.get(one, one): value for one, value in scheme.items() if one != "type"}
    given = members.get("flows")
    if known.name != "oauth2" or not isinstance(given, dict):
        return {name: {known.wrapper: members}}
    flows = {flow: one for flow, one in given.items() if one is not None}
    _warn_flows(flows, where, changes)
    listed = [one for one in _FLOWS if one in flows]
    # Without a flow there would be no scheme, and what requires it would let everybody in.
    if flows and not listed:
        raise CardRefused("card.type", "none of its OAuth flows is one of A2A", path=where)
    if len(listed) < len(flows):
        _change(changes, "an OAuth flow that A2A does not know is left out", where)
    if len(listed) < 2:
        kept: dict[str, Json] = {flow: flows[flow] for flow in listed}
        return {name: {known.wrapper: {**members, "flows": kept}}}
    called = [name, *(taken.free(f"{name}-{flow}") for flow in listed[1:])]
    text = f"{len(listed)} OAuth flows become a scheme each, of which one will do"
    _change(changes, f"{text}: {', '.join(called)}", where)
    return {
        new: {known.wrapper: {**members, "flows": {flow: flows[flow]}}}
        for new, flow in zip(called, listed, strict=True)
    }


def _warn_flows(flows: Mapping[str, Json], where: str, changes: list[Reason]) -> None:
    for flow in ("implicit", "password"):
        if flow in flows:
            _change(changes, f"the OAuth flow {flow} is deprecated; offer another", where)


def _requirements(value: Json, where: str) -> list[Json] | None:
    """The alternatives; of another form they are refused, because without them a card is open."""
    if value is None or isinstance(value, list):
        return value
    raise CardRefused("card.type", "expected a list of security requirements", path=where)


def _upgraded_requirements(
    listed: list[Json], names: Mapping[str, list[str]], changes: list[Reason], member: str
) -> list[Json]:
    """The alternatives; one that names a scheme of several flows becomes several."""
    upgraded: list[Json] = []
    for index, one in enumerate(listed):
        if isinstance(one, str):
            _change(
                changes, "a name alone becomes a requirement without scopes", f"/{member}/{index}"
            )
            one = {one: []}
        if not isinstance(one, dict):
            where = f"/{member}/{index}"
            raise CardRefused("card.type", "expected a security requirement, an object", path=where)
        wrapped = one.get("schemes") if member == "securityRequirements" else None
        if isinstance(wrapped, dict):
            upgraded.append(one)
            continue
        listed_names = [names.get(name, [name]) for name in one]
        count = math.prod(map(len, listed_names))
        if count > 1:  # they multiply, four for each scheme of four flows
            check_alternatives(len(upgraded) + count, f"/{member}/{index}")
        values: list[Json] = [{"list": scopes} if scopes else {} for scopes in one.values()]
        for called in itertools.product(*listed_names):
            upgraded.append({"schemes": dict(zip(called, values, strict=True))})
    return upgraded


def _upgraded_skills(
    skills: list[Json],
    names: Mapping[str, list[str]],
    kept: dict[str, Json],
    changes: list[Reason],
) -> list[Json]:
    fields = get_type_hints(AgentSkill)
    ours = dict(_object(kept.get("skills"), "skills"))
    upgraded: list[Json] = []
    for index, skill in enumerate(skills):
        where = f"/skills/{index}"
        if not isinstance(skill, dict):
            raise CardRefused("card.type", "expected a skill, an object", path=where)
        made: dict[str, Json] = {
            name: one for name, one in skill.items() if name in fields and one is not None
        }
        security = _requirements(skill.get("security"), f"{where}/security")
        if security is not None:
            made["securityRequirements"] = _upgraded_requirements(
                security, names, changes, "security"
            )
        own = dict(_object(ours.get(str(skill.get("id"))), "skills"))
        for name, value in skill.items():
            if name in KEPT_OF_SKILL and name != "security" and value not in (None, {}):
                _change(changes, f"{name} moves into our extension", f"{where}/{name}")
                own[name] = value
            elif name not in fields and name != "security" and value not in (None, {}):
                _change(
                    changes, f"{name} is no member of a skill and is left out", f"{where}/{name}"
                )
        if isinstance(before := own.pop("security", None), list):
            made.setdefault("securityRequirements", before)
        ours.pop(str(skill.get("id")), None)
        if own:
            ours[str(skill.get("id"))] = own
        upgraded.append(made)
    kept.pop("skills", None)
    if ours:
        kept["skills"] = ours
    return upgraded


# ------------------------------------------------------------------ to 0.3 and 0.2


def _downgraded(card: Mapping[str, Json], to: A2aVersion, changes: list[Reason]) -> dict[str, Json]:
    kept = kept_of(card)
    old: dict[str, Json] = {name: card[name] for name in ("name", "description") if name in card}
    _downgrade_interfaces(card, old, kept, to, changes)
    old |= {name: card[name] for name in _SHARED if name in card}
    capabilities = dict(_object(card.get("capabilities"), "capabilities"))
    extended = capabilities.pop("extendedAgentCard", None)
    if (history := kept.pop("stateTransitionHistory", None)) is not None:
        capabilities["stateTransitionHistory"] = history
    if extended is not None:
        old["supportsAuthenticatedExtendedCard"] = extended
    old["capabilities"] = capabilities
    _downgrade_security(card, old, kept, to)
    old |= {name: card[name] for name in _MODES if name in card}
    if isinstance(skills := card.get("skills"), list):
        ours = dict(_object(kept.get("skills"), "skills"))
        old["skills"] = [_downgraded_skill(one, ours, to) for one in skills]
        if to == "0.2":  # 0.3 leaves there what is there
            kept.pop("skills", None)
            kept |= {"skills": ours} if ours else {}
    made = with_kept(old, kept)
    return {name: made[name] for name in _ORDER[to] if name in made}


_ORDER: Final[Mapping[A2aVersion, tuple[str, ...]]] = {
    "0.3": ("protocolVersion", *(one for one in CARD_0_3.fields if one != "protocolVersion")),
    "0.2": (
        *("name", "description", "url", "version", "protocolVersion", "preferredTransport"),
        *("additionalInterfaces", "documentationUrl", "iconUrl", "capabilities"),
        *("defaultInputModes", "defaultOutputModes", "skills", "authentication", "provider"),
        "supportsAuthenticatedExtendedCard",
    ),
}


def _downgrade_interfaces(
    card: Mapping[str, Json],
    old: dict[str, Json],
    kept: dict[str, Json],
    to: A2aVersion,
    changes: list[Reason],
) -> None:
    listed = [one for one in _list(card.get("supportedInterfaces")) if isinstance(one, dict)]
    if not listed:
        return
    major = to[:3]
    speaking = [one for one in listed if str(one.get("protocolVersion")).startswith(major)]
    if not speaking:
        text = f"no interface speaks A2A {to}, and the card now says so of all of them"
        _change(changes, text, "/supportedInterfaces")
    first, *others = sorted(listed, key=lambda one: one not in speaking)
    version = first.get("protocolVersion") if speaking else PROTOCOL_VERSIONS[to]
    old |= {"url": first.get("url"), "protocolVersion": version}
    binding = first.get("protocolBinding")
    if binding is not None and (binding != DEFAULT_TRANSPORT or to == "0.3"):
        old["preferredTransport"] = binding
    if others:
        old["additionalInterfaces"] = [
            {"url": one.get("url")}
            | ({"transport": one["protocolBinding"]} if one.get("protocolBinding") else {})
            for one in (first, *others)
        ]
    again: Json = [
        {
            "url": one.get("url"),
            "protocolBinding": one.get("protocolBinding"),
            "protocolVersion": version,
        }
        for one in (first, *others)
    ]
    if again != listed:
        kept["supportedInterfaces"] = list(listed)


def _downgrade_security(
    card: Mapping[str, Json], old: dict[str, Json], kept: dict[str, Json], to: A2aVersion
) -> None:
    schemes = _object(card.get("securitySchemes"), "securitySchemes")
    flat = {name: _flat(scheme) for name, scheme in schemes.items()}
    requirements = flat_requirements(card)
    if to == "0.3":
        taken = SchemeNames(flat)
        again = {name: _upgraded_scheme(name, one, taken, []) for name, one in flat.items()}
        lost = {name: one for name, one in schemes.items() if again[name] != {name: one}}
        if lost:
            kept["securitySchemes"] = lost
        if flat:
            old["securitySchemes"] = flat
        if requirements is not None:
            old["security"] = requirements
        return
    if not schemes:
        return
    words: list[Json] = [_word(scheme) for scheme in schemes.values()]
    old["authentication"] = {"schemes": words}
    required = card.get("securityRequirements")
    try:
        derived = authentication_schemes(old["authentication"])
    except CardRefused:  # a word alone does not say all of it, such as the header of a key
        derived = None
    if derived is None or (dict(derived.schemes), list(derived.requirements)) != (
        schemes,
        required,
    ):
        kept |= {"securitySchemes": schemes, "securityRequirements": required or []}


def _downgraded_skill(skill: Json, ours: dict[str, Json], to: A2aVersion) -> Json:
    made = dict(_object(skill, "skills"))
    security = flat_requirements(made)
    made.pop("securityRequirements", None)
    if security is not None and to == "0.3":
        made["security"] = security
    if to == "0.3":
        return made
    own = dict(_object(ours.get(str(made.get("id"))), "skills"))
    if (schema := own.pop("inputSchema", None)) is not None:  # 0.2 has it on the skill itself
        tags = made.pop("tags", None)
        made |= {"inputSchema": schema} | ({} if tags is None else {"tags": tags})
    if security is not None:
        own["security"] = _object(skill, "skills").get("securityRequirements")
    ours.pop(str(made.get("id")), None)
    if own:
        ours[str(made.get("id"))] = own
    return made


def _flat(scheme: Json) -> Json:
    """A scheme as 0.3 writes it. A device code flow has no place there; the rest has."""
    found = unwrapped(scheme) if isinstance(scheme, dict) else None
    if found is None:
        return scheme
    kind, members = found
    flows = members.get("flows")
    if isinstance(flows, dict):
        kept = {
            flow: {name: one for name, one in value.items() if name != "pkceRequired"}
            for flow, value in flows.items()
            if flow != "deviceCode" and isinstance(value, dict)
        }
        members = {**members, "flows": dict(kept)}
    return {"type": kind.name, **members}


def _word(scheme: Json) -> str:
    """The word of 0.2 for a scheme."""
    flat = _flat(scheme)
    if not isinstance(flat, dict):
        return "unknown"
    said = flat.get("scheme")
    kind = said if flat.get("type") == "http" and isinstance(said, str) else flat.get("type")
    return str(kind)


def _is_ours(extension: Json) -> bool:
    return isinstance(extension, dict) and extension.get("uri") == FIELDS_URI


def _object(value: Json, name: str) -> dict[str, Json]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise CardRefused("card.type", f"{name}: expected an object", path=f"/{name}")
    return value


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def _change(changes: list[Reason], message: str, path: str) -> None:
    changes.append(Reason.of("build.changed", message, path))
