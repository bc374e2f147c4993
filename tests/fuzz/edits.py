"""Edits of JSON values; some come to what no reader takes: a member twice, a lone surrogate."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from random import Random
from typing import Any, Final

_MOST_PLACES: Final = 2000  # of which one is chosen; more only takes longer
#: Values on borders, which replace others.
NUMBERS: Final = (0, 1, -1, 2, 2**31, 2**53 - 1, 2**53, 2**63, 10**30, 0.5, 1e308, -0.0, 5e-324)
TEXTS: Final = (
    *("", " ", "a", "\x00", "\r\n", "\u202e", "\ud800", "é", "e\u0301", "𝄞", "\x7f", "~1"),
    *("none", "HS256", "ES256", "RS256", "ES384", "EdDSA", "sig", "enc", "EC", "RSA", "oct", "OKP"),
    *("P-256", "P-384", "AQAB", "AA", "JOSE", "JWT", "cardsign-compat+jws", "1.0", "0.3"),
    *("https://tides.example", "https://tides.example/a2a", "https://tides.example:443/", "//a"),
    *("card", "release", "public", "extended", "tides.example", "0" * 64),
)
_NAMES: Final = (
    *("crit", "b64", "jku", "jwk", "x5c", "alg", "kid", "typ", "d", "k", "use", "key_ops"),
    *("signatures", "protected", "signature", "header", "payload", "url", "kind", "list"),
    *("capabilities", "extensions", "uri", "params", "tenant", "__proto__", "", "x"),
)


class _Twin(str):
    """A name that is equal to no other, so that a dict can hold a member twice."""

    __slots__ = ()
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


def edit(value: Any, random: Random) -> Any:
    """A copy with some places changed; it may hold what no JSON text can."""
    whole = [copy.deepcopy(value)]  # so that the root, too, has a container
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        places = list(places_of(whole))
        container, token = random.choice(places[:_MOST_PLACES])
        random.choice(_WAYS)(container, token, random)
    return whole[0] if whole else None


def places_of(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container in a value with each of its names or indices."""
    if isinstance(value, dict):
        tokens: list[Any] = list(value)
    else:
        tokens = list(range(len(value))) if isinstance(value, list) else []
    for token in tokens:
        yield value, token
        yield from places_of(value[token])


def _replace(container: Any, token: Any, random: Random) -> None:
    scalars: tuple[Any, ...] = (None, True, False, [], {})
    container[token] = copy.copy(random.choice(random.choice((scalars, NUMBERS, TEXTS))))


def _perturb(container: Any, token: Any, random: Random) -> None:
    value = container[token]
    if isinstance(value, bool):
        container[token] = not value
    elif isinstance(value, int | float):
        near = value if abs(value) < 2**80 else 1
        container[token] = random.choice((near + 1, near - 1, -near, float(near), near * 2))
    elif isinstance(value, str) and value:
        at = random.randrange(len(value))
        inserted = random.choice((*TEXTS, value[at].swapcase(), value[at] * 2))
        container[token] = value[:at] + inserted + value[at + random.choice((0, 1)) :]
    elif isinstance(value, list):
        random.shuffle(value)


def _remove(container: Any, token: Any, random: Random) -> None:
    if len(container) > 1:
        del container[token]


def _repeat(container: Any, token: Any, random: Random) -> None:
    if isinstance(container, list):
        container.extend([container[token]] * random.choice((1, 1, 1, 16)))
    else:
        container[_Twin(token)] = random.choice((container[token], None))


def _rename(container: Any, token: Any, random: Random) -> None:
    if isinstance(container, dict):
        spelled = (token.lower(), token.upper(), token + "\u200b")
        container[random.choice((*_NAMES, *spelled))] = container.pop(token)


def _add(container: Any, token: Any, random: Random) -> None:
    value = copy.deepcopy(container[token])
    if isinstance(container, dict):
        container[random.choice(_NAMES)] = value
    else:
        container.insert(token, value)


def _nest(container: Any, token: Any, random: Random) -> None:
    for _ in range(random.choice((1, 1, 7, 31, 120))):
        container[token] = [container[token]] if random.random() < 0.5 else {"a": container[token]}


_WAYS: Final = (_replace, _perturb, _perturb, _remove, _repeat, _rename, _add, _nest)


def dump(value: Any, random: Random) -> bytes:
    """One of the texts that spell a value."""
    spacing = random.choice((None, None, 1, "\t"))
    text = json.dumps(value, indent=spacing, ensure_ascii=random.random() < 0.5)
    return text.encode("utf-8", "surrogatepass")


def load(data: bytes) -> Any:
    """The value of a text, read laxly; None where there is none."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None
