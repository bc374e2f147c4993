"""The verifier's policy: which keys speak for which subject, and what they may leave open.

`trust.toml` (:mod:`cardsign.trust.policyfile`) makes these objects; so may any program.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import astuple, dataclass, field, replace
from functools import cached_property
from ipaddress import IPv4Network, IPv6Network, ip_network
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, cast

from cardsign.card.canonical import DEFAULT_PROFILES, FULL_PROFILES, ProfileName
from cardsign.card.document import MAX_SIGNATURES
from cardsign.card.strictjson import MAX_CARD_BYTES
from cardsign.card.values import Json, jcs
from cardsign.errors import StateFault, UsageFault, closest
from cardsign.jose.algorithms import ALGORITHMS
from cardsign.jose.jwks import JwkSet
from cardsign.statements.keyset import MAX_KEYSET_LIFETIME, KeysetId, RootAnchor
from cardsign.statements.release import MAX_RELEASE_LIFETIME
from cardsign.urls import Origin, Place, Url, parse_origin, parse_url

#: The policy's own name of an issuer. It is part of a file's name, and is shown on terminals.
ISSUER_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
POLICY_FILE: Final = "trust.toml"

# What a verifier trusts beforehand about one issuer: one anchor, which names one source of keys.


@dataclass(frozen=True, slots=True)
class KeysAnchor:
    """Pinned keys, each with the role card. Revocation and rollback cannot be seen with them.

    `holders` says who holds the key of a kid; a key without an entry counts for no holder.

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

    `issuer` is what the statements must call their issuer; None: as the first statement does,
    which only a :class:`KeysetId` determines.
    """

    pin: KeysetId | RootAnchor
    issuer: str | None = None

    def to_json(self) -> dict[str, Json]:
        """What it says, for its digest."""
        pin: dict[str, Json]
        if isinstance(self.pin, RootAnchor):
            holders = sorted([thumbprint, holder] for thumbprint, holder in self.pin.holders)
            pin = {"threshold": self.pin.threshold, "holders": [list(pair) for pair in holders]}
        else:
            pin = self.pin.to_json()
        return {"type": "keyset", "issuer": self.issuer, "pin": pin}


Anchor: TypeAlias = KeysAnchor | JwksAnchor | KeysetAnchor

#: Whose signatures count: only those over the whole card, or also what the SDKs of A2A sign.
Accept: TypeAlias = Literal["full", "sdk"]
#: The profiles of each.
ACCEPTED: Final[Mapping[Accept, tuple[ProfileName, ...]]] = {
    "full": FULL_PROFILES,
    "sdk": DEFAULT_PROFILES,
}
# What else may be said of an issuer; :class:`TrustedIssuer` says what it means.
Freshness: TypeAlias = Literal["required", "waived"]
Peer: TypeAlias = Literal["required", "optional"]


Network: TypeAlias = IPv4Network | IPv6Network

#: The ranges in which an operator may let an issuer be reached. This machine and its own link are
#: not among them. The metadata services of clouds that are within them are refused all the same
#: (:func:`cardsign.net.connection.check_address`).
PRIVATE_NETWORKS: Final[tuple[Network, ...]] = tuple(
    map(
        ip_network,
        ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7"),
    )
)


def parse_network(text: str) -> Network:
    """Read a private network, such as ``10.0.0.0/8``.

    Raises:
        ValueError: It is no network, or not within :data:`PRIVATE_NETWORKS`.
    """
    network = ip_network(text)
    for private in PRIVATE_NETWORKS:
        # `Any`: both are of one version, which mypy cannot see.
        if network.version == private.version and network.subnet_of(cast(Any, private)):
            return network
    raise ValueError(f"{text} is no private network")


# The subject of a verdict. There is no default: a verdict without a subject says nothing.


@dataclass(frozen=True, slots=True)
class Holder:
    """The holder of the keys that the policy pins, at any origin."""


@dataclass(frozen=True, slots=True)
class Issuer:
    """An issuer by the policy's own name for it."""

    name: str


@dataclass(frozen=True, slots=True)
class AtOrigin:
    """The trusted issuer of this whole origin, such as ``https://agent.example``."""

    origin: str


@dataclass(frozen=True, slots=True)
class CardUrl:
    """The trusted issuer of the place of the URL that the card was asked from."""

    url: str


PublicSubject: TypeAlias = Holder | Issuer | AtOrigin | CardUrl


@dataclass(frozen=True, slots=True)
class Extended:
    """The extended card of one audience, by the id that the issuer gave to this verifier."""

    of: PublicSubject
    audience: str


Expectation: TypeAlias = PublicSubject | Extended


def public_subject(expect: Expectation | None) -> PublicSubject | None:
    """Whose card is expected, whatever its kind."""
    return expect.of if isinstance(expect, Extended) else expect


# What was seen of an issuer, below which nothing is accepted; lock and state say it.


@dataclass(frozen=True, slots=True)
class ReleaseFloor:
    """The newest release seen: its order (epoch, keyset version, seq) and digest."""

    order: tuple[int, int, int]
    digest: str


@dataclass(frozen=True, slots=True)
class RollbackFloor:
    """Statements older than these are a rollback, others of the same number a fork.

    Attributes:
        keyset: The newest keyset statement that was seen, or None.
        release: The newest release statement that was seen, or None.
        newest_iat: The highest `iat` that was seen, Unix seconds; 0 for none.
    """

    keyset: KeysetId | None = None
    release: ReleaseFloor | None = None
    newest_iat: int = 0


def raise_floor(name: str, held: RollbackFloor | None, seen: RollbackFloor) -> RollbackFloor:
    """The higher of two floors of one issuer, member by member.

    Raises:
        StateFault: ``state.fork``: one number with two digests.
    """
    if held is None or held == seen:
        return seen
    keysets = [one.keyset for one in (held, seen) if one.keyset is not None]
    releases = [one.release for one in (held, seen) if one.release is not None]
    keyset = max(keysets, key=attrgetter("number"), default=None)
    release = max(releases, key=attrgetter("order"), default=None)
    for pin in keysets:
        if keyset is not None and pin.number == keyset.number and pin != keyset:
            raise _fork(name, f"keyset {pin.label}", pin.digest, keyset.digest)
    for floor in releases:
        if release is not None and floor.order == release.order and floor != release:
            raise _fork(name, f"release {floor.order[2]}", floor.digest, release.digest)
    return RollbackFloor(keyset, release, max(held.newest_iat, seen.newest_iat))


def _fork(name: str, number: str, one: str, other: str) -> StateFault:
    return StateFault("state.fork", f"{number} of {name!r} is {one} here and {other} there")


#: Cards of one issuer that a policy lists, and URLs of an issuer at which a trusted card was found
#: that are remembered; a release statement of 64 KiB has room for hardly more. Of the others the
#: one found longest ago may vanish unnoticed; a card that is gone gets no verdict in any case.
MAX_CARDS: Final = 256
#: Seconds that an issuer's clock may be ahead of ours.
DEFAULT_SKEW: Final = 300
#: Seconds. More would make `iat` and `nbf` mean little.
MAX_SKEW: Final = 3600


#: The least and the most that each limit of a policy may be.
BOUNDS: Final[Mapping[str, tuple[int, int]]] = {
    "card_bytes": (1, MAX_CARD_BYTES),
    "signatures": (1, MAX_SIGNATURES),
    "skew": (0, MAX_SKEW),
    "keyset_age": (1, MAX_KEYSET_LIFETIME),
    "release_age": (1, MAX_RELEASE_LIFETIME),
}


@dataclass(frozen=True, slots=True)
class Limits:
    """Ceilings of one policy; it may lower the built-in ones and never raise them.

    Attributes:
        card_bytes: Bytes of a card.
        signatures: Entries of `signatures`.
        skew: Seconds that an issuer's clock may be ahead of ours.
        keyset_age: Seconds after `iat` for which a keyset statement is accepted at most; without
            it until its `exp`.
        release_age: Seconds after `iat` for which a release statement is accepted at most;
            without it until its `exp`.
    """

    card_bytes: int = MAX_CARD_BYTES
    signatures: int = MAX_SIGNATURES
    skew: int = DEFAULT_SKEW
    keyset_age: int | None = None
    release_age: int | None = None

    def __post_init__(self) -> None:
        for name, (least, most) in BOUNDS.items():
            value = getattr(self, name)
            if value is not None and not least <= value <= most:
                raise UsageFault(
                    "policy.malformed", f"{name} is {value}, expected {least} to {most}"
                )


@dataclass(frozen=True)  # without slots: what state is bound to is made once
class TrustedIssuer:
    """What the verifier says of one issuer.

    Attributes:
        name: The policy's own name for it; the only name that a verdict puts forward.
        anchor: The one source of its keys.
        places: Where its cards and interfaces may stand; None for anywhere.
        accept: ``full``: only signatures over the whole card count; ``sdk``: also those that the
            SDKs make, which may leave parts of the card unsigned.
        freshness: ``waived`` lets a card be trusted without evidence that it is current.
        algorithms: The algorithms whose signatures count.
        require: Holders who must all have signed the same payload.
        is_holder: The entry is nothing but "the holder of these keys".
        networks: Private networks in which the issuer's own origins may be reached, such as
            10.0.0.0/8.
        proxy: The proxy through which the issuer's own origins are reached: http://host:port.
        only: An expert's narrowing: of the accepted profiles, the only ones that count; all of
            them if it is empty.
        cards: The URLs of its cards that `peers verify` looks at day by day. They decide no
            verdict.
        peer: ``optional``: `peers verify` tells of these cards and fails by none of them.
        policy: The identity of the policy in which this stands; state is bound to it.
        floor: What the lock of that policy says of the issuer; None where it says nothing.

    Raises:
        UsageFault: ``policy.malformed``: an unknown `accept`, no algorithm, or an algorithm or a
            profile that cannot be accepted.
    """

    name: str
    anchor: Anchor
    places: tuple[Place, ...] | None
    accept: Accept = "full"
    freshness: Freshness = "required"
    algorithms: tuple[str, ...] = tuple(ALGORITHMS)
    require: tuple[str, ...] = ()
    is_holder: bool = False
    cards: tuple[str, ...] = ()
    peer: Peer = "required"
    networks: tuple[Network, ...] = ()
    proxy: Origin | None = None
    only: tuple[ProfileName, ...] = ()
    policy: str = field(default="", compare=False)
    floor: RollbackFloor | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if self.accept not in ACCEPTED:
            raise UsageFault(
                "policy.malformed", f"accept is {self.accept!r}, expected 'full' or 'sdk'"
            )
        _check_names("profile", self.profiles, ACCEPTED[self.accept])
        _check_names("algorithm", self.algorithms, tuple(ALGORITHMS))

    @property
    def profiles(self) -> tuple[ProfileName, ...]:
        """The profiles whose signatures count."""
        return self.only or ACCEPTED[self.accept]

    @cached_property
    def bound(self) -> tuple[str, str, tuple[str, ...]]:
        """What state is bound to: the policy, the anchor by its digest, and the origins."""
        anchor = hashlib.sha256(jcs(self.anchor.to_json())).hexdigest()
        return self.policy, anchor, tuple(sorted(str(place) for place in self.places or ()))

    def to_json(self) -> dict[str, Json]:
        """What it says of verdicts and of how to reach the issuer, for its digest."""
        return {
            "name": self.name,
            "anchor": self.anchor.to_json(),
            "places": None if self.places is None else [str(place) for place in self.places],
            "profiles": list(self.profiles),
            "freshness": self.freshness,
            "algorithms": list(self.algorithms),
            "require": list(self.require),
            "networks": [str(network) for network in self.networks],
            "proxy": None if self.proxy is None else str(self.proxy),
        }


@dataclass(frozen=True)  # without slots: its digest is made once
class Policy:
    """All trusted issuers of one verifier. What no entry allows is denied."""

    issuers: tuple[TrustedIssuer, ...] = ()
    limits: Limits = field(default_factory=Limits)

    @classmethod
    def from_jwks(
        cls,
        jwks: JwkSet | bytes | str | Mapping[str, Any],
        *,
        name: str = "pinned keys",
        origin: str | None = None,
        accept: Accept = "full",
        only: tuple[ProfileName, ...] = (),
    ) -> Policy:
        """Trust the holder of these keys, with freshness waived.

        Revocation and rollback cannot be seen this way; the verdict says so.

        Args:
            jwks: The keys: a JWK Set (RFC 7517) as bytes, text, dict or JwkSet.
            name: How verdicts call the holder.
            origin: Narrows the holder to interfaces of this origin.
            accept: Whose signatures count, as for :class:`TrustedIssuer`.
            only: The only profiles that count, likewise.

        Raises:
            CardRefused: `origin` is outside the strict grammar.
            UsageFault: As for :class:`TrustedIssuer`.
        """
        places = None if origin is None else (Place(parse_origin(origin)),)
        anchor = KeysAnchor(JwkSet.read(jwks))
        return cls(
            (TrustedIssuer(name, anchor, places, accept, "waived", is_holder=True, only=only),)
        )

    @classmethod
    def from_jwks_url(
        cls, url: str, *, origin: str, name: str | None = None, accept: Accept = "full"
    ) -> Policy:
        """Trust the issuer that publishes its keys as a JWK Set at one URL.

        Anyone who controls the URL counts as the issuer. Freshness is waived: a key set alone
        shows neither revocation nor rollback, and the verdict says so. `discover` fetches the keys.

        Args:
            url: Where the JWK Set is.
            origin: Where the issuer's cards and interfaces are, such as ``https://a.example``.
            name: How verdicts call the issuer; the host of `origin` if None.
            accept: Whose signatures count, as for :class:`TrustedIssuer`.

        Raises:
            CardRefused: `url` or `origin` is outside the strict grammar.
        """
        anchor = JwksAnchor(str(parse_url(url)))
        return cls((_issuer_at(origin, anchor, name, accept, "waived"),))

    @classmethod
    def load(cls, path: Path | str) -> Policy:
        """Read ``trust.toml``, with the rollback floors of its ``trust.lock``.

        Issuer states are bound to the file's real path.

        Raises:
            UsageFault: ``policy.malformed`` or ``lock.malformed``, with the line.
            FileMissing, FileFault: It cannot be read.
        """
        # The reader is loaded here alone: a policy made in Python needs neither it nor pydantic.
        from cardsign.trust.disk import PolicyFile

        given: object = path
        if not isinstance(given, str | Path):
            named = type(given).__name__
            raise TypeError(f"Policy.load takes a path, not {named}: Policy.load('trust.toml')")
        return PolicyFile.read(Path(path)).policy

    def __post_init__(self) -> None:
        given: object = self.issuers
        if not (isinstance(given, tuple) and all(isinstance(one, TrustedIssuer) for one in given)):
            raise TypeError(
                "Policy takes a tuple of TrustedIssuer; for one issuer use Policy.from_jwks(keys), "
                "Policy.from_jwks_url(url, origin=...) or Policy.load(path)"
            )

    def known_as(self, identity: str, floors: Mapping[str, RollbackFloor] | None = None) -> Policy:
        """This policy under an identity of its own, with the rollback floors of its lock.

        State is kept apart by identity: what one policy calls ``acme`` is not another's.

        The identity is a file's real path, or a name for a policy made in Python. The floors hold
        for verifications under the result and are never stored.
        """
        named = floors or {}
        return replace(
            self,
            issuers=tuple(
                replace(one, policy=identity, floor=named.get(one.name)) for one in self.issuers
            ),
        )

    @cached_property
    def digest(self) -> str:
        """SHA-256, in hex, of all that the policy says."""
        issuers: list[Json] = [one.to_json() for one in self.issuers]
        limits: list[Json] = [*astuple(self.limits)]
        return hashlib.sha256(jcs({"issuers": issuers, "limits": limits})).hexdigest()

    def issuer(self, name: str) -> TrustedIssuer:
        """The trusted issuer of that name.

        Raises:
            UsageFault: ``policy.unknown_issuer``.
        """
        found = self._named.get(name)
        if found is None:
            meant = closest(name, (one.name for one in self.issuers))
            raise UsageFault("policy.unknown_issuer", f"the policy has no issuer {name!r}{meant}")
        return found

    def find(self, expect: Expectation | None) -> TrustedIssuer | None:
        """The entry that speaks for a subject, or None if the policy has none.

        Raises:
            CardRefused: The expectation's own origin or URL is outside the strict grammar.
        """
        match public_subject(expect):
            case Holder():
                return next((one for one in self.issuers if one.is_holder), None)
            case Issuer(name):
                return self._named.get(name)
            case AtOrigin(origin):
                whole = Url(parse_origin(origin), "/", "")
                return self._at(whole)
            case CardUrl(url):
                return self._at(parse_url(url))
            case None:
                return None
        raise TypeError(
            "expect takes Holder(), Issuer(name), AtOrigin(origin), CardUrl(url) or "
            f"Extended(one of these, audience), not {expect!r}"
        )

    def _at(self, url: Url) -> TrustedIssuer | None:
        """The entry with the longest prefix that holds the URL."""
        path = url.path if url.path.endswith("/") else f"{url.path}/"
        while path:
            if (found := self._owners.get(Place(url.origin, path))) is not None:
                return found
            path = path[: path.rstrip("/").rfind("/") + 1]
        return None

    @cached_property
    def _named(self) -> dict[str, TrustedIssuer]:
        """Who has each name; the first one, where two have it."""
        return {one.name: one for one in reversed(self.issuers)}

    @cached_property
    def _owners(self) -> dict[Place, TrustedIssuer]:
        """Whose each place is; the first one's, where two have it."""
        pairs = [(place, one) for one in self.issuers for place in one.places or ()]
        return dict(reversed(pairs))

    def reserved_from(self, subject: TrustedIssuer) -> tuple[Place, ...]:
        """The places of others within the subject's own: what stands there is theirs."""
        found = self._reserved.get(id(subject))
        if found is None or found[0] is not subject:
            within = tuple(
                place
                for own in subject.places or ()
                for place, owner in self._placed.get(own.origin, ())
                # A server that ignores case must not give away what is reserved.
                if owner is not subject and place.prefix.lower().startswith(own.prefix.lower())
            )
            found = self._reserved[id(subject)] = (subject, within)
        return found[1]

    @cached_property
    def _reserved(self) -> dict[int, tuple[TrustedIssuer, tuple[Place, ...]]]:
        """What :meth:`reserved_from` found before, by the identity of the subject."""
        return {}

    @cached_property
    def _placed(self) -> dict[Origin, list[tuple[Place, TrustedIssuer]]]:
        """All places of an origin, and whose each is."""
        placed: dict[Origin, list[tuple[Place, TrustedIssuer]]] = {}
        for one in self.issuers:
            for place in one.places or ():
                placed.setdefault(place.origin, []).append((place, one))
        return placed

    def pinned_elsewhere(self, kid: str, subject: TrustedIssuer | None) -> str | None:
        """The first other entry that pins a key of that kid; it has no say about `subject`."""
        others = (one.name for one in self._pinning.get(kid, ()) if one is not subject)
        return next(others, None)

    @cached_property
    def _pinning(self) -> dict[str, list[TrustedIssuer]]:
        """Who pins a key of each kid."""
        pinning: dict[str, list[TrustedIssuer]] = {}
        for one in self.issuers:
            if isinstance(one.anchor, KeysAnchor):
                for key in one.anchor.keys.keys:
                    pinning.setdefault(key.kid, []).append(one)
        return pinning


def _issuer_at(
    origin: str,
    anchor: Anchor,
    name: str | None,
    accept: Accept,
    freshness: Freshness,
) -> TrustedIssuer:
    """One issuer that has an origin to itself."""
    place = Place(parse_origin(origin))
    named = name or re.sub("[^a-z0-9._-]+", "-", place.origin.host).strip("-")
    return TrustedIssuer(named, anchor, (place,), accept, freshness)


def _check_names(what: str, named: tuple[str, ...], allowed: tuple[str, ...]) -> None:
    if named and set(allowed).issuperset(named):
        return
    refused = ", ".join(name for name in named if name not in allowed) or f"no {what}"
    raise UsageFault(
        "policy.malformed", f"{refused} cannot be accepted; what can is {', '.join(allowed)}"
    )
