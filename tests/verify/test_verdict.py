"""The verdict as data: its JSON is a contract, its order says what weighs most."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
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
    ask_again,
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

# The members of the JSON in their order, and their values.
REPORT = (
    "schema verdict subject answers reasons signatures coverage issuer statements checked_at "
    "valid_until historic card"
)
SIGNATURE = (
    "index kid alg typ profile verdict counts holder payload_sha256 uncovered uncovered_count "
    "reasons"
)
VERDICTS = "trusted untrusted invalid indeterminate"
SIGNATURE_VERDICTS = (
    "valid invalid unknown-key not-enrolled revoked other-profile refused not-tried"
)


def assert_contract(document: dict[str, Any]) -> None:
    """Hold a verdict's JSON against the schema `cardsign.verdict/2`."""
    assert list(document) == REPORT.split()
    assert document["schema"] == "cardsign.verdict/2"
    assert document["verdict"] in VERDICTS.split()
    assert list(document["answers"]) == ["integrity", "authorised", "current", "complete"]
    assert set(document["answers"].values()) <= {"yes", "no", "unknown"}
    assert list(document["coverage"]) == ["profile", "uncovered", "uncovered_count", "all_but"]
    assert isinstance(document["historic"], bool)
    assert (document["card"] is not None) == (document["verdict"] == "trusted")
    assert document["reasons"]
    for index, signature in enumerate(document["signatures"]):
        assert list(signature) == SIGNATURE.split()
        assert signature["index"] == index
        assert signature["verdict"] in SIGNATURE_VERDICTS.split()
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
    expected = json.loads(Path(__file__).with_name("trusted.json").read_text()) | {"card": PORTABLE}
    assert examine(signed(PORTABLE, alice), alice).to_json() == expected


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
    error = VerificationError.of(report)
    assert report.exit_status == error.exit_status == status
    assert type(error) is (NoVerdict if verdict == "indeterminate" else NotTrusted)


def test_the_error_says_what_the_first_reason_says(alice: PrivateKey) -> None:
    """Code, message, place and hint."""
    report = examine({**signed(PORTABLE, alice), "name": "x"}, alice)
    error, first = NotTrusted(report), report.reasons[0]
    for member in ("code", "message", "path", "hint"):
        assert getattr(error.finding, member) == getattr(first, member)
    assert (error.code, error.message, error.path) == (first.code, first.message, first.path)


def test_reasons_are_not_repeated(alice: PrivateKey) -> None:
    """One thing is said once, however many signatures lead to it."""
    honest = signed(PORTABLE, alice)
    report = examine({**honest, "x": 1, "signatures": honest["signatures"] * 3}, alice)
    assert len(set(report.reasons)) == len(report.reasons)
    assert codes(report).count("coverage.uncovered") == 1


# ------------------------------------------------------------------ which signature is best


def signature(
    *given: Answer, counts: bool = False, uncovered: int = 0, profile: Any = None
) -> SignatureReport:
    """A signature with these answers."""
    places = {"uncovered": ("/x",) * uncovered, "uncovered_count": uncovered}
    how: Any = {"profile": profile, "counts": counts, "answers": Answers(*given), **places}
    return SignatureReport(0, None, None, None, "valid", (), **how)


LOSSY: Any = {"uncovered": 9, "profile": "prune-empty"}
FITTING = signature("no", "no", "unknown", "no", **LOSSY)
BETTER: dict[str, tuple[SignatureReport, SignatureReport]] = {
    "one that counts than one with more yes": (
        signature("yes", "no", "unknown", "no", counts=True),
        signature("no", "yes", "yes", "yes"),
    ),
    "three times yes than two": (
        signature("yes", "yes", "unknown", "yes", counts=True),
        signature("yes", "yes", "unknown", "no", counts=True),
    ),
    "one that fits something than an unknown key": (FITTING, signature()),
    "one that fits something than one that fits nothing": (FITTING, signature("no")),
    "an unknown key than a bad signature": (signature(), signature("no")),
    "less uncovered than more": (
        signature("no", "yes", "unknown", "no", uncovered=1),
        signature("no", "yes", "unknown", "no", uncovered=2),
    ),
    "the document itself than what rule 1 makes of it": (
        signature("yes", "yes", "unknown", "yes", counts=True, profile="served-as-is"),
        signature("yes", "yes", "unknown", "yes", counts=True, profile="rule-1-as-written"),
    ),
}


@pytest.mark.parametrize(("better", "worse"), BETTER.values(), ids=BETTER)
def test_a_better_signature(better: SignatureReport, worse: SignatureReport) -> None:
    """How much is covered orders only what is equal otherwise."""
    assert better.rank > worse.rank


# ------------------------------------------------------------------ severity, and one profile


def test_nothing_is_an_error_in_a_trusted_card_and_what_decides_is_one() -> None:
    """What the policy accepts is a note; a code that is a note may decide against a card."""
    names = ("sig.compat", "sig.bad", "coverage.uncovered", "trust.freshness_waived")
    severities: dict[Verdict, str] = {
        "trusted": "note warning note note",
        "untrusted": "error error error note",
    }
    for verdict, expected in severities.items():
        report = Report(verdict, "x", Answers(), tuple(Finding(code, "x") for code in names))
        assert [reason.severity for reason in report.reasons] == expected.split()


def test_a_full_signature_is_checked_once(
    alice: PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other profiles are tried only where the document as served does not fit (E9)."""
    checked: list[bytes] = []

    def counted(entry: Entry, payload: bytes, key: PublicKey, **encoded: bytes) -> None:
        checked.append(payload)
        check_entry(entry, payload, key, **encoded)

    monkeypatch.setattr("cardsign.verify.signature.check_entry", counted)
    full = {**LAX, "signatures": [one_signature(LAX, alice, "served-as-is")]}
    assert examine(full, alice).verdict == "trusted"
    assert checked == [canonicalize(LAX, "served-as-is").data]
    examine({**LAX, "signatures": [one_signature(LAX, alice, "prune-empty")]}, alice)
    assert len(checked) > 2


def test_a_key_set_without_kids_names_no_key(alice: PrivateKey) -> None:
    """Its keys are known by their thumbprints, which the header does not name."""
    jwk = {name: value for name, value in alice.public.jwk().items() if name != "kid"}
    policy = Policy.from_jwks(JwkSet.from_bytes(dump({"keys": [jwk]})), name="the harbour")
    card = dump(signed(LAX, alice))
    report = reach_verdict(card, expect=holder_of(policy), policy=policy, now=NOW)
    assert (report.verdict, codes(report)[0]) == ("untrusted", "key.unknown")


# ------------------------------------------------------------------ when to ask once more

AGAIN: dict[str, tuple[Verdict, str, bool]] = {
    "a new card before an old release": ("untrusted", "card.digest_unlisted", True),
    "an old card before a new floor": ("untrusted", "card.rollback", True),
    "a card by a key that an old keyset lacks": ("untrusted", "key.unknown", True),
    "a release of another keyset": ("indeterminate", "statement.keyset", True),
    "a card that is trusted": ("trusted", "statement.keyset", False),
    "a bad signature": ("untrusted", "sig.bad", False),
    "an old card by a key that is revoked by now": ("untrusted", "key.revoked", True),
    "an old release": ("indeterminate", "statement.expired", True),
    "a fork": ("indeterminate", "statement.fork", False),
}


@pytest.mark.parametrize(("verdict", "code", "again"), AGAIN.values(), ids=AGAIN)
def test_it_is_asked_again_where_that_can_help(verdict: Verdict, code: str, again: bool) -> None:
    """Once, past every cache, where copies of two ages explain the verdict (threat 15)."""
    assert ask_again(Report(verdict, "tides", Answers(), (Finding(code, "so it is"),))) is again
