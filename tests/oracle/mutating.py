"""Makes faulty cards from good ones: the same ones for ever, from a base card and a number.

Nothing here imports cardsign, and no random generator is used that a release of Python could
change. A card is read into lists of pairs, so that a member can stand in it twice, and its numbers
are kept as they are spelt.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias


class Object(list):  # type: ignore[type-arg]
    """The members of a JSON object, each a list of name and value."""


class Number(str):
    """A JSON number as it is spelt; in a mutant it may be none."""

    __slots__ = ()


class Draw:
    """Numbers that follow from a text by SHA-256 alone."""

    def __init__(self, seed: str) -> None:
        self._seed, self._used = seed, 0

    def below(self, bound: int) -> int:
        """One of 0 to bound - 1."""
        self._used += 1
        digest = hashlib.sha256(f"{self._seed}#{self._used}".encode()).digest()
        return int.from_bytes(digest[:8], "big") % bound

    def one(self, choices: Any) -> Any:
        """One of a list."""
        return choices[self.below(len(choices))]


#: A container and the index in it: of a pair in an object, of an element in a list.
Spot: TypeAlias = tuple[list[Any], int]
Operation: TypeAlias = Callable[[Any, Draw], None]


def read(document: bytes) -> Any:
    """A JSON document as lists of pairs."""
    return json.loads(
        document,
        object_pairs_hook=lambda pairs: Object([name, value] for name, value in pairs),
        parse_int=Number,
        parse_float=Number,
    )


def write(value: Any) -> str:
    """The JSON text of such a value."""
    if isinstance(value, Object):
        return "{" + ", ".join(f"{_text(name)}: {write(one)}" for name, one in value) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(write, value)) + "]"
    if isinstance(value, Number):
        return str(value)
    return _text(value) if isinstance(value, str) else json.dumps(value)


def _text(value: str) -> str:
    """A string; a backslash escape written with U+FFFE in front stays an escape."""
    return json.dumps(value, ensure_ascii=False).replace("\ufffe", "\\")


def mutant(base: str, document: bytes, number: int) -> bytes:
    """The numbered mutant of a base card: one edit, at times two or three."""
    draw = Draw(f"{base}/{number}")
    card = read(document)
    for _ in range(draw.one((1, 1, 1, 1, 2, 3))):
        draw.one(OPERATIONS)(card, draw)
    data = write(card).encode("utf-8", "surrogatepass")
    return _bytes(data, draw) if draw.below(40) == 0 else data


def _spots(value: Any) -> Iterator[Spot]:
    for index, one in enumerate(value if isinstance(value, list) else ()):
        yield value, index
        yield from _spots(one[1] if isinstance(value, Object) else one)


def _get(spot: Spot) -> Any:
    container, index = spot
    return container[index][1] if isinstance(container, Object) else container[index]


def _set(spot: Spot, value: Any) -> None:
    container, index = spot
    if isinstance(container, Object):
        container[index] = [container[index][0], value]
    else:
        container[index] = value


def _spot(card: Any, draw: Draw, wanted: Callable[[Any], bool] = lambda value: True) -> Spot | None:
    """Some place whose value is as wanted; places in signatures are drawn no more than others."""
    found = [spot for spot in _spots(card) if wanted(_get(spot))]
    return draw.one(found) if found else None


def _copy(value: Any) -> Any:
    if isinstance(value, Object):
        return Object([name, _copy(one)] for name, one in value)
    return [_copy(one) for one in value] if isinstance(value, list) else value


def _containers(card: Any) -> list[list[Any]]:
    inner = [_get(spot) for spot in _spots(card)]
    return [card, *(one for one in inner if isinstance(one, list))]


# ------------------------------------------------------------------ places


def delete(card: Any, draw: Draw) -> None:
    """A member or an element less."""
    if spot := _spot(card, draw):
        del spot[0][spot[1]]


def null(card: Any, draw: Draw) -> None:
    """Null in its place."""
    if spot := _spot(card, draw):
        _set(spot, None)


def empty(card: Any, draw: Draw) -> None:
    """The empty value of its type, or of another one."""
    if spot := _spot(card, draw):
        value = _get(spot)
        own = (
            Object()
            if isinstance(value, Object)
            else []
            if isinstance(value, list)
            else Number("0")
            if isinstance(value, Number)
            else ""
            if isinstance(value, str)
            else False
        )
        _set(spot, draw.one((own, own, own, Object(), [], "", Number("0"), False)))


def duplicate(card: Any, draw: Draw) -> None:
    """The same member or element twice, the second at times with another value."""
    if spot := _spot(card, draw):
        container, index = spot
        again = _copy(container[index])
        if draw.below(2):
            other = draw.one(("evil", Number("7"), None, Object(), [], True))
            again = [again[0], other] if isinstance(container, Object) else other
        container.insert(draw.one((index, index + 1, len(container))), again)


def move(card: Any, draw: Draw) -> None:
    """Somewhere else in the card."""
    if spot := _spot(card, draw):
        container, index = spot
        name = container[index][0] if isinstance(container, Object) else "moved"
        value = _get(spot)
        del container[index]
        _add(draw.one(_containers(card)), name, value, draw)


def copy_over(card: Any, draw: Draw) -> None:
    """The value of one place in another one too."""
    source, target = _spot(card, draw), _spot(card, draw)
    if source and target:
        _set(target, _copy(_get(source)))


def _add(container: list[Any], name: str, value: Any, draw: Draw) -> None:
    where = draw.one((0, len(container), draw.below(len(container) + 1)))
    container.insert(where, [name, value] if isinstance(container, Object) else value)


def rename(card: Any, draw: Draw) -> None:
    """Another spelling of a member's name, beside it or instead of it."""
    members = [(one, at) for one, at in _spots(card) if isinstance(one, Object)]
    if not members:
        return
    container, index = draw.one(members)
    name, value = container[index]
    snake = "".join("_" + c.lower() if c.isupper() else c for c in name)
    other = draw.one(
        (
            *(name[:1].upper() + name[1:], name.upper(), name.lower(), snake, f"x-{name}"),
            *(f"{name} ", f"_{name}", name.replace("a", "\u0430"), name.replace("i", "\u0131")),
            *(f"{name}\u200b", f"\ufffeu{ord(name[:1] or 'x'):04x}{name[1:]}", name[::-1], ""),
        )
    )
    if draw.below(3):
        container[index] = [other, value]
    else:
        container.insert(index + draw.below(2), [other, _copy(value)])


def reorder(card: Any, draw: Draw) -> None:
    """Members or elements in another order."""
    container = draw.one([one for one in _containers(card) if len(one) > 1] or [card])
    if draw.below(2):
        container.reverse()
    elif len(container) > 1:
        container.insert(0, container.pop(1 + draw.below(len(container) - 1)))


def wrap(card: Any, draw: Draw) -> None:
    """In a list or an object, once or many times; or out of it."""
    if spot := _spot(card, draw):
        value = _get(spot)
        if isinstance(value, list) and len(value) == 1 and draw.below(2):
            _set(spot, value[0][1] if isinstance(value, Object) else value[0])
            return
        for _ in range(draw.one((1, 1, 1, 2, 8, 28, 40))):
            value = draw.one(([value], Object([["value", value]])))
        _set(spot, value)


# ------------------------------------------------------------------ values


def text(card: Any, draw: Draw) -> None:
    """A string that says something else, or the same in another way."""
    spot = _spot(card, draw, lambda value: type(value) is str)
    if spot is None:
        return
    value = _get(spot)
    at = draw.below(len(value) + 1)
    _set(
        spot,
        draw.one(
            (
                *(
                    value + "x",
                    "x" + value,
                    value[:at] + value[at + 1 :],
                    value[:at],
                    value.upper(),
                ),
                *(
                    value + " ",
                    value[:at] + "\u0000" + value[at:],
                    value[:at] + "\u0301" + value[at:],
                ),
                *(value[:at] + "\ufffeud800" + value[at:], value[:at] + "\U0001f30a" + value[at:]),
                *(value[:at] + "\n" + value[at:], value * 3, value.swapcase(), value + "\u202e"),
                *(value.replace("https:", "http:"), value.replace("https:", "HTTPS:")),
                *(value.replace("example", "example."), value.replace(".example", ".example:443")),
                *(value.replace("://", "://user@"), value.replace("tides", "t\u0456des")),
                *(value.replace("e", "\ufffeu0065", 1), value + "?a=b", value + "/", value + "#a"),
                *(value.replace("1.0", "1"), value.replace("1.0", "0.3"), value.replace("/", "//")),
            )
        ),
    )


def number(card: Any, draw: Draw) -> None:
    """A number, a truth value or null that is another one, or is spelt in another way."""
    plain = (bool, Number, type(None))
    if spot := _spot(card, draw, lambda value: isinstance(value, plain)):
        value = _get(spot)
        same = (f"{value}.0", f"{value}e0", f"-{value}", f"0{value}", f"{value}000")
        if isinstance(value, Number):
            _set(spot, draw.one([*map(Number, same), str(value), None, True]))
        else:
            _set(spot, draw.one((not value, not value, "true", Number("1"), Number("0"), None)))


ADDED: Final[tuple[tuple[str, str], ...]] = (
    *(("tenant", '""'), ("examples", "[]"), ("required", "false"), ("iconUrl", '""')),
    *(("documentationUrl", '""'), ("securityRequirements", "[]"), ("inputModes", "[]")),
    *(("outputModes", "[]"), ("extensions", "[]"), ("pushNotifications", "false")),
    *(("streaming", "false"), ("extendedAgentCard", "false"), ("extendedAgentCard", "true")),
    *(("x-vendor", '{"a": 1}'), ("x-empty", "{}"), ("x-null", "null"), ("x-number", "1e400")),
    *(("url", '"https://evil.example/a2a"'), ("Url", '"https://evil.example/a2a"')),
    *(("preferredTransport", '"JSONRPC"'), ("protocolVersion", '"0.3.0"'), ("tags", '["a"]')),
    *(("additionalInterfaces", '[{"url": "https://evil.example", "transport": "GRPC"}]'),),
    *(("supportsAuthenticatedExtendedCard", "true"), ("security", "[]"), ("signature", '"x"')),
    *(("security", '[{"harbour": []}]'), ("__proto__", '{"url": "https://evil.example"}')),
    *(("securityRequirements", "[{}]"), ("params", '{"a": [1.5, 1E2, -0, 12345678901234567890]}')),
    *(("jwks_uri", '"https://evil.example"'), ("iss", '"https://evil.example"'), ("exp", "1")),
    *(("supportedInterfaces", "[]"), ("supported_interfaces", "[]"), ("", "0")),
)


def add(card: Any, draw: Draw) -> None:
    """One member or element more: a default, an old one, an unknown one."""
    name, value = draw.one(ADDED)
    _add(draw.one(_containers(card)), name, read(value.encode()), draw)


def add_element(card: Any, draw: Draw) -> None:
    """An element more in a list, empty or a copy."""
    lists = [one for one in _containers(card) if not isinstance(one, Object)]
    if lists:
        container = draw.one(lists)
        other = _copy(draw.one(container)) if container else ""
        _add(container, "", draw.one((Object(), [], "", None, other, "evil", Number("1"))), draw)


# ------------------------------------------------------------------ signatures


HEADERS: Final[tuple[tuple[str, str], ...]] = (
    *(("alg", '"none"'), ("alg", '"HS256"'), ("alg", '"RS256"'), ("alg", '"ES384"')),
    *(("alg", "null"), ("alg", '"es256"'), ("typ", '"JWT"'), ("typ", '"jose"'), ("typ", "1")),
    *(("typ", '"cardsign-keyset+jws"'), ("kid", '"bob"'), ("kid", '""'), ("kid", "7")),
    *(("crit", "[]"), ("crit", '["exp"]'), ("b64", "false"), ("b64", "true"), ("exp", "1")),
    *(("jku", '"https://evil.example/jwks.json"'), ("jwk", '{"kty": "EC"}'), ("x5c", "[]")),
    *(("cty", '"json"'), ("zip", '"DEF"'), ("x5u", '"https://evil.example"'), ("iss", '"a"')),
)


def _entries(card: Any) -> Any:
    found = [value for name, value in card if name == "signatures"] if card else []
    return found[0] if found and isinstance(found[0], list) else []


def signature(card: Any, draw: Draw) -> None:
    """An edit of a signature's entry: its text, its protected or its unprotected header."""
    entries = [one for one in _entries(card) if isinstance(one, Object) and one]
    if not entries:
        return
    entry = draw.one(entries)
    index = draw.below(len(entry))
    name, value = entry[index]
    way = draw.below(6)
    if way == 0:
        extra, other = draw.one(HEADERS)
        entry.append(["header", Object([[extra, read(other.encode())]])])
    elif way == 1:
        entry.append(
            [draw.one(("payload", "header", "alg", "signature", "x")), draw.one(("", None))]
        )
    elif isinstance(value, str) and way < 4:
        at = draw.below(len(value) + 1)
        last = chr(ord(value[-1:] or "A") ^ 1)
        entry[index] = [
            name,
            draw.one(
                (
                    *(value[:-1] + last, value + "=", value + "A", value[:at] + value[at + 1 :]),
                    *(
                        value[:at] + "\n" + value[at:],
                        value.replace("_", "/"),
                        value[:at],
                        "A" * 86,
                    ),
                    value[:at] + ("B" if value[at : at + 1] == "A" else "A") + value[at + 1 :],
                )
            ),
        ]
    else:
        _protected(entry, draw)


def _protected(entry: Any, draw: Draw) -> None:
    for pair in entry:
        if pair[0] == "protected" and isinstance(pair[1], str):
            try:
                header = read(base64.urlsafe_b64decode(pair[1] + "=" * (-len(pair[1]) % 4)))
            except (ValueError, binascii.Error):
                return
            if not isinstance(header, Object):
                return
            name, value = draw.one(HEADERS)
            others = [one for one in header if one[0] != name or draw.below(3) == 0]
            spelt = write(Object([*others, [name, read(value.encode())]]))
            encoded = base64.urlsafe_b64encode(spelt.encode("utf-8", "surrogatepass"))
            pair[1] = encoded.decode().rstrip("=")
            return


def signatures(card: Any, draw: Draw) -> None:
    """An entry less, more, twice, seventeen times, or in another place."""
    entries = _entries(card)
    if not entries:
        return
    way = draw.below(5)
    if way == 0:
        del entries[draw.below(len(entries))]
    elif way == 1:
        copied = draw.one(entries)
        entries.extend(_copy(copied) for _ in range(draw.one((1, 1, 2, 14, 15, 16, 17))))
    elif way == 2:
        entries.insert(0, draw.one((Object(), None, "", [], Object([["protected", "e30"]]))))
    elif way == 3:
        entries.reverse()
    else:
        one, other = draw.one(entries), draw.one(entries)
        if isinstance(one, Object) and isinstance(other, Object) and one and other:
            one[-1], other[-1] = _copy(other[-1]), _copy(one[-1])


# ------------------------------------------------------------------ bytes


def _bytes(data: bytes, draw: Draw) -> bytes:
    """What is no longer the JSON text of the card, or looks so."""
    at = draw.below(len(data))
    return bytes(
        draw.one(
            (
                *(b"\xef\xbb\xbf" + data, data + b"x", data + b"\n\n", data[:at], data * 2),
                *(
                    data[:at] + b"\xff" + data[at:],
                    data[:at] + b" " + data[at:],
                    b"[" + data + b"]",
                ),
                *(
                    data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :],
                    data.decode().encode("utf-16"),
                ),
                *(data[:at] + b"," + data[at:], data.replace(b": ", b" :\t"), b"/**/" + data),
            )
        )
        if not any(byte >= 0xD8 for byte in data)
        else data[:at]
    )


OPERATIONS: Final[tuple[Operation, ...]] = (
    *(delete, delete, null, empty, empty, duplicate, duplicate, move, copy_over, rename, rename),
    *(reorder, wrap, text, text, text, number, add, add, add, add_element),
    *(signature, signature, signatures),
)
