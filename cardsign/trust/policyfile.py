"""`trust.toml`: read as pydantic tables, and edited as a careful person would.

docs/reference/formats.md specifies it. Every refusal names the line and the member, for the file is
written by hand and a policy that is misread does not protect. An edit keeps comments and order.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from ipaddress import ip_network
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Final, Self, TypeAlias, cast, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    model_validator,
)

from cardsign.card.document import MAX_SIGNATURES
from cardsign.card.strictjson import MAX_CARD_BYTES, MAX_INTEGER
from cardsign.errors import CardRefused, CardsignError, FileFault, UsageFault
from cardsign.files import locked, read_bytes, write_atomic
from cardsign.jose.algorithms import ALGORITHMS, VerifyAlg
from cardsign.jose.keys import JwkSet, PublicKey
from cardsign.statements.envelope import DIGEST, HOLDER, ISSUER, THUMBPRINT
from cardsign.statements.keyset import MAX_HOLDERS, MAX_KEYSET_LIFETIME, KeysetId, RootAnchor
from cardsign.statements.release import MAX_RELEASE_LIFETIME
from cardsign.times import read_span
from cardsign.tomltext import Location, find_lines, line_of, read_settings, read_toml
from cardsign.trust.policy import (
    DEFAULT_SKEW,
    ISSUER_NAME,
    POLICY_FILE,
    Accept,
    Anchor,
    Freshness,
    JwksAnchor,
    KeysAnchor,
    KeysetAnchor,
    Limits,
    Network,
    Peer,
    Policy,
    TrustedIssuer,
    check_jwks_url,
)
from cardsign.urls import Origin, parse_origin, parse_place, without_userinfo

#: The format of the file.
FORMAT: Final = 1
#: Bytes. Some thousand issuers; one has about 300.
MAX_POLICY_BYTES: Final = 1024 * 1024
#: Entries of a file; a sound one has at least 70 bytes, so 1 MiB holds no more.
MAX_ISSUERS: Final = 16 * 1024
#: Origins or keys of one entry. An issuer needs ten; more would only make a wrong file dear.
MAX_LISTED: Final = 1024
#: Cards of one issuer; a release of 64 KiB has room for hardly more.
MAX_CARDS: Final = 256
#: Seconds. More would make `iat` and `nbf` mean little.
MAX_SKEW: Final = 3600
#: The ranges in which an operator may let an issuer be reached. This machine and its own link are
#: not among them. The metadata services of clouds that are within them are refused all the same
#: (:func:`cardsign.net.connection.check_address`).
PRIVATE_NETWORKS: Final = tuple(
    map(ip_network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7"))
)
#: Networks of one issuer; each address that is asked is held against all of them.
MAX_NETWORKS: Final = 16
#: Seconds to wait for another process that edits the policy.
PATIENCE: Final = 10.0
#: What only the operator's own policy may say. A policy that was only found may come from
#: elsewhere, and would open the operator's network (E6, E13).
OPERATOR_MEMBERS: Final = ("networks", "proxy")


class Table(BaseModel):
    """A table of the file: no member unknown, no type guessed."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


def _read_by(read: Callable[[Any], object]) -> AfterValidator:
    """Convert a member by `read`, and report a refusal in the words of `read`."""

    def convert(value: object) -> object:
        try:
            return read(value)
        except CardsignError as refusal:
            fix = f". {refusal.finding.fix}" if refusal.finding.fix else ""
            raise ValueError(f"is refused: {refusal.message} ({refusal.code}){fix}") from refusal

    return AfterValidator(convert)


def _form(form: re.Pattern[str], words: str) -> AfterValidator:
    def check(text: str) -> str:
        if not form.fullmatch(text):
            raise ValueError(f"needs {words}, and is {text[:80]!r}")
        return text

    return AfterValidator(check)


def _seconds(value: object) -> object:
    if not isinstance(value, str):
        return value
    if (seconds := read_span(value)) is None:
        raise ValueError('needs seconds, or a time such as "90s", "5m", "12h" or "7d"')
    return seconds


def _network(text: str) -> Network:
    with suppress(ValueError):
        network = ip_network(text)
        for private in PRIVATE_NETWORKS:
            # `Any`: both are of one version, which mypy cannot see.
            if network.version == private.version and network.subnet_of(cast(Any, private)):
                return network
    ranges = ", ".join(map(str, PRIVATE_NETWORKS))
    raise ValueError(f"names {text!r}, which is no private network: write a part of {ranges}")


def _proxy(text: str) -> Origin:
    """Read where a proxy is; TLS goes through it to the peer, and none to the proxy itself."""
    with suppress(CardRefused):
        origin = parse_origin(text)
        if origin.scheme == "http":
            return origin
    raise ValueError(f"names {without_userinfo(text)!r}. Write a proxy as http://host:port")


def _read_key(jwk: dict[str, Any]) -> PublicKey:
    return PublicKey.from_jwk(jwk, algorithms=tuple(ALGORITHMS))


Seconds: TypeAlias = Annotated[int, BeforeValidator(_seconds)]
Positive: TypeAlias = Annotated[int, Field(ge=1, le=MAX_INTEGER)]
Digest: TypeAlias = Annotated[str, _form(DIGEST, "64 hex digits, 0-9 and a-f")]
Thumbprint: TypeAlias = Annotated[str, _form(THUMBPRINT, "43 characters of base64url")]
Holder: TypeAlias = Annotated[
    str, _form(HOLDER, "1 to 64 of a-z, 0-9, '.', '_', '@' and '-', a letter or digit first")
]
IssuerName: TypeAlias = Annotated[
    str, _form(ISSUER_NAME, "1 to 64 of a-z, 0-9, '.', '_' and '-', a letter or digit first")
]
StatementIssuer: TypeAlias = Annotated[str, _form(ISSUER, "1 to 256 visible ASCII characters")]


class LimitsTable(Table):
    """Ceilings of this policy. They may only be lower than the built-in ones."""

    card_bytes: int = Field(default=MAX_CARD_BYTES, ge=1, le=MAX_CARD_BYTES)
    signatures: int = Field(default=MAX_SIGNATURES, ge=1, le=MAX_SIGNATURES)
    skew: Seconds = Field(default=DEFAULT_SKEW, ge=0, le=MAX_SKEW)
    keyset_age: Seconds | None = Field(default=None, ge=1, le=MAX_KEYSET_LIFETIME)
    release_age: Seconds | None = Field(default=None, ge=1, le=MAX_RELEASE_LIFETIME)


class KeysetPin(Table):
    """Exactly this keyset statement; what follows it lawfully is followed."""

    epoch: Positive
    version: Positive
    digest: Digest
    issuer: StatementIssuer | None = None


class RootHolder(Table):
    """One key of a root set."""

    thumbprint: Thumbprint
    holder: Holder


class RootSet(Table):
    """A keyset statement with exactly this root set."""

    issuer: StatementIssuer
    threshold: int = Field(ge=1, le=MAX_HOLDERS)
    keys: list[RootHolder] = Field(min_length=1, max_length=MAX_LISTED)

    @model_validator(mode="after")
    def _check_threshold(self) -> Self:
        if len({key.thumbprint for key in self.keys}) < len(self.keys):
            raise ValueError("lists a thumbprint twice")
        holders = len({key.holder for key in self.keys})
        if self.threshold > holders:  # a holder counts once, however many keys they have
            raise ValueError(f"can never be met: {self.threshold} of {holders} holders")
        return self


class PinnedKey(Table):
    """One key, and who holds it; without a holder it counts for none of `require`."""

    public: Annotated[dict[str, Any], _read_by(_read_key)]
    holder: Holder | None = None


class AnchorTable(Table):
    """The one source of an issuer's keys: exactly one of these."""

    keyset: KeysetPin | None = None
    roots: RootSet | None = None
    keys: Annotated[list[PinnedKey], Field(min_length=1, max_length=MAX_LISTED)] | None = None
    jwks: Annotated[str, _read_by(check_jwks_url)] | None = None


def _anchor(table: AnchorTable) -> Anchor:
    named = sorted(table.model_fields_set)
    if len(named) != 1:
        kinds = ", ".join(AnchorTable.model_fields)
        raise ValueError(f"needs one of {kinds}, and has {' and '.join(named) or 'none'}")
    if table.keyset is not None:
        pin = KeysetId(table.keyset.epoch, table.keyset.version, table.keyset.digest)
        return KeysetAnchor(pin, table.keyset.issuer)
    if table.roots is not None:
        pairs = frozenset((key.thumbprint, key.holder) for key in table.roots.keys)
        return KeysetAnchor(RootAnchor(table.roots.threshold, pairs), table.roots.issuer)
    if table.keys is None:
        return JwksAnchor(table.jwks or "")
    pinned: list[tuple[Any, str | None]] = [(key.public, key.holder) for key in table.keys]
    holders = {key.kid: holder for key, holder in pinned if holder is not None}
    return KeysAnchor(JwkSet.of(key for key, _ in pinned), holders)


class IssuerTable(Table):
    """What you say of one issuer; :class:`TrustedIssuer` says what each member means."""

    name: IssuerName
    origins: list[Annotated[str, _read_by(parse_place)]] = Field(
        min_length=1, max_length=MAX_LISTED
    )
    anchor: Annotated[AnchorTable, _read_by(_anchor)]
    accept: Accept = "full"
    algorithms: list[VerifyAlg] = Field(
        default=[*get_args(VerifyAlg)], min_length=1, max_length=len(ALGORITHMS)
    )
    require: list[Holder] = Field(default=[], max_length=MAX_SIGNATURES)
    freshness: Freshness = "required"
    cards: list[str] = Field(default=[], max_length=MAX_CARDS)
    peer: Peer = "required"
    networks: list[Annotated[str, _read_by(_network)]] = Field(default=[], max_length=MAX_NETWORKS)
    proxy: Annotated[str, _read_by(_proxy)] | None = None

    def issuer(self) -> TrustedIssuer:
        """Return what a policy says of an issuer; the members were read when they were checked."""
        members: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in vars(self).items()
        }
        return TrustedIssuer(places=members.pop("origins"), **members)


class TrustFile(Table):
    """Which issuers a verifier trusts, and by which keys. What is not allowed here is denied."""

    format: int = Field(ge=FORMAT, le=FORMAT)
    limits: LimitsTable = LimitsTable()
    issuer: list[IssuerTable] = Field(default=[], max_length=MAX_ISSUERS)


def read_policy(path: Path, *, is_own: bool = True) -> Policy:
    """Read a policy file.

    Raises:
        UsageFault: ``policy.malformed``, ``config.not_allowed``.
        FileFault: It is a link, or cannot be read.
    """
    data = read_bytes(path, max_bytes=MAX_POLICY_BYTES, plain=True)
    return replace(parse_policy(data, source=str(path), is_own=is_own), path=path, is_own=is_own)


def parse_policy(data: bytes, *, source: str = POLICY_FILE, is_own: bool = True) -> Policy:
    """Read the text of a policy; its trusted issuers stand in the order of the text.

    Args:
        data: The text.
        source: What errors call it.
        is_own: The operator named the policy. One that was merely found in the working directory
            may come from elsewhere; it may say none of :data:`OPERATOR_MEMBERS`.

    Raises:
        UsageFault: ``policy.malformed`` or ``config.not_allowed``, with the line.
    """
    file = read_settings(data, Path(source), TrustFile, code="policy.malformed")
    problems = chain(() if is_own else _list_not_allowed(file), _list_conflicts(file))
    for at, code, message, hint in problems:
        line = line_of(find_lines(data.decode()), at)
        raise UsageFault(code, message, path=source, line=line, hint=hint)
    return Policy(tuple(table.issuer() for table in file.issuer), Limits(**vars(file.limits)))


#: A mistake in the file: its place, its code, a message, and a hint.
Problem: TypeAlias = tuple[Location, str, str, str]


def _list_not_allowed(file: TrustFile) -> Iterator[Problem]:
    """Yield what only a policy that is named may say."""
    for index, table in enumerate(file.issuer):
        for member in sorted(table.model_fields_set.intersection(OPERATOR_MEMBERS)):
            message = f"`{member}` of {table.name!r} may stand only in a policy that you name, "
            message += "and this one was found in the working directory"
            hint = f"If the policy is yours, name it: --trust {POLICY_FILE}."
            yield ("issuer", index, member), "config.not_allowed", message, hint


def _list_conflicts(file: TrustFile) -> Iterator[Problem]:
    """Yield where two issuers have one name or one place, or members do not go together."""
    code, names, owners = "policy.malformed", set[str](), dict[object, str]()
    for index, issuer in enumerate(file.issuer):
        at: Location = ("issuer", index)
        if issuer.name in names:
            hint = f"Give it another name, or first: cardsign trust remove {issuer.name}"
            yield (*at, "name"), code, f"two issuers have the name {issuer.name!r}", hint
        names.add(issuer.name)
        for nth, place in enumerate(issuer.origins):
            if (owner := owners.setdefault(place, issuer.name)) != issuer.name:
                hint = "Keep issuers of one origin apart by path prefixes, such as "
                hint += '"https://host/agents/name/".'
                message = f"{place} of {issuer.name!r} belongs to {owner!r} already"
                yield (*at, "origins", nth), code, message, hint
        if issuer.proxy is not None and issuer.networks:
            hint = "A proxy looks up the names of hosts itself, so leave `networks` out."
            yield (*at, "proxy"), code, "`proxy` and `networks` exclude one another", hint


# Edits.

#: What stands in a table: strings, whole numbers, lists and tables of them.
Members: TypeAlias = Mapping[str, Any]

EMPTY_POLICY: Final = f"""\
# Which issuers this verifier trusts, and by which keys. What is not allowed here is denied.
# Add an issuer with `cardsign trust add`, or by hand; docs/reference/formats.md lists every member.
format = {FORMAT}
"""


def edit_policy(
    path: Path,
    change: Callable[[str], str],
    is_expected: Callable[[tuple[TrustedIssuer, ...], tuple[TrustedIssuer, ...]], bool],
    *,
    dry_run: bool = False,
) -> Policy:
    """Change a policy file, alone among processes, and return what it says then.

    On any error it stays as it was. Where there is none yet, one is begun. The new text is read
    before it replaces the file.

    Args:
        path: The file.
        change: Returns the new text.
        is_expected: Whether the change makes the second of the issuers before.
        dry_run: Write nothing.

    Raises:
        UsageFault: ``policy.malformed``: no such change can be made to this text.
        FileFault: It cannot be read or written.
    """
    busy = FileFault("file.busy", "another process edits the policy", path=str(path))
    with locked(path, patience=PATIENCE, busy=busy, by_directory=True):
        data = EMPTY_POLICY.encode()
        if os.path.lexists(path):
            data = read_bytes(path, max_bytes=MAX_POLICY_BYTES, plain=True)
        policy = parse_policy(data, source=str(path))
        changed = change(data.decode()).encode()
        after = parse_policy(changed, source=f"{path} with the new entry")
        if not is_expected(policy.issuers, after.issuers) or after.limits != policy.limits:
            raise UsageFault(
                "policy.malformed",
                "the file is laid out in a way that cannot be edited for you",
                path=str(path),
                hint="Nothing was changed; make the change by hand.",
            )
        if not dry_run:
            write_atomic(path, changed, plain=True)
    return replace(after, path=path)


def anchor_members(anchor: Anchor) -> Members:
    """Return the member of `[issuer.anchor]` that says what an anchor says."""
    match anchor:
        case KeysetAnchor(pin, issuer):
            named = {} if issuer is None else {"issuer": issuer}
            if isinstance(pin, KeysetId):
                return {"keyset": {**pin.to_json(), **named}}
            pairs = sorted(pin.holders, key=lambda pair: pair[::-1])
            roots = [{"thumbprint": thumbprint, "holder": holder} for thumbprint, holder in pairs]
            return {"roots": {**named, "threshold": pin.threshold, "keys": roots}}
        case KeysAnchor(keys, holders):
            named_keys = {kid: {"holder": holder} for kid, holder in holders.items()}
            public = {key.kid: {**key.jwk(), **key.validity.members()} for key in keys.keys}
            return {
                "keys": [{**named_keys.get(kid, {}), "public": jwk} for kid, jwk in public.items()]
            }
        case JwksAnchor(url):
            return {"jwks": url}


def with_issuer(text: str, members: Members, anchor: Anchor) -> str:
    """Return the text with one more `[[issuer]]` at its end."""
    import tomlkit  # which no verdict needs

    entry = {**members, "anchor": anchor_members(anchor)}
    return f"{text.rstrip()}\n\n{tomlkit.dumps({'issuer': [entry]})}"


def without_issuer(text: str, name: str) -> str:
    """Return the text without an issuer's tables; comments around them stay."""
    index, lines, places = _index(text, name), text.split("\n"), find_lines(text)
    start = line_of(places, ("issuer", index))
    end = len(lines) + 1
    for place, line in places.items():
        if line > start and place[:2] != ("issuer", index):
            end = min(end, line)
    while end - 1 > start and re.fullmatch(r"\s*(#.*)?", lines[end - 2]):
        end -= 1
    return "\n".join([*lines[: start - 1], *lines[end - 1 :]])


def with_pin(text: str, name: str, pin: KeysetId) -> str:
    """Return the text with the keyset statement that an issuer's anchor pins replaced."""
    import tomlkit

    document = tomlkit.parse(text)
    issuers: Any = document["issuer"]
    issuers[_index(text, name)]["anchor"]["keyset"].update(pin.to_json())
    return tomlkit.dumps(document)


def _index(text: str, name: str) -> int:
    return [table["name"] for table in read_toml(text.encode())["issuer"]].index(name)
