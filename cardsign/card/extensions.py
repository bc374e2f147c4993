"""What a card says in extensions: that it is an extended card, and what A2A has no member for.

A public card and an extended one have the same form and are signed with the same keys; without
a word of their own an extended card at the public URL, or another audience's, would verify. That
word is the marker, an extension of ours in `capabilities.extensions`, where every default profile
keeps it; `docs/reference/formats.md` specifies it. Whether its number and its time are good, and
for whom, is for the verifier to say.

A second extension of ours keeps the members of manifests and older forms for which A2A 1.0 has no
place. A contract card has its facts (schemas of skills, an identity) in its skills and at its top;
a card of A2A has them in the `params` of any extension, what belongs to a skill below `skills` and
the skill's id.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from string import ascii_letters, digits
from typing import Final, TypeAlias, TypeGuard

from cardsign.card.document import Card, unsigned
from cardsign.card.rules import Tokens
from cardsign.card.schema import CARD_1_0
from cardsign.card.strictjson import MAX_INTEGER
from cardsign.card.values import Json, children_of, elements_of, members_of, objects_in, pointer
from cardsign.errors import CardRefused, UsageFault
from cardsign.times import MAX_TIME, read_span

_Tokens: TypeAlias = tuple[str, ...]

_UUID: Final = "46cbbb6f-5ab3-4ee0-a84f-e6e984e30fda"
#: Drawn at random once (RFC 9562 5.4), for ever: it depends on no host or name that could change
#: hands. It has no version, so that a reader refuses what a later one would write, instead of
#: taking that card for a public one.
EXTENDED_URI: Final = f"urn:uuid:{_UUID}"
#: An audience is part of a file's name and of a line of the token file, too.
AUDIENCE: Final = re.compile(r"[a-z0-9-]{1,64}")
MAX_SEQ: Final = MAX_INTEGER
#: How people write when a card or a token ends.
END_FORMS: Final = "YYYY-MM-DD (inclusive), an ISO time (in UTC), or days from now, such as 90d"

#: What announces an extended card in A2A 0.3, and in cards of no version.
EXTENDED_FLAGS: Final = ("supportsAuthenticatedExtendedCard", "supportsExtendedAgentCard")

_DESCRIPTION: Final = (
    "Marks an extended card: for one audience of authenticated callers, not public"
)
_KIND: Final = "extended"
_EXPECTED: Final = (
    "expected uri, params and at most a description, a string; and params of exactly kind, "
    f"audience, seq, exp: {_KIND!r}, {AUDIENCE.pattern}, and two whole numbers from 1"
)
_EXTENSIONS: Final = "/capabilities/extensions"
_NOISE: Final = re.compile(r"[^0-9A-Za-z-]+")  # white space, control and format characters
# The same of canonical JSON, which escapes no letter, digit or hyphen.
_ESCAPE: Final = re.compile(rb"\\(?:u[0-9a-f]{4}|.)")
_NOISE_BYTES: Final = bytes(set(range(256)) - set(b"-" + (ascii_letters + digits).encode()))


@dataclass(frozen=True, slots=True)
class ExtendedMarker:
    """What an extended card says of itself. Its values are checked when it is read or written.

    Attributes:
        audience: For whom it is: :data:`AUDIENCE`, best a random id.
        seq: The number of the release for which it was made, 1 to :data:`MAX_SEQ`.
        exp: Seconds since 1970 UTC, 1 to :data:`MAX_TIME`; from then on it is not to be used.
    """

    audience: str
    seq: int
    exp: int


def read_end(text: str, now: datetime) -> datetime:
    """Return when a card or a token that is made now ends, as an aware time.

    Args:
        text: As :data:`END_FORMS` says; a time may name another offset than UTC.
        now: The time, aware.

    Raises:
        UsageFault: ``usage.invalid``: it is none of these, or in the past.
    """
    span = read_span(text) if text.endswith("d") else None  # less than a day, cron may miss
    try:
        end = now + timedelta(seconds=span) if span else datetime.fromisoformat(text)
        if not span and len(text) <= len("YYYY-MM-DD"):
            end += timedelta(days=1)
    except OverflowError as exc:
        raise UsageFault("usage.invalid", f"expires {text!r} is too far ahead") from exc
    except ValueError as exc:
        raise UsageFault("usage.invalid", f"expires takes {END_FORMS}, not {text!r}") from exc
    end = end if end.tzinfo else end.replace(tzinfo=UTC)
    if end <= now:
        raise UsageFault("usage.invalid", f"expires {text!r} is in the past")
    return end


def check_audience(name: str) -> None:
    """Check the name of an audience.

    Raises:
        UsageFault: ``publish.audience_name``.
    """
    if not AUDIENCE.fullmatch(name):
        raise UsageFault("publish.audience_name", f"audience {name!r} is not {AUDIENCE.pattern}")


def extensions_of(document: Mapping[str, Json]) -> list[Json]:
    """Return the elements of `capabilities.extensions`; none where that is no list."""
    return elements_of(members_of(document.get("capabilities")).get("extensions"))


def declares_extended_card(document: Mapping[str, Json]) -> bool:
    """Return whether a public card announces an extended one.

    As A2A 1.0 or 0.3 says it, or as some cards do, by a name that neither version has.
    """
    if members_of(document.get("capabilities")).get("extendedAgentCard") is True:
        return True
    return any(document.get(name) is True for name in EXTENDED_FLAGS)


def find_marker(
    document: Mapping[str, Json], canonical: bytes | None = None
) -> ExtendedMarker | None:
    """Read the marker of a card.

    Any text or member name that holds our UUID counts as an attempt at one, whatever else it
    holds, and in either case of letters: what only looks like a marker must not pass for the
    absence of one. `signatures` are not looked at, for no payload holds them. Nothing is
    verified.

    Args:
        document: A card of A2A 1.0 or 0.3, or a payload made of one.
        canonical: Its RFC 8785 bytes without `signatures`, if at hand. Where our UUID is not in
            them, no value has to be looked at.

    Returns:
        The marker, or None where the card does not have any.

    Raises:
        CardRefused: ``extended.marker``: it is malformed, there twice, or out of its place.
    """
    if canonical is not None and not _may_name_us(canonical):
        return None
    card = unsigned(document)
    ours: dict[Tokens, Mapping[str, Json]] = {
        ("capabilities", "extensions", index, "uri"): extension
        for index, extension in enumerate(extensions_of(card))
        if _is_marker(extension)
    }
    for tokens in _mentions(card, ()):
        if tokens not in ours:
            expected = f"expected {EXTENDED_URI} as uri of an extension, or not at all"
            raise _refused(expected, pointer(*tokens))
    for tokens in list(ours)[1:]:
        raise _refused("expected one, found several", pointer(*tokens[:-1]))
    for tokens, extension in ours.items():
        return _read(extension, pointer(*tokens[:-1]))
    return None


def with_marker(document: Mapping[str, Json], marker: ExtendedMarker) -> dict[str, Json]:
    """Return a copy of a card with this marker in the place of its own, or after its extensions.

    Nothing else changes, nor its order; `capabilities` and `extensions` are made where they are
    absent or null. `signatures` stay, and fit no longer.

    Raises:
        CardRefused: ``extended.marker``: the card's marker, or the one given, is malformed;
            ``card.not_agent_card``: it is neither of A2A 1.0 nor of 0.3; ``card.type``:
            `capabilities` or `extensions` cannot hold it; and what :class:`Card` refuses.
    """
    find_marker(document)
    capabilities = checked_object(document.get("capabilities"), "capabilities")
    if not isinstance(capabilities.get("extensions"), list | None):
        raise CardRefused("card.type", "expected a list", path=_EXTENSIONS)
    ours: Json = {
        "uri": EXTENDED_URI,
        "description": _DESCRIPTION,
        "params": {"kind": _KIND, **asdict(marker)},
    }
    extensions = [
        ours if _is_marker(extension) else extension for extension in extensions_of(document)
    ]
    if ours not in extensions:
        extensions.append(ours)
    marked = {**document, "capabilities": {**capabilities, "extensions": extensions}}
    if Card.from_object(marked).a2a_version == "none":
        lacking = "expected a card of A2A 1.0 or 0.3: it has neither interfaces nor a url"
        raise CardRefused("card.not_agent_card", lacking)
    find_marker(marked)
    return marked


def _mentions(value: Json, above: Tokens) -> Iterator[Tokens]:
    """Yield every string and every member with a name in which our UUID is, in document order."""
    if isinstance(value, str) and _names_us(value):
        yield above
    for token, child in children_of(value):
        if isinstance(token, str) and _names_us(token):
            yield (*above, token)
        if isinstance(child, str | dict | list):
            yield from _mentions(child, (*above, token))


def _may_name_us(canonical: bytes) -> bool:
    """Return whether our UUID is in the letters, digits and hyphens of a text, run together."""
    if b"\\" in canonical:
        canonical = _ESCAPE.sub(b"", canonical)
    return _UUID.encode() in canonical.translate(None, _NOISE_BYTES).lower()


def _names_us(text: str) -> bool:
    return len(text) >= len(_UUID) and _UUID in _NOISE.sub("", text).lower()


def _is_marker(extension: Json) -> TypeGuard[dict[str, Json]]:
    return isinstance(extension, dict) and extension.get("uri") == EXTENDED_URI


def _read(extension: Mapping[str, Json], where: str) -> ExtendedMarker:
    params = members_of(extension.get("params"))
    audience, seq, exp = (params.get(name) for name in ("audience", "seq", "exp"))
    if (
        extension.keys() <= {"uri", "description", "params"}
        and isinstance(extension.get("description", ""), str)
        and params.keys() == {"kind", "audience", "seq", "exp"}
        and params["kind"] == _KIND
        and isinstance(audience, str)
        and AUDIENCE.fullmatch(audience)
        and _is_whole(seq, MAX_SEQ)
        and _is_whole(exp, MAX_TIME)
    ):
        return ExtendedMarker(audience, int(seq), int(exp))
    raise _refused(_EXPECTED, where)


def _is_whole(value: Json, most: int) -> TypeGuard[int | float]:
    """Return whether a value is a number from 1 on, as ``7.0`` is: its payload is that of ``7``."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return value % 1 == 0 and 1 <= value <= most  # RFC 8785 3.2.2.3


def _refused(message: str, where: str) -> CardRefused:
    return CardRefused("extended.marker", f"the extended-card marker: {message}", path=where)


# Members for which A2A 1.0 has no place.

#: Our extension, which keeps them.
FIELDS_URI: Final = "urn:uuid:6d5ef2e3-32a0-4bd5-8c37-2f0a4a1c9f6b"
#: What is kept there of a card.
KEPT_OF_CARD: Final = (
    "id",
    "spiffe_id",
    "metadata",
    "authentication",
    "capabilities",
    "rateLimits",
    "stateTransitionHistory",
)
#: Where a gateway's copy came from: no member of any manifest, so nothing moves there.
UPSTREAM: Final = "upstream"
#: What is kept there of a skill.
KEPT_OF_SKILL: Final = ("inputSchema", "outputSchema", "deprecated")
#: How the two schemas of a skill are spelled.
SCHEMA_MEMBERS: Final = {
    "input_schema": ("input_schema", "inputSchema"),
    "output_schema": ("output_schema", "outputSchema"),
}


#: One schema of a skill, wherever the card keeps it: the skill's id, empty where it has none;
#: ``input_schema`` or ``output_schema``; where it stands; and the schema.
SkillSchema: TypeAlias = tuple[str, str, _Tokens, Json]


def with_kept(document: Mapping[str, Json], kept: Mapping[str, Json]) -> dict[str, Json]:
    """Return the card with our extension, whose `params` are `kept`; without it if none are."""
    card = dict(document)
    capabilities = dict(checked_object(card.get("capabilities"), "capabilities"))
    extensions = [
        extension
        for extension in elements_of(capabilities.pop("extensions", None))
        if members_of(extension).get("uri") != FIELDS_URI
    ]
    if kept:
        text = "Members of the agent's manifest for which A2A has no place"
        extensions.append({"uri": FIELDS_URI, "description": text, "params": dict(kept)})
    if extensions:
        capabilities["extensions"] = extensions
    if capabilities or "capabilities" in card:
        card["capabilities"] = capabilities
    return {name: card[name] for name in (*CARD_1_0.fields, *card) if name in card}


def kept_of(document: Mapping[str, Json]) -> dict[str, Json]:
    """Return what our extension holds; only its closed list of members."""
    for uri, _, params in _params(document):
        if uri == FIELDS_URI:
            names = (*KEPT_OF_CARD, UPSTREAM)
            kept = {name: value for name, value in params.items() if name in names}
            skills: dict[str, Json] = {
                skill: {name: value for name, value in members.items() if name in KEPT_OF_SKILL}
                for skill, members in members_of(params.get("skills")).items()
                if isinstance(members, dict)
            }
            return kept | ({"skills": skills} if skills else {})
    return {}


def checked_object(value: Json, name: str) -> dict[str, Json]:
    """Return a member that has to be an object; an empty one where it is absent or null.

    Raises:
        CardRefused: ``card.type``.
    """
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise CardRefused("card.type", f"{name}: expected an object", path=f"/{name}")
    return value


def skill_schemas(document: Mapping[str, Json]) -> Iterator[SkillSchema]:
    """Yield the schemas of a card's skills: in the skills, then in the `params` of extensions."""
    owners: list[tuple[str, Mapping[str, Json], _Tokens]] = []
    for index, skill in objects_in(document.get("skills")):
        name = skill.get("skill_id") or skill.get("id")
        owners.append((str(name or ""), skill, ("skills", str(index))))
    for _, tokens, params in _params(document):
        for named, members in members_of(params.get("skills")).items():
            owners.append((named, members_of(members), (*tokens, "skills", named)))
    for skill_id, owner, tokens in owners:
        for kind, spellings in SCHEMA_MEMBERS.items():
            for member in spellings:
                if member in owner:
                    yield skill_id, kind, (*tokens, member), owner[member]


def contract_member(document: Mapping[str, Json], name: str) -> tuple[_Tokens, Json]:
    """Return a member of a contract card, from its top or the `params` of an extension."""
    if name in document:
        return (name,), document[name]
    holders = ((tokens, params) for _, tokens, params in _params(document) if name in params)
    return next((((*tokens, name), params[name]) for tokens, params in holders), ((), None))


def is_contract(document: Mapping[str, Json]) -> bool:
    """Return whether a card is a contract card: it has a `skill_id` or a `spiffe_id`."""
    if any("skill_id" in skill for _, skill in objects_in(document.get("skills"))):
        return True
    return contract_member(document, "spiffe_id")[1] is not None


def _params(document: Mapping[str, Json]) -> Iterator[tuple[Json, _Tokens, Mapping[str, Json]]]:
    """Yield the `params` of each extension that has some, with its uri and their place."""
    for index, extension in objects_in(extensions_of(document)):
        if isinstance(params := extension.get("params"), dict):
            yield extension.get("uri"), ("capabilities", "extensions", str(index), "params"), params
