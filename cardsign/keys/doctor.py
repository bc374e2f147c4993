"""What is wrong with the files of a key store. Each finding says what a person does about it."""

from __future__ import annotations

import shlex
import stat
from collections.abc import Iterator
from pathlib import Path

from cardsign.errors import CardsignError, FileFault, StoreFault
from cardsign.findings import Finding, Place, Severity
from cardsign.keys.folder import PRIVATE_FOLDER, FolderStore
from cardsign.keys.model import ENDED, StoreState, private_blob
from cardsign.keys.store import KeyStore


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
    directory, open_paths = store.path / PRIVATE_FOLDER, dict[Path, int]()
    for path in [store.log, directory, *sorted(directory.glob("*"))]:
        if path.is_symlink():
            yield _alarm("doctor.symlink", "this is a symbolic link", str(path))
        elif path.exists() and (mode := stat.S_IMODE(path.stat().st_mode)) & 0o077:
            open_paths[path] = mode
    if open_paths:
        # Key files are encrypted, and a checkout by git is readable.
        writable = [path for path, mode in open_paths.items() if mode & 0o022]
        level: Severity = "error" if writable else "note"
        first = [*writable, *open_paths][0]
        message = f"group or others can access this (mode {open_paths[first]:04o})"
        if others := len(open_paths) - 1:
            message += f", and {others} more of the key store"
        fix = f"Run: chmod -R go= {shlex.quote(str(store.path))}"
        yield Finding("doctor.permissions", message, Place(str(first)), severity=level, fix=fix)
