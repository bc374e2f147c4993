"""A key store in one file, encrypted to age recipients (age-encryption.org/v1).

Inside the private halves stay as they lie in the store: whoever restores a backup still needs
their passphrases. Keys behind other signers are backed up as their public halves only.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cardsign.card.strictjson import parse_object
from cardsign.errors import JsonRefused, StoreFault
from cardsign.files import append_private, create_private, make_directory, write_atomic
from cardsign.keys.audit import verify_chain
from cardsign.keys.envelope import KeyLabel, read_label
from cardsign.keys.records import StoreState
from cardsign.keys.stateformat import dump_state, load_state
from cardsign.keys.store import AUDIT_FILE, STATE_FILE, DirectoryStore, alone, holds_store

FORMAT: Final = "cardsign-backup/1"
MAX_BACKUP_BYTES: Final = 512 * 1024 * 1024  # bytes; the audit log is the most of it
_WHERE: Final = "the backup"


@dataclass(frozen=True, slots=True)
class Backup:
    """What a backup holds, checked.

    Attributes:
        state: As in the store.
        audit: The audit log.
        envelopes: The encrypted private halves by thumbprint.
    """

    state: StoreState
    audit: bytes
    envelopes: dict[str, bytes]


def pack(store: DirectoryStore) -> bytes:
    """Return all of a store, in the clear but for the private halves.

    Raises:
        StoreFault, FileFault: As for reading the store; ``file.not_found``: a private half
            that the store should hold is gone.
    """
    state = store.load()
    held = [key.thumbprint for key in state.keys if key.private == "held"]
    document = {
        "format": FORMAT,
        "state": dump_state(state).decode("ascii"),
        "audit": store.read_audit().decode("ascii", errors="replace"),
        "private": {name: store.read_private(name).decode("ascii") for name in held},
    }
    return json.dumps(document).encode("ascii")


def unpack(untrusted_bytes: bytes) -> Backup:
    """Read what :func:`pack` wrote.

    Raises:
        StoreFault: ``backup.malformed``; what :func:`load_state` raises; ``keystore.envelope``;
            ``keystore.audit_broken``.
    """
    try:
        document = parse_object(untrusted_bytes, max_bytes=MAX_BACKUP_BYTES)
    except JsonRefused as exc:
        raise _malformed(f"it is not strict JSON: {exc.message}") from exc
    match document:
        case {
            "format": str(written),
            "state": str(state_text),
            "audit": str(audit_text),
            "private": dict(private),
        } if written == FORMAT and len(document) == 4:
            pass
        case _:
            raise _malformed(f"it is not of the format {FORMAT}")
    state, audit = load_state(state_text.encode(), where=_WHERE), audit_text.encode()
    verify_chain(audit, state.audit, where=_WHERE)
    envelopes = {name: str(text).encode() for name, text in private.items()}
    for key in state.keys:
        if key.private == "held" and key.thumbprint not in envelopes:
            raise _malformed(f"it lacks the private half of key {key.kid!r}")
    known = {key.thumbprint: KeyLabel.of(key.public) for key in state.keys}
    for name, envelope in envelopes.items():
        if read_label(envelope) != known.get(name):
            raise _malformed(f"it has a private half {name!r} of no key that it holds")
    return Backup(state, audit, envelopes)


def restore(backup: Backup, path: Path) -> None:
    """Make a key store of a backup, in the directory `path`, which holds none.

    Raises:
        StoreFault: ``keystore.exists`` or ``keystore.busy``.
        FileFault: ``file.unwritable``, or ``file.exists`` for a file in the way.
    """
    make_directory(path)
    with alone(path):
        if holds_store(path):
            raise StoreFault("keystore.exists", "there is a key store here", path=str(path))
        store = DirectoryStore(path, backup.state)
        for thumbprint, envelope in backup.envelopes.items():
            private_file = store.private_file(thumbprint)
            make_directory(private_file.parent, mode=0o700)
            create_private(private_file, envelope)
        if backup.audit:
            append_private(path / AUDIT_FILE, backup.audit)
        write_atomic(path / STATE_FILE, dump_state(backup.state))


def encrypt(data: bytes, recipients: Sequence[str]) -> bytes:
    """Encrypt to age recipients, ``age1...``; each of them alone can open it.

    Raises:
        StoreFault: ``backup.not_installed``, or ``backup.recipient``.
    """
    age = _age()
    try:
        keys = [age.x25519.Recipient.from_str(one) for one in recipients]
    except age.RecipientError as exc:
        raise StoreFault("backup.recipient", "expected age recipients, age1...") from exc
    return bytes(age.encrypt(data, keys))


def decrypt(untrusted_bytes: bytes, identities: bytes) -> bytes:
    """Open what was encrypted to one of the age identities in a file as age-keygen writes it.

    Raises:
        StoreFault: ``backup.not_installed``, or ``backup.identity``: none of them opens it.
    """
    age = _age()
    lines = [line.strip() for line in identities.decode("ascii", errors="replace").splitlines()]
    try:
        keys = [age.x25519.Identity.from_str(one) for one in lines if one[:1] not in ("", "#")]
        return bytes(age.decrypt(untrusted_bytes, keys))
    except (age.IdentityError, age.DecryptError) as exc:
        raise StoreFault("backup.identity", "none of the identities opens this backup") from exc


def _age() -> Any:
    try:
        return importlib.import_module("pyrage")
    except ImportError as exc:
        raise StoreFault("backup.not_installed", "backups need the library pyrage") from exc


def _malformed(message: str) -> StoreFault:
    return StoreFault("backup.malformed", f"the backup cannot be used: {message}")
