"""Puts the attack corpus to cardsign; another implementation needs its own of this module.

The code that asks in a transcript is the real one: only the resolver, the connections and the
clocks are the transcript's.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import Any

from cardsign.errors import LocalFault, UsageFault
from cardsign.jose.keys import JwkSet
from cardsign.net.fetch import DEFAULT_SETTINGS, FetchSettings
from cardsign.statements.keyset import KeysetId, read_keyset
from cardsign.statements.release import read_release
from cardsign.trust.lock import Floor, Memory, raise_lock
from cardsign.trust.policy import KeysetAnchor, Policy, Subject
from cardsign.trust.policyfile import read_policy
from cardsign.trust.walk import SuppliedStatements
from cardsign.verify.report import Report
from cardsign.verify.verdict import beside_its_public_card
from cardsign.verify.verifier import Verifier
from tests.attack_runner.corpus import Case
from tests.attack_runner.outcome import Outcome, Traffic
from tests.attack_runner.world import Certificates, World

# ------------------------------------------------------------------ without a network


def judge(case: Case) -> Iterator[Outcome]:
    """Put a case without a network to cardsign."""
    with TemporaryDirectory() as folder:
        try:
            verifier = _verifier(case, Path(folder))
        except UsageFault as fault:
            yield from [Outcome("none", (fault.code,))] * len(case.steps)
            return
        for step in case.steps:
            if case.members.get("memory", "none") == "none":
                verifier = _verifier(case, Path(folder))
            try:
                report = _examine(case, step, verifier)
            except LocalFault as fault:
                yield Outcome("none", (fault.code,))
            else:
                yield _outcome(report)


@cache
def policy_of(data: bytes) -> Policy:
    """The policy of a case; equal ones are read once."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "trust.toml"
        path.write_bytes(data)
        return replace(read_policy(path), path=None)


def _verifier(case: Case, folder: Path) -> Verifier:
    """A verifier with the policy, the lock and the memory of a case, and an empty cache."""
    policy = policy_of(case.policy)
    lock: Path | Memory = Memory()
    if case.lock is not None:
        lock = folder / "trust.lock"
        lock.write_bytes(case.lock)
    verifier = Verifier(policy, lock=lock)
    memory = case.members.get("memory", "none")
    for name, known in memory.items() if isinstance(memory, dict) else ():
        session = verifier.session(policy.issuer(name))
        if "keyset" in known:
            session.keyset = read_keyset(case.input(known["keyset"]))
            session.newest_iat = session.keyset.iat
        if "release" in known:
            session.release = read_release(case.input(known["release"]))
            session.newest_iat = max(session.newest_iat, session.release.iat)
        if "jwks" in known:
            session.jwks = JwkSet.from_bytes(case.input(known["jwks"]))
        session.newest_iat = known.get("newest_iat", session.newest_iat)
    return verifier


def _outcome(report: Report, traffic: Traffic | None = None) -> Outcome:
    return Outcome(
        report.verdict,
        tuple(reason.code for reason in report.reasons),
        {name: str(answer) for name, answer in report.answers.to_json().items()},
        report.subject,
        report.card,
        traffic,
    )


def _examine(case: Case, step: Mapping[str, Any], verifier: Verifier) -> Report:
    now = datetime.fromtimestamp(step["now"], UTC)
    verifier.clock = lambda: now
    subject, card = Subject(**step["subject"]), case.input(step["card"])
    statements, at = _evidence(case, step), now if step.get("historic") else None
    if "public" in step:
        asked = replace(subject, audience=None)
        public = verifier.judge(case.input(step["public"]), asked, statements, at=at)
        report = verifier.judge(card, subject, statements, at=at)
        return beside_its_public_card(report, public)
    return verifier.judge(card, subject, statements, at=at)


def _evidence(case: Case, step: Mapping[str, Any]) -> SuppliedStatements:
    """What came along with the card of a step."""
    brought = step.get("evidence", {})
    return SuppliedStatements(
        untrusted_keysets=tuple(map(case.input, brought.get("keysets", ()))),
        untrusted_releases=tuple(map(case.input, brought.get("releases", ()))),
        untrusted_jwks=case.input(brought["jwks"]) if "jwks" in brought else None,
        jwks_url=brought.get("jwks_url"),
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
) -> Iterator[Outcome]:
    """What cardsign does in a transcript, step by step.

    Args:
        case: The transcript.
        certificates: For the servers, and for the verifier.
        folder: Where lock and cache are.
        rewire: Takes a safeguard out of the settings.
    """
    try:
        policy = policy_of(case.policy)
        _enrol(case, policy, folder / "trust.lock")
    except UsageFault as fault:
        yield from [Outcome("none", (fault.code,))] * len(case.steps)
        return
    clocks = Clocks()
    world = World(case, certificates, clocks.skip)
    settings = rewire(_settings(world, clocks, certificates))
    cache = folder / "cache"

    def start() -> Verifier:
        remembers = case.members.get("memory", "none") != "none"
        return Verifier(
            policy,
            lock=folder / "trust.lock",
            cache=cache if remembers else Memory(),
            net=settings,
            clock=clocks.now,
        )

    verifier: Verifier | None = None
    for step in case.steps:
        world.change(step)
        clocks.begin(step)
        if step.get("lost"):
            shutil.rmtree(cache, ignore_errors=True)
            if case.lock is None:
                (folder / "trust.lock").unlink()
        if verifier is None or step.get("restart") or step.get("lost"):
            try:
                verifier = start()
            except LocalFault as fault:
                yield Outcome("none", (fault.code,), traffic=world.traffic())
                continue
        told = [_told(case, verifier, step, nth) for nth in range(step.get("repeat", 1))]
        yield replace(_in_common(told), traffic=world.traffic())


def _enrol(case: Case, policy: Policy, lock: Path) -> None:
    """Write the lock of a case, or else the one that `trust add` would have written."""
    if case.lock is not None:
        lock.write_bytes(case.lock)
        return
    anchors = {issuer.name: issuer.anchor for issuer in policy.issuers}
    pins = {name: one.pin for name, one in anchors.items() if isinstance(one, KeysetAnchor)}
    raise_lock(
        lock,
        {name: Floor(pin if isinstance(pin, KeysetId) else None) for name, pin in pins.items()},
    )


def _settings(world: World, clocks: Clocks, certificates: Certificates) -> FetchSettings:
    """The transcript's resolver, connections and clock, and our own limits, in its haste."""
    return replace(
        DEFAULT_SETTINGS,
        total_timeout=DEFAULT_SETTINGS.total_timeout / world.haste,
        resolver=world.resolve,
        clock=clocks.monotonic,
        ssl_context=certificates.client,
        dial=world.dial,
    )


def _told(case: Case, verifier: Verifier, step: Mapping[str, Any], nth: int) -> Outcome:
    subject = Subject(**step["subject"]) if "subject" in step else None
    url = step["url"].replace("{n}", str(nth))
    try:
        report = verifier.look_up(url, subject).report
    except LocalFault as fault:
        return Outcome("none", (fault.code,))
    outcome = _outcome(report)
    if case.lock is None:  # the one that `trust add` wrote is behind in many transcripts
        outcome = replace(outcome, codes=tuple(c for c in outcome.codes if c != "lock.behind"))
    return outcome


def _in_common(told: Sequence[Outcome]) -> Outcome:
    """What all repetitions of a step say; where verdicts differ, both."""
    [first, *others] = told
    codes = tuple(code for code in first.codes if all(code in one.codes for one in others))
    verdict = " or ".join(dict.fromkeys(one.verdict for one in told))
    return replace(told[-1], verdict=verdict, codes=codes)
