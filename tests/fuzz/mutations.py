"""Mutations that know what they change: JSON stays JSON, and what was signed is signed again.

A mutator takes an input and chance, and returns another input, or None where the input is not
of its kind; then bytes are changed blindly. It is as lax as the readers are strict, so nothing
of cardsign's reads here except to sign.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from random import Random
from typing import Any, Final, TypeAlias

from cardsign.card.profiles import PROFILES
from cardsign.card.strictjson import parse_object
from cardsign.errors import CanonicalizationError, JsonRefused
from cardsign.jose.jws import sign_payload
from cardsign.statements.envelope import TYP_KEYSET, TYP_RELEASE
from tests.fuzz.edits import NUMBERS, TEXTS, dump, edit, load
from tests.fuzz.seeds import CARD_SIGNERS, PEOPLE, key
from tests.support import one_signature, under_header

Mutator: TypeAlias = Callable[[bytes, Random], bytes | None]

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


def mutate_entry(data: bytes, random: Random) -> bytes | None:
    """One member of `signatures`, in its protected header or as a whole."""
    entry = load(data)
    if not isinstance(entry, dict) or random.random() < 0.3:
        return mutate_json(data, random)
    header = mutate_json(_decoded(entry.get("protected")), random)
    return dump({**entry, "protected": _encoded(header or b"{}")}, random)


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
