"""What is wrong with an issuer: its files, its gaps, and what only somebody who looks would see.

Each finding says what a person does about it.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Set
from dataclasses import replace

from cardsign.errors import CardsignError, FileFault, ServeFault, StoreFault
from cardsign.findings import Finding, Place, Severity
from cardsign.issuer.reconcile import list_gaps
from cardsign.issuer.work import NOTICE, RECOVER, Work, key_holder
from cardsign.keys.history import check_witnessed
from cardsign.keys.ledger import ENDED, StoreState, private_blob
from cardsign.keys.store import PRIVATE_FOLDER, FolderStore, KeyStore, missing_store
from cardsign.publish.generation import load_current
from cardsign.times import second


def examine_issuer(work: Work) -> list[Finding]:
    """Return what is wrong: an error is for a person, a note is advice or done by `keys rotate`.

    No key is opened.

    Raises:
        StoreFault: ``file.busy``; ``keystore.missing``: neither a log nor a key is there.
        FileFault: As :func:`cardsign.issuer.doctor.examine_store`.
    """
    if not (work.store.read_lines() or work.store.list_blobs()):
        work.store.load(moved=True)  # which says so where one was seen
        raise missing_store(work.store.place, is_begun=work.config.issuer is not None)
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
    for gap in list_gaps(work):
        if is_recovery and gap.close and gap.who != "you":
            continue  # a passphrase alone does nothing before the recovery, which ends with it
        is_recovery |= RECOVER in gap.command
        # Cron has the passphrase of releases, and a person that of cards.
        is_ending = gap.until is not None and (
            gap.until <= work.now + NOTICE or gap.who == key_holder("card")
        )
        is_for_people = gap.awaits_roots or is_ending or not gap.close
        level: Severity = "error" if is_for_people else "note"
        # First, as a long text is cut.
        until = f"by {second(gap.until)}: " if gap.until and gap.until > work.now else ""
        command = gap.command or (work.again if gap.close else "")
        fix = f"For {gap.who}: {command}".removesuffix(": ")
        yield Finding("doctor.gap", f"{until}{gap.text}", severity=level, fix=fix)


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
    """Yield what no gap says: what guards less than it could."""
    if state.release is None:
        message = "no release records yet where the log ends, so its last lines could be removed "
        message += "unnoticed"
        yield Finding("doctor.unwitnessed", message, Place(work.store.place), severity="note")
    if work.config.publish is not None and work.config.live is None:
        message = "`live` is not set, so what is in the publication folder counts as served"
        yield Finding("doctor.folder_counts", message, Place("cardsign.toml"), severity="note")


# The files of a key store.


def examine_store(store: KeyStore) -> list[Finding]:
    """Look at the log and at the files.

    A store in files is held alone meanwhile, so nothing that is under way is taken for a leftover.

    Raises:
        StoreFault: ``file.busy``.
        FileFault: The directory cannot be read.
    """
    with store.alone():
        blobs = store.list_blobs()  # first: what is there is named by then, or is a leftover
        private = {name for name in blobs if name.startswith(PRIVATE_FOLDER)}
        exposed = [*_find_exposed(store)] if isinstance(store, FolderStore) else []
        try:
            state = store.load(moved=True)
        except (StoreFault, FileFault) as fault:
            return [_as_error(fault), *exposed]
        return [*_find_damage(store, state, private), *exposed]


def _find_damage(store: KeyStore, state: StoreState, private: Set[str]) -> Iterator[Finding]:
    """Yield private keys that no key has, that are damaged, or missing; an ended key needs none."""
    if state.moved_to is not None:
        message = f"this key store moved to {state.moved_to}"
        old = store.place_of(f"{PRIVATE_FOLDER}/*.key")
        if not isinstance(store, FolderStore):
            old = "the private keys here: DELETE FROM cardsign_blob WHERE name LIKE 'private/%'"
        fix = f"Once the new one has a backup, delete {old} ({len(private)})." if private else ""
        level: Severity = "error" if private else "note"
        yield Finding("doctor.moved", message, Place(store.place), severity=level, fix=fix)
        return
    for name in sorted(private - state.private_blobs()):
        message = "no key in the log has this private key"
        fix = "Delete it, unless an older log was put back here: then put back the newest one."
        place = Place(store.place_of(name))
        yield Finding("doctor.leftover", message, place, severity="error", fix=fix)
    for key in state.keys:
        name = private_blob(key.blob or "")
        if key.private != "held" or (key.state in ENDED and name not in private):
            continue
        try:
            store.checked_blob(name)
        except CardsignError as fault:
            problem = f"the private key of {key.named} is damaged or missing: {fault.message}"
            place = Place(store.place_of(name))
            yield Finding("doctor.private_missing", problem, place, severity="error")


def _find_exposed(store: FolderStore) -> Iterator[Finding]:
    """Yield in one finding what others than the owner can reach."""
    directory = store.path / PRIVATE_FOLDER
    paths = [path for path in (store.log, directory, *directory.glob("*")) if path.exists()]
    exposed = [path for path in paths if path.stat().st_mode & 0o077]
    if exposed:
        # Key files are encrypted, and a checkout by git is readable.
        writable = [path for path in exposed if path.stat().st_mode & 0o022]
        level: Severity = "error" if writable else "note"
        place = Place(str([*writable, *exposed][0]))
        message = "group or others can access this"
        fix = f"Run: chmod -R go= {shlex.quote(str(store.path))}"
        yield Finding("doctor.permissions", message, place, severity=level, fix=fix)
