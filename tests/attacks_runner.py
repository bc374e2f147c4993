"""Reads the attack corpus and puts it to a verifier; tests/attacks/README.md is the format.

Another implementation needs its own :func:`ours` and nothing else of this module's cardsign.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeAlias

from attacks_traffic import Traffic, strayings

from cardsign.errors import LocalFault, UsageFault
from cardsign.jose import JwkSet
from cardsign.statements import StatementPin, read_keyset, read_release
from cardsign.trust import (
    AtOrigin,
    CardUrl,
    Evidence,
    Extended,
    Floor,
    Holder,
    Issuer,
    Known,
    Memory,
    Policy,
    PublicSubject,
    TransientMemory,
    WithoutMemory,
    anchor_digest,
    read_lock,
    read_policy,
)
from cardsign.verify import Report, VerdictCache, examine_card, examine_extended

CORPUS: Final = Path(__file__).resolve().parent / "attacks"
FORMAT: Final = "cardsign-attacks/1"
TRANSCRIPT_FORMAT: Final = "cardsign-fetch/1"

_SUBJECTS: Final[dict[str, Callable[[str], PublicSubject]]] = {
    "issuer": Issuer,
    "origin": AtOrigin,
    "url": CardUrl,
    "holder": lambda _: Holder(),
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a verifier says of one step.

    Attributes:
        verdict: As in a report, or ``none`` where there is no verdict but a local fault.
        codes: Of the reasons, the weightiest first.
        answers: The four answers by name; empty where there is no verdict.
        subject: Whom the verdict is about, in the policy's words.
        card: What the caller gets; None unless trusted.
        traffic: What went over the network; None where nothing can have.
    """

    verdict: str
    codes: tuple[str, ...] = ()
    answers: Mapping[str, str] | None = None
    subject: str | None = None
    card: Any = None
    traffic: Traffic | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """One case of the corpus, with the directory that its files are in."""

    folder: Path
    members: Mapping[str, Any]

    @property
    def id(self) -> str:
        """Unique in the corpus: the directory's name and the case's own."""
        return f"{self.folder.name}/{self.members['id']}"

    @property
    def is_attack(self) -> bool:
        """An attack must not be trusted at its last step, its honest twin must be."""
        return bool(self.members["kind"] == "attack")

    @property
    def steps(self) -> list[dict[str, Any]]:
        """What happens, in order."""
        steps: list[dict[str, Any]] = self.members["steps"]
        return steps

    def input(self, described: str | Mapping[str, Any]) -> bytes:
        """The bytes of an input: a file's, or what a recipe gives."""
        if isinstance(described, str):
            return (self.folder / described).read_bytes()
        return b"".join(self._piece(one) * one.get("times", 1) for one in described["pieces"])

    def _piece(self, piece: Mapping[str, Any]) -> bytes:
        if "text" in piece:
            return str(piece["text"]).encode()
        if "base64" in piece:
            return base64.b64decode(piece["base64"], validate=True)
        return self.input(piece["file"])

    def files(self) -> Iterator[str]:
        """Every file that the case names."""
        yield from (name for name in (self.members["policy"], self.members.get("lock")) if name)
        memory = self.members.get("memory", "none")
        for known in memory.values() if isinstance(memory, dict) else ():
            yield from (known[name] for name in ("keyset", "release", "jwks") if name in known)
        for step in self.steps:
            inputs = list(_inputs(step))
            yield from (one for one in inputs if isinstance(one, str))
            yield from (
                piece["file"]
                for one in inputs
                if isinstance(one, dict)
                for piece in one["pieces"]
                if "file" in piece
            )
            if "card" in step["expect"]:
                yield step["expect"]["card"]


@dataclass(frozen=True, slots=True)
class Attack:
    """One directory."""

    folder: Path
    about: Mapping[str, Any]

    @property
    def number(self) -> int:
        """Its number, unique in the corpus."""
        return int(self.about["number"])

    @property
    def cases(self) -> list[Case]:
        """The attack in its variants, and their honest twins."""
        return [Case(self.folder, members) for members in self.about["cases"]]

    @property
    def transcripts(self) -> list[Case]:
        """The same of what takes a network: what resolver and servers say."""
        file = self.folder / "fetch.json"
        if not file.exists():
            return []
        return [Case(self.folder, members) for members in json.loads(file.read_text())["cases"]]

    @property
    def tests(self) -> list[str]:
        """Tests of ours for what cannot be data, as pytest names them."""
        return list(self.about.get("tests", ()))


def _inputs(step: Mapping[str, Any]) -> Iterator[Any]:
    """The inputs of a step of either kind of case."""
    evidence = step.get("evidence", {})
    yield from (step.get("card"), step.get("public"), evidence.get("jwks"))
    yield from (*evidence.get("keysets", ()), *evidence.get("releases", ()))
    for said in step.get("answers", {}).values():
        for answer in (said or {}).get("turns", [said or {}]):
            then = answer.get("then")
            yield from (answer.get("body"), answer.get("raw"), answer.get("storm", {}).get("card"))
            yield then["send"] if isinstance(then, dict) else None


Verifier: TypeAlias = Callable[[Case], Iterable[Outcome]]


def load(folder: Path = CORPUS) -> list[Attack]:
    """The whole corpus, by number."""
    attacks = [
        Attack(path.parent, json.loads(path.read_text(encoding="utf-8")))
        for path in folder.glob("*/attack.json")
    ]
    return sorted(attacks, key=lambda attack: attack.number)


def deviations(case: Case, verifier: Verifier) -> list[str]:
    """In what a verifier disagrees with a case; empty if in nothing."""
    outcomes = list(verifier(case))
    if len(outcomes) != len(case.steps):
        return [f"{len(outcomes)} outcomes for {len(case.steps)} steps"]
    found = []
    for number, (step, outcome) in enumerate(zip(case.steps, outcomes, strict=True)):
        found += [
            f"step {number}: {what} is {got}, expected {wanted}"
            for what, got, wanted in _differences(case, step["expect"], outcome)
        ]
    return found


def _differences(
    case: Case, expect: Mapping[str, Any], outcome: Outcome
) -> Iterator[tuple[str, Any, Any]]:
    codes = list(outcome.codes)
    if outcome.verdict != expect["verdict"]:
        yield "the verdict", f"{outcome.verdict} ({', '.join(codes)})", expect["verdict"]
    if "code" in expect and expect["code"] not in codes[: 1 if expect.get("first") else None]:
        yield "the reason", codes, expect["code"]
    if "warnings" in expect and not set(codes) <= set(expect["warnings"]):
        yield "the warnings", codes, f"at most {expect['warnings']}"
    for name, answer in expect.get("answers", {}).items():
        if (outcome.answers or {}).get(name) != answer:
            yield name, outcome.answers, answer
    if "subject" in expect and outcome.subject != expect["subject"]:
        yield "the subject", outcome.subject, expect["subject"]
    if "card" in expect and outcome.card != json.loads(case.input(expect["card"])):
        yield "what the caller gets", outcome.card, f"that of {expect['card']}"
    if outcome.traffic is not None:
        yield from strayings(expect, outcome.traffic)
    if outcome.verdict != "trusted" and outcome.card is not None:
        yield "what the caller gets", "a card", "nothing unless the verdict is trusted"


# ------------------------------------------------------------------ our own verifier


def ours(case: Case) -> Iterator[Outcome]:
    """Put a case to cardsign."""
    try:
        policy, _ = read_policy(case.folder / case.members["policy"])
        memory = memory_of(case, policy)
    except UsageFault as fault:
        yield from [Outcome("none", (fault.code,))] * len(case.steps)
        return
    cache = VerdictCache()
    for step in case.steps:
        try:
            report = _examine(case, step, policy=policy, memory=memory, cache=cache)
        except LocalFault as fault:
            yield Outcome("none", (fault.code,))
        else:
            yield outcome_of(report)


def outcome_of(report: Report, traffic: Traffic | None = None) -> Outcome:
    """A report of ours as an outcome."""
    return Outcome(
        report.verdict,
        tuple(reason.code for reason in report.reasons),
        {name: str(answer) for name, answer in report.answers.to_json().items()},
        report.subject,
        report.card,
        traffic,
    )


def _examine(case: Case, step: Mapping[str, Any], **held: Any) -> Report:
    subject, audience = _subject(step["subject"])
    card, rest = case.input(step["card"]), {**_circumstances(case, step), **held}
    if "public" in step:
        public = case.input(step["public"])
        assert subject is not None
        assert audience is not None
        return examine_extended(public, card, of=subject, audience=audience, **rest)[1]
    if subject is not None and audience is not None:
        return examine_card(card, expect=Extended(subject, audience), **rest)
    return examine_card(card, expect=subject, **rest)


def _circumstances(case: Case, step: Mapping[str, Any]) -> dict[str, Any]:
    brought = step.get("evidence", {})
    evidence = Evidence(
        untrusted_keysets=tuple(map(case.input, brought.get("keysets", ()))),
        untrusted_releases=tuple(map(case.input, brought.get("releases", ()))),
        untrusted_jwks=case.input(brought["jwks"]) if "jwks" in brought else None,
        jwks_url=brought.get("jwks_url"),
        contact=brought.get("contact"),
    )
    now = datetime.fromtimestamp(step["now"], UTC)
    return {"evidence": evidence, "now": now, "historic": step.get("historic", False)}


def _subject(members: Mapping[str, str]) -> tuple[PublicSubject | None, str | None]:
    return public_subject(members), members.get("audience")


def public_subject(members: Mapping[str, str]) -> PublicSubject | None:
    """Whom a verdict is about, the audience left aside."""
    named = ((name, value) for name, value in members.items() if name != "audience")
    return next((_SUBJECTS[name](value) for name, value in named), None)


def memory_of(case: Case, policy: Policy) -> Memory:
    """What a verifier remembers at the start of a case."""
    lock = case.members.get("lock")
    floors = read_lock(case.folder / lock) if lock else {}
    remembered = case.members.get("memory", "none")
    if remembered == "none":
        return WithoutMemory(floors)
    described = {} if remembered == "fresh" else remembered
    return TransientMemory(
        {
            one.name: _known(
                case,
                described.get(one.name, {}),
                anchor_digest(one.anchor),
                floors.get(one.name, Floor()),
            )
            for one in policy.enrolments
        }
    )


def _known(case: Case, members: Mapping[str, Any], anchor: str, floor: Floor) -> Known:
    keyset = read_keyset(case.input(members["keyset"])) if "keyset" in members else None
    release = read_release(case.input(members["release"])) if "release" in members else None
    newest = max((one.iat for one in (keyset, release) if one is not None), default=0)
    first = members.get("first_contact")
    return Known(
        anchor,
        keyset,
        release,
        floor,
        members.get("newest_iat", newest),
        JwkSet.from_bytes(case.input(members["jwks"])) if "jwks" in members else None,
        StatementPin(**first) if first else None,
        members.get("signed_before", False),
    )
