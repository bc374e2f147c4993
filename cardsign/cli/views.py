"""How an issuer's values are shown: one JSON view and one text view for each type."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

from cardsign.cli.talk import safe, say
from cardsign.issuer.keyset import KeysetDraft
from cardsign.issuer.publishing import Published
from cardsign.issuer.release import TakenUp
from cardsign.keys.audit import AuditLine
from cardsign.keys.doctor import Finding
from cardsign.keys.keysets import Difference, QuorumSignatures
from cardsign.keys.lifecycle import SHOWN_TIME
from cardsign.keys.model import KeyRecord, KeyTimes
from cardsign.keys.renewal import Renewal
from cardsign.keys.rotation import Step
from cardsign.reasons import hint_for
from cardsign.statements.keyset import KeysetStatement
from cardsign.statements.release import ReleaseStatement


def day(seconds: int) -> str:
    """A statement's time, for people."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"


def iso(time: datetime | None) -> str | None:
    """A time for programs."""
    return time.isoformat() if time else None


def whole(text: str) -> str:
    """What a statement says, for a terminal: escaped as ever, and never shortened."""
    return safe(text, limit=len(text))


# Keys.


def key_json(record: KeyRecord) -> dict[str, Any]:
    """A key: what the state holds of it, times as ISO 8601."""
    times = {field.name: getattr(record.times, field.name) for field in fields(KeyTimes)}
    because = {} if record.revoked_because is None else {"revoked_because": record.revoked_because}
    return {
        "kid": record.kid,
        "alg": record.alg,
        "state": record.state,
        **because,
        "roles": list(record.roles),
        "thumbprint": record.thumbprint,
        "custody": record.custody,
        "private": record.private,
        "created": record.created.isoformat(),
        "times": {name: time.isoformat() for name, time in times.items() if time is not None},
        "public": record.public.jwk(),
    }


def step_json(step: Step) -> dict[str, Any]:
    """A step of a rotation."""
    return {
        "action": step.action,
        "role": step.role,
        "alg": step.alg,
        "kid": step.key.kid if step.key else None,
        "due": iso(step.due),
        "why": step.why,
    }


def step_text(step: Step, now: datetime) -> str:
    """A step of a rotation, and when it is due."""
    if step.is_due(now):
        return f"{step.what}: now"
    when = "" if step.due is None else f"from {step.due:{SHOWN_TIME}}, "
    return safe(f"{step.what}: {when}{step.why}", limit=400)


def renewal_json(renewal: Renewal) -> dict[str, Any]:
    """When the roots have to sign next."""
    return {
        "number": renewal.number,
        "due": renewal.due.isoformat(),
        "why": renewal.why,
        "ends": renewal.ends.isoformat(),
    }


def renewal_text(renewal: Renewal, now: datetime) -> str:
    """When the roots have to sign next."""
    when = "now" if renewal.is_due(now) else f"from {renewal.due:{SHOWN_TIME}}"
    text = f"let the roots sign keyset {renewal.number}: {when}, {renewal.why}"
    return safe(text, limit=400)


def finding_json(finding: Finding) -> dict[str, Any]:
    """What doctor reports."""
    return {
        "code": finding.code,
        "level": finding.level,
        "message": finding.message,
        "path": finding.path,
        "real": iso(finding.real),
        "hint": hint_for(finding.code),
        "fixed": finding.fixed,
    }


def say_finding(finding: Finding) -> None:
    """What doctor reports, and what to do."""
    where = f" ({safe(finding.path)})" if finding.path else ""
    fixed = ", fixed" if finding.fixed else ""
    level = "" if finding.fixed else f"{finding.level}: "
    say(f"{level}{finding.code}: {safe(finding.message, limit=400)}{where}{fixed}")
    if not finding.fixed and (hint := hint_for(finding.code)):
        say(f"  {hint}")


def audit_json(line: AuditLine) -> dict[str, Any]:
    """A line of the audit log."""
    return {
        "seq": line.seq,
        "time": line.time,
        "actor": line.actor,
        "event": line.event,
        "kid": line.kid,
        "details": dict(line.details),
    }


# Statements.


def keyset_json(statement: KeysetStatement) -> dict[str, Any]:
    """A keyset statement."""
    return {
        "issuer": statement.issuer,
        "epoch": statement.epoch,
        "version": statement.version,
        "digest": statement.digest,
        "exp": statement.exp,
        "keys": [
            {"kid": key.public.kid, "thumbprint": key.public.thumbprint, "roles": list(key.roles)}
            for key in statement.keys
        ],
        "root": [key.public.thumbprint for key in statement.root.keys],
        "threshold": statement.root.threshold,
        "recovery": [key.public.thumbprint for key in statement.recovery.keys]
        if statement.recovery
        else None,
        "revoked": sorted(statement.revoked),
    }


def release_json(statement: ReleaseStatement) -> dict[str, Any]:
    """A release statement."""
    return {
        "seq": statement.seq,
        "digest": statement.digest,
        "keyset": f"{statement.keyset.epoch}.{statement.keyset.version}",
        "exp": statement.exp,
        "cards": [
            {"url": card.url, "payload_sha256": card.payload_sha256, "seq": card.seq}
            for card in statement.cards
        ],
        "floor": dict(statement.floor),
        "revoked": sorted(statement.revoked),
    }


def say_differences(changes: Iterable[Difference]) -> None:
    """Each change on a line of its own; whole, since it is what a holder signs."""
    for change in changes:
        say(f"  {whole(str(change))}")


def signing_lines(draft: KeysetDraft) -> list[str]:
    """Who has signed a statement, and how many are missing."""
    return [_signing_text(one) for one in draft.signings]


def _signing_text(one: QuorumSignatures) -> str:
    signed = ", ".join(sorted(one.signed)) or "nobody"
    wanting = f"; {one.missing} missing" if one.missing else ""
    return f"{one.whose}: {len(one.signed)} of {one.quorum.threshold} ({signed}){wanting}"


# Publications.


def say_taken_up(taken: TakenUp) -> None:
    """What was kept of published statements."""
    for number in taken.keysets:
        say(f"took up keyset {number} from what is published")
    if taken.release is not None:
        say(f"took up release {taken.release} from what is published")
    if taken.refusal is not None:
        refusal = taken.refusal
        say(f"what is published is not taken up: {refusal.code}: {safe(refusal.message)}")


def say_updated(published: Published | None, directory: object) -> None:
    """What came of statements that were put into a publication directory, if there is one."""
    if published is None:
        if directory is not None:
            say(
                f"nothing is published in {directory} yet; the statements will go with the first "
                "card"
            )
        return
    if published.generation.created:
        say(f"published generation {published.generation.number} in {directory}")
    say_withheld(published)
    for kid in published.left_out:
        say(f"the published key set lacks {kid}: cardsign publish")
    for kid in published.ended:
        say(f"the published key set still holds {kid}: cardsign publish")
    if published.refusal is not None:
        message = safe(published.refusal.message, limit=400)
        say(f"the published card is not trusted now: {message}")
        say("  next: sign it again, list it and publish it")


def say_withheld(published: Published) -> None:
    """Which keyset statement is not published yet, and what it waits for."""
    if published.withheld:
        say(
            f"keyset {published.withheld} is withheld from what is published until a release "
            "speaks of it"
        )
        say("  next: cardsign release renew")
