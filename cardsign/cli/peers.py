"""``cardsign peers``: the cards of all issuers of the policy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import click

from cardsign.batch import Outcome, heaviest, in_threads
from cardsign.cli.frame import Group
from cardsign.cli.options import fetch_settings, network_option
from cardsign.cli.printer import Answer, is_json, is_quiet, safe, say, show
from cardsign.cli.verifier import (
    CONCURRENCY,
    Shown,
    chosen_issuers,
    kind_of,
    needed_policy,
    policy_option,
    show_each,
    summary,
)
from cardsign.errors import EXIT_LOCAL_FAULT, EXIT_NOT_TRUSTED, LocalFault, UsageFault
from cardsign.findings import Finding, counted
from cardsign.times import minute
from cardsign.trust.policy import Policy, TrustedIssuer
from cardsign.trust.session import look_ahead
from cardsign.verify.verifier import Verifier


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
@policy_option
def status(names: tuple[str, ...], trust_file: Path | None) -> int:
    """Show what is known about all issuers, or those with NAME, without any request.

    It shows the newest statements that trust.lock and this user's cache lead to, and when they
    expire.

    Exit status: 0 no required peer needs action; 1 something needs action now or soon; 2 a fault
    of this machine. Optional peers do not change it.
    """
    policy = needed_policy(trust_file)
    chosen = chosen_issuers(policy, names)
    verifier = Verifier(policy)
    shown, lines, statuses = [], list[str](), list[int]()
    for issuer in chosen:
        state = _known(verifier, issuer)
        shown.append(state)
        lines += _known_lines(state)
        if any(alarm["code"] == "lock.missing" for alarm in state["alarms"]):
            statuses.append(EXIT_LOCAL_FAULT)
        elif state["alarms"] and issuer.peer == "required":
            statuses.append(EXIT_NOT_TRUSTED)
    notes = () if shown else [f"{policy.path} trusts no issuer"]
    return show(Answer(shown, lines, notes, heaviest(statuses)))


def _known(verifier: Verifier, issuer: TrustedIssuer) -> dict[str, Any]:
    """Return what is known of one issuer here."""
    state: dict[str, Any] = {"name": issuer.name, "peer": issuer.peer}
    state["anchor"] = kind_of(issuer.anchor)
    state |= dict.fromkeys(("keyset", "release", "last_signed", "until"))
    state["cards"] = list(issuer.cards)
    try:
        session, now = verifier.session(issuer), verifier.clock()
    except UsageFault as fault:
        return {**state, "alarms": [fault.finding.to_json()]}
    trust, alarms = look_ahead(session, now)
    keyset, release = session.keyset, session.release
    return {
        **state,
        "keyset": keyset and {"number": keyset.label, "exp": keyset.exp},
        "release": release and {"seq": release.seq, "exp": release.exp},
        "last_signed": session.newest_iat or None,
        "until": min((end for end in trust.deadlines if end > now.timestamp()), default=None),
        "alarms": [alarm.to_json() for alarm in alarms],
    }


def _known_lines(state: Mapping[str, Any]) -> Iterator[str]:
    optional = "" if state["peer"] == "required" else ", optional"
    yield f"{state['name']}: by {state['anchor']}{optional}"
    if state["anchor"] == "jwks":
        yield "  keys        asked for at their URL with each card"
    if state["keyset"]:
        yield f"  keyset      {state['keyset']['number']}, until {minute(state['keyset']['exp'])}"
    if state["release"]:
        yield f"  release     {state['release']['seq']}, until {minute(state['release']['exp'])}"
    if state["last_signed"]:
        yield f"  last signed {minute(state['last_signed'])}"
    for url in state["cards"]:
        yield f"  card        {safe(url)}"
    for alarm in state["alarms"]:
        yield f"  {alarm['code']}: {safe(alarm['message'], limit=300)}"
        yield f"      {safe(alarm['hint'], limit=300)}"


# What the cards are worth now.

#: What needs a person though the card is trusted: the issuer's roots may be stolen, or a
#: statement that was seen is withheld, and what is remembered ends.
_ALARMS: Final = frozenset({"statement.fork", "statement.vanished"})
#: What only says that something is missing; why it is, another reason may say.
_MISSING: Final = frozenset({"trust.freshness_unknown", "trust.no_keys"})

_Check: TypeAlias = tuple[TrustedIssuer, str]  # and the URL of one of its cards


@peers.command(example="cardsign peers verify --update --trust trust.toml")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option(
    "--update",
    is_flag=True,
    help="Record newer statements in trust.lock, as `cardsign trust update` does. A policy that is "
    "only found here must be named: --trust trust.toml.",
)
@network_option
@policy_option
def verify(names: tuple[str, ...], update: bool, insecure: bool, trust_file: Path | None) -> int:
    """Verify all cards of all issuers, or of those named.

    Each card is fetched with the statements that its issuer's anchor needs. An error with one
    card does not stop the others. Each result is one line on stdout, or an object with --json;
    --quiet leaves out trusted cards. Summary and progress go to stderr.

    Exit status: 0 all required cards are trusted; 1 one is not, or a statement of its issuer has
    vanished or was replaced by another with the same number; 2 a fault of this machine; 3 none of
    these, but one card got no verdict. Optional peers do not change it.
    """
    policy = needed_policy(trust_file)
    checks = _checks(policy, names)
    verifier = Verifier(policy, net=fetch_settings(insecure))

    def check(task: _Check) -> Outcome:
        discovery = verifier.look_up(task[1])
        return Outcome(discovery.url, discovery.report, discovery.untrusted_card)

    checked: list[tuple[TrustedIssuer, Outcome]] = []

    def results() -> Iterator[Shown]:
        for (issuer, url), result in in_threads(check, checks, CONCURRENCY):
            outcome = result if isinstance(result, Outcome) else Outcome(url, result)
            checked.append((issuer, outcome))
            yield _view(issuer, outcome)

    statuses = show_each(results(), len(checks), is_lines=True)
    for name in verifier.raise_lock() if update else ():
        say(f"{policy.lock} has newer statements of {name} now; commit it")
    issuers = len({issuer.name for issuer, _ in checks})
    line = summary(statuses, f" of {counted(issuers, 'issuer')}")
    alarmed = [issuer.peer for issuer, outcome in checked if _alarms(outcome)]
    say(f"{line}, {len(alarmed)} with an alarm" if alarmed else line)
    required = (outcome for issuer, outcome in checked if issuer.peer == "required")
    status = heaviest(outcome.result.exit_status for outcome in required)
    needs_action = "required" in alarmed and status != EXIT_LOCAL_FAULT
    return EXIT_NOT_TRUSTED if needs_action else status


def _alarms(outcome: Outcome) -> list[Finding]:
    return [reason for reason in outcome.reasons if reason.code in _ALARMS]


def _view(issuer: TrustedIssuer, outcome: Outcome) -> Shown:
    """Return what is shown of one card; under ``--quiet`` a trusted one is left out."""
    fault = outcome.result if isinstance(outcome.result, LocalFault) else None
    shown, alarms = Shown(outcome.result.exit_status, fault=fault), _alarms(outcome)
    if is_json():
        return shown._replace(value=_checked_json(issuer, outcome))
    if outcome.verdict == "trusted" and is_quiet() and not alarms:
        return shown
    return shown._replace(lines=(_checked_line(issuer, outcome, alarms),))


def _card_of(outcome: Outcome) -> tuple[str | None, int | None]:
    """Return the name in the verified card, and how many skills it has; None without one."""
    if isinstance(outcome.result, LocalFault) or outcome.result.card is None:
        return None, None
    name, skills = outcome.result.card.get("name"), outcome.result.card.get("skills")
    return str(name), len(skills) if isinstance(skills, list) else 0


def _checked_json(issuer: TrustedIssuer, outcome: Outcome) -> dict[str, Any]:
    card, skills = _card_of(outcome)
    members = {"name": issuer.name, "peer": issuer.peer, "card_name": card, "skills": skills}
    return {**members, **outcome.to_json()}


def _checked_line(issuer: TrustedIssuer, outcome: Outcome, alarms: Sequence[Finding]) -> str:
    result, why = outcome.result, []
    card, skills = _card_of(outcome)
    if card is not None:
        why.append(f'"{safe(card)}", {counted(skills or 0, "skill")}')
    if not isinstance(result, LocalFault) and result.valid_until is not None:
        why.append(f"until {minute(result.valid_until)}")
    reasons: Sequence[Finding] = outcome.reasons
    if outcome.verdict != "trusted" and reasons:  # why it is not, and the alarms
        first = reasons[0]
        if first.code in _MISSING:
            behind = ("statement.", "refresh.")
            causes = (cause for cause in reasons if cause.code.startswith(behind))
            first = next(causes, first)
        reasons = tuple(dict.fromkeys((first, *alarms)))
    why += [f"{reason.code}: {safe(reason.worded)}" for reason in reasons]
    optional = "" if issuer.peer == "required" else " (optional)"
    begin = f"{outcome.verdict:<13}  {issuer.name}{optional}  {safe(outcome.name)}"
    return f"{begin}  {'; '.join(why)}".rstrip()


def _checks(policy: Policy, names: tuple[str, ...]) -> list[_Check]:
    """Return the cards to check; none at all would be a check that cannot fail."""
    issuers = chosen_issuers(policy, names)
    checks = [(issuer, url) for issuer in issuers for url in issuer.cards]
    without = [issuer.name for issuer in issuers if not issuer.cards]
    if not checks or (names and without):
        raise UsageFault(
            "policy.no_cards",
            f"trust.toml lists no card of {', '.join(without) or 'any issuer'}",
            path=str(policy.path),
        )
    if without:
        say(f"trust.toml lists no card of {', '.join(without)}")
    return checks
