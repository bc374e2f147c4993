"""Signed tokens (RFC 7519) of other issuers: the signature, and the claims that bound them.

The keys are held to our own rules, and the token has to name one of them. Nothing in a token
chooses an algorithm that its key is not for, and no ``crit``, ``jku`` or embedded key is followed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final

from joserfc import jwt
from joserfc.errors import JoseError

from cardsign.card.strictjson import parse_object
from cardsign.card.values import Json
from cardsign.errors import JsonRefused, SignatureRefused
from cardsign.jose.algorithms import ALGORITHMS, named
from cardsign.jose.jws import MAX_HEADER_DEPTH, decode_part
from cardsign.jose.keys import MAX_HEADER_BYTES, REGISTRY, PublicKey

MAX_TOKEN_CHARS: Final = 16 * 1024  # common servers take no longer header
MAX_CLAIMS_DEPTH: Final = 16
LEEWAY: Final = 60  # seconds by which clocks may differ (RFC 7519 4.1.4: "a few minutes")


class TokenRefused(ValueError):
    """The token is not valid. The message holds nothing of it."""


def read_token(
    untrusted_token: str, find: Callable[[str], PublicKey | None], *, types: Collection[str] = ()
) -> dict[str, Json]:
    """Return the claims of a token that one of the keys signed; the claims are not checked.

    Args:
        untrusted_token: In the compact form.
        find: The issuer's key of a kid. It is called once, for a header that is in order: it may
            ask the issuer.
        types: The values of ``typ`` that will do, in lower case without ``application/``; any
            if empty. It keeps a token of one kind from passing for another (RFC 8725 3.11).

    Raises:
        TokenRefused: It is no signed token, or not one by a key of the issuer.
    """
    parts = untrusted_token.split(".")
    if len(parts) != 3 or len(untrusted_token) > MAX_TOKEN_CHARS:
        raise TokenRefused("this is no signed token of three parts")
    header = _object(parts[0], "protected", MAX_HEADER_BYTES, MAX_HEADER_DEPTH)
    for name in ("crit", "b64"):
        if name in header:
            raise TokenRefused(f"the header holds `{name}`, expected none")
    typ = str(header.get("typ", "")).lower().removeprefix("application/")
    if types and typ not in types:
        raise TokenRefused(f"`typ` is none of {', '.join(sorted(types))}")
    alg, kid = named(header.get("alg"), ALGORITHMS), header.get("kid")
    if alg is None:
        raise TokenRefused("`alg` is no algorithm that is accepted")
    key = find(kid) if isinstance(kid, str) else None
    if key is None:
        raise TokenRefused("the token names no key of its issuer")
    if key.alg != alg:
        raise TokenRefused(f"the token's key is for {key.alg}")
    claims = _object(parts[1], "payload", MAX_TOKEN_CHARS, MAX_CLAIMS_DEPTH)
    try:
        jwt.decode(untrusted_token, key.jose, registry=REGISTRY)
    except (JoseError, KeyError, TypeError, ValueError) as exc:  # all that joserfc 1.8 raises
        raise TokenRefused("its signature does not hold (sig.bad)") from exc
    return claims


def check_claims(claims: Mapping[str, Json], *, issuer: str, audience: str, now: float) -> None:
    """Check by whom a token is, for whom, and when (RFC 7519 4.1, RFC 9068 4).

    Raises:
        TokenRefused: It is another issuer's, for another audience, or not of now.
    """
    registry = jwt.JWTClaimsRegistry(
        now=lambda: int(now),
        leeway=LEEWAY,
        iss={"essential": True, "value": issuer},
        aud={"essential": True, "value": audience},
        exp={"essential": True},
    )
    try:
        registry.validate({**claims})
    except JoseError as exc:
        raise TokenRefused(f"the token is not for this: {exc}") from exc


def _object(part: str, name: str, max_bytes: int, max_depth: int) -> dict[str, Json]:
    try:
        data = decode_part(part, name)
        return parse_object(data, max_bytes=max_bytes, max_depth=max_depth)
    except (JsonRefused, SignatureRefused) as exc:
        raise TokenRefused(f"`{name}` is no strict JSON ({exc.code})") from exc
