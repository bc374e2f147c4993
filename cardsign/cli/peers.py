"""``cardsign peers``: the cards of all issuers of the policy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

import click

from cardsign.batch import LastCheck, add_checks, in_threads, read_checks
from cardsign.cli.frame import Group
from cardsign.cli.options import NetworkOptions, edit_options, network_option, take, trust_options
from cardsign.cli.printer import (
    Answer,
    counted,
    is_json,
    is_quiet,
    print_json,
    safe,
    say,
    show,
    write_line,
)
from cardsign.cli.progress import Progress
from cardsign.cli.verifier import TrustOptions, raise_lock, summary
from cardsign.cli.views import kind_of
from cardsign.errors import (
    EXIT_LOCAL_FAULT,
    EXIT_NO_VERDICT,
    EXIT_NOT_TRUSTED,
    EXIT_OK,
    LocalFault,
    StateFault,
    UsageFault,
)
from cardsign.findings import Finding
from cardsign.times import away, minute
from cardsign.trust.disk import PolicyFile
from cardsign.trust.policy import TrustedIssuer
from cardsign.trust.resolve import resolve_remembered
from cardsign.trust.state import IssuerStates
from cardsign.verifier import Outcome, heaviest
from cardsign.verify.report import EXIT_OF


@click.group(cls=Group)
def peers() -> None:
    """Verify the cards of the issuers in the policy, and show their state.

    `cards` in trust.toml lists the cards of an issuer; see cardsign trust add --card.
    """


# What is known about issuers, without any request.


@peers.command(
    short_help="Show what is known about the issuers, without any request.",
    example="cardsign peers status",
)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@edit_options
def status(names: tuple[str, ...], **options: Any) -> int:
    """Show what is known about all issuers, or those with NAME, without any request.

    It shows their statements and when these expire. For each card it shows when cardsign peers
    verify last checked it, and the verdict.

    Exit status: 0 no required peer needs action; 1 a card was not trusted at its last check, or
    something needs action now or soon; 2 the state of an issuer is missing or cannot be read;
    3 a card was never checked, or its last check gave no verdict. Optional peers do not change it.
    """
    trust = take(TrustOptions, options)
    loaded = trust.needed()
    chosen = [loaded.issuer(name) for name in dict.fromkeys(names)] or loaded.policy.issuers
    now = datetime.now(UTC)
    checks = read_checks(trust.stored.path, loaded.identity)
    shown, lines, statuses = [], list[str](), []
    for issuer in chosen:
        own = {url: checks[url] for url in issuer.cards if url in checks}
        seen, status = _seen(loaded, trust, issuer, own, now)
        shown.append(seen)
        statuses.append(status)
        lines += _seen_lines(seen, own, now)
    notes = () if shown else [f"{loaded.path} trusts no issuer"]
    return show(Answer(shown, lines, notes, heaviest(statuses)))


def _seen(
    loaded: PolicyFile,
    trust: TrustOptions,
    issuer: TrustedIssuer,
    checks: Mapping[str, LastCheck],
    now: datetime,
) -> tuple[dict[str, Any], int]:
    """One issuer as this machine remembers it, and the exit status of that."""
    known, until, alarm = None, None, EXIT_NOT_TRUSTED
    try:
        known = trust.stored.recall(issuer)
        found, alarms = resolve_remembered(issuer, loaded.policy.limits, known, now=now)
        alarms = (*known.notes, *alarms)
        until = min(found.deadlines, default=None)
    except StateFault as fault:  # what is wrong with a memory is part of the answer
        alarms, alarm = (fault.finding,), EXIT_LOCAL_FAULT
    keyset = known.keyset if known else None
    release = known.release if known else None
    seen = {
        "name": issuer.name,
        "peer": issuer.peer,
        "anchor": kind_of(issuer.anchor),
        "keyset": keyset and {"number": keyset.label, "exp": keyset.exp},
        "release": release and {"seq": release.seq, "exp": release.exp},
        "last_signed": (known.newest_iat or None) if known else None,
        "until": until,
        "cards": list(issuer.cards),
        "seen": list(known.cards) if known else [],
        "checks": [
            {"url": url, "at": one.at.isoformat(), "verdict": one.verdict, "code": one.code}
            for url, one in checks.items()
        ],
        "alarms": [one.to_json() for one in alarms],
    }
    statuses = [EXIT_OF.get(one.verdict, EXIT_LOCAL_FAULT) for one in checks.values()]
    statuses += [EXIT_NO_VERDICT] * (len(checks) < len(issuer.cards))
    statuses += [alarm] * bool(alarms)
    return seen, EXIT_OK if issuer.peer == "optional" else heaviest(statuses)


def _seen_lines(
    seen: Mapping[str, Any], checks: Mapping[str, LastCheck], now: datetime
) -> Iterator[str]:
    optional = "" if seen["peer"] == "required" else ", optional"
    yield f"{seen['name']}: by {seen['anchor']}{optional}"
    if seen["keyset"]:
        yield f"  keyset      {seen['keyset']['number']}, until {minute(seen['keyset']['exp'])}"
    if seen["release"]:
        yield f"  release     {seen['release']['seq']}, until {minute(seen['release']['exp'])}"
    if seen["last_signed"]:
        yield f"  last signed {minute(seen['last_signed'])}"
    for url in seen["cards"]:
        # A host's URL stands for the paths below it at which a card may be.
        paths = (url, url + ".well-known/") if url.endswith("/") else (url,)
        is_seen = url in seen["seen"] or any(one.startswith(paths[1:]) for one in seen["seen"])
        yield f"  card        {safe(url)}{'' if is_seen else ', not seen yet'}"
        checked = "never: cardsign peers verify"
        if (last := checks.get(url)) is not None:
            code = f", {last.code}" if last.code and last.verdict != "trusted" else ""
            checked = f"{away(min(last.at, now), now)} ({minute(last.at)}): {last.verdict}{code}"
        yield f"  last check  {checked}"
    for alarm in seen["alarms"]:
        yield f"  {alarm['code']}: {safe(alarm['message'], limit=300)}"
        yield f"      {safe(alarm['hint'], limit=300)}"


# What the cards are worth now.

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

_Check: TypeAlias = tuple[TrustedIssuer, str]  # and the URL of one of its cards


@peers.command(example="cardsign peers verify --concurrency 8")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option(
    "--concurrency",
    metavar="N",
    type=click.IntRange(1, MAX_CONCURRENCY),
    default=CONCURRENCY,
    show_default=True,
    help="How many cards are verified at once.",
)
@network_option
@trust_options
def verify(
    names: tuple[str, ...],
    concurrency: int,
    **options: Any,
) -> int:
    """Verify all cards of all issuers, or of those named.

    Each card is fetched with the statements that its issuer's anchor needs. An error with one
    card does not stop the others. Each result is one line on stdout, or an object with --json;
    --quiet leaves out trusted cards. Summary and progress go to stderr.

    Exit status: 0 all required cards are trusted; 1 one is not, or a statement of its issuer has
    vanished or was replaced by another with the same number; 2 a fault of this machine; 3 none of
    these, but one card got no verdict. Optional peers do not change it.
    """
    network = take(NetworkOptions, options)
    trust = take(TrustOptions, options)
    loaded = trust.needed()
    checks = _checks(loaded, names)
    states = trust.states(loaded)

    check = _checker(loaded, states, network)
    statuses: list[tuple[str, int]] = []
    alarmed: list[str] = []
    log: dict[str, LastCheck] = {}
    with Progress(len(checks)) as progress:
        for (issuer, url), result in in_threads(check, checks, concurrency):
            one = result if isinstance(result, Outcome) else Outcome(url, result)
            alarms = [reason for reason in one.reasons if reason.code in _ALARMS]
            statuses.append((issuer.peer, one.result.exit_status))
            alarmed += [issuer.peer] * bool(alarms)
            code = one.reasons[0].code if one.reasons else ""
            log[url] = LastCheck(datetime.now(UTC), one.verdict, code)
            with progress.paused():
                if isinstance(one.result, LocalFault):
                    progress.print_error(one.result)
                if is_json():
                    print_json(_checked_json(issuer, one), indent=None)
                elif alarms or one.verdict != "trusted" or not is_quiet():
                    write_line(_checked_line(issuer, one, alarms))
    raise_lock(loaded, states)
    if not trust.no_state:
        add_checks(trust.stored.path, loaded.identity, log)
    issuers = len({issuer.name for issuer, _ in checks})
    told = summary([status for _, status in statuses], f" of {counted(issuers, 'issuer')}")
    say(f"{told}, {len(alarmed)} with an alarm" if alarmed else told)
    status = heaviest(status for peer, status in statuses if peer == "required")
    needs_action = "required" in alarmed and status != EXIT_LOCAL_FAULT
    return EXIT_NOT_TRUSTED if needs_action else status


def _checker(
    loaded: PolicyFile, states: IssuerStates, network: NetworkOptions
) -> Callable[[_Check], Outcome]:
    from cardsign.net.discovery import Discoverer

    def now() -> datetime:
        return datetime.now(UTC)

    discoverer = Discoverer(loaded.policy, states, fetcher=network.fetcher(now), now=now)

    def check(task: _Check) -> Outcome:
        found = discoverer.look_up(task[1])
        return Outcome(found.url, found.report, found.untrusted_card)

    return check


def _card_of(one: Outcome) -> tuple[str | None, int | None]:
    """The name in the verified card, and how many skills it has; None without one."""
    if isinstance(one.result, LocalFault) or one.result.card is None:
        return None, None
    name, skills = one.result.card.get("name"), one.result.card.get("skills")
    return str(name), len(skills) if isinstance(skills, list) else 0


def _checked_json(issuer: TrustedIssuer, one: Outcome) -> dict[str, Any]:
    card, skills = _card_of(one)
    about = {"name": issuer.name, "peer": issuer.peer, "card_name": card, "skills": skills}
    return {**about, **one.to_json()}


def _checked_line(issuer: TrustedIssuer, one: Outcome, alarms: Sequence[Finding]) -> str:
    result, why = one.result, []
    card, skills = _card_of(one)
    if card is not None:
        why.append(f'"{safe(card)}", {counted(skills or 0, "skill")}')
    if not isinstance(result, LocalFault) and result.valid_until is not None:
        why.append(f"until {minute(result.valid_until)}")
    reasons: Sequence[Finding] = one.reasons
    if one.verdict != "trusted" and reasons:  # why it is not, and the alarms
        first = reasons[0]
        if first.code in _MISSING:
            behind = ("statement.", "refresh.")
            causes = (cause for cause in reasons if cause.code.startswith(behind))
            first = next(causes, first)
        reasons = tuple(dict.fromkeys((first, *alarms)))
    why += [f"{told.code}: {safe(told.worded)}" for told in reasons]
    optional = "" if issuer.peer == "required" else " (optional)"
    begin = f"{one.verdict:<13}  {issuer.name}{optional}  {safe(one.name)}"
    return f"{begin}  {'; '.join(why)}".rstrip()


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
