"""Parsed JSON: its type, pointers to places in it, and looking into what nobody has checked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from itertools import islice
from typing import Any, Final, TypeAlias

import rfc8785

from cardsign.errors import CanonicalizationError
from cardsign.findings import Finding, Place, cut

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"

# JSON Pointers (RFC 6901): how errors, coverage and findings name a place in a document. A name may
# be as long as the card and stand over all of its values, so what is shown of it is bounded here,
# for every report. Code that looks a place up keeps its tokens.

#: Characters of one token in a pointer.
MAX_TOKEN: Final = 64
#: Characters of a pointer behind which no further token is shown.
MAX_POINTER: Final = 240


def append(base: str, token: str | int) -> str:
    """Return the pointer to `token`, a member name or array index, inside the value at `base`.

    A long token is cut, and a long pointer ends with ``/...`` in place of further tokens.
    """
    if len(base) > MAX_POINTER:
        return base if base.endswith("/...") else f"{base}/..."
    shown = cut(token, MAX_TOKEN) if isinstance(token, str) else str(token)
    return f"{base}/{shown.replace('~', '~0').replace('/', '~1')}"


def pointer(*tokens: str | int) -> str:
    """Return the pointer that leads through `tokens` from the root; the root itself is ``""``.

    It is cut as by :func:`append`.
    """
    return reduce(append, tokens, "")


def finding_at(code: str, tokens: tuple[str, ...], message: str) -> Finding:
    """Return a finding about a member or element of a card."""
    return Finding(code, message, Place(pointer(*tokens), tokens=tokens))


def split(text: str) -> tuple[str, ...]:
    """Return the unescaped tokens of a pointer of ours; array indices come back as text."""
    # `~1` first: the other order would read `~01`, which means `~1`, as `/`.
    return tuple(token.replace("~1", "/").replace("~0", "~") for token in text.split("/")[1:])


# Looking into a value whose type nobody has checked.


def members_of(value: Json) -> dict[str, Json]:
    """Return an object's members; none of any other value."""
    return value if isinstance(value, dict) else {}


def elements_of(value: Json) -> list[Json]:
    """Return a list's elements; none of any other value."""
    return value if isinstance(value, list) else []


def objects_in(value: Json) -> Iterator[tuple[int, dict[str, Json]]]:
    """Yield those elements of a list that are objects, each with its index."""
    return (
        (at, element) for at, element in enumerate(elements_of(value)) if isinstance(element, dict)
    )


def children_of(value: Json) -> Iterable[tuple[str | int, Json]]:
    """Return what stands in an object or list, each with its token; nothing in any other value."""
    return value.items() if isinstance(value, dict) else enumerate(elements_of(value))


def kind_of(value: Json) -> str:
    """Return what kind of JSON a value is, in words."""
    kinds = {dict: "an object", list: "a list", str: "a string", bool: "true or false"}
    return "null" if value is None else kinds.get(type(value), "a number")


def value_at(document: Json | Mapping[str, Json], tokens: Iterable[str | int]) -> Json:
    """Return the value at the place to which reference tokens lead.

    Raises:
        KeyError: There is none.
    """
    value: Any = document
    for token in tokens:
        if isinstance(value, Mapping):
            value = value[token]
        elif isinstance(value, list) and str(token).isdecimal() and int(token) < len(value):
            value = value[int(token)]
        else:
            raise KeyError(token)
    reached: Json = value
    return reached


def levels(value: Json) -> Iterator[list[Json]]:
    """Yield a value, then what it holds, level by level; endless if it holds itself."""
    level = [value]
    while level:
        yield level
        below: list[Json] = []
        for element in level:
            if type(element) is dict:  # cheaper than isinstance, and of parsed JSON as good
                below += element.values()
            elif type(element) is list:
                below += element
        level = below


def is_deeper(value: Json, max_depth: int) -> bool:
    """Return whether a JSON value has more levels of arrays and objects."""
    below = next(islice(levels(value), max_depth, None), [])
    return any(isinstance(element, dict | list) for element in below)


def count_values(value: Json) -> int:
    """Return how many values a JSON value is made of, itself and containers included."""
    return sum(map(len, levels(value)))


def jcs(value: Json) -> bytes:
    """Return the RFC 8785 bytes of a JSON value.

    Raises:
        CanonicalizationError: A number or string has no canonical form (not finite, beyond
            +-(2^53-1), a lone surrogate), or the value is nested too deeply.
    """
    try:
        return rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, UnicodeError, RecursionError) as exc:
        # rfc8785 0.1.4 lets UnicodeError and RecursionError through.
        message = f"the value has no RFC 8785 form: {exc}"
        raise CanonicalizationError("canonical.no_form", message) from exc
