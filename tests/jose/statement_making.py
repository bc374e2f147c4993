"""An issuer for the tests of statements: his people, their keys, and what they sign."""

from __future__ import annotations

import functools
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from cardsign.jose import PrivateKey, sign_payload
from cardsign.statements import (
    TYP_KEYSET,
    TYP_RELEASE,
    KeysetStatement,
    ReleaseStatement,
    StatementRefused,
    draft_keyset,
    draft_release,
    read_keyset,
    read_release,
    sign_statement,
)

NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
T0 = int(NOW.timestamp())
DAY = 24 * 60 * 60
URL = "https://tides.example/.well-known/agent-card.json"
Members = dict[str, Any]


@functools.cache
def key(name: str) -> PrivateKey:
    """The key of that name, made for this run; its kid in statements is its thumbprint."""
    return PrivateKey.generate("RS256" if name.startswith("rsa") else "ES256")


def thumbprint(name: str) -> str:
    """The identity of a key."""
    return key(name).public.thumbprint


def quorum(threshold: int, *names: str) -> Members:
    """`name` or `name:holder` each; who is not named otherwise holds his own key."""
    pairs = [name.partition(":") for name in names]
    return {
        "threshold": threshold,
        "keys": [
            {"public": key(name).public.jwk(), "holder": holder or name}
            for name, _, holder in pairs
        ],
    }


def entry(name: str, *roles: str, **changes: Any) -> Members:
    """A member of `keys`."""
    times = {"nbf": T0 - DAY, "exp": T0 + 300 * DAY}
    public = key(name).public.jwk()
    return {"public": public, "roles": list(roles), "holder": "harbour", **times, **changes}


def keyset_members(**changes: Any) -> Members:
    """Version 1 of an issuer with roots ann, bob and cat, of whom two must sign."""
    return {
        "format": "cardsign-keyset/1",
        "issuer": "tides.example",
        "origins": ["https://tides.example"],
        "epoch": 1,
        "version": 1,
        "prev": None,
        "iat": T0,
        "exp": T0 + 90 * DAY,
        "root": quorum(2, "ann", "bob", "cat"),
        "recovery": quorum(1, "rita"),
        "keys": [entry("card", "card"), entry("rel", "release"), entry("rel2", "release")],
        "revoked": [],
        **changes,
    }


def release_members(keyset: KeysetStatement, /, **changes: Any) -> Members:
    """Release 5 under a keyset."""
    return {
        "format": "cardsign-release/1",
        "issuer": "tides.example",
        "keyset": {"epoch": keyset.epoch, "version": keyset.version, "digest": keyset.digest},
        "seq": 5,
        "iat": T0,
        "exp": T0 + 7 * DAY,
        "cards": [{"url": URL, "kind": "public", "payload_sha256": "0" * 64, "seq": 3}],
        "floor": {URL: 3, "extended": 2},
        "revoked": [],
        "audit_head": None,
        **changes,
    }


def signed_keyset(*signers: str, **changes: Any) -> KeysetStatement:
    """A keyset statement with these changes, signed by these."""
    payload = draft_keyset(keyset_members(**changes))
    return read_keyset(sign_statement(payload, map(key, signers), TYP_KEYSET))


def signed_release(keyset: KeysetStatement, /, *signers: str, **changes: Any) -> ReleaseStatement:
    """A release with these changes, signed by these."""
    payload = draft_release(release_members(keyset, **changes))
    return read_release(sign_statement(payload, map(key, signers), TYP_RELEASE))


def forged_entry(payload: bytes, name: str, kid: str, typ: str = TYP_KEYSET) -> dict[str, str]:
    """A signature by `name` under a kid of the forger's choice."""
    public = PrivateKey.from_pkcs8_der(key(name).to_pkcs8_der(), kid=kid)
    return sign_payload(payload, public, typ=typ)


def refusal(check: Callable[[], object]) -> str:
    """The code with which a check refuses."""
    with pytest.raises(StatementRefused) as refused:
        check()
    return refused.value.code
