"""``cardsign peers``: the cards of all issuers of the policy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeAlias

import click

from cardsign.batch import CheckLog, LastCheck, in_threads
from cardsign.cli.arguments import json_option
from cardsign.cli.commands import command, group
from cardsign.cli.inquiry import (
    Outcome,
    heaviest,
    loopback_option,
    make_fetcher,
    summary,
    weightiest,
)
from cardsign.cli.policy import TrustOptions, edit_options, raise_lock, trust_options
from cardsign.cli.progress import Progress
from cardsign.cli.talk import complain, counted, is_quiet, print_json, safe, say
from cardsign.cli.views import day, kind_of
from cardsign.errors import (
    EXIT_LOCAL_FAULT,
    EXIT_NO_VERDICT,
    EXIT_NOT_TRUSTED,
    EXIT_OK,
    LocalFault,
    StateFault,
    UsageFault,
)
from cardsign.reasons import Reason
from cardsign.records import dataclass
from cardsign.trust.disk import PolicyFile
from cardsign.trust.policy import TrustedIssuer
from cardsign.trust.resolve import outlook
from cardsign.trust.state import IssuerState

# ``cardsign peers status``: what is known about issuers, without any request.

_VERDICTS: Final = {
    "trusted": EXIT_OK,
    "untrusted": EXIT_NOT_TRUSTED,
    "invalid": EXIT_NOT_TRUSTED,
    "indeterminate": EXIT_NO_VERDICT,
}


@dataclass(frozen=True, slots=True)
class _Seen:
    """One issuer, as this machine remembers it."""

    issuer: TrustedIssuer
    known: IssuerState | None
    until: int | None
    alarms: tuple[Reason, ...]
    checks: Mapping[str, LastCheck]
    now: datetime

    @property
    def exit_status(self) -> int:
        """The heaviest of its alarms and of the last verdicts on its cards."""
        if self.issuer.peer == "optional":
            return EXIT_OK
        alarm = EXIT_LOCAL_FAULT if self.known is None else EXIT_NOT_TRUSTED
        found = [_VERDICTS.get(one.verdict, EXIT_LOCAL_FAULT) for one in self.checks.values()]
        return heaviest([*found, alarm] if self.alarms else found)

    def to_json(self) -> dict[str, Any]:
        keyset = self.known.keyset if self.known else None
        release = self.known.release if self.known else None
        signed = self.known.newest_iat if self.known else 0
        return {
            "name": self.issuer.name,
            "peer": self.issuer.peer,
            "anchor": kind_of(self.issuer.anchor),
            "keyset": None
            if keyset is None
            else {"number": f"{keyset.epoch}.{keyset.version}", "exp": keyset.exp},
            "release": None if release is None else {"seq": release.seq, "exp": release.exp},
            "last_signed": signed or None,
            "until": self.until,
            "cards": list(self.issuer.cards),
            "seen": list(self.known.cards) if self.known else [],
            "checks": [
                {"url": url, "at": one.at.isoformat(), "verdict": one.verdict, "code": one.code}
                for url, one in self.checks.items()
            ],
            "alarms": [alarm.to_json() for alarm in self.alarms],
        }

    def lines(self) -> Iterator[str]:
        said = self.to_json()
        optional = "" if self.issuer.peer == "required" else ", optional"
        yield f"{self.issuer.name}: by {said['anchor']}{optional}"
        if said["keyset"]:
            yield f"  keyset      {said['keyset']['number']}, until {day(said['keyset']['exp'])}"
        if said["release"]:
            yield f"  release     {said['release']['seq']}, until {day(said['release']['exp'])}"
        if said["last_signed"]:
            yield f"  last signed {day(said['last_signed'])}"
        for url in self.issuer.cards:
            seen = "" if url in said["seen"] or _has_below(url, said["seen"]) else ", not seen yet"
            yield f"  card        {safe(url)}{seen}"
            yield f"  last check  {self._checked(url)}"
        for alarm in self.alarms:
            yield f"  {alarm.code}: {safe(alarm.message, limit=300)}"
            yield f"      {safe(alarm.hint, limit=300)}"

    def _checked(self, url: str) -> str:
        last = self.checks.get(url)
        if last is None:
            return "never: cardsign peers verify"
        code = f", {last.code}" if last.code and last.verdict != "trusted" else ""
        return f"{age(self.now - last.at)} ago ({last.at:%Y-%m-%d %H:%M} UTC): {last.verdict}{code}"


def age(span: timedelta) -> str:
    """A time span in its largest unit."""
    seconds = max(0, int(span.total_seconds()))
    for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if count := seconds // length:
            return counted(count, unit)
    return "less than a minute"


@command(
    short_help="Show what is known about the issuers, without any request.",
    example="cardsign peers status",
)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@edit_options
@json_option
def status(names: tuple[str, ...], trust: TrustOptions, as_json: bool) -> int:
    """Show what is known about all issuers, or those with NAME, without any request.

    It shows their statements and when these expire. For each card it shows when cardsign peers
    verify last checked it, and the verdict.

    Exit status: 0 no required peer needs action; 1 a card was not trusted at its last check, or
    something needs action now or soon; 2 the state of an issuer is missing or cannot be read;
    3 the last check of a card gave no verdict. Optional peers do not change it.
    """
    loaded = trust.needed()
    chosen = [loaded.issuer(name) for name in dict.fromkeys(names)]
    now = datetime.now(UTC)
    checks = CheckLog(trust.stored.path, loaded.identity).read()
    found = [_seen(loaded, trust, one, now, checks) for one in chosen or loaded.policy.issuers]
    if as_json:
        print_json([one.to_json() for one in found])
    else:
        for one in found:
            click.echo("\n".join(one.lines()))
        if not found:
            say(f"{loaded.path} trusts nobody")
    return heaviest(one.exit_status for one in found)


def _seen(
    loaded: PolicyFile,
    trust: TrustOptions,
    issuer: TrustedIssuer,
    now: datetime,
    checks: Mapping[str, LastCheck],
) -> _Seen:
    own = {url: checks[url] for url in issuer.cards if url in checks}
    try:
        known = trust.stored.recall(issuer)
    except StateFault as fault:  # what is wrong with a memory is part of the answer
        return _Seen(issuer, None, None, (Reason.from_error(fault),), own, now)
    found, alarms = outlook(issuer, loaded.policy.limits, known, now=now)
    until = min(found.deadlines, default=None)
    return _Seen(issuer, known, until, (*known.notes, *alarms), own, now)


def _has_below(url: str, seen: list[str]) -> bool:
    """Whether a card was seen at one of the paths that a host's URL stands for."""
    return url.endswith("/") and any(one.startswith(url + ".well-known/") for one in seen)


#: Cards at a time: 200 peers that each take a second are done within ten, and a verifier behind
#: a home router opens no more connections at once than a browser.
CONCURRENCY: Final = 24
#: More threads than these wait for one another, not for peers.
MAX_CONCURRENCY: Final = 256

#: What needs a person though the card is trusted: the issuer's roots may be stolen, or a
#: statement that was seen is withheld, and what is remembered ends.
_ALARMS: Final = frozenset({"statement.fork", "statement.vanished"})
#: What only says that something is missing; why it is, another reason may say.
_MISSING: Final = frozenset({"trust.freshness_unknown", "trust.no_keys"})

_Check: TypeAlias = tuple[TrustedIssuer, str]


@dataclass(frozen=True, slots=True)
class _Checked:
    """One card of the policy and what came of it."""

    issuer: TrustedIssuer
    outcome: Outcome

    @property
    def is_required(self) -> bool:
        return self.issuer.peer == "required"

    def to_json(self) -> dict[str, Any]:
        said = self.issuer
        card, skills = self.card
        about = {"card_name": card, "skills": skills}
        return {"name": said.name, "peer": said.peer, **about, **self.outcome.to_json()}

    @property
    def card(self) -> tuple[str | None, int | None]:
        """The name in the verified card, and how many skills it has; None without one."""
        result = self.outcome.result
        if isinstance(result, LocalFault) or result.card is None:
            return None, None
        name, skills = result.card.get("name"), result.card.get("skills")
        return str(name), len(skills) if isinstance(skills, list) else 0

    def as_last_check(self, now: datetime) -> LastCheck:
        """What is remembered of it."""
        reasons = self.outcome.reasons
        return LastCheck(now, self.verdict, reasons[0].code if reasons else "")

    @property
    def verdict(self) -> str:
        result = self.outcome.result
        return "fault" if isinstance(result, LocalFault) else result.verdict

    @property
    def alarms(self) -> tuple[Reason, ...]:
        """What needs a person, whatever the verdict is."""
        return tuple(one for one in self.outcome.reasons if one.code in _ALARMS)

    def line(self) -> str:
        result, why = self.outcome.result, []
        card, skills = self.card
        if card is not None:
            why.append(f'"{safe(card)}", {counted(skills or 0, "skill")}')
        if not isinstance(result, LocalFault) and result.valid_until is not None:
            why.append(f"until {result.valid_until:%Y-%m-%d %H:%M} UTC")
        why += [f"{one.code}: {safe(one.message)}" for one in self._told(self.verdict == "trusted")]
        optional = "" if self.is_required else " (optional)"
        name, url = self.issuer.name, safe(self.outcome.name)
        return f"{self.verdict:<13}  {name}{optional}  {url}  {'; '.join(why)}".rstrip()

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
    """Verify the cards of the issuers in the policy, and show their state.

    `cards` in trust.toml lists the cards of an issuer; see cardsign trust add --card.
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

    Each card is fetched with the statements that its issuer's anchor needs. An error with one
    card does not stop the others. Each result is one line on stdout, or an object with --json;
    --quiet leaves out trusted cards. Summary and progress go to stderr.

    Exit status: 0 all required cards are trusted; 1 one is not, or a statement of its issuer has
    vanished or was replaced by another with the same number; 2 a fault of this machine; 3 none of
    these, but one card got no verdict. Optional peers do not change it.
    """
    loaded = trust.needed()
    checks = _checks(loaded, names)
    states = trust.states(loaded)

    def now() -> datetime:
        return datetime.now(UTC)

    from cardsign.net.discovery import Discoverer

    fetcher = make_fetcher(now, insecure_loopback_http)
    discoverer = Discoverer(loaded.policy, states, fetcher=fetcher, now=now)

    def check(task: _Check) -> Outcome:
        met = discoverer.look_up(task[1])
        return Outcome(met.url, met.report, met.untrusted_card)

    found: list[_Checked] = []
    log: dict[str, LastCheck] = {}
    with Progress(len(checks), "cards") as progress:
        for (issuer, url), result in in_threads(check, checks, concurrency):
            outcome = result if isinstance(result, Outcome) else Outcome(url, result)
            one = _Checked(issuer, outcome)
            found.append(one)
            log[url] = one.as_last_check(now())
            with progress.paused():
                _print_checked(one, as_json)
    raise_lock(loaded, states)
    if not trust.no_state:
        CheckLog(trust.stored.path, loaded.identity).add(log)
    issuers = len({one.issuer.name for one in found})
    alarmed = sum(1 for one in found if one.alarms)
    of = f" of {counted(issuers, 'issuer')}"
    told = summary([one.outcome.exit_status for one in found], of)
    say(f"{told}, {alarmed} with an alarm" if alarmed else told)
    required = [one for one in found if one.is_required]
    status = weightiest(one.outcome for one in required)
    needs_action = any(one.alarms for one in required)
    return EXIT_NOT_TRUSTED if needs_action and status != EXIT_LOCAL_FAULT else status


def _print_checked(one: _Checked, as_json: bool) -> None:
    if isinstance(one.outcome.result, LocalFault):
        complain(one.outcome.result)
    if as_json:
        print_json(one.to_json(), indent=None)
    elif not (is_quiet() and one.outcome.exit_status == EXIT_OK and not one.alarms):
        click.echo(one.line())


def _checks(loaded: PolicyFile, names: tuple[str, ...]) -> list[_Check]:
    """The cards to check; none at all would be a check that cannot fail."""
    chosen = [loaded.issuer(name) for name in dict.fromkeys(names)]
    issuers = chosen or list(loaded.policy.issuers)
    checks = [(one, url) for one in issuers for url in one.cards]
    without = [one.name for one in issuers if not one.cards]
    if not checks or (chosen and without):
        raise UsageFault(
            "policy.no_cards",
            f"trust.toml lists no card of {', '.join(without) or 'any issuer'}",
            path=str(loaded.path),
        )
    if without:
        say(f"trust.toml lists no card of {', '.join(without)}")
    return checks
