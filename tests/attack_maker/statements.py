"""An issuer with statements, for the attacks on trust: his people, their keys, what they sign.

Payloads and signatures are put together by hand, so that any rule can be broken; of the package
only RFC 8785 and base64url are used.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Final

from cardsign.card import jcs
from tests.attack_maker.attack import ISSUER, NOW, Attack, issuer, refused, trusted
from tests.attack_maker.signing import (
    CARD,
    ORIGIN,
    Json,
    Key,
    b64,
    dump,
    ec_key,
    entry,
    payload_of,
    signed,
)

KEYSET: Final = "cardsign-keyset+jws"
RELEASE: Final = "cardsign-release+jws"
NAME: Final = "tides.example"
URL: Final = f"{ORIGIN}/.well-known/agent-card.json"
HOUR: Final = 3600
DAY: Final = 24 * HOUR
#: Seconds that an issuer's clock may be ahead, where the policy does not say.
SKEW: Final = 300
#: The largest integer that every JSON reader holds exactly.
MOST: Final = 2**53 - 1
YES: Final = "yes yes yes yes"


@dataclass(frozen=True)
class Statement:
    """A statement as it is received; `data` need not be what `members` say."""

    kind: str
    label: str
    members: Json
    data: bytes | Json

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the payload."""
        return hashlib.sha256(jcs(self.members)).hexdigest()

    @property
    def pin(self) -> Json:
        """Number and digest."""
        numbers = {name: self.members[name] for name in ("epoch", "version")}
        return {**numbers, "digest": self.digest}

    @property
    def parts(self) -> Json:
        """The envelope, to be changed."""
        assert isinstance(self.data, bytes)
        parts: Json = json.loads(self.data)
        return parts

    def sent(self, data: bytes | Json, label: str = "") -> Statement:
        """The same under other bytes."""
        if isinstance(data, dict) and "pieces" not in data:
            data = compact(data)
        return Statement(self.kind, label or self.label, self.members, data)


def compact(document: Any) -> bytes:
    """JSON without white space."""
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


def junk(kind: str, data: bytes | Json, label: str = "junk") -> Statement:
    """What is no statement at all."""
    return Statement(kind, label, {}, data)


def sealed(payload: bytes, *signatures: Json) -> Json:
    """An envelope."""
    return {"payload": b64(payload), "signatures": list(signatures)}


def seal(payload: bytes, key: Key, typ: str, /, **header: Any) -> Json:
    """One signature of a statement; a change to None takes a header's member away."""
    members = {"alg": key.alg, "kid": key.thumbprint, "typ": typ, **header}
    return entry(payload, key, {name: one for name, one in members.items() if one is not None})


class House:
    """An issuer: ann is his root, rita recovers, `card` and `rel` are his online keys."""

    def __init__(self, name: str = NAME, origin: str = ORIGIN) -> None:
        self.name, self.origin = name, origin
        self.url = f"{origin}/.well-known/agent-card.json"
        self.key = cache(ec_key)
        self.card = cache(self._card)

    def _card(self, by: str = "card") -> bytes:
        """His card, signed by the key of that name; a file, so that it is signed once."""
        return dump(signed(CARD, self.key(by)))

    def quorum(self, threshold: int, *names: str) -> Json:
        """`name` or `name:holder` each; who is not named otherwise holds his own key."""
        pairs = [name.partition(":") for name in names]
        keys = [{"public": self.key(n).jwk(), "holder": holder or n} for n, _, holder in pairs]
        return {"threshold": threshold, "keys": keys}

    def entry(self, name: str, *roles: str, **changes: Any) -> Json:
        """A member of `keys`; card or release as the key's name says, unless roles do."""
        told = roles or (("release",) if name.startswith("rel") else ("card",))
        times = {"nbf": NOW - 30 * DAY, "exp": NOW + 3650 * DAY}
        public = self.key(name).jwk()
        return {"public": public, "roles": list(told), "holder": "harbour", **times, **changes}

    def entries(self, *names: str) -> list[Json]:
        """Several."""
        return [self.entry(name) for name in names]

    def thumbprints(self, *names: str) -> list[str]:
        """As `revoked` lists them."""
        return sorted(self.key(name).thumbprint for name in names)

    # -------------------------------------------------------------- keyset statements

    def keyset_members(self, **changes: Any) -> Json:
        """Version 1."""
        return {
            "format": "cardsign-keyset/1",
            "issuer": self.name,
            "origins": [self.origin],
            "epoch": 1,
            "version": 1,
            "prev": None,
            "iat": NOW - DAY,
            "exp": NOW + 90 * DAY,
            "root": self.quorum(1, "ann"),
            "recovery": self.quorum(1, "rita"),
            "keys": self.entries("card", "rel", "rel2"),
            "revoked": [],
            **changes,
        }

    def keyset(self, *signers: str, label: str = "", **changes: Any) -> Statement:
        """Version 1 with these changes."""
        return self.keyset_of(self.keyset_members(**changes), *signers, label=label)

    def keyset_of(
        self, members: Json, *signers: str, label: str = "", payload: bytes | None = None
    ) -> Statement:
        """Any members, or any payload, signed by these; by ann where none is named."""
        number = f"keyset-{members.get('epoch')}.{members.get('version')}"
        data = self._signed(payload or jcs(members), KEYSET, signers or ("ann",))
        return Statement("keyset", label or number, members, data)

    def after(self, before: Statement, *signers: str, label: str = "", **changes: Any) -> Statement:
        """The next version."""
        version = before.members["version"] + 1
        members = {**before.members, "version": version, "prev": before.digest, **changes}
        return self.keyset_of(members, *signers, label=label)

    def reopened(
        self, before: Statement, *signers: str, label: str = "", **changes: Any
    ) -> Statement:
        """Version 1 of the next epoch, by the recovery key and a new root."""
        told: Json = {"epoch": before.members["epoch"] + 1, "version": 1, "prev": None}
        told |= {"root": self.quorum(1, "dan"), "keys": self.entries("card3", "rel3")}
        members = {**before.members, **told, "revoked": [], **changes}
        return self.keyset_of(members, *(signers or ("rita", "dan")), label=label)

    # -------------------------------------------------------------- release statements

    def listing(self, card: Json = CARD, seq: int = 3, **changes: Any) -> Json:
        """A member of `cards`."""
        digest = hashlib.sha256(payload_of(card)).hexdigest()
        return {"url": self.url, "kind": "public", "payload_sha256": digest, "seq": seq, **changes}

    def release_members(self, keyset: Statement, /, **changes: Any) -> Json:
        """Release 5, which lists the card."""
        return {
            "format": "cardsign-release/1",
            "issuer": self.name,
            "keyset": keyset.pin,
            "seq": 5,
            "iat": NOW - HOUR,
            "exp": NOW + 7 * DAY,
            "cards": [self.listing()],
            "floor": {self.url: 3},
            "revoked": [],
            "audit_head": None,
            **changes,
        }

    def release(
        self, keyset: Statement, /, *signers: str, label: str = "", **changes: Any
    ) -> Statement:
        """A release under a keyset with these changes; by rel where no signer is named."""
        return self.release_of(
            self.release_members(keyset, **changes), *(signers or ("rel",)), label=label
        )

    def release_of(
        self, members: Json, *signers: str, label: str = "", payload: bytes | None = None
    ) -> Statement:
        """Any members, or any payload."""
        under = members.get("keyset", {})
        number = f"release-{under.get('epoch')}.{under.get('version')}-{members.get('seq')}"
        data = self._signed(payload or jcs(members), RELEASE, signers or ("rel",))
        return Statement("release", label or number, members, data)

    def _signed(self, payload: bytes, typ: str, signers: Iterable[str]) -> bytes:
        return compact(sealed(payload, *(seal(payload, self.key(name), typ) for name in signers)))

    # -------------------------------------------------------------- anchors

    def root_pin(self, threshold: int, **holders: str) -> Json:
        """An anchor: the whole root set, each key by name with its holder."""
        keys = [
            {"thumbprint": self.key(name).thumbprint, "holder": holder}
            for name, holder in holders.items()
        ]
        return {"roots": {"issuer": self.name, "threshold": threshold, "keys": keys}}


def pin(statement: Statement) -> Json:
    """An anchor: this statement."""
    return {"keyset": statement.pin}


def lock(keyset: Statement | None, release: Statement | None = None) -> bytes:
    """A lock file that has seen these."""
    floor: Json = {"keyset": None, "newest_iat": 0, "release": None}
    for one in (keyset, release):
        floor["newest_iat"] = max(floor["newest_iat"], one.members["iat"] if one else 0)
    if keyset is not None:
        floor["keyset"] = keyset.pin
    if release is not None:
        under = release.members["keyset"]
        order = {"epoch": under["epoch"], "keyset_version": under["version"]}
        floor["release"] = {**order, "seq": release.members["seq"], "digest": release.digest}
    return dump({"format": "cardsign-lock/1", "issuers": {ISSUER: floor}})


# ------------------------------------------------------------------ attacks on statements


class Bench(Attack):
    """An attack on statements: a house, its first keyset and release, and an anchor to them.

    Freshness is required, the verifier remembers, and a twin is trusted because all four answers
    are yes. A step's card is the house's, signed by its key `card`, where none is given.

    Args:
        told: As for an :class:`Attack`: number, name, title and why.
        anchor: Of the policy; the first keyset statement's number and digest where none is given.
        house: Who is attacked.
        first: His first keyset statement.
        policy: More members of the policy's issuer.
    """

    def __init__(
        self,
        *told: Any,
        anchor: Json | None = None,
        house: House | None = None,
        first: Statement | None = None,
        source: str = "",
        **policy: Any,
    ) -> None:
        super().__init__(*told, source=source)
        self.house = house or House()
        self.first = first or self.house.keyset()
        self.release = self.house.release(self.first)
        self.freshness = {"freshness": "required", **policy}
        self.policy(issuer(anchor or pin(self.first), **self.freshness))

    def other_policy(self, file: str, anchor: Json | None = None, /, **members: Any) -> str:
        """Another policy beside the standard one."""
        said = {**self.freshness, **members}
        return self.policy(issuer(anchor or pin(self.first), **said), name=file)

    def lock(self, name: str, keyset: Statement | None, release: Statement | None = None) -> str:
        """Put a lock there that has seen these."""
        return str(self.input(f"{name}.lock", lock(keyset, release)))

    def supplied(self, *statements: Statement, **more: Any) -> Json:
        """What is brought along, in this order."""
        found: Json = dict(more)
        for one in statements:
            found.setdefault(f"{one.kind}s", []).append(self.input(one.label, one.data))
        return found

    def given(
        self, expect: Json, *statements: Statement, by: str = "card", card: Any = None, **more: Any
    ) -> Json:
        """One step with statements; the card is the house's, signed by `by`, or another."""
        name = more.pop("name", f"by-{by}")
        brought = self.supplied(*statements, **more.pop("evidence", {}))
        content = self.house.card(by) if card is None else card
        return self.step(content, expect, name=name, supplied=brought, **more)

    def refused(
        self,
        id_: str,
        title: str,
        verdict: str,
        code: str,
        answers: str,
        *brought: Statement,
        **more: Any,
    ) -> None:
        """A card that must not be trusted with these statements, and why."""
        expect = refused(verdict, code, answers, **more.pop("expecting", {}))
        about = self.about_case(more)
        step = self.given(expect, *brought, **more)
        self.case(id_, "attack", title, step, **{"memory": "fresh", **about})

    def honest(
        self, id_: str, title: str, *brought: Statement, warnings: tuple[str, ...] = (), **more: Any
    ) -> None:
        """A card that must be trusted with these statements, with these warnings at most."""
        about = self.about_case(more)
        step = self.given(trusted(*warnings, answers=YES), *brought, **more)
        self.case(id_, "twin", title, step, **{"memory": "fresh", **about})
