"""Attack 412: a token of the same key is shown as a card."""

from __future__ import annotations

from tests.attack_maker.attack import Attack, issuer, pinned
from tests.attack_maker.signing import CARD, ORIGIN, Json, ec_key, entry, header_of, payload_of

_RETURN = f"{ORIGIN}/return"
_LINKS: dict[str, tuple[str, Json]] = {
    "url": ("A link token", {"url": _RETURN}),
    "state": ("The state of a redirect", {"url": _RETURN, "state": "af0ifjsldkj"}),
    "event": ("A security event", {"url": _RETURN, "events": {"https://e.example/out": {}}}),
    "number": ("The name is a number", {"url": _RETURN, "name": 7, "skills": []}),
    "empty": ("The name is empty", {"url": _RETURN, "name": "", "skills": []}),
    "bare": ("A name, and neither skills nor capabilities", {"url": _RETURN, "name": "Return"}),
}
_CLAIMS: dict[str, Json] = {
    "iss": {"iss": "https://id.example"},
    "sub": {"sub": "248289761001"},
    "aud": {"aud": ["s6BhdRkqt3"]},
    "exp": {"exp": 1_795_266_000},
    "nbf": {"nbf": 1_795_262_400},
    "iat": {"iat": 1_795_262_400},
    "jti": {"jti": "f81d4fae"},
    "null": {"iss": None},
}


def attack() -> Attack:
    """Tokens without a typ or with that of cards, and tokens whose claims look like a card."""
    attack = Attack(
        412,
        "tokens",
        "A token passes for a card",
        "The key that signs cards may sign other JSON as well: links, redirects, ID tokens. Its "
        "signature is good, and what it signed is no card of anybody.",
    )
    key = ec_key("harbour-1")
    attack.policy(issuer(pinned(key)))

    def shown(card: Json, typ: str | None) -> Json:
        return {**card, "signatures": [entry(payload_of(card), key, header_of(key, typ=typ))]}

    for id_, (title, payload) in _LINKS.items():
        for typ in (None, "JOSE"):
            attack.attack(
                f"{id_}-{'jose' if typ else 'no-typ'}",
                f"{title}, {'as JOSE' if typ else 'without typ'}",
                shown(payload, typ),
                *("untrusted", "card.not_agent_card", "yes no unknown yes"),
            )
    for id_, claims in _CLAIMS.items():
        attack.attack(
            f"jwt-{id_}",
            f"A JWT with the members of a card and {next(iter(claims))}",
            shown({**CARD, **claims}, "JWT"),
            *("untrusted", "sig.typ_forbidden", "no yes unknown yes"),
        )
    attack.twin("no-typ", "The card without typ", shown(CARD, None))
    attack.twin("jose", "The card as JOSE", shown(CARD, "JOSE"))
    old = {**CARD, "exp": 1_795_266_000}
    attack.twin("member", "A card with a member of that name, as JOSE", shown(old, "JOSE"))
    return attack
