"""A verifier's memory on disk: one file for each issuer, in a folder of this user.

A file that is missing, unreadable or of another history is a fault of this machine and never
first contact: otherwise whoever can remove a file can reopen rollback (threats.md 18). Only a
lock that names the issuer lets a missing file be made anew, with the lock's floors.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from cardsign.card.strictjson import Json, parse_object
from cardsign.errors import CardRefused, FileFault, InputRefused, StateFault
from cardsign.files import (
    PRIVATE_MODE,
    locked,
    make_directory,
    read_bytes,
    remove,
    write_atomic,
)
from cardsign.jose import base64url
from cardsign.jose.algorithms import ALGORITHMS
from cardsign.jose.jwks import JwkSet, SkippedKey
from cardsign.jose.keys import PublicKey
from cardsign.reasons import Reason
from cardsign.statements import members as read
from cardsign.statements.keyset import KeysetId, KeysetStatement, keyset_id, read_keyset
from cardsign.statements.release import ReleaseStatement, read_release
from cardsign.statements.succession import RootPin
from cardsign.trust.known import Floor, Known, anchor_digest
from cardsign.trust.lock import (
    ISSUER_NAME,
    floor_of,
    floor_to_json,
    raise_floor,
    time_of,
)
from cardsign.trust.policy import Anchor, Enrolment, KeysetAnchor, TofuAnchor
from cardsign.urls import parse_url

# One issuer's memory as JSON, `cardsign-state/1`; read back as strictly as what strangers send.


STATE_FORMAT: Final = "cardsign-state/1"
#: Bytes. Two statements and a key set of 64 KiB each, escaped, and 256 URLs of 2 KiB.
MAX_STATE_BYTES: Final = 1024 * 1024

_MAX_DEPTH: Final = 8
_MEMBERS: Final = (
    *("format", "issuer", "anchor", "keyset", "release", "floor"),
    *("newest_iat", "jwks", "first_contact", "signed_before", "passed", "cards"),
)


def state_bytes(name: str, known: Known) -> bytes:
    """The file that holds what is known of the issuer `name`; the same for the same."""
    contact = known.first_contact
    document = {
        "format": STATE_FORMAT,
        "issuer": name,
        "anchor": known.anchor,
        "keyset": _statement_text(known.keyset),
        "release": _statement_text(known.release),
        "floor": floor_to_json(known.floor),
        "newest_iat": known.newest_iat,
        "jwks": None if known.jwks is None else _jwks_to_json(known.jwks),
        "first_contact": None if contact is None else contact.to_json(),
        "signed_before": known.signed_before,
        "passed": [pin.to_json() for pin in known.passed],
        "cards": list(known.cards),
    }
    return json.dumps(document, indent=2, sort_keys=True).encode("ascii") + b"\n"


def read_state(data: bytes, name: str) -> Known:
    """Read what :func:`state_bytes` wrote for `name`. No signature is verified again.

    Raises:
        InputRefused: JsonRefused, StatementRefused or KeyRefused, for the reader of the file to
            place; ``statement.format`` also for that of a newer cardsign.
    """
    document = parse_object(data, max_bytes=MAX_STATE_BYTES, max_depth=_MAX_DEPTH)
    read.a_format(document.get("format"), STATE_FORMAT)
    # Files of before the member `cards` are read on: a memory is never begun anew for a version.
    members = read.exact_object({"cards": [], **document}, _MEMBERS, "")
    if members["issuer"] != name:
        raise read.refused("/issuer", f"the issuer {name!r}")
    signed_before = members["signed_before"]
    if not isinstance(signed_before, bool):
        raise read.refused("/signed_before", "true or false")
    keyset, release = (_bytes(members[one], f"/{one}") for one in ("keyset", "release"))
    jwks, contact = members["jwks"], members["first_contact"]
    return Known(
        read.digest(members["anchor"], "/anchor"),
        None if keyset is None else read_keyset(keyset),
        None if release is None else read_release(release),
        floor_of(members["floor"], "/floor"),
        time_of(members["newest_iat"], "/newest_iat"),
        None if jwks is None else _jwks_of(jwks),
        None if contact is None else keyset_id(contact, "/first_contact"),
        signed_before,
        tuple(keyset_id(pin, path) for pin, path in read.items(members["passed"], "/passed")),
        tuple(_url(url, path) for url, path in read.items(members["cards"], "/cards")),
    )


def _url(value: Json, path: str) -> str:
    try:
        if isinstance(value, str) and str(parse_url(value)) == value:
            return value
    except CardRefused:
        pass
    raise read.refused(path, "a URL inside the strict grammar")


def _bytes(value: Json, path: str) -> bytes | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise read.refused(path, "a document as text, or null")
    return value.encode()


def _statement_text(statement: KeysetStatement | ReleaseStatement | None) -> str | None:
    """The statement in its shortest form, so that it is never too long to be read again."""
    if statement is None:
        return None
    envelope = statement.envelope
    document = {
        "payload": base64url.encode(envelope.payload),
        "signatures": [signature.to_json() for signature in envelope.signatures],
    }
    return json.dumps(document, separators=(",", ":"))


def _jwks_to_json(jwks: JwkSet) -> dict[str, Json]:
    """A key set whatever its length: 64 KiB as its issuer wrote it may be more as we do."""
    return {
        "keys": [{**key.jwk()} for key in jwks.keys],
        "skipped": [[one.kid, one.code, one.message] for one in jwks.skipped],
    }


def _jwks_of(value: Json) -> JwkSet:
    members = read.exact_object(value, ("keys", "skipped"), "/jwks")
    keys, skipped = [], []
    for jwk, path in read.items(members["keys"], "/jwks/keys"):
        if not isinstance(jwk, dict):
            raise read.refused(path, "a public JWK")
        keys.append(PublicKey.from_jwk(jwk, algorithms=tuple(ALGORITHMS)))
    for one, path in read.items(members["skipped"], "/jwks/skipped"):
        match one:
            case [str(kid), str(code), str(message)]:
                skipped.append(SkippedKey(kid, code, message))
            case _:
                raise read.refused(path, "kid, code and message")
    return replace(JwkSet.of(keys), skipped=tuple(skipped))


#: Seconds to wait for another process that verifies a card of the same issuer.
PATIENCE: Final = 10.0

_DIRECTORY_MODE: Final = 0o700
_ENDING: Final = ".json"


class DirectoryMemory:
    """A folder that remembers; satisfies :class:`cardsign.trust.known.Memory`.

    Args:
        path: The folder; it need not exist.
        floors: Those of the lock, by issuer. Where memory and lock differ the higher one holds.
        patience: Seconds to wait for another process.
    """

    def __init__(
        self,
        path: Path,
        floors: Mapping[str, Floor] | None = None,
        *,
        patience: float = PATIENCE,
    ) -> None:
        self.path = path
        self._floors = dict(floors or {})
        self._patience = patience

    @contextmanager
    def of(self, enrolment: Enrolment) -> Iterator[DirectoryMemo]:
        """The issuer's place, held alone among processes; that it can be written is certain.

        Raises:
            StateFault: ``state.busy``, or as :meth:`recall`.
            FileFault: ``file.unwritable``, and others of the folder.
        """
        if not self.path.is_dir():
            self.recall(enrolment)  # no folder is made for what is missing anyway
        with self._held(enrolment.name):
            known, notes = self.recall(enrolment)
            pin = _pin_of(enrolment.anchor)
            memo = DirectoryMemo(self._file(enrolment.name), enrolment.name, known, notes, pin)
            if notes:
                memo.begin()
            yield memo

    def recall(self, enrolment: Enrolment) -> tuple[Known, tuple[Reason, ...]]:
        """What is remembered of an issuer, with the lock's floors; nothing is written.

        Raises:
            StateFault: ``state.missing``, ``state.corrupt``, ``state.other_anchor``,
                ``state.fork``.
        """
        floor = self._floors.get(enrolment.name)
        known = self.find(enrolment.name)
        if known is None:
            return self._begun(enrolment, floor)
        digest = anchor_digest(enrolment.anchor)
        if known.anchor != digest:
            if not _continues(enrolment.anchor, known):
                raise self._fault("state.other_anchor", enrolment.name)
            known = replace(known, anchor=digest)
        # What is held, and what led to it, against the lock first; then what stays a floor besides.
        lower = self._with_pin(enrolment, known, floor or Floor())
        for passed in known.way:
            if lower.keyset is not None and passed.number == lower.keyset.number:
                raise_floor(enrolment.name, Floor(passed), lower)
        raise_floor(enrolment.name, known.as_floor(), lower)
        return replace(known, floor=raise_floor(enrolment.name, known.floor, lower)), ()

    def find(self, name: str) -> Known | None:
        """What the file of an issuer holds, under whatever anchor; None if there is none.

        Raises:
            StateFault: ``state.corrupt``.
        """
        file = self._file(name)
        try:
            return read_state(read_bytes(file, max_bytes=MAX_STATE_BYTES), name)
        except FileFault as fault:
            if fault.code == "file.not_found":
                return None
            raise StateFault("state.corrupt", fault.message, path=str(file)) from fault
        except InputRefused as exc:
            place = f"{exc.path}: " if exc.path else ""
            message = f"{place}{exc.message} ({exc.code})"
            hint = "Upgrade cardsign, if a newer one wrote it." if exc.path == "/format" else ""
            raise StateFault("state.corrupt", message, path=str(file), hint=hint) from exc

    def create(self, enrolment: Enrolment, known: Known) -> None:
        """Begin to remember an issuer; what is remembered under the same anchor stays.

        Raises:
            StateFault: ``state.corrupt``, ``state.other_anchor``, ``state.fork``, ``state.busy``.
            FileFault: ``file.unwritable``, and others of the folder.
        """
        with self._held(enrolment.name):
            if self.find(enrolment.name) is None:
                DirectoryMemo(self._file(enrolment.name), enrolment.name, None).keep(known)
            else:
                self.recall(enrolment)

    def forget(self, name: str) -> bool:
        """Remove what is remembered of an issuer; whether there was anything.

        Raises:
            StateFault: ``state.busy``.
            FileFault: ``file.unwritable``.
        """
        file = self._file(name)
        if not file.exists():
            return False
        with self._held(name):
            remove(file)
        return True

    def names(self) -> tuple[str, ...]:
        """The issuers of whom there is a memory, sorted."""
        found = (file.name.removesuffix(_ENDING) for file in self.path.glob(f"*{_ENDING}"))
        return tuple(sorted(name for name in found if ISSUER_NAME.fullmatch(name)))

    @staticmethod
    def _with_pin(enrolment: Enrolment, known: Known, floor: Floor) -> Floor:
        """The lock's floor, and the pin where it was moved ahead of what is held."""
        pin, held = _pin_of(enrolment.anchor), known.keyset
        if pin is None or held is None or pin.number <= held.number:
            return floor
        return raise_floor(enrolment.name, floor, Floor(pin))

    def _begun(self, enrolment: Enrolment, floor: Floor | None) -> tuple[Known, tuple[Reason, ...]]:
        # Under `tofu` an empty memory would be another first contact, with whoever answers now.
        if floor is None or isinstance(enrolment.anchor, TofuAnchor):
            raise self._fault("state.missing", enrolment.name)
        begun = f"the memory of {enrolment.name!r} was begun anew from the lock"
        note = Reason.of("state.created", begun)
        return Known(anchor_digest(enrolment.anchor), floor=floor), (note,)

    def _held(self, name: str) -> AbstractContextManager[None]:
        lock = self._file(name).with_suffix(".lock")
        make_directory(self.path, mode=_DIRECTORY_MODE)
        if not os.access(self.path, os.W_OK | os.X_OK):
            raise FileFault("file.unwritable", "the folder is read-only", path=str(self.path))
        return locked(lock, patience=self._patience, busy=self._fault("state.busy", name))

    def _file(self, name: str) -> Path:
        if not ISSUER_NAME.fullmatch(name):  # it is also a path, and must not leave the folder
            raise StateFault("state.missing", f"no issuer can be called {name!r}")
        return self.path / f"{name}{_ENDING}"

    def _fault(self, code: str, name: str) -> StateFault:
        message = {
            "state.missing": f"nothing is remembered of {name!r}",
            "state.busy": f"another process holds the memory of {name!r}",
            "state.other_anchor": f"{name!r} is remembered under another anchor",
        }[code]
        hint = f"If the anchor was changed on purpose: cardsign trust known forget {name}, then "
        hint += "cardsign trust init. Keep the memories of two policies apart with --state DIR."
        return StateFault(
            code,
            message,
            path=str(self._file(name)),
            hint=hint if code == "state.other_anchor" else "",
        )


@dataclass(slots=True)
class DirectoryMemo:
    """One issuer's place, for as long as its lock is held.

    Attributes:
        pin: The statement that the anchor names, through which every way from behind it leads.
    """

    file: Path
    name: str
    known: Known | None
    notes: tuple[Reason, ...] = ()
    pin: KeysetId | None = None

    def keep(self, known: Known) -> None:
        """See :class:`cardsign.trust.known.Memo`; only the file's user can read it.

        Raises:
            StateFault: ``state.other_anchor``: the step leads past the pin, as a recovery can.
            FileFault: ``file.unwritable``.
        """
        before = None if self.known is None else self.known.keyset
        after = known.keyset
        if (
            self.pin is not None
            and before is not None
            and after is not None
            and before.number < self.pin.number < after.number
        ):
            past = f"the statements of {self.name!r} lead past the pin of its anchor"
            raise StateFault("state.other_anchor", past, path=str(self.file))
        known = known.after(self.known)
        if known != self.known:
            self._write(known)
            self.known = known

    def begin(self) -> None:
        """Write what a new memory begins with."""
        if self.known is not None:
            self._write(self.known)

    def _write(self, known: Known) -> None:
        write_atomic(self.file, state_bytes(self.name, known), mode=PRIVATE_MODE)


def _continues(anchor: Anchor, known: Known) -> bool:
    """Whether an anchor that was moved is of the history that is remembered.

    It is if it names a statement that is held or was passed. One that is newer is a floor until
    the walk from what is held has come through it, and must therefore name the same issuer.
    """
    held = known.keyset
    if not isinstance(anchor, KeysetAnchor) or held is None:
        return False
    if anchor.issuer not in (None, held.issuer):
        return False
    if isinstance(anchor.pin, RootPin):
        return anchor.pin == RootPin.of(held.root)
    return anchor.pin in known.way or (
        anchor.issuer is not None and anchor.pin.number > held.number
    )


def _pin_of(anchor: Anchor) -> KeysetId | None:
    if isinstance(anchor, KeysetAnchor) and isinstance(anchor.pin, KeysetId):
        return anchor.pin
    return None
