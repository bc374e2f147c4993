"""The verifier's policy: which keys speak for which subject, and what they may leave open.

`trust.toml` (:mod:`cardsign.trust.policyfile`) makes these objects; so may any program.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, TypedDict

from cardsign.card.profiles import DEFAULT_PROFILES, FULL_PROFILES, ProfileName
from cardsign.errors import FileMissing, UsageFault, check_types, closest
from cardsign.files import user_folder
from cardsign.jose.jwk import ALGORITHMS
from cardsign.jose.keys import JwkSet
from cardsign.statements.keyset import KeysetId, RootAnchor
from cardsign.urls import Origin, Place, Url, check_secure, parse_origin, parse_url

#: The policy's own name of an issuer. It is part of a file's name, and is shown on terminals.
ISSUER_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
POLICY_FILE: Final = "trust.toml"
#: The environment variable that names the policy.
POLICY_VARIABLE: Final = "CARDSIGN_TRUST"

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
        pairs = {(key.thumbprint, self.holders.get(key.kid, "")) for key in self.keys.keys}
        if len(pairs) > len({thumbprint for thumbprint, _ in pairs}):
            message = "two holders hold one key, under two kids, and would count twice"
            raise UsageFault("policy.malformed", message)


def parse_peer_url(untrusted_text: str) -> Url:
    """Read a URL that a peer is asked for, and refuse one whose answer anybody could change.

    Raises:
        CardRefused: ``card.interface_url``.
    """
    url = parse_url(untrusted_text)
    check_secure(url.origin)
    return url


@dataclass(frozen=True, slots=True)
class KeysetAnchor:
    """One keyset statement, or the whole root set; the statements after it follow by rule K6.

    `issuer` is what the statements must call their issuer; None: as the first statement does,
    which only a :class:`KeysetId` determines.
    """

    pin: KeysetId | RootAnchor
    issuer: str | None = None


#: A URL stands for whatever JWK Set is published there: whoever controls the URL is the issuer.
Anchor: TypeAlias = KeysAnchor | Url | KeysetAnchor

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


@dataclass(frozen=True, slots=True)
class Subject:
    """Whom a verdict is about. An empty subject names nobody, and nothing is trusted.

    Attributes:
        issuer: An issuer by the policy's own name for it.
        origin: Whoever the policy trusts for this whole origin, such as ``https://agent.example``.
        url: Whoever the policy trusts for this URL, from which the card came.
        audience: For an extended card, the id of the audience that it was made for.
    """

    issuer: str | None = None
    origin: str | None = None
    url: str | None = None
    audience: str | None = None

    @property
    def name(self) -> str | None:
        """The text by which the caller named the subject."""
        return self.issuer or self.origin or self.url

    @property
    def is_nobody(self) -> bool:
        """Whether nothing says whose card it should be."""
        return self.name is None


#: Seconds that an issuer's clock may be ahead of ours.
DEFAULT_SKEW: Final = 300


class SubjectNames(TypedDict, total=False):
    """How a caller names a subject: by one of the first three, which mean what they do there."""

    issuer: str | None
    origin: str | None
    url: str | None
    audience: str | None


#: `parse_url` of URLs that callers and verified releases name, again and again.
parse_known_url = lru_cache(maxsize=1024)(parse_url)


@dataclass(frozen=True)  # without slots: the profiles are made once
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

    def __post_init__(self) -> None:
        self._check("accept", (self.accept,), ACCEPTED)
        self._check("only", self.profiles, ACCEPTED[self.accept])
        self._check("algorithms", self.algorithms, ALGORITHMS)

    def _check(self, member: str, values: Sequence[object], choices: Iterable[str]) -> None:
        names = tuple(choices)
        for value in values or (None,):
            if value not in names:
                message = f"{member} of {self.name!r} takes {', '.join(names)}, not {value!r}"
                raise UsageFault("policy.malformed", message + closest(value, names))

    @cached_property
    def profiles(self) -> tuple[ProfileName, ...]:
        """The profiles whose signatures count."""
        return self.only or ACCEPTED[self.accept]


@dataclass(frozen=True)  # without slots: what it looks up by is made once
class Policy:
    """All trusted issuers of one verifier. What no entry allows is denied.

    Attributes:
        issuers: The entries, in the order of the file.
        skew: Seconds that an issuer's clock may be ahead of ours.
        keyset_age: Seconds after `iat` for which a keyset statement is accepted at most; without
            it until its `exp`.
        release_age: Seconds after `iat` for which a release statement is accepted at most;
            without it until its `exp`.
        path: The file that says so; None for a policy made in code.
        is_own: The operator named the file, or made the policy. One that was merely found in the
            working directory never raises its lock.
    """

    issuers: tuple[TrustedIssuer, ...] = ()
    skew: int = DEFAULT_SKEW
    keyset_age: int | None = None
    release_age: int | None = None
    path: Path | None = field(default=None, compare=False)
    is_own: bool = field(default=True, compare=False)

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
        optional = {"origin": (origin, str | None), "only": (only, tuple)}
        example = "Policy.from_jwks(keys, name='bank', origin='https://bank.example')"
        check_types(example, name=(name, str), accept=(accept, str), **optional)
        places = None if origin is None else (Place(parse_origin(origin)),)
        anchor = KeysAnchor(JwkSet.read(jwks))
        issuer = TrustedIssuer(name, anchor, places, accept, "waived", is_holder=True, only=only)
        return cls((issuer,))

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
            CardRefused: `url` or `origin` is outside the strict grammar, or `url` begins with
                ``http://`` and is not of this machine.
            UsageFault: As for :class:`TrustedIssuer`.
        """
        example = "Policy.from_jwks_url('https://a.example/jwks.json', origin='https://a.example')"
        check_types(example, url=(url, str), origin=(origin, str), accept=(accept, str))
        check_types(example, name=(name, str | None))
        anchor, place = parse_peer_url(url), Place(parse_origin(origin))
        return cls((TrustedIssuer(name or place.origin.host, anchor, (place,), accept, "waived"),))

    @classmethod
    def load(cls, path: Path | str) -> Policy:
        """Read a ``trust.toml`` that the operator names.

        Raises:
            UsageFault: ``policy.malformed``, with the line.
            FileMissing, FileFault: It is a link, or cannot be read.
        """
        # The reader is loaded here alone: a policy made in Python needs neither it nor pydantic.
        from cardsign.trust.policyfile import read_policy

        check_types("Policy.load('trust.toml')", path=(path, Path | str))
        return read_policy(Path(path))

    @property
    def file(self) -> Path:
        """The file that says so; raises `TypeError` for a policy that was made in code."""
        if self.path is None:
            raise TypeError("a policy that was made in code has no file")
        return self.path

    @property
    def lock(self) -> Path:
        """The lock beside the file: ``trust.lock`` for ``trust.toml``."""
        return self.file.with_suffix(".lock")

    @property
    def option(self) -> str:
        """What names the policy in a command that is advised; empty for one made in code."""
        import shlex  # which no trusted card needs

        return f" --trust {shlex.quote(str(self.path))}" if self.path is not None else ""

    @property
    def unnamed(self) -> str:
        """What a verdict says first of a policy that was not named; else empty."""
        return "" if self.is_own else f"by ./{POLICY_FILE}, found in this folder"

    def issuer(self, name: str) -> TrustedIssuer:
        """Return the issuer of that name.

        Raises:
            UsageFault: ``policy.unknown_issuer``.
        """
        check_types("policy.issuer('bank')", name=(name, str))
        issuer = self._by_name.get(name)
        if issuer is None:
            message = f"the policy has no issuer {name!r}{closest(name, self._by_name)}"
            raise UsageFault("policy.unknown_issuer", message, path=str(self.path or ""))
        return issuer

    def find(self, subject: Subject) -> TrustedIssuer | None:
        """Return the entry that speaks for a subject, or None.

        Raises:
            CardRefused: The subject's origin or URL is outside the strict grammar.
        """
        check_types("policy.find(Subject(url='https://a.example'))", subject=(subject, Subject))
        if subject.issuer is not None:
            return self._by_name.get(subject.issuer)
        if subject.origin is not None:
            return self._owner_of(Url(parse_origin(subject.origin), "/", ""))
        return None if subject.url is None else self._owner_of(parse_known_url(subject.url))

    def reserved_from(self, issuer: TrustedIssuer) -> tuple[Place, ...]:
        """Return the places of other issuers that lie within the places of this one."""
        check_types("policy.reserved_from(policy.issuer('bank'))", issuer=(issuer, TrustedIssuer))
        prefixes: dict[Origin, tuple[str, ...]] = {}
        for own in issuer.places or ():
            prefixes[own.origin] = (*prefixes.get(own.origin, ()), own.prefix.lower())
        return tuple(
            place
            for place, owner in self._placed()
            if owner is not issuer
            and place.prefix.lower().startswith(prefixes.get(place.origin, ()))
        )

    def pinned_for(self, kid: str) -> str | None:
        """Return the name of the first issuer for which a key of that kid is pinned."""
        check_types("policy.pinned_for('card-2026')", kid=(kid, str))
        for issuer in self.issuers:
            if isinstance(issuer.anchor, KeysAnchor) and issuer.anchor.keys.find(kid) is not None:
                return issuer.name
        return None

    def _owner_of(self, url: Url) -> TrustedIssuer | None:
        """Return the owner of the longest prefix that holds the URL."""
        path = url.path if url.path.endswith("/") else f"{url.path}/"
        while path:
            owner = self._owner_by_place.get(Place(url.origin, path))
            if owner is not None:
                return owner
            path = path[: path.rstrip("/").rfind("/") + 1]
        return None

    @cached_property
    def _by_name(self) -> dict[str, TrustedIssuer]:
        return {issuer.name: issuer for issuer in reversed(self.issuers)}

    @cached_property
    def _owner_by_place(self) -> dict[Place, TrustedIssuer]:
        return dict(reversed(list(self._placed())))

    def _placed(self) -> Iterator[tuple[Place, TrustedIssuer]]:
        return ((place, issuer) for issuer in self.issuers for place in issuer.places or ())


# Where a policy is found.


def find_policy(named: Path | None = None, *, here: bool = True) -> Path | None:
    """Return `named`, else the environment's, the working directory's if `here`, the user's own.

    What is named is returned whether or not it is there.
    """
    if named is not None:
        return named
    if variable := os.environ.get(POLICY_VARIABLE):
        return Path(variable)
    folders = (Path() if here else None, user_folder("CONFIG"))
    candidates = (folder / POLICY_FILE for folder in folders if folder is not None)
    return next((path for path in candidates if os.path.lexists(path)), None)


def load_policy(named: Path | None = None, *, here: bool = True) -> Policy | None:
    """Read the policy that is named or found (:func:`find_policy`); None where there is none.

    Raises:
        UsageFault: ``policy.malformed``; ``config.not_allowed``: it was only found, and says what
            only a policy that is named may say.
        FileMissing, FileFault: The one that is named is not there, is a link, or cannot be read.
    """
    path = find_policy(named, here=here)
    if path is None:
        return None
    from cardsign.trust.policyfile import read_policy

    is_named = named is not None or bool(os.environ.get(POLICY_VARIABLE))
    try:
        return read_policy(path, is_own=is_named or path != Path(POLICY_FILE))
    except FileMissing as missing:
        if named is None:
            missing.finding = replace(missing.finding, fix=f"{POLICY_VARIABLE} names it.")
        raise
