"""The bytes of a key store's state, format 2; format 1 is still read.

::

    {"format": 2, "generation": 1,
     "audit": {"seq": 1, "digest": "<SHA-256>"},
     "keys": [
       {"kid": ..., "thumbprint": ..., "alg": ..., "state": "active", "roles": ["card"],
        "custody": "file:private/<thumbprint>.key", "private": "held",
        "created": "2026-11-21T22:00:00Z", "times": {"activated": ..., ...},
        "public": {"kty": ..., ...}}],
     "publications": [{"generation": ..., "at": ..., "max_age": ..., "kids": [...],
       "cards": [{"name": ..., "url": ..., "payload_sha256": ..., "kids": [...]}]}],
     "statements": {"keyset": null, "release_seq": 1,
       "release": {"digest": "<SHA-256>", "previous": null}}}

Read as strictly as a stranger's file, since whoever can edit it may be one: public halves
are read and thumbprints computed anew, what a state implies must be there, and a member that
the format does not have is refused, because to drop what a newer cardsign noted could bring a
key back to life.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from typing import Final, NoReturn, TypeVar

from cardsign.card.strictjson import Json, parse_object
from cardsign.errors import JsonRefused, KeyRefused, StoreFault
from cardsign.jose.keys import PublicKey
from cardsign.keys.model import (
    ENDED,
    PRIVATE_HALVES,
    REASONS,
    ROLES,
    STATES,
    TIME_FORMAT,
    AuditHead,
    HeldRelease,
    KeyRecord,
    KeyState,
    KeyTimes,
    Publication,
    PublishedCard,
    Role,
    StatementsHeld,
    StoreState,
    file_custody,
)
from cardsign.statements.keyset import KeysetId

# The members of a kept state, checked one by one; every error names the file and the place.


_DIGEST: Final = re.compile(r"[0-9a-f]{64}")

_Item = TypeVar("_Item")
_Choice = TypeVar("_Choice", bound=str)


@dataclass(frozen=True, slots=True)
class Place:
    """A value of the state, and where it stands.

    Attributes:
        value: Whatever was read there.
        file: The state's file.
        pointer: The place in it, a JSON pointer.
    """

    value: Json
    file: str
    pointer: str = ""

    def members(self, required: Set[str], *, optional: Set[str] = frozenset()) -> dict[str, Place]:
        """The members of an object that has all of `required` and none but `optional` besides."""
        if not isinstance(self.value, Mapping):
            self.refuse("is not an object")
        if missing := sorted(required - self.value.keys()):
            self.at(missing[0]).refuse("is missing")
        if unknown := sorted(self.value.keys() - required - optional):
            self.at(unknown[0]).refuse("is no member of this format")
        return {name: self.at(name) for name in self.value}

    def at(self, name: str | int) -> Place:
        """The member or element of this name, None where there is none."""
        value: Json = None
        if isinstance(self.value, Mapping):
            value = self.value.get(str(name))
        elif isinstance(self.value, list) and isinstance(name, int):
            value = self.value[name]
        return Place(value, self.file, f"{self.pointer}/{name}")

    def items(self, read: Callable[[Place], _Item]) -> tuple[_Item, ...]:
        """The elements of a list, each as `read` has it."""
        if not isinstance(self.value, list):
            self.refuse("is not a list")
        return tuple(read(self.at(index)) for index in range(len(self.value)))

    def text(self) -> str:
        """A string."""
        if not isinstance(self.value, str):
            self.refuse("is not a string")
        return self.value

    def text_or_none(self) -> str | None:
        """A string or null."""
        return None if self.value is None else self.text()

    def texts(self) -> tuple[str, ...]:
        """A list of strings."""
        return self.items(Place.text)

    def count(self) -> int:
        """An integer from 0."""
        if type(self.value) is not int or self.value < 0:  # a bool is an int as well
            self.refuse("is not a count")
        return self.value

    def digest(self) -> str:
        """A SHA-256 in lower-case hex."""
        if not _DIGEST.fullmatch(text := self.text()):
            self.refuse("is not a SHA-256 in lower-case hex")
        return text

    def digest_or_none(self) -> str | None:
        """A SHA-256 or null."""
        return None if self.value is None else self.digest()

    def one_of(self, choices: tuple[_Choice, ...]) -> _Choice:
        """One of the words."""
        for choice in choices:
            if self.value == choice:
                return choice
        self.refuse(f"is none of {', '.join(choices)}")

    def time(self) -> datetime:
        """A time of UTC, to the second."""
        try:
            time = datetime.strptime(self.text(), TIME_FORMAT).replace(tzinfo=UTC)
        except ValueError:
            time = None
        if time is None or time.strftime(TIME_FORMAT) != self.value:
            self.refuse("is not a time like 2026-11-21T22:00:00Z")
        return time

    def refuse(self, what: str) -> NoReturn:
        """Say what is wrong here.

        Raises:
            StoreFault: ``keystore.corrupt``.
        """
        raise StoreFault("keystore.corrupt", f"`{self.pointer}` {what}", path=self.file)


FORMAT: Final = 2
MAX_STATE_BYTES: Final = 8 * 1024 * 1024  # bytes; 32 publications of 1000 extended cards

_STATE_OF_1: Final = frozenset({"format", "generation", "keys"})
_STATE: Final = _STATE_OF_1 | {"audit", "publications", "statements"}
_KEY_OF_1: Final = frozenset(
    {"kid", "thumbprint", "alg", "state", "roles", "custody", "created", "public"}
)
_KEY: Final = _KEY_OF_1 | {"private", "times"}
_TIMES: Final = tuple(field.name for field in fields(KeyTimes))
_URI: Final = re.compile(r"[a-z][a-z0-9+.-]*:")  # RFC 3986 3.1, in lower case

#: For each state the time that must be there, and those that cannot be.
_LATER: Final = ("activated", "stops_signing", "retired", "revoked")
_IMPLIED: Final[dict[KeyState, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "generated": ((), ("prepublished", *_LATER)),
    "prepublished": (("prepublished",), _LATER),
    "active": (("activated",), _LATER[1:]),
    "retiring": (("activated", "stops_signing"), _LATER[2:]),
    "retired": (("activated", "stops_signing", "retired"), _LATER[3:]),
    "revoked": (("revoked",), ()),
}


# ------------------------------------------------------------------------------ writing


def dump_state(state: StoreState) -> bytes:
    """Return the bytes to keep; equal states give equal bytes."""
    document: dict[str, Json] = {
        "format": FORMAT,
        "generation": state.generation,
        "audit": {"seq": state.audit.seq, "digest": state.audit.digest},
        "keys": [_key(key) for key in state.keys],
        "publications": [_publication(one) for one in state.publications],
        "statements": _statements(state.statements),
    }
    return (json.dumps(document, indent=2) + "\n").encode("ascii")


def _key(key: KeyRecord) -> Json:
    optional: dict[str, Json] = {"holder": key.holder, "revoked_because": key.revoked_because}
    times = {name: getattr(key.times, name) for name in _TIMES}
    return {
        "kid": key.kid,
        "thumbprint": key.thumbprint,
        "alg": key.alg,
        "state": key.state,
        "roles": list(key.roles),
        **{name: value for name, value in optional.items() if value is not None},
        "custody": key.custody,
        "private": key.private,
        "created": key.created.strftime(TIME_FORMAT),
        "times": {name: time.strftime(TIME_FORMAT) for name, time in times.items() if time},
        "public": dict(key.public.jwk()),
    }


def _statements(held: StatementsHeld) -> Json:
    keyset: Json = None
    if held.keyset:
        keyset = {
            "epoch": held.keyset.epoch,
            "version": held.keyset.version,
            "digest": held.keyset.digest,
        }
    written: dict[str, Json] = {"keyset": keyset, "release_seq": held.release_seq}
    if held.release:
        written["release"] = {
            "digest": held.release.digest,
            "previous": held.release.previous,
        }
    return written


def _publication(publication: Publication) -> Json:
    return {
        "generation": publication.generation,
        "at": publication.at.strftime(TIME_FORMAT),
        "max_age": publication.max_age,
        "kids": list(publication.kids),
        "cards": [
            {
                "name": card.name,
                "url": card.url,
                "payload_sha256": card.payload_sha256,
                "kids": list(card.kids),
            }
            for card in publication.cards
        ],
    }


# ------------------------------------------------------------------------------ reading


def load_state(untrusted_bytes: bytes, *, where: str) -> StoreState:
    """Read what :func:`dump_state` wrote, or a cardsign of format 1.

    Args:
        untrusted_bytes: What was kept.
        where: The file's path, for errors.

    Raises:
        StoreFault: ``keystore.corrupt``, with the place, or ``keystore.newer_format``.
    """
    try:
        document = parse_object(untrusted_bytes, max_bytes=MAX_STATE_BYTES)
    except JsonRefused as exc:
        raise StoreFault(
            "keystore.corrupt",
            f"the state is not strict JSON: {exc.message}",
            path=where,
            line=exc.line,
            column=exc.column,
        ) from exc
    whole = Place(document, where)
    version = whole.at("format").count()
    if version > FORMAT:
        raise StoreFault(
            "keystore.newer_format",
            f"this key store is of format {version}, and this cardsign knows {FORMAT}",
            path=where,
        )
    if version < 1:
        whole.at("format").refuse(f"is not 1 to {FORMAT}")
    return _read_format_1(whole) if version == 1 else _read_state(whole)


def _read_state(whole: Place) -> StoreState:
    members = whole.members(_STATE)
    audit = members["audit"].members({"seq", "digest"})
    head = AuditHead(audit["seq"].count(), audit["digest"].digest_or_none())
    if (head.seq == 0) is not (head.digest is None):
        members["audit"].refuse("has a digest without a line, or a line without one")
    return replace(
        _with_keys(members["keys"], _read_key),
        generation=members["generation"].count(),
        audit=head,
        publications=members["publications"].items(_read_publication),
        statements=_read_statements(members["statements"]),
    )


def _read_format_1(whole: Place) -> StoreState:
    """A store of the time before keys had a timeline; its waits begin with what is recorded now."""
    members = whole.members(_STATE_OF_1)
    state = _with_keys(members["keys"], _read_key_of_format_1)
    return replace(state, generation=members["generation"].count())


def _with_keys(keys: Place, read: Callable[[Place], KeyRecord]) -> StoreState:
    """A state that holds just the keys, of which no two are one or claim one place."""
    state = StoreState(0, ())
    for place, record in keys.items(lambda place: (place, read(place))):
        rivals = [key for key in state.keys if key.state == "active" and key.succeeds(record)]
        if record.state == "active" and rivals:
            place.refuse(f"is active, and so is key {rivals[0].kid!r}")
        try:
            state = state.with_key(record)
        except StoreFault as exc:
            place.refuse(f"is there twice: {exc.message}")
    return state


def _read_key(place: Place) -> KeyRecord:
    members = place.members(_KEY, optional={"holder", "revoked_because"})
    record = _read_common(members)
    times = {
        name: at.time()
        for name, at in members["times"].members(set(), optional=set(_TIMES)).items()
    }
    required, forbidden = _IMPLIED[record.state]
    for name in required:
        if name not in times:
            members["times"].at(name).refuse(f"is missing, and the key is {record.state}")
    for name in forbidden:
        if name in times:
            members["times"].at(name).refuse(f"is there, and the key is {record.state}")
    because = members.get("revoked_because")
    if (record.state == "revoked") is not (because is not None):
        place.at("revoked_because").refuse(f"does not fit a key that is {record.state}")
    private = members["private"].one_of(PRIVATE_HALVES)
    destroyed = "destroyed" in times
    held = record.custody.startswith("file:")
    if private != ("destroyed" if destroyed else "held" if held else "elsewhere"):
        members["private"].refuse("does not fit the custody and the times")
    if destroyed and record.state not in ENDED:
        members["private"].refuse(f"is destroyed, and the key is {record.state}")
    return replace(
        record,
        times=KeyTimes(**times),
        revoked_because=because.one_of(REASONS) if because else None,
        private=private,
    )


def _read_key_of_format_1(place: Place) -> KeyRecord:
    record = _read_common(place.members(_KEY_OF_1, optional={"holder"}))
    known = dict.fromkeys(_IMPLIED[record.state][0], record.created)
    if record.state != "generated":
        known["prepublished"] = record.created
    return replace(
        record,
        times=KeyTimes(**known),
        revoked_because="compromised" if record.state == "revoked" else None,
        private="held" if record.custody.startswith("file:") else "elsewhere",
    )


def _read_common(members: dict[str, Place]) -> KeyRecord:
    public = _read_public(members)
    custody = members["custody"].text()
    if not _URI.match(custody):
        members["custody"].refuse("is not the URI of a signer")
    if custody.startswith("file:") and custody != file_custody(public.thumbprint):
        members["custody"].refuse("is not the file of this key")
    return KeyRecord(
        public=public,
        state=members["state"].one_of(STATES),
        roles=_read_roles(members["roles"]),
        holder=members["holder"].text() if "holder" in members else None,
        custody=custody,
        created=members["created"].time(),
    )


def _read_public(members: dict[str, Place]) -> PublicKey:
    place = members["public"]
    untrusted_jwk = place.value
    if not isinstance(untrusted_jwk, dict):
        place.refuse("is not an object")
    try:
        public = PublicKey.from_jwk(untrusted_jwk)
    except KeyRefused as exc:
        place.refuse(f"is refused: {exc.message}")
    if public.jwk() != untrusted_jwk:
        place.refuse("is not written as cardsign writes a public key")
    for name in ("kid", "alg", "thumbprint"):
        if members[name].value != getattr(public, name):
            place.refuse(f"has another {name} than the record that it is in")
    return public


def _read_roles(place: Place) -> tuple[Role, ...]:
    value = place.value
    roles = tuple(role for role in ROLES if isinstance(value, list) and role in value)
    if not roles or list(roles) != value:
        place.refuse(f"is not a list of roles in the order {', '.join(ROLES)}")
    return roles


def _read_publication(place: Place) -> Publication:
    members = place.members({"generation", "at", "max_age", "kids", "cards"})
    return Publication(
        members["generation"].count(),
        members["at"].time(),
        members["max_age"].count(),
        members["kids"].texts(),
        members["cards"].items(_read_card),
    )


def _read_card(place: Place) -> PublishedCard:
    members = place.members({"name", "url", "payload_sha256", "kids"})
    return PublishedCard(
        members["name"].text(),
        members["url"].text_or_none(),
        members["payload_sha256"].digest(),
        members["kids"].texts(),
    )


def _read_statements(place: Place) -> StatementsHeld:
    members = place.members({"keyset", "release_seq"}, optional={"release"})
    return StatementsHeld(
        _read_keyset(members["keyset"]),
        members["release_seq"].count(),
        _read_release(members["release"]) if "release" in members else None,
    )


def _read_release(place: Place) -> HeldRelease:
    members = place.members({"digest", "previous"})
    return HeldRelease(members["digest"].digest(), members["previous"].digest_or_none())


def _read_keyset(place: Place) -> KeysetId | None:
    if place.value is None:
        return None
    members = place.members({"epoch", "version", "digest"})
    return KeysetId(
        members["epoch"].count(), members["version"].count(), members["digest"].digest()
    )
