"""Rules about JSON, about members and types of the A2A version, and about what members mean."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from semver import Version

from cardsign.card.extensions import declares_extended_card, extensions_of, find_marker
from cardsign.card.interfaces import BINDING_MEMBERS, Interface, interfaces_of
from cardsign.card.schema import fold, snake
from cardsign.card.security import Scheme, security_problems
from cardsign.card.values import Json, elements_of, members_of, split, value_at
from cardsign.errors import CardRefused, SignatureRefused
from cardsign.lint.rules import Found, LintedCard, Rule, Spot, Tokens
from cardsign.urls import Url, interface_url, is_this_machine, parse_url, without_userinfo

# Refusals of the strict reader are rules with the same codes.
_READING: Final = (
    *("json.too_large", "json.too_many_values", "json.not_utf8", "json.bom", "json.syntax"),
    *("json.duplicate_member", "json.number", "json.integer_range", "json.surrogate"),
    *("json.depth", "json.trailing", "json.not_object", "json.not-read"),
    *("card.two_spellings", "card.signatures_shape", "card.signatures_too_many"),
)
# Of a flat scheme, `type` alone is reported.
_FOLLOWS_TYPE: Final = ("in", "name", "scheme", "flows", "bearerFormat", "openIdConnectUrl")

# Members and types.

_ENDPOINTS: Final = (("supportedInterfaces",), ("url",))


def missing(subject: LintedCard) -> Iterator[Found]:
    """Yield required members that are absent or null, under their name in the schema."""
    groups = subject.settings.groups
    is_said = (groups is None or "meaning" in groups) and not any(interfaces_of(subject.document))
    for problem in subject.problems:
        if problem.code == "card.missing_required":
            tokens = problem.place.tokens
            if is_said and tokens in _ENDPOINTS:
                continue  # meaning.no-interface says what that comes to
            other = snake(tokens[-1])
            owner = members_of(value_at(subject.document, tokens[:-1]))
            is_there = other != tokens[-1] and other in owner
            hint = f"; the card spells it {other}, which few readers know" if is_there else ""
            yield tokens, problem.message + hint


def wrong_type(subject: LintedCard) -> Iterator[Found]:
    """Yield values of types that the card's version, or both of its versions, do not have."""
    for problem in subject.problems:
        if problem.code == "card.type":
            yield problem.place.tokens, problem.message


def empty(subject: LintedCard) -> Iterator[Found]:
    """Yield required members that are empty, in either version's sense."""
    for spot in subject.spots:
        field = spot.field or spot.old_field
        if spot.role != "member" or field is None or not field.required:
            continue
        if spot.value == "" or (spot.value == [] and isinstance(spot.value, list)):
            yield spot.tokens, "is empty"


def of_the_other_version(subject: LintedCard) -> Iterator[Found]:
    """Yield members of the other A2A version in a card that is clearly of one version."""
    if subject.a2a_version not in ("1.0", "0.3"):
        return
    other = "0.3" if subject.a2a_version == "1.0" else "1.0"
    for spot in subject.spots:
        field, old_field = spot.field, spot.old_field
        mine, theirs = (field, old_field) if other == "0.3" else (old_field, field)
        if spot.tokens[0] == "securitySchemes" and spot.name in _FOLLOWS_TYPE:
            continue
        if spot.role == "member" and spot.value is not None and theirs and not mine:
            yield spot.tokens, f"A2A {other} has this member, and {subject.a2a_version} has not"


# What the members mean.

_BINDINGS: Final = ("JSONRPC", "GRPC", "HTTP+JSON")
_MAJOR_MINOR: Final = re.compile(r"[0-9]+\.[0-9]+")
_ANY_VERSION: Final = re.compile(r"[0-9]+\.[0-9]+(?:\.[0-9]+)?")
_MEDIA_TYPE: Final = re.compile(r"[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+*-]+(?:\s*;.*)?")
_KNOWN_MODES: Final = {
    "text": "text/plain",
    "json": "application/json",
    "data": "application/json",
    "image": "image/png",
    "markdown": "text/markdown",
}
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


def _urls(subject: LintedCard) -> Iterator[tuple[Interface, Url]]:
    """Yield the interfaces whose url can be read."""
    for interface in interfaces_of(subject.document):
        if isinstance(interface.url, str):
            try:
                yield interface, interface_url(interface.url, str(interface.binding))
            except CardRefused:
                continue


def no_interface(subject: LintedCard) -> Iterator[Found]:
    """Yield that there is no interface in either version's form."""
    if not any(interfaces_of(subject.document)):
        other = next((n for n in ("interfaces", "endpoints") if n in subject.document), None)
        hint = f"; A2A does not know {other}" if other else ""
        yield (), f"neither supportedInterfaces nor url is there{hint}"


def url_form(subject: LintedCard) -> Iterator[Found]:
    """Yield URLs outside the strict grammar of :mod:`cardsign.urls`."""
    for interface in interfaces_of(subject.document):
        if isinstance(interface.url, str) and interface.url and not _TEMPLATE.search(interface.url):
            try:
                interface_url(interface.url, str(interface.binding))
            except CardRefused as refusal:
                yield interface.tokens, refusal.message


def placeholder(subject: LintedCard) -> Iterator[Found]:
    """Yield hosts of examples, and templates that were not filled in."""
    for interface in interfaces_of(subject.document):
        if isinstance(interface.url, str) and _TEMPLATE.search(interface.url):
            yield interface.tokens, f"{without_userinfo(interface.url)!r:.80} is a template"
    for interface, url in _urls(subject):
        if _EXAMPLE_HOST.fullmatch(url.origin.host):
            yield interface.tokens, f"{url.origin.host} is a host of examples"


def plain_http(subject: LintedCard) -> Iterator[Found]:
    """Yield http URLs, except this machine's, which the secrets group reports."""
    for interface, url in _urls(subject):
        if url.origin.scheme == "http" and not is_this_machine(url.origin.host):
            yield interface.tokens, f"{url.origin} is not https"


def binding(subject: LintedCard) -> Iterator[Found]:
    """Yield unknown bindings; a URI is a custom binding."""
    for interface in interfaces_of(subject.document):
        is_known = not isinstance(interface.binding, str) or interface.binding in _BINDINGS
        if not is_known and not _URI.fullmatch(str(interface.binding)):
            place = (*interface.tokens[:-1], BINDING_MEMBERS[interface.member])
            folded = re.sub(r"[^A-Z]", "", str(interface.binding).upper())
            meant = next((b for b in _BINDINGS if re.sub(r"[^A-Z]", "", b) == folded), None)
            hint = f"; did you mean {meant}?" if meant else ""
            yield place, f"{str(interface.binding)[:40]!r} is no binding of A2A{hint}"


def protocol_version(subject: LintedCard) -> Iterator[Found]:
    """Yield versions that are not Major.Minor, or contradict the form of the card."""
    for interface in interfaces_of(subject.document):
        version = interface.version if interface.member == "supportedInterfaces" else None
        if isinstance(version, str) and version and not _MAJOR_MINOR.fullmatch(version):
            yield interface.tokens[:-1], f"{version[:40]!r} is not written as Major.Minor"
    version = subject.document.get("protocolVersion")
    if isinstance(version, str) and not _ANY_VERSION.fullmatch(version):
        yield ("protocolVersion",), f"{version[:40]!r} is no version"
    elif isinstance(version, str) and version.startswith("1.") and subject.a2a_version == "0.3":
        yield ("protocolVersion",), f"{version} is claimed in a card that is written as 0.3"


# Texts, media types, skills.

_MODES: Final = ("defaultInputModes", "defaultOutputModes", "inputModes", "outputModes")


def _lists(subject: LintedCard, names: tuple[str, ...]) -> Iterator[tuple[Tokens, list[Json]]]:
    """Yield the lists of these names, of the card and of its skills."""
    for tokens, owner in subject.owners:
        for name in names:
            value = owner.get(name)
            if isinstance(value, list) and (not tokens) == name.startswith("default"):
                yield (*tokens, name), value


def media_type(subject: LintedCard) -> Iterator[Found]:
    """Yield modes of the card and of its skills that are no media types."""
    for tokens, modes in _lists(subject, _MODES):
        for index, mode in enumerate(modes):
            if isinstance(mode, str) and mode and not _MEDIA_TYPE.fullmatch(mode):
                meant = _KNOWN_MODES.get(mode.lower())
                hint = f"; {meant} is one" if meant else ""
                yield (*tokens, str(index)), f"{mode[:40]!r} is no media type{hint}"


def skill_id(subject: LintedCard) -> Iterator[Found]:
    """Yield ids that two skills have."""
    seen: set[str] = set()
    for tokens, skill in subject.skills:
        for member in ("id", "skill_id"):
            value = skill.get(member)
            if isinstance(value, str) and value:
                if value in seen:
                    yield (*tokens, member), f"{value[:60]!r} is the id of a skill before it"
                seen.add(value)
                break


def version(subject: LintedCard) -> Iterator[Found]:
    """Yield a version that is not semantic, or the default one."""
    value = subject.document.get("version")
    if not isinstance(value, str) or not value:
        return
    if len(value) > 100 or not Version.is_valid(value):
        yield ("version",), f"{value[:40]!r} is no semantic version"
    elif value == "0.0.0":
        yield ("version",), "0.0.0 is what tools write where no version is known"


# The extended card, extensions, what other formats call a signature.


def extended_open(subject: LintedCard) -> Iterator[Found]:
    """Yield an announced extended card that nothing protects."""
    announced = declares_extended_card(subject.document, any_spelling=True)
    if announced and not subject.schemes:
        yield (), "an extended card is announced, and there is no security scheme"


def extended_spelling(subject: LintedCard) -> Iterator[Found]:
    """Yield the spelling of old examples, which no version defines."""
    if subject.document.get("supportsExtendedAgentCard") is True:
        yield ("supportsExtendedAgentCard",), "no A2A version defines this member"


def marker(subject: LintedCard) -> Iterator[Found]:
    """Yield a marker that verifiers refuse."""
    try:
        find_marker(subject.document)
    except CardRefused as refusal:
        yield tuple(split(refusal.path)), refusal.message


def extension(subject: LintedCard) -> Iterator[Found]:
    """Yield extensions without a URI, or with one that is listed already."""
    seen: set[Json] = set()
    for index, value in enumerate(extensions_of(subject.document)):
        uri = members_of(value).get("uri")
        place = ("capabilities", "extensions", str(index))
        if not isinstance(uri, str) or not _URI.fullmatch(uri):
            yield place, f"{uri!r:.60} is no URI"
        elif uri in seen:
            yield place, f"{uri:.60} is listed twice"
        else:
            seen.add(uri)


def extensions_place(subject: LintedCard) -> Iterator[Found]:
    """Yield extensions at the top of the card."""
    if isinstance(subject.document.get("extensions"), list | dict):
        yield ("extensions",), "extensions belong in capabilities.extensions"


def hidden_character(spot: Spot) -> str | None:
    """Return which characters of a text or name are invisible or change its direction."""
    text = f"{spot.name or ''}{spot.value if isinstance(spot.value, str) else ''}"
    hidden = sorted({f"U+{ord(char):04X}" for char in _HIDDEN.findall(text)})
    return f"holds {', '.join(hidden)[:100]}" if hidden else None


def legacy_path(subject: LintedCard) -> Iterator[Found]:
    """Yield that the legacy path should be off, by the settings of the project."""
    end, today = subject.settings.legacy_sunset, subject.settings.today
    if end is not None and today is not None and today > end:
        yield (), f"the legacy path was to end on {end.isoformat()}"


# Schemes.

_NEEDED: Final[dict[str, tuple[str, ...]]] = {
    "apiKey": ("in", "name"),
    "http": ("scheme",),
    "oauth2": ("flows",),
    "openIdConnect": ("openIdConnectUrl",),
    "mutualTLS": (),
}
_LOCATIONS: Final = ("header", "query", "cookie")
_OLD_FLOWS: Final = ("implicit", "password")
_SCHEME_URLS: Final = (
    "openIdConnectUrl",
    "oauth2MetadataUrl",
    "authorizationUrl",
    "tokenUrl",
    "refreshUrl",
    "deviceAuthorizationUrl",
)


def scheme(subject: LintedCard) -> Iterator[Found]:
    """Yield faults of schemes in either version's form."""
    for problem in security_problems(subject.document):
        if fold(problem.place.tokens[0]) == "securityschemes":
            yield problem.place.tokens, problem.message
    for name, declared in subject.schemes.items():
        place = ("securitySchemes", name)
        if declared.type is None:
            continue
        for needed in _NEEDED[declared.type]:
            if declared.members.get(needed) in (None, ""):
                yield place, f"{declared.type} needs {needed!r}"
        location = declared.members.get("in")
        if declared.type == "apiKey" and location is not None and location not in _LOCATIONS:
            yield place, f"an API key is in header, query or cookie, not in {str(location)[:20]!r}"


def _flows(scheme: Scheme) -> Iterator[tuple[str, Mapping[str, Json]]]:
    for name, flow in members_of(scheme.members.get("flows")).items():
        yield name, members_of(flow)


def scheme_url(subject: LintedCard) -> Iterator[Found]:
    """Yield URLs of OpenID Connect, OAuth metadata and flows that are not https."""
    for name, declared in subject.schemes.items():
        for owner in (declared.members, *(flow for _, flow in _flows(declared))):
            for member in _SCHEME_URLS:
                value = owner.get(member)
                if isinstance(value, str) and value and not _is_https(value):
                    yield ("securitySchemes", name), f"{member} is no https URL"


def _is_https(text: str) -> bool:
    try:
        origin = parse_url(text).origin
    except CardRefused:
        return text.startswith("https://")  # beyond our grammar, as with a tenant in braces
    return origin.scheme == "https" or is_this_machine(origin.host)


def old_flow(subject: LintedCard) -> Iterator[Found]:
    """Yield the implicit and password flows."""
    for name, entry in subject.schemes.items():
        for flow, _ in _flows(entry):
            if flow in _OLD_FLOWS:
                yield ("securitySchemes", name), f"the {flow} flow"


# Requirements.


def requirement(subject: LintedCard) -> Iterator[Found]:
    """Yield requirements of the card and of skills that cannot be read, or name no scheme."""
    for demand in subject.requirements:
        if demand.problem is not None:
            yield demand.tokens, demand.problem


def no_requirement(subject: LintedCard) -> Iterator[Found]:
    """Yield that no requirement of the card or of a skill names a scheme."""
    owners = [owner for _, owner in subject.owners]
    members = ("security", "securityRequirements")
    if subject.schemes and not any(
        isinstance(owner.get(member), list) for owner in owners for member in members
    ):
        yield ("securitySchemes",), "no requirement names a scheme"


def open_door(subject: LintedCard) -> Iterator[Found]:
    """Yield alternatives that ask for nothing."""
    for demand in subject.requirements:
        if demand.is_open:
            yield demand.tokens, "an alternative without schemes lets everybody in"


def requirement_scope(subject: LintedCard) -> Iterator[Found]:
    """Yield scopes that no flow of an OAuth scheme offers."""
    offered = {
        name: {scope for _, flow in _flows(entry) for scope in members_of(flow.get("scopes"))}
        for name, entry in subject.schemes.items()
        if entry.type == "oauth2"
    }
    for requirement in subject.requirements:
        for name, asked in requirement.schemes.items():
            for scope in asked if name in offered else ():
                if scope not in offered[name]:
                    yield requirement.tokens, f"{name[:40]!r} does not offer {scope[:40]!r}"


# Signatures.


def signature(subject: LintedCard) -> Iterator[Found]:
    """Yield signatures that verifiers refuse before they look at a key."""
    entries = elements_of(subject.document.get("signatures"))
    if not entries:
        return
    from cardsign.jose.jws import read_entry  # a library for keys, which most cards do not need

    for index, entry in enumerate(entries):
        try:
            read_entry(entry)
        except SignatureRefused as refusal:
            yield ("signatures", str(index)), refusal.message


def foreign_signature(subject: LintedCard) -> Iterator[Found]:
    """Yield members that look like signatures and are not A2A's."""
    for name in ("signature", "proof", "sigstore", "signatureBundle", "attestations"):
        if isinstance(subject.document.get(name), dict | list):
            yield (name,), "is no A2A signature; nobody verifies it"


RULES: Final = {
    **dict.fromkeys(_READING, Rule("error")),
    "members.missing": Rule("error", missing),
    "members.type": Rule("error", wrong_type),
    "members.empty": Rule("warning", empty),
    "members.version": Rule("error", of_the_other_version),
    "meaning.no-interface": Rule("error", no_interface),
    "meaning.url": Rule("error", url_form),
    "meaning.placeholder": Rule("error", placeholder),
    "meaning.http": Rule("error", plain_http),
    "meaning.binding": Rule("warning", binding),
    "meaning.protocol-version": Rule("warning", protocol_version),
    "meaning.media-type": Rule("warning", media_type),
    "meaning.skill-id": Rule("error", skill_id),
    "meaning.version": Rule("warning", version),
    "meaning.extended-open": Rule("warning", extended_open),
    "meaning.extended-spelling": Rule("warning", extended_spelling),
    "meaning.extended-marker": Rule("error", marker),
    "meaning.extension": Rule("error", extension),
    "meaning.extensions-place": Rule("error", extensions_place),
    "meaning.hidden-character": Rule("warning", on_value=hidden_character),
    "meaning.legacy-path": Rule("warning", legacy_path),
    "meaning.not-advertised": Rule("warning"),
    "meaning.scheme": Rule("error", scheme),
    "meaning.scheme-url": Rule("error", scheme_url),
    "meaning.old-flow": Rule("warning", old_flow),
    "meaning.requirement": Rule("error", requirement),
    "meaning.no-requirement": Rule("warning", no_requirement),
    "meaning.open-door": Rule("warning", open_door),
    "meaning.scope": Rule("warning", requirement_scope),
    "meaning.signature": Rule("error", signature),
    "meaning.foreign-signature": Rule("error", foreign_signature),
}
