"""The security schemes of a card: what its agent wants from a caller, of either A2A version.

1.0 wraps a scheme in a member that is named after its type; 0.3 is flat and names the type
(A2A 1.0 4.5, 0.3 5.5). What stands here is what a card says; nothing of it is verified.

Agents name their *providers* (``oidc``, ``gcp_iap``), older cards have an `authentication` of
words (``bearer``). Both become the schemes of A2A 1.0 by one table. An unknown type is never
taken for "open": :func:`authentication_schemes` refuses it, and `build` says that it is not
advertised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

from cardsign.card.document import spelled_name
from cardsign.card.schema import ANY_CARD, respelled, type_problems
from cardsign.card.values import MAX_TOKEN, Json, finding_at, kind_of, members_of, objects_in
from cardsign.errors import CardRefused
from cardsign.findings import Finding, cut

SchemeName = Literal["apiKey", "http", "oauth2", "openIdConnect", "mutualTLS"]
#: How a credential travels: as a bearer token, as Basic, as a key by itself in a header.
Carrier = Literal["bearer", "basic", "header"]


#: The member that holds a scheme of 1.0, by the `type` of one of 0.3.
WRAPPERS: Final[Mapping[SchemeName, str]] = {
    "apiKey": "apiKeySecurityScheme",
    "http": "httpAuthSecurityScheme",
    "oauth2": "oauth2SecurityScheme",
    "openIdConnect": "openIdConnectSecurityScheme",
    "mutualTLS": "mtlsSecurityScheme",
}
#: Of an API key, the member of 1.0 and that of 0.3; all others have one name in both.
LOCATION: Final = ("location", "in")
#: The members of a card or skill that list requirements, in 1.0 and in 0.3.
REQUIREMENT_LISTS: Final = ("securityRequirements", "security")
_REQUIREMENT: Final = ANY_CARD.messages["securityRequirements"]
_SCHEME: Final = ANY_CARD.messages["securitySchemes"]
#: Names of a skill's members that say nothing of security.
_OTHER_NAMES: Final = ANY_CARD.messages["skills"].fields.keys() - {*REQUIREMENT_LISTS}
_HTTP: Final[dict[str, Carrier]] = {"bearer": "bearer", "basic": "basic"}


@dataclass(frozen=True, slots=True)
class Scheme:
    """One declared scheme, whichever A2A version it is written in.

    Attributes:
        name: Under which the requirements of the card know it.
        type: None where it cannot be read.
        members: As 0.3 names them, without `type`.
        problem: Why it cannot be read; None where it can.
    """

    name: str
    type: SchemeName | None
    members: Mapping[str, Json] = field(hash=False)
    problem: str | None = None

    @property
    def carrier(self) -> Carrier | None:
        """How its credential goes in a header; None where none does, or none that is known."""
        if self.type in ("oauth2", "openIdConnect"):
            return "bearer"
        if self.type == "http":
            return _HTTP.get(str(self.members.get("scheme")).lower())
        return "header" if self.header is not None else None

    @property
    def header(self) -> str | None:
        """The header that holds a key by itself; None where the scheme is of another kind."""
        name = self.members.get("name")
        if self.type != "apiKey" or self.members.get("in") != "header":
            return None
        return name if isinstance(name, str) else None

    def gives(self, other: Scheme) -> bool:
        """Return whether a caller with a credential of this scheme satisfies the other one."""
        if self.type in ("apiKey", "mutualTLS"):
            return self.type == other.type and self._key_place == other._key_place
        if self.type == other.type == "openIdConnect":
            return self.members.get("openIdConnectUrl") == other.members.get("openIdConnectUrl")
        return self.carrier is not None and self.carrier == other.carrier

    @property
    def _key_place(self) -> tuple[Json, str]:
        """Where a key goes; a header's name has no case."""
        where, name = self.members.get("in"), str(self.members.get("name"))
        return where, name.lower() if where == "header" else name


@dataclass(frozen=True, slots=True)
class Requirement:
    """One alternative among the requirements of a card or skill.

    Attributes:
        tokens: The reference tokens (RFC 6901) of its place.
        value: As it was received.
        schemes: The names of the schemes that it takes together, each with its scopes.
        problem: Why it cannot be read; None where it can. What cannot be read lets nobody in.
    """

    tokens: tuple[str, ...]
    value: Json = field(hash=False)
    schemes: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    problem: str | None = None

    @property
    def is_open(self) -> bool:
        """Whether it asks for nothing, so that everybody is let in."""
        return not self.schemes and self.problem is None


def schemes_of(document: Mapping[str, Json], *, flat_first: bool = False) -> dict[str, Scheme]:
    """Return the schemes that a card declares, by name; those that cannot be read have no type.

    Args:
        document: The card. Nothing about it is checked.
        flat_first: Of a scheme in the forms of both A2A versions, read that of 0.3.
    """
    declared = members_of(document.get(spelled_name(document, "securitySchemes")))
    return {name: _read_scheme(name, scheme, flat_first) for name, scheme in declared.items()}


def _read_scheme(name: str, declared: Json, flat_first: bool) -> Scheme:
    scheme = members_of(respelled(declared, _SCHEME))
    flat, problem = type_of_flat(scheme), _find_problem(declared, scheme)
    scheme_type, members = unwrapped(scheme) or (None, {})
    if scheme_type is None or (flat_first and flat is not None):
        names = {"type", *WRAPPERS.values()}
        scheme_type, members = flat, {n: v for n, v in scheme.items() if n not in names}
    return Scheme(name, None if problem else scheme_type, members, problem)


def _find_problem(declared: Json, scheme: Mapping[str, Json]) -> str | None:
    """Return why a scheme cannot be read in one way, or None where it can."""
    if not isinstance(declared, dict):
        return f"expected a security scheme, an object, found {kind_of(declared)}"
    stated = [name for name, wrapper in WRAPPERS.items() if scheme.get(wrapper) is not None]
    types = {*stated, *(() if scheme.get("type") is None else (str(scheme["type"]),))}
    if len(types) > 1:
        return f"it is of several types: {' and '.join(map(_shown, sorted(types)))}"
    if types.isdisjoint(WRAPPERS):
        return f"its type is none of {', '.join(WRAPPERS)}"
    if members_of(scheme.get(WRAPPERS["apiKey"])).keys() >= {*LOCATION}:
        return f"`{LOCATION[0]}` is there twice, by its names in A2A 1.0 and 0.3"
    for problem in type_problems(scheme, _SCHEME):
        return f"{problem.message} at {problem.path}"
    return None


#: The end of what is said of a requirement whose scheme is missing.
UNDECLARED: Final = "which `securitySchemes` does not declare"


def requirements_of(
    owner: Mapping[str, Json], declared: Mapping[str, Scheme], tokens: tuple[str, ...] = ()
) -> Iterator[Requirement]:
    """Yield the alternatives that a card or skill lists for its callers; none if it asks nothing.

    In every form and spelling that some client reads: `securityRequirements` of 1.0, then
    `security` of 0.3.

    Args:
        owner: The card, or one of its skills.
        declared: The schemes of the card.
        tokens: Where the owner stands in the card.
    """
    for member in REQUIREMENT_LISTS:
        spelled = spelled_name(owner, member)
        listed, place = owner.get(spelled), (*tokens, spelled)
        if isinstance(listed, list):
            for index, element in enumerate(listed):
                yield _read_requirement(element, member, declared, (*place, str(index)))
        elif listed is not None:
            problem = f"expected a list of requirements, found {kind_of(listed)}"
            yield Requirement(place, listed, problem=problem)


def _read_requirement(
    value: Json, member: str, declared: Mapping[str, Scheme] | None, place: tuple[str, ...]
) -> Requirement:
    """Read one alternative; without `declared`, whatever schemes it names."""
    unread = partial(Requirement, place, value, {})
    if not isinstance(value, dict):
        return unread(f"expected a requirement, an object, found {kind_of(value)}")
    is_wrapped = is_wrapped_requirement(value, member)
    named = respelled(value, _REQUIREMENT).get("schemes", value) if is_wrapped else value
    if is_wrapped and (not isinstance(named, dict) or (named is value and value)):
        return unread("expected an object with `schemes`, an object")
    # Of 0.3 some readers take `schemes` for the name of a scheme.
    if not named and len(value) > (1 if member == "securityRequirements" else 0):
        return unread("it names no scheme, and has other members")
    schemes = {}
    for name, asked in named.items():
        scopes = _read_scopes(asked, is_wrapped)
        if scopes is None:
            return unread(f"expected a list of the scopes of {_shown(name)}, each a string")
        schemes[name] = scopes
    for name in schemes:
        if declared is not None and name not in declared:
            problem = f"a requirement names {_shown(name)}, {UNDECLARED}"
            return Requirement(place, value, schemes, problem)
    return Requirement(place, value, schemes)


def _read_scopes(asked: Json, is_wrapped: bool) -> tuple[str, ...] | None:
    """Return the scopes of one scheme; None where they cannot be read."""
    if is_wrapped and isinstance(asked, dict):
        asked = asked.get("list", None if asked else [])
    if isinstance(asked, list) and all(isinstance(scope, str) for scope in asked):
        return tuple(map(str, asked))
    return None


def is_wrapped_requirement(value: Mapping[str, Json], member: str) -> bool:
    """Return whether a requirement is in the form of 1.0, which the proto of 0.3 has as well."""
    in_old = len(value) == 1 and isinstance(value.get("schemes"), dict)
    return member == "securityRequirements" or in_old


def security_problems(
    document: Mapping[str, Json], received: Mapping[str, Json] | None = None
) -> Iterator[Finding]:
    """Yield each place where it cannot be read who may call an agent, and how (``card.security``).

    Its schemes, its own requirements and those of its skills are looked at.

    Args:
        document: The card, or a payload made of one.
        received: The card of which a lossy payload was made, which declares schemes that the
            payload may have dropped.
    """
    schemes = schemes_of(document)
    declared = schemes if received is None or received is document else schemes_of(received)
    spelled = spelled_name(document, "securitySchemes")
    if not isinstance(listed := document.get(spelled), dict | None):
        expected = f"expected an object of security schemes, found {kind_of(listed)}"
        yield finding_at("card.security", (spelled,), expected)
    for name, scheme in schemes.items():
        if scheme.problem is not None:
            yield finding_at("card.security", (spelled, name), scheme.problem)
    owners: list[tuple[tuple[str, ...], Mapping[str, Json]]] = [((), document)]
    spelled = spelled_name(document, "skills")
    for index, skill in objects_in(document.get(spelled)):
        if not _OTHER_NAMES.issuperset(skill):  # as most are
            owners.append(((spelled, str(index)), skill))
    for tokens, owner in owners:
        for requirement in requirements_of(owner, declared, tokens):
            if requirement.problem is not None:
                yield finding_at("card.security", requirement.tokens, requirement.problem)


def not_advertised(kind: str) -> str:
    """Return what is said of a way to authenticate that no security scheme of the card names."""
    return f"callers may be asked for {kind[:40]!r}, and no security scheme says so"


def check_security(
    document: Mapping[str, Json], received: Mapping[str, Json] | None = None
) -> None:
    """Refuse a card whose security requirements or schemes cannot be read.

    The arguments are those of :func:`security_problems`.

    Raises:
        CardRefused: ``card.security``.
    """
    for problem in security_problems(document, received):
        raise CardRefused("card.security", problem.message, path=problem.path)


def flat_requirements(owner: Mapping[str, Json]) -> list[Json] | None:
    """Return the `securityRequirements` of a card or skill as the `security` of 0.3.

    None where it has none, or one that cannot be read.
    """
    if not isinstance(listed := owner.get("securityRequirements"), list):
        return None
    read = [_read_requirement(entry, "securityRequirements", None, ()) for entry in listed]
    if any(requirement.problem is not None for requirement in read):
        return None
    return [
        {name: [*scopes] for name, scopes in requirement.schemes.items()} for requirement in read
    ]


def type_of_flat(scheme: Mapping[str, Json]) -> SchemeName | None:
    """Return the type that a scheme of 0.3 names; None where it names none that is known."""
    return next((name for name in WRAPPERS if name == scheme.get("type")), None)


def unwrapped(scheme: Mapping[str, Any]) -> tuple[SchemeName, dict[str, Any]] | None:
    """Return the type of a scheme of 1.0, and its members as 0.3 names them.

    None for another form. No value of a member is looked at.
    """
    for name, wrapper in WRAPPERS.items():
        if isinstance(members := scheme.get(wrapper), dict):
            return name, renamed(name, members, *LOCATION)
    return None


def renamed(name: SchemeName, members: Mapping[str, Any], old: str, new: str) -> dict[str, Any]:
    """Return the members of a scheme, of an API key with the other name of its location."""
    if name != "apiKey":
        return {**members}
    return {new if member == old else member: value for member, value in members.items()}


def _shown(name: Json) -> str:
    return repr(cut(str(name), MAX_TOKEN))


# Schemes made of providers, and of the words of an `authentication`.

Settings: TypeAlias = Mapping[str, Json]
_Scheme: TypeAlias = dict[str, Json]


#: The schemes by name, as A2A 1.0 writes them (4.5.1), and the alternatives of which a caller has
#: to satisfy any (4.5); an empty one lets everybody in.
DerivedSecurity: TypeAlias = tuple[dict[str, Json], list[Json]]


def _http(scheme: str, **more: Json) -> Callable[[Settings], _Scheme]:
    return lambda _: {"httpAuthSecurityScheme": {"scheme": scheme, **more}}


def _oidc(settings: Settings) -> _Scheme:
    issuer = _setting(settings, "issuer").rstrip("/")
    url = f"{issuer}/.well-known/openid-configuration"  # OpenID Connect Discovery 1.0, 4
    return {"openIdConnectSecurityScheme": {"openIdConnectUrl": url}}


def azure_issuer(settings: Settings) -> str:
    """Return the issuer of a tenant's tokens, as they name it."""
    return f"https://login.microsoftonline.com/{_setting(settings, 'tenant_id', 'tenant')}/v2.0"


def _api_key(settings: Settings) -> _Scheme:
    location = _setting(settings, "in", "location")
    if location not in ("header", "query", "cookie"):
        raise CardRefused("card.auth_setting", "`in` of an API key is header, query or cookie")
    return {"apiKeySecurityScheme": {"location": location, "name": _setting(settings, "name")}}


def _oauth2(settings: Settings) -> _Scheme:
    flows = settings.get("flows")
    # Without flows nobody can say where to get a token. How it travels is known (RFC 6750).
    if not isinstance(flows, dict) or not flows:
        return {"httpAuthSecurityScheme": {"scheme": "bearer"}}
    return {"oauth2SecurityScheme": {"flows": flows}}


def _openid(settings: Settings) -> _Scheme:
    url = _setting(settings, "openIdConnectUrl", "openid_connect_url")
    return {"openIdConnectSecurityScheme": {"openIdConnectUrl": url}}


ProviderType: TypeAlias = Literal[
    "static_token",
    "http_verifier",
    "oidc",
    "azure_ad",
    "gcp_iap",
    "aws_sigv4",
    "api_key",
    "basic",
    "mtls",
]
#: What a provider of each type wants from a caller. Build advertises it, lint looks for it, and
#: the server takes it.
PROVIDERS: Final[Mapping[str, Callable[[Settings], _Scheme]]] = {
    "static_token": _http("bearer"),
    "http_verifier": _http("bearer"),
    "oidc": _oidc,
    "azure_ad": lambda settings: _oidc({"issuer": azure_issuer(settings)}),
    "gcp_iap": lambda _: _api_key({"in": "header", "name": "X-Goog-Iap-Jwt-Assertion"}),
    "aws_sigv4": _http("bearer", bearerFormat="forge-aws-v1"),
    "api_key": _api_key,
    "basic": _http("basic"),
    "mtls": lambda _: {"mtlsSecurityScheme": {}},
}

#: What the words of an `authentication` member mean: A2A 0.2 and what real cards hold.
AUTHENTICATION: Final[Mapping[str, Callable[[Settings], _Scheme]]] = {
    **{word: PROVIDERS[word] for word in ("api_key", "basic", "mtls", "oidc")},
    "bearer": _http("bearer"),
    "jwt": _http("bearer", bearerFormat="JWT"),
    "http": lambda settings: _http(_setting(settings, "scheme"))(settings),
    "apikey": _api_key,
    "oauth2": _oauth2,
    "openidconnect": _openid,
    "mutualtls": PROVIDERS["mtls"],
    # Google's agents take their callers' tokens as bearers; which ones they are is its matter.
    "gcp_agent_identity": _http("bearer", bearerFormat="gcp-agent-identity"),
}
_OPEN: Final = frozenset({"none", "public"})
#: Ways to authenticate that one card may name; a caller chooses among them.
MAX_ALTERNATIVES: Final = 64


def free_name(name: str, taken: set[str]) -> str:
    """Return the name itself where it is free, else with a number; it is taken from now on."""
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}-{number}"
    taken.add(free)
    return free


def check_alternatives(count: int, path: str = "") -> None:
    """Refuse more ways to authenticate than a card may name.

    Raises:
        CardRefused: ``json.too_many_values``.
    """
    if count > MAX_ALTERNATIVES:
        text = f"more than {MAX_ALTERNATIVES} ways to authenticate"
        hint = "Let one requirement name several schemes, or leave some alternatives out."
        raise CardRefused("json.too_many_values", text, path=path, hint=hint)


def derive_security(
    derived: Sequence[tuple[str, _Scheme]],
    *,
    required: bool = True,
    by_hand: Mapping[str, Json] = MappingProxyType({}),
) -> DerivedSecurity:
    """Return schemes under free names, of which a caller has to satisfy any one.

    Args:
        derived: What each is to be called, and the scheme. A name that is taken gets a number.
        required: False lets in callers without a credential: the empty alternative comes last.
        by_hand: Schemes that stand already. They stay as they are, and a derived one that says
            the same under the same name is theirs.

    Raises:
        CardRefused: ``json.too_many_values``: there are more than :data:`MAX_ALTERNATIVES`.
    """
    check_alternatives(len(derived))
    names, schemes = set(by_hand), dict(by_hand)
    requirements: list[Json] = []
    for proposed, scheme in derived:
        name = proposed if by_hand.get(proposed) == scheme else free_name(proposed, names)
        schemes.setdefault(name, scheme)
        requirements.append({"schemes": {name: {}}})
    if requirements and not required:
        requirements.append({"schemes": {}})
    return schemes, requirements


def authentication_schemes(authentication: Json) -> DerivedSecurity:
    """Return the schemes of an `authentication` member, in every form that real cards have.

    Those are a list of words or objects, an object with `schemes`, and an object with `type`.
    ``none`` and ``{"required": false}`` without anything else say that the agent is open.

    Raises:
        CardRefused: ``card.auth_type``: a type is unknown, or the form is; or a credential is
            required and none is named. ``card.auth_setting``. ``json.too_many_values``.
    """
    schemes: list[tuple[str, _Scheme]] = []
    for entry in _entries(authentication):
        settings = members_of(entry)
        word = entry if isinstance(entry, str) else settings.get("type", settings.get("scheme"))
        if not isinstance(word, str):
            raise CardRefused("card.auth_type", "an entry of `authentication` has no `type`")
        if word.lower() in _OPEN:
            continue
        make = AUTHENTICATION.get(word.lower().replace("-", ""))
        if make is None:
            raise CardRefused("card.auth_type", f"no authentication is known as {word!r}")
        ((wrapper, inner),) = make(settings).items()
        if isinstance(inner, dict) and isinstance(text := settings.get("description"), str):
            inner = {"description": text, **inner}
        schemes.append((word, {wrapper: inner}))
    required = members_of(authentication).get("required")
    if not schemes and required not in (None, False):  # what asks for a credential is not open
        text = "`authentication` is required, and names no way to authenticate"
        raise CardRefused("card.auth_type", text)
    return derive_security(schemes, required=required is not False)


def _entries(authentication: Json) -> list[Json]:
    members = members_of(authentication)
    if isinstance(authentication, list):
        return authentication
    if isinstance(listed := members.get("schemes"), list):
        return listed
    if "type" in members:
        return [authentication]
    if authentication in (None, {"required": False}):
        return []
    text = "`authentication` names neither `schemes` nor a `type`, so nobody can say what a caller "
    raise CardRefused("card.auth_type", text + "has to send")


def _setting(settings: Settings, *names: str) -> str:
    for name in names:
        value = settings.get(name)
        if isinstance(value, str) and value:
            return value
    raise CardRefused("card.auth_setting", f"it needs `{names[0]}`, a non-empty text")
