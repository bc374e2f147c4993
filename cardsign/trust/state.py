"""Issuer state: what a verifier remembers of an issuer, and where it is kept.

State belongs to one policy, and in it to one issuer with its anchor and its origins. What another
policy calls by the same name, or the same policy with other origins, has state of its own: else a
file from elsewhere could decide which issuer a name means.

A file that is missing, unreadable or of another history is a fault of this machine and never first
contact, or removing a file would reopen rollback (threat 18). Only a lock that names the issuer
lets a missing file be made anew.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock
from typing import Any, Final

from cardsign.card.strictjson import parse_object
from cardsign.card.values import Json
from cardsign.errors import FileFault, FileMissing, InputRefused, StateFault
from cardsign.files import (
    PRIVATE_MODE,
    locked,
    make_directory,
    read_bytes,
    remove,
    write_atomic,
)
from cardsign.findings import Finding
from cardsign.jose.algorithms import ALGORITHMS
from cardsign.jose.jwks import JwkSet, SkippedKey
from cardsign.jose.keys import PublicKey
from cardsign.statements import members as read
from cardsign.statements.keyset import KeysetId, KeysetStatement, RootAnchor, keyset_id, read_keyset
from cardsign.statements.release import ReleaseStatement, read_release
from cardsign.trust.policy import (
    ISSUER_NAME,
    MAX_CARDS,
    Anchor,
    KeysetAnchor,
    ReleaseFloor,
    RollbackFloor,
    TrustedIssuer,
    raise_floor,
)
from cardsign.urls import parse_place, parse_url

_LOG: Final = logging.getLogger(__name__)

#: Statements passed that are remembered by number and digest: those of one longest refresh.
MAX_PASSED: Final = 256


@dataclass(frozen=True, slots=True)
class IssuerState:
    """What is remembered of one issuer. Only signed times are kept, never the local clock's.

    Attributes:
        policy: The identity of the policy under which all of this was learned.
        anchor: Digest of the anchor of that time.
        origins: The issuer's origins of that time.
        keyset: The newest keyset statement, already trusted.
        release: The newest release statement, already trusted.
        newest_iat: The highest `iat` of a statement that was accepted, Unix seconds.
        jwks: The key set that a `jwks` anchor's URL gave last.
        passed: The keyset statements before the one held, oldest first; the newest
            :data:`MAX_PASSED`. An older pin is known again by them.
        cards: Where a trusted card was found, the newest place last; at most
            :data:`MAX_CARDS`. A card may not vanish from there unnoticed (threat 13).
        notes: What happened to the state itself, to be reported once; never kept.
    """

    policy: str
    anchor: str
    origins: tuple[str, ...]
    keyset: KeysetStatement | None = None
    release: ReleaseStatement | None = None
    newest_iat: int = 0
    jwks: JwkSet | None = None
    passed: tuple[KeysetId, ...] = ()
    cards: tuple[str, ...] = ()
    notes: tuple[Finding, ...] = field(default=(), compare=False)

    @classmethod
    def begin(
        cls,
        issuer: TrustedIssuer,
        keyset: KeysetStatement | None = None,
        release: ReleaseStatement | None = None,
    ) -> IssuerState:
        """What is remembered of an issuer that was just added, by statements in hand if any."""
        newest = max((one.iat for one in (keyset, release) if one is not None), default=0)
        return cls(*issuer.bound, keyset, release, newest)

    @property
    def way(self) -> tuple[KeysetId, ...]:
        """The keyset statements known to lead to the one held, and that one last."""
        held = self.keyset
        if held is None:
            return self.passed
        named = () if held.prev is None else (KeysetId(held.epoch, held.version - 1, held.prev),)
        return *self.passed, *named, held.id

    def is_of(self, issuer: TrustedIssuer) -> bool:
        """Whether this was learned under the same policy, anchor and origins."""
        return (self.policy, self.anchor, self.origins) == issuer.bound

    def with_keyset(self, keyset: KeysetStatement) -> IssuerState:
        """This, one step further; what was held is passed."""
        way = self.way if self.keyset not in (None, keyset) else self.passed
        return replace(
            self,
            keyset=keyset,
            newest_iat=max(self.newest_iat, keyset.iat),
            passed=tuple(dict.fromkeys(way))[-MAX_PASSED:],
        )

    def with_card(self, url: str, listed: Collection[str] = ()) -> IssuerState:
        """This, with one more place of a trusted card; of too many, one that is not listed goes.

        `listed` is where the policy has the issuer's cards.
        """
        cards = [*(one for one in self.cards if one != url), url]
        if len(cards) > MAX_CARDS:
            cards.remove(next((one for one in cards if one not in listed), cards[0]))
        return replace(self, cards=tuple(cards))

    def as_floor(self) -> RollbackFloor:
        """What a lock has to hold, so that a machine without state goes no lower.

        All of it comes from statements that were verified here.
        """
        held, listed = self.keyset, self.release
        return RollbackFloor(
            None if held is None else held.id,
            None if listed is None else ReleaseFloor(listed.order, listed.digest),
            self.newest_iat,
        )


def rollback_floor(issuer: TrustedIssuer, state: IssuerState | None) -> RollbackFloor:
    """The lock's floor, and a pin that was moved ahead: nothing below is accepted."""
    floor = issuer.floor or RollbackFloor()
    pin, held = pin_of(issuer.anchor), state.keyset if state else None
    if pin is not None and held is not None and held.id < pin:
        return floor if floor.keyset and pin < floor.keyset else replace(floor, keyset=pin)
    return floor


def check_history(issuer: TrustedIssuer, state: IssuerState) -> None:
    """Check that the lock, the pin, what is held and what led to it are of one history.

    Raises:
        StateFault: ``state.fork``.
    """
    floor = rollback_floor(issuer, state)
    least = floor.keyset
    way = () if least is None else state.way
    own = [RollbackFloor(one) for one in way if least and one.number == least.number]
    for other in (*own, state.as_floor(), issuer.floor):
        raise_floor(issuer.name, other, floor)


def pin_of(anchor: Anchor) -> KeysetId | None:
    """The statement that an anchor names, through which every way from behind it leads."""
    if isinstance(anchor, KeysetAnchor) and isinstance(anchor.pin, KeysetId):
        return anchor.pin
    return None


class IssuerStates:
    """Where a verifier remembers issuers. Lost or corrupt state is a fault, never first contact.

    The base class remembers nothing (`--no-state`); the rollback floors of a lock still hold.

    ``IssuerStates.create(path)`` begins a folder, once; ``IssuerStates.at(path)`` opens it.
    """

    @staticmethod
    def create(path: Path | str) -> DirectoryStates:
        """Begin a folder of issuer states, and open it.

        To be called once, by a person or a setup script: a program that begins anew what was
        lost forgets every rollback that it could have seen.

        Raises:
            FileFault: ``file.exists``: states were begun there before; ``file.unwritable``.
        """
        folder = Path(path)
        make_directory(folder, mode=_DIRECTORY_MODE)
        states = DirectoryStates(folder, begins=True)
        with states._alone(folder / _BEGUN, "this folder"):
            if (folder / _BEGUN).exists():
                raise FileFault(
                    "file.exists",
                    "issuer states were begun here before",
                    path=str(path),
                    hint=f"Open them: IssuerStates.at({str(path)!r}).",
                )
            names = sorted(file.name for file in folder.glob(f"*{_ENDING}"))
            write_atomic(folder / _BEGUN, _lines(names), mode=PRIVATE_MODE)
        return states

    @staticmethod
    def at(path: Path | str) -> DirectoryStates:
        """Open a folder of issuer states.

        An issuer that is new to a folder made by :meth:`create` is remembered from its first
        use. In one made by ``cardsign trust init`` that command begins each issuer.

        Raises:
            StateFault: ``state.missing``: there is no such folder.
        """
        folder = Path(path)
        if not folder.is_dir():
            missing = "there is no such folder of issuer states"
            hint = _TO_BEGIN.format(path=str(path))
            raise StateFault("state.missing", missing, path=str(path), hint=hint)
        return DirectoryStates(folder, begins=(folder / _BEGUN).exists())

    def of(self, issuer: TrustedIssuer) -> AbstractContextManager[IssuerState | None]:
        """What is remembered; no other process changes it for as long as the context lasts.

        None where this store remembers nothing at all.

        Raises:
            LocalFault: ``state.missing``, ``state.corrupt``, ``state.other_anchor``,
                ``state.fork``, ``file.busy``, or of the file.
        """
        return nullcontext()

    def keep(self, issuer: TrustedIssuer, state: IssuerState) -> None:
        """Remember durably before returning; only inside the context of :meth:`of`.

        Raises:
            LocalFault: It cannot be kept; then nothing has changed.
        """


NO_STATES: Final = IssuerStates()


class TransientStates(IssuerStates):
    """State that lasts as long as the process; every issuer is remembered from the start.

    Args:
        states: What is remembered already, by the issuer's name.
    """

    def __init__(self, states: Mapping[str, IssuerState] | None = None) -> None:
        self._states = {(state.policy, name): state for name, state in (states or {}).items()}
        self._alone = defaultdict[tuple[str, str], Lock](Lock)

    @contextmanager
    def of(self, issuer: TrustedIssuer) -> Iterator[IssuerState]:
        """See :class:`IssuerStates`."""
        key = issuer.policy, issuer.name
        with self._alone[key]:
            state = self._states.setdefault(key, IssuerState.begin(issuer))
            if not state.is_of(issuer):
                raise StateFault("state.other_anchor", _other(issuer.name, state, issuer))
            yield state

    def keep(self, issuer: TrustedIssuer, state: IssuerState) -> None:
        """See :class:`IssuerStates`."""
        self._states[issuer.policy, issuer.name] = state


#: Seconds to wait for another process that verifies a card of the same issuer.
PATIENCE: Final = 10.0

_DIRECTORY_MODE: Final = 0o700
_ENDING: Final = ".json"
_BEGUN: Final = "begun"
#: Bytes of the list of issuers that a folder has begun to remember: some 10,000 of them.
MAX_BEGUN_BYTES: Final = 1024 * 1024


class DirectoryStates(IssuerStates):
    """A folder that remembers, one file for each issuer of each policy.

    Args:
        path: The folder; it need not exist.
        patience: Seconds to wait for another process.
        begins: An issuer that was never remembered here is, from its first use on. The file
            ``begun`` of the folder lists all that were, so that one that is lost is not new.
    """

    def __init__(self, path: Path, *, patience: float = PATIENCE, begins: bool = False) -> None:
        self.path = path
        self._patience = patience
        self._begins = begins

    def _note_begun(self, issuer: TrustedIssuer) -> None:
        """Begin to remember an issuer that the folder never knew."""
        file = self.file(issuer.policy, issuer.name)
        if file.name in self._begun_names():
            return
        with self._alone(self.path / _BEGUN, "this folder"):
            if not file.exists():
                self.keep(issuer, IssuerState.begin(issuer))
            names = {*self._begun_names(), file.name}
            write_atomic(self.path / _BEGUN, _lines(sorted(names)), mode=PRIVATE_MODE)
        _LOG.info("%s is remembered from now on, in %s", issuer.name, file)

    def _begun_names(self) -> list[str]:
        """The files of all issuers that were ever remembered here."""
        data = read_bytes(self.path / _BEGUN, max_bytes=MAX_BEGUN_BYTES)
        return data.decode("ascii", "replace").split()

    @contextmanager
    def of(self, issuer: TrustedIssuer) -> Iterator[IssuerState]:
        """See :class:`IssuerStates`; that it can be written is certain."""
        if not self.path.is_dir():
            self.recall(issuer)  # no folder is made for what is missing anyway
        with self._held(issuer):
            if self._begins:
                self._note_begun(issuer)
            state = self.recall(issuer)
            if state.notes:
                self.keep(issuer, state)
            yield state

    def keep(self, issuer: TrustedIssuer, state: IssuerState) -> None:
        """See :class:`IssuerStates`; only the file's user can read it."""
        write_atomic(
            self.file(issuer.policy, issuer.name),
            state_bytes(issuer.name, state),
            mode=PRIVATE_MODE,
        )

    def recall(self, issuer: TrustedIssuer) -> IssuerState:
        """What is remembered of an issuer; nothing is written.

        Raises:
            StateFault: ``state.missing``, ``state.corrupt``, ``state.other_anchor``,
                ``state.fork``.
        """
        state = self.find(issuer.policy, issuer.name)
        if state is None:
            if issuer.floor is None:
                missing = f"nothing is remembered of {issuer.name!r} under this policy"
                raise self._fault("state.missing", issuer, missing)
            begun = f"the state of {issuer.name!r} was begun anew; trust.lock names it"
            note = Finding("state.created", begun)
            return replace(IssuerState.begin(issuer), notes=(note,))
        if not state.is_of(issuer):
            if state.origins != issuer.bound[2] or not _continues(issuer.anchor, state):
                raise self._fault("state.other_anchor", issuer, _other(issuer.name, state, issuer))
            state = replace(state, anchor=issuer.bound[1])
        check_history(issuer, state)
        return state

    def find(self, policy: str, name: str) -> IssuerState | None:
        """What the file of an issuer holds, under whatever anchor; None if there is none.

        Raises:
            StateFault: ``state.corrupt``.
        """
        file = self.file(policy, name)
        try:
            state = read_state(read_bytes(file, max_bytes=MAX_STATE_BYTES), name)
        except FileMissing:
            return None
        except FileFault as fault:
            raise StateFault("state.corrupt", fault.message, path=str(file)) from fault
        except InputRefused as exc:
            place = f"{exc.path}: " if exc.path else ""
            message = f"{place}{exc.message} ({exc.code})"
            hint = "Upgrade cardsign, if a newer one wrote it." if exc.path == "/format" else ""
            raise StateFault("state.corrupt", message, path=str(file), hint=hint) from exc
        if state.policy != policy:
            raise StateFault("state.corrupt", "it is of another policy", path=str(file))
        return state

    def begin(self, issuer: TrustedIssuer, state: IssuerState) -> None:
        """Begin to remember an issuer; what is remembered under the same anchor stays.

        Raises:
            StateFault: ``state.corrupt``, ``state.other_anchor``, ``state.fork``, ``file.busy``.
            FileFault: ``file.unwritable``, and others of the folder.
        """
        with self._held(issuer):
            if self.find(issuer.policy, issuer.name) is None:
                self.keep(issuer, state)
            else:
                self.recall(issuer)

    def adopt(self, issuer: TrustedIssuer) -> bool:
        """Go on under changed origins, where a keyset anchor vouches for what is remembered.

        All of it was reached from the anchor by lawful steps, wherever it was fetched.

        Returns:
            Whether anything had to be changed.

        Raises:
            StateFault: ``state.other_anchor``, and others of :meth:`recall`.
        """
        with self._held(issuer):
            state = self.find(issuer.policy, issuer.name)
            own = IssuerState.begin(issuer)
            if state is None or state.origins == own.origins:
                self.recall(issuer)
                return False
            is_same = state.anchor == own.anchor or _continues(issuer.anchor, state)
            if not (is_same and isinstance(issuer.anchor, KeysetAnchor)):
                raise self._fault("state.other_anchor", issuer, _other(issuer.name, state, issuer))
            self.keep(issuer, replace(state, anchor=own.anchor, origins=own.origins, cards=()))
        return True

    def forget(self, policy: str, name: str) -> bool:
        """Remove what is remembered of an issuer; whether there was anything.

        Raises:
            StateFault: ``file.busy``.
            FileFault: ``file.unwritable``.
        """
        file = self.file(policy, name)
        if not file.exists():
            return False
        with self._alone(file, name):
            remove(file)
        return True

    def names(self) -> tuple[tuple[str, str], ...]:
        """(name, policy) of every issuer of which there is readable state, sorted."""
        names = []
        for file in self.path.glob(f"*{_ENDING}"):
            name = file.name.removesuffix(_ENDING).rpartition(".")[0]
            with suppress(FileFault, InputRefused):
                state = read_state(read_bytes(file, max_bytes=MAX_STATE_BYTES), name)
                names.append((name, state.policy))
        return tuple(sorted(names))

    def file(self, policy: str, name: str) -> Path:
        """Where an issuer of a policy is remembered."""
        if not ISSUER_NAME.fullmatch(name):  # it is also a path, and must not leave the folder
            raise StateFault("state.missing", f"no issuer can be called {name!r}")
        return self.path / f"{name}.{hashlib.sha256(policy.encode()).hexdigest()[:16]}{_ENDING}"

    def _held(self, issuer: TrustedIssuer) -> AbstractContextManager[None]:
        make_directory(self.path, mode=_DIRECTORY_MODE)
        if not os.access(self.path, os.W_OK | os.X_OK):
            raise FileFault("file.unwritable", "the folder is read-only", path=str(self.path))
        return self._alone(self.file(issuer.policy, issuer.name), issuer.name)

    def _alone(self, file: Path, name: str) -> AbstractContextManager[None]:
        message = f"another process holds the state of {name!r}"
        busy = StateFault("file.busy", message, path=str(file))
        return locked(file.with_suffix(".lock"), patience=self._patience, busy=busy)

    def _fault(self, code: str, issuer: TrustedIssuer, message: str) -> StateFault:
        return StateFault(
            code,
            message,
            path=str(self.file(issuer.policy, issuer.name)),
            hint=_HINTS.get(code, "").format(name=issuer.name, path=str(self.path)),
        )


def _lines(names: Iterable[str]) -> bytes:
    return "".join(f"{name}\n" for name in names).encode("ascii")


_TO_BEGIN: Final = (
    "If this machine is new to it: cardsign trust init, or in Python once "
    "IssuerStates.create({path!r}). If not, restore it from a backup."
)
_WAYS_OUT: Final = (
    "If you did not change anchor or origins, put the old ones back. If you changed the origins of "
    "a pinned keyset: cardsign trust init. Otherwise cardsign trust known forget {name}, then "
    "cardsign trust init; the floors of trust.lock stay."
)
_HINTS: Final = {"state.other_anchor": _WAYS_OUT, "state.missing": _TO_BEGIN}


def _other(name: str, state: IssuerState, issuer: TrustedIssuer) -> str:
    if state.origins != issuer.bound[2]:
        return f"{name!r} is remembered at other origins: {', '.join(state.origins) or 'any'}"
    return f"{name!r} is remembered under another anchor"


def _continues(anchor: Anchor, state: IssuerState) -> bool:
    """Whether an anchor that was moved is of the history that is remembered.

    It is if it names a statement that is held or was passed. One that is newer is a floor until
    the walk from what is held has come through it, and must therefore name the same issuer.
    """
    held = state.keyset
    if not isinstance(anchor, KeysetAnchor) or held is None:
        return False
    if anchor.issuer not in (None, held.issuer):
        return False
    if isinstance(anchor.pin, RootAnchor):
        return anchor.pin == RootAnchor.of(held.root)
    return anchor.pin in state.way or (anchor.issuer is not None and held.id < anchor.pin)


#: The file of one issuer; read back as strictly as what is fetched.
STATE_FORMAT: Final = "cardsign-state/1"
#: Bytes. Two statements and a key set of 64 KiB each, escaped, and 256 URLs of 2 KiB.
MAX_STATE_BYTES: Final = 1024 * 1024

_MAX_DEPTH: Final = 8


def state_bytes(name: str, state: IssuerState) -> bytes:
    """The file that holds what is remembered of the issuer `name`; the same for the same."""
    members = {member: _written(getattr(state, member)) for member in _MEMBERS}
    document = {"format": STATE_FORMAT, "issuer": name, **members}
    return json.dumps(document, indent=2, sort_keys=True).encode("ascii") + b"\n"


def _written(value: Any) -> Any:
    """What a state holds, as JSON; :data:`_MEMBERS` reads it back."""
    match value:
        case tuple():
            return [_written(one) for one in value]
        case KeysetId():
            return value.to_json()
        case KeysetStatement() | ReleaseStatement():
            # In its shortest form, so that it is never too long to be read again.
            return value.envelope.to_bytes().decode("ascii")
        case JwkSet():
            # Whatever its length: 64 KiB as its issuer wrote it may be more as we do.
            return {
                "keys": [{**key.jwk()} for key in value.keys],
                "skipped": [[one.kid, one.code, one.message] for one in value.skipped],
            }
    return value


def read_state(data: bytes, name: str) -> IssuerState:
    """Read what :func:`state_bytes` wrote for `name`. No signature is verified again.

    Raises:
        InputRefused: JsonRefused, StatementRefused or KeyRefused, for the reader of the file to
            place; ``statement.format`` also for that of a newer cardsign.
    """
    document = parse_object(data, max_bytes=MAX_STATE_BYTES, max_depth=_MAX_DEPTH)
    members = read.document(document, STATE_FORMAT, ("format", "issuer", *_MEMBERS))
    if members["issuer"] != name:
        raise read.refused("/issuer", f"the issuer {name!r}")
    return IssuerState(**{one: member(members[one], f"/{one}") for one, member in _MEMBERS.items()})


def time_of(value: Json, path: str) -> int:
    """Unix seconds, or 0 for none."""
    return 0 if type(value) is int and value == 0 else read.integer(value, path, most=read.MAX_TIME)


def _is_a(kind: type, expected: str) -> read.Reader:
    def checked(value: Json, path: str) -> Json:
        if not isinstance(value, kind):
            raise read.refused(path, expected)
        return value

    return checked


def _statement(reader: Callable[[bytes], object]) -> read.Reader:
    text = _is_a(str, "a document as text, or null")
    return read.optional(lambda value, path: reader(text(value, path).encode()))


def _urls(parse: Callable[[str], object]) -> read.Reader:
    expected = "a URL inside the strict grammar"
    return read.each(
        lambda value, path: read.one_spelling(value, lambda text: str(parse(text)), path, expected)
    )


def _public_key(value: Json, path: str) -> PublicKey:
    jwk = _is_a(dict, "a public JWK")(value, path)
    return PublicKey.from_jwk(jwk, algorithms=tuple(ALGORITHMS))


def _skipped(value: Json, path: str) -> SkippedKey:
    match value:
        case [str(kid), str(code), str(message)]:
            return SkippedKey(kid, code, message)
    raise read.refused(path, "kid, code and message")


def _jwks(value: Json, path: str) -> JwkSet:
    readers = {"keys": read.each(_public_key), "skipped": read.each(_skipped)}
    members = read.fields(value, readers, path)
    return replace(JwkSet.of(members["keys"]), skipped=members["skipped"])


#: What a state holds, and how each member of it is read from its file.
_MEMBERS: Final[dict[str, read.Reader]] = {
    "policy": _is_a(str, "a string"),
    "anchor": read.digest,
    "origins": _urls(parse_place),
    "keyset": _statement(read_keyset),
    "release": _statement(read_release),
    "newest_iat": time_of,
    "jwks": read.optional(_jwks),
    "passed": read.each(keyset_id),
    "cards": _urls(parse_url),
}
