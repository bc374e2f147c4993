"""Rules about JSON, about members and types of the A2A version, and about what members mean."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from semver import Version

from cardsign.card.document import BINDING_MEMBERS, interfaces_of
from cardsign.card.extensions import declares_extended_card, extensions_of, find_marker
from cardsign.card.schema import check_members, fold
from cardsign.card.security import REQUIREMENT_LISTS, Scheme, requirements_of, security_problems
from cardsign.card.values import Json, elements_of, members_of, split
from cardsign.errors import CardRefused, SignatureRefused
from cardsign.lint.rules import Breach, LintedCard, Tokens
from cardsign.urls import interface_url, is_this_machine, parse_url, without_userinfo

# Of a flat scheme, `type` alone is reported.
_FOLLOWS_TYPE: Final = ("in", "name", "scheme", "flows", "bearerFormat", "openIdConnectUrl")

# Members and types.

_ENDPOINTS: Final = (("supportedInterfaces",), ("url",))


def required_and_types(subject: LintedCard) -> Iterator[Breach]:
    """Yield required members that are absent or null, and values of another type.

    A missing member has its name in the schema. A card of both versions is held against both.
    """
    groups = subject.settings.groups
    is_said = (groups is None or "meaning" in groups) and not any(interfaces_of(subject.document))
    for problem in check_members(subject.document, subject.a2a_version):
        tokens = problem.place.tokens
        if problem.code == "card.type":
            yield "members.type", tokens, problem.message
        elif not (is_said and tokens in _ENDPOINTS):  # else meaning.no-interface says it
            yield "members.missing", tokens, problem.message


def members(subject: LintedCard) -> Iterator[Breach]:
    """Yield required members that are empty, in either version's sense, and members of the other
    A2A version in a card that is clearly of one version."""
    version = subject.a2a_version
    other = {"1.0": "0.3", "0.3": "1.0"}.get(version)
    for spot in subject.spots:
        field = spot.field or spot.old_field
        if spot.role != "member" or field is None:
            continue
        if field.required and (spot.value == "" or spot.value == []):
            yield "members.empty", spot.tokens, "is empty"
        is_foreign = not (spot.field if version == "1.0" else spot.old_field)
        follows = spot.tokens[0] == "securitySchemes" and spot.name in _FOLLOWS_TYPE
        if other and is_foreign and spot.value is not None and not follows:
            message = f"A2A {other} has this member, but {version} does not"
            yield "members.version", spot.tokens, message


# What the members mean.

_BINDINGS: Final = ("JSONRPC", "GRPC", "HTTP+JSON")
_MAJOR_MINOR: Final = re.compile(r"[0-9]+\.[0-9]+")
_ANY_VERSION: Final = re.compile(r"[0-9]+\.[0-9]+(?:\.[0-9]+)?")
_MEDIA_TYPE: Final = re.compile(r"[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+*-]+(?:\s*;.*)?")
# Controls, bidirectional marks, and what has no width; not the joiners of emoji and of scripts.
_HIDDEN: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f"
    "\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S+")
# Hosts that documents use as examples (RFC 2606), and what templates leave open.
_EXAMPLE_HOST: Final = re.compile(r"(?:.*\.)?(?:example\.(?:com|org|net)|your-[a-z-]+\..*)")
_TEMPLATE: Final = re.compile(r"[<{$][^<{$>}]*[>}]|\b(?:YOUR|REPLACE)[-_]|\bCHANGEME\b|\bTODO\b")


# Interfaces.


def interfaces(subject: LintedCard) -> Iterator[Breach]:
    """Yield what is wrong with the place and protocol of each interface, and that there is none.

    A URI is a custom binding, and http to this machine is for the secrets group.
    """
    for interface in interfaces_of(subject.document):
        where, bound, version = interface.tokens, interface.binding, interface.version
        if isinstance(interface.url, str) and interface.url:
            yield from _check_url(interface.url, str(bound), where)
        if isinstance(bound, str) and bound not in _BINDINGS and not _URI.fullmatch(bound):
            place = (*where[:-1], BINDING_MEMBERS[interface.member])
            yield "meaning.binding", place, f"{bound[:40]!r} is not a binding of A2A"
        is_own = interface.member == "supportedInterfaces" and isinstance(version, str)
        if is_own and version and not _MAJOR_MINOR.fullmatch(str(version)):
            message = f"{str(version)[:40]!r} is not written as Major.Minor"
            yield "meaning.protocol-version", where[:-1], message
    if not any(interfaces_of(subject.document)):
        yield "meaning.no-interface", (), "neither supportedInterfaces nor url is there"


def _check_url(text: str, bound: str, where: Tokens) -> Iterator[Breach]:
    """Yield that a URL is a template, an example, not https, or none by our strict grammar."""
    is_template = _TEMPLATE.search(text) is not None
    if is_template:
        yield "meaning.placeholder", where, f"{without_userinfo(text)!r:.80} is a template"
    try:
        origin = interface_url(text, bound).origin
    except CardRefused as refusal:
        if not is_template:
            yield "meaning.url", where, refusal.message
        return
    if _EXAMPLE_HOST.fullmatch(origin.host):
        yield "meaning.placeholder", where, f"{origin.host} is an example host"
    if origin.scheme == "http" and not is_this_machine(origin.host):
        yield "meaning.http", where, f"{origin} is not https"


def protocol_version(subject: LintedCard) -> Iterator[Breach]:
    """Yield a version of the whole card that is none, or contradicts its form."""
    version, place = subject.document.get("protocolVersion"), ("protocolVersion",)
    if not isinstance(version, str):
        return
    if not _ANY_VERSION.fullmatch(version):
        yield "meaning.protocol-version", place, f"{version[:40]!r} is not a version"
    elif version.startswith("1.") and subject.a2a_version == "0.3":
        message = f"{version} is claimed in a card that is written as 0.3"
        yield "meaning.protocol-version", place, message


# Media types, skills, the version.

_MODES: Final = ("defaultInputModes", "defaultOutputModes", "inputModes", "outputModes")


def media_type(subject: LintedCard) -> Iterator[Breach]:
    """Yield modes of the card and of its skills that are no media types."""
    for tokens, owner in subject.owners:
        for name in _MODES[2:] if tokens else _MODES[:2]:
            for index, mode in enumerate(elements_of(owner.get(name))):
                if isinstance(mode, str) and mode and not _MEDIA_TYPE.fullmatch(mode):
                    place = (*tokens, name, str(index))
                    yield "meaning.media-type", place, f"{mode[:40]!r} is not a media type"


def skill_id(subject: LintedCard) -> Iterator[Breach]:
    """Yield ids that two skills have."""
    seen: set[str] = set()
    for tokens, skill in subject.skills:
        ids = ((member, skill.get(member)) for member in ("id", "skill_id"))
        member, value = next(((m, v) for m, v in ids if isinstance(v, str) and v), ("", ""))
        if value and value in seen:
            message = f"{value[:60]!r} is also the id of an earlier skill"
            yield "meaning.skill-id", (*tokens, member), message
        seen.add(value)


def version(subject: LintedCard) -> Iterator[Breach]:
    """Yield a version that is not semantic, or the default one."""
    value = subject.document.get("version")
    if not isinstance(value, str) or not value:
        return
    if len(value) > 100 or not Version.is_valid(value):
        yield "meaning.version", ("version",), f"{value[:40]!r} is not a semantic version"
    elif value == "0.0.0":
        yield "meaning.version", ("version",), "0.0.0 is what tools write where no version is known"


# The extended card, extensions, what other formats call a signature.


def extended_card(subject: LintedCard) -> Iterator[Breach]:
    """Yield an announced extended card that nothing protects, the spelling of old examples, which
    no version defines, and a marker that verifiers refuse."""
    if declares_extended_card(subject.document) and not subject.schemes:
        message = "an extended card is announced, and there is no security scheme"
        yield "meaning.extended-open", (), message
    name = "supportsExtendedAgentCard"
    if subject.document.get(name) is True:
        yield "meaning.extended-spelling", (name,), "no A2A version defines this member"
    try:
        find_marker(subject.document)
    except CardRefused as refusal:
        yield "meaning.extended-marker", tuple(split(refusal.path)), refusal.message


def extensions(subject: LintedCard) -> Iterator[Breach]:
    """Yield extensions without a URI, with one that is listed already, or at the top."""
    uris: set[str] = set()
    for index, value in enumerate(extensions_of(subject.document)):
        uri, place = members_of(value).get("uri"), ("capabilities", "extensions", str(index))
        if not isinstance(uri, str) or not _URI.fullmatch(uri):
            yield "meaning.extension", place, f"{uri!r:.60} is not a URI"
        elif uri in uris:
            yield "meaning.extension", place, f"{uri:.60} is listed twice"
        else:
            uris.add(uri)
    if isinstance(subject.document.get("extensions"), list | dict):
        message = "extensions belong in capabilities.extensions"
        yield "meaning.extensions-place", ("extensions",), message


def hidden_character(subject: LintedCard) -> Iterator[Breach]:
    """Yield the texts and names with characters that are invisible or change the direction."""
    for spot in subject.spots:
        text = f"{spot.name or ''}{spot.value if isinstance(spot.value, str) else ''}"
        if hidden := sorted({f"U+{ord(char):04X}" for char in _HIDDEN.findall(text)}):
            yield "meaning.hidden-character", spot.tokens, f"holds {', '.join(hidden)[:100]}"


def legacy_path(subject: LintedCard) -> Iterator[Breach]:
    """Yield that the legacy path should be off, by the settings of the project."""
    end, today = subject.settings.legacy_sunset, subject.settings.today
    if end is not None and today is not None and today > end:
        yield "meaning.legacy-path", (), f"the legacy path was to end on {end.isoformat()}"


# Schemes.

_NEEDED: Final[dict[str | None, tuple[str, ...]]] = {
    "apiKey": ("in", "name"),
    "http": ("scheme",),
    "oauth2": ("flows",),
    "openIdConnect": ("openIdConnectUrl",),
    "mutualTLS": (),
}
_LOCATIONS: Final = ("header", "query", "cookie")


def schemes(subject: LintedCard) -> Iterator[Breach]:
    """Yield faults of schemes in either version's form, URLs that are not https, and old flows."""
    for problem in security_problems(subject.document):
        if fold(problem.place.tokens[0]) == "securityschemes":
            yield "meaning.scheme", problem.place.tokens, problem.message
    for name, declared in subject.schemes.items():
        place, flows = ("securitySchemes", name), _flows(declared)
        for needed in _NEEDED.get(declared.type, ()):
            if declared.members.get(needed) in (None, ""):
                yield "meaning.scheme", place, f"{declared.type} needs {needed!r}"
        location = declared.members.get("in")
        if declared.type == "apiKey" and location is not None and location not in _LOCATIONS:
            shown = f"not in {str(location)[:20]!r}"
            yield "meaning.scheme", place, f"an API key is in header, query or cookie, {shown}"
        for owner in (declared.members, *flows.values()):
            for member, value in owner.items():
                is_url = member.endswith("Url") and isinstance(value, str) and value
                if is_url and not _is_https(str(value)):
                    yield "meaning.scheme-url", place, f"{member[:40]} is not an https URL"
        for flow in (flow for flow in flows if flow in ("implicit", "password")):
            yield "meaning.old-flow", place, f"the {flow} flow"


def _flows(scheme: Scheme) -> dict[str, dict[str, Json]]:
    flows = members_of(scheme.members.get("flows"))
    return {name: members_of(flow) for name, flow in flows.items()}


def _is_https(text: str) -> bool:
    try:
        origin = parse_url(text).origin
    except CardRefused:
        return text.startswith("https://")  # beyond our grammar, as with a tenant in braces
    return origin.scheme == "https" or is_this_machine(origin.host)


# Requirements.


def requirements(subject: LintedCard) -> Iterator[Breach]:
    """Yield requirements of the card and of skills that cannot be read, ask for nothing, or name a
    scope that no flow of an OAuth scheme offers."""
    offered = {
        name: {scope for flow in _flows(entry).values() for scope in members_of(flow.get("scopes"))}
        for name, entry in subject.schemes.items()
        if entry.type == "oauth2"
    }
    for tokens, owner in subject.owners:
        for demand in requirements_of(owner, subject.schemes, tokens):
            if demand.problem is not None:
                yield "meaning.requirement", demand.tokens, demand.problem
            if demand.is_open:
                message = "an alternative without schemes lets everybody in"
                yield "meaning.open-door", demand.tokens, message
            asked = ((n, scope) for n, scopes in demand.schemes.items() for scope in scopes)
            for name, scope in asked:
                if scope not in offered.get(name, {scope}):
                    message = f"{name[:40]!r} does not offer {scope[:40]!r}"
                    yield "meaning.scope", demand.tokens, message


def no_requirement(subject: LintedCard) -> Iterator[Breach]:
    """Yield that no requirement of the card or of a skill names a scheme."""
    listed = (owner.get(name) for _, owner in subject.owners for name in REQUIREMENT_LISTS)
    if subject.schemes and not any(isinstance(value, list) for value in listed):
        yield "meaning.no-requirement", ("securitySchemes",), "no requirement names a scheme"


# Signatures.


def signatures(subject: LintedCard) -> Iterator[Breach]:
    """Yield signatures that verifiers refuse before they look at a key, and what is no A2A one."""
    for name in ("signature", "proof", "sigstore", "signatureBundle", "attestations"):
        if isinstance(subject.document.get(name), dict | list):
            message = "is not an A2A signature; nobody verifies it"
            yield "meaning.foreign-signature", (name,), message
    entries = elements_of(subject.document.get("signatures"))
    if not entries:
        return
    from cardsign.jose.jws import read_entry  # a library for keys, which most cards do not need

    for index, entry in enumerate(entries):
        try:
            read_entry(entry)
        except SignatureRefused as refusal:
            yield "meaning.signature", ("signatures", str(index)), refusal.message


CHECKS: Final = (
    *(interfaces, protocol_version, media_type, skill_id, version, extended_card, extensions),
    *(hidden_character, legacy_path, schemes, requirements, no_requirement, signatures),
)
