"""`trust.toml` as pydantic tables; docs/reference/formats.md specifies it.

Every refusal names the line and the member, for the file is written by hand and a policy that is
misread does not protect.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, replace
from inspect import cleandoc
from typing import Annotated, Any, Final, Self, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

from cardsign.card.document import MAX_SIGNATURES
from cardsign.card.strictjson import MAX_INTEGER
from cardsign.errors import CardRefused, CardsignError, KeyRefused, UsageFault, closest
from cardsign.jose.algorithms import ALGORITHMS, VerifyAlg
from cardsign.jose.jwks import JwkSet
from cardsign.jose.keys import PublicKey
from cardsign.statements.envelope import DIGEST, HOLDER, ISSUER, THUMBPRINT
from cardsign.statements.keyset import MAX_HOLDERS, KeysetId, RootAnchor
from cardsign.times import SPAN, read_span
from cardsign.tomltext import Location, explain_error, find_lines, line_of, read_toml
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
    check_jwks_url,
    parse_network,
)
from cardsign.trust.policytext import FORMAT
from cardsign.urls import Origin, parse_origin, parse_place, without_userinfo

#: Entries of a file; a sound one has at least 70 bytes, so 1 MiB holds no more.
MAX_ISSUERS: Final = 16 * 1024
#: Origins or keys of one entry. An issuer needs ten; more would only make a wrong file dear.
MAX_LISTED: Final = 1024
#: Networks of one issuer; each address that is asked is held against all of them.
MAX_NETWORKS: Final = 16
#: Problems of one file that are told.
MAX_TOLD: Final = 20
#: What only the operator's own policy may say. A policy that was only found may come from
#: elsewhere, and would open the operator's network (E6, E13).
OPERATOR_MEMBERS: Final = ("networks", "proxy")


class Table(BaseModel):
    """A table of the file: no member unknown, no type guessed."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


def _refused(message: str, hint: str = "", *at: str | int) -> PydanticCustomError:
    """The error about a member, or about what stands at a place within it."""
    return PydanticCustomError("refused", "{text}", {"text": message, "hint": hint, "at": at})


def _by(read: Callable[[Any], object]) -> AfterValidator:
    """The value is what `read` makes of the member; what it refuses is told in its own words."""

    def convert(value: object) -> object:
        try:
            return read(value)
        except CardsignError as refusal:
            member = f"{refusal.path.lstrip('/')}: " if refusal.path else ""
            code = f" ({refusal.code})" if isinstance(refusal, KeyRefused) else ""
            raise _refused(f"{member}{refusal.message}{code}", refusal.finding.fix) from refusal

    return AfterValidator(convert)


def _seconds(value: object) -> object:
    if not isinstance(value, str):
        return value
    if (seconds := read_span(value)) is None:
        raise _refused('expected seconds, or a time such as "90s", "5m", "12h" or "7d"')
    return seconds


def _network(text: str) -> Network:
    try:
        return parse_network(text)
    except ValueError as exc:
        private = ", ".join(map(str, PRIVATE_NETWORKS))
        hint = f"Write a part of {private}, such as 10.1.0.0/16."
        raise _refused(f"{text!r} is no private network", hint) from exc


def _proxy(text: str) -> Origin:
    """Read where a proxy is; TLS goes through it to the peer, and none to the proxy itself."""
    message, hint = f"{without_userinfo(text)!r} is no proxy", "Write it as http://host:port."
    try:
        origin = parse_origin(text if "://" in text else f"http://{text}")
    except CardRefused as refusal:
        raise _refused(message, hint) from refusal
    if "://" not in text or origin.scheme != "http":
        raise _refused(message, f"Write http://{origin.host}:{origin.port}")
    return origin


def _matching(form: re.Pattern[str]) -> Any:
    return Field(pattern=f"^(?:{form.pattern})$")


#: What the members of each form look like, in words.
_FORMS: Final = {
    f"^(?:{form.pattern})$": words
    for form, words in (
        (DIGEST, "64 hex digits, 0-9 and a-f"),
        (HOLDER, "1 to 64 of a-z, 0-9, '.', '_', '@' and '-', a letter or digit first"),
        (ISSUER, "1 to 256 visible ASCII characters"),
        (ISSUER_NAME, "1 to 64 of a-z, 0-9, '.', '_' and '-', a letter or digit first"),
        (THUMBPRINT, "43 characters of base64url"),
    )
}


_DURATION: Final = {
    "anyOf": [{"type": "integer"}, {"type": "string", "pattern": f"^{SPAN.pattern}$"}]
}
Seconds: TypeAlias = Annotated[int, BeforeValidator(_seconds), WithJsonSchema(_DURATION)]
Positive: TypeAlias = Annotated[int, Field(ge=1, le=MAX_INTEGER)]
Holder: TypeAlias = Annotated[str, _matching(HOLDER)]
StatementIssuer: TypeAlias = Annotated[str, _matching(ISSUER)]


def _read_key(jwk: dict[str, Any]) -> PublicKey:
    return PublicKey.from_jwk(jwk, algorithms=tuple(ALGORITHMS))


def _as_in(record: Any, name: str, **bounds: Any) -> Any:
    """A member that a record of the policy has too: its default, and what its docstring says."""
    default = record.__dataclass_fields__[name].default
    match = re.search(rf"(?ms)^    {name}: (.*?)(?=^    \w|^$|\Z)", cleandoc(record.__doc__ or ""))
    explanation = " ".join(match[1].replace("``", "`").split()) if match else ""
    if name in OPERATOR_MEMBERS:
        explanation += " Only in a policy that is named."
    return Field(default=... if default is MISSING else default, description=explanation, **bounds)


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
    digest: Annotated[str, _matching(DIGEST)] = Field(description="SHA-256 of its payload.")
    issuer: StatementIssuer | None = Field(
        default=None,
        description="What the statements must call their issuer.",
    )


class RootHolder(Table):
    """One key of a root set."""

    thumbprint: Annotated[str, _matching(THUMBPRINT)]
    holder: Holder


class RootSet(Table):
    """A keyset statement with exactly this root set."""

    issuer: StatementIssuer = Field(description="What the statements call their issuer.")
    threshold: int = Field(ge=1, le=MAX_HOLDERS)
    keys: list[RootHolder] = Field(min_length=1, max_length=MAX_LISTED)

    @model_validator(mode="after")
    def _can_sign(self) -> Self:
        _check_once("keys", [key.thumbprint for key in self.keys])
        holders = len({key.holder for key in self.keys})
        if self.threshold > holders:
            message = f"{self.threshold} of {holders} holders can never sign"
            hint = "A holder counts once, however many keys they have."
            raise _refused(message, hint, "threshold")
        return self


class PinnedKey(Table):
    """One key, and who holds it."""

    public: Annotated[dict[str, Any], _by(_read_key)] = Field(description="A public JWK.")
    holder: Holder | None = Field(
        default=None, description="Who holds it; without a holder it counts for none of `require`."
    )


class AnchorTable(Table):
    """The one source of an issuer's keys: exactly one of these."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "maxProperties": 1})

    keyset: KeysetPin | None = None
    roots: RootSet | None = None
    keys: Annotated[list[PinnedKey], Field(min_length=1, max_length=MAX_LISTED)] | None = None
    jwks: Annotated[str, _by(check_jwks_url)] | None = Field(
        default=None, description="The URL of a JWK Set: who controls it is the issuer."
    )


def _anchor(table: AnchorTable) -> Anchor:
    named = sorted(table.model_fields_set)
    if len(named) != 1:
        message = f"an issuer has one anchor, found {' and '.join(named) or 'none'}"
        raise _refused(message, f"Name exactly one of {', '.join(AnchorTable.model_fields)}.")
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
    """What you say of one issuer."""

    name: Annotated[str, _matching(ISSUER_NAME)] = _as_in(TrustedIssuer, "name")
    origins: list[Annotated[str, _by(parse_place)]] = Field(
        min_length=1,
        max_length=MAX_LISTED,
        description="Where its cards and interfaces may stand: origins, or path prefixes.",
    )
    anchor: Annotated[AnchorTable, _by(_anchor)]
    accept: Accept = _as_in(TrustedIssuer, "accept")
    algorithms: list[VerifyAlg] = _as_in(
        TrustedIssuer, "algorithms", min_length=1, max_length=len(ALGORITHMS)
    )
    require: list[Holder] = _as_in(TrustedIssuer, "require", max_length=MAX_SIGNATURES)
    freshness: Freshness = _as_in(TrustedIssuer, "freshness")
    cards: list[str] = _as_in(TrustedIssuer, "cards", max_length=MAX_CARDS)
    peer: Peer = _as_in(TrustedIssuer, "peer")
    networks: list[Annotated[str, _by(_network)]] = _as_in(
        TrustedIssuer, "networks", max_length=MAX_NETWORKS
    )
    proxy: Annotated[str, _by(_proxy)] | None = _as_in(TrustedIssuer, "proxy")

    @model_validator(mode="after")
    def _is_sound(self) -> Self:
        _check_once("require", self.require)
        _check_once("cards", self.cards)
        anchor: Any = self.anchor
        if isinstance(anchor, KeysAnchor):
            self._check_keys(anchor)
        if self.proxy is not None and self.networks:
            hint = "A proxy looks up the names of hosts itself, so leave `networks` out."
            raise _refused("`proxy` and `networks` exclude one another", hint, "proxy")
        return self

    def _check_keys(self, anchor: KeysAnchor) -> None:
        for key in anchor.keys.keys:
            if key.alg not in self.algorithms:
                allowed = ", ".join(self.algorithms)
                message = f"the key {key.kid!r} is for {key.alg}, and `algorithms` is {allowed}"
                hint = f'Write algorithms = ["{key.alg}"] in this [[issuer]] if its cards may be '
                raise _refused(message, f"{hint}signed so, or remove the key.", "anchor", "keys")
        holders = sorted(set(anchor.holders.values()))
        hint = f"Holders are {', '.join(holders)}." if holders else "Give each key a `holder`."
        for holder in self.require:
            if holder not in holders:
                message = f"no pinned key is held by {holder!r}{closest(holder, holders)}"
                raise _refused(message, hint, "require")

    def issuer(self) -> TrustedIssuer:
        """Return what a policy says of an issuer; the members were read when they were checked."""
        members: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in vars(self).items()
        }
        return TrustedIssuer(places=members.pop("origins"), **members)


def _check_once(member: str, listed: list[str]) -> None:
    seen = set[str]()
    for index, text in enumerate(listed):
        if text in seen:
            raise _refused(f"{text!r} is listed twice", "", member, index)
        seen.add(text)


class TrustFile(Table):
    """Which issuers a verifier trusts, and by which keys. What is not allowed here is denied."""

    model_config = ConfigDict(title="cardsign trust.toml")

    format: int = Field(ge=FORMAT, le=FORMAT, json_schema_extra={"const": FORMAT})
    limits: LimitsTable = LimitsTable()
    issuer: list[IssuerTable] = Field(default=[], max_length=MAX_ISSUERS)


Problem: TypeAlias = tuple[Location, str, str, str]
"""Where something is wrong, the code, what it is, and what to do."""


def parse_policy(text: str, *, source: str = POLICY_FILE, is_own: bool = True) -> Policy:
    """Read the text of a policy; its trusted issuers stand in the order of the text.

    Args:
        text: The text.
        source: What errors call it.
        is_own: The operator named the policy. One that was merely found in the working directory
            may come from elsewhere; it may say none of :data:`OPERATOR_MEMBERS`.

    Raises:
        UsageFault: ``policy.malformed`` or ``config.not_allowed``, with the line; what else is
            wrong is in its ``more``.
    """
    try:
        members = read_toml(text.encode("utf-8", "surrogatepass"))
    except ValueError as exc:
        place = re.search(r" \(at line ([0-9]+), column [0-9]+\)$", str(exc))
        line = int(place[1]) if place else text.rstrip().count("\n") + 1
        why = str(exc)[: place.start() if place else None]
        message = f"this is not TOML: {why[:1].lower()}{why[1:]}"
        if single := re.search(r"(?m)^[ \t]*\[[ \t]*issuer[ \t]*\]", text):
            message, line = _TWO_BRACKETS, text.count("\n", 0, single.start()) + 1
        raise UsageFault("policy.malformed", message, path=source, line=line) from exc
    try:
        file = TrustFile.model_validate(members)
    except ValidationError as refused:
        errors = refused.errors(include_url=False)
        problems = [_with_name(_explain(error), members) for error in errors[:MAX_TOLD]]
        raise _fault(problems, len(errors), text, source) from refused
    issuers = tuple(table.issuer() for table in file.issuer)
    policy = Policy(issuers, Limits(**vars(file.limits)))
    problems = [*_check_named(file, is_own), *_check_apart(policy), *_check_cards(policy)]
    if problems:
        raise _fault(problems[:MAX_TOLD], len(problems), text, source)
    return policy


_TWO_BRACKETS: Final = "each issuer begins with [[issuer]], in two brackets"


def _with_name(problem: Problem, members: Mapping[str, Any]) -> Problem:
    """Return the problem with the issuer's own name in place of its number, where it has one."""
    at, code, message, hint = problem
    match at:
        case ("issuer", int(index), *_):
            table: Any = members["issuer"][index]
            name = table.get("name") if isinstance(table, dict) else None
            if isinstance(name, str) and ISSUER_NAME.fullmatch(name):
                message = message.replace(f"issuer.{index}", f"issuer.{name}", 1)
    return at, code, message, hint


def _explain(error: Any) -> Problem:
    at, context = error["loc"], error.get("ctx", {})
    if error["type"] == "refused":
        at = (*at, *context["at"])
        message = f"{'.'.join(map(str, at))}: {context['text']}"
        return at, "policy.malformed", message, context["hint"]
    if error["type"] == "string_pattern_mismatch":
        error = {**error, "msg": _describe_form(context["pattern"], error["input"])}
    message, hint = explain_error(error, TrustFile), ""
    if error["type"] == "extra_forbidden" and "anchor" in at and at[-1] in IssuerTable.model_fields:
        hint = "It belongs to [[issuer]]: move it above [issuer.anchor]."
    if at == ("issuer",) and isinstance(error["input"], dict):
        message = f"{_TWO_BRACKETS}, and this is [issuer]"
        hint = "Write [[issuer]]. [issuer.anchor] below it keeps one."
    if at == ("issuers",):
        message += f" {_TWO_BRACKETS.capitalize()}"
    if at == ("format",):
        hint = f"Write this as the first line: format = {FORMAT}"
        if error["type"] == "less_than_equal":
            hint = "Upgrade cardsign, if a newer one wrote the file."
    return at, "policy.malformed", message, hint


def _describe_form(pattern: str, text: str) -> str:
    """Return what is wrong with a text that has not the form of its member."""
    form = _FORMS[pattern]
    if form.startswith("64 hex digits") and not text.strip("0123456789abcdef"):
        return f"expected 64 hex digits, and there are {len(text)}"
    return f"expected {form}"


def _check_named(file: TrustFile, is_own: bool) -> Iterator[Problem]:
    """What only a policy that is named may say."""
    for index, table in enumerate(file.issuer if not is_own else ()):
        for member in sorted(table.model_fields_set.intersection(OPERATOR_MEMBERS)):
            message = f"`{member}` of {table.name!r} may stand only in a policy that you name, "
            message += "and this one was found in the working directory"
            hint = f"If the policy is yours, name it: --trust {POLICY_FILE}."
            yield ("issuer", index, member), "config.not_allowed", message, hint


def _check_apart(policy: Policy) -> Iterator[Problem]:
    """No two issuers have one name or one place."""
    owners: dict[object, str] = {}
    for index, issuer in enumerate(policy.issuers):
        if issuer.name in owners:
            message = f"two issuers have the name {issuer.name!r}"
            yield ("issuer", index, "name"), "policy.malformed", message, ""
        owners[issuer.name] = issuer.name
        for nth, place in enumerate(issuer.places or ()):
            if (owner := owners.setdefault(place, issuer.name)) != issuer.name:
                message = f"{place} belongs to {owner!r} already"
                hint = "Keep issuers of one origin apart by path prefixes, such as "
                hint += '"https://host/agents/name/".'
                yield ("issuer", index, "origins", nth), "policy.malformed", message, hint


def _check_cards(policy: Policy) -> Iterator[Problem]:
    """Each card is its issuer's own, so that looking at it says something about it."""
    for index, issuer in enumerate(policy.issuers):
        for nth, url in enumerate(issuer.cards):
            try:
                owner = policy.find(Subject(url=url))
                why = f"{owner.name!r} holds it" if owner else "no issuer's `origins` hold it"
            except CardRefused as refusal:
                owner, why = None, refusal.message
            if owner is not issuer:
                message = f"{url!r} is no card of {issuer.name!r}: {why}"
                yield ("issuer", index, "cards", nth), "policy.malformed", message, ""


def _fault(problems: Iterable[Problem], count: int, text: str, source: str) -> UsageFault:
    """Return problems as one fault, in the order of their lines."""
    lines = find_lines(text)
    faults = [
        UsageFault(code, message, path=source, line=line_of(lines, at), hint=hint)
        for at, code, message, hint in problems
    ]
    faults.sort(key=lambda fault: fault.finding.place.line or 0)
    if count > len(faults):
        more = f"{faults[-1].message} (and {count - len(faults)} more)"
        faults[-1].finding = replace(faults[-1].finding, message=more)
    faults[0].more = tuple(faults[1:])
    return faults[0]
