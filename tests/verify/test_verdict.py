"""The verdict as data: its JSON is a contract, its order says what weighs most."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from cardsign.card.profiles import canonicalize
from cardsign.errors import EXIT_NO_VERDICT, EXIT_NOT_TRUSTED, EXIT_OK
from cardsign.findings import Finding, list_codes
from cardsign.jose.jws import Entry, check_entry
from cardsign.jose.keys import JwkSet, PrivateKey, PublicKey
from cardsign.trust.policy import Policy
from cardsign.verify.report import (
    Answer,
    Answers,
    NotTrusted,
    NoVerdict,
    Report,
    SignatureReport,
    Verdict,
    VerificationError,
)
from tests.support import (
    LAX,
    NOW,
    PORTABLE,
    codes,
    dump,
    examine,
    holder_of,
    one_signature,
    reach_verdict,
    signed,
)

ANSWERS = {"yes", "no", "unknown"}
VERDICTS = {"trusted", "untrusted", "invalid", "indeterminate"}
SIGNATURE_VERDICTS = {
    "valid",
    "invalid",
    "unknown-key",
    "not-enrolled",
    "revoked",
    "other-profile",
    "refused",
    "not-tried",
}


def assert_contract(document: dict[str, Any]) -> None:
    """Hold a verdict's JSON against the schema `cardsign.verdict/2`."""
    assert list(document) == [
        "schema",
        "verdict",
        "subject",
        "answers",
        "reasons",
        "signatures",
        "coverage",
        "issuer",
        "statements",
        "checked_at",
        "valid_until",
        "historic",
        "card",
    ]
    assert document["schema"] == "cardsign.verdict/2"
    assert document["verdict"] in VERDICTS
    assert list(document["answers"]) == ["integrity", "authorised", "current", "complete"]
    assert set(document["answers"].values()) <= ANSWERS
    assert list(document["coverage"]) == ["profile", "uncovered", "uncovered_count", "all_but"]
    assert isinstance(document["historic"], bool)
    assert (document["card"] is not None) == (document["verdict"] == "trusted")
    assert document["reasons"]
    for index, signature in enumerate(document["signatures"]):
        assert list(signature) == [
            "index",
            "kid",
            "alg",
            "typ",
            "profile",
            "verdict",
            "counts",
            "holder",
            "payload_sha256",
            "uncovered",
            "uncovered_count",
            "reasons",
        ]
        assert signature["index"] == index
        assert signature["verdict"] in SIGNATURE_VERDICTS
        assert signature["counts"] or signature["reasons"]
    for reason in document["reasons"] + [r for s in document["signatures"] for r in s["reasons"]]:
        assert list(reason) == ["code", "severity", "message", "path", "hint"]
        assert reason["code"] in list_codes()
        assert reason["message"]
        assert not reason["message"].endswith(".")
        assert reason["hint"]


def cards(alice: PrivateKey, bob: PrivateKey) -> dict[str, bytes]:
    """A card for each way to a verdict."""
    honest = signed(LAX, alice)
    return {
        "trusted": dump(honest),
        "unsigned": dump(LAX),
        "edited": dump({**honest, "name": "x"}),
        "added to": dump({**honest, "x": 1}),
        "a stranger's": dump(signed(LAX, bob)),
        "lossy": dump({**LAX, "signatures": [one_signature(LAX, alice, "prune-empty")]}),
        "no entry at all": dump({**LAX, "signatures": [None, 5, {}]}),
        "without interface": dump(signed({**LAX, "supportedInterfaces": []}, alice, force=True)),
        "no JSON": b"\xff",
        "nothing": b"",
    }


def test_the_json_of_every_verdict_keeps_the_contract(alice: PrivateKey, bob: PrivateKey) -> None:
    """Members, their order, their values; and it is JSON."""
    for way, card in cards(alice, bob).items():
        document = examine(card, alice).to_json()

        assert_contract(document)
        assert json.loads(json.dumps(document)) == document
        assert (document["verdict"] == "trusted") == (way == "trusted"), way


def test_the_json_of_a_trusted_card(alice: PrivateKey) -> None:
    """Word for word, so that a change of the contract is seen."""
    hint = "A key set alone cannot show them."
    payload = canonicalize(PORTABLE, "served-as-is")

    assert examine(signed(PORTABLE, alice), alice).to_json() == {
        "schema": "cardsign.verdict/2",
        "verdict": "trusted",
        "subject": "the harbour",
        "answers": {
            "integrity": "yes",
            "authorised": "yes",
            "current": "unknown",
            "complete": "yes",
        },
        "reasons": [
            {
                "code": "trust.freshness_waived",
                "severity": "note",
                "message": "revocation and rollback were not checked",
                "path": "",
                "hint": hint,
            }
        ],
        "signatures": [
            {
                "index": 0,
                "kid": "alice",
                "alg": "ES256",
                "typ": "JOSE",
                "profile": "served-as-is",
                "verdict": "valid",
                "counts": True,
                "holder": None,
                "payload_sha256": hashlib.sha256(payload.data).hexdigest(),
                "uncovered": [],
                "uncovered_count": 0,
                "reasons": [],
            }
        ],
        "coverage": {
            "profile": "served-as-is",
            "uncovered": [],
            "uncovered_count": 0,
            "all_but": None,
        },
        "issuer": None,
        "statements": {"keyset": None, "release": None},
        "checked_at": NOW.isoformat(),
        "valid_until": None,
        "historic": False,
        "card": PORTABLE,
    }


def test_a_deadline_is_written_with_its_zone() -> None:
    """ISO 8601, so that another machine reads the same moment."""
    until = datetime(2026, 11, 21, 12, tzinfo=UTC)
    report = Report("trusted", "x", Answers(), (), valid_until=until)

    assert report.to_json()["valid_until"] == "2026-11-21T12:00:00+00:00"


EXITS: dict[Verdict, int] = {
    "trusted": EXIT_OK,
    "untrusted": EXIT_NOT_TRUSTED,
    "invalid": EXIT_NOT_TRUSTED,
    "indeterminate": EXIT_NO_VERDICT,
}


@pytest.mark.parametrize(("verdict", "status"), EXITS.items())
def test_exit_status(verdict: Verdict, status: int) -> None:
    """0, 1, 1 and 3; the error that carries the report exits alike, and its class says which."""
    report = Report(verdict, None, Answers(), (Finding("sig.none", "unsigned"),))

    assert report.exit_status == status
    assert VerificationError.of(report).exit_status == status
    kind = NoVerdict if verdict == "indeterminate" else NotTrusted
    assert type(VerificationError.of(report)) is kind


def test_the_error_says_what_the_first_reason_says(alice: PrivateKey) -> None:
    """Code, message, place and hint."""
    report = examine({**signed(PORTABLE, alice), "name": "x"}, alice)
    error = NotTrusted(report)

    first = report.reasons[0]
    assert (error.code, error.message, error.path, error.hint) == (
        first.code,
        first.message,
        first.path,
        first.hint,
    )


def test_reasons_are_not_repeated(alice: PrivateKey) -> None:
    """One thing is said once, however many signatures lead to it."""
    honest = signed(PORTABLE, alice)
    report = examine({**honest, "x": 1, "signatures": honest["signatures"] * 3}, alice)

    assert len(set(report.reasons)) == len(report.reasons)
    assert codes(report).count("coverage.uncovered") == 1


# ------------------------------------------------------------------ which signature is best


def one(
    *given: Answer, counts: bool = False, uncovered: int = 0, profile: str | None = None
) -> SignatureReport:
    """A signature with these answers."""
    return SignatureReport(
        index=0,
        kid=None,
        alg=None,
        typ=None,
        verdict="valid",
        reasons=(),
        counts=counts,
        uncovered=("/x",) * uncovered,
        uncovered_count=uncovered,
        answers=Answers(*given),
        profile=profile,
    )


BETTER: dict[str, tuple[SignatureReport, SignatureReport]] = {
    "one that counts than one with more yes": (
        one("yes", "no", "unknown", "no", counts=True),
        one("no", "yes", "yes", "yes"),
    ),
    "three times yes than two": (
        one("yes", "yes", "unknown", "yes", counts=True),
        one("yes", "yes", "unknown", "no", counts=True),
    ),
    "one that fits something than an unknown key": (
        one("no", "no", "unknown", "no", uncovered=9, profile="prune-empty"),
        one(),
    ),
    "one that fits something than one that fits nothing": (
        one("no", "no", "unknown", "no", uncovered=9, profile="prune-empty"),
        one("no"),
    ),
    "an unknown key than a bad signature": (one(), one("no")),
    "less uncovered than more": (
        one("no", "yes", "unknown", "no", uncovered=1),
        one("no", "yes", "unknown", "no", uncovered=2),
    ),
    "the document itself than what rule 1 makes of it": (
        one("yes", "yes", "unknown", "yes", counts=True, profile="served-as-is"),
        one("yes", "yes", "unknown", "yes", counts=True, profile="rule-1-as-written"),
    ),
}


@pytest.mark.parametrize(("better", "worse"), BETTER.values(), ids=BETTER)
def test_a_better_signature(better: SignatureReport, worse: SignatureReport) -> None:
    """How much is covered orders only what is equal otherwise."""
    assert better.rank > worse.rank


# ------------------------------------------------------------------ severity, and one profile


def test_nothing_is_an_error_in_a_trusted_card_and_what_decides_is_one() -> None:
    """What the policy accepts is a note; a code that is a note may decide against a card."""
    codes_of = ("sig.compat", "sig.bad", "coverage.uncovered", "trust.freshness_waived")
    reasons = tuple(Finding(code, "x") for code in codes_of)

    trusted = Report("trusted", "x", Answers(), reasons)
    untrusted = Report("untrusted", "x", Answers(), reasons)

    assert [one.severity for one in trusted.reasons] == ["note", "warning", "note", "note"]
    assert [one.severity for one in untrusted.reasons] == ["error", "error", "error", "note"]


def test_a_full_signature_is_checked_once(
    alice: PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other profiles are tried only where the document as served does not fit (E9)."""
    checked: list[bytes] = []

    def counted(entry: Entry, payload: bytes, key: PublicKey, **encoded: bytes) -> None:
        checked.append(payload)
        check_entry(entry, payload, key, **encoded)

    monkeypatch.setattr("cardsign.verify.signature.check_entry", counted)
    whole = canonicalize(LAX, "served-as-is").data
    full = {**LAX, "signatures": [one_signature(LAX, alice, "served-as-is")]}
    assert examine(full, alice).verdict == "trusted"
    assert checked == [whole]
    examine({**LAX, "signatures": [one_signature(LAX, alice, "prune-empty")]}, alice)
    assert len(checked) > 2


def test_a_key_set_without_kids_is_said(alice: PrivateKey) -> None:
    """Its keys are known by their thumbprints, which the header does not name."""
    jwk = {name: value for name, value in alice.public.jwk().items() if name != "kid"}
    keys = JwkSet.from_bytes(dump({"keys": [jwk]}))
    policy = Policy.from_jwks(keys, name="the harbour")

    def examine_unnamed(card: dict[str, Any]) -> Report:
        return reach_verdict(dump(card), expect=holder_of(policy), policy=policy, now=NOW)

    first = examine_unnamed(signed(LAX, alice)).reasons[0]
    named = examine(signed(LAX, alice), PrivateKey.generate("ES256", kid="bob")).reasons[0]

    assert first.code == "key.unknown"
    assert "named by thumbprint" in first.message
    assert "ask for kids" in first.fix
    assert "thumbprint" not in named.message
