"""Two cards compared: what changed for a caller, and the version that the new one needs.

Nothing is verified here, and signatures are not compared: verify both cards first where it
matters who made them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from semver import Version

from cardsign.card.document import A2aVersion, Card
from cardsign.card.extensions import SCHEMA_MEMBERS, SkillSchema, kept_of, skill_schemas
from cardsign.card.interfaces import Interface, interfaces_of
from cardsign.card.schema import CARD_0_3, CARD_1_0, Message, fold, respelled, snake
from cardsign.card.security import (
    SCHEME_TYPES,
    Requirement,
    Scheme,
    requirements_of,
    schemes_of,
)
from cardsign.card.values import (
    MAX_TOKEN,
    Json,
    append,
    children_of,
    elements_of,
    jcs,
    members_of,
    objects_in,
    pointer,
    value_at,
)
from cardsign.diff.schemas import Change, Direction, Effect, Work, compare_schemas
from cardsign.errors import EXIT_NO_VERDICT, EXIT_NOT_TRUSTED, EXIT_OK
from cardsign.findings import MAX_MESSAGE, Finding, Place, cap_findings, cut
from cardsign.urls import without_passwords, without_userinfo

#: The part of a version (SemVer 2.0.0) that has to grow.
Bump: TypeAlias = Literal["none", "patch", "minor", "major"]

BUMPS: Final[tuple[Bump, ...]] = ("none", "patch", "minor", "major")
NEEDED: Final[dict[Effect, Bump]] = {
    "breaking": "major",
    "additive": "minor",
    "wording": "patch",
    "unclear": "patch",
}
_TITLES: Final = {
    "diff.breaking": "Breaks a caller",
    "diff.unclear": "Cannot be told from the cards: decide yourself",
    "diff.additive": "New for a caller",
    "diff.wording": "Words only",
}
_MAX_PATH: Final = 200  # characters of a place in a line
_MARKUP: Final = "\\`*_{}[]()#+!|<>&~@:"  # of Markdown, with mentions of people and links
#: Requirements of the old card times those of the new one that are compared, of a card or a skill;
#: more cannot be told.
MAX_PAIRS_OF_WAYS: Final = 5_000
#: `enough`: the new version says what changed. `too-low`: it does not. `unclear`: it would be
#: enough, if a change that nobody can judge from the cards breaks nothing.
VersionVerdict: TypeAlias = Literal["enough", "too-low", "unclear"]
#: What clients of one A2A version read.
A2aHalf: TypeAlias = Literal["1.0", "0.3"]
_Members: TypeAlias = Mapping[str, Json]
_Shape: TypeAlias = tuple[type, type]

_Names: TypeAlias = tuple[str, ...]
_DIRECTIONS: Final[dict[str, Direction]] = {"input_schema": "input", "output_schema": "output"}
_SCHEMAS: Final = frozenset(name for names in SCHEMA_MEMBERS.values() for name in names)
_HALVES: Final[tuple[A2aHalf, ...]] = ("1.0", "0.3")
_REQUIRED_BY: Final[dict[A2aHalf, str]] = {"1.0": "securityRequirements", "0.3": "security"}
_REQUIREMENTS: Final = ("security", "securityRequirements")
_EXTENDED: Final = "extendedAgentCard"
_OLD_EXTENDED: Final = ("supportsAuthenticatedExtendedCard", "supportsExtendedAgentCard")
#: By name: the types of a member, and of what stands in it.
_SHAPES: Final[dict[str, _Shape]] = {
    "supportedInterfaces": (list, dict),
    "additionalInterfaces": (list, dict),
    "capabilities": (dict, object),
    "securitySchemes": (dict, object),
    "defaultInputModes": (list, str),
    "defaultOutputModes": (list, str),
    "skills": (list, dict),
}
_EXTENSIONS_SHAPE: Final[dict[str, _Shape]] = {"extensions": (list, dict)}
_SKILL_SHAPES: Final[dict[str, _Shape]] = {"inputModes": (list, str), "outputModes": (list, str)}
_CALLED_BY: Final = {
    "supportedInterfaces": frozenset({"url", "protocolBinding", "protocolVersion", "tenant"}),
    "additionalInterfaces": frozenset({"url", "transport"}),
}
_WRAPPERS: Final = frozenset(one.wrapper for one in SCHEME_TYPES)
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
        changes: In document order, capped: ``diff.breaking``, ``diff.unclear``,
            ``diff.additive`` and ``diff.wording``.
        names: Of the two cards, for a report.
    """

    old_version: Json
    new_version: Json
    changes: tuple[Finding, ...]
    names: tuple[str, str] = ("", "")

    @property
    def needed(self) -> Bump:
        """The part of the version that has to grow for these changes."""
        parts = (NEEDED[effect_of(change)] for change in self.changes)
        return max(parts, key=BUMPS.index, default="none")

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
        is_unclear = any(change.code == "diff.unclear" for change in self.changes)
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

    @property
    def exit_status(self) -> int:
        """0 if the version is enough, 1 if it is too low, 3 if nobody can tell."""
        if self.version_verdict == "unclear":
            return EXIT_NO_VERDICT
        return EXIT_OK if self.version_verdict == "enough" else EXIT_NOT_TRUSTED

    def to_json(self) -> dict[str, Any]:
        """The diff for programs."""
        return {
            "old": self.names[0],
            "new": self.names[1],
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
                {"effect": effect_of(change), "path": change.path, "message": change.message}
                for change in self.changes
            ],
        }

    def lines(self) -> Iterator[str]:
        """Yield the diff for a person: the changes by what they mean, then the versions."""
        count = sum(change.count for change in self.changes)
        old, new = (cut(name) for name in self.names)
        yield f"{count or 'no'} change{'' if count == 1 else 's'}: {old} to {new}"
        for title, changes in self._by_title():
            yield ""
            yield f"  {title}:"
            for change in changes:
                yield f"    {cut(change.path, _MAX_PATH)}  {cut(change.message)}"
        if count:
            yield ""
        yield self._conclusion()

    def markdown(self) -> Iterator[str]:
        """Yield the same for a comment on a pull request; no text of a card is markup in it."""
        yield from ("### Agent Card", "", f"**{_quoted(self._conclusion())}**")
        for title, changes in self._by_title():
            yield from ("", f"{title}:", "")
            for change in changes:
                path = cut(change.path, _MAX_PATH).replace("`", "'")
                yield f"- `{path}`: {_quoted(change.message)}"

    def _by_title(self) -> Iterator[tuple[str, list[Finding]]]:
        for code, title in _TITLES.items():
            changes = [change for change in self.changes if change.code == code]
            if changes:
                yield title, changes

    def _conclusion(self) -> str:
        old, new = (cut(str(one)) for one in (self.old_version, self.new_version))
        if self.version_verdict == "enough":
            return f"version {old} to {new}: enough"
        if self.version_verdict == "unclear":
            return f"version {old} to {new}: enough, unless an undecided change breaks a caller"
        if self.least_version is None:
            return f"version {old} to {new}: no semantic version, so nothing can be said of it"
        return f"version {old} to {new}: too low; {self.least_version} or higher is needed"


def effect_of(change: Finding) -> Effect:
    """Return what a change means for a caller that knows the old card only."""
    effect: Effect = change.code.removeprefix("diff.")  # type: ignore[assignment]
    return effect


def _quoted(text: str) -> str:
    """Return a card's text for Markdown: no markup, no mention of a person, no link."""
    return "".join(f"&#{ord(c)};" if c in _MARKUP else c for c in without_passwords(text))


def diff_cards(
    untrusted_old: bytes, untrusted_new: bytes, *, names: tuple[str, str] = ("", "")
) -> CardDiff:
    """Compare two cards, of whichever A2A versions.

    Not checked: signatures, and whether either card is complete.

    Args:
        untrusted_old: The card that callers know.
        untrusted_new: The card that shall replace it.
        names: What the two are called in the report.

    Raises:
        JsonRefused: One of them is not one strict JSON object.
        CardRefused: One of them is ambiguous; as for
            :meth:`cardsign.card.document.Card.from_bytes`.
    """
    old, new = (_read(one) for one in (untrusted_old, untrusted_new))
    cut_changes = ((effect, at, cut(what, MAX_MESSAGE)) for effect, at, what in _changes(old, new))
    versions = old.document.get("version"), new.document.get("version")
    # What both halves of a card say is said once.
    findings = (Finding(f"diff.{e}", what, Place(at)) for e, at, what in dict.fromkeys(cut_changes))
    return CardDiff(*versions, cap_findings(findings), names)


@dataclass(frozen=True, slots=True)
class _Read:
    """A card as clients read it: its members have the schema's names, however they are spelled.

    Of a card with the interfaces of both A2A versions, clients of each read one half.
    """

    received: Mapping[str, Json]
    document: Mapping[str, Json]
    version: A2aVersion
    schemes: Mapping[A2aHalf, Mapping[str, Scheme]]

    @property
    def is_mixed(self) -> bool:
        """Whether it has the interfaces of both A2A versions."""
        return self.version == "mixed"

    def interfaces(self, *halves: A2aHalf) -> dict[tuple[str, ...], Interface]:
        """Return the interfaces of some halves by what they are, the preferred one first."""
        listed = [
            interface
            for interface in interfaces_of(self.document)
            if interface.written_in in halves
        ]
        listed.sort(key=lambda interface: interface.member == "additionalInterfaces")
        called: dict[tuple[str, ...], Interface] = {}
        for interface in listed:
            called.setdefault(_called(interface), interface)
        return called

    def requirements(self, owner: Mapping[str, Json], half: A2aHalf) -> list[Requirement]:
        """Return what clients of one half see of the requirements of the card or of a skill."""
        requirements = requirements_of(owner, self.schemes[half])
        is_split = self.is_mixed or all(owner.get(name) is not None for name in _REQUIREMENTS)
        return [
            requirement
            for requirement in requirements
            if not is_split or requirement.tokens[0] == _REQUIRED_BY[half]
        ]


def _changes(old: _Read, new: _Read) -> Iterator[Change]:
    changed = {
        half: frozenset(
            name
            for name, scheme in old.schemes[half].items()
            if _scheme_changed(scheme, new.schemes[half].get(name))
        )
        for half in _HALVES
    }
    yield from _others("", old.document, new.document, _WORDS, _compared(old, new))
    yield from _misshapen("", old.document, new.document, _SHAPES)
    yield from _interfaces(old, new)
    yield from _extensions(old, new)
    for half in _HALVES:
        yield from _flags(old, new, half)
        yield from _security(old, new, half, changed[half], (old.document, new.document), "")
        yield from _schemes(old.schemes[half], new.schemes[half])
    yield from _beside_schemes(old, new)
    yield from _skills(old, new, changed)
    yield from _spellings(old, new)
    yield from _hidden_interfaces(old, new)


def _read(untrusted: bytes) -> _Read:
    card = Card.from_bytes(untrusted)
    document = respelled(card.document, CARD_1_0, CARD_0_3)
    current, flat = schemes_of(document), schemes_of(document, flat_first=True)
    schemes: dict[A2aHalf, Mapping[str, Scheme]] = {"1.0": current, "0.3": flat}
    return _Read(card.document, document, card.a2a_version, schemes)


def _compared(old: _Read, new: _Read) -> frozenset[str]:
    """Return the members that others compare; two describe the 0.3 interfaces, if there are any."""
    unread = set()
    if all(card.document.get("url") is None for card in (old, new)):
        unread.add("preferredTransport")
    if not (old.interfaces("0.3") or new.interfaces("0.3")):
        unread.add("protocolVersion")
    return _COMPARED - unread


def _spellings(old: _Read, new: _Read) -> Iterator[Change]:
    """Yield members whose names are spelled as only the most lenient clients read them."""
    before, after = (
        dict(_odd_names(dict(card.received), CARD_1_0, CARD_0_3)) for card in (old, new)
    )
    for kind, place in {**before, **after}.items():
        if kind not in before or kind not in after:
            how = "is spelled so now" if kind in after else "was spelled so"
            yield "unclear", place, f"`{kind[-1]}` {how}, which not every client reads"


def _odd_names(
    value: Json, *messages: Message, path: str = "", kinds: _Names = ()
) -> Iterator[tuple[_Names, str]]:
    """Yield members that are spelled neither as the schemas have them nor as their protobuf."""
    for key, child in children_of(value):
        place, fields = append(path, key), [one.folded.get(fold(str(key))) for one in messages]
        named = [one for one in fields if one is not None]
        below = [one.message for one in named if one.message is not None]
        if isinstance(value, list):  # its elements are of the same messages
            yield from _odd_names(child, *messages, path=place, kinds=kinds)
            continue
        if named and all(key not in (one.name, snake(one.name)) for one in named):
            yield (*kinds, str(key)), place
        if below and named[0].shape == "map":
            for name, one in members_of(child).items():
                yield from _odd_names(one, *below, path=append(place, name), kinds=(*kinds, name))
        elif below:
            yield from _odd_names(child, *below, path=place, kinds=(*kinds, named[0].name))


def _hidden_interfaces(old: _Read, new: _Read) -> Iterator[Change]:
    """Yield an empty `supportedInterfaces` beside a `url`: a2a-sdk reads no `url` then."""
    hides = [_is_empty(card.document, "supportedInterfaces") for card in (old, new)]
    if hides[0] != hides[1] and any(card.document.get("url") is not None for card in (old, new)):
        how = "is empty" if hides[1] else "was empty"
        message = f"`supportedInterfaces` {how}; some clients read no `url` beside it"
        yield "unclear", "/supportedInterfaces", message


def _is_empty(owner: Mapping[str, Json], name: str) -> bool:
    """Whether a member is there and says nothing."""
    return name in owner and not owner[name]


def _misshapen(
    path: str, old: Mapping[str, Json], new: Mapping[str, Json], shapes: Mapping[str, _Shape]
) -> Iterator[Change]:
    """Yield the members that differ and have the wrong JSON type in one of the cards."""
    for name, (container, element) in shapes.items():
        before, after = old.get(name), new.get(name)
        for value in (before, after):
            is_sound = value is None or (
                isinstance(value, container)
                and all(isinstance(child, element) for _, child in children_of(value))
            )
            if not is_sound and before != after:
                how = "changed, and cannot be read in one of the cards"
                yield "unclear", append(path, name), f"`{name}` {how}"


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
        if name in compared or _is_same(before, after):
            continue
        if name == "spiffe_id" and _identity(before) == _identity(after) is not None:
            continue
        effect: Effect = "wording" if name in words else "unclear"
        how = (
            "changed" if name in old and name in new else "was removed" if name in old else "is new"
        )
        yield effect, append(path, name), f"`{name}` {how}"


def _is_same(one: Json, other: Json) -> bool:
    """Whether two values are the same JSON, in which true is not 1."""
    return one == other and jcs(one) == jcs(other)


def _identity(spiffe_id: Json) -> str | None:
    """A SPIFFE ID without the card's version that it ends with, which is compared by itself."""
    agent, _, version = spiffe_id.rpartition("/") if isinstance(spiffe_id, str) else ("", "", "")
    return agent if _semver(version) else None


# ------------------------------------------------------------------ where and how it is called


def _interfaces(old: _Read, new: _Read) -> Iterator[Change]:
    """What of each half is gone or new; a card of one half may become one of the other half."""
    for half in _HALVES:
        before, after = old.interfaces(half), new.interfaces(half)
        kept = after if after or old.is_mixed else new.interfaces(*_HALVES)
        former = before or old.interfaces(*_HALVES)
        for key, interface in before.items():
            if key not in kept:
                yield (
                    "breaking",
                    interface.pointer,
                    f"the interface {_spoken(interface)} was removed",
                )
        for key, interface in after.items():
            if key not in former:
                yield "additive", interface.pointer, f"the interface {_spoken(interface)} is new"
        if before and after and half == "0.3":
            yield from _others("", _own_url(old), _own_url(new), frozenset(), frozenset())
        if before.keys() == after.keys() and list(before) != list(after):
            interface = next(iter(after.values()))
            yield (
                "additive",
                interface.pointer,
                f"the interface {_spoken(interface)} is preferred now",
            )
        for key, interface in after.items():
            if key in before and "url" not in (interface.member, before[key].member):
                was = members_of(value_at(old.document, before[key].tokens[:-1]))
                now = members_of(value_at(new.document, interface.tokens[:-1]))
                place, read = pointer(*interface.tokens[:-1]), _CALLED_BY[interface.member]
                yield from _others(place, was, now, frozenset(), read)


def _gone_and_new(
    before: Mapping[Any, tuple[str, str]], after: Mapping[Any, tuple[str, str]]
) -> Iterator[Change]:
    """What of the one is not in the other, given by what it is: its place, and how it is called."""
    for key, (path, described) in before.items():
        if key not in after:
            yield "breaking", path, f"{described} was removed"
    for key, (path, described) in after.items():
        if key not in before:
            yield "additive", path, f"{described} is new"


def _own_url(card: _Read) -> dict[str, Json]:
    """Return whether a card has a `url`, which clients of A2A 0.3 begin with."""
    return {"url": True} if card.document.get("url") is not None else {}


def _called(interface: Interface) -> tuple[str, ...]:
    version = interface.version
    if isinstance(version, str):  # a patch number does not count (A2A 1.0 3.6)
        version = ".".join(version.split(".")[:2])
    return tuple(
        repr(value) for value in (interface.url, interface.binding, interface.tenant, version)
    )


def _spoken(interface: Interface) -> str:
    spoken = f"{interface.binding} {interface.version or ''}".strip()
    tenant = "" if interface.tenant is None else f", tenant {str(interface.tenant)!r:.60},"
    return f"{spoken} at {without_userinfo(str(interface.url))}{tenant}"


def _flags(old: _Read, new: _Read, half: A2aHalf) -> Iterator[Change]:
    """What clients of one half are offered."""
    was, now = _offered(old, half), _offered(new, half)
    for name in dict.fromkeys((*was, *now)):
        before, after = was.get(name, ("", False)), now.get(name, ("", False))
        if repr(before[1]) == repr(after[1]):
            continue
        path = after[0] or before[0]
        if not (isinstance(before[1], bool) and isinstance(after[1], bool)):
            yield "unclear", path, f"`{name}` changed"
        elif after[1]:
            yield "additive", path, f"`{name}` is offered now"
        else:
            yield "breaking", path, f"`{name}` is no longer offered"


def _offered(card: _Read, half: A2aHalf) -> dict[str, tuple[str, Json]]:
    """What is not false, with its place; the extended card by one name, wherever it stands."""
    capabilities = members_of(card.document.get("capabilities"))
    offered: dict[str, tuple[str, Json]] = {
        name: (pointer("capabilities", name), value)
        for name, value in capabilities.items()
        if name != "extensions" and value not in (None, False)
    }
    if card.is_mixed and half == "0.3":
        offered.pop(_EXTENDED, None)
    for name in _OLD_EXTENDED if half == "0.3" or not card.is_mixed else ():
        if (value := card.document.get(name)) not in (None, False):
            offered.setdefault(_EXTENDED, (pointer(name), value))
    return offered


def _extensions(old: _Read, new: _Read) -> Iterator[Change]:
    before, after = (members_of(one.document.get("capabilities")) for one in (old, new))
    yield from _misshapen("/capabilities", before, after, _EXTENSIONS_SHAPE)
    effect: Effect
    there = pointer("capabilities", "extensions")
    known = _by(before.get("extensions"), "uri"), _by(after.get("extensions"), "uri")
    for uri in {**known[0], **known[1]}:
        place, one = known[1].get(uri) or known[0][uri]
        where, needed = there + place, bool(one.get("required"))
        effect = "breaking" if needed else "additive"
        if uri not in known[1]:
            yield "breaking", where, f"the extension {uri} was removed"
            continue
        if uri not in known[0]:
            how = "is new and required" if needed else "is new"
            yield effect, where, f"the extension {uri} {how}"
            continue
        _, other = known[0][uri]
        if bool(other.get("required")) != needed:
            how = "is required now" if needed else "is optional now"
            yield effect, where, f"the extension {uri} {how}"
        elif not _is_same(other.get("required", False), one.get("required", False)):
            yield "unclear", where, f"`required` of the extension {uri} is no true or false"
        known_members = frozenset({"uri", "required", "params"})
        yield from _others(where, other, one, frozenset({"description"}), known_members)
        yield from _params(append(where, "params"), other.get("params"), one.get("params"))


def _params(path: str, old: Json, new: Json) -> Iterator[Change]:
    """The members of an extension's `params`; schemas in them are compared with the skills."""
    before, after = ({} if one is None else one for one in (old, new))
    if not (isinstance(before, dict) and isinstance(after, dict)):
        if old != new:
            yield "unclear", path, "`params` changed"
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
    return isinstance(value, dict) and all(isinstance(member, dict) for member in value.values())


# ------------------------------------------------------------------ who may call it


def _security(
    old: _Read,
    new: _Read,
    half: A2aHalf,
    changed: Set[str],
    owners: tuple[_Members, _Members],
    path: str,
) -> Iterator[Change]:
    """Hold each way in that the old one lists against those of the new one.

    A way in stays if the new one asks for no more than it: no other scheme, no other scope.
    """
    member = _REQUIRED_BY[half] if new.is_mixed or old.is_mixed else ""
    place = append(path, member or next((n for n in _REQUIREMENTS if n in owners[1]), "security"))
    found = [card.requirements(one, half) for card, one in zip((old, new), owners, strict=True)]
    if half == "1.0":
        yield from _hidden_requirements(owners, path, is_moved=old.version == new.version)
    # Without a requirement everybody is let in; who can meet one that cannot be read, nobody knows.
    unread = [{repr(one.value) for one in each if _is_unread(one)} for each in found]
    for how, differing in (("is new", unread[1] - unread[0]), ("went", unread[0] - unread[1])):
        if differing:
            yield "unclear", place, f"a requirement that cannot be read {how}"
    ways_before, ways_after = map(_ways_in, found)
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
        yield "unclear", place, "there are too many requirements to compare them all"
    elif lost := [way for way in others if not stays(way)]:
        said = _way(lost[0]) if lost[0] else "no credentials"
        yield "breaking", place, f"a caller with {said} is no longer let in"
    for way in ways_after:
        if frozenset(way.items()) not in known and not (lost and len(ways_after) == 1):
            said = _way(way) if way else "no credentials"
            yield "additive", place, f"a caller with {said} is let in now"


def _hidden_requirements(
    owners: tuple[_Members, _Members], path: str, *, is_moved: bool
) -> Iterator[Change]:
    """Yield how requirements are written where some clients read another half of them.

    a2a-sdk reads no `security` beside `securityRequirements`, even where that is empty. Clients
    of one A2A version read the member of theirs.
    """
    written = [[name for name in _REQUIREMENTS if one.get(name)] for one in owners]
    if is_moved and all(written) and written[0] != written[1]:
        names = " and ".join(f"`{name}`" for name in written[1])
        message = f"the requirements are in {names} now, which not every client reads"
        yield "unclear", append(path, written[1][0]), message
    place = append(path, "securityRequirements")
    hides = [_is_empty(one, "securityRequirements") for one in owners]
    if hides[0] != hides[1] and any(one.get("security") for one in owners):
        how = "is empty" if hides[1] else "was empty"
        message = f"`securityRequirements` {how}; some clients read no `security` beside it"
        yield "unclear", place, message
    before, after = (_beside_the_ways(one.get("securityRequirements")) for one in owners)
    if before != after:
        yield "unclear", place, "an unknown member of a requirement changed"


def _beside_the_ways(requirements: Json) -> list[bytes]:
    """Return what requirements of A2A 1.0 hold beside their schemes, in any order."""
    listed_here = (members_of(one) for one in elements_of(requirements))
    beside = ({name: v for name, v in one.items() if name != "schemes"} for one in listed_here)
    return sorted(jcs(one) for one in beside if one)


def _is_unread(requirement: Requirement) -> bool:
    return requirement.problem is not None and not requirement.schemes


def _ways_in(requirements: Sequence[Requirement]) -> list[dict[str, frozenset[str]]]:
    ways = [
        {name: frozenset(scopes) for name, scopes in requirement.schemes.items()}
        for requirement in requirements
        if not _is_unread(requirement)
    ]
    each_once = {frozenset(way.items()): way for way in ways}
    return [*each_once.values()] if requirements else [{}]


def _schemes(before: Mapping[str, Scheme], after: Mapping[str, Scheme]) -> Iterator[Change]:
    for name in dict.fromkeys((*before, *after)):
        one, other = before.get(name), after.get(name)
        where = pointer("securitySchemes", name)
        if one is None or other is None:
            how = "is new" if one is None else "was removed"
            yield ("additive" if one is None else "breaking"), where, f"scheme {name!r} {how}"
        elif how := _scheme_changed(one, other):
            yield "breaking", where, f"scheme {name!r}: {how}"
        elif not _is_same(dict(one.members), dict(other.members)):
            yield "wording", where, f"scheme {name!r} is described in other words"


def _beside_schemes(old: _Read, new: _Read) -> Iterator[Change]:
    """What a scheme says beside the form of 1.0, and schemes that cannot be read."""
    before, after = (members_of(one.document.get("securitySchemes")) for one in (old, new))
    for name in before.keys() & after.keys():
        was, now, where = before[name], after[name], pointer("securitySchemes", name)
        are_read = all(card.schemes["1.0"][name].type is not None for card in (old, new))
        if not are_read and was != now:
            yield "unclear", where, f"scheme {name!r}, which cannot be read, changed"
        elif old.version == new.version and _forms_of(was) != _forms_of(now):
            yield "unclear", where, f"scheme {name!r} is in the form of other clients"
        elif isinstance(was, dict) and isinstance(now, dict) and "type" not in {**was, **now}:
            yield from _others(where, was, now, frozenset(), _WRAPPERS)


def _forms_of(scheme: Json) -> tuple[bool, bool]:
    """Return in which forms a scheme is written: that of 0.3, that of 1.0."""
    members = members_of(scheme)
    return "type" in members, not _WRAPPERS.isdisjoint(members)


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
    before, after = (_flattened(scheme.members) for scheme in (old, new))
    for name in dict.fromkeys((*before, *after)):
        is_words = name[-1] in _SCHEME_WORDS or "scopes" in name[1:-1]
        if not is_words and before.get(name) != after.get(name):
            return f"its {'.'.join(cut(token, MAX_TOKEN) for token in name)} changed"
    return ""


def _flattened(value: Mapping[str, Json], above: tuple[str, ...] = ()) -> dict[_Names, Json]:
    flat: dict[_Names, Json] = {}
    for name, member in value.items():
        if isinstance(member, dict):
            flat |= _flattened(member, (*above, name))
        else:
            flat[*above, name] = member
    return flat


# ------------------------------------------------------------------ what it can do


def _skills(
    old_card: _Read, new_card: _Read, changed: Mapping[A2aHalf, Set[str]]
) -> Iterator[Change]:
    old, new = old_card.document, new_card.document
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
    for what, _, default in _MODES:
        yield from _modes(what, old.get(default), new.get(default), append("", default))
    for name, (place, skill) in before.items():
        path = append("", "skills") + place
        if name in after:
            yield from _skill(old_card, new_card, skill, after[name], changed)
            for kind in _DIRECTIONS:
                key = name, kind
                yield from _contract(were.get(key, []), are.get(key, []), work)
            continue
        if heirs := alike.get(_words(skill)):
            heir = heirs.pop(0)
            del come[heir]
            yield "breaking", path, f"the id of skill {name!r} is {heir!r} now"
            continue
        how = "was removed, and was not marked as deprecated before"
        if skill.get("deprecated") is True or name in announced:
            how = "was removed after it was deprecated"
        yield "breaking", path, f"skill {name!r} {how}"
    for name, (place, _) in come.items():
        yield "additive", append("", "skills") + place, f"skill {name!r} is new"
    for key in dict.fromkeys((*were, *are)):
        if key[0] not in before and key[0] not in after:
            yield from _contract(were.get(key, []), are.get(key, []), work)


def _schemas_of(
    card: Mapping[str, Json], skills: Mapping[str, tuple[str, Mapping[str, Json]]]
) -> dict[tuple[str, str], list[SkillSchema]]:
    """The schemas of a card by skill and kind; those of a second skill of one id are left out."""
    names = {place: name for name, (place, _) in skills.items()}
    schemas: dict[tuple[str, str], list[SkillSchema]] = {}
    for schema in skill_schemas(card):
        at_top, place = schema.tokens[0] == "skills", append("", schema.tokens[1])
        name = names.get(place) if at_top else schema.skill
        if name is not None:
            schemas.setdefault((name, schema.kind), []).append(schema)
    return schemas


def _words(skill: Mapping[str, Json]) -> str:
    return repr([skill.get("name"), skill.get("description")])


def _skill(
    old: _Read,
    new: _Read,
    skill: Mapping[str, Json],
    found: tuple[str, Mapping[str, Json]],
    changed: Mapping[A2aHalf, Set[str]],
) -> Iterator[Change]:
    path, other = append("", "skills") + found[0], found[1]
    has_ids = "id" in skill and "id" in other
    compared = _SKILL_COMPARED - {"skill_id"} if has_ids else _SKILL_COMPARED
    yield from _others(path, skill, other, _SKILL_WORDS, compared)
    yield from _misshapen(path, skill, other, _SKILL_SHAPES)
    for kind, member, default in _MODES:
        own = skill.get(member), other.get(member)
        if own != (None, None):
            before, after = (
                card.document.get(default) if modes is None else modes
                for card, modes in zip((old, new), own, strict=True)
            )
            yield from _modes(kind, before, after, append(path, member))
    if any(name in one for name in _REQUIREMENTS for one in (skill, other)):
        for half in _HALVES:
            yield from _security(old, new, half, changed[half], (skill, other), path)


def _contract(
    old: Sequence[SkillSchema], new: Sequence[SkillSchema], work: Work
) -> Iterator[Change]:
    """One kind of schema of one skill, wherever each of the cards keeps it."""
    if [skill_schema.schema for skill_schema in old] == [
        skill_schema.schema for skill_schema in new
    ]:
        return
    last = (new or old)[-1]
    path, member = pointer(*last.tokens), last.tokens[-1]
    if len(old) == len(new) == 1:
        direction = _DIRECTIONS[last.kind]
        yield from compare_schemas(old[0].schema, last.schema, direction, path, work)
        return
    how = "is new" if not old else "was removed" if not new else "is there twice"
    yield "unclear", path, f"`{member}` {how}"


def _modes(kind: str, before: Json, after: Json, path: str) -> Iterator[Change]:
    was, now = (
        {mode: (path, f"{kind} mode {mode}") for mode in map(repr, elements_of(modes))}
        for modes in (before, after)
    )
    yield from _gone_and_new(was, now)


def _by(value: Json, *names: str) -> dict[str, tuple[str, Mapping[str, Json]]]:
    """The objects of a list by what names them, each with its place in the list."""
    named: dict[str, tuple[str, Mapping[str, Json]]] = {}
    counts: Counter[str] = Counter()
    for index, element in objects_in(value):
        name = next(
            (str(element[n]) for n in names if isinstance(element.get(n), str)), f"#{index}"
        )
        counts[name] += 1
        again = f"#{counts[name]}" if counts[name] > 1 else ""
        named.setdefault(name + again, (append("", index), element))
    return named
