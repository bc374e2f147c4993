"""Texts of policies, for the tests of the verifier's files."""

from __future__ import annotations

import json

from cardsign.jose.keys import PrivateKey

DIGEST = "0" * 64


def policy_text(
    *members: str,
    name: str = "acme",
    origins: str = '["https://a.example"]',
    anchor: str = 'jwks = "https://a.example/k"',
) -> str:
    """One issuer: header on line 2, its members from line 5, the anchor's header behind them."""
    lines = ["format = 1", "[[issuer]]", f'name = "{name}"', f"origins = {origins}", *members]
    gap = [] if members else [""]
    return "\n".join([*lines, *gap, "[issuer.anchor]", anchor, ""])


def public(key: PrivateKey) -> str:
    """A public JWK as an inline table."""
    members = key.public.jwk().items()
    return "{ " + ", ".join(f"{name} = {json.dumps(value)}" for name, value in members) + " }"
