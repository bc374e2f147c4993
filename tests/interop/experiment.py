"""The experiment: every shared card signed by us and by a2a-sdk, and judged by all.

It only finds out; the tests hold the findings against what is expected.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from explanations import LOSSY, fitted, payloads, why_refused
from judges import Judge, Path_, private_jwk
from samples import Sample, load_samples

from cardsign import CardsignError, JwkSet, Policy, PrivateKey, Report, canonicalize, examine_card
from cardsign.card.canonical import FULL_PROFILES, Payload
from cardsign.card.coverage import uncovered_parts
from cardsign.card.values import Json
from cardsign.sign.signing import SigningOptions, sign_with_notes

NOW: Final = datetime(2026, 11, 21, 12, tzinfo=UTC)
ALGORITHMS: Final = ("ES256", "RS256")
VERIFIERS: Final = ("a2a-sdk", "a2a-js plain", "a2a-js resolver")
TYPS: Final = {"JOSE": "JOSE", "JWT": None}  # JWT is what a2a-sdk writes by itself

ACCEPTED: Final = "accepted"
CANNOT_PARSE: Final = "cannot parse"


@dataclass(frozen=True, slots=True)
class Attack:
    """One lossy payload served as the card, with every signature that the card had.

    Attributes:
        profile: Whose payload it is; it lost something that the card had.
        security_lost: Among that is a security scheme or requirement, or a part of one.
        ours: Our verdict.
        accepted_by: Those of `VERIFIERS` that accept it.
    """

    profile: str
    security_lost: bool
    ours: str
    accepted_by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Recognition:
    """What we say of a card that a2a-sdk has signed.

    Attributes:
        profiles: Those that its signature fits.
        signature: The verdict on the signature, by a policy that accepts full profiles.
        by_default: The verdict on the card, by the same policy.
        accepting: The verdict on the card where the policy accepts the lossy profiles instead.
        requirement_open: Whether ``coverage.requirement_unsigned`` is among the reasons.
    """

    profiles: tuple[str, ...]
    signature: str
    by_default: str
    accepting: str
    requirement_open: bool


@dataclass(frozen=True, slots=True)
class Row:
    """Everything about one card under one algorithm.

    Attributes:
        refused: The code for which we do not sign it, or empty.
        profiles: One for each signature that we made, in their order.
        judged: What each of `VERIFIERS` says of our signed card: ``accepted``, ``cannot
            parse``, or why it is refused (:func:`explanations.why_refused`).
        recognised: By what is given as typ; empty where a2a-sdk cannot sign the card.
    """

    file: str
    group: str
    refused: str = ""
    profiles: tuple[str, ...] = ()
    judged: Mapping[str, str] = field(default_factory=dict)
    attacks: tuple[Attack, ...] = ()
    recognised: Mapping[str, Recognition] = field(default_factory=dict)


class Experiment:
    """One key, and the judges that know it."""

    def __init__(self, key: PrivateKey, sdk: Judge, js: Judge) -> None:
        self.key = key
        self.keys = JwkSet.of([key.public])
        self._jwk = private_jwk(key)
        self._sdk = sdk
        self._paths: dict[str, tuple[Judge, Path_]] = {
            "a2a-sdk": (sdk, "resolver"),
            "a2a-js plain": (js, "plain"),
            "a2a-js resolver": (js, "resolver"),
        }

    def row(self, sample: Sample) -> Row:
        """Find out everything about one card."""
        recognised = dict(self._recognised(sample))
        try:
            signing = sign_with_notes(sample.data, [self.key], SigningOptions(drop_foreign=True))
        except CardsignError as refusal:
            return Row(sample.file, sample.group, refusal.code, recognised=recognised)
        document = json.loads(signing.document)
        return Row(
            sample.file,
            sample.group,
            profiles=signing.profiles,
            judged={name: self._judged(name, signing.document) for name in VERIFIERS},
            attacks=tuple(self._attacks(document)),
            recognised=recognised,
        )

    def verdict(self, card: bytes, profiles: tuple[str, ...] = FULL_PROFILES) -> Report:
        """Ours, where the key is pinned."""
        return _verdict(card, self.keys, profiles)

    def _judged(self, verifier: str, card: bytes) -> str:
        judge, path = self._paths[verifier]
        finding = judge.verify(card, self.keys, path=path)
        if finding.outcome == "accepted":
            return ACCEPTED if finding.callable else "accepted, but not callable"
        if finding.outcome == "cannot-parse":
            return CANNOT_PARSE
        return why_refused(json.loads(card), judge.payload(card, path=path))

    def _attacks(self, signed: dict[str, Json]) -> Iterator[Attack]:
        seen = {canonicalize(signed, profile).data for profile in FULL_PROFILES}
        for payload in payloads(signed, LOSSY):
            if payload.data in seen:
                continue
            seen.add(payload.data)
            card = serve(payload, signed)
            lost = uncovered_parts(payload)
            yield Attack(
                payload.profile,
                any(part.security and part.excuse is None for part in lost),
                self.verdict(card).verdict,
                tuple(name for name in VERIFIERS if self._accepts(name, card)),
            )

    def _accepts(self, verifier: str, card: bytes) -> bool:
        judge, path = self._paths[verifier]
        return judge.verify(card, self.keys, path=path).outcome == "accepted"

    def _recognised(self, sample: Sample) -> Iterator[tuple[str, Recognition]]:
        for name, typ in TYPS.items():
            signed = self._sdk.sign(sample.data, self._jwk, typ=typ) if _is_text(sample) else None
            if signed is None:
                continue
            report, accepting = self.verdict(signed), self.verdict(signed, LOSSY)
            last = report.signatures[-1] if report.signatures else None
            codes = {reason.code for reason in report.reasons}
            yield (
                name,
                Recognition(
                    fitted(json.loads(signed), last) if last else (),
                    last.verdict if last else report.reasons[0].code,
                    report.verdict,
                    accepting.verdict,
                    "coverage.requirement_unsigned" in codes,
                ),
            )


def run(shared: Path, key: PrivateKey, sdk: Judge, js: Judge) -> tuple[Row, ...]:
    """Find out everything about every card, under one key."""
    experiment = Experiment(key, sdk, js)
    return tuple(experiment.row(sample) for sample in load_samples(shared))


def serve(payload: Payload, signed: Mapping[str, Json]) -> bytes:
    """The payload as a card, with the signatures of another."""
    return json.dumps({**payload.value, "signatures": signed["signatures"]}).encode()


def _verdict(card: bytes, keys: JwkSet, profiles: tuple[str, ...]) -> Report:
    policy = Policy.from_jwks(keys, name="the holder", accept="sdk", only=profiles)
    return examine_card(card, policy=policy, now=NOW)


def _is_text(sample: Sample) -> bool:
    try:
        sample.data.decode()
    except UnicodeDecodeError:
        return False
    return True
