"""``cardsign peers status``: how issuers stand, from memory alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from cardsign.cli.options import json_option
from cardsign.cli.outcome import reason_of_failure
from cardsign.cli.policy import (
    LoadedPolicy,
    directory_memory,
    needed_policy,
    state_option,
    trust_option,
)
from cardsign.cli.talk import print_json, safe, say
from cardsign.cli.trust_showing import kind_of
from cardsign.errors import EXIT_LOCAL_FAULT, EXIT_NOT_TRUSTED, EXIT_OK, StateFault
from cardsign.reasons import Reason
from cardsign.trust.known import Known
from cardsign.trust.outlook import Outlook, outlook
from cardsign.trust.policy import Enrolment


@dataclass(frozen=True, slots=True)
class _Seen:
    """One issuer, as this machine remembers him."""

    enrolment: Enrolment
    known: Known | None
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
        signed = max(self.known.newest_iat, self.known.floor.newest_iat) if self.known else 0
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
            yield f"  keyset      {said['keyset']['number']}, until {_date(said['keyset']['exp'])}"
        if said["release"]:
            yield f"  release     {said['release']['seq']}, until {_date(said['release']['exp'])}"
        if said["last_signed"]:
            yield f"  last signed {_date(said['last_signed'])}"
        for url in self.enrolment.cards:
            seen = "" if url in said["seen"] or _has_below(url, said["seen"]) else ", not seen yet"
            yield f"  card        {safe(url)}{seen}"
        for alarm in self.alarms:
            yield f"  {alarm.code}: {safe(alarm.message, limit=300)}"
            yield f"      {safe(alarm.hint, limit=300)}"


@click.command(short_help="Say how the issuers stand, from memory alone.")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@trust_option
@state_option
@json_option
def status(
    names: tuple[str, ...], trust_file: Path | None, state_dir: Path | None, as_json: bool
) -> int:
    """Say how all issuers stand, or those named, by what is remembered; nobody is asked.

    Exit status: 0 no required peer needs anybody; 1 one does, or soon will; 2 a memory is missing
    or cannot be read. Optional peers change nothing of it.
    """
    loaded = needed_policy(trust_file)
    chosen = [loaded.enrolment(name) for name in dict.fromkeys(names)]
    now = datetime.now(UTC)
    found = [_seen(loaded, state_dir, one, now) for one in chosen or loaded.policy.enrolments]
    if as_json:
        print_json([one.to_json() for one in found])
    else:
        for one in found:
            click.echo("\n".join(one.lines()))
        if not found:
            say(f"{loaded.path} trusts nobody")
    return max((one.exit_status for one in found), default=EXIT_OK)


def _seen(
    loaded: LoadedPolicy, state_dir: Path | None, enrolment: Enrolment, now: datetime
) -> _Seen:
    try:
        known, notes = directory_memory(state_dir, loaded.floors).recall(enrolment)
    except StateFault as fault:  # what is wrong with a memory is part of the answer
        return _Seen(enrolment, None, None, (reason_of_failure(fault),))
    ahead = outlook(enrolment, loaded.policy.limits, known, now=now)
    return _Seen(enrolment, known, ahead, (*notes, *ahead.alarms))


def _has_below(url: str, seen: list[str]) -> bool:
    """Whether a card was seen at one of the paths that a host's URL stands for."""
    return url.endswith("/") and any(one.startswith(url + ".well-known/") for one in seen)


def _date(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"
