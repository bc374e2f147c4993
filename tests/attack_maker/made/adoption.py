"""Attack 512: what `enforce = "warn"` must not let through."""

from __future__ import annotations

from typing import Any

from tests.attack_maker.attack import Attack, refused
from tests.attack_maker.signing import CARD, at_url, ec_key, header_of, signed
from tests.attack_maker.stage import LATER, Stage
from tests.attack_maker.statements import URL

_NONE = ("untrusted", "sig.none", "no unknown unknown unknown")
_UNKNOWN = ("untrusted", "key.unknown", "unknown unknown unknown unknown")


def attack() -> Attack:
    """Verdicts stay. Only what nobody has vouched for is handed out, as unverified, and named."""
    attack = Attack(
        512,
        "adoption",
        "An issuer that the policy only warns about",
        "While an issuer is being adopted, its unsigned cards may be used as unverified ones. "
        "Nothing else is softened: no changed card, no revoked key, no foreign endpoint, and no "
        "unsigned card of an issuer that has signed before.",
        source="decision E12",
    )
    stage = Stage(attack)
    warned = stage.pinned("warned.toml", enforce="warn")
    strict = stage.pinned("strict.toml")
    key = stage.house.key("card")
    good = signed(CARD, key)

    def shown(
        id_: str,
        title: str,
        told: tuple[str, str, str],
        card: Any,
        *,
        policy: str = warned,
        unverified: bool = False,
    ) -> None:
        stage.refused(
            id_,
            title,
            *told,
            policy=policy,
            memory="fresh",
            answers={URL: stage.said(card, id_)},
            expecting={"unverified": True} if unverified else None,
        )

    stranger = signed(CARD, ec_key("mallory"))
    shown("unsigned", "An unsigned card is handed out, unverified", _NONE, CARD, unverified=True)
    shown("unknown", "So is one by a key that nobody knows", _UNKNOWN, stranger, unverified=True)
    shown("strict", "Not where the policy does not warn", _NONE, CARD, policy=strict)
    changed = ("invalid", "sig.bad", "no unknown unknown unknown")
    shown("changed", "A changed card", changed, {**good, "description": "Send money"})
    forbidden = ("untrusted", "sig.alg_forbidden", "no unknown unknown unknown")
    none = signed(CARD, key, header_of(key, alg="none"))
    shown("alg-none", "The algorithm `none`", forbidden, none)
    elsewhere = at_url("https://evil.example/a2a")
    shown("elsewhere", "An unsigned card that points elsewhere", _NONE, elsewhere)
    mismatch = ("untrusted", "card.origin_mismatch", "yes no unknown yes")
    shown("foreign", "A signed card that points elsewhere", mismatch, signed(elsewhere, key))
    stage.case(
        "stripped",
        "The signatures are taken away from an issuer that has signed before",
        stage.step(stage.good(warned)),
        stage.step(refused(*_NONE), now=LATER, answers={URL: stage.said(CARD, "stripped")}),
        policy=warned,
        memory="fresh",
    )
    by_keyset = stage.by_keyset("by-keyset.toml", enforce="warn")
    stage.refused(
        "revoked",
        "A revoked key",
        *("untrusted", "key.revoked", "yes yes no yes"),
        policy=by_keyset,
        answers=stage.statements(stage.revoking()),
    )
    stage.honest("signed", "A signed card is a verified one", policy=warned, memory="fresh")
    stage.honest("current", "The same with statements", policy=by_keyset)
    return attack
