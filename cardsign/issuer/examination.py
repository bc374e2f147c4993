"""What is wrong with an issuer: its gaps, and what only somebody who looks would see."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from datetime import timedelta

from cardsign.errors import CardsignError, FileFault, ServeFault
from cardsign.findings import Finding, Place, Severity
from cardsign.issuer.gaps import find_gaps
from cardsign.issuer.recovery import RECOVER
from cardsign.issuer.work import NOTICE, Work, advise_passphrases, key_holder, unique_gaps
from cardsign.keys.doctor import examine_store
from cardsign.keys.history import check_witnessed, kept_keyset, kept_release
from cardsign.keys.lifecycle import DEFAULT_SETTINGS, TimelineSettings
from cardsign.keys.model import KeyTimes, StoreState
from cardsign.keys.opening import missing_store
from cardsign.publish.generation import load_current
from cardsign.times import second, utc


def examine_issuer(work: Work) -> list[Finding]:
    """Return what is wrong: an error is for a person, a note is advice or done by `keys rotate`.

    No key is opened.

    Raises:
        StoreFault: ``file.busy``; ``keystore.missing``: neither a log nor a key is there.
        FileFault: As :func:`cardsign.keys.doctor.examine_store`.
    """
    if not (work.store.read_lines() or work.store.list_blobs()):
        work.store.load(moved=True)  # which says so where one was seen
        raise missing_store(work.store.place)
    findings = [*examine_store(work.store)]
    try:
        state = work.store.load()
        if state.seq:
            findings += _find_advice(work, state)
            findings += _find_published_damage(work)
            findings += _list_gaps(work)
    except CardsignError as fault:
        if fault.code not in ("keystore.moved", *(finding.code for finding in findings)):
            findings.append(_as_error(fault))
    return findings


def _as_error(fault: CardsignError) -> Finding:
    return replace(fault.finding, severity="error")


def _list_gaps(work: Work) -> Iterator[Finding]:
    is_recovery = False
    for gap in unique_gaps(gap for part in work.by_agent() for gap in find_gaps(part)):
        if is_recovery and gap.close and gap.who != "you":
            continue  # a passphrase alone does nothing before the recovery, which ends with it
        is_recovery |= gap.command.startswith(RECOVER)
        # Cron has the passphrase of releases, and a person that of cards.
        is_ending = gap.until is not None and (
            gap.until <= work.now + NOTICE or gap.who == key_holder("card")
        )
        level: Severity = "error" if gap.is_for_people or is_ending else "note"
        until = f"; until {second(gap.until)}" if gap.until and gap.until > work.now else ""
        command = gap.command or (work.again if gap.close else "")
        fix = f"For {gap.who}: {command}".removesuffix(": ")
        fix = "; ".join(filter(None, (fix, advise_passphrases([gap]))))
        yield Finding("doctor.gap", f"{gap.text}{until}", severity=level, fix=fix)


def _find_published_damage(work: Work) -> Iterator[Finding]:
    """Yield that the log is not the one that was published, or the publication is damaged."""
    check_witnessed(work.store, kept_release(work.store))
    for config in work.config.by_agent():
        try:
            if config.publish is not None:
                load_current(config.publish)
        except (ServeFault, FileFault) as fault:
            if fault.code != "serve.no_generation":
                yield _as_error(fault)


def _find_advice(work: Work, state: StoreState) -> Iterator[Finding]:
    """Yield what nothing has to be done about today."""
    settings = work.config.timeline
    yield from _find_clock(work, state)
    yield from _find_settings(settings)
    yield from _find_missing_standbys(state)
    if state.release is None:
        message = "no release names the newest line of the log yet: only a user who has seen that "
        message += "line would notice that it was taken away"
        yield Finding("doctor.unwitnessed", message, Place(work.store.place), severity="note")
    if work.config.publish is not None and work.config.live is None:
        message = "`live` is not set, so a publication counts once it is in its folder"
        yield Finding("doctor.folder_counts", message, Place("cardsign.toml"), severity="note")


def _find_clock(work: Work, state: StoreState) -> Iterator[Finding]:
    marks = [entry.name for entry in fields(KeyTimes) if entry.name != "stops_signing"]
    times = [time for key in state.keys for name in marks if (time := getattr(key.times, name))]
    times += [publication.at for publication in state.publications]
    times += [
        utc(entry.iat) for entry in (kept_keyset(work.store), kept_release(work.store)) if entry
    ]
    newest = max(times, default=work.now)
    if newest > work.now + timedelta(seconds=work.config.timeline.skew):
        message = f"the store knows of {second(newest)}, and this clock says it is not yet"
        yield Finding("doctor.clock", message, severity="error")


def _find_settings(settings: TimelineSettings) -> Iterator[Finding]:
    for name in ("max_age", "worst_cache", "card_max_age", "skew"):
        value, usual = getattr(settings, name), getattr(DEFAULT_SETTINGS, name)
        if value < usual:
            message = f"timeline.{name} is {value} seconds, less than the usual {usual}"
            yield Finding("doctor.timeline", message, Place("cardsign.toml"), severity="note")
    if settings.rotate_every < max(settings.drain, DEFAULT_SETTINGS.drain).total_seconds():
        every = settings.rotate_every
        message = f"timeline.rotate_every is {every} seconds, less than a rotation takes"
        yield Finding("doctor.timeline", message, Place("cardsign.toml"), severity="note")


def _find_missing_standbys(state: StoreState) -> Iterator[Finding]:
    """Active keys that no other key could replace on the day of their theft."""
    alone: dict[str, list[str]] = {}
    for key in state.keys:
        if key.state != "active" or not key.rotates:
            continue
        standbys = [
            other
            for other in state.keys
            if other.state == "prepublished" and other.succeeds(key) and not other.is_stolen
        ]
        if all(other.group == key.group for other in standbys):
            why = "each standby is in the same custody" if standbys else "there is no standby"
            alone.setdefault(why, []).append(key.named)
    for why, keys in alone.items():
        message = f"after a theft of {' or '.join(keys)}, no key can take over"
        yield Finding("doctor.no_standby", f"{message}: {why}", severity="note")
