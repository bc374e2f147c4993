"""Compare two cards: what changed for a caller, and the version that the new card needs.

A card becomes a table of facts that clients use. Comparing two tables finds what was removed,
added or changed, and the effects of a fact say what that means to a caller. Requirements and
schemas have their own comparison. A difference that none of these finds is reported as unclear.

Nothing is verified, and signatures are not compared: verify both cards first if their origin
matters.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict, deque
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from semver import Version

from cardsign import errors
from cardsign.card.document import Card, check_no_other_kind, interfaces_of, unsigned
from cardsign.card.extensions import SCHEMA_MEMBERS, is_contract, kept_of, skill_schemas
from cardsign.card.schema import ANY_CARD, respelled
from cardsign.card.security import Scheme, requirements_of, schemes_of
from cardsign.card.strictjson import MAX_CARD_BYTES, parse_object
from cardsign.card.values import Json, append, elements_of, jcs, members_of, objects_in, value_at
from cardsign.findings import Finding, Place, cap_findings, counted, cut
from cardsign.urls import without_userinfo

#: What a change means for a caller that knows the old card only. `unclear`: this cannot be told
#: from the two cards, and a person has to decide.
Effect: TypeAlias = Literal["breaking", "additive", "wording", "unclear"]
#: What a change means for a caller, where it is (as a JSON pointer: in the new card, or in the old
#: one for what is gone), and what changed.
Change: TypeAlias = tuple[Effect, str, str]
#: The part of a version (SemVer 2.0.0) that has to grow.
Bump: TypeAlias = Literal["none", "patch", "minor", "major"]

BUMPS: Final[tuple[Bump, ...]] = ("none", "patch", "minor", "major")
#: By the code of an effect, in the order of a report: what is said of it, and what it needs.
_EFFECTS: Final[dict[str, tuple[str, Bump]]] = {
    "diff.breaking": ("Breaks a caller", "major"),
    "diff.unclear": ("Cannot be told from the cards: decide yourself", "patch"),
    "diff.additive": ("New for a caller", "minor"),
    "diff.wording": ("Words only", "patch"),
}
#: Modes of a card that are compared one by one for a skill that names none of its own.
MAX_INHERITED: Final = 16
#: Requirements of the old card times those of the new one that are compared, of a card or a skill;
#: more cannot be told.
MAX_PAIRS_OF_WAYS: Final = 5_000
#: A manifest of tools may be larger than a card: it has what a card leaves out.
MAX_MANIFEST_BYTES: Final = 4 * MAX_CARD_BYTES
_MAX_WORDS: Final = 32  # of a skill's name, behind which no tool's is looked for
#: `enough`: the new version says what changed. `too-low`: it does not. `unclear`: it would be
#: enough, if a change that nobody can judge from the cards breaks nothing.
VersionVerdict: TypeAlias = Literal["enough", "too-low", "unclear"]
_Members: TypeAlias = Mapping[str, Json]
#: What a caller satisfies together: the name of each scheme, and the name with each of its scopes.
_Way: TypeAlias = frozenset[tuple[str, ...]]
_Ways: TypeAlias = dict[_Way, None]
_Key: TypeAlias = tuple[str, ...]
_Effects: TypeAlias = tuple[Effect, Effect, Effect]


class _Fact(NamedTuple):
    """Something that a client reads.

    Attributes:
        effects: On a caller, if it is removed, added, or changed.
        label: What it is called.
        path: Where it is.
        value: What it says.
        compare: Lists what changed from one value to another; None where only the fact of a
            change can be told.
    """

    effects: _Effects
    label: str
    path: str
    value: Any = None
    compare: Callable[..., Iterable[Change]] | None = None


#: By key; the key of a part begins with the key of the whole.
_Facts: TypeAlias = dict[_Key, _Fact]
_OFFER: Final[_Effects] = ("breaking", "additive", "unclear")
_DEMAND: Final[_Effects] = ("additive", "breaking", "unclear")
_REQUIRED_EXTENSION: Final[_Effects] = ("breaking", "breaking", "unclear")
_ADDRESS: Final[_Effects] = ("breaking", "breaking", "breaking")
_WORDING: Final[_Effects] = ("wording", "wording", "wording")
_UNKNOWN: Final[_Effects] = ("unclear", "unclear", "unclear")
_SCHEMAS: Final = frozenset(name for names in SCHEMA_MEMBERS.values() for name in names)
_REQUIREMENTS: Final = ("securityRequirements", "security")
_IDS: Final = ("id", "skill_id")
_EXTENDED: Final = ("supportsAuthenticatedExtendedCard", "supportsExtendedAgentCard")
#: What clients of one A2A version do not read of a card for both.
_OF_THE_OTHER: Final[dict[str, frozenset[str]]] = {
    "1.0": frozenset({"url", "additionalInterfaces", "security", *_EXTENDED}),
    "0.3": frozenset({"supportedInterfaces", "securityRequirements", "extendedAgentCard"}),
}
#: What tells interfaces from one another, which is no fact of its own.
_CALLED_BY: Final = {
    "supportedInterfaces": frozenset({"url", "protocolBinding", "protocolVersion", "tenant"}),
    "additionalInterfaces": frozenset({"url", "transport"}),
}
_SCHEME_WORDS: Final = frozenset({"description", "bearerFormat", "scopes", "flows"})
_WORDS: Final = frozenset(
    {"name", "description", "provider", "documentationUrl", "iconUrl"}
    | {"tags", "examples", "deprecated"}
)
#: Members of a skill, and of a card, that are not compared by their values alone.
_OF_SKILLS: Final = frozenset({"id", "inputModes", "outputModes", *_REQUIREMENTS, *_SCHEMAS})
_COMPARED: Final = frozenset(
    {"supportedInterfaces", "url", "preferredTransport", "protocolVersion", "skills"}
    | {"defaultInputModes", "defaultOutputModes", "capabilities", "securitySchemes"}
    | {*_REQUIREMENTS, *_EXTENDED}
)
_OF_CARDS: Final = _COMPARED | {"additionalInterfaces", "version", "signatures"}


@dataclass(frozen=True, slots=True)
class CardDiff:
    """What changed between two cards.

    Attributes:
        old_version: The old card's `version`, as it stands there; None where there is none.
        new_version: The new card's.
        changes: Of interfaces, members, and who may call, capped: ``diff.breaking``,
            ``diff.unclear``, ``diff.additive`` and ``diff.wording``.
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
        parts = (_EFFECTS[change.code][1] for change in self.changes)
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
        return new > old and new.finalize_version() >= self._next(old, part)

    @property
    def exit_status(self) -> int:
        """0 if the version is enough, 1 if it is too low, 3 if that is unclear.

        Of two that must be the same: 0 if they are, else 1.
        """
        if not self.must_be_same and self.version_verdict == "unclear":
            return errors.EXIT_NO_VERDICT
        is_bad = self.changes if self.must_be_same else self.version_verdict == "too-low"
        return errors.EXIT_NOT_TRUSTED if is_bad else errors.EXIT_OK

    def to_json(self) -> dict[str, Any]:
        """Return the diff for programs."""
        version = {
            "old": self.old_version,
            "new": self.new_version,
            "needed": self.needed,
            "least": self.least_version,
            "verdict": self.version_verdict,
        }
        changes = [
            {"effect": change.code[5:], "path": change.path, "message": change.message}
            for change in self.changes
        ]
        head = {"old": self.names[0], "new": self.names[1], "format": "cardsign.diff/1"}
        verdict = {"same": not changes} if self.must_be_same else {"version": version}
        return {**head, **verdict, "changes": changes}

    def lines(self) -> Iterator[str]:
        """Yield the diff as text: the changes by their effect, then the versions."""
        count = sum(change.count for change in self.changes)
        old, new = (cut(name) for name in self.names)
        yield f"{counted(count, 'change') if count else 'no changes'}: {old} to {new}"
        for code, (title, _) in _EFFECTS.items():
            changes = [change for change in self.changes if change.code == code]
            if changes:
                yield from ("", f"  {title}:")
            for change in changes:
                yield f"    {cut(change.path)}  {cut(change.message)}"
        if count:
            yield ""
        yield self._conclusion()

    def _conclusion(self) -> str:
        if self.must_be_same:
            return "something differs" if self.changes else "nothing differs"
        versions = self.old_version, self.new_version
        needed = f"{self.least_version} or higher is needed"
        conclusion = {
            "enough": "enough",
            "unclear": "enough, unless an undecided change breaks a caller",
            "too-low": f"too low; {needed}",
        }[self.version_verdict]
        if _semver(self.new_version) is None:
            conclusion = f"the new one is not a semantic version; {needed}"
        if _semver(self.old_version) is None:
            conclusion = "the old one is not a semantic version, so what is needed cannot be told"
        old, new = ("(none)" if version is None else cut(str(version)) for version in versions)
        return f"version {old} to {new}: {conclusion}"


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
    example = "diff_cards(Path('old.json').read_bytes(), Path('new.json').read_bytes())"
    old_bytes, new_bytes = (untrusted_old, bytes), (untrusted_new, bytes)
    errors.check_types(example, untrusted_old=old_bytes, untrusted_new=new_bytes)
    errors.check_types("diff_cards(old, new, names=('old', 'new'))", names=(names, tuple))
    old, new = map(_read_card, (untrusted_old, untrusted_new), names)
    versions = old.document.get("version"), new.document.get("version")
    changes = _make_findings(_compare(old, new))
    return CardDiff(*versions, changes, names, is_contract=is_contract(new.document))


def _read_card(untrusted_bytes: bytes, name: str) -> Card:
    with errors.naming(name):
        card = Card.from_bytes(untrusted_bytes)
        check_no_other_kind(card.document)
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
        is_same_card = is_same(unsigned(old), unsigned(new))
    elif old.get("signatures") != new.get("signatures"):
        changes.append(("unclear", "/signatures", "the signatures differ"))
    if not (is_same_card or changes or result.changes):
        changes.append(("wording", "", "the bytes differ, but nothing that a caller reads"))
    return replace(result, changes=(*result.changes, *_make_findings(changes)), must_be_same=True)


def _make_findings(changes: Iterable[Change]) -> tuple[Finding, ...]:
    """Return changes as findings, without repeating what both halves of a card have."""
    findings = (Finding(f"diff.{effect}", text, Place(path)) for effect, path, text in changes)
    return cap_findings(dict.fromkeys(findings))


# The facts of a card.


def _list_facts(document: _Members, unread: Set[str]) -> _Facts:
    """Return the facts of a card, except interfaces."""
    facts: _Facts = {}
    _add_members(facts, (), "", document, _OF_CARDS)
    if is_contract(document) and (own_name := facts.get(("name",))):  # callers address it by name
        facts["name",] = own_name._replace(effects=_ADDRESS)
    _add_modes(facts, (), document, document, "")
    schemes = schemes_of(document, flat_first="supportedInterfaces" not in document)
    _add_ways(facts, (), "", document, schemes)
    # A2A has no member for the mark of an end, so a built card keeps it in our extension.
    kept = members_of(kept_of(document).get("skills"))
    for name, (path, skill) in _by_name(document.get("skills"), _IDS, "/skills").items():
        key: _Key = ("skills", name)
        ends = True in (skill.get("deprecated"), members_of(kept.get(name)).get("deprecated"))
        label = f"the deprecated skill {name!r}" if ends else f"skill {name!r}"
        facts[key] = _Fact(_OFFER, label, path)
        _add_members(facts, key, path, skill, _OF_SKILLS)
        _add_modes(facts, key, skill, document, path)
        _add_ways(facts, key, path, _without(skill, unread), schemes)
    capabilities = _without(members_of(document.get("capabilities")), unread)
    offers = [(append("/capabilities", name), name, value) for name, value in capabilities.items()]
    offers += [(f"/{name}", "extendedAgentCard", document.get(name)) for name in _EXTENDED]
    for path, name, value in offers:
        if name == "extensions":
            _add_extensions(facts, value)
        elif value not in (None, False):
            effects = _OFFER if value is True else _UNKNOWN
            fact = _Fact(effects, f"the offer of `{name}`", path, value)
            facts.setdefault(("capabilities", name), fact)
    for scheme in schemes.values():
        _add_scheme(facts, scheme)
    for index, (skill_id, kind, tokens, schema) in enumerate(skill_schemas(document)):
        key = ("skills", skill_id, kind)
        key = (*key, str(index)) if key in facts else key
        compare = partial(compare_schemas, direction=kind.removesuffix("_schema"))
        label, path = f"`{tokens[-1]}`", reduce(append, tokens, "")
        facts[key] = _Fact(_UNKNOWN, label, path, schema, compare)
    return facts


def _add_modes(facts: _Facts, key: _Key, owner: _Members, document: _Members, path: str) -> None:
    """Add the modes of a card or skill; a skill that lists none has those of the card."""
    for kind in ("input", "output"):
        place, own = append(path, f"{kind}Modes"), owner.get(f"{kind}Modes")
        if own is None:
            place = f"/default{kind.title()}Modes"
        listed = elements_of(document.get(place[1:]) if own is None else own)
        labels = [f"many {kind} modes of the card"]
        if not key or own is not None or len(listed) <= MAX_INHERITED:
            labels = [f"{kind} mode {mode!r}" for mode in listed]
        facts |= {(*key, "mode", label): _Fact(_OFFER, label, place) for label in labels}


def _add_ways(
    facts: _Facts, key: _Key, path: str, owner: _Members, schemes: Mapping[str, Scheme]
) -> None:
    """Add who may call. No requirement admits everybody; an unreadable one admits nobody."""
    ways: _Ways = {}
    for requirement in requirements_of(owner, schemes):
        unreadable = {f"{requirement.value!r:.60}": ()} if requirement.problem else {}
        named = requirement.schemes or unreadable
        scopes = {(name, scope) for name in named for scope in named[name]}
        ways[frozenset(scopes.union((name,) for name in named))] = None
    place = next((append(path, name) for name in _REQUIREMENTS if name in owner), "")
    fact = _Fact(_UNKNOWN, "", place, ways or {frozenset(): None}, _compare_ways)
    facts[*key, _REQUIREMENTS[0]] = fact


def _add_extensions(facts: _Facts, extensions: Json) -> None:
    for uri, (path, entry) in _by_name(extensions, ("uri",), "/capabilities/extensions").items():
        key, label = ("capabilities", "extensions", uri), f"the extension {uri}"
        required = entry.get("required")
        facts[key] = _Fact(_REQUIRED_EXTENSION if required else _OFFER, label, path)
        if required:
            demand = _Fact(_DEMAND, f"`required` of {label}", append(path, "required"), required)
            facts[*key, "required"] = demand
        _add_members(facts, key, path, entry, frozenset({"uri", "required"}))


def _add_scheme(facts: _Facts, scheme: Scheme) -> None:
    key, label = ("securitySchemes", scheme.name), f"scheme {cut(scheme.name)!r}"
    path = append("/securitySchemes", scheme.name)
    facts[key] = _Fact(_OFFER, label, path)
    for names, value in _list_leaves({"type": scheme.type, **scheme.members}):
        effects = _WORDING if (names[-1] in _SCHEME_WORDS or "scopes" in names[:-1]) else _ADDRESS
        text = f"{label}: its {reduce(append, names, '')[1:]}"
        facts[*key, *names] = _Fact(effects, text, path, value)


def _add_members(facts: _Facts, key: _Key, path: str, owner: _Members, unread: Set[str]) -> None:
    """Add what stands in an object, but for some members of it."""
    for names, value in _list_leaves(_without(owner, unread)):
        # The schemas of an extension are compared with the skills.
        is_schema = names[:2] == ("params", "skills") and _SCHEMAS.intersection(names[3:4])
        if is_schema and key[:1] == ("capabilities",):
            continue
        effects = _UNKNOWN if _WORDS.isdisjoint(names) else _WORDING
        place, leaf = reduce(append, names, path), _without_version(names[-1], value)
        facts.setdefault((*key, *names), _Fact(effects, f"`{names[-1]}`", place, leaf))


def _without(owner: _Members, names: Set[str]) -> dict[str, Json]:
    return {name: value for name, value in owner.items() if name not in names}


def _list_leaves(owner: _Members, *above: str) -> Iterator[tuple[_Key, Json]]:
    """Yield what is no filled object in an object or below, with its names."""
    for name, value in owner.items():
        if isinstance(value, dict) and value:
            yield from _list_leaves(value, *above, name)
        else:
            yield (*above, name), value


def _list_interfaces(document: _Members) -> _Facts:
    """Return the interfaces by what they are, the preferred one first."""
    facts: _Facts = {}
    interfaces = interfaces_of(document)
    for interface in sorted(interfaces, key=lambda entry: entry.member == "additionalInterfaces"):
        version = _normalize("protocolVersion", interface.version)
        key = tuple(map(repr, (interface.url, interface.binding, interface.tenant, version)))
        spoken = f"{interface.binding} {interface.version or ''}".strip()
        tenant = "" if interface.tenant is None else f", tenant {str(interface.tenant)!r:.60},"
        label = f"the interface {spoken} at {without_userinfo(str(interface.url))}{tenant}"
        facts.setdefault(key, _Fact(_OFFER, label, interface.pointer))
        if above := interface.tokens[:-1]:
            path, members = reduce(append, above, ""), members_of(value_at(document, above))
            _add_members(facts, key, path, members, _CALLED_BY[interface.member])
    return facts


def _by_name(value: Json, names: Sequence[str], above: str) -> dict[str, tuple[str, _Members]]:
    """Return the objects of a list by name, with their places; of two namesakes the first."""
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
    is_valid = isinstance(version, str) and Version.is_valid(version)
    return Version.parse(str(version)) if is_valid else None


# What changed.


def _compare(*cards: Card) -> Iterator[Change]:
    """Yield the changes for callers of the old card, for each half of a mixed card."""
    old, new = (respelled(card.document, ANY_CARD, lenient=False) for card in cards)
    was, now = (card.a2a_version for card in cards)
    halves = ["1.0", "0.3"] if was == "mixed" else [was] if now == "mixed" else [""]
    changes: list[Change] = []
    for half in halves:
        unread = _OF_THE_OTHER.get(half, frozenset())
        was_read, is_read = (_without(card, unread) for card in (old, new))
        # Of what only clients of another version read, an old card of one version says nothing.
        former = _list_interfaces(was_read)
        present = _list_interfaces(is_read if was == "mixed" else new)
        changes += _compare_facts(former, present)
        if former.keys() == present.keys() and [*former] != [*present]:
            first = next(iter(present.values()))
            changes.append(("additive", first.path, f"{first.label} is preferred now"))
        changes += _compare_facts(_list_facts(was_read, unread), _list_facts(is_read, unread))
    yield from changes
    seen = {path.split("/")[1] for _, path, _ in changes}
    # Some clients read no `security` beside an empty `securityRequirements`, so that an empty list
    # is not the same as none. All else is another in a card of another A2A version.
    for name in sorted(_COMPARED - seen):
        values = [_normalize(name, card.get(name)) for card in (old, new)]
        if not (is_same(*values) or (was != now and any(values))):
            yield "unclear", f"/{name}", f"`{name}` changed in a way that has several readings"


def _compare_facts(old: _Facts, new: _Facts) -> Iterator[Change]:
    one_sided = old.keys() ^ new.keys()
    for key in dict.fromkeys((*old, *new)):
        if any(key[:length] in one_sided for length in range(1, len(key))):
            continue  # it went or came with what it is a part of
        was, now = old.get(key), new.get(key)
        (gone, came, changed), label, path, value, compare = now or old[key]
        if now is None:
            yield gone, path, f"{label} was removed"
        elif was is None:
            yield came, path, f"{label} is new"
        elif compare:
            yield from compare(was.value, value, path=path or was.path)
        elif not is_same(was.value, value):
            yield changed, path, f"{label} changed"


def _compare_ways(was: _Ways, now: _Ways, path: str) -> Iterator[Change]:
    """Yield which callers are no longer admitted, and which are new.

    A way in stays if some new one requires no further scheme or scope. A change within a scheme is
    reported as a change of the scheme.
    """
    # Most ways stay as they are; only the others are compared with each way of the new one.
    others = [way for way in was if way not in now]
    if len(others) * len(now) > MAX_PAIRS_OF_WAYS:
        yield "unclear", path, "there are too many requirements to compare them all"
        return
    if lost := [way for way in others if not any(way >= other for other in now)]:
        yield "breaking", path, f"a caller with {_spell_way(lost[0])} is no longer let in"
    for way in now:
        if way not in was and not (lost and len(now) == 1):
            yield "additive", path, f"a caller with {_spell_way(way)} is let in now"


def _spell_way(way: _Way) -> str:
    parts = (f"its scope {scope[0]!r}" if scope else repr(name) for name, *scope in sorted(way))
    return " and ".join(parts) or "no credentials"


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
    document = _read_card(untrusted_card, names[0]).document
    with errors.naming(names[1]):
        manifest = parse_object(untrusted_manifest, max_bytes=MAX_MANIFEST_BYTES)
        listed = members_of(manifest.get("result")).get("tools", manifest.get("tools"))
        if not isinstance(listed, list):
            hint = "Save what the server answers to tools/list."
            text = "expected a list of tools"
            raise errors.CardRefused("card.type", text, path="/tools", hint=hint)
    tools: dict[str, deque[Json]] = defaultdict(deque)  # a namesake is compared with no skill twice
    changes: list[Change] = []
    for _, tool in objects_in(listed):
        schema = tool.get("inputSchema", tool.get("input_schema"))
        tools[_plain(str(tool.get("name")))].append(schema)
    for skill, kind, _, schema in skill_schemas(document):
        if kind == "input_schema":
            name = _name_tool(_plain(skill), tools)
            if alike := tools.get(name):
                changes += compare_schemas(schema, alike.popleft(), "input", skill)
            else:
                changes.append(("breaking", skill, f"tool {name!r} was removed"))
    changes += [("additive", name, f"tool {name!r} is new") for name in tools if tools[name]]
    findings = _make_findings(change for change in changes if change[0] != "wording")
    return CardDiff(document.get("version"), None, findings, names, must_be_same=True)


def _name_tool(skill: str, tools: Container[str]) -> str:
    """Return the tool of a skill: its own name, or what follows ``mcp_`` and the server's name."""
    words = skill.split("_", _MAX_WORDS)
    starts = (0, *range(2, len(words))) if words[0] == "mcp" else (0,)
    rests = ("_".join(words[at:]) for at in starts)
    return next((rest for rest in rests if rest in tools), skill)


def _plain(name: str) -> str:
    """Return a name in the form that tools and skills share."""
    return re.sub(r"[^a-z0-9]+", "_", name.rpartition(".")[2].lower()).strip("_")


# Two JSON Schemas compared: which values that were valid are not valid now, and the reverse.
#
# Judged are `type`, `enum`, `properties`, `required`, `additionalProperties` and `items`. A change
# of any other keyword is called unclear, never safe. A schema is the AND of its keywords, so one
# none of whose keywords became narrower refuses nothing that it took before.
#
# Two conventions go beyond that. A member that the old schema does not name and does not speak of
# by `additionalProperties` is no part of the contract, so naming it is additive. A member that is
# no longer named is a break, even where any member is still taken.


#: What changed, where as a JSON pointer, and in words. `narrower`: something that was valid is not
#: any more. `wider`: the reverse. An effect means the same whoever makes the values.
_Step: TypeAlias = tuple[str, str, str]

#: By who makes the values: the caller makes inputs, the agent makes outputs.
_EFFECTS_BY_MAKER: Final[dict[str, dict[str, Any]]] = {
    "input": {"narrower": "breaking", "wider": "additive"},
    "output": {"narrower": "additive", "wider": "breaking"},
}
_TYPES: Final = ("null", "boolean", "integer", "number", "string", "array", "object")
_JUDGED: Final = ("type", "enum", "properties", "required", "additionalProperties", "items")
# fmt: off
_NOTES: Final = frozenset({
    "title", "description", "examples", "default", "deprecated", "readOnly", "writeOnly",
    "$comment", "$schema", "$id", "contentEncoding", "contentMediaType",
})
# fmt: on
#: What they leave of the other keywords cannot be told, so nothing beside a change is judged.
_COMBINED: Final = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "$ref"})


def compare_schemas(old: Json, new: Json, direction: str, path: str = "") -> list[Change]:
    """List what changed from one schema to the other, and what it means for a caller.

    Args:
        old: A schema as parsed JSON: an object or a boolean.
        new: The same.
        direction: What the schema describes: ``input`` or ``output``.
        path: Where the schema stands, as a JSON pointer.
    """
    effects = _EFFECTS_BY_MAKER[direction]
    return [(effects.get(kind, kind), at, text) for kind, at, text in _steps(old, new, path)]


def is_same(value: Json, other: Json) -> bool:
    """Return whether two values are the same JSON, in which true is not 1."""
    # To write them in their own order is far cheaper than JCS.
    return value == other and (json.dumps(value) == json.dumps(other) or jcs(value) == jcs(other))


def _steps(old: Json, new: Json, path: str) -> Iterator[_Step]:
    was, now = ({} if schema is True else schema for schema in (old, new))
    if is_same(was, now):
        return
    if isinstance(was, dict) and isinstance(now, dict):
        yield from _compare_objects(was, now, path)
    elif was is False:
        yield "wider", path, "something is taken here now"
    elif now is False:
        yield "narrower", path, "nothing is taken here any more"
    else:
        yield "unclear", path, "this is not a JSON Schema"


def _compare_objects(
    old: Mapping[str, Json], new: Mapping[str, Json], path: str
) -> Iterator[_Step]:
    changed = [n for n in dict.fromkeys((*old, *new)) if not is_same(old.get(n), new.get(n))]
    for name in changed:
        if name in _NOTES or name.startswith("x-"):
            yield "wording", append(path, name), f"its {name} changed"
        elif name not in _JUDGED:
            yield "unclear", append(path, name), f"`{name}` changed"
    if not _COMBINED.isdisjoint(changed):
        return
    was, now = _list_types(old), _list_types(new)
    yield from _compare_values(was, now, path)
    if "enum" in changed:
        yield from _compare_values(old.get("enum"), new.get("enum"), path)
    if "array" in was and "array" in now:
        yield from _steps(old.get("items", True), new.get("items", True), append(path, "items"))
    if "object" in was and "object" in now:
        yield from _compare_members(old, new, path)


def _list_types(schema: Mapping[str, Json]) -> list[Json]:
    """Return the types of the values that a schema takes; an integer is a number, too."""
    named = schema.get("type")
    taken = [named] if isinstance(named, str) else elements_of(named)
    if "number" in taken:
        taken = [*taken, "integer"]
    return [name for name in _TYPES if named is None or name in taken]


def _compare_values(old: Json, new: Json, path: str) -> Iterator[_Step]:
    """Compare lists of the values that are taken; what is no list takes any value."""
    if not (isinstance(old, list) and isinstance(new, list)):
        if old is None:
            yield "narrower", path, "only listed values are taken now"
        else:
            yield "wider", path, "any value is taken now"
        return
    was, now = ({jcs(value): value for value in listed} for listed in (old, new))
    if gone := [repr(value)[:40] for key, value in was.items() if key not in now]:
        yield "narrower", path, f"no longer taken: {', '.join(gone)}"
    if come := [repr(value)[:40] for key, value in now.items() if key not in was]:
        yield "wider", path, f"taken now: {', '.join(come)}"


def _compare_members(
    old: Mapping[str, Json], new: Mapping[str, Json], path: str
) -> Iterator[_Step]:
    was, now = (members_of(schema.get("properties")) for schema in (old, new))
    was_needed, is_needed = (
        {name for name in elements_of(schema.get("required")) if isinstance(name, str)}
        for schema in (old, new)
    )
    there = append(path, "properties")
    if was.keys() != now.keys() and "patternProperties" in {**old, **new}:
        yield "unclear", there, "the members that `patternProperties` covers changed"
    rest = old.get("additionalProperties")
    for name in dict.fromkeys((*was, *now)):
        place = append(there, name)
        if name not in now:
            yield "breaking", place, f"{name!r} was removed"
        elif name in was or not (rest is None or rest is False):
            yield from _steps(was.get(name, rest), now[name], place)
        else:
            yield "additive" if rest is None else "wider", place, f"{name!r} is new"
    for name in sorted(was_needed ^ is_needed):
        if name in is_needed:
            yield "narrower", append(there, name), f"{name!r} is required now"
        elif name in now or name not in was:
            yield "wider", append(there, name), f"{name!r} is optional now"
    was_open, is_open = (schema.get("additionalProperties", True) for schema in (old, new))
    yield from _steps(was_open, is_open, append(path, "additionalProperties"))
