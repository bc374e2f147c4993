"""What a verifier trusts beforehand about one issuer: one anchor, which names one source of keys.

An anchor never weakens into another: with a keyset anchor no JWK Set is read for trust, and
where the source that it names cannot be had, there is no verdict (threats.md 16).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from cardsign.card.strictjson import Json
from cardsign.errors import UsageFault
from cardsign.jose.jwks import JwkSet
from cardsign.jose.succession import RootPin, StatementPin


@dataclass(frozen=True, slots=True)
class KeysAnchor:
    """Pinned keys, each with the role card. Revocation and rollback cannot be seen with them.

    Attributes:
        keys: The keys by kid.
        holders: Who holds the key of a kid; a key without an entry counts for no holder.

    Raises:
        UsageFault: ``policy.malformed``: one key has two holders.
    """

    keys: JwkSet
    holders: Mapping[str, str] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        held = dict[str, str]()
        for key in self.keys.keys:
            holder = self.holders.get(key.kid, "")
            if held.setdefault(key.thumbprint, holder) != holder:
                raise UsageFault(
                    "policy.malformed",
                    f"{held[key.thumbprint]!r} and {holder!r} hold one key, under two kids",
                    hint="A key has one holder: two names for one key would count twice.",
                )

    def to_json(self) -> dict[str, Json]:
        """What it says, for its digest."""
        keys = sorted([key.kid, key.thumbprint, key.alg] for key in self.keys.keys)
        return {"type": "keys", "keys": [list(key) for key in keys], "holders": dict(self.holders)}


@dataclass(frozen=True, slots=True)
class JwksAnchor:
    """Whatever JWK Set is published at one URL: who controls the URL is the issuer."""

    url: str

    def to_json(self) -> dict[str, Json]:
        """What it says, for its digest."""
        return {"type": "jwks", "url": self.url}


@dataclass(frozen=True, slots=True)
class KeysetAnchor:
    """One keyset statement, or the whole root set; the statements after it follow by rule K6.

    Attributes:
        pin: The statement by number and digest, or the root set with its threshold.
        issuer: The issuer that the statements must name; None: the one of the first statement,
            which only a :class:`StatementPin` determines.
    """

    pin: StatementPin | RootPin
    issuer: str | None = None

    def to_json(self) -> dict[str, Json]:
        """What it says, for its digest."""
        pin: dict[str, Json]
        if isinstance(self.pin, RootPin):
            holders = sorted([thumbprint, holder] for thumbprint, holder in self.pin.holders)
            pin = {"threshold": self.pin.threshold, "holders": [list(pair) for pair in holders]}
        else:
            pin = {
                "epoch": self.pin.epoch,
                "version": self.pin.version,
                "digest": self.pin.digest,
            }
        return {"type": "keyset", "issuer": self.issuer, "pin": pin}


@dataclass(frozen=True, slots=True)
class TofuAnchor:
    """Whatever is found at first contact, from the card's own origin over TLS, and then kept."""

    def to_json(self) -> dict[str, Json]:
        """What it says, for its digest."""
        return {"type": "tofu"}


Anchor: TypeAlias = KeysAnchor | JwksAnchor | KeysetAnchor | TofuAnchor
