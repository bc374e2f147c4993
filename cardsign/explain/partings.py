"""Where the payloads of our default profiles part, and which member is responsible.

What became of a member is read off the rewritings themselves (`Payload.destinations`), as
coverage is. A member is responsible if not all payloads hold it, or not all under the same
names; only the topmost one is listed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from cardsign.card.canonical import Payload
from cardsign.card.lint import lint
from cardsign.card.lint.findings import Finding
from cardsign.card.pointer import append
from cardsign.card.strictjson import Json
from cardsign.explain.differences import differences
from cardsign.explain.report import Parting, Place
from cardsign.explain.showing import at, members_around, shown

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
    parting = _Partings(members, payloads, lint(members))
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
        for fits in (
            lambda place: place == pointer,
            lambda place: place.startswith(pointer + "/"),
            lambda place: pointer.startswith(place + "/"),
        ):
            for finding in self.findings:
                if fits(finding.pointer):
                    return finding
        return None


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
