"""An honest issuer who publishes one keyset statement after another, for tests and vectors."""

from __future__ import annotations

import json
from typing import Any

from cardsign.testing.fake_issuer import digest_of as digest_of
from cardsign.testing.fake_issuer import members_of as members_of
from cardsign.testing.fake_issuer import payload_of as payload_of
from tests.statements.making import DAY, T0, TIDES, Members, entry, quorum, thumbprint

after, release = TIDES.keyset_after, TIDES.release


def opened(previous: bytes, *signers: str, **changes: Any) -> bytes:
    """Version 1 of the next epoch, whose root is ``dan`` alone; he and ``rita`` sign."""
    members = members_of(previous)
    members |= {"epoch": members["epoch"] + 1, "version": 1, "prev": None, "revoked": []}
    members["root"] = quorum(1, "dan")
    return TIDES.keyset(*(signers or ("dan", "rita")), **(members | changes))


def keyset(*signers: str, **changes: Any) -> bytes:
    """A first keyset statement with these changes, signed by these; it is 30 days old."""
    return TIDES.keyset(*signers, **{"iat": T0 - 30 * DAY, "exp": T0 + 60 * DAY, **changes})


def with_entries(statement: bytes, entries: list[Any]) -> bytes:
    """The same payload under other signatures."""
    return json.dumps({"payload": json.loads(statement)["payload"], "signatures": entries}).encode()


class History:
    """The keyset statements of one issuer, oldest first; each change is signed as it has to be.

    Attributes:
        statements: What was published.
        roots: Names of the root keys now.
        threshold: How many of them sign.
        recovery: Names of the recovery keys now; each one can recover.
    """

    def __init__(self) -> None:
        self.roots = ["ann", "bob", "cat"]
        self.threshold = 2
        self.recovery = ["rita"]
        self.card = "card"
        self._made = 0
        iat = T0 - 300 * DAY
        self.statements = [keyset("ann", "bob", iat=iat, exp=iat + 90 * DAY)]

    @property
    def newest(self) -> bytes:
        """The statement published last."""
        return self.statements[-1]

    def renew(self) -> None:
        """Nothing changes but the times."""
        self._publish(self._signers(), {})

    def replace_root(self) -> None:
        """The oldest root key goes, a new one comes."""
        before = self._signers()
        self.roots = [*self.roots[1:], self._name("root")]
        self._publish([*before, *self._signers()], {"root": self._root()})

    def move_threshold(self) -> None:
        """One holder more has to sign, or one alone if it were too many."""
        before = self._signers()
        self.threshold = self.threshold % len(self.roots) + 1
        self._publish([*before, *self._signers()], {"root": self._root()})

    def revoke(self) -> None:
        """The card key is revoked and replaced."""
        lost, self.card = self.card, self._name("card")
        said = members_of(self.newest)
        keys = [one for one in said["keys"] if one["public"]["kid"] != thumbprint(lost)]
        self._publish(
            self._signers(),
            {
                "keys": [*keys, entry(self.card, "card")],
                "revoked": sorted([*said["revoked"], thumbprint(lost)]),
            },
        )

    def replace_recovery(self) -> None:
        """New recovery keys, by the word of the old ones."""
        before, self.recovery = self.recovery, [self._name("rescue")]
        changes = {"recovery": quorum(1, *self.recovery)}
        self._publish([*self._signers(), *before], changes)

    def recover(self) -> None:
        """All roots are lost: the recovery keys open an epoch with new ones."""
        self.roots = [self._name("root"), self._name("root")]
        self.threshold = 1
        signers = [*self.recovery, *self._signers()]
        self.statements.append(opened(self.newest, *signers, root=self._root(), **self._times()))

    def _signers(self) -> list[str]:
        return self.roots[: self.threshold]

    def _root(self) -> Members:
        return quorum(self.threshold, *self.roots)

    def _name(self, what: str) -> str:
        self._made += 1
        return f"{what}-{self._made}"

    def _times(self) -> Members:
        iat = members_of(self.newest)["iat"] + 20 * DAY
        return {"iat": iat, "exp": iat + 90 * DAY}

    def _publish(self, signers: list[str], changes: Members) -> None:
        once = dict.fromkeys(signers)
        self.statements.append(after(self.newest, *once, **{**self._times(), **changes}))
