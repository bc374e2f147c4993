"""Puts the attack corpus to verifiers of others, as far as it can be put to them.

A verifier of another library takes a card and keys. It knows no policy, no memory and no
statement, so what turns on those is not put to it; nor is what its judge cannot be handed. Of
the transcripts, those in which one server of a good name says something are put to a resolver
that fetches the card himself, from a port of this machine.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from attack_server import is_servable, served
from judges import Judge, JudgeFailed
from roster import PROGRAMS, VERIFIERS, Verifier

from tests.attack_runner.corpus import Attack, Case
from tests.attack_runner.outcome import deviations
from tests.attack_runner.verifier import certificates, policy_of, run_case, subject_of

Answer = Literal["accepts", "refuses", "fails", "n/a"]

#: The verifiers of the table, as the roster names them.
ASKED: Final = ("a2a-sdk", "a2a-js plain", "joserfc")
OURS: Final = "cardsign"
#: The one of them that fetches cards, by a program of its own.
FETCHES: Final = "a2a-sdk"
RESOLVER: Final = Path(__file__).resolve().parent / "attack_resolver.py"

#: Characters. The judges take a card on one line of JSON; beyond this they test the machine.
MAX_PUT: Final = 1_000_000

#: What only a policy can refuse: whose card it is, where it may point, what must be fresh.
POLICY_CODES: Final = frozenset(
    {
        "card.interface_url",
        "card.origin_mismatch",
        "key.not_enrolled",
        "sig.other_profile",
        "threshold.unmet",
        "trust.freshness_unknown",
        "trust.no_anchor",
        "trust.no_expectation",
        "trust.no_keys",
    }
)
#: Kinds of subjects that a policy is asked about by name or address.
_NAMED: Final = ("issuer", "origin", "url")
_NOT_PUT: Final = ("statement.", "state.", "time.", "extended.")


@dataclass(frozen=True, slots=True)
class Result:
    """What everybody says of one case.

    Attributes:
        attack: The number of its attack.
        id: The case's own.
        kind: ``attack`` or ``twin``.
        right: cardsign's verdict and reason are those of the corpus.
        answers: By verifier.
        not_put: Why it was put to nobody else; empty where it was.
        on_line: It is a transcript.
    """

    attack: int
    id: str
    kind: str
    right: bool
    answers: dict[str, Answer]
    not_put: str
    on_line: bool = False


class Panel:
    """The programs, started; close it, or use it in a ``with`` statement."""

    def __init__(self, asked: Sequence[str] = ASKED) -> None:
        self.verifiers = [VERIFIERS[name] for name in asked]
        self.judges = {one.program: PROGRAMS[one.program].start() for one in self.verifiers}
        self.resolver = Judge([PROGRAMS[FETCHES].place or "", str(RESOLVER)], {})

    def __enter__(self) -> Panel:
        return self

    def __exit__(self, *_: object) -> None:
        for judge in (*self.judges.values(), self.resolver):
            judge.close()

    def results(self, attacks: Sequence[Attack]) -> Iterator[Result]:
        """Put every case to everybody."""
        for attack in attacks:
            for case in attack.cases:
                yield self.result(attack.number, case)
            for case in attack.transcripts:
                yield self.fetched(attack.number, case)

    def result(self, number: int, case: Case) -> Result:
        """Put one case to everybody."""
        request, why_not = put(case)
        answers: dict[str, Answer] = {
            one.name: self._ask(one, request) if request else "n/a" for one in self.verifiers
        }
        id_, kind = case.members["id"], case.members["kind"]
        return Result(number, id_, kind, not deviations(case, run_case), answers, why_not)

    def fetched(self, number: int, case: Case) -> Result:
        """Put one transcript to ourselves, and to the resolver that can be asked."""
        right = not deviations(case, run_case)
        answers: dict[str, Answer] = dict.fromkeys((one.name for one in self.verifiers), "n/a")
        request, why_not = put_on_line(case)
        if request is not None:
            with served(case, certificates()) as origin:
                answers[FETCHES] = self._resolved({**request, "url": origin})
        return Result(
            number, case.members["id"], case.members["kind"], right, answers, why_not, on_line=True
        )

    def _resolved(self, request: dict[str, Any]) -> Answer:
        answer = self.resolver.ask("resolve", **request)
        return "accepts" if answer["outcome"] == "accepted" and answer["callable"] else "refuses"

    def _ask(self, verifier: Verifier, request: dict[str, Any]) -> Answer:
        try:
            answer = self.judges[verifier.program].ask("verify", path=verifier.path, **request)
        except JudgeFailed:
            self._restart_if_gone(verifier.program)
            return "fails"
        return "accepts" if answer["outcome"] == "accepted" and answer["callable"] else "refuses"

    def _restart_if_gone(self, program: str) -> None:
        try:
            self.judges[program].version()
        except JudgeFailed:
            self.judges[program].close()
            self.judges[program] = PROGRAMS[program].start()


def put_on_line(case: Case) -> tuple[dict[str, Any] | None, str]:
    """A resolver's request for a transcript, without its URL; or None, and why there is none."""
    [step, *_] = case.steps
    if not is_servable(case) or step["expect"].get("code", "") in POLICY_CODES:
        return None, "network"
    tables = tomllib.loads(case.policy.decode())
    keys = [one["public"] for one in tables["issuer"][0]["anchor"].get("keys", ())]
    if not keys:
        return None, "network"
    return {"jwks": {"keys": keys}, "algorithms": ["ES256", "RS256"]}, ""


def put(case: Case) -> tuple[dict[str, Any] | None, str]:
    """A judge's request for a case; or None, and why there is none."""
    [step, *more] = case.steps
    code = step["expect"].get("code", "")
    if more or case.members.get("memory", "none") not in ("none", "fresh"):
        return None, "memory"
    if code in POLICY_CODES or code.startswith(_NOT_PUT):
        return None, "policy"
    card = case.input(step["card"])
    try:
        text = card.decode()
        if len(text) > MAX_PUT:
            return None, "size"
    except UnicodeDecodeError:
        return None, "bytes"
    enrolled = _enrolled(case, step)
    jwks = _keys(case, step, enrolled) if enrolled else None
    if jwks is None:
        return None, "keys"
    algorithms = enrolled.get("algorithms", ["ES256", "RS256"]) if enrolled else []
    return {"card": text, "jwks": jwks, "algorithms": algorithms}, ""


def _enrolled(case: Case, step: dict[str, Any]) -> dict[str, Any] | None:
    """The table of the policy that speaks for the subject."""
    named = {name: step["subject"][name] for name in step["subject"] if name in _NAMED}
    subject = subject_of(named)
    issuer = None if subject is None else policy_of(case).find(subject)
    tables = tomllib.loads(case.policy.decode())["issuer"]
    return next((one for one in tables if issuer and one["name"] == issuer.name), None)


def _keys(case: Case, step: dict[str, Any], enrolled: dict[str, Any]) -> dict[str, Any] | None:
    """The JWK Set that the policy's anchor means; None if a judge cannot be handed it."""
    anchor, supplied = enrolled["anchor"], step.get("evidence", {})
    if "keys" in anchor:
        return {"keys": [one["public"] for one in anchor["keys"]]}
    if anchor.get("jwks", "") != supplied.get("jwks_url") or "jwks" not in supplied:
        return None
    data = case.input(supplied["jwks"])
    try:
        jwks = json.loads(data)
    except (ValueError, RecursionError):
        return None
    usable = isinstance(jwks, dict) and isinstance(jwks.get("keys"), list)
    return jwks if usable and len(data) <= MAX_PUT else None
