"""``cardsign peers``: all cards of all issuers of the policy, day by day."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Final, TypeAlias

import click

from cardsign.cli.arguments import json_option
from cardsign.cli.commands import command, group
from cardsign.cli.inquiry import Outcome, loopback_option, make_asker, weightiest
from cardsign.cli.policy import TrustOptions, edit_options, raise_lock, trust_options
from cardsign.cli.talk import print_json, safe, say
from cardsign.cli.views import day, kind_of
from cardsign.errors import (
    EXIT_LOCAL_FAULT,
    EXIT_NOT_TRUSTED,
    EXIT_OK,
    LocalFault,
    StateFault,
    UsageFault,
)
from cardsign.reasons import Reason
from cardsign.trust.disk import PolicyFile
from cardsign.trust.policy import Enrolment
from cardsign.trust.resolve import Outlook, outlook
from cardsign.trust.state import IssuerState

# ``cardsign peers status``: how issuers stand, from memory alone.


@dataclass(frozen=True, slots=True)
class _Seen:
    """One issuer, as this machine remembers him."""

    enrolment: Enrolment
    known: IssuerState | None
    outlook: Outlook | None
    alarms: tuple[Reason, ...]

    @property
    def exit_status(self) -> int:
        if self.enrolment.peer == "optional" or not self.alarms:
            return EXIT_OK
        return EXIT_LOCAL_FAULT if self.known is None else EXIT_NOT_TRUSTED

    def to_json(self) -> dict[str, Any]:
        keyset = self.known.keyset if self.known else None
        release = self.known.release if self.known else None
        signed = self.known.newest_iat if self.known else 0
        return {
            "name": self.enrolment.name,
            "peer": self.enrolment.peer,
            "anchor": kind_of(self.enrolment.anchor),
            "keyset": None
            if keyset is None
            else {"number": f"{keyset.epoch}.{keyset.version}", "exp": keyset.exp},
            "release": None if release is None else {"seq": release.seq, "exp": release.exp},
            "last_signed": signed or None,
            "until": self.outlook.until if self.outlook else None,
            "cards": list(self.enrolment.cards),
            "seen": list(self.known.cards) if self.known else [],
            "alarms": [alarm.to_json() for alarm in self.alarms],
        }

    def lines(self) -> Iterator[str]:
        said = self.to_json()
        optional = "" if self.enrolment.peer == "required" else ", optional"
        yield f"{self.enrolment.name}: by {said['anchor']}{optional}"
        if said["keyset"]:
            yield f"  keyset      {said['keyset']['number']}, until {day(said['keyset']['exp'])}"
        if said["release"]:
            yield f"  release     {said['release']['seq']}, until {day(said['release']['exp'])}"
        if said["last_signed"]:
            yield f"  last signed {day(said['last_signed'])}"
        for url in self.enrolment.cards:
            seen = "" if url in said["seen"] or _has_below(url, said["seen"]) else ", not seen yet"
            yield f"  card        {safe(url)}{seen}"
        for alarm in self.alarms:
            yield f"  {alarm.code}: {safe(alarm.message, limit=300)}"
            yield f"      {safe(alarm.hint, limit=300)}"


@command(
    short_help="Say how the issuers stand, from memory alone.", example="cardsign peers status"
)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@edit_options
@json_option
def status(names: tuple[str, ...], trust: TrustOptions, as_json: bool) -> int:
    """Say how all issuers stand, or those named, by what is remembered; nobody is asked.

    Exit status: 0 no required peer needs anybody; 1 one does, or soon will; 2 a memory is missing
    or cannot be read. Optional peers change nothing of it.
    """
    loaded = trust.needed()
    chosen = [loaded.issuer(name) for name in dict.fromkeys(names)]
    now = datetime.now(UTC)
    found = [_seen(loaded, trust, one, now) for one in chosen or loaded.policy.enrolments]
    if as_json:
        print_json([one.to_json() for one in found])
    else:
        for one in found:
            click.echo("\n".join(one.lines()))
        if not found:
            say(f"{loaded.path} trusts nobody")
    return max((one.exit_status for one in found), default=EXIT_OK)


def _seen(loaded: PolicyFile, trust: TrustOptions, enrolment: Enrolment, now: datetime) -> _Seen:
    try:
        known = trust.stored.recall(enrolment)
    except StateFault as fault:  # what is wrong with a memory is part of the answer
        return _Seen(enrolment, None, None, (Reason.from_error(fault),))
    ahead = outlook(enrolment, loaded.policy.limits, known, now=now)
    return _Seen(enrolment, known, ahead, (*known.notes, *ahead.alarms))


def _has_below(url: str, seen: list[str]) -> bool:
    """Whether a card was seen at one of the paths that a host's URL stands for."""
    return url.endswith("/") and any(one.startswith(url + ".well-known/") for one in seen)


#: Cards at a time: 200 peers that each take a second are done within ten, and a verifier behind
#: a home router opens no more connections at once than a browser.
CONCURRENCY: Final = 24
#: More threads than these wait for one another, not for peers.
MAX_CONCURRENCY: Final = 256

#: What needs a person though the card is trusted: the issuer's roots may be stolen, or somebody
#: takes away what was seen, and what is remembered ends.
_ALARMS: Final = frozenset({"statement.fork", "statement.vanished"})
#: What only says that something is missing; why it is, another reason may say.
_MISSING: Final = frozenset({"trust.freshness_unknown", "trust.no_keys"})

_Check: TypeAlias = tuple[Enrolment, str]


@dataclass(frozen=True, slots=True)
class _Checked:
    """One card of the policy and what came of it."""

    enrolment: Enrolment
    outcome: Outcome

    @property
    def is_required(self) -> bool:
        return self.enrolment.peer == "required"

    def to_json(self) -> dict[str, Any]:
        said = self.enrolment
        return {"name": said.name, "peer": said.peer, **self.outcome.to_json()}

    @property
    def alarms(self) -> tuple[Reason, ...]:
        """What needs a person, whatever the verdict is."""
        return tuple(one for one in self.outcome.reasons if one.code in _ALARMS)

    def line(self) -> str:
        result, why = self.outcome.result, []
        verdict = "fault" if isinstance(result, LocalFault) else result.verdict
        if not isinstance(result, LocalFault) and result.valid_until is not None:
            why.append(f"until {result.valid_until:%Y-%m-%d %H:%M} UTC")
        why += [f"{one.code}: {safe(one.message)}" for one in self._told(verdict == "trusted")]
        optional = "" if self.is_required else " (optional)"
        name, url = self.enrolment.name, safe(self.outcome.name)
        return f"{verdict:<13}  {name}{optional}  {url}  {'; '.join(why)}".rstrip()

    def _told(self, is_trusted: bool) -> tuple[Reason, ...]:
        """Of a trusted card all that was found; of any other why it is not, and the alarms."""
        reasons = self.outcome.reasons
        if is_trusted or not reasons:
            return reasons
        first = reasons[0]
        if first.code in _MISSING:
            causes = (one for one in reasons if one.code.startswith(("statement.", "refresh.")))
            first = next(causes, first)
        return tuple(dict.fromkeys((first, *self.alarms)))


@group()
def peers() -> None:
    """Verify the cards that the policy's issuers list, and see how they stand.

    Which cards an issuer has is said by `cards` in trust.toml; see cardsign trust add --card.
    """


peers.add_command(status)


@peers.command(example="cardsign peers verify --concurrency 8")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option(
    "--concurrency",
    type=click.IntRange(1, MAX_CONCURRENCY),
    default=CONCURRENCY,
    show_default=True,
    metavar="N",
    help="How many cards are verified at once.",
)
@loopback_option
@trust_options
@json_option
def verify(
    names: tuple[str, ...],
    concurrency: int,
    insecure_loopback_http: bool,
    trust: TrustOptions,
    as_json: bool,
) -> int:
    """Verify all cards of all issuers, or of those named.

    Each card is fetched with the statements that its issuer's anchor needs. What happens to one
    hides nothing of another. A line for each on stdout as it is done, with --json an object; the
    summary, and progress on a terminal, on stderr.

    Exit status: 0 all required cards are trusted; 1 one is not, or one of its issuer's statements
    has vanished or is another than it was; 3 none of this, and of one card no verdict could be
    reached; 2 a fault of this machine. Optional peers change nothing of it.
    """
    loaded = trust.needed()
    checks = _checks(loaded, names)
    memory = trust.states(loaded)

    def now() -> datetime:
        return datetime.now(UTC)

    from cardsign.net.discovery import Discoverer

    asker = make_asker(now, insecure_loopback_http)
    discoverer = Discoverer(loaded.policy, memory, asker=asker, now=now)

    def check(url: str) -> Outcome:
        try:
            met = discoverer.meet(url)
        except LocalFault as fault:
            return Outcome(url, fault)
        return Outcome(met.url, met.report, met.untrusted_card)

    progress = _Progress(len(checks))
    found: list[_Checked] = []
    for one in _as_done(checks, check, concurrency):
        progress.clear()
        if as_json:
            print_json(one.to_json(), indent=None)
        else:
            click.echo(one.line())
        found.append(one)
        progress.show(len(found))
    progress.clear()
    raise_lock(loaded, memory)
    say(_summary(found))
    required = [one for one in found if one.is_required]
    status = weightiest(one.outcome for one in required)
    alarmed = any(one.alarms for one in required)
    return EXIT_NOT_TRUSTED if alarmed and status != EXIT_LOCAL_FAULT else status


def _checks(loaded: PolicyFile, names: tuple[str, ...]) -> list[_Check]:
    """What there is to look at; nothing at all would be a check that cannot fail."""
    chosen = [loaded.issuer(name) for name in dict.fromkeys(names)]
    enrolments = chosen or list(loaded.policy.enrolments)
    checks = [(one, url) for one in enrolments for url in one.cards]
    without = [one.name for one in enrolments if not one.cards]
    if not checks or (chosen and without):
        raise UsageFault(
            "policy.no_cards",
            f"no card is listed of {', '.join(without) or 'anybody'}",
            path=str(loaded.path),
        )
    if without:
        say(f"no card is listed of {', '.join(without)}")
    return checks


def _as_done(
    checks: list[_Check], check: Callable[[str], Outcome], concurrency: int
) -> Iterator[_Checked]:
    """Each card as it is done. What crashes one check, a bug of ours, ends none of the others.

    The threads are daemons, for which nothing waits: whoever has had enough, or reads no further,
    is not kept by a silent peer. A memory that is being written then is as after a crash: whole.
    """
    waiting: SimpleQueue[_Check] = SimpleQueue()
    done: SimpleQueue[_Checked | BaseException] = SimpleQueue()
    for one in checks:
        waiting.put(one)

    def work() -> None:
        with suppress(Empty):
            while True:
                enrolment, url = waiting.get_nowait()
                try:
                    done.put(_Checked(enrolment, check(url)))
                except BaseException as crash:  # noqa: BLE001  raised where somebody hears it
                    done.put(crash)

    for _ in range(min(concurrency, len(checks))):
        Thread(target=work, name="peer", daemon=True).start()
    crash: BaseException | None = None
    try:
        for _ in checks:
            ended = done.get()
            if isinstance(ended, _Checked):
                yield ended
            else:
                crash = ended
    finally:
        with suppress(Empty):  # nothing more is begun
            while True:
                waiting.get_nowait()
    if crash is not None:
        raise crash


def _summary(found: list[_Checked]) -> str:
    counts = {
        "trusted": 0,
        "not trusted": 0,
        "without a verdict": 0,
        "not looked at for a fault here": 0,
    }
    for one in found:
        words = dict(zip((0, 1, 3, 2), counts, strict=True))
        counts[words[one.outcome.exit_status]] += 1
    issuers = len({one.enrolment.name for one in found})
    counts["with an alarm"] = sum(1 for one in found if one.alarms)
    said = ", ".join(f"{count} {words}" for words, count in counts.items() if count)
    return f"{len(found)} card(s) of {issuers} issuer(s): {said}"


class _Progress:
    """How far it is, for somebody who watches; nothing at all where nobody does."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._watched = _is_watched()
        self.show(0)

    def show(self, done: int) -> None:
        if self._watched:
            click.echo(f"\r{done} of {self._total} cards", err=True, nl=False)

    def clear(self) -> None:
        if self._watched:
            click.echo("\r\x1b[K", err=True, nl=False)


def _is_watched() -> bool:
    return sys.stderr.isatty()
