"""What was signed, told by a file: a true difference, where the signature proves the file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import combinations, islice
from typing import Any, Final, TypeAlias

from cardsign.card.canonical import Payload, Payloads, ProfileName, canonicalize
from cardsign.card.document import parse_card, unsigned
from cardsign.card.strictjson import Json, value_at
from cardsign.card.tree import Node, Source, sources_held, write
from cardsign.errors import CanonicalizationError, JsonRefused
from cardsign.explain.repairs import COMMON, Candidate, Suspect, made_by, respelt
from cardsign.explain.report import (
    Change,
    HeldAt,
    Parting,
    Signed,
    members_around,
    shown,
)
from cardsign.lint.portability import lint_portability
from cardsign.lint.rules import Finding
from cardsign.records import dataclass

# A true difference of two JSON values.

_Absent: Final = object()
_Difference: TypeAlias = "tuple[Source, Any, Any]"


def differences(signed: Json, received: Json) -> Iterator[Change]:
    """The topmost values that differ, in the order of `signed`, then what `received` adds.

    Lists are compared by place, from both ends, so that one element more or less is one
    difference. Numbers are equal if their values are: 1 and 1.0 are, 1 and true are not.
    """
    return map(_change, _differing(signed, received, Source()))


def _change(difference: _Difference) -> Change:
    source, *values = difference
    before, after = (None if value is _Absent else shown(value) for value in values)
    return Change(source.shown, before, after)


def _differing(signed: Json, received: Json, at: Source) -> Iterator[_Difference]:
    if isinstance(signed, dict) and isinstance(received, dict):
        for name in (*signed, *(name for name in received if name not in signed)):
            if name not in received:
                yield Source(at, name), signed[name], _Absent
            elif name not in signed:
                yield Source(at, name), _Absent, received[name]
            else:
                yield from _differing(signed[name], received[name], Source(at, name))
    elif isinstance(signed, list) and isinstance(received, list):
        yield from _in_lists(signed, received, at)
    elif not _is_same(signed, received):
        yield at, signed, received


def _in_lists(signed: list[Json], received: list[Json], at: Source) -> Iterator[_Difference]:
    shorter = min(len(signed), len(received))
    head = 0
    while head < shorter and _is_same(signed[head], received[head]):
        head += 1
    tail = 0
    while tail < shorter - head and _is_same(signed[-1 - tail], received[-1 - tail]):
        tail += 1
    for index in range(head, max(len(signed), len(received)) - tail):
        if index >= len(received) - tail:
            yield Source(at, index), signed[index], _Absent
        elif index >= len(signed) - tail:
            yield Source(at, index), _Absent, received[index]
        else:
            yield from _differing(signed[index], received[index], Source(at, index))


def _is_same(one: Json, other: Json) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_is_same(one[n], other[n]) for n in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return one == other and isinstance(one, bool) == isinstance(other, bool)


# Where the payloads of our default profiles differ, and which member is responsible.


MAX_PARTINGS: Final = 50  # members; a person fixes the first few, and --json is read by tools

_Tokens: TypeAlias = tuple[str, ...]


def find_partings(
    received: Payloads, payloads: Sequence[Payload]
) -> tuple[tuple[Parting, ...], int]:
    """List the members at which payloads of one card part.

    Args:
        received: The card; its `signatures` are not looked at.
        payloads: Made from it, one for each profile.

    Returns:
        The first `MAX_PARTINGS`, and how many more there are. None exactly if all payloads
        have the same bytes.
    """
    if len({payload.data for payload in payloads}) < 2:
        return (), 0
    readings = _readings(received, payloads)
    parted = list(_parted(received.tree, readings))
    made_up = list(_made_up(received, readings))
    count = len(parted) + len(made_up)
    pointers = [tuple(map(str, one.source.tokens)) for one in parted[:MAX_PARTINGS] if one.source]
    findings = _findings_about(pointers, lint_portability(received.members))
    places = [_places(received, payload, parted[:MAX_PARTINGS]) for payload in payloads]
    listed = [
        *(
            _at_member(node, findings.get(tokens), readings, places, received.members)
            for node, tokens in zip(parted[:MAX_PARTINGS], pointers, strict=True)
        ),
        *(_at_made_up(source, payloads) for source in made_up[:MAX_PARTINGS]),
    ]
    return tuple(listed[:MAX_PARTINGS]), max(0, count - MAX_PARTINGS)


@dataclass(frozen=True, slots=True)
class _Reading:
    """What one payload made of the received values.

    Attributes:
        payload: The payload.
        held: The values that have a place in it, or anything below them.
        names: Under which names it holds each value that has a place; a number stands for the
            names from the root, whatever the indices between them.
    """

    payload: Payload
    held: set[Source]
    names: dict[Source, tuple[int, ...]]

    def fate(self, source: Source) -> tuple[int, ...] | None:
        """Under which names it holds a value; () if only something inside of it."""
        found = self.names.get(source)
        return found if found is not None else () if source in self.held else None


def _readings(received: Payloads, payloads: Sequence[Payload]) -> list[_Reading]:
    numbers: dict[tuple[int, str], int] = {}
    alone: dict[int, tuple[int, ...]] = {}  # most values have one place: many share one tuple
    readings = []
    for payload in payloads:
        names: dict[Source, tuple[int, ...]] = {}
        tree = payload.rewritten or received.tree
        pending = [(tree, 0)]
        while pending:
            node, number = pending.pop()
            if node.source is not None:
                mine = alone.setdefault(number, (number,))
                others = names.get(node.source)
                names[node.source] = tuple(sorted(others + mine)) if others else mine
            for token, child in node.children():
                name = token if isinstance(token, str) else "*"
                pending.append((child, numbers.setdefault((number, name), len(numbers) + 1)))
        readings.append(_Reading(payload, sources_held(tree)[0], names))
    return readings


def _parted(node: Node, readings: Sequence[_Reading]) -> Iterator[Node]:
    """Where the payloads part inside a value that all of them hold."""
    for _, child in node.children():
        assert child.source is not None  # noqa: S101 - a received node
        fates = [reading.fate(child.source) for reading in readings]
        if any(fate != fates[0] for fate in fates):
            yield child
        elif fates[0] is not None and isinstance(child.value, dict | list):
            yield from _parted(child, readings)


def _made_up(received: Payloads, readings: Sequence[_Reading]) -> Iterator[Source]:
    """Where they part and no member is responsible: something that one profile puts in."""
    distinct = {one.payload.data: one for one in readings}.values()
    seen: set[tuple[str | int, ...]] = set()
    for pair in combinations(distinct, 2):
        if next(_parted(received.tree, pair), None) is not None:
            continue
        for source, _, _ in _differing(pair[0].payload.value, pair[1].payload.value, Source()):
            if source.tokens not in seen:
                seen.add(source.tokens)
                yield source


def _places(
    received: Payloads, payload: Payload, wanted: Sequence[Node]
) -> dict[Source, list[tuple[Source, Node]]]:
    """Where a payload holds some received values, and what it holds there."""
    found: dict[Source, list[tuple[Source, Node]]] = {
        node.source: [] for node in wanted if node.source is not None
    }
    pending = [(Source(), payload.rewritten or received.tree)]
    while pending:
        at, node = pending.pop()
        if node.source in found:
            found[node.source].append((at, node))
        pending.extend((Source(at, token), child) for token, child in node.children())
    return found


def _at_member(
    node: Node,
    finding: Finding | None,
    readings: Sequence[_Reading],
    places: Sequence[dict[Source, list[tuple[Source, Node]]]],
    members: Mapping[str, Json],
) -> Parting:
    source = node.source
    assert source is not None  # noqa: S101 - a received node
    by_profile: dict[ProfileName, HeldAt | None] = {}
    for reading, held in zip(readings, places, strict=True):
        place: HeldAt | None = None
        if ats := sorted(held[source], key=lambda one: one[0].pointer):
            place = HeldAt(tuple(at.shown for at, _ in ats), shown(write(ats[0][1])))
        elif reading.fate(source) is not None:
            place = HeldAt((), "")
        by_profile[reading.payload.profile] = place
    return Parting(
        source.shown,
        finding.rule.id if finding else "",
        finding.rule.summary if finding else "",
        by_profile,
        members_around(members, tuple(map(str, source.tokens))),
    )


def _at_made_up(source: Source, payloads: Sequence[Payload]) -> Parting:
    """The parting at a value that goes back to no member."""
    tokens = tuple(map(str, source.tokens))
    places = {one.profile: _held(one, tokens, source.shown) for one in payloads}
    return Parting(source.shown, "", "", places, ())


def _held(payload: Payload, tokens: _Tokens, pointer: str) -> HeldAt | None:
    try:
        return HeldAt((pointer,), shown(value_at(payload.value, tokens)))
    except KeyError:
        return None


def _findings_about(
    places: Sequence[_Tokens], findings: Iterable[Finding]
) -> dict[_Tokens, Finding]:
    """What lint says of each place, else of something inside it, else of what it stands in."""
    wanted = set(places)
    lengths = {len(tokens) for tokens in wanted}
    prefixes = {tokens[:length] for tokens in wanted for length in range(len(tokens))}
    at_it: dict[_Tokens, Finding] = {}
    inside: dict[_Tokens, Finding] = {}
    around: dict[_Tokens, Finding] = {}
    for one in findings:
        if one.tokens in wanted:
            at_it.setdefault(one.tokens, one)
        if one.tokens in prefixes:
            around.setdefault(one.tokens, one)
        for length in lengths:
            if length < len(one.tokens) and one.tokens[:length] in wanted:
                inside.setdefault(one.tokens[:length], one)
    found = {}
    for tokens in wanted:
        nearest = at_it.get(tokens) or inside.get(tokens)
        for length in range(len(tokens)):
            nearest = nearest or around.get(tokens[:length])
        if nearest is not None:
            found[tokens] = nearest
    return found


MAX_CHANGES: Final = 100  # listed; beyond that the two are different cards


class Against:
    """A file that is said to be what a card's signatures were made over.

    Args:
        untrusted_bytes: The card as its issuer claims to have signed it, or the payload
            itself; nothing in it makes any method raise.
        received: The card that carries the signatures.
    """

    def __init__(self, untrusted_bytes: bytes, received: Mapping[str, Json]) -> None:
        self._bytes = untrusted_bytes
        self._received = unsigned(received)
        try:
            self._document: dict[str, Json] | None = parse_card(untrusted_bytes)
        except JsonRefused:
            self._document = None
        payloads = made_by(Payloads(self._document)) if self._document is not None else ()
        self._candidates = [Candidate(payload, payload.data) for payload in payloads]
        self._candidates += respelt(payloads, COMMON)
        self._told: dict[int, Signed] = {}

    def explains(self, suspect: Suspect) -> Signed | None:
        """What the signature was made over, if the file holds it, and how that differs."""
        if suspect.fits(self._bytes):
            return self._as_it_is
        for number, one in enumerate(self._candidates):
            if suspect.fits(one.data):
                if number not in self._told:
                    self._told[number] = self._as_signed(one)
                return self._told[number]
        return None

    @cached_property
    def _as_it_is(self) -> Signed:
        """The file itself was signed: its difference from the nearest payload of the card."""
        if self._document is None:
            return Signed("against", None)
        values = [one.value for one in made_by(Payloads(self._received))] or [self._received]
        found = [_listed_changes(self._document, value) for value in values]
        return Signed("against", None, (), *min(found, key=lambda one: len(one[0]) + one[1]))

    def _as_signed(self, one: Candidate) -> Signed:
        profile = one.payload.profile
        try:
            received = canonicalize(self._received, profile).value
        except CanonicalizationError:
            received = self._received
        changes = _listed_changes(one.payload.value, received)
        return Signed("against", profile, one.deviations, *changes)


def _listed_changes(signed: Json, received: Json) -> tuple[tuple[Change, ...], int]:
    """The first `MAX_CHANGES`, and how many more there are."""
    found = _differing(signed, received, Source())
    listed = tuple(map(_change, islice(found, MAX_CHANGES)))
    return listed, sum(1 for _ in found)
