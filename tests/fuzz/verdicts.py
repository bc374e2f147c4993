"""Whole verdicts, walks and reports, and what must hold of them whatever the input is.

The oracles know nothing of how a verdict is reached: what is trusted must have been signed by a
key that may, what is remembered only rises, and what is reported serializes.
"""

from __future__ import annotations

import json
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from cardsign.card.values import jcs
from cardsign.errors import SignatureRefused
from cardsign.findings import Finding, list_codes
from cardsign.inspect.card import inspect_card
from cardsign.jose import base64url
from cardsign.statements.keyset import KeysetId, read_keyset
from cardsign.statements.release import read_release
from cardsign.trust.lock import Floor, raise_lock, read_lock
from cardsign.trust.policy import KeysAnchor, KeysetAnchor, Policy, Subject, TrustedIssuer
from cardsign.trust.supplied import SuppliedStatements
from cardsign.trust.walk import Walk, read_statements
from cardsign.urls import parse_place
from cardsign.verify.report import Report
from tests.fuzz import seeds
from tests.fuzz.issuing import AUDIENCE, CARD_SIGNERS, ISSUER, NOW, URL, key, public_keys
from tests.fuzz.mutations import SEPARATOR
from tests.support import Remembering, reach_verdict

_PLACES: Final = (parse_place("https://tides.example"),)
_EXPECTED: Final[tuple[Subject | None, ...]] = (
    Subject(url=URL),
    Subject(origin="https://tides.example"),
    Subject(issuer="tides", audience=AUDIENCE),
    Subject(issuer="tides"),
    None,
)
_ANCHORS: Final = (
    KeysetAnchor(seeds.roots(), ISSUER),
    KeysetAnchor(KeysetId(1, 1, read_keyset(seeds.chain()[0]).digest)),
    KeysAnchor(public_keys("card", "card2"), {key("card").public.kid: "ann"}),
)
_SCRATCH: Final = tempfile.TemporaryDirectory()
_NOWS: Final = tuple(NOW + timedelta(days=days) for days in (0, 5, 20, -20, 100))
#: All that may ever have signed a card that is trusted.
_BY_RIGHT: Final = public_keys(*CARD_SIGNERS[:2])


def check_pinned(data: bytes) -> str:
    """A card before pinned keys: nothing raises, and what is trusted is what they signed."""
    anchor = KeysAnchor(_BY_RIGHT)
    for accept in ("full", "sdk"):
        issuer = TrustedIssuer("tides", anchor, _PLACES, accept, "waived")
        report = reach_verdict(data, expect=Subject(url=URL), policy=Policy((issuer,)), now=NOW)
        _check_report(report, data)
    return report.verdict


def check_refresh(data: bytes) -> str:
    """A card with its issuer's statements, in instalments; what is remembered only rises."""
    asked = _Refresh(data)
    policy = Policy((asked.issuer,))
    memory = Remembering()
    held = [_number(memory, asked.issuer)]
    for supplied in (asked.supplied[0], asked.supplied[1], SuppliedStatements()):
        for card in asked.cards:
            report = reach_verdict(
                card,
                expect=asked.expect,
                policy=policy,
                now=asked.now,
                supplied=supplied,
                memory=memory if asked.remembers else Remembering(),
                historic=asked.historic,
            )
            _check_report(report, card)
            held.append(_number(memory, asked.issuer))
    assert held == sorted(held)
    _check_memory(memory, asked.issuer)
    if len(asked.cards) > 1 and asked.expect is not None:
        memory.now = asked.now
        pair = memory.verifier(policy).judge_extended(
            *asked.cards[:2], Subject(url=URL), asked.supplied[1], audience=AUDIENCE
        )
        for report, card in zip(pair, asked.cards, strict=False):
            _check_report(report, card)
        assert pair[1].verdict != "trusted" or pair[0].verdict == "trusted"
    return report.verdict


class _Refresh:
    """What records ask for: options, cards, and evidence that comes in two instalments."""

    def __init__(self, data: bytes) -> None:
        records = [(one[:1], one[1:]) for one in data.split(SEPARATOR)]
        options = b"".join(body for kind, body in records if kind == b"o")[-5:].ljust(5, b"\x00")
        self.expect = _EXPECTED[options[0] % len(_EXPECTED)]
        anchor = _ANCHORS[options[1] % len(_ANCHORS)]
        self.remembers = options[2] % 2 == 1
        self.now = _NOWS[options[3] % len(_NOWS)]
        self.historic = options[4] % 4 == 3
        freshness = "waived" if options[4] % 2 else "required"
        self.issuer = TrustedIssuer("tides", anchor, _PLACES, freshness=freshness)
        self.cards = [body for kind, body in records if kind == b"c"] or [b""]
        keysets = tuple(body for kind, body in records if kind == b"k")
        releases = tuple(body for kind, body in records if kind == b"r")
        jwks = next((body for kind, body in records if kind == b"j"), None)
        self.supplied = (
            SuppliedStatements(keysets[:1], releases[:1], jwks),
            SuppliedStatements(keysets, releases, jwks),
        )


def check_walk(data: bytes) -> str:
    """A walk keeps what it accepts, in an order that only rises, and explains the rest."""
    records = data.split(SEPARATOR)
    bodies = {kind: tuple(one[1:] for one in records if one[:1] == kind) for kind in (b"k", b"r")}
    reasons: list[Finding] = []
    read_statements(bodies[b"r"], read_release, reasons)
    keysets = read_statements(bodies[b"k"], read_keyset, reasons)
    walk = Walk(keysets, Floor(), NOW, timedelta(seconds=300))
    try:
        held = walk.begin(seeds.roots(), ISSUER)
        if held is not None:
            walk.onward(held)
    finally:
        numbers = [one.number for one in walk.passed]
        assert numbers == sorted(set(numbers))
        assert all(one.issuer == ISSUER for one in walk.passed)
        _check_reasons((*reasons, *walk.reasons))
    return f"{len(walk.passed)} steps"


def check_inspection(data: bytes) -> None:
    """A report comes of anything, and serializes."""
    report = inspect_card(data, jwks=_BY_RIGHT)
    json.dumps(report.to_json(), allow_nan=False).encode()


# ------------------------------------------------------------------ oracles


def _check_report(report: Report, data: bytes) -> None:
    """A verdict is one of four, serializes, and trusts only what a key of right has signed."""
    assert report.verdict in ("trusted", "untrusted", "invalid", "indeterminate")
    json.dumps(report.to_json(), allow_nan=False, ensure_ascii=False).encode()
    _check_reasons(report.reasons)
    assert (report.card is not None) == (report.verdict == "trusted")
    if report.verdict == "trusted":
        assert _is_signed(report.card, data), "trusted, and no key of right has signed it"


def _is_signed(payload: Any, data: bytes) -> bool:
    """Whether some entry verifies over this payload, without asking cardsign's own verifier."""
    signed = jcs(payload)
    for entry in json.loads(data)["signatures"]:
        for one in _BY_RIGHT.keys:
            try:
                signature = base64url.decode(entry["signature"])
                one.check(entry["protected"], signed, signature)
            except (SignatureRefused, ValueError, TypeError, KeyError, AttributeError):
                continue  # this entry is not the one
            return True
    return False


def _check_reasons(reasons: tuple[Finding, ...]) -> None:
    for reason in reasons:
        assert reason.code in list_codes(), reason.code


def _number(memory: Remembering, issuer: TrustedIssuer) -> tuple[int, ...]:
    """The newest keyset and release that a memory holds, as one number that never falls."""
    floor = memory.session(issuer).floor
    keyset = floor.keyset.number if floor.keyset else (0, 0)
    return *keyset, *(floor.release.order if floor.release else (0, 0, 0)), floor.newest_iat


def _check_memory(memory: Remembering, issuer: TrustedIssuer) -> None:
    """Whatever was learned can be written to a lock, and read as the same."""
    path = Path(_SCRATCH.name, "trust.lock")
    path.unlink(missing_ok=True)
    raise_lock(path, {"tides": memory.session(issuer).floor})
    assert read_lock(path)["tides"] == memory.session(issuer).floor
