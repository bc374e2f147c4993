"""``cardsign trust``: which issuers to trust. Edits `trust.toml` and its lock."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

import click

from cardsign.batch import in_threads
from cardsign.cli import views
from cardsign.cli.enroll import add, import_
from cardsign.cli.frame import Group
from cardsign.cli.options import (
    fetch_settings,
    network_option,
    policy_option,
    statements_option,
    yes_option,
)
from cardsign.cli.printer import Answer, safe, say, show, table_lines
from cardsign.cli.streams import confirm, done, dry_run_option, is_dry_run
from cardsign.cli.verifier import chosen_issuers, needed_policy
from cardsign.errors import EXIT_LOCAL_FAULT, EXIT_NO_VERDICT, EXIT_OK, LocalFault
from cardsign.findings import Finding
from cardsign.trust.enroll import forget_issuer, move_pin, remove_issuer
from cardsign.trust.lock import read_lock
from cardsign.trust.policy import KeysetAnchor, TrustedIssuer, load_policy
from cardsign.trust.supplied import (
    NO_STATEMENTS,
    StatementCache,
    SuppliedStatements,
    load_statements,
)
from cardsign.verify.verifier import Verifier

#: Issuers that are asked at a time.
CONCURRENCY: Final = 24


@click.group("trust", cls=Group)
def trust_commands() -> None:
    """Say which issuers to trust, by which keys, and what to require of their cards.

    The policy is trust.toml. Beside it trust.lock holds the oldest statements that are still
    accepted of each issuer. Commit both.
    """


trust_commands.add_command(add)
trust_commands.add_command(import_)


@trust_commands.command("list", short_help="List the issuers.", example="cardsign trust list")
@policy_option
def list_(trust_file: Path | None) -> None:
    """List the issuers: name, anchor, freshness and origins."""
    policy = load_policy(trust_file)
    if policy is None:
        show(Answer([]))
        say("no policy, so no issuer is trusted. To trust one: cardsign trust add URL")
        return
    issuers = policy.issuers
    say(f"the policy is {policy.path}" if issuers else f"{policy.path} trusts no issuer")
    rows = []
    for issuer in issuers:
        places = ", ".join(map(str, issuer.places or ()))
        rows.append((issuer.name, views.kind_of(issuer.anchor), issuer.freshness, places))
    columns = {"issuer": 16, "anchor": 6, "freshness": 8, "origins": 0}
    show(Answer([views.issuer_json(issuer) for issuer in issuers], table_lines(columns, rows)))
    for name in sorted(set(read_lock(policy.lock)) - {issuer.name for issuer in issuers}):
        say(f"{policy.lock} has an entry for {name}, which the policy does not trust; it means")
        say(f"  nothing. To remove it: cardsign trust forget {name}")


@trust_commands.command(
    "show", short_help="Show what is known about an issuer.", example="cardsign trust show partner"
)
@click.argument("name")
@policy_option
def show_issuer(name: str, trust_file: Path | None) -> None:
    """Show what the policy says about NAME, its entry in trust.lock, and the newest statements."""
    policy = needed_policy(trust_file)
    issuer = policy.issuer(name)
    floor = read_lock(policy.lock).get(name)
    lines = [*views.issuer_lines(issuer)]
    lines.append(f"lock        {'no entry' if floor is None else views.floor_text(floor)}")
    session, now = Verifier(policy).session(issuer), datetime.now(UTC)
    session.resolve(NO_STATEMENTS, now)
    if isinstance(issuer.anchor, KeysetAnchor):
        views.say_if_old(session.keyset, now)
        known = [f"  {line}" for line in views.statement_lines(session.keyset, session.release)]
        lines += [
            "statements",
            *(known or [f"  none here yet: cardsign trust update {name}{policy.option}"]),
        ]
    statements = {
        "keyset": session.keyset and views.pin_json(session.keyset),
        "release": session.release and views.members(session.release, "seq digest exp"),
    }
    lock = floor and floor.to_json()
    show(Answer({**views.issuer_json(issuer), "lock": lock, "statements": statements}, lines))


@trust_commands.command(
    short_help="Record newer statements in trust.lock.",
    example="cardsign trust update --trust trust.toml",
)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@statements_option
@network_option
@policy_option
@dry_run_option
def update(
    names: tuple[str, ...], statements: tuple[Path, ...], insecure: bool, trust_file: Path | None
) -> int:
    """Fetch the issuers' statements, verify them, and record them in trust.lock.

    From then on older cards and statements are refused on every machine that has this lock.
    Commit it. With --statements nothing is fetched. Only issuers with a keyset or a root set as
    their anchor have an entry.

    Exit status: 0 the lock is up to date; 2 a fault of this machine, or a lock that contradicts
    the statements; 3 an issuer could not be asked, or its statements were not accepted.
    """
    policy = needed_policy(trust_file)
    chosen = chosen_issuers(policy, names)
    issuers = [issuer for issuer in chosen if isinstance(issuer.anchor, KeysetAnchor)]
    verifier = Verifier(policy, net=fetch_settings(insecure))
    supplied = load_statements(statements) if statements else None

    results = [*in_threads(partial(_update, verifier, supplied), issuers, CONCURRENCY)]
    status = EXIT_NO_VERDICT
    if any(isinstance(result, LocalFault) for _, result in results):
        status = EXIT_LOCAL_FAULT
    wrong = {
        issuer.name: (result.finding,) if isinstance(result, LocalFault) else result
        for issuer, result in results
    }
    wrong = {name: findings for name, findings in sorted(wrong.items()) if findings}
    raised = verifier.raise_lock(dry_run=is_dry_run())
    notes = [*_raised_notes(verifier, raised)]
    if not issuers:
        notes = ["no issuer has a keyset or roots as its anchor, so there is nothing to record"]
    elif not raised and not wrong:
        notes = [f"{policy.lock} is up to date"]
    for name, findings in wrong.items():
        for finding in findings:
            say(f"{name}: {finding.code}: {safe(finding.message, limit=300)}")
            say(f"  {safe(finding.hint, limit=300)}")
    shown = {name: [finding.to_json() for finding in findings] for name, findings in wrong.items()}
    view = {"lock": str(policy.lock), "raised": list(raised), "problems": shown}
    return show(Answer(view, notes=notes, exit_status=status if wrong else EXIT_OK))


def _raised_notes(verifier: Verifier, names: Iterable[str]) -> Iterator[str]:
    """Yield which keyset of each issuer the lock has now, or would have."""
    for name in names:
        keyset = verifier.session(verifier.policy.issuer(name)).keyset
        label = keyset.label if keyset is not None else ""
        if is_dry_run():
            yield f"would record keyset {label} of {name}"
        else:
            yield f"{verifier.policy.lock} has keyset {label} of {name} now; commit it"


def _update(
    verifier: Verifier, supplied: SuppliedStatements | None, issuer: TrustedIssuer
) -> tuple[Finding, ...]:
    """Verify the newest statements of an issuer; return what keeps them from being accepted."""
    session, now = verifier.session(issuer), verifier.clock()
    reasons: tuple[Finding, ...] = ()
    statements = supplied
    if statements is None:
        from cardsign.net.discovery import home_of, refresh

        statements, reasons = refresh(verifier, issuer, home_of(issuer.places, ""))
    trust = session.resolve(statements, now)
    missing = (reason for reason in reasons if reason.severity != "note")
    return tuple(dict.fromkeys((*trust.blocks, *missing)))


@trust_commands.command(
    short_help="Remove an issuer from the policy.", example="cardsign trust remove partner"
)
@click.argument("name")
@policy_option
@dry_run_option
def remove(name: str, trust_file: Path | None) -> None:
    """Remove NAME from the policy. Its cards are no longer trusted.

    Its entry in trust.lock stays. If you add the issuer again, older statements of it are still
    refused. `cardsign trust forget NAME` removes the entry too.
    """
    policy = needed_policy(trust_file)
    is_locked = remove_issuer(policy, name, dry_run=is_dry_run())
    notes = [f"{done('removed', 'remove')} {name} from {policy.path}"]
    if is_locked:
        notes.append(f"{policy.lock} keeps its entry; to remove it: cardsign trust forget {name}")
    show(Answer({"removed": name, "locked": is_locked}, notes=notes))


@trust_commands.command(
    short_help="Remove an issuer's entry from trust.lock.",
    example="cardsign trust forget partner --yes",
)
@click.argument("name")
@policy_option
@dry_run_option
@yes_option
def forget(name: str, yes: bool, trust_file: Path | None) -> None:
    """Remove the entry of NAME from trust.lock. Older statements of it may then be accepted again.

    An issuer whose anchor is a keyset needs its entry: remove the issuer first.
    """
    policy = needed_policy(trust_file)
    forget_issuer(policy, name, dry_run=True)
    confirm(yes, f"older cards and statements of {name} may then be accepted again")
    forget_issuer(policy, name, dry_run=is_dry_run())
    note = f"{done('removed', 'remove')} the entry of {name} from {policy.lock}"
    show(Answer({"forgotten": name}, notes=[note]))


@trust_commands.command(
    short_help="Move a pin forward to the keyset that trust.lock records.",
    example="cardsign trust pin partner",
)
@click.argument("name")
@policy_option
@dry_run_option
def pin(name: str, trust_file: Path | None) -> None:
    """Move the pin of NAME forward to the keyset statement that trust.lock records.

    Roots retired before it can then no longer start another history. `cardsign trust update`
    brings the lock up to date.
    """
    policy = needed_policy(trust_file)
    keyset, changed = move_pin(policy, name, cache=StatementCache.of_user(), dry_run=is_dry_run())
    lines = [f"keyset      {keyset.label}", f"digest      {keyset.digest}"]
    note = "the pin is the newest"
    if changed:
        note = f"{done('moved', 'move')} the pin of {name} to the statement above"
    show(Answer({"name": name, "changed": changed, "keyset": keyset.to_json()}, lines, [note]))
