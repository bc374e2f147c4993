"""Two cards compared: what changed for a caller, and the version that the new one needs.

Each kind of change is judged by a function of its own. What none of them has seen, and still is not
the same, cannot be told: :func:`_list_unseen` is the net below them.

Nothing is verified here, and signatures are not compared: verify both cards first where it
matters who made them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias

from semver import Version

from cardsign.card.document import A2aVersion, Card, unsigned
from cardsign.card.extensions import SCHEMA_MEMBERS, SkillSchema, kept_of, skill_schemas
from cardsign.card.interfaces import Interface, interfaces_of
from cardsign.card.schema import CARD_0_3, CARD_1_0, respelled
from cardsign.card.security import Requirement, Scheme, requirements_of, schemes_of
from cardsign.card.values import (
    MAX_TOKEN,
    Json,
    append,
    elements_of,
    jcs,
    members_of,
    objects_in,
    pointer,
    value_at,
)
from cardsign.diff.schemas import Change, Direction, Effect, compare_schemas, is_same
from cardsign.errors import EXIT_NO_VERDICT, EXIT_NOT_TRUSTED, EXIT_OK
from cardsign.findings import MAX_MESSAGE, Finding, Place, cap_findings, cut
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
_TITLES: Final = {
    "diff.breaking": "Breaks a caller",
    "diff.unclear": "Cannot be told from the cards: decide yourself",
    "diff.additive": "New for a caller",
    "diff.wording": "Words only",
}
_MAX_PATH: Final = 200  # characters of a place in a line
#: Requirements of the old card times those of the new one that are compared, of a card or a skill;
#: more cannot be told.
MAX_PAIRS_OF_WAYS: Final = 5_000
#: `enough`: the new version says what changed. `too-low`: it does not. `unclear`: it would be
#: enough, if a change that nobody can judge from the cards breaks nothing.
VersionVerdict: TypeAlias = Literal["enough", "too-low", "unclear"]
#: What clients of one A2A version read of a card for both; None where no card is for both.
_Half: TypeAlias = Literal["1.0", "0.3"] | None
_Members: TypeAlias = Mapping[str, Json]
_Way: TypeAlias = Mapping[str, frozenset[str]]

_DIRECTIONS: Final[dict[str, Direction]] = {"input_schema": "input", "output_schema": "output"}
_SCHEMAS: Final = frozenset(name for names in SCHEMA_MEMBERS.values() for name in names)
_REQUIREMENTS: Final = {"1.0": "securityRequirements", "0.3": "security"}
_EXTENDED: Final = ("supportsAuthenticatedExtendedCard", "supportsExtendedAgentCard")
_SCHEME_WORDS: Final = frozenset({"description", "bearerFormat", "scopes", "flows"})
_CALLED_BY: Final = {
    "supportedInterfaces": frozenset({"url", "protocolBinding", "protocolVersion", "tenant"}),
    "additionalInterfaces": frozenset({"url", "transport"}),
}
_WORDS: Final = frozenset(
    {"name", "description", "provider", "documentationUrl", "iconUrl"}
    | {"tags", "examples", "deprecated"}
)
_SKILL_READ: Final = _SCHEMAS | {"id", "inputModes", "outputModes", *_REQUIREMENTS.values()}
#: Members of which each kind of change is judged by itself.
_READ: Final = (
    *("supportedInterfaces", "url", "additionalInterfaces", "preferredTransport"),
    *("protocolVersion", "capabilities", "skills", "securitySchemes", "securityRequirements"),
    *("security", "defaultInputModes", "defaultOutputModes", *_EXTENDED),
)
_UNREAD: Final = {*_READ, "version", "signatures"}


@dataclass(frozen=True, slots=True)
class CardDiff:
    """What changed between two cards.

    Attributes:
        old_version: The old card's `version`, as it stands there; None where there is none.
        new_version: The new card's.
        changes: In document order, capped: ``diff.breaking``, ``diff.unclear``,
            ``diff.additive`` and ``diff.wording``.
        names: Of the two cards, for a report.
        must_be_same: The question is whether the two are the same, not which version is needed.
    """

    old_version: Json
    new_version: Json
    changes: tuple[Finding, ...]
    names: tuple[str, str] = ("", "")
    must_be_same: bool = False

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
        """0 if the version is enough, 1 if it is too low, 3 if nobody can tell.

        Of two that must be the same: 0 if they are, else 1.
        """
        if self.must_be_same:
            return EXIT_NOT_TRUSTED if self.changes else EXIT_OK
        if self.version_verdict == "unclear":
            return EXIT_NO_VERDICT
        return EXIT_OK if self.version_verdict == "enough" else EXIT_NOT_TRUSTED

    def to_json(self) -> dict[str, Any]:
        """The diff for programs."""
        version = {
            "old": self.old_version,
            "new": self.new_version,
            "needed": self.needed,
            "made": self.made,
            "least": self.least_version,
            "verdict": self.version_verdict,
        }
        return {
            "old": self.names[0],
            "new": self.names[1],
            "format": "cardsign.diff/1",
            **({"same": not self.changes} if self.must_be_same else {"version": version}),
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
        for code, title in _TITLES.items():
            changes = [change for change in self.changes if change.code == code]
            if not changes:
                continue
            yield ""
            yield f"  {title}:"
            for change in changes:
                yield f"    {cut(change.path, _MAX_PATH)}  {cut(change.message)}"
        if count:
            yield ""
        yield self._conclusion()

    def _conclusion(self) -> str:
        if self.must_be_same:
            return "something differs" if self.changes else "nothing differs"
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
    cut_changes = (
        (effect, at, cut(what, MAX_MESSAGE)) for effect, at, what in _list_changes(old, new)
    )
    versions = old.document.get("version"), new.document.get("version")
    # What both halves of a card say is said once.
    findings = (Finding(f"diff.{e}", what, Place(at)) for e, at, what in dict.fromkeys(cut_changes))
    return CardDiff(*versions, cap_findings(findings), names)


def diff_live(
    committed: bytes, untrusted_live: bytes, *, names: tuple[str, str] = ("", "")
) -> CardDiff:
    """Compare the card that was committed with the one that is live, in every byte.

    Where only the live card is signed, neither the signatures nor the spelling counts.

    Args:
        committed: The card as it should be.
        untrusted_live: The card as received.
        names: What the two are called in the report.

    Raises:
        JsonRefused, CardRefused: As for :func:`diff_cards`.
    """
    result = diff_cards(committed, untrusted_live, names=names)
    old, new = (Card.from_bytes(card).document for card in (committed, untrusted_live))
    changes: list[Change] = []
    if result.old_version != result.new_version:
        was, now = (f"{version!r:.60}" for version in (result.old_version, result.new_version))
        changes.append(("wording", "/version", f"the version was {was}, and is {now}"))
    is_same_card = committed == untrusted_live
    if "signatures" not in old and new.get("signatures"):
        is_same_card = is_same({**unsigned(old)}, {**unsigned(new)})
    elif old.get("signatures") != new.get("signatures"):
        changes.append(("unclear", "/signatures", "the signatures differ"))
    if not (is_same_card or changes or result.changes):
        changes.append(("wording", "", "the bytes differ, but nothing that a caller reads"))
    found = (Finding(f"diff.{effect}", message, Place(path)) for effect, path, message in changes)
    return replace(result, changes=(*result.changes, *found), must_be_same=True)


@dataclass(frozen=True, slots=True)
class _Read:
    """A card as clients read it: its members have the schema's names, in either spelling."""

    document: _Members
    version: A2aVersion

    def interfaces(self, half: _Half) -> dict[tuple[str, ...], Interface]:
        """Return the interfaces of a half by what they are, the preferred one first."""
        own = [one for one in interfaces_of(self.document) if half in (None, one.written_in)]
        own.sort(key=lambda interface: interface.member == "additionalInterfaces")
        called: dict[tuple[str, ...], Interface] = {}
        for interface in own:
            called.setdefault(_called(interface), interface)
        return called

    def schemes(self, half: _Half) -> dict[str, Scheme]:
        """Return the security schemes as clients of a half read them."""
        return schemes_of(self.document, flat_first=half == "0.3")

    def requirements(self, owner: _Members, half: _Half) -> list[Requirement]:
        """Return what clients of a half see of the requirements of the card or of a skill."""
        requirements = requirements_of(owner, self.schemes(half))
        if half is None or (self.version != "mixed" and not {*_REQUIREMENTS.values()} <= {*owner}):
            return [*requirements]
        return [one for one in requirements if one.tokens[0] == _REQUIREMENTS[half]]


def _read(untrusted: bytes) -> _Read:
    card = Card.from_bytes(untrusted)
    return _Read(respelled(card.document, CARD_1_0, CARD_0_3, lenient=False), card.a2a_version)


def _list_changes(old: _Read, new: _Read) -> Iterator[Change]:
    halves: tuple[_Half, ...] = (None,)
    if "mixed" in (old.version, new.version):
        halves = ("1.0", "0.3")
    documents = old.document, new.document
    changes = [*_compare_members("", *documents, _UNREAD), *_compare_extensions(*documents)]
    for half in halves:
        changes += _compare_interfaces(old, new, half)
        changes += _compare_flags(*(_list_offers(card, half) for card in (old, new)))
        changes += _compare_security(old, new, half, documents, "")
        changes += _compare_schemes(old.schemes(half), new.schemes(half))
    changes += _compare_skills(old, new, halves)
    seen = {path for _, path, _ in changes}
    yield from (*changes, *_list_unseen(*documents, seen, is_moved=old.version != new.version))


def _list_unseen(
    old: _Members, new: _Members, seen: Set[str], *, is_moved: bool
) -> Iterator[Change]:
    """Yield members that are not the same, and of which nothing else was said.

    Some clients read no `security` beside an empty `securityRequirements`, so that an empty list
    is not the same as none. All else is another if a card `is_moved` to another A2A version.
    """
    for name in _READ:
        place = append("", name)
        before, after = (_normalize(name, card.get(name)) for card in (old, new))
        if name == "additionalInterfaces":  # it may repeat the card's own url
            before, after = (
                [one for one in elements_of(value) if members_of(one).get("url") != card.get("url")]
                for value, card in ((before, old), (after, new))
            )
        is_seen = any(path == place or path.startswith(f"{place}/") for path in seen)
        if not (is_seen or is_same(before, after) or (is_moved and (before or after))):
            yield "unclear", place, f"`{name}` changed in a way that is read in several ways"


def _normalize(name: str, value: Json) -> Json:
    """Return a value without what is empty or false in it, and lists in one order."""
    if name == "spiffe_id":
        return _identity(value) or value
    if name == "protocolVersion" and isinstance(value, str):
        return ".".join(value.split(".")[:2])  # a patch number does not count (A2A 1.0 3.6)
    if isinstance(value, dict):
        members = {k: _normalize(k, member) for k, member in value.items() if k not in _SCHEMAS}
        return {key: one for key, one in members.items() if one not in (None, False, [], {})}
    if isinstance(value, list):
        return sorted((_normalize("", element) for element in value), key=jcs)
    return value


def _semver(version: Json) -> Version | None:
    try:
        return Version.parse(version) if isinstance(version, str) else None
    except ValueError:
        return None


def _compare_members(
    path: str, old: _Members, new: _Members, skipped: Set[str]
) -> Iterator[Change]:
    """Yield members that are compared as a whole: what a person reads, and what nobody knows."""
    for name in dict.fromkeys((*old, *new)):
        before, after = old.get(name), new.get(name)
        if name in skipped or is_same(before, after):
            continue
        if name == "spiffe_id" and _identity(before) == _identity(after) is not None:
            continue
        how = (
            "changed" if name in old and name in new else "was removed" if name in old else "is new"
        )
        yield "wording" if name in _WORDS else "unclear", append(path, name), f"`{name}` {how}"


def _identity(spiffe_id: Json) -> str | None:
    """A SPIFFE ID without the card's version that it ends with, which is compared by itself."""
    agent, _, version = spiffe_id.rpartition("/") if isinstance(spiffe_id, str) else ("", "", "")
    return agent if _semver(version) else None


# ------------------------------------------------------------------ where and how it is called


def _compare_interfaces(old: _Read, new: _Read, half: _Half) -> Iterator[Change]:
    """Yield what is gone or new; a card of one half may become one of the other half."""
    before, after = old.interfaces(half), new.interfaces(half)
    kept = after if after or old.version == "mixed" else new.interfaces(None)
    former = before or old.interfaces(None)
    for key, interface in before.items():
        if key not in kept:
            yield "breaking", interface.pointer, f"the interface {_spell(interface)} was removed"
    for key, interface in after.items():
        if key not in former:
            yield "additive", interface.pointer, f"the interface {_spell(interface)} is new"
        elif key in before and "url" not in (interface.member, before[key].member):
            was = members_of(value_at(old.document, before[key].tokens[:-1]))
            now = members_of(value_at(new.document, interface.tokens[:-1]))
            place, read = pointer(*interface.tokens[:-1]), _CALLED_BY[interface.member]
            yield from _compare_members(place, was, now, read)
    if before.keys() == after.keys() and list(before) != list(after):
        first = next(iter(after.values()))
        yield "additive", first.pointer, f"the interface {_spell(first)} is preferred now"


def _called(interface: Interface) -> tuple[str, ...]:
    version = _normalize("protocolVersion", interface.version)
    return tuple(
        repr(value) for value in (interface.url, interface.binding, interface.tenant, version)
    )


def _spell(interface: Interface) -> str:
    spelled = f"{interface.binding} {interface.version or ''}".strip()
    tenant = "" if interface.tenant is None else f", tenant {str(interface.tenant)!r:.60},"
    return f"{spelled} at {without_userinfo(str(interface.url))}{tenant}"


def _list_offers(card: _Read, half: _Half) -> dict[str, tuple[str, Json]]:
    """Return what is not false, with its place; the extended card by one name."""
    capabilities = members_of(card.document.get("capabilities"))
    is_half = card.version == "mixed"
    offers: dict[str, tuple[str, Json]] = {
        name: (pointer("capabilities", name), value)
        for name, value in capabilities.items()
        if name != "extensions" and value not in (None, False)
        if not (is_half and half == "0.3" and name == "extendedAgentCard")
    }
    for name in _EXTENDED if half == "0.3" or not is_half else ():
        if (value := card.document.get(name)) not in (None, False):
            offers.setdefault("extendedAgentCard", (pointer(name), value))
    return offers


def _compare_flags(
    old: Mapping[str, tuple[str, Json]], new: Mapping[str, tuple[str, Json]]
) -> Iterator[Change]:
    for name in dict.fromkeys((*old, *new)):
        before, after = old.get(name, ("", False)), new.get(name, ("", False))
        path = after[0] or before[0]
        if is_same(before[1], after[1]):
            continue
        if not (isinstance(before[1], bool) and isinstance(after[1], bool)):
            yield "unclear", path, f"`{name}` changed"
        elif after[1]:
            yield "additive", path, f"`{name}` is offered now"
        else:
            yield "breaking", path, f"`{name}` is no longer offered"


def _compare_extensions(old_card: _Members, new_card: _Members) -> Iterator[Change]:
    there = pointer("capabilities", "extensions")
    old, new = (
        _by(members_of(card.get("capabilities")).get("extensions"), "uri", there)
        for card in (old_card, new_card)
    )
    for uri in dict.fromkeys((*old, *new)):
        where, extension = new.get(uri) or old[uri]
        effect: Effect = "breaking" if extension.get("required") else "additive"
        if uri not in new:
            yield "breaking", where, f"the extension {uri} was removed"
        elif uri not in old:
            how = "is new and required" if extension.get("required") else "is new"
            yield effect, where, f"the extension {uri} {how}"
        else:
            _, former = old[uri]
            if bool(former.get("required")) != bool(extension.get("required")):
                how = "is required now" if extension.get("required") else "is optional now"
                yield effect, where, f"the extension {uri} {how}"
            params, read = [one.get("params") for one in (former, extension)], {"uri", "required"}
            if all(isinstance(one, dict | None) for one in params):
                read.add("params")
                yield from _compare_params(append(where, "params"), *map(members_of, params))
            yield from _compare_members(where, former, extension, read)


def _compare_params(path: str, old: _Members, new: _Members) -> Iterator[Change]:
    """Yield members of an extension's `params`; schemas in them are compared with the skills."""
    before, after = (members_of(params.get("skills")) for params in (old, new))
    yield from _compare_members(path, old, new, {"skills"} if before or after else set())
    for skill in dict.fromkeys((*before, *after)):
        was, now = members_of(before.get(skill)), members_of(after.get(skill))
        place = append(append(path, "skills"), skill)
        yield from _compare_members(place, was, now, _SCHEMAS)


# ------------------------------------------------------------------ who may call it


def _compare_security(
    old: _Read, new: _Read, half: _Half, owners: tuple[_Members, _Members], path: str
) -> Iterator[Change]:
    """Hold each way in that the old one lists against those of the new one.

    A way in stays if the new one asks for no more than it: no other scheme, no other scope.
    """
    names = [name for name in _REQUIREMENTS.values() if name in owners[1]] or ["security"]
    place = append(path, _REQUIREMENTS[half] if half else names[0])
    schemes = old.schemes(half), new.schemes(half)
    changed = {name for name in schemes[0] if _find_change(schemes[0][name], schemes[1].get(name))}
    listed = [card.requirements(one, half) for card, one in zip((old, new), owners, strict=True)]
    # Without a requirement everybody is let in; who can meet one that cannot be read, nobody knows.
    unread = [{repr(one.value) for one in each if _is_unread(one)} for each in listed]
    for how, differing in (("is new", unread[1] - unread[0]), ("went", unread[0] - unread[1])):
        if differing:
            yield "unclear", place, f"a requirement that cannot be read {how}"
    before, after = map(_ways_in, listed)

    def stays(way: _Way) -> bool:
        return any(
            all(
                name in way and scopes <= way[name] and name not in changed
                for name, scopes in other.items()
            )
            for other in after.values()
        )

    # Most ways stay as they are; only the others are held against each way of the new card.
    others = [way for key, way in before.items() if changed & way.keys() or key not in after]
    lost: list[_Way] = []
    if len(others) * len(after) > MAX_PAIRS_OF_WAYS:
        yield "unclear", place, "there are too many requirements to compare them all"
    elif lost := [way for way in others if not stays(way)]:
        yield "breaking", place, f"a caller with {_spell_way(lost[0])} is no longer let in"
    for key, way in after.items():
        if key not in before and not (lost and len(after) == 1):
            yield "additive", place, f"a caller with {_spell_way(way)} is let in now"


def _is_unread(requirement: Requirement) -> bool:
    return requirement.problem is not None and not requirement.schemes


def _ways_in(requirements: Sequence[Requirement]) -> dict[frozenset[Any], _Way]:
    ways: list[_Way] = [
        {name: frozenset(scopes) for name, scopes in requirement.schemes.items()}
        for requirement in requirements
        if not _is_unread(requirement)
    ]
    return {frozenset(way.items()): way for way in (ways if requirements else [{}])}


def _spell_way(way: _Way) -> str:
    schemes = (
        repr(name) + (f" ({', '.join(sorted(scopes))})" if scopes else "")
        for name, scopes in way.items()
    )
    return " and ".join(schemes) or "no credentials"


def _compare_schemes(old: Mapping[str, Scheme], new: Mapping[str, Scheme]) -> Iterator[Change]:
    for name in dict.fromkeys((*old, *new)):
        before, after = old.get(name), new.get(name)
        where = pointer("securitySchemes", name)
        if before is None or after is None:
            how = "is new" if before is None else "was removed"
            yield ("additive" if before is None else "breaking"), where, f"scheme {name!r} {how}"
        elif how := _find_change(before, after):
            yield "breaking", where, f"scheme {name!r}: {how}"
        elif not is_same(dict(before.members), dict(after.members)):
            yield "wording", where, f"scheme {name!r} is described in other words"


def _find_change(old: Scheme, new: Scheme | None) -> str:
    """Say what changed in a scheme that a caller has to follow; empty if nothing did."""
    if new is None:
        return "it is gone"
    if old.type != new.type:
        return f"its type was {old.type}, and is {new.type}"
    before, after = (_flatten(scheme.members) for scheme in (old, new))
    for name in dict.fromkeys((*before, *after)):
        is_words = name[-1] in _SCHEME_WORDS or "scopes" in name[1:-1]
        if not is_words and before.get(name) != after.get(name):
            return f"its {'.'.join(cut(token, MAX_TOKEN) for token in name)} changed"
    return ""


def _flatten(value: _Members, above: tuple[str, ...] = ()) -> dict[tuple[str, ...], Json]:
    flat: dict[tuple[str, ...], Json] = {}
    for name, member in value.items():
        nested = isinstance(member, dict)
        flat |= _flatten(members_of(member), (*above, name)) if nested else {(*above, name): member}
    return flat


# ------------------------------------------------------------------ what it can do


def _compare_skills(old_card: _Read, new_card: _Read, halves: Sequence[_Half]) -> Iterator[Change]:
    old, new = old_card.document, new_card.document
    before, after = (_by(card.get("skills"), "id", "/skills") for card in (old, new))
    # A2A has no member for the mark, so a built card keeps it in our extension.
    kept = members_of(kept_of(old).get("skills"))
    for name, (path, skill) in before.items():
        marks = skill.get("deprecated"), members_of(kept.get(name)).get("deprecated")
        if name not in after:
            how = ", and was not marked as deprecated before"
            if True in marks:
                how = " after it was deprecated"
            yield "breaking", path, f"skill {name!r} was removed{how}"
            continue
        path, other = after[name]
        yield from _compare_members(path, skill, other, _SKILL_READ)
        for half in halves:
            yield from _compare_security(old_card, new_card, half, (skill, other), path)
    for name, (path, _) in after.items():
        if name not in before:
            yield "additive", path, f"skill {name!r} is new"
    for kind in ("input", "output"):
        member, default = f"{kind}Modes", f"default{kind.title()}Modes"
        yield from _compare_modes(kind, old.get(default), new.get(default), append("", default))
        for name in before.keys() & after.keys():
            skills = before[name][1], after[name][1]
            if any(member in skill for skill in skills):
                was, now = (
                    card.get(default) if skill.get(member) is None else skill[member]
                    for skill, card in zip(skills, (old, new), strict=True)
                )
                yield from _compare_modes(kind, was, now, append(after[name][0], member))
    yield from _compare_contracts(old, new, before.keys() ^ after.keys())


def _compare_modes(kind: str, old: Json, new: Json, path: str) -> Iterator[Change]:
    before, after = (dict.fromkeys(map(repr, elements_of(modes))) for modes in (old, new))
    for mode in before:
        if mode not in after:
            yield "breaking", path, f"{kind} mode {mode} was removed"
    for mode in after:
        if mode not in before:
            yield "additive", path, f"{kind} mode {mode} is new"


def _compare_contracts(old: _Members, new: _Members, passed_over: Set[str]) -> Iterator[Change]:
    """Compare each kind of schema of each skill that stays, wherever the cards keep it."""
    schemas: dict[tuple[str, str], tuple[list[SkillSchema], list[SkillSchema]]] = {}
    for position, card in enumerate((old, new)):
        for schema in skill_schemas(card):
            key = schema.skill, schema.kind
            schemas.setdefault(key, ([], []))[position].append(schema)
    for (skill, kind), (before, after) in schemas.items():
        last = (after or before)[-1]
        path, member = pointer(*last.tokens), last.tokens[-1]
        if skill in passed_over or [one.schema for one in before] == [one.schema for one in after]:
            continue
        if len(before) == len(after) == 1:
            yield from compare_schemas(before[0].schema, last.schema, _DIRECTIONS[kind], path)
            continue
        how = "is new" if not before else "was removed" if not after else "is there twice"
        yield "unclear", path, f"`{member}` {how}"


def _by(value: Json, name: str, above: str) -> dict[str, tuple[str, _Members]]:
    """Return the objects of a list by what names them, each with its place; the first of a name."""
    named: dict[str, tuple[str, _Members]] = {}
    for index, element in objects_in(value):
        key = element.get(name)
        named.setdefault(
            key if isinstance(key, str) else f"#{index}", (append(above, index), element)
        )
    return named
