"""What a verifier did in a step of a case, and in what it deviates from what is expected."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from tests.attack_runner.corpus import Case


@dataclass(frozen=True, slots=True)
class Traffic:
    """What a verifier did on the network during one step.

    Attributes:
        lookups: The names that it asked for.
        reached: Where it tried to connect to, each ``address:port``.
        requests: What it sent, each the URL that was asked and the head of the request.
        taken: Bytes that it took of the longest answer.
    """

    lookups: tuple[str, ...] = ()
    reached: tuple[str, ...] = ()
    requests: tuple[tuple[str, str], ...] = ()
    taken: int = 0


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


Verifier: TypeAlias = Callable[[Case], Iterable[Outcome]]
Difference: TypeAlias = tuple[str, Any, Any]


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


def _differences(case: Case, expect: Mapping[str, Any], outcome: Outcome) -> Iterator[Difference]:
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
        yield from _strayings(expect, outcome.traffic)
    if outcome.verdict != "trusted" and outcome.card is not None:
        yield "what the caller gets", "a card", "nothing unless the verdict is trusted"


def _strayings(expect: Mapping[str, Any], traffic: Traffic) -> Iterator[Difference]:
    """What was done on the network that must not be."""
    urls = [url for url, _ in traffic.requests]
    if strange := {url for url in urls if not _is_among(url, expect["asked"])}:
        yield "what is asked", sorted(strange), f"at most {expect['asked']}"
    hosts = {urlsplit(url.rstrip("*")).hostname for url in expect["asked"]}
    if strange := set(traffic.lookups) - hosts:
        yield "what is looked up", sorted(strange), f"at most {sorted(map(str, hosts))}"
    if "reached" in expect and (strange := set(traffic.reached) - set(expect["reached"])):
        yield "what is reached", sorted(strange), f"at most {expect['reached']}"
    for what, counted in (("times", Counter(urls)), ("lookups", Counter(traffic.lookups))):
        for name, most in expect.get(what, {}).items():
            if counted[name] > most:
                yield what, f"{counted[name]} for {name}", f"at most {most}"
    for secret in expect.get("unsent", ()):
        if guilty := [url for url, head in traffic.requests if secret in head]:
            yield "what is sent", f"{secret!r} to {guilty}", "not to be sent"
    if traffic.taken > expect.get("taken", traffic.taken):
        yield "what is taken", traffic.taken, f"at most {expect['taken']}"


def _is_among(url: str, patterns: Iterable[str]) -> bool:
    """Whether a URL is one of these; one that ends in ``*`` stands for all that begin so."""
    return any(url.startswith(one[:-1]) if one.endswith("*") else url == one for one in patterns)
