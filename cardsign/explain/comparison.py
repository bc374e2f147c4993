"""What was signed, told by a file: a true difference, where the signature proves the file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from typing import Final

from cardsign.card.canonical import Payload, canonicalize
from cardsign.card.strictjson import Json, append, parse_object, split
from cardsign.errors import CanonicalizationError, JsonRefused
from cardsign.explain.reading import at, members_around, shown
from cardsign.explain.repairs import COMMON, Candidate, Suspect, payloads_of, respelt
from cardsign.explain.report import Change, Parting, Place, Signed
from cardsign.lint.rules import Finding
from cardsign.lint.targets import lint_document

# A true difference of two JSON values, by JSON pointer.


def differences(signed: Json, received: Json, pointer: str = "") -> Iterator[Change]:
    """The topmost values that differ, in the order of `signed`, then what `received` adds.

    Lists are compared by place, from both ends, so that one element more or less is one
    difference. Numbers are equal if their values are: 1 and 1.0 are, 1 and true are not.
    """
    if isinstance(signed, dict) and isinstance(received, dict):
        for name in (*signed, *(name for name in received if name not in signed)):
            where = append(pointer, name)
            if name not in received:
                yield Change(where, shown(signed[name]), None)
            elif name not in signed:
                yield Change(where, None, shown(received[name]))
            else:
                yield from differences(signed[name], received[name], where)
    elif isinstance(signed, list) and isinstance(received, list):
        yield from _in_lists(signed, received, pointer)
    elif not _is_same(signed, received):
        yield Change(pointer, shown(signed), shown(received))


def _in_lists(signed: list[Json], received: list[Json], pointer: str) -> Iterator[Change]:
    shorter = min(len(signed), len(received))
    head = 0
    while head < shorter and _is_same(signed[head], received[head]):
        head += 1
    tail = 0
    while tail < shorter - head and _is_same(signed[-1 - tail], received[-1 - tail]):
        tail += 1
    for index in range(head, max(len(signed), len(received)) - tail):
        where = append(pointer, index)
        if index >= len(received) - tail:
            yield Change(where, shown(signed[index]), None)
        elif index >= len(signed) - tail:
            yield Change(where, None, shown(received[index]))
        else:
            yield from differences(signed[index], received[index], where)


def _is_same(one: Json, other: Json) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_is_same(one[n], other[n]) for n in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return one == other and isinstance(one, bool) == isinstance(other, bool)


# Where the payloads of our default profiles part, and which member is responsible.


MAX_PARTINGS: Final = 50  # members; a person mends the first few, and --json is read by tools

_INDEX: Final = re.compile(r"/[0-9]+(?=/|$)")


def find_partings(
    document: Mapping[str, Json], payloads: Sequence[Payload]
) -> tuple[tuple[Parting, ...], int]:
    """List the members at which payloads of one card part.

    Args:
        document: The card as received; its `signatures` are not looked at.
        payloads: Made from this very document, one for each profile.

    Returns:
        The first `MAX_PARTINGS`, and how many more there are. None exactly if all payloads
        have the same bytes.
    """
    if len({payload.data for payload in payloads}) < 2:
        return (), 0
    members = {name: value for name, value in document.items() if name != "signatures"}
    parting = _Partings(members, payloads, lint_document(members))
    received, made_up = list(parting.among(members, "")), list(parting.made_up())
    listed = [*map(parting.at_member, received[:MAX_PARTINGS]), *map(parting.at_made_up, made_up)]
    count = len(received) + len(made_up)
    return tuple(listed[:MAX_PARTINGS]), max(0, count - MAX_PARTINGS)


@dataclass(frozen=True, slots=True)
class _Partings:
    document: dict[str, Json]
    payloads: Sequence[Payload]
    findings: tuple[Finding, ...]

    def among(self, value: Json, pointer: str) -> Iterator[str]:
        """Where the payloads part inside a value that all of them hold."""
        for where, child in _children(value, pointer):
            fates = [self._fate(payload, where, child) for payload in self.payloads]
            if len(set(fates)) > 1:
                yield where
            elif fates[0] is not None:
                yield from self.among(child, where)

    def made_up(self) -> Iterator[str]:
        """Where they part and no member is responsible: something that one profile puts in."""
        distinct = {payload.data: payload for payload in self.payloads}.values()
        pointers: dict[str, None] = {}
        for one, other in combinations(distinct, 2):
            if not self._told_apart(one, other):
                found = differences(one.value, other.value)
                pointers.update(dict.fromkeys(change.pointer for change in found))
        yield from pointers

    def _told_apart(self, first: Payload, other: Payload) -> bool:
        pair = _Partings(self.document, (first, other), ())
        return next(pair.among(self.document, ""), None) is not None

    def _fate(self, payload: Payload, pointer: str, value: Json) -> tuple[str, ...] | None:
        """Under which names a payload holds a value; () if only something inside of it."""
        found = payload.destinations.get(pointer)
        if found is not None:
            return tuple(_INDEX.sub("/*", one) for one in found)
        inside = (self._fate(payload, where, child) for where, child in _children(value, pointer))
        return () if any(fate is not None for fate in inside) else None

    def at_made_up(self, pointer: str) -> Parting:
        """The parting at a value that goes back to no member."""
        places = {payload.profile: _held(payload, pointer) for payload in self.payloads}
        return Parting(pointer, "", "", places, ())

    def at_member(self, pointer: str) -> Parting:
        """The parting at a member of the card."""
        finding = self._finding(pointer)
        value = at(self.document, pointer)
        return Parting(
            pointer,
            finding.rule.id if finding else "",
            finding.rule.summary if finding else "",
            {one.profile: self._place(one, pointer, value) for one in self.payloads},
            members_around(self.document, pointer),
        )

    def _place(self, payload: Payload, pointer: str, value: Json) -> Place | None:
        pointers = payload.destinations.get(pointer, ())
        if pointers:
            return Place(pointers, shown(at(payload.value, pointers[0])))
        return None if self._fate(payload, pointer, value) is None else Place((), "")

    def _finding(self, pointer: str) -> Finding | None:
        """What lint says of a member, else of something inside it, else of what it stands in."""
        tokens = split(pointer)
        depth = len(tokens)
        at_it = [one for one in self.findings if one.tokens == tokens]
        inside = (one for one in self.findings if one.tokens[:depth] == tokens)
        around = (one for one in self.findings if one.tokens == tokens[: len(one.tokens)])
        return next((one for some in (at_it, inside, around) for one in some), None)


def _held(payload: Payload, pointer: str) -> Place | None:
    try:
        return Place((pointer,), shown(at(payload.value, pointer)))
    except KeyError:
        return None


def _children(value: Json, pointer: str) -> Iterator[tuple[str, Json]]:
    if isinstance(value, dict):
        for name, child in value.items():
            yield append(pointer, name), child
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield append(pointer, index), child


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
        self._received = {name: one for name, one in received.items() if name != "signatures"}
        try:
            self._document: dict[str, Json] | None = parse_object(untrusted_bytes)
        except JsonRefused:
            self._document = None
        payloads = tuple(payloads_of(self._document)) if self._document is not None else ()
        self._candidates = [Candidate(payload, payload.data) for payload in payloads]
        self._candidates += respelt(payloads, COMMON)

    def explains(self, suspect: Suspect) -> Signed | None:
        """What the signature was made over, if the file holds it, and how that differs."""
        if suspect.fits(self._bytes):
            return self._signed(None, (), self._closest(self._document))
        for one in self._candidates:
            if suspect.fits(one.data):
                profile = one.payload.profile
                changes = self._changes(one.payload.value, profile)
                return self._signed(profile, one.deviations, changes)
        return None

    def _signed(
        self, profile: str | None, spelling: tuple[str, ...], changes: tuple[Change, ...]
    ) -> Signed:
        listed = tuple(islice(changes, MAX_CHANGES))
        return Signed("against", profile, spelling, listed, len(changes) - len(listed))

    def _changes(self, signed: dict[str, Json], profile: str) -> tuple[Change, ...]:
        try:
            received = canonicalize(self._received, profile).value
        except CanonicalizationError:
            received = self._received
        return tuple(differences(signed, received))

    def _closest(self, signed: dict[str, Json] | None) -> tuple[Change, ...]:
        """The difference from that payload of the received card which comes nearest."""
        if signed is None:
            return ()
        every = (tuple(differences(signed, one.value)) for one in payloads_of(self._received))
        return min(every, key=len, default=tuple(differences(signed, self._received)))
