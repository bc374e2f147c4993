"""`trust.toml`: read as pydantic tables, and edited with its lock, as a careful person would.

docs/reference/formats.md specifies it. Every refusal names the line and the member, for the file is
written by hand and a policy that is misread does not protect. An edit keeps comments and order.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias, cast, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
)

from cardsign.card.document import MAX_SIGNATURES
from cardsign.card.strictjson import MAX_INTEGER
from cardsign.errors import (
    CardRefused,
    CardsignError,
    FetchFailed,
    FileFault,
    KeyRefused,
    UsageFault,
    of_the_user,
)
from cardsign.files import locked, read_bytes, write_atomic
from cardsign.findings import Finding
from cardsign.jose.algorithms import ALGORITHMS, VerifyAlg
from cardsign.jose.keys import MAX_JWKS_BYTES, JwkSet, PublicKey
from cardsign.statements.envelope import DIGEST, HOLDER, ISSUER, THUMBPRINT, StatementRefused
from cardsign.statements.keyset import (
    MAX_HOLDERS,
    MAX_KEYSET_LIFETIME,
    KeysetId,
    KeysetStatement,
    RootAnchor,
    read_keyset,
)
from cardsign.statements.release import MAX_RELEASE_LIFETIME, ReleaseStatement
from cardsign.times import read_span
from cardsign.tomltext import Location, find_lines, line_of, read_settings, read_toml
from cardsign.trust import walk
from cardsign.trust.lock import Floor, check_entry, raise_lock, read_floors, read_lock
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
    Network,
    Peer,
    Policy,
    TrustedIssuer,
    check_jwks_url,
)
from cardsign.trust.session import Session, add_to_cache, read_cache
from cardsign.urls import (
    JWKS_PATH,
    Origin,
    parse_origin,
    parse_place,
    parse_url,
    without_userinfo,
)

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


def _matching(form: re.Pattern[str]) -> Any:
    return Field(pattern=f"^(?:{form.pattern})$")


def _seconds(value: object) -> object:
    seconds = read_span(value) if isinstance(value, str) else None
    return value if seconds is None else seconds


def _network(text: str) -> Network:
    network: Any = ip_network(text)  # `Any`: mypy cannot see that two are of one version
    private = [place for place in PRIVATE_NETWORKS if place.version == network.version]
    if not any(map(network.subnet_of, private)):
        ranges = ", ".join(map(str, PRIVATE_NETWORKS))
        raise ValueError(f"names {text!r}, which is no private network: write a part of {ranges}")
    return cast(Network, network)


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
Digest: TypeAlias = Annotated[str, _matching(DIGEST)]
Thumbprint: TypeAlias = Annotated[str, _matching(THUMBPRINT)]
Holder: TypeAlias = Annotated[str, _matching(HOLDER)]
IssuerName: TypeAlias = Annotated[str, _matching(ISSUER_NAME)]
StatementIssuer: TypeAlias = Annotated[str, _matching(ISSUER)]


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
    cards: list[str] = Field(default=[], max_length=MAX_LISTED)
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
    issuer: list[IssuerTable] = []


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
    for at, code, message, hint in _list_problems(file, is_own):
        line = line_of(find_lines(data.decode()), at)
        raise UsageFault(code, message, path=source, line=line, hint=hint)
    return Policy(tuple(table.issuer() for table in file.issuer), **vars(file.limits))


#: A mistake in the file: its place, its code, a message, and a hint.
Problem: TypeAlias = tuple[Location, str, str, str]


def _list_problems(file: TrustFile, is_own: bool) -> Iterator[Problem]:
    """Yield members that only a named policy may have, and entries that contradict each other."""
    owners: dict[object, int] = {}
    for index, issuer in enumerate(file.issuer):
        name, at = issuer.name, ("issuer", index)
        for member in OPERATOR_MEMBERS if not is_own else ():
            if member in issuer.model_fields_set:
                message = f"`{member}` of {name!r} may stand only in a policy that you name, "
                message += "and this one was found in the working directory"
                hint = f"If the policy is yours, name it: --trust {POLICY_FILE}."
                yield (*at, member), "config.not_allowed", message, hint
        places: list[tuple[Location, object]] = [(("name",), name)]
        places += [(("origins", nth), place) for nth, place in enumerate(issuer.origins)]
        for place, value in places:
            if owners.setdefault(value, index) != index:
                hint = "Give each its own name and places, such as https://host/agents/NAME/. "
                hint += "To replace one: cardsign trust remove NAME, then add it again."
                yield (*at, *place), "policy.malformed", f"two issuers have {str(value)!r}", hint
        if issuer.proxy is not None and issuer.networks:
            hint = "A proxy looks up the names of hosts itself, so leave `networks` out."
            message = "`proxy` and `networks` exclude one another"
            yield (*at, "proxy"), "policy.malformed", message, hint


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
    names: Collection[str],
    *,
    dry_run: bool = False,
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
    busy = FileFault("file.busy", "another process edits the policy", path=str(path))
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
            named_keys = {kid: {"holder": holder} for kid, holder in holders.items()}
            public = {key.kid: {**key.jwk(), **key.validity.members()} for key in keys.keys}
            return {
                "keys": [{**named_keys.get(kid, {}), "public": jwk} for kid, jwk in public.items()]
            }
        case JwksAnchor(url):
            return {"jwks": url}


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


# Adding an issuer: the anchor that is proposed, its comparison, and what is written. Nothing but a
# comparison over another channel shows that a first statement is genuine, so `add_issuers` lets the
# caller compare before it writes.

#: No warnings to who adds an issuer: without a current release there is nothing to compare.
_NO_DOUBT: Final = ("refresh.next_unknown", "trust.freshness_unknown")


@dataclass(frozen=True, slots=True)
class Proposal:
    """An anchor for a new issuer, and the statements on which it rests.

    Attributes:
        anchor: What would be trusted beforehand.
        keyset: The keyset statement that it pins, if any.
        release: A release statement under it, if any.
        warnings: What a person should know before saying yes.
        doubts: What did not fit; none of it is passed over where a digest or files were given.
        digests: Of `keyset`, and of those from which it was seen to follow lawfully.
        seen_at: The URL at which the keys were found that are pinned, if they were looked for.
    """

    anchor: Anchor
    keyset: KeysetStatement | None = None
    release: ReleaseStatement | None = None
    warnings: tuple[str, ...] = ()
    doubts: tuple[Finding, ...] = ()
    digests: frozenset[str] = frozenset()
    seen_at: str = ""


def propose_keyset(
    supplied: walk.SuppliedStatements,
    *,
    policy: Policy,
    roots: bool,
    now: datetime,
    reasons: Sequence[Finding] = (),
) -> Proposal:
    """Pin the newest keyset statement to which these lead, or with `roots` its root set.

    They begin with the lowest one that its own root has signed. Only a person can say whether
    that one is genuine.

    Args:
        supplied: Keyset statements, and releases under the newest.
        policy: To which it is added.
        roots: Pin the root set.
        now: The time.
        reasons: What is known to be missing.

    Raises:
        StatementRefused: There is no keyset statement that could be pinned.
    """
    keysets = walk.read_statements(supplied.untrusted_keysets, read_keyset, [])
    lowest = min((keyset.id for keyset in keysets), default=KeysetId(1, 1, ""))
    session = Session(policy, TrustedIssuer("new", KeysetAnchor(lowest), None))
    trust, keyset = session.resolve(supplied, now), session.keyset
    notes = (*reasons, *trust.notes)
    if keyset is None:
        cause = next(iter(notes), Finding("statement.gap", "there is no keyset statement"))
        raise StatementRefused(cause.code, cause.message)
    every = dict.fromkeys((*trust.blocks, *trust.hindrances, *notes))
    warnings = [why for why in every if why.code not in _NO_DOUBT]
    return Proposal(
        KeysetAnchor(RootAnchor.of(keyset.root) if roots else keyset.id, keyset.issuer),
        keyset,
        session.release,
        tuple(f"{why.code}: {why.message}" for why in warnings),
        tuple(why for why in warnings if why.code != "statement.expired"),
        frozenset(statement.digest for statement in session.passed),
    )


def propose_published(
    origin: Origin, ask: walk.Ask, *, policy: Policy, roots: bool, now: datetime
) -> Proposal:
    """Pin the newest keyset statement that an origin publishes now, or the keys of one without any.

    Raises:
        FetchFailed: ``trust.no_keys``: it publishes nothing that could be pinned.
    """
    refresh = walk.Refresh(str(origin), ask)
    supplied, reasons = refresh.run(None)
    try:
        if refresh.misfits and not supplied.untrusted_keysets:
            unclear = f"{refresh.misfits[0].message}, and a host without statements answers 404"
            reasons = (Finding("statement.shape", unclear),)
        if supplied != walk.NO_STATEMENTS or reasons or roots:
            return propose_keyset(supplied, policy=policy, roots=roots, now=now, reasons=reasons)
        answer = ask(f"{origin}{JWKS_PATH}", MAX_JWKS_BYTES)
        reasons = (walk.no_answer(answer),) if answer.outcome == "failed" else ()
        if answer.outcome != "found":
            neither = "it publishes neither a keyset statement nor a key set"
            raise UsageFault("jwks.malformed", neither)
        proposal = propose_keys(JwkSet.from_bytes(answer.untrusted_body))
    except (StatementRefused, KeyRefused, UsageFault) as refusal:
        cause = next(iter(reasons), refusal.finding)
        hint = "Add it by keys instead: --jwks FILE or --jwks-url URL. Neither shows revocation."
        message = f"nothing that {origin} publishes could be pinned: {cause.message}"
        raise FetchFailed("trust.no_keys", message, hint=cause.fix or hint) from refusal
    pinned = f"{origin} publishes no keyset statement, so its current keys are pinned"
    return replace(proposal, seen_at=answer.url, warnings=(*proposal.warnings, pinned))


def propose_keys(jwks: JwkSet) -> Proposal:
    """Pin the keys of a set.

    Raises:
        UsageFault: ``jwks.malformed``: there is no key.
    """
    if not jwks.keys:
        raise UsageFault("jwks.malformed", "the set holds no key to pin")
    skipped = (f"the key {key.kid!r} was left out: {key.message}" for key in jwks.skipped)
    return Proposal(KeysAnchor(JwkSet.of(jwks.keys)), warnings=tuple(skipped))


def read_digest(text: str) -> str:
    """Read a digest as its issuer told it: in hex, with or without ``sha256:``, spaces and colons.

    Raises:
        UsageFault: ``usage.invalid``: it is no whole digest.
    """
    digest = re.sub(r"[\s:]+", "", text.strip().lower().removeprefix("sha256:"))
    if not DIGEST.fullmatch(digest):
        message = f"a digest has 64 hex digits; you gave {text[:80]!r}"
        raise UsageFault("usage.invalid", message, hint="Ask the issuer for the whole digest.")
    return digest


def check_told(proposal: Proposal, digest: str) -> None:
    """Compare a proposed keyset with the digest that its issuer told over another channel (E14).

    That may be the digest of an earlier keyset: it stays good, since each step from there to the
    newest must be lawful by the one before, its own roots first.

    Args:
        proposal: What would be pinned.
        digest: As :func:`read_digest` returns it.

    Raises:
        StatementRefused: ``statement.digest``, or why not all of the statements fit.
        UsageFault: ``usage.conflict``: no keyset is proposed.
    """
    keyset = proposal.keyset
    if keyset is None:
        raise UsageFault("usage.conflict", "--digest goes with a keyset statement")
    if digest not in proposal.digests:
        message = f"keyset {keyset.label} has the digest {keyset.digest}, and you gave {digest}"
        raise StatementRefused("statement.digest", message, hint=_DO_NOT_ADD)
    for doubt in proposal.doubts:
        raise StatementRefused(doubt.code, doubt.message, hint=_DO_NOT_ADD)


_DO_NOT_ADD: Final = "Do not add it. Ask the issuer over another channel which digest is right."


def add_issuers(
    policy: Policy,
    entries: Sequence[tuple[Mapping[str, Any], Proposal]],
    *,
    compare: Callable[[], None] = lambda: None,
    cache: Path | None = None,
    dry_run: bool = False,
) -> None:
    """Add issuers to a policy and its lock, all of them or none: check, compare, then write.

    The lock is written first: an entry without a policy means nothing. Where there is no policy
    yet, one is begun.

    Args:
        policy: The policy.
        entries: The members of each new ``[[issuer]]`` without its anchor, and its anchor.
        compare: Raises where a person does not agree; nothing was written before.
        cache: The folder of kept statements; None for nowhere.
        dry_run: Check and compare, and write nothing.

    Raises:
        UsageFault: ``policy.malformed``, ``usage.conflict``; what
            `compare` raises; ``lock.malformed``, ``lock.other_anchor``; ``statement.rollback``
            or ``statement.fork``: the lock has a newer or another statement of that name.
        FileFault: Something cannot be written.
    """

    def with_all(text: str) -> str:
        for members, proposal in entries:
            text = with_issuer(text, members, proposal.anchor)
        return text

    added = {members["name"]: proposal for members, proposal in entries}
    edit = partial(edit_policy, policy.file, with_all, added)
    locked = read_floors(edit(dry_run=True), [policy.lock])
    floors: dict[str, Floor] = {}
    for name, proposal in added.items():
        if (keyset := proposal.keyset) is not None:
            floors[name] = floor = Floor().with_statements(keyset, proposal.release)
            pin = locked.get(name, floor).raised_to(floor, name).keyset or keyset.id
            if pin != keyset.id:
                message = f"the lock has keyset {pin.label} of {name!r}, newer than {keyset.label}"
                hint = f"If it is another issuer now: cardsign trust forget {name}"
                raise UsageFault("statement.rollback", message, path=str(policy.lock), hint=hint)
    compare()
    if dry_run:
        return
    raise_lock(policy.lock, floors)
    edit()
    for proposal in added.values():  # so that the first verdict needs no network
        anchor, keyset = proposal.anchor, proposal.keyset
        if cache is not None and keyset is not None and isinstance(anchor, KeysetAnchor):
            add_to_cache(cache, anchor, [keyset], proposal.release)


def move_pin(
    policy: Policy, name: str, now: datetime, cache: Path | None, *, dry_run: bool = False
) -> tuple[KeysetId, bool]:
    """Move an issuer's pin forward to the keyset statement that the lock records.

    What the cache has for the old pin is kept for the new one, from there on.

    Returns:
        The statement that is pinned now, and whether the policy said otherwise before.

    Raises:
        UsageFault: ``usage.conflict``: the anchor is no single statement; ``lock.missing``.
        FileFault: Lock or policy cannot be read or written.
    """
    issuer = policy.issuer(name)
    anchor = issuer.anchor
    if not isinstance(anchor, KeysetAnchor) or isinstance(anchor.pin, RootAnchor):
        message = f"the anchor of {name!r} is no single keyset statement, so no pin can be moved"
        hint = f"Anchor it anew: cardsign trust remove {name}, then cardsign trust add URL"
        raise UsageFault("usage.conflict", message, path=str(policy.path), hint=hint)
    floors = read_floors(policy, [policy.lock])
    check_entry(policy, issuer, floors, policy.lock)
    pin = floors[name].keyset or anchor.pin
    if pin.number <= anchor.pin.number:
        return anchor.pin, False
    edit = partial(edit_policy, policy.file, lambda text: with_pin(text, name, pin), [name])
    moved = edit(dry_run=dry_run).issuer(name)
    if cache is not None and not dry_run:
        session = Session(policy, moved, floors[name], cache=cache)
        session.resolve(read_cache(cache, anchor), now)
    return pin, True


def remove_issuer(policy: Policy, name: str, *, dry_run: bool = False) -> None:
    """Remove an issuer from a policy; its entry in the lock stays.

    Raises:
        UsageFault: ``policy.unknown_issuer``, ``policy.malformed``.
        FileFault: The policy cannot be read or written.
    """
    policy.issuer(name)
    edit_policy(policy.file, lambda text: without_issuer(text, name), [name], dry_run=dry_run)


def forget_issuer(policy: Policy, name: str, *, dry_run: bool = False) -> None:
    """Remove what the lock has of an issuer, which may be in the policy no more.

    Raises:
        UsageFault: ``usage.conflict``: the policy anchors it at a keyset, so the entry is needed;
            ``policy.unknown_issuer``: the lock has no such entry.
        FileFault: Policy or lock cannot be read or written.
    """
    anchors = {issuer.name: issuer.anchor for issuer in policy.issuers}
    if isinstance(anchors.get(name), KeysetAnchor):
        message = f"{name!r} is trusted by its keyset, which needs the entry"
        hint = f"Remove the issuer first: cardsign trust remove {name}"
        raise UsageFault("usage.conflict", message, path=str(policy.lock), hint=hint)
    if name not in read_lock(policy.lock):
        message = f"the lock has no entry for {name!r}"
        raise UsageFault("policy.unknown_issuer", message, path=str(policy.lock))
    if not dry_run:
        raise_lock(policy.lock, {name: None})


# A list of agents. What is proposed is shown to a person, and adds no issuer by itself.


#: Bytes of a list of agents; one has about 100.
MAX_AGENTS_BYTES: Final = 256 * 1024


def read_agents(path: Path) -> tuple[dict[str, Any], ...]:
    """Read the agents of a TOML file's ``[[a2a.external_agents]]``, each with `name` and `url`.

    Other members are not looked at.

    Returns:
        The members of an entry of the policy for each.

    Raises:
        UsageFault: ``usage.invalid``: there are none, or one lacks a name or a URL.
            ``card.interface_url``.
        FileFault: It cannot be read.
    """
    data, entries = read_bytes(path, max_bytes=MAX_AGENTS_BYTES), []
    try:
        with of_the_user(str(path)):
            document: Any = read_toml(data)
            for agent in document["a2a"]["external_agents"]:
                name, url = agent["name"].lower(), parse_url(agent["url"])
                name = re.sub(r"[^a-z0-9._-]+", "-", name).strip("-._")[:64] or url.origin.host
                entries.append({"name": name, "origins": [str(url.origin)], "cards": [str(url)]})
    except (ValueError, LookupError, TypeError, AttributeError) as exc:
        message = "this is no list of agents, each with a name and a URL"
        hint = "Write [[a2a.external_agents]] with name = and url = for each agent."
        raise UsageFault("usage.invalid", message, path=str(path), hint=hint) from exc
    return tuple(entries)
