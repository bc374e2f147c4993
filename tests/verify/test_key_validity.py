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
from cardsign.trust.policy import KeysAnchor, TrustedIssuer
from cardsign.trust.policyfile import with_issuer
from cardsign.trust.walk import NO_STATEMENTS, SuppliedStatements
from cardsign.urls import parse_place, parse_url
from cardsign.verify.report import Report
from tests.publish.publications import PUBLIC, sign
from tests.statements.making import NOW, T0, key
from tests.support import codes

CARD = sign(PUBLIC, key("card"))
HOME = "https://tides.example"
KEYS = f"{HOME}/keys"


def examine(policy: Policy | Path, statements: SuppliedStatements = NO_STATEMENTS) -> Report:
    """The verdict on the one card."""
    verifier = Verifier(policy, lock=Memory(), cache=Memory(), clock=lambda: NOW)
    subject = {} if verifier.policy.issuers[0].is_holder else {"issuer": "tides"}
    return verifier.examine(CARD, statements=statements, **subject)


def by_a_key_set(jwks: bytes, folder: Path) -> Report:
    return examine(Policy.from_jwks(jwks))


def by_a_jwks_anchor(jwks: bytes, folder: Path) -> Report:
    issuer = TrustedIssuer("tides", parse_url(KEYS), (parse_place(HOME),), freshness="waived")
    return examine(Policy((issuer,)), SuppliedStatements(untrusted_jwks=jwks, jwks_url=KEYS))


def by_keys_of_a_policy_file(jwks: bytes, folder: Path) -> Report:
    """As `trust add --jwks` writes them, and a verifier reads them."""
    members = {"name": "tides", "origins": [HOME], "freshness": "waived"}
    policy = folder / "trust.toml"
    policy.write_text(with_issuer("format = 1\n", members, KeysAnchor(JwkSet.from_bytes(jwks))))
    return examine(policy)


WAYS = [by_a_key_set, by_a_jwks_anchor, by_keys_of_a_policy_file]
#: Members of the key, and the code if it does not count by them.
LIMITS: dict[str, tuple[dict[str, Any], str]] = {
    "expired now": ({"exp": T0}, "key.expired"),
    "not yet valid": ({"nbf": T0 + 3600}, "key.not_yet_valid"),
    "revoked": ({"revoked": {"revoked_at": T0 - 9, "reason": "compromised"}}, "key.revoked"),
    "nothing is said": ({}, ""),
    "until later": ({"exp": T0 + 60}, ""),
    "not revoked": ({"revoked": None}, ""),
    "until the end of dates": ({"exp": 10**15}, ""),
}


def a_set(members: dict[str, Any]) -> bytes:
    return json.dumps({"keys": [{**key("card").public.jwk(), **members}]}).encode()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("members", "code"), LIMITS.values(), ids=LIMITS)
def test_a_key_that_its_set_takes_back_does_not_count(
    way: Callable[[bytes, Path], Report], members: dict[str, Any], code: str, tmp_path: Path
) -> None:
    """A2A 1.0 8.4.3: whatever the set is given as; one in force counts, and ends the verdict."""
    report = way(a_set(members), tmp_path)
    if code:
        assert (report.verdict, report.card) == ("untrusted", None)
        assert code in codes(report)
        return
    assert report.verdict == "trusted"
    assert (report.valid_until is None) == (members.get("exp") != T0 + 60)


@pytest.mark.parametrize("members", [{"exp": "soon"}, {"nbf": True}, {"exp": -1}, {"nbf": None}])
def test_a_time_that_is_none(members: dict[str, Any]) -> None:
    """It is not guessed at."""
    with pytest.raises(KeyRefused, match=r"key\.malformed: \w+ is not a time in seconds"):
        JwkSet.from_bytes(a_set(members))
