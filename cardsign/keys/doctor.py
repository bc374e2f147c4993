"""What is wrong with a key store, what will be, and the fixes that are safe.

Safe to fix is what nothing refers to, and permissions that are too wide. Nothing here decides
what became of a key: a lost private key or a broken log is reported, not fixed.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

from cardsign.card.document import Card
from cardsign.card.extensions import find_marker
from cardsign.card.strictjson import MAX_CARD_BYTES
from cardsign.errors import CardsignError, FileFault, StoreFault
from cardsign.files import read_bytes, remove, set_mode
from cardsign.findings import Finding, Place, Severity
from cardsign.keys.agenda import steps
from cardsign.keys.drafts import (
    card_digest,
    keyset_due,
    quorum_signatures,
    says_more,
    waiting_draft,
)
from cardsign.keys.folder import (
    BLOB,
    LOCK_FILE,
    LOG_FILE,
    PRIVATE_FOLDER,
    STATEMENTS_FOLDER,
    FolderStore,
)
from cardsign.keys.history import (
    StatementHistory,
    awaits_recovery,
    check_witnessed,
    has_ended,
    holders_left,
    stolen_with,
    unlisted_roots,
)
from cardsign.keys.lifecycle import DEFAULT_SETTINGS, TimelineSettings, cards_to_sign
from cardsign.keys.model import (
    ENDED,
    KeyTimes,
    StoreState,
    private_blob,
)
from cardsign.keys.store import KeyStore
from cardsign.statements.envelope import MAX_STATEMENT_BYTES
from cardsign.statements.keyset import KeysetStatement
from cardsign.statements.release import ReleaseStatement
from cardsign.times import second, utc


def _alarm(code: str, message: str, path: str = "") -> Finding:
    """Return what a person should act upon."""
    return Finding(code, message, Place(path), severity="error")


def _note(code: str, message: str, path: str = "") -> Finding:
    """Return what a person should know."""
    return Finding(code, message, Place(path), severity="note")


# What will go wrong with keys and statements if nobody acts, and from when on. Pure.


#: How long before the end of a listed key or an extended card someone must act; of a card at most
#: a quarter of its time.
NOTICE: Final = timedelta(days=14)


_ENDED: Final = _note(
    "doctor.ended", "this issuer has ended: every card and release key has been revoked"
)


@dataclass(frozen=True, slots=True)
class Examined:
    """A key store's state, and the files around it.

    Attributes:
        untrusted_draft: What waits for the roots to sign it, as bytes, or None.
        draft_file: Where that lies.
        untrusted_cards: Signed cards of the issuer by their place, of which extended ones end.
    """

    state: StoreState
    keyset: KeysetStatement | None = None
    release: ReleaseStatement | None = None
    untrusted_draft: bytes | None = None
    draft_file: str = ""
    untrusted_cards: Mapping[str, bytes] = field(default_factory=dict)


def coming_findings(
    known: Examined, settings: TimelineSettings, now: datetime, within: timedelta
) -> tuple[Finding, ...]:
    """Say what is due, what will end, and what would be missing on the day of a theft.

    What becomes real `within` that time is an alarm today.
    """
    if has_ended(known.state, known.keyset):
        # What is left is cron's: it destroys keys, and no person has to act.
        left = _due(known.state, settings, now, timedelta())
        return (*_clock(known, now, settings), *left, _ENDED)
    return (
        *_clock(known, now, settings),
        *_settings(settings),
        *_without_card_key(known.state),
        *_due(known.state, settings, now, within),
        *_stolen_with(known),
        *_standbys(known.state),
        *_cards(known.state, now),
        *_extended_cards(known, now, within),
        *(_keyset(known, known.keyset, now, within) if known.keyset else ()),
        *(_listed_keys(known.keyset, now, within) if known.keyset else ()),
        *(_release(known, known.keyset, now, within) if known.keyset else ()),
    )


def _clock(known: Examined, now: datetime, settings: TimelineSettings) -> Iterator[Finding]:
    times = [
        time
        for key in known.state.keys
        for name in (one.name for one in fields(KeyTimes))
        if name != "stops_signing" and (time := getattr(key.times, name)) is not None
    ]
    times += [publication.at for publication in known.state.publications]
    times += [utc(one.iat) for one in (known.keyset, known.release) if one]
    newest = max(times, default=now)
    if newest > now + timedelta(seconds=settings.skew):
        message = f"the store knows of {second(newest)}, and this clock says it is not yet"
        yield _alarm("doctor.clock", message)


def _settings(settings: TimelineSettings) -> Iterator[Finding]:
    for name in ("max_age", "worst_cache", "card_max_age", "skew"):
        value, usual = getattr(settings, name), getattr(DEFAULT_SETTINGS, name)
        if value < usual:
            message = f"timeline.{name} is {value} seconds, less than the usual {usual}"
            yield _note("doctor.timeline", message, "cardsign.toml")
    if settings.rotate_every < max(settings.drain, DEFAULT_SETTINGS.drain).total_seconds():
        every = settings.rotate_every
        message = f"timeline.rotate_every is {every} seconds, less than a rotation takes"
        yield _note("doctor.timeline", message, "cardsign.toml")


def _without_card_key(state: StoreState) -> Iterator[Finding]:
    if _no_card_key(state):
        message = "no key signs cards"
        waiting = [key for key in state.keys if key.state in ("generated", "prepublished")]
        if any("card" in key.roles for key in waiting):
            message += " until the next one is active; with roots, once they have listed it"
        yield _alarm("doctor.no_active_key", message)


def _no_card_key(state: StoreState) -> bool:
    """Whether there were keys to sign cards, and none is active: after a theft, say."""
    return not state.active_keys() and any("card" in key.roles for key in state.keys)


def _due(
    state: StoreState, settings: TimelineSettings, now: datetime, within: timedelta
) -> Iterator[Finding]:
    for step in steps(state, settings, now):
        due = step.due
        if due is not None and step.action == "generate":
            # Lawful at once, but needed only in time for caches to learn the key.
            due += max(timedelta(), timedelta(seconds=settings.rotate_every) - 2 * settings.drain)
        if due is not None and due <= now + within:
            when = "is due" if due <= now else f"will be due at {second(due)}"
            level: Severity = "error" if within else "note"
            yield Finding("doctor.due", f"{step.what}: {when}", severity=level)


def _stolen_with(known: Examined) -> Iterator[Finding]:
    """Keys that a thief may have taken with a stolen one, and that still count."""
    others, only = stolen_with(known.state, known.keyset)
    if keys := [*others, *only]:
        names = ", ".join(key.named for key in keys)
        message = f"{names} may be stolen too: stored beside a stolen key, and not replaced yet"
        yield _alarm("doctor.may_be_stolen", message)


def _standbys(state: StoreState) -> Iterator[Finding]:
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
        what = f"after a theft of {' or '.join(keys)}, no key can take over"
        yield _note("doctor.no_standby", f"{what}: {why}")


def _cards(state: StoreState, now: datetime) -> Iterator[Finding]:
    """Published cards that hold up a rotation, or bear what a revoked key has signed."""
    stops = [key.times.stops_signing for key in state.keys if key.state == "retiring"]
    late = any(time is not None and time <= now for time in stops)
    revoked = {key.kid for key in state.keys if key.state == "revoked"}
    for card in cards_to_sign(state, now):
        level: Severity = "error" if late or not revoked.isdisjoint(card.kids) else "note"
        message = "this published card has to be signed again"
        place = Place(card.url or card.name)
        yield Finding("doctor.cards_unsigned", message, place, severity=level)


def _extended_cards(known: Examined, now: datetime, within: timedelta) -> Iterator[Finding]:
    """Extended cards that have ended or soon will; one that cannot be read is told as well."""
    first = {
        card.payload_sha256: card.since or one.at
        for one in known.state.publications
        for card in one.cards
    }
    seen: set[str] = set()  # a card may lie in the project and in the publication
    for place, untrusted_bytes in known.untrusted_cards.items():
        try:
            marker = find_marker(Card.from_bytes(untrusted_bytes).document)
            digest = card_digest(untrusted_bytes)
        except CardsignError as refusal:
            yield _alarm("doctor.card_ends", f"cannot be read: {refusal.message}", place)
            continue
        if marker is None or digest in seen:
            continue
        seen.add(digest)
        ends = utc(marker.exp)
        at = first.get(digest)
        notice = timedelta() if at is None else min(NOTICE, (ends - at) / 4)
        if ends <= now:
            message = f"this extended card ended at {second(ends)}; nobody is given it"
        elif ends <= now + max(within, notice):
            message = f"this extended card ends at {second(ends)}"
        else:
            continue
        yield _alarm("doctor.card_ends", message, place)


def _keyset(
    known: Examined, keyset: KeysetStatement, now: datetime, within: timedelta
) -> Iterator[Finding]:
    for root in unlisted_roots(known.state, keyset):
        message = f"{root.named} is not in keyset {keyset.label}, so it counts for nothing yet"
        yield _alarm("doctor.root_unlisted", message)
    if awaits_recovery(known.state, keyset):
        return  # who lost the old roots cannot sign with them
    left, needed = len(holders_left(keyset.root, known.state)), keyset.root.threshold
    if left < needed:
        message = f"too few holders of root keys are left: {left} of the {needed} that are needed"
        yield _alarm("doctor.roots_ended", message)
    told = keyset_due(known.state, keyset, now=now)
    if told.due > now + within:
        return
    ends = f"without it no card is trusted from {second(told.ends)} on"
    if _no_card_key(known.state):
        ends = "no card is trusted before that"
    draft = waiting_draft(known.state, keyset, known.untrusted_draft, now=now)
    if draft is not None:
        missing = max(one.missing for one in quorum_signatures(draft, keyset))
        need = "publish it"
        if missing:
            need = f"{missing} more holder{'s have' if missing > 1 else ' has'} to sign it"
        stale = keyset_due(known.state, draft, now=now).due
        message = (
            f"keyset {told.number} waits here: {need}; {ends}. From {second(stale)} on "
            "another is drafted in its place, and all have to sign again"
        )
        yield _alarm("doctor.draft_waits", message, known.draft_file)
        if more := says_more(known.state, keyset, draft, now=now):
            message = (
                f"it says what nobody here has drafted ({len(more)}): cardsign keys rotate shows it"
            )
            yield _alarm("rotate.draft_says_more", message, known.draft_file)
    else:
        when = "now" if told.is_due(now) else f"from {second(told.due)} on"
        message = f"the roots have to sign keyset {told.number} {when}: {told.why}; {ends}"
        yield _alarm("doctor.keyset_due", message)


def _listed_keys(keyset: KeysetStatement, now: datetime, within: timedelta) -> Iterator[Finding]:
    """Listed keys that end before their keyset: no draft of this store prolongs another's keys."""
    for key in keyset.keys:
        ends = utc(key.exp)
        if key.exp < keyset.exp and ends <= now + max(within, NOTICE):
            what = f"{key.named} of {key.holder}"
            message = f"{what} counts until {second(ends)}, and keyset statements go on"
            yield _alarm("doctor.key_ends", message)


def _release(
    known: Examined, keyset: KeysetStatement, now: datetime, within: timedelta
) -> Iterator[Finding]:
    release = known.release
    if awaits_recovery(known.state, keyset):
        return
    if not any("release" in key.roles for key in known.state.keys):
        return  # a holder of nothing but a root key has none to renew
    if release is None:
        yield _alarm("doctor.release_due", "there is no release; no card is current")
        return
    ends = utc(release.exp)
    what = f"release {release.seq} ends at {second(ends)}, and with it every card"
    if release.keyset.digest != keyset.digest:
        older, newest = release.keyset.label, keyset.label
        message = f"release {release.seq} speaks of keyset {older}, and {newest} is the newest"
        yield _alarm("doctor.release_due", message)
    elif release.iat <= now.timestamp() and now >= release.renew_at:
        message = f"{what}; half of its time is over, so cron has not renewed it"
        yield _alarm("doctor.release_due", message)
    elif within and ends <= now + within:
        yield _note("doctor.release_due", f"{what}; cron will renew it")


#: What the folder shows, and what repairs it where that is safe.
_Found: TypeAlias = tuple[Finding, Callable[[], None] | None]
_TEMPORARY: Final = re.compile(r"\.[^/]+\.[0-9a-f]{16}\.tmp")
_SHARED_BITS: Final = 0o077
_WRITABLE_BITS: Final = 0o022
_OURS: Final = frozenset({LOG_FILE, LOCK_FILE, PRIVATE_FOLDER, STATEMENTS_FOLDER})


def examine_store(
    store: KeyStore,
    *,
    settings: TimelineSettings,
    now: datetime,
    expires_within: timedelta = timedelta(0),
    draft: Path | None = None,
    cards: Iterable[Path] = (),
    fix: bool = False,
) -> tuple[Finding, ...]:
    """Look for everything that this module knows of, and fix what is safe to fix if asked.

    A store in files is held alone meanwhile, so nothing that is under way is taken for a
    leftover. A database holds nothing that is half done. `draft` is where a keyset statement may
    wait for the roots; `cards` are the issuer's signed cards, as far as they are there.

    Raises:
        StoreFault: ``file.busy``.
        FileFault: The directory cannot be read, or what was to be fixed not be written.
    """
    found: list[_Found] = []
    with store.alone() if isinstance(store, FolderStore) else nullcontext():
        private = store.list_blobs()  # first: what is there is named by then, or is a leftover
        try:
            state = store.load(moved=True)
        except (StoreFault, FileFault) as fault:
            state = StoreState()
            found.append((_alarm(fault.code, fault.message, fault.path), None))
        if state.moved_to is None and not found:
            found += _private_keys(store, state, private)
        if isinstance(store, FolderStore):
            found = [*_leftovers(store), *found, *_modes(store)]
        findings = tuple(_repair(finding, repair if fix else None) for finding, repair in found)
    if not state.seq:
        return findings
    if state.moved_to is not None:  # nothing is due here any more
        return (_moved(store, state.moved_to), *findings)
    known, broken = _known(store, state, draft, cards)
    return (*findings, *broken, *coming_findings(known, settings, now, expires_within))


def _repair(finding: Finding, repair: Callable[[], None] | None) -> Finding:
    if repair is None:
        return finding
    repair()
    message, fix = f"fixed: {finding.message}", "Nothing is left to do."
    return replace(finding, message=message, fix=fix, severity="note")


def _moved(store: KeyStore, to: str) -> Finding:
    """A store that moved, and the private keys that a thief of this machine still finds."""
    message, private = f"this key store moved to {to}", _private_of(store)
    if private:
        where = store.place_of(f"{PRIVATE_FOLDER}/*.key")
        message += (
            f"; its private keys ({len(private)}) still lie here, encrypted. Once the new one has "
            f"signed and has a backup, destroy them: delete {where}"
        )
    return (_alarm if private else _note)("doctor.moved", message, store.place)


def _private_of(store: KeyStore) -> frozenset[str]:
    return frozenset(name for name in store.list_blobs() if name.startswith(PRIVATE_FOLDER))


def _leftovers(store: FolderStore) -> Iterator[_Found]:
    """Files that a killed process left, and files that are not ours."""
    for folder in (store.path, store.path / PRIVATE_FOLDER, store.path / STATEMENTS_FOLDER):
        for entry in sorted(folder.iterdir()) if folder.is_dir() else ():
            name = entry.relative_to(store.path).as_posix()
            if _TEMPORARY.fullmatch(entry.name):
                # No alarm: nothing refers to it, and no later command is hindered by it.
                message = "a killed process left this file"
                yield _note("doctor.leftover", message, str(entry)), partial(remove, entry)
            elif name not in _OURS and not BLOB.fullmatch(name):
                message = "cardsign did not write this"
                yield _note("doctor.stranger", message, str(entry)), None


def _private_keys(store: KeyStore, state: StoreState, blobs: frozenset[str]) -> Iterator[_Found]:
    """Private keys that nothing names, and names without one; an ended key needs none."""
    private = {name for name in blobs if name.startswith(PRIVATE_FOLDER)}
    for name in sorted(private - state.private_blobs()):
        message = "this private key belongs to no key of the store"
        repair = partial(store.drop_blobs, [name])
        yield _alarm("doctor.leftover", message, store.place_of(name)), repair
    for key in state.keys:
        name = private_blob(key.blob or "")
        if key.private == "held" and key.state not in ENDED and name not in private:
            message = f"the private key of {' and '.join(key.roles)} key {key.kid!r} is not here"
            where = store.place_of(name)
            yield _alarm("doctor.private_missing", message, where), None


def _modes(store: FolderStore) -> Iterator[_Found]:
    """Private files that others can reach, told together, and links in their places."""
    directory = store.path / PRIVATE_FOLDER
    private = sorted(directory.iterdir()) if directory.is_dir() else []
    writable: dict[Path, int] = {}
    readable: dict[Path, int] = {}  # key files are encrypted, and a checkout by git is readable
    for entry in [store.log, directory, *private]:
        if entry.is_symlink():
            yield _alarm("doctor.symlink", "this is a symbolic link", str(entry)), None
        elif entry.exists() and (mode := stat.S_IMODE(entry.stat().st_mode)) & _SHARED_BITS:
            (writable if mode & _WRITABLE_BITS else readable)[entry] = mode
    for report, modes in ((_alarm, writable), (_note, readable)):
        if modes:
            first, message = _too_open(modes)
            yield report("doctor.permissions", message, str(first)), partial(_close_modes, modes)


def _close_modes(modes: Mapping[Path, int]) -> None:
    for entry, mode in modes.items():
        if entry.exists():  # it may have been a leftover, which is gone by now
            set_mode(entry, mode & ~_SHARED_BITS)


def _too_open(modes: Mapping[Path, int]) -> tuple[Path, str]:
    first, *more = modes
    message = f"group or others can access this (mode {modes[first]:04o})"
    if more:
        others = "another file" if len(more) == 1 else f"{len(more)} other files"
        message += f", and {others} of the key store"
    return first, message


def _known(
    store: KeyStore, state: StoreState, draft: Path | None, cards: Iterable[Path]
) -> tuple[Examined, tuple[Finding, ...]]:
    """The store with the files around it; without them if that cannot be relied on."""
    history = StatementHistory(store, state)
    try:
        keyset, release = history.newest_keyset(), history.newest_release()
        check_witnessed(store, release)
        waiting = None
        if draft is not None and keyset is not None and draft.is_file():
            waiting = read_bytes(draft, max_bytes=MAX_STATEMENT_BYTES)
        signed = {
            str(card): read_bytes(card, max_bytes=MAX_CARD_BYTES)
            for card in cards
            if card.is_file()
        }
    except (StoreFault, FileFault) as fault:
        return Examined(state), (_alarm(fault.code, fault.message, fault.path),)
    return Examined(state, keyset, release, waiting, str(draft or ""), signed), ()
