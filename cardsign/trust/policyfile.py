"""`trust.toml` -> :class:`~cardsign.trust.policy.Policy`; docs/reference/formats.md specifies it.

Every refusal says the line, what was expected there and what to do, for the file is written by
hand and a policy that is misread protects nobody.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NoReturn, TypeAlias, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, WithJsonSchema
from pydantic_core import ErrorDetails

from cardsign.card.document import MAX_SIGNATURES
from cardsign.card.strictjson import MAX_CARD_BYTES, MAX_INTEGER
from cardsign.errors import CardRefused, InputRefused, KeyRefused, UsageFault
from cardsign.files import read_bytes, read_toml
from cardsign.jose.algorithms import ALGORITHMS, VerifyAlg
from cardsign.jose.jwks import JwkSet
from cardsign.jose.keys import PublicKey
from cardsign.statements.keyset import MAX_HOLDERS, MAX_KEYSET_LIFETIME, KeysetId
from cardsign.statements.members import DIGEST, HOLDER, ISSUER, THUMBPRINT
from cardsign.statements.release import MAX_RELEASE_LIFETIME
from cardsign.statements.succession import RootPin
from cardsign.trust.lock import ISSUER_NAME, POLICY_FILE
from cardsign.trust.policy import (
    DEFAULT_SKEW,
    MAX_CARDS,
    MAX_SKEW,
    PRIVATE_NETWORKS,
    Accept,
    Anchor,
    CardUrl,
    JwksAnchor,
    KeysAnchor,
    KeysetAnchor,
    Limits,
    Policy,
    TofuAnchor,
    TrustedIssuer,
    closest,
    parse_network,
)
from cardsign.trust.policylines import Lines, Location
from cardsign.urls import (
    Origin,
    Place,
    is_this_machine,
    parse_origin,
    parse_place,
    parse_url,
)

# The tables of `trust.toml` as pydantic models: names, types and forms of members.


FORMAT: Final = 1
#: Networks of one issuer; each address that is asked is held against all of them.
MAX_NETWORKS: Final = 16

_DURATION: Final = re.compile(r"([1-9][0-9]{0,8})([smhd])")
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 24 * 3600}


def _whole(form: re.Pattern[str]) -> str:
    return f"^(?:{form.pattern})$"


#: What the forms above are called where a text does not have them.
FORMS: Final = {
    _whole(ISSUER_NAME): "1 to 64 of a-z, 0-9, '.', '_' and '-', a letter or digit first",
    _whole(HOLDER): "a holder's name, of a-z, 0-9, '.', '_', '@' and '-'",
    _whole(ISSUER): "1 to 256 visible ASCII characters",
    _whole(DIGEST): "a SHA-256 digest in lower-case hex",
    _whole(THUMBPRINT): "an RFC 7638 thumbprint",
}


def _seconds(value: object) -> object:
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if match is not None:
        return int(match[1]) * _UNITS[match[2]]
    if isinstance(value, str):
        raise ValueError('expected seconds, or a time such as "90s", "5m", "12h" or "7d"')
    return value


_DURATION_SCHEMA: Final = {
    "anyOf": [{"type": "integer"}, {"type": "string", "pattern": f"^{_DURATION.pattern}$"}]
}
Seconds: TypeAlias = Annotated[int, BeforeValidator(_seconds), WithJsonSchema(_DURATION_SCHEMA)]
Positive: TypeAlias = Annotated[int, Field(ge=1, le=MAX_INTEGER)]
IssuerName: TypeAlias = Annotated[str, Field(pattern=_whole(ISSUER_NAME))]
Holder: TypeAlias = Annotated[str, Field(pattern=_whole(HOLDER))]
StatementIssuer: TypeAlias = Annotated[str, Field(pattern=_whole(ISSUER))]
Digest: TypeAlias = Annotated[str, Field(pattern=_whole(DIGEST))]
Thumbprint: TypeAlias = Annotated[str, Field(pattern=_whole(THUMBPRINT))]


class MisplacedError(Exception):
    """What is wrong, and where; the module that knows the lines makes it a `UsageFault`."""

    def __init__(
        self, at: Location, message: str, hint: str = "", code: str = "policy.malformed"
    ) -> None:
        super().__init__(message)
        self.at, self.message, self.hint, self.code = at, message, hint, code


class Table(BaseModel):
    """A table of the file: no member unknown, no type guessed."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class LimitsTable(Table):
    """Ceilings of this policy. They may only be lower than the built-in ones."""

    card_bytes: int = Field(
        default=MAX_CARD_BYTES, ge=1, le=MAX_CARD_BYTES, description="Of a card."
    )
    signatures: int = Field(
        default=MAX_SIGNATURES, ge=1, le=MAX_SIGNATURES, description="Of a card."
    )
    skew: Seconds = Field(
        default=DEFAULT_SKEW,
        ge=0,
        le=MAX_SKEW,
        description="How far clocks may differ.",
    )
    keyset_age: Seconds | None = Field(
        default=None,
        ge=1,
        le=MAX_KEYSET_LIFETIME,
        description="How long after its iat a keyset is believed at most.",
    )
    release_age: Seconds | None = Field(
        default=None,
        ge=1,
        le=MAX_RELEASE_LIFETIME,
        description="How long after its iat a release is believed at most.",
    )


class KeysetPin(Table):
    """Exactly this keyset statement; what follows it lawfully is followed."""

    epoch: Positive
    version: Positive
    digest: Digest = Field(description="SHA-256 of its payload.")
    issuer: StatementIssuer | None = Field(
        default=None,
        description="What the statements must call their issuer.",
    )


class RootHolder(Table):
    """One key of a root set."""

    thumbprint: Thumbprint
    holder: Holder


class RootSet(Table):
    """A keyset statement with exactly this root set."""

    issuer: StatementIssuer = Field(description="What the statements call their issuer.")
    threshold: int = Field(ge=1, le=MAX_HOLDERS)
    keys: list[RootHolder] = Field(min_length=1)


class PinnedKey(Table):
    """One key, and who holds it."""

    public: dict[str, Any] = Field(description="A public JWK.")
    holder: Holder | None = Field(
        default=None, description="Who holds it; without a holder it counts for none of `require`."
    )


class AnchorTable(Table):
    """The one source of an issuer's keys: exactly one of these."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "maxProperties": 1})

    keyset: KeysetPin | None = None
    roots: RootSet | None = None
    keys: Annotated[list[PinnedKey], Field(min_length=1)] | None = None
    jwks: str | None = Field(
        default=None, description="The URL of a JWK Set: whoever controls it is the issuer."
    )
    tofu: Literal[True] | None = Field(
        default=None, description="Keep what the card's own origin gives at first contact."
    )


class IssuerTable(Table):
    """What you say of one issuer."""

    name: IssuerName = Field(description="Your own name for it, each once.")
    origins: list[str] = Field(
        min_length=1,
        description="Where its cards and interfaces may stand: origins, or path prefixes.",
    )
    anchor: AnchorTable
    accept: Accept = Field(
        default="full",
        description="Whose signatures count: only those over the whole card, or also those that "
        "the SDKs make, which may leave parts of it unsigned.",
    )
    algorithms: list[VerifyAlg] = Field(
        default=list(get_args(VerifyAlg)),
        min_length=1,
        description="The algorithms whose signatures count; narrows the list of those accepted.",
    )
    require: list[Holder] = Field(default=[], description="Holders who must all have signed.")
    unsigned: Literal["refuse", "unknown"] = Field(
        default="refuse", description="What an unsigned card gets: untrusted, or no verdict."
    )
    freshness: Literal["required", "waived"] = Field(
        default="required",
        description="Whether a card must be known to be current.",
    )
    cards: list[str] = Field(
        default=[],
        max_length=MAX_CARDS,
        description="Its cards, by URL: what `cardsign peers verify` looks at.",
    )
    peer: Literal["required", "optional"] = Field(
        default="required",
        description="Whether `cardsign peers verify` fails where its cards are not trusted.",
    )
    enforce: Literal["strict", "warn"] = Field(
        default="strict",
        description="warn: `discover_or_warn` gives an unverified card during adoption. Only in a "
        "policy that is named.",
    )
    networks: list[str] = Field(
        default=[],
        max_length=MAX_NETWORKS,
        description="Private networks in which its origins may be reached, such as 10.0.0.0/8. "
        "Only in a policy that is named.",
    )
    proxy: str | None = Field(
        default=None,
        description="The proxy through which its origins are reached, http://host:port. Only in a "
        "policy that is named.",
    )


class TrustFile(Table):
    """Whom a verifier believes about which cards. What is not allowed here is denied."""

    model_config = ConfigDict(title="cardsign trust.toml")

    format: int = Field(ge=FORMAT, le=FORMAT, json_schema_extra={"const": FORMAT})
    limits: LimitsTable = LimitsTable()
    issuer: list[IssuerTable] = []


# The table that stands at each place, indices left out.
_TABLES: Final[dict[tuple[str, ...], type[Table]]] = {
    (): TrustFile,
    ("limits",): LimitsTable,
    ("issuer",): IssuerTable,
    ("issuer", "anchor"): AnchorTable,
    ("issuer", "anchor", "keyset"): KeysetPin,
    ("issuer", "anchor", "roots"): RootSet,
    ("issuer", "anchor", "roots", "keys"): RootHolder,
    ("issuer", "anchor", "keys"): PinnedKey,
}
_EXPECTED: Final = {
    "string_type": "a string",
    "int_type": "a whole number",
    "list_type": "a list",
    "dict_type": "a table",
    "model_type": "a table",
    "too_short": "at least one",
    "too_long": "at most {max_length}",
    "greater_than_equal": "at least {ge}",
    "less_than_equal": "at most {le}",
    "literal_error": "{expected}",
}
_SHOWN: Final = 60  # characters of a value that is shown again


def read_tables(members: dict[str, Any]) -> TrustFile:
    """Check the members that `tomllib` gave.

    Raises:
        MisplacedError: Of those that are unknown, missing, or of the wrong type or form, one.
    """
    try:
        return TrustFile.model_validate(members)
    except ValidationError as exc:
        errors = exc.errors(include_url=False)
        # A misspelt member is also a missing one, and says more.
        errors.sort(key=lambda error: error["type"] != "extra_forbidden")
        wrong = _misplaced(errors[0])
        if len(errors) > 1:
            wrong.message += f" (and {len(errors) - 1} more)"
        raise wrong from exc


def _misplaced(error: ErrorDetails) -> MisplacedError:
    at = error["loc"]
    name = str(at[-1]) if at else "this"
    table = tuple(part for part in at[:-1] if isinstance(part, str))
    if error["type"] == "extra_forbidden":
        return _unknown(at, name, table)
    if error["type"] == "missing":
        return MisplacedError(at, f"{_named(table)} lacks {name!r}")
    context = error.get("ctx", {})
    if error["type"] == "string_pattern_mismatch":
        expected = f"expected {FORMS[context['pattern']]}"
    elif error["type"] in _EXPECTED:
        expected = f"expected {_EXPECTED[error['type']].format(**context)}"
        expected = expected.replace("True", "true")  # as TOML writes it
    else:
        expected = str(context.get("error", error["msg"]))
    names = re.findall(r"'([^']*)'", expected) if error["type"] == "literal_error" else ()
    shown = json.dumps(error["input"], default=str)
    shown = shown if len(shown) <= _SHOWN else shown[: _SHOWN - 3] + "..."
    message = f"{_member(at)} is {shown}, {expected}{closest(error['input'], names)}"
    hint = "Upgrade cardsign, if a newer one wrote the file." if at == ("format",) else ""
    return MisplacedError(at, message, hint)


def _unknown(at: Location, name: str, table: tuple[str, ...]) -> MisplacedError:
    known = _TABLES[table].model_fields if table in _TABLES else {}
    message = f"{_named(table)} has no member {name!r}{closest(name, known)}"
    elsewhere = [_named(other) for other, model in _TABLES.items() if name in model.model_fields]
    if elsewhere:  # in TOML everything below a header belongs to that header
        return MisplacedError(at, message, f"It belongs to {elsewhere[0]}: move it up there.")
    return MisplacedError(at, message, f"Members are {', '.join(known)}." if known else "")


def _named(table: tuple[str, ...]) -> str:
    if not table:
        return "the file"
    return "[[issuer]]" if table == ("issuer",) else f"[{'.'.join(table)}]"


def _member(at: Location) -> str:
    names = [str(part) for part in at if isinstance(part, str)]
    return names[-1] if names else "this"


def schema() -> dict[str, Any]:
    """The JSON Schema of the file."""
    made: dict[str, Any] = _without_null(TrustFile.model_json_schema())
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made}


def _without_null(value: Any) -> Any:
    """TOML has no null: what may be left out has one type and no default."""
    if isinstance(value, list):
        return [_without_null(one) for one in value if one != {"type": "null"}]
    if not isinstance(value, dict):
        return value
    kept = {name: _without_null(one) for name, one in value.items() if one is not None}
    alone = kept.pop("anyOf")[0] if len(kept.get("anyOf", ())) == 1 else {}
    return kept | alone


#: What only the operator's own policy may say. A policy that was merely found may be a stranger's,
#: and would open the operator's network or lower what is enforced (E6, E12, E13).
OPERATOR_MEMBERS: Final = ("enforce", "networks", "proxy")
#: Bytes. Some thousand issuers; one has about 300.
MAX_POLICY_BYTES: Final = 1024 * 1024


def read_policy(path: Path, *, is_own: bool = True) -> tuple[Policy, str]:
    """Read a policy file: the policy, and the text in which it stands.

    Args:
        path: The file.
        is_own: As for :func:`parse_policy`.

    Raises:
        UsageFault: ``policy.malformed``, ``policy.not_own``.
        FileFault: It cannot be read.
    """
    data = read_bytes(path, max_bytes=MAX_POLICY_BYTES)
    try:
        text = data.decode()
    except UnicodeDecodeError as exc:
        line = data.count(b"\n", 0, exc.start) + 1
        raise _malformed(str(path), "this is not UTF-8", line) from exc
    policy = parse_policy(text, source=str(path), is_own=is_own)
    return policy.known_as(identity_of(path)), text


def identity_of(path: Path) -> str:
    """What state is bound to: the real path of the policy file, which need not exist."""
    return os.fsencode(path.resolve()).decode("utf-8", "backslashreplace")


def parse_policy(text: str, *, source: str = POLICY_FILE, is_own: bool = True) -> Policy:
    """Read the text of a policy; its trusted issuers stand in the order of the text.

    Args:
        text: TOML 1.0.
        source: What errors call the text.
        is_own: The operator named the policy. One that was merely found in the working directory
            may be a stranger's; it may say none of :data:`OPERATOR_MEMBERS`.

    Raises:
        UsageFault: ``policy.malformed`` or ``policy.not_own``, with the line.
    """
    try:
        members = read_toml(text.encode("utf-8", "surrogatepass"))
    except ValueError as exc:
        raise _not_toml(source, text, exc) from exc
    try:
        tables = read_tables(members)
        if not is_own:
            _check_not_own(tables)
        return _policy(tables)
    except MisplacedError as wrong:
        line = Lines.of(text).line_of(wrong.at)
        raise UsageFault(
            wrong.code, wrong.message, path=source, line=line, hint=wrong.hint
        ) from wrong


def _check_not_own(file: TrustFile) -> None:
    for index, table in enumerate(file.issuer):
        for member in OPERATOR_MEMBERS:
            if member in table.model_fields_set:
                raise MisplacedError(
                    ("issuer", index, member),
                    f"`{member}` of {table.name!r} may stand only in a policy that you name, and "
                    "this one was found in the working directory",
                    f"If the policy is yours, name it: --trust {POLICY_FILE}.",
                    "policy.not_own",
                )


def _policy(file: TrustFile) -> Policy:
    issuers = tuple(_issuer(table, ("issuer", index)) for index, table in enumerate(file.issuer))
    named: dict[str, int] = {}
    placed: dict[Place, str] = {}
    for index, one in enumerate(issuers):
        if one.name in named:
            _misplace(("issuer", index, "name"), f"two issuers have the name {one.name!r}")
        named[one.name] = index
        for nth, place in enumerate(one.places or ()):
            if place in placed:
                _misplace(
                    ("issuer", index, "origins", nth),
                    f"{place} belongs to {placed[place]!r} already",
                    "Keep issuers of one origin apart by path prefixes, such as "
                    '"https://host/agents/name/".',
                )
            placed[place] = one.name
    policy = Policy(issuers, Limits(**file.limits.model_dump()))
    for index, one in enumerate(issuers):
        _check_cards(policy, one, ("issuer", index, "cards"))
    return policy


def _check_cards(policy: Policy, issuer: TrustedIssuer, at: Location) -> None:
    """Each card is this issuer's, so that looking at it says something about it."""
    for index, url in enumerate(issuer.cards):
        if url in issuer.cards[:index]:
            _misplace((*at, index), f"{url!r} stands here twice")
        with _placed((*at, index)):
            owner = policy.find(CardUrl(url))
        if owner is not issuer:
            whose = "nobody's `origins` hold it" if owner is None else f"{owner.name!r} holds it"
            _misplace((*at, index), f"{url!r} is no card of {issuer.name!r}: {whose}")


def _issuer(table: IssuerTable, at: Location) -> TrustedIssuer:
    places = []
    for index, text in enumerate(table.origins):
        with _placed((*at, "origins", index)):
            places.append(parse_place(text))
    required = set[str]()
    for index, holder in enumerate(table.require):
        if holder in required:
            _misplace((*at, "require", index), f"{holder!r} stands here twice")
        required.add(holder)
    anchor = _anchor(table, at)
    if isinstance(anchor, KeysAnchor):
        _check_holders(table, anchor, at)
    networks = []
    for index, text in enumerate(table.networks):
        try:
            networks.append(parse_network(text))
        except ValueError:
            private = ", ".join(map(str, PRIVATE_NETWORKS))
            _misplace(
                (*at, "networks", index),
                f"{text!r} is no private network",
                f"Write a part of {private}, such as 10.1.0.0/16.",
            )
    return TrustedIssuer(
        table.name,
        anchor,
        tuple(places),
        table.accept,
        table.freshness,
        tuple(table.algorithms),
        tuple(table.require),
        table.unsigned,
        cards=tuple(table.cards),
        peer=table.peer,
        enforce=table.enforce,
        networks=tuple(networks),
        proxy=_proxy(table, at),
    )


def _proxy(table: IssuerTable, at: Location) -> Origin | None:
    if table.proxy is None:
        return None
    if table.networks:
        _misplace(
            (*at, "proxy"),
            "`proxy` and `networks` exclude one another",
            "A proxy looks up the names of hosts itself, so leave `networks` out.",
        )
    try:
        return parse_origin(table.proxy)
    except CardRefused:
        _misplace((*at, "proxy"), f"{table.proxy!r} is no proxy", "Write it as http://host:port.")


def _anchor(table: IssuerTable, at: Location) -> Anchor:
    anchor, at = table.anchor, (*at, "anchor")
    named = sorted(anchor.model_fields_set)
    if len(named) != 1:
        kinds = ", ".join(AnchorTable.model_fields)
        found = " and ".join(named) if named else "none"
        _misplace(at, f"an issuer has one anchor, found {found}", f"Name exactly one of {kinds}.")
    if anchor.keyset is not None:
        pin = KeysetId(anchor.keyset.epoch, anchor.keyset.version, anchor.keyset.digest)
        return KeysetAnchor(pin, anchor.keyset.issuer)
    if anchor.roots is not None:
        return KeysetAnchor(_roots(anchor.roots, (*at, "roots")), anchor.roots.issuer)
    if anchor.keys is not None:
        return _keys(anchor.keys, table.algorithms, (*at, "keys"))
    if anchor.jwks is not None:
        with _placed((*at, "jwks")):
            check_jwks_url(anchor.jwks)
        return JwksAnchor(anchor.jwks)
    return TofuAnchor()


def check_jwks_url(url: str) -> None:
    """Refuse a URL from which keys must not be taken, since anybody on the way could change them.

    Raises:
        CardRefused: ``card.interface_url``.
    """
    origin = parse_url(url).origin
    if origin.scheme != "https" and not is_this_machine(origin.host):
        raise CardRefused(
            "card.interface_url",
            "expected a URL that begins with https://; http:// is only for this machine",
        )


def _roots(table: RootSet, at: Location) -> RootPin:
    thumbprints = [key.thumbprint for key in table.keys]
    seen = set[str]()
    for index, thumbprint in enumerate(thumbprints):
        if thumbprint in seen:
            _misplace((*at, "keys", index), f"the key {thumbprint} stands here twice")
        seen.add(thumbprint)
    holders = len({key.holder for key in table.keys})
    if table.threshold > holders:
        _misplace(
            (*at, "threshold"),
            f"{table.threshold} of {holders} holders can never sign",
            "A holder counts once, however many keys they have.",
        )
    return RootPin(table.threshold, frozenset((key.thumbprint, key.holder) for key in table.keys))


def _keys(tables: list[PinnedKey], algorithms: Iterable[str], at: Location) -> KeysAnchor:
    keys: list[PublicKey] = []
    holders = dict[str, str]()
    held = dict[str, str | None]()  # the holder that a key was first given, by thumbprint
    allowed = tuple(algorithms)
    for index, table in enumerate(tables):
        with _placed((*at, index, "public")):
            key = PublicKey.from_jwk(table.public, algorithms=tuple(ALGORITHMS))
        if key.alg not in allowed:
            _misplace(
                (*at, index, "public"),
                f"this is a key for {key.alg}, and `algorithms` is {', '.join(allowed)}",
                f'Write algorithms = ["{key.alg}"] in this [[issuer]] if its cards may be signed '
                "so, or remove the key.",
            )
        if held.setdefault(key.thumbprint, table.holder) != table.holder:
            _misplace(
                (*at, index, "public"),
                f"the key {key.thumbprint} stands here twice, with two holders",
                "One key is one holder's, under whatever kids: name one of the two.",
            )
        keys.append(key)
        if table.holder is not None:
            holders[key.kid] = table.holder
    with _placed(at):
        return KeysAnchor(JwkSet.of(keys), holders)


def _check_holders(table: IssuerTable, anchor: KeysAnchor, at: Location) -> None:
    holders = set(anchor.holders.values())
    for index, holder in enumerate(table.require):
        if holder not in holders:
            known = sorted(holders)
            _misplace(
                (*at, "require", index),
                f"no pinned key is held by {holder!r}{closest(holder, known)}",
                f"Holders are {', '.join(known)}." if known else "Give each key its `holder`.",
            )


@contextmanager
def _placed(at: Location) -> Iterator[None]:
    """Place what the readers of keys and URLs refuse."""
    try:
        yield
    except KeyRefused as exc:
        member = f"{exc.path.lstrip('/')}: " if exc.path else ""
        raise MisplacedError(at, f"{member}{exc.message} ({exc.code})", exc.hint) from exc
    except InputRefused as exc:
        raise MisplacedError(at, exc.message, exc.hint) from exc


def _misplace(at: Location, message: str, hint: str = "") -> NoReturn:
    raise MisplacedError(at, message, hint)


def _malformed(source: str, message: str, line: int | None, hint: str = "") -> UsageFault:
    return UsageFault("policy.malformed", message, path=source, line=line, hint=hint)


def _not_toml(source: str, text: str, exc: Exception) -> UsageFault:
    message = str(exc)
    place = re.search(r" \(at line ([0-9]+), column [0-9]+\)$", message)
    line = int(place[1]) if place else text.rstrip().count("\n") + 1
    shown = message[: place.start()] if place else message
    return _malformed(source, f"this is not TOML: {shown[:1].lower()}{shown[1:]}", line)
