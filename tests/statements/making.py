"""The issuer Tide tables, whose statements the tests read, and those who sign for it."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cardsign.card.values import jcs
from cardsign.jose.jwk import encode_base64url
from cardsign.jose.jws import sign_payload
from cardsign.jose.keys import PrivateKey
from cardsign.statements.envelope import TYP_KEYSET, TYP_RELEASE, Envelope, StatementRefused
from cardsign.statements.keyset import KeysetStatement, keyset_of, read_keyset
from cardsign.statements.release import ReleaseStatement, read_release, release_of
from cardsign.testing import FakeIssuer
from cardsign.testing.fake_issuer import members_of

NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
T0 = int(NOW.timestamp())
DAY = 24 * 60 * 60
Members = dict[str, Any]

TIDES = FakeIssuer(NOW)
URL = TIDES.url
key, thumbprint, entry = TIDES.key, TIDES.thumbprint, TIDES.entry


def quorum(threshold: int, *names: str) -> Members:
    """A member `root` or `recovery`; ``name:holder`` says who holds a key."""
    made = TIDES.quorum(threshold, *(name.partition(":")[0] for name in names))
    holders = (name.rpartition(":")[2] for name in names)
    keys = zip(made["keys"], holders, strict=True)
    return {**made, "keys": [{**one, "holder": holder} for one, holder in keys]}


def later(seconds: float) -> datetime:
    """So many seconds after now."""
    return NOW + timedelta(seconds=seconds)


def signed_keyset(*signers: str, **changes: Any) -> KeysetStatement:
    """A keyset statement with these changes, signed by these."""
    return read_keyset(TIDES.keyset(*signers, **changes))


def signed_release(keyset: KeysetStatement, /, *signers: str, **changes: Any) -> ReleaseStatement:
    """A release with these changes, signed by these."""
    named = {"keyset": keyset.id.to_json(), **changes}
    return read_release(TIDES.release(TIDES.keyset(), *signers, **named))


def keyset_members(**changes: Any) -> Members:
    """What a keyset statement with these changes says."""
    return {**members_of(TIDES.keyset()), **changes}


def release_members(keyset: KeysetStatement, /, **changes: Any) -> Members:
    """What a release under a keyset, with these changes, says."""
    members = members_of(TIDES.release(TIDES.keyset()))
    return {**members, "keyset": keyset.id.to_json(), **changes}


def keyset_payload(members: Members) -> bytes:
    """The payload of a keyset statement that a verifier reads."""
    payload = jcs(members)
    keyset_of(Envelope(TYP_KEYSET, payload, ()))
    return payload


def release_payload(members: Members) -> bytes:
    """The payload of a release statement that a verifier reads."""
    payload = jcs(members)
    release_of(Envelope(TYP_RELEASE, payload, ()))
    return payload


def forged_entry(payload: bytes, name: str, kid: str, typ: str = TYP_KEYSET) -> dict[str, str]:
    """A signature by `name` under a kid of the forger's choice."""
    public = PrivateKey.from_pkcs8_der(key(name).to_pkcs8_der(), kid=kid)
    return sign_payload(payload, public, typ=typ)


def forged(payload: bytes, name: str = "ann", typ: str = TYP_KEYSET) -> bytes:
    """A statement that nobody has read before signing it."""
    entry = forged_entry(payload, name, thumbprint(name), typ)
    document = {"payload": encode_base64url(payload), "signatures": [entry]}
    return json.dumps(document).encode()


def refusal(check: Callable[[], object]) -> str:
    """The code with which a check refuses."""
    with pytest.raises(StatementRefused) as refused:
        check()
    return refused.value.code
