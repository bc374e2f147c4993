"""Compare two cards: what changed for a caller, and the version that the new card needs.

A card becomes a table of facts that clients use. Comparing two tables finds what was removed,
added or changed, and :data:`_MEANINGS` says what that means to a caller. Security requirements and
schemas have their own comparison. A difference that none of these finds is reported as unclear.

Nothing is verified, and signatures are not compared: verify both cards first if their origin
matters.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from semver import Version

from cardsign.card.document import Card, check_is_no_key_set, unsigned
from cardsign.card.extensions import SCHEMA_MEMBERS, is_contract, kept_of, skill_schemas
from cardsign.card.interfaces import Interface, interfaces_of
from cardsign.card.schema import CARD_0_3, CARD_1_0, respelled
from cardsign.card.security import Requirement, requirements_of, schemes_of
from cardsign.card.strictjson import MAX_CARD_BYTES, parse_object
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
from cardsign.errors import (
    EXIT_NO_VERDICT,
    EXIT_NOT_TRUSTED,
    EXIT_OK,
    CardRefused,
    InputRefused,
    check_type,
    place_below,
)
from cardsign.findings import MAX_MESSAGE, Finding, Place, cap_findings, counted, cut
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
#: Modes of a card that are compared one by one for each skill that names none of its own.
MAX_INHERITED: Final = 16
#: A manifest of tools may be larger than a card: it has what a card leaves out.
MAX_MANIFEST_BYTES: Final = 4 * MAX_CARD_BYTES
_MAX_NAME: Final = 512  # characters of a skill's name in which a tool's is looked for
#: `enough`: the new version says what changed. `too-low`: it does not. `unclear`: it would be
#: enough, if a change that nobody can judge from the cards breaks nothing.
VersionVerdict: TypeAlias = Literal["enough", "too-low", "unclear"]
_Members: TypeAlias = Mapping[str, Json]
_Way: TypeAlias = Mapping[str, frozenset[str]]
_Ways: TypeAlias = Mapping[frozenset[Any], _Way]
_Key: TypeAlias = tuple[str, ...]


class _Fact(NamedTuple):
    """Something that a client reads: its kind, its label, its place, and its value."""

    kind: str
    label: str
    path: str
    value: Json = None


#: By key; the key of a part begins with the key of the whole.
_Facts: TypeAlias = dict[_Key, _Fact]
#: The effect on a caller if a fact is removed, added, or changed.
_MEANINGS: Final[dict[str, tuple[Effect, Effect, Effect]]] = {
    "required extension": ("breaking", "breaking", "unclear"),
    "required": ("additive", "breaking", "unclear"),
    "scheme's member": ("breaking", "breaking", "breaking"),
    "address": ("breaking", "breaking", "breaking"),
    "words": ("wording", "wording", "wording"),
    **dict.fromkeys(("unknown", *SCHEMA_MEMBERS), ("unclear", "unclear", "unclear")),
}
_OTHERWISE: Final[tuple[Effect, Effect, Effect]] = ("breaking", "additive", "unclear")
#: Facts whose values are JSON Schemas, by who makes the values.
_DIRECTIONS: Final[dict[str, Direction]] = {
    "input_schema": "input",
    "output_schema": "output",
    "tool": "input",
}
_SCHEMAS: Final = frozenset(name for names in SCHEMA_MEMBERS.values() for name in names)
_REQUIREMENTS: Final = ("securityRequirements", "security")
_EXTENDED: Final = ("supportsAuthenticatedExtendedCard", "supportsExtendedAgentCard")
#: What clients of one A2A version do not read of a card for both.
_OF_THE_OTHER: Final[dict[str, frozenset[str]]] = {
    "1.0": frozenset({"url", "additionalInterfaces", "security", *_EXTENDED}),
    "0.3": frozenset({"supportedInterfaces", "securityRequirements", "extendedAgentCard"}),
}
_SCHEME_WORDS: Final = frozenset({"description", "bearerFormat", "scopes", "flows"})
_CALLED_BY: Final = {
    "supportedInterfaces": frozenset({"url", "protocolBinding", "protocolVersion", "tenant"}),
    "additionalInterfaces": frozenset({"url", "transport"}),
}
_WORDS: Final = frozenset(
    {"name", "description", "provider", "documentationUrl", "iconUrl"}
    | {"tags", "examples", "deprecated"}
)
_OF_SKILLS: Final = frozenset({"id", "inputModes", "outputModes", *_REQUIREMENTS})
#: Lists whose elements are told apart by a member, the first that is there.
_NAMED: Final[dict[_Key, tuple[str, ...]]] = {
    ("skills",): ("id", "skill_id"),
    ("capabilities", "extensions"): ("uri",),
}
#: Members of which each kind of change is judged by itself.
_READ: Final = (
    *("supportedInterfaces", "url", "preferredTransport", "protocolVersion", "capabilities"),
    *("skills", "securitySchemes", "defaultInputModes", "defaultOutputModes"),
    *(*_REQUIREMENTS, *_EXTENDED),
)
#: Members that the walk leaves to others.
_UNREAD: Final = frozenset(
    {"supportedInterfaces", "url", "preferredTransport", "protocolVersion", "additionalInterfaces"}
    | {"defaultInputModes", "defaultOutputModes", *_REQUIREMENTS, "version", "signatures"}
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
        must_be_same: Whether any difference is a failure, whatever the version.
        is_contract: The new one is a contract card, of which a break needs a major version at
            0.x, too.
    """

    old_version: Json
    new_version: Json
    changes: tuple[Finding, ...]
    names: tuple[str, str] = ("", "")
    must_be_same: bool = False
    is_contract: bool = False

    @property
    def needed(self) -> Bump:
        """The part of the version that these changes require to be raised."""
        parts = (NEEDED[effect_of(change)] for change in self.changes)
        return max(parts, key=BUMPS.index, default="none")

    @property
    def version_verdict(self) -> VersionVerdict:
        """Whether the new card's version is high enough for the changes."""
        if not self._grew_by(self.needed):
            return "too-low"
        is_unclear = any(change.code == "diff.unclear" for change in self.changes)
        return "unclear" if is_unclear and not self._grew_by("major") else "enough"

    @property
    def least_version(self) -> str | None:
        """The lowest sufficient version; None if the old version is not semantic."""
        old = _semver(self.old_version)
        return None if old is None else str(self._next(old, self.needed))

    def _next(self, old: Version, part: Bump) -> Version:
        """Return the next version; below 1.0.0 each part stands for the next (SemVer clause 4)."""
        if old.major == 0 and not self.is_contract:
            part = {"major": "minor", "minor": "patch"}.get(part, part)  # type: ignore[assignment]
        return old if part == "none" else old.next_version(part)

    def _grew_by(self, part: Bump) -> bool:
        old, new = _semver(self.old_version), _semver(self.new_version)
        if old is None or new is None or part == "none":
            return old is not None and new is not None and new >= old
        if part == "patch":  # a candidate of the next version will do
            return new > old
        return new.finalize_version() >= self._next(old.finalize_version(), part)

    @property
    def exit_status(self) -> int:
        """0 if the version is enough, 1 if it is too low, 3 if that is unclear.

        Of two that must be the same: 0 if they are, else 1.
        """
        if self.must_be_same:
            return EXIT_NOT_TRUSTED if self.changes else EXIT_OK
        if self.version_verdict == "unclear":
            return EXIT_NO_VERDICT
        return EXIT_OK if self.version_verdict == "enough" else EXIT_NOT_TRUSTED

    def to_json(self) -> dict[str, Any]:
        """Return the diff for programs."""
        version = {
            "old": self.old_version,
            "new": self.new_version,
            "needed": self.needed,
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
        """Yield the diff as text: the changes by their effect, then the versions."""
        count = sum(change.count for change in self.changes)
        old, new = (cut(name) for name in self.names)
        yield f"{counted(count, 'change') if count else 'no changes'}: {old} to {new}"
        for code, title in _TITLES.items():
            changes = [change for change in self.changes if change.code == code]
            if changes:
                yield from ("", f"  {title}:")
            for change in changes:
                yield f"    {cut(change.path, _MAX_PATH)}  {cut(change.message)}"
        if count:
            yield ""
        yield self._conclusion()

    def _conclusion(self) -> str:
        if self.must_be_same:
            return "something differs" if self.changes else "nothing differs"
        versions = " to ".join(
            cut(str(version)) for version in (self.old_version, self.new_version)
        )
        conclusion = {
            "enough": "enough",
            "unclear": "enough, unless an undecided change breaks a caller",
            "too-low": f"too low; {self.least_version} or higher is needed",
        }[self.version_verdict]
        if self.least_version is None:
            conclusion = "no semantic version, so nothing can be said of it"
        return f"version {versions}: {conclusion}"


def effect_of(change: Finding) -> Effect:
    """Return the effect of a change on a caller that only knows the old card."""
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
        CardRefused: One of them is ambiguous, as for
            :meth:`cardsign.card.document.Card.from_bytes`, or a JWK Set.
        TypeError: One of them is not bytes.
    """
    cards: tuple[object, ...] = (untrusted_old, untrusted_new)
    for card in cards:
        example = "diff_cards(Path('old.json').read_bytes(), Path('new.json').read_bytes())"
        check_type(card, bytes, "give the cards' bytes", example)
    old, new = map(_read_card, (untrusted_old, untrusted_new), names)
    versions = old.document.get("version"), new.document.get("version")
    changes = _make_findings(_list_changes(old, new))
    return CardDiff(*versions, changes, names, is_contract=is_contract(new.document))


def _read_card(untrusted_bytes: bytes, name: str) -> Card:
    try:
        card = Card.from_bytes(untrusted_bytes)
        check_is_no_key_set(card.document)
    except InputRefused as refusal:
        raise place_below(refusal, name, type(refusal)) from refusal
    return card


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
    return replace(result, changes=(*result.changes, *_make_findings(changes)), must_be_same=True)


def _make_findings(changes: Iterable[Change]) -> tuple[Finding, ...]:
    """Return changes as findings, without repeating what both halves of a card have."""
    cut_changes = ((effect, path, cut(text, MAX_MESSAGE)) for effect, path, text in changes)
    return cap_findings(
        Finding(f"diff.{effect}", text, Place(path))
        for effect, path, text in dict.fromkeys(cut_changes)
    )


# The facts of a card.


def _list_facts(document: _Members) -> _Facts:
    """Return the facts of a card, except interfaces and security requirements."""
    schemes = schemes_of(document, flat_first="supportedInterfaces" not in document)
    flat: dict[str, Json] = {
        name: {"type": scheme.type, **scheme.members} for name, scheme in schemes.items()
    }
    facts: _Facts = {}
    _walk((), "", {**document, "securitySchemes": flat}, facts)
    facts |= _list_modes((), document, document, "")
    # A2A has no member for the mark, so a built card keeps it in our extension.
    kept = members_of(kept_of(document).get("skills"))
    for name, (path, skill) in _by(document.get("skills"), _NAMED["skills",], "/skills").items():
        key: _Key = ("skills", name)
        facts |= _list_modes(key, skill, document, path)
        if True in (skill.get("deprecated"), members_of(kept.get(name)).get("deprecated")):
            facts[key] = facts[key]._replace(label=f"the deprecated {facts[key].label}")
    if is_contract(document) and (own_name := facts.get(("name",))):  # callers address it by name
        facts["name",] = own_name._replace(kind="address")
    for index, schema in enumerate(skill_schemas(document)):
        key = ("skills", schema.skill, schema.kind)
        key = (*key, str(index)) if key in facts else key
        label = f"`{schema.tokens[-1]}`"
        facts[key] = _Fact(schema.kind, label, pointer(*schema.tokens), schema.schema)
    return facts


def _walk(key: _Key, path: str, value: Json, facts: _Facts) -> None:
    """Add the facts at a place and below it, keyed by names rather than by list positions."""
    children: list[tuple[str, str, Json]] = []
    if key in _NAMED:
        named = _by(value, _NAMED[key], path).items()
        children = [(name, place, {**element}) for name, (place, element) in named]
    elif isinstance(value, dict) and key[:-1] != ("capabilities",):
        children = [(name, append(path, name), child) for name, child in value.items()]
    kind, label = _describe(key, value, is_leaf=not children)
    if kind:
        place = pointer(*key[:2]) if key[0] == "securitySchemes" else path
        is_element = bool(children) or key[:-1] in _NAMED
        leaf = None if is_element else _without_version(key[-1], value)
        facts.setdefault(key, _Fact(kind, label, place, leaf))
    for name, place, child in children:
        inner = ("capabilities", "extendedAgentCard") if name in _EXTENDED else (*key, name)
        if not _is_read_elsewhere(inner):
            _walk(inner, place, child, facts)


def _describe(key: _Key, value: Json, *, is_leaf: bool) -> tuple[str, str]:
    """Return the kind of a fact, as :data:`_MEANINGS` has it, and its label; "" for none."""
    names = key
    match key:
        case () | ("skills" | "capabilities" | "securitySchemes",) | ("capabilities", "extensions"):
            return "", ""
        case ("skills", skill):
            return "skill", f"skill {skill!r}"
        case ("capabilities", "extensions", uri):
            is_required = members_of(value).get("required")
            return "required extension" if is_required else "extension", f"the extension {uri}"
        case ("capabilities", "extensions", uri, "required"):
            return "required" if value else "", f"`required` of the extension {uri}"
        case ("capabilities", offer):
            kind = "offer" if value is True else "unknown"
            return "" if value in (None, False) else kind, f"the offer of `{offer}`"
        case ("securitySchemes", scheme):
            return "scheme", f"scheme {cut(scheme, MAX_TOKEN)!r}"
        case ("securitySchemes", scheme, *members) if is_leaf:
            is_words = members[-1] in _SCHEME_WORDS or "scopes" in members[:-1]
            path = ".".join(cut(member, MAX_TOKEN) for member in members)
            label = f"scheme {cut(scheme, MAX_TOKEN)!r}: its {path}"
            return "words" if is_words else "scheme's member", label
        case ("capabilities", "extensions", _, *members) | ("skills", _, *members):
            names = tuple(members)
    kind = "unknown" if _WORDS.isdisjoint(names) else "words"
    return kind if is_leaf else "", f"`{key[-1]}`"


def _is_read_elsewhere(key: _Key) -> bool:
    match key:
        case ("skills", _, name):
            return name in _SCHEMAS or name in _OF_SKILLS
        case ("capabilities", "extensions", _, "uri"):
            return True
        case ("capabilities", "extensions", _, "params", "skills", _, name):
            return name in _SCHEMAS  # which are compared with the skills
    return len(key) == 1 and key[0] in _UNREAD


def _list_interfaces(document: _Members) -> _Facts:
    """Return the interfaces by what they are, the preferred one first."""
    facts: _Facts = {}
    order = {"supportedInterfaces": 0, "url": 0, "additionalInterfaces": 1}
    for interface in sorted(interfaces_of(document), key=lambda interface: order[interface.member]):
        version = _normalize("protocolVersion", interface.version)
        identity = (interface.url, interface.binding, interface.tenant, version)
        key = "interface", *map(repr, identity)
        if key in facts:
            continue
        facts[key] = _Fact("interface", f"the interface {_spell(interface)}", interface.pointer)
        if interface.member != "url":
            above = interface.tokens[:-1]
            members = members_of(value_at(document, above))
            for name in members.keys() - _CALLED_BY[interface.member]:
                _walk((*key, name), append(pointer(*above), name), members[name], facts)
    return facts


def _spell(interface: Interface) -> str:
    spelled = f"{interface.binding} {interface.version or ''}".strip()
    tenant = "" if interface.tenant is None else f", tenant {str(interface.tenant)!r:.60},"
    return f"{spelled} at {without_userinfo(str(interface.url))}{tenant}"


def _list_modes(key: _Key, owner: _Members, document: _Members, path: str) -> _Facts:
    """Return the modes of a card or skill; a skill that lists none has those of the card."""
    facts: _Facts = {}
    for kind in ("input", "output"):
        member, default = f"{kind}Modes", f"default{kind.title()}Modes"
        if owner.get(member) is None:
            place, listed = append("", default), elements_of(document.get(default))
            if len(listed) > MAX_INHERITED and owner is not document:
                label = f"{kind} modes of the card"
                facts[*key, "mode", kind] = _Fact("mode", label, place, listed)
                continue
        else:
            place, listed = append(path, member), elements_of(owner[member])
        for mode in map(repr, listed):
            facts[*key, "mode", kind, mode] = _Fact("mode", f"{kind} mode {mode}", place)
    return facts


def _by(value: Json, names: Sequence[str], above: str) -> dict[str, tuple[str, _Members]]:
    """Return the objects of a list by name, each with its place; the first counts."""
    named: dict[str, tuple[str, _Members]] = {}
    for index, element in objects_in(value):
        keys = (key for name in names if isinstance(key := element.get(name), str))
        named.setdefault(next(keys, f"#{index}"), (append(above, index), element))
    return named


def _normalize(name: str, value: Json) -> Json:
    """Return a value without empty and false members, and with sorted lists."""
    if name == "protocolVersion" and isinstance(value, str):
        return ".".join(value.split(".")[:2])  # a patch number does not count (A2A 1.0 3.6)
    if isinstance(value, dict):
        members = {k: _normalize(k, member) for k, member in value.items() if k not in _SCHEMAS}
        return {k: member for k, member in members.items() if member not in (None, False, [], {})}
    if isinstance(value, list):
        return sorted((_normalize("", element) for element in value), key=jcs)
    return _without_version(name, value)


def _without_version(name: str, value: Json) -> Json:
    """Return a SPIFFE ID without its version, because the version is compared separately."""
    agent, _, version = value.rpartition("/") if isinstance(value, str) else ("", "", "")
    return agent if name == "spiffe_id" and _semver(version) else value


def _semver(version: Json) -> Version | None:
    try:
        return Version.parse(version) if isinstance(version, str) else None
    except ValueError:
        return None


# What changed.


def _list_changes(*cards: Card) -> Iterator[Change]:
    """Yield the changes for callers of the old card, for each half of a mixed card."""
    old, new = (respelled(card.document, CARD_1_0, CARD_0_3, lenient=False) for card in cards)
    was, now = (card.a2a_version for card in cards)
    halves = ["1.0", "0.3"] if was == "mixed" else [was] if now == "mixed" else [""]
    changes: list[Change] = []
    for half in halves:
        was_read, is_read = _read_half(old, half), _read_half(new, half)
        # Of what only clients of another version read, an old card of one version says nothing.
        interfaces = (
            _list_interfaces(was_read),
            _list_interfaces(is_read if was == "mixed" else new),
        )
        changes += _compare_facts(*interfaces)
        if interfaces[0].keys() == interfaces[1].keys() and [*interfaces[0]] != [*interfaces[1]]:
            first = next(iter(interfaces[1].values()))
            changes.append(("additive", first.path, f"{first.label} is preferred now"))
        changes += _compare_facts(_list_facts(was_read), _list_facts(is_read))
        changes += _compare_ways(was_read, is_read)
    seen = {path for _, path, _ in changes}
    yield from changes
    # Some clients read no `security` beside an empty `securityRequirements`, so that an empty list
    # is not the same as none. All else is another in a card of another A2A version.
    for name in _READ:
        place = append("", name)
        values = [_normalize(name, card.get(name)) for card in (old, new)]
        is_seen = any(path == place or path.startswith(f"{place}/") for path in seen)
        if not (is_seen or is_same(*values) or (was != now and any(values))):
            yield "unclear", place, f"`{name}` changed in a way that is read in several ways"


def _read_half(document: _Members, half: str) -> dict[str, Json]:
    """Return a card as clients of one A2A version read it."""
    other = _OF_THE_OTHER.get(half, frozenset())
    skills, capabilities = document.get("skills"), document.get("capabilities")
    card = {name: value for name, value in document.items() if name not in other}
    if isinstance(skills, list):
        card["skills"] = [_without(skill, other.intersection(_REQUIREMENTS)) for skill in skills]
    if capabilities is not None:
        card["capabilities"] = _without(capabilities, other - {*_EXTENDED})
    return card


def _without(value: Json, names: Set[str]) -> Json:
    if not isinstance(value, dict):
        return value
    return {name: member for name, member in value.items() if name not in names}


def _compare_facts(old: _Facts, new: _Facts) -> Iterator[Change]:
    one_sided = old.keys() ^ new.keys()
    for key in dict.fromkeys((*old, *new)):
        if any(key[:length] in one_sided for length in range(1, len(key))):
            continue  # it went or came with what it is a part of
        was, now = old.get(key), new.get(key)
        kind, label, path, value = now or old[key]
        gone, came, changed = _MEANINGS.get(kind, _OTHERWISE)
        if now is None:
            yield gone, path, f"{label} was removed"
        elif was is None:
            yield came, path, f"{label} is new"
        elif kind in _DIRECTIONS:
            place = was.path if kind == "tool" else path
            yield from compare_schemas(was.value, value, _DIRECTIONS[kind], place)
        elif not is_same(was.value, value):
            yield changed, path, f"{label} changed"


def _compare_ways(old: _Members, new: _Members) -> Iterator[Change]:
    """Yield which callers are no longer admitted, and which are new: for the card and its skills.

    A way in stays if some new one requires no further scheme or scope. A change within a scheme is
    reported as a change of the scheme.
    """
    declared = [
        schemes_of(card, flat_first="supportedInterfaces" not in card) for card in (old, new)
    ]
    former, present = (_by(card.get("skills"), _NAMED["skills",], "/skills") for card in (old, new))
    owners = [("", old, new)]
    owners += [(path, former[n][1], skill) for n, (path, skill) in present.items() if n in former]
    for path, *pair in owners:
        named = (name for side in reversed(pair) for name in _REQUIREMENTS if name in side)
        member = next(named, "security")
        place = append(path, member)
        was, now = (_ways_in(requirements_of(*entry)) for entry in zip(pair, declared, strict=True))
        # Most ways stay as they are; only the others are held against each way of the new card.
        others = [way for key, way in was.items() if key not in now]
        if len(others) * len(now) > MAX_PAIRS_OF_WAYS:
            yield "unclear", place, "there are too many requirements to compare them all"
            continue
        lost = [way for way in others if not _is_let_in(way, now.values())]
        if lost:
            yield "breaking", place, f"a caller with {_spell_way(lost[0])} is no longer let in"
        for key, way in now.items():
            if key not in was and not (lost and len(now) == 1):
                yield "additive", place, f"a caller with {_spell_way(way)} is let in now"


def _is_let_in(way: _Way, ways: Collection[_Way]) -> bool:
    return any(
        all(name in way and scopes <= way[name] for name, scopes in other.items()) for other in ways
    )


def _ways_in(requirements: Iterable[Requirement]) -> _Ways:
    """Return the ways in. No requirement admits everybody; an unreadable one admits nobody."""
    ways: list[_Way] = [
        {name: frozenset(scopes) for name, scopes in requirement.schemes.items()}
        if requirement.schemes or requirement.problem is None
        else {f"{requirement.value!r:.60}": frozenset()}
        for requirement in requirements
    ]
    return {frozenset(way.items()): way for way in ways or [{}]}


def _spell_way(way: _Way) -> str:
    schemes = (
        repr(name) + (f" ({', '.join(sorted(scopes))})" if scopes else "")
        for name, scopes in way.items()
    )
    return " and ".join(schemes) or "no credentials"


# A saved answer to tools/list.


def diff_tools(
    untrusted_card: bytes, untrusted_manifest: bytes, *, names: tuple[str, str] = ("", "")
) -> CardDiff:
    """Compare the input schemas of a card's skills with a recorded manifest of tools.

    A tool belongs to the skill whose id it has, without department and in snake_case; or, of what
    ``cardsign build`` made of MCP tools, to ``mcp_SERVER_TOOL``.

    Args:
        untrusted_card: The card.
        untrusted_manifest: ``{"tools": [{"name", "inputSchema"}]}``, as MCP's `tools/list`, or a
            whole answer to it with the same under ``result``.
        names: What the two are called in the report.

    Raises:
        JsonRefused, CardRefused: One of them cannot be read, or is no card or manifest.
    """
    document = Card.from_bytes(untrusted_card).document
    manifest = parse_object(untrusted_manifest, max_bytes=MAX_MANIFEST_BYTES)
    listed = members_of(manifest.get("result")).get("tools", manifest.get("tools"))
    if not isinstance(listed, list):
        raise CardRefused("card.type", "expected a list of tools", path="/tools")
    skills: _Facts = {}
    tools: _Facts = {}
    for _, tool in objects_in(listed):
        name, schema = _plain(str(tool.get("name"))), tool.get("inputSchema")
        _add_tool(tools, name, name, tool.get("input_schema") if schema is None else schema)
    for skill in skill_schemas(document):
        if skill.kind == "input_schema":
            _add_tool(skills, _name_tool(_plain(skill.skill), tools), skill.skill, skill.schema)
    changes = (change for change in _compare_facts(skills, tools) if change[0] != "wording")
    version = document.get("version")
    return CardDiff(version, None, _make_findings(changes), names, must_be_same=True)


def _add_tool(facts: _Facts, name: str, path: str, schema: Json) -> None:
    """Add a tool; a second one of the same name is a fact of its own."""
    if ("tool", name) in facts:
        facts[f"another in {path}", name] = _Fact("tool", f"another tool {name!r}", path)
    facts.setdefault(("tool", name), _Fact("tool", f"tool {name!r}", path, schema))


def _name_tool(skill: str, tools: _Facts) -> str:
    """Return the tool of a skill: its own name, or what follows ``mcp_`` and the server's name."""
    if ("tool", skill) in tools or not skill.startswith("mcp_") or len(skill) > _MAX_NAME:
        return skill
    words = skill.split("_")[2:]
    rests = ("_".join(words[at:]) for at in range(len(words)))
    return next((rest for rest in rests if ("tool", rest) in tools), skill)


def _plain(name: str) -> str:
    """Return a name in the form that tools and skills share."""
    return re.sub(r"[^a-z0-9]+", "_", name.rpartition(".")[2].lower()).strip("_")
