"""Mutations that know what they change: JSON stays JSON, and what was signed is signed again.

A mutator takes an input and chance, and returns another input, or None where the input is not of
its kind; then bytes are changed blindly. Some edits of JSON come to what no reader takes: a member
twice, a lone surrogate. All is as lax as the readers are strict, so nothing of cardsign's reads
here except to sign.
"""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Final, TypeAlias

from cardsign.card.profiles import PROFILES
from cardsign.card.strictjson import parse_object
from cardsign.errors import CanonicalizationError, JsonRefused
from cardsign.jose.jws import sign_payload
from cardsign.statements.envelope import TYP_KEYSET, TYP_RELEASE
from tests.fuzz.seeds import CARD_SIGNERS, PEOPLE, key
from tests.support import one_signature, under_header

Mutator: TypeAlias = Callable[[bytes, Random], bytes | None]


# Edits of JSON values.

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


# Inputs of each kind.

_HEADERS: Final = (
    {"alg": "ES256", "typ": "JOSE"},
    {"alg": "ES256", "typ": "JWT"},
    {"alg": "ES256", "typ": "cardsign-compat+jws"},
    {"alg": "ES256"},
    {"alg": "none", "typ": "JOSE"},
    {"alg": "ES256", "typ": "cardsign-keyset+jws"},
    {"alg": "RS256", "typ": "JOSE"},
)


def mutate_json(data: bytes, random: Random) -> bytes | None:
    """Any JSON text."""
    value = load(data)
    return None if value is None else dump(edit(value, random), random)


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode("ascii").rstrip("=")


def _decoded(text: Any) -> bytes:
    try:
        return base64.urlsafe_b64decode(f"{text}===")
    except ValueError:
        return b""


# ------------------------------------------------------------------ cards


def mutate_card(data: bytes, random: Random) -> bytes | None:
    """A card: mostly signed anew, under any profile, typ and header, by any signer."""
    card = load(data)
    if not isinstance(card, dict):
        return None
    if random.random() < 0.7:
        card = edit(card, random)
    if random.random() < 0.8:
        card = _signed(card, random)
    return dump(card, random)


def _signed(card: Any, random: Random) -> Any:
    try:
        card = parse_object(dump(card, random))
    except JsonRefused:
        return card
    kept = card.pop("signatures", None)
    entries = kept if isinstance(kept, list) and random.random() < 0.3 else []
    for _ in range(random.choice((1, 1, 2))):
        signer, profile = random.choice(CARD_SIGNERS), random.choice(list(PROFILES))
        try:
            entries.append(_entry(card, signer, profile, random))
        except CanonicalizationError:
            continue
    return {**card, "signatures": entries}


def _entry(card: Any, signer: str, profile: str, random: Random) -> Any:
    if random.random() < 0.6:
        return one_signature(card, key(signer), profile)
    header = {**random.choice(_HEADERS), "kid": key(signer).public.kid}
    if random.random() < 0.3:
        header = edit(header, random)
    entry = under_header(card, key(signer), header, profile=profile)["signatures"][0]
    return edit(entry, random) if random.random() < 0.2 else entry


# ------------------------------------------------------------------ statements

_TYPS: Final = {"cardsign-keyset/1": TYP_KEYSET, "cardsign-release/1": TYP_RELEASE}


def mutate_statement(data: bytes, random: Random) -> bytes | None:
    """A keyset or release statement: its envelope, or its payload, which is signed again."""
    envelope = load(data)
    if not isinstance(envelope, dict):
        return None
    members = load(_decoded(envelope.get("payload")))
    if not isinstance(members, dict) or random.random() < 0.2:
        return dump(edit(envelope, random), random)
    return _statement(edit(members, random), random)


def _statement(members: Any, random: Random) -> bytes:
    """A signed statement of these members; canonical as far as it is ASCII and whole numbers."""
    in_order = random.random() < 0.95
    text = json.dumps(members, sort_keys=in_order, separators=(",", ":"), ensure_ascii=False)
    payload = text.encode("utf-8", "surrogatepass")
    kind = members.get("format") if isinstance(members, dict) else None
    typ = _TYPS.get(kind if isinstance(kind, str) else "", TYP_KEYSET)
    by_right = ("rel", "rel2") if typ == TYP_RELEASE else ("ann", "bob", "cat", "rita")
    names = by_right if random.random() < 0.8 else random.sample(PEOPLE, random.randint(1, 4))
    entries = [sign_payload(payload, key(name), typ=typ) for name in names]
    return json.dumps({"payload": _encoded(payload), "signatures": entries}).encode()


# ------------------------------------------------------------------ TOML


def mutate_lines(data: bytes, random: Random) -> bytes | None:
    """A text of lines, such as a policy: lines moved, dropped and doubled, values exchanged."""
    lines = data.split(b"\n")
    for _ in range(random.choice((1, 1, 2, 4))):
        at, other = random.randrange(len(lines)), random.randrange(len(lines))
        way = random.randrange(5)
        if way == 0:
            lines[at], lines[other] = lines[other], lines[at]
        elif way == 1 and len(lines) > 1:
            del lines[at]
        elif way == 2:
            lines.insert(at, lines[other])
        elif way == 3:
            name, equals, _ = lines[at].partition(b"=")
            value = json.dumps(random.choice((*TEXTS, *NUMBERS, [], True, {})))
            lines[at] = name + (equals or b"=") + value.encode()
        else:
            name, equals, value = lines[at].partition(b"=")
            lines[at] = name + equals + lines[other].partition(b"=")[2] or value
    return b"\n".join(lines)
