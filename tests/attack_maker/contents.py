"""Attacks 65 and 67: what is put into a card, and how much."""

from __future__ import annotations

import json
from typing import Any

from corpus import (
    JWKS_ANCHOR,
    WAIVED,
    Corpus,
    issuer,
    jwk_set,
    pinned,
    pinning,
    recipe,
)
from crafting import (
    CARD,
    LAX,
    dump,
    signed,
)

_MAX_CARD_BYTES = 256 * 1024
_MAX_JWKS_BYTES = 64 * 1024
_MAX_DEPTH = 32


def build(corpus: Corpus) -> None:
    """Register them."""
    for make in (_injected, _sizes):
        make(corpus)


def _injected(corpus: Corpus) -> None:
    attack, key = pinning(
        corpus,
        65,
        "injected-members",
        "A member is added to a signed card",
        "A verifier that knows only its schema's members does not see what it does not know; the "
        "next reader may. Under a full profile any member breaks the signature; under a lossy "
        "one it is reported as uncovered, and the card is refused.",
    )
    lossy = attack.policy(
        issuer(pinned(key), profiles=["prune-empty", "prune-empty-upgraded"]), name="lossy.toml"
    )
    full, pruned = signed(LAX, key), signed(CARD, key, profile="prune-empty")

    def at(card: dict[str, Any], where: str, name: str, value: Any) -> dict[str, Any]:
        if where == "":
            return {**card, name: value}
        if isinstance(card[where], list):
            return {**card, where: [{**card[where][0], name: value}]}
        return {**card, where: {**card[where], name: value}}

    for id_, where, name, value in (
        ("top", "", "x-berth", {"pier": 4}),
        ("interface", "supportedInterfaces", "proxy", "https://evil.example"),
        ("capability", "capabilities", "pushNotifications", True),
        ("skill", "skills", "inputSchema", {"type": "object"}),
        ("provider", "provider", "email", "a@evil.example"),
        ("scheme", "securitySchemes", "open", {"apiKeySecurityScheme": {"name": "k"}}),
    ):
        title = f"`{name}` in {where or 'the card'}"
        attack.attack(f"{id_}-full", title, at(full, where, name, value), "invalid", "sig.bad")
        if id_ in ("top", "interface", "skill", "provider"):
            code, verdict = "coverage.uncovered", "untrusted"
            attack.attack(
                f"{id_}-lossy",
                f"{title}, under a profile that drops it",
                at(pruned, where, name, value),
                verdict,
                code,
                policy=lossy,
            )
    attack.attack(
        "top-portable",
        "`x-berth` in a card whose full payload is its pruned one too",
        at(signed(CARD, key), "", "x-berth", {"pier": 4}),
        "untrusted",
        "coverage.uncovered",
    )
    attack.twin("untouched", "The card as it was signed", full)
    attack.twin(
        "untouched-lossy",
        "The same under the lossy profile",
        pruned,
        *WAIVED,
        "coverage.absence_unprovable",
        policy=lossy,
    )
    extended = at(at(CARD, "", "x-berth", {"pier": 4}), "skills", "inputSchema", {})
    attack.twin("signed", "Unknown members that the signature covers", signed(extended, key))


def _sizes(corpus: Corpus) -> None:
    attack, key = pinning(
        corpus,
        67,
        "sizes",
        "Cards that only keep a verifier busy",
        "A limit that is checked too late is none. The size is checked before anything is parsed, "
        "the depth while it is; just below each limit the card is read.",
    )
    fetched = attack.policy(issuer(JWKS_ANCHOR), name="jwks.toml")
    good = signed(CARD, key)
    text = dump(good)
    for id_, title, card in (
        ("one-byte", "One byte too many", recipe(text, (" ", _MAX_CARD_BYTES + 1 - len(text)))),
        ("fifty-megabytes", "50 MB of space behind it", recipe(text, (" ", 50_000_000))),
        ("space-before", "50 MB of space before it", recipe((" ", 50_000_000), text)),
        ("long-text", "A text of 10 MB", recipe('{"name":"', ("a", 10_000_000), '"}')),
    ):
        attack.attack(id_, title, card, "invalid", "json.too_large")
    keys = recipe("{", ('"a":0,', 1_000_000), '"b":0}')
    attack.attack("million-members", "A million members", keys, "invalid", "json.too_large")
    deep = 100_000
    for id_, title, card in (
        ("arrays", "100,000 arrays", recipe('{"a":', ("[", deep), ("]", deep), "}")),
        ("unclosed", "The same, never closed", recipe('{"a":', ("[", deep))),
        ("objects", "30,000 objects", recipe(('{"a":', 30_000), "0", ("}", 30_000))),
    ):
        attack.attack(id_, title, card, "invalid", "json.depth")
    nested = json.loads("[" * (_MAX_DEPTH - 1) + "]" * (_MAX_DEPTH - 1))
    too_deep = signed({**CARD, "x-berth": [nested]}, key)
    attack.attack("33-levels", "33 levels, signed", too_deep, "invalid", "json.depth")
    duplicates = recipe("{", ('"a":0,', 20_000), '"a":0}')
    attack.attack(
        "same-member",
        "One member 20,000 times",
        duplicates,
        "invalid",
        "json.duplicate_member",
    )
    jwks = dump(jwk_set(key))
    room = _MAX_JWKS_BYTES - len(jwks)
    attack.attack(
        "jwks-one-byte",
        "A key set of one byte too many",
        good,
        "indeterminate",
        "jwks.malformed",
        jwks=recipe(jwks, (" ", room + 1)),
        policy=fetched,
    )
    attack.attack(
        "jwks-deep",
        "A key set of 30,000 levels",
        good,
        "indeterminate",
        "jwks.malformed",
        jwks=recipe('{"keys":', ("[", 30_000), ("]", 30_000), "}"),
        policy=fetched,
    )
    attack.twin("plain", "The card", good)
    filled = recipe(text, (" ", _MAX_CARD_BYTES - len(text)))
    attack.twin("256-kib", "256 KiB to the byte", filled)
    attack.twin("32-levels", "32 levels", signed({**CARD, "x-berth": nested}, key))
    jwks_filled = recipe(jwks, (" ", room))
    attack.twin(
        "jwks-64-kib", "A key set of 64 KiB to the byte", good, jwks=jwks_filled, policy=fetched
    )
