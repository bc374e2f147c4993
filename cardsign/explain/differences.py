"""A true difference of two JSON values, by JSON pointer."""

from __future__ import annotations

from collections.abc import Iterator

from cardsign.card.pointer import append
from cardsign.card.strictjson import Json
from cardsign.explain.report import Change
from cardsign.explain.showing import shown


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
