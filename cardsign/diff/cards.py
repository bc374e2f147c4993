"""Two cards compared: what changed for a caller, and the version that the new one needs.

Nothing is verified here, and signatures are not compared: verify both cards first where it
matters who made them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from semver import Version

from cardsign.card.document import Card
from cardsign.card.extensions import SCHEMA_MEMBERS, SkillSchema, kept_of, skill_schemas
from cardsign.card.interfaces import Interface, current_interfaces
from cardsign.card.security import Scheme, requirements_of, schemes_of
from cardsign.card.values import (
    MAX_TOKEN,
    Json,
    append,
    cut,
    elements_of,
    members_of,
    objects_in,
    pointer,
)
from cardsign.diff.schemas import Change, Direction, Effect, Work, compare_schemas, listed
from cardsign.urls import without_userinfo

#: The part of a version (SemVer 2.0.0) that has to grow.
Bump: TypeAlias = Literal["none", "patch", "minor", "major"]

BUMPS: Final[tuple[Bump, ...]] = ("none", "patch", "minor", "major")
NEEDED: Final[dict[Effect, Bump]] = {
    "breaking": "major",
    "additive": "minor",
    "wording": "patch",
    "unclear": "patch",
}
#: Requirements of the old card times those of the new one that are compared; more cannot be told.
MAX_PAIRS_OF_WAYS: Final = 100_000
#: `enough`: the new version says what changed. `too-low`: it does not. `unclear`: it would be
#: enough, if a change that nobody can judge from the cards breaks nothing.
VersionVerdict: TypeAlias = Literal["enough", "too-low", "unclear"]

_Names: TypeAlias = tuple[str, ...]
_DIRECTIONS: Final[dict[str, Direction]] = {"input_schema": "input", "output_schema": "output"}
_SCHEMAS: Final = frozenset(name for names in SCHEMA_MEMBERS.values() for name in names)
_SCHEME_WORDS: Final = frozenset({"description", "bearerFormat", "scopes", "flows"})
# fmt: off
_COMPARED: Final = frozenset({
    "supportedInterfaces", "url", "additionalInterfaces", "preferredTransport",
    "protocolVersion", "version", "capabilities", "skills", "securitySchemes",
    "securityRequirements", "security", "signatures", "defaultInputModes",
    "defaultOutputModes", "supportsExtendedAgentCard", "supportsAuthenticatedExtendedCard",
})
# fmt: on
_WORDS: Final = frozenset(["name", "description", "provider", "documentationUrl", "iconUrl"])
_SKILL_COMPARED: Final = frozenset(
    {"id", "skill_id", "inputModes", "outputModes", "securityRequirements", "security", *_SCHEMAS}
)
_SKILL_WORDS: Final = frozenset(["name", "description", "tags", "examples", "deprecated"])
_MODES: Final = (
    ("input", "inputModes", "defaultInputModes"),
    ("output", "outputModes", "defaultOutputModes"),
)


@dataclass(frozen=True, slots=True)
class CardDiff:
    """What changed between two cards.

    Attributes:
        old_version: The old card's `version`, as it stands there; None where there is none.
        new_version: The new card's.
        changes: In document order; at most 100 of one effect, then how many more there are.
    """

    old_version: Json
    new_version: Json
    changes: tuple[Change, ...]

    @property
    def needed(self) -> Bump:
        """The part of the version that has to grow for these changes."""
        return max((NEEDED[one.effect] for one in self.changes), key=BUMPS.index, default="none")

    @property
    def made(self) -> Bump | None:
        """The part that grew; None where a version is no semantic version, or became smaller."""
        old, new = _semver(self.old_version), _semver(self.new_version)
        if old is None or new is None or new < old:
            return None
        if new.major != old.major:
            return "major"
        if new.minor != old.minor:
            # Below 1.0.0 the minor version stands for the major one (SemVer 2.0.0, clause 4).
            return "major" if new.major == 0 else "minor"
        if new == old:
            return "none"
        return "minor" if new.major == 0 else "patch"

    @property
    def version_verdict(self) -> VersionVerdict:
        """Whether the new card's version says what changed."""
        if self.made is None or BUMPS.index(self.made) < BUMPS.index(self.needed):
            return "too-low"
        is_unclear = any(one.effect == "unclear" for one in self.changes)
        return "unclear" if is_unclear and self.made != "major" else "enough"

    @property
    def least_version(self) -> str | None:
        """The lowest version that is enough for what is known; None without an old version."""
        old = _semver(self.old_version)
        if old is None or self.needed == "none":
            return None if old is None else str(old)
        steps = {"major": old.bump_major, "minor": old.bump_minor, "patch": old.bump_patch}
        if old.major == 0:
            steps |= {"major": old.bump_minor, "minor": old.bump_patch}
        return str(steps[self.needed]())

    def to_json(self) -> dict[str, Any]:
        """The diff for programs."""
        return {
            "format": "cardsign.diff/1",
            "version": {
                "old": self.old_version,
                "new": self.new_version,
                "needed": self.needed,
                "made": self.made,
                "least": self.least_version,
                "verdict": self.version_verdict,
            },
            "changes": [
                {"effect": one.effect, "path": one.path, "message": one.message}
                for one in self.changes
            ],
        }


def diff_cards(untrusted_old: bytes, untrusted_new: bytes) -> CardDiff:
    """Compare two cards, of whichever A2A versions.

    Not checked: signatures, and whether either card is complete.

    Args:
        untrusted_old: The card that callers know.
        untrusted_new: The card that shall replace it.

    Raises:
        JsonRefused: One of them is not one strict JSON object.
        CardRefused: One of them is ambiguous; as for :meth:`cardsign.card.Card.from_bytes`.
    """
    old, new = Card.from_bytes(untrusted_old).document, Card.from_bytes(untrusted_new).document
    schemes = schemes_of(old), schemes_of(new)
    changed = {
        name for name, one in schemes[0].items() if _scheme_changed(one, schemes[1].get(name))
    }
    changes = [
        *_others("", old, new, _WORDS, _COMPARED),
        *_interfaces(old, new),
        *_capabilities(old, new),
        *_security(old, new, changed, ""),
        *_schemes(*schemes),
        *_skills(old, new, changed),
    ]
    return CardDiff(old.get("version"), new.get("version"), tuple(listed(changes)))


def _semver(version: Json) -> Version | None:
    try:
        return Version.parse(version) if isinstance(version, str) else None
    except ValueError:
        return None


def _others(
    path: str,
    old: Mapping[str, Json],
    new: Mapping[str, Json],
    words: frozenset[str],
    compared: frozenset[str],
) -> Iterator[Change]:
    """Members that are compared as a whole: what a person reads, and what nobody here knows."""
    for name in dict.fromkeys((*old, *new)):
        before, after = old.get(name), new.get(name)
        if name in compared or before == after:
            continue
        if name == "spiffe_id" and _identity(before) == _identity(after) is not None:
            continue
        effect: Effect = "wording" if name in words else "unclear"
        how = (
            "changed" if name in old and name in new else "was removed" if name in old else "is new"
        )
        yield Change(effect, append(path, name), f"`{name}` {how}")


def _identity(spiffe_id: Json) -> str | None:
    """A SPIFFE ID without the card's version that it ends with, which is compared by itself."""
    agent, _, version = spiffe_id.rpartition("/") if isinstance(spiffe_id, str) else ("", "", "")
    return agent if _semver(version) else None


# ------------------------------------------------------------------ where and how it is called


def _interfaces(old: Mapping[str, Json], new: Mapping[str, Json]) -> Iterator[Change]:
    before, after = (
        {_called(one): (one.pointer, f"the interface {_shown(one)}") for one in found}
        for found in map(current_interfaces, (old, new))
    )
    yield from _gone_and_new(before, after)
    if before.keys() == after.keys() and list(before) != list(after):
        path, said = next(iter(after.values()))
        yield Change("additive", path, f"{said} is preferred now")


def _gone_and_new(
    before: Mapping[Any, tuple[str, str]], after: Mapping[Any, tuple[str, str]]
) -> Iterator[Change]:
    """What of the one is not in the other, given by what it is: its place, and how it is called."""
    for key, (path, said) in before.items():
        if key not in after:
            yield Change("breaking", path, f"{said} was removed")
    for key, (path, said) in after.items():
        if key not in before:
            yield Change("additive", path, f"{said} is new")


def _called(one: Interface) -> tuple[str, ...]:
    return tuple(repr(value) for value in (one.url, one.binding, one.tenant, one.version))


def _shown(one: Interface) -> str:
    spoken = f"{one.binding} {one.version or ''}".strip()
    return f"{spoken} at {without_userinfo(str(one.url))}"


def _capabilities(old: Mapping[str, Json], new: Mapping[str, Json]) -> Iterator[Change]:
    before, after = members_of(old.get("capabilities")), members_of(new.get("capabilities"))
    path = pointer("capabilities")
    was, now = _flags(old, before), _flags(new, after)
    effect: Effect
    for name in dict.fromkeys((*was, *now)):
        if was.get(name, False) != now.get(name, False):
            effect = "additive" if now.get(name) else "breaking"
            how = "is offered now" if now.get(name) else "is no longer offered"
            yield Change(effect, append(path, name), f"`{name}` {how}")
    there = append(path, "extensions")
    known = _by(before.get("extensions"), "uri"), _by(after.get("extensions"), "uri")
    for uri in {**known[0], **known[1]}:
        place, one = known[1].get(uri) or known[0][uri]
        where, needed = there + place, bool(one.get("required"))
        effect = "breaking" if needed else "additive"
        if uri not in known[1]:
            yield Change("breaking", where, f"the extension {uri} was removed")
            continue
        if uri not in known[0]:
            how = "is new and required" if needed else "is new"
            yield Change(effect, where, f"the extension {uri} {how}")
            continue
        _, other = known[0][uri]
        if bool(other.get("required")) != needed:
            how = "is required now" if needed else "is optional now"
            yield Change(effect, where, f"the extension {uri} {how}")
        known_members = frozenset({"uri", "required", "params"})
        yield from _others(where, other, one, frozenset({"description"}), known_members)
        yield from _params(append(where, "params"), other.get("params"), one.get("params"))


def _params(path: str, old: Json, new: Json) -> Iterator[Change]:
    """The members of an extension's `params`; schemas in them are compared with the skills."""
    before, after = ({} if one is None else one for one in (old, new))
    if not (isinstance(before, dict) and isinstance(after, dict)):
        if old != new:
            yield Change("unclear", path, "`params` changed")
        return
    was, now = (one.get("skills", {}) for one in (before, after))
    known = frozenset({"skills"} if _holds_objects(was) and _holds_objects(now) else ())
    yield from _others(path, before, after, frozenset(), known)
    if known:
        skills = members_of(was), members_of(now)
        for skill in dict.fromkeys((*skills[0], *skills[1])):
            one, other = (members_of(each.get(skill)) for each in skills)
            place = append(append(path, "skills"), skill)
            yield from _others(place, one, other, _SKILL_WORDS, _SCHEMAS)


def _holds_objects(value: Json) -> bool:
    return isinstance(value, dict) and all(isinstance(one, dict) for one in value.values())


def _flags(card: Mapping[str, Json], capabilities: Mapping[str, Json]) -> dict[str, bool]:
    """What is offered; the extended card by one name, which A2A 0.3 keeps elsewhere."""
    found = {n: bool(v) for n, v in capabilities.items() if n != "extensions"}
    for name in ("supportsExtendedAgentCard", "supportsAuthenticatedExtendedCard"):
        if card.get(name):
            found["extendedAgentCard"] = True
    return found


# ------------------------------------------------------------------ who may call it


def _security(
    old: Mapping[str, Json], new: Mapping[str, Json], changed: Set[str], path: str
) -> Iterator[Change]:
    """Hold each way in that the old one lists against those of the new one.

    A way in stays if the new one asks for no more than it: no other scheme, no other scope.
    """
    place = append(path, "security" if "security" in new else "securityRequirements")
    # Without a requirement everybody is let in.
    ways_before, ways_after = map(_ways, (old, new))

    known, same = ({frozenset(way.items()) for way in ways} for ways in (ways_before, ways_after))

    def stays(way: Mapping[str, frozenset[str]]) -> bool:
        return any(
            all(
                name in way and scopes <= way[name] and name not in changed
                for name, scopes in other.items()
            )
            for other in ways_after
        )

    # Most ways stay as they are; only the others are held against each way of the new card.
    others = [
        way for way in ways_before if changed & way.keys() or frozenset(way.items()) not in same
    ]
    lost: list[Mapping[str, frozenset[str]]] = []
    if len(others) * len(ways_after) > MAX_PAIRS_OF_WAYS:
        yield Change("unclear", place, "there are too many requirements to compare them all")
    elif lost := [way for way in others if not stays(way)]:
        said = _way(lost[0]) if lost[0] else "no credentials"
        yield Change("breaking", place, f"a caller with {said} is no longer let in")
    for way in ways_after:
        if frozenset(way.items()) not in known and not (lost and len(ways_after) == 1):
            said = _way(way) if way else "no credentials"
            yield Change("additive", place, f"a caller with {said} is let in now")


def _ways(owner: Mapping[str, Json]) -> list[dict[str, frozenset[str]]]:
    ways = [
        {name: frozenset(scopes) for name, scopes in one.schemes.items()}
        for one in requirements_of(owner, {})
    ]
    return ways or [{}]


def _schemes(before: Mapping[str, Scheme], after: Mapping[str, Scheme]) -> Iterator[Change]:
    for name in dict.fromkeys((*before, *after)):
        one, other = before.get(name), after.get(name)
        where = pointer("securitySchemes", name)
        if one is None or other is None:
            how = "is new" if one is None else "was removed"
            yield Change("additive" if one is None else "breaking", where, f"scheme {name!r} {how}")
        elif how := _scheme_changed(one, other):
            yield Change("breaking", where, f"scheme {name!r}: {how}")
        elif one.members != other.members:
            yield Change("wording", where, f"scheme {name!r} is described in other words")


def _way(way: Mapping[str, frozenset[str]]) -> str:
    return " and ".join(
        repr(name) + (f" ({', '.join(sorted(scopes))})" if scopes else "")
        for name, scopes in way.items()
    )


def _scheme_changed(old: Scheme | None, new: Scheme | None) -> str:
    """What changed in a scheme that a caller has to follow; empty if nothing did."""
    if old is None or new is None:
        return "" if old is new else "it is gone" if new is None else ""
    if old.type != new.type:
        return f"its type was {old.type}, and is {new.type}"
    before, after = (_flattened(one.members) for one in (old, new))
    for name in dict.fromkeys((*before, *after)):
        is_words = name[-1] in _SCHEME_WORDS or "scopes" in name[1:-1]
        if not is_words and before.get(name) != after.get(name):
            return f"its {'.'.join(cut(token, MAX_TOKEN) for token in name)} changed"
    return ""


def _flattened(value: Mapping[str, Json], above: tuple[str, ...] = ()) -> dict[_Names, Json]:
    found: dict[_Names, Json] = {}
    for name, one in value.items():
        if isinstance(one, dict):
            found |= _flattened(one, (*above, name))
        else:
            found[*above, name] = one
    return found


# ------------------------------------------------------------------ what it can do


def _skills(
    old: Mapping[str, Json], new: Mapping[str, Json], changed: Set[str]
) -> Iterator[Change]:
    before, after = (_by(card.get("skills"), "id", "skill_id") for card in (old, new))
    come = {name: one for name, one in after.items() if name not in before}
    alike: dict[str, list[str]] = {}
    for name, (_, one) in come.items():
        if "name" in one and "description" in one:
            alike.setdefault(_words(one), []).append(name)
    work = Work()
    were, are = _schemas_of(old, before), _schemas_of(new, after)
    # A2A has no member for the mark, so a built card keeps it in our extension.
    kept = members_of(kept_of(old).get("skills"))
    announced = {name for name, one in kept.items() if members_of(one).get("deprecated") is True}
    for what, member, default in _MODES:
        if not before or any(not one.get(member) for _, one in before.values()):
            yield from _modes(what, old.get(default), new.get(default), append("", default))
    for name, (place, skill) in before.items():
        path = append("", "skills") + place
        if name in after:
            yield from _skill(old, new, skill, after[name], changed)
            for kind in _DIRECTIONS:
                key = name, kind
                yield from _contract(were.get(key, []), are.get(key, []), work)
            continue
        if heirs := alike.get(_words(skill)):
            heir = heirs.pop(0)
            del come[heir]
            yield Change("breaking", path, f"the id of skill {name!r} is {heir!r} now")
            continue
        how = "was removed, and was not marked as deprecated before"
        if skill.get("deprecated") is True or name in announced:
            how = "was removed after it was deprecated"
        yield Change("breaking", path, f"skill {name!r} {how}")
    for name, (place, _) in come.items():
        yield Change("additive", append("", "skills") + place, f"skill {name!r} is new")
    for key in dict.fromkeys((*were, *are)):
        if key[0] not in before and key[0] not in after:
            yield from _contract(were.get(key, []), are.get(key, []), work)


def _schemas_of(
    card: Mapping[str, Json], skills: Mapping[str, tuple[str, Mapping[str, Json]]]
) -> dict[tuple[str, str], list[SkillSchema]]:
    """The schemas of a card by skill and kind; those of a second skill of one id are left out."""
    names = {place: name for name, (place, _) in skills.items()}
    found: dict[tuple[str, str], list[SkillSchema]] = {}
    for one in skill_schemas(card):
        at_top, place = one.tokens[0] == "skills", append("", one.tokens[1])
        name = names.get(place) if at_top else one.skill
        if name is not None:
            found.setdefault((name, one.kind), []).append(one)
    return found


def _words(skill: Mapping[str, Json]) -> str:
    return repr([skill.get("name"), skill.get("description")])


def _skill(
    old: Mapping[str, Json],
    new: Mapping[str, Json],
    skill: Mapping[str, Json],
    found: tuple[str, Mapping[str, Json]],
    changed: Set[str],
) -> Iterator[Change]:
    path, other = append("", "skills") + found[0], found[1]
    yield from _others(path, skill, other, _SKILL_WORDS, _SKILL_COMPARED)
    for what, member, default in _MODES:
        if skill.get(member) or other.get(member):
            before, after = skill.get(member) or old.get(default), other.get(member)
            yield from _modes(what, before, after or new.get(default), append(path, member))
    if any(name in one for name in ("securityRequirements", "security") for one in (skill, other)):
        yield from _security(skill, other, changed, path)


def _contract(
    old: Sequence[SkillSchema], new: Sequence[SkillSchema], work: Work
) -> Iterator[Change]:
    """One kind of schema of one skill, wherever each of the cards keeps it."""
    if [one.schema for one in old] == [one.schema for one in new]:
        return
    last = (new or old)[-1]
    path, member = pointer(*last.tokens), last.tokens[-1]
    if len(old) == len(new) == 1:
        direction = _DIRECTIONS[last.kind]
        yield from compare_schemas(old[0].schema, last.schema, direction, path, work)
        return
    how = "is new" if not old else "was removed" if not new else "is there twice"
    yield Change("unclear", path, f"`{member}` {how}")


def _modes(what: str, before: Json, after: Json, path: str) -> Iterator[Change]:
    was, now = (
        {mode: (path, f"{what} mode {mode}") for mode in map(repr, elements_of(modes))}
        for modes in (before, after)
    )
    yield from _gone_and_new(was, now)


def _by(value: Json, *names: str) -> dict[str, tuple[str, Mapping[str, Json]]]:
    """The objects of a list by what names them, each with its place in the list."""
    found: dict[str, tuple[str, Mapping[str, Json]]] = {}
    for index, one in objects_in(value):
        name = next((str(one[n]) for n in names if isinstance(one.get(n), str)), f"#{index}")
        found.setdefault(name, (append("", index), one))
    return found
