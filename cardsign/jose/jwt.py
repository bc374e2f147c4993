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
from cardsign.jose.algorithms import ALGORITHMS
from cardsign.jose.jws import decode_part, header_members, read_signer
from cardsign.jose.keys import PublicKey

MAX_TOKEN_CHARS: Final = 16 * 1024  # common servers take no longer header
LEEWAY: Final = 60  # seconds by which clocks may differ (RFC 7519 4.1.4: "a few minutes")


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
        ValueError: It is no signed token, or not one by a key of the issuer. The message holds
            nothing of it.
    """
    parts = untrusted_token.split(".")
    if len(parts) != 3 or len(untrusted_token) > MAX_TOKEN_CHARS:
        raise ValueError("this is no signed token of three parts")
    protected, payload, signature = parts
    try:
        header = header_members(protected)
        alg, kid = read_signer(header, ALGORITHMS)
        typ = str(header.get("typ", "")).lower().removeprefix("application/")
        if types and typ not in types:
            raise ValueError(f"`typ` is none of {', '.join(sorted(types))}")
        data = decode_part(payload, "payload")
        claims = parse_object(data, max_bytes=MAX_TOKEN_CHARS)
        key = find(kid)
        if key is None or key.alg != alg:
            raise ValueError("the token names no key of its issuer for its algorithm")
        key.check(protected, data, decode_part(signature, "signature"))
    except (JsonRefused, SignatureRefused) as exc:
        raise ValueError(f"header, claims or signature are refused ({exc.code})") from exc
    return claims


def check_claims(claims: Mapping[str, Json], *, issuer: str, audience: str, now: float) -> None:
    """Check by whom a token is, for whom, and when (RFC 7519 4.1, RFC 9068 4).

    Raises:
        ValueError: It is another issuer's, for another audience, or not of now.
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
        raise ValueError(f"the token is not for this: {exc}") from exc
