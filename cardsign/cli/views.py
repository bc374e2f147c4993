"""How values are shown: one JSON view and one text view for each type."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from cardsign.cli.printer import Answer, is_json, safe, say, show
from cardsign.errors import EXIT_NOT_TRUSTED, EXIT_OK
from cardsign.times import minute, second

if TYPE_CHECKING:  # each command needs the modules of one side alone
    from cardsign.findings import Finding
    from cardsign.issuer.keyset import KeysetDraft
    from cardsign.issuer.work import Gap, Progress
    from cardsign.keys.model import KeyRecord
    from cardsign.statements.keyset import KeysetStatement
    from cardsign.statements.release import ReleaseStatement
    from cardsign.trust.lock import Floor
    from cardsign.trust.policy import Anchor, TrustedIssuer
    from cardsign.verify.report import Report

#: A pin that old lets many retired root keys begin a history of their own (threat 2).
OLD_PIN: Final = timedelta(days=365)


def whole(text: str) -> str:
    """What a statement says, for a terminal: escaped as ever, and never shortened."""
    return safe(text, limit=len(text))


def members(value: object, names: str) -> dict[str, Any]:
    """The named members of a value for programs: times as ISO 8601, and sets in order."""
    values: dict[str, Any] = {}
    for name in names.split():
        member = values[name] = getattr(value, name)
        if isinstance(member, datetime):
            values[name] = member.isoformat()
        elif isinstance(member, Mapping):
            values[name] = dict(member)
        elif isinstance(member, frozenset | tuple):
            values[name] = sorted(member) if isinstance(member, frozenset) else list(member)
    return values


# Keys.


def key_json(record: KeyRecord) -> dict[str, Any]:
    """A key: what the state holds of it, times as ISO 8601."""
    because = {} if record.revoked_because is None else {"revoked_because": record.revoked_because}
    times = members(record.times, " ".join(field.name for field in fields(record.times)))
    return {
        **members(record, "kid alg state"),
        **because,
        **members(record, "roles thumbprint custody private created"),
        "times": {name: time for name, time in times.items() if time is not None},
        "public": record.public.jwk(),
    }


def progress_json(progress: Progress) -> dict[str, Any]:
    """What a task of several steps came to."""
    return {
        "done": list(progress.done),
        "planned": list(progress.planned),
        "left": [members(gap, "who what command until") for gap in progress.left],
        "notes": list(progress.notes),
        **ahead_json(progress),
    }


def ahead_json(progress: Progress) -> dict[str, Any]:
    """What is to be done next with the keys and the keyset."""
    return {
        "ahead": [
            {**members(step, "action role alg due why"), "kid": step.key.kid if step.key else None}
            for step in progress.ahead
        ],
        "keyset": progress.renewal and members(progress.renewal, "number due why ends"),
    }


def show_progress(progress: Progress, now: datetime, view: Mapping[str, Any] | None = None) -> int:
    """Print what a task came to; the exit status says whether anything needs a person.

    `view` is what programs are given besides.
    """
    if not is_json():
        say_progress(progress, now)
    status = EXIT_NOT_TRUSTED if progress.left else EXIT_OK
    return show(Answer({**(view or {}), **progress_json(progress)}, exit_status=status))


def say_progress(progress: Progress, now: datetime) -> None:
    """What was done, what needs a person, and what is next; under ``--quiet`` the second alone."""
    from cardsign.issuer.work import advise_passphrases

    first = progress.left[0].command if progress.left else ""
    # The same with the root keys does more: a person types one command.
    same = (gap.command for gap in progress.left if gap.command.startswith(first))
    first = max(same, key=len, default="")
    if first:
        say(f"not finished. Do this: {whole(first)}", asked=True)
    elif progress.left:
        say(f"not finished: it waits for {safe(progress.left[0].who)}", asked=True)
    if advice := advise_passphrases(progress.left):
        say(f"  {advice}", asked=True)
    for line in progress.done:
        say(safe(line, limit=400))
    for line in progress.planned:
        say(f"would {safe(line, limit=400)}")
    if not (progress.done or progress.planned or progress.left):
        say("nothing was due")
    for line in progress.notes:
        say(safe(line, limit=400), asked=True)
    for gap in progress.left:
        _say_gap(gap, first, now)
    if progress.left or progress.planned:
        return  # what comes by itself may wait
    for line in ahead_lines(progress, now):
        say(f"  {line}")


def _say_gap(gap: Gap, first: str, now: datetime) -> None:
    """Who closes a gap and until when, and by which command if that is not the `first`."""
    until = "" if gap.until is None else f", until {second(gap.until, now)}"
    until = ", now" if gap.until is not None and gap.until <= now else until
    say(f"left for {safe(gap.who)}{until}:", asked=True)
    say(f"  {safe(gap.what, limit=600)}", asked=True)
    if gap.command not in first:
        say(f"  next: {whole(gap.command)}", asked=True)


def ahead_lines(progress: Progress, now: datetime) -> Iterator[str]:
    """What is to be done next with the keys and the keyset, and from when on."""
    for step in progress.ahead:
        when = "" if step.due is None else f"from {second(step.due, now)}, "
        due = "now" if step.is_due(now) else f"{when}{step.why}"
        yield safe(f"{step.what}: {due}", limit=400)
    if (renewal := progress.renewal) is not None:
        when = "now" if renewal.is_due(now) else f"from {second(renewal.due, now)}"
        text = f"let the roots sign keyset {renewal.number}: {when}, {renewal.why}"
        yield safe(text, limit=400)


def say_finding(finding: Finding) -> None:
    """What doctor reports, and what to do; under ``--quiet`` errors alone."""
    where = f" ({safe(finding.path)})" if finding.path else ""
    text = f"{finding.severity}: {finding.code}: {safe(finding.message, limit=400)}{where}"
    is_error = finding.severity == "error"
    say(text, asked=is_error)
    say(f"  {finding.hint}", asked=is_error)


# Statements.


def keyset_json(statement: KeysetStatement) -> dict[str, Any]:
    """A keyset statement."""
    recovery = statement.recovery
    return {
        **members(statement, "issuer epoch version digest exp revoked"),
        "keys": [
            {"kid": key.public.kid, "thumbprint": key.public.thumbprint, "roles": list(key.roles)}
            for key in statement.keys
        ],
        "root": [key.public.thumbprint for key in statement.root.keys],
        "threshold": statement.root.threshold,
        "recovery": [key.public.thumbprint for key in recovery.keys] if recovery else None,
    }


def release_json(statement: ReleaseStatement) -> dict[str, Any]:
    """A release statement."""
    return {
        **members(statement, "seq digest exp floor revoked"),
        "keyset": statement.keyset.label,
        "cards": [members(card, "url payload_sha256 seq") for card in statement.cards],
    }


def say_differences(changes: Iterable[str]) -> None:
    """Each change on a line of its own; whole, since it is what a holder signs."""
    for change in changes:
        say(f"  {whole(change)}")


def signing_lines(draft: KeysetDraft) -> list[str]:
    """Who has signed a statement, and how many are missing."""
    lines = []
    for signing in draft.signings:
        signed = ", ".join(sorted(signing.signed)) or "nobody"
        wanting = f"; {signing.missing} missing" if signing.missing else ""
        threshold = signing.quorum.threshold
        lines.append(f"{signing.whose}: {len(signing.signed)} of {threshold} ({signed}){wanting}")
    return lines


# Trusted issuers, and what is known of them.


def say_if_old(keyset: KeysetStatement | None, now: datetime) -> None:
    """Warn of a statement to pin, or of the newest after a pin: the pin itself is older still."""
    if keyset is not None and now.timestamp() - keyset.iat > OLD_PIN.total_seconds():
        say(f"this statement is more than {OLD_PIN.days} days old; ask the issuer for a newer one")


def kind_of(anchor: Anchor) -> str:
    """The member of `[issuer.anchor]` that is there."""
    from cardsign.trust.policyfile import anchor_members

    return next(iter(anchor_members(anchor)))


def issuer_json(issuer: TrustedIssuer) -> dict[str, Any]:
    """What the policy says of an issuer, defaults included."""
    from cardsign.trust.policyfile import anchor_members

    return {
        "name": issuer.name,
        "origins": [str(place) for place in issuer.places or ()],
        "anchor": dict(anchor_members(issuer.anchor)),
        **members(issuer, "accept algorithms require freshness cards peer"),
        "networks": [str(network) for network in issuer.networks],
        "proxy": None if issuer.proxy is None else str(issuer.proxy),
    }


def issuer_lines(issuer: TrustedIssuer) -> Iterator[str]:
    """The same for a person; what is empty is left out."""
    from cardsign.trust.policyfile import anchor_text

    for member, value in issuer_json(issuer).items():
        shown = ", ".join(value) if isinstance(value, list) else value
        if member == "anchor":
            shown = " ".join(anchor_text(issuer.anchor).split())
        if shown:
            yield f"{member:<11} {safe(shown, limit=300)}"


def pin_json(keyset: KeysetStatement) -> dict[str, Any]:
    """What two people compare over another channel."""
    keys = [{"thumbprint": key.public.thumbprint, "holder": key.holder} for key in keyset.root.keys]
    return {
        **members(keyset, "issuer epoch version digest exp"),
        "root": {"threshold": keyset.root.threshold, "keys": keys},
    }


def keyset_lines(keyset: KeysetStatement) -> Iterator[str]:
    """The same for a person."""
    yield f"issuer      {safe(keyset.issuer)}"
    yield f"keyset      {keyset.label}, until {minute(keyset.exp)}"
    yield f"digest      {keyset.digest}"
    for key in keyset.root.keys:
        yield f"root key    {key.public.thumbprint}  {key.holder}"
    holders = len({key.holder for key in keyset.root.keys})
    yield f"threshold   {keyset.root.threshold} of {holders}"


def statement_lines(
    keyset: KeysetStatement | None, release: ReleaseStatement | None
) -> Iterator[str]:
    """Yield the same for a person."""
    if keyset is not None:
        yield from keyset_lines(keyset)
    if release is not None:
        yield f"release     {release.seq}, until {minute(release.exp)}, {release.digest}"


def floor_text(floor: Floor) -> str:
    """Return a lock's entry in one line."""
    keyset, release = floor.keyset, floor.release
    parts = []
    if keyset is not None:
        parts.append(f"keyset {keyset.label} {keyset.digest}")
    if release is not None:
        parts.append(f"release {release.order[2]} {release.digest}")
    return ", ".join(parts) or "nothing verified yet"


def show_refusal(name: str, report: Report) -> int:
    """Show on stderr why there is no card, and return the exit status."""
    view = {"input": name, **report.to_json()}
    from cardsign.verify.text import verdict_lines  # of the views one alone needs a verifier

    lines = verdict_lines(name, report)
    return show(Answer(view, lines, exit_status=report.exit_status), err=True)
