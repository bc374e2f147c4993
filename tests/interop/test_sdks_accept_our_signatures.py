"""Whatever we sign, the SDKs accept; the exceptions are known by name, each with its reason.

refusals.json holds them: verifier, reason, files. A refusal that is new, or gone, or has
another reason, fails. The reasons are proven by comparing payloads (`explanations.why_refused`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import rfc8785
from experiment import ACCEPTED, ALGORITHMS, VERIFIERS, Row
from explanations import NO_ENDPOINT, UNEXPLAINED, UNSAFE, why_refused
from joserfc import jws
from joserfc.jwk import ECKey
from judges import Judge
from support import DUAL, LAX, OLD, PORTABLE, dump, put, signed

from cardsign import JwkSet, PrivateKey, canonicalize
from cardsign.sign.signing import SigningOptions, sign_document

EXPECTED: Final[dict[str, dict[str, list[str]]]] = json.loads(
    (Path(__file__).parent / "refusals.json").read_text(encoding="utf-8")
)


def exceptions(rows: tuple[Row, ...], verifier: str) -> dict[str, list[str]]:
    """The signed cards that a verifier does not accept, by reason."""
    found: dict[str, list[str]] = {}
    for row in rows:
        if row.judged and row.judged[verifier] != ACCEPTED:
            found.setdefault(row.judged[verifier], []).append(row.file)
    return found


@pytest.mark.needs_shared
@pytest.mark.needs_judges
@pytest.mark.parametrize("verifier", VERIFIERS)
@pytest.mark.parametrize("alg", ALGORITHMS)
def test_only_known_exceptions_are_not_accepted(
    alg: str, verifier: str, rows: Mapping[str, tuple[Row, ...]]
) -> None:
    """Accepted means: verified by the SDK, and held by it with an endpoint to call."""
    assert exceptions(rows[alg], verifier) == EXPECTED[verifier]
    assert sum(bool(row.judged) for row in rows[alg]) > 100


def test_no_exception_is_left_unexplained() -> None:
    """A refusal without a proven reason would be a bug of ours; a2a-sdk has but one reason."""
    assert UNEXPLAINED not in {reason for reasons in EXPECTED.values() for reason in reasons}
    assert set(EXPECTED["a2a-sdk"]) == {UNSAFE}


# ------------------------------------------------------------------ our own cards

CARDS: dict[str, dict[str, Any]] = {
    "portable": PORTABLE,
    "lax": LAX,
    "of 0.3": OLD,
    "of both generations": DUAL,
}


@pytest.mark.needs_judges("py")
@pytest.mark.parametrize("card", CARDS.values(), ids=CARDS)
def test_a2a_sdk_accepts_and_notices_an_edit(
    card: dict[str, Any], alice: PrivateKey, bob: PrivateKey, sdk: Judge
) -> None:
    """It finds our signature by our key, and refuses another key's and an edited card."""
    ours, keys = signed(card, alice), JwkSet.of([alice.public])
    another = JwkSet.of([PrivateKey.generate("ES256", kid=alice.public.kid).public])

    for path in ("plain", "resolver"):
        assert sdk.verify(dump(ours), keys, path=path).outcome == "accepted"
        assert sdk.verify(dump(put(ours, "/name", "x")), keys, path=path).outcome == "refused"
        assert sdk.verify(dump(ours), another, path=path).outcome == "refused"
        assert sdk.verify(dump(ours), JwkSet.of([bob.public]), path=path).outcome == "refused"


@pytest.mark.needs_judges("js")
@pytest.mark.parametrize("card", [PORTABLE, LAX, DUAL], ids=["portable", "lax", "of both"])
def test_a2a_js_accepts_and_notices_an_edit(
    card: dict[str, Any], alice: PrivateKey, js: Judge
) -> None:
    """By its plain path, as the application does that has fetched the card itself."""
    ours, keys = signed(card, alice), JwkSet.of([alice.public])

    assert js.verify(dump(ours), keys).outcome == "accepted"
    assert js.verify(dump(put(ours, "/name", "x")), keys).outcome == "refused"


@pytest.mark.needs_judges("py")
def test_an_older_key_and_a_newer_one_are_both_enough(
    alice: PrivateKey, bob: PrivateKey, sdk: Judge
) -> None:
    """During overlap a verifier may know either; the unknown kid before it is no obstacle."""
    ours = dump(signed(LAX, alice, bob))
    for key in (alice, bob):
        assert sdk.verify(ours, JwkSet.of([key.public])).outcome == "accepted"


@pytest.mark.needs_judges("py")
@pytest.mark.needs_judges("js")
def test_an_unsigned_header_turns_no_sdk_away(alice: PrivateKey, sdk: Judge, js: Judge) -> None:
    """They read the protected one alone, and look at all signatures."""
    options = SigningOptions(header={"jku": "https://tides.example/keys", "x-team": "tides"})
    ours, keys = sign_document(dump(LAX), [alice], options), JwkSet.of([alice.public])
    assert all("header" in entry for entry in json.loads(ours)["signatures"])
    for judge in (sdk, js):
        assert judge.verify(ours, keys).outcome == "accepted"


@pytest.mark.parametrize("card", CARDS.values(), ids=CARDS)
def test_a_jose_library_finds_a_good_signature_first(
    card: dict[str, Any], alice: PrivateKey
) -> None:
    """joserfc, given the RFC 8785 bytes, as its documentation shows."""
    ours = signed(card, alice)
    first = ours.pop("signatures")[0]
    token = f"{first['protected']}..{first['signature']}"
    key = ECKey.import_key(dict(alice.public.numbers))
    assert jws.deserialize_compact(token, key, ["ES256"], payload=rfc8785.dumps(ours))


# ------------------------------------------------------------------ the reasons

REASONS: dict[str, tuple[dict[str, Any], dict[str, Any] | None]] = {
    NO_ENDPOINT: (OLD, canonicalize(OLD, "prune-empty").value),
    "payload lacks securitySchemes": (
        PORTABLE,
        {name: value for name, value in PORTABLE.items() if name != "securitySchemes"},
    ),
    "payload has another protocolVersion": (
        PORTABLE,
        put(PORTABLE, "/supportedInterfaces/0/protocolVersion", "0.3"),
    ),
    "payload lacks members named __proto__": (
        put(PORTABLE, "/securitySchemes/__proto__", {"mtlsSecurityScheme": {"description": "x"}}),
        PORTABLE,
    ),
    "payload lacks securitySchemes and has another protocolVersion": (
        PORTABLE,
        {
            name: value
            for name, value in put(
                PORTABLE, "/supportedInterfaces/0/protocolVersion", "0.3"
            ).items()
            if name != "securitySchemes"
        },
    ),
    "no payload": (PORTABLE, None),
    UNEXPLAINED: (PORTABLE, put(PORTABLE, "/name", "x")),
    f"{UNEXPLAINED}, since we did sign this": (PORTABLE, PORTABLE),
}


@pytest.mark.parametrize("reason", REASONS)
def test_a_reason_is_proven_by_the_payloads(reason: str) -> None:
    """What is named makes the two equal, and a difference without a name stays unexplained."""
    card, theirs = REASONS[reason]
    found = why_refused(card, None if theirs is None else json.dumps(theirs))
    assert found == reason.partition(", since we did sign this")[0]
