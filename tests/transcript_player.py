"""Plays the transcripts of the attack corpus to cardsign; tests/attacks/README.md is the format.

The code that asks is the real one: only the resolver, the connections and the clocks are the
transcript's. Another implementation needs its own of this module, and a world such as ours.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from attacks_runner import Case, Outcome, memory_of, outcome_of, public_subject
from transcript_world import Certificates, World

from cardsign.errors import LocalFault, UsageFault
from cardsign.net import DEFAULT_POLICY, Asker, Discoverer, Wire
from cardsign.trust import (
    DirectoryMemory,
    Known,
    Memory,
    Policy,
    anchor_digest,
    read_lock,
    read_policy,
)


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
    rewire: Callable[[Wire], Wire] = lambda wire: wire,
    asking: Callable[..., Asker] = Asker,
) -> Iterator[Outcome]:
    """What cardsign does in a case, step by step.

    Args:
        case: Of a `fetch.json`.
        certificates: For the servers, and for the verifier.
        folder: Where the verifier remembers.
        rewire: Takes a safeguard out of the wire.
        asking: Takes one out of the asker.
    """
    try:
        policy, _ = read_policy(case.folder / case.members["policy"])
        memory = _memory(case, policy, folder)
    except UsageFault as fault:
        yield from [Outcome("none", (fault.code,))] * len(case.steps)
        return
    clocks = Clocks()
    world = World(case, certificates, clocks.skip)
    wire = rewire(_wire(world, clocks, certificates))

    def start() -> Discoverer:
        return Discoverer(policy, memory, asker=asking(wire, now=clocks.now), now=clocks.now)

    verifier = start()
    for step in case.steps:
        world.change(step)
        clocks.begin(step)
        if step.get("lost"):
            shutil.rmtree(folder)
        if step.get("restart") or step.get("lost"):
            verifier = start()
        told = [_outcome(verifier, step, nth) for nth in range(step.get("repeat", 1))]
        yield replace(_in_common(told), traffic=world.traffic())


def _memory(case: Case, policy: Policy, folder: Path) -> Memory:
    """On a disk, as ``trust init`` begins it, where the case knows of nothing before."""
    if case.members.get("memory", "none") != "fresh":
        return memory_of(case, policy)
    lock = case.members.get("lock")
    floors = read_lock(case.folder / lock) if lock else {}
    memory = DirectoryMemory(folder, floors)
    for one in policy.enrolments:
        memory.create(one, Known(anchor_digest(one.anchor)))
    return memory


def _wire(world: World, clocks: Clocks, certificates: Certificates) -> Wire:
    """The transcript's resolver, connections and clock, and our own limits, in its haste."""
    limits = replace(
        DEFAULT_POLICY,
        connect_timeout=DEFAULT_POLICY.connect_timeout / world.haste,
        total_timeout=DEFAULT_POLICY.total_timeout / world.haste,
    )
    return Wire(limits, world.resolve, clocks.monotonic, certificates.client, world.dial)


def _outcome(verifier: Discoverer, step: Mapping[str, Any], nth: int) -> Outcome:
    expect = public_subject(step["subject"]) if "subject" in step else None
    try:
        return outcome_of(verifier.examine(step["url"].replace("{n}", str(nth)), expect=expect))
    except LocalFault as fault:
        return Outcome("none", (fault.code,))


def _in_common(told: Sequence[Outcome]) -> Outcome:
    """What all repetitions of a step say; where verdicts differ, both."""
    [first, *others] = told
    codes = tuple(code for code in first.codes if all(code in one.codes for one in others))
    verdict = " or ".join(dict.fromkeys(one.verdict for one in told))
    return replace(told[-1], verdict=verdict, codes=codes)
