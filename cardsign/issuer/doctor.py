"""What is wrong with an issuer: its files, its gaps, and what only somebody who looks would see.

Each finding says what a person does about it.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from cardsign.errors import CardsignError, FileFault, ServeFault, StoreFault
from cardsign.findings import Finding, Place, Severity
from cardsign.issuer.reconcile import find_gaps
from cardsign.issuer.work import NOTICE, RECOVER, Work, key_holder, unique_gaps
from cardsign.keys.history import check_witnessed
from cardsign.keys.ledger import ENDED, StoreState, private_blob
from cardsign.keys.store import PRIVATE_FOLDER, FolderStore, KeyStore, missing_store
from cardsign.publish.generation import load_current
from cardsign.times import read_stamp, second


def examine_issuer(work: Work) -> list[Finding]:
    """Return what is wrong: an error is for a person, a note is advice or done by `keys rotate`.

    No key is opened.

    Raises:
        StoreFault: ``file.busy``; ``keystore.missing``: neither a log nor a key is there.
        FileFault: As :func:`cardsign.issuer.doctor.examine_store`.
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
        command = gap.command or (work.again if gap.close or gap.who == "you" else "")
        fix = f"For {gap.who}: {command}".removesuffix(": ")
        yield Finding("doctor.gap", f"{gap.text}{until}", severity=level, fix=fix)


def _find_published_damage(work: Work) -> Iterator[Finding]:
    """Yield that the log is not the one that was published, or the publication is damaged."""
    check_witnessed(work.store, work.release)
    for part in work.by_agent():
        try:
            if part.config.publish is not None:
                load_current(part.config.publish)
        except (ServeFault, FileFault) as fault:
            if fault.code != "serve.no_generation":
                yield _as_error(fault)


def _find_advice(work: Work, state: StoreState) -> Iterator[Finding]:
    """Yield what no gap says: a clock that is behind, and what guards less than it could."""
    newest = read_stamp(json.loads(work.store.read_lines()[-1])["time"])
    if newest > work.now + timedelta(seconds=work.config.timeline.skew):
        message = f"the newest line of the log is of {second(newest)}, and this clock says it is "
        yield Finding("doctor.clock", f"{message}not yet", severity="error")
    if state.release is None:
        message = "no release names the newest line of the log yet: only a user who has seen that "
        message += "line would notice that it was taken away"
        yield Finding("doctor.unwitnessed", message, Place(work.store.place), severity="note")
    if work.config.publish is not None and work.config.live is None:
        message = (
            "`live` is not set, so what is published counts as served once it is in its folder"
        )
        yield Finding("doctor.folder_counts", message, Place("cardsign.toml"), severity="note")


# The files of a key store.


def examine_store(store: KeyStore) -> tuple[Finding, ...]:
    """Look at the log and at the files.

    A store in files is held alone meanwhile, so nothing that is under way is taken for a leftover.

    Raises:
        StoreFault: ``file.busy``.
        FileFault: The directory cannot be read.
    """
    with store.alone():
        blobs = store.list_blobs()  # first: what is there is named by then, or is a leftover
        private = frozenset(name for name in blobs if name.startswith(PRIVATE_FOLDER))
        try:
            state = store.load(moved=True)
        except (StoreFault, FileFault) as fault:
            findings = [_alarm(fault.code, fault.message, fault.path, fault.finding.fix)]
        else:
            findings = [*_find_damage(store, state, private)]
        if isinstance(store, FolderStore):
            findings += _find_leftovers(store)
            findings += _find_modes(store)
        return tuple(findings)


def _alarm(code: str, message: str, path: str, fix: str = "") -> Finding:
    """Return what a person should act upon."""
    return Finding(code, message, Place(path), severity="error", fix=fix)


def _find_damage(store: KeyStore, state: StoreState, private: frozenset[str]) -> Iterator[Finding]:
    """Yield private keys that no key has, that are damaged, or missing; an ended key needs none."""
    if state.moved_to is not None:
        message = f"this key store moved to {state.moved_to}"
        level: Severity = "error" if private else "note"
        if private:
            where = store.place_of(f"{PRIVATE_FOLDER}/*.key")
            message += (
                f"; its private keys ({len(private)}) still lie here, encrypted. Once the new one "
                f"has signed and has a backup, destroy them: delete {where}"
            )
        yield Finding("doctor.moved", message, Place(store.place), severity=level)
        return
    for name in sorted(private - state.private_blobs()):
        message = "no key in the log has this private key"
        fix = "Delete it, unless an older log was put back here: then put back the newest one."
        yield _alarm("doctor.leftover", message, store.place_of(name), fix)
    for key in state.keys:
        name = private_blob(key.blob or "")
        message = f"the private key of {' and '.join(key.roles)} key {key.kid!r} is"
        if key.private == "held" and name in private:
            try:
                store.checked_blob(name)
            except CardsignError as fault:
                message = f"{message} damaged: {fault.message}"
                if fault.code != "file.not_plain":  # which is found below
                    yield _alarm("doctor.private_missing", message, store.place_of(name))
        elif key.private == "held" and key.state not in ENDED:
            yield _alarm("doctor.private_missing", f"{message} not here", store.place_of(name))


def _find_leftovers(store: FolderStore) -> Iterator[Finding]:
    """Yield files that a killed process left; nothing refers to them, and they hinder nobody."""
    for path in sorted(store.path.rglob(".*.tmp")):
        message = "a killed process left this file"
        yield Finding("doctor.leftover", message, Place(str(path)), severity="note")


def _find_modes(store: FolderStore) -> Iterator[Finding]:
    """Yield links in the places of files, and in one finding what others can reach."""
    directory = store.path / PRIVATE_FOLDER
    exposed: dict[Path, bool] = {}
    for path in (store.log, directory, *sorted(directory.glob("*"))):
        if path.is_symlink():
            yield _alarm("doctor.symlink", "this is a symbolic link", str(path))
        elif path.exists() and (mode := path.stat().st_mode) & 0o077:
            exposed[path] = bool(mode & 0o022)
    if exposed:
        # Key files are encrypted, and a checkout by git is readable.
        first = max(exposed, key=lambda path: exposed[path])
        level: Severity = "error" if exposed[first] else "note"
        message = "group or others can access this"
        message += f", and {len(exposed) - 1} more of the key store" if len(exposed) > 1 else ""
        fix = f"Run: chmod -R go= {shlex.quote(str(store.path))}"
        yield Finding("doctor.permissions", message, Place(str(first)), severity=level, fix=fix)
