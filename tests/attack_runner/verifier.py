"""Puts the attack corpus to cardsign; another implementation needs its own of this module.

The code that asks in a transcript is the real one: only the resolver, the connections and the
clocks are the transcript's.
"""

from __future__ import annotations

import atexit
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import Any, Final

from cardsign.errors import LocalFault, UsageFault
from cardsign.jose.jwks import JwkSet
from cardsign.net.discovery import Discoverer
from cardsign.net.fetch import DEFAULT_SETTINGS, FetchSettings
from cardsign.net.fetcher import DocumentFetcher
from cardsign.statements.keyset import read_keyset
from cardsign.statements.release import read_release
from cardsign.trust.disk import read_lock, read_policy
from cardsign.trust.policy import (
    AtOrigin,
    CardUrl,
    Extended,
    Holder,
    Issuer,
    Policy,
    PublicSubject,
    RollbackFloor,
    TrustedIssuer,
)
from cardsign.trust.state import (
    NO_STATES,
    DirectoryStates,
    IssuerState,
    IssuerStates,
    TransientStates,
)
from cardsign.trust.supplied import SuppliedStatements
from cardsign.verify.report import Report
from cardsign.verify.verdict import VerdictCache, examine_extended, reach_verdict
from tests.attack_runner.corpus import Case
from tests.attack_runner.outcome import Outcome, Traffic
from tests.attack_runner.world import Certificates, World

_SUBJECTS: Final[dict[str, Callable[[str], PublicSubject]]] = {
    "issuer": Issuer,
    "origin": AtOrigin,
    "url": CardUrl,
    "holder": lambda _: Holder(),
}


def run_case(case: Case) -> list[Outcome]:
    """What cardsign says, step by step, with a memory that is thrown away."""
    if not case.is_transcript:
        return list(judge(case))
    with TemporaryDirectory() as folder:
        return list(play(case, certificates(), Path(folder) / "state"))


@cache
def certificates() -> Certificates:
    """What the servers of transcripts show, and whom the verifier trusts: once in a process."""
    folder = TemporaryDirectory()
    atexit.register(folder.cleanup)
    return Certificates(Path(folder.name))


# ------------------------------------------------------------------ without a network


def judge(case: Case) -> Iterator[Outcome]:
    """Put a case without a network to cardsign."""
    try:
        policy = policy_of(case)
        memory = _memory(case, policy)
    except UsageFault as fault:
        yield from [Outcome("none", (fault.code,))] * len(case.steps)
        return
    seen = VerdictCache()
    for step in case.steps:
        try:
            report = _examine(case, step, policy=policy, states=memory, cache=seen)
        except LocalFault as fault:
            yield Outcome("none", (fault.code,))
        else:
            yield _outcome(report)


def policy_of(case: Case) -> Policy:
    """The policy of a case, with the floors of its lock; equal ones are read once."""
    return policy_alone(case).known_as("the case's", _floors(case.lock))


def policy_alone(case: Case) -> Policy:
    """The policy of a case without the floors of its lock, which may be malformed."""
    return _policy(case.policy)


@cache
def _policy(data: bytes) -> Policy:
    return _read(data, "trust.toml", read_policy)[0]


@cache
def _floors(data: bytes | None) -> dict[str, RollbackFloor]:
    return {} if data is None else _read(data, "trust.lock", read_lock)


def _read(data: bytes, name: str, read: Callable[[Path], Any]) -> Any:
    """What is read of a file, such as a verifier has."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        return read(path)


def _outcome(report: Report, traffic: Traffic | None = None) -> Outcome:
    return Outcome(
        report.verdict,
        tuple(reason.code for reason in report.reasons),
        {name: str(answer) for name, answer in report.answers.to_json().items()},
        report.subject,
        report.card,
        traffic,
    )


def _examine(case: Case, step: Mapping[str, Any], **held: Any) -> Report:
    subject, audience = subject_of(step["subject"]), step["subject"].get("audience")
    card, rest = case.input(step["card"]), {**_circumstances(case, step), **held}
    if "public" in step:
        public = case.input(step["public"])
        assert subject is not None
        assert audience is not None
        return examine_extended(public, card, of=subject, audience=audience, **rest)[1]
    if subject is not None and audience is not None:
        return reach_verdict(card, expect=Extended(subject, audience), **rest)
    return reach_verdict(card, expect=subject, **rest)


def _circumstances(case: Case, step: Mapping[str, Any]) -> dict[str, Any]:
    brought = step.get("evidence", {})
    supplied = SuppliedStatements(
        untrusted_keysets=tuple(map(case.input, brought.get("keysets", ()))),
        untrusted_releases=tuple(map(case.input, brought.get("releases", ()))),
        untrusted_jwks=case.input(brought["jwks"]) if "jwks" in brought else None,
        jwks_url=brought.get("jwks_url"),
    )
    now = datetime.fromtimestamp(step["now"], UTC)
    return {"supplied": supplied, "now": now, "historic": step.get("historic", False)}


def subject_of(members: Mapping[str, str]) -> PublicSubject | None:
    """Whom a verdict is about, the audience left aside."""
    named = ((name, value) for name, value in members.items() if name != "audience")
    return next((_SUBJECTS[name](value) for name, value in named), None)


# ------------------------------------------------------------------ what it remembers


def _memory(case: Case, policy: Policy, folder: Path | None = None) -> IssuerStates:
    """What a verifier remembers at the start of a case.

    Args:
        case: The case.
        policy: Its policy, with the floors of its lock.
        folder: Where what begins empty is remembered; without one, in the process.
    """
    remembered = case.members.get("memory", "none")
    if remembered == "none":
        return NO_STATES
    if remembered == "fresh" and folder is not None:
        memory = DirectoryStates(folder)
        for one in policy.issuers:  # as `trust init` begins it
            memory.begin(one, IssuerState.begin(one))
        return memory
    described = {} if remembered == "fresh" else remembered
    return TransientStates(
        {one.name: _state(case, described.get(one.name, {}), one) for one in policy.issuers}
    )


def _state(case: Case, members: Mapping[str, Any], issuer: TrustedIssuer) -> IssuerState:
    keyset = read_keyset(case.input(members["keyset"])) if "keyset" in members else None
    release = read_release(case.input(members["release"])) if "release" in members else None
    begun = IssuerState.begin(issuer, keyset, release)
    return replace(
        begun,
        newest_iat=members.get("newest_iat", begun.newest_iat),
        jwks=JwkSet.from_bytes(case.input(members["jwks"])) if "jwks" in members else None,
    )


# ------------------------------------------------------------------ transcripts


class Clocks:
    """The time of a step: one clock that may be set, and one that nobody sets.

    Both go on with the machine's, and what servers let pass is passed at once.
    """

    def __init__(self) -> None:
        self._now = datetime.fromtimestamp(0, UTC)
        self._passed = 0.0
        self._began = monotonic()
        self._skipped = 0.0

    def begin(self, step: Mapping[str, Any]) -> None:
        """Go to the time of a step."""
        now = datetime.fromtimestamp(step["now"], UTC)
        elapsed = step.get("elapsed", (now - self._now).total_seconds())
        self._passed = max(self._passed + elapsed, self.monotonic())  # nobody sets it back
        self._now, self._began, self._skipped = now, monotonic(), 0.0

    def skip(self, seconds: float) -> None:
        """Let so many pass."""
        if seconds:
            self._skipped += seconds
            sleep(0.001)  # the other end gets its turn

    def now(self) -> datetime:
        """What the clock on the wall shows."""
        return self._now + timedelta(seconds=self._of_this_step())

    def monotonic(self) -> float:
        """Seconds that have passed."""
        return self._passed + self._of_this_step()

    def _of_this_step(self) -> float:
        return monotonic() - self._began + self._skipped


def play(
    case: Case,
    certificates: Certificates,
    folder: Path,
    *,
    rewire: Callable[[FetchSettings], FetchSettings] = lambda settings: settings,
    asking: Callable[..., DocumentFetcher] = DocumentFetcher,
) -> Iterator[Outcome]:
    """What cardsign does in a transcript, step by step.

    Args:
        case: The transcript.
        certificates: For the servers, and for the verifier.
        folder: Where the verifier remembers.
        rewire: Takes a safeguard out of the settings.
        asking: Takes one out of the fetcher.
    """
    try:
        policy = policy_of(case)
        memory = _memory(case, policy, folder)
    except UsageFault as fault:
        yield from [Outcome("none", (fault.code,))] * len(case.steps)
        return
    clocks = Clocks()
    world = World(case, certificates, clocks.skip)
    settings = rewire(_settings(world, clocks, certificates))

    def start() -> Discoverer:
        return Discoverer(policy, memory, fetcher=asking(settings, now=clocks.now), now=clocks.now)

    verifier = start()
    for step in case.steps:
        world.change(step)
        clocks.begin(step)
        if step.get("lost"):
            shutil.rmtree(folder)
        if step.get("restart") or step.get("lost"):
            verifier = start()
        told = [_told(verifier, step, nth) for nth in range(step.get("repeat", 1))]
        yield replace(_in_common(told), traffic=world.traffic())


def _settings(world: World, clocks: Clocks, certificates: Certificates) -> FetchSettings:
    """The transcript's resolver, connections and clock, and our own limits, in its haste."""
    return replace(
        DEFAULT_SETTINGS,
        connect_timeout=DEFAULT_SETTINGS.connect_timeout / world.haste,
        total_timeout=DEFAULT_SETTINGS.total_timeout / world.haste,
        resolver=world.resolve,
        clock=clocks.monotonic,
        ssl_context=certificates.client,
        dial=world.dial,
    )


def _told(verifier: Discoverer, step: Mapping[str, Any], nth: int) -> Outcome:
    expect = subject_of(step["subject"]) if "subject" in step else None
    url = step["url"].replace("{n}", str(nth))
    try:
        report = verifier.examine(url, expect=expect)
    except LocalFault as fault:
        return Outcome("none", (fault.code,))
    return _outcome(report)


def _in_common(told: Sequence[Outcome]) -> Outcome:
    """What all repetitions of a step say; where verdicts differ, both."""
    [first, *others] = told
    codes = tuple(code for code in first.codes if all(code in one.codes for one in others))
    verdict = " or ".join(dict.fromkeys(one.verdict for one in told))
    return replace(told[-1], verdict=verdict, codes=codes)
