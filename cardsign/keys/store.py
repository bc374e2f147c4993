"""A key store: a log, and blobs beside it that are named by their digests, wherever they lie.

A blob is a sealed private key or a signed statement. It is kept together with the line that names
it, so a store never names what it does not hold. Appending the line after the newest is the
commit: of two processes that decide on the same state one succeeds, and the other decides again.

A store lies in a folder, or in a database (:mod:`cardsign.keys.postgres`)::

    keys/
      log.jsonl                   public: every key, its lifecycle, publications (see ledger.py)
      private/<SHA-256>.key       sealed (see sealed.py); 0600, which git does not keep
      statements/<SHA-256>.json   public: the issuer's signed statements
      .lock                       held while writing

Blobs are durable before the line that names them. So a crash leaves at most a file that nothing
refers to, and a last line without its end, which was never committed. Readers take no lock.
"""

from __future__ import annotations

import getpass
import hashlib
import os
import platform
import re
import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final, NewType, TypeAlias

from cardsign import errors, files
from cardsign.card.strictjson import parse_object
from cardsign.errors import FileFault, FileMissing, SignerFault, StoreFault
from cardsign.jose.jws import Signer
from cardsign.jose.keys import PrivateKey
from cardsign.keys import agenda, ledger
from cardsign.keys.ledger import ENDED, Event, KeyRecord, Role, StoreState, private_blob
from cardsign.keys.passphrases import check_strength, open_envelope, seal
from cardsign.keys.signers import Access, open_signer, require

PRIVATE_FOLDER: Final = "private"
BLOB: Final = re.compile(r"private/[0-9a-f]{64}\.key|statements/[0-9a-f]{64}\.json")
MAX_BLOB_BYTES: Final = 256 * 1024  # a statement has at most 64 KiB, a sealed key some 10
MAX_LOG_BYTES: Final = 64 * 1024 * 1024  # some 100 years
_PATIENCE: Final = 5.0  # seconds; a commit takes milliseconds, as keys are sealed before

#: What a PostgreSQL URL may be here: it stands in messages and commands, so no password is in it.
_URL: Final = re.compile(
    r"postgresql://(?:[^:@/?#]*@)?(?:[A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?/[^:@/?#]+"
    r"(?:\?(?!.*password)[^@?#]*)?"
)
#: What to do where there was a key store, or must be one.
_ELSEWHERE: Final = (
    "Mount it, put back a copy, or name it: --keystore DIR, --root-keystore DIR, or for a database:"
    " export CARDSIGN_KEYSTORE=postgresql://USER@HOST/DATABASE. If it is lost: "
    "cardsign keyset recover --recovery-file FILE --digest SHA-256"
)
_WITHOUT: Final = "To sign or publish without one: --key URI; publish also takes --jwks FILE."
MAX_ATTEMPTS: Final = 100  # at one change; each that fails is one that another process made
_SEEN: Final = re.compile(rb"([0-9]{1,18}) ([0-9a-f]{64})\n")


def digest_of(data: bytes) -> str:
    """Return the digest by which a blob is named."""
    return hashlib.sha256(data).hexdigest()


def moved_away(to: str, place: str) -> StoreFault:
    """Return the fault of a store that has moved, which names the new place."""
    message = f"this key store moved to {to}; nothing is signed or changed here"
    hint = f"Use the new one: --keystore {shlex.quote(to)}"
    return StoreFault("keystore.moved", message, path=place, hint=hint)


@dataclass(frozen=True, slots=True)
class StoreUser:
    """Who works with key stores.

    Anyone who can edit a store can write its whole log anew. They cannot edit the user's own state
    as well, where the newest line is remembered that was seen of each store: ``SEQ SHA-256``. Not
    found out: what was done to a store before this user opened it on this machine.

    Attributes:
        actor: Who the log shall say made the changes.
        folder: Where newest lines are remembered; by default nowhere. A folder that cannot be read
            or written, as in a container without a home, keeps nobody from signing.
    """

    actor: str = ""
    folder: Path = Path(os.devnull)


def local_user() -> StoreUser:
    """Return the account on this machine, and where it remembers what it saw of logs."""
    try:
        account = getpass.getuser()
    except (KeyError, OSError):  # a container's user often has no name
        account = f"uid {os.getuid()}" if hasattr(os, "getuid") else "unknown"
    folder = files.user_folder("STATE")
    seen = folder / "keystores" if folder else Path(os.devnull)
    return StoreUser(f"{account}@{platform.node()}", seen)


class KeyStore(ABC):
    """A key store; a subclass says where it lies.

    It holds the state as it was last read or written; other processes may have gone further.

    Attributes:
        place: Where it is, for people.
        user: Who works with it.
        verified_keysets: The first keyset statements of the log, whose signatures were verified; a
            cache of :mod:`cardsign.keys.history`.
    """

    def __init__(self, place: str, user: StoreUser | None = None) -> None:
        self.place, self.user = place, user or StoreUser()
        self.state = StoreState()
        self.verified_keysets = list[Any]()

    # What a place has to offer. All raise FileFault ``file.unreadable`` or ``file.unwritable``,
    # or what keeps a database from being used: StoreFault ``keystore.unreachable`` and others.

    @abstractmethod
    def read_lines(self, start: int = 1) -> list[bytes]:
        """Return the lines from this number on, without their ends."""

    @abstractmethod
    def append(self, seq: int, lines: Sequence[bytes], blobs: Mapping[str, bytes]) -> bool:
        """Add blobs and lines from number `seq` on, all or nothing; False if there is such a line.

        Raises:
            StoreFault: ``file.busy``.
        """

    @abstractmethod
    def read_blob(self, name: str) -> bytes:
        """Return a blob; ``file.not_found``."""

    @abstractmethod
    def drop_blobs(self, names: Collection[str]) -> None:
        """Remove blobs that the log names no longer, as far as they are there."""

    @abstractmethod
    def list_blobs(self) -> frozenset[str]:
        """Return the names of all blobs, known to the log or not."""

    def place_of(self, name: str) -> str:
        """Return where a blob lies, for people."""
        return f"{self.place}/{name}"

    def alone(self) -> AbstractContextManager[object]:
        """Hold the store alone, where a commit is not one transaction; raises ``file.busy``."""
        return nullcontext()

    # What every store does with that.

    def load(self, *, moved: bool = False) -> StoreState:
        """Read what was added to the log, and return the state.

        With ``moved=True`` the store may have moved: to look for what is wrong, never to sign.

        Raises:
            StoreFault: ``keystore.audit_broken``, ``keystore.corrupt``,
                ``keystore.newer_format``; ``keystore.other_history``: the log does not lead back
                to the line that this user or this process saw; ``keystore.missing``: there was a
                log, and there is none now; ``keystore.moved``.
        """
        seen = self._read_seen()  # first: others may go further
        state, untrusted_lines = self.state, self.read_lines(max(1, self.state.seq))
        heads = dict[int, str | None]()
        if state.seq and untrusted_lines:
            heads[state.seq] = digest_of(untrusted_lines.pop(0))
        for untrusted_line, follower in zip_longest(untrusted_lines, untrusted_lines[1:]):
            state = ledger.read_line(state, untrusted_line, self.place, follower or b"")
            heads[state.seq] = state.head
        if seen[0] and not (heads or state.seq):
            message = f"there is no key store in {self.place}, where this machine saw one"
            raise StoreFault("keystore.missing", message, hint=_ELSEWHERE)
        for seq, head in (seen, (self.state.seq, self.state.head)):
            if seq >= max(1, self.state.seq) and heads.get(seq) != head:
                message = f"line {seq} of the log is not the one that was seen here"
                if state.seq < seq:
                    message = f"the log ends at line {state.seq}, and line {seq} was seen here"
                hint = "If you put an older or another store there yourself, forget that line. "
                hint += f"Run: rm {shlex.quote(str(self._seen))}"
                raise StoreFault("keystore.other_history", message, path=self.place, hint=hint)
        self.state = state
        if seen != (state.seq, state.head):
            self._note_seen()
        if state.moved_to is not None and not moved:
            raise moved_away(state.moved_to, self.place)
        return state

    @property
    def _seen(self) -> Path:
        """The file with the newest line of this store that the user saw."""
        where = os.path.realpath(self.place) if "://" not in self.place else self.place
        return self.user.folder / digest_of(os.fsencode(where))[:32]

    def _read_seen(self) -> tuple[int, str | None]:
        try:
            data = files.read_bytes(self._seen, max_bytes=ledger.MAX_LINE_BYTES)
        except FileFault:
            return 0, None
        if match := _SEEN.fullmatch(data):
            return int(match[1]), match[2].decode()
        message = "it is not what cardsign writes about a key store"
        raise StoreFault("keystore.corrupt", message, path=str(self._seen), hint="Remove the file.")

    def _note_seen(self) -> None:
        data = f"{self.state.seq} {self.state.head}\n".encode("ascii")
        with suppress(FileFault):
            files.make_directory(self.user.folder, mode=0o700)
            files.write_atomic(self._seen, data, mode=files.PRIVATE_MODE)

    def forget_seen(self) -> None:
        """Begin anew: the user is making the store at this place."""
        with suppress(FileFault):
            files.remove(self._seen)

    def commit(
        self,
        decide: Callable[..., list[Event]],
        *arguments: Any,
        now: datetime,
        blobs: Mapping[str, bytes] | None = None,
        moved: bool = False,
        **named: Any,
    ) -> StoreState:
        """Commit the events that `decide` returns for the newest state; retry if that has changed.

        Further arguments are those of `decide`, such as a decision of :mod:`cardsign.keys.agenda`:
        ``store.commit(revoke, kid, reason="ceased", now=now)``. No event is no commit. `blobs` are
        kept with the line. A store begins with its first commit. What was destroyed or sealed anew
        is removed.

        Raises:
            StoreFault: ``file.busy``: others leave it no chance; as `decide`, and as :meth:`load`.
        """
        for _ in range(MAX_ATTEMPTS):
            state = self.load(moved=moved)
            if not (events := decide(state, *arguments, **named)):
                return state
            ledger.fold_all(state, events, now)  # refuses in the words of the decision
            line = ledger.write_line(state, events, now, self.user.actor)
            ledger.read_line(state, line, self.place)  # what is written can be read
            if self.append(state.seq + 1, [line], blobs or {}):
                after = self.load(moved=moved)
                if over := state.private_blobs() - after.private_blobs():
                    self.drop_blobs(over)
                return after
        message = f"gave up after {MAX_ATTEMPTS} attempts: other processes keep changing the store"
        raise StoreFault("file.busy", message, path=self.place)

    def checked_blob(self, name: str) -> bytes:
        """Return a blob if it is the one that its name says.

        Raises:
            FileMissing: ``file.not_found``.
            StoreFault: ``keystore.corrupt``.
        """
        try:
            data = self.read_blob(name)
        except FileMissing as exc:
            hint = "Restore it from a backup, or go on at the machine that holds it."
            message = "a private key or statement that the log names is not here"
            raise FileMissing(exc.code, message, path=self.place_of(name), hint=hint) from exc
        if digest_of(data) != name.partition("/")[2].partition(".")[0]:
            message = "this file is not the one that the log names: its digest is another"
            raise StoreFault("keystore.corrupt", message, path=self.place_of(name))
        return data

    # Private keys.

    def signer(self, record: KeyRecord, access: Access | bytes) -> Signer:
        """Open the private key of a record, or what reaches it; a passphrase is enough for a file.

        Not checked: that the key's state lets it sign.

        Raises:
            PassphraseFault, SignerFault, FileFault, StoreFault: As
                :func:`cardsign.keys.signers.open_signer`.
        """
        if isinstance(access, bytes):
            access = Access.by_passphrase(access)
        shared, access = access.secrets, access.for_role(record.role)
        if record.blob is None or not record.custody.startswith("file:"):
            return open_signer(record.custody, record.public, access)
        self.checked_blob(private_blob(record.blob))  # before anybody is asked for a passphrase
        passphrase = access.passphrase(record.custody, f"{record.role} keys")
        try:
            private = self._unseal(record, passphrase)
        except errors.PassphraseFault:
            with suppress(errors.PassphraseFault):  # its role may have a new one by now
                if record.is_stolen and record.rotates:  # this key signs once more
                    return self._unseal(record, shared("passphrase", f"stolen {record.role} keys"))
            raise
        access.remember(record.custody, passphrase)
        return private

    def _unseal(self, record: KeyRecord, passphrase: bytes) -> PrivateKey:
        name = private_blob(record.blob or "")
        private = open_envelope(self.checked_blob(name), passphrase)
        if private.public != record.public:
            message = f"the key file holds key {private.public.kid!r}, not {record.kid!r}"
            raise SignerFault("signer.wrong_key", message, path=self.place_of(name))
        return private

    def _find_opened(self, passphrase: bytes) -> Iterator[str]:
        """Yield the custodies whose keys a passphrase opens."""
        for key in {key.custody: key for key in self.state.keys if key.private == "held"}.values():
            with suppress(FileMissing, errors.PassphraseFault):
                self._unseal(key, passphrase)
                yield key.custody

    def add_key(
        self,
        private: PrivateKey,
        passphrase: bytes,
        *,
        now: datetime,
        role: Role = "card",
        holder: str | None = None,
        expect_seq: int | None = None,
    ) -> KeyRecord:
        """Take a key in: its private key sealed, its public key in the log.

        See :func:`cardsign.keys.agenda.enter` for the state in which it begins.

        Raises:
            PassphraseFault: ``passphrase.unfit``.
            StoreFault: ``keystore.duplicate_key``; ``keystore.changed``: the store has gone
                further than `expect_seq`.
        """
        check_strength(passphrase)
        public = private.public
        envelope = seal(private, passphrase)
        blob = digest_of(envelope)
        custody = next(self._find_opened(passphrase), ledger.file_custody(blob))

        def decide(state: StoreState) -> list[Event]:
            if expect_seq not in (None, state.seq):
                message = f"the store is at line {state.seq}, not {expect_seq}"
                raise StoreFault("keystore.changed", message)
            return agenda.enter(state, public, custody=custody, role=role, holder=holder, blob=blob)

        self.commit(decide, now=now, blobs={private_blob(blob): envelope})
        return self.state.find(public.thumbprint)

    def change_passphrase(
        self, records: Sequence[KeyRecord], old: bytes, new: bytes, *, now: datetime
    ) -> tuple[KeyRecord, ...]:
        """Seal private keys of this store under another passphrase; return those that were not.

        One commit names all new envelopes, and the old ones are removed.

        Raises:
            PassphraseFault: ``passphrase.unfit``: `new` is too short, or that of another key here;
                ``passphrase.wrong``: a key opens with neither. Nothing was changed.
            StoreFault, FileFault, SignerFault: As :meth:`signer`.
        """
        check_strength(new)
        opened = set(self._find_opened(new))
        for key in self.state.keys:
            is_in_use = key.private == "held" and (key.is_stolen or key.state not in ENDED)
            if is_in_use and key.custody in opened and key not in records:
                state = "stolen" if key.is_stolen else key.state
                message = f"{key.named} ({state}) has this passphrase"
                hint = "Choose another one: each role needs a passphrase of its own "
                hint += "that no thief has."
                raise errors.PassphraseFault("passphrase.unfit", message, hint=hint)
        changed = tuple(record for record in records if record.custody not in opened)
        sealed = {record.thumbprint: seal(self._unseal(record, old), new) for record in changed}
        digests = {name: digest_of(envelope) for name, envelope in sealed.items()}
        custody = ledger.file_custody(next(iter(digests.values()), ""))

        def decide(state: StoreState) -> list[Event]:
            return [
                {"event": "resealed", "key": name, "custody": custody, "blob": digest}
                for name, digest in digests.items()
                if state.find(name).private == "held"
            ]

        blobs = {private_blob(digests[name]): sealed[name] for name in sealed}
        self.commit(decide, now=now, blobs=blobs)
        return changed


def _is_published(folder: Path) -> bool:
    """Return whether a folder is a publication, whose newest generation an object says."""
    with suppress(FileFault):
        newest = folder / files.CURRENT_FILE
        return files.read_bytes(newest, max_bytes=1, is_found=True, is_cut=True).startswith(b"{")
    return False


class FolderStore(KeyStore):
    """A key store in a directory of a local file system."""

    def __init__(self, path: Path, user: StoreUser | None = None) -> None:
        super().__init__(str(path), user)
        self.path, self.log = path, path / "log.jsonl"

    def read_lines(self, start: int = 1) -> list[bytes]:
        try:
            data = files.read_bytes(self.log, max_bytes=MAX_LOG_BYTES, is_found=True)
        except FileMissing:
            return []
        *lines, rest = data.split(b"\n")
        with suppress(errors.JsonRefused):  # which a line is that was never committed
            parse_object(rest, max_bytes=ledger.MAX_LINE_BYTES)
            lines.append(rest)
        return lines[start - 1 :]

    def append(self, seq: int, lines: Sequence[bytes], blobs: Mapping[str, bytes]) -> bool:
        above = [self.path, *self.path.absolute().parents]
        if not self.log.exists() and any(map(_is_published, above)):
            message = "this folder is published, and may be served with all that is in it"
            hint = "Keep the keys elsewhere: --keystore DIR"
            raise FileFault("file.exists", message, path=self.place, hint=hint)
        files.make_directory(self.path)
        with self.alone():
            earlier = self.read_lines()
            if len(earlier) >= seq:
                return False
            data = b"".join(line + b"\n" for line in (*earlier, *lines))
            try:
                for name, blob in blobs.items():
                    files.make_directory(self._file(name).parent, mode=0o700)
                    self._write(self._file(name), blob)
                self._write(self.log, data)
            except FileFault:
                # Nothing is left of a commit that failed, on a full disk say, as far as that goes.
                with suppress(FileFault):
                    if len(self.read_lines()) < seq:  # else all that failed was to sync
                        self.drop_blobs(blobs)
                raise
        return True

    @staticmethod
    def _write(file: Path, data: bytes) -> None:
        files.write_atomic(file, data, mode=files.PRIVATE_MODE, plain=True)

    def _file(self, name: str) -> Path:
        """Return the file of a blob; a folder that is a link, maybe another user's, is refused."""
        file = self.path / name
        if file.parent.is_symlink():
            raise FileFault("file.not_plain", "this is a symbolic link", path=str(file.parent))
        return file

    def read_blob(self, name: str) -> bytes:
        return files.read_bytes(self._file(name), max_bytes=MAX_BLOB_BYTES, plain=True)

    def drop_blobs(self, names: Collection[str]) -> None:
        for name in names:
            files.remove(self._file(name))

    def list_blobs(self) -> frozenset[str]:
        names = (
            f"{folder}/{name}"
            for folder in (PRIVATE_FOLDER, "statements")
            for name in files.list_names(self.path / folder)
        )
        return frozenset(name for name in names if BLOB.fullmatch(name))

    def alone(self) -> AbstractContextManager[None]:
        """Hold the store alone among processes; raises ``file.busy``."""
        busy = StoreFault("file.busy", "another process is changing the store", path=self.place)
        return files.locked(self.path / ".lock", patience=_PATIENCE, busy=busy)


# A place by its name, and what is there.


#: ``postgresql://USER@HOST:PORT/DATABASE?...``; its password comes from PGPASSWORD or ~/.pgpass.
DatabaseUrl = NewType("DatabaseUrl", str)
StorePlace: TypeAlias = Path | DatabaseUrl


def read_place(text: str) -> StorePlace:
    """Return a key store's place: a folder, or the URL of a database.

    Raises:
        UsageFault: It is empty.
        StoreFault: ``keystore.url``; the text is not repeated, since a password may stand in it.
    """
    if not text:
        raise errors.UsageFault("usage.invalid", "no key store has an empty name")
    if "://" not in text:
        return Path(text)
    if not _URL.fullmatch(text):
        form = "postgresql://USER@HOST:PORT/DATABASE"
        raise StoreFault("keystore.url", f"the URL of the key store is not of the form {form}")
    return DatabaseUrl(text)


def check_links(folder: Path, project: Path, allowed: Collection[Path]) -> None:
    """Refuse a key store of a project with links that lead out of it, unless the user allows that.

    It may be that of another project, whose keys would sign here.

    Raises:
        UsageFault: ``config.not_allowed``.
    """
    if files.leads_outside(project, folder, allowed):
        raise files.outside(folder, "the key store is a link to a place", folder)
    for at, below, names in files.walk(folder):
        for part in (Path(at, name) for name in below + names):
            if part.is_symlink() and files.leads_outside(project, part, allowed):
                raise files.outside(part, "a part of the key store is a link to a place", part)


def open_store(
    place: StorePlace, user: StoreUser | None = None, *, moved: bool = False
) -> KeyStore:
    """Open the key store at `place`; ``keystore.missing``, or as :meth:`KeyStore.load`."""
    store = locate_store(place, user)
    if not store.load(moved=moved).seq:
        raise missing_store(store.place)
    return store


def missing_store(place: str, *, is_begun: bool = False) -> StoreFault:
    """Return ``keystore.missing``; if a store `is_begun`, it first says where else to look."""
    hint = f"{_ELSEWHERE}. If there never was one: cardsign keys generate. {_WITHOUT}"
    message = "there is no key store here"
    return StoreFault("keystore.missing", message, path=place, hint=hint if is_begun else "")


def create_store(place: StorePlace, user: StoreUser | None = None) -> KeyStore:
    """Return the key store at `place`, or an empty one, which begins with its first commit."""
    store = locate_store(place, user)
    if store.read_lines():
        store.load()
    else:
        store.forget_seen()
    return store


def locate_store(place: StorePlace, user: StoreUser | None = None) -> KeyStore:
    """Return the key store at `place`, of which nothing is read yet."""
    if isinstance(place, Path):
        return FolderStore(place, user)
    postgres = require("cardsign.keys.postgres", extra="postgres")
    store: KeyStore = postgres.PostgresStore(place, user)
    return store


def is_taken(place: StorePlace) -> bool:
    """Say whether a key store is at `place` already."""
    return bool(locate_store(place).read_lines())


def move_store(store: KeyStore, place: StorePlace, *, now: datetime) -> KeyStore:
    """Move a store to `place`, and return what is there: only that signs from now on.

    A line that says so is put into both; the old one stays, and says where the new one is. What is
    at the new place signs only after a line more, so that at no time both sign. Killed half-way,
    this can be called again with the same place.

    Raises:
        StoreFault: ``keystore.exists``; ``keystore.moved``: to another place;
            as :meth:`KeyStore.checked_blob`.
    """
    to = str(place.resolve() if isinstance(place, Path) else place)
    state, there = store.load(moved=True), locate_store(place, store.user)
    lines, copied = store.read_lines()[: state.seq], there.read_lines()
    if state.moved_to is not None:
        if state.moved_to != to or copied[: len(lines)] != lines:
            raise moved_away(state.moved_to, store.place)
    else:
        if not copied:
            event = {"event": "left", "to": to}
            copied = [*lines, ledger.write_line(state, [event], now, store.user.actor)]
            there.forget_seen()
            there.append(1, copied, {name: store.checked_blob(name) for name in store.list_blobs()})
        if copied[:-1] != lines or not store.append(state.seq + 1, copied[-1:], {}):
            raise StoreFault("keystore.exists", "there is a key store here", path=to)
    arrived = {"event": "left", "to": None}
    there.commit(lambda there: [arrived] if there.moved_to else [], now=now, moved=True)
    return there
