"""`trust.toml`: read as pydantic tables, and edited as a careful person would.

docs/reference/formats.md specifies it. Every refusal names the line and the member, for the file is
written by hand and a policy that is misread does not protect. An edit keeps comments and order.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from ipaddress import ip_interface, ip_network
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias, cast, get_args

from pydantic import BeforeValidator, Field

from cardsign.card.document import MAX_SIGNATURES
from cardsign.card.strictjson import MAX_INTEGER
from cardsign.errors import CardRefused, FileFault, UsageFault
from cardsign.files import locked, read_bytes, write_atomic
from cardsign.findings import MAX_OF_CODE, Place
from cardsign.jose.jwk import ALGORITHMS, VerifyAlg
from cardsign.jose.keys import JwkSet, PublicKey
from cardsign.statements.envelope import DIGEST, HOLDER, ISSUER, THUMBPRINT
from cardsign.statements.keyset import MAX_HOLDERS, MAX_KEYSET_LIFETIME, KeysetId, RootAnchor
from cardsign.statements.release import MAX_RELEASE_LIFETIME
from cardsign.times import read_span
from cardsign.tomltext import (
    Location,
    Table,
    find_lines,
    line_of,
    matching,
    read_by,
    read_settings,
    read_toml,
)
from cardsign.trust.policy import (
    DEFAULT_SKEW,
    ISSUER_NAME,
    POLICY_FILE,
    Accept,
    Anchor,
    Freshness,
    KeysAnchor,
    KeysetAnchor,
    Network,
    Peer,
    Policy,
    TrustedIssuer,
    parse_peer_url,
)
from cardsign.urls import Origin, Url, parse_origin, parse_place, parse_url, without_userinfo

#: The format of the file.
FORMAT: Final = 1
#: Bytes. Some thousand issuers; one has about 300.
MAX_POLICY_BYTES: Final = 1024 * 1024
#: Origins or keys of one entry. An issuer needs ten; more would only make a wrong file dear.
MAX_LISTED: Final = 1024
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


def _seconds(value: object) -> object:
    if not isinstance(value, str):
        return value
    if (seconds := read_span(value)) is None:
        raise ValueError(f"is {value[:80]!a}, expected seconds, or a span such as '90s' or '2m'")
    return seconds


def _network(text: str) -> Network:
    # `Any`: mypy cannot see that two are of one version
    network: Any = ip_network(text, strict=False)
    if ip_interface(text).ip != network.network_address:
        raise ValueError(f"names {text!r}, an address within a network: write {network}")
    private = [place for place in PRIVATE_NETWORKS if place.version == network.version]
    if not any(map(network.subnet_of, private)):
        ranges = ", ".join(map(str, PRIVATE_NETWORKS))
        raise ValueError(f"names {text!r}, not a private network: write a part of {ranges}")
    return cast(Network, network)


def _proxy(text: str) -> Origin:
    """Read where a proxy is; TLS goes through it to the peer, and none to the proxy itself."""
    with suppress(CardRefused):
        origin = parse_origin(text)
        if origin.scheme == "http":
            return origin
    raise ValueError(f"names {without_userinfo(text)!r}. Write a proxy as http://host:port")


def _card(text: str) -> str:
    return str(parse_url(text))


Seconds: TypeAlias = Annotated[int, BeforeValidator(_seconds)]
Positive: TypeAlias = Annotated[int, Field(ge=1, le=MAX_INTEGER)]
_NAME: Final = "up to 64 of a-z, 0-9, '.', '_' and '-', such as acme-corp"
Digest: TypeAlias = Annotated[str, matching(DIGEST, "64 hex digits in lower case")]
Thumbprint: TypeAlias = Annotated[str, matching(THUMBPRINT, "43 characters of base64url")]
Holder: TypeAlias = Annotated[str, matching(HOLDER, f"{_NAME}, or ann@acme.example")]
IssuerName: TypeAlias = Annotated[str, matching(ISSUER_NAME, _NAME)]
StatementIssuer: TypeAlias = Annotated[str, matching(ISSUER, "up to 256 of ASCII, no blank")]


class LimitsTable(Table):
    """Ceilings of this policy. They may only be lower than the built-in ones."""

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
    """An anchor: a keyset statement with exactly these root keys and this threshold."""

    issuer: StatementIssuer
    threshold: int = Field(ge=1, le=MAX_HOLDERS)
    keys: list[RootHolder] = Field(min_length=1, max_length=MAX_LISTED)


class PinnedKey(Table):
    """One key, and who holds it; without a holder it counts for none of `require`."""

    public: Annotated[dict[str, Any], read_by(PublicKey.from_jwk)]
    holder: Holder | None = None


class AnchorTable(Table):
    """The one source of an issuer's keys: exactly one of these."""

    keyset: KeysetPin | None = None
    roots: RootSet | None = None
    keys: Annotated[list[PinnedKey], Field(min_length=1, max_length=MAX_LISTED)] | None = None
    jwks: Annotated[str, read_by(parse_peer_url)] | None = None


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
        return cast(Url, table.jwks)
    pinned: list[tuple[Any, str | None]] = [(key.public, key.holder) for key in table.keys]
    holders = {key.kid: holder for key, holder in pinned if holder is not None}
    return KeysAnchor(JwkSet.of(key for key, _ in pinned), holders)


class IssuerTable(Table):
    """What you say of one issuer; :class:`TrustedIssuer` says what each member means."""

    name: IssuerName
    origins: list[Annotated[str, read_by(parse_place)]] = Field(min_length=1, max_length=MAX_LISTED)
    anchor: Annotated[AnchorTable, read_by(_anchor)]
    accept: Accept = "full"
    algorithms: list[VerifyAlg] = Field(
        default=[*get_args(VerifyAlg)], min_length=1, max_length=len(ALGORITHMS)
    )
    require: list[Holder] = Field(default=[], max_length=MAX_SIGNATURES)
    freshness: Freshness = "required"
    cards: list[Annotated[str, read_by(_card)]] = Field(default=[], max_length=MAX_LISTED)
    peer: Peer = "required"
    networks: list[Annotated[str, read_by(_network)]] = Field(default=[], max_length=MAX_NETWORKS)
    proxy: Annotated[str, read_by(_proxy)] | None = None

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
    issuer: list[IssuerTable] = Field(default=[])


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
    if located := [*islice(_list_faults(file, is_own), MAX_OF_CODE)]:
        lines = find_lines(data.decode())
        for location, fault in located:
            fault.finding = replace(fault.finding, place=Place(source, line_of(lines, location)))
        first, *others = (fault for _, fault in located)
        first.others = tuple(fault.finding for fault in others)
        raise first
    return Policy(tuple(table.issuer() for table in file.issuer), **vars(file.limits))


def _list_faults(file: TrustFile, is_own: bool) -> Iterator[tuple[Location, UsageFault]]:
    """Yield members that only a named policy may have, and entries that contradict each other."""
    owners: dict[object, int] = {}
    for index, issuer in enumerate(file.issuer):
        name, at = issuer.name, ("issuer", index)
        for member in OPERATOR_MEMBERS if not is_own else ():
            if member in issuer.model_fields_set:
                message = f"`{member}` of {name!r} may stand only in a policy that you name, "
                message += "and this one was found in the working directory"
                hint = f"If the policy is yours, name it: --trust {POLICY_FILE}."
                yield (*at, member), UsageFault("config.not_allowed", message, hint=hint)
        places: list[tuple[Location, object]] = [(("name",), name)]
        places += [(("origins", nth), place) for nth, place in enumerate(issuer.origins)]
        for place, value in places:
            if owners.setdefault(value, index) != index:
                hint = "Give each its own name and places, such as https://host/agents/NAME/. "
                hint += "To replace one: cardsign trust remove NAME, then add it again."
                message = f"two issuers have {str(value)!r}"
                yield (*at, *place), UsageFault("policy.malformed", message, hint=hint)
        if issuer.proxy is not None and issuer.networks:
            hint = "A proxy looks up the names of hosts itself, so leave `networks` out."
            message = "`proxy` and `networks` exclude one another"
            yield (*at, "proxy"), UsageFault("policy.malformed", message, hint=hint)


# Edits.

#: What stands in a table: strings, whole numbers, lists and tables of them.
Members: TypeAlias = Mapping[str, Any]

EMPTY_POLICY: Final = f"""\
# Which issuers this verifier trusts, and by which keys. What is not allowed here is denied.
# Add an issuer with `cardsign trust add`, or by hand; docs/reference/formats.md lists every member.
format = {FORMAT}
"""


def edit_policy(
    path: Path, change: Callable[[str], str], names: Collection[str], *, dry_run: bool = False
) -> Policy:
    """Change a policy file, alone among processes, and return what it says then.

    On any error it stays as it was. Where there is none yet, one is begun. The new text is read
    before it replaces the file.

    Args:
        path: The file.
        change: Returns the new text.
        names: The issuers whose entries it changes; all others must stay as they are.
        dry_run: Write nothing.

    Raises:
        UsageFault: ``policy.malformed``: no such change can be made to this text.
        FileFault: It cannot be read or written.
    """
    busy = FileFault("file.busy", "another process is editing the policy", path=str(path))
    with locked(path, patience=PATIENCE, busy=busy, by_directory=True):
        data = EMPTY_POLICY.encode()
        if os.path.lexists(path):
            data = read_bytes(path, max_bytes=MAX_POLICY_BYTES, plain=True)
        policy = parse_policy(data, source=str(path))
        changed = change(data.decode()).encode()
        after = parse_policy(changed, source=f"{path} with the new entry")
        others = [
            [issuer for issuer in version.issuers if issuer.name not in names]
            for version in (policy, after)
        ]
        if others[0] != others[1] or replace(after, issuers=()) != replace(policy, issuers=()):
            message = "the file is laid out in a way that cannot be edited for you"
            hint = "Nothing was changed; make the change by hand."
            raise UsageFault("policy.malformed", message, path=str(path), hint=hint)
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
            owners = {kid: {"holder": holder} for kid, holder in holders.items()}
            pinned = [{**owners.get(key.kid, {}), "public": key.jwk_in_use()} for key in keys.keys]
            return {"keys": pinned}
        case Url():
            return {"jwks": str(anchor)}


def with_issuer(text: str, members: Members, anchor: Anchor) -> str:
    """Return the text with one more `[[issuer]]` at its end.

    Freshness is waived by name where the anchor cannot show it (D3).
    """
    import tomlkit  # which no verdict needs

    waived = {} if isinstance(anchor, KeysetAnchor) else {"freshness": "waived"}
    entry = {**members, **waived, "anchor": anchor_members(anchor)}
    return f"{text.rstrip()}\n\n{tomlkit.dumps({'issuer': [entry]})}"


def without_issuer(text: str, name: str) -> str:
    """Return the text without an issuer's tables; comments around them stay."""
    index, lines, places = _index(text, name), text.split("\n"), find_lines(text)
    start = line_of(places, ("issuer", index))
    others = (line for place, line in places.items() if place[:2] != ("issuer", index))
    end = min((line for line in others if line > start), default=len(lines) + 1)
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
