"""Enrolments, statements and memories in words, for the commands of `cardsign trust`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from cardsign.cli.talk import safe, say
from cardsign.statements.keyset import KeysetStatement
from cardsign.trust.lock import RollbackFloor
from cardsign.trust.policy import Anchor, Enrolment
from cardsign.trust.policyedit import anchor_members, anchor_text
from cardsign.trust.state import IssuerState

#: A pin that old lets many retired root keys begin a history of their own (threats.md 2).
OLD_PIN: Final = timedelta(days=365)


def say_if_old(keyset: KeysetStatement | None, now: datetime) -> None:
    """Warn of a statement to pin, or of the newest after a pin: the pin itself is older still."""
    if keyset is not None and now.timestamp() - keyset.iat > OLD_PIN.total_seconds():
        say(f"this statement is more than {OLD_PIN.days} days old; ask the issuer for a newer one")


def kind_of(anchor: Anchor) -> str:
    """The member of `[issuer.anchor]` that is there."""
    return next(iter(anchor_members(anchor)))


def enrolment_members(enrolment: Enrolment) -> dict[str, Any]:
    """What the policy says of an issuer, defaults included."""
    return {
        "name": enrolment.name,
        "origins": [str(place) for place in enrolment.places or ()],
        "anchor": dict(anchor_members(enrolment.anchor)),
        "profiles": list(enrolment.profiles),
        "algorithms": list(enrolment.algorithms),
        "require": list(enrolment.require),
        "unsigned": enrolment.unsigned,
        "freshness": enrolment.freshness,
        "cards": list(enrolment.cards),
        "peer": enrolment.peer,
    }


def enrolment_lines(enrolment: Enrolment) -> Iterator[str]:
    """The same for a person; what is empty is left out."""
    for member, value in enrolment_members(enrolment).items():
        shown = ", ".join(value) if isinstance(value, list) else value
        if member == "anchor":
            shown = " ".join(anchor_text(enrolment.anchor).split())
        if shown:
            yield f"{member:<11} {safe(shown, limit=300)}"


def known_members(known: IssuerState) -> dict[str, Any]:
    """What is remembered of an issuer; statements by number and digest."""
    keyset, release = known.keyset, known.release
    return {
        "keyset": None if keyset is None else keyset_members(keyset),
        "release": None
        if release is None
        else {"seq": release.seq, "digest": release.digest, "exp": release.exp},
        "newest_iat": known.newest_iat,
        "keys": None if known.jwks is None else [key.kid for key in known.jwks.keys],
        "first_contact": None if known.first_contact is None else known.first_contact.to_json(),
        "signed_before": known.signed_before,
        "cards": list(known.cards),
    }


def keyset_members(keyset: KeysetStatement) -> dict[str, Any]:
    """What two people compare over another channel."""
    return {
        "issuer": keyset.issuer,
        "epoch": keyset.epoch,
        "version": keyset.version,
        "digest": keyset.digest,
        "exp": keyset.exp,
        "root": {
            "threshold": keyset.root.threshold,
            "keys": [
                {"thumbprint": key.public.thumbprint, "holder": key.holder}
                for key in keyset.root.keys
            ],
        },
    }


def keyset_lines(keyset: KeysetStatement) -> Iterator[str]:
    """The same for a person."""
    yield f"issuer      {safe(keyset.issuer)}"
    yield f"keyset      {keyset.epoch}.{keyset.version}, until {_date(keyset.exp)}"
    yield f"digest      {keyset.digest}"
    for key in keyset.root.keys:
        yield f"root key    {key.public.thumbprint}  {key.holder}"
    holders = len({key.holder for key in keyset.root.keys})
    yield f"threshold   {keyset.root.threshold} of {holders}"


def known_lines(known: IssuerState) -> Iterator[str]:
    """What is remembered of an issuer, for a person."""
    if known.keyset is not None:
        yield from keyset_lines(known.keyset)
    if known.release is not None:
        release = known.release
        yield f"release     {release.seq}, until {_date(release.exp)}, {release.digest}"
    if known.jwks is not None:
        kids = ", ".join(safe(key.kid, limit=64) for key in known.jwks.keys)
        yield f"keys        {kids or 'none'}"
    if known.cards:
        yield f"cards       {len(known.cards)} seen, the last one at {safe(known.cards[-1])}"
    yield f"signed      {'a signed card was seen' if known.signed_before else 'none seen yet'}"


def floor_text(floor: RollbackFloor) -> str:
    """A floor in one line."""
    keyset, release = floor.keyset, floor.release
    parts = []
    if keyset is not None:
        parts.append(f"keyset {keyset.epoch}.{keyset.version} {keyset.digest}")
    if release is not None:
        parts.append(f"release {release.order[2]} {release.digest}")
    return ", ".join(parts) or "nothing seen yet"


def _date(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"
