"""`trust.toml` -> :class:`~cardsign.trust.policy.Policy`; docs/reference/formats.md specifies it.

Every refusal says the line, what was expected there and what to do, for the file is written by
hand and a policy that is misread does not protect.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, replace
from datetime import date, time
from inspect import cleandoc
from typing import Annotated, Any, Final, TypeAlias

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationError,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError

from cardsign.card.document import MAX_SIGNATURES
from cardsign.card.strictjson import MAX_INTEGER
from cardsign.errors import CardRefused, InputRefused, KeyRefused, UsageFault, closest
from cardsign.files import read_toml
from cardsign.jose.algorithms import ALGORITHMS, VerifyAlg
from cardsign.jose.jwks import JwkSet
from cardsign.jose.keys import PublicKey
from cardsign.statements.keyset import MAX_HOLDERS, KeysetId, RootAnchor
from cardsign.statements.members import DIGEST, HOLDER, ISSUER, THUMBPRINT
from cardsign.times import SPAN, read_span
from cardsign.trust.policy import (
    BOUNDS,
    ISSUER_NAME,
    MAX_CARDS,
    POLICY_FILE,
    PRIVATE_NETWORKS,
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
    Subject,
    TrustedIssuer,
    parse_network,
)
from cardsign.trust.policytext import FORMAT, Lines, Location
from cardsign.urls import (
    Origin,
    Place,
    is_this_machine,
    parse_origin,
    parse_place,
    parse_url,
)

# The tables of `trust.toml` as pydantic models: names, types and forms of members.


#: Entries of a file; a sound one has at least 70 bytes, so 1 MiB holds no more.
MAX_ISSUERS: Final = 16 * 1024
#: Origins or keys of one entry. An issuer needs ten; more would only make a wrong file dear.
MAX_LISTED: Final = 1024
#: Networks of one issuer; each address that is asked is held against all of them.
MAX_NETWORKS: Final = 16


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
    if not isinstance(value, str):
        return value
    if (seconds := read_span(value)) is None:
        raise ValueError('expected seconds, or a time such as "90s", "5m", "12h" or "7d"')
    return seconds


def _by(read: Callable[[Any], object], kind: type = str) -> PlainValidator:
    """The value is what `read` makes of the member; what it refuses is told in its own words."""

    def made(value: object) -> object:
        if not isinstance(value, kind):
            raise PydanticCustomError("string_type" if kind is str else "dict_type", "")
        try:
            return read(value)
        except InputRefused as refusal:
            said, hint = _said(refusal)
            raise PydanticCustomError("refused", "", {"said": said, "hint": hint}) from refusal

    return PlainValidator(made)


def _said(refusal: InputRefused) -> tuple[str, str]:
    """What the reader of a key or a URL says, and what to do."""
    member = f"{refusal.path.lstrip('/')}: " if refusal.path else ""
    code = f" ({refusal.code})" if isinstance(refusal, KeyRefused) else ""
    return f"{member}{refusal.message}{code}", refusal.finding.fix


_DURATION_SCHEMA: Final = {
    "anyOf": [{"type": "integer"}, {"type": "string", "pattern": f"^{SPAN.pattern}$"}]
}
Seconds: TypeAlias = Annotated[int, BeforeValidator(_seconds), WithJsonSchema(_DURATION_SCHEMA)]
Positive: TypeAlias = Annotated[int, Field(ge=1, le=MAX_INTEGER)]
IssuerName: TypeAlias = Annotated[str, Field(pattern=_whole(ISSUER_NAME))]
Holder: TypeAlias = Annotated[str, Field(pattern=_whole(HOLDER))]
StatementIssuer: TypeAlias = Annotated[str, Field(pattern=_whole(ISSUER))]
Digest: TypeAlias = Annotated[str, Field(pattern=_whole(DIGEST))]
Thumbprint: TypeAlias = Annotated[str, Field(pattern=_whole(THUMBPRINT))]


def _network(text: str) -> Network:
    try:
        return parse_network(text)
    except ValueError as exc:
        private = ", ".join(map(str, PRIVATE_NETWORKS))
        raise CardRefused(
            "policy.malformed",
            f"{text!r} is no private network",
            hint=f"Write a part of {private}, such as 10.1.0.0/16.",
        ) from exc


def _proxy(text: str) -> Origin:
    """Read where a proxy is; TLS goes through it to the peer, and none to the proxy itself."""
    try:
        if (origin := parse_origin(text)).scheme == "http":
            return origin
    except CardRefused:
        pass
    hint = "Write it as http://host:port."
    raise CardRefused("policy.malformed", f"{text!r} is no proxy", hint=hint)


def check_jwks_url(url: str) -> str:
    """Refuse a URL from which keys must not be taken, since they could be changed on the way.

    Raises:
        CardRefused: ``card.interface_url``.
    """
    origin = parse_url(url).origin
    if origin.scheme != "https" and not is_this_machine(origin.host):
        raise CardRefused(
            "card.interface_url",
            "expected a URL that begins with https://; http:// is only for this machine",
        )
    return url


_TEXT: Final = WithJsonSchema({"type": "string"})
PlaceText: TypeAlias = Annotated[Place, _by(parse_place), _TEXT]
NetworkText: TypeAlias = Annotated[Network, _by(_network), _TEXT]
ProxyText: TypeAlias = Annotated[Origin, _by(_proxy), _TEXT]
JwksUrl: TypeAlias = Annotated[str, _by(check_jwks_url), _TEXT]
PublicJwk: TypeAlias = Annotated[
    PublicKey,
    _by(lambda jwk: PublicKey.from_jwk(jwk, algorithms=tuple(ALGORITHMS)), dict),
    WithJsonSchema({"additionalProperties": True, "type": "object"}),
]


#: What only the operator's own policy may say. A policy that was only found may come from
#: elsewhere, and would open the operator's network (E6, E13).
OPERATOR_MEMBERS: Final = ("networks", "proxy")


class Table(BaseModel):
    """A table of the file: no member unknown, no type guessed."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


def _as_in(record: Any, name: str, **bounds: Any) -> Any:
    """A member that a record of the policy has too: its default, and what its docstring says."""
    default = record.__dataclass_fields__[name].default
    found = re.search(rf"(?ms)^    {name}: (.*?)(?=^    \w|^$|\Z)", cleandoc(record.__doc__ or ""))
    said = " ".join(found[1].replace("``", "`").split()) if found else ""
    if name in OPERATOR_MEMBERS:
        said += " Only in a policy that is named."
    return Field(default=... if default is MISSING else default, description=said, **bounds)


def _limit(name: str) -> Any:
    least, most = BOUNDS[name]
    return _as_in(Limits, name, ge=least, le=most)


class LimitsTable(Table):
    """Ceilings of this policy. They may only be lower than the built-in ones."""

    card_bytes: int = _limit("card_bytes")
    signatures: int = _limit("signatures")
    skew: Seconds = _limit("skew")
    keyset_age: Seconds | None = _limit("keyset_age")
    release_age: Seconds | None = _limit("release_age")


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
    keys: list[RootHolder] = Field(min_length=1, max_length=MAX_LISTED)


class PinnedKey(Table):
    """One key, and who holds it."""

    public: PublicJwk = Field(description="A public JWK.")
    holder: Holder | None = Field(
        default=None, description="Who holds it; without a holder it counts for none of `require`."
    )


class AnchorTable(Table):
    """The one source of an issuer's keys: exactly one of these."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "maxProperties": 1})

    keyset: KeysetPin | None = None
    roots: RootSet | None = None
    keys: Annotated[list[PinnedKey], Field(min_length=1, max_length=MAX_LISTED)] | None = None
    jwks: JwksUrl | None = Field(
        default=None, description="The URL of a JWK Set: who controls it is the issuer."
    )


class IssuerTable(Table):
    """What you say of one issuer."""

    name: IssuerName = _as_in(TrustedIssuer, "name")
    origins: list[PlaceText] = Field(
        min_length=1,
        max_length=MAX_LISTED,
        description="Where its cards and interfaces may stand: origins, or path prefixes.",
    )
    anchor: AnchorTable
    accept: Accept = _as_in(TrustedIssuer, "accept")
    algorithms: list[VerifyAlg] = _as_in(
        TrustedIssuer, "algorithms", min_length=1, max_length=len(ALGORITHMS)
    )
    require: list[Holder] = _as_in(TrustedIssuer, "require", max_length=MAX_SIGNATURES)
    freshness: Freshness = _as_in(TrustedIssuer, "freshness")
    cards: list[str] = _as_in(TrustedIssuer, "cards", max_length=MAX_CARDS)
    peer: Peer = _as_in(TrustedIssuer, "peer")
    networks: list[NetworkText] = _as_in(TrustedIssuer, "networks", max_length=MAX_NETWORKS)
    proxy: ProxyText | None = _as_in(TrustedIssuer, "proxy")


class TrustFile(Table):
    """Which issuers a verifier trusts, and by which keys. What is not allowed here is denied."""

    model_config = ConfigDict(title="cardsign trust.toml")

    format: int = Field(ge=FORMAT, le=FORMAT, json_schema_extra={"const": FORMAT})
    limits: LimitsTable = LimitsTable()
    issuer: list[IssuerTable] = Field(default=[], max_length=MAX_ISSUERS)


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


def _words_of(error: Mapping[str, Any]) -> tuple[str, str]:
    """What is wrong, in words for people, and what to do."""
    kind, at, context = error["type"], error["loc"], error.get("ctx", {})
    table = tuple(part for part in at[:-1] if isinstance(part, str))
    if kind == "extra_forbidden":
        return _unknown(str(at[-1]), table)
    if kind == "missing":
        return f"{_named(table)} lacks {at[-1]!r}", ""
    if kind == "refused":
        return context["said"], context["hint"]
    names = list[str]()
    if kind == "string_pattern_mismatch":
        expected = f"expected {FORMS[context['pattern']]}"
    elif kind in _EXPECTED:
        expected = f"expected {_EXPECTED[kind].format(**context)}"
        expected = expected.replace("True", "true")  # as TOML writes it
        names = re.findall(r"'([^']*)'", expected) if kind == "literal_error" else []
    else:
        expected = str(context.get("error", error["msg"]))
    value = error["input"]
    if isinstance(value, date | time):
        shown = str(value)
    else:
        value = value[:_SHOWN] if isinstance(value, list | str) else value
        shown = json.dumps(value, default=str)
    shown = shown if len(shown) <= _SHOWN else shown[: _SHOWN - 3] + "..."
    member = next((part for part in reversed(at) if isinstance(part, str)), "this")
    hint = "Upgrade cardsign, if a newer one wrote the file." if at == ("format",) else ""
    return f"{member} is {shown}, {expected}{closest(error['input'], names)}", hint


#: Members that went, and what to do instead.
_INSTEAD: Final = {
    "enforce": "Remove it. Until a partner signs, log what cardsign.examine_card says.",
    "unsigned": "Remove it: an unsigned card is untrusted, and its first reason is sig.none.",
    "tofu": "Add the issuer by what it publishes now: cardsign trust add URL",
}


def _unknown(name: str, table: tuple[str, ...]) -> tuple[str, str]:
    members = _TABLES[table].model_fields if table in _TABLES else {}
    if name in _INSTEAD:
        return f"{name!r} is no member of {_named(table)}", _INSTEAD[name]
    message = f"{name!r} is no member of {_named(table)}{closest(name, members)}"
    elsewhere = [_named(other) for other, model in _TABLES.items() if name in model.model_fields]
    if elsewhere:  # in TOML everything below a header belongs to that header
        return message, f"It belongs to {elsewhere[0]}: move it up there."
    return message, f"Members are {', '.join(members)}." if members else ""


def _named(table: tuple[str, ...]) -> str:
    if not table:
        return "the file"
    return "[[issuer]]" if table == ("issuer",) else f"[{'.'.join(table)}]"


#: Problems of one file that are told.
MAX_TOLD: Final = 20


def parse_policy(text: str, *, source: str = POLICY_FILE, is_own: bool = True) -> Policy:
    """Read the text of a policy; its trusted issuers stand in the order of the text.

    Args:
        source: What errors call the text.
        is_own: The operator named the policy. One that was merely found in the working directory
            may come from elsewhere; it may say none of :data:`OPERATOR_MEMBERS`.

    Raises:
        UsageFault: ``policy.malformed`` or ``config.not_allowed``, with the line; what else is
            wrong is in its ``more``.
    """
    try:
        members = read_toml(text.encode("utf-8", "surrogatepass"))
    except ValueError as exc:
        problem = str(exc)
        place = re.search(r" \(at line ([0-9]+), column [0-9]+\)$", problem)
        line = int(place[1]) if place else text.rstrip().count("\n") + 1
        problem = problem[: place.start()] if place else problem
        message = f"this is not TOML: {problem[:1].lower()}{problem[1:]}"
        raise UsageFault("policy.malformed", message, path=source, line=line) from exc
    reading = _Reading(is_own)
    policy = reading.policy(members)
    if reading.problems:
        raise reading.fault(text, source)
    return policy


class _Reading:
    """A file being read. What is wrong with it is gathered, so that all of it is told at once."""

    def __init__(self, is_own: bool) -> None:
        self.forbidden = () if is_own else OPERATOR_MEMBERS
        #: As pydantic has them; few of many are ever put into words.
        self.problems: list[Any] = []

    def policy(self, members: dict[str, Any]) -> Policy:
        """The policy; where there are problems, of what is sound in it."""
        limits, tables = self._tables(members)
        issuers = {at: self._issuer(table, ("issuer", at)) for at, table in tables.items()}
        self._check_alone(issuers)
        policy = Policy(tuple(issuers.values()), limits)
        for index, issuer in issuers.items():
            self._check_cards(policy, issuer, ("issuer", index, "cards"))
        return policy

    def _wrong(
        self, at: Location, message: str, hint: str = "", code: str = "policy.malformed"
    ) -> None:
        said = {"said": message, "hint": hint, "code": code}
        self.problems.append({"type": "refused", "loc": at, "ctx": said})

    def _tables(self, members: dict[str, Any]) -> tuple[Limits, dict[int, IssuerTable]]:
        """The limits, and the sound tables of issuers by index."""
        try:
            file = TrustFile.model_validate(members)
            return Limits(**file.limits.model_dump()), dict(enumerate(file.issuer))
        except ValidationError as exc:
            errors: list[Any] = exc.errors(include_url=False)
        unknown = {error["loc"][:-1] for error in errors if error["type"] == "extra_forbidden"}
        # A member that is missing is probably there, misspelt, if its table has an unknown one.
        self.problems += [
            error
            for error in errors
            if error["type"] != "missing" or error["loc"][:-1] not in unknown
        ]
        places = {error["loc"][:2] for error in self.problems}
        listed = members.get("issuer")
        if ("issuer",) in places or not isinstance(listed, list):
            return Limits(), {}
        return Limits(), {
            index: IssuerTable.model_validate(error)
            for index, error in enumerate(listed)
            if ("issuer", index) not in places
        }

    def _check_alone(self, issuers: Mapping[int, TrustedIssuer]) -> None:
        """No two issuers have one name or one place."""
        named = set[str]()
        placed: dict[Place, str] = {}
        for index, issuer in issuers.items():
            at = ("issuer", index)
            if issuer.name in named:
                self._wrong((*at, "name"), f"two issuers have the name {issuer.name!r}")
            named.add(issuer.name)
            for nth, place in enumerate(issuer.places or ()):
                if (owner := placed.setdefault(place, issuer.name)) != issuer.name:
                    self._wrong(
                        (*at, "origins", nth),
                        f"{place} belongs to {owner!r} already",
                        "Keep issuers of one origin apart by path prefixes, such as "
                        '"https://host/agents/name/".',
                    )

    def _check_cards(self, policy: Policy, issuer: TrustedIssuer, at: Location) -> None:
        """Each card is this issuer's, so that looking at it says something about it."""
        self._check_once(issuer.cards, at)
        for index, url in enumerate(issuer.cards):
            try:
                owner = policy.find(Subject(url=url))
            except CardRefused as refusal:
                self._wrong((*at, index), *_said(refusal))
                continue
            if owner is not issuer:
                where = f"{owner.name!r} holds it" if owner else "no issuer's `origins` hold it"
                self._wrong((*at, index), f"{url!r} is no card of {issuer.name!r}: {where}")

    def _check_once(self, listed: Iterable[str], at: Location) -> None:
        seen = set[str]()
        for index, text in enumerate(listed):
            if text in seen:
                self._wrong((*at, index), f"{text!r} stands here twice")
            seen.add(text)

    def _issuer(self, table: IssuerTable, at: Location) -> TrustedIssuer:
        for member in self.forbidden:
            if member in table.model_fields_set:
                message = f"`{member}` of {table.name!r} may stand only in a policy that you name, "
                message += "and this one was found in the working directory"
                hint = f"If the policy is yours, name it: --trust {POLICY_FILE}."
                self._wrong((*at, member), message, hint, "config.not_allowed")
        anchor = self._anchor(table, at)
        self._check_once(table.require, (*at, "require"))
        if isinstance(anchor, KeysAnchor):
            holders = sorted(set(anchor.holders.values()))
            hint = f"Holders are {', '.join(holders)}." if holders else "Give each key a `holder`."
            for index, holder in enumerate(table.require):
                if holder not in holders:
                    self._wrong(
                        (*at, "require", index),
                        f"no pinned key is held by {holder!r}{closest(holder, holders)}",
                        hint,
                    )
        if table.proxy is not None and table.networks:
            self._wrong(
                (*at, "proxy"),
                "`proxy` and `networks` exclude one another",
                "A proxy looks up the names of hosts itself, so leave `networks` out.",
            )
        members: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in vars(table).items()
            if name not in ("anchor", "origins")
        }
        return TrustedIssuer(anchor=anchor, places=tuple(table.origins), **members)

    def _anchor(self, table: IssuerTable, at: Location) -> Anchor:
        anchor, at = table.anchor, (*at, "anchor")
        named = sorted(anchor.model_fields_set)
        if len(named) != 1:
            kinds = ", ".join(AnchorTable.model_fields)
            kinds_named = " and ".join(named) if named else "none"
            hint = f"Name exactly one of {kinds}."
            self._wrong(at, f"an issuer has one anchor, found {kinds_named}", hint)
        elif anchor.keyset is not None:
            pin = KeysetId(anchor.keyset.epoch, anchor.keyset.version, anchor.keyset.digest)
            return KeysetAnchor(pin, anchor.keyset.issuer)
        elif anchor.roots is not None:
            pinned = self._roots(anchor.roots, (*at, "roots"))
            return KeysetAnchor(pinned, anchor.roots.issuer)
        elif anchor.keys is not None:
            return self._keys(anchor.keys, table.algorithms, (*at, "keys"))
        return JwksAnchor(anchor.jwks or "")

    def _roots(self, table: RootSet, at: Location) -> RootAnchor:
        self._check_once((key.thumbprint for key in table.keys), (*at, "keys"))
        holders = len({key.holder for key in table.keys})
        if table.threshold > holders:
            self._wrong(
                (*at, "threshold"),
                f"{table.threshold} of {holders} holders can never sign",
                "A holder counts once, however many keys they have.",
            )
        pairs = frozenset((key.thumbprint, key.holder) for key in table.keys)
        return RootAnchor(table.threshold, pairs)

    def _keys(self, tables: list[PinnedKey], allowed: list[VerifyAlg], at: Location) -> KeysAnchor:
        holders = dict[str, str]()
        first_holder = dict[
            str, str | None
        ]()  # the holder that a key was first given, by thumbprint
        problems_before = len(self.problems)
        for index, table in enumerate(tables):
            key = table.public
            if key.alg not in allowed:
                self._wrong(
                    (*at, index, "public"),
                    f"this is a key for {key.alg}, and `algorithms` is {', '.join(allowed)}",
                    f'Write algorithms = ["{key.alg}"] in this [[issuer]] if its cards may be '
                    "signed so, or remove the key.",
                )
            if first_holder.setdefault(key.thumbprint, table.holder) != table.holder:
                self._wrong(
                    (*at, index, "public"),
                    f"the key {key.thumbprint} stands here twice, with two holders",
                    "One key is one holder's, under whatever kids: name one of the two.",
                )
            if table.holder is not None:
                holders[key.kid] = table.holder
        try:
            keys = JwkSet.of(table.public for table in tables)
        except KeyRefused as refusal:
            self._wrong(at, *_said(refusal))
            return KeysAnchor(JwkSet.of([]))
        return KeysAnchor(keys, holders if len(self.problems) == problems_before else {})

    def fault(self, text: str, source: str) -> UsageFault:
        """All problems as one fault, in the order of their lines."""
        lines = Lines.of(text)
        placed = sorted(
            (lines.line_of(problem_at["loc"]), nth) for nth, problem_at in enumerate(self.problems)
        )
        faults = []
        for line, nth in placed[:MAX_TOLD]:
            problem = self.problems[nth]
            message, hint = _words_of(problem)
            code = problem.get("ctx", {}).get("code", "policy.malformed")
            faults.append(UsageFault(code, message, path=source, line=line, hint=hint))
        if len(placed) > len(faults):
            more = f"{faults[-1].message} (and {len(placed) - len(faults)} more)"
            faults[-1].finding = replace(faults[-1].finding, message=more)
        faults[0].more = tuple(faults[1:])
        return faults[0]
