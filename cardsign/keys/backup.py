"""A key store in one file, encrypted to age recipients (age-encryption.org/v1), or moved.

Private keys stay as encrypted as they are in the store: after a restore they still need their
passphrases. Of keys behind other signers only the public keys are in it. The issuer's statements
are in it too: the state names them.
"""

from __future__ import annotations

import importlib
import json
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from cardsign.card.strictjson import parse_object
from cardsign.card.values import Json
from cardsign.errors import CardsignError, JsonRefused, StoreFault
from cardsign.keys.audit import SeenHeads, check_vouched, extend, holds_line, verify_chain
from cardsign.keys.history import StatementHistory
from cardsign.keys.key_files import KeyLabel, read_label
from cardsign.keys.lifecycle import arrive
from cardsign.keys.model import dump_state, load_state
from cardsign.keys.stores.base import KINDS, Contents, KeyStore, Number, StatementKind
from cardsign.keys.stores.opening import StorePlace, create_store, is_taken, open_store

FORMAT: Final = "cardsign-backup/1"
MAX_BACKUP_BYTES: Final = 512 * 1024 * 1024  # bytes; the audit log is the most of it
_WHERE: Final = "the backup"
_NUMBER: Final = re.compile(r"[1-9][0-9]{0,15}(\.[1-9][0-9]{0,15})?")


def pack(store: KeyStore, *, moved: bool = False) -> bytes:
    """Return all of a store, in the clear but for the private keys.

    With `moved` also of a store that has moved.

    Raises:
        StoreFault, FileFault: As for reading the store and its statements;
            ``file.not_found``: a private key that the store should hold is gone.
    """
    state = store.load(moved=True) if moved else store.load()
    held = [key.thumbprint for key in state.keys if key.private == "held"]
    history = StatementHistory(store, state.statements)
    history.to_publish()  # what is no history is no backup
    document = {
        "format": FORMAT,
        "state": dump_state(state).decode("ascii"),
        "audit": store.read_audit().decode("ascii", errors="replace"),
        "private": {name: store.read_private(name).decode("ascii") for name in held},
        "statements": {
            kind: {
                ".".join(map(str, number)): data.decode("ascii", errors="replace")
                for number, data in store.read_statements(kind).items()
                if kind != "releases" or number <= (state.statements.release_seq,)
            }
            for kind in KINDS
        },
    }
    return json.dumps(document).encode("ascii")


def unpack(untrusted_bytes: bytes) -> Contents:
    """Read what :func:`pack` wrote.

    Not checked: the statements, which are checked whenever they are used.

    Raises:
        StoreFault: ``backup.malformed``, ``keystore.corrupt``, ``keystore.newer_format``,
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
            "statements": dict(statements),
        } if written == FORMAT and len(document) == 5:
            pass
        case _:
            raise _malformed(f"it is not of the format {FORMAT}")
    state = load_state(state_text.encode(), where=_WHERE)
    _, audit, _ = verify_chain(audit_text.encode(), state.audit, where=_WHERE)
    check_vouched(audit, state, where=_WHERE)
    envelopes = {name: str(text).encode() for name, text in private.items()}
    for key in state.keys:
        if key.private == "held" and key.thumbprint not in envelopes:
            raise _malformed(f"it lacks the private key of key {key.kid!r}")
    known = {key.thumbprint: KeyLabel.of(key.public) for key in state.keys}
    for name, envelope in envelopes.items():
        if read_label(envelope) != known.get(name):
            raise _malformed(f"it has a private key {name!r} that belongs to no key in it")
    return Contents(state, audit, envelopes, _read_statements(statements))


def _read_statements(document: dict[str, Json]) -> dict[StatementKind, dict[Number, bytes]]:
    found: dict[StatementKind, dict[Number, bytes]] = {}
    for kind in KINDS:
        entries = document.get(kind)
        if not isinstance(entries, dict) or not all(map(_NUMBER.fullmatch, entries)):
            raise _malformed(f"it has no {kind}")
        found[kind] = {
            tuple(map(int, number.split("."))): str(text).encode()
            for number, text in entries.items()
        }
    return found


def restore(
    contents: Contents,
    place: StorePlace,
    *,
    now: datetime,
    actor: str = "",
    heads: SeenHeads | None = None,
) -> KeyStore:
    """Make a key store of `contents` at `place`, which holds none, and return it.

    A store that moved is at its new place then, which its log says. What the user saw of a log here
    before is forgotten, since a backup is older. Raises as :func:`create_store`.
    """
    state, events = arrive(contents.state)
    if events:
        state = replace(state, generation=state.generation + 1)
        state, lines = extend(state, events, now=now, actor=actor, random=os.urandom)
        contents = replace(contents, state=state, audit=contents.audit + lines)
    return create_store(place, contents, actor=actor, heads=heads)


def move_store(
    store: KeyStore,
    place: StorePlace,
    *,
    now: datetime,
    heads: SeenHeads | None = None,
) -> KeyStore:
    """Move a store to `place`, and return what is there: only that signs from now on.

    The old one is marked first, so that at no time both sign; it stays, and says where the new one
    is. Killed half-way, this can be called again with the same place, on the store as
    :func:`open_store` gives it with ``moved=True``. Where nothing can be put there, the mark is
    taken away again.

    Raises:
        StoreFault: ``keystore.exists``; ``keystore.moved``: to another place;
            ``usage.conflict``: into its own folder; as :func:`restore`.
    """
    to = str(place.resolve()) if isinstance(place, Path) else place.to_file()
    if isinstance(place, Path) and isinstance(store.where, Path):
        inside = place.resolve() != store.where.resolve()
        if inside and place.resolve().is_relative_to(store.where.resolve()):
            # Who then deletes the old store, as they are told to, would delete the new one.
            raise StoreFault(
                "usage.conflict",
                "a key store cannot move into its own folder",
                path=to,
                hint="Name a folder outside it.",
            )
    if is_taken(place):
        there = open_store(place, actor=store.actor, heads=heads)
        moved, head = store.state.moved, store.state.audit.digest
        if moved is None or moved.to != to or not holds_line(there.read_audit(), head):
            raise StoreFault("keystore.exists", "there is a key store here", path=to)
        return there
    fresh = store.state.moved is None
    store.leave(to, now=now)
    try:
        contents = unpack(pack(store, moved=True))
        return restore(contents, place, now=now, actor=store.actor, heads=heads)
    except CardsignError:
        # Only what was marked just now: a store of an earlier call may be there, and be hidden,
        # such as on a disk that is not mounted.
        if fresh and not is_taken(place):
            store.stay(now=now)
        raise


def encrypt(data: bytes, recipients: Sequence[str]) -> bytes:
    """Encrypt to age recipients, ``age1...``; each of them alone can open it.

    Raises:
        StoreFault: ``usage.not_installed``, or ``backup.recipient``.
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
        StoreFault: ``usage.not_installed``, or ``backup.identity``: none of them opens it.
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
        raise StoreFault(
            "usage.not_installed",
            "backups need the library pyrage",
            hint="pip install 'cardsign[backup]'",
        ) from exc


def _malformed(message: str) -> StoreFault:
    return StoreFault("backup.malformed", f"the backup cannot be used: {message}")
