"""The bytes of a key store's state, format 1.

::

    {"format": 1, "generation": 1, "keys": [
      {"kid": ..., "thumbprint": ..., "alg": ..., "state": "active", "roles": ["card"],
       "custody": "file:private/<thumbprint>.key", "created": "2026-11-21T22:00:00Z",
       "public": {"kty": ..., ...}}]}

Read as strictly as a stranger's file, since whoever can edit it may be one: public halves
are read and thumbprints computed anew, and a member that format 1 does not have is refused,
because to drop what a newer cardsign noted could bring a key back to life.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Set
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from cardsign.card.strictjson import Json, parse_object
from cardsign.errors import JsonRefused, KeyRefused, StoreFault
from cardsign.jose.keys import PublicKey
from cardsign.keys.records import ROLES, TIME_FORMAT, KeyRecord, Role, StoreState
from cardsign.keys.states import STATES, KeyState

FORMAT: Final = 1
MAX_STATE_BYTES: Final = 1024 * 1024  # bytes; some 500 keys of the largest kind

_MEMBERS: Final = frozenset({"format", "generation", "keys"})
_KEY_MEMBERS: Final = frozenset(
    {"kid", "thumbprint", "alg", "state", "roles", "custody", "created", "public"}
)
_URI: Final = re.compile(r"[a-z][a-z0-9+.-]*:")  # RFC 3986 3.1, in lower case


def file_custody(thumbprint: str) -> str:
    """Return the only ``file:`` URI that the key of this thumbprint may have."""
    return f"file:private/{thumbprint}.key"


def dump_state(state: StoreState) -> bytes:
    """Return the bytes to keep; equal states give equal bytes."""
    document = {
        "format": FORMAT,
        "generation": state.generation,
        "keys": [key.to_json() for key in state.keys],
    }
    return (json.dumps(document, indent=2) + "\n").encode("ascii")


def load_state(untrusted_bytes: bytes, *, where: str) -> StoreState:
    """Read what :func:`dump_state` wrote.

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
    return _Reader(where).state(document)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Checks the parsed state; carries what every error must name."""

    where: str

    def state(self, document: Mapping[str, Json]) -> StoreState:
        version = self.count(document.get("format"), "/format")
        if version > FORMAT:
            raise StoreFault(
                "keystore.newer_format",
                f"this key store is of format {version}, and this cardsign knows {FORMAT}",
                path=self.where,
            )
        if version != FORMAT:
            raise self.corrupt("/format", f"is not {FORMAT}")
        self.check_members(document, _MEMBERS, "")
        keys = document["keys"]
        if not isinstance(keys, list):
            raise self.corrupt("/keys", "is not a list")
        state = StoreState(0, ())
        for index, untrusted_key in enumerate(keys):
            pointer = f"/keys/{index}"
            record = self.record(untrusted_key, pointer)
            try:
                state = state.with_key(record)
            except StoreFault as exc:
                raise self.corrupt(pointer, f"is there twice: {exc.message}") from exc
        return StoreState(self.count(document["generation"], "/generation"), state.keys)

    def record(self, untrusted_key: Json, pointer: str) -> KeyRecord:
        if not isinstance(untrusted_key, dict):
            raise self.corrupt(pointer, "is not an object")
        self.check_members(untrusted_key, _KEY_MEMBERS, pointer, optional={"holder"})
        public = self.public(untrusted_key, f"{pointer}/public")
        custody = self.text(untrusted_key["custody"], f"{pointer}/custody")
        if not _URI.match(custody):
            raise self.corrupt(f"{pointer}/custody", "is not the URI of a signer")
        if custody.startswith("file:") and custody != file_custody(public.thumbprint):
            raise self.corrupt(f"{pointer}/custody", "is not the file of this key")
        holder = untrusted_key.get("holder")
        return KeyRecord(
            public=public,
            state=self.key_state(untrusted_key["state"], f"{pointer}/state"),
            roles=self.roles(untrusted_key["roles"], f"{pointer}/roles"),
            holder=None if holder is None else self.text(holder, f"{pointer}/holder"),
            custody=custody,
            created=self.time(untrusted_key["created"], f"{pointer}/created"),
        )

    def public(self, untrusted_key: Mapping[str, Json], pointer: str) -> PublicKey:
        untrusted_jwk = untrusted_key["public"]
        if not isinstance(untrusted_jwk, dict):
            raise self.corrupt(pointer, "is not an object")
        try:
            public = PublicKey.from_jwk(untrusted_jwk)
        except KeyRefused as exc:
            raise self.corrupt(pointer, f"is refused: {exc.message}") from exc
        if public.jwk() != untrusted_jwk:
            raise self.corrupt(pointer, "is not written as cardsign writes a public key")
        for name in ("kid", "alg", "thumbprint"):
            if untrusted_key[name] != getattr(public, name):
                raise self.corrupt(pointer, f"has another {name} than the record that it is in")
        return public

    def key_state(self, value: Json, pointer: str) -> KeyState:
        for state in STATES:
            if value == state:
                return state
        raise self.corrupt(pointer, f"is none of {', '.join(STATES)}")

    def roles(self, value: Json, pointer: str) -> tuple[Role, ...]:
        roles = tuple(role for role in ROLES if isinstance(value, list) and role in value)
        if not roles or list(roles) != value:
            raise self.corrupt(pointer, f"is not a list of roles in the order {', '.join(ROLES)}")
        return roles

    def time(self, value: Json, pointer: str) -> datetime:
        try:
            time = datetime.strptime(self.text(value, pointer), TIME_FORMAT).replace(tzinfo=UTC)
        except ValueError:
            time = None
        if time is None or time.strftime(TIME_FORMAT) != value:
            raise self.corrupt(pointer, "is not a time like 2026-11-21T22:00:00Z")
        return time

    def text(self, value: Json, pointer: str) -> str:
        if not isinstance(value, str):
            raise self.corrupt(pointer, "is not a string")
        return value

    def count(self, value: Json, pointer: str) -> int:
        if type(value) is not int or value < 0:  # a bool is an int as well
            raise self.corrupt(pointer, "is not a count")
        return value

    def check_members(
        self,
        members: Mapping[str, Json],
        required: Set[str],
        pointer: str,
        *,
        optional: Set[str] = frozenset(),
    ) -> None:
        if missing := sorted(required - members.keys()):
            raise self.corrupt(f"{pointer}/{missing[0]}", "is missing")
        if unknown := sorted(members.keys() - required - optional):
            raise self.corrupt(f"{pointer}/{unknown[0]}", f"is no member of format {FORMAT}")

    def corrupt(self, pointer: str, what: str) -> StoreFault:
        return StoreFault("keystore.corrupt", f"`{pointer}` {what}", path=self.where)
