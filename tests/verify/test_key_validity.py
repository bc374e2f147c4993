"""Keys that their own set calls expired, revoked or not yet valid count in no way of verifying."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cardsign import Policy, Verifier
from cardsign.errors import KeyRefused
from cardsign.jose.keys import JwkSet
from cardsign.trust.lock import Memory
from cardsign.trust.policy import JwksAnchor, KeysAnchor, TrustedIssuer
from cardsign.trust.policyfile import with_issuer
from cardsign.trust.walk import SuppliedStatements
from cardsign.urls import parse_place
from cardsign.verify.report import Report
from tests.publish.publications import PUBLIC, sign
from tests.statements.making import NOW, key
from tests.support import codes

CARD = sign(PUBLIC, key("card"))
HOME = "https://tides.example"
KEYS = f"{HOME}/keys"
SECONDS = int(NOW.timestamp())

Way = Callable[[bytes, Path], Report]


def examine(policy: Policy | Path, statements: SuppliedStatements | None = None) -> Report:
    """The verdict on the one card."""
    verifier = Verifier(policy, lock=Memory(), cache=Memory(), clock=lambda: NOW)
    subject = {} if verifier.policy.issuers[0].is_holder else {"issuer": "tides"}
    return verifier.examine(CARD, statements=statements or SuppliedStatements(), **subject)


def by_a_key_set(jwks: bytes, folder: Path) -> Report:
    return examine(Policy.from_jwks(jwks))


def by_a_jwks_anchor(jwks: bytes, folder: Path) -> Report:
    issuer = TrustedIssuer("tides", JwksAnchor(KEYS), (parse_place(HOME),), freshness="waived")
    return examine(Policy((issuer,)), SuppliedStatements(untrusted_jwks=jwks, jwks_url=KEYS))


def by_keys_of_a_policy_file(jwks: bytes, folder: Path) -> Report:
    """As `trust add --jwks` writes them, and a verifier reads them."""
    members = {"name": "tides", "origins": [HOME], "freshness": "waived"}
    policy = folder / "trust.toml"
    policy.write_text(with_issuer("format = 1\n", members, KeysAnchor(JwkSet.from_bytes(jwks))))
    return examine(policy)


WAYS = [by_a_key_set, by_a_jwks_anchor, by_keys_of_a_policy_file]
LIMITS: dict[str, tuple[dict[str, Any], str]] = {
    "expired now": ({"exp": SECONDS}, "key.expired"),
    "not yet valid": ({"nbf": SECONDS + 3600}, "key.not_yet_valid"),
    "revoked": ({"revoked": {"revoked_at": SECONDS - 9, "reason": "compromised"}}, "key.revoked"),
}
IN_FORCE: dict[str, dict[str, Any]] = {
    "nothing is said": {},
    "until later": {"exp": SECONDS + 60},
    "not revoked": {"revoked": None},
    "until the end of dates": {"exp": 10**15},
}


def a_set(members: dict[str, Any]) -> bytes:
    return json.dumps({"keys": [{**key("card").public.jwk(), **members}]}).encode()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("members", "code"), LIMITS.values(), ids=LIMITS)
def test_a_key_that_its_set_takes_back_does_not_count(
    way: Way, members: dict[str, Any], code: str, tmp_path: Path
) -> None:
    """A2A 1.0 8.4.3: whatever the set is given as."""
    report = way(a_set(members), tmp_path)
    assert (report.verdict, report.card) == ("untrusted", None)
    assert code in codes(report)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("members", IN_FORCE.values(), ids=IN_FORCE)
def test_a_key_in_force_counts(way: Way, members: dict[str, Any], tmp_path: Path) -> None:
    """The twin; a verdict ends with the key."""
    report = way(a_set(members), tmp_path)
    assert report.verdict == "trusted"
    ends = report.valid_until
    assert (ends is None) == (members.get("exp") != SECONDS + 60)


@pytest.mark.parametrize("members", [{"exp": "soon"}, {"nbf": True}, {"exp": -1}, {"nbf": None}])
def test_a_time_that_is_none(members: dict[str, Any]) -> None:
    """It is not guessed at."""
    with pytest.raises(KeyRefused, match=r"key\.malformed: \w+ is no time in seconds"):
        JwkSet.from_bytes(a_set(members))
