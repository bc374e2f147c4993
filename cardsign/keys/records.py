"""What a key store knows of its keys: public data only, wherever it is kept."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, get_args

from cardsign.card.strictjson import Json
from cardsign.errors import StoreFault
from cardsign.jose.keys import PublicKey
from cardsign.keys.states import PUBLISHED, KeyState

Role = Literal["root", "recovery", "card", "release"]

ROLES: Final[tuple[Role, ...]] = get_args(Role)

TIME_FORMAT: Final = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """One key of the store.

    Attributes:
        public: The public half; its kid, alg and thumbprint are the key's.
        state: Where it stands in its life.
        roles: What it may sign.
        holder: Who holds the private half, if that is recorded; two keys of one holder
            count once.
        custody: Where the private half lies: a signer URI, a ``file:`` being relative to
            the store.
        created: When it entered the store: UTC, to the second.
    """

    public: PublicKey
    state: KeyState
    roles: tuple[Role, ...]
    holder: str | None
    custody: str
    created: datetime

    @property
    def kid(self) -> str:
        """The published name: the thumbprint, or what an imported key brought along."""
        return self.public.kid

    @property
    def alg(self) -> str:
        """The one algorithm that the key serves."""
        return self.public.alg

    @property
    def thumbprint(self) -> str:
        """The identity inside the store (RFC 7638)."""
        return self.public.thumbprint

    @property
    def names(self) -> frozenset[str]:
        """Kid and thumbprint: no other key of the store may answer to either."""
        return frozenset({self.kid, self.thumbprint})

    def to_json(self) -> dict[str, Json]:
        """Return the record as it stands in the state."""
        holder: dict[str, Json] = {} if self.holder is None else {"holder": self.holder}
        return {
            "kid": self.kid,
            "thumbprint": self.thumbprint,
            "alg": self.alg,
            "state": self.state,
            "roles": list(self.roles),
            **holder,
            "custody": self.custody,
            "created": self.created.strftime(TIME_FORMAT),
            "public": dict(self.public.jwk()),
        }


@dataclass(frozen=True, slots=True)
class StoreState:
    """All that a store commits at once.

    Attributes:
        generation: The number of commits; a new store has 0.
        keys: Every key that the store ever held, oldest first.
    """

    generation: int
    keys: tuple[KeyRecord, ...]

    def active_keys(self) -> tuple[KeyRecord, ...]:
        """Return the keys that sign, oldest first."""
        return tuple(key for key in self.keys if key.state == "active")

    def published_keys(self) -> tuple[KeyRecord, ...]:
        """Return the keys whose public halves belong in the JWK Set, oldest first."""
        return tuple(key for key in self.keys if key.state in PUBLISHED)

    def ever_held_kids(self) -> frozenset[str]:
        """Return every kid that is or was ours; signatures under them are ours to replace."""
        return frozenset(key.kid for key in self.keys)

    def find(self, name: str) -> KeyRecord:
        """Return the key called `name`: its kid, its thumbprint, or a beginning of either.

        Raises:
            StoreFault: ``keystore.unknown_key``: none is called so, or several begin so.
        """
        fitting = [key for key in self.keys if name in key.names] or [
            key for key in self.keys if name and any(full.startswith(name) for full in key.names)
        ]
        if not fitting:
            raise StoreFault("keystore.unknown_key", f"no key is called {name!r}")
        if len(fitting) > 1:
            kids = ", ".join(key.kid for key in fitting)
            raise StoreFault(
                "keystore.unknown_key",
                f"several keys begin with {name!r}: {kids}",
                hint="Give more of the kid.",
            )
        return fitting[0]

    def with_key(self, record: KeyRecord) -> StoreState:
        """Return the state of the next generation, which holds `record` as well.

        Raises:
            StoreFault: ``keystore.duplicate_key``: the store holds this key already, or
                another that answers to its kid.
        """
        for key in self.keys:
            if key.thumbprint == record.thumbprint:
                raise StoreFault(
                    "keystore.duplicate_key", f"the store holds this key already, as {key.kid!r}"
                )
            if key.names & record.names:
                raise StoreFault(
                    "keystore.duplicate_key", f"another key answers to the kid {record.kid!r}"
                )
        return StoreState(self.generation + 1, (*self.keys, record))
